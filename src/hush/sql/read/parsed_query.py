"""A query as it is parsed: the SELECT, and what was released before it.

A released subquery is in the SELECT as a table, by its name (`hush.sql.read.stages` puts it there). Its rows are
constants of the plan. Before they are released, there are none: nothing but constants depends on them, so the plan has
the same noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

import sqlglot
from sqlglot import TokenType, exp

from hush.data.tables.catalog import LARGEST, ColumnKind
from hush.errors import check_instance
from hush.sql.read.shorthand import expand
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.reasons import clause_of_bigquery, not_a_select
from hush.sql.syntax.refusal import QueryRefused, Refuser
from hush.sql.syntax.relation import QueryRelation, ReleasedRows
from hush.sql.write.dialects import dialect_named

MAX_TEXT_LENGTH = 50_000
_TYPES = {
    ColumnKind.BOOL: bool,
    ColumnKind.INT: int,
    ColumnKind.FLOAT: float,
    ColumnKind.TEXT: str,
    ColumnKind.DATE: date,
    ColumnKind.TIME: datetime,
    ColumnKind.INSTANT: datetime,
}


@dataclass(frozen=True, slots=True, eq=False)
class ParsedQuery:
    """A SELECT that is parsed. Planning leaves it as it is.

    Attributes:
        select: The SELECT.
        refuse: Makes its refusals.
        released: The relations that are released before it, by name.
    """

    select: exp.Select
    refuse: Refuser
    released: Mapping[str, QueryRelation] = field(default_factory=dict)

    def with_rows(self, rows: Mapping[str, Sequence[Sequence[Any]]]) -> ParsedQuery:
        """Return the query with the rows that were released, by the relation's name."""
        filled = {name: with_rows(self.released[name], rows[name]) for name in self.released if name in rows}
        return replace(self, released={**self.released, **filled})


def with_rows(relation: QueryRelation, rows: Sequence[Sequence[Any]]) -> QueryRelation:
    """Return a released relation with its rows. Values that engines could not compute with are NULL."""
    assert isinstance(relation.body, ReleasedRows)
    kinds = relation.body.kinds
    cells = tuple(tuple(_constant(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in rows)
    return replace(relation, body=ReleasedRows(kinds, cells))


def _constant(value: Any, kind: ColumnKind) -> Any:
    """Return a released value as a constant of a kind, or None. Numbers have the range of those in columns."""
    if value is None:
        return None
    if kind is ColumnKind.FLOAT:
        number = float(value)
        return None if not abs(number) <= LARGEST else number if abs(number) >= 1 / LARGEST else 0.0
    if kind is ColumnKind.INT:
        return int(value) if abs(value) < 2**63 else None
    if kind is ColumnKind.DATE and isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, _TYPES[kind]) else None


def released_value(node: exp.Subquery, released: Mapping[str, QueryRelation], refuse: Refuser) -> Expr:
    """Return a released value, in SELECT, HAVING or ORDER BY, as a constant. Before it is released, it is missing."""
    tables = [table.name for table in node.find_all(exp.Table)]
    relation = released.get(tables[0]) if len(tables) == 1 else None
    if relation is None or node.this.args.get("where") is not None:
        why = "this subquery reads no private rows, or names columns of the enclosing query"
        raise refuse(node, f"{why}: only a released value can stand here", "Put it into FROM")
    assert isinstance(relation.body, ReleasedRows)
    rows = relation.body.rows
    return Expr("literal", relation.body.kinds[0], value=rows[0][0] if rows else None)


def parse_query(text: str, dialect: str) -> ParsedQuery:
    """Return the SELECT of a text.

    Of the parser's own errors, only the position is shown.
    """
    check_instance("text", text, str)
    writer = dialect_named(dialect)
    refuse = Refuser(text, writer.writes, dialect)
    if not 0 < len(text) <= MAX_TEXT_LENGTH or "\x00" in text:
        raise QueryRefused(1, 1, f"a query has 1 to {MAX_TEXT_LENGTH} characters, none of them NUL")
    try:
        statements = [statement for statement in sqlglot.parse(text, read=writer.grammar) if statement is not None]
    except sqlglot.errors.SqlglotError as error:
        if (clause := clause_of_bigquery(text)) is not None:
            raise refuse.at(clause[0], *clause[1]) from None
        position = (getattr(error, "errors", None) or [{}])[0]
        raise QueryRefused(
            int(position.get("line") or 1),
            int(position.get("col") or 1),
            "the text is not valid SQL",
            "Check its syntax",
        ) from None
    except (RecursionError, ValueError, TypeError, AttributeError, LookupError):  # bugs of the parser, on odd text
        raise QueryRefused(
            1, 1, "the text is not valid SQL, or is nested too deeply", "Check its syntax, or split it with WITH"
        ) from None
    if len(statements) != 1:
        raise QueryRefused(1, 1, "expected exactly one statement", "Ask one query at a time")
    if not isinstance(statements[0], exp.Select):
        raise refuse(statements[0], *not_a_select(statements[0]))
    if dialect == "duckdb":
        _refuse_tilde(text, refuse)
    expand(statements[0], dialect)
    return ParsedQuery(statements[0], refuse)


def _refuse_tilde(text: str, refuse: Refuser) -> None:
    """Refuse x ~ 'pattern' on DuckDB, where it has to match the whole text: the parser takes it for a search."""
    for token in sqlglot.tokenize(text, read="duckdb") if "~" in text else ():
        if token.text in ("~", "!~") and token.token_type is not TokenType.STRING:
            why = "~ is refused here: on duckdb, it has to match a whole text"
            raise refuse.at(token.start, why, "Write REGEXP_FULL_MATCH(x, p) or REGEXP_MATCHES(x, p)")
