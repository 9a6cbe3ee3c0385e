"""The invariant of relations: each row belongs to the unit of the source that owns it, or the relation is public."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hush.sql.syntax.relation import Origin, PerUnit, Projection, QueryRelation, Scan
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
