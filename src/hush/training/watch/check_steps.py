"""At which steps a run is checked again: secret ones, and the last."""

from __future__ import annotations

import hashlib

import numpy as np

from hush.randomness import KeyedSource
from hush.training.plan.units import random_subset

# A check plays the tape twice, runs the model twice and follows gradients twice: less than three steps, so that
# one check in 300 steps is less than 1 % of the run.
_STEPS_PER_CHECK = 300


def check_steps(num_steps: int, key: bytes) -> frozenset[int]:
    """Return the numbers of the steps to check: the last, and one of 300 others, at least one, at random.

    A loss that changes in all but the steps that everybody knows is found nearly surely; one that changes in a share p
    of the steps, with probability 1 - (1 - p)^k, where k is the number of secret steps.

    Args:
        num_steps: How many steps the run has.
        key: 32 bytes that nothing else is drawn with.

    >>> len(check_steps(500, bytes(32))), len(check_steps(6000, bytes(32))), check_steps(1, bytes(32))
    (2, 20, frozenset({0}))
    """
    secret = min(max(num_steps // _STEPS_PER_CHECK - 1, 1), max(num_steps - 2, 0))
    # Step 0 is checked anyway, as a new kind of batch.
    chosen = random_subset(np.arange(1, max(num_steps - 1, 1)), secret, KeyedSource(key, 0)) if secret else ()
    return frozenset([*map(int, chosen), num_steps - 1])


def check_position(step: int, key: bytes, num_batches: int) -> int:
    """Return which physical batch of a step to check."""
    digest = hashlib.sha256(key + step.to_bytes(8, "big")).digest()
    return int.from_bytes(digest[:8], "big") % num_batches
