"""The neural tangent kernel of private training: how clipping and noise affect convergence.

Nothing here is private: the functions read models and data without protection, in order to study them.

For n examples, let f be a model's outputs, one number for each pair of an example and an output. Let L be the mean of
the examples' losses, u the gradient of each example's loss with respect to its own outputs, and J the Jacobian of f
with respect to the trained parameters. Gradient flow on clipped gradients, with a clip factor for each example in each
group r of parameters, is

    df/dt = -(1/n) M u,    M = sum over r of H_r C_r,    H_r = J_r J_r',                                          (1)
    dL/dt = -(1/n^2) u' M u,                                                                                      (2)

where C_r is the diagonal matrix of the group's factors. Without clipping, M is H = J J', the kernel of Jacot et al.: it
is symmetric and has no negative eigenvalue, so the loss never rises. With clipping:

| clipping                                   | symmetric | spectrum >= 0 | v' M v >= 0 for all v | rests only at a fit |
|--------------------------------------------|-----------|---------------|-----------------------|---------------------|
| none; a clip norm that no gradient exceeds | yes       | yes           | yes: L never rises    | yes                 |
| global, no example beyond the threshold    | yes       | yes           | yes: L never rises    | yes                 |
| flat, adaptive, automatic, normalized      | no        | yes           | no: L may rise        | yes                 |
| global, some examples beyond the threshold | no        | yes           | no: L may rise        | no                  |
| any whose factors differ between groups    | no        | no            | no: L may rise        | no                  |

"No" means that there are models and data for which it fails. With one group, M = H C is similar to C^.5 H C^.5. The
last column is about flows that come to rest, M u = 0, where H is invertible. With one group, C u = 0: all examples are
fitted, except those with a factor of 0. With several groups M may be singular even so: a flow may rest where no example
is fitted.

- `kernel`: M and u of a model on a batch, as an `Ntk`, which knows its symmetry, its spectrum and equation (2).
- `measured_decrease`: the effect of a gradient step on the loss, to compare with equation (2).
- `descent`: the losses along (clipped) gradient descent; `noise_sweep`: the losses of many runs with noise alone.
- `expected_excess`, `noise_floor`: the exact effect of noise alone where the loss is quadratic.
- `jacobian`: J, parameter by parameter.

Assumes:
    - The model's output for an example depends neither on other examples nor on chance: checked here, for this batch.
      Batch statistics and dropout are refused in training mode; call ``model.eval()``.
    - An example's loss depends on its own outputs and target only: the caller's duty.
    - J fits in memory, as a float64 for each example, output and parameter: the caller's duty.

References:
    - Jacot, Gabriel, Hongler 2018, "Neural tangent kernel: convergence and generalization in neural networks".
    - Bu, Wang, Dai, Long 2023, "On the convergence and calibration of deep learning with differential privacy", Table
      1 (2021, by Bu, Wang, Long, Su). They study continuous time, where noise does not matter; `noise_floor` is about
      steps. Their global clipping never drops an example; `Global` does, beyond its threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap

from hush.errors import InvalidArgument, check_count, check_epsilon, check_positive
from hush.lab.tangent import Loss as Loss
from hush.lab.tangent import Params, Tangent, TangentObjective, factors
from hush.training import Clipping

__all__ = [
    "Loss",
    "Ntk",
    "descent",
    "expected_excess",
    "jacobian",
    "kernel",
    "measured_decrease",
    "noise_floor",
    "noise_sweep",
]

_ROUNDING = 1e-9  # numbers below this count as 0, relative to what they are compared with


@dataclass(frozen=True, slots=True, eq=False)
class Ntk:
    """The matrix M of equation (1), for the current outputs and clip factors; `kernel` makes one.

    Attributes:
        matrix: M, [n k, n k] for n examples with k outputs each. The outputs of an example are neighbours.
        residual: u, [n k].
        factors: The clip factors, [groups, n]; all 1 without clipping.

    Example:
        >>> from hush.lab import ntk
        >>> model, x, y = torch.nn.Linear(2, 1, bias=False), torch.eye(2), torch.tensor([[3.0], [4.0]])
        >>> _ = torch.nn.init.zeros_(model.weight)
        >>> def loss(outputs, y):
        ...     return (outputs - y).square().sum(1) / 2
        >>> found = ntk.kernel(model, x, y, loss)
        >>> found.matrix.tolist(), found.residual.tolist(), found.rate
        ([[1.0, 0.0], [0.0, 1.0]], [-3.0, -4.0], 6.25)
    """

    matrix: Tensor
    residual: Tensor
    factors: Tensor

    @property
    def is_symmetric(self) -> bool:
        """Whether M is its own transpose, up to rounding."""
        return float((self.matrix - self.matrix.mT).abs().max()) <= _ROUNDING * self._size

    @property
    def eigenvalues(self) -> Tensor:
        """The complex eigenvalues, by rising real part."""
        eigenvalues: Tensor = torch.linalg.eigvals(self.matrix)
        return eigenvalues[eigenvalues.real.argsort()]

    @property
    def has_nonnegative_eigenvalues(self) -> bool:
        """Whether all eigenvalues are real and none is negative, up to rounding."""
        # Where M is not symmetric, a rounding error in its entries may move eigenvalues by the root of that error.
        eigenvalues, tolerance = self.eigenvalues, 1e-6 * self._size
        return float(eigenvalues.imag.abs().max()) <= tolerance and float(eigenvalues.real.min()) >= -tolerance

    @property
    def smallest_quadratic_form(self) -> float:
        """The smallest v' M v over unit vectors v: the smallest eigenvalue of M's symmetric part."""
        return float(torch.linalg.eigvalsh((self.matrix + self.matrix.mT) / 2)[0])

    @property
    def loss_cannot_rise(self) -> bool:
        """Whether the loss cannot rise under gradient flow, for any residuals with these clip factors."""
        return self.smallest_quadratic_form >= -_ROUNDING * self._size

    @property
    def rate(self) -> float:
        """How fast the loss falls under gradient flow, for the current residuals: -dL/dt of equation (2)."""
        return float(self.residual @ self.matrix @ self.residual) / self.factors.shape[1] ** 2

    def predicted_decrease(self, learning_rate: float) -> float:
        """Return by how much a small step of gradient descent lowers the loss, to first order; negative if it rises."""
        return check_positive("learning_rate", learning_rate) * self.rate

    @property
    def _size(self) -> float:
        return float(torch.linalg.matrix_norm(self.matrix))


def jacobian(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the Jacobian of every example's flattened outputs with respect to each parameter: [n, k, *shape]."""
    return Tangent(model, x).jacobian()


