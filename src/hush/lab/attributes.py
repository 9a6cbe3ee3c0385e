"""Attribute inference: guess a missing attribute of a record with a model, and compare with guessing without it.

- `attack_attribute` attacks a model with a data set: one call from records and their classes to accuracies.
- `infer_attribute` is the same attack, of Yeom et al., on losses that you have computed. Both return an
  `AttributeInference` with intervals for its advantage.
- `impute` makes the same guess from other records alone. Most apparent attribute inference is imputation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from hush.audit import Side, check_confidence, clopper_pearson, fit_softmax
from hush.errors import InvalidArgument, check_count, check_positive

__all__ = ["AttributeInference", "attack_attribute", "impute", "infer_attribute"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Losses: TypeAlias = Callable[[Floats, Integers], ArrayLike]
Records: TypeAlias = tuple[ArrayLike, ArrayLike]

_SMALLEST_SCALE = 1e-9  # of a model whose training losses are all 0


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AttributeInference:
    """How often `infer_attribute` guessed a missing attribute correctly.

    >>> losses, values = np.array([[0.1, 2.0], [2.0, 0.1]] * 50), [0, 1] * 50
    >>> result = infer_attribute(
    ...     losses, values, losses, values, prior=[0.5, 0.5], train_loss=0.5, imputed=[0] * 100
    ... )
    >>> result.member_accuracy, result.advantage, result.gain
    (1.0, 0.0, 0.5)

    Attributes:
        member_accuracy: The accuracy for members of the training data.
        other_accuracy: The accuracy for non-members: what the model reveals about the population.
        imputed_accuracy: The accuracy for members without the model.
        advantage: ``member_accuracy`` minus ``other_accuracy``: what membership adds.
        advantage_low, advantage_high: An interval for the advantage.
        gain: ``member_accuracy`` minus ``imputed_accuracy``: what the model adds to other records.
        gain_low, gain_high: An interval for the gain.
        confidence: The confidence of each interval.
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
    """Guess an attribute by the value that fits the model best.

    For a record x and a value v, let l be the model's loss on x with the attribute set to v. The weight of v is
    prior(v) times the density of N(0, train_loss^2) at l. The guess is the value with the largest weight. Known as
    attribute inference.

    Args:
        member_losses: Losses of members, with the attribute set to each of V values, [n, V].
        member_values: The true values, as integers from 0 to V - 1.
        other_losses: The same for records that were not trained on.
        other_values: Their true values.
        prior: The frequency of each value.
        train_loss: The standard deviation above; use the model's mean training loss.
        imputed: Guesses for the members without the model, by `impute` or something better.
        confidence: The confidence of the interval for the advantage, and of that for the gain.

    Returns:
        Accuracies, advantage and gain, with intervals.

    Guarantee:
        With probability ``confidence`` each interval contains its true value.

    Assumes:
        Members and non-members are independent samples (the caller's duty). The baseline is as good as the attacker's
        knowledge allows (the caller's duty): a weak one makes imputation look like inference.

    References:
        Yeom et al. 2018, Adversary 4; Jayaraman & Evans 2022 (the imputation baseline); Clopper & Pearson 1934.
    """
    error = 1 - check_confidence(confidence)
    frequencies = np.asarray(prior, dtype=np.float64)
    if frequencies.ndim != 1 or not bool(np.all(frequencies >= 0)) or not frequencies.sum() > 0:
        raise InvalidArgument("prior", frequencies.shape, "one frequency >= 0 for each value, not all 0")
    scale = check_positive("train_loss", train_loss)
    members_correct = _guessed_correctly(member_losses, member_values, frequencies, scale, "member_losses")
    others_correct = _guessed_correctly(other_losses, other_values, frequencies, scale, "other_losses")
    if np.shape(imputed) != members_correct.shape:
        raise InvalidArgument("imputed", np.shape(imputed), "one guess for each member")
    imputed_correct = np.asarray(imputed) == np.asarray(member_values)
    advantage_low, advantage_high = _difference_interval(members_correct, others_correct, error)
    # Paired on the same members: the gain is P(only the attack is correct) - P(only the baseline is correct).
    gain_low, gain_high = _difference_interval(
        members_correct & ~imputed_correct, imputed_correct & ~members_correct, error
    )
    member_accuracy, other_accuracy, imputed_accuracy = (
        float(correct.mean()) for correct in (members_correct, others_correct, imputed_correct)
    )
    return AttributeInference(
        member_accuracy=member_accuracy,
        other_accuracy=other_accuracy,
        imputed_accuracy=imputed_accuracy,
        advantage=member_accuracy - other_accuracy,
        advantage_low=advantage_low,
        advantage_high=advantage_high,
        gain=member_accuracy - imputed_accuracy,
        gain_low=gain_low,
        gain_high=gain_high,
        confidence=confidence,
    )


