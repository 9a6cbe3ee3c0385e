"""The published facts: groups of rows, one group for each of the peer's tests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[1] / "accounting" / "peers_published"

Row = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """The facts of one of the peer's tests.

    Attributes:
        repository: Where the test is, at GitHub.
        test: Its file and name.
        quantity: What the values are, such as the delta of a mechanism.
        mechanism: Which mechanism, or "" if a column says it.
        tolerance: The peer's own, absolute and relative.
        rows: Parameters and values by name.
    """

    repository: str
    test: str
    quantity: str
    mechanism: str
    tolerance: tuple[float, float]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """A short name for test reports."""
        return f"{self.test.rpartition('/')[2]}-{self.quantity}"

    def agrees(self, ours: float, value: float) -> bool:
        """Return whether a number is the expected one, as the peer's test would see it."""
        return ours == value or abs(ours - value) <= self.margin(value)

    def margin(self, value: float) -> float:
        """Return by how much a number may be off, with room for the rounding of published digits."""
        absolute, relative = self.tolerance
        return absolute + relative * abs(value) + 1e-12


def groups(*names: str) -> list[Group]:
    """Return the groups of these files."""
    return [group for name in names for group in _read(_FOLDER / f"{name}.json")]


def _read(path: Path) -> Iterator[Group]:
    data = json.loads(path.read_text())
    for entry in data["groups"]:
        yield Group(
            data["repository"],
            f"{entry['file']}::{entry['test']}",
            entry["quantity"],
            entry["mechanism"],
            tuple(entry["tolerance"]),
            tuple(dict(zip(entry["columns"], map(_number, row), strict=True)) for row in entry["rows"]),
        )


def _number(entry: Any) -> Any:
    """JSON has no infinity."""
    return {"inf": math.inf, "-inf": -math.inf}.get(entry, entry) if isinstance(entry, str) else entry
