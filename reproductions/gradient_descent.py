"""DP gradient descent on a convex problem: noise by basic composition, noise by tight accounting, the utility bound.

Even against odd digits, 10,000 images of norm 1, logistic loss, weights in a ball of radius R. Every gradient has
norm at most L = 1, so that clipping to 1 changes nothing, and theory applies as it stands. Neighbours differ in one
image that is replaced; the mean gradient then moves by 2 L / n at most. Per step, noise of standard deviation

    basic:  4 T L sqrt(ln(2 T / delta)) / (epsilon n)    each of T steps gets (epsilon / T, delta / T)
    tight:  2 L sqrt(T) / (mu n)                         mu-GDP as a whole; here by `hush.privatize(epsilon=...)`

Utility (projected stochastic gradient descent, Nemirovski et al. 2009; used so by Bassily, Smith and Thakurta 2014,
whose algorithm samples): with w_0 = 0 and step size R / (G sqrt(T)), the mean of w_0 .. w_(T-1) has an expected
excess risk of at most R G / sqrt(T), where G^2 = L^2 + d noise^2. By basic composition noise grows like T and the
bound has a minimum at few steps; by tight accounting it grows like sqrt(T), and the bound falls to R sqrt(d) noise /
sqrt(T), which is flat.

    python reproductions/gradient_descent.py [--seeds 3] [--data DIR] [--quick]
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from common import DELTA, PIXEL_MEANS, Row, Settings, figure, load, main, mark, measure
from torch import Tensor, nn

import hush
from hush.guarantee import Relation
from hush.training import Ball

EPSILON, RADIUS, LIPSCHITZ, NUM_EXAMPLES = 1.0, 10.0, 1.0, 10_000
STEPS = (2, 3, 10, 30, 100, 300)  # with one, the mean is w_0


def run(settings: Settings) -> list[Row]:
    x, y, x_test, y_test = problem(settings)
    least = minimum(x, y, 50 if settings.quick else 1500)
    rows, curves = [], {}
    for way in ("tight", "basic"):
        points = []
        for num_steps in STEPS[1:3] if settings.quick else STEPS:
            noise = None if way == "tight" else basic_noise(num_steps, len(x)) * len(x)
            excess: list[float] = []

            def once(
                noise: float | None = noise, num_steps: int = num_steps, excess: list[float] = excess
            ) -> tuple[float, float]:
                weights, epsilon, _ = descend(x, y, num_steps, noise)
                excess.append(risk(weights, x, y).item() - least)
                return 100 * (x_test @ weights * y_test > 0).double().mean().item(), epsilon

            row = measure(settings, once, f"DP-GD, {way} noise, T = {num_steps}", "mnist, even or odd")
            mean, bound = (
                sum(excess) / len(excess),
                utility_bound(num_steps, noise_of(num_steps, len(x), noise), x.shape[1]),
            )
            rows.append(replace(row, note=f"excess risk {mean:.4f}, bound {bound:.3f}"))
            points.append((num_steps, mean, bound))
        curves[way] = points
    _draw(settings, curves)
    return rows


def problem(settings: Settings) -> tuple[Tensor, ...]:
    """Return images of norm 1 and signs, for training and test."""
    mnist = load("mnist", settings)
    parts = (mnist.x[:NUM_EXAMPLES], mnist.y[:NUM_EXAMPLES]), (mnist.x_test, mnist.y_test)
    return tuple(
        tensor for x, y in parts for tensor in (F.normalize(x + PIXEL_MEANS["mnist"]), 1.0 - 2.0 * (y % 2).float())
    )


def risk(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean logistic loss."""
    return F.softplus(-(x @ weights) * y).mean()


def basic_noise(num_steps: int, num_examples: int) -> float:
    """Return the noise on the mean gradient that basic composition asks for."""
    return 4 * num_steps * LIPSCHITZ * math.sqrt(math.log(2 * num_steps / DELTA)) / (EPSILON * num_examples)


def noise_of(num_steps: int, num_examples: int, noise: float | None) -> float:
    """Return the noise on the mean gradient; that of tight accounting, if none is given for the sum."""
    if noise is None:
        noise = hush.accounting.calibrate_noise(
            epsilon=EPSILON, delta=DELTA, num_steps=num_steps, relation=Relation.REPLACE
        )
    return noise * LIPSCHITZ / num_examples


def utility_bound(num_steps: int, noise: float, dimension: int) -> float:
    """Return R G / sqrt(T)."""
    return RADIUS * math.sqrt((LIPSCHITZ**2 + dimension * noise**2) / num_steps)


def descend(x: Tensor, y: Tensor, num_steps: int, noise: float | None) -> tuple[Tensor, float, float]:
    """Return the mean of the weights at which gradients were taken, the true epsilon, and the noise multiplier."""
    model = nn.Linear(x.shape[1], 1, bias=False)
    nn.init.zeros_(model.weight)
    step_size = RADIUS**2 / num_steps / utility_bound(num_steps, noise_of(num_steps, len(x), noise), x.shape[1])
    private = hush.privatize(
        model,
        torch.optim.SGD(model.parameters(), lr=step_size),
        (x, y),
        delta=DELTA,
        num_steps=num_steps,
        clip_norm=LIPSCHITZ,
        relation=Relation.REPLACE,
        projection=Ball(RADIUS),
        **({"epsilon": EPSILON} if noise is None else {"noise_multiplier": noise}),
    )
    total = torch.zeros(x.shape[1], dtype=torch.float64)
    for features, signs in private.loader:
        total += model.weight.detach()[0]
        private.step(F.softplus(-model(features)[:, 0] * signs))
    return (total / num_steps).float(), private.guarantee().epsilon, private.plan.noise_multiplier


def minimum(x: Tensor, y: Tensor, num_steps: int) -> float:
    """Return the least risk in the ball, by accelerated projected gradients; the curvature is at most 1/4."""
    weights = previous = torch.zeros(x.shape[1])
    for number in range(num_steps):
        ahead = (weights + number / (number + 3) * (weights - previous)).requires_grad_()
        (gradient,) = torch.autograd.grad(risk(ahead, x, y), ahead)
        moved = ahead.detach() - 4 * gradient
        previous, weights = weights, moved * min(1.0, RADIUS / moved.norm().item())
    return risk(weights, x, y).item()


def _draw(settings: Settings, curves: dict[str, list[tuple[int, float, float]]]) -> None:
    with figure(settings, "gradient_descent") as axes:
        for (way, points), colour in zip(curves.items(), ("#0072B2", "#D55E00"), strict=True):
            steps, means, bounds = zip(*points, strict=True)
            axes.plot(steps, means, color=colour, label=f"{way} noise, measured")
            axes.plot(steps, bounds, color=colour, linestyle="--", marker="", label=f"{way} noise, bound")
        axes.set(xscale="log", yscale="log", xlabel="steps T", ylabel="excess empirical risk")
        axes.set_title(f"epsilon {EPSILON:g}, n = {NUM_EXAMPLES}, R = {RADIUS:g}")
        mark(axes, steps)
        axes.legend(fontsize=7)


if __name__ == "__main__":
    main(run, __doc__)
