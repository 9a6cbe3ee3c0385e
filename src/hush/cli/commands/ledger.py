"""`hush ledger`: privacy budgets in a database, and the charges to them.

The actions come in five kinds: budgets (create, show, add-block, retire), spending (price, charge, pending), checks
(verify, recompute, export), safekeeping (key, anchor, backup, restore) and people (admit, share). What they print is in
`hush.cli.ledger_text`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.cli import ledger_text as text
from hush.cli.charging import DB_HELP, open_ledger
from hush.cli.commands.account import phase_event
from hush.cli.declarations import parse_values
from hush.cli.json_values import plain
from hush.cli.options import add_relation
from hush.cli.terminal import suggest, wrapped
from hush.cli.words import ROLES, role
from hush.errors import InvalidArgument
from hush.strict_json import parse

if TYPE_CHECKING:
    from hush.accounting import Box, Event
    from hush.ledger import LedgerBudget, Reserved

Run = Callable[[argparse.Namespace], None]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "ledger",
        help="keep and enforce privacy budgets in a database",
        description="Keep one budget for everything released from your data, in a database that enforces it.",
        epilog="Example: hush ledger create patients --epsilon 3 --delta 1e-6 --unit-name patient. If the ledger has "
        "admitted people, your token is read from $HUSH_LEDGER_TOKEN.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for add in (_add_budgets, _add_spending, _add_checks, _add_safekeeping, _add_people):
        add(actions)


# Budgets


def _add_budgets(actions: Any) -> None:
    """Add the actions on budgets and their blocks."""
    create = _action(actions, "create", _create, "create a budget; it cannot be changed later", "NAME")
    create.add_argument("--epsilon", type=float, required=True, help="the cap on all releases from the data, forever")
    create.add_argument(
        "--delta",
        type=float,
        default=1e-6,
        help="the delta of the cap; with 0, training and Gaussian noise are refused (default: 1e-06)",
    )
    create.add_argument(
        "--unit-name",
        required=True,
        metavar="NAME",
        help="the privacy unit: row, or a person such as user, patient or customer, or patient-month",
    )
    add_relation(create)
    create.add_argument("--blocks", metavar="A,B,...", help="disjoint parts of the data, each with the full budget")
    create.add_argument(
        "--box",
        metavar="JSON",
        help="kinds of releases and the largest number of each, paid in advance at their composed price: "
        '[{"event": {"noise_multiplier": 25}, "number": 40}]',
    )
    create.add_argument(
        "--fingerprint", type=Path, metavar="FILE", help="the data file; no other budget may have the same one"
    )
    show = _action(actions, "show", _show, "show how much of each budget is used")
    show.add_argument("name", metavar="NAME", nargs="?", help="show only this budget, with its last charges")
    block = _action(actions, "add-block", _add_block, "add a block to a growing table", "NAME")
    block.add_argument("block", metavar="BLOCK", help="the block's name, such as 2026-11")
    block.add_argument(
        "--expires", metavar="TIME", help="when the block stops accepting charges, such as 2026-12-31T00:00+00:00"
    )
    retire = _action(actions, "retire", _retire, "retire blocks, so that they accept no more charges", "NAME")
    retire.add_argument("blocks", metavar="BLOCK", nargs="+", help="the blocks' names, such as 2026-11")


def _create(options: argparse.Namespace) -> None:
    """Create a budget."""
    ledger = open_ledger(options.db, create=True)
    if options.name in {budget.name for budget in ledger.budgets()}:
        raise InvalidArgument("name", options.name, "a name that no budget has", "`hush ledger show` lists the names")
    if options.fingerprint is not None and not options.fingerprint.is_file():
        raise InvalidArgument("fingerprint", str(options.fingerprint), "a file")
    budget = ledger.budget(
        options.name,
        epsilon=options.epsilon,
        delta=options.delta,
        unit=options.unit_name,
        relation=options.relation,
        fingerprint=options.fingerprint,
        blocks=_blocks(options),
        box=None if options.box is None else _box(parse(options.box)),
    )
    _print(options, text.status(budget), lambda: text.created(budget))
    _suggest(
        options,
        f"hush query FILE QUESTION --budget {shlex.quote(options.name)}",
        f"hush ledger show {shlex.quote(options.name)}",
    )


def _box(kinds: Any) -> Box:
    """Return the box that JSON describes. Events may be phases, such as those of `hush account`."""
    from hush.accounting import Box

    if not isinstance(kinds, list):
        return Box.from_json(kinds)
    plain = [
        {**kind, "event": json.loads(phase_event(kind["event"]).to_json())}
        if isinstance(kind, dict) and "event" in kind
        else kind
        for kind in kinds
    ]
    return Box.from_json(plain)


def _show(options: argparse.Namespace) -> None:
    """Show all budgets, or one."""
    ledger = open_ledger(options.db)
    if options.name is None:
        budgets = ledger.budgets()
        _print(options, [text.status(budget) for budget in budgets], lambda: text.budget_table(budgets))
        return
    budget = ledger.budget(options.name)
    _print(options, text.status(budget), lambda: text.budget_page(budget))


def _add_block(options: argparse.Namespace) -> None:
    """Add a block, which may expire."""
    expires = None
    if options.expires is not None:
        try:
            expires = datetime.fromisoformat(options.expires)
        except ValueError:
            raise InvalidArgument("expires", options.expires, "a time such as 2026-12-31T00:00+00:00") from None
    open_ledger(options.db).budget(options.name).add_block(options.block, expires=expires)
    _print(
        options, {"budget": options.name, "block": options.block}, lambda: f"Block {options.block} now accepts charges."
    )


def _retire(options: argparse.Namespace) -> None:
    """Retire blocks."""
    open_ledger(options.db).budget(options.name).retire(*options.blocks)
    content = {"budget": options.name, "retired": options.blocks}
    _print(options, content, lambda: f"Retired; these blocks accept no more charges: {', '.join(options.blocks)}.")


# Spending


def _add_spending(actions: Any) -> None:
    """Add the actions that price, charge and settle."""
    price = _action(actions, "price", _price, "show the cost of a charge, without charging it", "NAME")
    _add_event(price)
    charge = _action(actions, "charge", _charge, "charge a release made elsewhere", "NAME")
    _add_event(charge)
    charge.add_argument("--purpose", required=True, metavar="TEXT", help="what the release is for, in a few words")
    charge.add_argument(
        "--request", metavar="KEY", help="a key of your own; a charge with the same key is made only once"
    )
    pending = _action(actions, "pending", _pending, "list or settle reservations; a pending one counts as spent")
    settle = pending.add_mutually_exclusive_group()
    settle.add_argument("--void", type=int, metavar="ID", help="refund a reservation: nothing was released")
    settle.add_argument("--commit", type=int, metavar="ID", help="keep a reservation: something may have been released")
    pending.add_argument(
        "--force", action="store_true", help="settle it even if a run is using it or, with --void, has stored states"
    )


def _add_event(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a release."""
    release = parser.add_mutually_exclusive_group(required=True)
    release.add_argument("--epsilon", type=float, help="the epsilon of the release")
    release.add_argument(
        "--event",
        metavar="JSON",
        help='what will be run, such as {"noise_multiplier": 1.1, "sampling_rate": 0.01, "num_steps": 9}',
    )
    parser.add_argument("--delta", type=float, help="with --epsilon: the delta of the release (default: 0)")
    parser.add_argument("--blocks", metavar="A,B,...", help="charge only these blocks; if omitted, all")


