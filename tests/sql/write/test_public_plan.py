"""Rows of a public plan: read by kind, sorted, cut."""

from __future__ import annotations

import pytest

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.output import Order
from hush.sql.syntax.relation import Field, QueryRelation, ReleasedRows
from hush.sql.write.public_plan import PublicPlan

KINDS = (ColumnKind.INT, ColumnKind.TEXT, ColumnKind.FLOAT)
FIELDS = tuple(Field(kind.value, f"c{index}", Expr("column", kind)) for index, kind in enumerate(KINDS))
RELATION = QueryRelation(ReleasedRows(KINDS), FIELDS, name="hush_released0")


def plan(*, distinct: bool = False, limit: int | None = None, offset: int = 0) -> PublicPlan:
    by = Order(expression=Expr("key", ColumnKind.FLOAT, value=2), descending=True, nulls_first=False)
    return PublicPlan(relation=RELATION, num_columns=2, distinct=distinct, order=(by,), limit=limit, offset=offset)


def test_hidden_columns_sort_and_are_not_shown() -> None:
    rows = [(1, "a", 1.0), (1, "a", None), (2, None, 3.0), (1, "a", 2.0)]
    assert plan().columns == ("integer", "text")
    assert plan().answer(rows) == [(2, None), (1, "a"), (1, "a"), (1, "a")]
    assert plan(distinct=True).answer(rows) == [(2, None), (1, "a")]
    assert plan(limit=2, offset=1).answer(rows) == [(1, "a"), (1, "a")]


def test_rows_of_units_are_never_public() -> None:
    private = QueryRelation(ReleasedRows(KINDS), FIELDS, 1, ColumnKind.INT, "hush_released0")
    with pytest.raises(AssertionError):
        PublicPlan(relation=private, num_columns=1, distinct=False, order=(), limit=None, offset=0)
