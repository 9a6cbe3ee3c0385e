"""A laboratory for the neural tangent kernel: what clipping, and what noise, does to the convergence of training.

Nothing here is private: it reads models and data as they are, in order to study them.

For n examples, let f be a model's outputs, one number for each pair of an example and an output, L the mean of the
examples' losses, u the gradient of each example's loss by its own outputs, and J the Jacobian of f by the trained
parameters. Gradient flow on clipped gradients, with a factor for each example in each group r of parameters, is

    df/dt = -(1/n) M u,    M = sum over r of H_r C_r,    H_r = J_r J_r',                                          (1)
    dL/dt = -(1/n^2) u' M u,                                                                                      (2)

where C_r is the diagonal matrix of the group's factors. Without clipping M is H = J J', the kernel of Jacot et al.:
symmetric, with no negative eigenvalue, so that the loss never rises. Under clipping:

| clipping                                   | symmetric | spectrum >= 0 | v' M v >= 0 for all v | rests only at a fit |
|--------------------------------------------|-----------|---------------|-----------------------|---------------------|
| none; a clip norm that no gradient exceeds | yes       | yes           | yes: L never rises    | yes                 |
| global, no example beyond the threshold    | yes       | yes           | yes: L never rises    | yes                 |
| flat, adaptive, automatic, normalized      | no        | yes           | no: L may rise        | yes                 |
| global, some examples beyond the threshold | no        | yes           | no: L may rise        | no                  |
| any whose factors differ between groups    | no        | no            | no: L may rise        | no                  |

"No" means that there are models and data where it does not hold. One group's M is H C, similar to C^.5 H C^.5. The last
column is about flows that come to rest, M u = 0, where H is invertible. In one group, C u = 0: all examples are fitted,
but for those with a factor of 0. M of several groups may be singular all the same: a flow may rest where nothing fits.

- `kernel`: M and u of a model on a batch, as an `Ntk`, which knows its symmetry, its spectrum and equation (2).
- `measured_decrease`: what a step of gradient descent does to the loss, to compare with equation (2).
- `descent`: the losses on the way of (clipped) gradient descent; `noise_sweep`: of many runs with noise alone.
- `expected_excess`, `noise_floor`: what noise alone does where the loss is quadratic, exactly.
- `jacobian`: J, parameter by parameter.

Assumes:
    - What the model says of an example does not depend on others, nor on chance: checked here, for this batch. Batch
      statistics and dropout are refused in training mode: use ``model.eval()``.
    - An example's loss depends on its own outputs and target alone: the caller's duty.
    - J fits in memory, with a float64 for each example, output and parameter: the caller's duty.

References:
    - Jacot, Gabriel, Hongler 2018, "Neural tangent kernel: convergence and generalization in neural networks".
    - Bu, Wang, Dai, Long 2023, "On the convergence and calibration of deep learning with differential privacy", Table
      1 (2021, by Bu, Wang, Long, Su). That is in continuous time, where noise does not matter; `noise_floor` is about
      steps. Their global clipping never leaves an example out; `Global` does, beyond its threshold.
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
from hush.training.plan.clipping import Clipping

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

_ROUNDING = 1e-9  # what counts as 0, in multiples of what it is compared with


@dataclass(frozen=True, slots=True, eq=False)
class Ntk:
    """The matrix M of equation (1), for outputs and factors as they are now.

    Attributes:
        matrix: M, [n k, n k] for n examples with k outputs each; outputs of an example are neighbours.
        residual: u, [n k].
        factors: By what gradients are multiplied: [groups, n]; ones without clipping.
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
        """The eigenvalues, complex, by rising real part."""
        found: Tensor = torch.linalg.eigvals(self.matrix)
        return found[found.real.argsort()]

    @property
    def has_nonnegative_eigenvalues(self) -> bool:
        """Whether all eigenvalues are real and none is negative, up to rounding."""
        # Where M is not symmetric, rounding of its entries moves eigenvalues by up to a root of itself.
        found, allowed = self.eigenvalues, 1e-6 * self._size
        return float(found.imag.abs().max()) <= allowed and float(found.real.min()) >= -allowed

    @property
    def smallest_quadratic_form(self) -> float:
        """The smallest v' M v of a vector v of length 1: the smallest eigenvalue of M's symmetric part."""
        return float(torch.linalg.eigvalsh((self.matrix + self.matrix.mT) / 2)[0])

    @property
    def loss_cannot_rise(self) -> bool:
        """Whether the loss falls, or stays, whatever the residuals were, if their factors were these."""
        return self.smallest_quadratic_form >= -_ROUNDING * self._size

    @property
    def rate(self) -> float:
        """How fast the loss falls under gradient flow, for the residuals as they are: -dL/dt of equation (2)."""
        return float(self.residual @ self.matrix @ self.residual) / self.factors.shape[1] ** 2

    def predicted_decrease(self, learning_rate: float) -> float:
        """Return by how much a small step of gradient descent lowers the loss; negative where it rises."""
        return check_positive("learning_rate", learning_rate) * self.rate

    @property
    def _size(self) -> float:
        return float(torch.linalg.matrix_norm(self.matrix))


