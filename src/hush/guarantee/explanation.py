"""`Guarantee.explain`: a guarantee in plain English, for readers who have never heard of epsilon.

    headline      the one-line summary, as `str(guarantee)` gives it
    status        upper bound, estimate or lower bound
    protection    the privacy unit, and the question about it that the result hides
    limits        a list: odds, belief, the best attack, its advantage, risk, delta
    caveats       risks that the limits do not cover, and a verdict on a large epsilon
    assumptions   what hush did not check, as a list

Every figure is rounded so that its sentence stays true (see `hush.guarantee.rounding`). The sentences about delta
respect that (epsilon, delta) privacy is weaker than "epsilon with probability 1 - delta".
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hush.guarantee.rounding import factor, percent, rounded, rounded_percentage
from hush.guarantee.terms import Bound, Relation
from hush.guarantee.unit import Unit, UnitKind

if TYPE_CHECKING:
    from hush.guarantee.guarantee import Guarantee

_WIDTH = 100

# The false positive rates at which the best attack is described: one wrong accusation in a thousand, and in a hundred.
_STRICT_FPR, _LOOSE_FPR = 0.001, 0.01

# Beyond this factor, "20 times as likely" is easier to grasp than "1900 % more likely".
_LARGEST_FACTOR_AS_PERCENT = 10.0

# From here on delta alone is a real risk: publishing that fraction of the records outright would satisfy it.
_LARGE_DELTA = 1e-3

# The verdict on an epsilon above each threshold, the largest threshold first.
_VERDICTS = (
    (10.0, "An epsilon above 10 is a very weak guarantee: in the worst case, it hardly limits an attacker."),
    (5.0, "An epsilon above 5 is a weak guarantee: the worst case it allows is far from harmless."),
)

# How to say what happens to the unit in the two neighbouring datasets.
_ALTERNATIVES = {
    Relation.ADD_OR_REMOVE: "was used",
    Relation.REPLACE: "was used or replaced by something else",
    Relation.ZERO_OUT: "was used or blanked out",
}

# What you did, compared with what you could have done, in the sentence about risk.
_PARTICIPATION = {
    Relation.ADD_OR_REMOVE: "including {data}",
    Relation.REPLACE: "using {data} instead of something else in its place",
    Relation.ZERO_OUT: "using {data} instead of blanking it out",
}


# The unit, or a group of units, as a sentence refers back to it.
_SINGULAR = {
    UnitKind.EXAMPLE: "that example",
    UnitKind.USER: "that user's data",
    UnitKind.USER_WINDOW: "that user's data from that period",
}
_PLURAL = {
    UnitKind.EXAMPLE: "that group",
    UnitKind.USER: "those users' data",
    UnitKind.USER_WINDOW: "the data from those windows",
}


def explain(guarantee: Guarantee) -> str:
    """Return the explanation, wrapped to the width of a terminal."""
    return "\n".join([str(guarantee), *_BODIES[guarantee.bound](guarantee), *_assumptions(guarantee)])


def paragraphs(guarantee: Guarantee) -> list[str]:
    """Return what follows the headline, one paragraph or item of a list each, without line breaks."""
    pieces = [*_BODIES[guarantee.bound](guarantee), *_assumptions(guarantee)]
    return [" ".join(piece.split()) for piece in pieces if piece]


def _explain_upper(guarantee: Guarantee) -> Iterator[str]:
    yield from _promise(guarantee, "This is an upper bound: the true epsilon is at most this.", "The limits below hold")


def _explain_estimate(guarantee: Guarantee) -> Iterator[str]:
    status = "This is an estimate, not a guarantee: the true epsilon may be larger."
    yield from _promise(guarantee, status, "If the estimate were exact, the limits below would hold")


def _explain_lower(guarantee: Guarantee) -> Iterator[str]:
    """Yield the lines about a lower bound: what an attack has proven."""
    yield ""
    if guarantee.epsilon == 0:
        yield _paragraph("This lower bound is zero: no leakage was proven. That does not prove that there is none.")
        return
    times = factor(guarantee.epsilon, Bound.LOWER)
    belief = percent(guarantee.posterior(0.5), Bound.LOWER)
    yield _paragraph(
        f"This is a lower bound: it proves leakage and promises nothing. The result can reveal whether "
        f"{_introduction(guarantee.unit)} {_ALTERNATIVES[guarantee.relation]}. Some results turn even odds into at "
        f"least {times} to 1, for or against: a belief of 50 % becomes at least {belief}. Any claim of a smaller "
        f"epsilon at this delta is false, and the true epsilon may be much larger. The proof is only as certain as "
        f"the method behind it."
    )


def _promise(guarantee: Guarantee, status: str, condition: str) -> Iterator[str]:
    """Yield the lines about the protected unit and its protection, for an upper bound or an estimate."""
    yield ""
    if guarantee.epsilon == math.inf:
        yield _paragraph("No finite epsilon is known, so this promises nothing: treat the result as not private.")
        return
    yield _paragraph(
        f"{status} It protects each {_unit_name(guarantee.unit)}: the result hides whether "
        f"{_reference(guarantee.unit)} {_ALTERNATIVES[guarantee.relation]}. {condition} for anyone who sees the "
        f"result, whatever else they know and however much they compute:"
    )
    yield from map(_bullet, _limits(guarantee))
    yield from (_paragraph(caveat) for caveat in _caveats(guarantee))


def _unit_name(unit: Unit) -> str:
    """Return the unit as it follows "each"."""
    return str(unit) if unit.group_size > 1 else f"single {unit}"


def _reference(unit: Unit) -> str:
    """Return the unit as a sentence refers back to it."""
    return (_PLURAL if unit.group_size > 1 else _SINGULAR)[unit.kind]


def _introduction(unit: Unit) -> str:
    """Return the unit as a sentence introduces it."""
    if unit.kind is UnitKind.EXAMPLE:
        return f"a {_unit_name(unit)}"
    return f"the data of a {_unit_name(unit)}"


def _limits(guarantee: Guarantee) -> Iterator[str]:
    """Yield the items of the list of limits."""
    bound = guarantee.bound
    belief = percent(guarantee.posterior(0.5), bound)
    points = rounded_percentage(guarantee.advantage(), bound)
    strict_fpr, loose_fpr = percent(_STRICT_FPR, bound), percent(_LOOSE_FPR, bound)
    strict_tpr = percent(guarantee.max_tpr(_STRICT_FPR), bound)
    loose_tpr = percent(guarantee.max_tpr(_LOOSE_FPR), bound)
    yield f"Odds: even odds become at most {factor(guarantee.epsilon, bound)} to 1, for or against (e^epsilon to 1)."
    yield f"Belief: someone who thought it 50 % likely beforehand thinks it at most {belief} likely afterwards."
    yield (
        f"Attack: the best possible membership attack finds at most {strict_tpr} of the members if it may wrongly "
        f"accuse {strict_fpr} of the non-members, and at most {loose_tpr} if it may wrongly accuse {loose_fpr}."
    )
    yield f"Advantage: its true positive rate exceeds its false positive rate by at most {points} percentage points."
    yield f"Risk: {_risk(guarantee)}"
    yield f"Delta: {_slack(guarantee)}"


def _risk(guarantee: Guarantee) -> str:
    """State how much more likely any consequence can become: in percent if the factor is small, else as a factor."""
    data = "your data" if guarantee.unit.group_size == 1 else "the group's data"
    likelihood = (
        f"{percent(math.expm1(guarantee.epsilon), guarantee.bound)} more likely"
        if guarantee.epsilon <= math.log(_LARGEST_FACTOR_AS_PERCENT)
        else f"{factor(guarantee.epsilon, guarantee.bound)} times as likely"
    )
    return f"{_PARTICIPATION[guarantee.relation].format(data=data)} makes any consequence at most {likelihood}."


def _slack(guarantee: Guarantee) -> str:
    """Explain delta."""
    if guarantee.delta == 0:
        return "zero, so these limits hold without exception."
    text = (
        f"{rounded(guarantee.delta, guarantee.bound)} is slack: any probability may grow by this much in addition. It "
        f"is not the probability that the guarantee fails, but no attack gains more from it than if everything were "
        f"disclosed with this probability. Odds, belief and risk are stated without it."
    )
    if guarantee.delta < _LARGE_DELTA:
        return text
    return f"{text} It is large: publishing each record outright with this probability would satisfy it."


def _caveats(guarantee: Guarantee) -> Iterator[str]:
    """Yield the risks that the limits do not cover, and a verdict on a large epsilon."""
    # Membership bounds compare two datasets that agree otherwise; dependent records void them (Humphries et al. 2023).
    yield "All of this takes the other data as fixed: it does not cover what related records reveal."
    # That smoking causes cancer is known about smokers who took part in no survey (Dwork & Roth 2014, section 1).
    yield "What is true of the population can still be learnt about you, and would be without your data, too."
    if words := verdict(guarantee.epsilon):
        yield words


def verdict(epsilon: float) -> str:
    """Return a warning about an epsilon that promises little; an empty string otherwise.

    >>> verdict(1.0), verdict(6.0)
    ('', 'An epsilon above 5 is a weak guarantee: the worst case it allows is far from harmless.')
    """
    return next((words for threshold, words in _VERDICTS if epsilon > threshold), "")


def _assumptions(guarantee: Guarantee) -> Iterator[str]:
    if guarantee.assumptions:
        yield "It rests on these assumptions:"
        yield from map(_bullet, guarantee.assumptions)


def _paragraph(text: str) -> str:
    return textwrap.fill(text, _WIDTH)


def _bullet(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  - ", subsequent_indent="    ")


_BODIES = {Bound.UPPER: _explain_upper, Bound.ESTIMATE: _explain_estimate, Bound.LOWER: _explain_lower}
