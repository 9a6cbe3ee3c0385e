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
    exp.Any: _SUBQUERY,
    exp.All: _SUBQUERY,
    exp.Union: _SET,
    exp.Intersect: _SET,
    exp.Except: _SET,
    exp.Window: _WINDOW,
    exp.Star: ("* asks for rows, and only aggregates are released", "Use COUNT(*), or name keys and aggregates"),
    exp.Placeholder: ("a parameter has no value here", "Write the value itself"),
    exp.Parameter: ("a parameter has no value here", "Write the value itself"),
    exp.IntDiv: ("// is not supported", "Write FLOOR(a / b)"),
    exp.Interval: ("arithmetic with intervals can overflow on extreme dates", "Compare with constant dates"),
    exp.Filter: ("FILTER is not supported", "Write SUM(CASE WHEN condition THEN 1 ELSE 0 END), or a WHERE"),
    exp.Distinct: ("DISTINCT is supported as COUNT(DISTINCT unit) only", "Group by the value instead"),
    exp.Unnest: ("functions that return rows are refused", "Group by, or join a public table"),
    exp.Explode: ("functions that return rows are refused", "Group by, or join a public table"),
    exp.Hint: ("hints are not supported", "Leave it out"),
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
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return _CHANGING if str(node.this).lower() in _CHANGING_NAMES else unknown(str(node.this))
    if isinstance(node, exp.AggFunc):
        return (f"{node.sql_name()}: {_AGGREGATE[0]}", _AGGREGATE[1])
    if isinstance(node, exp.Func):
        return unknown(node.sql_name())
    if isinstance(node, (exp.DDL, exp.DML, exp.Command)):
        return _STATEMENT
    return (f"{type(node).__name__} is not supported", "Supported: arithmetic, comparisons, CASE and listed functions")


def unknown(name: str) -> tuple[str, ...]:
    """Return the refusal of a function that is not on the list."""
    shown = name if name.isidentifier() and len(name) <= 40 else "this function"
    why = "it could raise on data, read files, or depend on other rows"
    return (f"{shown} is not on the list of functions: {why}", "See hush.statistics.sql for the list")


def statement(node: exp.Expr | None) -> tuple[str, ...]:
    """Return the refusal of a statement that is no SELECT."""
    return _SET if isinstance(node, exp.SetOperation) else _STATEMENT
