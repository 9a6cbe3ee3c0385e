"""Calibration: from a target (epsilon, delta) to the parameter that meets it, never exceeding it."""

from __future__ import annotations

import math
from collections.abc import Callable

from hush.accounting.accountants.accountant import Accountant, check_accountant
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.events import Event, GaussianEvent, GroupEvent, PoissonSampledEvent, SelfComposedEvent
from hush.errors import (
    InvalidArgument,
    check_count,
    check_delta,
    check_instance,
    check_positive,
    check_probability,
)
from hush.guarantee import Relation

Template = Callable[[float], Event]
AccountantType = type[Accountant]

_TOLERANCE = 1e-6
_ROUGH = 1e-3
_FAR = 50.0
_NOISE_RANGE = (2e-3, 9e5)


def calibrate_noise(
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float = 1.0,
    num_steps: int = 1,
    relation: Relation = Relation.ADD_OR_REMOVE,
    accountant: AccountantType = PldAccountant,
    template: Template | None = None,
) -> float:
    """Return the smallest noise multiplier whose steps stay within (epsilon, delta).

    ``template`` makes an event of a noise multiplier; without one it is ``num_steps`` Poisson-sampled Gaussians.

    Guarantee:
        The event with the returned noise has epsilon at most the target's, by the accountant's own bound.

    Assumes:
        More noise means less epsilon (true of every event that scales with its noise; the caller's duty for templates).

    References:
        Bisection to the safe side; Balle & Wang 2018 for the single Gaussian that it reproduces.

    >>> round(calibrate_noise(epsilon=1.0, delta=1e-5), 3)
    3.731
    """
    rate, steps = check_probability("sampling_rate", sampling_rate), check_count("num_steps", num_steps)

    def sampled(noise: float) -> Event:
        return SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise), rate), steps)

    search = _Search(template or sampled, epsilon, delta, relation, accountant)
    return search.smallest(*_NOISE_RANGE, "noise_multiplier")


def calibrate_sampling_rate(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    num_steps: int = 1,
    relation: Relation = Relation.ADD_OR_REMOVE,
    accountant: AccountantType = PldAccountant,
) -> float:
    """Return the largest sampling rate (at most 1) at which the steps stay within (epsilon, delta).

    Guarantee:
        Epsilon at the returned rate is at most the target's.

    Assumes:
        A larger rate means a larger epsilon: true of Poisson sampling, which the template is (checked here).

    References:
        Bisection to the safe side.
    """
    steps, noise = check_count("num_steps", num_steps), check_positive("noise_multiplier", noise_multiplier)

    def sampled(rate: float) -> Event:
        return SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise), rate), steps)

    return _Search(sampled, epsilon, delta, relation, accountant).largest(1e-9, 1.0, "sampling_rate")


