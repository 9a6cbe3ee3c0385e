"""The database tables of a ledger, their version, and migrations from older versions.

`entries` is the ledger. All other tables are derived from it, so that a charge can be checked against its cap by a
constraint of the database; `Ledger.verify` recomputes them.

The first version called a budget a dataset. Its table and column names remain, so that old ledgers can be read and
their hashes stay valid; a column's `key` is the name in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from hush.errors import Unsupported

VERSION = 5
"""The version of these tables. Older ledgers are migrated by `MIGRATIONS`; newer ones are refused."""

metadata = sa.MetaData()

COSTS = ("renyi", "pure", "unbounded", "delta")
LATER_COSTS = ("gaussian", "smoothed")
"""Costs that are new in version 4. Rows of older versions have none."""

LIMITS = ("renyi", "pure", "delta", "gaussian", "smoothed")
"""The costs that have a limit each, in columns such as ``most_renyi``."""

# The same condition as `Cost.within`, so that the database refuses an overdraft whichever program writes.
WITHIN = (
    "delta <= most_delta AND (renyi <= most_renyi OR (unbounded = 0 AND pure <= most_pure) "
    "OR gaussian <= most_smoothed OR (smoothed = 0 AND gaussian <= most_gaussian))"
)


def _costs() -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False, server_default="0") for name in COSTS]


def _sums() -> list[sa.Column[int]]:
    columns = [sa.Column(name, sa.BigInteger, nullable=False, server_default="0") for name in (*COSTS, *LATER_COSTS)]
    return [*columns, *(sa.Column(f"most_{name}", sa.BigInteger, nullable=False) for name in LIMITS)]


about = sa.Table("hush_ledger", metadata, sa.Column("version", sa.Integer, nullable=False))

head = sa.Table(
    "hush_head",
    metadata,
    sa.Column("place", sa.Integer, primary_key=True),
    sa.Column("id", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Column("time", sa.BigInteger, nullable=False),
)
"""One row: the end of the hash chain. Every change locks it first, so changes are serialised."""

entries = sa.Table(
    "hush_entries",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("dataset", sa.Text, key="budget", nullable=False),
    sa.Column("block", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("relation", sa.Text, nullable=False),
    sa.Column("charge", sa.BigInteger),
    sa.Column("event", sa.Text),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("question", sa.String(64)),
    sa.Column("request", sa.Text),
    *_costs(),
    sa.Column("answer", sa.Text),
    sa.Column("details", sa.Text, nullable=False),
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    *(sa.Column(name, sa.BigInteger) for name in LATER_COSTS),
    sa.Column("hash", sa.String(64), nullable=False),
)
"""The ledger itself. Rows are only ever appended."""

_SETTLED = sa.text("charge IS NOT NULL")
sa.Index("hush_settled_once", entries.c.charge, unique=True, sqlite_where=_SETTLED, postgresql_where=_SETTLED)
_REQUESTED = sa.text("request IS NOT NULL")
sa.Index(
    "hush_requested_once",
    entries.c.budget,
    entries.c.request,
    unique=True,
    sqlite_where=_REQUESTED,
    postgresql_where=_REQUESTED,
)
_ASKED = sa.text("question IS NOT NULL")
sa.Index("hush_asked", entries.c.question, sqlite_where=_ASKED, postgresql_where=_ASKED)
sa.Index("hush_by_dataset", entries.c.budget, entries.c.kind)

terms = sa.Table(
    "hush_datasets",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("relation", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, unique=True),
    sa.Column("details", sa.Text, nullable=False),
)
"""The promise of each budget, and the unit that it protects."""

budgets = sa.Table(
    "hush_budgets",
    metadata,
    sa.Column("dataset", sa.Text, key="budget", primary_key=True),
    sa.Column("block", sa.Text, primary_key=True),
    *_sums(),
    sa.Column("retired", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("expires", sa.BigInteger),
    sa.CheckConstraint(WITHIN, name="hush_within_cap"),
    sa.CheckConstraint(
        "renyi >= 0 AND pure >= 0 AND unbounded >= 0 AND delta >= 0 AND gaussian >= 0 AND smoothed >= 0",
        name="hush_not_negative",
    ),
)
"""The amount spent of each block's budget: the sum of its entries."""

