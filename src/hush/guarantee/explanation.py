"""A guarantee in plain words, for somebody who has never heard of epsilon.

Every figure is rounded to the side that keeps its sentence true (see `hush.guarantee.rounding`), and every sentence
about delta respects that (epsilon, delta) is weaker than "epsilon with probability 1 - delta".
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

# False positive rates at which an attack is judged: one wrong accusation in a thousand, and in a hundred.
_LOW_FPRS = (0.001, 0.01)

# Beyond this factor "grows by 1900 %" is harder to grasp than "20 times".
_LARGEST_FACTOR_AS_PERCENT = 10.0

# From here on delta alone is a real risk: publishing that share of the records outright would satisfy it.
_LARGE_DELTA = 1e-3

# What to say of an epsilon above the number, the largest first.
_VERDICTS = (
    (10.0, "An epsilon above 10 promises little: in the worst case it hardly limits an attacker at all."),
    (5.0, "An epsilon above 5 is a weak promise: the worst case it allows is far from harmless."),
)

# What the attacker wants to know about the protected thing, and the world to compare with.
_QUESTIONS = {
    Relation.ADD_OR_REMOVE: ("whether it was used or not", "leaving it out"),
    Relation.REPLACE: (
        "whether it or something else in its place was used",
        "putting something else in its place",
    ),
    Relation.ZERO_OUT: ("whether it was used or blanked out", "blanking it out"),
}


def explain(guarantee: Guarantee) -> str:
    """Write the explanation: a headline, what is protected, the limits as a list, caveats, assumptions."""
    return "\n".join([str(guarantee), *_BODIES[guarantee.bound](guarantee), *_assumptions(guarantee)])


def _explain_upper(guarantee: Guarantee) -> Iterator[str]:
    yield from _promise(guarantee, "This is an upper bound, a promise.")


def _explain_estimate(guarantee: Guarantee) -> Iterator[str]:
    yield from _promise(
        guarantee,
        "This is an estimate, not a guarantee: the true epsilon may be larger. What follows would hold if the "
        "estimate were exact.",
    )


def _explain_lower(guarantee: Guarantee) -> Iterator[str]:
    yield ""
    if guarantee.epsilon == 0:
        yield _paragraph("This lower bound is zero: no leakage was proven. That is no proof that there is none.")
        return
    question, _ = _QUESTIONS[guarantee.relation]
    times = factor(guarantee.epsilon, Bound.LOWER)
    belief = percent(guarantee.posterior(0.5), Bound.LOWER)
    yield _paragraph(
        f"This is a lower bound: it proves leakage and promises nothing. At stake is {_protected(guarantee.unit)}: "
        f"{question}. Some outcomes turn even odds into at least {times} to 1, for or against: 50 % likely becomes at "
        f"least {belief} likely. Any claim of a smaller epsilon at this delta is false, and the true epsilon may be "
        f"much larger. The proof is as certain as the method behind it."
    )


def _promise(guarantee: Guarantee, status: str) -> Iterator[str]:
    yield ""
    if guarantee.epsilon == math.inf:
        yield _paragraph("No finite epsilon is known, so this promises nothing: treat the result as not private.")
        return
    question, _ = _QUESTIONS[guarantee.relation]
    yield _paragraph(
        f"{status} Protected is {_protected(guarantee.unit)}: {question}. The limits for anybody who sees the result, "
        f"whatever else they know and however much they compute:"
    )
    yield from map(_bullet, _limits(guarantee))
    yield from (_paragraph(caveat) for caveat in _caveats(guarantee))


def _protected(unit: Unit) -> str:
    owner = "" if unit.kind is UnitKind.EXAMPLE else "the data of "
    return f"{owner}any {unit}" if unit.group_size > 1 else f"{owner}any one {unit}"


def _limits(guarantee: Guarantee) -> Iterator[str]:
    bound = guarantee.bound
    belief = percent(guarantee.posterior(0.5), bound)
    points = rounded_percentage(guarantee.advantage(), bound)
    (few, few_found), (some, some_found) = (
        (percent(fpr, bound), percent(guarantee.max_tpr(fpr), bound)) for fpr in _LOW_FPRS
    )
    yield f"Odds: even odds become at most {factor(guarantee.epsilon, bound)} to 1, for or against (e^epsilon to 1)."
    yield f"Belief: somebody who held it 50 % likely before holds it at most {belief} likely afterwards."
    yield (
        f"Attack: the best possible membership attack finds at most {few_found} of the members if it may wrongly "
        f"accuse {few} of the others, and at most {some_found} if it may wrongly accuse {some}."
    )
    yield f"Advantage: the share it finds exceeds the share it wrongly accuses by at most {points} percentage points."
    yield f"Risk: {_risk(guarantee)}"
    yield f"Delta: {_slack(guarantee)}"


def _risk(guarantee: Guarantee) -> str:
    """Say by how much the chance of any consequence may grow, as a percentage while that can be pictured."""
    _, otherwise = _QUESTIONS[guarantee.relation]
    growth = (
        f"by at most {percent(math.expm1(guarantee.epsilon), guarantee.bound)}"
        if guarantee.epsilon <= math.log(_LARGEST_FACTOR_AS_PERCENT)
        else f"at most by a factor of {factor(guarantee.epsilon, guarantee.bound)}"
    )
    return f"your risk of anything that the result may bring about grows {growth}, compared with {otherwise}."


def _slack(guarantee: Guarantee) -> str:
    if guarantee.delta == 0:
        return "zero, so that these limits hold without exception."
    text = (
        f"{rounded(guarantee.delta, guarantee.bound)} is slack: every chance may grow by this much on top. It is not "
        f"the chance that the promise fails, yet no attack gains more from it than if everything were disclosed with "
        f"this probability. Odds, belief and risk are stated without it."
    )
    if guarantee.delta < _LARGE_DELTA:
        return text
    return f"{text} It is large: publishing each record outright with this probability would satisfy it."


def _caveats(guarantee: Guarantee) -> Iterator[str]:
    # Membership bounds compare two datasets that agree otherwise; dependent records void them (Humphries et al. 2023).
    yield "All of this holds the other data fixed: what related records give away is not covered."
    for threshold, verdict in _VERDICTS:
        if guarantee.epsilon > threshold:
            yield verdict
            return


def _assumptions(guarantee: Guarantee) -> Iterator[str]:
    if guarantee.assumptions:
        yield "It stands on these assumptions:"
        yield from map(_bullet, guarantee.assumptions)


def _paragraph(text: str) -> str:
    return textwrap.fill(text, _WIDTH)


def _bullet(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  - ", subsequent_indent="    ")


_BODIES = {Bound.UPPER: _explain_upper, Bound.ESTIMATE: _explain_estimate, Bound.LOWER: _explain_lower}
