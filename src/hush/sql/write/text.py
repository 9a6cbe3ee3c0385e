"""The text of relations and expressions, for one dialect.

Trees come from `hush.sql.read`; the text goes to `hush.sql.write.bounded`, which builds the plan's query around it.
None of the user's own text is copied: names of the plan are generated, and constants are quoted again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from hush.data.tables.catalog import ColumnKind
from hush.errors import Unsupported
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.grid import COARSE, FINE, WIDEST_BOUNDS, grid_for
from hush.sql.syntax.regexps import SEARCHED
from hush.sql.syntax.relation import (
    NamedRelation,
    NestedQuery,
    Origin,
    PerUnit,
    Projection,
    QueryRelation,
    ReleasedRows,
    Scan,
    ScannedColumn,
    UnionAll,
    WindowClause,
    subqueries,
)
from hush.sql.write.dialects import Dialect

_LONGEST_REST = 2_000_000_000  # characters: no engine has longer texts


def write_expression(expression: Expr, dialect: Dialect) -> str:
    """Return the text of an expression.

    >>> from hush.data.tables.catalog import ColumnKind
    >>> from hush.sql.syntax.expression import literal, numeric
    >>> from hush.sql.write.dialects import DIALECTS
    >>> age = Expr("column", ColumnKind.FLOAT, value=("r1", "c0"))
    >>> write_expression(numeric("div", age, numeric("neg", age)), DIALECTS["duckdb"])
    '(r1.c0 / NULLIF((-r1.c0), 0))'
    """
    if expression.op in dialect.missing:  # a query is refused before, unless it is planned for another engine
        raise Unsupported(f"{expression.op.upper()} is not supported on {dialect.name}", "Compute it in a view")
    writer = _WRITERS.get(expression.op)
    if writer is not None:
        return writer(expression, dialect)
    operands = [write_expression(operand, dialect) for operand in expression.args]
    return dialect.templates[expression.op].format(*operands)


class RelationWriter:
    """Writes what a SELECT reads. Every subquery is a common table expression, however often the query names it.

    Attributes:
        definitions: The text of each common table expression by its name. Each refers only to those before it.
    """

    def __init__(self, origin: Origin, where: Expr | None, dialect: Dialect) -> None:
        """Write the subqueries of a FROM clause and of a condition."""
        self._dialect = dialect
        self.definitions = {relation.name: self._subquery(relation) for relation in subqueries(origin, where)}

    def select(self, items: list[str], origin: Origin, where: Expr | None) -> str:
        """Return a SELECT of items, which are text already, from an origin."""
        condition = "" if where is None else f" WHERE {write_expression(where, self._dialect)}"
        # No engine takes an empty list of items.
        return f"SELECT {', '.join(items or ['1 AS one'])} FROM {_write_origin(origin, self._dialect)}{condition}"

    def _subquery(self, relation: QueryRelation) -> str:
        """Return a subquery as a SELECT of the unit's columns (u0, u1) and its own."""
        body = relation.body
        if isinstance(body, PerUnit):
            return self._per_unit(body)
        if isinstance(body, UnionAll):
            return _union(relation, body, self._dialect)
        if isinstance(body, ReleasedRows):
            return _released_rows(body, self._dialect)
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


def _union(relation: QueryRelation, body: UnionAll, dialect: Dialect) -> str:
    """Return the rows of several relations. Each row keeps its unit. Integers become numbers where others are."""
    units = [f"u{index}" for index in range(relation.units)]
    selects = []
    for part in body.parts:
        columns = [
            f"{dialect.templates['number'].format(entry.column)} AS {entry.column}"
            if field.prototype.kind is not entry.prototype.kind
            else entry.column
            for field, entry in zip(relation.fields, part.relation.fields, strict=True)
        ]
        selects.append(f"SELECT {', '.join([*units, *columns])} FROM {part.relation.name} AS {part.alias}")
    return " UNION ALL ".join(selects)


