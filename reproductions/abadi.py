"""Abadi et al. 2016, section 5.2: MNIST, private PCA to 60 dimensions, then a network with 1000 ReLU units.

Both parts look at the data, and both are paid for: the noise of the training steps is calibrated to what the whole
budget leaves once the PCA is in it. Their figure 5 varies one hyper-parameter at a time; so does the figure drawn here.

Differences from the paper: the published mean pixel is subtracted first, projected images are scaled to one norm,
lots are larger, there is momentum, the learning rate goes down to 0, weights are averaged, the last layer starts at
zero, and the accountant is tight. Figure 5 keeps to the paper's lots, learning rate and plain SGD, for 5 epochs.

Private PCA (Dwork, Talwar, Thakurta and Zhang 2014, "Analyze Gauss", Algorithm 1): images are scaled to norm 1, and
Gaussian noise is added to A^T A, which one image moves by at most 1 in Frobenius norm. Variant: the matrix is
symmetric, so that one triangle is released, its off-diagonal numbers times sqrt(2). As a vector that has the same
norm, and their noise is smaller by sqrt(2). Scaled pixels are rounded towards zero, to multiples of 2^-12, so that
sums are exact.

    python reproductions/abadi.py [--seeds 3] [--data DIR] [--quick]
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from common import DELTA, Images, Row, Settings, accuracy, figure, load, main, mark, measure, sgd, train
from torch import Tensor, nn

from hush.accounting import (
    ComposedEvent,
    Event,
    GaussianEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
    calibrate_noise,
)
from hush.mechanisms import Gaussian as GaussianMechanism

STEPS_OF_PIXELS = 4096.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One experiment; what figure 5 varies, and the whole budget."""

    epsilon: float = 2.0
    pca_noise: float = 7.0
    dimensions: int = 60
    units: int = 1000
    lot: int = 600
    lr: float = 0.1
    clip_norm: float = 4.0
    momentum: float = 0.0
    num_steps: int = 500
    noise: float | None = None  # of the steps; calibrated to epsilon, if not given


PUBLISHED = {0.5: (90.0, 91.0), 2.0: (95.0, 95.5), 8.0: (97.0, 97.0)}
OURS = {
    0.5: Recipe(epsilon=0.5, pca_noise=16.0, lot=6000, lr=1.0, clip_norm=1.0, momentum=0.9, num_steps=200),
    2.0: Recipe(epsilon=2.0, pca_noise=7.0, lot=4000, lr=2.0, clip_norm=1.0, momentum=0.9, num_steps=400),
    8.0: Recipe(epsilon=8.0, pca_noise=4.0, lot=3000, lr=2.0, clip_norm=1.0, momentum=0.9, num_steps=1000),
}
VARIED: dict[str, tuple[float, ...]] = {
    "dimensions": (20, 60, 150),
    "units": (200, 1000, 2000),
    "lot": (200, 600, 2000),
    "lr": (0.02, 0.1, 0.5),
    "clip_norm": (1, 4, 10),
    "noise": (2, 4, 8),
}
WHOLE = ("dimensions", "units", "lot")


def run(settings: Settings) -> list[Row]:
    mnist = load("mnist", settings)
    rows = []
    for epsilon, (published, target) in PUBLISHED.items():
        recipe = _shortened(OURS[epsilon]) if settings.quick else OURS[epsilon]
        note = (
            f"lots of {recipe.lot}, {recipe.num_steps} steps, C = {recipe.clip_norm:g}, PCA noise {recipe.pca_noise:g}"
        )
        once_more = partial(once, mnist, recipe)
        words = f"PCA to {recipe.dimensions} and {recipe.units} units", mnist.name
        rows.append(
            measure(settings, once_more, *words, published=f"{published:g} at {epsilon:g}", target=target, note=note)
        )
    return rows + _vary(settings.one_seed(), mnist)


