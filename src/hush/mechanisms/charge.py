"""Charges a mechanism's budget: reserved before noise is drawn, committed before the result leaves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from hush.accounting.budget import Charge


def charged(release: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that draws noise, so that it charges the mechanism's budget, if there is one.

    A release that fails is charged, too: the failure itself may reveal something.
    """
    parameters = signature(release)

    @wraps(release)
    def charging(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.budget is None:
            return release(self, *args, **kwargs)
        source = parameters.bind(self, *args, **kwargs).arguments.get("source")
        guarantee = self.guarantee(source)
        purpose = f"{release.__name__} of {type(self).__name__}"
        event = self.qualified(guarantee.assumptions)
        reservation = self.budget.reserve(Charge(event=event, purpose=purpose, delta=guarantee.delta or None))
        try:
            return release(self, *args, **kwargs)
        finally:
            reservation.commit()

    return charging
