"""The statements of an answer about its limits and bounds, what they leave out, and what the intervals mean.

The noise hides one unit within the limits, so no interval can tell what units hold beyond them: with or without a unit
of m rows, a private interval that covers the truth is at least m wide. The following can still be said:

- The interval of an answer covers the answer that counts each unit within the limits, and each value within the bounds.
  If no unit is beyond, that is the truth. A unit within the limits counts in full, so the interval needs nothing more
  than the noise for it. Units just beyond are expected to hold something, which intervals of counts and sums allow for
  (`intervals`); `QueryAnswer.noise_intervals` do not.
- Leaving rows out only makes a count smaller, and a sum if no value is below the lower bound. So the lower ends of
  counts are valid for the true answer in any case.
- If no unit has more rows than a number that you know (`MostRows`), the noise covers all of them.
- What is beyond is estimated from the same noisy histograms that limits and bounds were chosen from, for free. The
  number of units in a level times what such units hold, added up over levels, is what they hold in total. The noise of
  high levels would drown that sum, so it ends at four times a limit.

All of it is public: it follows from the plan, declarations and what was released.
"""

from __future__ import annotations

from collections.abc import Iterator

from hush.guarantee import Unit
from hush.sql.answer.choices.bounds import LearnedBounds
from hush.sql.answer.choices.chooser import Choices, ChoicesPlan
from hush.sql.answer.choices.limits import Limits, Measure, RequestedLimits
from hush.sql.answer.priced_query import PricedQuery
from hush.sql.syntax.releases import QueryStatistic
from hush.sql.write.plan import QueryPlan
from hush.statistics import TotalLimits
from hush.statistics.noise import ChosenLimit


def conditions(query: PricedQuery, requested: RequestedLimits, choices: Choices, confidence: float) -> list[str]:
    """Return an answer's statements about its limits, bounds and intervals."""
    return [
        *_limits(query, requested, choices),
        *_bounds(query.plan, choices),
        *_meaning(query, requested, choices, confidence),
    ]


def open_choices(plan: QueryPlan, choices_plan: ChoicesPlan, known: Choices) -> list[str]:
    """Return a price's statements if limits or bounds have to be chosen first."""
    lines = []
    if choices_plan.limits is not None:
        epsilon = choices_plan.limits.noise.epsilon
        lines.append(
            f"Limits on {_listed(choices_plan.limits.measures)} of a unit will be chosen at epsilon {epsilon:.3g}."
        )
    elif known.limits:
        lines.append(f"Limits on {_listed(tuple(known.limits))} of a unit are known.")
    for column in choices_plan.bounds:
        lines.append(f"Bounds of {column.name} will be learned at epsilon {column.noise.epsilon:.3g}.")
    return [*lines, *_bounds(plan, known)]


def _limits(query: PricedQuery, requested: RequestedLimits, choices: Choices) -> Iterator[str]:
    """Yield the limits on contributions, and estimates of what they leave out."""
    in_force = _in_words(query.limits, query.plan)
    if query.unit == Unit.example() and requested.fact == 1:
        yield "Each row is a unit, so no limit leaves any rows out."
    elif requested.fact is not None:
        yield f"Limits, declared as facts: {in_force}."
    elif choices.limits:
        paid = choices.paid.get(None)
        who = f"chosen privately at epsilon {paid:.3g}" if paid else "chosen by an earlier answer"
        yield f"Limits, {who}: {in_force}."
        unused = Measure.ROWS_IN_A_GROUP if isinstance(query.limits, TotalLimits) else Measure.ROWS
        for measure, choice in choices.limits.items():
            if measure is not unused:
                yield from _beyond_limit(query, measure, choice)
    elif requested.are_absent:
        yield "Each unit counts once, so no limit leaves any rows out."
    else:
        yield f"Limits, as you set them: {in_force}. The answer leaves out the rest."


def _in_words(limits: Limits, plan: QueryPlan) -> str:
    """Return limits in words."""
    in_groups = f" in at most {_counted(limits.groups_per_unit, 'group')}" if plan.keys else ""
    if plan.sets:  # each row counts in every grouping
        in_groups += " of all groupings together" if plan.in_total else " of each grouping"
    if isinstance(limits, TotalLimits):
        return f"a unit counts with at most {_counted(limits.rows_in_total, 'row')}{in_groups}"
    per_group = " per group" if plan.keys else ""
    return f"a unit counts with at most {_counted(limits.rows_per_unit, 'row')}{per_group}{in_groups}"


def _beyond_limit(query: PricedQuery, measure: Measure, choice: ChosenLimit) -> Iterator[str]:
    """Yield how many units are beyond a limit, and how much they hold."""
    plan, noun, within = query.plan, measure.value.partition(" ")[0].removesuffix("s"), ""
    if measure is Measure.ROWS_IN_A_GROUP:
        within = " in a group"
    if measure is Measure.GROUPS and query.limits.groups_per_unit < choice.limit:
        if plan.public_keys:
            return  # there are no more groups
        allowed = _counted(query.limits.groups_per_unit, "group")
        yield f"Epsilon and delta allow {allowed}; {choice.limit:,} would leave out less."
    about, has = _about(choice.beyond, choice.beyond_error, "unit"), "has" if round(choice.beyond) == 1 else "have"
    excess = _about(choice.excess, choice.excess_error, noun, start="about")
    yield (
        f"{about} {has} more than {_counted(choice.limit, noun)}{within}; those with up to {4 * choice.limit:,} hold "
        f"{excess} beyond."
    )


