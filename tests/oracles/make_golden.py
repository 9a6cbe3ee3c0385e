"""Writes tests/golden/accounting_truth.json with the oracle: `python tests/oracles/make_golden.py` (a few minutes)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from oracles import contour

GOLDEN = Path(__file__).parents[1] / "golden" / "accounting_truth.json"

ABOUT = {
    "what": "epsilon (or sigma) of realistic problems, computed by tests/oracles; abs_error bounds what is known of it",
    "written_by": "tests/oracles/make_golden.py",
    "phases": {
        "sg": "[q, sigma, T] Poisson-sampled Gaussian (q = 1: every record)",
        "lap": "[b, T] Laplace of scale b on sensitivity 1",
        "sublap": "[q, b, T] Poisson-sampled Laplace",
        "rr": "[eps0, T] binary randomised response",
    },
    "relations": {
        "add_or_remove": "the larger of the two directions",
        "replace": "Gaussian: (1 - q) N(0) + q N(1) against (1 - q) N(0) + q N(-1); randomised response: its own pair",
    },
    "sources": {
        "contour": "moment generating function inverted on a bent saddle path, two paths agree (tests/oracles/contour.py)",
        "one step": "closed form of the profile (tests/oracles/closed_form.py)",
        "analytic Gaussian": "Balle & Wang 2018, T steps are one of sigma / sqrt(T)",
        "residues": "exact residue sum in decimal arithmetic, 40 + 2 T digits",
        "binomial": "exact binomial sum in 50 digits, solved exactly on its piece",
        "windowed contour": "as contour, on a vertical path with the atoms' bound for the part left out",
    },
}

_ADD, _REPLACE = "add_or_remove", "replace"

PROBLEMS: list[tuple[str, str, list[list[str | float]], float, str]] = [
    ("P01_abadi_mnist", _ADD, [["sg", 0.01, 4.0, 10_000]], 1e-5, "contour"),
    ("P02_mnist_15_epochs", _ADD, [["sg", 256 / 60_000, 1.1, 3_515]], 1e-5, "contour"),
    ("P03_cifar_bigbatch", _ADD, [["sg", 0.08192, 3.0, 2_500]], 1e-5, "contour"),
    ("P04_tiny_sigma_0.4", _ADD, [["sg", 0.001, 0.4, 1_000]], 1e-6, "contour"),
    ("P05_imagenet", _ADD, [["sg", 0.0128, 2.5, 72_000]], 8e-7, "contour"),
    ("P06_huge_T_1e6", _ADD, [["sg", 0.001, 1.0, 1_000_000]], 1e-8, "contour"),
    ("P07_tiny_q", _ADD, [["sg", 0.0001, 0.6, 50_000]], 1e-9, "contour"),
    ("P08_fullbatch_T100", _ADD, [["sg", 1.0, 10.0, 100]], 1e-5, "analytic Gaussian"),
    ("P09_one_step", _ADD, [["sg", 0.01, 1.0, 1]], 1e-5, "one step"),
    (
        "P10_three_phases",
        _ADD,
        [["sg", 0.01, 1.5, 2_000], ["sg", 0.02, 1.0, 500], ["sg", 0.005, 0.8, 3_000]],
        1e-6,
        "contour",
    ),
    ("P11_laplace_x100", _ADD, [["lap", 10.0, 100]], 1e-6, "residues"),
    ("P12_delta_1e-15", _ADD, [["sg", 0.01, 2.0, 1_000]], 1e-15, "contour"),
    ("P13_delta_1e-18", _ADD, [["sg", 0.001, 1.0, 10_000]], 1e-18, "contour"),
    ("P14_one_release", _ADD, [["sg", 1.0, 5.0, 1]], 1e-8, "analytic Gaussian"),
    ("P15_rr_x1000", _REPLACE, [["rr", 0.1, 1_000]], 1e-6, "binomial"),
    ("P16_sub_laplace", _ADD, [["sublap", 0.1, 1.0, 100]], 1e-6, "windowed contour"),
    ("P17_replace_one", _REPLACE, [["sg", 0.01, 4.0, 10_000]], 1e-5, "contour"),
    ("P18_large_q", _ADD, [["sg", 0.25, 10.0, 5_000]], 1e-10, "contour"),
]

CALIBRATIONS: list[tuple[str, float, int, float, float, str]] = [
    ("C1_abadi_mnist", 0.01, 10_000, 1.0, 1e-5, "contour"),
    ("C2_mnist_15_epochs", 0.0042666666666, 3_515, 3.0, 1e-5, "contour"),
    ("C3_cifar_bigbatch", 0.08192, 2_500, 8.0, 1e-5, "contour"),
    ("C4_language_model", 0.0005, 200_000, 2.0, 1e-7, "contour"),
    ("C5_fullbatch", 1.0, 100, 1.0, 1e-6, "analytic Gaussian"),
]

SCHEDULE = {"id": "S1_schedule", "sampling_rate": 0.01, "sigmas": 100, "first": 2.0, "last": 0.8, "steps_each": 100}


def schedule_phases() -> list[list[str | float]]:
    """100 noise multipliers falling geometrically from 2.0 to 0.8, 100 steps each."""
    ratio = (0.8 / 2.0) ** (1 / 99)
    return [["sg", 0.01, 2.0 * ratio**i, 100] for i in range(100)]


def main() -> None:
    golden = {
        "about": ABOUT,
        "problems": [_problem(*problem) for problem in PROBLEMS],
        "calibrations": [_calibration(*calibration) for calibration in CALIBRATIONS],
        "schedule": _problem(SCHEDULE["id"], _ADD, schedule_phases(), 1e-5, "contour"),
    }
    GOLDEN.write_text(_compact(golden))


def _problem(name: str, relation: str, phases: list[list[str | float]], delta: float, source: str) -> dict[str, object]:
    directions = contour.REPLACE if relation == _REPLACE else contour.ADD_OR_REMOVE
    each = {d.value: contour.epsilon(contour.parse(phases), delta, [d]) for d in directions}
    print(name, each, flush=True)
    found = {"id": name, "relation": relation, "phases": phases, "delta": delta, "epsilon": max(each.values())}
    return (
        found
        | ({f"epsilon_{k}": v for k, v in each.items()} if len(each) > 1 else {})
        | {"abs_error": 1e-10, "source": source}
    )


def _calibration(name: str, q: float, steps: int, epsilon: float, delta: float, source: str) -> dict[str, object]:
    sigma = contour.noise_multiplier(target_epsilon=epsilon, delta=delta, sampling_rate=q, num_steps=steps)
    print(name, sigma, flush=True)
    return {
        "id": name,
        "sampling_rate": q,
        "num_steps": steps,
        "epsilon": epsilon,
        "delta": delta,
        "noise_multiplier": sigma,
        "relative_error": 1e-10,
        "source": source,
    }


def _compact(golden: dict[str, object]) -> str:
    """One record per line."""
    lines = []
    for key, value in golden.items():
        if isinstance(value, list):
            body = ",\n".join("  " + json.dumps(item) for item in value)
            lines.append(f" {json.dumps(key)}: [\n{body}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
