"""Private Frank-Wolfe: steps towards corners of an L1 ball, each chosen by the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hush.accounting import Event, SelfComposedEvent, calibrate_noise, events
from hush.errors import check_count, check_positive
from hush.estimators.base.estimator import Floats
from hush.estimators.linear.method import LinearMethod, LinearRecipe, Places, Problem, signs
from hush.estimators.linear.sums import exact_products, truncated
from hush.mechanisms import ExponentialMechanism
from hush.numerics import down
from hush.randomness import RandomSource

_SLACK = 1e-7  # sums are exact; what their conversion to floats rounds is far below


@dataclass(frozen=True, slots=True, kw_only=True)
class FrankWolfe(LinearMethod):
    """Minimise the sum of losses over an L1 ball, by steps towards its corners.

    Choose it for very many features of which few matter: what it loses grows with the logarithm of their number. Rows
    are bounded in their largest entry, by ``data_norm``, not in L2 norm. It regularises by the ball alone.

    Guarantee:
        (epsilon, delta)-DP, add or remove: only the chosen corners are used, each an exponential mechanism.

    Assumes:
        Entries of rows are at most 1 (checked here: rows are scaled down). Sums are exact in fixed point (checked
        here).

    References:
        Talwar, Thakurta & Zhang 2015, Algorithm 2, for sums (which need no number of records) and with the exponential
        mechanism in the place of noisy minima.

    Attributes:
        num_steps: How many.
        radius: Of the L1 ball, in units of 1 / data_norm.
    """

    largest_entry = True

    num_steps: int = 30
    radius: float = 10.0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_count("num_steps", self.num_steps)
        check_positive("radius", self.radius, maximum=1e3)

    def prepare(self, problem: Problem) -> LinearRecipe:
        """Divide epsilon between the choices."""
        choices = self.num_steps * problem.outputs
        return _Corners(problem=problem, method=self, epsilon=_each(problem.epsilon, problem.delta, choices))


@lru_cache(maxsize=64)
def _each(epsilon: float, delta: float, choices: int) -> float:
    """Return the epsilon of each choice: the sum's share, or what composition of bounded ranges allows, if more."""
    plain = down(epsilon / choices)
    if not delta > 0 or choices == 1:
        return plain
    found = 1 / calibrate_noise(
        epsilon=epsilon,
        delta=delta,
        template=lambda noise: SelfComposedEvent(events.ExponentialMechanismEvent(1 / noise), choices),
    )
    return max(plain, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Corners(LinearRecipe):
    problem: Problem
    method: FrankWolfe
    epsilon: float

    @property
    def event(self) -> Event:
        return SelfComposedEvent(
            events.ExponentialMechanismEvent(self.epsilon), self.method.num_steps * self.problem.outputs
        )

    def run(self, rows: Floats, places: Places, source: RandomSource) -> Floats:
        rows, labels = truncated(rows), signs(places, self.problem.outputs)
        return np.stack([self._one(rows, labels[:, k], source) for k in range(labels.shape[1])])

    def _one(self, rows: Floats, labels: Floats, source: RandomSource) -> Floats:
        choice = ExponentialMechanism(epsilon=self.epsilon, sensitivity=1 + _SLACK)
        weights = np.zeros(rows.shape[1])
        for step in range(self.method.num_steps):
            margins = rows @ truncated(weights)  # exact, too: no row's slope depends on where it stands
            slopes = truncated(self.problem.loss.slope(margins * labels) * labels)
            gradient = exact_products(slopes[:, None], rows)[0]
            corner = choice.release(np.concatenate([-gradient, gradient]), source).value
            target = np.zeros_like(weights)
            target[corner % len(weights)] = self.method.radius * (1 if corner < len(weights) else -1)
            weights += 2 / (step + 2) * (target - weights)
        return weights
