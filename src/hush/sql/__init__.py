"""Private SQL: declare a table, ask queries, get noisy answers. The data stay in files, in PostgreSQL or on Spark.

>>> import duckdb, hush
>>> connection = duckdb.connect()
>>> _ = connection.execute("CREATE TABLE people AS SELECT i AS who, i % 70 AS age, i % 2 AS sex FROM range(5000) t(i)")
>>> people = hush.table(connection, name="people", unit="who", bounds={"age": (0, 100)}, keys={"sex": [0, 1]})
>>> answer = people.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex", epsilon=1.0)
>>> answer.columns, len(answer.rows)
(('sex', 'n', 'age'), 2)

| you want to | use |
|---|---|
| declare a table, and further tables to join | `table`, `JoinedTable` |
| declare how many rows a unit can have | `MostRows` |
| ask a query | `Table.sql`, which returns a `QueryAnswer` |
| know the cost and the error beforehand | `Table.price`, which returns a `QueryPrice` |
| try a query without touching data | `Table.preview`, which returns a `Preview` |
| handle errors | `QueryRefused` (the query), `EngineFailed` (the database) |

Supported: WHERE; GROUP BY several keys, or ALL; HAVING, ORDER BY and LIMIT, on released values. COUNT(*), COUNT(x),
COUNT(DISTINCT unit), COUNT_IF, SUM, AVG, VARIANCE, VAR_POP, STDDEV, STDDEV_POP, MEDIAN, QUANTILE_CONT,
PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x); FILTER; arithmetic of aggregates, such as SUM(x) / SUM(y). JOIN, LEFT
JOIN, RIGHT JOIN and NATURAL JOIN on the unit or with public tables; tables separated by commas, if WHERE equates the
units. WITH and subqueries, which may aggregate per unit, or select *. For each row: arithmetic, comparisons, AND, OR,
NOT, IS NULL, BETWEEN, IN, LIKE, ILIKE, CASE, IF, COALESCE, NULLIF, LEAST, GREATEST, CAST, ABS, FLOOR, CEIL, ROUND,
SQRT, LN, EXP, POW with an exponent from 1 to 8, LOWER, UPPER, TRIM, LENGTH, SUBSTRING, LEFT, CONCAT, EXTRACT (also of
ISODOW, the weekday from 1, Monday, to 7), YEAR, QUARTER, MONTH, WEEK, DAY, DATE_TRUNC.

Some operations differ from an engine's own SQL, so that no row can make a query fail. A cast that fails gives NULL, and
so does division by 0. Arithmetic is in double precision. ROUND, and CAST to an integer, round halves away from 0. An
aggregate of an expression, such as SUM(x * x), computes with columns that are clamped to their bounds. Numbers that are
not finite or beyond 1e100, and dates outside years 1 to 9999, are NULL. Text is compared byte by byte, whatever the
column's collation. Columns of CSV files are text, except those with declared bounds, which are numbers.

The ideas of the package:

- **None of your text reaches the engine.** `read` translates the query into a typed tree, node by node from an
  allow-list, and refuses everything else. `write` writes the tree as new SQL.
- **Contributions are bounded in the query itself** (`write.bounded`), so only bounded aggregates leave the engine. They
  are integers on a grid, because sums of floating-point numbers depend on the order of rows.
- **Limits and bounds that nobody gave are chosen privately** (`answer.choices`), from histograms of units by what they
  hold. Every answer says what is in force, about how much is beyond, and what its intervals mean (`answer.conditions`).
- **Noise is added once**, by the noise layer of `hush.statistics`, with one budget for all releases of a query and for
  the selection of groups (`answer.priced_query`). Aggregates share releases: AVG(x) comes with COUNT(x) and SUM(x).
- **Everything that depends on data happens after the price is fixed.** Refusals, prices and previews read no rows.
- **No error shows data**: an engine's messages are redacted (`engines.engine`).

A query goes through the rooms in this order: `answer` (declare, price), `read` (to the tree in `syntax`), `write` (to
SQL), `engines` (to exact aggregates), and back to `answer` (noise, intervals).
"""

from hush.sql.answer.answer import QueryAnswer as QueryAnswer
from hush.sql.answer.declaration import JoinedTable as JoinedTable
from hush.sql.answer.declaration import table as table
from hush.sql.answer.limits import MostRows as MostRows
from hush.sql.answer.preview import Preview as Preview
from hush.sql.answer.price import QueryPrice as QueryPrice
from hush.sql.answer.table import Table as Table
from hush.sql.engines.engine import EngineFailed as EngineFailed
from hush.sql.syntax.refusal import QueryRefused as QueryRefused

__all__ = [
    "EngineFailed",
    "JoinedTable",
    "MostRows",
    "Preview",
    "QueryAnswer",
    "QueryPrice",
    "QueryRefused",
    "Table",
    "table",
]
