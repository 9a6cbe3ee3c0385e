"""Shuffling: local reports that reach the analyst in a random order, without their senders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hush.accounting.events.event import Event
from hush.accounting.events.ranges import check_size
from hush.errors import check_instance


@dataclass(frozen=True, slots=True)
class ShuffledEvent(Event):
    """``event`` on every person's record by itself; the reports are then released in a random order.

    This is the shuffled model: reports that cannot be traced to their senders hide each other. The guarantee is
    against those who see the shuffled reports only. Against the shuffler, and whoever it colludes with, you have the
    guarantee of the local ``event``, no more.

    >>> from hush.accounting import ApproximateDPEvent, PldAccountant
    >>> from hush.guarantee import Relation
    >>> from hush.mechanisms import RandomizedResponse
    >>> survey = ShuffledEvent(RandomizedResponse(epsilon=1.0).event, num_reports=10_000)
    >>> accountant = PldAccountant(relation=Relation.REPLACE).compose(survey)
    >>> round(accountant.epsilon(delta=1e-6), 3), round(accountant.epsilon(delta=0), 3)
    (0.043, 1.0)
    >>> for assumption in accountant.guarantee(delta=1e-6).assumptions[:2]:
    ...     print(assumption)
    reports reach the analyst in a uniformly random order, without anything else about their senders
    at least as many people as stated report through the local mechanism, and do not reveal their reports

    References:
        Feldman, McMillan & Talwar 2021, Theorem 3.2, computed as a pair of distributions and not by the closed form.
        Randomised response has more clones (``losses/pairs/shuffled_profile.py`` derives them).

    Attributes:
        event: What each person runs on their own record; it must be pure (delta 0) under replacement.
        num_reports: The number of reports, at least. Reports by attackers, and reports that an attacker knows, do not
            count.
    """

    kind: ClassVar[str] = "shuffled"
    assumes: ClassVar[tuple[str, ...]] = (
        "reports reach the analyst in a uniformly random order, without anything else about their senders",
        "at least as many people as stated report through the local mechanism, and do not reveal their reports",
    )
    event: Event
    num_reports: int

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        # More reports only help: where there are more, 10^9 may stand for them.
        self._set(num_reports=check_size("num_reports", self.num_reports, maximum=10**9))
