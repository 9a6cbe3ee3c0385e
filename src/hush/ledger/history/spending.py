"""Spending over time: the curve of a block's epsilon, for the auditor's report."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from hush.accounting.budget import Cost
from hush.ledger.accounts.terms.standard_query import WHOLE, standard_query
from hush.ledger.history.ledger_replay import LedgerReplay
from hush.ledger.history.records import BudgetRecord
from hush.report import page_parts as html
from hush.report.page_parts import Html, Line, Point

_SPANS = ((86_400e6, "days"), (3_600e6, "hours"), (60e6, "minutes"), (1e6, "seconds"))
_MOST_STEPS = 140  # each step is two points, and a plot draws at most 300


@dataclass(slots=True)
class SpendingHistory:
    """For each block, the time and the total cost after each row that changed it."""

    steps: dict[tuple[str, str], list[tuple[int, Cost]]] = field(default_factory=lambda: defaultdict(list))

    def plot(self, name: str, block: str, budget: BudgetRecord) -> Html | None:
        """Return a plot of a block's epsilon over time, with the cap; None if nothing was charged."""
        steps = self.steps.get((name, block))
        if not steps:
            return None
        begin = budget.row.time
        size, unit = _span(steps[-1][0] - begin)
        points, before = [Point(x=0.0, y=0.0)], 0.0
        for time, cost in _thinned(steps):
            if not budget.cap.spent_epsilon(cost) < math.inf:
                continue  # the ledger is damaged: an unbounded cost cannot be charged
            epsilon, elapsed = budget.cap.spent_epsilon(cost), (time - begin) / size
            points += [Point(x=elapsed, y=before), Point(x=elapsed, y=epsilon)]
            before = epsilon
        left = standard_query(budget.cap).left(steps[-1][1])
        notes = [
            f"The epsilon of all releases together: {html.written_epsilon(before)} at the end. The cap is "
            f"{html.written_epsilon(budget.cap.epsilon)}.",
            f"{left} of {WHOLE} standard queries are left.",
        ]
        drawing = html.lines(
            [Line(label="", points=points)],
            title="Budget spent over time",
            description=" ".join(notes),
            across=f"{unit} since the budget was created",
            up="Epsilon",
            reference=("cap", budget.cap.epsilon),
        )
        return html.figure(drawing, *notes)


def spending_history(replay: LedgerReplay) -> SpendingHistory:
    """Return the spending of every block, from the replayed rows."""
    history, totals = SpendingHistory(), defaultdict[tuple[str, str], Cost](Cost)
    for row in replay.rows:
        charge = replay.charges.get(row.charge or row.id)
        counted = charge is not None and (row is charge.row or row is charge.settled)
        blocks = charge.blocks if charge is not None and counted else replay.corrections.get(row.id, [])
        for block in blocks:
            key = row.budget, block
            totals[key] += row.cost
            history.steps[key].append((row.time, totals[key]))
    return history


def _span(length: int) -> tuple[float, str]:
    return next(((size, unit) for size, unit in _SPANS if length >= 2 * size), _SPANS[-1])


def _thinned(steps: list[tuple[int, Cost]]) -> list[tuple[int, Cost]]:
    if len(steps) <= _MOST_STEPS:
        return steps
    return [steps[round(i * (len(steps) - 1) / (_MOST_STEPS - 1))] for i in range(_MOST_STEPS)]