def _released_rows(body: ReleasedRows, dialect: Dialect) -> str:
    """Return released rows, column by column: every engine has lists of constants with their indices."""
    items, lists = [], []
    for index, kind in enumerate(body.kinds):
        values = [row[index] for row in body.rows] or [None]
        constants = [dialect.null(kind) if value is None else dialect.constant(value, kind) for value in values]
        lists.append(dialect.public_list(f"l{index}", constants))
        text = dialect.templates["text_column"] if kind is ColumnKind.TEXT else "{0}"
        items.append(f"{text.format(f'l{index}.k')} AS c{index}")
    joined = [f"INNER JOIN {text} ON l{index}.i = l0.i" for index, text in enumerate(lists) if index]
    rows = " ".join([lists[0], *joined])
    return f"SELECT {', '.join(items)} FROM {rows}{'' if body.rows else ' WHERE 1 = 0'}"


def _write_origin(origin: Origin, dialect: Dialect) -> str:
    """Return a FROM clause. A join of private relations compares their units, whatever the query's condition is."""
    parts = [_write_from_item(origin.first, dialect)]
    for join in origin.joins:
        conditions = []
        if join.on_unit and origin.owner is not None:
            conditions.append(_same_unit(origin.owner.alias, join.item.alias))
        if join.condition is not None:
            conditions.append(write_expression(join.condition, dialect))
        keyword = "LEFT JOIN" if join.left else "INNER JOIN"
        parts.append(f"{keyword} {_write_from_item(join.item, dialect)} ON {' AND '.join(conditions) or 'TRUE'}")
    return " ".join(parts)


def _write_from_item(from_item: NamedRelation, dialect: Dialect) -> str:
    """Return a base table, or the name of a subquery, with its alias."""
    body = from_item.relation.body
    text = f"({_write_scan(body, dialect)})" if isinstance(body, Scan) else from_item.relation.name
    return f"{text} AS {from_item.alias}"


def _same_unit(left: str, right: str) -> str:
    """Return the condition that rows of two tables, by alias, belong to the same unit."""
    return f"{left}.u0 = {right}.u0"


def unit_columns(origin: Origin) -> list[str]:
    """Return the items that select the unit's columns from the table that owns the rows."""
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
    integer = dialect.templates["integer"].format(on_grid)
    return f"(CASE WHEN {value} BETWEEN -1e100 AND 1e100 THEN {integer} ELSE 0 END)"


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
        items.append(f"{dialect.templates[f'truncate_{scan.window}'].format(time)} AS u1")
        conditions.append(f"{time} IS NOT NULL")
    supported = [column for column in scan.columns if column.kind.value != "other"]
    items += [f"{dialect.read_column(column, _raw_column(column, dialect))} AS {column.column}" for column in supported]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(items or ['1 AS one'])} FROM {dialect.table(scan.table)} AS s{where}"


def _raw_column(column: ScannedColumn, dialect: Dialect) -> str:
    # Qualified, so that a column called u0 is not mistaken for a name of the plan.
    return f"s.{dialect.identifier(column.raw)}"


# Operations whose text is more than a template.


def _column(expression: Expr, dialect: Dialect) -> str:
    """Return a column, qualified by its table."""
    return ".".join(expression.value)


def _case(expression: Expr, dialect: Dialect) -> str:
    """Return a CASE from condition, value, condition, value, ..., default."""
    parts = [write_expression(operand, dialect) for operand in expression.args]
    branches = zip(parts[:-1:2], parts[1:-1:2], strict=True)
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    return f"(CASE {whens} ELSE {parts[-1]} END)"


def _coalesce(expression: Expr, dialect: Dialect) -> str:
    """Return COALESCE(...)."""
    return f"COALESCE({', '.join(write_expression(operand, dialect) for operand in expression.args)})"


def _extreme(expression: Expr, dialect: Dialect) -> str:
    """Return LEAST(...) or GREATEST(...), which skip missing operands."""
    templates, name = dialect.templates, expression.op
    if expression.kind is ColumnKind.INT and f"{name}_integer" in templates:
        name = f"{name}_integer"
    operand = templates.get(f"{name}_operand", "{0}")
    operands = [operand.format(write_expression(argument, dialect)) for argument in expression.args]
    return templates[name].format(", ".join(operands))


def _to_text(expression: Expr, dialect: Dialect) -> str:
    """Return CAST(x AS VARCHAR). Engines write truth values and dates differently."""
    inner = expression.args[0]
    name = {ColumnKind.BOOL: "bool_text", ColumnKind.DATE: "date_text"}.get(inner.kind, "to_text")
    return dialect.templates[name].format(write_expression(inner, dialect))


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
    template = dialect.templates[f"part_{expression.value}"]
    return template.format(write_expression(expression.args[0], dialect))


