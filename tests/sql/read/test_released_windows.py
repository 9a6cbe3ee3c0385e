"""Windows over released values: what is refused. `sql.queries` compares the values of windows with those of DuckDB."""

from __future__ import annotations

from typing import Any

import pytest

from hush.data.tables.catalog import Catalog
from hush.randomness import TestSource
from sql.refusing import check_refusal
from sql.towns import towns_table

REFUSED = [
    ("SELECT SUM(age) OVER () FROM people", "neither a key"),
    ("SELECT region, SUM(age) OVER (PARTITION BY region) FROM people GROUP BY region", "neither a key"),
    ("SELECT region, COUNT(*) OVER (PARTITION BY region) AS n FROM people GROUP BY region", "without an aggregate"),
    ("SELECT COUNT(*), RANK() OVER (ORDER BY age) FROM people", "neither a key"),
    ("SELECT COUNT(*), RANK() OVER (PARTITION BY user_id ORDER BY COUNT(*)) FROM people", "neither a key"),
    ("SELECT SUM(RANK() OVER (ORDER BY age)) FROM people", "an aggregate inside an aggregate"),
    ("SELECT COUNT(*) FROM people WHERE RANK() OVER (ORDER BY age) > 3", "over rows are refused"),
    ("SELECT COUNT(*) FROM people GROUP BY RANK() OVER (ORDER BY age)", "cannot contain an aggregate"),
    ("SELECT COUNT(*) FROM people GROUP BY age QUALIFY SUM(income) OVER () > 3", "neither a key"),
    (
        "SELECT COUNT(*) FROM (SELECT user_id, RANK() OVER (ORDER BY age) AS r FROM people) AS t",
        "one of a single unit's rows",
    ),
    ("SELECT COUNT(*) FROM (SELECT user_id FROM people QUALIFY 1 = 1) AS t", "over rows are refused"),
    ("SELECT COUNT(*) FROM (SELECT user_id FROM people OFFSET 1) AS t", "OFFSET in a subquery is refused"),
    ("SELECT COUNT(*) AS n FROM people GROUP BY note HAVING SUM(COUNT(*)) OVER () > 3", "HAVING cannot use a window"),
    ("SELECT RANK() OVER (ORDER BY COUNT(*)) AS r FROM people HAVING r > 3", "HAVING cannot use a window"),
    ("SELECT SUM(RANK() OVER (ORDER BY COUNT(*))) OVER () FROM people", "a window inside a window"),
    ("SELECT MEDIAN(COUNT(*)) OVER () FROM people", "over rows are refused"),
    ("SELECT SUM(COUNT(*)) OVER w FROM people WINDOW w AS (ORDER BY 1)", "over rows are refused"),
    ("SELECT SUM(COUNT(*)) FILTER (WHERE TRUE) OVER () FROM people", "over rows are refused"),
    ("SELECT COUNT(DISTINCT COUNT(*)) OVER () FROM people", "DISTINCT is supported in"),
    ("SELECT NTILE(0) OVER (ORDER BY COUNT(*)) FROM people", "a number of rows from 1"),
    ("SELECT LAG(COUNT(*), -1) OVER (ORDER BY COUNT(*)) FROM people", "a number of rows from 0"),
    ("SELECT LAG(COUNT(*), 1, 'x') OVER (ORDER BY COUNT(*)) FROM people", "different kinds"),
    ("SELECT LAG(COUNT(*)) IGNORE NULLS OVER (ORDER BY COUNT(*)) FROM people", "over rows are refused"),
    (
        "SELECT SUM(COUNT(*)) OVER (ORDER BY COUNT(*) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM people",
        "ROWS BETWEEN only",
    ),
    ("SELECT SUM(region) OVER () FROM people GROUP BY region", "expected a number"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[text[:60] for text, _ in REFUSED])
def test_refused(text: str, words: str, catalog: Catalog) -> None:
    check_refusal(text, None, words, catalog)


def test_a_window_sees_the_noisy_rows_and_costs_nothing(towns: Any) -> None:
    """HAVING decides which rows there are; shares are of their noisy total. Each row keeps its own interval."""
    table = towns_table(towns)
    plain = "SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING n > 0"
    shares = "SELECT region, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY region "
    shares += "HAVING n > 0 QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC, region) <= 2 ORDER BY n, region"
    expected = table.sql(plain, epsilon=1.0, source=TestSource(1))
    answer = table.sql(shares, epsilon=1.0, source=TestSource(1))
    assert answer.guarantee == expected.guarantee
    total = sum(row[1] for row in expected.rows)
    top = sorted(sorted(expected.rows, key=lambda row: (-row[1], row[0]))[:2], key=lambda row: row[::-1])
    assert answer.rows == [(region, n, n / total) for region, n in top]
    assert [set(ends) for ends in answer.intervals] == [{"n"}] * 2
    assert all(ends["n"][0] < row[1] < ends["n"][1] for ends, row in zip(answer.intervals, answer.rows, strict=True))
