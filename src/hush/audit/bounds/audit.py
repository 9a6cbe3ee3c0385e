"""The way in: scores to a result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit.bounds.counts import BEFOREHAND
from hush.audit.bounds.guesses import check_coins
from hush.audit.bounds.method import BoundMethod, Level, apply_rule
from hush.audit.bounds.one_run import GuessMethod, OneRun
from hush.audit.bounds.rates import ClopperPearson
from hush.audit.bounds.result import AuditResult, check_confidence
from hush.audit.bounds.sample import Sample, as_scores
from hush.audit.bounds.thresholds import Explicit, MultiSplit, SplitScores, ThresholdRule
from hush.errors import InvalidArgument, check_count, check_delta, check_instance
from hush.guarantee import Bound, Relation, Unit

_CLOPPER_PEARSON = ClopperPearson()
_EXAMPLE = Unit.example()
_SORTED = 32  # fair coins, so many, fall in two runs with a probability below 2e-8


def audit_scores(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    method: BoundMethod = _CLOPPER_PEARSON,
    threshold: ThresholdRule | None = None,
    num_trials: int = 1,
    unit: Unit = _EXAMPLE,
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Bound epsilon from an attack's scores of members and of others.

    >>> import numpy as np
    >>> noise = np.random.default_rng(1).laplace(size=(2, 2000))
    >>> result = audit_scores(noise[0] + 3, noise[1])
    >>> print(result.compare(3.0).verdict, result.compare(1.0).verdict)
    consistent violated

    Args:
        scores_in: Of members; the higher, the more like one. Infinite scores are in order, NaN is refused.
        scores_out: Of others.
        delta: At which epsilon is meant.
        confidence: Of the bound.
        method: `ClopperPearson`, `GaussianDP`, `OneRun`, `OneRunFDP` or `Jeffreys`: values, not names.
        threshold: `Explicit`, `Bonferroni`, `SplitScores` or `MultiSplit`. None is `Bonferroni` (`SplitScores` for `Jeffreys`), and
            is what a method takes that has its number of guesses. Canaries of one run are split by `audit_one_run`,
            which knows their order.
        num_trials: How many audits were made, or would have been, of which this is the most telling: other attacks,
            other seeds, the score with its sign turned. What may fail is divided by it.
        unit: What the two worlds differ in.
        relation: How they differ.

    Returns:
        The bound, its point estimate at the same threshold, and what both came from.

    Guarantee:
        With probability ``confidence`` the true epsilon at ``delta`` is at least ``epsilon_lower``, whatever the
        mechanism; for `GaussianDP` and `OneRunFDP`, if it is Gaussian; for `Jeffreys`, only as a belief.

    Assumes:
        No NaN, both classes there, thresholds and rules corrected for the choice that they make (checked here). What
        the method assumes of scores (the caller's duty). A score whose direction was fixed beforehand, or
        ``num_trials`` (the caller's duty).

    References:
        Those of the method and the rule.
    """
    check_instance("method", method, BoundMethod, "Use e.g. ClopperPearson()")
    check_instance("unit", unit, Unit)
    check_instance("relation", relation, Relation)
    trials = check_count("num_trials", num_trials)
    level = Level((1 - check_confidence(confidence)) / trials, check_delta("delta", delta))
    sample = Sample.of(scores_in, scores_out)
    rule = _rule(method, threshold)
    return _audited(sample, method, rule, level, confidence=confidence, trials=trials, unit=unit, relation=relation)


def _audited(
    sample: Sample,
    method: BoundMethod,
    rule: ThresholdRule | None,
    level: Level,
    *,
    confidence: float,
    trials: int,
    unit: Unit,
    relation: Relation,
) -> AuditResult:
    if isinstance(method, GuessMethod):
        check_coins(sample.num_in, sample.num_out)
    found = apply_rule(rule, method, sample, level)
    return AuditResult(
        epsilon=found.point,
        epsilon_lower=found.lower,
        confidence=confidence,
        method=method.description,
        threshold_rule=rule.description if rule else "number of guesses fixed beforehand",
        num_in=found.num_in,
        num_out=found.num_out,
        delta=level.delta,
        mu_lower=found.mu_lower,
        details={**found.details, "num_trials": trials},
        assumptions=(*method.assumptions, *_stated(rule)),
        bound=method.bound,
        unit=unit,
        relation=relation,
    )


