"""How budgets were used up over time."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from hush.accounting.budget import Cost
from hush.ledger.history.records import DatasetRecord
from hush.ledger.history.replay import LedgerReplay
from hush.report import parts as html
from hush.report.parts import Html, Line, Point

_SPANS = ((86_400e6, "days"), (3_600e6, "hours"), (60e6, "minutes"), (1e6, "seconds"))
_MOST_STEPS = 140  # two points each: a plot draws 300


@dataclass(slots=True)
class Burned:
    """What was spent of each block after each row that changed it, and when."""

    steps: dict[tuple[str, str], list[tuple[int, Cost]]] = field(default_factory=lambda: defaultdict(list))

    def plot(self, dataset: str, block: str, budget: DatasetRecord) -> Html | None:
        """Return a plot of a block's epsilon over time, with the cap; None where nothing was charged."""
        steps = self.steps.get((dataset, block))
        if not steps:
            return None
        begin = budget.row.time
        size, unit = _span(steps[-1][0] - begin)
        points, before = [Point(x=0.0, y=0.0)], 0.0
        for time, cost in _thinned(steps):
            if not budget.cap.spent_epsilon(cost) < math.inf:
                continue  # a damaged ledger: nothing without a bound can be charged
            epsilon, at = budget.cap.spent_epsilon(cost), (time - begin) / size
            points += [Point(x=at, y=before), Point(x=at, y=epsilon)]
            before = epsilon
        share = f"{100 * budget.cap.used(steps[-1][1]):.1f} %"
        notes = [
            f"Epsilon of all releases together, {html.written_epsilon(before)} at the end, against the cap of "
            f"{html.written_epsilon(budget.cap.epsilon)}.",
            f"{share} of what the filter allows is used. Epsilon itself rises fast at first, and slower the more is "
            "charged.",
        ]
        drawn = html.lines(
            [Line(label="", points=points)],
            title="How the budget was used up",
            description=" ".join(notes),
            across=f"{unit} since it was created",
            up="Epsilon",
            reference=("cap", budget.cap.epsilon),
        )
        return html.figure(drawn, *notes)


def burned(replay: LedgerReplay) -> Burned:
    """Return how budgets were used up, as the rows tell."""
    found, sums = Burned(), defaultdict[tuple[str, str], Cost](Cost)
    for row in replay.rows:
        charge = replay.charges.get(row.charge or row.id)
        counted = charge is not None and (row is charge.row or row is charge.settled)
        blocks = charge.blocks if charge is not None and counted else replay.corrections.get(row.id, [])
        for block in blocks:
            key = row.dataset, block
            sums[key] += row.cost
            found.steps[key].append((row.time, sums[key]))
    return found


def _span(length: int) -> tuple[float, str]:
    return next(((size, unit) for size, unit in _SPANS if length >= 2 * size), _SPANS[-1])


def _thinned(steps: list[tuple[int, Cost]]) -> list[tuple[int, Cost]]:
    if len(steps) <= _MOST_STEPS:
        return steps
    return [steps[round(i * (len(steps) - 1) / (_MOST_STEPS - 1))] for i in range(_MOST_STEPS)]
