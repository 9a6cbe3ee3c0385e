"""The plan: everything that decides what a training run promises, fixed before it starts."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Noisy, clipped gradient descent on samples of units: of examples, or of users.

    In every step some units are sampled; the gradients of those are clipped and summed; noise of standard deviation
    ``noise_multiplier`` times the clip norm (times what a contribution may move the sum, if that is more) is added
    once; and the sum is divided by the expected batch size, which is public, whatever the number really was.

    With a limit on Poisson samples no more units than that take part in a step, and the rest of a larger sample is
    dropped. That changes a step with the probability t of such a sample, so that (epsilon, delta) becomes
    (epsilon, delta + (1 + e^epsilon) T t) for T steps (Chua et al. 2024, Theorem 3.3: from outputs to outputs without
    dropping, to those of the neighbour, and back).

    Attributes:
        sampling: How units are chosen.
        num_units: How many there are.
        num_steps, noise_multiplier: as above.
        clipping: How gradients are clipped; its clip norm is the largest contribution.
        delta: For which delta the guarantee is stated.
        physical_batch_size: How many examples go through the model at once: memory, nothing else.
        contribution: What is clipped: a unit's own gradient, or something else.
        schedule: How noise, clip norm and batch size change.
        correlated: How noise is correlated over steps, if it is.
        relation, unit: What the guarantee is about.
        rows_per_unit: How many examples a unit has in a step.
        group_size: As how many sampled units each protected one is accounted for.
        labelled: Whether examples are labelled with whose they are.
        starts_from: Where the starting weights come from, if they were trained on public data; it costs nothing, and
            the guarantee assumes it.
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
        """Check all of it."""
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
        self.contribution.mechanism(self.noise_multiplier)  # refuses noise beyond what can be accounted for
        for step in range(self.num_steps if self.schedule is not None else 1):
            self.noise_on_sum(step)

    @property
    def batch_size(self) -> int:
        """How many units a batch has, on average."""
        return self.sampling.size(self.num_units)

    @property
    def sampling_rate(self) -> float:
        """With what probability a unit is in a batch."""
        return self.batch_size / self.num_units

    @property
    def max_batch_size(self) -> int | None:
        """How many units a batch may have, if that is limited."""
        return self.sampling.max_batch_size if isinstance(self.sampling, Poisson) else None

    def setting(self, step: int) -> Setting:
        """Return the noise multiplier and the batch size of a step."""
        if self.schedule is None:
            return self.noise_multiplier, self.batch_size
        size = max(round(self.batch_size * self.schedule.factor("batch_size", step)), 1)
        return self.noise_multiplier * self.schedule.factor("noise_multiplier", step), min(size, self.num_units)

    def clip_factor(self, step: int) -> float:
        """Return by what the clip norm is multiplied in a step."""
        return 1.0 if self.schedule is None else self.schedule.factor("clip_norm", step)

    def noise_on_sum(self, step: int) -> float:
        """Return the noise on the clipped sum, in clip norms; more than the plan's if it is shared, or has to be."""
        noise, size = self.setting(step)
        if isinstance(self.clipping, Adaptive):
            noise = self.clipping.noise_on_sum(noise, size)
        return noise * self.contribution.sensitivity(self.relation)

    def divisor(self, step: int) -> float:
        """Return by what the sum of a step is divided: how many contributions it has, on average."""
        return self.setting(step)[1] / self.contribution.examples

    @property
    def rows(self) -> int:
        """How many examples a contribution has."""
        return self.rows_per_unit * self.contribution.copies * self.contribution.examples

    def factor(self) -> Factor | None:
        """Return how noise is correlated, for all steps."""
        if self.correlated is None:
            return None
        return self.correlated.factor(self.num_steps, self.sampling.participation(self.num_units, self.num_steps))

    def event(self, num_steps: int | None = None) -> Event:
        """Return the event of the first steps, or of all, for this plan's relation and unit."""
        assumptions = self._assumptions()
        if self.max_batch_size is not None:
            chance = self.overflow(self.num_steps if num_steps is None else num_steps)
            assumptions += (f"no sample exceeded the limit, which it does with probability {chance:.3g} at most",)
        return QualifiedEvent(self._event(num_steps), self.relation.value, str(self.unit), assumptions)

    def _event(self, num_steps: int | None = None) -> Event:
        steps = self.num_steps if num_steps is None else num_steps
        if steps == 0:
            return ComposedEvent(())
        factor = self.factor()
        if factor is not None:
            participation = self.sampling.participation(self.num_units, self.num_steps)
            found = factor.event(self.noise_multiplier, participation, steps)
        else:
            settings = [self.setting(step) for step in range(steps)]
            found = self.sampling.event(settings, self.num_units, self.contribution.mechanism)
        return found if self.group_size == 1 else GroupEvent(found, self.group_size)

    def guarantee(self, num_steps: int | None = None, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return what the first steps, or all, promise."""
        accountant = PldAccountant(relation=self.relation, unit=self.unit).compose(self._event(num_steps))
        stated = self._truncated(accountant, self.num_steps if num_steps is None else num_steps)
        return Guarantee(
            epsilon=stated.epsilon,
            delta=stated.delta if self.max_batch_size is None else self.delta,
            unit=stated.unit,
            relation=stated.relation,
            method=", ".join([*self._manner(), stated.method]),
            assumptions=(*self._assumptions(), *assumptions),
        )

    def _manner(self) -> list[str]:
        manner = [self.sampling.how]
        if self.contribution.name:
            manner.append(self.contribution.name)
        if self.correlated is not None:
            manner.append("correlated noise")
        if self.group_size > 1:
            manner.append(f"groups of {self.group_size} examples")
        return manner

    def _assumptions(self) -> tuple[str, ...]:
        public = [self.sampling.assumption, "the loss of an example depends on that example only"]
        if self.max_batch_size is not None:
            public.append(f"there are at most {self.num_units} examples")
        if self.unit.kind is not UnitKind.EXAMPLE:
            public.append(
                f"examples of one {self.unit} are labelled so" if self.labelled else f"each {self.unit} has one example"
            )
        if self.starts_from is not None:
            public.append(self.starts_from.assumption)
        return tuple(public)

    def overflow(self, num_steps: int) -> float:
        """Return a bound on the probability that any of the first samples exceeds the limit."""
        limit = self.max_batch_size
        if limit is None:
            return 0.0
        sizes = Counter(self.setting(step)[1] for step in range(num_steps))
        most = self.num_units + self.group_size  # of a neighbour
        return sum(count * _overflow(limit, most, size / self.num_units) for size, count in sizes.items())

    def _truncated(self, accountant: PldAccountant, steps: int) -> Guarantee:
        """Return a guarantee that leaves enough of delta to dropped examples: a larger epsilon needs more of it."""
        stated = accountant.guarantee(self.delta)
        chance = self.overflow(steps)
        if self.max_batch_size is None or steps == 0:
            return stated
        for _ in range(100):
            left = self.delta - (1 + math.exp(min(stated.epsilon, 700.0))) * chance
            if not left > 0:
                raise _too_small(self.max_batch_size)
            found = accountant.guarantee(left)
            if found.epsilon <= stated.epsilon * (1 + 1e-12):
                return found
            stated = Guarantee(
                epsilon=found.epsilon * (1 + 1e-6),
                delta=left,
                unit=found.unit,
                relation=found.relation,
                method=found.method,
            )
        raise _too_small(self.max_batch_size)


def _refuse_combinations(plan: TrainingPlan) -> None:
    """Refuse, by name, what does not go together."""
    sampling, contribution, schedule = plan.sampling, plan.contribution, plan.schedule
    way = type(sampling).__name__
    if plan.relation not in sampling.relations:
        raise Unsupported(
            f"{way} under the relation {plan.relation.value!r}: nothing is proven for it",
            f"Use {' or '.join(f'Relation.{each.name}' for each in sampling.relations)}",
        )
    if isinstance(contribution, Microbatches):
        if not sampling.keeps_places or plan.relation is Relation.ADD_OR_REMOVE:
            raise Unsupported(
                f"Microbatches with {way} under {plan.relation.value!r}: a unit that comes or goes moves the others "
                "to other micro-batches",
                "Use FixedSize, ShuffledEpochs, InOrder or Full, with Relation.ZERO_OUT or REPLACE",
            )
        if isinstance(plan.clipping, Adaptive) or plan.rows_per_unit > 1:
            raise Unsupported("Microbatches with Adaptive clipping or Users: two ways to share a contribution")
    if isinstance(contribution, Projected):
        if type(plan.clipping) is not Flat or not isinstance(plan.clipping.groups, Together):
            raise Unsupported("Projected with other than Flat clipping of all parameters together")
        if plan.rows_per_unit > 1 or plan.group_size > 1:
            raise Unsupported("Projected with users: its random sensitivity is accounted for one example")
        if isinstance(sampling, BallsInBins) or plan.correlated is not None:
            raise Unsupported("Projected with BallsInBins or correlated noise: no analysis is known", "Use Poisson")
    if isinstance(plan.clipping, Adaptive) and plan.correlated is not None:
        raise Unsupported("Adaptive clipping with correlated noise: the noise of its counts is not correlated")
    if isinstance(sampling, InOrder) and plan.unit.kind is not UnitKind.EXAMPLE and plan.relation is Relation.REPLACE:
        raise Unsupported(
            "InOrder with users under the relation 'replace': who replaces a user may have another place",
            "Use Relation.ZERO_OUT",
        )
    if plan.group_size > 1 and not isinstance(sampling, (Poisson, Full)):
        raise Unsupported(f"UserGroups with {way}: no analysis of groups is known", "Use Users, or Poisson")
    if schedule is None:
        return
    if schedule.batch_size is not None and not sampling.varies:
        raise Unsupported(f"a schedule of batch sizes with {way}", "Use Poisson or FixedSize")
    if schedule.clip_norm is not None and isinstance(plan.clipping, Adaptive):
        raise Unsupported("a schedule of clip norms with Adaptive clipping, which has its own")
    if plan.correlated is not None:
        raise Unsupported("a schedule with correlated noise: its correlation assumes equal steps")


def _too_small(limit: int) -> InvalidArgument:
    return InvalidArgument(
        "max_batch_size",
        limit,
        "so large that delta is not used up by dropped examples",
        "Six deviations above batch_size do",
    )


def _overflow(limit: int, num_units: int, rate: float) -> float:
    """Return the probability that a sample of so many units exceeds the limit."""
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
    """Fill in what follows: the sampling, the number of steps, the noise; without a batch size, take all units.

    With ``epsilon`` alone the noise is calibrated to it. With ``noise_multiplier`` as well, training ends before the
    step that would exceed epsilon.
    """
    if epsilon is None and noise_multiplier is None:
        raise InvalidArgument("epsilon", None, "a number > 0", "Say epsilon=..., or noise_multiplier=...")
    if (epochs is None) == (num_steps is None):
        raise InvalidArgument("epochs", epochs, "a number", "Say epochs=... or num_steps=..., one of the two")
    check_count("num_units", num_units)
    if not check_probability("delta", delta) * num_units < 1:
        raise InvalidArgument(
            "delta",
            delta,
            "less than one over the number of those who are protected",
            "Else it allows for the release of some of them as they are",
        )
    way = _sampling(sampling, batch_size, max_batch_size, num_units)
    if num_steps is None:
        num_steps = way.steps(check_positive("epochs", epochs), num_units)
    draft = TrainingPlan(
        sampling=way,
        num_units=num_units,
        num_steps=check_count("num_steps", num_steps),
        clipping=clipping if noise_multiplier is not None else replace(clipping, **_without_count(clipping)),
        noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier,
        delta=delta,
        physical_batch_size=1 if physical_batch_size is None else physical_batch_size,
        relation=way.relations[0] if relation is None else relation,
        **settings,
    )
    PldAccountant(relation=draft.relation, unit=draft.unit).compose(draft.event(1))  # refuses what has no analysis
    if physical_batch_size is None:
        room = -(-way.room(num_units) // draft.contribution.examples)
        draft = replace(draft, physical_batch_size=room * draft.rows)
    if epsilon is None:
        return draft
    left = delta - (1 + math.exp(min(check_positive("epsilon", epsilon), 700.0))) * draft.overflow(draft.num_steps)
    if not left > 0:
        assert draft.max_batch_size is not None
        raise _too_small(draft.max_batch_size)
    if noise_multiplier is None:
        if isinstance(draft.contribution, Projected) and draft.contribution.projections < 5:
            raise InvalidArgument(
                "projections",
                draft.contribution.projections,
                "at least 5 to meet an epsilon",
                "With 20 it costs little",
            )
        noise = calibrate_noise(
            epsilon=epsilon,
            delta=left,
            relation=draft.relation,
            template=lambda noise: replace(draft, noise_multiplier=noise, clipping=Flat())._event(),
        )
        return replace(draft, noise_multiplier=noise, clipping=clipping)
    steps = _affordable(draft, epsilon, left)
    while draft.correlated is not None and steps > 1 and not _fits(replace(draft, num_steps=steps), epsilon, left):
        steps -= 1  # noise for fewer steps is correlated in another way
    return replace(draft, num_steps=steps)


def _without_count(clipping: Clipping) -> dict[str, Any]:
    """Return what to change while noise is not known yet."""
    return {"count_noise": None} if isinstance(clipping, Adaptive) else {}


def _sampling(
    sampling: Sampling | None, batch_size: int | None, max_batch_size: int | None, num_units: int
) -> Sampling:
    if sampling is not None:
        if batch_size is not None or max_batch_size is not None:
            raise InvalidArgument("batch_size", batch_size, "nothing, beside sampling=...", "It has a size of its own")
        check_instance("sampling", sampling, Sampling, "Such as Poisson(512)")
        return sampling
    if batch_size is None:
        return Full()
    if check_count("batch_size", batch_size) == num_units and max_batch_size is None:
        return Full()
    return Poisson(batch_size, max_batch_size)


def _affordable(plan: TrainingPlan, epsilon: float, delta: float) -> int:
    """Return how many steps of a plan cost no more than epsilon."""
    if _fits(plan, epsilon, delta):
        return plan.num_steps
    low, high = 0, plan.num_steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(plan, epsilon, delta, middle) else (low, middle)
    if low == 0:
        raise InvalidArgument(
            "noise_multiplier", plan.noise_multiplier, f"enough for one step within epsilon={epsilon}"
        )
    return low


def _fits(plan: TrainingPlan, epsilon: float, delta: float, num_steps: int | None = None) -> bool:
    return PldAccountant(relation=plan.relation).compose(plan._event(num_steps)).epsilon(delta) <= epsilon