def jacobian(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the Jacobian of every example's outputs, flattened, by each trained parameter: [n, k, *shape]."""
    return Tangent(model, x).jacobian()


def kernel(model: nn.Module, x: Tensor, y: Tensor, loss: Loss, *, clipping: Clipping | None = None) -> Ntk:
    """Return the tangent kernel of a model on a batch, under a way to clip.

    Args:
        model: From ``x`` to one tensor, whose first dimension is the batch.
        x: The examples.
        y: Their targets.
        loss: From outputs and targets to one loss per example.
        clipping: The way to clip, with its groups; without it, none.

    Example:
        One example wants a slope of 10, three want -1: the mean is 7/4, but clipped, three outvote one.

        >>> from hush.training import Flat, ntk
        >>> model, x, y = torch.nn.Linear(1, 1, bias=False), torch.ones(4, 1), torch.tensor([[10.0], [-1], [-1], [-1]])
        >>> _ = torch.nn.init.zeros_(model.weight)
        >>> def loss(outputs, y):
        ...     return (outputs - y).square().sum(1) / 2
        >>> ntk.kernel(model, x, y, loss).rate, ntk.kernel(model, x, y, loss, clipping=Flat(1.0)).rate
        (3.0625, -0.875)
    """
    problem = TangentObjective(model, x, y, loss)
    residual, found = problem.residual(), problem.jacobian()
    each = {name: torch.einsum("nk,nk...->n...", residual, value) for name, value in found.items()}
    scales, places = factors(each, clipping)
    size = residual.numel()
    matrix = residual.new_zeros(size, size)
    for place, value in zip(places, found.values(), strict=True):
        flat = value.reshape(size, -1)
        matrix += flat @ flat.mT * scales[place].repeat_interleave(residual.shape[1])  # columns of H_r: H_r C_r
    if not bool(matrix.isfinite().all()):
        raise InvalidArgument("model", type(model).__name__, "finite outputs and gradients")
    return Ntk(matrix, residual.flatten(), scales)


def measured_decrease(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss, *, learning_rate: float, clipping: Clipping | None = None
) -> float:
    """Return by how much one step of (clipped) gradient descent lowers the loss; the model stays as it is.

    It differs from `Ntk.predicted_decrease` by a term of the order of ``learning_rate`` squared.
    """
    found = descent(model, x, y, loss, learning_rate=learning_rate, num_steps=1, clipping=clipping)
    return float(found[0] - found[1])


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
    """Return the losses on the way of (clipped) gradient descent, [num_steps + 1]; the model stays as it is."""
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
    generator: torch.Generator,
    num_runs: int = 1,
) -> Tensor:
    """Return the losses on the way of noisy gradient descent without clipping: [stddevs, num_runs, num_steps + 1].

    Args:
        model: As for `kernel`.
        x: As for `kernel`.
        y: As for `kernel`.
        loss: As for `kernel`.
        noise_stddevs: Of the noise on each coordinate of the mean gradient, which is what DP-SGD adds if this is its
            noise multiplier times its clip norm over the batch size. Nothing here is private.
        learning_rate: By what gradients are multiplied in a step.
        num_steps: Of each run.
        generator: Where noise comes from.
        num_runs: How often to run with each standard deviation.
    """
    check_positive("learning_rate", learning_rate)
    check_count("num_runs", num_runs)
    scales = [check_epsilon("noise_stddevs", each) for each in noise_stddevs for _ in range(num_runs)]
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
            noise = torch.randn(value.shape, generator=generator, dtype=value.dtype, device=generator.device)
            noise *= torch.tensor(scales, dtype=noise.dtype, device=noise.device).view(-1, *[1] * (value.dim() - 1))
            params[name] = params[name] - learning_rate * (value + noise.to(value.device))
    losses.append(vmap(problem.mean_loss)(params))
    return torch.stack(losses, 1).detach().reshape(len(noise_stddevs), num_runs, -1)


