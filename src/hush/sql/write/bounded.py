"""The SQL of a plan: the query that the engine runs bounds each unit's contribution (Wilson et al. 2020).

The query is a chain of common table expressions:

hush_subquery0, hush_subquery1, ...  the subqueries of the query, each once
hush_raw      the unit, keys and values of each row; nothing here can fail
hush_cleaned  keys are replaced by their index in the public lists; rows with unlisted keys are dropped
              (in parts of a large table, hush_listed and hush_first come before it, and leave out further rows;
              sums read hush_first, and these rows, from tables that are stored first)
hush_pairs    one row per unit and group: the unit's contribution to each release, clamped *after* it is summed
hush_kept     at most groups_per_unit of these rows per unit, chosen by a keyed hash
summary       one row per group: the sum of the contributions, and the number of units

Clamping first and choosing groups second bounds the sensitivity whatever the rows are. A unit's rows in hush_kept are a
function of that unit's rows alone, so adding a unit leaves all other contributions as they were.

For SELECT region, COUNT(*), SUM(age) ... GROUP BY region, with the public regions north and south, the query is, in
outline:

    WITH hush_raw AS (SELECT unit AS u0, region AS k0, age AS v0 FROM people),
    hush_cleaned AS (SELECT u0, l0.i AS g, v0 FROM hush_raw
                     JOIN (VALUES (0, 'north'), (1, 'south')) AS l0(i, k) ON l0.k = k0),
    hush_pairs AS (SELECT u0, g, LEAST(COUNT(*), 1) AS a0, LEAST(SUM(clamped and rounded v0), 120) AS a1
                   FROM hush_cleaned GROUP BY u0, g),
    hush_kept AS (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY u0 ORDER BY HASH(key, u0, g), g) AS n
                                 FROM hush_pairs) WHERE n <= 1)
    SELECT g, COUNT(*) AS units, COALESCE(SUM(a0), 0) AS a0, COALESCE(SUM(a1), 0) AS a1 FROM hush_kept GROUP BY g

Values are put on their grid where they are summed (`row_integer`), and quantile trees count the leaves of
hush_cleaned's values in the groups of hush_kept (`leaves_query`), and so does COUNT(DISTINCT x) (`distinct_query`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.releases import LeafCounts, Quantity, SumRelease
from hush.sql.write.dialects import Dialect
from hush.sql.write.keys import equal_or_null, matches_list, normalised_key, public_list
from hush.sql.write.text.expressions import write_expression
from hush.sql.write.text.relations import RelationWriter
from hush.sql.write.text.scans import unit_columns
from hush.sql.write.text.sums import row_integer

if TYPE_CHECKING:
    from hush.sql.write.plan import QueryPlan

# Rows of groups that cannot be kept are searched for in tables of so many parts at least, if there are so many times as
# many groups as count, and so many count at most.
_SEARCHED_PARTS, _WORTH_A_SEARCH, _MOST_SEARCHED = 8, 4, 8
_CENTRED = (Quantity.CENTRED, Quantity.SQUARES)


def groups_query(
    plan: QueryPlan, dialect: Dialect, ranking_key: str, part: tuple[int, int] = (0, 1), rows: str | None = None
) -> str:
    """Return the query from tables to groups, of all units or of one part (index, parts) of them.

    Args:
        plan: The plan.
        dialect: The engine's dialect.
        ranking_key: Decides which groups of a unit are kept.
        part: The part of the units.
        rows: The quoted name of a table of the rows of `rows_query`, to read instead of the tables.
    """
    keys = _key_names(plan)
    totals = [f"COALESCE(SUM({release.name}), 0) AS {release.name}" for release in plan.sums]
    selected = f"SELECT {', '.join([*keys, 'COUNT(*) AS units', *totals])} FROM hush_kept"
    # Public groups without rows are missing here, and `QueryPlan.groups` adds them.
    return f"WITH {_layers(plan, dialect, ranking_key, part, rows)} {selected}" + _group_by(keys)


def searches(plan: QueryPlan, parts: int) -> bool:
    """Return whether rows of groups that cannot be kept go before they are added up: see `_first_layer`."""
    most_groups, units, keys = _most_groups(plan), _ranked_units(plan), _key_names(plan)
    few = plan.num_groups is not None and plan.num_groups <= _WORTH_A_SEARCH * most_groups
    if plan.sets:  # each set keeps groups of its own, wherever those of other sets are
        return False
    return parts >= _SEARCHED_PARTS and bool(units) and bool(keys) and not few and most_groups <= _MOST_SEARCHED


def first_query(plan: QueryPlan, dialect: Dialect, ranking_key: str, part: tuple[int, int]) -> str:
    """Return the query for hush_first, of one part of the units: the buckets in which each may keep groups."""
    return f"WITH {_text(_listed_layers(plan, dialect, part))} {_first_layer(plan, dialect, ranking_key)}"


def is_selective(first: str) -> str:
    """Return the query for whether about half of the rows, or fewer, are in the buckets of `first_query`.

    Ranks are spread evenly over the 64 buckets, and those in which a unit may keep groups are the lowest ones.
    """
    return f"SELECT AVG(CASE WHEN m = 0 THEN 64 ELSE BIT_COUNT(m) END) <= 32 FROM {first}"


def rows_query(plan: QueryPlan, dialect: Dialect, ranking_key: str, part: tuple[int, int], first: str | None) -> str:
    """Return the query for the rows that may count, of one part of the units.

    Args:
        plan: The plan.
        dialect: The engine's dialect.
        ranking_key: Decides which groups of a unit are kept.
        part: The part of the units.
        first: The quoted name of a table of the rows of `first_query`, about these units and maybe others; None for all
            rows.
    """
    layers = _listed_layers(plan, dialect, part)
    if first is None:
        return f"WITH {_text(layers)} SELECT * FROM hush_listed"
    layers["hush_first"] = f"SELECT * FROM {first} AS r{_part_condition(part)}"
    return f"WITH {_text(layers)} {_searched_layer(plan, dialect, ranking_key)}"


def levels_query(plan: QueryPlan, dialect: Dialect, num_levels: int) -> str:
    """Return the query that counts units by level: of their rows, their groups, and the rows of their fullest group.

    Level j holds numbers in (2^(j-1), 2^j]; the last level holds all larger ones. A unit is in one level
    of each.
    """
    units, keys = _unit_names(plan), _key_names(plan)
    writer = RelationWriter(plan.origin, plan.where, dialect)
    layers = {
        **writer.definitions,
        "hush_raw": _raw_layer(plan, writer, dialect),
        "hush_cleaned": _cleaned_layer(plan, dialect),
        "hush_pairs": f"SELECT {', '.join(units)}, COUNT(*) AS n FROM hush_cleaned GROUP BY {', '.join(units + keys)}",
        "hush_units": f"SELECT SUM(n) AS n, COUNT(*) AS g, MAX(n) AS m FROM hush_pairs GROUP BY {', '.join(units)}",
    }
    text = ", ".join(f"{name} AS ({layer})" for name, layer in layers.items())
    levels = ", ".join(f"{_level(name, num_levels)} AS l{name}" for name in ("n", "g", "m"))
    counted = f"SELECT ln, lg, lm, COUNT(*) AS units FROM (SELECT {levels} FROM hush_units) AS q GROUP BY ln, lg, lm"
    return f"WITH {text} {counted}"


def _level(number: str, num_levels: int) -> str:
    """Return the level of a positive number, without logarithms, which engines round differently."""
    steps = " ".join(f"WHEN {number} <= {2**level} THEN {level}" for level in range(num_levels - 1))
    return f"(CASE {steps} ELSE {num_levels - 1} END)"


def summary_query(plan: QueryPlan, table: str, columns: Mapping[str, str]) -> str:
    """Return the query that adds up groups of parts of the units.

    Args:
        plan: The plan.
        table: The name of the table of these groups, quoted.
        columns: The column of each release in that table, by the release's name.
    """
    keys = _key_names(plan)
    totals = [f"COALESCE(SUM({columns[release.name]}), 0) AS {release.name}" for release in plan.sums]
    return f"SELECT {', '.join([*keys, 'SUM(units) AS units', *totals])} FROM {table}" + _group_by(keys)


def _group_by(keys: list[str]) -> str:
    return f" GROUP BY {', '.join(keys)}" if keys else ""


def leaves_query(
    plan: QueryPlan, dialect: Dialect, ranking_key: str, tree: LeafCounts, part: tuple[int, int] = (0, 1)
) -> str:
    """Return the query for the leaf counts of a tree: at most ``tree.rows`` rows per unit in each of its groups.

    It counts all units, or one part (index, parts) of them. Counts of the parts add up to those of all units.

    A value x is in leaf floor((clamp(x) - low) / (high - low) * leaves), the upper bound in the last one.
    """
    low, high, width = (dialect.real(number) for number in (*tree.bounds, tree.bounds[1] - tree.bounds[0]))
    num_leaves = dialect.real(float(tree.leaves))
    position = f"FLOOR((LEAST(GREATEST(v, {low}), {high}) - {low}) / {width} * {num_leaves})"
    leaf = f"LEAST({dialect.templates['integer'].format(position)}, {tree.leaves - 1})"
    units, keys = _unit_names(plan), _key_names(plan)
    in_kept_groups = _in_kept_groups(plan, dialect, f"v{tree.value} AS v", f"{leaf} AS leaf")
    in_kept_groups += " WHERE t.v BETWEEN -1e100 AND 1e100"
    # Rows of a leaf are interchangeable, so their numbers within the leaf tell them apart. Without these, all rows of a
    # leaf would have one rank, and a value that occurs once would be chosen as often as one that occurs nine times.
    group = ", ".join([*units, *_partition_names(plan, dialect)])
    within_leaf = f"ROW_NUMBER() OVER (PARTITION BY {group}, leaf ORDER BY leaf) AS turn"
    numbered = f"SELECT *, {within_leaf} FROM ({in_kept_groups}) AS f"
    rank = dialect.rank([*_ranked_units(plan), *keys, "leaf", "turn"], ranking_key)
    number = f"ROW_NUMBER() OVER (PARTITION BY {group} ORDER BY {rank}, leaf, turn) AS n"
    shown = ", ".join([*keys, "leaf"])
    most_rows = "counted" if plan.in_total else str(tree.rows)
    ranked = f"SELECT {shown}{', counted' if plan.in_total else ''}, {number} FROM ({numbered}) AS w"
    return (
        f"WITH {_layers(plan, dialect, ranking_key, part)} SELECT {shown}, COUNT(*) AS amount FROM ({ranked}) AS q "
        f"WHERE n <= {most_rows} GROUP BY {shown}"
    )


def distinct_query(plan: QueryPlan, dialect: Dialect, ranking_key: str, release: SumRelease) -> str:
    """Return the query for the number of distinct values of each group, among `_counted_values`."""
    rows = _counted_values(plan, dialect, ranking_key, release)
    return f"WITH {_layers(plan, dialect, ranking_key)} {number_of_values(plan, rows)}"


def values_query(
    plan: QueryPlan, dialect: Dialect, ranking_key: str, release: SumRelease, part: tuple[int, int]
) -> str:
    """Return the query for the values that `distinct_query` counts, of one part (index, parts) of the units."""
    shown = ", ".join([*_key_names(plan), "v"])
    rows = _counted_values(plan, dialect, ranking_key, release)
    return f"WITH {_layers(plan, dialect, ranking_key, part)} SELECT DISTINCT {shown} FROM {rows}"


def number_of_values(plan: QueryPlan, rows: str) -> str:
    """Return the query for the number of distinct values of each group, in a table of the values of all parts."""
    keys = _key_names(plan)
    return f"SELECT {', '.join([*keys, 'COUNT(DISTINCT v) AS amount'])} FROM {rows}{_group_by(keys)}"


def _counted_values(plan: QueryPlan, dialect: Dialect, ranking_key: str, release: SumRelease) -> str:
    """Return the values of each unit and group that count: at most ``release.upper``, as rows of FROM.

    Which values of a unit count is a function of that unit's values alone: the hash has the unit, so that units do not
    all choose the same ones, and the value breaks ties. Contributions of other units do not change.
    """
    units, keys, index = _unit_names(plan), _key_names(plan), release.value or 0
    value = normalised_key(f"v{index}", plan.values[index].kind, dialect)
    values = (
        f"SELECT DISTINCT * FROM ({_in_kept_groups(plan, dialect, f'{value} AS v', 't.v')}) AS f WHERE v IS NOT NULL"
    )
    rank = dialect.rank([*_ranked_units(plan), *keys, "v"], ranking_key)
    group = ", ".join([*units, *_partition_names(plan, dialect)])
    number = f"ROW_NUMBER() OVER (PARTITION BY {group} ORDER BY {rank}, v) AS n"
    most = f"LEAST(counted, {release.upper})" if plan.in_total else str(release.upper)
    return f"(SELECT *, {number} FROM ({values}) AS w) AS q WHERE n <= {most}"


def _in_kept_groups(plan: QueryPlan, dialect: Dialect, value: str, item: str) -> str:
    """Return the rows of hush_cleaned in the groups that each unit keeps: unit, keys and an item.

    Args:
        plan: The plan.
        dialect: The engine's dialect.
        value: The value that the item is computed from, as v.
        item: What is selected; it may use t.v.
    """
    units, keys = _unit_names(plan), _key_names(plan)
    same_group = " AND ".join(
        [f"t.{unit} = p.{unit}" for unit in units] + [equal_or_null(f"t.{key}", f"p.{key}", dialect) for key in keys]
    )
    owned = ", ".join([f"t.{name}" for name in [*units, *keys]] + (["p.counted"] if plan.in_total else []))
    rows = f"(SELECT *, {value} FROM hush_cleaned) AS t"
    return f"SELECT {owned}, {item} FROM {rows} INNER JOIN hush_kept AS p ON {same_group}"


def _layers(
    plan: QueryPlan, dialect: Dialect, ranking_key: str, part: tuple[int, int] = (0, 1), rows: str | None = None
) -> str:
    """Return the common table expressions, in the order of the data."""
    layers = {
        **_cleaned_layers(plan, dialect, ranking_key, part, rows),
        "hush_pairs": _pairs_layer(plan, dialect),
        "hush_kept": _kept_layer(plan, dialect, ranking_key),
    }
    if plan.in_total:
        layers["hush_pairs"] = _uncut_pairs_layer(plan, dialect)
        layers["hush_turns"] = _turns_layer(plan, dialect, ranking_key)
        del layers["hush_kept"]  # a later layer of this name, so that it comes after the turns
        layers["hush_kept"] = _cut_layer(plan, dialect)
    return _text(layers)


def _text(layers: Mapping[str, str]) -> str:
    """Return common table expressions as they follow WITH."""
    return ", ".join(f"{name} AS ({text})" for name, text in layers.items())


def _raw_layer(plan: QueryPlan, writer: RelationWriter, dialect: Dialect) -> str:
    """Return the rows with their unit, keys and values, named u0, k0 and v0 and so on."""
    of_rows = plan.keys[:-1] if plan.sets else plan.keys
    keys = [f"{write_expression(key.expression, dialect)} AS k{index}" for index, key in enumerate(of_rows)]
    values = [f"{write_expression(value, dialect)} AS v{index}" for index, value in enumerate(plan.values)]
    rows = writer.select([*unit_columns(plan.origin), *keys, *values], plan.origin, plan.where)
    return _in_every_set(plan, rows, dialect) if plan.sets else rows


def _in_every_set(plan: QueryPlan, rows: str, dialect: Dialect) -> str:
    """Return each row once for each grouping set, with the keys of that set and its number as the last key.

    A unit's rows are still its own, and its contributions are bounded after this.
    """
    last = len(plan.keys) - 1
    items = [f"q.{name}" for name in _unit_names(plan)]
    for index in range(last):
        numbers = ", ".join(str(number) for number, keys in enumerate(plan.sets) if index in keys)
        items.append(f"(CASE WHEN s.i IN ({numbers}) THEN q.k{index} END) AS k{index}")
    items += [f"s.i AS k{last}", *(f"q.v{index}" for index in range(len(plan.values)))]
    sets = dialect.public_list("s", [str(number) for number in range(len(plan.sets))])
    return f"SELECT {', '.join(items)} FROM ({rows}) AS q CROSS JOIN {sets}"


def _cleaned_layer(plan: QueryPlan, dialect: Dialect) -> str:
    """Return the rows with normalised keys, without rows whose key is not listed.

    These rows go before groups are limited. Otherwise an unlisted group could use up a unit's limit.
    """
    items = [f"r.{name} AS {name}" for name in _unit_names(plan)]
    joins = []
    for index, key in enumerate(plan.keys):
        column = normalised_key(f"r.k{index}", key.expression.kind, dialect)
        if key.domain is not None:
            match = matches_list(index, column, key.domain, dialect)
            joins.append(f"INNER JOIN {public_list(plan, dialect, index)} ON {match}")
        if not plan.public_keys:
            items.append(f"{column} AS k{index}")
    if plan.public_keys and plan.keys:
        items.append(f"{_group_number(plan)} AS g")
    items += [f"r.v{index} AS v{index}" for index in range(len(plan.values))]
    return f"SELECT {', '.join(items)} FROM hush_raw AS r {' '.join(joins)}".rstrip()


def _cleaned_layers(
    plan: QueryPlan, dialect: Dialect, ranking_key: str, part: tuple[int, int], rows: str | None
) -> dict[str, str]:
    """Return the layers up to that of cleaned rows, which have no rows of groups that cannot be kept, if searched."""
    if rows is not None:
        return {"hush_cleaned": f"SELECT * FROM {rows} AS r{_part_condition(part)}"}
    layers = _listed_layers(plan, dialect, part)
    if not searches(plan, part[1]):
        layers["hush_cleaned"] = layers.pop("hush_listed")
        return layers
    first, cleaned = _first_layer(plan, dialect, ranking_key), _searched_layer(plan, dialect, ranking_key)
    return {**layers, "hush_first": first, "hush_cleaned": cleaned}


def _listed_layers(plan: QueryPlan, dialect: Dialect, part: tuple[int, int]) -> dict[str, str]:
    """Return the layers up to that of rows with listed keys, of one part of the units."""
    writer = RelationWriter(plan.origin, plan.where, dialect)
    listed = _cleaned_layer(plan, dialect) + _part_condition(part)
    raw = _raw_layer(plan, writer, dialect)  # which adds to the definitions
    return {**writer.definitions, "hush_raw": raw, "hush_listed": listed}


def _first_layer(plan: QueryPlan, dialect: Dialect, ranking_key: str) -> str:
    """Return the buckets in which each unit may keep groups, as bits of m; 0 for a unit that may keep all.

    `_kept_layer` keeps the groups of a unit with the smallest ranks, and so does `_turns_layer`. The first 6 bits of a
    rank are its bucket. If the L-th lowest bucket of a unit that is not empty is b, at least L of its groups are in
    buckets up to b, so the L smallest ranks are. Rows of other buckets can go before they are added up: the outcome
    is the same, and far fewer pairs of a unit and a group are in memory. A unit with fewer buckets than L keeps all.
    """
    # Differences of unsigned numbers below 0 would raise, so 1 is subtracted from positive numbers only.
    shown, bucket = ", ".join(_ranked_units(plan)), _bucket(plan, dialect, ranking_key)
    buckets = f"SELECT {shown}, BIT_OR({bucket}) AS m FROM hush_listed AS r GROUP BY {shown}"
    for _ in range(_most_groups(plan) - 1):  # without the lowest bit
        buckets = f"SELECT {shown}, m & (m - LEAST(m, 1)) AS m FROM ({buckets}) AS q"
    lowest = f"SELECT {shown}, m - (m & (m - LEAST(m, 1))) AS m FROM ({buckets}) AS q"
    return f"SELECT {shown}, m + (m - LEAST(m, 1)) AS m FROM ({lowest}) AS q"


def _searched_layer(plan: QueryPlan, dialect: Dialect, ranking_key: str) -> str:
    """Return the rows of hush_listed in the buckets of hush_first."""
    same_unit = " AND ".join(f"f.{name} = r.{name}" for name in _ranked_units(plan))
    in_first = f"f.m = 0 OR {_bucket(plan, dialect, ranking_key)} & f.m <> 0"
    return f"SELECT r.* FROM hush_listed AS r INNER JOIN hush_first AS f ON {same_unit} WHERE {in_first}"


def _bucket(plan: QueryPlan, dialect: Dialect, ranking_key: str) -> str:
    """Return the bucket of a row's group, as one bit of a number of 64 bits."""
    names = [f"r.{name}" for name in [*_ranked_units(plan), *_key_names(plan)]]
    return f"(CAST(1 AS UBIGINT) << ({dialect.rank(names, ranking_key)} >> 58))"


