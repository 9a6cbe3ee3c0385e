"""Blocks of a budget, and analysts' shares of their budgets.

A block is a disjoint part of the data, such as a month, with a budget of its own. Each unit's rows are in one block, so
the blocks compose in parallel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hush.accounting.budget import Cap
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import AnyWindow, Relation
from hush.ledger.accounts.people import Role
from hush.ledger.storage import schema as schema


def check_blocks(blocks: Sequence[str], cap: Cap) -> list[str]:
    """Return the blocks of a new budget, if each of them can have its own budget."""
    if isinstance(blocks, str) or not blocks or len(set(blocks)) != len(blocks):
        raise InvalidArgument("blocks", blocks, "distinct names")
    refuse_nested(blocks)
    if cap.relation is Relation.REPLACE:
        raise Unsupported("blocks under the relation 'replace': a replaced unit may move from one block to another")
    if isinstance(cap.unit.window, AnyWindow):
        raise Unsupported("blocks for any stretch of time: it could be in two blocks", "Use windows of the calendar")
    return [check_block(name) for name in blocks]


def refuse_nested(blocks: Sequence[str]) -> None:
    """Refuse time periods that overlap: a row in both would have two budgets."""
    periods = [name for name in map(str, blocks) if re.fullmatch(r"\d{4}(-\d{2}){0,2}", name)]
    for name in periods:
        if any(other.startswith(f"{name}-") for other in periods):
            raise InvalidArgument("blocks", name, "blocks that do not overlap", "This one contains another")


def check_block(name: str) -> str:
    """Return the name of a block, if it is valid."""
    if not str(name).strip() or not name.isprintable() or len(name) > 100:
        raise InvalidArgument("block", name, "a short printable name, such as 2026-11")
    return name


def microseconds(moment: datetime) -> int:
    """Return a time in microseconds since 1970, as the ledger stores it."""
    check_instance("expires", moment, datetime)
    if moment.tzinfo is None:
        raise InvalidArgument("expires", moment, "a time with a time zone", "For example, tzinfo=UTC")
    return int(moment.timestamp() * 1_000_000)


def open_block(connection: sa.Connection, dataset: str, block: str, cap: Cap, details: dict[str, Any]) -> None:
    """Insert a block's budget. Analysts who have a share of the other blocks get the same share of this one."""
    limits = {f"most_{name}": getattr(cap.limit, name) for name in ("renyi", "pure", "delta")}
    connection.execute(
        schema.budgets.insert().values(dataset=dataset, block=block, expires=details.get("expires"), **limits)
    )
    shares = connection.execute(
        sa.select(schema.shares.c.name, schema.shares.c.millionths).where(schema.shares.c.dataset == dataset).distinct()
    ).all()
    for name, millionths in shares:
        connection.execute(schema.shares.insert().values(_share(dataset, block, name, millionths, cap)))


def set_share(connection: sa.Connection, dataset: str, name: str, percent: int, cap: Cap) -> None:
    """Insert or update an analyst's share of every block."""
    table = schema.shares
    role = connection.execute(sa.select(schema.people.c.role).where(schema.people.c.name == name)).scalar_one_or_none()
    if role != Role.ANALYST:
        raise InvalidArgument("name", name, "an analyst of this ledger", "Call ledger.admit(name, Role.ANALYST) first")
    others = connection.execute(
        sa.select(table.c.name, table.c.millionths).where(table.c.dataset == dataset, table.c.name != name).distinct()
    ).all()
    if sum(row.millionths for row in others) + percent * 10_000 > 1_000_000:
        raise InvalidArgument("percent", percent, "shares that add up to at most 100")
    blocks = connection.execute(sa.select(schema.budgets.c.block).where(schema.budgets.c.dataset == dataset)).scalars()
    for block in list(blocks):
        share = _share(dataset, block, name, percent * 10_000, cap)
        key = (table.c.dataset == dataset, table.c.block == block, table.c.name == name)
        if not connection.execute(table.update().where(*key).values(share)).rowcount:
            connection.execute(table.insert().values(share))


def _share(dataset: str, block: str, name: str, millionths: int, cap: Cap) -> dict[str, Any]:
    limits = {f"most_{part}": getattr(cap.limit, part) * millionths // 1_000_000 for part in ("renyi", "pure", "delta")}
    return {"dataset": dataset, "block": block, "name": name, "millionths": millionths, **limits}
