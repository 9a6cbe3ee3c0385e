"""Private SQL: declare a table, ask queries, get noisy answers. The data stay in files, in a database or on Spark.

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
| read declarations from a file | `load_catalog` |
| declare a table that refers to others, which name the unit | `Through` |
| declare how many rows a unit can have | `MostRows` |
| ask a query | `Table.sql`, which returns a `QueryAnswer` |
| get a data frame | `QueryAnswer.to_pandas`, `QueryAnswer.to_polars`, `QueryAnswer.to_arrow` |
| know the cost and the error beforehand | `Table.price`, which returns a `QueryPrice` |
| try a query without touching data | `Table.preview`, which returns a `Preview` |
| handle errors | `QueryRefused` (the query), `EngineFailed` (the database) |

Supported: WHERE; GROUP BY several keys, or ALL; ROLLUP, CUBE and GROUPING SETS, with GROUPING(key); HAVING, QUALIFY,
ORDER BY, LIMIT and OFFSET, on released values. COUNT(*), COUNT(x), COUNT(DISTINCT x), COUNT_IF, SUM, AVG, VARIANCE,
VAR_POP, STDDEV, STDDEV_POP, CORR, COVAR_POP, COVAR_SAMP, REGR_SLOPE, MEDIAN, QUANTILE_CONT(x, p) or (x, [p, q]),
PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x), and the names of approximate ones, APPROX_COUNT_DISTINCT and
APPROX_QUANTILE; FILTER; arithmetic of aggregates, such as SUM(x) / SUM(y). Windows over keys and aggregates, with OVER
(PARTITION BY ... ORDER BY ... ROWS BETWEEN ...): ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG,
LEAD, FIRST_VALUE, LAST_VALUE, and sums such as SUM(COUNT(*)) OVER (). JOIN, LEFT JOIN, RIGHT JOIN and NATURAL JOIN on
the unit, on keys that lead to it (`Through`) or with public tables; tables separated by commas, if WHERE equates these.
WITH and subqueries, which may aggregate per unit (BOOL_AND and BOOL_OR, too), select *, or be a UNION ALL. In
subqueries, windows of one unit's rows: ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, COUNT, SUM, AVG, MIN, MAX. In WHERE,
EXISTS, IN and aggregates of subqueries on public tables or on rows of the same unit. Other aggregates of private tables
in subqueries are released first, with a share of epsilon (`read.stages`). For each row: arithmetic, comparisons, AND,
OR, NOT, IS NULL, IS DISTINCT FROM, BETWEEN, IN, LIKE, ILIKE, CASE, IF, COALESCE, NULLIF, LEAST, GREATEST, CAST, ABS,
SIGN, MOD, FLOOR, CEIL, ROUND, SQRT, LN, LOG, EXP, POW with an exponent from 1 to 8, LOWER, UPPER, TRIM, LTRIM, RTRIM,
LENGTH, SUBSTRING, LEFT, RIGHT, SPLIT_PART, REPLACE by a text that is not longer, STRPOS, CONTAINS, STARTS_WITH, CONCAT,
CONCAT_WS, REGEXP_MATCHES, REGEXP_FULL_MATCH, REGEXP_LIKE, RLIKE, SIMILAR TO, REGEXP_EXTRACT, REGEXP_SUBSTR and
REGEXP_REPLACE as a dialect has them, with patterns that engines read alike (`syntax.regexps`), EXTRACT (also of ISODOW,
the weekday from 1, Monday, to 7), YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, DATE_PART, DATE_TRUNC, LAST_DAY, a
date plus or minus an INTERVAL, the difference of two dates, AT TIME ZONE (also CONVERT_TIMEZONE, CONVERT_TZ and
FROM_UTC_TIMESTAMP of other dialects); in DuckDB's dialect also DATE_DIFF, TRUNC and x // y (DIV elsewhere). On keys,
these follow the release.

Some operations differ from an engine's own SQL, so that no row can make a query fail. A cast that fails gives NULL, and
so does division by 0. Arithmetic is in double precision. ROUND, and CAST to an integer, round halves away from 0.
DATE_DIFF counts the beginnings of a unit between two dates, also where Spark counts whole units. An aggregate of an
expression, such as SUM(x * x), computes with columns that are clamped to their bounds. Numbers that are not finite or
beyond 1e100, and dates outside years 1 to 9999, are NULL. Text is compared byte by byte, whatever the column's
collation. WEEK is the week of ISO 8601. What the clocks of time zones show is computed by hush, for the years 1900 to
2099; other timestamps are NULL there. A regular expression sees the first 2,000 characters of a text. CONCAT, CONCAT_WS
and || cut what they join, so that the result has a million characters at most: of n texts, the first 1,000,000 / n
characters of each count. Columns of CSV files are text, except those with declared bounds, which are numbers.

Databases are PostgreSQL, DuckDB, MySQL, MariaDB, BigQuery, Snowflake and Databricks. All but the first two compute only
with the first 10,000 characters of a text (MySQL and MariaDB: 250), and numbers stop at 1e101, which counts as missing.
None of the five adds intervals to dates, or has LAST_DAY or regular expressions. BigQuery, MySQL and MariaDB have no
LEAST and GREATEST of texts and dates; MySQL and MariaDB no SPLIT_PART; MariaDB no windows in subqueries. SQLite is
refused: its columns hold values of any type, and its sums raise.

The ideas of the package:

- **The engine never sees your query text.** `read` translates the query into a typed tree, node by node from an
  allow-list, and refuses everything else. `write` writes the tree as new SQL.
- **Contributions are bounded in the query itself** (`write.bounded`), so only bounded aggregates leave the engine. They
  are integers on a grid, because sums of floating-point numbers depend on the order of rows.
- **Missing limits and bounds are chosen privately** (`answer.choices`), from histograms of units by their contents.
  Every answer reports the limits in force, an estimate of what they leave out, and what its intervals mean
  (`answer.conditions`).
- **Noise is added once**, by the noise layer of `hush.statistics`, with one budget for all releases of a query and for
  the selection of groups (`answer.priced_query`). Aggregates share releases: AVG(x) comes with COUNT(x) and SUM(x).
- **The price is fixed before any data are read.** Refusals, prices and previews read no rows.
- **Errors never show data**: an engine's messages are redacted (`engines.engine`).

A query goes through the sub-packages in this order: `answer` (declare, price), `read` (to the tree in `syntax`),
`write` (to SQL), `engines` (to exact aggregates), and back to `answer` (noise, intervals).
"""

