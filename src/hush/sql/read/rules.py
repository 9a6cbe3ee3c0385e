"""The allow-list: the nodes that may occur in an expression, and the rule that translates each.

Importing this module fills `RULES` and `PARTS` of `hush.sql.read.translator`. To support another function, add its rule
here, its text to `hush.sql.write.dialects`, and, if it may follow the release, its value to
`hush.sql.syntax.output`. A rule must be total on every engine, and a function of one row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.functions.conversions import cast, date_part_function, extract, truncate
from hush.sql.read.functions.moments import date_add, date_difference, days_between, last_day, shifted, shifted_days
from hush.sql.read.functions.texts import (
    concat,
    concat_with_separator,
    contains,
    left,
    like,
    position,
    regexp_extract,
    regexp_match,
    regexp_replace,
    replaced,
    right,
    similar,
    split_part,
    starts_with,
    substring,
    text_function,
    trim,
)
from hush.sql.read.functions.zones import at_time_zone, convert, datetime_there, moment_there
from hush.sql.read.translator import NUMBERS, PARTS, RULES, Rule, Translator
from hush.sql.syntax.expression import NULL, Expr, literal, numeric, union
from hush.sql.syntax.reasons import reason


def _literal(translate: Translator, node: exp.Literal) -> Expr:
    """Translate a number or a text. The size of numbers is limited, so that a few products stay in range."""
    if node.is_string:
        if "\x00" in node.this:
            raise translate.refuse(node, "text with a NUL character is not supported")
        return literal(node.this, ColumnKind.TEXT)
    try:
        value = float(node.this)
    except ValueError:
        raise translate.refuse(node, "this is not a decimal number", "Write digits, such as 12.5") from None
    if not abs(value) <= 1e50:
        raise translate.refuse(node, "numbers beyond 1e50 are not supported")
    if 0 < abs(value) < 1 / 1e50:  # products of such numbers underflow, which PostgreSQL raises
        raise translate.refuse(node, "numbers closer to 0 than 1e-50 are not supported", "Write 0")
    if node.this.isdecimal() and value <= 2**62:
        return literal(int(node.this), ColumnKind.INT)
    return literal(value, ColumnKind.FLOAT)


def _negated(translate: Translator, node: exp.Neg) -> Expr:
    """Translate -x. A negative constant stays a constant."""
    inner = translate(node.this)
    if inner.op == "literal" and inner.kind in NUMBERS:
        return literal(-inner.value, inner.kind)
    return numeric("neg", translate.as_number(inner, node.this))


def _arithmetic(op: str) -> Rule:
    """Return the rule of an operator on two numbers."""

    def rule(translate: Translator, node: exp.Binary) -> Expr:
        return numeric(op, translate.number(node.this), translate.number(node.expression))

    return rule


def _sum_or_difference(op: str, sign: int) -> Rule:
    """Return the rule of + or -, which take dates as well as numbers."""

    def rule(translate: Translator, node: exp.Binary) -> Expr:
        if isinstance(node.this, exp.Interval) or isinstance(node.expression, exp.Interval):
            return shifted(translate, node, sign=sign)
        left, right = translate(node.this), translate(node.expression)
        if left.kind is ColumnKind.DATE and right.op == "literal" and right.kind is ColumnKind.INT:
            return shifted_days(translate, node, left, sign * right.value)
        if sign == -1 and left.kind is right.kind is ColumnKind.DATE:
            return days_between(left, right)
        return numeric(op, translate.as_number(left, node.this), translate.as_number(right, node.expression))

    return rule


def _truncated(number: Expr) -> Expr:
    """Return a number without its decimals."""
    down, up = numeric("floor", number), numeric("ceil", number)
    is_positive = Expr("ge", ColumnKind.BOOL, (number, literal(0.0, ColumnKind.FLOAT)))
    return Expr("case", ColumnKind.FLOAT, (is_positive, down, up), **union((down, up)))


def _integer_division(translate: Translator, node: exp.IntDiv) -> Expr:
    """Translate x // y of integers, which rounds towards 0."""
    sides = translate.number(node.this), translate.number(node.expression)
    if not all(side.integral for side in sides):
        raise translate.refuse(node, "// takes integers", "Write FLOOR(a / b)")
    return _truncated(numeric("div", *sides))


def _sign(translate: Translator, node: exp.Sign) -> Expr:
    """Translate SIGN(x)."""
    number, zero = translate.number(node.this), literal(0.0, ColumnKind.FLOAT)
    parts: list[Expr] = []
    for comparison, value in (("gt", 1.0), ("lt", -1.0), ("eq", 0.0)):
        parts += [Expr(comparison, ColumnKind.BOOL, (number, zero)), literal(value, ColumnKind.FLOAT)]
    return Expr("case", ColumnKind.FLOAT, (*parts, NULL), low=-1.0, high=1.0, integral=True)


