"""What all statistics of arrays have in common: they say nothing on the way, and are paid for before they leave."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from hush.accounting.budget import Charge
from hush.numerics import silent

P = ParamSpec("P")
R = TypeVar("R")


def released(function: Callable[P, R]) -> Callable[P, R]:
    """Charge what a function returns to its ``budget``, if it was given one.

    What is charged does not depend on the data. If the budget refuses, the result is forgotten: nobody has seen it.
    """
    quiet = silent(function)

    @wraps(function)
    def paid(*args: P.args, **arguments: P.kwargs) -> R:
        budget: Any = arguments.get("budget")
        found = quiet(*args, **arguments)
        if budget is not None:
            # Several estimates of one release have one event between them.
            one: Any = next(iter(found.values())) if isinstance(found, dict) else found
            delta = one.guarantee.delta or None
            budget.reserve(Charge(event=one.event, purpose=function.__name__, delta=delta)).commit()
        return found

    return paid
