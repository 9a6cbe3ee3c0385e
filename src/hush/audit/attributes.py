"""Attribute inference: guessing what is missing of a record from a model, beside guessing it without the model.

- `infer_attribute`: the attack of Yeom et al., with its advantage; `AttributeInference` is what it found.
- `impute`: the same guess from other records alone. Most of what looks like inference is imputation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from hush.audit.bounds.counts import Side, clopper_pearson
from hush.audit.bounds.result import check_confidence
from hush.audit.softmax import fit_softmax
from hush.errors import InvalidArgument, check_count, check_positive

__all__ = ["AttributeInference", "impute", "infer_attribute"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AttributeInference:
    """How often a missing attribute was guessed rightly.

    Attributes:
        member_accuracy: For members of the training data.
        other_accuracy: For others: what the model gives away about anybody.
        imputed_accuracy: For members, without the model.
        advantage: ``member_accuracy`` less ``other_accuracy``: what is due to membership.
        advantage_low, advantage_high: Ends of an interval for it, at ``confidence``.
        gain: ``member_accuracy`` less ``imputed_accuracy``: what the model adds to other records.
        gain_low, gain_high: Ends of an interval for it, at ``confidence``.
        confidence: Of each interval.
    """

    member_accuracy: float
    other_accuracy: float
    imputed_accuracy: float
    advantage: float
    advantage_low: float
    advantage_high: float
    gain: float
    gain_low: float
    gain_high: float
    confidence: float


def infer_attribute(
    member_losses: ArrayLike,
    member_values: ArrayLike,
    other_losses: ArrayLike,
    other_values: ArrayLike,
    *,
    prior: ArrayLike,
    train_loss: float,
    imputed: ArrayLike,
    confidence: float = 0.95,
) -> AttributeInference:
    """Guess an attribute by which of its values fits the model best.

    For a record x and each value v, the model's loss on x with v in its place is weighed as prior(v) times the density
    of N(0, train_loss) there; the value with the largest weight is the guess.

    Args:
        member_losses: Losses of members with each value in place, [n, V].
        member_values: The true values, as numbers from 0 to V - 1.
        other_losses: The same of records that were not trained on.
        other_values: Their true values.
        prior: How frequent each value is.
        train_loss: The standard deviation: the model's mean loss in training.
        imputed: What `impute`, or a better one, guesses for the members without the model.
        confidence: Of the interval for the advantage, and of that for the gain.

    Guarantee:
        With probability ``confidence`` each interval holds its true value.

    Assumes:
        Members and others are independent samples (the caller's duty). The baseline is as good as the attacker's
        knowledge allows: a weak one makes imputation look like inference (the caller's duty).

    References:
        Yeom et al. 2018, Adversary 4; Jayaraman & Evans 2022 (the imputation baseline); Clopper & Pearson 1934.
    """
    level = 1 - check_confidence(confidence)
    weights = np.asarray(prior, dtype=np.float64)
    if weights.ndim != 1 or not bool(np.all(weights >= 0)) or not weights.sum() > 0:
        raise InvalidArgument("prior", weights.shape, "how frequent each value is: numbers >= 0")
    scale = check_positive("train_loss", train_loss)
    members = _right(member_losses, member_values, weights, scale, "member_losses")
    others = _right(other_losses, other_values, weights, scale, "other_losses")
    if np.shape(imputed) != members.shape:
        raise InvalidArgument("imputed", np.shape(imputed), "one guess for each member")
    baseline = np.asarray(imputed) == np.asarray(member_values)
    apart = _difference(members, others, level)
    # The same members in both: what counts is who is guessed by one alone.
    gained = _difference(members & ~baseline, baseline & ~members, level)
    found, expected, without = (float(each.mean()) for each in (members, others, baseline))
    return AttributeInference(
        member_accuracy=found,
        other_accuracy=expected,
        imputed_accuracy=without,
        advantage=found - expected,
        advantage_low=apart[0],
        advantage_high=apart[1],
        gain=found - without,
        gain_low=gained[0],
        gain_high=gained[1],
        confidence=confidence,
    )


def impute(known: ArrayLike, known_values: ArrayLike, missing: ArrayLike, *, num_values: int) -> Integers:
    """Guess an attribute from the rest of a record, as records that the attacker knows suggest it: no model is asked.

    A softmax regression on standardised features.

    Args:
        known: The other attributes, and the target if the attacker knows it, of records that are known, [n, d].
        known_values: Their values, as numbers from 0 on.
        missing: The same attributes of those whose value is to be guessed.
        num_values: How many values there are.

    References:
        Jayaraman & Evans 2022, Section 4.
    """
    x, values = np.asarray(known, dtype=np.float64), np.asarray(known_values, dtype=np.int64)
    asked = np.asarray(missing, dtype=np.float64)
    if x.ndim != 2 or asked.ndim != 2 or x.shape[1] != asked.shape[1] or len(x) != len(values) or not len(x):
        raise InvalidArgument("known", x.shape, "rows of as many attributes as those in missing have, with values")
    check_count("num_values", num_values)
    centre, spread = x.mean(0), x.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    fitted = fit_softmax((x - centre) / spread, np.eye(num_values)[values])
    return fitted.predict((asked - centre) / spread)


def _difference(first: NDArray[np.bool_], second: NDArray[np.bool_], level: float) -> tuple[float, float]:
    """Return an interval for the difference of two shares, however they depend: four bounds share what may fail."""
    low, high = (
        [float(clopper_pearson(int(each.sum()), len(each), level / 4, side)) for each in (first, second)]
        for side in (Side.LOWER, Side.UPPER)
    )
    return low[0] - high[1], high[0] - low[1]


def _right(losses: ArrayLike, values: ArrayLike, prior: Floats, scale: float, name: str) -> NDArray[np.bool_]:
    """Return whose value was guessed."""
    found, true = np.asarray(losses, dtype=np.float64), np.asarray(values)
    if found.ndim != 2 or found.shape != (len(true), len(prior)) or not len(found):
        raise InvalidArgument(name, found.shape, f"a loss for each of {len(prior)} values, and a value for each row")
    if bool(np.isnan(found).any()):
        raise InvalidArgument(name, "NaN", "numbers")
    with np.errstate(divide="ignore"):
        weights = np.log(prior) + norm.logpdf(found, scale=scale)
    return np.asarray(weights.argmax(1) == true)
