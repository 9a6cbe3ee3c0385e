"""Abadi et al. 2016, section 5.2: MNIST, private PCA to 60 dimensions, then a network with 1000 ReLU units.

Both parts look at the data, and both are paid for: the noise of the training steps is calibrated to what the whole
budget leaves once the PCA is in it. ``abadi_sweeps.py`` has the paper's noise levels over epochs, and its figure 5.

Differences from the paper: the published mean pixel is subtracted first, projected images are scaled to one norm,
lots are larger, there is momentum, the learning rate goes down to 0, weights are averaged, the last layer starts at
zero, and the accountant is tight.

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
from typing import Any

import numpy as np
import torch
from common import DELTA, Images, Row, Settings, Trained, accuracy, figure, load, main, mark, measure, sgd, train
from numpy.typing import NDArray
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
    """One experiment: what the paper's figure 5 varies, and the whole budget."""

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


def run(settings: Settings) -> list[Row]:
    mnist = load("mnist", settings)
    rows = []
    for epsilon, (published, target) in PUBLISHED.items():
        recipe = shortened(OURS[epsilon]) if settings.quick else OURS[epsilon]
        note = (
            f"lots of {recipe.lot}, {recipe.num_steps} steps, C = {recipe.clip_norm:g}, PCA noise {recipe.pca_noise:g}"
        )
        once_more = partial(once, mnist, recipe)
        words = f"PCA to {recipe.dimensions} and {recipe.units} units", mnist.name
        rows.append(
            measure(settings, once_more, *words, published=f"{published:g} at {epsilon:g}", target=target, note=note)
        )
    _draw(settings, rows)
    return rows


def once(mnist: Images, recipe: Recipe) -> tuple[float, float]:
    """Return accuracy, and the epsilon of the PCA and the training together."""
    projected, pca = project(mnist, recipe)
    trained = fit(projected, recipe, noise=step_noise(recipe, len(mnist.x)), cool_down=recipe.momentum > 0)
    total = PldAccountant().compose(pca).compose(trained.private.plan.event()).epsilon(DELTA)
    return accuracy(trained.model, projected.x_test, projected.y_test), total


def project(mnist: Images, recipe: Recipe, moments: NDArray[np.float64] | None = None) -> tuple[Images, Event]:
    """Return the images along the main directions, scaled to one norm, and what was released to find these."""
    directions, pca = private_directions(mnist.x, recipe, moments)
    return along(mnist, directions), pca


def along(mnist: Images, directions: Tensor) -> Images:
    """Return images as their products with directions, scaled to one norm."""
    scale, columns = math.sqrt(directions.shape[1]), directions.to(mnist.x.device)
    x, x_test = (scale * nn.functional.normalize(part @ columns) for part in (mnist.x, mnist.x_test))
    return Images(mnist.name, x, mnist.y, x_test, mnist.y_test)


def network(recipe: Recipe, device: torch.device) -> nn.Module:
    """Return a network whose last layer starts at zero."""
    model = nn.Sequential(nn.Linear(recipe.dimensions, recipe.units), nn.ReLU(), nn.Linear(recipe.units, 10))
    nn.init.zeros_(model[-1].weight)
    return model.to(device)


def fit(projected: Images, recipe: Recipe, *, noise: float, **how: Any) -> Trained:
    """Train the network on what the PCA has left of the images."""
    model = network(recipe, projected.x.device)
    return train(
        model,
        (projected.x, projected.y),
        sgd(model, recipe.lr, recipe.momentum),
        noise_multiplier=noise,
        clip_norm=recipe.clip_norm,
        batch_size=recipe.lot,
        num_steps=recipe.num_steps,
        **how,
    )


def step_noise(recipe: Recipe, num_examples: int) -> float:
    """Return the noise multiplier of the steps with which they and the PCA cost epsilon together."""
    if recipe.noise is not None:
        return recipe.noise

    def both(noise: float) -> Event:
        step = PoissonSampledEvent(GaussianEvent(noise), recipe.lot / num_examples)
        return ComposedEvent((GaussianEvent(recipe.pca_noise), SelfComposedEvent(step, recipe.num_steps)))

    return calibrate_noise(epsilon=recipe.epsilon, delta=DELTA, template=both)


def second_moments(images: Tensor) -> NDArray[np.float64]:
    """Return A^T A of images that are scaled to norm 1 and rounded; nothing is noisy yet."""
    rows = nn.functional.normalize(images.double()).mul(STEPS_OF_PIXELS * (1 - 1e-12)).trunc()
    # Whole numbers below 2^53: exact in any order.
    return np.asarray((rows.T @ rows).cpu().numpy() / STEPS_OF_PIXELS**2)


def private_directions(
    images: Tensor, recipe: Recipe, moments: NDArray[np.float64] | None = None
) -> tuple[Tensor, Event]:
    """Return the main directions of noisy second moments, as columns, and what was released to find them."""
    moments = second_moments(images) if moments is None else moments
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
    return main_directions(noisy, recipe.dimensions), release.event


def main_directions(moments: NDArray[np.float64], dimensions: int) -> Tensor:
    """Return the eigenvectors with the largest eigenvalues, as columns."""
    vectors = np.linalg.eigh(moments)[1][:, ::-1][:, :dimensions]
    return torch.from_numpy(vectors.astype(np.float32))


def _draw(settings: Settings, rows: list[Row]) -> None:
    with figure(settings, "abadi") as axes:
        budgets = list(PUBLISHED)
        axes.plot(budgets, [row.mean for row in rows], label="here, noise chosen for each budget")
        axes.plot(budgets, [PUBLISHED[budget][0] for budget in budgets], label="published")
        axes.set(xlabel="epsilon", ylabel="test accuracy, %", xscale="log", title="MNIST, PCA to 60, 1000 units")
        mark(axes, budgets)
        axes.legend(fontsize=7)


def shortened(recipe: Recipe) -> Recipe:
    return replace(recipe, lot=100, num_steps=3, dimensions=20, units=50)


if __name__ == "__main__":
    main(run, __doc__)