def attack_attribute(
    losses: Losses,
    members: Records,
    others: Records,
    *,
    column: int,
    values: Sequence[float],
    imputed: ArrayLike | None = None,
    confidence: float = 0.95,
) -> AttributeInference:
    """Guess one column of a data set with a model: `infer_attribute`, from records instead of losses.

    The attacker knows all other columns and the class of each record, the values that the column may have, how frequent
    they are among non-members, and the model's mean training loss. It puts each value into the column, and asks the
    model for the loss.

    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]] * 30)
    >>> classes = x[:, 0].astype(np.int64)  # the class reveals the first column, to anyone
    >>> def losses(records, labels):
    ...     return 0.1 + 2 * np.abs(records[:, 0] - labels)
    >>> result = attack_attribute(losses, (x, classes), (x, classes), column=0, values=(0, 1))
    >>> result.member_accuracy, result.advantage, result.gain
    (1.0, 0.0, 0.0)

    Args:
        losses: A function of records [n, d] and classes that returns the model's loss on each.
        members: The records that were trained on, [n, d], and their classes, as integers counted from 0.
        others: The same for records that were not trained on.
        column: The number of the column to guess.
        values: The values that it may have.
        imputed: Guesses for the members without the model, as positions in ``values``. By default those of `impute`,
            from the other records with their classes.
        confidence: The confidence of the interval for the advantage, and of that for the gain.

    Returns:
        Accuracies, advantage and gain, with intervals.

    Guarantee:
        With probability ``confidence`` each interval contains its true value, but for the frequencies, which are those
        of the same non-members.

    Assumes:
        Finite records, with one of the values in the column (checked here). Members and non-members are independent
        samples (the caller's duty). The baseline is as good as the attacker's knowledge allows (the caller's duty).

    References:
        Yeom et al. 2018, Adversary 4; Jayaraman & Evans 2019, Section 4 (the protocol), and 2022 (the baseline).
    """
    inside, outside = _checked_records("members", members), _checked_records("others", others)
    if inside[0].shape[1] != outside[0].shape[1]:
        raise InvalidArgument("others", outside[0].shape, "records with as many columns as members")
    place = check_count("column", column, minimum=0)
    if place >= inside[0].shape[1]:
        raise InvalidArgument("column", place, f"a number below {inside[0].shape[1]}, the number of columns")
    possible = _checked_values(values)
    known, unknown = (_positions(records[0][:, place], possible) for records in (inside, outside))
    guesses = _imputed_by_class(outside, unknown, inside, place, len(possible)) if imputed is None else imputed
    return infer_attribute(
        _losses_by_value(losses, inside, place, possible),
        known,
        _losses_by_value(losses, outside, place, possible),
        unknown,
        prior=np.bincount(unknown, minlength=len(possible)),
        train_loss=max(float(_losses_of(losses, *inside).mean()), _SMALLEST_SCALE),
        imputed=guesses,
        confidence=confidence,
    )


def impute(known: ArrayLike, known_values: ArrayLike, missing: ArrayLike, *, num_values: int) -> Integers:
    """Guess an attribute from the rest of the record, without the model: a softmax regression on known records.

    >>> x = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    >>> impute(x, [0, 0, 1, 1], [[-1.5], [1.5]], num_values=2).tolist()
    [0, 1]

    Args:
        known: The other attributes of records that the attacker knows, [n, d]. Include the label if the attacker knows
            it.
        known_values: The values of the attribute in these records, as integers counted from 0.
        missing: The other attributes of the records to guess.
        num_values: The number of values.

    Returns:
        One guess for each row of ``missing``.

    References:
        Jayaraman & Evans 2022, Section 4.
    """
    x, values = np.asarray(known, dtype=np.float64), np.asarray(known_values, dtype=np.int64)
    missing_x = np.asarray(missing, dtype=np.float64)
    if x.ndim != 2 or missing_x.ndim != 2 or x.shape[1] != missing_x.shape[1] or len(x) != len(values) or not len(x):
        raise InvalidArgument("known", x.shape, "rows with as many attributes as those of missing, and a value each")
    check_count("num_values", num_values)
    centre, spread = x.mean(0), x.std(0)
    spread = np.where(spread > 0, spread, 1.0)  # a constant attribute
    classifier = fit_softmax((x - centre) / spread, np.eye(num_values)[values])
    return classifier.predict((missing_x - centre) / spread)


