"""Utility of DP-GD and DP-SGD: the excess risk that a plan promises for a convex problem, and the one that it reaches.

    TrainingPlan + ConvexProblem  ->  promised_excess   a bound, with the step sizes and averages that it needs
                                  ->  measured_excess   one private run with them, minus the least risk

The excess risk is the mean loss above the least mean loss within the ball, on the training data. Bounds are those of
stochastic gradient descent, by the mean square of a noisy gradient's length,

    G^2 = (L + m R)^2 + L^2 (1 - q) / B + d v^2

L bounds the gradient of an example, m R that of a ridge, the second term is Poisson sampling at rate q, and the last
one is noise of standard deviation v on each of d coordinates. With the noise that (epsilon, delta) takes, these are the
rates of Bassily, Smith & Thakurta 2014, without their logarithms.

They hold for losses whose constants you can prove. No torch model tells hush its constants, so this is for teaching and
for linear models. For quadratic losses, `hush.lab.ntk.expected_excess` is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported, check_count, check_epsilon, check_instance, check_positive
from hush.randomness import RandomSource
from hush.training import Ball, Flat, Full, Poisson, TrainingPlan, start_training

__all__ = ["ConvexProblem", "PromisedExcess", "measured_excess", "promised_excess"]

_SLACK = 1.001  # gradients are clipped a little below the clip norm, for rounding
_DESCENT_STEPS = 1500
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvexProblem:
    """What a convex problem guarantees, for every dataset.

    >>> ConvexProblem(lipschitz=1.0, radius=5.0, dimension=20).ridge
    0.0

    Attributes:
        lipschitz: The largest norm of the gradient of an example's loss, within the ball.
        radius: The radius of the ball around 0 that the weights are projected onto. Training starts at 0.
        dimension: The number of weights.
        ridge: m, of a ridge m |w|^2 / 2 that is added to the mean loss, and makes it m-strongly convex. It is the
            optimizer's weight decay: a function of the weights, which needs no noise.
    """

    lipschitz: float
    radius: float
    dimension: int
    ridge: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_positive("lipschitz", self.lipschitz)
        check_positive("radius", self.radius)
        check_count("dimension", self.dimension)
        check_epsilon("ridge", self.ridge)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedExcess:
    """A bound on the expected excess risk, and how to train for it.

    >>> plan = TrainingPlan(sampling=Full(), num_units=1000, num_steps=4, clipping=Flat(1.01), noise_multiplier=1.0,
    ...                     delta=1e-6, physical_batch_size=1000)
    >>> ridged = ConvexProblem(lipschitz=1.0, radius=5.0, dimension=20, ridge=0.1)
    >>> promised_excess(plan, ridged).weights
    (0.1, 0.2, 0.3, 0.4)

    Attributes:
        bound: The bound on the expectation, over samples and noise.
        gradient: G, the root mean square of a noisy gradient's length.
        learning_rates: The learning rate of each step.
        weights: The share of the weights *before* each step in the average.
        theorem: The source of the bound.
    """

    bound: float
    gradient: float
    learning_rates: tuple[float, ...]
    weights: tuple[float, ...]
    theorem: str


def promised_excess(plan: TrainingPlan, problem: ConvexProblem) -> PromisedExcess:
    """Return the expected excess risk that a plan promises for a convex, or strongly convex, problem.

    >>> from hush.training import Poisson
    >>> plan = TrainingPlan(sampling=Poisson(500), num_units=10_000, num_steps=400, clipping=Flat(1.01),
    ...                     noise_multiplier=4.0, delta=1e-6, physical_batch_size=500)
    >>> problem = ConvexProblem(lipschitz=1.0, radius=5.0, dimension=20)
    >>> promised = promised_excess(plan, problem)
    >>> round(promised.bound, 3), round(plan.guarantee().epsilon, 2)
    (0.25, 1.11)

    Args:
        plan: The plan. Its clip norm must not cut off anything: more than ``problem.lipschitz``.
        problem: The constants of the loss.

    Assumes:
        The constants (the caller's duty). Batches are all examples or Poisson samples, contributions are examples, and
        neither noise nor clipping changes during the run (checked here).

    References:
        Nemirovski, Juditsky, Lan & Shapiro 2009 (convex: R G / sqrt(T) for the average); Lacoste-Julien, Schmidt & Bach
        2012 (strongly convex: 2 G^2 / (m (T + 1)), by an average that grows with the step).
    """
    check_instance("plan", plan, TrainingPlan)
    check_instance("problem", problem, ConvexProblem)
    _refuse_biased(plan, problem)
    num_steps, m = plan.num_steps, problem.ridge
    gradient = _gradient(plan, problem)
    if m == 0:
        rate = problem.radius / (gradient * math.sqrt(num_steps))
        return PromisedExcess(
            bound=problem.radius * gradient / math.sqrt(num_steps),
            gradient=gradient,
            learning_rates=(rate,) * num_steps,
            weights=(1 / num_steps,) * num_steps,
            theorem="convex: Nemirovski, Juditsky, Lan & Shapiro 2009",
        )
    total = num_steps * (num_steps + 1) / 2
    return PromisedExcess(
        bound=2 * gradient**2 / (m * (num_steps + 1)),
        gradient=gradient,
        learning_rates=tuple(2 / (m * (step + 1)) for step in range(1, num_steps + 1)),
        weights=tuple(step / total for step in range(1, num_steps + 1)),
        theorem="strongly convex: Lacoste-Julien, Schmidt & Bach 2012",
    )


def measured_excess(
    plan: TrainingPlan,
    problem: ConvexProblem,
    rows: Tensor,
    targets: Tensor,
    loss: Loss,
    *,
    source: RandomSource | None = None,
) -> float:
    """Return the excess risk of one private run of a linear model. It is computed on the training data: not private.

    Args:
        plan: As for `promised_excess`.
        problem: As for `promised_excess`.
        rows: The features, [n, d].
        targets: The second argument of the loss, after the predictions.
        loss: From predictions <x, w> and targets to one convex loss per example.
        source: The source of randomness.
    """
    promised = promised_excess(plan, problem)
    if tuple(rows.shape) != (plan.num_units, problem.dimension):
        raise InvalidArgument("rows.shape", tuple(rows.shape), f"({plan.num_units}, {problem.dimension})")
    model = nn.Linear(problem.dimension, 1, bias=False, dtype=rows.dtype)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=problem.ridge)
    ball = Ball(problem.radius)
    private = start_training(plan, model, optimizer, (rows, targets), projection=ball, source=source)
    average, step = torch.zeros(problem.dimension, dtype=torch.float64), 0
    for x, y in private.loader:
        optimizer.param_groups[0]["lr"] = promised.learning_rates[step]
        before = model.weight.detach()[0].double().clone()
        if private.step(loss(model(x)[:, 0], y)).complete:
            average += promised.weights[step] * before
            step += 1
    exact, y = rows.double(), targets
    return _risk(average, exact, y, loss, problem) - _least_risk(exact, y, loss, problem)


def _refuse_biased(plan: TrainingPlan, problem: ConvexProblem) -> None:
    """Refuse plans whose noisy gradient is not that of the mean loss on average."""
    if plan.clipping != Flat(plan.clipping.clip_norm):
        raise Unsupported(f"clipping={plan.clipping!r}: the theorems are for gradients as they are", "Use Flat")
    if not plan.clipping.clip_norm >= _SLACK * problem.lipschitz:
        raise InvalidArgument(
            "clip_norm", plan.clipping.clip_norm, f"at least {_SLACK * problem.lipschitz:.4g}", "Clipping adds a bias"
        )
    if type(plan.sampling) not in (Full, Poisson) or plan.max_batch_size is not None:
        raise Unsupported(f"{type(plan.sampling).__name__}: no bound for these batches", "Use Full or Poisson")
    if plan.schedule is not None or plan.correlated is not None or plan.contribution.examples != 1:
        raise Unsupported("a schedule, correlated noise or micro-batches: no bound is known here", "Use a plain plan")
    if plan.rows_per_unit > 1 or plan.contribution.copies != 1:
        raise Unsupported("contributions of several examples: no bound is known here", "Use PerExample")


def _gradient(plan: TrainingPlan, problem: ConvexProblem) -> float:
    """Return the root mean square of the length of a step's noisy mean gradient."""
    noise = plan.noise_on_sum(0) * plan.clipping.clip_norm / plan.divisor(0)
    rate = plan.sampling_rate
    sampled = (1 - rate) / plan.batch_size if isinstance(plan.sampling, Poisson) else 0.0
    longest = problem.lipschitz + problem.ridge * problem.radius
    return math.sqrt(longest**2 + problem.lipschitz**2 * sampled + problem.dimension * noise**2)


def _risk(weights: Tensor, rows: Tensor, targets: Tensor, loss: Loss, problem: ConvexProblem) -> float:
    ridge = problem.ridge * float(weights.square().sum()) / 2
    return float(loss(rows @ weights, targets).mean()) + ridge


def _least_risk(rows: Tensor, targets: Tensor, loss: Loss, problem: ConvexProblem) -> float:
    """Return the least risk within the ball that projected descent finds: an upper bound on the least one."""
    weights = torch.zeros(problem.dimension, dtype=torch.float64, requires_grad=True)
    rate, least = problem.radius / problem.lipschitz, math.inf
    for _ in range(_DESCENT_STEPS):
        risk = loss(rows @ weights, targets).mean() + problem.ridge * weights.square().sum() / 2
        value = float(risk.detach())
        if value > least:  # the step was too long
            rate /= 2
        least = min(least, value)
        (gradient,) = torch.autograd.grad(risk, weights)
        with torch.no_grad():
            weights -= rate * gradient
            weights *= min(1.0, problem.radius / max(float(weights.norm()), 1e-300))
    return least
