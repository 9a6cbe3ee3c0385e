"""`hush audit scores.csv` from the user's side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.audit import audit_scores
from hush.cli import main

RANDOM = np.random.default_rng(0)
MEMBERS, OTHERS = RANDOM.normal(2.0, 1.0, size=500), RANDOM.normal(0.0, 1.0, size=400)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rows = [f"{score!r},1" for score in MEMBERS.tolist()] + [f"{score!r},0" for score in OTHERS.tolist()]
    file = tmp_path / "scores.csv"
    file.write_text("\n".join(["score,member", *rows]) + "\n", encoding="utf-8")
    return file


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["audit", *arguments, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_file_of_scores(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    found = run_json(capsys, str(scores), "--delta", "1e-5")
    expected = audit_scores(MEMBERS, OTHERS, delta=1e-5)
    assert found["epsilon_lower"] == expected.epsilon_lower > 0
    assert found["confidence"] == 0.95
    assert found["method"] == "Clopper-Pearson"
    assert (found["num_in"], found["num_out"]) == (500, 400)


def test_a_claim_beside_it(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    assert run_json(capsys, str(scores), "--epsilon", "0.1")["verdict"] == "violated"
    assert run_json(capsys, str(scores), "--epsilon", "9")["verdict"] == "consistent"
    assert main(["audit", str(scores), "--epsilon", "0.1"]) == 0
    assert "Violated: " in capsys.readouterr().out


def test_a_gaussian_audit_shows_more(capsys: pytest.CaptureFixture[str], scores: Path) -> None:
    plain = run_json(capsys, str(scores), "--delta", "1e-5")
    gaussian = run_json(capsys, str(scores), "--delta", "1e-5", "--method", "gaussian")
    assert gaussian["epsilon_lower"] > plain["epsilon_lower"]
    assert 0 < gaussian["mu_lower"] < 2.5
    wary = run_json(capsys, str(scores), "--delta", "1e-5", "--method", "gaussian", "--confidence", "0.999")
    assert wary["epsilon_lower"] < gaussian["epsilon_lower"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("score\n1\n", "member"),
        ("score,member\nx,1\n", "a number in line 2"),
        ("score,member\n1,maybe\n", "1 or 0 in line 2"),
        ("score,member\n1,1\n", "scores_out"),
        ("score,member\nnan,1\n1,0\n", "NaN"),
        ("", "member and score"),
    ],
)
def test_a_file_that_is_wrong_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores.csv"
    file.write_text(text, encoding="utf-8")
    assert main(["audit", str(file), "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1


def test_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path / "nothing")]) == 2
    assert "a file of scores" in capsys.readouterr().err
