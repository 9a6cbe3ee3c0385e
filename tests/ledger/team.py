"""A ledger in PostgreSQL with people, who can also send SQL of their own."""

from __future__ import annotations

import sqlalchemy as sa

from hush.ledger import Ledger, Role
from ledger.ledgers import patients

COLUMNS = (
    "(id, kind, dataset, block, unit, relation, purpose, author, renyi, pure, unbounded, delta, details, time, "
    "previous, hash"
)


class Team:
    """A ledger with people, and raw connections for each."""

    def __init__(self, url: str) -> None:
        self.url, self.ledger = url, Ledger(url)
        self.data = patients(self.ledger)
        self.blocks = self.ledger.budget("visits", epsilon=1, delta=1e-6, unit="row", blocks=["a", "b"])
        mark = sa.make_url(url).database or ""
        self.names = {short: f"{short}_{mark}" for short in ("ann", "bob", "aud", "olga")}
        roles = {"ann": Role.ANALYST, "bob": Role.ANALYST, "aud": Role.AUDITOR, "olga": Role.OWNER}
        self.tokens = {short: self.ledger.admit(self.names[short], role) for short, role in roles.items()}
        for data in (self.data, self.blocks):
            data.share(self.names["ann"], percent=50)
            data.share(self.names["bob"], percent=50)
        self.engines = {short: sa.create_engine(self._url(short, "postgresql+psycopg")) for short in self.names}

    def _url(self, short: str, driver: str = "postgresql") -> sa.URL:
        return sa.make_url(self.url).set(drivername=driver, username=self.names[short], password=self.tokens[short])

    def address(self, short: str) -> str:
        return self._url(short).render_as_string(hide_password=False)

    def open(self, short: str) -> Ledger:
        return Ledger(self.address(short))

    def insert(
        self, kind: str = "committed", dataset: str = "patients", block: str = "", pure: int = 10**11, **more: object
    ) -> str:
        unit = "user" if dataset == "patients" else str(self.blocks.cap.unit)
        costs = {"renyi": pure, "pure": pure, "unbounded": 0, "delta": 0, **more}
        names = [name for name in costs if name not in ("renyi", "pure", "unbounded", "delta")]
        extra = "".join(f", {name}" for name in names)
        values = "".join(f", {costs[name]!r}" for name in names)
        return (
            f"INSERT INTO hush_entries {COLUMNS}{extra}) VALUES (77, '{kind}', '{dataset}', '{block}', '{unit}', "
            f"'add-or-remove', 'x', '{self.names['bob']}', {costs['renyi']}, {costs['pure']}, {costs['unbounded']}, "
            f"{costs['delta']}, '{{}}', 5, 'f', 'f'{values})"
        )

    def state(self) -> object:
        with self.ledger.store.reading() as connection:
            tables = ("hush_head", "hush_budgets", "hush_shares", "hush_people", "hush_datasets", "hush_ledger")
            rows = {t: sorted(map(repr, connection.execute(sa.text(f"SELECT * FROM {t}")))) for t in tables}
        return rows, self.ledger.entries()

    def check_chain(self) -> None:
        previous = "0" * 64
        for number, row in enumerate(self.ledger.entries(), start=1):
            assert (row.id, row.previous, row.hash) == (number, previous, row.computed_hash())
            previous = row.hash
        with self.ledger.store.reading() as connection:
            assert connection.execute(sa.text("SELECT hash FROM hush_head")).scalar_one() == previous
