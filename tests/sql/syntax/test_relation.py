"""The invariant of relations: each row belongs to the unit of the table that owns it, or the relation is public."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import (
    NamedRelation,
    NestedQuery,
    Origin,
    PerUnit,
    Projection,
    QueryRelation,
    Scan,
    UnionAll,
    from_items_of,
    scanned_tables,
    subqueries,
)
from hush.sql.write.plan import QueryPlan

QUERIES = [
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people p JOIN orders o ON p.user_id = o.uid",
    "SELECT COUNT(*) FROM people p LEFT JOIN orders o ON p.user_id = o.uid AND o.amount > 1",
    "SELECT COUNT(*) FROM zones z JOIN people p ON z.region = p.region",
    "SELECT COUNT(*) FROM people p CROSS JOIN (SELECT zone, COUNT(*) AS n FROM zones GROUP BY zone) AS z",
    "SELECT COUNT(*) FROM (SELECT user_id AS u, age + 1 AS a FROM people WHERE age > 3) AS t",
    "SELECT COUNT(*) FROM (SELECT user_id AS u, SUM(age) AS s FROM people GROUP BY user_id) AS t "
    "JOIN (SELECT uid, MAX(amount) AS top FROM orders GROUP BY uid) AS v ON t.u = v.uid",
    "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM (SELECT uid, amount FROM orders WHERE uid IN (SELECT "
    "user_id FROM people GROUP BY user_id HAVING COUNT(*) > 1)) AS o WHERE o.uid = p.user_id)",
    "SELECT COUNT(*) FROM (SELECT user_id FROM people UNION ALL SELECT uid FROM (SELECT uid FROM orders) AS o) AS t",
    "SELECT COUNT(*) FROM (SELECT region FROM zones UNION ALL SELECT zone FROM zones) AS z JOIN people USING (region)",
    "WITH t AS (SELECT p.user_id AS u, z.zone FROM people p JOIN zones z ON p.region = z.region) "
    "SELECT COUNT(*) FROM t JOIN orders o ON t.u = o.uid",
]


def nested_in(expression: Expr | None) -> Iterator[NestedQuery]:
    """Yield the subqueries in a condition."""
    if expression is not None:
        if isinstance(expression.value, NestedQuery):
            yield expression.value
        for operand in expression.args:
            yield from nested_in(operand)


def from_items_in(origin: Origin, where: Expr | None) -> Iterator[NamedRelation]:
    """Yield what a FROM clause and a condition read, at any depth."""
    for clause in origins_here(origin, where):
        for from_item in from_items_of(clause):
            yield from_item
            yield from from_items_below(from_item.relation)


def from_items_below(relation: QueryRelation) -> Iterator[NamedRelation]:
    """Yield what a relation reads, at any depth."""
    body = relation.body
    if isinstance(body, UnionAll):
        for part in body.parts:
            yield part
            yield from from_items_below(part.relation)
    elif not isinstance(body, Scan):
        yield from from_items_in(body.origin, body.where)


def relations_in(plan: QueryPlan) -> Iterator[QueryRelation]:
    """Yield all relations that a plan reads."""
    yield from (from_item.relation for from_item in from_items_in(plan.origin, plan.where))


def origins_here(origin: Origin, where: Expr | None) -> list[Origin]:
    """Return a FROM clause, and those of subqueries in the condition."""
    return [origin, *(query.origin for query in nested_in(where))]


def origins_in(plan: QueryPlan) -> Iterator[Origin]:
    """Yield all FROM clauses of a plan."""
    yield from origins_here(plan.origin, plan.where)
    for relation in relations_in(plan):
        if isinstance(relation.body, Projection | PerUnit):
            yield from origins_here(relation.body.origin, relation.body.where)


@pytest.mark.parametrize("text", QUERIES)
def test_a_private_join_is_on_the_unit(text: str, planned: Callable[..., QueryPlan]) -> None:
    for origin in origins_in(planned(text)):
        private = [from_item for from_item in from_items_of(origin) if from_item.relation.private]
        assert (origin.owner is None) == (not private)
        assert origin.owner is None or origin.owner in private
        for join in origin.joins:
            is_owner = join.item == origin.owner
            assert join.on_unit == (join.item.relation.private and not is_owner)


@pytest.mark.parametrize("text", QUERIES)
def test_a_subquery_of_private_tables_is_on_the_unit(text: str, planned: Callable[..., QueryPlan]) -> None:
    plan = planned(text)
    bodies = [relation.body for relation in relations_in(plan)]
    pairs = [(plan.origin, plan.where)] + [(b.origin, b.where) for b in bodies if isinstance(b, Projection | PerUnit)]
    for origin, where in pairs:
        for query in nested_in(where):
            assert (query.units is None) == (query.origin.owner is None)
            if query.units is not None:
                assert query.origin.owner is not None
                assert query.units[0] == query.origin.owner.alias
                assert origin.owner is not None


@pytest.mark.parametrize("text", QUERIES)
def test_a_relation_has_the_unit_of_its_owner(text: str, planned: Callable[..., QueryPlan]) -> None:
    for relation in relations_in(planned(text)):
        body = relation.body
        if isinstance(body, Scan):
            assert relation.private == (body.unit is not None)
            continue
        if isinstance(body, UnionAll):
            owners = [part.relation for part in body.parts]
        else:
            owners = [body.origin.owner.relation] if body.origin.owner else []
        units = {(owner.units, owner.id_kind) for owner in owners} or {(0, None)}
        assert units == {(relation.units, relation.id_kind)}


def test_aliases_are_distinct(planned: Callable[..., QueryPlan]) -> None:
    text = "SELECT COUNT(*) FROM people p JOIN people q ON p.user_id = q.user_id JOIN orders o ON p.user_id = o.uid"
    origin = planned(text).origin
    aliases = [origin.first.alias, *(join.item.alias for join in origin.joins)]
    assert len(set(aliases)) == 3


@pytest.mark.parametrize("text", QUERIES)
def test_subqueries_come_once_and_after_what_they_read(text: str, planned: Callable[..., QueryPlan]) -> None:
    plan = planned(text)
    ordered = [relation.name for relation in subqueries(plan.origin, plan.where)]
    assert set(ordered) == {relation.name for relation in relations_in(plan)} - {""}
    assert len(set(ordered)) == len(ordered)
    for index, relation in enumerate(subqueries(plan.origin, plan.where)):
        assert not isinstance(relation.body, Scan)
        below = {from_item.relation.name for from_item in from_items_below(relation)} - {""}
        assert below <= set(ordered[:index])


@pytest.mark.parametrize("text", QUERIES)
def test_all_base_tables_are_known(text: str, planned: Callable[..., QueryPlan]) -> None:
    plan = planned(text)
    bodies = [relation.body for relation in relations_in(plan)]
    assert scanned_tables(plan.origin, plan.where) == {body.table for body in bodies if isinstance(body, Scan)}


def test_a_subquery_that_is_named_often_is_there_once(planned: Callable[..., QueryPlan]) -> None:
    text = (
        "WITH a AS (SELECT user_id AS u, age FROM people), b AS (SELECT x.u, y.age FROM a x JOIN a y ON x.u = y.u), "
        "c AS (SELECT x.u, y.age FROM b x JOIN a y ON x.u = y.u JOIN b z ON x.u = z.u) "
        "SELECT COUNT(*) FROM c JOIN a ON c.u = a.u"
    )
    assert len(subqueries(planned(text).origin)) == 3
