"""Calibration: from a target (epsilon, delta) to the parameter that meets it.

template   a function from the parameter to an event
excess     log(epsilon of the event / target), negative where the target is met
search     a secant method on the logarithm of the parameter, first with a rough accountant, then with a precise one
result     a parameter that was evaluated and meets the target, never an extrapolated one
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from hush.accounting.accountants.accountant import Accountant, check_accountant
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.events import (
    ApproximateDPEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.errors import (
    InvalidArgument,
    Unsupported,
    check_count,
    check_delta,
    check_instance,
    check_positive,
    check_probability,
)
from hush.guarantee import Bound, Relation
from hush.numerics import round_down

Template = Callable[[float], Event]
AccountantType = type[Accountant]

_TOLERANCE = 1e-6  # relative, of the parameter
_ROUGH = 1e-3  # accuracy of the first search
_LARGEST_EXCESS = 50.0  # stands for infinity
_EPSILON_RANGE = (1e-6, 1e3)  # of a claim, as events accept it
_NOISE_RANGE = (2e-3, 9e5)  # just inside what events accept, so that no step of the search is refused


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
    """Return the smallest noise multiplier that keeps a run within (epsilon, delta).

    >>> round(calibrate_noise(epsilon=1.0, delta=1e-5), 3)
    3.731
    >>> round(calibrate_noise(epsilon=2.0, delta=1e-5, sampling_rate=0.01, num_steps=1000), 3)
    0.959

    Args:
        epsilon: The target.
        delta: The delta of the target.
        sampling_rate: The probability that a record is in a batch (Poisson sampling).
        num_steps: The number of steps.
        relation: How neighbouring datasets differ.
        accountant: The accountant's class.
        template: A function from a noise multiplier to an event. By default ``num_steps`` Poisson-sampled Gaussians.

    Guarantee:
        The event with the returned noise has an epsilon of at most the target, by the accountant's own bound.

    Assumes:
        More noise means a smaller epsilon. That holds for every event that scales with its noise; for a template it is
        the caller's duty.

    References:
        A root search to the safe side; for a single Gaussian it reproduces Balle & Wang 2018.
    """
    rate, steps = check_probability("sampling_rate", sampling_rate), check_count("num_steps", num_steps)

    def sampled(noise: float) -> Event:
        return SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise), rate), steps)

    # More noise is noise added to the noisy answer, which is post-processing. So the target is met from one sigma on.
    search = _Search(template or sampled, epsilon, delta, relation, accountant)
    return search.smallest(*_NOISE_RANGE, "noise_multiplier")


@lru_cache(maxsize=256)
def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the noise multiplier of one Gaussian release that is (epsilon, delta)-private.

    Cached, because calibration takes longer than most releases.
    """
    return calibrate_noise(epsilon=epsilon, delta=delta)


@lru_cache(maxsize=256)
def selection_epsilon(epsilon: float, delta: float, num_selections: int) -> float:
    """Return the largest epsilon of an exponential mechanism such that this many of them are (epsilon, delta)-private.

    Exponential mechanisms have bounded range, which composes better than pure epsilon (Dong, Durfee & Rogers 2020).
    """
    equal_share = round_down(epsilon / num_selections)  # times their number, it must not exceed epsilon
    if delta == 0 or num_selections == 1:
        return equal_share

    def template(noise: float) -> Event:  # 1 / epsilon plays the role of the noise
        return SelfComposedEvent(ExponentialMechanismEvent(1 / noise), num_selections)

    # An equal share is never better than the optimum, up to rounding.
    return max(equal_share, 1 / calibrate_noise(epsilon=epsilon, delta=delta, template=template))


def calibrate_release_epsilon(
    *,
    epsilon: float,
    delta: float,
    count: int,
    relation: Relation = Relation.ADD_OR_REMOVE,
    accountant: AccountantType = PldAccountant,
) -> float:
    """Return the largest epsilon of a single release, so that ``count`` of them stay within (epsilon, delta).

    A global budget of epsilon 1 for 50,000 releases, by basic composition, and by the optimal one:

    >>> from hush.accounting import BasicAccountant
    >>> budget = {"epsilon": 1.0, "delta": 1e-6, "count": 50_000}
    >>> round(calibrate_release_epsilon(**budget, accountant=BasicAccountant), 8)
    2e-05
    >>> round(calibrate_release_epsilon(**budget), 7)
    0.0010586

    Args:
        epsilon: The epsilon of all releases together.
        delta: The delta of all releases together.
        count: The number of releases.
        relation: How neighbouring datasets differ.
        accountant: The accountant's class.

    Guarantee:
        Releases with the returned epsilon, and delta 0, compose to at most the target.

    Assumes:
        The releases are fixed in advance (the caller's duty), unless the accountant is `BasicAccountant`.

    References:
        A root search to the safe side. With `PldAccountant`: Kairouz, Oh & Viswanath 2015, Theorem 3.3.
    """
    releases = check_count("count", count)
    # The target divided by the count fits by plain addition; some accountants state more than the sum.
    equal_share = round_down(check_positive("epsilon", epsilon) / releases)

    def composed(release_epsilon: float) -> Event:
        return SelfComposedEvent(ApproximateDPEvent(release_epsilon), releases)

    search = _Search(composed, epsilon, delta, relation, accountant)
    low, high = _EPSILON_RANGE
    if low <= equal_share <= high and search.fits(equal_share):
        return max(equal_share, search.largest(equal_share, min(round_down(epsilon), high), "release_epsilon"))
    return search.largest(low, min(max(round_down(epsilon), low), high), "release_epsilon")


