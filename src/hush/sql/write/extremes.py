"""The text that counts units by the bins of their least and greatest value of a column, to learn its bounds.

A unit is in one bin of each of the two histograms, whatever its rows are, so that adding or removing it changes one
count of each by one. The bins are those of `hush.statistics.LogHistogram`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hush.sql.syntax.expression import Expr
from hush.sql.write.dialects import Dialect
from hush.sql.write.text.expressions import write_expression
from hush.sql.write.text.relations import RelationWriter
from hush.sql.write.text.scans import unit_columns

if TYPE_CHECKING:
    from hush.sql.write.plan import QueryPlan


def extremes_query(plan: QueryPlan, column: Expr, dialect: Dialect, edges: Sequence[float]) -> str:
    """Return the query: the histogram (0 for least values, 1 for greatest ones), the bin, and the number of units."""
    writer = RelationWriter(plan.origin, plan.where, dialect)
    number = write_expression(column, dialect)
    # What sums do not count is not counted here: values beyond 1e100, which computed columns can have.
    value = f"CASE WHEN {number} BETWEEN -1e100 AND 1e100 THEN {dialect.templates['number'].format(number)} END AS v"
    units = ", ".join(f"u{index}" for index in range(plan.units))
    layers = {
        **writer.definitions,
        "hush_raw": writer.select([*unit_columns(plan.origin), value], plan.origin, plan.where),
        "hush_units": f"SELECT MIN(v) AS e0, MAX(v) AS e1 FROM hush_raw WHERE v IS NOT NULL GROUP BY {units}",
    }
    text = ", ".join(f"{name} AS ({layer})" for name, layer in layers.items())
    counted = [
        f"SELECT {side} AS side, bin, COUNT(*) AS units FROM (SELECT {_bin(f'e{side}', dialect, edges)} AS bin "
        f"FROM hush_units) AS q{side} GROUP BY bin"
        for side in (0, 1)
    ]
    return f"WITH {text} {' UNION ALL '.join(counted)}"


def _bin(value: str, dialect: Dialect, edges: Sequence[float]) -> str:
    """Return the bin of a value, without logarithms, which engines round differently.

    A bin includes the end that is further from 0; the first positive one includes 0.
    """
    inner = enumerate(edges[1:-1])
    steps = [f"WHEN {value} {'<=' if edge > 0 else '<'} {dialect.real(edge)} THEN {index}" for index, edge in inner]
    return f"(CASE {' '.join(steps)} ELSE {len(edges) - 2} END)"