def kernel(model: nn.Module, x: Tensor, y: Tensor, loss: Loss, *, clipping: Clipping | None = None) -> Ntk:
    """Return the tangent kernel of a model on a batch, with or without clipping.

    Args:
        model: From ``x`` to one tensor, whose first dimension is the batch.
        x: The examples.
        y: Their targets.
        loss: From outputs and targets to one loss per example.
        clipping: How gradients are clipped, and in which groups; no clipping, if omitted.

    Example:
        One example asks for a slope of 10 and three for -1. The mean of 7/4 lowers the loss. With clipped gradients,
        three outvote one, and the loss rises:

        >>> from hush.lab import ntk
        >>> from hush.training import Flat
        >>> model, x, y = torch.nn.Linear(1, 1, bias=False), torch.ones(4, 1), torch.tensor([[10.0], [-1], [-1], [-1]])
        >>> _ = torch.nn.init.zeros_(model.weight)
        >>> def loss(outputs, y):
        ...     return (outputs - y).square().sum(1) / 2
        >>> ntk.kernel(model, x, y, loss).rate, ntk.kernel(model, x, y, loss, clipping=Flat(1.0)).rate
        (3.0625, -0.875)
    """
    problem = TangentObjective(model, x, y, loss)
    residual, jacobians = problem.residual(), problem.jacobian()
    gradients = {name: torch.einsum("nk,nk...->n...", residual, value) for name, value in jacobians.items()}
    clip_factors, groups = factors(gradients, clipping)
    size = residual.numel()
    matrix = residual.new_zeros(size, size)
    for group, value in zip(groups, jacobians.values(), strict=True):
        flat = value.reshape(size, -1)
        # H_r C_r: factors multiply the columns of H_r = J_r J_r'.
        matrix += flat @ flat.mT * clip_factors[group].repeat_interleave(residual.shape[1])
    if not bool(matrix.isfinite().all()):
        raise InvalidArgument("model", type(model).__name__, "finite outputs and gradients")
    return Ntk(matrix, residual.flatten(), clip_factors)


def measured_decrease(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss, *, learning_rate: float, clipping: Clipping | None = None
) -> float:
    """Return by how much one step of (clipped) gradient descent lowers the loss. The model stays as it is.

    It differs from `Ntk.predicted_decrease` by a term of order ``learning_rate`` squared.
    """
    losses = descent(model, x, y, loss, learning_rate=learning_rate, num_steps=1, clipping=clipping)
    return float(losses[0] - losses[1])


def descent(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    loss: Loss,
    *,
    learning_rate: float,
    num_steps: int,
    clipping: Clipping | None = None,
) -> Tensor:
    """Return the losses along (clipped) gradient descent, [num_steps + 1]. The model stays as it is."""
    check_positive("learning_rate", learning_rate)
    problem = TangentObjective(model, x, y, loss)
    params, losses = problem.params, [problem.mean_loss(problem.params)]
    for _ in range(check_count("num_steps", num_steps)):
        step = problem.mean_gradient(params, clipping)
        params = {name: value - learning_rate * step[name] for name, value in params.items()}
        losses.append(problem.mean_loss(params))
    return torch.stack(losses).detach()


