"""``--budget NAME --db URL``: charge what a command releases to a budget in a ledger."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hush.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from hush.ledger import Ledger, LedgerBudget

DEFAULT_DB = "sqlite:///privacy.db"
DB_HELP = f"the ledger's database, sqlite:///file or postgresql://...; if omitted, $HUSH_LEDGER or {DEFAULT_DB}"


def add_charging(parser: argparse.ArgumentParser) -> None:
    """Add the two options."""
    group = parser.add_argument_group("charging a budget")
    group.add_argument(
        "--budget", metavar="NAME", help="the budget to charge, which `hush ledger create` makes; if omitted, none"
    )
    group.add_argument("--db", metavar="URL", help=DB_HELP)


def open_ledger(db: str | None, *, create: bool = False) -> Ledger:
    """Open a ledger, as the person whose token is in $HUSH_LEDGER_TOKEN.

    With $HUSH_LEDGER_ANCHORS and $HUSH_LEDGER_KEY, the head of each new row is signed and appended to that file.

    Args:
        db: The database; without it, $HUSH_LEDGER, and without that, a file in the current folder.
        create: Whether a new file may be made.
    """
    try:
        import sqlalchemy as sa

        from hush.ledger import Ledger
    except ImportError as error:
        raise Unsupported(f"ledgers need {error.name}, which is not installed", "pip install 'hush[ledger]'") from None
    url, token = db or os.environ.get("HUSH_LEDGER") or DEFAULT_DB, os.environ.get("HUSH_LEDGER_TOKEN")
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # the text may hold a password, so it is not shown
        raise InvalidArgument("--db", "...", "sqlite:///file or postgresql://user@host/database") from None
    file = parsed.database if parsed.get_backend_name() == "sqlite" else None
    if file and not create and not os.path.lexists(file.replace("\0", "")):
        raise InvalidArgument("--db", url, "a ledger that exists", "`hush ledger create` starts one")
    if parsed.get_backend_name() == "postgresql" and token and not parsed.password:
        url = parsed.set(password=token).render_as_string(hide_password=False)
    anchors, key = os.environ.get("HUSH_LEDGER_ANCHORS") or None, os.environ.get("HUSH_LEDGER_KEY") or None
    return Ledger(url, token=token, anchors=anchors, key=key)


def address(budget: LedgerBudget | None) -> dict[str, str]:
    """Return the address of a budget: valid from any folder, without a password. Empty without a budget."""
    if budget is None:
        return {}
    url = budget.store.url._replace(password=None)
    if url.get_backend_name() == "sqlite":
        url = url.set(database=str(Path(url.database or "").resolve()))
    else:
        url = url.set(drivername=url.get_backend_name())
    return {"name": budget.name, "db": url.render_as_string(hide_password=False)}


def note_uncharged(budget: LedgerBudget | None) -> None:
    """Say, also to those who want quiet, that nothing is charged although there is a ledger."""
    if budget is None and os.environ.get("HUSH_LEDGER"):
        print(
            "Nothing is charged to the ledger in $HUSH_LEDGER: --budget NAME charges one of its budgets.",
            file=sys.stderr,
        )


def budget_at(address: dict[str, str], options: argparse.Namespace) -> LedgerBudget | None:
    """Return the budget at the address in a run's folder; ``--budget`` and ``--db`` replace parts of it."""
    if not address:
        return budget_of(options)
    return open_ledger(options.db or address["db"]).budget(options.budget or address["name"])


def budget_of(options: argparse.Namespace) -> LedgerBudget | None:
    """Return the budget that ``--budget`` names; None without it."""
    if options.budget is None:
        if options.db is not None:
            raise InvalidArgument(
                "--db", options.db, "the ledger of a budget", "Name the budget to charge with --budget"
            )
        return None
    return open_ledger(options.db).budget(options.budget)
