"""ROLLUP, CUBE and GROUPING SETS: several groupings of the same rows in one query.

Each row is in one group of each set. The groupings share one budget, and a unit may contribute to as many groups of
each set as it may in a query with one grouping.

| written | sets |
|---|---|
| GROUP BY ROLLUP (a, b) | (a, b), (a), () |
| GROUP BY CUBE (a, b) | (a, b), (a), (b), () |
| GROUP BY GROUPING SETS ((a, b), a) | (a, b), (a) |
| GROUP BY a, ROLLUP (b) | (a, b), (a) |
| GROUP BY a, b WITH ROLLUP, in Spark | as ROLLUP (a, b) |
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product

from sqlglot import exp

from hush.sql.syntax.refusal import Refuser

_MOST_SETS = 32
_Set = list[exp.Expr]  # the keys of one grouping


def grouping_sets(refuse: Refuser, select: exp.Select) -> list[_Set] | None:
    """Return the sets of a query, and leave all their keys in its GROUP BY; None for a query with one grouping.

    >>> from sqlglot import parse_one
    >>> select = parse_one("SELECT COUNT(*) FROM t GROUP BY a, ROLLUP (b, c)", read="duckdb")
    >>> [[key.sql() for key in keys] for keys in grouping_sets(Refuser(""), select)]
    [['a', 'b', 'c'], ['a', 'b'], ['a']]
    """
    clause = select.args.get("group")
    if clause is None:
        return None
    items = list(clause.expressions)
    for name, node_type in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        if clause.args.get(name):  # WITH ROLLUP applies to all keys
            items = [node_type(expressions=items)]
            clause.set(name, None)
    if not any(isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)) for item in items):
        return None
    sets = [list(chain(*parts)) for parts in product(*(list(_sets(refuse, item)) for item in items))]
    if not len(sets) <= _MOST_SETS:
        raise refuse(clause, f"a query has at most {_MOST_SETS} grouping sets", "Write GROUPING SETS with fewer")
    clause.set("expressions", list({id(key): key for keys in sets for key in keys}.values()))
    return sets


def _sets(refuse: Refuser, item: exp.Expr) -> Iterator[_Set]:
    """Yield the sets of one item of GROUP BY."""
    if isinstance(item, exp.GroupingSets):
        for part in item.expressions:
            yield from _sets(refuse, part)
    elif isinstance(item, (exp.Rollup, exp.Cube)):
        parts = [_keys(part) for part in item.expressions]
        if not 1 <= len(parts) <= _MOST_SETS:
            raise refuse(item, f"expected 1 to {_MOST_SETS} keys here")
        sizes = range(len(parts), -1, -1)
        if isinstance(item, exp.Rollup):
            yield from (list(chain(*parts[:size])) for size in sizes)
        elif len(parts) > 5:
            raise refuse(item, "CUBE takes at most 5 keys", "Write GROUPING SETS with fewer")
        else:
            yield from (list(chain(*chosen)) for size in sizes for chosen in combinations(parts, size))
    else:
        yield _keys(item)


def _keys(node: exp.Expr) -> _Set:
    """Return the keys of one element: (a, b) or a."""
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node.unnest()]
