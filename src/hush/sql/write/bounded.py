"""The text of a plan (Wilson et al. 2020): aggregates are clamped per unit and group, then groups limited per unit.

rows     each row's unit, keys and values; nothing here raises
cleaned  values clamped and on the grid; keys replaced by their number in public lists
pairs    one row for each (unit, group): sums, clamped *after* they are formed
kept     at most groups_per_unit of them for each unit
summary  one row for each group
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.releases import Counted, LeafCounts, SumRelease
from hush.sql.write.dialects import Dialect
from hush.sql.write.emit import expression, row_integer, select, unit_columns

if TYPE_CHECKING:
    from hush.sql.write.plan import QueryPlan

_SCALED = (Counted.CENTRED, Counted.SQUARES)


def whole(plan: QueryPlan, to: Dialect, ranking_key: str) -> str:
    """Return the query from tables to groups."""
    return f"WITH {_layers(plan, to, ranking_key)} {summary(plan, to, 'hush_kept', None)}"


def kept(plan: QueryPlan, to: Dialect, ranking_key: str, part: tuple[int, int] = (0, 1)) -> str:
    """Return the query from tables to bounded contributions: of all units, or of one part in so many."""
    columns = ", ".join([*_keys(plan), *[release.name for release in plan.releases]] or ["1 AS one"])
    return f"WITH {_layers(plan, to, ranking_key, part)} SELECT {columns} FROM hush_kept"


def summary(plan: QueryPlan, to: Dialect, table: str, columns: Mapping[str, str] | None) -> str:
    """Return the query from bounded contributions to groups."""
    named = {release.name: (columns or {}).get(release.name, release.name) for release in plan.releases}
    totals = [f"COALESCE(SUM({column}), 0) AS {name}" for name, column in named.items()]
    keys = _keys(plan)
    if not keys:
        return f"SELECT {', '.join(['COUNT(*) AS units', *totals])} FROM {table}"
    inner = f"SELECT {', '.join([*keys, 'COUNT(*) AS units', *totals])} FROM {table} GROUP BY {', '.join(keys)}"
    if not plan.public_keys:
        return inner
    shown = ", ".join(f"COALESCE(t.{name}, 0) AS {name}" for name in ("units", *named))
    lists = " CROSS JOIN ".join(_listed(plan, to, place) for place in range(len(plan.keys)))
    number = _number(plan)
    return f"SELECT {number} AS g, {shown} FROM {lists} LEFT JOIN ({inner}) AS t ON t.g = {number} ORDER BY 1"


def leaves(plan: QueryPlan, to: Dialect, ranking_key: str, tree: LeafCounts) -> str:
    """Return the query for the counts of a tree's leaves: at most ``tree.rows`` rows per unit and kept group."""
    low, high = tree.bounds
    place = f"FLOOR((LEAST(GREATEST(v, {to.real(low)}), {to.real(high)}) - {to.real(low)}) / {to.real(high - low)} * "
    leaf = f"LEAST(CAST({place}{to.real(float(tree.leaves))}) AS BIGINT), {tree.leaves - 1})"
    units, keys = _units(plan), _keys(plan)
    same = " AND ".join([f"t.{u} = p.{u}" for u in units] + [_same(f"t.{k}", f"p.{k}", to) for k in keys])
    owned = ", ".join(f"t.{name}" for name in [*units, *keys])
    present = f"SELECT *, v{tree.value} AS v FROM hush_cleaned"
    found = f"SELECT {owned}, {leaf} AS leaf FROM ({present}) AS t INNER JOIN hush_kept AS p ON {same} "
    found += "WHERE t.v BETWEEN -1e100 AND 1e100"
    rank = _rank(to, [*units, *keys, "leaf"], ranking_key)
    number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join([*units, *keys])} ORDER BY {rank}, leaf) AS n"
    shown = ", ".join([*keys, "leaf"])
    ranked = f"SELECT {shown}, {number} FROM ({found}) AS f"
    return (
        f"WITH {_layers(plan, to, ranking_key)} SELECT {shown}, COUNT(*) AS amount FROM ({ranked}) AS q "
        f"WHERE n <= {tree.rows} GROUP BY {shown}"
    )


def _layers(plan: QueryPlan, to: Dialect, ranking_key: str, part: tuple[int, int] = (0, 1)) -> str:
    layers = {
        "hush_raw": _raw(plan, to),
        "hush_cleaned": _cleaned(plan, to) + _of_part(part),
        "hush_pairs": _pairs(plan, to),
        "hush_kept": _kept(plan, to, ranking_key),
    }
    return ", ".join(f"{name} AS ({text})" for name, text in layers.items())


def _raw(plan: QueryPlan, to: Dialect) -> str:
    keys = [f"{expression(key.expression, to)} AS k{place}" for place, key in enumerate(plan.keys)]
    values = [f"{expression(value, to)} AS v{place}" for place, value in enumerate(plan.values)]
    return select([*unit_columns(plan.origin), *keys, *values], plan.origin, plan.where, to)


