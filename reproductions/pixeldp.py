"""A noise layer inside a network (PixelDP, Lecuyer et al. 2019): the noise, the certificate, and an attack beside it.

A small convolutional network is trained on MNIST with Gaussian noise after its first layer, whose sensitivity in L2
norm is 1 by construction. The prediction is the class of the largest expected score. Each certificate holds with
probability 0.999 and is of 1,000 draws. The attack is projected gradient descent of 20 steps, through the mean of 8
draws. A network with hardly any noise is attacked beside it. Accuracy is over the first 100 test images. Nothing here
is private.

    python reproductions/pixeldp.py [--seeds 1] [--data DIR] [--quick]
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from common import Images, Row, Settings, figure, load, main
from torch import Tensor, nn

from hush.stability import InputNorm, NoiseLayer, NoisyNetwork, pgd

NOISES = (0.15, 0.4, 1.0)
RADII = (0.25, 0.5, 1.0)  # in L2 norm, of pixels in [0, 1]
GRID = np.linspace(0, 2.0, 81)


def network(noise_stddev: float) -> NoisyNetwork:
    """Return a network whose first layer has noise."""
    rest = nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 49, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    first = nn.Conv2d(1, 16, 5, stride=2, padding=2)
    return NoisyNetwork(NoiseLayer(first, noise_stddev=noise_stddev, norm=InputNorm.L2), rest)


def trained(images: Images, noise_stddev: float, num_steps: int) -> NoisyNetwork:
    """Train with fresh noise in every step."""
    model = network(noise_stddev)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=num_steps)
    for _ in range(num_steps):
        batch = torch.randint(len(images.x), (128,))
        optimizer.zero_grad()
        F.cross_entropy(model(images.x[batch].view(-1, 1, 28, 28)), images.y[batch]).backward()
        optimizer.step()
        rates.step()
    return model.eval()


@dataclass(frozen=True, slots=True)
class Curve:
    """The results of one network, in shares of images."""

    radii: np.ndarray  # certified; -1 where the class is wrong or none is certain
    right: float
    attacked: dict[float, float]  # right under attack, by radius

    def certified(self, radius: float) -> float:
        """Return the share of images that are right and certified at a radius."""
        return float((self.radii >= radius).mean())


def measured(model: NoisyNetwork, x: Tensor, y: Tensor, num_samples: int) -> Curve:
    """Certify and attack."""
    certificates = [model.certify(image, num_samples=num_samples) for image in x]
    radii = [c.radius if c.label == int(truth) else -1.0 for c, truth in zip(certificates, y, strict=True)]

    def right(images: Tensor) -> float:
        answers = [model.predict(image, num_samples=100) for image in images]
        return float(np.mean([answer == int(truth) for answer, truth in zip(answers, y, strict=True)]))

    attacked = {radius: right(pgd(model, x, y, radius=radius, num_draws=8)) for radius in RADII}
    return Curve(np.array(radii), right(x), attacked)


def run(settings: Settings) -> list[Row]:
    """Train, certify and attack, at each noise."""
    images = load("mnist", settings)
    steps, count, samples = (20, 10, 100) if settings.quick else (600, 100, 1000)
    x, y = images.x_test[:count].view(-1, 1, 28, 28), images.y_test[:count]
    rows, curves = [], {}
    for noise in (1e-3, *NOISES):
        start, results = time.perf_counter(), []
        for seed in settings.seeds:
            torch.manual_seed(seed)
            results.append(measured(trained(images, noise, steps), x, y, samples))
        seconds = (time.perf_counter() - start) / len(settings.seeds)
        curves[noise] = results
        name = "almost no noise" if noise < min(NOISES) else f"noise {noise:g}"
        figures = {"right": [one.right for one in results]}
        for radius in RADII:
            figures[f"certified at {radius:g}"] = [one.certified(radius) for one in results]
            figures[f"right under attack at {radius:g}"] = [one.attacked[radius] for one in results]
        for what, shares in figures.items():
            rows.append(Row(f"{name}: {what}", "mnist", "", None, math.inf, [100 * share for share in shares], seconds))
            print(rows[-1].experiment, f"{rows[-1].mean:.1f}", f"{seconds:.0f} s", flush=True)
    _draw(settings, {noise: results for noise, results in curves.items() if noise in NOISES})
    return rows


def _draw(settings: Settings, curves: dict[float, list[Curve]]) -> None:
    with figure(settings, "pixeldp", columns=2) as (by_radius, by_noise):
        for noise, results in curves.items():
            shares = [100 * np.mean([one.certified(radius) for one in results]) for radius in GRID]
            by_radius.plot(GRID, shares, label=f"noise {noise:g}", marker="")
        by_radius.set(xlabel="radius (L2)", ylabel="certified accuracy, %", ylim=(0, 101))
        by_radius.legend()
        for radius in RADII:
            shares = [100 * np.mean([one.certified(radius) for one in results]) for results in curves.values()]
            (line,) = by_noise.plot(list(curves), shares, label=f"certified at {radius:g}")
            attacked = [100 * np.mean([one.attacked[radius] for one in results]) for results in curves.values()]
            by_noise.plot(list(curves), attacked, label=f"under attack at {radius:g}", ls=":", color=line.get_color())
        by_noise.set(xlabel="noise", ylabel="accuracy, %", ylim=(-2, 140), yticks=range(0, 101, 20))
        by_noise.legend(fontsize=7, loc="upper center", ncols=2)


if __name__ == "__main__":
    main(run, __doc__)
