"""Abadi et al. 2016 over epochs: noise levels (their figure 3), six sweeps (figure 5), and accountants (figure 2).

MNIST, private PCA to 60 dimensions, 1000 ReLU units, lots of 600, clip norm 4, plain SGD; the learning rate goes from
0.1 to 0.052 in 10 epochs and stays there. The PCA is part of every epsilon. The noise levels of steps and PCA are the
paper's: (8, 16), (4, 7), (2, 4). A sweep varies one number from the values above at epsilon 2; its noise follows from
epsilon, but that of the noise level's own sweep: there as many steps are taken as epsilon 2 allows.

As in ``abadi.py``, the mean pixel is subtracted, projected images are scaled to one norm, and weights are averaged.
Without privacy there are the same network on the same projection without noise, and on pixels.

    python reproductions/abadi_sweeps.py [--seeds 3] [--data DIR] [--quick]      # hours on one core; see run_jobs.py
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import torch
from abadi import Recipe, along, fit, main_directions, network, project, second_moments, shortened, step_noise
from common import DELTA, Images, Row, Settings, accuracy, figure, here, load, main, mark, sgd, train_plainly
from jobs import Job, Results, missing, run_here, speed_remark
from numpy.typing import NDArray

from hush.accounting import (
    ComposedEvent,
    GaussianEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from hush.lab.composition import strong_composition
from hush.training import MovingAverage

NUM_EXAMPLES = 60_000
LEVELS = {"large": (8.0, 16.0), "medium": (4.0, 7.0), "small": (2.0, 4.0)}  # noise of steps, and of the PCA
PUBLISHED = {"large": (0.5, 90.0), "medium": (2.0, 95.0), "small": (8.0, 97.0)}
LEVEL_EPOCHS, SWEEP_EPOCHS, MOST_EPOCHS = 100, 20, 50
BASE = Recipe(num_steps=SWEEP_EPOCHS * 100)
VARIED: dict[str, tuple[float, ...]] = {
    "dimensions": (20, 40, 60, 100, 200),
    "units": (200, 500, 1000, 1500, 2000),
    "lot": (200, 400, 600, 1200, 2400),
    "lr": (0.01, 0.03, 0.1, 0.3, 1.0),
    "clip_norm": (1, 2, 4, 6, 10),
    "noise": (1, 1.5, 2, 4, 8),
}
WHOLE = ("dimensions", "units", "lot")
PLAIN = ("projected", "pixels")
REFERENCE = "reference"
SHORTENED = (
    "Shorter than the paper: noise levels run for 100 epochs; sweeps for 20 at a noise that spends epsilon 2 (the "
    "noise level's sweep: until epsilon 2 is spent, 50 epochs at most). The paper averages 10 runs of each."
)


def jobs(settings: Settings) -> list[Job]:
    """Return all runs: first one seed of everything."""
    listed = []
    for seed in settings.seeds:
        listed += [_job(f"level {name}", seed, 2 * seed, level=name) for name in LEVELS]
        listed += [_job(f"not private, {inputs}", seed, 2 * seed, plain=inputs) for inputs in PLAIN]
        listed += [_job(REFERENCE, seed, 2 * seed + 1, name=None, value=None)]
        listed += [
            _job(f"{name} = {value:g}", seed, 2 * seed + 1, name=name, value=value)
            for name, values in VARIED.items()
            for value in values
            if name == "noise" or value != getattr(BASE, name)
        ]
    return listed


def prepare(settings: Settings) -> None:
    """Read the data, and take the moments that all runs need."""
    _moments(settings)


def work(settings: Settings, device: str, *, seed: int, **what: Any) -> dict[str, Any]:
    """Train once: a noise level over epochs, a point of a sweep, or a network without privacy."""
    torch.manual_seed(seed)
    mnist = load("mnist", settings).to(device)
    if "plain" in what:
        return _plainly(settings, mnist, what["plain"])
    recipe = level_recipe(what["level"]) if "level" in what else sweep_recipe(what["name"], what["value"])
    recipe = shortened(recipe) if settings.quick else recipe
    epochs_seen = Epochs(len(mnist.x) // recipe.lot, often="level" in what)
    noise = step_noise(recipe, NUM_EXAMPLES)
    projected, _ = project(mnist, recipe, _moments(settings))
    trained = fit(projected, recipe, noise=noise, compile=False, rate=falling(recipe), after=epochs_seen.on(projected))
    return {
        "recipe": asdict(recipe),
        "noise": noise,
        "accuracy": accuracy(trained.model, projected.x_test, projected.y_test),
        "curve": epochs_seen.curve,
        "step_ms": 1000 * trained.seconds / recipe.num_steps,
    }


def level_recipe(name: str) -> Recipe:
    """Return the paper's recipe at one of its noise levels."""
    noise, pca_noise = LEVELS[name]
    return Recipe(noise=noise, pca_noise=pca_noise, num_steps=LEVEL_EPOCHS * 100)


