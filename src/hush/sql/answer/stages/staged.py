"""An answer in stages: what each stage may cost, and what they cost and say together.

The stages share epsilon and delta equally. Each of them is private at its share for whatever the stages before it
released, so by adaptive composition all of them together are private at the sum. All shares are fixed, and reserved,
before any data are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hush.accounting import ComposedEvent, Event
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Guarantee, Unit
from hush.randomness import RandomSource
from hush.sql.answer.answer import QueryAnswer
from hush.sql.answer.answer_columns import written
from hush.sql.answer.price import PriceRequest, QueryPrice
from hush.sql.read.stages import Stage, Stages
from hush.statistics.noise import claim

_MOST_SHOWN = 3  # columns of a released row in a note


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one stage costs, fixed before data are read.

    Attributes:
        guarantee: Its guarantee, if it were the only one.
        event: The same for accountants.
    """

    guarantee: Guarantee
    event: Event


def share_of(request: PriceRequest, num_stages: int) -> PriceRequest:
    """Return what each of several stages may cost, such that all together cost no more than was asked for."""
    if request.epsilon is None:
        why = "How accurate an answer is depends on the values that its subqueries release first"
        raise InvalidArgument("accuracy", request.accuracy, "None, for a released subquery", why, "Give epsilon=")
    return replace(
        request,
        epsilon=_part(float(request.epsilon), num_stages),
        delta=_part(request.delta, num_stages),
        expected=None,
    )


def _part(whole: float, number: int) -> float:
    """Return the part of a budget that ``number`` parts of it do not exceed, in exact arithmetic."""
    part = whole / number
    return part if Fraction(part) * number <= Fraction(whole) else math.nextafter(part, 0.0)


def total_cost(
    costs: Sequence[StageCost], epsilon: float, source: RandomSource, assumptions: Sequence[str]
) -> StageCost:
    """Return what all stages cost together.

    Args:
        costs: What each of them costs.
        epsilon: What was asked for. The shares add up to it.
        source: The source of the randomness.
        assumptions: What the stages assume about engines and tables.
    """
    unit = same_unit([cost.guarantee.unit for cost in costs])
    events = [cost.event.event if isinstance(cost.event, QualifiedEvent) else cost.event for cost in costs]
    method = " and ".join(dict.fromkeys(cost.guarantee.method for cost in costs))
    guarantee, event = claim(
        ComposedEvent(tuple(events)),
        epsilon,
        sum(cost.guarantee.delta for cost in costs),
        f"{method}, in {len(costs)} stages" if len(costs) > 1 else f"{method}, of a released subquery",
        unit=unit,
        source=source,
        assumptions=tuple(dict.fromkeys(assumptions)),
    )
    return StageCost(guarantee, event)


def same_unit(units: Sequence[Unit]) -> Unit:
    """Return the unit of all stages. Guarantees for different units do not compose."""
    if len(set(units)) > 1:
        why = "a released subquery whose privacy unit is not that of the query"
        raise Unsupported(why, "Ask the subquery by itself, and write its released value into the query")
    return units[0]


def share_line(stages: Stages, index: int, cost: StageCost, after: str) -> str:
    """Return what a price or an answer says about a released subquery. ``after`` is what follows its cost."""
    delta = f" and delta {cost.guarantee.delta:.3g}" if cost.guarantee.delta else ""
    which = f"{index + 1} of {len(stages.released)}" if len(stages.released) > 1 else ""
    return f"Subquery {which}{' ' if which else ''}({stages.released[index].text}): released first, at epsilon " + (
        f"{cost.guarantee.epsilon:.3g}{delta}{after}"
    )


def last_line(stages: Stages, last: StageCost | None) -> str:
    """Return what a price or an answer says about the last stage."""
    if last is None:
        return "The rest reads public tables and these released values only, and costs nothing: it adds no noise."
    several = "s" if len(stages.released) > 1 else ""
    return (
        f"The rest, at epsilon {last.guarantee.epsilon:.3g}, takes the released value{several} for constants: its "
        "intervals do not allow for their noise."
    )