def audit_one_run(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    num_guesses: int | None = None,
    num_out_guesses: int = 0,
    threshold: ThresholdRule | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    num_trials: int = 1,
    unit: Unit = _EXAMPLE,
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Bound epsilon from one run with many canaries, each of which a fair coin included.

    Args:
        scores: One for each canary, included or not, in an order that no coin decided.
        included: How the coins fell: booleans.
        num_guesses: How many of the highest scores are guessed to be members; fixed beforehand. None leaves it to
            ``threshold``.
        num_out_guesses: How many of the lowest are guessed not to be.
        threshold: The rule that chooses whom to guess, where ``num_guesses`` is None; `Bonferroni` by default.
        delta: At which epsilon is meant.
        confidence: Of the bound.
        num_trials: As in `audit_scores`.
        unit: What a canary is.
        relation: What its coin decided.

    Guarantee:
        With probability ``confidence`` the true epsilon at ``delta`` is at least ``epsilon_lower``.

    Assumes:
        Fair, independent coins (the caller's duty; checked here is only that not far too many fell on one side).
        Numbers of guesses fixed before the scores were seen (the caller's duty); a rule's choice is corrected for. To
        split, an order of the canaries that no coin decided (the caller's duty; members all in front are refused).

    References:
        Steinke, Nasr & Jagielski 2023, Theorem 5.2.
    """
    values, coins = as_scores("scores", scores), np.asarray(included)
    if coins.dtype != np.bool_ or coins.shape != values.shape:
        raise InvalidArgument("included", f"{coins.dtype} array of shape {coins.shape}", "one boolean for each score")
    check_instance("unit", unit, Unit)
    check_instance("relation", relation, Relation)
    method = OneRun(num_guesses=num_guesses, num_out_guesses=num_out_guesses)
    trials = check_count("num_trials", num_trials)
    level = Level((1 - check_confidence(confidence)) / trials, check_delta("delta", delta))
    rule = _rule(method, threshold)
    if isinstance(rule, SplitScores | MultiSplit):
        _check_order(coins)
    both = Sample.of(values[coins], values[~coins])
    sample = Sample(both.inside, both.outside, coins)
    return _audited(sample, method, rule, level, confidence=confidence, trials=trials, unit=unit, relation=relation)


def best_of(results: Sequence[AuditResult]) -> AuditResult:
    """Return the most telling of several audits of one mechanism, all of which were corrected for their number.

    Guarantee:
        The same confidence as each has: with ``num_trials`` of at least their number, all hold together.

    Assumes:
        The same confidence, delta, unit and relation, confidence bounds only, and ``num_trials`` (checked here). No
        audit was left out (the caller's duty).

    References:
        Bonferroni 1936.
    """
    if not results:
        raise InvalidArgument("results", [], "one result at least")
    for result in results:
        check_instance("results", result, AuditResult)
        trials = result.details.get("num_trials", 1)
        if not (isinstance(trials, int) and trials >= len(results)) or result.bound is not Bound.LOWER:
            advice = f"Make each audit with num_trials={len(results)} or more", "Credible bounds cannot be combined"
            raise InvalidArgument("results", "bounds", "confidence bounds corrected for their number", *advice)
    meanings = {(result.confidence, result.delta, result.unit, result.relation) for result in results}
    if len(meanings) > 1:
        raise InvalidArgument("results", "bounds", "audits of one confidence, delta, unit and relation")
    return max(results, key=lambda result: result.epsilon_lower)


def _check_order(coins: NDArray[np.bool_]) -> None:
    """Refuse to split canaries that were sorted by their coins."""
    changes = int(np.count_nonzero(coins[1:] != coins[:-1]))
    if changes <= 1 and coins.size >= _SORTED:
        advice = "Members in front mean that the coins decided the order", "Pass the order in which coins were thrown"
        raise InvalidArgument("included", "sorted coins", "canaries in an order of their own, to split them", *advice)


def _stated(rule: ThresholdRule | None) -> tuple[str, ...]:
    """Return what the rule leaves to the caller."""
    if rule is None:
        return ("The number of guesses was fixed before the scores were seen",)
    return (BEFOREHAND,) if isinstance(rule, Explicit) else ()


def _rule(method: BoundMethod, threshold: ThresholdRule | None) -> ThresholdRule | None:
    fixed = isinstance(method, GuessMethod) and method.num_guesses is not None
    if fixed and threshold is not None:
        advice = "Leave out num_guesses to let a rule choose"
        raise InvalidArgument("threshold", threshold, "None for a method with num_guesses", advice)
    if threshold is not None:
        check_instance("threshold", threshold, ThresholdRule, "Use e.g. Explicit(0.5) or Bonferroni()")
    return threshold if fixed or threshold is not None else method.default
