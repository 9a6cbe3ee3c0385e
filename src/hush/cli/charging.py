"""`--budget NAME --db URL`: what commands charge."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hush.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from hush.ledger import Dataset, Ledger

DEFAULT_DB = "sqlite:///privacy.db"


def add_charging(parser: argparse.ArgumentParser) -> None:
    """Add the two options."""
    group = parser.add_argument_group("one budget for everything")
    group.add_argument("--budget", metavar="NAME", help="the data set to charge; `hush ledger create` makes one")
    group.add_argument("--db", metavar="URL", help=f"the ledger it is in; $HUSH_LEDGER, or {DEFAULT_DB}")


def open_ledger(db: str | None, *, create: bool = False) -> Ledger:
    """Open a ledger: --db, or $HUSH_LEDGER, or privacy.db here; who it is says $HUSH_LEDGER_TOKEN."""
    try:
        import sqlalchemy as sa

        from hush.ledger import Ledger
    except ImportError as error:
        raise Unsupported(f"ledgers need {error.name}, which is not installed", "pip install 'hush[ledger]'") from None
    url, token = db or os.environ.get("HUSH_LEDGER") or DEFAULT_DB, os.environ.get("HUSH_LEDGER_TOKEN")
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise InvalidArgument("db", "...", "sqlite:///file or postgresql://user@host/database") from None
    file = parsed.database if parsed.get_backend_name() == "sqlite" else None
    if file and not create and not Path(file).exists():
        raise InvalidArgument("db", url, "a ledger that is there", "`hush ledger create` begins one")
    if parsed.get_backend_name() == "postgresql" and token and not parsed.password:
        url = parsed.set(password=token).render_as_string(hide_password=False)
    return Ledger(url, token=token)


def budget_of(options: argparse.Namespace) -> Dataset | None:
    """Return the budget that was named, if one was."""
    if options.budget is None:
        if options.db is not None:
            raise InvalidArgument("db", options.db, "nothing, without --budget", "Say which data set is charged")
        return None
    return open_ledger(options.db).dataset(options.budget)
