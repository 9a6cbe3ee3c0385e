"""`hush audit` on a file of scores: bounds, claims, and files that are refused. tests/runs audits runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.audit import audit_scores
from hush.cli import main

# With 40 other seeds, plain bounds are 2.39 +- 0.18, Gaussian ones larger by 5.35 +- 0.44, their mu is 1.62 +- 0.09,
# and bounds of one run 3.4 to 3.9, +- 0.13 to 0.35: all are 7 standard deviations or more from what tests ask for.
RANDOM = np.random.default_rng(0)
MEMBERS, OTHERS = RANDOM.normal(2.0, 1.0, size=500), RANDOM.normal(0.0, 1.0, size=400)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rows = [f"{score!r},1" for score in MEMBERS.tolist()] + [f"{score!r},0" for score in OTHERS.tolist()]
    file = tmp_path / "scores.csv"
    file.write_text("\n".join(["score,member", *rows]) + "\n", encoding="utf-8")
    return file


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert main(["audit", *arguments, "--json"]) == status
    return dict(json.loads(capsys.readouterr().out))


def test_a_file_of_scores(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    result = run_json(capsys, str(scores), "--delta", "1e-5")
    expected = audit_scores(MEMBERS, OTHERS, delta=1e-5)
    assert result["epsilon_lower"] == expected.epsilon_lower > 0
    assert result["confidence"] == 0.95
    assert result["method"] == "Clopper-Pearson"
    assert (result["num_in"], result["num_out"]) == (500, 400)


def test_a_claim_beside_it(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    assert run_json(capsys, str(scores), "--epsilon", "0.1", status=3)["verdict"] == "violated"
    assert run_json(capsys, str(scores), "--epsilon", "9")["verdict"] == "consistent"
    assert main(["audit", str(scores), "--epsilon", "0.1"]) == 3
    printed = capsys.readouterr()
    assert "Violated: " in printed.out
    assert "Assumed: The scores are independent" in printed.out
    assert printed.err == ""


def test_a_gaussian_audit_shows_more(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    plain = run_json(capsys, str(scores), "--delta", "1e-5")
    gaussian = run_json(capsys, str(scores), "--delta", "1e-5", "--method", "gaussian")
    assert gaussian["epsilon_lower"] > plain["epsilon_lower"]
    assert 0 < gaussian["mu_lower"] < 2.5
    wary = run_json(capsys, str(scores), "--delta", "1e-5", "--method", "gaussian", "--confidence", "0.999")
    assert wary["epsilon_lower"] < gaussian["epsilon_lower"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score\n1\n", "member"),
        ("score,member\nx,1\n", "a number in row 1"),
        ("score,member\n1,maybe\n", "1 or 0 in row 1"),
        ("score,member\n1,1\n", "scores_out"),
        ("score,member\nnan,1\n1,0\n", "NaN"),
        ("", "names of the columns"),
        ("score,member,score\n1,1,2\n", "each name only once"),
        ("score,member\n1,0.5\n", "1 or 0 in row 1"),
        ("score,member\n1,nan\n", "1 or 0 in row 1"),
        ("score,member\n1\n", "1 or 0 in row 1"),
    ],
)
def test_a_file_that_is_wrong_is_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores.csv"
    file.write_text(text, encoding="utf-8")
    assert main(["audit", str(file), "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_missing_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path / "nothing")]) == 2
    assert "a file of scores" in capsys.readouterr().err


@pytest.fixture
def canaries(tmp_path: Path) -> Path:
    """Write the scores of one model's canaries, in the order in which their coins were thrown."""
    rng = np.random.default_rng(3)
    coins = rng.random(600) < 0.5
    values = rng.normal(size=600) + 4 * coins
    rows = [f"{score!r},{int(coin)}" for score, coin in zip(values.tolist(), coins.tolist(), strict=True)]
    file = tmp_path / "canaries.csv"
    file.write_text("\n".join(["score,member", *rows]) + "\n", encoding="utf-8")
    return file


def test_canaries_of_one_run(capsys: pytest.CaptureFixture[str], canaries: Path) -> None:
    for rule in ("bonferroni", "split", "multi-split", "2.5"):
        result = run_json(capsys, str(canaries), "--one-run", "--threshold", rule)
        assert result["method"] == "one run"
        assert result["epsilon_lower"] > 1.5
    assert main(["audit", str(canaries), "--one-run"]) == 0
    assert "fair coin" in capsys.readouterr().out


def test_coins_that_decided_the_order_or_were_unfair(
    capsys: pytest.CaptureFixture[str], scores: Path, tmp_path: Path
) -> None:
    few = tmp_path / "few.csv"
    few.write_text("score,member\n" + "1,1\n" * 90 + "0,0\n" * 10, encoding="utf-8")
    assert main(["audit", str(few), "--one-run"]) == 2
    assert "fair coin" in capsys.readouterr().err
    assert main(["audit", str(scores), "--one-run", "--threshold", "split"]) == 2
    assert "does not depend on the coins" in capsys.readouterr().err


def test_a_threshold_of_a_file(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    result = run_json(capsys, str(scores), "--threshold", "1.0")
    assert result["threshold_rule"] == "threshold fixed beforehand"
    assert result["details"]["threshold"] == 1.0
    for wrong in ("nan", "best"):
        assert main(["audit", str(scores), "--threshold", wrong]) == 2
        assert "--threshold " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("header", "yes", "no"),
    [("score,member", "1.0", "0.0"), (" score , member ", " True", "false "), ("member,score,x", "yes", "no")],
)
def test_files_as_other_programs_write_them(
    header: str, yes: str, no: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores.csv"
    first = header.startswith("member")
    rows = [(yes, f"{5 + k}") for k in range(20)] + [(no, f"{k % 3}") for k in range(30)]
    lines = [",".join((*row, "z") if first else row[::-1]) for row in rows]
    file.write_text("\n".join([header, *lines]) + "\n\n", encoding="utf-8")
    result = run_json(capsys, str(file))
    assert (result["num_in"], result["num_out"]) == (20, 30)
    assert result["epsilon_lower"] > 0


def test_options_that_have_no_use_are_refused(tmp_path: Path, scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--delta", "1e-5"], ["--method", "gaussian"], ["--threshold", "1"], ["--one-run"]):
        assert main(["audit", str(tmp_path), *option]) == 2
        assert f"{option[0]}" in capsys.readouterr().err
    assert main(["audit", str(scores), "--seconds", "5"]) == 2
    assert "--seconds " in capsys.readouterr().err
    assert main(["audit", str(scores), "--method", "gaussian"]) == 2
    assert "--delta " in capsys.readouterr().err