from hush.extras import with_command as with_command

try:
    import sqlglot as sqlglot
except ModuleNotFoundError as error:
    raise with_command(error, "hush.sql") from None

# isort: split
from hush.data.tables.catalog import Through as Through
from hush.sql.answer.answer import QueryAnswer as QueryAnswer
from hush.sql.answer.catalog_file import load_catalog as load_catalog
from hush.sql.answer.choices.limits import MostRows as MostRows
from hush.sql.answer.declaration import JoinedTable as JoinedTable
from hush.sql.answer.declaration import table as table
from hush.sql.answer.table import Table as Table
from hush.sql.engines.data_identity import ContentKey as ContentKey
from hush.sql.engines.engine import EngineFailed as EngineFailed
from hush.sql.syntax.refusal import QueryRefused as QueryRefused

# isort: split
# Shared inside hush, not public.
from hush.sql.answer.answer_columns import end_titles as end_titles
from hush.sql.answer.answer_columns import named_columns as named_columns
from hush.sql.answer.answer_columns import without_decimals as without_decimals
from hush.sql.answer.answer_columns import written as written
from hush.sql.answer.catalog_file import catalog_problems as catalog_problems
from hush.sql.answer.catalog_file import database_columns as database_columns
from hush.sql.answer.preview import Preview as Preview
from hush.sql.answer.price import QueryPrice as QueryPrice

__all__ = [
    "ContentKey",
    "EngineFailed",
    "JoinedTable",
    "MostRows",
    "QueryAnswer",
    "QueryRefused",
    "Table",
    "Through",
    "load_catalog",
    "table",
]
