"""The models that `hush attack demo` attacks: one network, trained without and with privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from hush.guarantee import Guarantee
from hush.training import fit

HIDDEN = 64
DELTA = 1e-5
# Chosen from about twenty-five settings on Location-30, by the attack's success as much as by accuracy: with clip norm
# 8, accuracy is higher (0.41, not 0.34), but online LiRA's AUC is about 0.54 instead of 0.52. The data are public, so
# the choice does not count towards epsilon.
STEPS, CLIP_NORM, RATE, MOMENTUM = 30, 12.0, 0.1, 0.9
PLAIN_STEPS, BATCH, PLAIN_RATE = 800, 200, 1e-3


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: matrices this small are slower with several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Predict = Callable[[NDArray[Any]], NDArray[np.float64]]


def plain(num_classes: int) -> Callable[[NDArray[Any], NDArray[np.int64]], Predict]:
    """Return a training without any privacy, which memorises its examples."""

    def train(x: NDArray[Any], labels: NDArray[np.int64]) -> Predict:
        inputs, targets = _tensors(x, labels)
        model = network(inputs.shape[1], num_classes)
        optimizer = torch.optim.Adam(model.parameters(), lr=PLAIN_RATE)
        for _ in range(math.ceil(PLAIN_STEPS * BATCH / len(targets))):
            for rows in torch.split(torch.randperm(len(targets)), BATCH):
                optimizer.zero_grad()
                F.cross_entropy(model(inputs[rows]), targets[rows]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return _predict(model)

    return train


class PrivateNetwork:
    """The same network, trained privately on all examples in every step.

    Attributes:
        guarantee: The guarantee of the last training; None before the first.
    """

    def __init__(self, num_classes: int, *, epsilon: float, expected: float) -> None:
        """Take the number of classes, the budget, and the public, expected number of members."""
        self._num_classes, self._epsilon, self._expected = num_classes, epsilon, expected
        self.guarantee: Guarantee | None = None

    def __call__(self, x: NDArray[Any], labels: NDArray[np.int64]) -> Predict:
        inputs, targets = _tensors(x, labels)
        model = network(inputs.shape[1], self._num_classes)
        # `fit` divides the sum of gradients by the number of members. That number must not show in a step, so the
        # learning rate turns it into the expected one.
        rate = RATE * len(targets) / self._expected
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
        private = fit(
            model,
            (inputs, targets),
            delta=DELTA,
            epsilon=self._epsilon,
            num_steps=STEPS,
            clip_norm=CLIP_NORM,
            optimizer=optimizer,
            progress=False,
        )
        self.guarantee = private.guarantee()
        return _predict(model)


def network(num_features: int, num_classes: int) -> nn.Module:
    """Return a network with one hidden layer."""
    return nn.Sequential(nn.Linear(num_features, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, num_classes))


def _tensors(x: NDArray[Any], labels: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return inputs and labels as tensors."""
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)), torch.from_numpy(labels)


def _predict(model: nn.Module) -> Predict:
    """Return the function from inputs to the class probabilities of a model."""

    def predict(x: NDArray[Any]) -> NDArray[np.float64]:
        model.eval()
        with torch.no_grad():
            logits = model(torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))).double()
        return np.asarray(F.softmax(logits, 1).numpy())  # in double precision, or certainty would be rounded to 1

    return predict
