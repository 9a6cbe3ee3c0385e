"""Every reproduction runs, in a few steps on a few images; and what their page says follows from the stored rows."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[2] / "reproductions"
# Scattering has tests of its own.
NOT_SCRIPTS = {"cifar10_data", "common", "jobs", "membership_runs", "run_all", "run_jobs", "scattering"}
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in NOT_SCRIPTS)
QUICK = {"gradient_descent", "report_recipe"}  # the others take 2 to 12 seconds each


@pytest.fixture(autouse=True)
def _beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scripts import what is beside them; their names must not stay for other tests."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in (*SCRIPTS, *NOT_SCRIPTS):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in set(sys.modules) - before:
        if name in SCRIPTS or name in NOT_SCRIPTS:
            del sys.modules[name]


@pytest.fixture
def common() -> ModuleType:
    return importlib.import_module("common")


def quick(common: ModuleType, output: Path) -> Any:
    settings = common.Settings(seeds=(0,), output=output, quick=True)
    for name in ("mnist", "fashion-mnist"):
        if not (settings.data / name).is_dir():
            pytest.skip(f"{name} is not in $HUSH_DATA, nor in ../shared/data")
    return settings


@pytest.mark.parametrize(
    "script", [pytest.param(script, marks=() if script in QUICK else pytest.mark.slow) for script in SCRIPTS]
)
def test_a_script_runs_quickly(script: str, common: ModuleType, tmp_path: Path) -> None:
    settings = quick(common, tmp_path)
    rows = importlib.import_module(script).run(settings)
    assert rows
    for row in rows:
        assert len(row.accuracies) == 1
        assert 0 <= row.mean <= 100
        assert row.epsilon > 0
        assert row.seconds >= 0
    common.save(settings, script, rows)
    assert common.stored(tmp_path / "results" / f"{script}.json")[1] == rows
    page = importlib.import_module("run_all").assemble(settings).read_text()
    assert "A quick run" in page
    assert all(row.experiment in page for row in rows)
    figures = list((tmp_path / "figures").glob("*.svg"))
    assert figures
    assert all(figure.name in page and figure.stat().st_size < 100_000 for figure in figures)


def test_the_true_epsilons_of_the_reports_recipe(common: ModuleType) -> None:
    recipe = importlib.import_module("report_recipe")
    for function, expected in (
        (recipe.if_sampled, (0.638, 0.361)),
        (recipe.if_clipping_alone, (52.1, 9.49)),
        (recipe.as_it_ran, (20.3, 10.5)),
        (recipe.claimed, (17.3, 4.59)),
    ):
        assert [float(f"{function(sigma):.3g}") for sigma in (0.6, 1.0)] == list(expected)


def test_the_pca_is_paid_for(common: ModuleType) -> None:
    """Without the PCA in the budget the steps would have less noise; a twin that forgets it must be told apart."""
    abadi = importlib.import_module("abadi")
    recipe = abadi.Recipe(epsilon=2.0, num_steps=100)
    noise = abadi.step_noise(recipe, 60_000)
    forgotten = abadi.calibrate_noise(epsilon=2.0, delta=1e-5, sampling_rate=recipe.lot / 60_000, num_steps=100)

    def whole(noise: float) -> float:
        step = abadi.PoissonSampledEvent(abadi.GaussianEvent(noise), recipe.lot / 60_000)
        accountant = abadi.PldAccountant().compose(abadi.GaussianEvent(recipe.pca_noise)).compose(step, 100)
        return float(accountant.epsilon(1e-5))

    assert 1.999 < whole(noise) <= 2.0
    assert whole(forgotten) > 2.01


def test_moments_move_by_at_most_one(common: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the PCA releases, for data with and without one image: the vector moves by 1, whatever the image is."""
    import numpy as np
    import torch

    abadi = importlib.import_module("abadi")
    seen: list[Any] = []

    class Spy(abadi.GaussianMechanism):  # type: ignore[misc, name-defined]
        def release(self, value: Any, source: Any = None) -> Any:
            seen.append((np.array(value), self.sensitivity))
            return super().release(value, source)

    monkeypatch.setattr(abadi, "GaussianMechanism", Spy)
    images = torch.randn(50, 30, generator=torch.Generator().manual_seed(0))
    images[0] *= 1e6  # is scaled to norm 1 like all others
    images[1] = 0.0
    images[1, 3] = 1.0
    for left_out in (None, 0, 1, 2):
        kept = images if left_out is None else torch.cat([images[:left_out], images[left_out + 1 :]])
        abadi.private_directions(kept, abadi.Recipe(dimensions=5))
    (whole, sensitivity), *others = seen
    distances = [float(np.linalg.norm(whole - other)) for other, _ in others]
    assert all(0.99 < distance <= sensitivity for distance in distances)


