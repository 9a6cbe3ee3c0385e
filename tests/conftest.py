"""Settings for every test: reproducible by default, on one thread per worker, and never judged by the clock."""

import os
from typing import Any

# Before NumPy and torch are imported: workers of pytest-xdist share the cores, and so do processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from cases import mark_other_cases_slow
from services import mysql_url as mysql_url
from services import postgres_url as postgres_url
from services import spark_session as spark_session

settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2_000)
settings.load_profile("reproducible")  # `pytest --hypothesis-profile=explore` searches further


@pytest.hookimpl(tryfirst=True)  # before `-m` reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_other_cases_slow(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file in one worker, as they share what they compute; and all those that start Spark.

    PostgreSQL is no reason to: it starts in a second, and every worker that needs one has its own.
    """
    from xdist.scheduler import LoadFileScheduling

    with_spark = "not spark" not in config.getoption("markexpr")

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            on_spark = "sql/test_engine" in file or "sql/engines/" in file
            return "spark" if with_spark and on_spark else file

    return ByFile(config, log)
