"""Facts about audits: bounds from scores, p-values of guesses, ROC curves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, expit
from scipy.stats import binom, norm

from hush import audit
from hush.audit.bounds.counts import Side, clopper_pearson
from hush.audit.bounds.one_run import _TailBound, one_run_epsilon
from hush.audit.bounds.one_run_fdp import one_run_fdp_mu
from hush.errors import InvalidArgument, Unsupported
from peers.accounts import gaussian_epsilon
from peers.facts import Group, Row
from peers.verdicts import NotExpressible, Verdict, Verdicts, number

Scores = NDArray[np.float64]


def compare(group: Group) -> Verdicts:
    """Compare every value of a group."""
    for row in group.rows:
        try:
            yield COMPARISONS[group.quantity](group, row)
        except (NotExpressible, Unsupported, InvalidArgument) as refusal:
            yield Verdict(row, None, False, str(refusal))


def normal_scores(mu: float, count: int) -> Scores:
    """Return the quantiles of N(mu, 1) at the middles of ``count`` equal parts of [0, 1]."""
    return np.asarray(norm.ppf((np.arange(count) + 0.5) / count) + mu)


def _clopper_pearson_upper(group: Group, row: Row) -> Verdict:
    """A binomial of the bound has at most this many successes with the probability that was asked for."""
    bound = float(clopper_pearson(row["count"], row["total"], row["value"], Side.UPPER))
    return number(group, row, float(bdtr(row["count"], row["total"], bound)))


def _explicit(group: Group, row: Row) -> Verdict:
    inside, outside = normal_scores(1, row["num_in"]), normal_scores(0, int(row["num_in"] * row["ratio"]))
    cut, half = row["threshold"], row["significance"] / 2
    tpr = clopper_pearson(np.sum(inside >= cut), inside.size, half, Side.LOWER)
    fpr = clopper_pearson(np.sum(outside >= cut), outside.size, half, Side.UPPER)
    expected = max(0.0, float(np.log(tpr / fpr)))
    ours = audit.audit_scores(inside, outside, confidence=1 - row["significance"], threshold=audit.Explicit(cut))
    return number(group, {**row, "value": expected}, ours.epsilon_lower)


def _p_value(group: Group, row: Row) -> Verdict:
    """The theorem's sum, term by term, against the bound that inverts it."""
    correct = row["guesses"] - row["wrong"]
    share = float(expit(row["epsilon"]))
    masses = [float(binom.pmf(correct - i, row["guesses"], share)) for i in range(1, correct + 1)]
    worst = max((sum(masses[:i]) / i for i in range(1, correct + 1)), default=0.0)
    tail = float(binom.sf(correct - 1, row["guesses"], share))
    expected = min(tail + worst * row["delta"] * 2 * row["canaries"], 1.0)
    ours = _TailBound(row["canaries"], row["guesses"], correct, row["delta"]).fixed_guesses(row["epsilon"])
    return number(group, {**row, "value": expected}, ours)


def _one_run_epsilon(group: Group, row: Row) -> Verdict:
    """Their best bound over the vertices of the hull, with the error divided by how many there are.

    hush's own audits divide by a number that the scores do not choose, so the vertices are taken one by one here.
    """
    inside, outside = normal_scores(row["shift"], 10_000), normal_scores(0, 10_000)
    hull = audit.roc(inside, outside).hull()
    best, error = 0.0, 0.05 / len(hull.tp)
    size = inside.size + outside.size
    for tp, fp in zip(hull.tp[1:], hull.fp[1:], strict=True):
        guesses, correct = int(tp + fp), int(tp)
        if row["full_curve"]:
            mu = one_run_fdp_mu(size, guesses, correct, significance=error)
            best = max(best, gaussian_epsilon(1 / mu, 1e-6) if mu > 0 else 0.0)
        else:
            best = max(best, one_run_epsilon(size, guesses, correct, significance=error, delta=1e-6))
    return number(group, row, best)


_RULES: dict[str, Callable[[], object]] = {
    "bonferroni": audit.Bonferroni,
    "split": audit.SplitScores,
    "multi-split": audit.MultiSplit,
}