def _most_groups(plan: QueryPlan) -> int:
    """Return in how many groups a unit may count."""
    return min(plan.groups_per_unit, plan.rows_per_unit) if plan.in_total else plan.groups_per_unit


def _part_condition(part: tuple[int, int]) -> str:
    """Return the condition for one part of the users. A user is in one part with all rows, so a part bounds it."""
    index, parts = part
    # The first bits of a hash: engines use the last ones for their own tables, which a part would fill unevenly.
    return "" if parts == 1 else f" WHERE HASH(r.u0) >> {64 - (parts.bit_length() - 1)} = {index}"


def _pairs_layer(plan: QueryPlan, dialect: Dialect) -> str:
    """Return one row per unit and group, with the unit's contributions."""
    owned = [*_unit_names(plan), *_key_names(plan)]
    sums = [f"{_contribution(plan, release, dialect)} AS {release.name}" for release in plan.sums]
    return f"SELECT {', '.join([*owned, *sums])} FROM hush_cleaned GROUP BY {', '.join(owned)}"


def _contribution(plan: QueryPlan, release: SumRelease, dialect: Dialect) -> str:
    """Return a unit's contribution to a group: an integer, clamped after everything else."""
    if release.quantity is Quantity.UNITS:
        return "1"
    total = _total(plan, release, dialect)
    if release.quantity in _CENTRED:
        # A unit with more rows than count contributes its mean, times the rows that count. This is what a random
        # choice of rows would contribute on average, without the variance of the choice.
        count, rows = _count_values(release), plan.rows_per_unit
        scaled = _scaled(total, str(rows), count, dialect)
        total = f"(CASE WHEN {count} > {rows} THEN {scaled} ELSE {total} END)"
    return f"CAST(LEAST(GREATEST({total}, {release.lower}), {release.upper}) AS {_integer_type(release, dialect)})"


