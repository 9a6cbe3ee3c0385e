"""Completes a plan from the arguments of `privatize`: its sampling, its number of steps and its noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hush.accounting import Event, PldAccountant, calibrate_noise
from hush.accounting.events import plain_event
from hush.errors import InvalidArgument, check_count, check_instance, check_positive, check_probability
from hush.guarantee import Relation
from hush.training.plan.clipping import Adaptive, Clipping, Flat
from hush.training.plan.contributions import Projected
from hush.training.plan.samplers import Full, Poisson, Sampling
from hush.training.plan.training_plan import TrainingPlan

_MIN_PROJECTIONS = 5  # with fewer, no amount of noise may reach an epsilon


def make_plan(
    *,
    num_units: int,
    delta: float,
    clipping: Clipping,
    sampling: Sampling | None,
    batch_size: int | None,
    max_batch_size: int | None,
    epsilon: float | None,
    noise_multiplier: float | None,
    epochs: float | None,
    num_steps: int | None,
    physical_batch_size: int | None,
    relation: Relation | None = None,
    **settings: Any,
) -> TrainingPlan:
    """Complete a plan from the arguments of `privatize`, which describes them.

    With ``epsilon`` alone, the noise is calibrated to it. With ``noise_multiplier`` as well, the plan ends before the
    step that would exceed epsilon. Without a batch size, all units take part in every step.
    """
    if epsilon is None and noise_multiplier is None:
        raise InvalidArgument("epsilon", None, "a number > 0", "Pass epsilon=, or noise_multiplier=")
    if (epochs is None) == (num_steps is None):
        raise InvalidArgument("epochs", epochs, "either epochs= or num_steps=", "Give exactly one of them")
    check_count("num_units", num_units)
    # A mechanism that publishes one random unit out of N in the clear has (0, 1 / N).
    if not check_probability("delta", delta) * num_units < 1:
        raise InvalidArgument(
            "delta",
            delta,
            "less than 1 over the number of units",
            "A larger delta would allow you to publish one of them in the clear",
        )
    sampling = _complete_sampling(sampling, batch_size, max_batch_size, num_units)
    if num_steps is None:
        num_steps = sampling.num_steps(check_positive("epochs", epochs), num_units)
    draft = TrainingPlan(
        sampling=sampling,
        num_units=num_units,
        num_steps=check_count("num_steps", num_steps),
        # While the noise is unknown, a fixed noise on adaptive clipping's count could exceed it.
        clipping=clipping if noise_multiplier is not None else _without_count_noise(clipping),
        noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier,
        delta=delta,
        physical_batch_size=1 if physical_batch_size is None else physical_batch_size,
        relation=sampling.relations[0] if relation is None else relation,
        **settings,
    )
    # Refuses a combination without an analysis now, rather than after the run.
    PldAccountant(relation=draft.relation, unit=draft.unit).compose(draft.event(1))
    if physical_batch_size is None:
        contributions = -(-sampling.room(num_units) // draft.contribution.examples)
        draft = replace(draft, physical_batch_size=contributions * draft.rows)
    if epsilon is None:
        return draft
    check_positive("epsilon", epsilon)
    if noise_multiplier is None:
        return replace(draft, noise_multiplier=_calibrated(draft, epsilon, delta), clipping=clipping)
    steps = _affordable_steps(draft, epsilon, delta)
    while draft.correlated is not None and steps > 1 and not _fits(replace(draft, num_steps=steps), epsilon, delta):
        steps -= 1  # a plan with fewer steps correlates its noise differently, so the cost changes, too
    return replace(draft, num_steps=steps)


def _complete_sampling(
    sampling: Sampling | None, batch_size: int | None, max_batch_size: int | None, num_units: int
) -> Sampling:
    if sampling is not None:
        for name, value in (("batch_size", batch_size), ("max_batch_size", max_batch_size)):
            if value is not None:
                raise InvalidArgument(
                    name, value, "no value, since the sampling sets it", f"Give {name} or sampling, not both"
                )
        check_instance("sampling", sampling, Sampling, "Such as Poisson(512)")
        return sampling
    if batch_size is None:
        return Full()
    if check_count("batch_size", batch_size) == num_units and max_batch_size is None:
        return Full()
    return Poisson(batch_size, max_batch_size)


def _without_count_noise(clipping: Clipping) -> Clipping:
    return replace(clipping, count_noise=None) if isinstance(clipping, Adaptive) else clipping


def _calibrated(draft: TrainingPlan, epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier with which a plan meets epsilon."""
    if isinstance(draft.contribution, Projected) and draft.contribution.projections < _MIN_PROJECTIONS:
        raise InvalidArgument(
            "projections",
            draft.contribution.projections,
            f"at least {_MIN_PROJECTIONS} to meet an epsilon",
            "20 projections cost little",
        )
    return calibrate_noise(
        epsilon=epsilon,
        delta=delta,
        relation=draft.relation,
        # The event does not depend on the clipping, so any will do.
        template=lambda noise: _plain_event(replace(draft, noise_multiplier=noise, clipping=Flat())),
    )


def _affordable_steps(plan: TrainingPlan, epsilon: float, delta: float) -> int:
    """Return the largest number of steps that cost at most epsilon, by bisection: the cost grows with every step."""
    if _fits(plan, epsilon, delta):
        return plan.num_steps
    # Invariant: ``low`` steps are affordable, ``high`` steps are not.
    low, high = 0, plan.num_steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(plan, epsilon, delta, middle) else (low, middle)
    if low == 0:
        raise InvalidArgument(
            "noise_multiplier", plan.noise_multiplier, f"enough noise for one step within epsilon={epsilon}"
        )
    return low


def _fits(plan: TrainingPlan, epsilon: float, delta: float, num_steps: int | None = None) -> bool:
    return PldAccountant(relation=plan.relation).compose(_plain_event(plan, num_steps)).epsilon(delta) <= epsilon


def _plain_event(plan: TrainingPlan, num_steps: int | None = None) -> Event:
    """Return the event of a plan without its relation, unit and assumptions."""
    return plain_event(plan.event(num_steps), plan.relation, plan.unit)[0]