def _audited_gaussian(group: Group, row: Row) -> Verdict:
    """A bound that stays below the truth, and within their tolerance of it."""
    inside = normal_scores(row["mu"], row["num_in"])
    outside = normal_scores(0, int(row["num_in"] * row["ratio"]))
    ours = audit.audit_scores(
        inside,
        outside,
        delta=row["delta"],
        confidence=1 - row["significance"],
        threshold=_RULES[row["rule"]](),  # type: ignore[arg-type]
    ).epsilon_lower
    truth = gaussian_epsilon(1 / row["mu"], row["delta"])
    return Verdict(row, (ours, truth), ours < truth and group.agrees(ours, truth))


def _audited_gdp(group: Group, row: Row) -> Verdict:
    """The same with scores known to be Gaussian. With mu <= 0 there is nothing to find."""
    inside = normal_scores(row["mu"], row["num_in"])
    outside = normal_scores(0, int(row["num_in"] * row["ratio"]))
    ours = audit.audit_scores(
        inside, outside, delta=row["delta"], confidence=1 - row["significance"], method=audit.GaussianDP()
    ).epsilon_lower
    truth = gaussian_epsilon(1 / row["mu"], row["delta"]) if row["mu"] > 0 else 0.0
    return Verdict(row, (ours, truth), ours <= truth and group.agrees(ours, truth))


def _scores(row: Row) -> tuple[Scores, Scores]:
    num_in, num_out = row["num_in"], int(row["num_in"] * row["ratio"])
    if row["kind"] == "circular":
        return np.sqrt(1 - np.linspace(0, 1, num_in) ** 2), np.linspace(0, 1, num_out)
    inside, outside = (0.0, 1.0) if row["kind"] == "worst" else (1.0, 0.0)
    return np.full(num_in, inside), np.full(num_out, outside)


def _tpr(group: Group, row: Row) -> Verdict:
    return _tpr_of(group, {**row, **dict(zip(("inside", "outside"), _scores(row), strict=True))})


def _tpr_of(group: Group, row: Row) -> Verdict:
    """They read the hull between its vertices, as a coin between two thresholds does."""
    hull = audit.roc(row["inside"], row["outside"]).hull()
    steepest = hull.fpr[np.searchsorted(hull.fpr, 0.0, side="right") - 1 :]
    ours = float(np.interp(row["fpr"], steepest, hull.tpr[-steepest.size :]))
    return number(group, row, ours)


def _area(group: Group, row: Row) -> Verdict:
    return _area_of(group, {**row, **dict(zip(("inside", "outside"), _scores(row), strict=True))})


def _area_of(group: Group, row: Row) -> Verdict:
    return number(group, row, audit.roc(row["inside"], row["outside"]).hull().auc)


def _hull_counts(group: Group, row: Row) -> Verdict:
    """Theirs counts scores below a threshold, from the lowest threshold up."""
    hull = audit.roc(row["inside"], row["outside"]).hull()
    negatives_out = (hull.num_out - hull.fp)[::-1].tolist()
    negatives_in = (hull.num_in - hull.tp)[::-1].tolist()
    agrees = negatives_out == row["negatives_out"] and negatives_in == row["negatives_in"]
    thresholds = [math.inf if value == "inf" else value for value in row["thresholds"]]
    return Verdict(row, (negatives_out, negatives_in), agrees and hull.thresholds[::-1].tolist() == thresholds)


COMPARISONS: dict[str, Callable[[Group, Row], Verdict]] = {
    "clopper-pearson-upper": _clopper_pearson_upper,
    "explicit-threshold": _explicit,
    "one-run-p-value": _p_value,
    "one-run-epsilon": _one_run_epsilon,
    "audited-gaussian": _audited_gaussian,
    "audited-gdp": _audited_gdp,
    "hull-tpr": _tpr,
    "hull-tpr-of": _tpr_of,
    "hull-area": _area,
    "hull-area-of": _area_of,
    "hull-counts": _hull_counts,
}
