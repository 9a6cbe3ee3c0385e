"""Blocks of a budget, and analysts' shares of their budgets.

A block is a disjoint part of the data, such as a month, with its own budget. Each unit's rows are in one block, so
the blocks compose in parallel. That is so where each row is a unit, and where the blocks are periods and the unit is a
person within a window that no end of a period cuts. All other blocks are refused: a person with rows in twelve of them
would be protected by the sum of twelve budgets, and not by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from hush.accounting.budget import Cap
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import CalendarWindows, Guarantee, Relation, Unit
from hush.ledger.accounts.people import Role
from hush.ledger.accounts.refusals import checked_text
from hush.ledger.accounts.terms.boxes import block_limit
from hush.ledger.storage import schema as schema
from hush.numerics import round_up

_PERIOD = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}")
_WINDOWS_WITHIN = {
    4: ("hour", "day", "month", "quarter", "year"),
    7: ("hour", "day", "month"),
    10: ("hour", "day"),
}  # by the length of the period's name: 2026, 2026-11, 2026-11-15


def check_blocks(blocks: Sequence[str], cap: Cap) -> list[str]:
    """Check that each block of a new budget can have its own budget, and return the blocks."""
    if not isinstance(blocks, (list, tuple)) or not blocks or len(set(blocks)) != len(blocks):
        raise InvalidArgument("blocks", blocks, "a list of distinct names")
    for name in blocks:
        check_block(name)
    refuse_nested(blocks)
    if cap.relation is Relation.REPLACE:
        raise Unsupported("blocks under the relation 'replace': a replaced unit may move from one block to another")
    if not divide_units(blocks, cap.unit):
        raise _shared_units(blocks, cap.unit)
    return list(blocks)


def divide_units(blocks: Sequence[str], unit: Unit) -> bool:
    """Return whether no unit can have rows in two of the blocks.

    >>> from hush.guarantee import CalendarWindow
    >>> divide_units(["2026-10", "2026-11"], Unit.user()), divide_units(["north", "south"], Unit.example())
    (False, True)
    >>> divide_units(["2026-10", "2026-11"], Unit.user_calendar(CalendarWindow.MONTH))
    True
    """
    if unit == Unit.example():
        return True
    # Both are cut by the dates as they are written, so the time zone is the same.
    window = unit.window.window.value if isinstance(unit.window, CalendarWindows) and unit.group_size == 1 else None
    return all(_is_period(name) and window in _WINDOWS_WITHIN[len(name)] for name in blocks)


def _is_period(name: str) -> bool:
    """Return whether a block is an existing year, month or day."""
    try:
        return _PERIOD.fullmatch(name) is not None and bool(date.fromisoformat(f"{name}-01-01"[:10]))
    except ValueError:
        return False


def _shared_units(blocks: Sequence[str], unit: Unit) -> InvalidArgument:
    """Return the refusal of blocks in which a unit can have rows several times."""
    return InvalidArgument(
        "blocks",
        ", ".join(map(str, blocks)),
        "parts that divide the privacy unit",
        f"A {unit} can have rows in several of these, and would then be charged in each of them",
        "Use months such as 2026-11 for unit=patient-month, any names for unit=row, or a budget without blocks",
    )


def check_charged(blocks: Sequence[str], unit: Unit) -> None:
    """Refuse charges to blocks, created by an older version, that do not divide the unit."""
    if not divide_units(blocks, unit):
        raise _shared_units(blocks, unit)


def guarantee_in_blocks(guarantee: Guarantee, blocks: Sequence[str]) -> Guarantee:
    """Return the guarantee of a budget in blocks, from that of one block.

    Blocks that an older version created may not divide the unit. Then a unit may be charged in each of them.
    """
    if divide_units(blocks, guarantee.unit):
        return replace(guarantee, assumptions=(*guarantee.assumptions, "each unit's rows are all in one block"))
    num_blocks = len(blocks)
    epsilon, delta = round_up(guarantee.epsilon * num_blocks), round_up(guarantee.delta * num_blocks)
    if not delta < 1:
        raise Unsupported("blocks that do not divide the unit, whose deltas add up to 1", "They protect nothing")
    return replace(
        guarantee, epsilon=epsilon, delta=delta, method=f"{guarantee.method}; {num_blocks} blocks that share units"
    )


def refuse_nested(blocks: Sequence[str]) -> None:
    """Refuse time periods that overlap: a row in both would have two budgets."""
    periods = [name for name in map(str, blocks) if _PERIOD.fullmatch(name)]
    for name in periods:
        if any(other.startswith(f"{name}-") for other in periods):
            raise InvalidArgument("blocks", name, "blocks that do not overlap", "This one contains another")


def check_block(name: str) -> str:
    """Return the name of a block, if it is valid."""
    return checked_text("block", name, 100, "a short printable name, such as 2026-11")


def microseconds(moment: datetime) -> int:
    """Return a time in microseconds since 1970, as the ledger stores it."""
    check_instance("expires", moment, datetime)
    if moment.tzinfo is None:
        raise InvalidArgument("expires", moment, "a time with a time zone", "For example, tzinfo=UTC")
    return int(moment.timestamp() * 1_000_000)


def open_block(connection: sa.Connection, budget: str, block: str, cap: Cap, details: dict[str, Any]) -> None:
    """Insert a block's budget. Analysts who have a share of the other blocks get the same share of this one."""
    limit = block_limit(cap, block)
    limits = {f"most_{name}": getattr(limit, name) for name in schema.LIMITS}
    connection.execute(
        schema.budgets.insert().values(budget=budget, block=block, expires=details.get("expires"), **limits)
    )
    shares = connection.execute(
        sa.select(schema.shares.c.name, schema.shares.c.millionths).where(schema.shares.c.budget == budget).distinct()
    ).all()
    for name, millionths in shares:
        connection.execute(schema.shares.insert().values(_share(budget, block, name, millionths, cap)))


def set_share(connection: sa.Connection, budget: str, name: str, percent: int, cap: Cap) -> None:
    """Insert or update an analyst's share of every block."""
    table = schema.shares
    role = connection.execute(sa.select(schema.people.c.role).where(schema.people.c.name == name)).scalar_one_or_none()
    if role != Role.ANALYST:
        raise InvalidArgument("name", name, "an analyst of this ledger", "Call ledger.admit(name, Role.ANALYST) first")
    others = connection.execute(
        sa.select(table.c.name, table.c.millionths).where(table.c.budget == budget, table.c.name != name).distinct()
    ).all()
    if sum(row.millionths for row in others) + percent * 10_000 > 1_000_000:
        raise InvalidArgument("percent", percent, "shares that add up to at most 100")
    blocks = connection.execute(sa.select(schema.budgets.c.block).where(schema.budgets.c.budget == budget)).scalars()
    for block in list(blocks):
        share = _share(budget, block, name, percent * 10_000, cap)
        changed = {column: value for column, value in share.items() if column not in ("budget", "block", "name")}
        key = (table.c.budget == budget, table.c.block == block, table.c.name == name)
        if not connection.execute(table.update().where(*key).values(changed)).rowcount:
            connection.execute(table.insert().values(share))


def _share(budget: str, block: str, name: str, millionths: int, cap: Cap) -> dict[str, Any]:
    limit = block_limit(cap, block)
    limits = {f"most_{part}": getattr(limit, part) * millionths // 1_000_000 for part in schema.LIMITS}
    return {"budget": budget, "block": block, "name": name, "millionths": millionths, **limits}