def _truncate(expression: Expr, dialect: Dialect) -> str:
    """Return the beginning of a date's hour, day, week, month, quarter or year."""
    template = dialect.templates[f"truncate_{expression.value}"]
    return template.format(write_expression(expression.args[0], dialect))


def _substring(expression: Expr, dialect: Dialect) -> str:
    """Return a part of a text."""
    text = write_expression(expression.args[0], dialect)
    return dialect.templates["substring"].format(text, *expression.value)


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


def _regexp(expression: Expr, dialect: Dialect) -> str:
    """Return a match of a regular expression in the first characters of a text, or the text with replacements there."""
    pattern, *others = expression.value if isinstance(expression.value, tuple) else (expression.value,)
    text, templates = write_expression(expression.args[0], dialect), dialect.templates
    searched = templates["substring"].format(text, 1, SEARCHED)
    constant = dialect.text_constant(pattern.text(end=templates["regexp_end"]))
    if expression.op == "regexp_match":
        return templates[expression.op].format(searched, constant)
    if expression.op == "regexp_extract":
        match = templates[expression.op].format(searched, constant)
        return match if others[0] is not None else f"NULLIF({match}, {dialect.text_constant('')})"
    replaced = templates[expression.op].format(searched, constant, dialect.text_constant(others[0]))
    rest = templates["substring"].format(text, SEARCHED + 1, _LONGEST_REST)
    return templates["join_texts"].format(replaced, rest)


def _shift(expression: Expr, dialect: Dialect) -> str:
    """Return a timestamp that is moved by constant intervals, or NULL outside the years that all engines have."""
    moved = write_expression(expression.args[0], dialect)
    for unit, number in expression.value:
        moved += f" {'-' if number < 0 else '+'} INTERVAL '{abs(number)}' {unit.upper()}"
    return dialect.in_calendar(f"({moved})", ColumnKind.TIME)


def _concat(expression: Expr, dialect: Dialect) -> str:
    """Return texts joined in pairs, which gives NULL if one of them is NULL."""
    template, texts = dialect.templates["join_texts"], [write_expression(part, dialect) for part in expression.args]
    return reduce(template.format, texts) if len(texts) > 1 else texts[0]


def _concat_ws(expression: Expr, dialect: Dialect) -> str:
    """Return texts joined with a separator between them; those that are NULL are left out."""
    texts = ", ".join(write_expression(operand, dialect) for operand in expression.args)
    return dialect.templates["join_present"].format(texts)


def _sum_or_mean(expression: Expr, dialect: Dialect, over: str = "") -> str:
    """Return SUM or AVG of one unit's rows, in a subquery: on a grid, as sums over units are.

    ``over`` is the window, if it is of a window's rows.
    """
    inner = expression.args[0]
    value = write_expression(inner, dialect)
    if inner.bounded:
        grid = grid_for(inner.low, inner.high, 1, inner.integral)
        total = _total_on_grid(row_integer(value, (inner.low, inner.high), 0.0, grid, dialect), grid, dialect, over)
    else:
        total = _total_without_bounds(value, dialect, over)
    if expression.op == "sum_of":
        return dialect.in_range(total)
    return dialect.in_range(f"{total} / NULLIF(COUNT({value}){over}, 0)")


def _total_on_grid(integer: str, grid: float, dialect: Dialect, over: str) -> str:
    """Return the sum of integers as a number."""
    return f"(CAST({dialect.templates['sum'].format(integer)}{over} AS {dialect.double}) * {dialect.real(grid)})"


def _total_without_bounds(value: str, dialect: Dialect, over: str) -> str:
    """Return the sum of values without bounds: of multiples of a coarse step, and of what remains on a fine grid.

    Both are sums of integers, so the order of rows does not matter, and the difference that remains is exact.
    """
    coarse, (low, high) = row_integer(value, WIDEST_BOUNDS, 0.0, COARSE, dialect), map(dialect.real, WIDEST_BOUNDS)
    multiple = f"CAST({coarse} AS {dialect.double}) * {dialect.real(COARSE)}"
    rest = f"LEAST(GREATEST({value}, {low}), {high}) - {multiple}"
    on_grid = dialect.templates["integer"].format(f"FLOOR(({rest}) / {dialect.real(FINE)} + {dialect.real(0.5)})")
    fine = f"(CASE WHEN {value} BETWEEN -1e100 AND 1e100 THEN {on_grid} ELSE 0 END)"
    totals = [_total_on_grid(integer, grid, dialect, over) for integer, grid in ((coarse, COARSE), (fine, FINE))]
    return f"({' + '.join(totals)})"


