"""Values for JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.cli.json_values import plain


@dataclass
class Inner:
    number: float


@dataclass
class Outer:
    parts: tuple[Inner, ...]
    names: dict[str, float]


def test_values_for_json_have_no_infinity() -> None:
    value = Outer((Inner(math.inf), Inner(1.5)), {"a": math.nan})
    assert plain(value) == {"parts": [{"number": None}, {"number": 1.5}], "names": {"a": None}}
