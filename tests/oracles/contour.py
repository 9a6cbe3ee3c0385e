"""Epsilon and delta of a composition by inverting its moment generating function: the tests' truth.

    delta(epsilon) = 1 / (2 pi i) * integral of exp(sum_j T_j log M_j(s) - s epsilon) / (s (s + 1)) ds

over any path from below to above the real axis that crosses it at s > 0, M_j(s) = E_P exp(s loss of one step j).
The path crosses at the saddle point, where nothing cancels, and then

- bends to the right if the loss is bounded below, to the left if it is bounded above: the integrand behaves like
  e^(s (bound - epsilon)) far out and so dies exponentially even after one step (a vertical line needs millions of
  nodes there). The bend stays steeper than 45 degrees, where the Gaussian part e^(s^2 / 2 sigma^2) decays too;
- is vertical otherwise. Losses with atoms do not decay on it; a smooth window then removes the far part, which is
  exact to rounding unless epsilon lies close to a kink of the profile.

Every answer is computed twice, on two paths with two sets of nodes, and refused (`OracleError`) unless the two agree.

References: the inversion formula is Zhu, Dong & Wang 2022 (characteristic function of the loss) moved off the
imaginary axis; the saddle point is that of Alghamdi et al. 2023; the bend is ours. Written from the formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erfc

from . import closed_form
from .mechanisms import (
    Complex,
    Direction,
    Gaussian,
    Mechanism,
    RandomizedResponse,
    SampledGaussian,
    SampledLaplace,
)

AGREEMENT = 1e-9  # two evaluations may differ by this much, relatively; usual is 1e-12
_MAX_NODES = 400_000
_NEGLIGIBLE = 1e-17
_EXACT_LAPLACE_COUNT = 300


class OracleError(ArithmeticError):
    """The oracle could not reach its accuracy; it never returns a number that it does not trust."""


@dataclass(frozen=True)
class Phase:
    """`count` steps of one mechanism."""

    mechanism: Mechanism
    count: int


Phases = Sequence[Phase]


def parse(phases: Sequence[Sequence[str | float]]) -> list[Phase]:
    """From the golden files' form: ["sg", q, sigma, T], ["lap", b, T], ["sublap", q, b, T] or ["rr", eps0, T]."""
    return [Phase(_BUILD[str(kind)](*map(float, numbers)), int(count)) for kind, *numbers, count in phases]


def gaussian(sampling_rate: float, noise_multiplier: float) -> Mechanism:
    """Poisson-sampled Gaussian; q = 1 is the plain one."""
    return Gaussian(noise_multiplier) if sampling_rate == 1 else SampledGaussian(noise_multiplier, sampling_rate)


_BUILD = {
    "sg": gaussian,
    "lap": lambda scale: SampledLaplace(scale),
    "sublap": lambda rate, scale: SampledLaplace(scale, rate),
    "rr": RandomizedResponse,
}


def epsilon(phases: Phases, delta: float, directions: Sequence[Direction] = (Direction.REMOVE, Direction.ADD)) -> float:
    """The epsilon of the composition at delta, the largest over the directions. Raises OracleError."""
    return max(_epsilon(_merge(phases), delta, direction) for direction in directions)


def delta(phases: Phases, epsilon: float, directions: Sequence[Direction] = (Direction.REMOVE, Direction.ADD)) -> float:
    """The delta of the composition at epsilon, the largest over the directions. Raises OracleError."""
    return max(_delta(_merge(phases), epsilon, direction) for direction in directions)


def noise_multiplier(*, epsilon: float, delta: float, sampling_rate: float, num_steps: int) -> float:
    """The sigma at which the Poisson-sampled Gaussian has exactly this epsilon under add or remove."""

    def excess(log_sigma: float) -> float:
        phases = [Phase(gaussian(sampling_rate, math.exp(log_sigma)), num_steps)]
        return math.log(globals()["epsilon"](phases, delta)) - math.log(epsilon)

    return math.exp(_root(excess, math.log(0.5), math.log(5.0)))


def _merge(phases: Phases) -> list[Phase]:
    """Plain Gaussians compose into one; equal mechanisms add their counts."""
    counts: dict[Mechanism, int] = {}
    precision = 0.0
    for phase in phases:
        if isinstance(phase.mechanism, Gaussian):
            precision += phase.count / phase.mechanism.noise_multiplier**2
        else:
            counts[phase.mechanism] = counts.get(phase.mechanism, 0) + phase.count
    if precision:
        counts[Gaussian(precision**-0.5)] = 1
    return [Phase(mechanism, count) for mechanism, count in counts.items()]


def _delta(phases: Phases, epsilon: float, direction: Direction) -> float:
    exact = _exact_profile(phases, direction)
    if exact:
        return exact(epsilon)
    if epsilon >= sum(p.count * p.mechanism.bounds(direction)[1] for p in phases):
        return 0.0
    return math.exp(_Inversion(phases, direction).log_delta(epsilon, check=True)[0])