def _logarithm(translate: Translator, node: exp.Log) -> Expr:
    """Translate LOG(x), to base 10, and LOG(base, x)."""
    base, number = (10.0, node.this) if node.expression is None else (None, node.expression)
    base = base or float(translate.constant(node.this, int, float))
    if not 1 < base <= 1e50:
        raise translate.refuse(node, "LOG takes a constant base of more than 1")
    return numeric("div", numeric("ln", translate.number(number)), literal(math.log(base), ColumnKind.FLOAT))


def _comparison(op: str) -> Rule:
    """Return the rule of an operator that compares two values of one kind."""

    def rule(translate: Translator, node: exp.Binary) -> Expr:
        return Expr(op, ColumnKind.BOOL, translate.same_kind([node.this, node.expression]))

    return rule


def _logic(op: str) -> Rule:
    """Return the rule of AND or OR."""

    def rule(translate: Translator, node: exp.Connector) -> Expr:
        return Expr(op, ColumnKind.BOOL, (translate.condition(node.this), translate.condition(node.expression)))

    return rule


def _numeric_function(op: str) -> Rule:
    """Return the rule of a function of one number."""

    def rule(translate: Translator, node: exp.Func) -> Expr:
        return numeric(op, translate.number(node.this))

    return rule


def _round(translate: Translator, node: exp.Round) -> Expr:
    """Translate ROUND(x, digits)."""
    digits = 0 if node.args.get("decimals") is None else translate.constant(node.args["decimals"], int)
    if not 0 <= digits <= 15:
        raise translate.refuse(node, "ROUND takes a constant number of digits from 0 to 15")
    return numeric("round", translate.number(node.this), value=digits)


def _power(translate: Translator, node: exp.Pow) -> Expr:
    """Translate POW(x, n) as a product, which every engine computes alike."""
    exponent = translate.constant(node.expression, int)
    if not 1 <= exponent <= 8:
        raise translate.refuse(
            node, "POW takes a constant exponent from 1 to 8", "Other powers can overflow, or have no value"
        )
    base = translate.number(node.this)
    power = base
    for _ in range(exponent - 1):
        power = numeric("mul", power, base)
    # Interval arithmetic does not know that both factors are the same: an even power is at least 0.
    low = 0.0 if exponent % 2 == 0 else power.low
    return replace(power, low=max(low, power.low))


def _variadic(op: str) -> Rule:
    """Return the rule of COALESCE, LEAST or GREATEST."""

    def rule(translate: Translator, node: exp.Func) -> Expr:
        parts = translate.same_kind([node.this, *node.expressions])
        kind = next((part.kind for part in parts if part.kind is not ColumnKind.NULL), ColumnKind.NULL)
        if op == "coalesce":
            return Expr(op, kind, parts, **union(parts))
        if kind in NUMBERS:
            return replace(numeric(op, *parts), kind=kind)
        return Expr(op, kind, parts)

    return rule


def _nullif(translate: Translator, node: exp.Nullif) -> Expr:
    """Translate NULLIF(x, y). Its values are those of x."""
    left, right = translate.same_kind([node.this, node.expression])
    return Expr("nullif", left.kind, (left, right), low=left.low, high=left.high, integral=left.integral)


def _case(translate: Translator, node: exp.Case) -> Expr:
    """Translate CASE. A CASE with an operand, CASE x WHEN 1, becomes CASE WHEN x = 1."""
    conditions = []
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this is not None:
            condition = exp.EQ(this=node.this.copy(), expression=condition.copy())
            condition.parent = node
        conditions.append(translate.condition(condition))
    default = node.args.get("default") or exp.Null()
    values = translate.same_kind([*[branch.args["true"] for branch in node.args["ifs"]], default])
    return _choice(tuple(conditions), values)


def _if(translate: Translator, node: exp.If) -> Expr:
    """Translate IF(condition, x, y), which is a CASE."""
    return _choice(
        (translate.condition(node.this),),
        translate.same_kind([node.args["true"], node.args.get("false") or exp.Null()]),
    )


def _choice(conditions: tuple[Expr, ...], values: tuple[Expr, ...]) -> Expr:
    """Return a CASE from its conditions and values; the last value is the default."""
    kind = next((part.kind for part in values if part.kind is not ColumnKind.NULL), ColumnKind.NULL)
    pairs = [part for pair in zip(conditions, values, strict=False) for part in pair]
    return Expr("case", kind, (*pairs, values[-1]), **union(values))


