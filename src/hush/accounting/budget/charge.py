"""The protocol through which everything below the ledger charges a budget: request, reserve, run, commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, runtime_checkable

from hush.accounting import events as ev
from hush.errors import BudgetExceeded, HushError


class Repeat(Enum):
    """What to do if a question was asked before. If the data are the same, the stored answer is returned.

    >>> Charge(event=ev.LaplaceEvent(scale=2.0), purpose="count of users").repeat is Repeat.REFUSED_ON_OTHER_DATA
    True
    """

    REFUSED_ON_OTHER_DATA = "refused on other data"
    CHARGED_ON_OTHER_DATA = "charged on other data"
    CHARGED = "charged"  # also where the data look the same: a database does not say when its tables changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A request to charge a budget for a release.

    >>> Charge(event=ev.LaplaceEvent(scale=2.0), purpose="count of users").sealed
    False

    Attributes:
        event: The event that will be run; less may be run, but not more.
        purpose: The purpose in a few words.
        question: A text that identifies the question, so that a repeated question is recognised. Empty if there is
            none.
        data: A text that identifies the data. A stored answer is returned only if it was computed from the same data.
        repeat: What to do if the question was asked before.
        delta: The delta at which to state the event if it has to be charged as a claim.
        sealed: Whether the result leaves only after `Reservation.commit`. Then it can be run again after a crash.
        request: Your own key. A second charge with the same key is the same charge.
        folder: Where the result will be written, if it is a folder: a ledger's report links to it.
        resumes: Whether it may continue with what the same request reserved but did not settle: an interrupted run.
        parts: The blocks of the data that it reads, if known. A budget with blocks refuses the charge if it is not
            charged to exactly these blocks.
    """

    event: ev.Event
    purpose: str
    question: str = ""
    data: str = ""
    repeat: Repeat = Repeat.REFUSED_ON_OTHER_DATA
    delta: float | None = None
    sealed: bool = False
    request: str | None = None
    folder: str = ""
    resumes: bool = False
    parts: tuple[str, ...] | None = None


class Reservation(Protocol):
    """A part of a budget that is set aside. It counts as spent unless it is voided."""

    @property
    def answer(self) -> str | None:
        """The stored answer, if the same question was answered before. In that case there is nothing to run."""

    @property
    def resumed(self) -> bool:
        """Whether it continues an interrupted run, which must then continue from its stored state."""

    def is_open(self) -> bool:
        """Return whether it is pending: neither committed nor voided."""

    def hold(self, states: int) -> None:
        """Keep other processes from continuing this run, and record how many states it has stored."""

    def release(self, *, wait: bool = True) -> None:
        """Let another process continue this run. The reservation stays pending. ``wait``: return when it is done."""

    def commit(self, event: ev.Event | None = None, *, answer: str | None = None) -> str | None:
        """Record that the event was run, or only a part of it; store the answer, and return the stored one."""

    def void(self) -> None:
        """Record that nothing was released."""


class Budget(Protocol):
    """Anything that events can be charged to before they are run, such as a ledger's budget."""

    def reserve(self, charge: Charge) -> Reservation:
        """Set aside the cost of a charge, or raise `BudgetExceeded` and change nothing."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer that a budget has stored, which was charged when it was released.

    >>> StoredAnswer(ev.LaplaceEvent(scale=2.0), "42").text
    '42'

    Attributes:
        event: What it was charged for.
        text: The answer.
    """

    event: ev.Event
    text: str


@runtime_checkable
class AnswerStore(Protocol):
    """A budget whose stored answers can be looked up. What was released is public: to read it again costs nothing."""

    def answered(self, charge: Charge) -> Reservation | None:
        """Return the earlier reservation of the same question or request, if it can be continued. Charge nothing."""

    def answers(self, question: str, data: str) -> Sequence[StoredAnswer]:
        """Return the answers to a question about the same data, whatever their noise is, the last one first."""


def run_sealed(
    budget: Budget, charge: Charge, run: Callable[[], str], settled: Callable[[Reservation], None] | None = None
) -> str:
    """Run a computation whose result leaves only after it is charged, and return the answer that the budget stored.

    If ``run`` raises, the reservation stays, since the failure itself may reveal something. Asking the same question
    again continues with the reservation and costs nothing more. The reservation is voided only if a further charge
    inside ``run`` is refused, because budgets refuse before data are read.

    Args:
        budget: The budget to charge.
        charge: The request.
        run: Computes the answer.
        settled: Called with the reservation once the answer may be released.
    """
    reservation = budget.reserve(replace(charge, sealed=True))
    note = settled or (lambda _: None)
    if reservation.answer is not None:
        note(reservation)
        return reservation.answer
    try:
        answer = run()
    except BudgetExceeded:
        reservation.void()
        raise
    except BaseException:
        with suppress(HushError):  # another process asks the same
            reservation.hold(1)  # the caller learns of the failure: only force voids the reservation from now on
            reservation.release()
        raise
    stored = reservation.commit(answer=answer)
    assert stored is not None
    note(reservation)
    return stored
