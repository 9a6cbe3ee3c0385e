"""Silences data-dependent warnings of all statistics, and charges the budget before a result leaves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from hush.accounting.budget import Charge
from hush.accounting.receipts import check_budget
from hush.numerics import quiet_numpy

P = ParamSpec("P")
R = TypeVar("R")


def released(function: Callable[P, R]) -> Callable[P, R]:
    """Charge a function's result to its ``budget`` argument, if there is one, before returning it.

    The charge does not depend on the data. If the budget refuses, the result is discarded before anyone sees it.
    NumPy's warnings are silenced, because whether one is raised depends on the data.

    Args:
        function: A statistic. It returns an object with ``guarantee`` and ``event``, or a dictionary of such objects
            that come from one release and share its event.
    """
    quiet_function = quiet_numpy(function)

    @wraps(function)
    def charged(*args: P.args, **arguments: P.kwargs) -> R:
        budget: Any = arguments.get("budget")
        check_budget(budget)
        result = quiet_function(*args, **arguments)
        if budget is not None:
            # The estimates of one release have the same event, so any of them will do.
            estimate: Any = next(iter(result.values())) if isinstance(result, dict) else result
            delta = estimate.guarantee.delta or None
            budget.reserve(Charge(event=estimate.event, purpose=function.__name__, delta=delta)).commit()
        return result

    return charged
