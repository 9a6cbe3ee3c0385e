"""Silences data-dependent warnings of all statistics, and charges the budget before a result leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from hush.accounting.budget import Charge
from hush.accounting.receipts import Receipt, check_budget, receipt_of
from hush.numerics import quiet_numpy
from hush.statistics.noise.estimate import Estimate

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
        if budget is None:
            return result
        # The estimates of one release have the same event, so any of them will do.
        estimate: Any = next(iter(result.values())) if isinstance(result, dict) else result
        guarantee = estimate.guarantee
        reservation = budget.reserve(
            Charge(event=estimate.event, purpose=function.__name__, delta=guarantee.delta or None)
        )
        reservation.commit()
        return cast(R, _with_receipt(result, receipt_of(reservation, guarantee)))

    return charged


def _with_receipt(result: Any, receipt: Receipt | None) -> Any:
    """Return a result, or each estimate of a dictionary, with the receipt of its release."""
    if isinstance(result, dict):
        return {name: _with_receipt(estimate, receipt) for name, estimate in result.items()}
    return replace(result, receipt=receipt) if isinstance(result, Estimate) else result
