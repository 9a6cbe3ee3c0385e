"""Entry points: from an attack's scores to an `AuditResult`.

`audit_scores` takes independent scores of members and non-members, `audit_one_run` the canaries of one run. Both check
their arguments, apply the threshold rule to the method (`method.apply_rule`), and wrap the bound in a result.
`best_of` picks the strongest of several results.
"""

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
_MIN_SORTED = 32  # this many fair coins fall in at most two runs with probability below 2e-8


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
    """Bound epsilon from an attack's scores for members and non-members.

    Higher scores mean "more like a member". A threshold on the scores is a membership test, and its error rates bound
    epsilon from below.

    >>> import numpy as np
    >>> noise = np.random.default_rng(1).laplace(size=(2, 2000))
    >>> result = audit_scores(noise[0] + 3, noise[1])
    >>> print(result.compare(3.0).verdict, result.compare(1.0).verdict)
    consistent violated

    Args:
        scores_in: Scores of members. They may be infinite; NaN is refused.
        scores_out: Scores of non-members.
        delta: The delta at which epsilon is bounded.
        confidence: The confidence of the bound.
        method: An instance of `ClopperPearson`, `GaussianDP`, `OneRun`, `OneRunFDP` or `Jeffreys`.
        threshold: An instance of `Explicit`, `Bonferroni`, `SplitScores` or `MultiSplit`. By default `Bonferroni`
            (`SplitScores` for `Jeffreys`). Leave it out for a method with ``num_guesses``. To split canaries of one
            run, use `audit_one_run`, which knows their order.
        num_trials: The number of audits you made, or could have made, before picking this one: other attacks, other
            seeds, the score with its sign flipped. The error probability is divided by it.
        unit: The privacy unit in which the two datasets differ.
        relation: The neighbouring relation between them.

    Returns:
        The bound, the point estimate at the same threshold, and the counts behind them.

    Guarantee:
        With probability ``confidence`` the true epsilon at ``delta`` is at least ``epsilon_lower``: for every mechanism
        with `ClopperPearson` and `OneRun`, for Gaussian ones with `GaussianDP` and `OneRunFDP`. `Jeffreys` gives a
        credible bound only.

    Assumes:
        Numbers without NaN for both classes, and a threshold rule that corrects for its own choice (checked here). The
        method's assumptions about the scores (the caller's duty). The score's direction was fixed beforehand, or is
        counted in ``num_trials`` (the caller's duty).

    References:
        See the method and the threshold rule.
    """
    check_instance("method", method, BoundMethod, "Use e.g. ClopperPearson()")
    check_instance("unit", unit, Unit)
    check_instance("relation", relation, Relation)
    trials = check_count("num_trials", num_trials)
    level = Level((1 - check_confidence(confidence)) / trials, check_delta("delta", delta))
    sample = Sample.of(scores_in, scores_out)
    rule = _rule_for(method, threshold)
    return _audit_sample(
        sample, method, rule, level, confidence=confidence, trials=trials, unit=unit, relation=relation
    )


