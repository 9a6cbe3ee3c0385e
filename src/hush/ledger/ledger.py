"""`Ledger`: the file or database that stores budgets and everything charged to them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from hush.accounting.budget import Cap
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.ledger.accounts.blocks import check_blocks, open_block
from hush.ledger.accounts.cap import cap_from, cap_terms
from hush.ledger.accounts.ledger_budget import LedgerBudget
from hush.ledger.accounts.people import DatabaseRole, Identity, Local, Person, Role, check_name, hashed, new_token
from hush.ledger.accounts.unit import named_unit
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.postgres import PostgresStore
from hush.ledger.storage.sqlite import SqliteStore
from hush.ledger.storage.store import AlreadyThere, Store

if TYPE_CHECKING:
    from hush.ledger.history.recomputation import Recomputed
    from hush.ledger.history.verification import Verification
    from hush.sql import Table


class Ledger:
    """Privacy budgets, stored in a file or database, and enforced there.

    Every release is charged to one of the ledger's budgets before it happens. The ledger is append-only, and its rows
    are chained by hashes.

    >>> from hush.accounting import LaplaceEvent
    >>> import tempfile
    >>> ledger = Ledger("sqlite:///" + tempfile.mkdtemp() + "/privacy.db")
    >>> patients = ledger.budget("patients", epsilon=3, delta=1e-6, unit="patient")
    >>> _ = patients.charge(LaplaceEvent(2.0), purpose="how many had the flu")
    >>> patients.spent
    0.5
    """

    def __init__(
        self, url: str = "sqlite:///privacy.db", *, token: str | None = None, identity: Identity | None = None
    ) -> None:
        """Open a ledger, or create it.

        Args:
            url: ``sqlite:///file`` or ``postgresql://user@host/database``.
            token: Your token, for a file whose owner has admitted people.
            identity: Another way to identify you. By default, PostgreSQL does it by your database role.
        """
        self._store = _store(url)
        default: Identity = DatabaseRole() if isinstance(self._store, PostgresStore) else Local(token)
        self._identity = identity or default

    @property
    def person(self) -> Person:
        """The person who opened the ledger, with their role."""
        with self._store.reading() as connection:
            return self._identity.person(connection)

    @property
    def store(self) -> Store:
        """The database under the ledger."""
        return self._store

    def budget(
        self,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        unit: Unit | str | None = None,
        relation: Relation | None = None,
        fingerprint: str | Path | None = None,
        blocks: Sequence[str] | None = None,
        order: float | None = None,
        claims_delta: float | None = None,
        table: Table | None = None,
        block_column: str | None = None,
    ) -> LedgerBudget:
        """Return the budget of this name. Create it if it does not exist and you pass ``epsilon`` and ``unit``.

        Args:
            name: The name of the budget; usually that of the data.
            epsilon: The cap on all releases, forever. If the budget exists, this and the other terms must match.
            delta: The cap's delta; 0 by default.
            unit: The privacy unit: ``patient``, ``row``, ``patient-month``, or a `Unit`.
            relation: The neighbouring relation; add-or-remove by default.
            fingerprint: A text that identifies the data, or a file that does by its content. Two budgets of a ledger
                cannot have the same fingerprint.
            blocks: Names of disjoint parts of the data. Each unit is in one block, and each block has the whole budget.
            order: See `Cap`. It cannot be changed later.
            claims_delta: See `Cap`. It cannot be changed later.
            table: The data, for `LedgerBudget.sql`.
            block_column: The column of the table that holds each row's block: text, or the time column of a unit such
                as (user, month), whose blocks are months (``2026-11``), years or days.
        """
        person, stored = self.person, self._stored(name)
        if stored is None:
            if epsilon is None or unit is None:
                raise InvalidArgument(
                    "name", name, "a budget of this ledger", "To create one, pass epsilon=, delta= and unit="
                )
            person.require(Role.OWNER)
            cap = Cap(
                epsilon=epsilon,
                delta=0.0 if delta is None else delta,
                unit=named_unit(unit),
                relation=relation or Relation.ADD_OR_REMOVE,
                order=order,
                claims_delta=claims_delta,
            )
            self._create(person, name, cap, unit, _fingerprint(fingerprint), blocks)
            return LedgerBudget(
                self._store,
                person,
                name,
                cap,
                unit_name=str(unit),
                in_blocks=blocks is not None,
                table=table,
                block_column=block_column,
            )
        cap = cap_from(stored)
        terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": relation, "order": order}
        terms["claims_delta"] = claims_delta
        terms["unit"] = None if unit is None else named_unit(unit)
        for term, value in terms.items():
            if value is not None and value != getattr(cap, term):
                advice = "A cap cannot be changed: open the budget without this term, or create another one"
                raise InvalidArgument(term, str(value), f"{getattr(cap, term)}, as when it was created", advice)
        if fingerprint is not None and _fingerprint(fingerprint) != stored["fingerprint"]:
            raise InvalidArgument("fingerprint", fingerprint, "the fingerprint that the budget was created with")
        if blocks is not None:
            raise InvalidArgument("blocks", blocks, "no blocks, since the budget exists", "Use add_block")
        return LedgerBudget(
            self._store,
            person,
            name,
            cap,
            unit_name=stored["unit"]["called"],
            in_blocks=stored["in_blocks"],
            table=table,
            block_column=block_column,
        )

    def budgets(self) -> list[LedgerBudget]:
        """Return all budgets, sorted by name."""
        with self._store.reading() as connection:
            query = sa.select(schema.datasets.c.name).order_by(schema.datasets.c.name)
            names = list(connection.execute(query).scalars())
        return [self.budget(name) for name in names]

    def admit(self, name: str, role: Role) -> str:
        """Admit a person and return their token, which is not stored.

        After the first admission, a file can only be opened with a token. In PostgreSQL, the person becomes a role of
        the database, and the token is its password.
        """
        person = self.person
        person.require(Role.OWNER)
        check_name(name)
        token, store = new_token(), self._store
        if not isinstance(role, Role):
            raise InvalidArgument("role", role, "Role.OWNER, Role.ANALYST or Role.AUDITOR")

        def write(connection: sa.Connection, _: Entry) -> None:
            is_first = not connection.execute(sa.select(sa.func.count()).select_from(schema.people)).scalar_one()
            if isinstance(store, PostgresStore):
                store.admit(connection, name, role, token)
            elif is_first and role is not Role.OWNER:
                raise InvalidArgument(
                    "role", role.value, "owner, for the first person", "Otherwise the ledger would have no owner"
                )
            stored = None if isinstance(store, PostgresStore) else hashed(token)
            connection.execute(schema.people.insert().values(name=name, role=role.value, token=stored))

        details = json.dumps({"name": name, "role": role.value})
        try:
            store.append(Entry(kind=EntryKind.PERSON, author=person.name, details=details), write)
        except AlreadyThere:
            raise InvalidArgument("name", name, "a new name: this person was admitted before") from None
        return token

    def entries(self) -> list[Entry]:
        """Return all rows, oldest first."""
        return self._store.rows()

    def verify(self, head: str | None = None) -> Verification:
        """Check the hash chain, every row, and the tables that are derived from the rows.

        Args:
            head: The hash of an earlier last row that you stored elsewhere. With it, rows removed from the end are
                detected, too.
        """
        from hush.ledger.history.verification import verify

        return verify(self._store, head)

    def recompute(self, name: str) -> Recomputed:
        """Price all charges of a budget again with this version's accountant, and correct the budget."""
        from hush.ledger.history.recomputation import recompute

        return recompute(self._store, self.person, name)

    def export(self, path: str | Path, name: str | None = None) -> Verification:
        """Write an HTML report for an auditor, about one budget or all. Return the result of `verify`, which it has."""
        from hush.ledger.history.auditor_report import export

        return export(self._store, Path(path), name)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def __enter__(self) -> Self:
        """Return the ledger. It is closed at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connections."""
        self.close()

    def __repr__(self) -> str:
        """Show the address without the password."""
        return f"Ledger({self._store.url.render_as_string(hide_password=True)!r})"

    def _stored(self, name: str) -> dict[str, Any] | None:
        with self._store.reading() as connection:
            row = connection.execute(sa.select(schema.datasets).where(schema.datasets.c.name == name)).one_or_none()
        return None if row is None else {**json.loads(row.details), "fingerprint": row.fingerprint}

    def _create(
        self,
        person: Person,
        name: str,
        cap: Cap,
        unit: Unit | str,
        fingerprint: str | None,
        blocks: Sequence[str] | None,
    ) -> None:
        if not str(name).strip() or not str(name).isprintable() or len(name) > 200:
            raise InvalidArgument("name", name, "a short printable name")
        names = [""] if blocks is None else check_blocks(blocks, cap)
        details = json.dumps({**cap_terms(cap, unit), "in_blocks": blocks is not None})
        unit_name, relation = cap.unit.name, cap.relation.value

        def write(connection: sa.Connection, _: Entry) -> None:
            values = {
                "name": name,
                "fingerprint": fingerprint,
                "unit": unit_name,
                "relation": relation,
                "details": details,
            }
            connection.execute(schema.datasets.insert().values(values))
            for block in names:
                open_block(connection, name, block, cap, {})

        row_details = json.dumps({**json.loads(details), "fingerprint": fingerprint})
        block = "" if blocks is None else json.dumps(names)
        row = Entry(
            kind=EntryKind.DATASET,
            dataset=name,
            author=person.name,
            block=block,
            unit=unit_name,
            relation=relation,
            details=row_details,
        )
        try:
            self._store.append(row, write)
        except AlreadyThere:
            raise InvalidArgument(
                "name", name, "a new name: another process has just created it", "Open it again"
            ) from None


def _store(url: str) -> Store:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise InvalidArgument("url", "...", "sqlite:///file or postgresql://user@host/database") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise InvalidArgument("url", url, "a file", "A budget in memory would end with the process")
        if not Path(parsed.database).resolve().parent.is_dir():
            raise InvalidArgument("url", url, "a file in an existing folder")
        return SqliteStore(parsed)
    if backend == "postgresql":
        return PostgresStore(parsed.set(drivername="postgresql+psycopg"))
    raise Unsupported(f"a ledger in {backend}", "Use sqlite:///file or postgresql://user@host/database")


def _fingerprint(data: str | Path | None) -> str | None:
    if data is None or isinstance(data, str):
        return data
    digest = hashlib.sha256()
    with data.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"
