"""Attacks on predictions: the fast gradient (sign) method and projected gradient descent, in L1, L2 and Linf norm.

They show what a certificate excludes. That an attack fails proves nothing; a certificate does.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import check_count, check_instance, check_positive
from hush.numerics import check_bounds
from hush.stability.radius import InputNorm


def fgsm(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    radius: float,
    norm: InputNorm = InputNorm.LINF,
    num_draws: int = 1,
    bounds: tuple[float, float] | None = None,
) -> Tensor:
    """Return inputs after one step of length ``radius`` up the loss's gradient.

    Args:
        model: Returns logits.
        inputs: A batch.
        labels: The classes to lead away from.
        radius: The length of the step.
        norm: The norm in which it is measured. For Linf, the step is the gradient's sign.
        num_draws: For a random model, the number of draws over which the gradient is averaged.
        bounds: The range of valid inputs, if there is one.

    References:
        Goodfellow, Shlens & Szegedy 2015.
    """
    return pgd(
        model,
        inputs,
        labels,
        radius=radius,
        norm=norm,
        num_steps=1,
        step_size=radius,
        num_draws=num_draws,
        bounds=bounds,
    )


def pgd(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    radius: float,
    norm: InputNorm = InputNorm.L2,
    num_steps: int = 20,
    step_size: float | None = None,
    num_draws: int = 1,
    bounds: tuple[float, float] | None = None,
) -> Tensor:
    """Return inputs moved by at most ``radius`` so that the model errs: steps up the loss, each projected to the ball.

    The gradient of a random model is the mean over draws (expectation over transformation).

    >>> model = nn.Linear(2, 2)
    >>> moved = pgd(model, torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), radius=0.5)
    >>> bool((moved.norm(dim=1) <= 0.5 + 1e-6).all())
    True

    Args:
        model: Returns logits.
        inputs: A batch.
        labels: The classes to lead away from.
        radius: How far each input may be moved.
        norm: The norm in which that is measured.
        num_steps: The number of steps.
        step_size: The length of a step; by default 2.5 times the radius over the number of steps.
        num_draws: For a random model, the number of draws over which a gradient is averaged.
        bounds: The range of valid inputs, if there is one.

    References:
        Madry et al. 2018 (projected gradient descent); Athalye, Engstrom, Ilyas & Kwok 2018 (random models).
    """
    check_instance("norm", norm, InputNorm)
    steps, draws = check_count("num_steps", num_steps), check_count("num_draws", num_draws)
    length = check_positive("radius", radius)
    step = 2.5 * length / steps if step_size is None else check_positive("step_size", step_size)
    lower, upper = (-torch.inf, torch.inf) if bounds is None else check_bounds(bounds)
    change = torch.zeros_like(inputs)
    for _ in range(steps):
        change.requires_grad_(True)
        loss = torch.stack([F.cross_entropy(model(inputs + change), labels, reduction="sum") for _ in range(draws)])
        (gradient,) = torch.autograd.grad(loss.mean(), change)
        with torch.no_grad():
            moved = _projected(change + step * _steepest(gradient, norm), length, norm)
            change = ((inputs + moved).clamp(lower, upper) - inputs).detach()
    return inputs + change


def _steepest(gradient: Tensor, norm: InputNorm) -> Tensor:
    """Return the change of norm 1 that raises a linear function most, for each input."""
    flat = gradient.flatten(1)
    if norm is InputNorm.LINF:
        return gradient.sign()
    if norm is InputNorm.L2:
        lengths = flat.norm(dim=1, keepdim=True).clamp_min(1e-30)
        return torch.div(flat, lengths).view_as(gradient)
    largest = flat.abs().argmax(dim=1, keepdim=True)
    return torch.zeros_like(flat).scatter(1, largest, flat.gather(1, largest).sign()).view_as(gradient)


def _projected(change: Tensor, radius: float, norm: InputNorm) -> Tensor:
    """Return the nearest changes within the ball."""
    flat = change.flatten(1)
    if norm is InputNorm.LINF:
        return change.clamp(-radius, radius)
    if norm is InputNorm.L2:
        factors = (radius / flat.norm(dim=1, keepdim=True).clamp_min(1e-30)).clamp_max(1.0)
        return torch.mul(flat, factors).view_as(change)
    # Soft thresholding, at the threshold that makes the norm the radius (Duchi et al. 2008, Figure 1).
    sizes = flat.abs().sort(dim=1, descending=True).values
    ranks = torch.arange(1, flat.shape[1] + 1, device=flat.device)
    excess = (sizes.cumsum(1) - radius) / ranks
    count = (sizes > excess).sum(dim=1, keepdim=True).clamp_min(1)
    threshold = excess.gather(1, count - 1).clamp_min(0.0)
    return torch.mul(flat.sign(), (flat.abs() - threshold).clamp_min(0.0)).view_as(change)
