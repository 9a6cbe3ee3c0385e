"""Optimizers that torch does not have: Adam that knows how much of its second moment is noise, and LAMB.

Both are ordinary optimizers, with or without hush. Whatever an optimizer computes from noisy gradients is
post-processing: the choice of an optimizer changes no guarantee.

The noise's level is not known when an optimizer is built. An optimizer that wants it has an attribute ``noise_stddev``;
before each step, a private run sets it to the standard deviation of the noise in each number of ``param.grad``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from hush.errors import InvalidArgument, check_delta, check_epsilon, check_positive


class AdamBC(Optimizer):
    r"""Adam, with the noise's share taken out of the second moment.

    With gradients g whose every number has Gaussian noise of standard deviation s in it, the mean of their squares is
    too large by s^2, so that steps are nearly those of SGD. With bias-corrected averages m, v and n of g, g^2 and s^2,

        update = lr * m / sqrt(max(v - n, eps^2, (floor * u)^2))
        u^2    = n * sqrt(2 (1 - b) (1 + b^t) / ((1 + b) (1 - b^t)))

    where b is the second beta, t the number of steps, and u^2 the standard deviation of v where there is nothing but
    noise: differences smaller than that say nothing about the gradient, and dividing by them makes steps of any size.

    Variant: Algorithm 1 of the paper has the term eps^2, which they call gamma', and no other; that is ``floor=0``, and
    then eps needs tuning to the size of the noise (they use an eps^2 of 1e-9 to 5e-8). Their s^2 is constant; its
    average, n, is the same where it is, and right where clipping adapts. Weight decay is AdamW's. Keep parameters in
    single precision (autocast does): in half precision, v is too coarse for a difference.

    Args:
        params: The parameters, or groups of them.
        lr: The learning rate.
        betas: How much of the averages of g and g^2 is kept in a step.
        eps: The least divisor.
        floor: The least divisor in multiples of u, as above.
        weight_decay: How much of the weights is taken away in a step, in multiples of lr.

    Attributes:
        noise_stddev: s of the next step. A private run sets it; without one, set it yourself, to 0 for no noise.

    References:
        Tang, Shpilevskiy, Lécuyer 2024, "DP-AdamBC: Your DP-Adam Is Actually DP-SGD (Unless You Apply Bias
        Correction)", Algorithm 1.

    >>> weight = torch.nn.Parameter(torch.ones(3))
    >>> optimizer = AdamBC([weight], lr=0.1)
    >>> optimizer.noise_stddev = 0.0
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> [round(value, 3) for value in weight.tolist()]
    [0.9, 0.9, 0.9]
    """

    noise_stddev: float | None = None  # of the class: a copy of an optimizer has to be told again

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        floor: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        """Take parameters and settings."""
        check_epsilon("floor", floor)
        super().__init__(params, _checked(lr, betas, eps, weight_decay) | {"floor": floor})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient."""
        loss = _evaluated(closure)
        if self.noise_stddev is None:
            raise InvalidArgument(
                "noise_stddev",
                None,
                "a number >= 0, before the first step",
                "A private run sets it; without one, set optimizer.noise_stddev, to 0 for gradients without noise",
            )
        variance = check_epsilon("noise_stddev", self.noise_stddev) ** 2
        for group in self.param_groups:
            first, second = group["betas"]
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                mean, square = _moments(param, state, group["betas"])
                # A plain number: torch rounds a state's tensors to the parameter's precision when they are loaded.
                state["noise_variance"] = second * state.get("noise_variance", 0.0) + (1 - second) * variance
                age = state["step"]
                noise = state["noise_variance"] / (1 - second**age)
                spread = 2 * (1 - second) * (1 + second**age) / ((1 + second) * (1 - second**age))
                least = max(group["eps"] ** 2, group["floor"] ** 2 * noise * math.sqrt(spread))
                divisor = (square / (1 - second**age)).sub_(noise).clamp_(min=least).sqrt_()
                _decay(param, group)
                param.sub_((mean / divisor * (group["lr"] / (1 - first**age))).to(param.dtype))
        return loss


class Lamb(Optimizer):
    r"""LAMB: Adam's direction, and for each parameter a step in proportion to the parameter's own norm.

    With bias-corrected averages m and v of g and g^2, and r = m / (sqrt(v) + eps) + weight_decay * w,

        w <- w - lr * |w| / |r| * r

    and with 1 for |w| / |r| where either norm is 0. Each parameter is a layer of its own.

    Variant: Algorithm 2 with bias correction, and with the identity for their phi.

    Args:
        params: The parameters, or groups of them.
        lr: The learning rate.
        betas: How much of the averages of g and g^2 is kept in a step.
        eps: Added to the divisor.
        weight_decay: How much of the weights goes into the direction.

    References:
        You et al. 2020, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", Algorithm 2.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        """Take parameters and settings."""
        super().__init__(params, _checked(lr, betas, eps, weight_decay))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient."""
        loss = _evaluated(closure)
        for group in self.param_groups:
            first, second = group["betas"]
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                mean, square = _moments(param, state, group["betas"])
                age = state["step"]
                divisor = (square / (1 - second**age)).sqrt_().add_(group["eps"])
                direction = (mean / (1 - first**age)).div_(divisor).add_(param, alpha=group["weight_decay"])
                own, other = torch.linalg.vector_norm(param.to(direction)), torch.linalg.vector_norm(direction)
                trust = torch.where((own > 0) & (other > 0), own / other, 1.0)  # on the device: nothing is waited for
                param.sub_((direction * (trust * group["lr"])).to(param.dtype))
        return loss


def _checked(lr: float | Tensor, betas: tuple[float, float], eps: float, weight_decay: float) -> dict[str, Any]:
    """Return the settings that both have, checked."""
    check_epsilon("lr", float(lr) if isinstance(lr, Tensor) else lr)
    check_positive("eps", eps)
    check_epsilon("weight_decay", weight_decay)
    first, second = (check_delta("betas", beta, "There are two") for beta in betas)
    return {"lr": lr, "betas": (first, second), "eps": eps, "weight_decay": weight_decay}


def _evaluated(closure: Callable[[], Any] | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _moments(param: Tensor, state: dict[str, Any], betas: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Count a step, and move the averages of the gradient and its square."""
    grad = param.grad
    assert grad is not None
    if grad.is_sparse or grad.is_complex():
        raise InvalidArgument("grad", grad.layout if grad.is_sparse else grad.dtype, "dense, real gradients")
    if not state:
        state["step"] = 0
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
    state["step"] += 1
    mean: Tensor = state["exp_avg"].lerp_(grad, 1 - betas[0])
    square: Tensor = state["exp_avg_sq"].mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
    return mean, square


def _decay(param: Tensor, group: dict[str, Any]) -> None:
    if group["weight_decay"]:
        param.mul_(1 - group["lr"] * group["weight_decay"])
