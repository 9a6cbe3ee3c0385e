"""Refusals point to the line and the column of the refused part."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlglot import exp, parse_one

from hush.errors import Unsupported
from hush.sql import QueryRefused
from hush.sql.syntax.refusal import Refuser
from hush.sql.write.plan import QueryPlan

TEXT = "SELECT a,\n  SUM(b) AS s\nFROM t WHERE c"


def test_a_refusal_is_an_error_of_hush(planned: Callable[..., QueryPlan]) -> None:
    with pytest.raises(Unsupported, match="^line 1, column 8: "):
        planned("SELECT income FROM people")


@pytest.mark.parametrize(("name", "position"), [("a", (1, 8)), ("b", (2, 7)), ("c", (3, 14))])
def test_a_refusal_has_the_position_of_its_column(name: str, position: tuple[int, int]) -> None:
    node = next(column for column in parse_one(TEXT).find_all(exp.Column) if column.name == name)
    refusal = Refuser(TEXT)(node, "no", "Write yes")
    assert (refusal.line, refusal.column) == position
    assert str(refusal) == f"line {position[0]}, column {position[1]}: no. Write yes."


def test_a_node_without_a_position_has_that_of_its_parent() -> None:
    alias = next(parse_one(TEXT).find_all(exp.Alias))
    star = exp.Star()
    star.parent = alias
    assert (Refuser(TEXT)(star, "no").line, Refuser(TEXT)(None, "no").line) == (2, 0)


def test_parts_that_are_not_allowed_are_named() -> None:
    refuse = Refuser(TEXT)
    select = parse_one(TEXT)
    refuse.unless_only(select, "expressions", "from_", "where")
    with pytest.raises(QueryRefused, match="^line 3, column 14: WHERE is not supported in SELECT. Leave it out."):
        refuse.unless_only(select, "expressions", "from_")
