"""The report's figures 1 to 3, with correct epsilons: noise scale, batch size and clip norm, over epochs.

Softmax regression on Fashion-MNIST for 50 epochs as in the report, by DP-SGD proper: each example's gradient is
clipped, samples are Poisson, noise of sigma C is added to their sum. What the figures show: noise buys privacy with
little accuracy down to epsilons below 1; at one noise multiplier, a larger batch costs more privacy and has *less*
noise on its mean; the clip norm costs no privacy at all, and with a learning rate of 1/C hardly matters over two
decades. Curves of accuracy are those of averaged weights. The clip norm is varied for 20 epochs.

    python reproductions/sweeps.py [--seeds 3] [--data DIR] [--quick]      # an hour or two on one core; see run_jobs.py
"""

from __future__ import annotations

import statistics
from functools import lru_cache
from typing import Any

import torch
from common import DELTA, Row, Settings, accuracy, figure, here, linear, load, main, mark, sgd, train
from jobs import Job, Results, elsewhere, missing, run_here, speed_remark

from hush.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent, RdpAccountant
from hush.training import MovingAverage

NUM_EXAMPLES, EPOCHS, CLIP_EPOCHS = 60_000, 50, 20
BASE: dict[str, Any] = {"sigma": 1.0, "batch": 600, "clip_norm": 1.0, "lr": 0.1, "epochs": EPOCHS}
SIGMAS = (0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0)
BATCHES = (100, 200, 400, 600, 800, 1000)
CLIP_NORMS = (0.01, 0.1, 0.5, 1.0, 3.0, 10.0)
SHARED = 0.7  # the report's noise scale where it varies the batch size, and in its figure 2
FULL = "clip norm"
SCALED = "clip norm, learning rate ~ 1/C"
TITLES = ("noise scale", "batch size", FULL, SCALED)
# What figures 1a and 3 show needs no training: epsilon after each of these epochs.
MARKED = (1, 2, 5, 10, 20, 30, 40, 50)
IN_REPORT = {100: 3.9, 1000: 14.5}  # batch size: the report's epsilon after 50 epochs, by RDP


def points() -> dict[str, dict[float, dict[str, Any]]]:
    """Return what is varied, and the recipe of each point."""
    batches = {value: {"sigma": SHARED, "batch": value, "lr": BASE["lr"] * value / 600} for value in BATCHES}
    brief = {"epochs": CLIP_EPOCHS}
    return {
        "noise scale": {value: BASE | {"sigma": value} for value in SIGMAS},
        "batch size": {value: BASE | change for value, change in batches.items()},
        FULL: {value: BASE | brief | {"clip_norm": value} for value in CLIP_NORMS},
        SCALED: {value: BASE | brief | {"clip_norm": value, "lr": BASE["lr"] / value} for value in CLIP_NORMS},
    }


def jobs(settings: Settings) -> list[Job]:
    """Return all runs: first one seed of everything, and clip norms after the others of a seed."""
    listed = []
    for seed in settings.seeds:
        for title, recipes in points().items():
            rank = 2 * seed + (1 if title in (FULL, SCALED) else 0)
            listed += [_job(title, value, recipe, seed, rank) for value, recipe in recipes.items()]
    return listed


def prepare(settings: Settings) -> None:
    """Read the data."""
    load("fashion-mnist", settings)