def _checked_records(name: str, records: Records) -> tuple[Floats, Integers]:
    x, labels = np.asarray(records[0], dtype=np.float64), np.asarray(records[1])
    if x.ndim != 2 or not x.size or not bool(np.isfinite(x).all()):
        raise InvalidArgument(name, x.shape, "rows of finite numbers, at least one, and a class for each")
    if labels.shape != (len(x),) or labels.dtype.kind not in "iu" or bool((labels < 0).any()):
        raise InvalidArgument(name, (labels.dtype.name, labels.shape), f"{len(x)} classes, as integers counted from 0")
    return x, labels.astype(np.int64)


def _checked_values(values: Sequence[float]) -> Floats:
    possible = np.asarray(values, dtype=np.float64)
    if possible.ndim != 1 or len(np.unique(possible)) != len(possible) or len(possible) < 2:
        raise InvalidArgument("values", possible.shape, "two distinct numbers or more", "There is nothing to guess")
    if not bool(np.isfinite(possible).all()):
        raise InvalidArgument("values", "...", "finite numbers")
    return possible


def _positions(column: Floats, values: Floats) -> Integers:
    """Return the position of each entry among the values."""
    same = column[:, None] == values
    if not bool(same.any(1).all()):
        raise InvalidArgument("values", "...", "every value that is in the column", "Others cannot be guessed")
    return np.asarray(same.argmax(1), dtype=np.int64)


def _losses_of(losses: Losses, x: Floats, labels: Integers) -> Floats:
    computed = np.asarray(losses(x, labels), dtype=np.float64)
    if computed.shape != (len(x),) or not bool(np.isfinite(computed).all()):
        raise InvalidArgument("losses(...)", computed.shape, f"{len(x)} finite numbers")
    return computed


def _losses_by_value(losses: Losses, records: tuple[Floats, Integers], column: int, values: Floats) -> Floats:
    """Return the loss of each record with each value in the column, [n, V]."""
    x, labels = records[0].copy(), records[1]
    table = []
    for value in values:
        x[:, column] = value
        table.append(_losses_of(losses, x.copy(), labels))
    return np.stack(table, axis=1)


def _imputed_by_class(
    known: tuple[Floats, Integers],
    known_values: Integers,
    missing: tuple[Floats, Integers],
    column: int,
    num_values: int,
) -> Integers:
    """Impute from the other columns and the class, which the attacker knows as well."""
    num_classes = int(max(known[1].max(), missing[1].max())) + 1
    with_class = (
        np.hstack([np.delete(x, column, axis=1), np.eye(num_classes)[labels]]) for x, labels in (known, missing)
    )
    known_x, missing_x = with_class
    return impute(known_x, known_values, missing_x, num_values=num_values)


def _difference_interval(first: NDArray[np.bool_], second: NDArray[np.bool_], error: float) -> tuple[float, float]:
    """Return an interval for the difference of two rates, however dependent. Its four bounds share the error."""
    # Two one-sided bounds for each of two rates; the difference is largest where one is high and the other low.
    lows, highs = (
        [float(clopper_pearson(int(hits.sum()), len(hits), error / 4, side)) for hits in (first, second)]
        for side in (Side.LOWER, Side.UPPER)
    )
    return lows[0] - highs[1], highs[0] - lows[1]


def _guessed_correctly(
    losses: ArrayLike, values: ArrayLike, prior: Floats, scale: float, name: str
) -> NDArray[np.bool_]:
    """Return for which records the guess is correct."""
    loss_table, true_values = np.asarray(losses, dtype=np.float64), np.asarray(values)
    if loss_table.ndim != 2 or loss_table.shape != (len(true_values), len(prior)) or not len(loss_table):
        raise InvalidArgument(
            name, loss_table.shape, f"a loss for each of {len(prior)} values, and a value for each row"
        )
    if bool(np.isnan(loss_table).any()):
        raise InvalidArgument(name, "NaN", "numbers")
    with np.errstate(divide="ignore"):  # a prior of 0 rules its value out
        log_weights = np.log(prior) + norm.logpdf(loss_table, scale=scale)
    return np.asarray(log_weights.argmax(1) == true_values)
