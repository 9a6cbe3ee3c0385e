"""Ledgers on every database that there is."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from hush.ledger import Ledger
from ledger.team import Team

_NUMBERS = itertools.count()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger can be created."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/privacy.db"
    return str(request.getfixturevalue("postgres_ledger_url"))


@pytest.fixture
def postgres_ledger_url(postgres_url: str) -> Iterator[str]:
    """A new database of PostgreSQL."""
    server = sa.make_url(postgres_url).set(drivername="postgresql+psycopg")
    name = f"ledger_{os.getpid()}_{next(_NUMBERS)}"  # other workers may use the same server
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    url = server.set(database=name)
    yield url.set(drivername="postgresql").render_as_string(hide_password=False)
    roles = _roles(url)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        for role in roles:  # those that own tables first: they are members of the others
            connection.exec_driver_sql(f"DROP ROLE {role}")
    engine.dispose()


def _roles(url: sa.URL) -> list[str]:
    """Return the roles that ledgers of a database have made: all of the server, which the database does not keep."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        owners = connection.exec_driver_sql(
            "SELECT DISTINCT nspname, tableowner FROM pg_tables JOIN pg_namespace ON nspname = schemaname "
            "WHERE tablename = 'hush_entries' AND tableowner LIKE 'hush_ledger_%%'"
        ).all()
        people = [
            name
            for schema, _ in owners
            for name in connection.exec_driver_sql(f"SELECT name FROM {schema}.hush_people").scalars()
        ]
    engine.dispose()
    return [owner for _, owner in owners] + people


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., Ledger]]:
    """Open the test's ledger, any number of times; all are closed in the end."""
    made: list[Ledger] = []

    def open_ledger(**settings: str) -> Ledger:
        made.append(Ledger(url, **settings))
        return made[-1]

    yield open_ledger
    for ledger in made:
        ledger.close()


@pytest.fixture
def team(postgres_ledger_url: str) -> Iterator[Team]:
    made = Team(postgres_ledger_url)
    yield made
    for engine in made.engines.values():
        engine.dispose()
    made.ledger.close()