def _exact_profile(phases: Phases, direction: Direction) -> closed_form.Profile | None:
    """Where a finite formula exists, it is the answer."""
    if len(phases) > 1:
        return None
    mechanism, count = phases[0].mechanism, phases[0].count
    if count == 1:
        return mechanism.closed_form(direction)
    if isinstance(mechanism, RandomizedResponse):
        local = mechanism.local_epsilon
        return lambda e: closed_form.randomized_response_delta(e, local_epsilon=local, count=count)
    if isinstance(mechanism, SampledLaplace) and mechanism.sampling_rate == 1 and count <= _EXACT_LAPLACE_COUNT:
        return lambda e: closed_form.laplace_delta(e, scale=mechanism.scale, count=count)
    return None


def _epsilon(phases: Phases, delta: float, direction: Direction) -> float:
    exact = _exact_profile(phases, direction)
    if exact:
        return _invert_profile(exact, delta, sum(p.count * p.mechanism.bounds(direction)[1] for p in phases))
    return _Inversion(phases, direction).epsilon(delta)


def _invert_profile(profile: closed_form.Profile, delta: float, largest_loss: float) -> float:
    if profile(0.0) <= delta:
        return 0.0

    def excess(e: float) -> float:
        value = profile(e)
        return (math.log(value) if value > 0 else -1e4) - math.log(delta)

    high = 1.0
    while high < largest_loss and excess(high) > 0:
        high *= 2
    return _root(excess, 0.0, min(high, largest_loss))


def _root(function: closed_form.Profile, low: float, high: float) -> float:
    """Of a decreasing function, by bisection and secants; the bracket may grow."""
    from scipy.optimize import brentq

    width = high - low
    while function(low) < 0 < width < 100:
        low, width = low - width, 2 * width
    while function(high) > 0 and width < 100:
        high, width = high + width, 2 * width
    return float(brentq(function, low, high, xtol=1e-14, rtol=1e-14))


@dataclass(frozen=True)
class _Path:
    """s(tau) = crossing + width (bend (cosh tau - 1) + i sinh tau), or crossing + i width tau if not `curved`."""

    crossing: float
    width: float
    bend: float
    curved: bool

    def at(self, tau: np.ndarray) -> tuple[Complex, Complex]:
        """Points, and derivative / i."""
        if not self.curved:
            return self.crossing + 1j * self.width * tau, np.full(len(tau), self.width + 0j)
        along = np.cosh(tau)
        s = self.crossing + self.width * (self.bend * (along - 1) + 1j * np.sinh(tau))
        return s, self.width * (along - 1j * self.bend * np.sinh(tau))


