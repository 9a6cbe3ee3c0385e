"""What `hush ledger` prints."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hush.cli.terminal import bar, table

if TYPE_CHECKING:
    from hush.ledger import ChargePrice, Dataset, Figure, Recomputed, Status, Verification

_BAR = 20
_LAST = 10


def stand(dataset: Dataset) -> dict[str, Any]:
    """Return how a budget stands, for a machine."""
    cap = dataset.cap
    terms = {"epsilon": cap.epsilon, "delta": cap.delta, "unit": str(cap.unit), "relation": cap.relation.value}
    blocks = [
        {"block": status.block, "spent": _finite(status.epsilon), "left": status.left, "used": status.used}
        | {"retired": status.retired}
        for status in dataset.status()
    ]
    pending = len(dataset.pending())
    return {"name": dataset.name, **terms, "order": cap.order, "blocks": blocks, "pending": pending}


def created(dataset: Dataset) -> str:
    """Say what was created."""
    return f"Created, for good: {_named(dataset.name)}.\n{dataset.guarantee()}"


def budgets(datasets: list[Dataset]) -> str:
    """Show budgets, each with a bar of what is used."""
    rows = [row for dataset in datasets for row in _rows(dataset)]
    if not rows:
        return "No budget was created. Begin: hush ledger create NAME --epsilon E --delta D --unit U"
    head = ["budget", "used", "epsilon", "of", "delta", "unit", "fits now"]
    return table(head, rows) + "\n\n  used: of what the filter allows. epsilon: of all releases so far, together."


def _rows(dataset: Dataset) -> list[list[str]]:
    cap, rows = dataset.cap, []
    for status in dataset.status():
        share = status.used
        name = _named(dataset.name) + (f" {_named(status.block)}" if status.block else "")
        drawn = f"{bar(share, _BAR).ljust(_BAR, '·')} {100 * share:5.1f} %"
        figures = [f"{status.epsilon:.4g}", f"{cap.epsilon:.4g}", f"{cap.delta:.3g}"]
        rows.append([name, drawn, *figures, str(cap.unit), _fits(status)])
    return rows


def _fits(status: Status) -> str:
    if status.retired:
        return "retired"
    epsilon, noise = status.cap.largest_epsilon(status.cost), status.cap.least_noise(status.cost)
    if not epsilon:
        return "nothing"
    return f"epsilon {epsilon:.3g}" + (f", or Gaussian noise from {noise:.3g}" if noise < math.inf else "")


def budget(dataset: Dataset) -> str:
    """Show one budget, what is pending, and what was charged last."""
    charges = [row for row in dataset.entries() if row.event is not None and row.charge is None]
    parts = [budgets([dataset]), f"\n{dataset.guarantee()}"]
    waiting = len(dataset.pending())
    if waiting:
        parts.append(f"\n{waiting} reserved and not settled; they count. See: hush ledger pending")
    alone = dataset.cap.spent_epsilon
    if charges:
        cells = [
            [
                str(row.id),
                moment(row.time),
                _named(row.author),
                row.kind,
                _figures(alone(row.cost)),
                _named(row.purpose),
            ]
            for row in charges[-_LAST:]
        ]
        told = f"The last {len(cells)} of {len(charges)} charges" if len(charges) > _LAST else "All charges"
        parts.append(f"\n{told}\n\n" + table(["row", "time", "who", "status", "alone", "purpose"], cells))
    return "\n".join(parts)


def price(found: ChargePrice, dataset: Dataset) -> str:
    """Say what a charge would cost."""
    verdict = "It fits" if found.fits else "It does NOT fit"
    largest = f"The largest that fits now is epsilon = {found.largest_epsilon:.3g}"
    noise = f", or Gaussian noise of at least {found.least_noise:.3g} times the sensitivity"
    return (
        f"{verdict}. Alone: epsilon = {found.alone:.4g}. After it, {found.after:.4g} of {dataset.cap.epsilon:.4g} are "
        f"spent.\n{largest}{noise if found.least_noise < math.inf else ''}."
    )


def pending(rows: list[dict[str, Any]]) -> str:
    """Show what is reserved."""
    if not rows:
        return "Nothing is pending."
    cells = [
        [str(row["id"]), row["time"], *(_named(row[key]) for key in ("dataset", "author")), _figures(row["epsilon"])]
        for row in rows
    ]
    cells = [[*cell, _named(row["purpose"])] for cell, row in zip(cells, rows, strict=True)]
    advice = "\n\n  If nothing of one was released: hush ledger pending --void ID. Else: --commit ID."
    return table(["id", "time", "budget", "who", "epsilon", "purpose"], cells) + advice


def verified(result: Verification) -> str:
    """Say what was found."""
    found = [f"  {_named(str(finding))}" for finding in result.findings]
    first = f"{result.rows:,} rows: " + ("nothing is wrong." if result.ok else f"{counted(len(found))}.")
    notes = [f"  Note: {_named(note)}" for note in result.notes]
    return "\n".join([first, *found, *notes, f"Head: {result.head}"])


def recomputed(result: Recomputed) -> str:
    """Say what recomputing changed, and what other ways of adding up say."""
    lines = []
    for block in result.blocks:
        name = _named(result.dataset) + (f" {_named(block.block)}" if block.block else "")
        changed = f"epsilon {block.before:.6g} -> {block.after:.6g}" if block.before != block.after else "unchanged"
        lines.append(f"{name}: {changed}" + (" (MORE THAN THE CAP ALLOWS)" if block.exceeds else ""))
        told = block.composition
        rows = [
            ["filter, which enforces the cap", *_figure(told.filter)],
            ["addition", *_figure(told.addition)],
            ["RDP, had all been fixed in advance", *_figure(told.rdp)],
            ["PLD, had all been fixed in advance", *_figure(told.pld)],
        ]
        lines.append(table([f"{told.charges:,} charges by", "epsilon", "delta", ""], rows))
    if result.refused:
        rows_of = ", ".join(map(str, result.refused))
        lines.append(f"Rows that this version cannot account for, and that keep what they were charged: {rows_of}")
    return "\n".join(lines)


def _figure(figure: Figure) -> list[str]:
    if figure.epsilon is None:
        return ["-", "-", f"refused: {_named(figure.why)}"]
    return [f"{figure.epsilon:.4g}", f"{figure.delta:.3g}", ""]


def plain(value: Any) -> Any:
    """Return a value for JSON, in which there is no infinity."""
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return plain(asdict(value)) if hasattr(value, "__dataclass_fields__") else value


def moment(microseconds: int) -> str:
    """Write a time."""
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%d %H:%M}"


def counted(findings: int) -> str:
    """Write how many findings there are."""
    return f"{findings:,} finding{'' if findings == 1 else 's'}"


def _figures(epsilon: float) -> str:
    return f"{epsilon:.3g}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _named(text: str) -> str:
    """Return text that cannot move a terminal's cursor, whatever a damaged ledger holds."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in str(text))
