"""The output of `hush ledger`, for people and as JSON."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hush.cli.json_values import plain
from hush.cli.terminal import bar, table
from hush.errors import HushError

if TYPE_CHECKING:
    from hush.ledger import ChargePrice, Entry, Figure, LedgerBudget, Recomputed, Status, Verification

_BAR_WIDTH = 20
_LAST_CHARGES = 10
_FEW_LEFT = 10  # standard queries, when larger releases without a delta may still fit
_SETTLED = ("committed", "voided")
_EXPLAINED = (
    "  left: how many standard queries still fit, of the 100 that the whole budget pays for.\n"
    "  epsilon so far: the proven privacy loss of all charges together. It rises quickly at first and slowly later. "
    "`hush ledger price` says whether another release fits."
)


def status(budget: LedgerBudget) -> dict[str, Any]:
    """Return the status of a budget, for JSON."""
    cap = budget.cap
    return {
        "budget": budget.name,
        "epsilon": cap.epsilon,
        "delta": cap.delta,
        "unit": str(cap.unit),
        "unit_name": budget.unit_name,
        "relation": cap.relation.value,
        "order": cap.order,
        "blocks": [
            {
                "block": item.block,
                "spent": plain(item.epsilon),
                "left": item.left,
                "standard_query": item.standard_query,
                "retired": item.retired,
            }
            for item in budget.status()
        ],
        "box": _kinds(budget),
        "pending": len(budget.pending()),
    }


def _kinds(budget: LedgerBudget) -> list[dict[str, Any]]:
    """Return the kinds of releases that were declared with a budget, and how many are left."""
    box = budget.cap.box
    if box is None:
        return []
    return [{**kind, "left": left} for kind, left in zip(box.to_json(), budget.box_left, strict=True)]


def created(budget: LedgerBudget) -> str:
    """Say what was created."""
    return f"Created {_printable(budget.name)}. A budget cannot be changed later.\n{budget.guarantee()}"


def budget_table(budgets: list[LedgerBudget]) -> str:
    """Show budgets, each with a bar of what is used."""
    rows = [row for budget in budgets for row in _rows(budget)]
    if not rows:
        return "There are no budgets yet. Create one: hush ledger create NAME --epsilon E --delta D --unit-name U"
    header = ["budget", "left", "epsilon so far", "of", "delta", "unit", "standard query"]
    return f"{table(header, rows)}\n\n{_EXPLAINED}"


def _rows(budget: LedgerBudget) -> list[list[str]]:
    """Return one row for each block of a budget."""
    cap, rows = budget.cap, []
    for item in budget.status():
        name = _printable(budget.name) + (f" {_printable(item.block)}" if item.block else "")
        left = f"{bar(item.left / 100, _BAR_WIDTH).ljust(_BAR_WIDTH, '·')} {item.left:3} of 100"
        numbers = [f"{item.epsilon:.4g}", f"{cap.epsilon:.4g}", f"{cap.delta:.3g}"]
        rows.append([name, left, *numbers, _unit(budget), _last_column(item)])
    return rows


def _unit(budget: LedgerBudget) -> str:
    """Write the privacy unit by its name, with its kind beside it."""
    kind, name = str(budget.cap.unit), _printable(budget.unit_name)
    return kind if name == kind else f"{name} ({kind})"


def _last_column(item: Status) -> str:
    """Describe the standard query, or the largest release that still fits if none is left."""
    if item.retired:
        return "retired"
    largest = 0.0 if item.left >= _FEW_LEFT else item.cap.largest_epsilon(item.cost)
    return f"{item.standard_query}{f'; epsilon {largest:.3g} still fits, with Laplace noise' if largest else ''}"


def budget_page(budget: LedgerBudget) -> str:
    """Show one budget, what is pending, and the last charges."""
    from hush.ledger import in_words

    entries = budget.entries()
    charges = [row for row in entries if row.event is not None and row.charge is None]
    # A reservation that was settled has a later row, which says how.
    settled = {row.charge: row for row in entries if row.charge is not None and row.kind in _SETTLED}
    parts = [*(["For tests: NOT PRIVATE.\n"] if budget.for_tests else []), budget_table([budget])]
    parts.append(f"\nThe promise: {budget.guarantee()}")
    if budget.cap.box is not None:
        left = zip(budget.cap.box.kinds, budget.box_left, strict=True)
        kinds = [[in_words(event), str(remaining), str(number)] for (event, number), remaining in left]
        parts.append("\nDeclared releases, which are paid\n\n" + table(["release", "left", "of"], kinds))
    num_pending = len(budget.pending())
    if num_pending:
        parts.append(f"\nPending, and counted as spent: {num_pending}. See: hush ledger pending")
    if charges:
        rows = [
            [
                str(row.id),
                written_time(row.time),
                _printable(row.author),
                settled.get(row.id, row).kind,
                _epsilon(alone(budget, row, settled.get(row.id))),
                _printable(row.purpose),
            ]
            for row in charges[-_LAST_CHARGES:]
        ]
        title = f"The last {len(rows)} of {len(charges)} charges" if len(charges) > _LAST_CHARGES else "All charges"
        parts.append(f"\n{title}\n\n" + table(["row", "time", "author", "status", "alone", "purpose"], rows))
    return "\n".join(parts)


def alone(budget: LedgerBudget, row: Entry, settled: Entry | None = None) -> float | None:
    """Return the epsilon of a charge on its own; None if its event cannot be read, since no hush has written it.

    If it was settled with less than was reserved, or voided, only what it still costs counts.
    """
    from hush.accounting import Event
    from hush.accounting.budget import Cost

    try:
        run = row if settled is None or settled.event is None else settled
        cost = row.cost if settled is None else row.cost + settled.cost
        return 0.0 if cost == Cost() != row.cost else budget.cap.alone(Event.from_json(run.event or ""), cost)
    except HushError:
        return None


def _epsilon(number: float | None) -> str:
    """Write an epsilon, if it is known."""
    return "?" if number is None else f"{number:.3g}"


def price(charge: ChargePrice, budget: LedgerBudget) -> str:
    """Say what a charge would cost."""
    verdict = "It fits" if charge.fits else "It does NOT fit"
    largest = f"The largest that fits now is epsilon = {charge.largest_epsilon:.3g}"
    noise = f", or Gaussian noise of at least {charge.least_noise:.3g} times the sensitivity"
    return (
        f"{verdict}. Alone: epsilon = {charge.alone:.4g}. Afterwards, {charge.after:.4g} of {budget.cap.epsilon:.4g} "
        f"would be spent.\n{largest}{noise if charge.least_noise < math.inf else ''}."
    )


def pending(rows: list[dict[str, Any]]) -> str:
    """Show reservations that are not settled."""
    if not rows:
        return "Nothing is pending."
    cells = [
        [
            str(row["id"]),
            row["time"],
            _printable(row["budget"]),
            _printable(row["author"]),
            _epsilon(row["epsilon"]),
            "" if row["active_seconds_ago"] is None else f"{row['active_seconds_ago']:.0f} s ago",
            _printable(row["purpose"]),
        ]
        for row in rows
    ]
    advice = "\n\n  If nothing was released: hush ledger pending --void ID. Otherwise: --commit ID."
    return table(["id", "time", "budget", "author", "epsilon", "active", "purpose"], cells) + advice


def verified(result: Verification) -> str:
    """Say what a verification found."""
    findings = [f"  {_printable(str(finding))}" for finding in result.findings]
    summary = f"{result.rows:,} rows: " + (f"{result.scope()}." if result.ok else f"{counted(len(findings))}.")
    notes = [f"  Note: {_printable(note)}" for note in result.notes]
    return "\n".join([summary, *findings, *notes, f"Head: {result.head}"])


def recomputed(result: Recomputed) -> str:
    """Say what recomputing changed, and what other accountants would state."""
    lines = []
    for block in result.blocks:
        name = _printable(result.budget) + (f" {_printable(block.block)}" if block.block else "")
        change = f"epsilon {block.before:.6g} -> {block.after:.6g}" if block.before != block.after else "unchanged"
        lines.append(f"{name}: {change}" + (" (MORE THAN THE CAP ALLOWS)" if block.exceeds else ""))
        composition = block.composition
        rows = [
            ["filter, which enforces the cap", *_figure(composition.filter)],
            ["addition", *_figure(composition.addition)],
            ["RDP, if all had been fixed in advance", *_figure(composition.rdp)],
            ["PLD, if all had been fixed in advance", *_figure(composition.pld)],
        ]
        charges = "1 charge" if composition.charges == 1 else f"{composition.charges:,} charges"
        lines.append(table([f"{charges} by", "epsilon", "delta", ""], rows))
    if result.refused:
        numbers = ", ".join(map(str, result.refused))
        lines.append(f"This version cannot account for these rows, which keep their charges: {numbers}")
    return "\n".join(lines)


def _figure(figure: Figure) -> list[str]:
    """Return the cells of one accountant's figure, or of its refusal."""
    if figure.epsilon is None:
        return ["-", "-", f"refused: {_printable(figure.why)}"]
    return [f"{figure.epsilon:.4g}", f"{figure.delta:.3g}", ""]


def written_time(microseconds: int) -> str:
    """Write a time.

    >>> written_time(1_800_000_000_000_000)
    '2027-01-15 08:00'
    """
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%d %H:%M}"


def counted(findings: int) -> str:
    """Write a number of findings.

    >>> counted(1), counted(2)
    ('1 finding', '2 findings')
    """
    return f"{findings:,} finding{'' if findings == 1 else 's'}"


def _printable(text: str) -> str:
    """Replace characters that could move a terminal's cursor: a damaged ledger may hold anything."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in str(text))
