"""Secret-sharer exposure: how much better a model knows a secret than others that it could have been."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import skewnorm

from hush.errors import InvalidArgument

Floats = NDArray[np.float64]


def exposure(perplexities: ArrayLike, references: ArrayLike) -> Floats:
    """Return log2 |R| - log2 rank of secrets among random references, by their perplexities.

    The rank of a secret is one more than the number of references that the model finds no less likely, so that a tie
    counts against it. A secret that is likelier than all references has exposure log2 |R|, and no more can be seen.

    >>> exposure([0.0, 3.5, 20.0], range(1, 17)).round(4).tolist()
    [4.0, 2.0, -0.0875]

    Args:
        perplexities: Of the secrets that were put into the data.
        references: Of as many other secrets, drawn alike, that were not.

    References:
        Carlini et al. 2019, Definition 5 (exposure, estimated by sampling).
    """
    found, others = _checked(perplexities, references)
    ranks = 1 + np.searchsorted(np.sort(others), found, side="right")
    return np.asarray(math.log2(len(others)) - np.log2(ranks))


def exposure_extrapolated(perplexities: ArrayLike, references: ArrayLike) -> Floats:
    """Return -log2 F(perplexity), with F a skew normal law fitted to the references: beyond log2 |R|, an extrapolation.

    References:
        Carlini et al. 2019, Section 4.3 (exposure by distribution modelling).
    """
    found, others = _checked(perplexities, references)
    if len(others) < 10 or not float(np.ptp(others)) > 0:
        raise InvalidArgument("references", len(others), "at least ten, not all the same", "A law is fitted to them")
    return np.asarray(-skewnorm.logcdf(found, *skewnorm.fit(others)) / math.log(2))


def _checked(perplexities: ArrayLike, references: ArrayLike) -> tuple[Floats, Floats]:
    found = np.atleast_1d(np.asarray(perplexities, dtype=np.float64))
    others = np.asarray(list(references) if isinstance(references, range) else references, dtype=np.float64).ravel()
    for name, values in (("perplexities", found), ("references", others)):
        if not len(values) or bool(np.isnan(values).any()):
            raise InvalidArgument(name, len(values), "numbers, one at least, and no NaN")
    return found, others
