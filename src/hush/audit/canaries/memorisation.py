"""Exposure: how much better a language model knows a secret than random alternatives (the "secret sharer" test)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import skewnorm

from hush.errors import InvalidArgument

Floats = NDArray[np.float64]


def exposure(perplexities: ArrayLike, references: ArrayLike, *, extrapolate: bool = False) -> Floats:
    """Return log2 |R| - log2 rank for each secret, by its perplexity among random references R.

    The rank is one more than the number of references with a perplexity of at most the secret's, so a tie counts
    against the secret. A secret that is likelier than all references has exposure log2 |R|, the most that ranks can
    show. To see beyond, extrapolate: then it is -log2 F(perplexity), with a skew normal distribution F that is fitted
    to the references. It measures unintended memorisation.

    >>> exposure([0.0, 3.5, 20.0], range(1, 17)).round(4).tolist()
    [4.0, 2.0, -0.0875]
    >>> bool(exposure([-20.0], range(1, 17), extrapolate=True)[0] > 4)
    True

    Args:
        perplexities: The perplexities of the secrets that were put into the data.
        references: The perplexities of alternatives from the same distribution that were not; at least ten if you
            extrapolate.
        extrapolate: Fit a distribution instead of counting ranks.

    Returns:
        The exposure of each secret, in bits.

    References:
        Carlini et al. 2019, Definition 5 (exposure, estimated by sampling), Section 4.3 (by distribution modelling).
    """
    secret_values, reference_values = _checked(perplexities, references)
    if extrapolate:
        return _extrapolated(secret_values, reference_values)
    # side="right" counts ties as likelier than the secret.
    ranks = 1 + np.searchsorted(np.sort(reference_values), secret_values, side="right")
    return np.asarray(math.log2(len(reference_values)) - np.log2(ranks))


def _extrapolated(secret_values: Floats, reference_values: Floats) -> Floats:
    if len(reference_values) < 10 or not float(np.ptp(reference_values)) > 0:
        raise InvalidArgument(
            "references", len(reference_values), "at least ten, not all the same", "A distribution is fitted to them"
        )
    # Exposure is -log2 of the chance that a random alternative is at least as likely as the secret.
    return np.asarray(-skewnorm.logcdf(secret_values, *skewnorm.fit(reference_values)) / math.log(2))


def _checked(perplexities: ArrayLike, references: ArrayLike) -> tuple[Floats, Floats]:
    secret_values = np.atleast_1d(np.asarray(perplexities, dtype=np.float64))
    reference_list = list(references) if isinstance(references, range) else references
    reference_values = np.asarray(reference_list, dtype=np.float64).ravel()
    for name, values in (("perplexities", secret_values), ("references", reference_values)):
        if not len(values) or bool(np.isnan(values).any()):
            raise InvalidArgument(name, len(values), "at least one number, and no NaN")
    return secret_values, reference_values
