"""The rules of operations in which a parameter meets the batch, by the operation's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def operation(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of these operations."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register
