"""Why hush refuses a part of a query, and what to write instead.

The allow-list (`hush.sql.read.rules`) decides what is refused: everything without a rule. This module only explains
refusals. Each reason is a tuple: the problem, then advice. `hush.sql.syntax.refusal.Refuser` adds the line and the
column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

_NOT_DETERMINISTIC = ("its result changes from run to run, so its sensitivity has no bound", "Use a constant")
_SUBQUERY = (
    "a subquery inside an expression is supported in WHERE only",
    "Join the table instead: on the unit, or with a public table",
)
_SET_OPERATION = (
    "UNION, INTERSECT and EXCEPT are refused here: a unit could contribute through each part",
    "Write UNION ALL in a subquery, or ask each part as a query of its own",
)
_WINDOW = (
    "window functions over rows are refused here: a row's value would depend on other units' rows",
    "In a subquery, write PARTITION BY the unit; or write a window over keys and aggregates: RANK() OVER (ORDER BY "
    "COUNT(*))",
)
_MISPLACED_AGGREGATE = (
    "an aggregate is not allowed here",
    "Use aggregates in SELECT, HAVING and ORDER BY, and do not nest them",
)
_GROUPING_SETS = ("ROLLUP, CUBE and GROUPING SETS are supported in the outer query only", "Group by the unit here")
_NOT_A_SELECT = ("only SELECT statements are answered", "Write one SELECT with aggregates")
_FILTER = (
    "FILTER is supported after COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN and QUANTILE_CONT, without DISTINCT",
    "Use WHERE, or a CASE inside the aggregate",
)
_PARAMETER = ("query parameters are not supported", "Write the value itself")
_TABLE_FUNCTION = ("functions that return rows are refused", "Use GROUP BY, or join a public table")

_REASONS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Rand: _NOT_DETERMINISTIC,
    exp.Randn: _NOT_DETERMINISTIC,
    exp.Uuid: _NOT_DETERMINISTIC,
    exp.CurrentDate: _NOT_DETERMINISTIC,
    exp.CurrentTime: _NOT_DETERMINISTIC,
    exp.CurrentTimestamp: _NOT_DETERMINISTIC,
    exp.CurrentDatetime: _NOT_DETERMINISTIC,
    exp.CurrentUser: _NOT_DETERMINISTIC,
    exp.Subquery: _SUBQUERY,
    exp.Select: _SUBQUERY,
    exp.Exists: _SUBQUERY,
    exp.Union: _SET_OPERATION,
    exp.Intersect: _SET_OPERATION,
    exp.Except: _SET_OPERATION,
    exp.Window: _WINDOW,
    exp.Star: ("* would return rows, and only aggregates are released", "Use COUNT(*), or name keys and aggregates"),
    exp.Placeholder: _PARAMETER,
    exp.Parameter: _PARAMETER,
    exp.Interval: ("an interval is supported where it is added to a date", "Write d + INTERVAL 3 DAY"),
    exp.DayOfWeek: ("engines number the days of a week differently", "Use EXTRACT(ISODOW FROM d): 1 is Monday"),
    exp.Rollup: _GROUPING_SETS,
    exp.Cube: _GROUPING_SETS,
    exp.GroupingSets: _GROUPING_SETS,
    exp.Distinct: ("DISTINCT is supported in COUNT(DISTINCT x) only", "Group by the value instead"),
    exp.Unnest: _TABLE_FUNCTION,
    exp.Explode: _TABLE_FUNCTION,
    exp.Hint: ("hints are not supported", "Leave it out"),
}
# Aggregates that are supported, in the right place.
_SUPPORTED_AGGREGATES = (
    exp.Count,
    exp.CountIf,
    exp.Sum,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.Median,
    exp.Variance,
    exp.VariancePop,
    exp.Stddev,
    exp.StddevSamp,
    exp.StddevPop,
    exp.Quantile,
    exp.PercentileCont,
    exp.PercentileDisc,
    exp.Corr,
    exp.CovarPop,
    exp.CovarSamp,
    exp.RegrSlope,
    exp.ApproxDistinct,
    exp.ApproxQuantile,
)
_SUBSTITUTES: Mapping[type[exp.Expr], str] = {
    exp.Mode: "Group by the value, with ORDER BY COUNT(*) DESC LIMIT 1",
}
# Clauses of BigQuery for differential privacy, which the parser does not know.
_CLAUSES_OF_BIGQUERY = {
    r"\bWITH\s+(DIFFERENTIAL_PRIVACY|ANONYMIZATION)\b": (
        "privacy parameters are not read from the query, so that none is stated twice",
        "Leave the clause out, and give epsilon=, delta= and groups_per_unit=; the table declares the unit",
    ),
    r"\bcontribution_bounds_per_(row|group)\b|\bCLAMPED\s+BETWEEN\b": (
        "bounds are those of the table, or a part of the expression",
        'Declare bounds={"x": (0, 100)}, or write AVG(LEAST(GREATEST(x, 0), 100))',
    ),
}
# Functions that the parser does not know by type.
_NOT_DETERMINISTIC_NAMES = (
    "now",
    "random",
    "gen_random_uuid",
    "nextval",
    "currval",
    "txid_current",
    "today",
    "setseed",
    "uuidv7",
)


def reason(node: exp.Expr) -> tuple[str, ...]:
    """Return why a node that has no rule is refused, and the supported form."""
    for node_type, words in _REASONS.items():
        if isinstance(node, node_type):
            return words
    if isinstance(node, (exp.Any, exp.All)):
        return _SUBQUERY if node.find(exp.Query) else ("ANY and ALL are not supported", "Write x IN (1, 2)")
    if isinstance(node, exp.Filter):
        return _FILTER
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return _unparsed_function_reason(str(node.this))
    if isinstance(node, exp.AggFunc):
        return _aggregate_reason(node)
    if isinstance(node, exp.Func):
        return unknown_function(node.sql_name())
    if isinstance(node, (exp.DDL, exp.DML, exp.Command)):
        return _NOT_A_SELECT
    return (
        f"{type(node).__name__} is not supported",
        "Use arithmetic, comparisons, CASE and the functions listed in hush.sql",
    )


def _unparsed_function_reason(name: str) -> tuple[str, ...]:
    """Return why a function that the parser has no type for is refused."""
    if name.lower() in ("quantile_cont", "quantile_disc", "quantile"):  # not in every dialect
        return (f"{name} is not known in this dialect", "Write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)")
    return _NOT_DETERMINISTIC if name.lower() in _NOT_DETERMINISTIC_NAMES else unknown_function(name)


def _aggregate_reason(node: exp.AggFunc) -> tuple[str, ...]:
    """Return why an aggregate is refused: for its place in the query, if it is a supported one."""
    if isinstance(node, _SUPPORTED_AGGREGATES) and type(node) not in _SUBSTITUTES:
        return (f"{node.sql_name()}: {_MISPLACED_AGGREGATE[0]}", _MISPLACED_AGGREGATE[1])
    supported = "Use COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN or QUANTILE_CONT"
    return (f"{node.sql_name()} is not supported", _SUBSTITUTES.get(type(node), supported))


def unknown_function(name: str) -> tuple[str, ...]:
    """Return the reason for refusing a function without a rule."""
    shown_name = name if name.isidentifier() and len(name) <= 40 else "this function"
    why = "it could fail on some rows, read files, or depend on other rows"
    return (f"{shown_name} is not on the list of supported functions: {why}", "See hush.sql for the list")


def clause_of_bigquery(text: str) -> tuple[int, tuple[str, str]] | None:
    """Return where a text that cannot be parsed has a clause of BigQuery, and the reason for refusing it.

    >>> clause_of_bigquery("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM people")[0]
    7
    """
    matches = [(re.search(pattern, text, re.IGNORECASE), words) for pattern, words in _CLAUSES_OF_BIGQUERY.items()]
    return next(((match.start(), words) for match, words in matches if match is not None), None)


def not_a_select(node: exp.Expr | None) -> tuple[str, ...]:
    """Return the reason for refusing a statement other than SELECT."""
    return _SET_OPERATION if isinstance(node, exp.SetOperation) else _NOT_A_SELECT
