"""The plan: everything that decides what a training run promises, fixed before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.stats import binom

from hush.accounting import (
    Event,
    Gaussian,
    PldAccountant,
    PoissonSampled,
    SelfComposed,
    calibrate_noise,
    calibrate_steps,
)
from hush.errors import InvalidArgument, check_count, check_instance, check_positive, check_probability
from hush.guarantee import Guarantee, Relation, Unit, UnitKind
from hush.training._clipping import Adaptive, Clipping


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Noisy, clipped gradient descent on Poisson samples; with a sampling rate of 1 on all examples (DP-GD).

    In every step each example takes part by itself with probability ``sampling_rate``; the gradients of those that do
    are clipped and summed; noise of standard deviation ``noise_multiplier`` times the clip norm is added once;
    and the sum is divided by ``batch_size``, the expected number, which is public, whatever the number really was.

    With a ``max_batch_size`` no more examples than that take part in a step, so that all steps have one shape; the rest
    of a larger sample is dropped. That changes a step with the probability t of such a sample, so that (epsilon, delta)
    becomes (epsilon, delta + (1 + e^epsilon) T t) for T steps (Chua et al. 2024, Theorem 3.3: from outputs to outputs
    without dropping, to those of the neighbour, and back).

    Attributes:
        sampling_rate, batch_size, num_steps, noise_multiplier: as above.
        clipping: How gradients are clipped; its clip norm is the largest contribution of an example.
        delta: For which delta the guarantee is stated.
        max_batch_size: As above; None for no limit.
        num_examples: How many examples there are, if there is a limit.
        physical_batch_size: How many examples go through the model at once: memory, nothing else.
        relation, unit: What the guarantee is about.
    """

    sampling_rate: float
    batch_size: int
    num_steps: int
    clipping: Clipping
    noise_multiplier: float
    delta: float
    physical_batch_size: int
    max_batch_size: int | None = None
    num_examples: int | None = None
    relation: Relation = Relation.ADD_OR_REMOVE
    unit: Unit = Unit.example()

    def __post_init__(self) -> None:
        """Check all of it."""
        check_probability("sampling_rate", self.sampling_rate)
        check_instance("clipping", self.clipping, Clipping, "Such as Flat(clip_norm=1.0)")
        check_positive("noise_multiplier", self.noise_multiplier)
        check_probability("delta", self.delta)
        for name in ("batch_size", "num_steps", "physical_batch_size"):
            check_count(name, getattr(self, name))
        if self.max_batch_size is not None:
            check_count("max_batch_size", self.max_batch_size)
            check_count("num_examples", self.num_examples)
        one_step(self.noise_multiplier, self.sampling_rate)  # refuses noise beyond what can be accounted for
        _ = self.noise_on_sum
        if not self.delta < 1:
            raise InvalidArgument("delta", self.delta, "a number in (0, 1)")
        check_instance("relation", self.relation, Relation)
        check_instance("unit", self.unit, Unit)
        if self.unit.group_size > 1:
            raise InvalidArgument("unit", str(self.unit), "one example or user", "See Guarantee.for_group")

    @property
    def noise_on_sum(self) -> float:
        """The noise on the clipped sum, in multiples of the clip norm; more than the plan's if it shares it."""
        if isinstance(self.clipping, Adaptive):
            return self.clipping.noise_on_sum(self.noise_multiplier, self.batch_size)
        return self.noise_multiplier

    def event(self, num_steps: int | None = None) -> Event:
        """Return the event of the first steps, or of all."""
        steps = self.num_steps if num_steps is None else num_steps
        return SelfComposed(one_step(self.noise_multiplier, self.sampling_rate), steps)

    def guarantee(self, num_steps: int | None = None, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return what the first steps, or all, promise."""
        accountant = PldAccountant(relation=self.relation, unit=self.unit).compose(self.event(num_steps))
        stated = self._truncated(accountant, self.num_steps if num_steps is None else num_steps)
        public: tuple[str, ...] = (
            "the sampling rate was chosen without looking at the data",
            "the loss of an example depends on that example only",
        )
        if self.max_batch_size is not None:
            public += (f"there are at most {self.num_examples} examples",)
        if self.unit.kind is not UnitKind.EXAMPLE:
            public += (f"each {self.unit} has one example",)
        return Guarantee(
            epsilon=stated.epsilon,
            delta=stated.delta if self.max_batch_size is None else self.delta,
            unit=stated.unit,
            relation=stated.relation,
            method=f"{'DP-GD' if self.sampling_rate == 1 else 'DP-SGD'}, {stated.method}",
            assumptions=(*public, *assumptions),
        )

    def _truncated(self, accountant: PldAccountant, steps: int) -> Guarantee:
        """Return a guarantee that leaves enough of delta to dropped examples: a larger epsilon needs more of it."""
        stated = accountant.guarantee(self.delta)
        if self.max_batch_size is None or steps == 0:
            return stated
        chance = steps * _overflow(self.max_batch_size, self.num_examples, self.sampling_rate)
        for _ in range(100):
            left = self.delta - (1 + math.exp(min(stated.epsilon, 700.0))) * chance
            if not left > 0:
                raise _too_small("max_batch_size", self.max_batch_size)
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
        raise _too_small("max_batch_size", self.max_batch_size)


def _too_small(name: str, value: int) -> InvalidArgument:
    return InvalidArgument(
        name, value, "so large that delta is not used up by dropped examples", "Six deviations above batch_size do"
    )


def _overflow(limit: int, num_examples: int | None, rate: float) -> float:
    """Return the probability that a sample exceeds the limit, of a neighbour with one example more."""
    assert num_examples is not None
    return float(binom.sf(limit, num_examples + 1, rate)) * (1 + 1e-9)


def _one_batch(expected: int, num_examples: int) -> int:
    """Return a size that nearly always holds a whole sample: two standard deviations above its mean."""
    return min(math.ceil(expected + 2 * math.sqrt(expected * (1 - expected / num_examples))), num_examples)


def one_step(noise_multiplier: float, sampling_rate: float) -> Event:
    """Return the event of one step."""
    noise = Gaussian(noise_multiplier)
    return noise if sampling_rate == 1 else PoissonSampled(noise, sampling_rate)


def make_plan(
    *,
    num_examples: int,
    delta: float,
    clipping: Clipping,
    batch_size: int | None,
    epsilon: float | None,
    noise_multiplier: float | None,
    epochs: float | None,
    num_steps: int | None,
    physical_batch_size: int | None,
    max_batch_size: int | None,
    **settings: Any,
) -> Plan:
    """Fill in what follows: the sampling rate, the number of steps, the noise; without a batch size, take all examples.

    With ``epsilon`` alone the noise is calibrated to it. With ``noise_multiplier`` as well, training ends before the
    step that would exceed epsilon.
    """
    if epsilon is None and noise_multiplier is None:
        raise InvalidArgument("epsilon", None, "a number > 0", "Say epsilon=..., or noise_multiplier=...")
    if (epochs is None) == (num_steps is None):
        raise InvalidArgument("epochs", epochs, "a number", "Say epochs=... or num_steps=..., one of the two")
    expected = (
        check_count("num_examples", num_examples) if batch_size is None else check_count("batch_size", batch_size)
    )
    if not expected <= num_examples:
        raise InvalidArgument("batch_size", expected, f"at most the {num_examples} examples")
    rate = expected / num_examples
    if num_steps is None:
        num_steps = max(math.ceil(check_positive("epochs", epochs) / rate - 1e-9), 1)
    steps = check_count("num_steps", num_steps)
    relation = settings.get("relation", Relation.ADD_OR_REMOVE)
    left = delta
    if max_batch_size is not None and epsilon is not None:
        chance = _overflow(check_count("max_batch_size", max_batch_size), num_examples, rate)
        left = delta - (1 + math.exp(min(check_positive("epsilon", epsilon), 700.0))) * steps * chance
        if not left > 0:
            raise _too_small("max_batch_size", max_batch_size)
    if noise_multiplier is None:
        target = check_positive("epsilon", epsilon)
        noise_multiplier = calibrate_noise(
            epsilon=target, delta=left, sampling_rate=rate, num_steps=steps, relation=relation
        )
    elif epsilon is not None:
        affordable = calibrate_steps(
            epsilon=epsilon, delta=left, noise_multiplier=noise_multiplier, sampling_rate=rate, relation=relation
        )
        if affordable == 0:
            raise InvalidArgument("noise_multiplier", noise_multiplier, f"enough for one step within epsilon={epsilon}")
        steps = min(steps, affordable)
    if physical_batch_size is None:
        physical_batch_size = _one_batch(expected, num_examples) if max_batch_size is None else max_batch_size
    return Plan(
        sampling_rate=rate,
        batch_size=expected,
        num_steps=steps,
        clipping=clipping,
        noise_multiplier=noise_multiplier,
        delta=delta,
        physical_batch_size=physical_batch_size,
        max_batch_size=max_batch_size,
        num_examples=None if max_batch_size is None else num_examples,
        **settings,
    )
