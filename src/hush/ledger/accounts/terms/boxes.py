"""Boxes in a ledger: each kind of release that was declared is a block of the budget, which holds its number.

A release from the box is charged to its kind's block, one unit of so many, and nothing to the budget, which has paid
for the box. So the database counts them as it adds costs, and a charge that was voided can be used again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from hush.accounting import Event
from hush.accounting.budget import LOSS_STEPS, Box, Cap, Cost

ONE_RELEASE = Cost(renyi=LOSS_STEPS)
"""The cost of a release from the box, in its kind's block."""

_KIND = re.compile(r"box (\d+)")


def kind_block(index: int) -> str:
    """Return the name of the block of a kind.

    >>> kind_block(0), kind_index("box 1"), kind_index("2026-11")
    ('box 1', 0, None)
    """
    return f"box {index + 1}"


def kind_index(block: str) -> int | None:
    """Return which kind a block stands for; None if it is a part of the data."""
    match = _KIND.fullmatch(block)
    return None if match is None else int(match[1]) - 1


def block_limit(cap: Cap, block: str) -> Cost:
    """Return the limit of a block's budget: the cap's, or the number of releases of a kind."""
    index = None if cap.box is None else kind_index(block)
    if cap.box is None or index is None:
        return cap.limit
    return Cost(renyi=cap.box.numbers[index] * LOSS_STEPS, pure=-1, gaussian=-1, smoothed=-1)


def kind_blocks(box: Box | None) -> list[str]:
    """Return the names of the blocks of all kinds."""
    return [] if box is None else [kind_block(index) for index in range(len(box.kinds))]


def is_boxed(cap: Cap, blocks: Sequence[str]) -> bool:
    """Return whether a charge to these blocks is for a release from the box."""
    return cap.box is not None and len(blocks) == 1 and kind_index(blocks[0]) is not None


def boxed_row_block(cap: Cap, event: Event) -> str | None:
    """Return the block list of a row that charges an event to its kind; None if the event is of no kind."""
    index = None if cap.box is None else cap.box.kind_of(event, cap.relation, cap.unit)
    return None if index is None else json.dumps([kind_block(index)])