def _window(expression: Expr, dialect: Dialect) -> str:
    """Return a function of a window of one unit's rows: the plan partitions by the unit, whatever the query says."""
    function, *rest = expression.args
    window: WindowClause = expression.value
    partition = [_partition(operand, dialect) for operand in rest[: window.num_parts]]
    partition = [f"{window.unit}.u0", *partition] if window.unit else partition
    clauses = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    directions = zip(rest[window.num_parts :], window.directions, strict=True)
    order = ", ".join(_ordered(write_expression(operand, dialect), words, dialect) for operand, words in directions)
    clauses += [f"ORDER BY {order}"] if order else []
    over = f" OVER ({' '.join(clauses)})"
    if function.op in ("sum_of", "mean_of"):
        return _sum_or_mean(function, dialect, over)
    operands = [write_expression(operand, dialect) for operand in function.args]
    text = _WINDOW_FUNCTIONS[function.op].format(*operands, over=over, offset=function.value)
    return f"CAST({text} AS {dialect.double})" if function.op in _COUNTS else text


def _partition(operand: Expr, dialect: Dialect) -> str:
    """Return an expression of PARTITION BY, which takes no numbers on some engines. -0.0 equals 0.0."""
    text, template = write_expression(operand, dialect), dialect.templates["partition_number"]
    if operand.kind is not ColumnKind.FLOAT or template == "{0}":
        return text
    return template.format(f"({text} + {dialect.real(0.0)})")


def _ordered(text: str, direction: str, dialect: Dialect) -> str:
    """Return an expression of ORDER BY with its direction, such as DESC NULLS LAST."""
    way, _, nulls = direction.partition(" NULLS ")
    return dialect.templates[f"nulls_{nulls.lower()}"].format(text, way)


def _nested(expression: Expr, dialect: Dialect) -> str:
    """Return EXISTS, IN or a scalar subquery. The plan equates its unit with that of the row it is about."""
    *operands, where = expression.args
    query: NestedQuery = expression.value
    conditions = [] if query.units is None else [_same_unit(*query.units)]
    conditions += [] if where.op == "literal" else [write_expression(where, dialect)]
    texts = [write_expression(operand, dialect) for operand in operands]
    shown = texts[-1] if texts else "1"
    select = f"SELECT {shown} FROM {_write_origin(query.origin, dialect)}"
    select += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return {"exists": f"(EXISTS ({select}))", "in_query": f"({texts[0] if texts else ''} IN ({select}))"}.get(
        expression.op, f"({select})"
    )


_WRITERS: Mapping[str, Callable[[Expr, Dialect], str]] = {
    "literal": lambda expression, dialect: dialect.constant(expression.value, expression.kind),
    "column": _column,
    "case": _case,
    "least": _extreme,
    "greatest": _extreme,
    "coalesce": _coalesce,
    "to_text": _to_text,
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
    **dict.fromkeys(("regexp_match", "regexp_extract", "regexp_replace", "regexp_replace_first"), _regexp),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "sum_of": _sum_or_mean,
    "mean_of": _sum_or_mean,
    "window": _window,
    "exists": _nested,
    "in_query": _nested,
    "scalar": _nested,
}
# Functions of a window; {over} is the window.
_WINDOW_FUNCTIONS = {
    "row_number": "ROW_NUMBER(){over}",
    "rank": "RANK(){over}",
    "dense_rank": "DENSE_RANK(){over}",
    "count_rows": "COUNT(*){over}",
    "count_of": "COUNT({0}){over}",
    "min_of": "MIN({0}){over}",
    "max_of": "MAX({0}){over}",
    "lag": "LAG({0}, {offset}){over}",
    "lead": "LEAD({0}, {offset}){over}",
}
_COUNTS = ("row_number", "rank", "dense_rank", "count_rows", "count_of")
