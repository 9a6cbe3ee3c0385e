"""The auditor's report on a ledger: one self-contained HTML page, without scripts."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from hush.accounting.budget import Box, Cap
from hush.errors import InvalidArgument
from hush.ledger.accounts.blocks import guarantee_in_blocks
from hush.ledger.accounts.terms.cap import unit_name_from
from hush.ledger.accounts.terms.standard_query import WHOLE, standard_query
from hush.ledger.history.composition import Composition, Figure, composition, stated, used_of
from hush.ledger.history.ledger_replay import LedgerReplay
from hush.ledger.history.records import BlockRecord, BudgetRecord, Charged, Part
from hush.ledger.history.spending import SpendingHistory, spending_history
from hush.ledger.history.verification import Verification, read, verified
from hush.ledger.history.words import in_words
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import parsed_details
from hush.ledger.storage.store import Store
from hush.report import page_parts as html
from hush.report.page_parts import Html, Section
from hush.version import __version__

_GENERATOR: Final = Html('<meta name="generator" content="hush.ledger">')
_MOST_PLOTS = 36
_MOST_TILES = 6
_ADVANCE = "if all charges had been fixed in advance; shown for comparison"
_LEFT = (
    "What is left is counted in standard queries: the whole budget pays for 100 of them, and each takes one. Epsilon "
    "so far is what everything that was charged reveals together, by the theorem that enforces the cap. It rises "
    "quickly at first and more slowly later, so the difference to the cap does not say how much still fits."
)


def export(store: Store, path: Path, name: str | None = None) -> Verification:
    """Write the report. Return the result of the verification, which the report contains.

    Args:
        store: The ledger's database.
        path: A file that does not exist. A report never overwrites a file.
        name: Report only the charges to this budget. The verification always covers the whole ledger.
    """
    replay, tables = read(store)
    result = verified(replay, tables)
    if name is not None and name not in replay.budgets:
        raise InvalidArgument("name", name, "a budget of this ledger")
    page = _page(replay, result, name)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(page)
    except FileExistsError:
        raise InvalidArgument("path", str(path), "a path that does not exist") from None
    except OSError as error:
        raise InvalidArgument("path", str(path), "a writable path", error.strerror or "") from None
    return result


def _page(replay: LedgerReplay, result: Verification, only: str | None) -> str:
    shown = {name: budget for name, budget in replay.budgets.items() if only in (None, name)}
    spending = spending_history(replay)
    sections = [_integrity(replay, result)]
    for index, (name, budget) in enumerate(shown.items()):
        charges = [charge for charge in replay.charges.values() if charge.row.budget == name]
        sections.append(_promised(f"promise-{index}", name, budget))
        sections.append(_spent(f"spent-{index}", name, budget, charges, spending))
        sections.append(_charges(f"charges-{index}", name, budget, charges))
    sections += [_people(replay, shown), _versions()]
    title = "Privacy ledger" if only is None else f"Privacy ledger: {only}"
    return html.document(title, _header(title, replay, result, shown), sections, generator=_GENERATOR)


def _header(title: str, replay: LedgerReplay, result: Verification, shown: dict[str, BudgetRecord]) -> Html:
    pending = sum(charge.status == "reserved" for charge in replay.charges.values() if charge.row.budget in shown)
    charges = sum(charge.row.budget in shown for charge in replay.charges.values())
    tiles = [
        html.tile("intact" if result.ok else "DAMAGED", "hashes, costs and totals"),
        html.tile(f"{len(shown):,}", "budget" if len(shown) == 1 else "budgets"),
        html.tile(f"{charges:,}", "charges"),
        html.tile(f"{pending:,}", "pending reservation" if pending == 1 else "pending reservations"),
        *(_spent_tile(name, budget) for name, budget in list(shown.items())[:_MOST_TILES]),
    ]
    tests = any(budget.terms.get("for_tests") for budget in shown.values())
    warning = "NOT PRIVATE: a ledger for tests. Whoever knows the seed of a test can subtract its noise."
    made = f"Created by hush {__version__} on {_moment(datetime.now(UTC))} from {result.rows:,} rows"
    return html.tag(
        "header",
        html.tag("h1", html.name(title)),
        html.tag("div", html.tag("p", html.tag("strong", warning)), class_="notice") if tests else None,
        html.tag("p", made, class_="meta"),
        html.tag("div", *tiles, class_="tiles"),
        _alarm(result),
    )


def _spent_tile(name: str, budget: BudgetRecord) -> Html:
    """Return the amount spent of a budget, in the block where it is largest."""
    cap = budget.cap
    epsilon = max((cap.spent_epsilon(block.budget.spent) for block in budget.data_blocks.values()), default=0.0)
    left = min((standard_query(cap).left(block.budget.spent) for block in budget.data_blocks.values()), default=WHOLE)
    spent = f"{html.written_epsilon(epsilon)} of {html.written_epsilon(cap.epsilon)}"
    return html.tile(spent, f"epsilon so far: {name}; {left} of {WHOLE} queries left")


def _alarm(result: Verification) -> Html | None:
    if result.ok:
        return None
    words = f"This ledger is damaged: {_counted(result)}. The report shows what its rows say."
    return html.tag("div", html.tag("p", html.tag("strong", words)), class_="notice")


def _integrity(replay: LedgerReplay, result: Verification) -> Section:
    checked = (
        "Each row stores the hash of the previous row. The check covers the hashes, the cost of each event by this "
        "version's accountant, settlements against their reservations, totals against caps and shares, and the derived "
        "tables against the rows."
    )
    advice: list[object] = ["The ledger was compared with a head that was stored elsewhere."]
    if not result.head_was_given:
        command = html.tag("code", "hush ledger verify --head HASH")
        advice = [
            "Store the head elsewhere. With it, ",
            command,
            " also detects rows that were removed from the end, and a rewritten ledger.",
        ]
    times = [_time(row.time) for row in (replay.rows[:1] + replay.rows[-1:])]
    rows = [
        ("Result", "no problems" if result.ok else _counted(result)),
        ("Rows", f"{result.rows:,}"),
        ("Period", " to ".join(times) or "none"),
        ("Head", html.tag("code", result.head)),
    ]
    findings = [html.tag("h3", "Findings"), html.bullets(map(html.name, result.findings))] if result.findings else []
    notes = [html.bullets(map(html.name, result.notes))] if result.notes else []
    body = [html.tag("p", checked), html.facts("Verification", rows), html.tag("p", *advice), *findings, *notes]
    return Section(key="integrity", title="Integrity", body=html.join(body))


def _promised(key: str, name: str, budget: BudgetRecord) -> Section:
    cap = budget.cap
    blocks = [block for block in budget.data_blocks if block]
    guarantee = guarantee_in_blocks(cap.guarantee(), blocks) if blocks else cap.guarantee()
    rules = [] if cap.order is None else [f"Renyi divergence at order {cap.order:.6g}"]
    rules += ["comparison with Gaussian noise"] if cap.gaussian_rule.most >= 0 else []
    rules += ["basic composition"] if cap.limit.pure >= 0 else []
    called = unit_name_from(budget.terms)
    rows: list[tuple[object, object]] = [
        ("Epsilon", html.written_epsilon(guarantee.epsilon)),
        ("Delta", html.written_delta(guarantee.delta)),
        ("Privacy unit", html.join([str(cap.unit), " (", html.name(called), ")"])),
        ("Neighbouring datasets", cap.relation.value),
        ("Enforced by", f"privacy filters, at least one of which must accept all charges: {', or '.join(rules)}"),
        *([] if cap.box is None else [("Declared releases", _declared(cap.box))]),
        ("Part of delta reserved for claims", html.written_delta(cap.claims_delta or 0.0)),
        ("Fingerprint of the data", html.name(budget.terms.get("fingerprint") or "none")),
        ("Created", html.join([_time(budget.row.time), " by ", html.name(budget.row.author)])),
    ]
    words = (
        "All releases charged to this budget are together (epsilon, delta)-differentially private, even if each is "
        f"chosen after seeing earlier answers{'. This holds for each block' if blocks else ''}."
    )
    body = [
        html.tag("p", words),
        html.facts("The cap, fixed at creation", rows),
        html.tag("p", "The guarantee assumes that:"),
        html.bullets(guarantee.assumptions),
    ]
    return Section(key=key, title=f"Guarantee: {name}", body=html.join(body))


def _spent(key: str, name: str, budget: BudgetRecord, charges: list[Charged], spending: SpendingHistory) -> Section:
    rows = [_block_row(budget.cap, block_name, block) for block_name, block in budget.data_blocks.items()]
    head = ["Block", "Epsilon so far", "Cap", f"Left of {WHOLE} queries", "State"]
    standard = f"A standard query of this budget has {standard_query(budget.cap).words}."
    body: list[Html] = [html.table("Budget", head, rows, class_="numbers"), html.tag("p", f"{_LEFT} {standard}")]
    charged = [block for block in budget.data_blocks if any(block in charge.blocks for charge in charges)]
    for block_name in charged[:_MOST_PLOTS]:
        plot = spending.plot(name, block_name, budget)
        if plot is not None:
            body += [html.tag("h3", html.name(block_name)) if block_name else Html(""), plot]
        block_charges = [charge for charge in charges if block_name in charge.blocks]
        block = budget.blocks[block_name]
        body.append(_composed(composition(budget.cap, block.budget.spent, block_charges)))
    if len(charged) > _MOST_PLOTS:
        body.append(html.tag("p", f"{len(charged) - _MOST_PLOTS:,} more blocks are listed in the table only."))
    if not charged:
        body.append(html.tag("p", "Nothing was charged."))
    return Section(key=key, title=f"Spending: {name}", body=html.join(body))


def _declared(box: Box) -> str:
    return "; ".join(f"{number:,} of {in_words(event)}" for event, number in box.kinds)


def _block_row(cap: Cap, name: str, block: BlockRecord) -> list[object]:
    state = "retired" if block.retired else "open" if block.expires is None else f"until {_time(block.expires)}"
    epsilon = html.written_epsilon(cap.spent_epsilon(block.budget.spent))
    left = standard_query(cap).left(block.budget.spent)
    return [html.name(name or "all"), epsilon, html.written_epsilon(cap.epsilon), left, state]


def _composed(composed: Composition) -> Html:
    figures: list[tuple[str, Figure, str]] = [
        ("Filter", composed.filter, "holds for adaptive choices; enforces the cap"),
        ("Addition", composed.addition, "sum of the stated epsilons and deltas"),
        ("Renyi (RDP), best order", composed.rdp, _ADVANCE),
        ("Privacy loss (PLD)", composed.pld, _ADVANCE),
    ]
    rows = [[theorem, *_figure(result, meaning)] for theorem, result, meaning in figures]
    return html.table(
        f"Composition of {composed.charges:,} {'charge' if composed.charges == 1 else 'charges'}",
        ["Theorem", "Epsilon", "Delta", ""],
        rows,
        class_="charges",
    )


def _figure(result: Figure, meaning: str) -> list[object]:
    if result.epsilon is None:
        return ["none", "", html.join(["does not apply: ", html.name(result.why)])]
    return [html.written_epsilon(result.epsilon), html.written_delta(result.delta), meaning]


def _charges(key: str, name: str, budget: BudgetRecord, charges: list[Charged]) -> Section:
    pending = [charge for charge in charges if charge.status == "reserved"]
    body: list[Html] = []
    if pending:
        words = "Pending reservations: of running releases, or left by a crash. They count as spent."
        body += [html.tag("p", words), _table("Pending", budget.cap, pending)]
    if charges:
        words = (
            "The epsilon is that of the release on its own, at the delta below it. Several releases together reveal "
            "less than the sum."
        )
        body.append(html.tag("p", words))
    body.append(_table("All charges, oldest first", budget.cap, charges) if charges else html.tag("p", "None."))
    return Section(key=key, title=f"Charges: {name}", body=html.join(body))


def _table(caption: str, cap: Cap, charges: list[Charged]) -> Html:
    head = ["Row", "Time (UTC)", "Release", "Status", "Epsilon alone"]
    return html.table(caption, head, [_charge_row(cap, charge) for charge in charges], class_="charges long")


def _charge_row(cap: Cap, charge: Charged) -> list[object]:
    row, settled = charge.row, charge.settled
    number = f"{row.id}" if settled is None else f"{row.id}, {settled.id}"
    when = [
        html.tag("div", _time(row.time).removesuffix(" UTC")),
        html.tag("div", html.name(row.author), class_="meta"),
    ]
    event = charge.refused if charge.event is None else in_words(charge.event)
    blocks = ", ".join(filter(None, charge.blocks))
    purpose = html.join([html.name(row.purpose), *([" (", html.name(blocks), ")"] if blocks else [])])
    release = [html.tag("div", purpose), html.tag("div", html.name(event or "nothing"), class_="meta"), _result(charge)]
    how = ", as one claim (PLD)" if charge.claimed else f", part of row {charge.part_of}" if charge.part_of else ""
    state = charge.status + how if charge.status != "voided" else "voided: nothing was released"
    claimed: object = "" if charge.event is None else _claimed(cap, charge)
    return [number, html.join(when), html.join(release), state, claimed]


def _result(charge: Charged) -> Html | None:
    """Return a link to the folder that holds the result, whose guarantee.json names this row."""
    details = parsed_details(charge.row.details)
    folder = details.get("folder")
    if not isinstance(folder, str) or not folder:
        return None
    is_path = folder.isprintable() and Path(folder).is_absolute()
    shown = html.tag("a", html.name(folder), href=Path(folder).as_uri()) if is_path else html.name(folder)
    digest = charge.settled.answer if charge.settled is not None else None
    files = [html.tag("div", "SHA-256 of its files: ", html.tag("code", digest[:16], "..."))] if digest else []
    return html.tag("div", "Written to ", shown, *files, class_="meta")


def _claimed(cap: Cap, charge: Charged) -> Html:
    assert charge.event is not None
    epsilon, delta = stated(cap, charge.event, charge.delta)
    at_delta = html.tag("div", f"delta {html.written_delta(delta)}", class_="meta") if delta else None
    return html.join([html.tag("div", html.written_epsilon(epsilon)), at_delta])


def _people(replay: LedgerReplay, shown: dict[str, BudgetRecord]) -> Section:
    body: list[Html] = []
    if replay.people:
        rows = [[html.name(person), role] for person, role in replay.people.items()]
        body.append(html.table("People", ["Name", "Role"], rows))
    else:
        body.append(html.tag("p", "No one has been admitted yet: anyone who can write to the database may spend."))
    rows = [
        [html.name(name), html.name(block_name or "all"), html.name(person), *_shared(part)]
        for name, budget in shown.items()
        for block_name, block in budget.blocks.items()
        for person, part in block.shares.items()
    ]
    if rows:
        body.append(html.table("Shares", ["Budget", "Block", "Name", "Share", "Share used"], rows, class_="numbers"))
    return Section(key="people", title="People and shares", body=html.join(body))


def _shared(part: Part) -> list[str]:
    return [f"{part.millionths / 10_000:g} %", f"{100 * used_of(part.limit, part.spent):.1f} %"]


def _versions() -> Section:
    names = ("sqlalchemy", "numpy", "scipy")
    rows: list[tuple[object, object]] = [("hush", __version__), ("Ledger format", str(schema.VERSION))]
    rows += [(name, version(name)) for name in names]
    return Section(key="versions", title="Versions", body=html.facts("Software", rows))


def _counted(result: Verification) -> str:
    return f"{len(result.findings):,} finding{'' if len(result.findings) == 1 else 's'}"


def _time(microseconds: Any) -> str:
    try:
        return _moment(datetime.fromtimestamp(microseconds / 1e6, UTC))
    except (TypeError, ValueError, OverflowError, OSError):  # a damaged row
        return "unknown"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