def _priced_event(options: argparse.Namespace) -> tuple[LedgerBudget, Event]:
    """Return the budget, narrowed to the blocks that were named, and the event to charge."""
    from hush.accounting import ApproximateDPEvent

    budget, blocks = open_ledger(options.db).budget(options.name), _blocks(options)
    if blocks is not None:
        budget = budget.at(*blocks)
    if options.event is None:
        return budget, ApproximateDPEvent(options.epsilon, 0.0 if options.delta is None else options.delta)
    if options.delta is not None:
        raise InvalidArgument("delta", options.delta, "either --delta or --event", "The event has its own delta")
    return budget, phase_event(parse(options.event))


def _price(options: argparse.Namespace) -> None:
    """Show what a charge would cost."""
    budget, event = _priced_event(options)
    price = budget.price(event)
    _print(options, plain(price), lambda: text.price(price, budget))
    _suggest(options, f"hush ledger charge {shlex.quote(options.name)} --help")


def _charge(options: argparse.Namespace) -> None:
    """Charge a release."""
    budget, event = _priced_event(options)
    row = budget.charge(event, purpose=options.purpose, request=options.request)
    content = {"id": row.id, "hash": row.hash, "spent": budget.spent, "left": budget.left}
    receipt = budget.receipt(row, budget.cap.alone(event, row.cost), budget.cap.delta)
    _print(options, content, lambda: str(receipt))


