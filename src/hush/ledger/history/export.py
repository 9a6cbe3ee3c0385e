"""A report on a ledger for an auditor: one HTML page, without scripts, that refers to nothing outside."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from hush.accounting.budget import Cap
from hush.errors import InvalidArgument
from hush.ledger.history.composition import Composition, Figure, composition, stated, used_of
from hush.ledger.history.records import BlockRecord, Charged, DatasetRecord, Part
from hush.ledger.history.replay import LedgerReplay
from hush.ledger.history.spending import Burned, burned
from hush.ledger.history.verify import Verification, read, verified
from hush.ledger.history.words import in_words
from hush.ledger.storage import schema as schema
from hush.ledger.storage.store import Store
from hush.report import parts as html
from hush.report.parts import Html, Section
from hush.version import __version__

_GENERATOR: Final = Html('<meta name="generator" content="hush.ledger">')
_MOST_PLOTS = 36
_ADVANCE = "as if all charges had been fixed in advance: not what enforces the cap"


def export(store: Store, path: Path, dataset: str | None = None) -> Verification:
    """Write the report; return what `verify` found, which stands in it.

    Args:
        store: The ledger's database.
        path: A file that does not exist yet: a report never replaces another, nor the ledger.
        dataset: Only this one's charges; the chain is that of the whole ledger in any case.
    """
    replay, tables = read(store)
    result = verified(replay, tables)
    if dataset is not None and dataset not in replay.datasets:
        raise InvalidArgument("dataset", dataset, "a data set of this ledger")
    page = _page(replay, result, dataset)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(page)
    except FileExistsError:
        raise InvalidArgument("path", str(path), "a file that does not exist yet") from None
    except OSError as error:
        raise InvalidArgument("path", str(path), "a file that can be written", error.strerror or "") from None
    return result


def _page(replay: LedgerReplay, result: Verification, dataset: str | None) -> str:
    shown = {name: budget for name, budget in replay.datasets.items() if dataset in (None, name)}
    spending = burned(replay)
    sections = [_integrity(replay, result)]
    for index, (name, budget) in enumerate(shown.items()):
        charges = [charge for charge in replay.charges.values() if charge.row.dataset == name]
        sections.append(_promised(f"promise-{index}", name, budget))
        sections.append(_spent(f"spent-{index}", name, budget, charges, spending))
        sections.append(_charges(f"charges-{index}", name, budget, charges))
    sections += [_people(replay, shown), _versions()]
    title = "Privacy ledger" if dataset is None else f"Privacy ledger: {dataset}"
    return html.document(title, _header(title, replay, result, shown), sections, generator=_GENERATOR)


def _header(title: str, replay: LedgerReplay, result: Verification, shown: dict[str, DatasetRecord]) -> Html:
    pending = sum(charge.status == "reserved" for charge in replay.charges.values() if charge.row.dataset in shown)
    charges = sum(charge.row.dataset in shown for charge in replay.charges.values())
    tiles = [
        html.tile("intact" if result.ok else "DAMAGED", "the ledger, by its hashes, costs and sums"),
        html.tile(f"{len(shown):,}", "budget" if len(shown) == 1 else "budgets"),
        html.tile(f"{charges:,}", "charges"),
        html.tile(f"{pending:,}", "reserved, not settled"),
    ]
    made = f"Made with hush {__version__}, {_moment(datetime.now(UTC))}, from {result.rows:,} rows"
    return html.tag(
        "header",
        html.tag("h1", html.name(title)),
        html.tag("p", made, class_="meta"),
        html.tag("div", *tiles, class_="tiles"),
        _alarm(result),
    )


def _alarm(result: Verification) -> Html | None:
    if result.ok:
        return None
    words = f"Something is wrong with this ledger: {_counted(result)}. What follows is what its rows say."
    return html.tag("div", html.tag("p", html.tag("strong", words)), class_="notice")


def _integrity(replay: LedgerReplay, result: Verification) -> Section:
    checked = (
        "Each row holds the hash of the one above it. Checked were the hashes, what each event costs by this version's "
        "accountant against what was charged, settlements against their reservations, sums against caps and shares, "
        "and the tables against the rows."
    )
    kept: list[object] = ["This was compared with a hash that was kept elsewhere."]
    if not result.head_was_given:
        command = html.tag("code", "hush ledger verify --head HASH")
        kept = [
            "Keep the head's hash elsewhere: with it, ",
            command,
            " finds rows that were removed from the end, or a ",
        ]
        kept.append("ledger that was written anew.")
    times = [_time(row.time) for row in (replay.rows[:1] + replay.rows[-1:])]
    rows = [
        ("Result", "nothing is wrong" if result.ok else _counted(result)),
        ("Rows", f"{result.rows:,}"),
        ("First and last", " to ".join(times) or "none"),
        ("Head", html.tag("code", result.head)),
    ]
    found = [html.tag("h3", "Findings"), html.bullets(map(html.name, result.findings))] if result.findings else []
    notes = [html.bullets(map(html.name, result.notes))] if result.notes else []
    body = [html.tag("p", checked), html.facts("The check", rows), html.tag("p", *kept), *found, *notes]
    return Section(key="integrity", title="Whether the ledger is intact", body=html.join(body))


def _promised(key: str, name: str, budget: DatasetRecord) -> Section:
    cap = budget.cap
    guarantee = cap.guarantee()
    renyi = "" if cap.order is None else f"Renyi divergence at order {cap.order:.6g}, or "
    called = budget.terms.get("unit", {}).get("called", "")
    rows: list[tuple[object, object]] = [
        ("Epsilon", html.written_epsilon(cap.epsilon)),
        ("Delta", html.written_delta(cap.delta)),
        ("Protected", html.join([str(cap.unit), " (", html.name(called), ")"])),
        ("Neighbouring data sets", cap.relation.value),
        ("Enforced by", f"a filter: {renyi}sums of epsilons"),
        ("Set aside for claims with a delta", html.written_delta(cap.claims_delta or 0.0)),
        ("Fingerprint of the data", html.name(budget.terms.get("fingerprint") or "none was given")),
        ("Created", html.join([_time(budget.row.time), " by ", html.name(budget.row.author)])),
    ]
    blocks = [block for block in budget.blocks if block]
    assumptions = [*guarantee.assumptions, *(["each unit's rows are all in one block"] if blocks else [])]
    words = (
        f"Everything that is ever released from these data, together, is (epsilon, delta)-differentially private, "
        f"whatever is asked next in view of earlier answers{', in each block' if blocks else ''}."
    )
    body = [
        html.tag("p", words),
        html.facts("The cap, fixed when it was created", rows),
        html.tag("p", "It holds if all of this is true:"),
        html.bullets(assumptions),
    ]
    return Section(key=key, title=f"What was promised: {name}", body=html.join(body))


def _spent(key: str, name: str, budget: DatasetRecord, charges: list[Charged], spending: Burned) -> Section:
    rows = [_block_row(budget.cap, block_name, block) for block_name, block in budget.blocks.items()]
    head = ["Block", "Epsilon so far", "Cap", "Of the filter's allowance", "State"]
    body: list[Html] = [html.table("How each budget stands", head, rows, class_="numbers")]
    known = [block for block in budget.blocks if any(block in charge.blocks for charge in charges)]
    for block_name in known[:_MOST_PLOTS]:
        plot = spending.plot(name, block_name, budget)
        if plot is not None:
            body += [html.tag("h3", html.name(block_name)) if block_name else Html(""), plot]
        own = [charge for charge in charges if block_name in charge.blocks]
        block = budget.blocks[block_name]
        body.append(_composed(composition(budget.cap, block.whole.spent, own)))
    if len(known) > _MOST_PLOTS:
        body.append(html.tag("p", f"{len(known) - _MOST_PLOTS:,} more blocks are in the table only."))
    if not known:
        body.append(html.tag("p", "Nothing was charged."))
    return Section(key=key, title=f"What was spent: {name}", body=html.join(body))


def _block_row(cap: Cap, name: str, block: BlockRecord) -> list[object]:
    state = "retired" if block.retired else "open" if block.expires is None else f"until {_time(block.expires)}"
    epsilon = html.written_epsilon(cap.spent_epsilon(block.whole.spent))
    share = f"{100 * cap.used(block.whole.spent):.1f} %"
    return [html.name(name or "all"), epsilon, html.written_epsilon(cap.epsilon), share, state]


def _composed(told: Composition) -> Html:
    ways: list[tuple[str, Figure, str]] = [
        ("Filter", told.filter, "holds for choices made on the way; this enforces the cap"),
        ("Addition", told.addition, "what each was worth alone, added up, deltas too"),
        ("Renyi (RDP), best order", told.rdp, _ADVANCE),
        ("Privacy loss (PLD)", told.pld, _ADVANCE),
    ]
    rows = [[way, *_figure(result, meaning)] for way, result, meaning in ways]
    return html.table(f"How {told.charges:,} charges compose", ["By", "Epsilon", "Delta", ""], rows, class_="charges")


def _figure(result: Figure, meaning: str) -> list[object]:
    if result.epsilon is None:
        return ["refused", "", html.name(result.why)]
    return [html.written_epsilon(result.epsilon), html.written_delta(result.delta), meaning]


def _charges(key: str, name: str, budget: DatasetRecord, charges: list[Charged]) -> Section:
    pending = [charge for charge in charges if charge.status == "reserved"]
    body: list[Html] = []
    if pending:
        words = "Reserved, and neither committed nor voided: still running, or left by a crash. They count as spent."
        body += [html.tag("p", words), _table("Pending", budget.cap, pending)]
    if charges:
        words = (
            "Claimed is what a release is worth by itself, at the delta beside it. The last column is what it takes, "
            "by itself, of what the filter adds up."
        )
        body.append(html.tag("p", words))
    body.append(_table("All, in order of time", budget.cap, charges) if charges else html.tag("p", "None."))
    return Section(key=key, title=f"Every charge: {name}", body=html.join(body))


def _table(caption: str, cap: Cap, charges: list[Charged]) -> Html:
    head = ["Row", "Time (UTC)", "Who", "Purpose", "What was run", "Status", "Epsilon claimed", "Of the allowance"]
    return html.table(caption, head, [_charge_row(cap, charge) for charge in charges], class_="charges long")


def _charge_row(cap: Cap, charge: Charged) -> list[object]:
    row, ended = charge.row, charge.settled
    number = f"{row.id}" if ended is None else f"{row.id}, {ended.id}"
    run = charge.refused if charge.event is None else in_words(charge.event)
    blocks = ", ".join(filter(None, charge.blocks))
    purpose = html.join([html.name(row.purpose), *([" (", html.name(blocks), ")"] if blocks else [])])
    charged = f"{100 * cap.used(charge.spent):.2f} %"
    whole = ", reserved whole (PLD)" if charge.claimed else f", part of row {charge.part_of}" if charge.part_of else ""
    state = charge.status + whole if charge.status != "voided" else "voided: nothing was released"
    claimed = "" if charge.event is None else _claimed(cap, charge)
    who = html.name(row.author)
    return [
        number,
        _time(row.time).removesuffix(" UTC"),
        who,
        purpose,
        html.name(run or "nothing"),
        state,
        claimed,
        charged,
    ]


def _claimed(cap: Cap, charge: Charged) -> str:
    assert charge.event is not None
    epsilon, delta = stated(cap, charge.event, charge.delta)
    at = f" at delta {html.written_delta(delta)}" if delta else ""
    return f"{html.written_epsilon(epsilon)}{at}"


def _people(replay: LedgerReplay, shown: dict[str, DatasetRecord]) -> Section:
    body: list[Html] = []
    if replay.people:
        rows = [[html.name(person), role] for person, role in replay.people.items()]
        body.append(html.table("Admitted", ["Who", "Role"], rows))
    else:
        body.append(html.tag("p", "Nobody was admitted: whoever can write the database may spend."))
    rows = [
        [html.name(name), html.name(block_name or "all"), html.name(person), *_shared(part)]
        for name, budget in shown.items()
        for block_name, block in budget.blocks.items()
        for person, part in block.shares.items()
    ]
    if rows:
        body.append(html.table("Shares", ["Data set", "Block", "Who", "Share", "Of it used"], rows, class_="numbers"))
    return Section(key="people", title="People and shares", body=html.join(body))


def _shared(part: Part) -> list[str]:
    return [f"{part.millionths / 10_000:g} %", f"{100 * used_of(part.limit, part.spent):.1f} %"]


def _versions() -> Section:
    names = ("sqlalchemy", "numpy", "scipy")
    rows: list[tuple[object, object]] = [("hush", __version__), ("Tables of the ledger", str(schema.VERSION))]
    rows += [(name, version(name)) for name in names]
    return Section(key="versions", title="Versions", body=html.facts("Made with", rows))


def _counted(result: Verification) -> str:
    return f"{len(result.findings):,} finding{'' if len(result.findings) == 1 else 's'}"


def _time(microseconds: Any) -> str:
    try:
        return _moment(datetime.fromtimestamp(microseconds / 1e6, UTC))
    except (TypeError, ValueError, OverflowError, OSError):  # a damaged row
        return "unknown"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
