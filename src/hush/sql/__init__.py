"""SQL, answered privately: `table(...)` is asked by `Table.sql`, `Table.price` tells the cost before, and
`Table.preview` shows the shape of an answer on invented rows. Data stay in files, in PostgreSQL or on Spark.

Below it, queries are bounded: exact aggregates that one unit changes by a known amount, and that noise is added to.

    catalog = Catalog({"people": PrivateTable(columns=engine.columns("people"), unit="user_id",
                                              bounds={"income": (0, 200_000)}, keys={"region": REGIONS})})
    plan = plan_query("SELECT region, COUNT(*) AS n, AVG(income) FROM people GROUP BY region", tables=catalog)
    groups = exact_groups(plan, engine, ranking_key=secrets.token_bytes(32))     # to be released with noise
    plan.answer(noisy_groups)                                                    # HAVING, ORDER BY, LIMIT, AVG

| what | where |
|---|---|
| tables, what is public about them, limits on one unit | `Catalog`, `PrivateTable`, `PublicTable`, `ContributionLimits` |
| a query to a plan, or the place and the reason of a refusal | `plan_query`, `QueryRefused` |
| what a plan holds | `QueryPlan`, `SumRelease`, `LeafCounts`, `QueryStatistic`, `ExactGroup` |
| engines | `Engine`, `DuckDBEngine`, `PostgresEngine`, `SparkEngine` |
| running it | `exact_groups`, `exact_leaves`, `BoundedViews` |

Supported: WHERE, GROUP BY several keys, HAVING, ORDER BY and LIMIT on released values; COUNT(*), COUNT(x),
COUNT(DISTINCT unit), SUM, AVG, VARIANCE, VAR_POP, STDDEV, STDDEV_POP, MEDIAN, QUANTILE_CONT,
PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x); JOIN and LEFT JOIN on the unit (`JoinedTable`) or with public tables;
WITH and subqueries, which may aggregate per unit. By row: arithmetic, comparisons, AND, OR,
NOT, IS NULL, BETWEEN, IN, LIKE, ILIKE, CASE, IF, COALESCE, NULLIF, LEAST, GREATEST, CAST, ABS, FLOOR, CEIL, ROUND,
SQRT, LN, EXP, POW with a small constant, LOWER, UPPER, TRIM, LENGTH, SUBSTRING, CONCAT, EXTRACT, YEAR, QUARTER, MONTH,
DAY, DATE_TRUNC.

What differs from an engine's own SQL, so that no data can raise: casts give NULL where they have no value; dividing by
0 gives NULL; arithmetic is in double precision; numbers that are not finite, or beyond 1e100, and dates outside years 1
to 9999 are NULL. Text is compared byte by byte, whatever collation a column has.
Columns of CSV files are text, but for those that bounds are declared for, which are numbers.
"""

from hush.data.tables.catalog import Catalog as Catalog
from hush.data.tables.catalog import ColumnKind as ColumnKind
from hush.data.tables.catalog import ContributionLimits as ContributionLimits
from hush.data.tables.catalog import PrivateTable as PrivateTable
from hush.data.tables.catalog import PublicTable as PublicTable
from hush.sql.answer.answer import QueryAnswer as QueryAnswer
from hush.sql.answer.declare import JoinedTable as JoinedTable
from hush.sql.answer.declare import table as table
from hush.sql.answer.preview import Preview as Preview
from hush.sql.answer.table import QueryPrice as QueryPrice
from hush.sql.answer.table import Table as Table
from hush.sql.engines.duckdb import DuckDBEngine as DuckDBEngine
from hush.sql.engines.engine import BoundedView as BoundedView
from hush.sql.engines.engine import BoundedViews as BoundedViews
from hush.sql.engines.engine import Engine as Engine
from hush.sql.engines.engine import EngineFailed as EngineFailed
from hush.sql.engines.engine import exact_groups as exact_groups
from hush.sql.engines.engine import exact_leaves as exact_leaves
from hush.sql.engines.postgres import PostgresEngine as PostgresEngine
from hush.sql.engines.spark import SparkEngine as SparkEngine
from hush.sql.read.query import plan_query as plan_query
from hush.sql.syntax.refusal import QueryRefused as QueryRefused
from hush.sql.syntax.releases import Counted as Counted
from hush.sql.syntax.releases import LeafCounts as LeafCounts
from hush.sql.syntax.releases import QueryStatistic as QueryStatistic
from hush.sql.syntax.releases import SumRelease as SumRelease
from hush.sql.write.plan import ExactGroup as ExactGroup
from hush.sql.write.plan import GroupKey as GroupKey
from hush.sql.write.plan import Order as Order
from hush.sql.write.plan import Output as Output
from hush.sql.write.plan import QueryPlan as QueryPlan

__all__ = [
    "BoundedView",
    "BoundedViews",
    "Catalog",
    "ColumnKind",
    "ContributionLimits",
    "Counted",
    "DuckDBEngine",
    "Engine",
    "EngineFailed",
    "ExactGroup",
    "GroupKey",
    "JoinedTable",
    "LeafCounts",
    "Order",
    "Output",
    "PostgresEngine",
    "Preview",
    "PrivateTable",
    "PublicTable",
    "QueryAnswer",
    "QueryPlan",
    "QueryPrice",
    "QueryRefused",
    "QueryStatistic",
    "SparkEngine",
    "SumRelease",
    "Table",
    "exact_groups",
    "exact_leaves",
    "plan_query",
    "table",
]