def _scaled(total: str, rows: str, count: str, dialect: Dialect) -> str:
    """Return a unit's mean times the rows that count, rounded down. There may be no row where this is not used."""
    quotient = f"FLOOR(CAST({total} AS {dialect.double}) * {rows} / NULLIF({count}, 0))"
    return dialect.templates["integer"].format(quotient)


def _integer_type(release: SumRelease, dialect: Dialect) -> str:
    """Return the narrowest type for a contribution: views are held in memory."""
    small, medium, large = dialect.integers
    largest = max(-release.lower, release.upper)
    return small if largest < 2**15 else medium if largest < 2**31 else large


def _total(plan: QueryPlan, release: SumRelease, dialect: Dialect) -> str:
    """Return the sum of a unit's rows in a group, before it is clamped."""
    if release.quantity is Quantity.ROWS:
        return "COUNT(*)"
    if release.quantity is Quantity.VALUES:
        return _count_values(release)
    square = release.quantity is Quantity.SQUARES
    value = f"v{release.value}"
    integer = row_integer(value, release.row_bounds, release.offset, release.grid, dialect, square=square)
    return dialect.templates["sum"].format(integer)


def _count_values(release: SumRelease) -> str:
    """Return the number of a unit's values that are not missing."""
    return f"COUNT(CASE WHEN v{release.value} BETWEEN -1e100 AND 1e100 THEN 1 END)"


