"""Where hush and a peer's expected value differ, and which of them the evidence supports.

A value may differ only if a line here allows it, and only in the way that the line says. The page
``docs/accounting.md`` has the same list in words. `tests/accounting/test_published_truths.py` shows who is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from peers.facts import Group
from peers.verdicts import Verdict

Condition = Callable[[Verdict], bool]


@dataclass(frozen=True)
class Disagreement:
    """A kind of difference.

    Attributes:
        test: Part of the name of the peer's tests that it concerns.
        reason: Who is right, and why.
        allows: Which differences it explains.
    """

    test: str
    reason: str
    allows: Condition


def _above(verdict: Verdict, slack: float = math.inf) -> bool:
    """hush gives a larger number, which is still a bound."""
    value, ours = verdict.row["value"], verdict.ours
    return isinstance(ours, float) and value < ours <= value * (1 + slack)


def _below(verdict: Verdict, slack: float = math.inf) -> bool:
    value, ours = verdict.row["value"], verdict.ours
    return isinstance(ours, float) and value * (1 - min(slack, 1)) <= ours < value


def _any(verdict: Verdict) -> bool:
    return True


def _with_delta(verdict: Verdict) -> bool:
    return verdict.row["delta"] > 0


def _added(verdict: Verdict) -> bool:
    return verdict.row["direction"] == "add" and verdict.row["rate"] < 1


def _at_order_near_one(verdict: Verdict) -> bool:
    return verdict.row["order"] == 1.5 and _below(verdict, 0.05)


def _three_shifts(verdict: Verdict) -> bool:
    return len(verdict.row["shifts"]) == 3


PURE = "Theirs ignores delta and returns noise for delta 0: more than is needed. hush is right, theirs is safe."
WRONG_SIDE = "Theirs calibrates the removal although addition was asked for: more noise than needed. hush is right."
TRUNCATED = (
    "Theirs is too small: an integer interval makes NumPy truncate the outcomes that it looks for (a float interval "
    "gives hush's values). delta(0) of a plain Gaussian comes out as 0.3413 for 0.3829. hush is right."
)
OUTCOMES = (
    "Theirs counts P(loss <= 0) as 0.5 at the integer interval 1, and as 0.2566 at the interval 0.5, for the same "
    "mixture: the same truncation. hush gives 0.2566 at both."
)
LOOSE_PAIR = "Theirs takes the pair of a replaced record for a full batch: a bound, and looser. hush is tighter."
NARROW = (
    "hush's certified upper bound lies 2e-6 above the truth, relative; with accuracy=1e-8 it agrees. Both are right."
)
GRID = "Theirs is rounded up to a grid of losses. hush is right, by up to 5e-6; theirs is safe."
ROUNDED = "hush's certified upper bound lies a few 1e-12 above the truth. Both are right."
SERIES = "Theirs is 3 % above the integral at order 1.5: its series for fractional orders stops early. hush is right."
ORDERS = "Theirs takes the best of a list of orders, hush the best of all. hush is right, theirs is safe."
SEARCH = "hush's search over orders stops 4e-7 above the best one. Theirs is the better number, hush's is safe."
ERROR_ADDED = "Theirs is an upper bound with an error of 0.01 added. hush is right, theirs is safe."
BISECTION = "Theirs stops when epsilon is within 0.01 of the target. hush returns the smallest noise, theirs is safe."
LOOSE_RANGE = "Theirs is the range in which its bound must lie. hush gives the exact 0.99999, which is below it."
BOUNDED_RANGE = "At order 1 hush bounds every mechanism of this range at once, theirs the worst one. Theirs is tighter."
MONOTONE = "hush takes the best of other orders than theirs, up to 1e-5 looser. Theirs is tighter."
GROWING = "Theirs does not use that divergences grow with the order: 50,724 for 20. hush is tighter."
CAPPED = "Theirs caps the divergence of large orders by epsilon. hush's bound is 0.9929, the supremum 0.9926."
CHOICE_PAID = "hush's lower bound pays for choosing the threshold, and lies up to 12 % below the truth. Both are valid."
BOTH_ERRORS = "hush uses both errors at a threshold, theirs one. Both are valid; hush's lower bound is larger."
DISCRETE = "Theirs takes the continuous Gaussian for the discrete one: an upper bound. hush is exact and below it."
UNSAMPLED = "hush gives a sampled discrete Gaussian at large orders the divergence without sampling. Theirs is tighter."

DISAGREEMENTS = (
    Disagreement("LaplacePrivacyLossTest.test_laplace_from_privacy_parameters", PURE, _with_delta),
    Disagreement("test_discrete_laplace_from_privacy_parameters", PURE, _with_delta),
    Disagreement("LaplacePrivacyLossTest.test_laplace_from_privacy_parameters", WRONG_SIDE, _added),
    Disagreement("test_discrete_laplace_from_privacy_parameters", WRONG_SIDE, _added),
    Disagreement("test_discrete_gaussian_from_privacy_parameters", WRONG_SIDE, _added),
    Disagreement("test_mixture_gaussian_varying_standard_deviation_and_sensitivity_connect_dots", TRUNCATED, _any),
    Disagreement("test_mixture_gaussian_varying_standard_deviation_and_sensitivity", OUTCOMES, _three_shifts),
    Disagreement("test_mixture_of_gaussians_basic", NARROW, lambda v: _above(v, 2e-6)),
    Disagreement("test_truncated_subsampled_gaussian_basic", LOOSE_PAIR, _below),
    Disagreement("test_get_smallest_subsampled_gaussian_noise", GRID, _any),
    Disagreement("test_get_epsilon_gaussian_inverts_get_sigma_gaussian", ROUNDED, lambda v: _above(v, 1e-5)),
    Disagreement("RdpPrivacyAccountantTest.test_compute_rdp_poisson_sampled_gaussian", SERIES, _at_order_near_one),
    Disagreement("test_compute_epsilon_delta_gaussian", SEARCH, lambda v: _above(v, 1e-6)),
    Disagreement("test_rdp_accountant", ORDERS, lambda v: _below(v, 2e-4)),
    Disagreement("test_accountant_load_state_dict", ORDERS, lambda v: _below(v, 2e-4)),
    Disagreement("test_prv_accountant", ERROR_ADDED, lambda v: v.row["value"] - 0.011 <= v.ours < v.row["value"]),
    Disagreement("PRVAccountantTest", ERROR_ADDED, lambda v: v.row["value"] - 0.025 <= v.ours < v.row["value"]),
    Disagreement("test_get_noise_multiplier", BISECTION, lambda v: _below(v, 2e-3)),
    Disagreement("test_epsilon_delta_dp_event_with_epsilon", LOOSE_RANGE, lambda v: v.ours < v.row["low"]),
    Disagreement("test_compute_rdp_exponential_mechanism", BOUNDED_RANGE, _above),
    Disagreement(
        "test_compute_rdp_exponential_mechanism", CAPPED, lambda v: v.row["order"] == 1000 and _below(v, 0.01)
    ),
    Disagreement("test_repeat_select_gaussian_negative_binomial", MONOTONE, lambda v: _above(v, 1e-5)),
    Disagreement("test_repeat_and_select_pure_poisson", GROWING, _below),
    Disagreement("test_epsilon_from_gdp_tight", CHOICE_PAID, lambda v: 0.85 * v.ours[1] < v.ours[0] < v.ours[1]),
    Disagreement("test_epsilon_clopper_pearson_explicit", BOTH_ERRORS, lambda v: v.ours is not None),
    Disagreement("test_poisson_sampled_discrete_gaussian_matches_gaussian", DISCRETE, _below),
    Disagreement("test_poisson_sampled_discrete_gaussian_matches_gaussian", UNSAMPLED, _above),
)


def explanation(group: Group, verdict: Verdict) -> str:
    """Return the reason why a value differs, or "" if nothing explains it."""
    for kind in DISAGREEMENTS:
        if kind.test in group.test and kind.allows(verdict):
            return kind.reason
    return ""
