"""Attacks that once worked."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.errors import BudgetExceeded, InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import (
    AboveThreshold,
    DiscreteLaplace,
    ExponentialMechanism,
    IteratedTopK,
    Laplace,
    Mean,
    MeanOfResults,
    MostCommonResult,
    NoisyLocalSensitivity,
    Quantile,
    ReportNoisyMaxWithGap,
    SmoothLaplace,
    Staircase,
    SubsampleAggregate,
    VectorMeanL2,
    sensitivity,
)
from hush.randomness import SystemSource, TestSource


def test_an_interrupted_refill_leaves_no_zeros() -> None:
    """A timeout within a draw left a buffer of zeros, which the next draws took for random."""

    class Interrupted(SystemSource):
        calls = 0

        def _stream(self, count: int) -> Any:
            self.calls += 1
            if self.calls == 1:
                raise TimeoutError
            return super()._stream(count)

    source = Interrupted()
    with pytest.raises(TimeoutError):
        source.words(6)
    assert np.count_nonzero(source.words(6)) == 6


@pytest.mark.parametrize("kind", [int, np.int64])
def test_large_integers_are_not_rounded_apart(kind: Any) -> None:
    """As floats 2^60 + 128 and 2^60 + 129 are 256 apart, and the noise was for 1."""
    mechanism = Laplace(epsilon=1.0, sensitivity=1.0)
    values = [mechanism.release(kind(2**60 + extra), TestSource(1)).value for extra in (128, 129)]
    assert abs(values[0] - values[1]) <= 1
    scores = [[2**60 + 128, 2**60 + 129], [2**60 + 129, 2**60 + 128]]
    choices = [ExponentialMechanism(epsilon=0.1).release(one, TestSource(2)).value for one in scores]
    assert choices[0] == choices[1]


def test_staircases_round_once() -> None:
    """At small epsilon the noise had more than 53 bits, was rounded, and its last bits told the value."""
    mechanism = Staircase(epsilon=1e-4, sensitivity=1.0)
    assert 50 * mechanism._period / mechanism.epsilon < 2.0**53


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 11.0, 16.0, 60.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.01, 0.1])
def test_smooth_laplace_holds_for_every_epsilon(epsilon: float, delta: float) -> None:
    """The exact hockey-stick divergence of scales S and S e^beta, S apart: the lemma's beta failed from 11 on."""
    mechanism = SmoothLaplace(epsilon=epsilon, delta=delta, bounds=(0, 1))
    growth = float(np.exp(mechanism.beta))
    scale = 2 / epsilon
    # The value moves by the smaller of the two smooth bounds at most.
    x = np.linspace(-60 * growth * scale, 60 * growth * scale, 2_000_001)

    def density(centre: float, width: float) -> Any:
        return np.exp(-np.abs(x - centre) / width) / (2 * width)

    for first, second in (((0.0, growth * scale), (1.0, scale)), ((0.0, scale), (1.0, growth * scale))):
        excess = np.maximum(density(*first) - np.exp(epsilon) * density(*second), 0.0)
        assert float(excess.sum() * (x[1] - x[0])) <= delta * 1.001
    if epsilon <= 1:
        assert mechanism.beta == pytest.approx(epsilon / (2 * np.log(2 / delta))), "the lemma's own"


def test_threads_get_no_more_answers_than_one() -> None:
    session = AboveThreshold(epsilon=100.0, count=3).start(0.0)
    positive: list[bool] = []

    def ask() -> None:
        for _ in range(200):
            try:
                positive.append(session.ask(1e6))
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(positive) == 3
    assert session.remaining == 0


def test_a_record_that_is_zeroed_out_may_leave_the_bounds() -> None:
    assert sensitivity(Mean(bounds=(10, 20), num_records=100), Relation.ZERO_OUT).l1 == pytest.approx(0.2)
    assert sensitivity(Quantile(bounds=(10, 20)), Relation.ZERO_OUT).l1 == 20


def test_bounds_cannot_be_changed_afterwards() -> None:
    bounds: Any = [0.0, 1.0]
    values = ["a"]
    mean = SubsampleAggregate(function=max, num_blocks=1, aggregator=MeanOfResults(epsilon=1.0, bounds=bounds))
    common = MostCommonResult(epsilon=1.0, values=values)
    bounds[1] = 1e6
    values.append("b")
    assert mean.release([1e6]).value < 1000
    assert common.values == ("a",)


def test_a_capped_bound_caps_the_value() -> None:
    mechanism = NoisyLocalSensitivity(epsilon=1.0, delta=1e-6, bound_sensitivity=1.0)
    values = [abs(mechanism.release(1e200, 1e200).value[0]) for _ in range(20)]
    assert max(values) < 1e153


@pytest.mark.parametrize("scores", [[1e20] + [0.0] * 5000, [5.0] + [-np.inf] * 5000, [1e20, 1e20] + [0.0] * 5000])
def test_far_winners_cost_no_exact_arithmetic(scores: list[float]) -> None:
    """The rest fell within the error of the winner's deficit, and was sorted with exact arithmetic: for minutes."""
    for mechanism in (
        IteratedTopK(epsilon=1.0, k=2),
        IteratedTopK(epsilon=1.0, k=40),
        ReportNoisyMaxWithGap(epsilon=1.0),
    ):
        mechanism.release(scores)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0, 100.0])
def test_staircases_end_for_large_epsilon(epsilon: float) -> None:
    """Half of a block was rejected with probability 1 - e^-epsilon."""
    mechanism = Staircase(epsilon=epsilon, sensitivity=1.0)
    assert all(np.isfinite(mechanism.release(3.0).value) for _ in range(50))


def test_means_of_vectors_are_as_accurate_as_they_say_in_many_dimensions() -> None:
    mechanism = VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=1000, relation=Relation.REPLACE)
    records = np.zeros((100, 1000))
    records[:, 0] = 1.0
    value = mechanism.release(records, TestSource(3)).value
    assert np.abs(value - records[0]).max() <= mechanism.accuracy(100, 1 - 1e-7)  # which is how often it fails


def test_neighbours_of_nothing_are_answered_alike() -> None:
    mechanism = VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=2)
    assert mechanism.release([]).value.shape == mechanism.release([[1.0, 2.0]]).value.shape
    for values in ([2**64, 1], [2**63, -1], [1, None], [Fraction(10**400), 1], [Fraction(-(10**400)), 1]):
        assert np.isfinite(Laplace(epsilon=1.0, sensitivity=1.0, size=2).release(values).value).all()
    for whole in ([2**63, 1], [2**62, -1], [2**70, -(2**70)], [None, 1]):
        DiscreteLaplace(epsilon=1.0, size=2).release(whole)


def test_functions_cannot_end_the_process() -> None:
    def leave(block: Any) -> float:
        raise SystemExit("secret")

    aggregator = MeanOfResults(epsilon=1.0, bounds=(0, 1))
    SubsampleAggregate(function=leave, num_blocks=2, aggregator=aggregator).release([1, 2])


def test_masked_values_are_not_used() -> None:
    with pytest.raises(InvalidArgument, match="masked"):
        Laplace(epsilon=1.0, sensitivity=1.0, size=2).release(np.ma.masked_array([777.0, 1.0], mask=[True, False]))


def test_replacements_are_not_monotone() -> None:
    for kind in (ExponentialMechanism, AboveThreshold):
        with pytest.raises(InvalidArgument, match="^monotone="):
            kind(epsilon=1.0, monotone=True, relation=Relation.REPLACE)
