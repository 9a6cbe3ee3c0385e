"""RMIA: is this example more surprising to have been left out than others of the population are?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.bounds.roc import roc
from hush.audit.membership.lira import refuse_target
from hush.audit.membership.signals import Bools, Floats, finite, mask
from hush.errors import InvalidArgument, check_fraction, check_positive

OFFLINE_A = 0.3
_CANDIDATES = tuple(round(0.1 * i, 1) for i in range(11))
_TINY = 1e-300


def rmia_online(
    target: ArrayLike,
    references: ArrayLike,
    included: ArrayLike,
    *,
    population: ArrayLike,
    population_references: ArrayLike,
    gamma: float = 1.0,
) -> Floats:
    """Return the share of the population that each example dominates, with models that were trained on it, and not.

    Args:
        target: The target's `confidence` in each example's class: (examples,).
        references: That of each reference model: (models, examples).
        included: Which models were trained on which example; each example needs one that was and one that was not.
        population: The target's `confidence` for examples of the population, which it was not trained on.
        population_references: That of each reference model for them: (models, population).
        gamma: How often as likely an example must be, against one of the population.

    Guarantee:
        Scores, not a bound.

    Assumes:
        The target is not a reference model (checked here); the population holds none of the examples that are scored,
        and no member of the target's (the caller's duty).

    References:
        Zarifzadeh, Liu & Shokri 2024, "Low-cost high-power membership inference attacks", Algorithm 1 and equation 11.
    """
    own, others = _models("target", target, references)
    who = mask("included", included, others.shape)
    average = (_mean(others, who, "in") + _mean(others, ~who, "out")) / 2
    around, around_others = _models("population", population, population_references)
    return _dominated(_ratio(own, average), _ratio(around, around_others.mean(0)), gamma)


def rmia_offline(
    target: ArrayLike,
    references: ArrayLike,
    included: ArrayLike | None = None,
    *,
    population: ArrayLike,
    population_references: ArrayLike,
    population_included: ArrayLike | None = None,
    offline_a: float = OFFLINE_A,
    gamma: float = 1.0,
) -> Floats:
    """Return the same from models that were not trained on an example; one such model is enough.

    What a model trained on it would say is put at a (out) + 1 - a, where out is the mean of the others.

    Args:
        target: As for `rmia_online`.
        references: As for `rmia_online`.
        included: Which models were trained on which example, and are left aside for it; None: none was.
        population: As for `rmia_online`.
        population_references: As for `rmia_online`.
        population_included: As ``included``, for the population.
        offline_a: The a above; `tuned_offline_a` finds one.
        gamma: As for `rmia_online`.

    Guarantee:
        Scores, not a bound.

    Assumes:
        As `rmia_online`: the target is not a reference model (checked here), the population is disjoint from both the
        scored examples and the target's members (the caller's duty).

    References:
        Zarifzadeh, Liu & Shokri 2024, equation 12 and Appendix B.2.2.
    """
    a = check_fraction("offline_a", offline_a)

    def ratios(name: str, own: ArrayLike, others: ArrayLike, who: ArrayLike | None) -> Floats:
        mine, table = _models(name, own, others)
        out = np.ones(table.shape, dtype=np.bool_) if who is None else ~mask("included", who, table.shape)
        return _ratio(mine, ((1 + a) * _mean(table, out, "out") + (1 - a)) / 2)

    return _dominated(
        ratios("target", target, references, included),
        ratios("population", population, population_references, population_included),
        gamma,
    )


def tuned_offline_a(references: ArrayLike, included: ArrayLike) -> float:
    """Return the a with which the attack on one reference model, by the others, has the largest AUC.

    The first reference model stands in for the target: its members are known, and the target's are not touched. Of
    those who were not in it, every other one is its population.

    Args:
        references: The `confidence` of each reference model: (models, examples); two models or more.
        included: Which models were trained on which example.
    """
    table = finite("references", references, dimensions=(2,))
    who = mask("included", included, table.shape)
    if len(table) < 2:
        raise InvalidArgument("references", len(table), "two models or more", "One stands in for the target")
    around = np.flatnonzero(~who[0])[::2]
    scored = np.setdiff1d(np.arange(table.shape[1]), around)

    def quality(a: float) -> float:
        scores = rmia_offline(
            table[0, scored],
            table[1:, scored],
            who[1:, scored],
            population=table[0, around],
            population_references=table[1:, around],
            population_included=who[1:, around],
            offline_a=a,
        )
        return roc(scores[who[0, scored]], scores[~who[0, scored]]).auc

    return max(_CANDIDATES, key=quality)


def _models(name: str, own: ArrayLike, others: ArrayLike) -> tuple[Floats, Floats]:
    mine, table = finite(name, own, dimensions=(1,)), finite("references", others, dimensions=(2,))
    if table.shape[1:] != mine.shape:
        raise InvalidArgument("references", table.shape, f"one row of {len(mine)} for each model")
    for each in (mine, table):
        if not ((each >= 0) & (each <= 1)).all():
            raise InvalidArgument(name, "...", "probabilities of the own class, in [0, 1]")
    if name == "target":
        refuse_target(mine, table)
    return mine, table


def _mean(table: Floats, who: Bools, side: str) -> Floats:
    count = who.sum(0)
    if not (count >= 1).all():
        raise InvalidArgument("included", "...", f"for each example a reference model that had it {side}")
    return np.asarray(np.where(who, table, 0.0).sum(0) / count)


def _ratio(own: Floats, average: Floats) -> Floats:
    return np.asarray(own / np.maximum(average, _TINY))


def _dominated(ratio: Floats, around: Floats, gamma: float) -> Floats:
    """Return the share of the population whose ratio, times gamma, is not above an example's own."""
    bars = np.sort(around * check_positive("gamma", gamma))
    return np.asarray(np.searchsorted(bars, ratio, side="right") / len(bars))
