"""The text of keys: one value for all that are equal, and the lists of public keys that they are looked up in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hush.data.tables.catalog import ColumnKind
from hush.sql.write.dialects import Dialect

if TYPE_CHECKING:
    from hush.sql.write.plan import QueryPlan


def normalised_key(name: str, kind: ColumnKind, dialect: Dialect) -> str:
    """Return a key such that equal keys form one group in every step. Only numbers need care: -0.0 equals 0.0."""
    if kind is not ColumnKind.FLOAT:
        return name
    zero = dialect.real(0.0)
    return f"(CASE WHEN {name} = 0 THEN {zero} WHEN {name} BETWEEN -1e100 AND 1e100 THEN {name} END)"


def public_list(plan: QueryPlan, dialect: Dialect, index: int) -> str:
    """Return a key's public values as a table of their indices i and values k."""
    key = plan.keys[index]
    constants = [dialect.constant(value, key.expression.kind) for value in key.domain or ()]
    return dialect.public_list(f"l{index}", constants)


def matches_list(index: int, key: str, domain: tuple[object, ...], dialect: Dialect) -> str:
    """Return the condition that a key is on its public list. NULL matches if it is listed."""
    return f"l{index}.k = {key}" if None not in domain else equal_or_null(f"l{index}.k", key, dialect)


def equal_or_null(left: str, right: str, dialect: Dialect) -> str:
    """Return the condition that two values are equal, or both NULL."""
    return dialect.templates["same"].format(left, right)
