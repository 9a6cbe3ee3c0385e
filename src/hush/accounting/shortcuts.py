"""The one-liner that everybody needs."""

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
    """Return the epsilon of DP-SGD: a certified upper bound, by privacy loss distributions.

    Args:
        noise_multiplier: standard deviation of the noise on the clipped sum, over the clip norm.
        sampling_rate: probability with which each record is in a batch (Poisson sampling).
        num_steps: number of steps.
        delta: at which to state epsilon.
        relation: neighbouring relation.

    Guarantee:
        Never below the true epsilon; above it by about 2e-6, relatively.

    Assumes:
        Poisson sampling, independent at each step (the caller's duty).

    References:
        `PldAccountant`.

    >>> round(epsilon(noise_multiplier=4.0, sampling_rate=0.01, num_steps=10_000, delta=1e-5), 4)
    0.9469
    """
    step = PoissonSampledEvent(GaussianEvent(noise_multiplier), sampling_rate)
    return PldAccountant(relation=relation).compose(step, num_steps).epsilon(delta)