people = sa.Table(
    "hush_people",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("token", sa.String(64)),
)
"""People and their roles. Of a token, only the hash is stored."""

shares = sa.Table(
    "hush_shares",
    metadata,
    sa.Column("dataset", sa.Text, key="budget", primary_key=True),
    sa.Column("block", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    *_sums(),
    sa.Column("millionths", sa.Integer, nullable=False),
    sa.CheckConstraint(WITHIN, name="hush_within_share"),
)
"""The share of each block's budget that a person may spend, and what they have spent."""


leases = sa.Table(
    "hush_leases",
    metadata,
    sa.Column("charge", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("beat", sa.BigInteger, nullable=False),
    sa.Column("states", sa.BigInteger, nullable=False),
)
"""The process that works on a pending reservation, its last sign of life, and how many states it has stored.

Not part of the chain: a lease keeps two honest processes apart. It does not protect the budget.
"""


def _add_gaussian(connection: sa.Connection) -> None:
    """Add the costs of version 4. Budgets keep the rules with which they were created: the new one allows nothing."""
    for name in LATER_COSTS:
        connection.exec_driver_sql(f"ALTER TABLE {entries.name} ADD COLUMN {name} BIGINT")
    for table in (budgets, shares):
        if connection.dialect.name == "sqlite":
            _rebuild(connection, table)
        else:
            _alter(connection, table)


def _rebuild(connection: sa.Connection, table: sa.Table) -> None:
    """Replace a table, since SQLite cannot change constraints."""
    connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO {table.name}_3")
    table.create(connection)
    before = [column["name"] for column in sa.inspect(connection).get_columns(f"{table.name}_3")]
    names, allows_nothing = ", ".join(before), "-1, -1"
    connection.exec_driver_sql(
        f"INSERT INTO {table.name} ({names}, most_gaussian, most_smoothed) "
        f"SELECT {names}, {allows_nothing} FROM {table.name}_3"
    )
    connection.exec_driver_sql(f"DROP TABLE {table.name}_3")


def _alter(connection: sa.Connection, table: sa.Table) -> None:
    for name in LATER_COSTS:
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0")
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN most_{name} BIGINT NOT NULL DEFAULT -1")
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ALTER COLUMN most_{name} DROP DEFAULT")
    for check in table.constraints:
        if isinstance(check, sa.CheckConstraint):
            connection.exec_driver_sql(f"ALTER TABLE {table.name} DROP CONSTRAINT {check.name}")
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD CONSTRAINT {check.name} CHECK ({check.sqltext})")


MIGRATIONS: dict[int, Callable[[sa.Connection], None]] = {
    1: leases.create,
    2: lambda _: None,  # what is new is in the store's scripts: the roles of PostgreSQL
    3: _add_gaussian,
    4: lambda _: None,  # likewise: the rights of owners
}
"""For each version, the step to the next one. It runs in the transaction that stores the new version."""


def named(table: sa.Table, row: sa.Row[Any]) -> dict[str, Any]:
    """Return the values of a whole row of a table, by their columns' names in Python."""
    return dict(zip(table.c.keys(), row, strict=True))


def is_current(connection: sa.Connection) -> bool:
    """Return whether the tables exist in the current version. Needs read access only; refuses newer versions."""
    if not sa.inspect(connection).has_table(about.name):
        return False
    return _version(connection) == VERSION


def _version(connection: sa.Connection) -> int:
    version: int = connection.execute(sa.select(about.c.version)).scalar_one()
    if version > VERSION:
        raise Unsupported(
            f"the ledger has version {version}; this version of hush reads up to {VERSION}", "Upgrade hush"
        )
    return version


def migrate(connection: sa.Connection) -> int:
    """Create or migrate the tables in the caller's transaction. Return the version before; 0 if there were none."""
    if not sa.inspect(connection).has_table(about.name):
        metadata.create_all(connection)
        connection.execute(about.insert().values(version=VERSION))
        connection.execute(head.insert().values(place=1, id=0, hash="0" * 64, time=0))
        return 0
    before = _version(connection)
    for version in range(before, VERSION):
        MIGRATIONS[version](connection)
        connection.execute(about.update().values(version=version + 1))
    return before