def staged_price(stages: Stages, prices: Sequence[QueryPrice], total: StageCost) -> QueryPrice:
    """Return the price of a query in stages, from those of its stages."""
    costs = [StageCost(price.guarantee, price.event) for price in prices]
    lines, scales, names = [], {}, _stage_names(stages)
    for index, (name, price) in enumerate(zip(names, prices, strict=False)):
        is_last = index == len(stages.released)
        lines.append(last_line(stages, costs[index]) if is_last else share_line(stages, index, costs[index], "."))
        lines += _of_stage(name, price.limits)
        scales.update(_scales_of_stage(name, price.scales))
    if stages.is_public:
        lines.append(last_line(stages, None))
    noise = " and ".join(dict.fromkeys(price.noise for price in prices))
    return QueryPrice(guarantee=total.guarantee, event=total.event, noise=noise, scales=scales, limits=tuple(lines))


def staged_answer(
    stages: Stages, answers: Sequence[QueryAnswer], costs: Sequence[StageCost], total: StageCost
) -> QueryAnswer:
    """Return the answer of a query in stages: that of the last stage, with what the others released.

    Args:
        stages: The stages.
        answers: The answers of the released subqueries, then that of the last stage.
        costs: What each private stage costs.
        total: What they cost together.
    """
    lines: list[str] = []
    scales: dict[str, float] = {}
    for index, (stage, name) in enumerate(zip(stages.released, _stage_names(stages), strict=False)):
        lines.append(share_line(stages, index, costs[index], f": {_shown(stage, answers[index])}"))
        lines += _of_stage(name, answers[index].limits)
        scales.update(_scales_of_stage(name, answers[index].scales))
    last = answers[-1]
    lines.append(last_line(stages, None if stages.is_public else costs[-1]))
    return replace(
        last,
        guarantee=total.guarantee,
        event=total.event,
        scales={**scales, **last.scales},
        limits=(*lines, *last.limits),
    )


def _stage_names(stages: Stages) -> list[str]:
    """Return what notes call each stage; nothing for the last one."""
    released = range(len(stages.released))
    return [*(f"Subquery {index + 1}" if len(released) > 1 else "Subquery" for index in released), ""]


def _of_stage(name: str, lines: Sequence[str]) -> list[str]:
    """Return lines about a stage."""
    return [f"{name}: {line[:1].lower() + line[1:]}" if name else line for line in lines]


def _scales_of_stage(name: str, scales: Mapping[str, float]) -> dict[str, float]:
    """Return the noise scales of a stage."""
    return {f"{name.lower()}: {key}" if name else key: scale for key, scale in scales.items()}


def _shown(stage: Stage, answer: QueryAnswer) -> str:
    """Return what a subquery released: its value, or how many rows."""
    if len(answer.rows) == 1 and len(answer.columns) <= _MOST_SHOWN:
        return ", ".join(map(written, answer.rows[0])) + "."
    groups = "; groups that were not selected are missing" if stage.query.select.args.get("group") is not None else ""
    return f"{len(answer.rows):,} row{'' if len(answer.rows) == 1 else 's'}{groups}."


Rows = Mapping[str, Sequence[Sequence[object]]]
Asked = Callable[[Rows], QueryAnswer]


def run_stages(stages: Stages, asked: Sequence[Asked]) -> list[QueryAnswer]:
    """Return the answer of each stage, in order. Each is asked with the rows that those before it released."""
    answers: list[QueryAnswer] = []
    rows: dict[str, Sequence[Sequence[object]]] = {}
    for index, ask in enumerate(asked):
        answers.append(ask(rows))
        if index < len(stages.released):
            rows[stages.released[index].name] = answers[-1].rows
    return answers
