"""Settings for every test: reproducible by default, on one thread per worker, and never judged by the clock."""

import os
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

# Before NumPy and torch are imported: workers of pytest-xdist share the cores, and so do processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from services import postgres_url as postgres_url
from services import spark_session as spark_session

pytest_plugins = ["chance"]

settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2_000)
settings.load_profile("reproducible")  # `pytest --hypothesis-profile=explore` searches further


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file in one worker, as they share what they compute; and all those that start Spark."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "spark" if "sql/test_engine" in file or "sql/engines/" in file else file

    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip the files that import torch where there is none: the rest of hush does without."""
    report = yield
    if report.failed and find_spec("torch") is None and "No module named 'torch'" in str(report.longrepr):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, "Skipped: needs torch")
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the examples in docstrings that import torch where there is none."""
    if find_spec("torch") is None:
        for item in items:
            if isinstance(item, pytest.DoctestItem) and any("torch" in step.source for step in item.dtest.examples):
                item.add_marker(pytest.mark.skip(reason="needs torch"))