def calibrate_count(
    *,
    epsilon: float,
    delta: float,
    template: Callable[[int], Event],
    maximum: int = 1 << 40,
    relation: Relation = Relation.ADD_OR_REMOVE,
    accountant: AccountantType = PldAccountant,
) -> int:
    """Return the largest count whose event stays within (epsilon, delta), 0 if not even 1 does.

    Guarantee:
        Epsilon at the returned count is at most the target's.

    Assumes:
        A larger count means a larger epsilon (the caller's duty).

    References:
        Doubling and bisection over the integers.
    """
    check_count("maximum", maximum)
    search = _Search(lambda count: template(round(count)), epsilon, delta, relation, accountant)
    low, high = 0, 1
    while high <= maximum and search.fits(float(high)):
        low, high = high, 2 * high
    high = min(high, maximum + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if search.fits(float(middle)) else (low, middle)
    return low


def calibrate_steps(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_rate: float = 1.0,
    relation: Relation = Relation.ADD_OR_REMOVE,
    accountant: AccountantType = PldAccountant,
) -> int:
    """Return how many steps of a Poisson-sampled Gaussian stay within (epsilon, delta).

    Guarantee:
        Epsilon after the returned number of steps is at most the target's.

    Assumes:
        Nothing beyond the accountant's own (checked here).

    References:
        Doubling and bisection over the integers.
    """
    step = PoissonSampledEvent(GaussianEvent(noise_multiplier), sampling_rate)
    return calibrate_count(
        epsilon=epsilon,
        delta=delta,
        template=lambda count: SelfComposedEvent(step, count),
        relation=relation,
        accountant=accountant,
    )


def calibrate_contributions(
    *,
    epsilon: float,
    delta: float,
    event: Event,
    relation: Relation = Relation.ADD_OR_REMOVE,
    accountant: AccountantType = PldAccountant,
) -> int:
    """Return how many records one unit may contribute so that ``event`` stays within (epsilon, delta) for the unit.

    Guarantee:
        A group of the returned size has epsilon at most the target's.

    Assumes:
        Contributions are really bounded at that number (the caller's duty).

    References:
        Groups as in `GroupEvent`.
    """
    return calibrate_count(
        epsilon=epsilon,
        delta=delta,
        template=lambda size: GroupEvent(event, size),
        maximum=1 << 12,
        relation=relation,
        accountant=accountant,
    )


class _Search:
    """Bisection on one parameter of an event; only values that were evaluated and fit are ever returned."""

    def __init__(
        self, template: Template, epsilon: float, delta: float, relation: Relation, accountant: AccountantType
    ) -> None:
        self._template = template
        self._epsilon = check_positive("epsilon", epsilon)
        self._delta = check_delta("delta", delta)
        check_instance("relation", relation, Relation)
        check_accountant("accountant", accountant)
        self._relation = relation
        self._accountant = accountant

    def fits(self, value: float) -> bool:
        return self._reached(value) <= self._epsilon

    def smallest(self, low: float, high: float, name: str) -> float:
        """Return about the smallest value that fits; epsilon falls as the value grows."""
        return self._solve(low, high, name, falling=True)

    def largest(self, low: float, high: float, name: str) -> float:
        """Return about the largest value that fits; epsilon grows with the value."""
        return self._solve(low, high, name, falling=False)

    def _reached(self, value: float, *, rough: bool = False) -> float:
        if rough and issubclass(self._accountant, PldAccountant):
            accountant: Accountant = self._accountant(relation=self._relation, accuracy=_ROUGH)
        else:
            accountant = self._accountant(relation=self._relation)
        return accountant.compose(self._template(value)).epsilon(self._delta)

    def _solve(self, low: float, high: float, name: str, *, falling: bool) -> float:
        """Bracket and narrow down with a rough accountant; then a few steps with the precise one."""
        rough = _Root(lambda value: self._log_excess(value, rough=True), low, high, falling=falling)
        guess = rough.find(1.0 if falling else 0.01, tolerance=_ROUGH, step=0.7)
        exact = _Root(self._log_excess, low, high, falling=falling, slope=rough.slope)
        result = exact.find(guess or math.sqrt(low * high), tolerance=_TOLERANCE, step=_ROUGH)
        if result is None:
            raise InvalidArgument(
                "epsilon", self._epsilon, f"a target that some {name} in [{low:.3g}, {high:.3g}] meets", "Ask for less"
            )
        return result

    def _log_excess(self, value: float, *, rough: bool = False) -> float:
        reached = self._reached(value, rough=rough)
        if reached <= 0:
            return -_FAR
        return min(math.log(reached / self._epsilon), _FAR) if reached < math.inf else _FAR


class _Root:
    """Finds where an excess over the target changes sign; only values that were tried and have none are returned.

    Works in ``u = log value``, negated where epsilon grows with the value, so that the excess falls with u.
    """

    def __init__(
        self,
        excess: Callable[[float], float],
        low: float,
        high: float,
        *,
        falling: bool,
        slope: float | None = None,
    ) -> None:
        self._sign = 1 if falling else -1
        self._excess = excess
        self._least, self._most = sorted((self._sign * math.log(low), self._sign * math.log(high)))
        self.slope = slope

    def find(self, start: float, *, tolerance: float, step: float) -> float | None:
        """Return a value within ``tolerance`` (in u) of the root, on its safe side; None if no value is safe."""
        u = min(max(self._sign * math.log(start), self._least), self._most)
        safe, unsafe = math.inf, -math.inf
        before: tuple[float, float] | None = None
        for _ in range(200):
            value = self._excess(math.exp(self._sign * u))
            safe, unsafe = (u, unsafe) if value <= 0 else (safe, u)
            self._learn_slope(u, value, before)
            close = self.slope is not None and value <= 0 and -value <= -0.5 * tolerance * self.slope
            if close or safe - unsafe <= tolerance or (value <= 0 and u == self._least):
                break
            if value > 0 and u == self._most:
                return None
            before = (u, value)
            u = min(max(self._next(u, value, tolerance, step, safe, unsafe), self._least), self._most)
            step *= 2
        return math.exp(self._sign * safe)

    def _learn_slope(self, u: float, value: float, before: tuple[float, float] | None) -> None:
        if before is not None and max(abs(value), abs(before[1])) < _FAR and (value - before[1]) * (u - before[0]) < 0:
            self.slope = (value - before[1]) / (u - before[0])

    def _next(self, u: float, value: float, tolerance: float, step: float, safe: float, unsafe: float) -> float:
        """Take a secant step, a hair to the safe side; bisect if that leaves the bracket, walk if there is none."""
        if self.slope is not None and abs(value) < _FAR:
            candidate = u - value / self.slope + 0.25 * tolerance
            if unsafe < candidate < safe and abs(candidate - u) <= 4 * step:
                return candidate
        if math.isfinite(safe) and math.isfinite(unsafe):
            return 0.5 * (safe + unsafe)
        return u + (step if value > 0 else -step)