def _pending(options: argparse.Namespace) -> None:
    """List the reservations, or settle one."""
    ledger = open_ledger(options.db)
    reservations = {item.id: (budget, item) for budget in ledger.budgets() for item in budget.pending()}
    number, action = (options.void, "void") if options.void is not None else (options.commit, "commit")
    if number is None:
        rows = [_pending_row(budget, item) for budget, item in reservations.values()]
        _print(options, rows, lambda: text.pending(rows))
        return
    if number not in reservations:
        raise InvalidArgument(action, number, "the id of a pending reservation", "See hush ledger pending")
    reservation = reservations[number][1]
    if action == "void":
        reservation.void(force=options.force)
    elif reservation.held_for() is not None and not options.force:
        advice = "Wait until it ends, or pass --force: it can then publish nothing, although it is paid for"
        raise InvalidArgument("commit", number, "a reservation that no process is working on", advice)
    else:
        reservation.commit()
    status = "voided" if action == "void" else "committed"
    _print(options, {"id": number, "status": status}, lambda: f"Row {number}: {status}.")


def _pending_row(budget: LedgerBudget, reservation: Reserved) -> dict[str, Any]:
    """Return a reservation for the table, or for JSON."""
    row = reservation.row
    return {
        "id": row.id,
        "budget": row.budget,
        "time": text.written_time(row.time),
        "author": row.author,
        "purpose": row.purpose,
        "epsilon": text.alone(budget, row),
        "active_seconds_ago": reservation.held_for(),
    }


# Checks


def _add_checks(actions: Any) -> None:
    """Add the actions for auditors."""
    verify = _action(actions, "verify", _verify, "check whether anything was edited, removed or reordered")
    _add_evidence(verify)
    _action(actions, "recompute", _recompute, "recompute all charges with this version's accountant", "NAME")
    export = _action(actions, "export", _export, "write a report for an auditor")
    export.add_argument("file", metavar="FILE", type=Path, help="an HTML file that does not exist yet")
    export.add_argument("--name", metavar="NAME", help="report only this budget")


def _add_evidence(parser: argparse.ArgumentParser) -> None:
    """Add the arguments with evidence of a ledger's earlier state."""
    parser.add_argument("--head", metavar="HASH", help="the hash of an earlier last row, which you kept elsewhere")
    parser.add_argument("--anchors", metavar="FILE", help="signed heads, which `hush ledger anchor` has written")
    parser.add_argument("--public-key", metavar="HEX", help="with --anchors: the public key of the signer")


def _evidence(options: argparse.Namespace) -> dict[str, Any]:
    return {"head": options.head, "anchors": options.anchors, "public_key": options.public_key}


def _verify(options: argparse.Namespace) -> None:
    """Verify the chain of hashes, and fail if it is broken."""
    from hush.ledger import LedgerDamaged

    result = open_ledger(options.db).verify(**_evidence(options))
    content = {
        "ok": result.ok,
        "rows": result.rows,
        "head": result.head,
        "head_was_given": result.head_was_given,
        "anchors": result.anchors,
        "notes": list(result.notes),
        "findings": [{"row": item.row, "about": item.about, "what": item.what} for item in result.findings],
    }
    _print(options, content, lambda: text.verified(result))
    if not result.ok:
        raise LedgerDamaged(f"the ledger is damaged ({text.counted(len(result.findings))})")


def _recompute(options: argparse.Namespace) -> None:
    """Recompute the charges of a budget."""
    result = open_ledger(options.db).recompute(options.name)
    _print(options, plain(result), lambda: text.recomputed(result))


def _export(options: argparse.Namespace) -> None:
    """Write the report for an auditor."""
    result = open_ledger(options.db).export(options.file, options.name)
    state = "The ledger is intact." if result.ok else f"The ledger is DAMAGED: {text.counted(len(result.findings))}."
    content = {"file": str(options.file), "ok": result.ok, "head": result.head}
    _print(options, content, lambda: f"Written to {options.file}. {state}\nKeep this hash elsewhere: {result.head}")


# Safekeeping