def _kept_layer(plan: QueryPlan, dialect: Dialect, ranking_key: str) -> str:
    """Return the layer that bounds L0. If there are no more groups than a unit may have, it drops nothing."""
    num_groups, units, keys = plan.num_groups, _unit_names(plan), _key_names(plan)
    if not keys or (num_groups is not None and num_groups <= plan.groups_per_unit):
        return "SELECT * FROM hush_pairs"
    rank = dialect.rank([*_ranked_units(plan), *keys], ranking_key)
    order = ", ".join([rank, *keys])  # the keys break ties
    most = plan.groups_per_unit
    if plan.sets:  # the number of the set is the last key, which is the fastest in the group's number
        units, most = [*units, f"g % {len(plan.sets)}" if plan.public_keys else keys[-1]], plan.groups_per_set
    number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(units)} ORDER BY {order}) AS n"
    return f"SELECT * FROM (SELECT *, {number} FROM hush_pairs) AS q WHERE n <= {most}"


def _uncut_pairs_layer(plan: QueryPlan, dialect: Dialect) -> str:
    """Return one row per unit and group with its number of rows n, and for each release its sum and its values."""
    owned = [*_unit_names(plan), *_key_names(plan)]
    sums = []
    for release in plan.sums:
        if release.quantity not in (Quantity.UNITS, Quantity.ROWS):
            sums.append(f"{_total(plan, release, dialect)} AS {release.name}")
        if release.quantity in _CENTRED:
            sums.append(f"{_count_values(release)} AS c{release.name}")
    return f"SELECT {', '.join([*owned, 'COUNT(*) AS n', *sums])} FROM hush_cleaned GROUP BY {', '.join(owned)}"


