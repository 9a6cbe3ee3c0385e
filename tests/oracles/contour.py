"""Epsilon and delta of a composition, by inverting its moment generating function.

    delta(epsilon) = 1 / (2 pi i) * integral of exp(sum_j T_j log M_j(s) - s epsilon) / (s (s + 1)) ds

over any path from below to above the real axis that crosses it at s > 0, with M_j(s) = E_P exp(s loss of one step j).
The path crosses at the saddle point, where nothing cancels, and then

- bends to the right if the loss is bounded below, and to the left if it is bounded above. Far out the integrand
  behaves like e^(s (bound - epsilon)), so it decays exponentially even after one step, where a vertical line needs
  millions of nodes. The bend stays steeper than 45 degrees, where the Gaussian part e^(s^2 / 2 sigma^2) decays, too;
- is vertical otherwise. If the loss has atoms, the integrand does not decay on it. A smooth window then removes the
  far part, which is exact up to rounding unless epsilon is close to a kink of the profile.

Every answer is computed twice, on two paths with two sets of nodes. Unless the two agree, `OracleError` is raised.

References: the inversion formula is that of Zhu, Dong & Wang 2022 (characteristic function of the loss), moved off the
imaginary axis; the saddle point is that of Alghamdi et al. 2023; the bend is this package's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
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

AGREEMENT = 1e-9  # the largest relative difference of two evaluations; usually it is 1e-12
_MAX_NODES = 100_000
_DEEP = 40  # e^-40 of the largest term is negligible
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
    """Parse the golden files' form: ["sg", q, sigma, T], ["lap", b, T], ["sublap", q, b, T] or ["rr", eps0, T]."""
    return [Phase(_BUILD[str(kind)](*map(float, numbers)), int(count)) for kind, *numbers, count in phases]


def gaussian(sampling_rate: float, noise_multiplier: float) -> Mechanism:
    """Return a Poisson-sampled Gaussian, or a plain one for q = 1."""
    return Gaussian(noise_multiplier) if sampling_rate == 1 else SampledGaussian(noise_multiplier, sampling_rate)


_BUILD = {
    "sg": gaussian,
    "lap": lambda scale: SampledLaplace(scale),
    "sublap": lambda rate, scale: SampledLaplace(scale, rate),
    "rr": RandomizedResponse,
}

ADD_OR_REMOVE = (Direction.REMOVE, Direction.ADD)
REPLACE = (Direction.REPLACE,)


def epsilon(phases: Phases, delta: float, directions: Sequence[Direction] = ADD_OR_REMOVE) -> float:
    """Return the epsilon of the composition at delta, the largest over the directions, or raise OracleError."""
    return max(_epsilon(_merge(phases), delta, direction) for direction in directions)


def delta(phases: Phases, epsilon: float, directions: Sequence[Direction] = ADD_OR_REMOVE) -> float:
    """Return the delta of the composition at epsilon, the largest over the directions, or raise OracleError."""
    return max(_delta(_merge(phases), epsilon, direction) for direction in directions)


def noise_multiplier(*, target_epsilon: float, delta: float, sampling_rate: float, num_steps: int) -> float:
    """Return the sigma at which the Poisson-sampled Gaussian has exactly this epsilon under add or remove."""

    def excess(log_sigma: float) -> float:
        phases = [Phase(gaussian(sampling_rate, math.exp(log_sigma)), num_steps)]
        return math.log(epsilon(phases, delta) / target_epsilon)

    return math.exp(_root(excess, math.log(0.5), math.log(5.0)))


def _merge(phases: Phases) -> list[Phase]:
    """Merge plain Gaussians into one, and add the counts of equal mechanisms."""
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
    return math.exp(_Inversion(phases, direction).log_delta(epsilon))


def _exact_profile(phases: Phases, direction: Direction) -> closed_form.Profile | None:
    """Return the profile if a finite formula exists."""
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
    only = phases[0].mechanism
    if len(phases) == 1 and isinstance(only, RandomizedResponse):
        return closed_form.randomized_response_epsilon(delta, local_epsilon=only.local_epsilon, count=phases[0].count)
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
    """Return the root of a decreasing function, in a bracket that may grow."""
    width = high - low
    while function(low) < 0 < width < 100:
        low, width = low - width, 2 * width
    while function(high) > 0 and width < 100:
        high, width = high + width, 2 * width
    return float(brentq(function, low, high, xtol=1e-14, rtol=1e-14))