def _audit_sample(
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
    # The theorem behind one-run bounds needs fair coins; rates of two datasets may have any sizes.
    if isinstance(method, GuessMethod):
        check_coins(sample.num_in, sample.num_out)
    bound = apply_rule(rule, method, sample, level)
    return AuditResult(
        epsilon=bound.point,
        epsilon_lower=bound.lower,
        confidence=confidence,
        method=method.description,
        threshold_rule=rule.description if rule else "number of guesses fixed beforehand",
        num_in=bound.num_in,
        num_out=bound.num_out,
        delta=level.delta,
        mu_lower=bound.mu_lower,
        details={**bound.details, "num_trials": trials},
        assumptions=(*method.assumptions, *_rule_assumptions(rule)),
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
    """Bound epsilon from one run with many canaries, each included by a fair coin.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(1000) < 0.5
    >>> result = audit_one_run(included + rng.normal(size=1000), included, num_guesses=100)
    >>> print(result.details["num_correct"], round(result.epsilon_lower, 2))
    88 1.47

    Args:
        scores: One score for each canary, included or not, in an order that does not depend on the coins.
        included: The coins: one boolean for each canary, True if it was included.
        num_guesses: How many of the highest scores are guessed to be members, fixed beforehand. None lets ``threshold``
            decide.
        num_out_guesses: How many of the lowest scores are guessed to be non-members.
        threshold: The rule that chooses the guesses if ``num_guesses`` is None; `Bonferroni` by default.
        delta: The delta at which epsilon is bounded.
        confidence: The confidence of the bound.
        num_trials: The number of audits you made or could have made, as in `audit_scores`.
        unit: The privacy unit that a canary stands for.
        relation: The neighbouring relation between the datasets with and without a canary.

    Returns:
        The bound, the observed log-odds of a correct guess as its point estimate, and the counts behind them.

    Guarantee:
        With probability ``confidence`` the true epsilon at ``delta`` is at least ``epsilon_lower``.

    Assumes:
        Fair, independent coins (the caller's duty; only a very uneven split is refused, checked here). Numbers of
        guesses that were fixed before the scores were seen (the caller's duty); the choice of a rule is corrected for.
        For a rule that splits, an order that does not depend on the coins (the caller's duty; sorted coins are
        refused).

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
    rule = _rule_for(method, threshold)
    if isinstance(rule, SplitScores | MultiSplit):
        _check_order(coins)
    # Boolean indexing keeps the order of the coins, which `Sample.pooled` relies on.
    checked = Sample.of(values[coins], values[~coins])
    sample = Sample(checked.inside, checked.outside, coins)
    return _audit_sample(
        sample, method, rule, level, confidence=confidence, trials=trials, unit=unit, relation=relation
    )


def best_of(results: Sequence[AuditResult]) -> AuditResult:
    """Return the strongest of several audits of one mechanism.

    >>> from hush.audit import epsilon_from_counts
    >>> audits = [epsilon_from_counts(tp, 100, 10, 100, num_trials=3) for tp in (20, 80, 50)]
    >>> best_of(audits).details["tp"]
    80

    Args:
        results: All audits that you made, each with ``num_trials`` of at least their number.

    Returns:
        The result with the largest lower bound.

    Guarantee:
        The confidence of each single result: because every ``num_trials`` is at least their number, all bounds hold
        together.

    Assumes:
        Confidence bounds that share confidence, delta, unit and relation, with ``num_trials`` large enough (checked
        here). No audit was left out (the caller's duty).

    References:
        Bonferroni 1936.
    """
    if not results:
        raise InvalidArgument("results", [], "at least one result")
    for result in results:
        check_instance("results", result, AuditResult)
        # The best of k bounds is valid only if each of them was corrected for k trials.
        trials = result.details.get("num_trials", 1)
        if not (isinstance(trials, int) and trials >= len(results)) or result.bound is not Bound.LOWER:
            advice = f"Run each audit with num_trials={len(results)} or more", "Credible bounds cannot be combined"
            raise InvalidArgument("results", "bounds", "confidence bounds corrected for their number", *advice)
    settings = {(result.confidence, result.delta, result.unit, result.relation) for result in results}
    if len(settings) > 1:
        raise InvalidArgument("results", "bounds", "audits with one confidence, delta, unit and relation")
    # Each bound fails with probability (1 - confidence) / num_trials, so by the union bound none of them fails.
    return max(results, key=lambda result: result.epsilon_lower)


def _check_order(coins: NDArray[np.bool_]) -> None:
    """Refuse to split canaries that are sorted by their coins."""
    changes = int(np.count_nonzero(coins[1:] != coins[:-1]))
    # Fair coins change sides about every second time; at most one change means that they were sorted.
    if changes <= 1 and coins.size >= _MIN_SORTED:
        advice = "These are sorted by their coins", "Pass the canaries in the order in which you tossed the coins"
        raise InvalidArgument("included", "sorted", "canaries in an order that does not depend on the coins", *advice)


def _rule_assumptions(rule: ThresholdRule | None) -> tuple[str, ...]:
    """Return the assumptions that a rule leaves to the caller."""
    if rule is None:
        return ("The number of guesses was fixed before the scores were seen",)
    return (BEFOREHAND,) if isinstance(rule, Explicit) else ()


def _rule_for(method: BoundMethod, threshold: ThresholdRule | None) -> ThresholdRule | None:
    """Return the rule to apply: the caller's, the method's default, or None if the method fixes its guesses."""
    # A number of guesses fixed beforehand leaves nothing to choose, so no rule applies.
    guesses_fixed = isinstance(method, GuessMethod) and method.num_guesses is not None
    if guesses_fixed and threshold is not None:
        advice = "Leave out num_guesses if a rule should choose"
        raise InvalidArgument("threshold", threshold, "no rule, since num_guesses fixes the guesses", advice)
    if threshold is not None:
        check_instance("threshold", threshold, ThresholdRule, "Use e.g. Explicit(0.5) or Bonferroni()")
    return threshold if guesses_fixed or threshold is not None else method.default_rule
