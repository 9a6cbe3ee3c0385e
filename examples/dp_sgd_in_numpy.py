"""DP-SGD from scratch, on one page of NumPy: what every line protects, and what it must not do.

Read it beside `reproductions/report_recipe.py`, which clips the gradient of the batch, adds noise that does not depend
on the clip norm, and shuffles. The model is the same: ten logistic regressions, one for each digit.

    python examples/dp_sgd_in_numpy.py [--epsilon 3] [--num-steps 300]

This is for reading: its noise comes from a generator that anyone can repeat, and is rounded in a way that reveals sums.
`hush.privatize` computes the same clipped sums (a test compares them), and adds noise that is secret and exact.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from hush import accounting

CLASSES, CLIP_NORM, LEARNING_RATE, SAMPLING_RATE, DELTA = 10, 1.0, 4.0, 0.2, 1e-5
Floats = NDArray[np.float64]


def example_gradients(x: Floats, y: NDArray[np.int64], weights: Floats, biases: Floats) -> tuple[Floats, Floats]:
    """Return the gradients of every example by itself: [n, features, classes] and [n, classes]."""
    errors = 1 / (1 + np.exp(-(x @ weights + biases))) - np.eye(CLASSES)[y]
    return x[:, :, None] * errors[:, None, :], errors


def clipped_sum(
    x: Floats, y: NDArray[np.int64], weights: Floats, biases: Floats, clip_norm: float
) -> tuple[Floats, Floats]:
    """Return the sum of gradients, each scaled down to the clip norm. One example moves it by at most the clip norm."""
    of_weights, of_biases = example_gradients(x, y, weights, biases)
    # One norm for all parameters together: clipping each to C would let an example move the sum by C sqrt(2).
    norms = np.sqrt((of_weights**2).sum((1, 2)) + (of_biases**2).sum(1))
    factors = np.minimum(1.0, clip_norm / np.maximum(norms, 1e-12))
    return np.tensordot(factors, of_weights, 1), factors @ of_biases


def train(
    x: Floats, y: NDArray[np.int64], *, noise_multiplier: float, num_steps: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Train by DP-SGD."""
    weights, biases = np.zeros((x.shape[1], CLASSES)), np.zeros(CLASSES)
    batch_size = SAMPLING_RATE * len(x)  # the expected size: the size of a sample is private
    for _ in range(num_steps):
        # Every example by a coin of its own (a Poisson sample). The accountant's q is about nothing else.
        sample = rng.random(len(x)) < SAMPLING_RATE
        sums = clipped_sum(x[sample], y[sample], weights, biases, CLIP_NORM)
        for parameter, total in zip((weights, biases), sums, strict=True):
            # Once for each step, on the sum, in proportion to the clip norm; an empty sample gets its noise, too.
            noise = rng.normal(0.0, noise_multiplier * CLIP_NORM, total.shape)
            parameter -= LEARNING_RATE * (total + noise) / batch_size
    return weights, biases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--num-steps", type=int, default=300)
    options = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    x, rng = images / 16, np.random.default_rng(1)
    order = rng.permutation(len(x))
    held_out, training = order[: len(x) // 4], order[len(x) // 4 :]
    steps = {"sampling_rate": SAMPLING_RATE, "num_steps": options.num_steps}
    noise = accounting.calibrate_noise(epsilon=options.epsilon, delta=DELTA, **steps)
    weights, biases = train(x[training], labels[training], noise_multiplier=noise, num_steps=options.num_steps, rng=rng)
    accuracy = ((x[held_out] @ weights + biases).argmax(1) == labels[held_out]).mean()
    spent = accounting.epsilon(noise_multiplier=noise, delta=DELTA, **steps)
    print(f"noise multiplier {noise:.3f}, epsilon <= {spent:.4g} at delta {DELTA:g}")
    print(f"accuracy on {len(held_out)} images that nobody trained on: {accuracy:.1%}")


if __name__ == "__main__":
    main()
