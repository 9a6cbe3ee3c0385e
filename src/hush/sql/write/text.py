"""The text of relations and expressions, for one dialect.

Trees come from `hush.sql.read`; the text goes to `hush.sql.write.bounded`, which builds the plan's query around it.
None of the user's own text is copied: names of the plan are generated, and constants are quoted again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hush.sql.syntax.expression import Expr
from hush.sql.syntax.grid import grid_for
from hush.sql.syntax.relation import (
    NamedRelation,
    Origin,
    PerUnit,
    Projection,
    QueryRelation,
    Scan,
    ScannedColumn,
    subqueries,
)
from hush.sql.write.dialects import Dialect


def write_expression(expression: Expr, dialect: Dialect) -> str:
    """Return the text of an expression.

    >>> from hush.data.tables.catalog import ColumnKind
    >>> from hush.sql.syntax.expression import literal, numeric
    >>> from hush.sql.write.dialects import DIALECTS
    >>> age = Expr("column", ColumnKind.FLOAT, value=("r1", "c0"))
    >>> write_expression(numeric("div", age, numeric("neg", age)), DIALECTS["duckdb"])
    '(r1.c0 / NULLIF((-r1.c0), 0))'
    """
    writer = _WRITERS.get(expression.op)
    if writer is not None:
        return writer(expression, dialect)
    operands = [write_expression(operand, dialect) for operand in expression.args]
    return dialect.templates[expression.op].format(*operands)


class RelationWriter:
    """Writes what an origin reads. Every subquery is a common table expression, however often the query names it.

    Attributes:
        definitions: The text of each common table expression by its name. Each refers only to those before it.
    """

    def __init__(self, origin: Origin, dialect: Dialect) -> None:
        """Write the subqueries of an origin."""
        self._dialect = dialect
        self._names: dict[int, str] = {}
        self.definitions: dict[str, str] = {}
        for index, relation in enumerate(subqueries(origin)):
            name = f"hush_subquery{index}"
            self.definitions[name] = self._subquery(relation)
            self._names[id(relation)] = name

    def select(self, items: list[str], origin: Origin, where: Expr | None) -> str:
        """Return a SELECT of items, which are text already, from an origin."""
        condition = "" if where is None else f" WHERE {write_expression(where, self._dialect)}"
        # No engine takes an empty list of items.
        return f"SELECT {', '.join(items or ['1 AS one'])} FROM {self._origin(origin)}{condition}"

    def _subquery(self, relation: QueryRelation) -> str:
        """Return a subquery as a SELECT of the unit's columns (u0, u1) and its own."""
        body = relation.body
        if isinstance(body, PerUnit):
            return self._per_unit(body)
        assert isinstance(body, Projection)
        items = [f"{write_expression(item, self._dialect)} AS {name}" for name, item in body.items]
        return self.select([*unit_columns(body.origin), *items], body.origin, body.where)

    def _per_unit(self, body: PerUnit) -> str:
        """Return aggregates of each unit's rows, grouped by the unit and by further keys."""
        units = unit_columns(body.origin)
        keys = [f"{write_expression(key, self._dialect)} AS {name}" for name, key in body.keys]
        aggregates = [f"{write_expression(aggregate, self._dialect)} AS {name}" for name, aggregate in body.aggregates]
        positions = ", ".join(str(index + 1) for index in range(len(units) + len(keys)))
        group_by = f" GROUP BY {positions}" if positions else ""
        return self.select([*units, *keys, *aggregates], body.origin, body.where) + group_by

    def _origin(self, origin: Origin) -> str:
        """Return a FROM clause. A join of private relations compares their units, whatever the query's condition is."""
        parts = [self._source(origin.first)]
        for join in origin.joins:
            conditions = []
            if join.on_unit and origin.owner is not None:
                conditions.append(f"{origin.owner.alias}.u0 = {join.source.alias}.u0")
            if join.condition is not None:
                conditions.append(write_expression(join.condition, self._dialect))
            keyword = "LEFT JOIN" if join.left else "INNER JOIN"
            parts.append(f"{keyword} {self._source(join.source)} ON {' AND '.join(conditions) or 'TRUE'}")
        return " ".join(parts)

    def _source(self, source: NamedRelation) -> str:
        """Return a base table, or the name of a subquery, with its alias."""
        body = source.relation.body
        text = f"({_write_scan(body, self._dialect)})" if isinstance(body, Scan) else self._names[id(source.relation)]
        return f"{text} AS {source.alias}"