def _is(translate: Translator, node: exp.Is) -> Expr:
    """Translate IS NULL, IS TRUE and IS FALSE, which are never NULL, and their negations."""
    inner, right = translate(node.this), node.expression
    if isinstance(right, exp.Null):
        op = "is_null"
    elif isinstance(right, exp.Boolean) and inner.kind is ColumnKind.BOOL:
        op = "is_true" if right.this else "is_false"
    else:
        raise translate.refuse(node, "IS takes NULL, TRUE or FALSE")
    test = Expr(op, ColumnKind.BOOL, (inner,))
    # In PostgreSQL's dialect, NOT is a part of the node; elsewhere it is a node of its own.
    return Expr("not", ColumnKind.BOOL, (test,)) if node.args.get("negate") else test


def _between(translate: Translator, node: exp.Between) -> Expr:
    """Translate x BETWEEN low AND high."""
    return Expr("between", ColumnKind.BOOL, translate.same_kind([node.this, node.args["low"], node.args["high"]]))


def _in(translate: Translator, node: exp.In) -> Expr:
    """Translate x IN (1, 2). Only constants may be listed: a subquery could depend on other units."""
    if node.args.get("query") is not None:
        raise translate.refuse(node.args["query"], *reason(exp.Subquery()))
    for item in node.expressions:
        translate.constant(item, object)
    return Expr("in", ColumnKind.BOOL, translate.same_kind([node.this, *node.expressions]))


def _null_safe(translate: Translator, node: exp.Binary) -> Expr:
    """Translate x IS NOT DISTINCT FROM y, which is never NULL."""
    sides = translate.same_kind([node.this, node.expression])
    missing = (Expr("is_null", ColumnKind.BOOL, (side,)) for side in sides)
    equal = Expr("is_true", ColumnKind.BOOL, (Expr("eq", ColumnKind.BOOL, sides),))
    return Expr("or", ColumnKind.BOOL, (equal, Expr("and", ColumnKind.BOOL, tuple(missing))))


# The rule of each node type.
_ALLOWED: Mapping[type[exp.Expr], Rule] = {
    exp.Literal: _literal,
    exp.Null: lambda translate, node: NULL,
    exp.Boolean: lambda translate, node: literal(bool(node.this), ColumnKind.BOOL),
    exp.Column: Translator.column,
    exp.Paren: lambda translate, node: translate(node.this),
    exp.Neg: _negated,
    exp.Add: _sum_or_difference("add", 1),
    exp.Sub: _sum_or_difference("sub", -1),
    exp.Mul: _arithmetic("mul"),
    exp.Div: _arithmetic("div"),
    exp.Mod: _arithmetic("mod"),
    exp.IntDiv: _integer_division,
    exp.EQ: _comparison("eq"),
    exp.NEQ: _comparison("ne"),
    exp.LT: _comparison("lt"),
    exp.LTE: _comparison("le"),
    exp.GT: _comparison("gt"),
    exp.GTE: _comparison("ge"),
    exp.And: _logic("and"),
    exp.Or: _logic("or"),
    exp.Not: lambda translate, node: Expr("not", ColumnKind.BOOL, (translate.condition(node.this),)),
    exp.Is: _is,
    exp.TsOrDsToDate: lambda translate, node: translate.moment(node.this),  # Spark's YEAR(x) is YEAR(TO_DATE(x))
    exp.Between: _between,
    exp.NullSafeEQ: _null_safe,
    exp.NullSafeNEQ: lambda translate, node: Expr("not", ColumnKind.BOOL, (_null_safe(translate, node),)),
    exp.In: _in,
    exp.Like: like("like"),
    exp.ILike: like("ilike"),
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _variadic("coalesce"),
    exp.Least: _variadic("least"),
    exp.Greatest: _variadic("greatest"),
    exp.Nullif: _nullif,
    exp.Cast: cast,
    exp.TryCast: cast,
    exp.Abs: _numeric_function("abs"),
    exp.Floor: _numeric_function("floor"),
    exp.Ceil: _numeric_function("ceil"),
    exp.Sqrt: _numeric_function("sqrt"),
    exp.Ln: _numeric_function("ln"),
    exp.Log: _logarithm,
    exp.Sign: _sign,
    exp.Trunc: lambda translate, node: _truncated(translate.number(node.this)),
    exp.Exp: _numeric_function("exp"),
    exp.Round: _round,
    exp.Pow: _power,
    exp.Lower: text_function("lower"),
    exp.Upper: text_function("upper"),
    exp.Trim: trim,
    exp.Length: text_function("length"),
    exp.Substring: substring,
    exp.Left: left,
    exp.Right: right,
    exp.StartsWith: starts_with,
    exp.Contains: contains,
    exp.StrPosition: position,
    exp.SplitPart: split_part,
    exp.Replace: replaced,
    exp.RegexpLike: regexp_match(),
    exp.RegexpILike: regexp_match(ignore_case=True),
    exp.RegexpFullMatch: regexp_match(whole=True),
    exp.SimilarTo: similar,
    exp.RegexpExtract: regexp_extract(missing=""),
    exp.RegexpSubstr: regexp_extract(missing=None),
    exp.RegexpReplace: regexp_replace,
    exp.Concat: concat,
    exp.DPipe: concat,
    exp.ConcatWs: concat_with_separator,
    exp.Extract: extract,
    exp.Year: date_part_function("year"),
    exp.Quarter: date_part_function("quarter"),
    exp.Month: date_part_function("month"),
    exp.Day: date_part_function("day"),
    exp.Week: date_part_function("week"),
    exp.WeekOfYear: date_part_function("week"),
    exp.DayOfMonth: date_part_function("day"),
    exp.DayOfYear: date_part_function("dayofyear"),
    exp.DayOfWeekIso: date_part_function("isodow"),
    exp.Hour: date_part_function("hour"),
    exp.Minute: date_part_function("minute"),
    exp.LastDay: last_day,
    exp.DateAdd: partial(shifted, sign=1),
    exp.DateSub: partial(shifted, sign=-1),
    exp.TsOrDsAdd: date_add,
    exp.DateDiff: date_difference,
    exp.TimestampTrunc: truncate,
    exp.DateTrunc: truncate,
    exp.DatetimeTrunc: truncate,
    exp.AtTimeZone: at_time_zone,
    exp.ConvertTimezone: convert,
    exp.Datetime: datetime_there,
    exp.Date: datetime_there,
    exp.Timestamp: moment_there,
}