@dataclass(frozen=True)
class _Inversion:
    """One composition in one direction."""

    phases: Phases
    direction: Direction

    def log_mgf(self, s: Complex, refine: float = 1.0) -> Complex:
        return sum(p.count * p.mechanism.log_mgf(s, self.direction, refine) for p in self.phases)

    def epsilon(self, delta: float) -> float:
        """Newton on log delta, kept inside a bracket, from above: the Chernoff bound is a start."""
        target = math.log(delta)
        low, high = 0.0, self._bounds()[1]
        at = min(self._chernoff(delta), high - 1e-6 * min(1.0, high))
        for _ in range(60):
            value, slope = self.log_delta(at)
            low, high = (at, high) if value > target else (low, at)
            step = (target - value) / slope
            proposal = at + step
            if not low <= proposal <= high:
                if proposal < 0 and self.log_delta(0.0)[0] <= target:
                    return 0.0
                proposal = 0.5 * (low + (high if math.isfinite(high) else 2 * at + 1))
            if abs(proposal - at) <= 1e-13 * max(1e-3, at):
                self.log_delta(at, check=True)
                return proposal
            at = proposal
        raise OracleError(f"delta={delta:.3g}: Newton did not settle, last epsilon={at:.12g}")

    def log_delta(self, epsilon: float, *, check: bool = False) -> tuple[float, float]:
        """log delta and its derivative in epsilon."""
        crossing, spread = self._saddle(epsilon)
        bend = self._bend()
        width = min(crossing, spread)
        value, slope = self._integrate(epsilon, self._path(crossing, width, bend), refine=1.0)
        if check:
            other = self._path(0.8 * crossing, 0.7 * width, 0.6 * bend)
            again, _ = self._integrate(epsilon, other, refine=1.4)
            # as good as asked in delta, or in epsilon
            if not abs(again - value) < AGREEMENT * max(1.0, abs(slope) * epsilon):
                raise OracleError(f"epsilon={epsilon:.6g}: two paths differ by {abs(again - value):.3g} in log delta")
        return value, slope

    def _path(self, crossing: float, width: float, bend: float) -> _Path:
        return _Path(crossing, width, bend, curved=bend != 0)

    def _bounds(self) -> tuple[float, float]:
        each = [p.mechanism.bounds(self.direction) for p in self.phases]
        return tuple(sum(p.count * b[i] for p, b in zip(self.phases, each, strict=True)) for i in (0, 1))  # type: ignore[return-value]

    def _has_atoms(self) -> bool:
        return all(p.mechanism.atoms(self.direction) for p in self.phases)

    def _bend(self) -> float:
        """cot of the asymptote's angle: to the right where the loss is bounded below, left where above."""
        sampled = [p for p in self.phases if isinstance(p.mechanism, SampledGaussian)]
        others = [p for p in self.phases if not isinstance(p.mechanism, SampledGaussian | Gaussian)]
        if not sampled or others:
            return 0.0
        return {Direction.REMOVE: 0.5, Direction.ADD: -0.5, Direction.REPLACE: 0.0}[self.direction]

    def _height(self, s: float, epsilon: float) -> float:
        """log of the integrand at real s."""
        return float(self.log_mgf(np.array([s + 0j]))[0].real) - s * epsilon - math.log(s * (s + 1))

    def _saddle(self, epsilon: float) -> tuple[float, float]:
        """Where the integrand is least on the positive axis, and its width there."""
        found = minimize_scalar(
            lambda log_s: self._height(math.exp(log_s), epsilon),
            bounds=(-9, 10),
            method="bounded",
            options={"xatol": 1e-3},
        )
        s = math.exp(found.x)
        step = 0.02 * s
        middle, up, down = (self._height(x, epsilon) for x in (s, s + step, s - step))
        return s, step / math.sqrt(max(up - 2 * middle + down, 1e-12))

    def _chernoff(self, delta: float) -> float:
        """An upper bound of epsilon: delta <= M(s) e^(-s epsilon) s^s / (s + 1)^(s + 1) for every s > 0."""

        def bound(log_s: float) -> float:
            s = math.exp(log_s)
            moment = float(self.log_mgf(np.array([s + 0j]))[0].real)
            return (moment - math.log(delta) + s * log_s - (s + 1) * math.log1p(s)) / s

        return max(1e-9, float(minimize_scalar(bound, bounds=(-9, 10), method="bounded").fun))

    def _integrate(self, epsilon: float, path: _Path, refine: float) -> tuple[float, float]:
        """Trapezoidal rule, halving the step until the sum settles."""
        base = self._height(path.crossing, epsilon)
        window = self._window(epsilon, path)
        step = 0.5 / refine
        sums = self._sweep(epsilon, path, base, step, 0.0, window, refine)
        for _ in range(7):
            halves = self._sweep(epsilon, path, base, step, 0.5 * step, window, refine)
            finer = 0.5 * (sums + halves)
            settled = abs(finer[0] - sums[0]) <= 3e-13 * abs(finer[0])
            sums, step = finer, step / 2
            if settled:
                break
        else:
            raise OracleError(f"epsilon={epsilon:.6g}: the path integral did not settle")
        if not sums[0] > 0:
            raise OracleError(f"epsilon={epsilon:.6g}: the path integral is not positive")
        return base + math.log(sums[0] / math.pi), -sums[1] / sums[0]

    def _window(self, epsilon: float, path: _Path) -> tuple[float, float] | None:
        """(start, softness) in tau of the smooth cut for losses with atoms."""
        if not self._has_atoms():
            return None
        if len(self.phases) > 1:
            raise OracleError("several phases with atoms: the kinks of the profile lie too densely")
        low, high = (self.phases[0].count * a for a in self.phases[0].mechanism.atoms(self.direction))
        kinks = np.linspace(low, high, self.phases[0].count + 1)
        gap = float(np.abs(kinks - epsilon).min())
        # What is cut off oscillates at least as fast as the distance to the nearest kink: e^(-(softness gap)^2 / 4)
        softness = 12.5 / (gap * path.width)
        return 6 * softness + 3, softness

    def _sweep(
        self,
        epsilon: float,
        path: _Path,
        base: float,
        step: float,
        offset: float,
        window: tuple[float, float] | None,
        refine: float,
    ) -> np.ndarray:
        """step * sum over tau = offset + k step >= 0 of the integrand (and of s times it), real parts."""
        # a curved path runs off exponentially: look every unit of tau whether the rest still matters
        total, first, size = np.zeros(2), 0, math.ceil(1 / step) if path.curved else 64
        last = _MAX_NODES if window is None else math.ceil((window[0] + 6 * window[1]) / step)
        if last > _MAX_NODES:
            raise OracleError(f"epsilon={epsilon:.6g}: too close to a kink of the profile")
        while first < last:
            tau = offset + step * np.arange(first, min(first + size, last))
            s, speed = path.at(tau)
            value = np.exp(self.log_mgf(s, refine) - s * epsilon - base) / (s * (s + 1)) * speed
            if window:
                value *= 0.5 * erfc((tau - window[0]) / window[1])
            if tau[0] == 0.0:
                value[0] *= 0.5
            total += [value.real.sum(), (value * s).real.sum()]
            if window is None and np.abs(value[-8:]).max() * max(1.0, tau[-1]) < _NEGLIGIBLE * abs(total[0]):
                return total * step
            first, size = first + size, size if path.curved else min(2 * size, 4096)
        if window is None:
            raise OracleError(f"epsilon={epsilon:.6g}: the integrand decays too slowly")
        return total * step
