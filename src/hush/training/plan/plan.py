"""The training plan: everything that determines a run's guarantee, fixed before the run reads data.

`make_plan` fills in what follows from what you specify: the sampling, the number of steps and the noise. The result is
a `TrainingPlan`, an immutable value whose parts are types: a `Sampling` says which units take part, a `Contribution`
what each adds to the sum, a `Clipping` how it is bounded, a `Schedule` what changes over the steps. From these the plan
computes its accounting event and its guarantee. Combinations without a proof are refused in one place,
`_refuse_combinations`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from scipy.stats import binom

from hush.accounting import ComposedEvent, Event, GroupEvent, PldAccountant, calibrate_noise
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument, Unsupported, check_count, check_instance, check_positive, check_probability
from hush.guarantee import Guarantee, Relation, Unit, UnitKind
from hush.training.noise.correlated import CorrelatedNoise, Factor
from hush.training.plan.clipping import Adaptive, Clipping, Flat, Together
from hush.training.plan.contributions import Contribution, Microbatches, PerExample, Projected
from hush.training.plan.phases import PublicPhase
from hush.training.plan.samplers import BallsInBins, Full, InOrder, Poisson, Sampling, Setting
from hush.training.plan.schedule import Schedule

_MIN_PROJECTIONS = 5  # with fewer, no amount of noise may reach an epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The plan of a private training run: DP-SGD on samples of privacy units.

    In every step, units are sampled, their gradients are clipped and summed, Gaussian noise is added once, and the sum
    is divided by the expected batch size, which is public. The standard deviation of the noise is

        noise_multiplier * clip_norm * sensitivity

    where the sensitivity is that of the contribution, in clip norms; it is 1 except for `Microbatches`.

    A limit on Poisson samples (``Poisson(..., max_batch_size=)``) drops the excess of a large sample. If that happens
    in a step with probability at most t, (epsilon, delta) becomes (epsilon, delta + (1 + e^epsilon) T t) for T steps:
    compare each neighbour's outputs with those of a run that drops nothing (Chua et al. 2024, Theorem 3.3).

    Attributes:
        sampling: How units are sampled.
        num_units: The number of units.
        num_steps: The number of steps.
        clipping: How gradients are clipped.
        noise_multiplier: The noise, in multiples of how far a unit can move the clipped sum.
        delta: The delta of the guarantee.
        physical_batch_size: The number of examples that go through the model at once. It affects memory and speed only.
        contribution: What is clipped: by default, each unit's own gradient.
        schedule: How noise multiplier, clip norm and batch size change over the steps.
        correlated: How the noise is correlated over the steps, if it is.
        relation: The neighbouring relation of the guarantee.
        unit: What the guarantee protects.
        rows_per_unit: The largest number of a unit's examples in a step.
        group_size: How many sampled units a protected unit stands for; more than 1 for `UserGroups`.
        labelled: Whether every example carries its unit's id.
        starts_from: The public phase that the starting weights come from, if any. It costs nothing; the guarantee
            assumes it.

    Guarantee:
        A run of all steps is (epsilon, delta)-differentially private, for the epsilon of `guarantee`.

    Assumes:
        The sampling's parameters are public, and the loss of an example depends on that example only (the caller's
        duty; `PrivateTraining` checks the losses). The guarantee lists these assumptions.

    References:
        Abadi et al. 2016, Algorithm 1; accounting by privacy loss distributions. Truncated Poisson batches: Chua et al.
        2024, "Scalable DP-SGD: Shuffling vs. Poisson Subsampling", Theorem 3.3.

    >>> plan = TrainingPlan(
    ...     sampling=Poisson(256), num_units=60_000, num_steps=1_000, clipping=Flat(1.0), noise_multiplier=1.1,
    ...     delta=1e-5, physical_batch_size=256,
    ... )
    >>> round(plan.guarantee().epsilon, 2)
    0.6
    """

    sampling: Sampling
    num_units: int
    num_steps: int
    clipping: Clipping
    noise_multiplier: float
    delta: float
    physical_batch_size: int
    contribution: Contribution = field(default_factory=PerExample)
    schedule: Schedule | None = None
    correlated: CorrelatedNoise | None = None
    relation: Relation = Relation.ADD_OR_REMOVE
    unit: Unit = Unit.example()
    rows_per_unit: int = 1
    group_size: int = 1
    labelled: bool = False
    starts_from: PublicPhase | None = None

    def __post_init__(self) -> None:
        """Check the parts, and that they go together."""
        check_instance("sampling", self.sampling, Sampling, "Such as Poisson(512)")
        check_instance("clipping", self.clipping, Clipping, "Such as Flat(clip_norm=1.0)")
        check_instance("contribution", self.contribution, Contribution, "Such as PerExample()")
        check_instance("relation", self.relation, Relation)
        check_instance("unit", self.unit, Unit)
        check_positive("noise_multiplier", self.noise_multiplier)
        if not check_probability("delta", self.delta) < 1:
            raise InvalidArgument("delta", self.delta, "a number in (0, 1)")
        for name in ("num_units", "num_steps", "physical_batch_size", "rows_per_unit", "group_size"):
            check_count(name, getattr(self, name))
        for name, kind in (("schedule", Schedule), ("correlated", CorrelatedNoise), ("starts_from", PublicPhase)):
            if getattr(self, name) is not None:
                check_instance(name, getattr(self, name), kind)
        if self.unit.group_size > 1:
            raise InvalidArgument("unit", str(self.unit), "one example or user", "See Guarantee.for_group")
        self.sampling.check(self.num_units)
        _refuse_combinations(self)
        # Both calls refuse noise levels that cannot be accounted for, before the run starts.
        self.contribution.mechanism(self.noise_multiplier)
        for step in range(self.num_steps if self.schedule is not None else 1):
            self.noise_on_sum(step)

    @property
    def batch_size(self) -> int:
        """The expected number of units in a batch."""
        return self.sampling.size(self.num_units)

    @property
    def sampling_rate(self) -> float:
        """The expected fraction of the units in a batch."""
        return self.batch_size / self.num_units

    @property
    def max_batch_size(self) -> int | None:
        """The largest number of units in a batch, if there is a limit."""
        return self.sampling.max_batch_size if isinstance(self.sampling, Poisson) else None

    def setting(self, step: int) -> Setting:
        """Return the noise multiplier and the batch size of a step."""
        if self.schedule is None:
            return self.noise_multiplier, self.batch_size
        # A schedule must not ask for more units than there are, nor for none.
        size = max(round(self.batch_size * self.schedule.factor("batch_size", step)), 1)
        return self.noise_multiplier * self.schedule.factor("noise_multiplier", step), min(size, self.num_units)

    def clip_factor(self, step: int) -> float:
        """Return the factor on the clip norm in a step."""
        return 1.0 if self.schedule is None else self.schedule.factor("clip_norm", step)

    def noise_on_sum(self, step: int) -> float:
        """Return the standard deviation of the noise on the clipped sum of a step, in clip norms.

        It exceeds the noise multiplier if adaptive clipping shares the budget with a count, or if a contribution moves
        the sum by more than the clip norm.
        """
        noise, size = self.setting(step)
        if isinstance(self.clipping, Adaptive):
            noise = self.clipping.noise_on_sum(noise, size)
        return noise * self.contribution.sensitivity(self.relation)

    def divisor(self, step: int) -> float:
        """Return the divisor of a step's sum: the expected number of contributions."""
        return self.setting(step)[1] / self.contribution.examples

    @property
    def rows(self) -> int:
        """The number of rows that a contribution takes in a batch."""
        return self.rows_per_unit * self.contribution.copies * self.contribution.examples

    def factor(self) -> Factor | None:
        """Return the factorisation that correlates the noise of all steps, or None if it is independent."""
        if self.correlated is None:
            return None
        return self.correlated.factor(self.num_steps, self.sampling.participation(self.num_units, self.num_steps))

    def event(self, num_steps: int | None = None) -> Event:
        """Return the event of the first ``num_steps`` steps, or of all, with its relation, unit and assumptions."""
        assumptions = self._assumptions()
        if self.max_batch_size is not None:
            probability = self.overflow(self.num_steps if num_steps is None else num_steps)
            assumptions += (f"no sample exceeded the limit (one does with probability at most {probability:.3g})",)
        return QualifiedEvent(self._event(num_steps), self.relation.value, str(self.unit), assumptions)

    def _event(self, num_steps: int | None = None) -> Event:
        steps = self.num_steps if num_steps is None else num_steps
        if steps == 0:
            return ComposedEvent(())
        factor = self.factor()
        if factor is not None:
            participation = self.sampling.participation(self.num_units, self.num_steps)
            event = factor.event(self.noise_multiplier, participation, steps)
        else:
            settings = [self.setting(step) for step in range(steps)]
            event = self.sampling.event(settings, self.num_units, self.contribution.mechanism)
        return event if self.group_size == 1 else GroupEvent(event, self.group_size)

    def guarantee(self, num_steps: int | None = None, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return the guarantee of the first ``num_steps`` steps, or of all, with additional assumptions."""
        accountant = PldAccountant(relation=self.relation, unit=self.unit).compose(self._event(num_steps))
        stated = self._with_room_for_overflow(accountant, self.num_steps if num_steps is None else num_steps)
        return Guarantee(
            epsilon=stated.epsilon,
            delta=stated.delta if self.max_batch_size is None else self.delta,
            unit=stated.unit,
            relation=stated.relation,
            method=", ".join([*self._method(), stated.method]),
            assumptions=(*self._assumptions(), *assumptions),
        )

    def _method(self) -> list[str]:
        """Return the words that describe this plan in the method of a guarantee."""
        words = [self.sampling.how]
        if self.contribution.name:
            words.append(self.contribution.name)
        if self.correlated is not None:
            words.append("correlated noise")
        if self.group_size > 1:
            words.append(f"groups of {self.group_size} examples")
        return words

    def _assumptions(self) -> tuple[str, ...]:
        assumptions = [self.sampling.assumption, "the loss of an example depends on that example only"]
        if self.max_batch_size is not None:
            assumptions.append(f"there are at most {self.num_units} units")
        if self.unit.kind is not UnitKind.EXAMPLE:
            assumptions.append(
                f"every example carries the id of its {self.unit}"
                if self.labelled
                else f"each {self.unit} has one example"
            )
        if self.starts_from is not None:
            assumptions.append(self.starts_from.assumption)
        return tuple(assumptions)

    def overflow(self, num_steps: int) -> float:
        """Return an upper bound on the probability that one of the first samples exceeds the limit."""
        limit = self.max_batch_size
        if limit is None:
            return 0.0
        # A union bound over the steps; steps of equal batch size have equal probabilities.
        sizes = Counter(self.setting(step)[1] for step in range(num_steps))
        num_units = self.num_units + self.group_size  # of the larger of two neighbours
        return sum(count * _overflow(limit, num_units, size / self.num_units) for size, count in sizes.items())

    def _with_room_for_overflow(self, accountant: PldAccountant, steps: int) -> Guarantee:
        """Return a guarantee whose delta is smaller than the plan's by the price of dropped examples.

        That price, (1 + e^epsilon) times the probability of an overflow, grows with epsilon, which in turn grows as
        less of delta is left. So this is a fixed point, found by iteration from below.
        """
        stated = accountant.guarantee(self.delta)
        probability = self.overflow(steps)
        if self.max_batch_size is None or steps == 0:
            return stated
        for _ in range(100):
            # exp overflows beyond 709; such an epsilon leaves no delta anyway.
            remaining = self.delta - (1 + math.exp(min(stated.epsilon, 700.0))) * probability
            if not remaining > 0:
                raise _limit_too_small(self.max_batch_size)
            candidate = accountant.guarantee(remaining)
            if candidate.epsilon <= stated.epsilon * (1 + 1e-12):
                return candidate  # the price was computed for an epsilon that is at least as large
            stated = Guarantee(
                epsilon=candidate.epsilon * (1 + 1e-6),
                delta=remaining,
                unit=candidate.unit,
                relation=candidate.relation,
                method=candidate.method,
            )
        raise _limit_too_small(self.max_batch_size)


def _refuse_combinations(plan: TrainingPlan) -> None:
    """Refuse, by name, combinations without a proof."""
    sampling, sampling_name = plan.sampling, type(plan.sampling).__name__
    if plan.relation not in sampling.relations:
        raise Unsupported(
            f"{sampling_name} under the relation {plan.relation.value!r}: nothing is proven for it",
            f"Use {' or '.join(f'Relation.{relation.name}' for relation in sampling.relations)}",
        )
    if isinstance(plan.contribution, Microbatches):
        _refuse_with_microbatches(plan, sampling_name)
    if isinstance(plan.contribution, Projected):
        _refuse_with_projections(plan)
    if isinstance(plan.clipping, Adaptive) and plan.correlated is not None:
        raise Unsupported("Adaptive clipping with correlated noise: the noise on its counts is not correlated")
    if isinstance(sampling, InOrder) and plan.unit.kind is not UnitKind.EXAMPLE and plan.relation is Relation.REPLACE:
        raise Unsupported(
            "InOrder with users under the relation 'replace': the replacement may come at another position",
            "Use Relation.ZERO_OUT",
        )
    if plan.group_size > 1 and not isinstance(sampling, (Poisson, Full)):
        raise Unsupported(f"UserGroups with {sampling_name}: no analysis of groups is known", "Use Users, or Poisson")
    if plan.schedule is not None:
        _refuse_with_schedule(plan, plan.schedule, sampling_name)


def _refuse_with_microbatches(plan: TrainingPlan, sampling_name: str) -> None:
    if not plan.sampling.keeps_places or plan.relation is Relation.ADD_OR_REMOVE:
        raise Unsupported(
            f"Microbatches with {sampling_name} under {plan.relation.value!r}: adding or removing a unit moves others "
            "to another micro-batch",
            "Use FixedSize, ShuffledEpochs, InOrder or Full, with Relation.ZERO_OUT or REPLACE",
        )
    if isinstance(plan.clipping, Adaptive) or plan.rows_per_unit > 1:
        raise Unsupported("Microbatches with Adaptive clipping or Users: two ways to share a contribution")


def _refuse_with_projections(plan: TrainingPlan) -> None:
    if type(plan.clipping) is not Flat or not isinstance(plan.clipping.groups, Together):
        raise Unsupported("Projected with other than Flat clipping of all parameters together")
    if plan.rows_per_unit > 1 or plan.group_size > 1:
        raise Unsupported("Projected with users: its random sensitivity is analysed for single examples")
    if isinstance(plan.sampling, BallsInBins) or plan.correlated is not None:
        raise Unsupported("Projected with BallsInBins or correlated noise: no analysis is known", "Use Poisson")


def _refuse_with_schedule(plan: TrainingPlan, schedule: Schedule, sampling_name: str) -> None:
    if schedule.batch_size is not None and not plan.sampling.varies:
        raise Unsupported(f"a schedule of batch sizes with {sampling_name}", "Use Poisson or FixedSize")
    if schedule.clip_norm is not None and isinstance(plan.clipping, Adaptive):
        raise Unsupported("a schedule of clip norms with Adaptive clipping, which sets the clip norm itself")
    if plan.correlated is not None:
        raise Unsupported("a schedule with correlated noise: the correlation assumes equal steps")


def _limit_too_small(limit: int) -> InvalidArgument:
    return InvalidArgument(
        "max_batch_size",
        limit,
        "a larger limit: dropping examples would use up delta",
        "Six standard deviations above batch_size suffice",
    )


def _overflow(limit: int, num_units: int, rate: float) -> float:
    """Return the probability that a Poisson sample exceeds the limit, rounded up."""
    return float(binom.sf(limit, num_units, rate)) * (1 + 1e-9)


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
        raise InvalidArgument("epochs", epochs, "a number, or num_steps instead", "Give epochs or num_steps, not both")
    check_count("num_units", num_units)
    if not check_probability("delta", delta) * num_units < 1:
        raise InvalidArgument(
            "delta",
            delta,
            "less than 1 over the number of units",
            "A larger delta would allow publishing one of them in the clear",
        )
    sampling = _complete_sampling(sampling, batch_size, max_batch_size, num_units)
    if num_steps is None:
        num_steps = sampling.steps(check_positive("epochs", epochs), num_units)
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
    overflow = draft.overflow(draft.num_steps)
    remaining_delta = delta - (1 + math.exp(min(check_positive("epsilon", epsilon), 700.0))) * overflow
    if not remaining_delta > 0:
        assert draft.max_batch_size is not None
        raise _limit_too_small(draft.max_batch_size)
    if noise_multiplier is None:
        return replace(draft, noise_multiplier=_calibrated(draft, epsilon, remaining_delta), clipping=clipping)
    steps = _affordable_steps(draft, epsilon, remaining_delta)
    while (
        draft.correlated is not None
        and steps > 1
        and not _fits(replace(draft, num_steps=steps), epsilon, remaining_delta)
    ):
        steps -= 1  # a plan with fewer steps correlates its noise differently, so the cost changes, too
    return replace(draft, num_steps=steps)


def _complete_sampling(
    sampling: Sampling | None, batch_size: int | None, max_batch_size: int | None, num_units: int
) -> Sampling:
    if sampling is not None:
        if batch_size is not None or max_batch_size is not None:
            raise InvalidArgument(
                "batch_size", batch_size, "None with sampling=", "Give batch_size or sampling, not both"
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
        template=lambda noise: replace(draft, noise_multiplier=noise, clipping=Flat())._event(),
    )


def _affordable_steps(plan: TrainingPlan, epsilon: float, delta: float) -> int:
    """Return the largest number of steps that cost at most epsilon, by bisection."""
    if _fits(plan, epsilon, delta):
        return plan.num_steps
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
    return PldAccountant(relation=plan.relation).compose(plan._event(num_steps)).epsilon(delta) <= epsilon
