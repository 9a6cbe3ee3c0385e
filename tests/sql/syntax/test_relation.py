"""The invariant of relations: each row belongs to the unit of the source that owns it, or the relation is public."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hush.sql.syntax.relation import Origin, PerUnit, Projection, QueryRelation, Scan, subqueries
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
    "WITH t AS (SELECT p.user_id AS u, z.zone FROM people p JOIN zones z ON p.region = z.region) "
    "SELECT COUNT(*) FROM t JOIN orders o ON t.u = o.uid",
]


def relations_in(origin: Origin) -> Iterator[QueryRelation]:
    """Yield all relations below a FROM clause."""
    for source in (origin.first, *(join.source for join in origin.joins)):
        yield source.relation
        if not isinstance(source.relation.body, Scan):
            yield from relations_in(source.relation.body.origin)


def origins_in(origin: Origin) -> Iterator[Origin]:
    """Yield a FROM clause and all FROM clauses below it."""
    yield origin
    for relation in relations_in(origin):
        if not isinstance(relation.body, Scan):
            yield relation.body.origin


@pytest.mark.parametrize("text", QUERIES)
def test_a_private_join_is_on_the_unit(text: str, planned: Callable[..., QueryPlan]) -> None:
    for origin in origins_in(planned(text).origin):
        private = [source for source in (origin.first, *(j.source for j in origin.joins)) if source.relation.private]
        assert (origin.owner is None) == (not private)
        assert origin.owner is None or origin.owner in private
        for join in origin.joins:
            is_owner = join.source == origin.owner
            assert join.on_unit == (join.source.relation.private and not is_owner)


@pytest.mark.parametrize("text", QUERIES)
def test_a_relation_has_the_unit_of_its_owner(text: str, planned: Callable[..., QueryPlan]) -> None:
    for relation in relations_in(planned(text).origin):
        body = relation.body
        if isinstance(body, Scan):
            assert relation.private == (body.unit is not None)
            continue
        assert isinstance(body, Projection | PerUnit)
        owner = body.origin.owner
        assert relation.units == (owner.relation.units if owner else 0)
        assert relation.entity == (owner.relation.entity if owner else "")


def test_aliases_are_distinct(planned: Callable[..., QueryPlan]) -> None:
    text = "SELECT COUNT(*) FROM people p JOIN people q ON p.user_id = q.user_id JOIN orders o ON p.user_id = o.uid"
    origin = planned(text).origin
    aliases = [origin.first.alias, *(join.source.alias for join in origin.joins)]
    assert len(set(aliases)) == 3


@pytest.mark.parametrize("text", QUERIES)
def test_subqueries_come_once_and_after_what_they_read(text: str, planned: Callable[..., QueryPlan]) -> None:
    origin = planned(text).origin
    ordered = subqueries(origin)
    assert {id(relation) for relation in ordered} == {
        id(relation) for relation in relations_in(origin) if not isinstance(relation.body, Scan)
    }
    assert len({id(relation) for relation in ordered}) == len(ordered)
    for index, relation in enumerate(ordered):
        assert not isinstance(relation.body, Scan)
        below = [r for r in relations_in(relation.body.origin) if not isinstance(r.body, Scan)]
        assert {id(r) for r in below} <= {id(r) for r in ordered[:index]}


def test_a_subquery_that_is_named_often_is_there_once(planned: Callable[..., QueryPlan]) -> None:
    text = (
        "WITH a AS (SELECT user_id AS u, age FROM people), b AS (SELECT x.u, y.age FROM a x JOIN a y ON x.u = y.u), "
        "c AS (SELECT x.u, y.age FROM b x JOIN a y ON x.u = y.u JOIN b z ON x.u = z.u) "
        "SELECT COUNT(*) FROM c JOIN a ON c.u = a.u"
    )
    assert len(subqueries(planned(text).origin)) == 3
