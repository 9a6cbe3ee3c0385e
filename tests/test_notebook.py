"""Cards and short reprs: complete enough to read, escaped, and never longer than a screen."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from hush.audit import epsilon_from_counts
from hush.guarantee import Guarantee
from hush.notebook import card, clean, short_repr
from hush.randomness import TestSource
from hush.statistics import Estimate, count

EVIL = "<script>alert(1)</script>\x1b[2J\u202e\" onload='x"


class _Tags(HTMLParser):
    """Collects the tags of a page, and checks that each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(page: str) -> set[str]:
    parser = _Tags()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser.seen


def estimate() -> Estimate:
    """Return counts of groups, one of which has a hostile name (fixed randomness)."""
    groups = ["plain", EVIL] * 50
    return count(groups, units=list(range(100)), groups=groups, keys=["plain", EVIL], epsilon=1.0, source=TestSource(1))


def test_a_card_escapes_every_part() -> None:
    page = card(EVIL, {EVIL: EVIL}, head=[EVIL, EVIL], rows=[[EVIL, EVIL]], notes=[EVIL])
    assert "script" not in tags(page)
    assert not {"\x1b", "\u202e"} & set(page)
    assert page.count("&lt;script&gt;") == 8


def test_a_long_table_is_cut_and_says_so() -> None:
    page = card("rows", {}, head=["n"], rows=[[number] for number in range(250)])
    assert "150 more rows" in page
    assert len(page) < 50_000


@pytest.mark.parametrize(
    "value",
    [
        Guarantee(epsilon=3.0, delta=1e-5, assumptions=("x < y & <b>z</b>",)),
        Guarantee(epsilon=float("inf"), delta=0.0),
        epsilon_from_counts(tp=90, num_in=100, fp=10, num_out=100),
        estimate(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_results_show_themselves(value: Any) -> None:
    assert len(repr(value)) < 300
    assert "\n" not in repr(value)
    assert not {"b", "script"} & tags(value._repr_html_())


def test_plans_and_answers_show_themselves() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("sqlglot")
    import duckdb

    import hush
    from hush.data import open_data

    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS who FROM range(500) AS t(i)")
    people = hush.table(connection, name="people", unit="who")
    question = "SELECT COUNT(*) AS n FROM people"
    answer = people.sql(question, epsilon=1.0, source=TestSource(1))
    price = people.price(question, epsilon=0.5, rows_per_unit=1, expected=500)
    for value in (people, answer, price, people.preview(question), open_data("digits")):
        tags(value._repr_html_())
    for value in (people, answer, price):
        assert len(repr(value)) < 300


def test_a_training_plan_shows_its_guarantee() -> None:
    pytest.importorskip("torch")
    from hush.runs import Settings
    from hush.runs.draft import draft_plan

    plan = draft_plan(Settings(data="<b>.csv", epsilon=3.0), num_units=10_000).calibrated()
    assert "b" not in tags(plan._repr_html_())
    assert "epsilon &lt;= 3" in plan._repr_html_()
    assert "epsilon &lt;= 3" in plan.training._repr_html_()
    assert len(repr(plan)) < 200


def test_an_estimate_prints_one_line_per_group() -> None:
    lines = str(estimate()).splitlines()
    assert len(lines) == 4
    assert "95 % interval" in lines[0]
    assert "\x1b" not in str(estimate())


def test_an_estimate_becomes_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = estimate().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["group", "value", "low", "high"]
    assert (frame["low"] <= frame["value"]).all()
    assert frame["value"].dtype == np.int64


def test_text_cannot_turn_the_page_around() -> None:
    assert clean("a\u202eb\x00\ud800") == "a\ufffdb\ufffd\ufffd"
    assert short_repr("T", {"x": "a" * 500}) == f"T(x='{'a' * 56}...)"
