"""Examples from the public documentation of other libraries.

Each has the text, and what has to be changed to ask it here, if anything: `adapted`. Queries that Tumult Analytics
writes in Python are written in SQL, and a few stand for a documented function that has no example (variances and
COUNT(DISTINCT) of SmartNoise, APPROX_COUNT_DISTINCT of BigQuery, quantiles of Tumult). `refused` are
words of the refusal of a text that has no plan.

Sources, read in November 2026: the README and the documentation of smartnoise-sql; the documentation of Qrlew, and the
queries of its Python package; BigQuery's pages on differentially private queries and aggregate functions; the tutorials
of Tumult Analytics.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """An example; `adapted` is the text to run in its place."""

    source: str
    text: str
    adapted: str | None = None
    refused: str | None = None


SCHEMA = "SCHEMA is not supported in TABLE. Leave it out"  # PUMS.PUMS
CLAUSE = "privacy parameters are not read from the query"
_OPTIONS = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=10, delta=.01, max_groups_contributed=1, privacy_unit_column=id)"


def _pums(text: str) -> Example:
    """Return an example of SmartNoise, whose table has a schema in the text."""
    return Example("SmartNoise", text, adapted=text.replace("PUMS.PUMS", "PUMS"))


def _bigquery(aggregate: str, plain: str, condition: str = "") -> Example:
    """Return an example of BigQuery, without its clause and with bounds that the table declares."""
    rest = f" FROM professors {condition}GROUP BY item"
    return Example("BigQuery", f"SELECT {_OPTIONS} item, {aggregate}{rest}", adapted=f"SELECT item, {plain}{rest}")


EXAMPLES = [
    # SmartNoise
    _pums("SELECT sex, AVG(age) AS age FROM PUMS.PUMS GROUP BY sex"),
    _pums("SELECT COUNT(*) FROM PUMS.PUMS"),
    _pums("SELECT AVG(age), AVG(income) FROM PUMS.PUMS"),
    _pums("SELECT COUNT(*) AS n, SUM(age) AS age FROM PUMS.PUMS"),
    _pums("SELECT married, AVG(income) AS income, COUNT(*) AS n FROM PUMS.PUMS GROUP BY married"),
    _pums("SELECT COUNT(*) AS n, COUNT(pid) AS foo FROM PUMS.PUMS WHERE age > 80 GROUP BY educ"),
    _pums("SELECT educ, COUNT(*) AS n FROM PUMS.PUMS GROUP BY educ"),
    _pums("SELECT COUNT(DISTINCT pid) AS n, VARIANCE(age) AS v, STDDEV(income) AS s FROM PUMS.PUMS"),
    Example(
        "SmartNoise",
        "SELECT age, sex, COUNT(*) AS n, SUM(income) AS income FROM PUMS GROUP BY age, sex HAVING income > 100000",
        refused="the name income is already taken",
    ),
    # Qrlew
    Example("Qrlew", "SELECT a, count(abs(10*a+b)) AS x FROM table_1 WHERE b>-0.1 AND a IN (1,2,3) GROUP BY a"),
    Example("Qrlew", "SELECT SUM(education_num * age + 4 + LOG(age + 2)) AS my_sum FROM census"),
    Example(
        "Qrlew",
        "SELECT COUNT(*) AS count_all, SUM(education_num) AS sum_education_num, AVG(education_num) AS "
        "avg_education_num, VARIANCE(education_num) AS var_education_num, STDDEV(education_num) AS "
        "stddev_education_num FROM census WHERE education_num > 0 AND education_num < 15",
    ),
    Example(
        "Qrlew",
        "SELECT sex, SUM(capital_loss / 10000) AS my_sum, SUM(education_num) AS sum_education_num FROM census GROUP BY "
        "sex HAVING NOT ( sex = 'Female' ) ORDER BY my_sum DESC LIMIT 10",
    ),
    Example("Qrlew", "SELECT POWER(AVG(age), 2) AS my_res FROM census"),
    Example(
        "Qrlew",
        "SELECT CASE WHEN age > 80 THEN 1 ELSE 0 END As my_age, SUM(age) AS my_sum FROM census GROUP BY "
        "marital_status, CASE WHEN age > 80 THEN 1 ELSE 0 END ORDER BY my_sum",
    ),
    Example(
        "Qrlew",
        "SELECT native_country, COUNT(*) AS my_count FROM census WHERE native_country NOT IN ('Holand-Netherlands', "
        "'Cuba', 'Italy', 'England') GROUP BY native_country",
    ),
    Example("Qrlew", "SELECT UPPER(marital_status) AS m, COUNT(*) AS my_count FROM census GROUP BY marital_status"),
    Example(
        "Qrlew",
        "SELECT CONCAT(age, marital_status) AS m , COUNT(*) AS my_count FROM census GROUP BY age, marital_status",
    ),
    Example("Qrlew", "SELECT POSITION('m' in education) AS m , COUNT(*) AS my_count FROM census GROUP BY education"),
    Example(
        "Qrlew",
        "SELECT age, 3 * COUNT(*) AS c1, CASE WHEN COUNT(*) > 10 THEN 'large' ELSE 'small' END AS c2, COUNT(*) AS c3 "
        "FROM census GROUP BY age",
    ),
    Example("Qrlew", "SELECT age, COUNT(*) AS count_all FROM census GROUP BY age LIMIT 20 OFFSET 1"),
    Example(
        "Qrlew",
        "SELECT sex, COUNT(DISTINCT age) AS my_count, SUM(DISTINCT age) AS my_age FROM census GROUP BY sex",
        refused="DISTINCT is supported in COUNT(DISTINCT x) only",
    ),
    Example(
        "Qrlew",
        "SELECT AVG(grouped_sum_age) AS res FROM (SELECT SUM(capital_loss) AS grouped_sum_age FROM census GROUP BY "
        "age) AS subquery",
    ),
    # BigQuery
    _bigquery("COUNT(*) times_requested", "COUNT(*) times_requested"),
    _bigquery("COUNT(item, contribution_bounds_per_group => (0,100)) times_requested", "COUNT(item) times_requested"),
    _bigquery("SUM(quantity, contribution_bounds_per_group => (0,100)) quantity", "SUM(quantity) total"),
    _bigquery("AVG(quantity, contribution_bounds_per_group => (0,100)) average_quantity", "AVG(quantity) average"),
    _bigquery(
        "VAR_POP(quantity, contribution_bounds_per_row => (0,100)) pop_variance",
        "VAR_POP(LEAST(GREATEST(quantity, 0), 100)) pop_variance",
    ),
    _bigquery(
        "PERCENTILE_CONT(quantity, 0.5, contribution_bounds_per_row => (0,100)) percentile_requested",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY quantity) percentile_requested",
    ),
    _bigquery("APPROX_COUNT_DISTINCT(quantity) quantities", "APPROX_COUNT_DISTINCT(quantity) quantities"),
    # Tumult Analytics
    Example("Tumult", "SELECT age, COUNT(id) FROM members WHERE age >= 80 GROUP BY age"),
    Example("Tumult", "SELECT education_level, AVG(age) AS age_average FROM members GROUP BY education_level"),
    Example(
        "Tumult",
        "SELECT education_level, QUANTILE_CONT(books_borrowed, [0.25, 0.5, 0.75]) AS quantiles FROM members GROUP BY "
        "education_level",
    ),
    Example(
        "Tumult",
        "SELECT CONCAT(age // 10 * 10, '-', age // 10 * 10 + 9) AS binned_age, gender, COUNT(*) AS n FROM members "
        "GROUP BY age // 10, gender",
    ),
    Example(
        "Tumult",
        "SELECT genre, COUNT(*) AS n FROM (SELECT UNNEST(STRING_SPLIT(favorite_genres, ';')) AS genre FROM members) AS "
        "t GROUP BY genre",
        refused="Use GROUP BY, or join a public table",
    ),
    Example(
        "Tumult",
        "SELECT City, COUNT(*) AS n FROM members JOIN zips ON members.zip_code = zips.zip_code GROUP BY City "
        "ORDER BY n DESC",
    ),
]
