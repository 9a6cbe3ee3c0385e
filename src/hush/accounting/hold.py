"""A reservation that this process is working on: other processes see it, and do not void it by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hush.accounting.budget import Reservation


@contextmanager
def active(reservation: Reservation | None) -> Iterator[None]:
    """Hold a reservation, if there is one, until it is settled, or until the release ends with an error.

    The reservation of a release that failed stays pending, and nobody works on it. The failure may have depended on the
    data, so only force voids it.
    """
    if reservation is None:
        yield
        return
    reservation.hold(1)  # begun: only force voids it from now on
    try:
        yield
    except BaseException:
        reservation.release()
        raise
