"""People who use a ledger, their roles, and how they identify themselves."""

from __future__ import annotations

import getpass
import hashlib
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import sqlalchemy as sa

from hush.errors import InvalidArgument
from hush.ledger.storage import schema as schema
from hush.ledger.storage.errors import NotAllowed


class Role(StrEnum):
    """A person's role in a ledger.

    >>> Role("analyst") is Role.ANALYST
    True
    """

    OWNER = "owner"
    """Creates budgets, gives shares of them, admits people. May do everything an analyst may."""

    ANALYST = "analyst"
    """Spends, up to their share of each budget."""

    AUDITOR = "auditor"
    """Reads everything and changes nothing."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person who uses a ledger.

    >>> Person("ada", Role.AUDITOR).require(Role.OWNER)
    Traceback (most recent call last):
    hush.ledger.storage.errors.NotAllowed: ada is an auditor; this needs an owner.
    """

    name: str
    role: Role

    def require(self, *roles: Role) -> None:
        """Raise `NotAllowed` unless the person has one of these roles."""
        if self.role not in roles:
            allowed = " or ".join(roles)
            raise NotAllowed(
                f"{self.name} is {_article(self.role)} {self.role}; this needs {_article(allowed)} {allowed}."
            )


class Identity(Protocol):
    """Identifies the person who opened a ledger. Implement it to use your own directory of people.

    >>> class Directory:
    ...     def person(self, connection):
    ...         return Person("ada", Role.AUDITOR)
    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db", identity=Directory())
    >>> ledger.person
    Person(name='ada', role=<Role.AUDITOR: 'auditor'>)
    """

    def person(self, connection: sa.Connection) -> Person:
        """Return the person who is connected, or raise `NotAllowed`."""


@dataclass(frozen=True, slots=True)
class Local:
    """The default for files. Until the first person is admitted, anyone who can open the file is its owner."""

    token: str | None = None

    def person(self, connection: sa.Connection) -> Person:
        """Return the person who is connected."""
        if not connection.execute(sa.select(sa.func.count()).select_from(schema.people)).scalar_one():
            return Person(_login(), Role.OWNER)
        if self.token is None:
            raise NotAllowed("This ledger requires a token. Open it with the token that you were given.")
        known = sa.select(schema.people).where(schema.people.c.token == hashed(self.token))
        row = connection.execute(known).one_or_none()
        if row is None:
            raise NotAllowed("No person of this ledger has this token.")
        return Person(row.name, Role(row.role))

    def __repr__(self) -> str:
        """Hide the token."""
        return "Local()"


@dataclass(frozen=True, slots=True)
class DatabaseRole:
    """The default for PostgreSQL: the database identifies its roles and enforces their rights."""

    def person(self, connection: sa.Connection) -> Person:
        """Return the person who is connected."""
        name, role = connection.execute(sa.text("SELECT session_user, hush_role()")).one()
        if role is None:
            raise NotAllowed(f"{name} is not a person of this ledger.")
        return Person(str(name), Role(role))


def may_serve(connection: sa.Connection, author: str, reader: str) -> bool:
    """Return whether an answer that one person stored may be given to another.

    In PostgreSQL, analysts can write rows without hush, including answers to questions that were never run. Such a row
    costs only its author's share, as long as it is not served to anyone else.
    """
    if author == reader or connection.dialect.name != "postgresql":
        return True
    role = sa.select(schema.people.c.role).where(schema.people.c.name == author)
    return connection.execute(role).scalar_one_or_none() != Role.ANALYST


def new_token() -> str:
    """Return a new token of 256 random bits."""
    return secrets.token_urlsafe(32)


def hashed(token: str) -> str:
    """Return the stored form of a token. Tokens are random, so a plain hash cannot be reversed by guessing."""
    return hashlib.sha256(token.encode()).hexdigest()


def check_name(name: str) -> str:
    """Return a person's name, if every database accepts it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", str(name)):
        raise InvalidArgument("name", name, "lower-case letters, digits and _, starting with a letter")
    return name


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user id has no name
        return "unknown"


def _article(role: str) -> str:
    return "an" if role[0] in "aeiou" else "a"
