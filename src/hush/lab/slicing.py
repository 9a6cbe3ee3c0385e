"""Put an attack's scores into perspective: the limits of a guarantee, and the groups that the attack hurts most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit import Interval, bootstrap, check_confidence
from hush.audit.membership import Floats, finite, mask
from hush.errors import InvalidArgument, check_delta, check_epsilon, check_probability
from hush.guarantee import Guarantee

__all__ = ["advantage_bounds", "by_correctness", "label_only", "slices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageBounds:
    """The largest TPR - FPR that (epsilon, delta)-DP allows any attack.

    >>> advantage_bounds(0.1).tight < advantage_bounds(0.1).yeom
    True

    Attributes:
        yeom: e^epsilon - 1 + delta, a loose bound. It says nothing if it exceeds 1.
        tight: (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), which some mechanisms reach.
    """

    yeom: float
    tight: float


def advantage_bounds(epsilon: float, delta: float = 0.0) -> AdvantageBounds:
    """Return upper bounds on the advantage of membership attacks, to print beside a measured advantage.

    >>> bounds = advantage_bounds(1.0)
    >>> round(bounds.yeom, 3), round(bounds.tight, 4)
    (1.718, 0.4621)

    Args:
        epsilon: The epsilon of the guarantee.
        delta: The delta of the guarantee.

    Returns:
        The loose and the tight bound.

    Guarantee:
        Upper bounds on TPR - FPR of every membership attack on one unit.

    Assumes:
        The release is (epsilon, delta)-DP for that unit (the caller's duty). Epsilon and delta are in range (checked
        here).

    References:
        Yeom, Giacomelli, Fredrikson & Jha 2018, Theorem 1 (for delta = 0; TPR <= e^epsilon FPR + delta adds delta);
        Humphries et al. 2023, Theorem 3.1, for the tight bound.
    """
    epsilon, delta = check_epsilon("epsilon", epsilon), check_delta("delta", delta)
    loose = math.expm1(epsilon) if epsilon < 700 else math.inf  # expm1(710) overflows
    # TPR - FPR <= (e^epsilon - 1) FPR + delta, and FPR <= 1.
    return AdvantageBounds(yeom=loose + delta, tight=Guarantee(epsilon=epsilon, delta=delta).advantage())


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """An attack's success on one group of examples.

    >>> scores, member = [3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0]
    >>> group = slices(scores, member, ["a", "a", "a", "a"], num_resamples=10)["a"]
    >>> group.num_in, group.num_out, group.auc.value
    (2, 2, 1.0)

    Attributes:
        num_in: The number of members in the group.
        num_out: The number of non-members.
        auc: The area under the ROC curve. None if the group has no members or no non-members.
        tpr: The true positive rate at ``fpr``, with a threshold for this group alone. None as for ``auc``.
        fpr: The false positive rate that you asked for.
    """

    num_in: int
    num_out: int
    auc: Interval | None
    tpr: Interval | None
    fpr: float


def slices(
    scores: ArrayLike,
    member: ArrayLike,
    groups: ArrayLike,
    *,
    fpr: float = 0.01,
    confidence: float = 0.95,
    num_resamples: int = 500,
    rng: int | np.random.Generator = 0,
) -> dict[Any, Slice]:
    """Return AUC and TPR at a low FPR for each group: by class, by demographic group, or `by_correctness`.

    An attack that is weak on average can be strong on a minority, which then bears the harm.

    >>> scores, member = [3.0, 2.0, 1.0, 0.0] * 2, [1, 1, 0, 0] + [0, 1, 1, 0]
    >>> by_group = slices(scores, member, ["a"] * 4 + ["b"] * 4, num_resamples=10)
    >>> {name: part.auc.value for name, part in by_group.items()}
    {'a': 1.0, 'b': 0.5}

    Args:
        scores: The scores of an attack, one per example.
        member: Which examples are members.
        groups: The group of each example: names or integers.
        fpr: The false positive rate at which TPR is reported.
        confidence: The nominal confidence of all intervals together. They share it equally (Bonferroni), and are
            approximate, as bootstrap intervals are.
        num_resamples: The number of bootstrap resamples for each interval.
        rng: Draws the resamples: a seed or a NumPy generator. A seed is used afresh for each interval.

    Returns:
        One `Slice` per group, by its name.
    """
    values = finite("scores", scores, dimensions=(1,))
    is_member, rate = mask("member", member, values.shape), check_probability("fpr", fpr)
    group_of = np.asarray(groups)
    if group_of.shape != values.shape or group_of.dtype.kind not in "biuUS":
        raise InvalidArgument("groups", (group_of.dtype.name, group_of.shape), "one name or integer for each score")
    names = np.unique(group_of)
    # Bonferroni: each of the 2 k intervals may fail with a 2 k-th of the error.
    level = 1 - (1 - check_confidence(confidence)) / (2 * len(names))  # two intervals for each group
    by_group: dict[Any, Slice] = {}
    for name in names:
        inside, outside = values[(group_of == name) & is_member], values[(group_of == name) & ~is_member]
        has_both_classes = bool(len(inside) and len(outside))
        auc, tpr = (
            bootstrap(inside, outside, statistic, confidence=level, num_resamples=num_resamples, rng=rng)
            if has_both_classes
            else None
            for statistic in (lambda curve: curve.auc, lambda curve: curve.tpr_at(rate))
        )
        by_group[name.item()] = Slice(num_in=len(inside), num_out=len(outside), auc=auc, tpr=tpr, fpr=rate)
    return by_group


def by_correctness(predicted: ArrayLike, labels: ArrayLike) -> NDArray[np.str_]:
    """Return the groups "right" and "wrong" for `slices`.

    >>> by_correctness([1, 2], [1, 3]).tolist()
    ['right', 'wrong']

    Args:
        predicted: The predicted class of each example.
        labels: The true class of each example.

    Returns:
        One word per example.
    """
    predictions, truth = np.asarray(predicted), np.asarray(labels)
    if predictions.shape != truth.shape or predictions.ndim != 1:
        raise InvalidArgument("predicted", predictions.shape, "one class for each label")
    return np.where(predictions == truth, "right", "wrong")


def label_only(predicted: ArrayLike, labels: ArrayLike) -> Floats:
    """Return 1 if the target predicts an example's true class, else 0: the gap attack.

    Its advantage is the accuracy on members minus the accuracy on non-members, i.e. the generalisation gap. An attack
    with a smaller advantage gains nothing over predicted labels.

    >>> label_only([3, 1], [3, 2]).tolist()
    [1.0, 0.0]

    Args:
        predicted: The predicted class of each example.
        labels: The true class of each example.

    Returns:
        One score per example, 0 or 1.

    Guarantee:
        Scores, not a bound.

    Assumes:
        One predicted and one true class for each example (checked here).

    References:
        Yeom et al. 2018, Adversary 1; Choquette-Choo, Tramer, Carlini & Papernot 2021, Section 3.
    """
    predictions, truth = np.asarray(predicted), np.asarray(labels)
    if predictions.ndim != 1 or predictions.shape != truth.shape or not predictions.size:
        raise InvalidArgument("predicted", predictions.shape, "one class for each label, and at least one")
    if {predictions.dtype.kind, truth.dtype.kind} & {"f", "c"} and not (
        np.isfinite(predictions).all() and np.isfinite(truth).all()
    ):
        raise InvalidArgument("predicted", "...", "classes, not NaN")
    return np.asarray(predictions == truth).astype(np.float64)