def expected_excess(
    hessian: Tensor, distance: Tensor, *, learning_rate: float, noise_stddev: float, num_steps: int
) -> Tensor:
    """Return the expected loss above the minimum after 0, ..., num_steps steps where the loss is quadratic.

    In each direction of curvature l, a step multiplies the distance e from the minimum with 1 - lr l and adds noise
    of standard deviation lr s. So E[e^2] is (1 - lr l)^(2 t) e_0^2 + (1 - (1 - lr l)^(2 t)) v: the first part
    is what happens without noise, the second goes to v = lr s^2 / (l (2 - lr l)). The loss is l e^2 / 2, summed up.

    Args:
        hessian: The second derivative, [d, d], of which no eigenvalue is negative.
        distance: The first parameters less those of a minimum, [d].
        learning_rate: lr; less than 2 over the largest eigenvalue.
        noise_stddev: s, of each coordinate of the gradient.
        num_steps: How many steps.
    """
    curvatures, directions = torch.linalg.eigh(hessian)
    shrinks = (1 - learning_rate * curvatures) ** 2
    steps = torch.arange(check_count("num_steps", num_steps) + 1, dtype=hessian.dtype, device=hessian.device)
    kept = torch.pow(shrinks, steps.unsqueeze(1))
    start = 0.5 * curvatures * (directions.mT @ distance) ** 2
    floors = _floors(curvatures, learning_rate, noise_stddev)
    excess: Tensor = kept * start + (1 - kept) * floors
    return excess.sum(1)


def noise_floor(hessian: Tensor, *, learning_rate: float, noise_stddev: float) -> float:
    """Return the loss above the minimum at which noisy gradient descent stays, where the loss is quadratic.

    It is the sum of lr s^2 / (2 (2 - lr l)) over the d directions with a curvature l > 0: for small steps about
    lr s^2 d / 4, whatever the curvature. It is none in continuous time, where lr is 0.
    """
    return float(_floors(torch.linalg.eigvalsh(hessian), learning_rate, noise_stddev).sum())


def _floors(curvatures: Tensor, learning_rate: float, noise_stddev: float) -> Tensor:
    check_epsilon("noise_stddev", noise_stddev)
    steepest = float(curvatures.max())
    check_positive("learning_rate", learning_rate)
    if not learning_rate * steepest < 2:
        raise InvalidArgument("learning_rate", learning_rate, "less than 2 over the largest curvature")
    floors = learning_rate * noise_stddev**2 / (2 * (2 - learning_rate * curvatures))
    return torch.where(curvatures > _ROUNDING * steepest, floors, 0.0)
