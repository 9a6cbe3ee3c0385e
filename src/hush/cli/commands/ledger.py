"""`hush ledger`: budgets that last, and everything that was charged to them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.cli.charging import DEFAULT_DB, open_ledger
from hush.cli.commands import ledger_text as text
from hush.cli.commands.account import phase_event
from hush.cli.options import add_relation
from hush.errors import InvalidArgument
from hush.strict_json import parse

if TYPE_CHECKING:
    from hush.accounting import Event
    from hush.ledger import Dataset, Reserved

Run = Callable[[argparse.Namespace], None]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "ledger",
        help="budgets that last, and what was charged to them",
        description="One budget over everything that is released from some data, kept in a database, and enforced.",
        epilog="Example: hush ledger create patients --epsilon 3 --delta 1e-6 --unit patient. In a ledger that knows "
        "its people, your token is read from $HUSH_LEDGER_TOKEN.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for add in (_add_budgets, _add_spending, _add_checks, _add_people):
        add(actions)


# Budgets


def _add_budgets(actions: Any) -> None:
    create = _action(actions, "create", _create, "create a budget, for good", "NAME")
    create.add_argument("--epsilon", type=float, required=True, help="the cap on everything that is ever released")
    create.add_argument("--delta", type=float, default=0.0, help="the same (0)")
    create.add_argument("--unit", required=True, metavar="U", help="what is protected: patient, row, patient-month ...")
    add_relation(create)
    create.add_argument("--blocks", metavar="A,B,...", help="disjoint parts of the data, each with the whole budget")
    create.add_argument("--fingerprint", type=Path, metavar="FILE", help="the data: no two budgets for the same file")
    show = _action(actions, "show", _show, "how budgets stand")
    show.add_argument("name", metavar="NAME", nargs="?", help="only this one, with what was charged last")
    block = _action(actions, "add-block", _add_block, "begin a block of a growing table", "NAME")
    block.add_argument("block", metavar="BLOCK", help="such as 2026-11")
    block.add_argument("--expires", metavar="TIME", help="from when on it takes no charges: 2026-12-31T00:00+00:00")
    retire = _action(actions, "retire", _retire, "end blocks: they take no more charges", "NAME")
    retire.add_argument("blocks", metavar="BLOCK", nargs="+", help="such as 2026-11")


def _create(options: argparse.Namespace) -> None:
    ledger = open_ledger(options.db, create=True)
    if options.name in {dataset.name for dataset in ledger.datasets()}:
        raise InvalidArgument("name", options.name, "a name that no budget has", "`hush ledger show` lists them")
    if options.fingerprint is not None and not options.fingerprint.is_file():
        raise InvalidArgument("fingerprint", str(options.fingerprint), "a file")
    dataset = ledger.dataset(
        options.name,
        epsilon=options.epsilon,
        delta=options.delta,
        unit=options.unit,
        relation=options.relation,
        fingerprint=options.fingerprint,
        blocks=_listed("blocks", options.blocks),
    )
    _print(options, text.stand(dataset), lambda: text.created(dataset))


def _show(options: argparse.Namespace) -> None:
    ledger = open_ledger(options.db)
    if options.name is None:
        datasets = ledger.datasets()
        _print(options, [text.stand(dataset) for dataset in datasets], lambda: text.budgets(datasets))
        return
    dataset = ledger.dataset(options.name)
    _print(options, text.stand(dataset), lambda: text.budget(dataset))


def _add_block(options: argparse.Namespace) -> None:
    expires = None
    if options.expires is not None:
        try:
            expires = datetime.fromisoformat(options.expires)
        except ValueError:
            raise InvalidArgument("expires", options.expires, "a time such as 2026-12-31T00:00+00:00") from None
    open_ledger(options.db).dataset(options.name).add_block(options.block, expires=expires)
    _print(options, {"dataset": options.name, "block": options.block}, lambda: f"{options.block} takes charges.")


def _retire(options: argparse.Namespace) -> None:
    open_ledger(options.db).dataset(options.name).retire(*options.blocks)
    told = {"dataset": options.name, "retired": options.blocks}
    _print(options, told, lambda: f"{', '.join(options.blocks)}: no more charges.")


# Spending


def _add_spending(actions: Any) -> None:
    price = _action(actions, "price", _price, "what a charge would cost; nothing is charged", "NAME")
    _add_event(price)
    charge = _action(actions, "charge", _charge, "charge what will be released elsewhere", "NAME")
    _add_event(charge)
    charge.add_argument("--purpose", required=True, metavar="TEXT", help="what for, in a few words")
    charge.add_argument("--request", metavar="KEY", help="a key of your own: charged once, however often it is sent")
    pending = _action(actions, "pending", _pending, "what is reserved and not settled; it counts")
    end = pending.add_mutually_exclusive_group()
    end.add_argument("--void", type=int, metavar="ID", help="nothing of it was released: give it back")
    end.add_argument("--commit", type=int, metavar="ID", help="it was, or may have been, released: keep it")


def _add_event(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--epsilon", type=float, help="of a release with that epsilon")
    what.add_argument(
        "--event", metavar="JSON", help='what will be run: {"noise_multiplier": 1.1, "sampling_rate": 0.01, "steps": 9}'
    )
    parser.add_argument("--delta", type=float, help="with --epsilon (0)")
    parser.add_argument("--blocks", metavar="A,B,...", help="only from these blocks")


def _asked(options: argparse.Namespace) -> tuple[Dataset, Event]:
    from hush.accounting import ApproximateDPEvent

    dataset, blocks = open_ledger(options.db).dataset(options.name), _listed("blocks", options.blocks)
    if blocks is not None:
        dataset = dataset.at(*blocks)
    if options.event is None:
        return dataset, ApproximateDPEvent(options.epsilon, 0.0 if options.delta is None else options.delta)
    if options.delta is not None:
        raise InvalidArgument("delta", options.delta, "nothing with --event", "The event says what is run")
    return dataset, phase_event(parse(options.event))


def _price(options: argparse.Namespace) -> None:
    dataset, event = _asked(options)
    price = dataset.price(event)
    _print(options, text.plain(price), lambda: text.price(price, dataset))


def _charge(options: argparse.Namespace) -> None:
    dataset, event = _asked(options)
    row = dataset.charge(event, purpose=options.purpose, request=options.request)
    told = {"id": row.id, "hash": row.hash, "spent": dataset.spent, "left": dataset.left}
    _print(options, told, lambda: f"Charged: row {row.id}.\n{text.budgets([dataset])}")


def _pending(options: argparse.Namespace) -> None:
    ledger = open_ledger(options.db)
    found = {one.id: (dataset, one) for dataset in ledger.datasets() for one in dataset.pending()}
    number, ending = (options.void, "void") if options.void is not None else (options.commit, "commit")
    if number is not None:
        if number not in found:
            raise InvalidArgument(ending, number, "the number of a reservation that is open", "See hush ledger pending")
        getattr(found[number][1], ending)()
        done = "voided" if ending == "void" else "committed"
        _print(options, {"id": number, "status": done}, lambda: f"Row {number}: {done}.")
        return
    rows = [_open(dataset, one) for dataset, one in found.values()]
    _print(options, rows, lambda: text.pending(rows))


def _open(dataset: Dataset, one: Reserved) -> dict[str, Any]:
    row = one.row
    alone = dataset.cap.spent_epsilon(row.cost)
    who = {"author": row.author, "purpose": row.purpose}
    return {"id": row.id, "dataset": row.dataset, "time": text.moment(row.time), **who, "epsilon": alone}


# Checks


def _add_checks(actions: Any) -> None:
    verify = _action(actions, "verify", _verify, "whether anything was edited, removed or reordered")
    verify.add_argument("--head", metavar="HASH", help="of an earlier last row, kept elsewhere")
    _action(actions, "recompute", _recompute, "charge anew, by this version's accountant", "NAME")
    export = _action(actions, "export", _export, "write a report for an auditor")
    export.add_argument("file", metavar="FILE", type=Path, help="an HTML file that does not exist yet")
    export.add_argument("--name", metavar="NAME", help="only of this budget")


def _verify(options: argparse.Namespace) -> None:
    from hush.ledger import LedgerDamaged

    result = open_ledger(options.db).verify(options.head)
    told = {"ok": result.ok, "rows": result.rows, "head": result.head, "notes": list(result.notes)}
    found = [{"row": finding.row, "about": finding.about, "what": finding.what} for finding in result.findings]
    _print(options, {**told, "findings": found}, lambda: text.verified(result))
    if not result.ok:
        raise LedgerDamaged(f"the ledger is damaged ({text.counted(len(result.findings))})")


def _recompute(options: argparse.Namespace) -> None:
    result = open_ledger(options.db).recompute(options.name)
    _print(options, text.plain(result), lambda: text.recomputed(result))


def _export(options: argparse.Namespace) -> None:
    result = open_ledger(options.db).export(options.file, options.name)
    state = "The ledger is intact." if result.ok else f"The ledger is DAMAGED: {text.counted(len(result.findings))}."
    told = {"file": str(options.file), "ok": result.ok, "head": result.head}
    _print(options, told, lambda: f"Written to {options.file}. {state}\nKeep its head elsewhere: {result.head}")


# People


def _add_people(actions: Any) -> None:
    admit = _action(actions, "admit", _admit, "let a person in, and print their token", "NAME")
    admit.add_argument("--role", required=True, choices=["owner", "analyst", "auditor"], help="what they may do")
    share = _action(actions, "share", _share, "let an analyst spend a part of a budget", "NAME")
    share.add_argument("person", metavar="PERSON", help="who")
    share.add_argument("--percent", type=int, required=True, help="of each block's budget")


def _admit(options: argparse.Namespace) -> None:
    ledger = open_ledger(options.db, create=True)
    from hush.ledger import Role

    token = ledger.admit(options.name, Role(options.role))
    words = f"{options.name} is admitted as {options.role}. This token is shown once, and stored nowhere:\n{token}"
    _print(options, {"name": options.name, "role": options.role, "token": token}, lambda: words)


def _share(options: argparse.Namespace) -> None:
    open_ledger(options.db).dataset(options.name).share(options.person, percent=options.percent)
    told = {"dataset": options.name, "name": options.person, "percent": options.percent}
    _print(options, told, lambda: f"{options.person} may spend up to {options.percent} % of {options.name}.")


# What they share


def _action(actions: Any, name: str, run: Run, words: str, positional: str | None = None) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=words, description=words[0].upper() + words[1:] + "."
    )
    if positional is not None:
        parser.add_argument("name", metavar=positional, help="what it is called")
    parser.add_argument(
        "--db", metavar="URL", help=f"sqlite:///file or postgresql://...; $HUSH_LEDGER, or {DEFAULT_DB}"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _print(options: argparse.Namespace, told: Any, words: Callable[[], str]) -> None:
    print(json.dumps(told, allow_nan=False) if options.json else words())


def _listed(flag: str, given: str | None) -> list[str] | None:
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if not all(names):
        raise InvalidArgument(flag, given, "names with commas between them")
    return names