def _bounds(plan: QueryPlan, choices: Choices) -> Iterator[str]:
    """Yield the bounds of the columns that are summed, and what is beyond those that were learned."""
    undeclared = {column.identity for column in plan.undeclared}
    declared = {column.identity: column for column in plan.columns_added_up() if column.identity not in undeclared}
    for column in declared.values():
        if column.bounded:
            ends = f"{column.low:,.6g} and {column.high:,.6g}"
            yield f"Values of {plan.column_name(column)} are clamped to {ends}, as declared."
    for column in plan.undeclared:
        if column in choices.bounds:
            yield _learned(plan.column_name(column), choices.bounds[column], choices.paid.get(column))


def _learned(name: str, bounds: LearnedBounds, epsilon: float | None) -> str:
    """Return learned bounds in words; ``epsilon`` is what this answer pays for them."""
    who = f"privately at epsilon {epsilon:.3g}" if epsilon else "by an earlier answer"
    ends = f"{bounds.low:,.6g} and {bounds.high:,.6g}"
    if not bounds.learned:
        return (
            f"Too few units have values of {name} to learn its bounds. Results computed from its values are missing. "
            "Declare bounds, or spend more."
        )
    has = "has" if round(bounds.beyond) == 1 else "have"
    return (
        f"Values of {name} are clamped to {ends}, learned {who}. "
        f"{_about(bounds.beyond, bounds.beyond_error, 'unit')} {has} values beyond; up to four times a bound, the "
        f"furthest of each are {_about(bounds.excess, bounds.excess_error, start='about')} beyond in total."
    )


def _meaning(query: PricedQuery, requested: RequestedLimits, choices: Choices, confidence: float) -> Iterator[str]:
    """Yield the meaning of the intervals."""
    plan, share = query.plan, f"Intervals ({100 * confidence:.4g} %)"
    bounds = " and no value is beyond the bounds" if plan.columns_added_up() else ""
    fact = requested.fact or 1
    if isinstance(query.limits, TotalLimits):
        fact *= max(len(plan.sets), 1)  # each row counts in every grouping
    most_groups = min(fact, plan.num_groups or fact)
    if requested.fact is not None and query.limits.groups_per_unit >= most_groups:
        yield f"{share} cover the true answer, if your declarations are right{bounds}."
        return
    if not choices.limits and requested.are_absent:
        yield f"{share} cover the true answer."
        return
    values = ", and values within their bounds" if bounds else ""
    left_out = choices.left_out(in_total=isinstance(query.limits, TotalLimits))
    allowed = [f"{_rounded(left_out.rows, 'row')}"] if left_out.rows else []
    allowed += [f"{_rounded(left_out.units, 'unit')} in a group"] if left_out.units else []
    if allowed:
        values += f"; those of counts and sums allow for the {' and '.join(allowed)} expected beyond"
    yield (
        f"{share} cover the answer that counts each unit within these limits{values}. A single unit could hold more "
        "beyond them than an interval is wide; no private interval covers that."
    )
    yield from _lower_ends(plan)


def _lower_ends(plan: QueryPlan) -> Iterator[str]:
    """Yield the lower ends that hold for the true answer, whatever is left out."""
    counts, sums = [], []
    for output in plan.outputs:
        if output.expression.op == "statistic":
            statistic = plan.statistics[output.expression.value]
            if statistic.kind == "count":
                counts.append(output.name)
            elif _is_sum_of_nonnegative(plan, statistic):
                sums.append(output.name)
    if counts:
        yield f"The lower ends of {_listed(tuple(counts))} are valid for the true answer in any case."
    if sums:
        condition = "if no value is below its lower bound"
        yield f"The lower ends of {_listed(tuple(sums))} are valid for the true answer {condition}."


def _is_sum_of_nonnegative(plan: QueryPlan, statistic: QueryStatistic) -> bool:
    """Return whether a statistic is a sum to which no row adds anything negative, and no missing value anything."""
    if statistic.kind not in ("sum", "shared sum") or statistic.bounds[0] < 0:
        return False
    values = [plan.values[part.value] for part in statistic.parts if part.value is not None]
    return not any(value.required for value in values)


def _about(estimate: float, error: float, noun: str = "", *, start: str = "About") -> str:
    """Return an estimate with its upper end, in words."""
    number = _rounded(estimate, noun) if noun else f"{estimate:,.0f}"
    return f"{start} {number}, at most {estimate + error:,.0f} (95 %),"


def _rounded(number: float, noun: str) -> str:
    """Return an estimate with its noun."""
    return _counted(round(number), noun)


def _counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _listed(names: tuple[str, ...]) -> str:
    """Return names as a list in words."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