# The parts that a node may have, if not ("this", "expression"). Each rule above reads all of them, or they do not
# matter.
_ALLOWED_PARTS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Literal: ("this", "is_string"),
    exp.Column: ("this", "table"),
    exp.Div: ("this", "expression", "typed", "safe"),
    exp.Is: ("this", "expression", "negate"),
    exp.TsOrDsToDate: ("this",),
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions", "query"),  # the rule refuses a query
    exp.Like: ("this", "expression", "negate"),
    exp.ILike: ("this", "expression", "negate"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Coalesce: ("this", "expressions"),
    exp.Least: ("this", "expressions", "ignore_nulls"),
    exp.Greatest: ("this", "expressions", "ignore_nulls"),
    exp.Cast: ("this", "to", "_type"),
    exp.TryCast: ("this", "to", "_type", "safe", "requires_string"),
    exp.Round: ("this", "decimals", "casts_non_integer_decimals"),
    exp.Length: ("this", "binary"),
    exp.Left: ("this", "expression", "negative_length_returns_empty"),
    exp.Right: ("this", "expression", "negative_length_returns_empty"),
    exp.Trim: ("this", "position"),
    exp.Trunc: ("this",),
    # What Snowflake does with positions and parts of 0 and with empty separators, none of which the rules take.
    exp.StrPosition: ("this", "substr", "clamp_position"),
    exp.SplitPart: ("this", "delimiter", "part_index", "part_index_zero_as_one", "empty_delimiter_returns_whole"),
    exp.Replace: ("this", "expression", "replacement"),
    exp.RegexpLike: ("this", "expression", "flag"),
    exp.RegexpILike: ("this", "expression"),
    exp.RegexpFullMatch: ("this", "expression", "options"),
    exp.RegexpExtract: ("this", "expression", "group", "parameters", "null_if_pos_overflow"),
    exp.RegexpReplace: ("this", "expression", "replacement", "modifiers", "single_replace"),
    exp.ConcatWs: ("expressions", "safe", "coalesce", "flatten"),
    exp.LastDay: ("this",),
    exp.TsOrDsAdd: ("this", "expression", "unit"),
    exp.DateDiff: ("this", "expression", "unit", "date_part_boundary"),
    exp.Substring: ("this", "start", "length", "zero_start"),
    exp.Concat: ("expressions", "safe", "coalesce"),
    exp.DPipe: ("this", "expression", "safe"),
    exp.TimestampTrunc: ("this", "unit", "_type", "input_type_preserved"),
    exp.DateTrunc: ("this", "unit", "_type", "input_type_preserved"),
    exp.DatetimeTrunc: ("this", "unit"),
    exp.AtTimeZone: ("this", "zone"),
    exp.ConvertTimezone: ("source_tz", "target_tz", "timestamp"),
    exp.Date: ("this", "zone"),
    exp.Timestamp: ("this", "zone", "with_tz"),
}

RULES.update(_ALLOWED)
PARTS.update(_ALLOWED_PARTS)
