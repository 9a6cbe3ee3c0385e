"""Who may do what with a ledger."""

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
    """What a person may do."""

    OWNER = "owner"
    """Creates budgets, shares them out, admits people; and all that analysts may."""

    ANALYST = "analyst"
    """Spends, up to a share."""

    AUDITOR = "auditor"
    """Reads."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who uses a ledger."""

    name: str
    role: Role

    def require(self, *roles: Role) -> None:
        """Refuse what this person may not do."""
        if self.role not in roles:
            may = " or ".join(roles)
            raise NotAllowed(f"{self.name} is {_article(self.role)} {self.role}; this takes {_article(may)} {may}.")


class Identity(Protocol):
    """Says who somebody is: the place where a company's own directory of people would come in."""

    def person(self, connection: sa.Connection) -> Person:
        """Return who is connected, or raise `NotAllowed`."""


@dataclass(frozen=True, slots=True)
class Local:
    """The default: as long as nobody was admitted, whoever can open the file is its owner; then, tokens decide."""

    token: str | None = None

    def person(self, connection: sa.Connection) -> Person:
        """Return who is connected."""
        if not connection.execute(sa.select(sa.func.count()).select_from(schema.people)).scalar_one():
            return Person(_login(), Role.OWNER)
        if self.token is None:
            raise NotAllowed("This ledger knows its people: open it with the token that you were given.")
        known = sa.select(schema.people).where(schema.people.c.token == hashed(self.token))
        row = connection.execute(known).one_or_none()
        if row is None:
            raise NotAllowed("The token belongs to nobody who was admitted to this ledger.")
        return Person(row.name, Role(row.role))

    def __repr__(self) -> str:
        """Show no token."""
        return "Local()"


@dataclass(frozen=True, slots=True)
class DatabaseRole:
    """PostgreSQL's own roles: the database says who is connected, and enforces what they may."""

    def person(self, connection: sa.Connection) -> Person:
        """Return who is connected."""
        name, role = connection.execute(sa.text("SELECT session_user, hush_role()")).one()
        if role is None:
            raise NotAllowed(f"{name} was not admitted to this ledger.")
        return Person(str(name), Role(role))


def new_token() -> str:
    """Return a token: 256 random bits."""
    return secrets.token_urlsafe(32)


def hashed(token: str) -> str:
    """Return what is stored of a token; it is random, so that a plain hash cannot be guessed back."""
    return hashlib.sha256(token.encode()).hexdigest()


def check_name(name: str) -> str:
    """Return a person's name if it can be one in every database."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", str(name)):
        raise InvalidArgument("name", name, "small letters, digits and _, beginning with a letter")
    return name


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a process without a name
        return "unknown"


def _article(role: str) -> str:
    return "an" if role[0] in "aeiou" else "a"
