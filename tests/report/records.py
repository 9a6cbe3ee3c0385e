"""Records to render: one with everything, one with next to nothing, and the pieces that tests vary."""

from __future__ import annotations

import json
import math
from typing import Any

from hush.guarantee import Guarantee, Unit

FASHION = ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
ACCURACIES = [0.861, 0.972, 0.823, 0.889, 0.842, 0.961, 0.652, 0.941, 0.967, 0.958]


def guarantee(epsilon: float = 2.9996, **fields: Any) -> dict[str, Any]:
    """Return a guarantee as a run stores it."""
    given = {"delta": 1e-5, "unit": Unit.user(), "method": "privacy loss distribution", **fields}
    return json.loads(Guarantee(epsilon=epsilon, **given).to_json())


def figure(name: str, accuracy: float | None, count: int | None = 1000) -> dict[str, Any]:
    """Return an entry of accuracy by class or group, with an interval as wide as its count lets it be."""
    if accuracy is None or count is None:
        return {"name": name, "accuracy": accuracy, "low": None, "high": None, "count": count}
    half = 1.96 * math.sqrt(max(accuracy * (1 - accuracy), 0.002) / count)
    return {
        "name": name,
        "accuracy": accuracy,
        "low": max(accuracy - half, 0),
        "high": min(accuracy + half, 1),
        "count": count,
    }


def curve(points: int = 24) -> list[dict[str, Any]]:
    """Return accuracy growing as epsilon is spent."""
    epsilons = [2.9996 * math.sqrt((i + 1) / points) for i in range(points)]
    accuracies = [0.8867 - 0.35 * math.exp(-1.9 * epsilon) for epsilon in epsilons]
    return [
        {
            "step": 25 * (i + 1),
            "epsilon": epsilon,
            "accuracy": accuracy,
            "low": accuracy - 0.007,
            "high": accuracy + 0.007,
        }
        for i, (epsilon, accuracy) in enumerate(zip(epsilons, accuracies, strict=True))
    ]


def confusion(accuracies: list[float] = ACCURACIES) -> list[list[int]]:
    """Return a confusion matrix whose mistakes go mostly to the neighbouring class."""
    size = len(accuracies)
    matrix = [[0] * size for _ in range(size)]
    for i, accuracy in enumerate(accuracies):
        matrix[i][i] = round(1000 * accuracy)
        matrix[i][(i + 2) % size] += round(0.7 * (1000 - matrix[i][i]))
        matrix[i][(i + 4) % size] += 1000 - sum(matrix[i])
    return matrix


def bins() -> list[dict[str, float]]:
    """Return the bins of a model that is a little too confident."""
    shares = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.11, 0.18, 0.42]
    centres = [(i + 0.5) / 10 for i in range(10)]
    return [
        {"low": c - 0.05, "high": c + 0.05, "confidence": c, "accuracy": c**1.25, "share": share}
        for c, share in zip(centres, shares, strict=True)
    ]


def not_private() -> dict[str, Any]:
    """Return diagnostics of 60 steps."""
    steps = range(10, 610, 10)
    waves = {step: 0.04 * math.sin(step / 7) + 0.03 * math.sin(step / 3.1) for step in steps}
    return {
        "clipped_fraction": [{"step": s, "value": 0.35 + 0.5 * math.exp(-s / 150) + waves[s]} for s in steps],
        "norm_quantiles": [
            {"step": s, "q10": 0.2 + waves[s], "q50": 0.8 + math.exp(-s / 90), "q90": 2.4 + 2 * math.exp(-s / 120)}
            for s in steps
        ],
        "loss": [{"step": s, "value": 0.36 + 1.9 * math.exp(-s / 60) + waves[s]} for s in steps],
    }


def rich(*, test_is_public: bool = True) -> dict[str, Any]:
    """Return a record in which every part is filled in. Its figures are invented: no run produced them."""
    return {
        "title": "An example with invented figures",
        "created": "2026-11-15T20:04:11+00:00",
        "finished": True,
        "resumed": 1,
        "guarantee": guarantee(
            assumptions=(
                "The number of rows and the names of columns are public.",
                "Nobody outside sees the random bits that the run draws.",
                "Each user's examples are all marked with the same identifier.",
            )
        ),
        "data": {
            "name": "fashion-mnist",
            "num_train": 60_000,
            "num_test": 10_000,
            "classes": FASHION,
            "features": "784 numbers",
            "unit": "user (column owner)",
            "test_is_public": test_is_public,
            "how_measured": "Share of correct answers on the test split; intervals after Clopper and Pearson (1934).",
        },
        "learned": ["The bounds of 12 columns, from one noisy histogram.", "The classes: 10 were found."],
        "budget": [
            {"what": "bounds of 12 columns", "epsilon": 0.3, "event": "Gaussian(noise_multiplier=14.2)"},
            {"what": "training", "epsilon": 2.7401, "event": "600 x PoissonSampled(0.0683, Gaussian(3.11))"},
            {"what": "accuracy on the held-out part", "epsilon": 0.05, "event": "Gaussian(noise_multiplier=75)"},
        ],
        "public": ["The filters of the scattering transform: wavelets, not learned.", "The pixel range, 0 to 255."],
        "curve": curve(),
        "accuracy": {"value": 0.8867, "low": 0.8803, "high": 0.8929, "private": False, "confidence": 0.95},
        "baseline": {"what": "always the most frequent class", "accuracy": 0.1},
        "classes": [figure(name, value) for name, value in zip(FASHION, ACCURACIES, strict=True)],
        "groups": {
            "region": [figure("north", 0.901, 4200), figure("south", 0.884, 3900), figure("islands", 0.792, 310)],
            "age": [
                figure("18 to 39", 0.889, 3000),
                figure("40 to 64", 0.887, 5000),
                figure("65 and over", 0.874, 700),
            ],
        },
        "confusion": confusion(),
        "calibration": {"ece": 0.0312, "bins": bins()},
        "not_private": not_private(),
        "hyperparameters": {
            "model": "scattering",
            "batch_size": 4096,
            "num_steps": 600,
            "learning_rate": 2.0,
            "momentum": 0.9,
            "clipping": "automatic",
            "noise_multiplier": 3.1124,
            "weight_averaging": True,
            "schedule": {"warmup": 20, "decay": None},
            "layers": [243, 7, 7],
        },
        "versions": {"hush": "0.6.0", "python": "3.11.9", "torch": "2.11.0", "numpy": "2.3.4"},
        "command": "hush train fashion-mnist --target label --epsilon 3 --delta 1e-5 --model scattering --unit owner",
        "warnings": ["Noise was drawn on the CPU, which took a tenth of the time."],
    }


def poor() -> dict[str, Any]:
    """Return a record of a run that was stopped early, on a file of a hospital's own."""
    return {
        "title": "visits.csv",
        "finished": False,
        "guarantee": guarantee(epsilon=7.3),
        "data": {"name": "visits.csv", "num_train": 9000, "num_test": 1000, "test_is_public": False},
        "curve": curve(1),
        "accuracy": {"value": 0.7123, "low": None, "high": None, "private": False},
        "classes": [figure("yes", 0.52, 80), figure("no", 0.91, 920)],
    }
