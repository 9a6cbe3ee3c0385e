"""The training plan: everything that determines a run's guarantee, fixed before the run reads data.

A `TrainingPlan` is an immutable value whose parts are types: a `Sampling` decides which units take part, a
`Contribution` what each adds to the sum, a `Clipping` how it is bounded, and a `Schedule` what changes over the steps.
From these the plan computes its accounting event and its guarantee. Combinations without a proof are refused in one
place (`combinations`). `completion` makes a plan from the arguments of `privatize`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hush.accounting import ComposedEvent, Event, GroupEvent, PldAccountant
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument, check_count, check_instance, check_positive, check_probability
from hush.guarantee import Guarantee, Relation, Unit, UnitKind
from hush.notebook import card
from hush.training.noise.correlated_noise import CorrelatedNoise, Factor
from hush.training.plan.clipping import Adaptive, Clipping
from hush.training.plan.combinations import refuse_combinations
from hush.training.plan.contributions import Contribution, PerExample
from hush.training.plan.public_phase import PublicPhase
from hush.training.plan.samplers import Poisson, Sampling, Setting
from hush.training.plan.schedule import Schedule

# Runs check this on invented examples: a refusal because of real ones would reveal something about them.
_OWN_LOSS = "the loss of an example depends on that example only, on rare contents, too"
_UNSEEN = "nobody observes running times, or data that stay in memory and caches"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The plan of a private training run: DP-SGD on samples of privacy units.

    In every step, units are sampled, their gradients are clipped and summed, Gaussian noise is added once, and the sum
    is divided by the expected batch size, which is public. The standard deviation of the noise is

        noise_multiplier * clip_norm * sensitivity

    where the sensitivity is that of the contribution, in clip norms; it is 1 except for `Microbatches`.

    A limit on Poisson samples (``Poisson(..., max_batch_size=)``) keeps a uniformly random part of a large sample; the
    event accounts for it.

    The noise that is really added is the floor of such a variable on a public grid, and the sum is rounded to that grid
    (`hush.training.noise`). A release is then a function of that of real-valued noise. Contributions are clipped to
    2^-11 less than the clip norm, which pays for the rounding, and so nothing is added to epsilon or delta.

    Attributes:
        sampling: How units are sampled.
        num_units: The number of units.
        num_steps: The number of steps.
        clipping: How gradients are clipped.
        noise_multiplier: The noise, in multiples of how far a unit can move the clipped sum.
        delta: The delta of the guarantee.
        physical_batch_size: The number of examples that go through the model at once. It affects memory and speed only.
        contribution: The vectors that are clipped: by default, each unit's own gradient.
        schedule: How noise multiplier, clip norm and batch size change over the steps.
        correlated: How the noise is correlated over the steps, if it is.
        relation: The neighbouring relation of the guarantee.
        unit: The privacy unit.
        rows_per_unit: The largest number of a unit's examples in a step.
        group_size: How many sampled units a protected unit stands for; more than 1 for `UserGroups`.
        labelled: Whether every example carries its unit's id.
        starts_from: The public phase that the starting weights come from, if any. It costs nothing; the guarantee
            assumes it.

    Guarantee:
        A run of all steps is (epsilon, delta)-differentially private, for the epsilon of `guarantee`.

    Assumes:
        The sampling's parameters are public, and the loss of an example depends on that example only (the caller's
        duty; `PrivateTraining` checks the losses). Nobody observes how long steps take, or data that stay in memory and
        caches (the caller's duty). The guarantee lists these assumptions.

    References:
        Abadi et al. 2016, Algorithm 1; accounting by privacy loss distributions.

    >>> from hush.training import Flat, Poisson, TrainingPlan
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
        refuse_combinations(self)
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
        # q = B / N, which amplifies privacy: an example that is not sampled is not seen.
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
        # The event is that of noise z on a sum of sensitivity 1. A sum of sensitivity s needs s z.
        noise, size = self.setting(step)
        if isinstance(self.clipping, Adaptive):
            noise = self.clipping.noise_on_sum(noise, size)
        return noise * self.contribution.sensitivity(self.relation)

    def divisor(self, step: int) -> float:
        """Return the divisor of a step's sum: the expected number of contributions."""
        # The expected number, not the actual one: dividing by a number that depends on the sample would reveal it, and
        # would change the sensitivity (Abadi et al. 2016 divide by the lot size L).
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
        return QualifiedEvent(self._event(num_steps), self.relation, self.unit, self._assumptions())

    def _event(self, num_steps: int | None = None) -> Event:
        steps = self.num_steps if num_steps is None else num_steps
        if steps == 0:
            return ComposedEvent(())
        factor = self.factor()
        if factor is not None:
            participation = self.sampling.participation(self.num_units, self.num_steps)
            # Correlated noise is one Gaussian mechanism on all steps together, not a composition of steps.
            event = factor.event(self.noise_multiplier, participation, steps)
        else:
            constant = self.schedule is None
            settings = [self.setting(0)] * steps if constant else [self.setting(step) for step in range(steps)]
            sampling = self.sampling
            if isinstance(sampling, Poisson) and self.relation is Relation.ZERO_OUT:
                # A unit that is zeroed out takes nobody's place in a full sample. Given which others are kept, it is in
                # the sample with at most the sampling rate, as without a limit.
                sampling = replace(sampling, max_batch_size=None)
            event = sampling.event(settings, self.num_units, self.contribution.mechanism)
        # A user with k examples is a group of k sampled units, of which any number may be in a batch.
        return event if self.group_size == 1 else GroupEvent(event, self.group_size)

    def guarantee(self, num_steps: int | None = None, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return the guarantee of the first ``num_steps`` steps, or of all, with additional assumptions."""
        accountant = PldAccountant(relation=self.relation, unit=self.unit).compose(self._event(num_steps))
        stated = accountant.guarantee(self.delta)
        return Guarantee(
            epsilon=stated.epsilon,
            delta=stated.delta,
            unit=stated.unit,
            relation=stated.relation,
            method=", ".join([*self._method(), stated.method]),
            assumptions=(*self._assumptions(), *assumptions),
        )

    def _repr_html_(self) -> str:
        """Return the plan for a notebook, with its guarantee."""
        facts = {
            "steps": f"{self.num_steps:,}",
            "units per step": f"{self.batch_size:,} of {self.num_units:,} on average",
            "sampling": self.sampling,
            "clipping": self.clipping,
            "contribution": self.contribution if self.contribution.name else None,
            "noise multiplier": f"{self.noise_multiplier:.4g}",
            "schedule": self.schedule,
            "correlated noise": self.correlated,
        }
        return card("Training plan", facts, notes=[str(self.guarantee())])

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
        assumptions = [self.sampling.assumption, _OWN_LOSS, _UNSEEN]
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