@dataclass(frozen=True)
class _Path:
    """A hyperbola with asymptote Re s ~ bend Im s and Im s = width sinh tau; without bend, crossing + i width tau."""

    crossing: float
    width: float
    bend: float

    @property
    def curved(self) -> bool:
        return self.bend != 0

    def at(self, tau: np.ndarray) -> tuple[Complex, Complex]:
        """Return points of the path, and its derivative divided by i."""
        if not self.curved:
            return self.crossing + 1j * self.width * tau, np.full(len(tau), self.width + 0j)
        # The path leaves the axis vertically and turns at a height of crossing + 1. If it turned sooner, |s| would grow
        # faster than Im s, and e^(s^2 / 2 sigma^2) with it.
        turn = self.crossing + 1
        height, speed = self.width * np.sinh(tau), self.width * np.cosh(tau)
        along = np.hypot(height, turn)
        s = self.crossing + self.bend * (along - turn) + 1j * height
        return s, speed * (1 - 1j * self.bend * height / along)


@dataclass(frozen=True)
class _Cut:
    """A smooth end of the path, in tau."""

    start: float
    softness: float
    end: float

    def at(self, tau: np.ndarray) -> np.ndarray:
        return 0.5 * erfc((tau - self.start) / self.softness)


@dataclass(frozen=True)
class _Table:
    """The integrand without its e^(-s epsilon), weighted, at the nodes of one path."""

    s: Complex
    log_term: Complex

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return log delta and its derivative in epsilon, accurate near the epsilon for which the path was chosen."""
        top, value = self._terms(epsilon)
        delta, slope = value.real.sum(), -(value * self.s).real.sum()
        if not delta > 0:
            raise OracleError(f"epsilon={epsilon:.6g}: the path integral is not positive")
        return float(top + math.log(delta / math.pi)), float(slope / delta)

    def change(self, coarse: _Table, epsilon: float) -> tuple[float, float]:
        """Return the relative difference from the coarse table's integral, and how much the terms cancel."""
        top, value = self._terms(epsilon)
        coarse_top, coarse_value = coarse._terms(epsilon)
        fine = value.real.sum()
        change = abs(fine - math.exp(coarse_top - top) * coarse_value.real.sum())
        return float(change / abs(fine)), float(np.abs(value).sum() / abs(fine))

    def _terms(self, epsilon: float) -> tuple[float, Complex]:
        total = self.log_term - self.s * epsilon
        top = float(total.real.max())
        return top, np.exp(total - top)

    def merge(self, other: _Table) -> _Table:
        """Return a table with the nodes of both, each with half its weight."""
        terms = np.concatenate([self.log_term, other.log_term]) - math.log(2)
        return _Table(np.concatenate([self.s, other.s]), terms)


