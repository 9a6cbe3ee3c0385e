"""Spark as the engine: settings of the session, commands, collations, and plans that Spark compiles."""

from __future__ import annotations

from typing import Any

import pytest

from hush.errors import InvalidArgument
from hush.sql import EngineFailed
from hush.sql.engines.spark import SparkEngine
from sql.hosts import (
    COMMANDS,
    QUERIES,
    OnDuckDB,
    OnSpark,
    check_constants,
    contents,
    fill,
    keeps_two_units,
    planned_alike,
)

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY"}


@pytest.mark.spark
def test_compiled_plans_have_the_same_groups(spark_session: Any, ranking_key: bytes) -> None:
    """The tests' session interprets plans, because compiling them takes longer than a few rows. Clusters compile."""
    host, reference = OnSpark(spark_session), OnDuckDB()
    fill(host)
    fill(reference)
    before = {name: spark_session.conf.get(name) for name in COMPILED}
    try:
        for name, value in COMPILED.items():
            spark_session.conf.set(name, value)
        for text in QUERIES[::6]:
            plans = [(planned_alike(text, e), e) for e in (host.engine, reference.engine)]
            actual, expected = [contents(plan, engine, ranking_key) for plan, engine in plans]
            assert actual == expected, text
    finally:
        for name, value in before.items():
            spark_session.conf.set(name, value)
        host.close()


@pytest.mark.spark
def test_units_that_a_collation_equates_are_two(spark_session: Any, ranking_key: bytes) -> None:
    if int(spark_session.version.split(".")[0]) < 4:
        pytest.skip("collations need Spark 4")
    host = OnSpark(spark_session)
    host.put("visits", "who STRING COLLATE UTF8_LCASE, place STRING", [("ann", "a"), ("ANN", "b")])
    assert spark_session.sql("SELECT COUNT(DISTINCT who) FROM visits").collect()[0][0] == 1  # Spark itself counts one
    assert keeps_two_units(host.engine, ranking_key)
    host.close()


@pytest.mark.spark
@pytest.mark.parametrize("command", [*COMMANDS, "SET spark.sql.ansi.enabled=false", "DROP VIEW zones"])
def test_commands_are_not_run(command: str, spark_session: Any) -> None:
    host = OnSpark(spark_session)
    fill(host)
    with pytest.raises(EngineFailed):
        host.engine.run(command)
    assert len(host.engine.run("SELECT * FROM zones")) == 4
    host.close()


HOSTILE = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
}


@pytest.mark.spark
def test_settings_do_not_change_what_a_plan_means(spark_session: Any, ranking_key: bytes) -> None:
    """The settings of the session are restored afterwards."""
    host = OnSpark(spark_session)
    before = {name: spark_session.conf.get(name) for name in HOSTILE}
    try:
        for name, value in HOSTILE.items():
            spark_session.conf.set(name, value)
        check_constants(host, ranking_key)
        with pytest.raises(EngineFailed):
            host.engine.run("SELECT nothing")
        assert {name: spark_session.conf.get(name) for name in HOSTILE} == HOSTILE
    finally:
        for name, value in before.items():
            spark_session.conf.set(name, value)
        host.close()


def test_other_objects_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="^session="):
        SparkEngine(None)
