"""Exact privacy profiles: a single step of every mechanism, and compositions that have a finite formula.

A profile is delta(epsilon) = sup over events E of P(E) - e^epsilon Q(E), for a fixed pair (P, Q).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
from scipy.special import erfcx

Profile = Callable[[float], float]

# (mu, delta, epsilon) of mu-GDP, which is Gaussian noise with a noise multiplier of 1 / mu, computed independently.
GAUSSIAN_EPSILONS = [
    (0.1, 1e-5, 0.340669),
    (0.25, 1e-5, 0.926342),
    (0.5, 1e-5, 1.993091),
    (1, 1e-5, 4.377178),
    (2, 1e-5, 9.997256),
    (3, 1e-5, 16.675494),
    (4, 1e-5, 24.381611),
    (1, 1e-6, 4.886554),
    (2, 1e-6, 10.997151),
]


def gaussian(noise_multiplier: float) -> Profile:
    """N(1, sigma^2) against N(0, sigma^2), sensitivity 1.

    With the Mills ratio R(z) = Phi(-z) / phi(z) the analytic Gaussian (Balle & Wang 2018, theorem 8) reads
    delta = phi(z) (R(z - 1 / sigma) - R(z)) e^epsilon, which cancels far less than the difference of two tails.
    """
    sigma = noise_multiplier

    def delta(epsilon: float) -> float:
        z = sigma * epsilon + 0.5 / sigma
        gap = _mills(z - 1 / sigma) - _mills(z)
        return math.exp(epsilon - 0.5 * z * z) / math.sqrt(2 * math.pi) * gap

    return delta


def laplace(scale: float) -> Profile:
    """Laplace noise of this scale on a query of sensitivity 1."""
    return lambda epsilon: max(0.0, -math.expm1(0.5 * (epsilon - 1 / scale)))


def sampled_remove(profile: Profile, sampling_rate: float) -> Profile:
    """(1 - q) Q + q P against Q: q delta(epsilon'), e^epsilon' = 1 + (e^epsilon - 1) / q."""
    q = sampling_rate
    return lambda epsilon: q * profile(math.log1p(math.expm1(epsilon) / q))


def sampled_add(profile: Profile, sampling_rate: float) -> Profile:
    """Q against (1 - q) Q + q P, for a pair with delta(P, Q) = delta(Q, P)."""
    q = sampling_rate

    def delta(epsilon: float) -> float:
        rest = q - (1 - q) * math.expm1(epsilon)  # 1 - (1 - q) e^epsilon
        return rest * profile(math.log(q) + epsilon - math.log(rest)) if rest > 0 else 0.0

    return delta


def gaussian_replace(noise_multiplier: float, sampling_rate: float) -> Profile:
    """(1 - q) N(0) + q N(1) against (1 - q) N(0) + q N(-1), all of variance sigma^2."""
    sigma, q = noise_multiplier, sampling_rate
    kappa = math.exp(-0.5 / sigma**2)

    def delta(epsilon: float) -> float:
        # The loss grows with x and crosses epsilon at z = e^(x / sigma^2), the positive root of
        # q kappa z^2 - (1 - q)(e^epsilon - 1) z - q kappa e^epsilon = 0.
        linear = (1 - q) * math.expm1(epsilon)
        root = linear + math.sqrt(linear**2 + 4 * (q * kappa) ** 2 * math.exp(epsilon))
        log_z = math.log(root) - math.log(2 * q * kappa)
        at = sigma * log_z
        plus, minus = q * kappa * math.exp(log_z), q * kappa * math.exp(epsilon - log_z)
        mass = plus * _mills(at - 1 / sigma) - linear * _mills(at) - minus * _mills(at + 1 / sigma)
        return math.exp(-0.5 * at * at) / math.sqrt(2 * math.pi) * mass

    return delta


def randomized_response_delta(epsilon: float, *, local_epsilon: float, count: int) -> float:
    """Return delta of `count` binary randomised responses: a binomial sum in 50 digits."""
    with localcontext() as context:
        context.prec = 50
        keep, lose = _binomial_tails(local_epsilon, count)
        k = next((k for k in range(count + 1) if (2 * k - count) * local_epsilon > epsilon), None)
        return 0.0 if k is None else float(keep[k] - Decimal(epsilon).exp() * lose[k])


def randomized_response_epsilon(delta: float, *, local_epsilon: float, count: int) -> float:
    """Return epsilon: between two values of the loss delta is linear in e^epsilon, so solve on that piece."""
    with localcontext() as context:
        context.prec = 50
        keep, lose = _binomial_tails(local_epsilon, count)
        target = Decimal(delta)
        for k in range(count, count // 2, -1):  # the piece below the loss (2 k - count) * local_epsilon
            left = Decimal(2 * k - 2 - count) * Decimal(local_epsilon)
            if keep[k] - left.exp() * lose[k] >= target:
                return max(0.0, float(((keep[k] - target) / lose[k]).ln()))
        return 0.0


def laplace_delta(epsilon: float, *, scale: float, count: int) -> float:
    """Return delta of `count` Laplace mechanisms: residues of the moment generating function in decimal arithmetic.

    With e = 1 / scale, E_P exp(s loss) = (e^(s e) (s + 1) + e^(-(s + 1) e) s) / (2 s + 1). Its power expands into
    exponentials over (2 s + 1)^count, and each inverts by its residues at 0 and at -1/2. The terms alternate in sign,
    so the precision grows with the count.
    """
    with localcontext() as context:
        context.prec = 40 + 2 * count
        step, target, total = 1 / Decimal(scale), Decimal(epsilon), Decimal(0)
        for n in range(count, count // 2, -1):
            reach = (2 * n - count) * step - target
            if reach <= 0:
                break
            at_zero = Decimal(1) if n == count else Decimal(0)
            residue = at_zero + (-reach / 2).exp() * _residue_at_half(n, count, reach)
            total += math.comb(count, n) * (-step * (count - n)).exp() * residue
        return float(total)


def _mills(z: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(z / math.sqrt(2)))


def _binomial_tails(local_epsilon: float, count: int) -> tuple[list[Decimal], list[Decimal]]:
    """Return P(at least k agree) under P and under Q, for k = 0, ..., count."""
    odds = Decimal(local_epsilon).exp()
    keep, lose = [Decimal(0)] * (count + 2), [Decimal(0)] * (count + 2)
    for k in range(count, -1, -1):
        weight = math.comb(count, k) / (1 + odds) ** count
        keep[k] = keep[k + 1] + weight * odds**k
        lose[k] = lose[k + 1] + weight * odds ** (count - k)
    return keep, lose


def _residue_at_half(n: int, count: int, reach: Decimal) -> Decimal:
    """Return the residue of (s + 1)^(n - 1) s^(count - n - 1) e^((s + 1/2) reach) / (2 s + 1)^count, at v = 2 s + 1."""
    coefficients = np.array([1], dtype=object)  # Python integers: exact
    for _ in range(n - 1):
        coefficients = _times(coefficients, 1, 1)
    for _ in range(count - n - 1):
        coefficients = _times(coefficients, -1, 1)
    if n == count:  # 1 / (v - 1) = -(1 + v + v^2 + ...)
        coefficients = -np.cumsum(coefficients)
    half, power, factorial, total = reach / 2, Decimal(1), Decimal(1), Decimal(0)
    for order in range(count):  # coefficient of v^(count - 1) in the product with e^(v reach / 2)
        if order:
            power, factorial = power * half, factorial * order
        degree = count - 1 - order
        if degree < len(coefficients):
            total += int(coefficients[degree]) * power / factorial
    return total / 2 ** (count - 1)


def _times(polynomial: np.ndarray, constant: int, linear: int) -> np.ndarray:
    zero = np.array([0], dtype=object)
    return constant * np.concatenate([polynomial, zero]) + linear * np.concatenate([zero, polynomial])