@dataclass(frozen=True)
class _Inversion:
    """One composition in one direction."""

    phases: Phases
    direction: Direction

    def epsilon(self, delta: float) -> float:
        """Return epsilon by Newton's method on log delta, from the Chernoff bound; the path moves along."""
        target = math.log(delta)
        low, high = 0.0, self._largest_loss()
        at = min(self._chernoff(delta), high * (1 - 1e-6))
        for attempt in range(60):
            if attempt < 4:
                at = self._clear_of_kinks(at)
            try:
                table = self._table(at, *self._saddle(at), refine=1.0)
                proposal = self._solve(table, target, at, high)
            except OracleError:
                if attempt > 8:
                    raise
                # The Chernoff bound can lie so far above epsilon that the integrand cancels there. Come closer.
                high, at = at, 0.5 * (low + at)
                continue
            if abs(proposal - at) <= 1e-11 * max(1e-2, at):
                self.log_delta(proposal)
                return proposal
            low, high = (at, high) if table.log_delta(at)[0] > target else (low, at)
            if not low < proposal < high:
                if proposal <= 0 and self.log_delta(0.0) <= target:
                    return 0.0
                proposal = 0.5 * (low + min(high, 2 * at + 1))
            at = proposal
        raise OracleError(f"delta={delta:.3g}: Newton did not settle, last epsilon={at:.12g}")

    @staticmethod
    def _solve(table: _Table, target: float, start: float, high: float) -> float:
        """Take Newton steps on one table, which is accurate while delta changes by a factor of about e^2."""
        value, slope = table.log_delta(start)
        lowest, highest = start - 2 / abs(slope), start + min(2 / abs(slope), 0.9 * (high - start))
        at = start
        for _ in range(8):
            at = float(np.clip(at + (target - value) / slope, lowest, highest))
            if at in (lowest, highest):
                break
            value, slope = table.log_delta(at)
        return at

    def log_delta(self, epsilon: float) -> float:
        """Return log delta, computed on two paths that must agree in delta or in the implied epsilon."""
        crossing, spread = self._saddle(epsilon)
        value, slope = self._table(epsilon, crossing, spread, refine=1.0).log_delta(epsilon)
        again, _ = self._table(epsilon, 0.8 * crossing, 0.8 * spread, refine=1.4).log_delta(epsilon)
        if not abs(again - value) < AGREEMENT * max(1.0, abs(slope) * epsilon):
            raise OracleError(f"epsilon={epsilon:.6g}: two paths differ by {abs(again - value):.3g} in log delta")
        return value

    def _log_mgf(self, s: Complex, refine: float = 1.0) -> Complex:
        return sum(p.count * p.mechanism.log_mgf(s, self.direction, refine) for p in self.phases)

    def _largest_loss(self) -> float:
        return sum(p.count * p.mechanism.bounds(self.direction)[1] for p in self.phases)

    def _bend(self) -> float:
        """Return the cotangent of the asymptote's angle: positive if the loss is bounded below, negative if above."""
        kinds = {type(p.mechanism) for p in self.phases}
        if SampledGaussian not in kinds or kinds - {SampledGaussian, Gaussian}:
            return 0.0
        return {Direction.REMOVE: 0.5, Direction.ADD: -0.5, Direction.REPLACE: 0.5}[self.direction]

    def _height(self, s: float, epsilon: float) -> float:
        """Return the log of the integrand at real s."""
        return float(self._log_mgf(np.array([s + 0j]))[0].real) - s * epsilon - math.log(s * (s + 1))

    def _saddle(self, epsilon: float) -> tuple[float, float]:
        """Return where the integrand is smallest on the positive axis, and its width there."""
        minimum = minimize_scalar(
            lambda log_s: self._height(math.exp(log_s), epsilon),
            bounds=(-9, 11),
            method="bounded",
            options={"xatol": 1e-3},
        )
        s = math.exp(minimum.x)
        step = 0.02 * s
        middle, up, down = (self._height(x, epsilon) for x in (s, s + step, s - step))
        return s, step / math.sqrt(max(up - 2 * middle + down, 1e-12))

    def _chernoff(self, delta: float) -> float:
        """Return an upper bound on epsilon: delta <= M(s) e^(-s epsilon) s^s / (s + 1)^(s + 1) for every s > 0."""

        def bound(log_s: float) -> float:
            s = math.exp(log_s)
            moment = float(self._log_mgf(np.array([s + 0j]))[0].real)
            return (moment - math.log(delta) + s * log_s - (s + 1) * math.log1p(s)) / s

        return max(1e-9, float(minimize_scalar(bound, bounds=(-9, 11), method="bounded").fun))

    def _table(self, epsilon: float, crossing: float, spread: float, *, refine: float) -> _Table:
        """Return a trapezoidal rule on a path through `crossing`, with the step halved until the integral settles."""
        bend = self._bend() / refine
        path = _Path(crossing, min(crossing, spread), bend)
        window = self._window(epsilon, path)
        step = 0.5 / refine
        table = self._sweep(epsilon, path, step, 0.0, window, refine)
        before = math.inf
        # Each step's rounding is counted as often as the step, and so are its changes from table to table.
        rounding = max(1e-12, 1e-15 * sum(phase.count for phase in self.phases))
        for _ in range(7):
            finer = table.merge(self._sweep(epsilon, path, step, 0.5 * step, window, refine))
            change, cancelling = finer.change(table, epsilon)
            # It has settled, or is down to the rounding of the integrand: the change should square with each halving.
            if change < 1e-13 or (change < rounding * cancelling and change > 0.01 * before):
                return finer
            table, step, before = finer, step / 2, change
        raise OracleError(f"epsilon={epsilon:.6g}: the path integral did not settle")

    def _kinks(self) -> np.ndarray:
        """Return the values of the composed loss, if all of its mass may be on atoms."""
        atoms = [p.mechanism.atoms(self.direction) for p in self.phases]
        if None in atoms:
            return np.array([])
        if len(atoms) > 1:
            raise OracleError("several phases with atoms: the kinks of the profile are too dense")
        count = self.phases[0].count
        return np.linspace(count * atoms[0][0], count * atoms[0][1], count + 1)

    def _clear_of_kinks(self, epsilon: float) -> float:
        """Return a point nearby that is well inside its piece of the profile."""
        kinks = self._kinks()
        if not len(kinks):
            return epsilon
        piece = int(np.clip(np.searchsorted(kinks, epsilon), 1, len(kinks) - 1))
        margin = 0.2 * (kinks[1] - kinks[0])
        return float(np.clip(epsilon, kinks[piece - 1] + margin, kinks[piece] - margin))

    def _window(self, epsilon: float, path: _Path) -> _Cut | None:
        """Return the window for losses with atoms."""
        kinks = self._kinks()
        if not len(kinks):
            return None
        # The removed part oscillates at least as fast as the distance to the nearest kink: e^(-(softness gap)^2 / 4).
        softness = 12.5 / (float(np.abs(kinks - epsilon).min()) * path.width)
        cut = _Cut(start=6 * softness + 3, softness=softness, end=12 * softness + 3)
        vanish = self._atoms_vanish(path)
        return cut if cut.end < vanish else _Cut(start=math.inf, softness=1.0, end=vanish)

    def _atoms_vanish(self, path: _Path) -> float:
        """Return the tau from which on the integrand of a loss with atoms is negligible."""
        phase = self.phases[0]
        if not isinstance(phase.mechanism, SampledLaplace):
            return math.inf
        atoms, rest = phase.mechanism.envelope(path.crossing, self.direction)
        start = float(phase.mechanism.log_mgf(np.array([path.crossing + 0j]), self.direction, 1.0)[0].real)
        t = path.width * np.logspace(1, 6, 200)
        # The rest beyond t, relative to the integrand at the crossing. The kernel decays like 1 / t^2.
        remaining = phase.count * (np.log(atoms + rest / t) - start) - np.log(t / path.crossing**2)
        return float(t[np.argmax(remaining < -_DEEP)] / path.width) if (remaining < -_DEEP).any() else math.inf

    def _sweep(
        self, epsilon: float, path: _Path, step: float, offset: float, window: _Cut | None, refine: float
    ) -> _Table:
        """Return the nodes tau = offset + k step >= 0, until the rest is negligible."""
        last = _MAX_NODES if window is None else int(min(window.end / step, 2 * _MAX_NODES))
        if last > _MAX_NODES:
            raise OracleError(f"epsilon={epsilon:.6g}: too close to a kink of the profile")
        # A curved path grows exponentially: check after every unit of tau whether the rest still matters.
        first, size, peak = 0, math.ceil(1 / step) if path.curved else 64, -math.inf
        parts: list[tuple[Complex, Complex]] = []
        while first < last:
            tau = offset + step * np.arange(first, min(first + size, last))
            s, speed = path.at(tau)
            weight = np.full(len(tau), step) if window is None else step * window.at(tau)
            weight[tau == 0] *= 0.5
            log_term = self._log_mgf(s, refine) + np.log(weight * speed / (s * (s + 1)))
            parts.append((s, log_term))
            modulus = (log_term - s * epsilon).real
            peak = max(peak, float(modulus.max()))
            if window is None and modulus[-8:].max() + math.log(1 + len(parts) * size) < peak - _DEEP:
                break
            first, size = first + size, size if path.curved else min(2 * size, 4096)
        else:
            if window is None:
                raise OracleError(f"epsilon={epsilon:.6g}: the integrand decays too slowly")
        return _Table(*(np.concatenate(column) for column in zip(*parts, strict=True)))
