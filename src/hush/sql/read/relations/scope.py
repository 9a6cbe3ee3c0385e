"""The names that expressions of one SELECT can refer to.

A subquery in a condition has the scope of the enclosing SELECT as its parent: a name that its own FROM does not have is
looked up there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from textwrap import shorten

from sqlglot import exp

from hush.data import quote_name
from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import Refuser
from hush.sql.syntax.relation import NamedRelation

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(slots=True)
class Scope:
    """The columns that expressions of one SELECT can refer to.

    Attributes:
        refuse: Makes the refusals.
        from_items: The tables, CTEs and subqueries of FROM, by name in lower case.
        merged: Columns of USING, which stand for both sides.
        names: The names of the tables as the query writes them.
        parent: The scope of the enclosing SELECT, for a subquery in its condition.
        owner: The table whose units the rows belong to; None if all are public.
    """

    refuse: Refuser
    from_items: dict[str, NamedRelation] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    parent: Scope | None = None
    owner: NamedRelation | None = None

    def add(self, node: exp.Expr, name: str, from_item: NamedRelation) -> None:
        """Add a table under its name."""
        if name.casefold() in self.from_items:
            raise self.refuse(node, f"the name {name} is used twice", "Give each table its own alias")
        self.from_items[name.casefold()] = from_item
        self.names.append(name)

    def resolve(self, node: exp.Column) -> Expr:
        """Return the column that a name refers to. Case is ignored, whether or not the name is quoted."""
        if isinstance(node.this, exp.Star):
            raise self.refuse(node, *reason(node.this))
        table, name = node.table.casefold(), node.name.casefold()
        if self.parent is not None and not self.owns(node):
            return self.parent.resolve(node)
        if table and table not in self.from_items:
            if self.has_column(table):
                raise self.refuse(
                    node, f"{node.table} is a column, and fields of a column are not supported", "Create a view of them"
                )
            raise self.refuse(node, "FROM has no table of this name", f"It has {shortened(self.names)}")
        from_items = [self.from_items[table]] if table else list(self.from_items.values())
        matches = [match for from_item in from_items if (match := find_column(from_item, name)) is not None]
        if not matches:
            columns = [entry.name for from_item in from_items for entry in from_item.relation.fields]
            raise self.refuse(node, "there is no column of this name", f"The columns are {shortened(columns)}")
        if len(matches) > 1 and name not in self.merged:
            raise self.refuse(node, "more than one table has a column of this name", "Write table.column")
        if matches[0].kind is ColumnKind.OTHER:
            raise self.refuse(
                node,
                "columns of this type are not supported",
                "Use numbers, text, booleans, dates or timestamps",
            )
        return matches[0]

    def owns(self, node: exp.Column) -> bool:
        """Return whether a name belongs to this scope, and not to its parent."""
        return node.table.casefold() in self.from_items if node.table else self.has_column(node.name)

    def owner_above(self) -> NamedRelation | None:
        """Return the table whose units the rows of the enclosing SELECTs belong to; None if all are public."""
        parent = self.parent
        while parent is not None and parent.owner is None:
            parent = parent.parent
        return None if parent is None else parent.owner

    def all_columns(self, node: exp.Expr) -> list[tuple[str, Expr]]:
        """Return the names and columns of * or table.*, without columns of types that queries cannot use."""
        table = node.table if isinstance(node, exp.Column) else ""
        if table and table.casefold() not in self.from_items:
            raise self.refuse(node, "FROM has no table of this name", f"It has {shortened(self.names)}")
        columns: dict[str, tuple[str, Expr]] = {}
        for from_item in [self.from_items[table.casefold()]] if table else self.from_items.values():
            for entry in from_item.relation.fields:
                name = entry.name.casefold()
                column = find_column(from_item, name)
                if column is None or column.kind is ColumnKind.OTHER or (name in columns and name in self.merged):
                    continue
                if name in columns:
                    raise self.refuse(node, f"two tables have a column named {entry.name}", "Name the columns")
                columns[name] = (entry.name, column)
        return list(columns.values())

    def has_column(self, name: str) -> bool:
        """Return whether any table has a column of this name."""
        return any(find_column(from_item, name.casefold()) is not None for from_item in self.from_items.values())


def find_column(from_item: NamedRelation, name: str) -> Expr | None:
    """Return a column of a table by its name in lower case, or None."""
    for entry in from_item.relation.fields:
        if entry.name.casefold() == name:
            return replace(entry.prototype, op="column", args=(), value=(from_item.alias, entry.column))
    return None


def shortened(names: Sequence[str]) -> str:
    """Return names of tables or columns, which are public, for a message. Those that a query has to quote are quoted.

    >>> print(shortened(["who", "Total spend", "2024-05"]))
    who, "Total spend", "2024-05"
    """
    spellings = [name if _PLAIN_NAME.fullmatch(name) else quote_name(name) for name in names]
    return shorten(", ".join(spellings), 300, placeholder=" ...")
