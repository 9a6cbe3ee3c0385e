"""What public numbers say about a run before anything is spent: how exact it can be, and what is unusual about it.

Everything here follows from epsilon, delta, the noise and the numbers of units, which are public. So it costs nothing,
and is said before the first release, while the settings can still be changed.
"""

from __future__ import annotations

import math

from hush.data import Outline
from hush.guarantee import Unit, verdict
from hush.runs.figures import DETECTED, DEVIATIONS, ROUNDING, SHARES
from hush.runs.run_plan import RunPlan

_FEW_UNITS = 1000
_LARGE_EPSILON = 10
_LOST = 0.05  # the share of accuracy from which a forecast of the loss is worth saying
_EXACT = 0.05  # how exact a metric should be, on either side
_MOST_UNITS = 1 << 40


def warnings(plan: RunPlan, epsilon: float) -> list[str]:
    """Return what is unusual about a run: a large epsilon, few units, or no unit.

    Args:
        plan: The plan of the run.
        epsilon: The epsilon that it spends.
    """
    sentences = []
    if epsilon > _LARGE_EPSILON:
        sentences.append(verdict(epsilon))
    if plan.training.num_units < _FEW_UNITS:
        sentences.append(f"With fewer than {_FEW_UNITS:,} units to learn from, the noise costs much accuracy.")
    if plan.training.unit == Unit.example():
        sentences.append(
            "Each row is protected on its own. If one person can have several rows, name the column that identifies "
            "the person: --unit COLUMN."
        )
    return sentences


def forecast(plan: RunPlan, outline: Outline) -> list[str]:
    """Return what the numbers of units allow, where they are too small for a good model or a good measurement."""
    sentences = _forecast_of_training(plan, outline)
    if plan.evaluation is not None and outline.plan.target_range is None:
        sentences += _forecast_of_measuring(plan.evaluation.noise_multiplier, outline.num_held_out)
    return sentences


def expected_loss(num_inputs: int, num_units: int, epsilon: float, delta: float) -> float:
    """Return the order of what noise costs a linear model: sqrt(p ln(1 / delta)) / (n epsilon), at most 1.

    No algorithm has a smaller order in the worst case (Bassily, Smith & Thakurta 2014, Theorem 5.3). It is a rule of
    thumb for the share of accuracy that is lost, not a bound.

    >>> round(expected_loss(10, 1_000, 1.0, 1e-5), 3), expected_loss(10, 5, 0.1, 1e-5)
    (0.011, 1.0)
    """
    return min(math.sqrt(num_inputs * math.log(1 / delta)) / (num_units * epsilon), 1.0)


def half_width(noise_multiplier: float, num_held_out: int) -> float:
    """Return about how far a measured accuracy of one half will be from the true one, with 95 % confidence.

    >>> round(half_width(1.0, 100), 2), half_width(1.0, 0)
    (0.1, inf)
    """
    if num_held_out < 1:
        return math.inf
    noise = _count_noise(noise_multiplier) / num_held_out
    return DEVIATIONS * math.sqrt(0.25 / num_held_out + noise**2 / 2)


def _count_noise(noise_multiplier: float) -> float:
    """Return the standard deviation of the counts that the final accuracy is computed from."""
    return noise_multiplier * ROUNDING / math.sqrt(SHARES["final"])


def _forecast_of_training(plan: RunPlan, outline: Outline) -> list[str]:
    training, epsilon = plan.training, plan.settings.epsilon
    num_inputs = max(len(outline.plan.columns), 1)  # at least: a category becomes several
    lost = expected_loss(num_inputs, training.num_units, epsilon, training.delta)
    if outline.image_shape is not None or lost < _LOST:
        return []
    needed = training.num_units * lost / _LOST
    return [
        f"{training.num_units:,} units at epsilon {epsilon:g} are few for {num_inputs} columns: noise alone may cost "
        f"about {lost:.0%} of the accuracy. About {needed:,.0f} units, an epsilon of {epsilon * lost / _LOST:.2g}, or "
        "fewer columns (--ignore) would keep it below 5 %."
    ]


def _forecast_of_measuring(noise_multiplier: float, num_held_out: int) -> list[str]:
    half = half_width(noise_multiplier, num_held_out)
    if half <= 2 * _EXACT:
        return []
    needed = num_held_out
    while half_width(noise_multiplier, needed) > 2 * _EXACT and needed < _MOST_UNITS:
        needed += max(needed // 8, 1)
    advice = f"About {needed:,} held-out units (--holdout) would give 10 points"
    if num_held_out <= DETECTED * _count_noise(noise_multiplier):
        return [f"{num_held_out:,} held-out units are too few to measure accuracy through the noise. {advice}."]
    return [
        f"Accuracy will be known to within {100 * half:.0f} points, from {num_held_out:,} held-out units. {advice}."
    ]