def calibrate_sampling_rate(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    num_steps: int = 1,
    relation: Relation = Relation.ADD_OR_REMOVE,
    accountant: AccountantType = PldAccountant,
) -> float:
    """Return the largest sampling rate (at most 1) that keeps a run within (epsilon, delta).

    >>> round(calibrate_sampling_rate(epsilon=2.0, delta=1e-5, noise_multiplier=1.0, num_steps=1000), 4)
    0.0109

    Guarantee:
        Epsilon at the returned rate is at most the target.

    Assumes:
        A larger rate means a larger epsilon, as it does for Poisson sampling (checked here: the steps are sampled so).

    References:
        A root search to the safe side.
    """
    steps, noise = check_count("num_steps", num_steps), check_positive("noise_multiplier", noise_multiplier)

    def sampled(rate: float) -> Event:
        return SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise), rate), steps)

    # A sample at rate q' < q is a sample, at rate q, of a sample at rate q' / q, and sampling first can only lower
    # epsilon. So epsilon grows with q.
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
    """Return the largest count whose event stays within (epsilon, delta), or 0 if not even 1 does.

    >>> from hush.accounting import LaplaceEvent
    >>> calibrate_count(epsilon=1.0, delta=0, template=lambda count: SelfComposedEvent(LaplaceEvent(10.0), count))
    10

    How many records may a unit contribute, so that the target holds for the whole unit?

    >>> from hush.accounting import GroupEvent
    >>> group = lambda size: GroupEvent(GaussianEvent(10.0), size)
    >>> calibrate_count(epsilon=2.0, delta=1e-5, template=group, maximum=1000)
    5

    Args:
        epsilon: The target.
        delta: The delta of the target.
        template: A function from a count to an event.
        maximum: The largest count to consider.
        relation: How neighbouring datasets differ.
        accountant: The accountant's class.

    Guarantee:
        Epsilon at the returned count is at most the target.

    Assumes:
        A larger count means a larger epsilon (the caller's duty).

    References:
        Doubling and bisection over the integers.
    """
    check_count("maximum", maximum)
    search = _Search(lambda count: template(round(count)), epsilon, delta, relation, accountant)
    # The invariant: ``low`` meets the target (0 always does: nothing is run), and ``high``, once the loop ends, does
    # not, or is beyond the maximum. Doubling keeps the number of evaluations at about 2 log2 of the answer.
    low, high = 0, 1
    while high <= maximum and search.fits(float(high)):
        low, high = high, 2 * high
    high = min(high, maximum + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if search.fits(float(middle)) else (low, middle)
    return low  # evaluated, and within the target; low + 1 is not


def calibrate_steps(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_rate: float = 1.0,
    relation: Relation = Relation.ADD_OR_REMOVE,
    accountant: AccountantType = PldAccountant,
) -> int:
    """Return the largest number of steps of a Poisson-sampled Gaussian that stays within (epsilon, delta).

    >>> calibrate_steps(epsilon=2.0, delta=1e-5, noise_multiplier=1.0, sampling_rate=0.01)
    1202

    Guarantee:
        Epsilon after the returned number of steps is at most the target.

    Assumes:
        Nothing beyond the accountant's own assumptions (checked here).

    References:
        Doubling and bisection over the integers.
    """
    step = PoissonSampledEvent(GaussianEvent(noise_multiplier), sampling_rate)
    # T steps release what T - 1 steps release, and one answer more. So epsilon cannot fall with T.
    return calibrate_count(
        epsilon=epsilon,
        delta=delta,
        template=lambda count: SelfComposedEvent(step, count),
        relation=relation,
        accountant=accountant,
    )


class _Search:
    """A search over one parameter of an event. It returns only values that were evaluated and meet the target."""

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
        # By the accountant's upper bound: what fits here fits in truth, and what fits in truth may be refused.
        return self._epsilon_at(value) <= self._epsilon

    def smallest(self, low: float, high: float, name: str) -> float:
        """Return the smallest value that fits, up to the tolerance, where epsilon falls as the value grows."""
        return self._solve(low, high, name, falling=True)

    def largest(self, low: float, high: float, name: str) -> float:
        """Return the largest value that fits, up to the tolerance, where epsilon grows with the value."""
        return self._solve(low, high, name, falling=False)

    def _epsilon_at(self, value: float, *, rough: bool = False) -> float:
        """Return epsilon of the template's event; a rough one takes a fraction of the time."""
        # Only the accountant of loss distributions has an accuracy to choose. The others are fast as they are.
        if rough and issubclass(self._accountant, PldAccountant):
            accountant: Accountant = self._accountant(relation=self._relation, accuracy=_ROUGH)
        else:
            accountant = self._accountant(relation=self._relation)
        composed = accountant.compose(self._template(value))
        if composed.bound() is not Bound.UPPER:
            # The truth may be above an estimate, and so above the target: 5.23 for 2 at rate 0.001 and noise 0.5.
            raise Unsupported(
                f"accountant={self._accountant.__name__}: for sampled events it gives an estimate, not a bound",
                "Use PldAccountant",
            )
        return composed.epsilon(self._delta)

    def _solve(self, low: float, high: float, name: str, *, falling: bool) -> float:
        """Search with a rough accountant, then take a few steps with the precise one."""
        # The rough result is where the precise search starts, and never the answer.
        rough = _Root(lambda value: self._log_excess(value, rough=True), low, high, falling=falling)
        guess = rough.find(1.0 if falling else 0.01, tolerance=_ROUGH, step=0.7)
        # The slope carries over, so that a step or two of the secant method reach the root.
        exact = _Root(self._log_excess, low, high, falling=falling, slope=rough.slope)
        result = exact.find(guess or math.sqrt(low * high), tolerance=_TOLERANCE, step=_ROUGH)
        if result is None:
            raise InvalidArgument(
                "epsilon",
                self._epsilon,
                f"a target that some {name} in [{low:.3g}, {high:.3g}] meets",
                "Choose a larger epsilon or fewer steps",
            )
        return result

    def _log_excess(self, value: float, *, rough: bool = False) -> float:
        """Return log(epsilon / target), cut off on both sides."""
        # In logarithms, because epsilon is close to a power of the noise or the rate: a line, which a secant follows.
        epsilon = self._epsilon_at(value, rough=rough)
        if epsilon <= 0:
            return -_LARGEST_EXCESS
        return min(math.log(epsilon / self._epsilon), _LARGEST_EXCESS) if epsilon < math.inf else _LARGEST_EXCESS


class _Root:
    """Finds where the excess over the target changes sign.

    It returns only values that were evaluated and have no excess.

    It works in ``u = log value``, negated if epsilon grows with the value, so that the excess falls with u.
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
        self._lowest, self._highest = sorted((self._sign * math.log(low), self._sign * math.log(high)))
        self.slope = slope

    def find(self, start: float, *, tolerance: float, step: float) -> float | None:
        """Return a value within ``tolerance`` (in u) of the root, on its safe side, or None if no value is safe."""
        u = min(max(self._sign * math.log(start), self._lowest), self._highest)
        safe, unsafe = math.inf, -math.inf
        before: tuple[float, float] | None = None
        for _ in range(200):
            value = self._excess(math.exp(self._sign * u))
            # The root is between the two: excess <= 0 at ``safe``, and > 0 at ``unsafe`` < ``safe``.
            safe, unsafe = (u, unsafe) if value <= 0 else (safe, u)
            self._learn_slope(u, value, before)
            # To first order, the root is value / slope away. Half the tolerance leaves room for the curvature.
            close = self.slope is not None and value <= 0 and -value <= -0.5 * tolerance * self.slope
            if close or safe - unsafe <= tolerance or (value <= 0 and u == self._lowest):
                break
            # Even the end of the range overspends: there is no safe value.
            if value > 0 and u == self._highest:
                return None
            before = (u, value)
            u = min(max(self._next(u, value, tolerance, step, safe, unsafe), self._lowest), self._highest)
            step *= 2  # while there is no bracket, walk in growing steps: log2 of the distance, not the distance
        # Never an interpolated value: this one was evaluated and has no excess.
        return math.exp(self._sign * safe)

    def _learn_slope(self, u: float, value: float, before: tuple[float, float] | None) -> None:
        """Update the slope from two points, if neither is infinite and the excess falls between them."""
        if before is None or max(abs(value), abs(before[1])) >= _LARGEST_EXCESS:
            return
        if (value - before[1]) * (u - before[0]) < 0:
            self.slope = (value - before[1]) / (u - before[0])

    def _next(self, u: float, value: float, tolerance: float, step: float, safe: float, unsafe: float) -> float:
        """Return the next u: a secant step, slightly to the safe side; inside a bracket else bisect, else walk on."""
        if self.slope is not None and abs(value) < _LARGEST_EXCESS:
            # A secant step aims at the root itself, and would end on its wrong side half of the time.
            candidate = u - value / self.slope + 0.25 * tolerance
            if unsafe < candidate < safe and abs(candidate - u) <= 4 * step:
                return candidate
        if math.isfinite(safe) and math.isfinite(unsafe):
            return 0.5 * (safe + unsafe)
        return u + (step if value > 0 else -step)