def unit_columns(origin: Origin) -> list[str]:
    """Return the items that select the unit's columns from the source that owns the rows."""
    owner = origin.owner
    return [] if owner is None else [f"{owner.alias}.u{index} AS u{index}" for index in range(owner.relation.units)]


def row_integer(
    value: str, bounds: tuple[float, float], offset: float, grid: float, dialect: Dialect, *, square: bool = False
) -> str:
    """Return a row's value as an integer on the grid: clamped, so that nothing overflows, and 0 if it is missing.

    The integer is floor((clamp(x) - offset) / grid + 1/2), or the same of clamp(x)^2. Sums of integers do not depend on
    the order of rows, which other units could change (Casacuberta et al. 2022).

    Args:
        value: The text of the value.
        bounds: Where it is clamped.
        offset: The centre of the sum.
        grid: The step, a power of two.
        dialect: The engine's dialect.
        square: Whether to square the value first.
    """
    # A bound computed from constants of the query can be so small that its square underflows, which PostgreSQL raises.
    low, high = (0.0 if abs(end) < 1e-100 else end for end in bounds)
    clamped = f"LEAST(GREATEST({value}, {dialect.real(low)}), {dialect.real(high)})"
    inner = f"{clamped} * {clamped}" if square else clamped
    on_grid = f"FLOOR(({inner} - {dialect.real(offset)}) / {dialect.real(grid)} + {dialect.real(0.5)})"
    return f"(CASE WHEN {value} BETWEEN -1e100 AND 1e100 THEN CAST({on_grid} AS BIGINT) ELSE 0 END)"


def _write_scan(scan: Scan, dialect: Dialect) -> str:
    """Return a base table with its unit, its window and its columns converted to their kinds.

    Rows whose unit or time is NULL are dropped.
    """
    items, conditions = [], []
    if scan.unit is not None:
        raw = _raw_column(scan.unit, dialect)
        items.append(f"{dialect.unit_id(scan.unit, raw)} AS u0")
        conditions.append(f"{raw} IS NOT NULL")
    if scan.time is not None:
        time = dialect.read_column(scan.time, _raw_column(scan.time, dialect))
        items.append(f"CAST(DATE_TRUNC('{scan.window}', {time}) AS {dialect.time}) AS u1")
        conditions.append(f"{time} IS NOT NULL")
    supported = [column for column in scan.columns if column.kind.value != "other"]
    items += [f"{dialect.read_column(column, _raw_column(column, dialect))} AS {column.column}" for column in supported]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(items or ['1 AS one'])} FROM {dialect.identifier(scan.table)} AS s{where}"


def _raw_column(column: ScannedColumn, dialect: Dialect) -> str:
    # Qualified, so that a column called u0 is not mistaken for a name of the plan.
    return f"s.{dialect.identifier(column.raw)}"


# Operations whose text is more than a template.


def _column(expression: Expr, dialect: Dialect) -> str:
    """Return a column, qualified by its source."""
    return ".".join(expression.value)


def _case(expression: Expr, dialect: Dialect) -> str:
    """Return a CASE from condition, value, condition, value, ..., default."""
    parts = [write_expression(operand, dialect) for operand in expression.args]
    branches = zip(parts[:-1:2], parts[1:-1:2], strict=True)
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    return f"(CASE {whens} ELSE {parts[-1]} END)"


def _call(expression: Expr, dialect: Dialect) -> str:
    """Return a call of a function that has the same name on every engine."""
    return f"{expression.op.upper()}({', '.join(write_expression(operand, dialect) for operand in expression.args)})"


def _in(expression: Expr, dialect: Dialect) -> str:
    """Return x IN (...)."""
    first, *candidates = [write_expression(operand, dialect) for operand in expression.args]
    return f"({first} IN ({', '.join(candidates)}))"


def _like(expression: Expr, dialect: Dialect) -> str:
    """Return x LIKE 'pattern'."""
    text = write_expression(expression.args[0], dialect)
    return dialect.templates[expression.op].format(text, dialect.text_constant(expression.value))


