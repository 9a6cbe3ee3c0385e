"""RMIA, the robust membership inference attack: compare an example with a population of non-members.

The ratio of an example is the target's confidence over the mean confidence of reference models. The score is the share
of the population whose ratio is lower. One reference model is enough.
"""

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
    """Return the share of the population that each example dominates, by models with and without the example.

    Args:
        target: The target's `confidence` in each example's true class: (examples,).
        references: That of each reference model: (models, examples).
        included: Which models were trained on which example. Each example needs a model with it and one without.
        population: The target's `confidence` on a population of examples that it was not trained on.
        population_references: That of each reference model: (models, population).
        gamma: An example dominates another one if its ratio is at least gamma times as large.

    Returns:
        One score in [0, 1] per example; higher means more like a member.

    Guarantee:
        Scores, not a bound.

    Assumes:
        The target is not a reference model (checked here). The population contains neither scored examples nor members
        of the target (the caller's duty).

    References:
        Zarifzadeh, Liu & Shokri 2024, "Low-cost high-power membership inference attacks", Algorithm 1 and equation 11.
    """
    target_values, table = _checked_confidences("target", target, references)
    in_models = mask("included", included, table.shape)
    # Equation 11: the probability of the example is the mean of its two hypotheses.
    average = (_mean_over(table, in_models, "in") + _mean_over(table, ~in_models, "out")) / 2
    population_values, population_table = _checked_confidences("population", population, population_references)
    return _dominated_share(_ratio(target_values, average), _ratio(population_values, population_table.mean(0)), gamma)


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
    """Return the share of the population that each example dominates, by models without the example only.

    The mean confidence "in" of models trained on the example is unknown. It is estimated as a out + 1 - a, where out is
    the mean of the models without the example and a = ``offline_a``.

    Args:
        target: The target's `confidence`, as for `rmia_online`.
        references: That of each reference model, as for `rmia_online`.
        included: Which models were trained on which example; those models are left out for that example. None means
            that no model was trained on any of them.
        population: The target's `confidence` on the population, as for `rmia_online`.
        population_references: That of each reference model, as for `rmia_online`.
        population_included: The same as ``included``, for the population.
        offline_a: The a above, in [0, 1]. `tuned_offline_a` chooses one.
        gamma: As for `rmia_online`.

    Returns:
        One score in [0, 1] per example; higher means more like a member.

    Guarantee:
        Scores, not a bound.

    Assumes:
        As for `rmia_online`: the target is not a reference model (checked here), and the population contains neither
        scored examples nor members of the target (the caller's duty).

    References:
        Zarifzadeh, Liu & Shokri 2024, equation 12 and Appendix B.2.2.
    """
    a = check_fraction("offline_a", offline_a)

    def ratios(name: str, values: ArrayLike, reference_values: ArrayLike, trained_on: ArrayLike | None) -> Floats:
        confidences, table = _checked_confidences(name, values, reference_values)
        out = np.ones(table.shape, dtype=np.bool_) if trained_on is None else ~mask("included", trained_on, table.shape)
        # The average of out and the estimate of in, a out + 1 - a.
        return _ratio(confidences, ((1 + a) * _mean_over(table, out, "out") + (1 - a)) / 2)

    return _dominated_share(
        ratios("target", target, references, included),
        ratios("population", population, population_references, population_included),
        gamma,
    )


def tuned_offline_a(references: ArrayLike, included: ArrayLike) -> float:
    """Choose ``offline_a`` for `rmia_offline` by attacking one reference model with the others.

    The first reference model plays the target. Its members are known, and the real target's members are not touched.
    Every other one of its non-members is the population. The a with the largest AUC wins.

    Args:
        references: The `confidence` of each reference model: (models, examples), with at least two models.
        included: Which models were trained on which example: (models, examples).

    Returns:
        A multiple of 0.1 in [0, 1].
    """
    table = finite("references", references, dimensions=(2,))
    in_models = mask("included", included, table.shape)
    if len(table) < 2:
        raise InvalidArgument("references", len(table), "at least two models", "One of them plays the target")
    # The population must not contain scored examples, and none of them may be a member of the stand-in target.
    population = np.flatnonzero(~in_models[0])[::2]
    scored = np.setdiff1d(np.arange(table.shape[1]), population)

    def auc(a: float) -> float:
        scores = rmia_offline(
            table[0, scored],
            table[1:, scored],
            in_models[1:, scored],
            population=table[0, population],
            population_references=table[1:, population],
            population_included=in_models[1:, population],
            offline_a=a,
        )
        return roc(scores[in_models[0, scored]], scores[~in_models[0, scored]]).auc

    # A choice on public knowledge: the real target's members are not touched, so nothing has to be corrected for.
    return max(_CANDIDATES, key=auc)


def _checked_confidences(name: str, values: ArrayLike, reference_values: ArrayLike) -> tuple[Floats, Floats]:
    confidences = finite(name, values, dimensions=(1,))
    table = finite("references", reference_values, dimensions=(2,))
    if table.shape[1:] != confidences.shape:
        raise InvalidArgument("references", table.shape, f"one row of {len(confidences)} for each model")
    for array in (confidences, table):
        if not ((array >= 0) & (array <= 1)).all():
            raise InvalidArgument(name, "...", "probabilities of the true class, in [0, 1]")
    if name == "target":
        refuse_target(confidences, table)
    return confidences, table


def _mean_over(table: Floats, models: Bools, side: str) -> Floats:
    """Return the mean of each column over the models that are selected for it."""
    count = models.sum(0)
    if not (count >= 1).all():
        raise InvalidArgument("included", "...", f"for each example at least one reference model that had it {side}")
    # A mean of probabilities, not of their logarithms: P(x) is an expectation over models.
    return np.asarray(np.where(models, table, 0.0).sum(0) / count)


def _ratio(confidences: Floats, average: Floats) -> Floats:
    # P(x | target) / P(x): how much more the target believes in x than models of the world do.
    return np.asarray(confidences / np.maximum(average, _TINY))


def _dominated_share(ratios: Floats, population_ratios: Floats, gamma: float) -> Floats:
    """Return, for each example, the share of the population whose ratio times gamma is at most its ratio."""
    # An example dominates z if its ratio is at least gamma times that of z; sorting turns counting into a search.
    bars = np.sort(population_ratios * check_positive("gamma", gamma))
    return np.asarray(np.searchsorted(bars, ratios, side="right") / len(bars))
