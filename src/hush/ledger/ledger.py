"""`Ledger`: the file or database that stores budgets and everything charged to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from hush.accounting.budget import Box, Cap
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.ledger.accounts.creation import create_budget, fingerprint_of, refuse_mixed, stored_terms
from hush.ledger.accounts.ledger_budget import LedgerBudget
from hush.ledger.accounts.people import DatabaseRole, Identity, Local, Person, Role, check_name, hashed, new_token
from hush.ledger.accounts.refusals import checked_text
from hush.ledger.accounts.terms.cap import cap_from, unit_name_from
from hush.ledger.accounts.terms.unit import named_unit
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.postgres import PostgresStore
from hush.ledger.storage.sqlite import SqliteStore
from hush.ledger.storage.store import AlreadyThere, Store

if TYPE_CHECKING:
    from hush.ledger.history.anchors import AnchorFile
    from hush.ledger.history.recomputation import Recomputed
    from hush.ledger.history.verification import Verification
    from hush.sql import Table


class Ledger:
    """Privacy budgets, stored in a file or database, and enforced there.

    Every release is charged to one of the ledger's budgets before it happens. The ledger is append-only, and its rows
    are chained by hashes. Each budget is a global privacy budget: whatever is released from its data is charged to it.

    >>> from hush.accounting import LaplaceEvent
    >>> import tempfile
    >>> ledger = Ledger("sqlite:///" + tempfile.mkdtemp() + "/privacy.db")
    >>> patients = ledger.budget("patients", epsilon=3, delta=1e-6, unit="patient")
    >>> _ = patients.charge(LaplaceEvent(2.0), purpose="how many had the flu")
    >>> patients.spent
    0.5
    """

    for_tests = False  # see `TestLedger`

    def __init__(
        self,
        url: str = "sqlite:///privacy.db",
        *,
        token: str | None = None,
        identity: Identity | None = None,
        anchors: str | Path | None = None,
        key: str | Path | None = None,
    ) -> None:
        """Open a ledger, or create it.

        Args:
            url: ``sqlite:///file`` or ``postgresql://user@host/database``.
            token: Your token, for a file whose owner has admitted people.
            identity: Another way to identify you. By default, PostgreSQL does it by your database role.
            anchors: A file elsewhere, to which the head of each new row is appended, signed. See `anchor`.
            key: The private key to sign with, which `new_key` makes.
        """
        self._store = _store(url)
        if anchors is not None or key is not None:
            self._store.after_append = _anchor_file(anchors, key)
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
        box: Box | None = None,
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
            fingerprint: A text that identifies the data, or a file whose content does. Two budgets of a ledger
                cannot have the same fingerprint.
            blocks: Names of disjoint parts of the data. Each unit is in one block, and each block has the whole budget.
            order: See `Cap`. It cannot be changed later.
            claims_delta: See `Cap`. It cannot be changed later.
            box: Kinds of releases and the largest number of each. The budget pays for them when it is created: they
                cost what their composed privacy loss distribution says, in whatever order they are used. Other releases
                go on top. See `hush.accounting.Box`.
            table: The data, for `LedgerBudget.sql`.
            block_column: The column of the table that holds each row's block: text, or the time column of a unit such
                as (user, month), whose blocks are months (``2026-11``), years or days.
        """
        checked_text("name", name, 200, "a short printable name")
        if table is not None and not callable(getattr(table, "only", None)):
            raise InvalidArgument("table", table, "a table from hush.table(...)")
        person, stored = self.person, stored_terms(self._store, name)
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
                box=box,
            )
            if box is not None and blocks is not None:
                raise Unsupported("a box of a budget in blocks", "Leave out blocks=, or box=")
            create_budget(self._store, person, name, cap, unit, fingerprint, blocks, for_tests=self.for_tests)
            return LedgerBudget(
                self._store,
                person,
                name,
                cap,
                unit_name=str(unit),
                in_blocks=blocks is not None,
                for_tests=self.for_tests,
                table=table,
                block_column=block_column,
            )
        refuse_mixed([stored], for_tests=self.for_tests)
        cap = cap_from(stored)
        terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": relation, "order": order}
        terms["claims_delta"], terms["box"] = claims_delta, box
        terms["unit"] = None if unit is None else named_unit(unit)
        for term, value in terms.items():
            if value is not None and value != getattr(cap, term):
                advice = "A cap cannot be changed: open the budget without this term, or create another one"
                raise InvalidArgument(term, str(value), f"{getattr(cap, term)}, as when it was created", advice)
        if fingerprint is not None and fingerprint_of(fingerprint) != stored["fingerprint"]:
            raise InvalidArgument("fingerprint", fingerprint, "the fingerprint that the budget was created with")
        if blocks is not None:
            raise InvalidArgument("blocks", blocks, "no blocks, since the budget exists", "Use add_block")
        return LedgerBudget(
            self._store,
            person,
            name,
            cap,
            unit_name=unit_name_from(stored),
            in_blocks=stored["in_blocks"],
            for_tests=stored.get("for_tests", False),
            table=table,
            block_column=block_column,
        )

    def budgets(self) -> list[LedgerBudget]:
        """Return all budgets, sorted by name."""
        with self._store.reading() as connection:
            query = sa.select(schema.terms.c.name).order_by(schema.terms.c.name)
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
            else:
                connection.execute(schema.people.insert().values(name=name, role=role.value, token=hashed(token)))

        details = json.dumps({"name": name, "role": role.value})
        try:
            store.append(Entry(kind=EntryKind.PERSON, author=person.name, details=details), write)
        except AlreadyThere:
            raise InvalidArgument("name", name, "a new name: this person was admitted before") from None
        return token

    def entries(self) -> list[Entry]:
        """Return all rows, oldest first."""
        return self._store.rows()

    def verify(
        self, head: str | None = None, *, anchors: str | Path | None = None, public_key: str | None = None
    ) -> Verification:
        """Check the hash chain, every row, and the tables that are derived from the rows.

        Args:
            head: The hash of an earlier last row that you stored elsewhere. With it, rows removed from the end are
                detected, too.
            anchors: A file of anchors. It has the same effect for each anchor; see `anchor`.
            public_key: The public key of the anchors, which `new_key` returned.
        """
        from hush.ledger.history.verification import verify

        if (anchors is None) != (public_key is None):
            raise InvalidArgument("anchors", anchors, "a file of anchors, together with public_key=")
        return verify(self._store, head, anchors=None if anchors is None else Path(anchors), public_key=public_key)

    def anchor(self, file: str | Path, *, key: str | Path) -> str:
        """Sign the head of the ledger, and append it to a file, which should be on another machine. Return the head.

        `verify` with this file detects an older copy of the ledger, and one that was rewritten from its first row.
        """
        rows = self._store.rows(schema.entries.c.id == sa.select(schema.head.c.id).scalar_subquery())
        if not rows:
            raise InvalidArgument("ledger", "empty", "a ledger with rows", "There is no head to sign yet")
        _anchor_file(file, key)(self._store, rows[0])
        return rows[0].hash

    @staticmethod
    def new_key(file: str | Path) -> str:
        """Write a new private key for anchors to a file that only you can read. Return the public key."""
        from hush.ledger.history.anchors import new_key

        return new_key(Path(file))

    def backup(self, file: str | Path) -> str:
        """Write a backup to a new file, even while the ledger is in use. Return its head, which you should keep.

        A backup can be read and verified, and takes no charges. `restore` makes a ledger from it. A copy of the file
        alone by other programs may lack the last charges.
        """
        from hush.ledger.history.restoring import write_backup

        write_backup(self._store, Path(file))
        with Ledger(f"sqlite:///{file}", identity=self._identity) as made:
            return made.verify().head

    def restore(
        self,
        file: str | Path,
        *,
        head: str | None = None,
        anchors: str | Path | None = None,
        public_key: str | None = None,
        key: str | Path | None = None,
        force: bool = False,
    ) -> None:
        """Restore a ledger from this backup to a new file. A row of the new ledger records this.

        Args:
            file: The new file.
            head: The head of the ledger when it was lost. It shows that nothing was charged after the backup.
            anchors: The ledger's anchors, which show the same.
            public_key: The public key of the anchors.
            key: The private key of the anchors. The restored ledger adds an anchor of its first new row, so that the
                lost one, if it turns up again, and further copies of the backup can no longer add theirs.
            force: Restore without this evidence. Charges made after the backup are lost, and could be spent again.
        """
        from hush.ledger.history.anchors import last_head
        from hush.ledger.history.restoring import restore

        result, last = self.verify(), set() if head is None else {head}
        if anchors is not None or public_key is not None:
            last.add(last_head(Path(anchors or ""), public_key or ""))
        restore(
            self._store,
            self.person,
            Path(file),
            result,
            is_last=last == {result.head},
            force=force,
            anchors=None if key is None else _anchor_file(anchors, key),
        )

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


def _anchor_file(file: str | Path | None, key: str | Path | None) -> AnchorFile:
    from hush.ledger.history.anchors import AnchorFile

    if file is None or key is None:
        raise InvalidArgument("anchors", file, "a file of anchors, together with key=")
    return AnchorFile(file, key)


def _store(url: str) -> Store:
    try:
        parsed = sa.make_url(url)
        backend = parsed.get_backend_name()
    except (sa.exc.ArgumentError, ValueError):  # the text may hold a password, so it is not shown
        raise InvalidArgument("url", "...", "sqlite:///file or postgresql://user@host/database") from None
    if backend == "sqlite":
        return SqliteStore(parsed)
    if backend == "postgresql":
        return PostgresStore(parsed.set(drivername="postgresql+psycopg"))
    raise Unsupported(f"a ledger in {backend}", "Use sqlite:///file or postgresql://user@host/database")
