"""A shortcut for the most common question: the epsilon of DP-SGD."""

from __future__ import annotations

from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.events import GaussianEvent, PoissonSampledEvent
from hush.guarantee import Relation


def epsilon(
    *,
    noise_multiplier: float,
    sampling_rate: float = 1.0,
    num_steps: int = 1,
    delta: float,
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> float:
    """Return the epsilon of DP-SGD: a certified upper bound, from privacy loss distributions.

    >>> round(epsilon(noise_multiplier=4.0, sampling_rate=0.01, num_steps=10_000, delta=1e-5), 4)
    0.9469

    Args:
        noise_multiplier: The standard deviation of the noise on the clipped sum, divided by the clip norm.
        sampling_rate: The probability that a record is in a batch (Poisson sampling).
        num_steps: The number of steps.
        delta: The delta at which to state epsilon.
        relation: How neighbouring datasets differ.

    Guarantee:
        Never below the true epsilon, and above it by a relative 2e-6 or so.

    Assumes:
        Poisson sampling, independent at each step (the caller's duty).

    References:
        `PldAccountant`.
    """
    step = PoissonSampledEvent(GaussianEvent(noise_multiplier), sampling_rate)
    return PldAccountant(relation=relation).compose(step, num_steps).epsilon(delta)