def _cleaned(plan: QueryPlan, to: Dialect) -> str:
    """Rows with clean keys; those whose key is not on its public list are left out before groups are limited."""
    items = [f"r.{name} AS {name}" for name in _units(plan)]
    joins = []
    for place, key in enumerate(plan.keys):
        found = _key(f"r.k{place}", key.expression.kind, to)
        if key.domain is not None:
            joins.append(f"INNER JOIN {_listed(plan, to, place)} ON {_matches(place, found, key.domain, to)}")
        if not plan.public_keys:
            items.append(f"{found} AS k{place}")
    if plan.public_keys and plan.keys:
        items.append(f"{_number(plan)} AS g")
    items += [f"r.v{place} AS v{place}" for place in range(len(plan.values))]
    return f"SELECT {', '.join(items)} FROM hush_raw AS r {' '.join(joins)}".rstrip()


def _of_part(part: tuple[int, int]) -> str:
    """Return the condition for rows of one part: whole users, so that each step sees all or nothing of a unit."""
    place, parts = part
    return "" if parts == 1 else f" WHERE HASH(r.u0) % {parts} = {place}"


def _pairs(plan: QueryPlan, to: Dialect) -> str:
    owned = [*_units(plan), *_keys(plan)]
    sums = [f"{_contribution(plan, release, to)} AS {release.name}" for release in plan.releases]
    return f"SELECT {', '.join([*owned, *sums])} FROM hush_cleaned GROUP BY {', '.join(owned)}"


def _contribution(plan: QueryPlan, release: SumRelease, to: Dialect) -> str:
    """Return what a unit adds to a group, an integer that is clamped last."""
    if release.what is Counted.UNITS:
        return "1"
    total = _total(plan, release, to)
    if release.what in _SCALED:
        # Of more rows than count: their mean, as often as rows count, which a random choice would give on average.
        count, rows = _present(plan, release), plan.rows_per_unit
        scaled = f"CAST(FLOOR(CAST({total} AS {to.double}) * {rows} / {count}) AS BIGINT)"
        total = f"(CASE WHEN {count} > {rows} THEN {scaled} ELSE {total} END)"
    return f"CAST(LEAST(GREATEST({total}, {release.lower}), {release.upper}) AS {_integer(release)})"


def _integer(release: SumRelease) -> str:
    """Return the narrowest type that every engine has for a contribution: views are held in memory."""
    largest = max(-release.lower, release.upper)
    return "SMALLINT" if largest < 2**15 else "INTEGER" if largest < 2**31 else "BIGINT"


def _total(plan: QueryPlan, release: SumRelease, to: Dialect) -> str:
    if release.what is Counted.ROWS:
        return "COUNT(*)"
    if release.what is Counted.VALUES:
        return _present(plan, release)
    square = release.what is Counted.SQUARES
    value = f"v{release.value}"
    return f"SUM({row_integer(value, release.row_bounds, release.offset, release.grid, to, square=square)})"


def _present(plan: QueryPlan, release: SumRelease) -> str:
    return f"COUNT(CASE WHEN v{release.value} BETWEEN -1e100 AND 1e100 THEN 1 END)"


def _kept(plan: QueryPlan, to: Dialect, ranking_key: str) -> str:
    """Return the step that bounds L0. Where a unit cannot be in more groups than it may, there is nothing to drop."""
    most, units, keys = plan.num_groups, _units(plan), _keys(plan)
    if not keys or (most is not None and most <= plan.groups_per_unit):
        return "SELECT * FROM hush_pairs"
    rank = _rank(to, [*units, *keys], ranking_key)
    order = ", ".join([rank, *keys])
    number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(units)} ORDER BY {order}) AS n"
    return f"SELECT * FROM (SELECT *, {number} FROM hush_pairs) AS q WHERE n <= {plan.groups_per_unit}"


def _rank(to: Dialect, names: list[str], ranking_key: str) -> str:
    texts = ", ".join(f"CAST({name} AS {to.text})" for name in names)
    return to.ranking.format(", ".join([f"'{ranking_key}'", *names]), f"CONCAT_WS('|', '{ranking_key}', {texts})")


def _key(name: str, kind: ColumnKind, to: Dialect) -> str:
    """Return a key such that equal keys are one group to every step; only numbers need care."""
    if kind is not ColumnKind.FLOAT:
        return name
    zero = to.real(0.0)  # -0.0 is 0.0
    return f"(CASE WHEN {name} = 0 THEN {zero} WHEN {name} BETWEEN -1e100 AND 1e100 THEN {name} END)"


def _listed(plan: QueryPlan, to: Dialect, place: int) -> str:
    key = plan.keys[place]
    values = ", ".join(f"({at}, {to.constant(v, key.expression.kind)})" for at, v in enumerate(key.domain or ()))
    return f"(VALUES {values}) AS l{place}(i, k)"


def _matches(place: int, found: str, domain: tuple[object, ...], to: Dialect) -> str:
    return f"l{place}.k = {found}" if None not in domain else _same(f"l{place}.k", found, to)


def _same(left: str, right: str, to: Dialect) -> str:
    return f"{left} <=> {right}" if to.name == "spark" else f"{left} IS NOT DISTINCT FROM {right}"


def _number(plan: QueryPlan) -> str:
    """Return the number of a group among all combinations of public keys."""
    found = "l0.i"
    for place in range(1, len(plan.keys)):
        found = f"({found}) * {len(plan.keys[place].domain or ())} + l{place}.i"
    return found


def _units(plan: QueryPlan) -> list[str]:
    return [f"u{place}" for place in range(plan.units)]


def _keys(plan: QueryPlan) -> list[str]:
    if plan.public_keys:
        return ["g"] if plan.keys else []
    return [f"k{place}" for place in range(len(plan.keys))]
