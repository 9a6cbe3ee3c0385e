"""Bounds on features and norms of rows: checking public ones, and learning a norm privately.

Every estimator needs a limit on one row's contribution. It is either a public number that you pass, or learned from the
data at a cost:

    ``bounds=(lower, upper)``      each value is clamped: `check_bounds`, `feature_bounds`, `scale_to_unit`
    ``data_norm=2.0``              each row is scaled down to this norm: `check_norm`, `check_public_norm`
    ``data_norm=LearnBounds()``    part of epsilon pays for learning the norm: `split_epsilon` divides epsilon,
                                   `event_with_norm` states the cost, `resolve_norm` runs the selection

Bounds of features are learned by the scalers alone (`hush.estimators.moments.scalers`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.accounting import ComposedEvent, Event
from hush.errors import InvalidArgument, check_positive
from hush.estimators.base.estimator import Floats
from hush.mechanisms import ExponentialMechanism
from hush.numerics import round_down
from hush.randomness import RandomSource
from hush.statistics import LearnBounds

# Candidates for a learned norm, from 1e-6 to 1e12. They must not depend on the data.
_NORMS = 2.0 ** np.arange(-20, 40.25, 0.25)


_SCALE_FIRST = "This estimator cannot learn it. Put PrivateMinMaxScaler(bounds=LearnBounds(), ...) before it"


def check_bounds(name: str, bounds: Any) -> tuple[Floats, Floats]:
    """Return the lower and the upper bounds as arrays: scalars, or one number per feature.

    Args:
        name: The argument that error messages name.
        bounds: (lower, upper) as the caller passed it.
    """
    advice = "Bounds are public and never read from the data. With several features write ([0, 0], [1, 120])"
    if isinstance(bounds, LearnBounds):
        raise InvalidArgument(name, bounds, "(lower, upper)", _SCALE_FIRST)
    try:
        lower, upper = (np.asarray(end, dtype=np.float64) for end in bounds)
        valid = lower.ndim <= 1 and upper.ndim <= 1 and bool(((upper > lower) & (upper - lower < 1e100)).all())
        # Widths whose squares or inverses overflow are refused as well.
        valid = valid and bool((upper - lower > 1e-100).all() and (np.abs(lower) < 1e100).all())
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise InvalidArgument(name, bounds, "(lower, upper), finite, lower < upper", advice)
    return lower, upper


def feature_bounds(name: str, bounds: Any, num_features: int) -> tuple[Floats, Floats]:
    """Return the lower and the upper bound of each feature; a single pair applies to all of them."""
    ends = check_bounds(name, bounds)
    if any(end.ndim == 1 and len(end) != num_features for end in ends):
        raise InvalidArgument(name, bounds, f"one number per feature ({num_features}), or one for all")
    lower, upper = (np.broadcast_to(end, (num_features,)).copy() for end in ends)
    return lower, upper


def scale_to_unit(rows: Floats, lower: Floats, upper: Floats) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Clamp rows to their bounds and map the bounds to [-1, 1]; also say which rows have no missing value."""
    middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
    with np.errstate(all="ignore"):
        unit_rows = np.clip((rows - middle) / half, -1.0, 1.0)
    complete = np.asarray(~np.isnan(unit_rows).any(axis=1))
    return unit_rows, complete


def check_norm(name: str, norm: Any) -> None:
    """Check a clip norm for rows: a public number, or `LearnBounds`."""
    if not isinstance(norm, LearnBounds):
        check_public_norm(name, norm, "Pass LearnBounds() to learn it from the data")


def check_public_norm(name: str, norm: Any, *advice: str) -> None:
    """Check a public clip norm for rows. Outside these limits its square or its inverse is not finite."""
    if isinstance(norm, LearnBounds):
        raise InvalidArgument(name, norm, "a number > 0", _SCALE_FIRST)
    check_positive(name, norm, "It is a public bound on the L2 norm of a row. Longer rows are scaled down", *advice)
    if not 1e-100 < norm < 1e100:
        raise InvalidArgument(name, norm, "a number between 1e-100 and 1e100")


def split_epsilon(norm: Any, epsilon: float) -> tuple[float, float]:
    """Return the epsilon for learning the norm, which is 0 for a public one, and the epsilon that remains."""
    learning_epsilon = round_down(epsilon * norm.share) if isinstance(norm, LearnBounds) else 0.0
    return learning_epsilon, round_down(epsilon - learning_epsilon) if learning_epsilon else epsilon


def event_with_norm(norm: Any, epsilon: float, rest: Event) -> Event:
    """Return the event of the whole fit: learning the norm, unless it is public, and then the rest."""
    learning_epsilon, _ = split_epsilon(norm, epsilon)
    return ComposedEvent((_norm_selection(learning_epsilon)._event, rest)) if learning_epsilon else rest


def resolve_norm(norm: Any, rows: Floats, *, epsilon: float, source: RandomSource, order: float = 2) -> float:
    """Return a public norm as it is, or a learned one: a little above the median norm of the rows.

    Args:
        norm: A number, or `LearnBounds`.
        rows: The rows that the fit uses. They must be finite, and dropping a row must not depend on other rows.
        epsilon: Budget of the whole fit. Learning takes ``split_epsilon(norm, epsilon)[0]`` of it.
        source: Random source.
        order: Order of the norm: 2, or ``np.inf`` for the largest entry.
    """
    learning_epsilon, _ = split_epsilon(norm, epsilon)
    if not learning_epsilon:
        return float(norm)
    with np.errstate(all="ignore"):  # a norm that overflows counts as larger than every candidate
        norms = np.sort(np.linalg.norm(rows, ord=order, axis=1))
    counts_within = np.searchsorted(norms, _NORMS, side="right")
    selected = _norm_selection(learning_epsilon).release(norm_scores(counts_within, len(rows)), source).value
    # One step above the selected candidate: the median itself lies between that candidate and the one below.
    return float(_NORMS[selected] * 2.0**0.25)


def norm_scores(counts_within: Any, count: int) -> Floats:
    """Score each candidate norm by its rank error: minus its distance from the median, counted in rows.

    Adding or removing a row changes the number of rows within a candidate by at most 1 and half of ``count`` by 1/2, so
    every score changes by at most 1/2. A candidate scores 0 if the step up to it crosses the middle. Where many norms
    are equal, larger candidates therefore do not count as medians.

    Args:
        counts_within: Number of rows whose norm is at most each candidate, ascending.
        count: Number of rows.
    """
    counts_below = np.concatenate([[0], counts_within[:-1]])
    rank_errors = np.maximum(count / 2 - counts_within, counts_below - count / 2)
    return np.asarray(-np.maximum(rank_errors, 0.0))


def _norm_selection(epsilon: float) -> ExponentialMechanism:
    return ExponentialMechanism(epsilon=epsilon, sensitivity=0.5)