def sweep_recipe(name: str | None, value: float | None) -> Recipe:
    """Return the reference recipe with one number changed; its steps are as many as epochs and epsilon say."""
    if name is None or value is None:
        return BASE
    recipe = replace(BASE, **{name: int(value) if name in WHOLE else value})
    if name == "noise":
        return replace(recipe, num_steps=affordable_steps(value))
    return replace(recipe, num_steps=BASE.num_steps * BASE.lot // recipe.lot)


@lru_cache
def affordable_steps(noise: float) -> int:
    """Return with how many steps epsilon 2 is spent, PCA included; those of 50 epochs at most."""
    low, high = 1, MOST_EPOCHS * NUM_EXAMPLES // BASE.lot
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if total_epsilon(BASE, noise, middle) <= BASE.epsilon else (low, middle - 1)
    return low


def total_epsilon(recipe: Recipe, noise: float, num_steps: int) -> float:
    """Return the epsilon of the PCA and so many steps."""
    step = PoissonSampledEvent(GaussianEvent(noise), recipe.lot / NUM_EXAMPLES)
    events = ComposedEvent((GaussianEvent(recipe.pca_noise), SelfComposedEvent(step, num_steps)))
    return PldAccountant().compose(events).epsilon(DELTA)


def falling(recipe: Recipe) -> Callable[[int], float]:
    """Return the factor of the learning rate: to 0.52 in 10 epochs, as in the paper."""
    last = 10 * NUM_EXAMPLES / recipe.lot
    return lambda step: 1 - 0.48 * min(step / last, 1.0)


class Epochs:
    """Accuracy on test and on training images after every epoch, with averaged weights."""

    def __init__(self, steps: int, *, often: bool) -> None:
        self.steps, self.often = steps, often
        self.curve: list[tuple[int, float, float]] = []

    def on(self, images: Images) -> Callable[[int, MovingAverage], None]:
        """Return what is to be called after every step."""

        def after(step: int, average: MovingAverage) -> None:
            if self.often and step % self.steps == 0:
                self.add(step, average.copy(), images)

        return after

    def add(self, step: int, model: torch.nn.Module, images: Images) -> None:
        """Measure now."""
        test = accuracy(model, images.x_test, images.y_test)
        train = accuracy(model, images.x[:10_000], images.y[:10_000])
        self.curve.append((step // self.steps, round(test, 3), round(train, 3)))


def _plainly(settings: Settings, mnist: Images, inputs: str) -> dict[str, Any]:
    """Train without privacy, on the projection without noise or on pixels."""
    recipe = Recipe(
        num_steps=3 if settings.quick else LEVEL_EPOCHS * 100, dimensions=60 if inputs == "projected" else 784
    )
    images = along(mnist, main_directions(_moments(settings), 60)) if inputs == "projected" else mnist
    model, seen = network(recipe, images.x.device), Epochs(100, often=True)
    train_plainly(
        model,
        (images.x, images.y),
        sgd(model, recipe.lr, 0.0),
        batch_size=recipe.lot,
        num_steps=recipe.num_steps,
        after=lambda step: seen.add(step, model, images) if step % seen.steps == 0 else None,
    )
    return {"accuracy": accuracy(model, images.x_test, images.y_test), "curve": seen.curve}


@lru_cache(maxsize=1)
def _moments(settings: Settings) -> NDArray[Any]:
    return second_moments(load("mnist", settings).x)


def _job(title: str, seed: int, rank: int, **arguments: Any) -> Job:
    arguments = {"seed": seed, **arguments}
    return Job(script="abadi_sweeps", name=f"{title}, seed {seed}", arguments=arguments, rank=rank, large=True)


def run(settings: Settings) -> list[Row]:
    """Run all jobs here; a few, if it is to be quick."""
    listed = jobs(settings)
    chosen = [job for job in listed if not settings.quick or "large" in job.name or "= 1," in job.name]
    return report(settings, run_here(chosen, settings, here()))


def report(settings: Settings, results: Results) -> list[Row]:
    """Return rows of all that has run, and draw it."""
    _draw_accountants(settings)
    groups = _groups(settings)
    _draw_levels(settings, results, groups)
    _draw_sweeps(settings, results, groups)
    rows = [_row(name, listed, results) for name, listed in groups.items()]
    return [row for row in rows if row is not None]


def remarks(settings: Settings, results: Results) -> list[str]:
    """Say what is shorter than in the paper, what is missing, and how long steps took."""
    listed = jobs(settings)
    levels = [job for job in listed if "level" in job.name]
    lines = [SHORTENED, missing(listed, results), speed_remark(levels, results, "PCA 60, 1000 units, lots of 600")]
    return [line for line in lines if line]


def _groups(settings: Settings) -> dict[str, list[Job]]:
    """Return the jobs of one name, for all seeds."""
    groups: dict[str, list[Job]] = {}
    for job in jobs(settings):
        groups.setdefault(job.name.rsplit(", seed", 1)[0], []).append(job)
    return groups


def _row(name: str, listed: list[Job], results: Results) -> Row | None:
    found = results.several(listed)
    if not found:
        return None
    accuracies = [result["accuracy"] for result in found]
    if "recipe" not in found[0]:
        return Row(
            name, "mnist", "98.3" if "pixels" not in name else "", None, math.inf, accuracies, results.seconds(listed)
        )
    recipe, noise = Recipe(**found[0]["recipe"]), found[0]["noise"]
    level = name.removeprefix("level ")
    published = "{1:g} at {0:g}".format(*PUBLISHED[level]) if level in PUBLISHED else ""
    words = f"noise {noise:.3g}, PCA noise {recipe.pca_noise:g}, {recipe.num_steps} steps of lots of {recipe.lot}"
    cost = _cost(recipe, noise)
    return Row(name, "mnist", published, None, cost, accuracies, results.seconds(listed), words)


@lru_cache
def _cost(recipe: Recipe, noise: float) -> float:
    return total_epsilon(recipe, noise, recipe.num_steps)


def _draw_accountants(settings: Settings) -> None:
    """Draw the paper's figure 2: q = 0.01, noise 4, delta 1e-5; strong composition against what tracks the loss."""
    step, epochs = (
        PoissonSampledEvent(GaussianEvent(4.0), 0.01),
        (1, 100) if settings.quick else (1, 5, 20, 50, 100, 200, 400),
    )
    runs = {epoch: SelfComposedEvent(step, 100 * epoch) for epoch in epochs}
    ways: dict[str, Callable[[Any], float]] = {
        "strong composition": lambda event: strong_composition(event, delta=DELTA).epsilon,
        "moments (RDP)": lambda event: RdpAccountant().compose(event).epsilon(DELTA),
        "PLD": lambda event: PldAccountant().compose(event).epsilon(DELTA),
    }
    with figure(settings, "abadi_sweeps_accountants") as axes:
        for name, way in ways.items():
            values = {epoch: way(event) for epoch, event in runs.items()}
            axes.plot(list(values), list(values.values()), label=f"{name}: {values[100]:.2f} at 100", ms=4)
        axes.set(xlabel="epochs", ylabel="epsilon", yscale="log", title="q 0.01, noise 4, delta 1e-5")
        axes.legend(fontsize=7)


def _draw_levels(settings: Settings, results: Results, groups: dict[str, list[Job]]) -> None:
    with figure(settings, "abadi_sweeps_levels", columns=3) as axes:
        for axis, name in zip(axes, LEVELS, strict=True):
            curves = [result["curve"] for result in results.several(groups[f"level {name}"]) if result["curve"]]
            if not curves:
                continue
            epochs = [point[0] for point in curves[0]]
            for column, label in ((1, "test"), (2, "train")):
                means = [statistics.fmean(curve[i][column] for curve in curves) for i in range(len(epochs))]
                axis.plot(epochs, means, marker="", label=label)
            (noise, pca_noise), (epsilon, reached) = LEVELS[name], PUBLISHED[name]
            title = f"noise {noise:g}, PCA {pca_noise:g}; paper {reached:g} % at {epsilon:g}"
            axis.set(xlabel="epoch", ylabel="accuracy, %", title=title, ylim=(80, 100))
            axis.legend(fontsize=7, loc="lower right")
            _epsilons_over(axis.twinx(), name, epochs)


def _epsilons_over(axis: Any, name: str, epochs: list[int]) -> None:
    """Draw epsilon, PCA included, against the right axis."""
    recipe, noise = level_recipe(name), LEVELS[name][0]
    shown = [epoch for epoch in epochs if epoch in (1, 2, 5, 10, 20, 40, 60, 80, 100)]
    axis.plot(shown, [total_epsilon(recipe, noise, 100 * epoch) for epoch in shown], "k--", marker=".", lw=1)
    axis.set(ylabel="epsilon (dashed)", ylim=(0, None))
    axis.grid(visible=False)


def _draw_sweeps(settings: Settings, results: Results, groups: dict[str, list[Job]]) -> None:
    with figure(settings, "abadi_sweeps_sweeps", columns=3, rows=2) as axes:
        for axis, (name, values) in zip(axes.flat, VARIED.items(), strict=True):
            points = []
            for value in values:
                at_base = name != "noise" and value == getattr(BASE, name)
                listed = groups[REFERENCE if at_base else f"{name} = {value:g}"]
                accuracies = [result["accuracy"] for result in results.several(listed)]
                if accuracies:
                    points.append((value, accuracies))
            if not points:
                continue
            errors = [statistics.stdev(of) if len(of) > 1 else 0.0 for _, of in points]
            shown = [value for value, _ in points]
            axis.errorbar(shown, [statistics.fmean(of) for _, of in points], errors, capsize=2)
            axis.set(xlabel=name.replace("_", " "), ylabel="test accuracy, %", xscale="log")
            mark(axis, shown)


if __name__ == "__main__":
    main(run, __doc__)