def _round(expression: Expr, dialect: Dialect) -> str:
    """Return ROUND by FLOOR, with halves away from 0: sign(x) * floor(|x| * s + 1/2) / s. Engines differ on halves.

    If |x| * s is 2^52 or more, x has no digits left to round.
    """
    scale, inner = dialect.real(10.0**expression.value), write_expression(expression.args[0], dialect)
    scaled = f"ABS({inner}) * {scale}"
    rounded = f"SIGN({inner}) * FLOOR({scaled} + {dialect.real(0.5)}) / {scale}"
    return f"(CASE WHEN {scaled} < {dialect.real(2.0**52)} THEN {rounded} ELSE {inner} END)"


def _date_part(expression: Expr, dialect: Dialect) -> str:
    """Return a part of a date."""
    weekday = "DOW_ISO" if dialect.name == "spark" else "ISODOW"
    name = {"dayofyear": "DOY", "isodow": weekday}.get(expression.value, expression.value.upper())
    return f"CAST(EXTRACT({name} FROM {write_expression(expression.args[0], dialect)}) AS BIGINT)"


def _truncate(expression: Expr, dialect: Dialect) -> str:
    """Return the beginning of a date's hour, day, week, month, quarter or year."""
    moment = write_expression(expression.args[0], dialect)
    return f"CAST(DATE_TRUNC('{expression.value}', {moment}) AS {dialect.time})"


def _substring(expression: Expr, dialect: Dialect) -> str:
    """Return a part of a text."""
    start, length = expression.value
    return f"SUBSTRING({write_expression(expression.args[0], dialect)}, {start}, {length})"


def _right(expression: Expr, dialect: Dialect) -> str:
    """Return the last characters of a text."""
    return f"RIGHT({write_expression(expression.args[0], dialect)}, {expression.value})"


def _split_part(expression: Expr, dialect: Dialect) -> str:
    """Return one of the parts of a text that a separator divides."""
    separator, part = expression.value
    return f"SPLIT_PART({write_expression(expression.args[0], dialect)}, {dialect.text_constant(separator)}, {part})"


def _replace(expression: Expr, dialect: Dialect) -> str:
    """Return a text with one constant text replaced by another."""
    old, new = map(dialect.text_constant, expression.value)
    return f"REPLACE({write_expression(expression.args[0], dialect)}, {old}, {new})"


def _shift(expression: Expr, dialect: Dialect) -> str:
    """Return a timestamp that is moved by constant intervals, or NULL outside the years that all engines have."""
    moved = write_expression(expression.args[0], dialect)
    for unit, number in expression.value:
        moved += f" {'-' if number < 0 else '+'} INTERVAL '{abs(number)}' {unit.upper()}"
    return dialect.in_calendar(f"({moved})", dialect.time)


def _concat(expression: Expr, dialect: Dialect) -> str:
    """Return texts joined by ||, which gives NULL if one of them is NULL."""
    return "(" + " || ".join(write_expression(operand, dialect) for operand in expression.args) + ")"


def _sum_or_mean(expression: Expr, dialect: Dialect) -> str:
    """Return SUM or AVG of one unit's rows, in a subquery: on a grid, as sums over units are."""
    (inner,) = expression.args
    grid = grid_for(inner.low, inner.high, 1, inner.integral)
    integer = row_integer(write_expression(inner, dialect), (inner.low, inner.high), 0.0, grid, dialect)
    total = f"(CAST(SUM({integer}) AS {dialect.double}) * {dialect.real(grid)})"
    if expression.op == "sum_of":
        return dialect.in_range(total)
    return dialect.in_range(f"{total} / NULLIF(COUNT({write_expression(inner, dialect)}), 0)")


_WRITERS: Mapping[str, Callable[[Expr, Dialect], str]] = {
    "literal": lambda expression, dialect: dialect.constant(expression.value, expression.kind),
    "column": _column,
    "case": _case,
    "least": _call,
    "greatest": _call,
    "coalesce": _call,
    "in": _in,
    "like": _like,
    "ilike": _like,
    "round": _round,
    "part": _date_part,
    "truncate": _truncate,
    "substring": _substring,
    "right": _right,
    "split_part": _split_part,
    "replace": _replace,
    "shift": _shift,
    "concat": _concat,
    "concat_ws": _call,
    "sum_of": _sum_or_mean,
    "mean_of": _sum_or_mean,
}
