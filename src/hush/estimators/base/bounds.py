"""Public bounds of features and norms of rows, and the way to learn them privately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.accounting import ComposedEvent, Event
from hush.errors import InvalidArgument, check_positive
from hush.estimators.base.estimator import Floats
from hush.mechanisms import ExponentialMechanism
from hush.numerics import down
from hush.randomness import RandomSource

_NORMS = 2.0 ** np.arange(-20, 40.25, 0.25)  # from 1e-6 to 1e12, and public


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnBounds:
    """Bounds, or a norm of rows, that are learned from the data, with a share of the budget.

    Given as ``data_norm``, the norm is 2^(1/4) times the median of the rows' norms, about, which the exponential
    mechanism chooses among powers of 2^(1/4) from 1e-6 to 1e12; longer rows are scaled down, as with a public norm.
    That takes some 20 / (share * epsilon) rows.

    Guarantee:
        Learning costs share * epsilon, at delta = 0, add or remove; the estimator's guarantee includes it.

    Assumes:
        Nothing of the data.

    References:
        Wilson et al. 2020 (bounds, by noisy counts); Smith 2011 (a quantile, by the exponential mechanism).

    Attributes:
        share: The part of epsilon that learning may cost.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        """Check the share."""
        if not check_positive("share", self.share) < 1:
            raise InvalidArgument("share", self.share, "a number in (0, 1)", "The rest is for what bounds are for")


_SCALE_FIRST = "It is not learned here: put a PrivateMinMaxScaler(bounds=LearnBounds(), ...) before it"


def check_bounds(name: str, bounds: Any) -> tuple[Floats, Floats]:
    """Return lower and upper ends, one number each or one for each feature."""
    advice = "They are public, and never read from the data; for several features such as ([0, 0], [1, 120])"
    if isinstance(bounds, LearnBounds):
        raise InvalidArgument(name, bounds, "(lower, upper)", _SCALE_FIRST)
    try:
        lower, upper = (np.asarray(end, dtype=np.float64) for end in bounds)
        fine = lower.ndim <= 1 and upper.ndim <= 1 and bool(((upper > lower) & (upper - lower < 1e100)).all())
        fine = fine and bool((upper - lower > 1e-100).all() and (np.abs(lower) < 1e100).all())
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InvalidArgument(name, bounds, "(lower, upper), finite, lower < upper", advice)
    return lower, upper


def fitted_bounds(name: str, bounds: Any, num_features: int) -> tuple[Floats, Floats]:
    """Return bounds of each feature."""
    ends = check_bounds(name, bounds)
    if any(end.ndim == 1 and len(end) != num_features for end in ends):
        raise InvalidArgument(name, bounds, f"one number for each of {num_features} features, or one for all")
    lower, upper = (np.broadcast_to(end, (num_features,)).copy() for end in ends)
    return lower, upper


def scaled(rows: Floats, lower: Floats, upper: Floats) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return rows clamped to the bounds, which become -1 and 1, and which of them are complete."""
    middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
    with np.errstate(all="ignore"):
        units = np.clip((rows - middle) / half, -1.0, 1.0)
    complete = np.asarray(~np.isnan(units).any(axis=1))
    return units, complete


def check_norm(name: str, norm: Any) -> None:
    """Check a public norm of rows; one that is to be learned is a `LearnBounds`."""
    if not isinstance(norm, LearnBounds):
        check_public_norm(name, norm, "Or LearnBounds(), to learn it")


def check_public_norm(name: str, norm: Any, *advice: str) -> None:
    """Check a norm of rows; beyond these limits its square, or its inverse, would be no number."""
    if isinstance(norm, LearnBounds):
        raise InvalidArgument(name, norm, "a number > 0", _SCALE_FIRST)
    check_positive(name, norm, "A public bound on the L2 norm of rows: longer ones are scaled down", *advice)
    if not 1e-100 < norm < 1e100:
        raise InvalidArgument(name, norm, "between 1e-100 and 1e100")


def norm_costs(norm: Any, epsilon: float) -> tuple[float, float]:
    """Return the epsilon for learning a norm of rows, 0 for one that is public, and what is left for the rest."""
    learning = down(epsilon * norm.share) if isinstance(norm, LearnBounds) else 0.0
    return learning, down(epsilon - learning) if learning else epsilon


def with_norm(norm: Any, epsilon: float, rest: Event) -> Event:
    """Return the event of learning a norm, if it is not public, and of the rest."""
    learning, _ = norm_costs(norm, epsilon)
    return ComposedEvent((_choice(learning)._event, rest)) if learning else rest


def fitted_norm(norm: Any, rows: Floats, *, epsilon: float, source: RandomSource, order: float = 2) -> float:
    """Return the norm that is given; or one a little above the median of the rows, which must be finite.

    Args:
        norm: A number, or `LearnBounds`.
        rows: Those that count: left out are others by a rule for each row.
        epsilon: Of the whole fit; learning costs ``norm_costs(norm, epsilon)[0]``.
        source: Of randomness.
        order: Of the norm.
    """
    learning, _ = norm_costs(norm, epsilon)
    if not learning:
        return float(norm)
    with np.errstate(all="ignore"):  # beyond all candidates is where infinite norms are, too
        norms = np.sort(np.linalg.norm(rows, ord=order, axis=1))
    within = np.searchsorted(norms, _NORMS, side="right")
    chosen = _choice(learning).release(norm_scores(within, len(rows)), source).value
    return float(_NORMS[chosen] * 2.0**0.25)


def norm_scores(within: Any, count: int) -> Floats:
    """Return how far from the median each candidate is, in rows, for so many rows within each; one moves it by 1/2.

    The step to a candidate has to cross the middle: so, where many norms are equal, those above them are no medians.
    """
    below = np.concatenate([[0], within[:-1]])
    off = np.maximum(count / 2 - within, below - count / 2)
    return np.asarray(-np.maximum(off, 0.0))


def _choice(epsilon: float) -> ExponentialMechanism:
    return ExponentialMechanism(epsilon=epsilon, sensitivity=0.5)
