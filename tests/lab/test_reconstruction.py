"""Reconstruction: reference fractions are reached, and private answers resist."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import hush
from hush.errors import InvalidArgument
from hush.lab.reconstruction import (
    Reconstruction,
    difference_attack,
    linear_answers,
    reconstruct_by_least_squares,
    reconstruct_by_linear_program,
    subset_queries,
)
from hush.mechanisms import Laplace
from hush.randomness import TestSource

NUM_RECORDS = 128


def fractions(c: float, factor: int, seeds: int) -> tuple[float, float]:
    """Mean recovered fractions, by linear program and least squares, with Laplace noise of deviation c sqrt(n)."""
    results = []
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        secret = generator.random(NUM_RECORDS) < 0.5
        queries = subset_queries(NUM_RECORDS, factor * NUM_RECORDS, generator)
        noise = generator.laplace(scale=c * math.sqrt(NUM_RECORDS / 2), size=len(queries)) if c else 0.0
        answers = queries @ secret + noise
        attacks = reconstruct_by_linear_program, reconstruct_by_least_squares
        results.append([attack(queries, answers).fraction_correct(secret) for attack in attacks])
    program, squares = np.mean(results, axis=0)
    return float(program), float(squares)


# One draw each in the reference: ours are 1, 0.982 and 0.864 over 24 seeds, with standard deviations of 0, 0.007 and
# 0.019 for a mean of three. So tolerances are the difference and six of these at least.
@pytest.mark.parametrize(("c", "expected", "tolerance"), [(0.0, 1.0, 0.0), (0.25, 0.966, 0.06), (0.5, 0.836, 0.15)])
def test_reference_fractions(c: float, expected: float, tolerance: float) -> None:
    assert fractions(c, 4, 3)[0] == pytest.approx(expected, abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("c", "factor", "expected", "tolerance"),
    [
        (1.0, 4, 0.742, 0.19),
        (2.0, 4, 0.589, 0.16),
        (0.25, 8, 1.0, 0.015),
        (0.5, 8, 0.961, 0.09),
        (1.0, 8, 0.784, 0.12),
        (2.0, 8, 0.667, 0.12),
    ],
)
def test_more_reference_fractions(c: float, factor: int, expected: float, tolerance: float) -> None:
    # Over 20 seeds, means of five deviate by up to 0.023, 0.002, 0.011 and 0.016 in the order of the cases; tolerances
    # are the difference and six of these. Least squares is 0.005 to 0.07 weaker, with deviations of up to 0.024.
    program, squares = fractions(c, factor, 5)
    assert program == pytest.approx(expected, abs=tolerance)
    assert program - 0.22 < squares <= program + 0.11, "least squares is weaker, by a few points"


def test_wrong_answers_are_tolerated_by_the_linear_program() -> None:
    # One answer in twenty is arbitrarily wrong: absolute errors tolerate that, squared errors do not.
    generator = np.random.default_rng(3)
    secret = generator.random(64) < 0.5
    queries = subset_queries(64, 512, generator)
    answers = queries @ secret
    answers[:26] = 1e4
    assert reconstruct_by_linear_program(queries, answers).fraction_correct(secret) == 1.0
    assert reconstruct_by_least_squares(queries, answers).fraction_correct(secret) < 0.9  # chance: 0.5, +- 0.06


def test_private_answers_resist() -> None:
    # All answers together cost epsilon 1: no attack can guess more than 73 % of fair bits.
    generator = np.random.default_rng(4)
    secret = generator.random(NUM_RECORDS) < 0.5
    queries = subset_queries(NUM_RECORDS, 2 * NUM_RECORDS, generator)
    mechanism = Laplace(epsilon=1 / len(queries), sensitivity=1.0)
    source = TestSource("resist")
    answers = linear_answers(queries, lambda group: mechanism.release(float(secret[group].sum()), source).value)
    limit = 1 / (1 + math.exp(-1))
    recovered = reconstruct_by_linear_program(queries, answers).fraction_correct(secret)
    # 0.52 over 20 seeds, with a standard deviation of 0.054.
    assert recovered < limit + 3 * math.sqrt(0.25 / NUM_RECORDS)


def test_differences_recover_every_record() -> None:
    secret = np.random.default_rng(5).random(60) < 0.5

    def service(group: Any) -> float:
        assert group.sum() >= 59, "no query covers few records"
        return float(secret[group].sum())

    assert difference_attack(service, 60).fraction_correct(secret) == 1.0


def test_repetition_averages_noise_away() -> None:
    secret = np.random.default_rng(6).random(400) < 0.5
    noise = np.random.default_rng(7)

    def service(group: Any) -> float:
        return float(secret[group].sum() + noise.laplace(scale=1.0))

    # Whatever the noise of the first answer, the others' leaves 0.70 of the bits at most: 0.85 is 6.6 standard
    # deviations above. Means of 800 differ by 0.07, and are wrong by 0.5 with 1e-11 for each person.
    assert difference_attack(service, 400).fraction_correct(secret) < 0.85
    often = difference_attack(service, 400, targets=range(20), num_repeats=800)
    assert often.fraction_correct(secret[:20]) == 1.0


def test_differences_against_tables(tmp_path: Path) -> None:
    # Two queries to hush.table for each person, at epsilon 0.5 each, and the same two to the engine itself.
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("sqlglot")
    secret, path = np.random.default_rng(8).random(60) < 0.5, str(tmp_path / "people.parquet")
    rows = f"SELECT UNNEST(range(60)) AS who, UNNEST({secret.astype(int).tolist()}) AS ill"
    duckdb.sql(f"COPY ({rows}) TO '{path}'")
    table, source = hush.table(path, unit="who"), TestSource("table")

    def question(group: Any) -> str:
        conditions = ["ill = 1", *(f"who <> {who}" for who in np.flatnonzero(~group))]
        return f"SELECT COUNT(*) AS n FROM people WHERE {' AND '.join(conditions)}"

    def exact(group: Any) -> float:
        return float(duckdb.sql(question(group).replace("FROM people", f"FROM '{path}'")).fetchall()[0][0])

    def private(group: Any) -> float:
        answer = table.sql(question(group), epsilon=0.5, source=source)
        assert answer.guarantee.epsilon <= 0.5
        return float(answer.rows[0][0])

    def recovered(ask: Any, people: int) -> int:
        hits = (difference_attack(ask, 60, targets=[i]).fraction_correct(secret[[i]]) for i in range(people))
        return round(sum(hits))

    assert recovered(exact, 20) == 20
    # Both queries together are private at epsilon 1: fair bits are guessed with probability e / (1 + e) at most. False
    # alarms: 1e-7.
    assert recovered(private, 60) <= binom.isf(1e-7, 60, 1 / (1 + math.exp(-1.0))) < 60


def test_the_example_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(__file__).parents[2] / "examples" / "reconstruction.py"
    if not script.exists():
        pytest.skip("examples are not part of this distribution")
    monkeypatch.setattr("sys.argv", [str(script), "--people", "40"])
    runpy.run_path(str(script), run_name="__main__")
    assert "Two sums that differ in one person: 100%" in capsys.readouterr().out


def test_invalid_arguments_are_refused() -> None:
    for queries, answers in (
        ([[0, 2]], [1.0]),
        ([[0, 1]], [math.nan]),
        ([[0, 1]], [1.0, 2.0]),
        ([0, 1], [1.0]),
        ([[]], [1.0]),
    ):
        for attack in (reconstruct_by_linear_program, reconstruct_by_least_squares):
            with pytest.raises(InvalidArgument):
                attack(queries, answers)
    result = Reconstruction(estimates=np.array([0.2, 0.7]), method="by hand")
    assert result.bits.tolist() == [False, True]
    with pytest.raises(InvalidArgument, match="^secret="):
        result.fraction_correct([True])
    with pytest.raises(InvalidArgument, match="^num_repeats="):
        difference_attack(lambda group: 0.0, 3, num_repeats=0)
