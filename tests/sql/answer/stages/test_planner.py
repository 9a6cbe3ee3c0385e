"""All that is fixed before data are read."""

from __future__ import annotations

from typing import Any

import pytest

import hush.sql
from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable
from hush.errors import HushError
from hush.randomness import TestSource
from hush.sql import QueryRefused
from hush.sql.answer.choices.chooser import Choices
from hush.sql.answer.choices.limits import Measure, RequestedLimits
from hush.sql.answer.price import PriceRequest
from hush.sql.answer.stages.planner import LimitArguments, QueryPlanner
from hush.sql.engines.duckdb import DuckDBEngine
from hush.statistics.noise import ChosenLimit

duckdb = pytest.importorskip("duckdb")

ASKED = PriceRequest(1.0, 0.0, None, None, None, None, 0.95)
CHOSEN = LimitArguments(None, None, 0.1)


@pytest.fixture
def planner() -> QueryPlanner:
    people = PrivateTable(columns={"who": ColumnKind.INT}, unit="who")
    engine = DuckDBEngine(connection=duckdb.connect())
    return QueryPlanner(engine, Catalog({"people": people}), lambda name: RequestedLimits())


def test_known_choices_leave_all_of_epsilon_to_the_answer(planner: QueryPlanner) -> None:
    query = planner.stages("SELECT COUNT(*) AS n FROM people").last

    def known(plan: Any, measures: tuple[Measure, ...]) -> Choices:
        return Choices({measure: ChosenLimit(limit=4, beyond=0.0, beyond_error=1.0) for measure in measures})

    source = TestSource(1)
    for prepared, epsilon in (
        (planner.prepared(query, ASKED, CHOSEN), 0.9),
        (planner.prepared(query, ASKED, CHOSEN, known), 1.0),
    ):
        assert prepared.rest.epsilon == pytest.approx(epsilon)
        assert planner.cost(prepared, source).guarantee.epsilon == pytest.approx(1.0)
        assert planner.cost_but_choices(prepared, prepared.rest, source).guarantee.epsilon == pytest.approx(epsilon)


def test_a_query_without_aggregates_is_refused(planner: QueryPlanner) -> None:
    with pytest.raises(HushError, match="Add an aggregate"):
        planner.tables_read(planner.stages("SELECT 1 AS one FROM people"))


def test_a_price_refuses_what_an_answer_does() -> None:
    """Also in a last stage that reads public tables only: it costs nothing, so nothing else looks at it."""
    text = "SELECT 1 AS one, (SELECT COUNT(*) FROM people) AS n FROM zones"
    connection = duckdb.connect()
    for name in ("people", "zones"):
        connection.execute(f"CREATE TABLE {name} (who BIGINT)")
    people = hush.sql.table(connection, name="people", unit="who", public={"zones": None})
    for ask in (people.price, people.sql):
        with pytest.raises(QueryRefused, match="in WHERE only"):
            ask(text, epsilon=1.0, rows_per_unit=1)