def noise_sweep(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    loss: Loss,
    *,
    noise_stddevs: Sequence[float],
    learning_rate: float,
    num_steps: int,
    rng: torch.Generator,
    num_runs: int = 1,
) -> Tensor:
    """Return the losses along noisy gradient descent without clipping: [stddevs, num_runs, num_steps + 1].

    Args:
        model: As for `kernel`.
        x: As for `kernel`.
        y: As for `kernel`.
        loss: As for `kernel`.
        noise_stddevs: Standard deviations of the noise on each coordinate of the mean gradient. DP-SGD's is its noise
            multiplier times its clip norm, over its batch size. Nothing here is private.
        learning_rate: The learning rate of gradient descent.
        num_steps: The number of steps of each run.
        rng: Draws the noise: a torch generator.
        num_runs: The number of runs with each standard deviation.
    """
    check_positive("learning_rate", learning_rate)
    check_count("num_runs", num_runs)
    scales = [check_epsilon("noise_stddevs", stddev) for stddev in noise_stddevs for _ in range(num_runs)]
    if not scales:
        raise InvalidArgument("noise_stddevs", noise_stddevs, "at least one")
    problem = TangentObjective(model, x, y, loss)
    params = {name: value.expand(len(scales), *value.shape) for name, value in problem.params.items()}
    losses: list[Tensor] = []
    gradients: Params
    for _ in range(check_count("num_steps", num_steps)):
        gradients, loss_now = vmap(grad_and_value(problem.mean_loss))(params)
        losses.append(loss_now)
        for name, value in gradients.items():
            noise = torch.randn(value.shape, generator=rng, dtype=value.dtype, device=rng.device)
            noise *= torch.tensor(scales, dtype=noise.dtype, device=noise.device).view(-1, *[1] * (value.dim() - 1))
            params[name] = params[name] - learning_rate * (value + noise.to(value.device))
    losses.append(vmap(problem.mean_loss)(params))
    return torch.stack(losses, 1).detach().reshape(len(noise_stddevs), num_runs, -1)


def expected_excess(
    hessian: Tensor, distance: Tensor, *, learning_rate: float, noise_stddev: float, num_steps: int
) -> Tensor:
    """Return the expected loss above the minimum after 0, ..., num_steps steps, where the loss is quadratic.

    In a direction of curvature l, a step multiplies the distance e from the minimum by 1 - lr l and adds noise of
    standard deviation lr s. So after t steps

        E[e^2] = (1 - lr l)^(2 t) e_0^2 + (1 - (1 - lr l)^(2 t)) v,    v = lr s^2 / (l (2 - lr l)).

    The first term is the error without noise; the second tends to v. The loss is the sum of l e^2 / 2 over the
    directions.

    Args:
        hessian: The second derivative of the loss, [d, d], with no negative eigenvalue.
        distance: The initial parameters minus those of a minimum, [d].
        learning_rate: lr, less than 2 over the largest eigenvalue.
        noise_stddev: s, the standard deviation of the noise on each coordinate of the gradient.
        num_steps: The number of steps.

    Example:
        >>> expected_excess(torch.eye(1), torch.ones(1), learning_rate=0.5, noise_stddev=1.0, num_steps=2)
        tensor([0.5000, 0.2500, 0.1875])
    """
    curvatures, directions = torch.linalg.eigh(hessian)
    shrinks = (1 - learning_rate * curvatures) ** 2
    steps = torch.arange(check_count("num_steps", num_steps) + 1, dtype=hessian.dtype, device=hessian.device)
    remaining = torch.pow(shrinks, steps.unsqueeze(1))
    start = 0.5 * curvatures * (directions.mT @ distance) ** 2
    floors = _floors(curvatures, learning_rate, noise_stddev)
    excess: Tensor = remaining * start + (1 - remaining) * floors
    return excess.sum(1)


def noise_floor(hessian: Tensor, *, learning_rate: float, noise_stddev: float) -> float:
    """Return the expected loss above the minimum at which noisy gradient descent stays, where the loss is quadratic.

    It is the sum of lr s^2 / (2 (2 - lr l)) over the d directions with a curvature l > 0. For small steps that is about
    lr s^2 d / 4, whatever the curvature. In continuous time, where lr is 0, there is no floor. The floor is the limit
    of noise without clipping.

    Args:
        hessian: The second derivative of the loss, [d, d], with no negative eigenvalue.
        learning_rate: lr, less than 2 over the largest eigenvalue.
        noise_stddev: s, the standard deviation of the noise on each coordinate of the gradient.

    Example:
        >>> noise_floor(torch.eye(3), learning_rate=1.0, noise_stddev=2.0)
        6.0
    """
    return float(_floors(torch.linalg.eigvalsh(hessian), learning_rate, noise_stddev).sum())


def _floors(curvatures: Tensor, learning_rate: float, noise_stddev: float) -> Tensor:
    """Return each direction's share of the floor; a flat direction has none."""
    check_epsilon("noise_stddev", noise_stddev)
    steepest = float(curvatures.max())
    check_positive("learning_rate", learning_rate)
    if not learning_rate * steepest < 2:
        raise InvalidArgument(
            "learning_rate", learning_rate, "less than 2 over the largest curvature", "Larger steps diverge"
        )
    floors = learning_rate * noise_stddev**2 / (2 * (2 - learning_rate * curvatures))
    return torch.where(curvatures > _ROUNDING * steepest, floors, 0.0)
