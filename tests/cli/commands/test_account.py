"""`hush account`: what every accountant states, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hush import accounting as acc
from hush.cli import main


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["account", *arguments, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(
        capsys, "--noise-multiplier", "1.1", "--sampling-rate", "0.0042667", "--num-steps", "3515", "--delta", "1e-5"
    )
    pld = result["pld"]
    assert pld["lower"] <= pld["epsilon"] <= pld["lower"] * (1 + 3e-5)
    assert pld["epsilon"] < result["rdp"]["epsilon"]
    assert result["gdp"]["bound"] == "estimate"
    assert "poisson-sampled" in result["zcdp"]["refused"]
    assert not any("Accountant" in entry.get("refused", "") for entry in result.values())  # a class of Python
    assert result["zcdp"]["epsilon"] is None


def test_classic_theorems_choose_the_best_pair_of_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--noise-multiplier", "4", "--sampling-rate", "0.01", "--num-steps", "10000", "--delta", "1e-5"]
    result = run_json(capsys, *arguments)
    # The moments accountant against strong composition: q 0.01, sigma 4, 100 epochs.
    assert result["advanced"]["epsilon"] == pytest.approx(16.84, abs=0.01)
    assert result["rdp"]["epsilon"] == pytest.approx(1.035, abs=0.001)
    (pair,) = result["advanced"]["per_step"]
    assert pair["delta"] * 10_000 < 1e-5
    assert result["basic"]["per_step"][0]["delta"] * 10_000 <= 1e-5
    assert "cdp" in result
    assert main(["account", *arguments]) == 0
    assert "of the best (epsilon, delta) for each step, (0.0228, 7.78e-10)" in capsys.readouterr().out


def test_classic_theorems_refuse_at_delta_zero(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, "--noise-multiplier", "4", "--num-steps", "10", "--delta", "0")
    assert "without delta" in result["basic"]["refused"]


def test_laplace(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, "--laplace-scale", "10", "--num-steps", "100", "--delta", "1e-6")
    # The reference is 4.6926674164 (tests/golden).
    assert 4.6926674 <= result["pld"]["epsilon"] <= 4.6926674 * (1 + 1e-5)
    assert result["basic"]["epsilon"] == pytest.approx(10)


def test_a_file_of_phases(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "phases.json"
    events = acc.SelfComposedEvent(acc.PoissonSampledEvent(acc.GaussianEvent(0.8), 0.005), 3000)
    file.write_text(
        json.dumps(
            [
                {"noise_multiplier": 1.5, "sampling_rate": 0.01, "num_steps": 2000},
                {"noise_multiplier": 1.0, "sampling_rate": 0.02, "num_steps": 500},
                json.loads(events.to_json()),
            ]
        )
    )
    result = run_json(capsys, "--events", str(file), "--delta", "1e-6")
    # The reference is 4.527077405 (tests/golden).
    assert 4.5270774 <= result["pld"]["epsilon"] <= 4.5270774 * (1 + 1e-5)


def test_text_says_what_is_an_estimate_and_what_was_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "--noise-multiplier", "1", "--sampling-rate", "0.01", "--delta", "1e-5"]) == 0
    text = capsys.readouterr().out
    assert "an ESTIMATE, not a guarantee" in text
    assert "zcdp: poisson-sampled" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "text '['"),
        ("[]", "--events"),
        ("[1]", "phase 1"),
        ('[{"noise_multiplier": NaN}]', "text 'NaN'"),
        ('[{"noise_multiplier": 1, "noise_multiplier": 100}]', "field 'noise_multiplier'"),
        ('[{"noise_multiplier": 1, "laplace_scale": 1}]', "phase"),
        ('[{"noise_multiplier": 1, "sampling": 0.1}]', "sampling 0.1"),
        ('[{"noise_multiplier": 1, "num_steps": 1.5}]', "num_steps 1.5"),
        ('[{"noise_multiplier": "1"}]', "noise_multiplier '1'"),
        ('[{"kind": "gaussian"}]', "--noise-multiplier: expected a value"),
        ('[{"kind": "unheard-of"}]', "kind 'unheard-of'"),
        ('[{"kind": "gaussian", "noise_multiplier": 1, "sigma": 2}]', "sigma 2"),
        ('[{"kind": "composed", "events": {"kind": "gaussian"}}]', "--events"),
    ],
)
def test_bad_files_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "phases.json"
    file.write_text(content)
    assert main(["account", "--events", str(file), "--delta", "1e-6"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"hush account: {message}")


def test_a_missing_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["account", "--events", str(tmp_path / "none.json"), "--delta", "1e-6"]) == 2
    assert "expected a readable file" in capsys.readouterr().err


def test_nothing_private_at_delta_zero(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, "--noise-multiplier", "1", "--delta", "0")
    assert result["pld"]["epsilon"] is None
    assert result["pld"]["unbounded"] is True
