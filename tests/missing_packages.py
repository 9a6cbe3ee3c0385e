"""Where an optional package is missing, what needs it is skipped; any other failed import stays an error.

A plugin, not a part of conftest.py: hooks that stand there do not see the docstrings of ``src/hush``.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from importlib.util import find_spec

import pytest

# What hush[train], hush[lora] and hush[dev] bring and hush[test] does not. All else is there wherever tests run.
OPTIONAL = ("ipykernel", "nbclient", "nbformat", "peft", "safetensors", "torch", "traitlets")


def missing() -> list[str]:
    return [name for name in OPTIONAL if find_spec(name) is None]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip the files that import a missing package."""
    report = yield
    # The last line of the traceback: an error that was raised while another one was handled is its own.
    errors = re.findall(r"^E +(\w*(?:Error|Exception)\b.*)$", str(report.longrepr), re.MULTILINE)
    if report.failed and errors:
        for name in missing():
            if re.match(rf"ModuleNotFoundError: No module named '{name}(\.[\w.]+)?'", errors[-1]):
                report.outcome = "skipped"
                report.longrepr = (str(collector.path), 0, f"Skipped: needs {name}")
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the examples in docstrings that import a missing package."""
    for name in missing():
        for item in items:
            if isinstance(item, pytest.DoctestItem) and any(name in step.source for step in item.dtest.examples):
                item.add_marker(pytest.mark.skip(reason=f"needs {name}"))
