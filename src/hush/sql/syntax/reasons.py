"""Why a part of a query is refused, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

_CHANGING = ("its result changes from run to run, so that no plan with a fixed sensitivity exists", "Use a constant")
_SUBQUERY = (
    "a subquery within an expression is refused: whether it holds for one unit could depend on others",
    "Join the table instead: on the unit, or with a public table",
)
_SET = ("sets of queries are refused: a unit could contribute through each part", "Ask each part as a question")
_WINDOW = (
    "window functions are refused: a row's value would depend on other units' rows",
    "Aggregate per unit in a subquery: SELECT unit, SUM(x) ... GROUP BY unit",
)
_AGGREGATE = (
    "an aggregate is not possible here",
    "Aggregates stand in SELECT, HAVING and ORDER BY, and not within each other",
)
_GROUPINGS = ("ROLLUP, CUBE and GROUPING SETS are not supported", "Ask a question for each grouping")
_STATEMENT = ("only a SELECT is answered", "Write one SELECT with aggregates")

_REASONS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Rand: _CHANGING,
    exp.Randn: _CHANGING,
    exp.Uuid: _CHANGING,
    exp.CurrentDate: _CHANGING,
    exp.CurrentTime: _CHANGING,
    exp.CurrentTimestamp: _CHANGING,
    exp.CurrentDatetime: _CHANGING,
    exp.CurrentUser: _CHANGING,
    exp.Subquery: _SUBQUERY,
    exp.Select: _SUBQUERY,
    exp.Exists: _SUBQUERY,
    exp.Union: _SET,
    exp.Intersect: _SET,
    exp.Except: _SET,
    exp.Window: _WINDOW,
    exp.Star: ("* asks for rows, and only aggregates are released", "Use COUNT(*), or name keys and aggregates"),
    exp.Placeholder: ("a parameter has no value here", "Write the value itself"),
    exp.Parameter: ("a parameter has no value here", "Write the value itself"),
    exp.IntDiv: ("// is not supported", "Write FLOOR(a / b)"),
    exp.Interval: ("arithmetic with intervals can overflow on extreme dates", "Compare with constant dates"),
    exp.Rollup: _GROUPINGS,
    exp.Cube: _GROUPINGS,
    exp.GroupingSets: _GROUPINGS,
    exp.Distinct: ("DISTINCT is supported as COUNT(DISTINCT unit) only", "Group by the value instead"),
    exp.Unnest: ("functions that return rows are refused", "Group by, or join a public table"),
    exp.Explode: ("functions that return rows are refused", "Group by, or join a public table"),
    exp.Hint: ("hints are not supported", "Leave it out"),
}
_KNOWN = (
    exp.Count,
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
)
_PRODUCTS = "Release AVG(x * y), AVG(x) and AVG(y), and compute it from these"
_OTHER_AGGREGATES: Mapping[type[exp.Expr], str] = {
    exp.Corr: _PRODUCTS,
    exp.CovarPop: _PRODUCTS,
    exp.CovarSamp: _PRODUCTS,
    exp.CountIf: "Write SUM(CASE WHEN condition THEN 1 ELSE 0 END)",
    exp.Mode: "Group by the value, with ORDER BY COUNT(*) DESC LIMIT 1",
    exp.ApproxDistinct: "COUNT(DISTINCT unit) counts units; group by other values",
    exp.ApproxQuantile: "Write QUANTILE_CONT(x, 0.5)",
}
_CHANGING_NAMES = (
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
    """Return why a node that no rule takes is refused: what it is, and the supported form."""
    for kind, words in _REASONS.items():
        if isinstance(node, kind):
            return words
    if isinstance(node, (exp.Any, exp.All)):
        return _SUBQUERY if node.find(exp.Query) else ("ANY and ALL are not supported", "Write x IN (1, 2)")
    if isinstance(node, exp.Filter):
        return _filter(node)
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        if str(node.this).lower() in ("quantile_cont", "quantile_disc", "quantile"):  # where a dialect lacks them
            return (f"{node.this} is not known here", "Write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)")
        return _CHANGING if str(node.this).lower() in _CHANGING_NAMES else unknown(str(node.this))
    if isinstance(node, exp.AggFunc):
        return _aggregate(node)
    if isinstance(node, exp.Func):
        return unknown(node.sql_name())
    if isinstance(node, (exp.DDL, exp.DML, exp.Command)):
        return _STATEMENT
    return (f"{type(node).__name__} is not supported", "Supported: arithmetic, comparisons, CASE and listed functions")


def _aggregate(node: exp.AggFunc) -> tuple[str, ...]:
    """Return why an aggregate is refused: for its place, if it is one of those that there are."""
    if isinstance(node, _KNOWN) and type(node) not in _OTHER_AGGREGATES:
        return (f"{node.sql_name()}: {_AGGREGATE[0]}", _AGGREGATE[1])
    usual = "Aggregates: COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN, QUANTILE_CONT"
    return (f"{node.sql_name()} is not supported", _OTHER_AGGREGATES.get(type(node), usual))


def _filter(node: exp.Filter) -> tuple[str, ...]:
    counts = node.this is None or isinstance(node.this, exp.Count)
    name = "AVG" if isinstance(node.this, exp.Avg) else "SUM"
    inner = "SUM(CASE WHEN condition THEN 1 ELSE 0 END)" if counts else f"{name}(CASE WHEN condition THEN x END)"
    return ("FILTER is not supported", f"Write {inner}, or a WHERE")


def unknown(name: str) -> tuple[str, ...]:
    """Return the refusal of a function that is not on the list."""
    shown = name if name.isidentifier() and len(name) <= 40 else "this function"
    why = "it could raise on data, read files, or depend on other rows"
    return (f"{shown} is not on the list of functions: {why}", "See hush.sql for the list")


def statement(node: exp.Expr | None) -> tuple[str, ...]:
    """Return the refusal of a statement that is no SELECT."""
    return _SET if isinstance(node, exp.SetOperation) else _STATEMENT