def test_the_step_of_gradient_descent_matches_theory(common: ModuleType) -> None:
    """Noise on the mean gradient for n = 60,000, T = 100, epsilon 1: .02733 by basic composition, .001244 tight."""
    descent = importlib.import_module("gradient_descent")
    assert descent.basic_noise(100, 60_000) == pytest.approx(0.02733, rel=1e-3)
    assert descent.noise_of(100, 60_000, None) == pytest.approx(0.001244, rel=1e-3)


def test_a_missed_target_says_so(common: ModuleType) -> None:
    row = common.Row("softmax", "mnist", "76 at 2", 92.0, 2.0, [91.0, 92.5], 1.0)
    assert "92 (missed)" in common.table([row])
    assert "92 (met)" in common.table([common.Row("softmax", "mnist", "76 at 2", 92.0, 2.0, [91.9, 92.5], 1.0)])
    assert "not private" in common.table([common.Row("plain", "mnist", "", None, math.inf, [99.0], 1.0)])


def test_jobs_have_names_of_their_own_and_the_important_ones_go_first(common: ModuleType) -> None:
    runner = importlib.import_module("run_jobs")
    listed = runner.all_jobs(common.Settings())
    assert len({job.key for job in listed}) == len(listed)
    assert {job.script for job in listed} == set(importlib.import_module("jobs").JOB_SCRIPTS)
    first = [runner.next_job(listed, "cuda"), runner.next_job(listed, "cpu")]
    assert [job.large for job in first] == [True, False]
    assert {job.rank for job in first} == {0}
    assert not [job for job in first if job in listed]


def test_a_torn_line_and_a_failed_job_are_not_results(common: ModuleType, tmp_path: Path) -> None:
    jobs = importlib.import_module("jobs")
    one, two, three = (jobs.Job(script="sweeps", name=name, arguments={}, rank=0) for name in ("a", "b", "c"))
    lines = [{"hush": "1"}, {"job": one.key, "result": {"accuracy": 1.0}}, {"job": two.key, "error": "no GPU"}]
    (tmp_path / "jobs.jsonl").write_text("\n".join([*map(json.dumps, lines), '{"job": "sweeps/c", "resu']))
    results = jobs.read([tmp_path / "jobs.jsonl"])
    assert results.several([one, two, three]) == [{"accuracy": 1.0}]
    assert jobs.missing([one, two, three], results).endswith("2 of 3 jobs: b; c.")


def test_noise_of_every_way_keeps_to_its_budget(common: ModuleType) -> None:
    """By the plan that is trained: epochs for basic and advanced composition and zCDP, samples for the others."""
    import torch

    import hush

    runs = importlib.import_module("membership_runs")
    size, epochs = 2505, 100
    examples = torch.zeros(size, 2), torch.zeros(size)
    for way in (*runs.WAYS, "each record", "whole batch"):
        plan = runs.plan_of(way, 10.0, size, epochs, epochs * size // runs.BATCH)
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        private = hush.privatize(model, optimizer, examples, delta=common.DELTA, clip_norm=1.0, compile=False, **plan)
        spent = private.plan.guarantee().epsilon
        assert 0.8 < spent <= 10.0, way  # basic composition wastes most: 0.89
        # What is divided by is the number of clipped gradients: a clipped batch is one of them.
        assert private.plan.divisor(0) == (1 if way == "whole batch" else runs.BATCH)


def test_stored_results_are_of_whole_runs() -> None:
    stored = list((FOLDER / "results").glob("*.json"))
    assert not [path.name for path in stored if json.loads(path.read_text())["quick"]]
