"""The names that expressions of one SELECT can refer to.

A subquery in a condition has the scope of the enclosing SELECT as its parent: a name that its own FROM does not have is
looked up there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from textwrap import shorten

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import Refuser
from hush.sql.syntax.relation import NamedRelation


@dataclass(slots=True)
class Scope:
    """The columns that expressions of one SELECT can refer to.

    Attributes:
        refuse: Makes the refusals.
        sources: The sources by name in lower case.
        merged: Columns of USING, which stand for both sides.
        names: The names of the sources as the query writes them.
        parent: The scope of the enclosing SELECT, for a subquery in its condition.
        owner: The source whose units the rows belong to; None if all sources are public.
    """

    refuse: Refuser
    sources: dict[str, NamedRelation] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    parent: Scope | None = None
    owner: NamedRelation | None = None

    def add(self, node: exp.Expr, name: str, source: NamedRelation) -> None:
        """Add a source under its name."""
        if name.casefold() in self.sources:
            raise self.refuse(node, f"the name {name} is used twice", "Give each table its own alias")
        self.sources[name.casefold()] = source
        self.names.append(name)

    def resolve(self, node: exp.Column) -> Expr:
        """Return the column that a name refers to. Case is ignored, whether or not the name is quoted."""
        if isinstance(node.this, exp.Star):
            raise self.refuse(node, *reason(node.this))
        table, name = node.table.casefold(), node.name.casefold()
        if self.parent is not None and not self._has(table, name):
            return self.parent.resolve(node)
        if table and table not in self.sources:
            if self.has_column(table):
                raise self.refuse(
                    node, f"{node.table} is a column, and fields of a column are not supported", "Create a view of them"
                )
            raise self.refuse(node, "FROM has no table of this name", f"It has {shortened(self.names)}")
        sources = [self.sources[table]] if table else list(self.sources.values())
        matches = [match for source in sources if (match := find_column(source, name)) is not None]
        if not matches:
            columns = [entry.name for source in sources for entry in source.relation.fields]
            raise self.refuse(node, "there is no column of this name", f"The columns are {shortened(columns)}")
        if len(matches) > 1 and name not in self.merged:
            raise self.refuse(node, "more than one table has a column of this name", "Write table.column")
        if matches[0].kind is ColumnKind.OTHER:
            raise self.refuse(
                node,
                "columns of this type are not supported",
                "Use numbers, text, booleans, dates or timestamps without a time zone",
                "If the column has a time zone, create a view with (column AT TIME ZONE 'UTC')",
            )
        return matches[0]

    def _has(self, table: str, name: str) -> bool:
        """Return whether a name belongs to this scope, and not to its parent."""
        return table in self.sources if table else self.has_column(name)

    def owner_above(self) -> NamedRelation | None:
        """Return the source whose units the rows of the enclosing SELECTs belong to; None if all are public."""
        parent = self.parent
        while parent is not None and parent.owner is None:
            parent = parent.parent
        return None if parent is None else parent.owner

    def all_columns(self, node: exp.Expr) -> list[tuple[str, Expr]]:
        """Return the names and columns of * or table.*, without columns of types that queries cannot use."""
        table = node.table if isinstance(node, exp.Column) else ""
        if table and table.casefold() not in self.sources:
            raise self.refuse(node, "FROM has no table of this name", f"It has {shortened(self.names)}")
        columns: dict[str, tuple[str, Expr]] = {}
        for source in [self.sources[table.casefold()]] if table else self.sources.values():
            for entry in source.relation.fields:
                name = entry.name.casefold()
                column = find_column(source, name)
                if column is None or column.kind is ColumnKind.OTHER or (name in columns and name in self.merged):
                    continue
                if name in columns:
                    raise self.refuse(node, f"two tables have a column named {entry.name}", "Name the columns")
                columns[name] = (entry.name, column)
        return list(columns.values())

    def has_column(self, name: str) -> bool:
        """Return whether any source has a column of this name."""
        return any(find_column(source, name.casefold()) is not None for source in self.sources.values())


def find_column(source: NamedRelation, name: str) -> Expr | None:
    """Return a column of a source by its name in lower case, or None."""
    for entry in source.relation.fields:
        if entry.name.casefold() == name:
            return replace(entry.prototype, op="column", args=(), value=(source.alias, entry.column))
    return None


def shortened(names: Sequence[str]) -> str:
    """Return names of tables or columns, which are public, for a message."""
    return shorten(", ".join(names), 300, placeholder=" ...")