def _turns_layer(plan: QueryPlan, dialect: Dialect, ranking_key: str) -> str:
    """Return the pairs with the number of rows that count in each: the unit's groups take turns in a random order.

    A group gets what the groups before it left of the limit: counted = min(n, limit - rows before). The counted rows of
    a unit add up to at most the limit, whatever its rows are.
    """
    units, keys, limit = _unit_names(plan), _key_names(plan), plan.rows_per_unit
    order = ", ".join([dialect.rank([*_ranked_units(plan), *keys], ranking_key), *keys])
    window = f"OVER (PARTITION BY {', '.join(units)} ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    turns = f"SELECT *, ROW_NUMBER() {window} AS turn, SUM(n) {window} AS so_far FROM hush_pairs"
    left = f"LEAST(n, GREATEST({limit} - (so_far - n), 0))"
    counted = f"{dialect.templates['integer'].format(left)} AS counted"
    num_groups = plan.num_groups
    in_turn = (
        ""
        if num_groups is not None and num_groups <= plan.groups_per_unit
        else (f" WHERE turn <= {plan.groups_per_unit}")
    )
    return f"SELECT *, {counted} FROM ({turns}) AS q{in_turn}"


def _cut_layer(plan: QueryPlan, dialect: Dialect) -> str:
    """Return the contributions of the rows that count. A contribution is at most ``counted`` times that of a row."""
    owned = [*_unit_names(plan), *_key_names(plan), "counted"]
    sums = [f"{_cut_contribution(plan, release, dialect)} AS {release.name}" for release in plan.sums]
    return f"SELECT {', '.join([*owned, *sums])} FROM hush_turns WHERE counted > 0"


