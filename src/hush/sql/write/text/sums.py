"""Values as integers on a grid, and their sums. Sums of integers do not depend on the order of rows."""

from __future__ import annotations

from hush.sql.syntax.expression import Expr
from hush.sql.syntax.grid import COARSE, FINE, WIDEST_BOUNDS, grid_for
from hush.sql.write.dialects import Dialect


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


def sum_or_mean(expression: Expr, dialect: Dialect, value: str, over: str = "") -> str:
    """Return SUM or AVG of one unit's rows, in a subquery: on a grid, as sums over units are.

    Args:
        expression: The operation.
        dialect: The engine's dialect.
        value: The text of its operand.
        over: The window, if it is of a window's rows.
    """
    inner = expression.args[0]
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