def _add_safekeeping(actions: Any) -> None:
    """Add the actions that store a ledger's state elsewhere."""
    key = _action(actions, "key", _key, "create a private key to sign heads with, and print its public key")
    key.add_argument("file", metavar="FILE", type=Path, help="a new file, which only you can read")
    anchor = _action(actions, "anchor", _anchor, "sign the ledger's head, and append it to a file elsewhere")
    anchor.add_argument("file", metavar="FILE", type=Path, help="this ledger's anchors, ideally on another machine")
    anchor.add_argument("--key", metavar="FILE", type=Path, required=True, help="the private key of `hush ledger key`")
    backup = _action(actions, "backup", _backup, "copy a ledger's file while it is in use")
    backup.add_argument("file", metavar="FILE", type=Path, help="a new file")
    restore = _action(actions, "restore", _restore, "restore a ledger from the backup that --db names")
    restore.add_argument("file", metavar="FILE", type=Path, help="a new file")
    _add_evidence(restore)
    restore.add_argument(
        "--key",
        metavar="FILE",
        type=Path,
        help="with --anchors: add an anchor of the restored ledger; no other copy can add one afterwards",
    )
    restore.add_argument(
        "--force", action="store_true", help="restore even if charges may have been made since, which are lost"
    )


def _key(options: argparse.Namespace) -> None:
    """Make a key for anchors."""
    from hush.ledger import Ledger

    public = Ledger.new_key(options.file)
    words = f"Written to {options.file}: keep it secret, and away from the ledger.\nPublic key: {public}"
    _print(options, {"file": str(options.file), "public_key": public}, lambda: words)


def _anchor(options: argparse.Namespace) -> None:
    """Sign the head."""
    head = open_ledger(options.db).anchor(options.file, key=options.key)
    _print(options, {"file": str(options.file), "head": head}, lambda: f"Signed: {head}")


def _backup(options: argparse.Namespace) -> None:
    """Write a backup."""
    head = open_ledger(options.db).backup(options.file)
    words = f"Written to {options.file}. It can be read, but accepts no charges.\nKeep its head elsewhere: {head}"
    _print(options, {"file": str(options.file), "head": head}, lambda: words)


def _restore(options: argparse.Namespace) -> None:
    """Make a ledger from a backup."""
    open_ledger(options.db).restore(options.file, **_evidence(options), key=options.key, force=options.force)
    _print(options, {"file": str(options.file)}, lambda: f"Restored to {options.file}. A row of it records this.")


# People


def _add_people(actions: Any) -> None:
    """Add the actions on people."""
    admit = _action(actions, "admit", _admit, "admit a person, and print their token", "NAME")
    admit.add_argument("--role", required=True, choices=ROLES, help="what the person may do")
    share = _action(actions, "share", _share, "let an analyst spend a share of a budget", "NAME")
    share.add_argument("person", metavar="PERSON", help="the analyst's name")
    share.add_argument("--percent", type=int, required=True, help="the share of each block's budget, in percent")


def _admit(options: argparse.Namespace) -> None:
    """Admit a person, and show their token."""
    token = open_ledger(options.db, create=True).admit(options.name, role(options.role))
    content = {"name": options.name, "role": options.role, "token": token}
    sentence = f"Admitted {options.name} as {options.role}. The token is shown only once, and is not stored:"
    _print(options, content, lambda: f"{sentence}\n{token}")


def _share(options: argparse.Namespace) -> None:
    """Give an analyst a share of a budget."""
    open_ledger(options.db).budget(options.name).share(options.person, percent=options.percent)
    content = {"budget": options.name, "name": options.person, "percent": options.percent}
    _print(options, content, lambda: f"{options.person} may spend up to {options.percent} % of {options.name}.")


# Shared by all actions


def _action(actions: Any, name: str, run: Run, summary: str, positional: str | None = None) -> argparse.ArgumentParser:
    """Add an action, with the options that all actions have."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    if positional is not None:
        subject = "person" if name == "admit" else "budget"
        parser.add_argument("name", metavar=positional, help=f"the name of the {subject}")
    parser.add_argument("--db", metavar="URL", help=DB_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _suggest(options: argparse.Namespace, *commands: str) -> None:
    """Show what to do next, on a ledger of the same file."""
    if not options.json:
        suggest(*commands)


def _print(options: argparse.Namespace, content: Any, words: Callable[[], str]) -> None:
    """Print JSON for scripts, or words for people."""
    print(json.dumps(content, allow_nan=False) if options.json else wrapped(words(), stream=sys.stdout))


def _blocks(options: argparse.Namespace) -> list[str] | None:
    """Return the blocks that were named; None if none were."""
    return None if options.blocks is None else list(parse_values("blocks", options.blocks, options.blocks))
