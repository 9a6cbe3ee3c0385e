"""Blocks of a data set, and shares of their budgets, as the database has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hush.accounting.budget import Cap
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import Relation
from hush.ledger.accounts.people import Role
from hush.ledger.storage import schema as schema


def check_blocks(blocks: Sequence[str], cap: Cap) -> list[str]:
    """Return the blocks of a new data set if each can have a budget of its own."""
    if isinstance(blocks, str) or not blocks or len(set(blocks)) != len(blocks):
        raise InvalidArgument("blocks", blocks, "names, each once")
    refuse_nested(blocks)
    if cap.relation is Relation.REPLACE:
        raise Unsupported("blocks under the relation 'replace': who is replaced may leave one block and enter another")
    return [check_block(name) for name in blocks]


def refuse_nested(blocks: Sequence[str]) -> None:
    """Refuse periods of which one contains another: what is in both would have two budgets."""
    periods = [name for name in map(str, blocks) if re.fullmatch(r"\d{4}(-\d{2}){0,2}", name)]
    for name in periods:
        if any(other.startswith(f"{name}-") for other in periods):
            raise InvalidArgument("blocks", name, "blocks of which none contains another", "A day is within its month")


def check_block(name: str) -> str:
    """Return a block's name if it can be one."""
    if not str(name).strip() or not name.isprintable() or len(name) > 100:
        raise InvalidArgument("block", name, "a short name on one line, such as 2026-11")
    return name


def microseconds(moment: datetime) -> int:
    """Return a time as the ledger has it."""
    check_instance("expires", moment, datetime)
    if moment.tzinfo is None:
        raise InvalidArgument("expires", moment, "a time with its time zone", "Such as one with tzinfo=UTC")
    return int(moment.timestamp() * 1_000_000)


def open_block(connection: sa.Connection, dataset: str, block: str, cap: Cap, details: dict[str, Any]) -> None:
    """Write a block's budget, and shares of it for those who have one of the others."""
    most = {f"most_{name}": getattr(cap.limit, name) for name in ("renyi", "pure", "delta")}
    connection.execute(
        schema.budgets.insert().values(dataset=dataset, block=block, expires=details.get("expires"), **most)
    )
    shares = connection.execute(
        sa.select(schema.shares.c.name, schema.shares.c.millionths).where(schema.shares.c.dataset == dataset).distinct()
    ).all()
    for name, millionths in shares:
        connection.execute(schema.shares.insert().values(_share(dataset, block, name, millionths, cap)))


def set_share(connection: sa.Connection, dataset: str, name: str, percent: int, cap: Cap) -> None:
    """Write or change somebody's share of every block."""
    table = schema.shares
    role = connection.execute(sa.select(schema.people.c.role).where(schema.people.c.name == name)).scalar_one_or_none()
    if role != Role.ANALYST:
        raise InvalidArgument("name", name, "an analyst who was admitted", "ledger.admit(name, Role.ANALYST)")
    others = connection.execute(
        sa.select(table.c.name, table.c.millionths).where(table.c.dataset == dataset, table.c.name != name).distinct()
    ).all()
    if sum(row.millionths for row in others) + percent * 10_000 > 1_000_000:
        raise InvalidArgument("percent", percent, "such that all shares together are at most 100")
    blocks = connection.execute(sa.select(schema.budgets.c.block).where(schema.budgets.c.dataset == dataset)).scalars()
    for block in list(blocks):
        new = _share(dataset, block, name, percent * 10_000, cap)
        mine = (table.c.dataset == dataset, table.c.block == block, table.c.name == name)
        if not connection.execute(table.update().where(*mine).values(new)).rowcount:
            connection.execute(table.insert().values(new))


def _share(dataset: str, block: str, name: str, millionths: int, cap: Cap) -> dict[str, Any]:
    most = {f"most_{part}": getattr(cap.limit, part) * millionths // 1_000_000 for part in ("renyi", "pure", "delta")}
    return {"dataset": dataset, "block": block, "name": name, "millionths": millionths, **most}
