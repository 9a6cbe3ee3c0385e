"""What every engine shares: errors without data, and the interface."""

from __future__ import annotations

from typing import Any

import pytest

from hush.errors import HushError, InvalidArgument
from hush.sql import EngineFailed
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.engine import InParts, redact_errors
from hush.sql.engines.postgres import PostgresEngine
from hush.sql.engines.spark import SparkEngine


def test_an_engine_s_message_is_hidden() -> None:
    with pytest.raises(EngineFailed) as caught, redact_errors():
        raise ValueError("Could not convert string 'ann' to INT32")
    assert "ann" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__  # nor does a traceback show it


def test_errors_of_hush_pass_unchanged() -> None:
    error = InvalidArgument("table", "x", "a table")
    with pytest.raises(HushError) as caught, redact_errors():
        raise error
    assert caught.value is error


def test_interrupts_pass_unchanged() -> None:
    with pytest.raises(KeyboardInterrupt), redact_errors():
        raise KeyboardInterrupt


@pytest.mark.parametrize("engine", [DuckDBEngine, PostgresEngine, SparkEngine])
def test_every_engine_has_the_interface(engine: Any) -> None:
    assert all(callable(getattr(engine, name)) for name in ("columns", "run", "materialise", "drop"))
    assert engine.dialect in ("duckdb", "postgres", "spark")


def test_only_duckdb_builds_views_in_parts() -> None:
    assert isinstance(DuckDBEngine(), InParts)
    assert not hasattr(PostgresEngine, "append")
    assert not hasattr(SparkEngine, "append")
