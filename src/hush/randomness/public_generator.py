"""Randomness that protects no one, such as resampling scores or choosing the examples of a shadow model.

It need not be secret, only repeatable, so NumPy's generators suffice. Arguments for it are called ``rng``, as in NumPy.
Noise never comes from here: it comes from a `hush.randomness.RandomSource`, passed as ``source``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.errors import check_count


def public_generator(rng: Any) -> np.random.Generator:
    """Return a generator as it is, or create one from a seed.

    >>> import numpy as np
    >>> public_generator(7).integers(10, size=3).tolist() == np.random.default_rng(7).integers(10, size=3).tolist()
    True

    Args:
        rng: A NumPy generator, which the caller goes on using, or a seed: an integer >= 0.
    """
    if isinstance(rng, np.random.Generator):
        return rng
    # No default: only randomness that the caller chose can be repeated.
    return np.random.default_rng(check_count("rng", rng, "Or pass a numpy.random.Generator", minimum=0))
