"""The last stage of a query, if it reads nothing but public tables and released values: its rows are the answer."""

from __future__ import annotations

from sqlglot import exp

from hush.data.tables.catalog import Catalog, ColumnKind
from hush.sql.read.parsed_query import ParsedQuery
from hush.sql.read.relations.reader import Reader
from hush.sql.read.released_windows import ordering
from hush.sql.read.translator import ZONE_ADVICE, Translator
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.output import Order
from hush.sql.syntax.refusal import Refuser
from hush.sql.syntax.relation import QueryRelation
from hush.sql.write.public_plan import PublicPlan


def plan_public(query: ParsedQuery, *, tables: Catalog) -> PublicPlan:
    """Return the plan of a query of public tables and released values. No data are read.

    Args:
        query: The query, with the relations that are released before it.
        tables: The declared tables.
    """
    select, refuse = query.select.copy(), query.refuse
    clauses = {name: select.args.pop(name, None) for name in ("order", "limit", "offset", "distinct")}
    if clauses["distinct"] is not None:
        refuse.unless_only(clauses["distinct"])
    for item in list(select.expressions):
        if not item.is_star and not item.alias_or_name:
            item.replace(exp.alias_(item.copy(), item.sql("duckdb", comments=False), quoted=True))
    num_items = len(select.expressions)
    _add_order_columns(select, clauses["order"])
    relation = Reader(tables, refuse, query.released).select(select, {})
    num_hidden = len(select.expressions) - num_items
    if any(
        entry.prototype.kind is ColumnKind.INSTANT for entry in relation.fields[: len(relation.fields) - num_hidden]
    ):
        raise refuse(select, "a timestamp with a time zone is shown in a zone only", ZONE_ADVICE)
    if num_hidden and clauses["distinct"] is not None:
        raise refuse(clauses["order"], "ORDER BY of SELECT DISTINCT takes columns of SELECT", "Add them to SELECT")
    return PublicPlan(
        relation=relation,
        num_columns=len(relation.fields) - num_hidden,
        distinct=clauses["distinct"] is not None,
        order=_order(refuse, clauses["order"], relation),
        limit=_rows(refuse, clauses["limit"]),
        offset=_rows(refuse, clauses["offset"]) or 0,
    )


def _add_order_columns(select: exp.Select, order: exp.Order | None) -> None:
    """Add what ORDER BY names and SELECT does not as further columns, and name these in ORDER BY."""
    names = {item.alias_or_name.casefold() for item in select.expressions}
    for index, ordered in enumerate(order.expressions if order is not None else ()):
        node = ordered.this
        is_shown = isinstance(node, exp.Column) and not node.table and node.name.casefold() in names
        if not is_shown and not isinstance(node, exp.Literal):
            name = f"hush_order{index}"
            select.append("expressions", exp.alias_(node.copy(), name))
            node.replace(exp.column(name))


def _order(refuse: Refuser, order: exp.Order | None, relation: QueryRelation) -> tuple[Order, ...]:
    """Return the expressions of ORDER BY, each of which is a column of the relation."""
    names = [entry.name.casefold() for entry in relation.fields]

    def expression_of(node: exp.Expr) -> Expr:
        index = -1
        if isinstance(node, exp.Literal):
            index = int(node.this) - 1 if not node.is_string and node.this.isdecimal() else -1
        elif node.name.casefold() in names:
            index = names.index(node.name.casefold())
        if not 0 <= index < len(names):
            raise refuse(node, "SELECT has no column at this position")
        return Expr("key", relation.fields[index].prototype.kind, value=index)

    return ordering(refuse, order, expression_of)


def _rows(refuse: Refuser, clause: exp.Expr | None) -> int | None:
    """Return the number of LIMIT or OFFSET, or None."""
    if clause is None:
        return None
    refuse.unless_only(clause, "expression")
    number = Translator(refuse, lambda node: Expr("column", ColumnKind.OTHER)).constant(clause.expression, int)
    if number < 0:
        raise refuse(clause, "LIMIT and OFFSET must not be negative")
    return int(number)