def work(settings: Settings, device: str, *, seed: int, recipe: dict[str, Any]) -> dict[str, Any]:
    """Train once, and measure after every epoch."""
    torch.manual_seed(seed)
    images, batch = load("fashion-mnist", settings).to(device), recipe["batch"]
    steps_of_epoch = max(round(len(images.x) / batch), 1)
    steps = 5 if settings.quick else round(recipe["epochs"] * NUM_EXAMPLES / batch)
    model, curve = linear().to(images.x.device), []

    def after(step: int, average: MovingAverage) -> None:
        if step % steps_of_epoch == 0:
            reached = accuracy(average.copy(), images.x_test, images.y_test)
            curve.append((step // steps_of_epoch, round(reached, 3)))

    trained = train(
        model,
        (images.x, images.y),
        sgd(model, recipe["lr"]),
        noise_multiplier=recipe["sigma"],
        batch_size=batch,
        clip_norm=recipe["clip_norm"],
        num_steps=steps,
        compile=False,
        after=after,
    )
    reached = accuracy(trained.model, images.x_test, images.y_test)
    return {"accuracy": reached, "curve": curve, "steps": steps, "step_ms": 1000 * trained.seconds / steps}


def run(settings: Settings) -> list[Row]:
    """Run all jobs here; one point of each kind, if it is to be quick."""
    listed = jobs(settings)
    if settings.quick:
        listed = [_job(title, *list(recipes.items())[2], 0, 0) for title, recipes in points().items()]
    return report(settings, run_here(listed, settings, here()))


def report(settings: Settings, results: Results) -> list[Row]:
    """Return rows of all that has run, and draw the figures."""
    rows = [
        row
        for title, recipes in points().items()
        for value, recipe in recipes.items()
        if (row := _row(settings, results, title, value, recipe)) is not None
    ]
    _draw_noise(settings, results)
    _draw_spent(settings, results)
    _draw_batches(settings, results)
    _draw_ends(settings, results)
    return rows


def remarks(settings: Settings, results: Results) -> list[str]:
    """Say what is missing, how long steps took, and where the report's epsilons are."""
    listed = jobs(settings)
    named = [job for job in listed if job.name.startswith("noise scale")]
    after = {batch: _rdp(batch, EPOCHS) for batch in IN_REPORT}
    words = ", ".join(f"{after[batch]:.1f} for batches of {batch} (there {IN_REPORT[batch]:g})" for batch in IN_REPORT)
    lines = [
        "Curves are means over the seeds, with their standard deviation; the clip norm is varied for 20 epochs. "
        "Fashion-MNIST's split is our own.",
        f"Epsilon after 50 epochs at sigma 0.7 by a Renyi accountant, as in the report's figure 3: {words}.",
        missing(listed, results),
        elsewhere(listed, results),
        speed_remark(named, results, "softmax regression on pixels, batches of 600"),
    ]
    return [line for line in lines if line]


def spent(sigma: float, batch: int, epochs: int) -> float:
    """Return epsilon after so many epochs."""
    return _spent(sigma, batch, round(epochs * NUM_EXAMPLES / batch))


@lru_cache
def _spent(sigma: float, batch: int, steps: int) -> float:
    step = PoissonSampledEvent(GaussianEvent(sigma), batch / NUM_EXAMPLES)
    return PldAccountant().compose(step, steps).epsilon(DELTA)


@lru_cache
def _rdp(batch: int, epochs: int) -> float:
    step = PoissonSampledEvent(GaussianEvent(SHARED), batch / NUM_EXAMPLES)
    return RdpAccountant().compose(step, epochs * NUM_EXAMPLES // batch).epsilon(DELTA)


def _job(title: str, value: float, recipe: dict[str, Any], seed: int, rank: int) -> Job:
    arguments = {"seed": seed, "recipe": recipe}
    return Job(script="sweeps", name=f"{title} = {value:g}, seed {seed}", arguments=arguments, rank=rank)


def _of(settings: Settings, results: Results, title: str, value: float) -> list[dict[str, Any]]:
    recipe = points()[title][value]
    return results.several(_job(title, value, recipe, seed, 0) for seed in settings.seeds)


def _row(settings: Settings, results: Results, title: str, value: float, recipe: dict[str, Any]) -> Row | None:
    found = _of(settings, results, title, value)
    if not found:
        return None
    note = (
        f"sigma {recipe['sigma']:g}, batches of {recipe['batch']}, C = {recipe['clip_norm']:g}, lr {recipe['lr']:.3g}, "
        f"{recipe['epochs']} epochs"
    )
    seconds = results.seconds(_job(title, value, recipe, seed, 0) for seed in settings.seeds)
    cost = _spent(recipe["sigma"], recipe["batch"], found[0]["steps"])
    accuracies = [result["accuracy"] for result in found]
    return Row(f"{title} = {value:g}", "fashion-mnist", "", None, cost, accuracies, seconds, note)


def _curve(found: list[dict[str, Any]]) -> tuple[list[int], list[float], list[float]]:
    """Return epochs, mean accuracies and their standard deviations over the seeds."""
    curves = [result["curve"] for result in found]
    length = min(len(curve) for curve in curves)
    reached = [[curve[i][1] for curve in curves] for i in range(length)]
    spreads = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in reached]
    return [point[0] for point in curves[0][:length]], [statistics.fmean(values) for values in reached], spreads


def _draw_noise(settings: Settings, results: Results) -> None:
    """Draw the report's figure 1: epsilon and accuracy over epochs, for several noise scales."""
    with figure(settings, "sweep_noise_over_epochs", columns=2) as (left, right):
        for number, sigma in enumerate(SIGMAS):
            colour = {"color": f"C{number}", "marker": "."}
            marked = MARKED[::4] if settings.quick else MARKED
            left.plot(marked, [spent(sigma, 600, epoch) for epoch in marked], label=f"sigma {sigma:g}", **colour)
            _plot_curve(right, _of(settings, results, "noise scale", sigma), f"sigma {sigma:g}", f"C{number}")
        left.set(xlabel="epochs", ylabel="epsilon", yscale="log", title="1a: softmax, batches of 600")
        right.set(xlabel="epochs", ylabel="test accuracy, %", title="1b: Fashion-MNIST, own split")
        for axes in (left, right):
            _legend(axes)


def _draw_spent(settings: Settings, results: Results) -> None:
    """Draw the report's figure 2: accuracy against epsilon during the training at sigma 0.7."""
    with figure(settings, "sweep_accuracy_over_epsilon") as axes:
        found = _of(settings, results, "noise scale", SHARED)
        if found and found[0]["curve"]:
            epochs, means, spreads = _curve(found)
            shown = [i for i, epoch in enumerate(epochs) if epoch in MARKED or epoch % 3 == 0]
            costs = [spent(SHARED, 600, epochs[i]) for i in shown]
            axes.errorbar(costs, [means[i] for i in shown], [spreads[i] for i in shown], capsize=2, marker=".")
        axes.set(
            xlabel="epsilon spent so far", ylabel="test accuracy, %", title="2: sigma 0.7, Fashion-MNIST, own split"
        )


def _draw_batches(settings: Settings, results: Results) -> None:
    """Draw the report's figure 3: epsilon and accuracy over epochs, for several batch sizes at one noise scale."""
    with figure(settings, "sweep_batches_over_epochs", columns=2) as (left, right):
        for number, batch in enumerate(BATCHES):
            marked = MARKED[::4] if settings.quick else MARKED
            values = [spent(SHARED, batch, epoch) for epoch in marked]
            left.plot(marked, values, label=f"batches of {batch}", color=f"C{number}", marker=".")
            found = _of(settings, results, "batch size", batch)
            _plot_curve(right, found, f"batches of {batch}", f"C{number}")
        left.set(xlabel="epochs", ylabel="epsilon", title="3: sigma 0.7")
        right.set(xlabel="epochs", ylabel="test accuracy, %", title="3: Fashion-MNIST, own split, lr ~ batch size")
        for axes in (left, right):
            _legend(axes)


def _plot_curve(axes: Any, found: list[dict[str, Any]], label: str, colour: str) -> None:
    if found and found[0]["curve"]:
        epochs, means, spreads = _curve(found)
        axes.plot(epochs, means, label=label, color=colour, marker="")
        low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
        axes.fill_between(epochs, low, high, color=colour, alpha=0.2, lw=0)


def _legend(axes: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)


def _draw_ends(settings: Settings, results: Results) -> None:
    """Draw what is reached at the end over the noise scale, the batch size and the clip norm."""
    with figure(settings, "sweep_ends", columns=3) as grid:
        for axes, titles in zip(grid, (TITLES[:1], TITLES[1:2], TITLES[2:]), strict=True):
            scale = "linear" if "batch size" in titles else "log"
            axes.set(xlabel=titles[0], ylabel="test accuracy, %", xscale=scale)
            for title in titles:
                found = {value: _of(settings, results, title, value) for value in points()[title]}
                shown = {value: [result["accuracy"] for result in of] for value, of in found.items() if of}
                if shown:
                    errors = [statistics.stdev(of) if len(of) > 1 else 0.0 for of in shown.values()]
                    means = [statistics.fmean(of) for of in shown.values()]
                    axes.errorbar(list(shown), means, errors, capsize=2, label=title)
                    mark(axes, list(shown))
            if len(titles) > 1:
                _legend(axes)


if __name__ == "__main__":
    main(run, __doc__)
