"""What `hush plan` says about the choice of epsilon, delta, method and mechanism. docs/choosing.md has the reasons."""

from __future__ import annotations

import math

_STRONG, _USUAL, _WEAK = 0.1, 1.0, 10.0
_MUCH = 0.1  # units that delta may expose, in expectation
_TABLE_ROWS = 50_000
_MECHANISM = (
    "mechanism: Gaussian noise, as a gradient has many numbers. For up to about seven, Laplace noise is smaller; for "
    "one of several things, choose among scores (hush.mechanisms)."
)


def advice(*, epsilon: float, delta: float, num_units: int, epsilon_at_square: float) -> list[str]:
    """Return one sentence or two on each choice.

    >>> sentences = advice(epsilon=3.0, delta=1e-5, num_units=60_000, epsilon_at_square=4.9)
    >>> sentences[0]
    'epsilon: 3 is common in learning. A guess about one unit that is right half of the time may be right 95.3 % of it.'

    Args:
        epsilon: The epsilon of the plan.
        delta: The delta of the plan.
        num_units: How many units are trained on.
        epsilon_at_square: The plan's epsilon at delta = 1 / num_units^2.
    """
    share = f"{delta * num_units:.3g} over the number of units, and must stay below 1 over it"
    there = f"{epsilon_at_square:.3g}" if epsilon_at_square < math.inf else "unbounded"
    square = f"At 1 over its square, {num_units**-2.0:.3g}, epsilon is {there}"
    return [
        f"epsilon: {_verdict(epsilon, delta, num_units)}",
        f"delta: {delta:.3g} is {share}.{_much(delta, num_units)} {square}.",
        f"method: {_method(num_units)}",
        _MECHANISM,
    ]


def _much(delta: float, num_units: int) -> str:
    """Return a warning if delta is more than a tenth of 1 over the number of units."""
    if not delta * num_units > _MUCH:
        return ""
    smaller = 10.0 ** math.floor(math.log10(_MUCH / num_units) + 1e-9)
    return f" That is much: some mechanisms expose each unit with that probability. Better --delta {smaller:.0e}."


def _verdict(epsilon: float, delta: float, num_units: int) -> str:
    """Say what a plan's epsilon is good for."""
    if not epsilon < math.inf:
        return "unbounded: nothing is guaranteed."
    # Group privacy: all units together can change the odds of any result by e^(n epsilon) only.
    if epsilon * num_units <= 1:
        return (
            f"{epsilon:.3g} is useless: at most 1 over the number of units, so the result hardly depends on the data."
        )
    return f"{epsilon:.3g} {_kind(epsilon)}. A guess about one unit {_odds(epsilon, delta)}."


def _kind(epsilon: float) -> str:
    if epsilon <= _STRONG:
        return "is strong, and usual for single statistics"
    if epsilon <= _USUAL:
        return "is the usual promise for a whole release"
    return "is common in learning" if epsilon <= _WEAK else "promises little by itself: audit the model as well"


def _odds(epsilon: float, delta: float) -> str:
    after = 100 * (1 - (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon)))
    # Rounded up: this is a bound.
    return f"that is right half of the time may be right {min(math.ceil(after * 10) / 10, 100.0):.1f} % of it"


def _method(num_units: int) -> str:
    """Say when another method is better than gradient perturbation."""
    if num_units < _TABLE_ROWS:
        return (
            "with so few units, first try a linear model by objective perturbation or on noisy sums (hush.estimators)."
        )
    return "noise on gradients suits any network. For linear models of tables, objective perturbation is simpler."
