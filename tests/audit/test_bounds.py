"""Bounds from counts and scores: reference values to the printed digits, laws, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import beta, norm

from hush import Guarantee
from hush.audit import (
    Bonferroni,
    ClopperPearson,
    Explicit,
    GaussianDP,
    Jeffreys,
    MultiSplit,
    OneRun,
    OneRunFDP,
    Side,
    SplitScores,
    audit_one_run,
    audit_scores,
    clopper_pearson,
    epsilon_from_counts,
    gdp_epsilon,
    jeffreys_interval,
)
from hush.audit.bounds.sample import Sample, ladder
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.guarantee import Bound
from hush.lab.ratios import adjusted_log, bailey, inverse_sinh, katz

CEILINGS = {100: 3.281, 200: 3.984, 500: 4.906, 1000: 5.601, 5000: 7.212, 10_000: 7.905, 100_000: 10.208}


def test_perfect_attack() -> None:
    # TensorFlow Privacy's test of its own bound, alpha .01.
    result = epsilon_from_counts(500, 500, 0, 500, confidence=0.99)
    assert result.epsilon_lower == pytest.approx(4.541915810224, abs=5e-13)
    assert result.epsilon == math.inf
    assert result.details["tpr_lower"] == pytest.approx(0.98946, abs=5e-6)
    halved = epsilon_from_counts(500, 500, 0, 500, confidence=0.99, group_size=2)
    assert halved.epsilon_lower == pytest.approx(2.270957905, abs=5e-10)


@pytest.mark.parametrize("size", CEILINGS)
def test_ceiling_of_what_counts_can_show(size: int) -> None:
    shown = epsilon_from_counts(size, size, 0, size)
    assert shown.epsilon_lower == pytest.approx(CEILINGS[size], abs=5e-4)


def test_ratio_bounds_are_those_of_asbio() -> None:
    counts = 473, 473 + 511, 755, 755 + 950
    assert katz(*counts, significance=0.05) == pytest.approx(1.01166194, abs=5e-9)
    assert adjusted_log(*counts, significance=0.05) == pytest.approx(1.01189079, abs=5e-9)
    assert bailey(*counts, significance=0.05) == pytest.approx(1.01148934, abs=5e-9)
    assert inverse_sinh(*counts, significance=0.05) == pytest.approx(1.01167669, abs=5e-9)


@pytest.mark.parametrize(("epsilon", "at_a_thousandth", "at_a_hundredth"), [(1, 0.00273, 0.02719), (2, 0.0074, 0.0739)])
def test_caps_that_a_claim_implies(epsilon: float, at_a_thousandth: float, at_a_hundredth: float) -> None:
    claim = Guarantee(epsilon=epsilon, delta=1e-5)
    digits = 5 if epsilon == 1 else 4
    assert round(claim.max_tpr(0.001), digits) == at_a_thousandth
    assert round(claim.max_tpr(0.01), digits) == at_a_hundredth


def test_caps_that_a_weak_claim_implies() -> None:
    claim = Guarantee(epsilon=4, delta=1e-5)
    assert (round(claim.max_tpr(0.001), 4), round(claim.max_tpr(0.01), 3)) == (0.0546, 0.546)


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [
        (0.1, 1e-5, 0.340669),
        (0.25, 1e-5, 0.926342),
        (0.5, 1e-5, 1.993091),
        (1, 1e-5, 4.377178),
        (2, 1e-5, 9.997256),
        (3, 1e-5, 16.675494),
        (4, 1e-5, 24.381611),
        (1, 1e-6, 4.886554),
        (2, 1e-6, 10.997151),
    ],
)
def test_epsilon_of_gaussian_privacy(mu: float, delta: float, epsilon: float) -> None:
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, abs=5e-7)


def test_gaussian_audit_shows_more_than_clopper_pearson() -> None:
    inside, outside = np.repeat([1.0, 0.0], [691, 309]), np.repeat([1.0, 0.0], [309, 691])
    shown = audit_scores(inside, outside, delta=1e-5, method=GaussianDP(), threshold=Explicit(0.5))
    assert shown.mu_lower == pytest.approx(0.83218, abs=5e-6)
    assert shown.epsilon_lower == pytest.approx(3.5431, abs=5e-5)
    assert any("Gaussian" in sentence for sentence in shown.assumptions)
    plain = audit_scores(inside, outside, delta=1e-5, threshold=Explicit(0.5))
    assert plain.epsilon_lower == pytest.approx(0.6692, abs=5e-5)


def test_jeffreys_interval_of_the_reference() -> None:
    low, high = jeffreys_interval(487, 487, 512, 513, delta=1e-5, credibility=0.9)
    # The published example, [.145, 6.399], was integrated to 5e-3 and solved to 1e-2; so it agrees to no more.
    assert low == pytest.approx(0.145, abs=0.01)
    assert high == pytest.approx(6.399, abs=0.02)
    # Ours against a million draws from the posterior; standard deviations of their quantiles: 0.0005 and 0.007.
    rng, delta = np.random.default_rng(1), 1e-5
    fpr, fnr = rng.beta(512.5, 1.5, 1_000_000), rng.beta(0.5, 487.5, 1_000_000)
    with np.errstate(divide="ignore", invalid="ignore"):
        rules = [(1 - delta - fnr) / fpr, (1 - delta - fpr) / fnr, (fnr - delta) / (1 - fpr), (fpr - delta) / (1 - fnr)]
        epsilon = np.log(np.maximum(np.fmax.reduce(rules), 1.0))
    drawn = np.quantile(epsilon, [0.05, 0.95])
    assert low == pytest.approx(drawn[0], abs=0.005)
    assert high == pytest.approx(drawn[1], abs=0.06)


def test_jeffreys_is_not_labelled_as_a_confidence_bound() -> None:
    shown = audit_scores([1.0] * 50, [0.0] * 50, method=Jeffreys(), threshold=Explicit(0.5))
    assert shown.guarantee.bound is Bound.ESTIMATE
    assert "credib" in str(shown)
    with pytest.raises(Unsupported, match="no confidence bound"):
        shown.compare(1.0)


@given(st.integers(1, 400), st.data(), st.floats(1e-6, 0.5))
def test_clopper_pearson_is_beta(size: int, data: st.DataObject, error: float) -> None:
    count = data.draw(st.integers(0, size))
    low, high = (float(clopper_pearson(count, size, error, side)) for side in (Side.LOWER, Side.UPPER))
    assert low == pytest.approx(beta.ppf(error, count, size - count + 1) if count else 0.0, rel=1e-9, abs=1e-300)
    assert high == pytest.approx(beta.isf(error, count + 1, size - count) if count < size else 1.0, rel=1e-9)
    assert float(clopper_pearson(size - count, size, error, Side.UPPER)) == pytest.approx(1 - low, rel=1e-9)


@given(st.integers(1, 100), st.integers(1, 100), st.data())
def test_a_group_shows_as_much_as_its_claim_allows(num_in: int, num_out: int, data: st.DataObject) -> None:
    tp, fp = data.draw(st.integers(0, num_in)), data.draw(st.integers(0, num_out))
    group, delta = data.draw(st.integers(2, 5)), data.draw(st.sampled_from([1e-6, 1e-3, 0.05]))
    one = epsilon_from_counts(tp, num_in, fp, num_out, delta=delta, group_size=group)
    pure = epsilon_from_counts(tp, num_in, fp, num_out, group_size=group)
    alone = epsilon_from_counts(tp, num_in, fp, num_out)
    assert 0 <= one.epsilon_lower <= pure.epsilon_lower == pytest.approx(alone.epsilon_lower / group)
    if one.epsilon_lower > 0:
        claim = Guarantee(epsilon=one.epsilon_lower * (1 + 1e-9), delta=delta).for_group(group)
        rates = one.details["tpr_lower"], one.details["fpr_upper"]
        assert claim.max_tpr(float(rates[1])) >= float(rates[0]) * (1 - 1e-7)


def test_both_rules_count() -> None:
    # Nearly nobody is cleared, but of members none: only the reverse rule says so.
    accusing = epsilon_from_counts(1000, 1000, 500, 1000)
    clearing = epsilon_from_counts(500, 1000, 0, 1000)
    assert accusing.epsilon_lower == pytest.approx(clearing.epsilon_lower, rel=1e-9)
    assert accusing.epsilon_lower > 4


@given(st.integers(1, 5000))
def test_the_ladder_is_a_ladder(total: int) -> None:
    rungs = ladder(total)
    assert rungs[0] == 0
    assert rungs[-1] == total
    assert np.all(np.diff(rungs) > 0)
    assert np.array_equal(rungs, total - rungs[::-1])


@given(st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf]), min_size=1, max_size=40), st.data())
def test_candidates_are_as_good_as_all_thresholds(inside: list[float], data: st.DataObject) -> None:
    """No threshold at all beats the candidates, by the bands that are corrected for."""
    from hush.audit.bounds.method import Level
    from hush.audit.bounds.rates import _bands

    outside = data.draw(st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf]), min_size=1, max_size=40))
    sample, method, level = Sample.of(inside, outside), ClopperPearson(), Level(0.05, 0.0)
    everywhere = _bands(sample, np.array([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf]), level.error)
    best = method.strength(everywhere.tpr_lower, everywhere.fpr_upper, level).max()
    assert method.everywhere(sample, level).lower == pytest.approx(max(float(best), 0.0))


def test_ties_are_accused_together() -> None:
    shown = audit_scores([1.0, 1.0, 0.0], [1.0, 0.0, 0.0], threshold=Explicit(1.0))
    assert (shown.details["tp"], shown.details["fp"]) == (2, 1)


def test_infinite_scores_are_in_order() -> None:
    inside, outside = np.repeat([math.inf, -math.inf], [190, 10]), np.repeat([math.inf, -math.inf], [10, 190])
    finite = audit_scores(np.clip(inside, -1, 1), np.clip(outside, -1, 1))
    assert audit_scores(inside, outside).epsilon_lower == pytest.approx(finite.epsilon_lower)
    assert finite.epsilon_lower > 1


@pytest.mark.parametrize("method", [ClopperPearson(), GaussianDP(), OneRun(), OneRunFDP()], ids=str)
def test_constant_scores_show_nothing(method: Any) -> None:
    for value in (0.0, math.inf, -math.inf):
        assert audit_scores([value] * 50, [value] * 50, delta=1e-3, method=method).epsilon_lower == 0


@pytest.mark.parametrize("rule", [Bonferroni(), SplitScores(), MultiSplit(), Explicit(3.0)], ids=str)
@pytest.mark.parametrize("method", [ClopperPearson(), GaussianDP(), OneRun()], ids=str)
def test_every_rule_finds_a_large_leak(method: Any, rule: Any) -> None:
    rng = np.random.default_rng(5)
    inside, outside = rng.normal(6.0, 1.0, 500), rng.normal(0.0, 1.0, 500)
    if isinstance(method, OneRun):
        coins = rng.permutation(np.repeat([True, False], 500))
        scores = np.where(coins, rng.normal(6.0, 1.0, 1000), rng.normal(0.0, 1.0, 1000))
        shown = audit_one_run(scores, coins, delta=1e-5, threshold=rule)
    else:
        shown = audit_scores(inside, outside, delta=1e-5, method=method, threshold=rule)
    # Over 20 seeds at least 3.7 in each case; nearest, at 8 standard deviations, is a run at an explicit threshold.
    assert 2.5 < shown.epsilon_lower <= shown.epsilon
    assert 0 < shown.num_in <= 500


def test_a_gaussian_audit_is_tight() -> None:
    # False alarms: 1e-7 above, and below 0.8 ten standard deviations, of 0.01 at 0.90.
    rng = np.random.default_rng(6)
    inside, outside = rng.normal(1.0, 1.0, 20_000), rng.normal(0.0, 1.0, 20_000)
    shown = audit_scores(inside, outside, delta=1e-5, confidence=1 - 1e-7, method=GaussianDP(), threshold=Explicit(0.5))
    assert shown.mu_lower is not None
    assert 0.8 < shown.mu_lower < 1.0


def test_trials_weaken_the_bound() -> None:
    inside, outside = norm.ppf(expit(np.linspace(-5, 5, 200))) + 2, norm.ppf(expit(np.linspace(-5, 5, 200)))
    one, ten = (audit_scores(inside, outside, num_trials=trials) for trials in (1, 10))
    same = audit_scores(inside, outside, confidence=0.995)
    assert one.epsilon_lower > ten.epsilon_lower == pytest.approx(same.epsilon_lower)
    assert (ten.confidence, ten.details["num_trials"]) == (0.95, 10)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"scores_in": []}, "scores_in="),
    ({"scores_out": []}, "scores_out="),
    ({"scores_in": [1.0, math.nan]}, "scores_in=.*NaN"),
    ({"scores_in": [[1.0]]}, "scores_in="),
    ({"scores_in": ["a"]}, "scores_in="),
    ({"confidence": 1.0}, "confidence="),
    ({"confidence": math.nan}, "confidence="),
    ({"confidence": 95}, "confidence="),
    ({"delta": 1.0}, "delta="),
    ({"delta": math.nan}, "delta="),
    ({"num_trials": 0}, "num_trials="),
    ({"method": "clopper-pearson"}, "method="),
    ({"threshold": "bonferroni"}, "threshold="),
    ({"method": GaussianDP()}, "delta="),
    ({"threshold": SplitScores()}, "fraction="),
    ({"method": OneRun(num_guesses=3)}, "num_guesses="),
    ({"method": OneRun(num_guesses=1), "threshold": Bonferroni()}, "threshold="),
    ({"method": Jeffreys(), "threshold": Bonferroni()}, "Jeffreys over all"),
    ({"method": OneRunFDP(), "threshold": Explicit(0.0), "delta": 0.1}, "OneRunFDP at a threshold"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_what_makes_no_audit_is_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"scores_in": [1.0], "scores_out": [0.0], **change}
    with pytest.raises(HushError, match=message):
        audit_scores(arguments.pop("scores_in"), arguments.pop("scores_out"), **arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Explicit(math.nan),
        lambda: SplitScores(fraction=1.0),
        lambda: SplitScores(seed=-1),
        lambda: MultiSplit(num_splits=0),
        lambda: OneRun(num_guesses=0),
        lambda: OneRun(num_out_guesses=3),
        lambda: clopper_pearson(3, 2, 0.05, Side.LOWER),
        lambda: clopper_pearson(1, 2, 0.0, Side.LOWER),
        lambda: clopper_pearson(math.nan, 2, 0.05, Side.LOWER),
        lambda: clopper_pearson(1, 2, 0.05, "lower"),  # type: ignore[arg-type]
        lambda: epsilon_from_counts(3, 2, 0, 2),
        lambda: epsilon_from_counts(1, 2, 0, 0),
        lambda: epsilon_from_counts(1, 2, 0, 2, group_size=0),
        lambda: gdp_epsilon(1.0, 0.0),
        lambda: gdp_epsilon(math.nan, 0.1),
        lambda: jeffreys_interval(1, 1, 2, 1),
        lambda: jeffreys_interval(1, 1, 0, 1, credibility=1.0),
        lambda: katz(1, 2, 0, 2, significance=0.05),
        lambda: bailey(3, 2, 1, 2, significance=0.05),
    ],
)
def test_values_that_mean_nothing_are_refused(call: Any) -> None:
    with pytest.raises(InvalidArgument):
        call()
