"""AdamBC: Adam that subtracts the noise from its second moment.

Any optimizer of torch works with `privatize`. An optimizer sees only noisy gradients, so whatever it computes is
post-processing, and no choice of optimizer changes a guarantee.

The noise level is not known when you build an optimizer. An optimizer that needs it has an attribute ``noise_stddev``;
before each step, the private run sets it to the standard deviation of the noise in each entry of ``param.grad``.
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
    r"""Adam with the variance of the privacy noise subtracted from the second moment.

    If every entry of the gradient g carries Gaussian noise of standard deviation s, the mean of g^2 is too large by
    s^2. At the usual noise levels s^2 dominates, so that Adam divides all entries by the same number and behaves like
    SGD. With bias-corrected moving averages m, v and n of g, g^2 and s^2, AdamBC computes

        update = lr * m / sqrt(max(v - n, eps^2, (floor * u)^2))
        u^2    = n * sqrt(2 (1 - b) (1 + b^t) / ((1 + b) (1 - b^t)))

    where b is the second beta and t the number of steps. u^2 is the standard deviation of v where the gradient is zero:
    a difference v - n below it carries no information, and dividing by it would make arbitrarily large updates.

    Variant: Algorithm 1 of the paper has only the term eps^2, which it calls gamma'. That is ``floor=0``; then you need
    to tune eps to the noise (the paper uses eps^2 between 1e-9 and 5e-8). The paper assumes a constant s; the average n
    equals s^2 in that case, and stays right under adaptive clipping. Weight decay is decoupled, as in AdamW. Keep the
    parameters in single precision (autocast does): half precision is too coarse for the difference v - n.

    Args:
        params: Parameters, or parameter groups.
        lr: Learning rate.
        betas: Decay rates of the averages of g and of g^2.
        eps: Smallest divisor.
        floor: Smallest divisor in multiples of u.
        weight_decay: Decoupled weight decay, as a multiple of lr.

    Attributes:
        noise_stddev: s of the next step. A private run sets it. Without one, set it yourself; 0 means no noise.

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

    # On the class, so that a copied or unpickled optimizer has no noise level until a run sets it.
    noise_stddev: float | None = None

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
        """Check the settings."""
        check_epsilon("lr", float(lr) if isinstance(lr, Tensor) else lr)
        check_positive("eps", eps)
        check_epsilon("floor", floor)
        check_epsilon("weight_decay", weight_decay)
        first_beta, second_beta = (check_delta("betas", beta, "Pass two of them") for beta in betas)
        defaults = {"lr": lr, "betas": (first_beta, second_beta), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"floor": floor})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.noise_stddev is None:
            raise InvalidArgument(
                "noise_stddev",
                None,
                "a number >= 0, before the first step",
                "A private run sets it. Without one, set optimizer.noise_stddev yourself; 0 means no noise",
            )
        variance = check_epsilon("noise_stddev", self.noise_stddev) ** 2
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    _update(param, self.state[param], group, variance)
        return loss


def _update(param: Tensor, state: dict[str, Any], group: dict[str, Any], variance: float) -> None:
    """Take one step for one parameter; the symbols are those of `AdamBC`."""
    first_beta, second_beta = group["betas"]
    mean, square = _moments(param, state, first_beta, second_beta)
    # A plain number: torch rounds the tensors of a state to the parameter's precision when a state is loaded.
    state["noise_variance"] = second_beta * state.get("noise_variance", 0.0) + (1 - second_beta) * variance
    age = state["step"]
    noise = state["noise_variance"] / (1 - second_beta**age)  # n
    # The variance of an average of squares of N(0, 1) noise, relative to 1: 2 * sum of squared weights.
    spread = 2 * (1 - second_beta) * (1 + second_beta**age) / ((1 + second_beta) * (1 - second_beta**age))
    smallest_square = max(group["eps"] ** 2, group["floor"] ** 2 * noise * math.sqrt(spread))
    divisor = (square / (1 - second_beta**age)).sub_(noise).clamp_(min=smallest_square).sqrt_()
    if group["weight_decay"]:
        param.mul_(1 - group["lr"] * group["weight_decay"])
    param.sub_((mean / divisor * (group["lr"] / (1 - first_beta**age))).to(param.dtype))


def _moments(param: Tensor, state: dict[str, Any], first_beta: float, second_beta: float) -> tuple[Tensor, Tensor]:
    """Count a step, and update the uncorrected averages of the gradient and of its square."""
    grad = param.grad
    assert grad is not None
    if grad.is_sparse or grad.is_complex():
        raise InvalidArgument("grad", grad.layout if grad.is_sparse else grad.dtype, "dense, real gradients")
    if not state:
        state["step"] = 0
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
    state["step"] += 1
    mean: Tensor = state["exp_avg"].lerp_(grad, 1 - first_beta)
    square: Tensor = state["exp_avg_sq"].mul_(second_beta).addcmul_(grad, grad, value=1 - second_beta)
    return mean, square
