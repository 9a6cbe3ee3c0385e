"""Hypothesis strategies: valid values of hush's types, and values that every check must refuse."""

from __future__ import annotations

import math
from datetime import timedelta

from hypothesis import strategies as st

from hush.guarantee import Bound, CalendarWindow, Guarantee, Relation, Unit

epsilons = st.one_of(st.floats(0, 20), st.floats(0, 1e6), st.sampled_from([0.0, 5e-324, 709.0, 710.0, 1e300]))
deltas = st.one_of(
    st.floats(0, 1, exclude_max=True),
    st.floats(-300, -1e-9).map(lambda power: 10.0**power),
    st.sampled_from([0.0, 5e-324, 1e-5, math.nextafter(1, 0)]),
)
fractions = st.floats(0, 1)

not_numbers = st.one_of(
    st.just(math.nan),
    st.booleans(),
    st.none(),
    st.text(max_size=80),
    st.binary(max_size=8),
    st.complex_numbers(),
    st.lists(st.floats(), max_size=3),
)

lengths = st.integers(1, 10**9).map(lambda seconds: timedelta(seconds=seconds))
zones = st.sampled_from(["UTC", "Europe/Berlin", "Etc/GMT+12", "America/Port-au-Prince"])
window_units = st.one_of(
    st.builds(Unit.user_window, lengths, origin=st.dates()),
    st.builds(Unit.user_calendar, st.sampled_from(CalendarWindow), zone=zones),
    st.builds(Unit.user_any_window, lengths, zone=zones),
)
units = st.builds(
    Unit.group,
    st.one_of(st.just(Unit.example()), st.just(Unit.user()), window_units),
    st.one_of(st.just(1), st.integers(1, 10**9)),
)
printable = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
lines = st.text(printable, min_size=1, max_size=120).filter(str.strip)


@st.composite
def guarantees(draw: st.DrawFn, bounds: tuple[Bound, ...] = tuple(Bound)) -> Guarantee:
    """Draw any valid guarantee with one of these bounds."""
    bound = draw(st.sampled_from(bounds))
    unbounded = draw(st.integers(0, 9)) == 0 and bound is not Bound.LOWER
    return Guarantee(
        epsilon=math.inf if unbounded else draw(epsilons),
        delta=draw(deltas),
        unit=draw(units),
        relation=draw(st.sampled_from(Relation)),
        bound=bound,
        method=draw(lines),
        assumptions=tuple(draw(st.lists(lines, max_size=3))),
    )
