"""What may stand in an expression: the allow-list, and how each node is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.conversions import cast, extract, named_part, truncate
from hush.sql.read.translate import NUMBERS, PARTS, RULES, Rule, Translator
from hush.sql.syntax.expression import NULL, Expr, literal, numeric, union
from hush.sql.syntax.reasons import reason


def _literal(to: Translator, node: exp.Literal) -> Expr:
    if node.is_string:
        if "\x00" in node.this:
            raise to.refuse(node, "text with a zero character is not supported")
        return literal(node.this, ColumnKind.TEXT)
    try:
        value = float(node.this)
    except ValueError:
        raise to.refuse(node, "this number cannot be read", "Write it in decimals") from None
    if not abs(value) <= 1e50:
        raise to.refuse(node, "a number beyond 1e50 is not supported")
    if 0 < abs(value) < 1 / 1e50:  # products of such would vanish, which PostgreSQL takes for an error
        raise to.refuse(node, "a number closer to 0 than 1e-50 is not supported", "Write 0")
    if node.this.isdecimal() and value <= 2**62:
        return literal(int(node.this), ColumnKind.INT)
    return literal(value, ColumnKind.FLOAT)


def _negated(to: Translator, node: exp.Neg) -> Expr:
    inner = to(node.this)
    if inner.op == "literal" and inner.kind in NUMBERS:
        return literal(-inner.value, inner.kind)
    return numeric("neg", to.as_number(inner, node.this))


def _arithmetic(op: str) -> Rule:
    def rule(to: Translator, node: exp.Binary) -> Expr:
        for side in (node.this, node.expression):
            if isinstance(side, exp.Interval):
                raise to.refuse(side, *reason(side))
        return numeric(op, to.number(node.this), to.number(node.expression))

    return rule


def _comparison(op: str) -> Rule:
    def rule(to: Translator, node: exp.Binary) -> Expr:
        return Expr(op, ColumnKind.BOOL, to.alike([node.this, node.expression]))

    return rule


def _logic(op: str) -> Rule:
    def rule(to: Translator, node: exp.Connector) -> Expr:
        return Expr(op, ColumnKind.BOOL, (to.truth(node.this), to.truth(node.expression)))

    return rule


def _function(op: str) -> Rule:
    def rule(to: Translator, node: exp.Func) -> Expr:
        return numeric(op, to.number(node.this))

    return rule


def _round(to: Translator, node: exp.Round) -> Expr:
    digits = 0 if node.args.get("decimals") is None else to.constant(node.args["decimals"], int)
    if not 0 <= digits <= 15:
        raise to.refuse(node, "ROUND to fewer than 0 or more than 15 digits is not supported")
    return numeric("round", to.number(node.this), value=digits)


def _power(to: Translator, node: exp.Pow) -> Expr:
    exponent = to.constant(node.expression, int)
    if not 1 <= exponent <= 8:
        raise to.refuse(
            node, "a power other than 1 to 8 is not supported", "Other powers can overflow, or have no value"
        )
    base, found = to.number(node.this), to.number(node.this)
    for _ in range(exponent - 1):
        found = numeric("mul", found, base)
    low = 0.0 if exponent % 2 == 0 else found.low
    return replace(found, low=max(low, found.low))


def _several(op: str) -> Rule:
    def rule(to: Translator, node: exp.Func) -> Expr:
        parts = to.alike([node.this, *node.expressions])
        kind = next((part.kind for part in parts if part.kind is not ColumnKind.NULL), ColumnKind.NULL)
        if op == "coalesce":
            return Expr(op, kind, parts, **union(parts))
        if kind in NUMBERS:
            return replace(numeric(op, *parts), kind=kind)
        return Expr(op, kind, parts)

    return rule


def _nullif(to: Translator, node: exp.Nullif) -> Expr:
    left, right = to.alike([node.this, node.expression])
    return Expr("nullif", left.kind, (left, right), low=left.low, high=left.high, whole=left.whole)


def _case(to: Translator, node: exp.Case) -> Expr:
    conditions = []
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this is not None:
            condition = exp.EQ(this=node.this.copy(), expression=condition.copy())
            condition.parent = node
        conditions.append(to.truth(condition))
    default = node.args.get("default") or exp.Null()
    values = to.alike([*[branch.args["true"] for branch in node.args["ifs"]], default])
    return _choice(tuple(conditions), values)


def _if(to: Translator, node: exp.If) -> Expr:
    return _choice((to.truth(node.this),), to.alike([node.args["true"], node.args.get("false") or exp.Null()]))


def _choice(conditions: tuple[Expr, ...], values: tuple[Expr, ...]) -> Expr:
    kind = next((part.kind for part in values if part.kind is not ColumnKind.NULL), ColumnKind.NULL)
    pairs = [part for pair in zip(conditions, values, strict=False) for part in pair]
    return Expr("case", kind, (*pairs, values[-1]), **union(values))


def _is(to: Translator, node: exp.Is) -> Expr:
    inner, right = to(node.this), node.expression
    if isinstance(right, exp.Null):
        return Expr("is_null", ColumnKind.BOOL, (inner,))
    if isinstance(right, exp.Boolean) and inner.kind is ColumnKind.BOOL:
        return Expr("is_true" if right.this else "is_false", ColumnKind.BOOL, (inner,))
    raise to.refuse(node, "IS is supported with NULL, TRUE and FALSE")


def _between(to: Translator, node: exp.Between) -> Expr:
    return Expr("between", ColumnKind.BOOL, to.alike([node.this, node.args["low"], node.args["high"]]))


def _in(to: Translator, node: exp.In) -> Expr:
    if node.args.get("query") is not None:
        raise to.refuse(node.args["query"], *reason(exp.Subquery()))
    for item in node.expressions:
        to.constant(item, object)
    return Expr("in", ColumnKind.BOOL, to.alike([node.this, *node.expressions]))


def _like(op: str) -> Rule:
    def rule(to: Translator, node: exp.Like) -> Expr:
        pattern = to.constant(node.expression, str)
        if "\\" in pattern:
            raise to.refuse(node.expression, "a pattern with a backslash is not supported", "Engines disagree about it")
        found = Expr(op, ColumnKind.BOOL, (to.text(node.this),), pattern)
        return Expr("not", ColumnKind.BOOL, (found,)) if node.args.get("negate") else found

    return rule


def _texts(op: str) -> Rule:
    def rule(to: Translator, node: exp.Func) -> Expr:
        inner = to.text(node.this)
        return numeric("length", inner) if op == "length" else Expr(op, ColumnKind.TEXT, (inner,))

    return rule


def _substring(to: Translator, node: exp.Substring) -> Expr:
    start = to.constant(node.args["start"], int)
    length = 10_000 if node.args.get("length") is None else to.constant(node.args["length"], int)
    if not (1 <= start <= 10_000 and 0 <= length <= 10_000):
        raise to.refuse(node, "SUBSTRING takes constants: a start from 1, a length from 0, both up to 10000")
    return Expr("substring", ColumnKind.TEXT, (to.text(node.this),), (start, length))


def _concat(to: Translator, node: exp.Expr) -> Expr:
    nodes = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    parts = tuple(to.text(part) for part in nodes)
    if node.args.get("coalesce"):  # the function, unlike the operator, leaves out what is missing
        parts = tuple(Expr("coalesce", ColumnKind.TEXT, (part, literal("", ColumnKind.TEXT))) for part in parts)
    return Expr("concat", ColumnKind.TEXT, parts)


_ALLOWED: Mapping[type[exp.Expr], Rule] = {
    exp.Literal: _literal,
    exp.Null: lambda to, node: NULL,
    exp.Boolean: lambda to, node: literal(bool(node.this), ColumnKind.BOOL),
    exp.Column: Translator.column,
    exp.Paren: lambda to, node: to(node.this),
    exp.Neg: _negated,
    exp.Add: _arithmetic("add"),
    exp.Sub: _arithmetic("sub"),
    exp.Mul: _arithmetic("mul"),
    exp.Div: _arithmetic("div"),
    exp.Mod: _arithmetic("mod"),
    exp.EQ: _comparison("eq"),
    exp.NEQ: _comparison("ne"),
    exp.LT: _comparison("lt"),
    exp.LTE: _comparison("le"),
    exp.GT: _comparison("gt"),
    exp.GTE: _comparison("ge"),
    exp.And: _logic("and"),
    exp.Or: _logic("or"),
    exp.Not: lambda to, node: Expr("not", ColumnKind.BOOL, (to.truth(node.this),)),
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like("like"),
    exp.ILike: _like("ilike"),
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _several("coalesce"),
    exp.Least: _several("least"),
    exp.Greatest: _several("greatest"),
    exp.Nullif: _nullif,
    exp.Cast: cast,
    exp.TryCast: cast,
    exp.Abs: _function("abs"),
    exp.Floor: _function("floor"),
    exp.Ceil: _function("ceil"),
    exp.Sqrt: _function("sqrt"),
    exp.Ln: _function("ln"),
    exp.Exp: _function("exp"),
    exp.Round: _round,
    exp.Pow: _power,
    exp.Lower: _texts("lower"),
    exp.Upper: _texts("upper"),
    exp.Trim: _texts("trim"),
    exp.Length: _texts("length"),
    exp.Substring: _substring,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.Extract: extract,
    exp.Year: named_part("year"),
    exp.Quarter: named_part("quarter"),
    exp.Month: named_part("month"),
    exp.Day: named_part("day"),
    exp.TimestampTrunc: truncate,
    exp.DateTrunc: truncate,
}

_CARRIES: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Literal: ("this", "is_string"),
    exp.Column: ("this", "table"),
    exp.Div: ("this", "expression", "typed", "safe"),
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions", "query"),  # a query has a refusal of its own
    exp.Like: ("this", "expression", "negate"),
    exp.ILike: ("this", "expression", "negate"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Coalesce: ("this", "expressions"),
    exp.Least: ("this", "expressions", "ignore_nulls"),
    exp.Greatest: ("this", "expressions", "ignore_nulls"),
    exp.Cast: ("this", "to", "_type"),
    exp.TryCast: ("this", "to", "_type", "safe", "requires_string"),
    exp.Round: ("this", "decimals"),
    exp.Trim: ("this",),
    exp.Substring: ("this", "start", "length"),
    exp.Concat: ("expressions", "safe", "coalesce"),
    exp.DPipe: ("this", "expression", "safe"),
    exp.TimestampTrunc: ("this", "unit", "_type", "input_type_preserved"),
    exp.DateTrunc: ("this", "unit", "_type", "input_type_preserved"),
}

RULES.update(_ALLOWED)
PARTS.update(_CARRIES)
