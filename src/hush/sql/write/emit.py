"""From hush's relations and expressions to the text of a query. Nothing of the user's own text is copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hush.sql.syntax.expression import Expr
from hush.sql.syntax.grid import grid_for
from hush.sql.syntax.relation import Chosen, NamedRelation, Origin, PerUnit, QueryRelation, Scan, ScannedColumn
from hush.sql.write.dialects import Dialect


def expression(found: Expr, to: Dialect) -> str:
    """Return an expression as text."""
    special = _SPECIAL.get(found.op)
    if special is not None:
        return special(found, to)
    return to.templates[found.op].format(*[expression(part, to) for part in found.args])


def relation(found: QueryRelation, to: Dialect) -> str:
    """Return a relation as a SELECT, whose columns are the unit's (u0, ...) and its own."""
    body = found.body
    if isinstance(body, Scan):
        return _scan(body, to)
    if isinstance(body, Chosen):
        items = [f"{expression(item, to)} AS {name}" for name, item in body.items]
        return select([*unit_columns(body.origin), *items], body.origin, body.where, to)
    return _per_unit(body, to)


def select(items: list[str], origin: Origin, where: Expr | None, to: Dialect) -> str:
    """Return a SELECT of these items from an origin."""
    condition = "" if where is None else f" WHERE {expression(where, to)}"
    return f"SELECT {', '.join(items or ['1 AS one'])} FROM {_origin(origin, to)}{condition}"


def unit_columns(origin: Origin) -> list[str]:
    """Return the unit's columns, of the source that owns the rows."""
    owner = origin.owner
    return [] if owner is None else [f"{owner.alias}.u{place} AS u{place}" for place in range(owner.relation.units)]


def row_integer(
    value: str, bounds: tuple[float, float], offset: float, grid: float, to: Dialect, *, square: bool = False
) -> str:
    """Return a number as an integer on a grid: clamped, so that nothing overflows; 0 where there is none.

    Sums of integers do not depend on the order of rows, which other units could change (Casacuberta et al. 2022).
    """
    # An end that is computed from a query's constants may be so small that its square vanishes, which may raise.
    low, high = (0.0 if abs(end) < 1e-100 else end for end in bounds)
    clamped = f"LEAST(GREATEST({value}, {to.real(low)}), {to.real(high)})"
    inner = f"{clamped} * {clamped}" if square else clamped
    on_grid = f"FLOOR(({inner} - {to.real(offset)}) / {to.real(grid)} + {to.real(0.5)})"
    return f"(CASE WHEN {value} BETWEEN -1e100 AND 1e100 THEN CAST({on_grid} AS BIGINT) ELSE 0 END)"


def _scan(body: Scan, to: Dialect) -> str:
    items, conditions = [], []
    if body.unit is not None:
        raw = _raw(body.unit, to)
        items.append(f"{to.identity(body.unit, raw)} AS u0")
        conditions.append(f"{raw} IS NOT NULL")
    if body.time is not None:
        time = to.scanned(body.time, _raw(body.time, to))
        items.append(f"CAST(DATE_TRUNC('{body.window}', {time}) AS {to.time}) AS u1")
        conditions.append(f"{time} IS NOT NULL")
    known = [entry for entry in body.columns if entry.kind.value != "other"]
    items += [f"{to.scanned(entry, _raw(entry, to))} AS {entry.column}" for entry in known]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(items or ['1 AS one'])} FROM {to.identifier(body.table)} AS s{where}"


def _raw(column: ScannedColumn, to: Dialect) -> str:
    return f"s.{to.identifier(column.raw)}"  # with the table, so that no name of the plan can be meant


def _per_unit(body: PerUnit, to: Dialect) -> str:
    units = unit_columns(body.origin)
    keys = [f"{expression(item, to)} AS {name}" for name, item in body.keys]
    aggregates = [f"{expression(item, to)} AS {name}" for name, item in body.aggregates]
    places = ", ".join(str(place + 1) for place in range(len(units) + len(keys)))
    group = f" GROUP BY {places}" if places else ""
    return select([*units, *keys, *aggregates], body.origin, body.where, to) + group


def _origin(origin: Origin, to: Dialect) -> str:
    parts = [_source(origin.first, to)]
    for join in origin.joins:
        conditions = []
        if join.on_unit and origin.owner is not None:
            conditions.append(f"{origin.owner.alias}.u0 = {join.source.alias}.u0")
        if join.condition is not None:
            conditions.append(expression(join.condition, to))
        words = "LEFT JOIN" if join.left else "INNER JOIN"
        parts.append(f"{words} {_source(join.source, to)} ON {' AND '.join(conditions) or 'TRUE'}")
    return " ".join(parts)


def _source(source: NamedRelation, to: Dialect) -> str:
    return f"({relation(source.relation, to)}) AS {source.alias}"


def _column(found: Expr, to: Dialect) -> str:
    return ".".join(found.value)


def _case(found: Expr, to: Dialect) -> str:
    parts = [expression(part, to) for part in found.args]
    pairs = zip(parts[:-1:2], parts[1:-1:2], strict=True)
    return "(CASE " + " ".join(f"WHEN {c} THEN {v}" for c, v in pairs) + f" ELSE {parts[-1]} END)"


def _called(found: Expr, to: Dialect) -> str:
    return f"{found.op.upper()}({', '.join(expression(part, to) for part in found.args)})"


def _in(found: Expr, to: Dialect) -> str:
    first, *rest = [expression(part, to) for part in found.args]
    return f"({first} IN ({', '.join(rest)}))"


def _like(found: Expr, to: Dialect) -> str:
    return f"({expression(found.args[0], to)} {found.op.upper()} {to.quoted(found.value)})"


def _round(found: Expr, to: Dialect) -> str:
    scale, inner = to.real(10.0**found.value), expression(found.args[0], to)
    return f"(FLOOR({inner} * {scale} + {to.real(0.5)}) / {scale})"


def _part(found: Expr, to: Dialect) -> str:
    name = {"dayofyear": "DOY"}.get(found.value, found.value.upper())
    return f"CAST(EXTRACT({name} FROM {expression(found.args[0], to)}) AS BIGINT)"


def _truncate(found: Expr, to: Dialect) -> str:
    return f"CAST(DATE_TRUNC('{found.value}', {expression(found.args[0], to)}) AS {to.time})"


def _substring(found: Expr, to: Dialect) -> str:
    start, length = found.value
    return f"SUBSTRING({expression(found.args[0], to)}, {start}, {length})"


def _concat(found: Expr, to: Dialect) -> str:
    return "(" + " || ".join(expression(part, to) for part in found.args) + ")"


def _sum(found: Expr, to: Dialect) -> str:
    (inner,) = found.args
    grid = grid_for(inner.low, inner.high, 1, inner.whole)
    integer = row_integer(expression(inner, to), (inner.low, inner.high), 0.0, grid, to)
    total = f"(CAST(SUM({integer}) AS {to.double}) * {to.real(grid)})"
    if found.op == "sum_of":
        return to.in_range(total)
    return to.in_range(f"{total} / NULLIF(COUNT({expression(inner, to)}), 0)")


_SPECIAL: Mapping[str, Callable[[Expr, Dialect], str]] = {
    "literal": lambda found, to: to.constant(found.value, found.kind),
    "column": _column,
    "case": _case,
    "least": _called,
    "greatest": _called,
    "coalesce": _called,
    "in": _in,
    "like": _like,
    "ilike": _like,
    "round": _round,
    "part": _part,
    "truncate": _truncate,
    "substring": _substring,
    "concat": _concat,
    "sum_of": _sum,
    "mean_of": _sum,
}