def once(mnist: Images, recipe: Recipe) -> tuple[float, float]:
    """Return accuracy, and the epsilon of the PCA and the training together."""
    directions, pca = private_directions(mnist.x, recipe)
    scale = math.sqrt(recipe.dimensions)
    x, x_test = (scale * nn.functional.normalize(part @ directions) for part in (mnist.x, mnist.x_test))
    model = nn.Sequential(nn.Linear(recipe.dimensions, recipe.units), nn.ReLU(), nn.Linear(recipe.units, 10))
    nn.init.zeros_(model[-1].weight)
    trained = train(
        model,
        (x, mnist.y),
        sgd(model, recipe.lr, recipe.momentum),
        noise_multiplier=step_noise(recipe, len(x)),
        clip_norm=recipe.clip_norm,
        batch_size=recipe.lot,
        num_steps=recipe.num_steps,
        cool_down=recipe.momentum > 0,
    )
    total = PldAccountant().compose(pca).compose(trained.private.plan.event()).epsilon(DELTA)
    return accuracy(trained.model, x_test, mnist.y_test), total


def step_noise(recipe: Recipe, num_examples: int) -> float:
    """Return the noise multiplier of the steps with which they and the PCA cost epsilon together."""
    if recipe.noise is not None:
        return recipe.noise

    def both(noise: float) -> Event:
        step = PoissonSampledEvent(GaussianEvent(noise), recipe.lot / num_examples)
        return ComposedEvent((GaussianEvent(recipe.pca_noise), SelfComposedEvent(step, recipe.num_steps)))

    return calibrate_noise(epsilon=recipe.epsilon, delta=DELTA, template=both)


def private_directions(images: Tensor, recipe: Recipe) -> tuple[Tensor, Event]:
    """Return the main directions of noisy second moments, as columns, and what was released to find them."""
    rows = nn.functional.normalize(images.double()).mul(STEPS_OF_PIXELS * (1 - 1e-12)).trunc()
    moments = (rows.T @ rows).numpy() / STEPS_OF_PIXELS**2  # whole numbers below 2^53: exact in any order
    upper = np.triu_indices(len(moments))
    scale = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    alone = PldAccountant().compose(GaussianEvent(recipe.pca_noise)).epsilon(DELTA)
    mechanism = GaussianMechanism(
        epsilon=alone * (1 + 1e-6),
        delta=DELTA,
        sensitivity=1 + 1e-6,  # sqrt(2) is rounded, in sums of up to the number of examples
        size=len(scale),
        noise_multiplier=recipe.pca_noise,
    )
    release = mechanism.release(moments[upper] * scale)
    noisy = np.zeros_like(moments)
    noisy[upper] = release.value / scale
    noisy = noisy + np.triu(noisy, 1).T
    vectors = np.linalg.eigh(noisy)[1][:, ::-1][:, : recipe.dimensions]
    return torch.from_numpy(vectors.astype(np.float32)), release.event


def _vary(settings: Settings, mnist: Images) -> list[Row]:
    """Vary one hyper-parameter at a time, from the paper's reference values."""
    base = Recipe()
    by_name: dict[str, list[Row]] = {name: [] for name in VARIED}
    for name, values in VARIED.items():
        for value in values[:1] if settings.quick else values:
            recipe = replace(base, **{name: int(value) if name in WHOLE else value})
            if name == "lot":
                recipe = replace(recipe, num_steps=base.num_steps * base.lot // recipe.lot)  # as many epochs
            recipe = _shortened(recipe) if settings.quick else recipe
            words = f"figure 5: {name} = {value:g}", mnist.name
            by_name[name].append(measure(settings, partial(once, mnist, recipe), *words, note="5 epochs"))
    _draw(settings, by_name)
    return [row for rows in by_name.values() for row in rows]


def _draw(settings: Settings, by_name: dict[str, list[Row]]) -> None:
    with figure(settings, "abadi", columns=3, rows=2) as axes:
        for axis, (name, rows) in zip(axes.flat, by_name.items(), strict=True):
            values = VARIED[name][: len(rows)]
            axis.plot(values, [row.mean for row in rows])
            axis.set(xlabel=name.replace("_", " "), ylabel="test accuracy, %", xscale="log")
            mark(axis, values)
            if name != "noise":  # else epsilon is 2
                continue
            for value, row in zip(values, rows, strict=True):
                words = f"epsilon {row.epsilon:.2g}"
                axis.annotate(words, (value, row.mean), fontsize=7, xytext=(4, 4), textcoords="offset points")


def _shortened(recipe: Recipe) -> Recipe:
    return replace(recipe, lot=100, num_steps=3, dimensions=20, units=50)


if __name__ == "__main__":
    main(run, __doc__)