def _cut_contribution(plan: QueryPlan, release: SumRelease, dialect: Dialect) -> str:
    """Return a unit's contribution to a group, clamped to ``counted`` rows after everything else."""
    if release.quantity is Quantity.UNITS:
        return "1"
    total = "n" if release.quantity is Quantity.ROWS else release.name
    if release.quantity in _CENTRED:
        count = f"c{release.name}"
        scaled = _scaled(total, "counted", count, dialect)
        total = f"(CASE WHEN {count} > counted THEN {scaled} ELSE {total} END)"
    # The bounds of a release are those of one row, times the limit: the division is exact.
    lowest, highest = release.lower // plan.rows_per_unit, release.upper // plan.rows_per_unit
    clamped = f"LEAST(GREATEST(COALESCE({total}, 0), {lowest} * counted), {highest} * counted)"
    return f"CAST({clamped} AS {_integer_type(release, dialect)})"


def _group_number(plan: QueryPlan) -> str:
    """Return the number of a group among all combinations of public keys: mixed radix, the last key fastest."""
    number = "l0.i"
    for index in range(1, len(plan.keys)):
        number = f"({number}) * {len(plan.keys[index].domain or ())} + l{index}.i"
    return number


def _unit_names(plan: QueryPlan) -> list[str]:
    """Return the columns that identify a unit."""
    return [f"u{index}" for index in range(plan.units)]


def _key_names(plan: QueryPlan) -> list[str]:
    """Return the columns that identify a group: its number g if keys are public, else the keys themselves."""
    if plan.public_keys:
        return ["g"] if plan.keys else []
    return [f"k{index}" for index in range(len(plan.keys))]


def _partition_names(plan: QueryPlan, dialect: Dialect) -> list[str]:
    """Return the columns that identify a group, for PARTITION BY, which takes no numbers on some engines."""
    if plan.public_keys:
        return _key_names(plan)
    numbers = [key.expression.kind is ColumnKind.FLOAT for key in plan.keys]
    templates = [dialect.templates["partition_number"] if number else "{0}" for number in numbers]
    return [template.format(name) for template, name in zip(templates, _key_names(plan), strict=True)]


def _ranked_units(plan: QueryPlan) -> list[str]:
    """Return the columns of the unit that decide, with the ranking key, which of its groups and rows count."""
    owner = plan.origin.owner
    # The number of a row depends on the rows before it. Were it to decide, adding a row would change which groups of
    # other rows count.
    return [] if owner is not None and owner.relation.id_kind is None else _unit_names(plan)
