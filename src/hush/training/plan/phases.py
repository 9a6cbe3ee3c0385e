"""A phase on public data before the private one: it costs nothing, and it is said where the guarantee is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.errors import InvalidArgument, check_count, check_instance
from hush.training.plan.loader import fetcher
from hush.training.plan.transfer import refuse_private


@dataclass(frozen=True, slots=True)
class PublicPhase:
    """Where starting weights come from: data that is declared public, and why it is.

    `pretrain` returns one. For weights from elsewhere, write it: ``PublicPhase("ImageNet, from torchvision")``. Given
    to ``privatize(..., starts_from=...)``, it is part of the plan and of what the guarantee assumes. It costs nothing:
    a guarantee is about the private examples, and holds for any starting weights that do not depend on them.

    Attributes:
        public: Which data it was, and why it is public. Nothing can check that.
        num_steps: How many steps were taken, if it is known.
    """

    public: str
    num_steps: int | None = None

    def __post_init__(self) -> None:
        """Insist on a reason."""
        check_instance("public", self.public, str, "Say which data it is, and why it is public")
        if not self.public.strip():
            raise InvalidArgument("public", self.public, "words: which data it is, and why it is public")
        if self.num_steps is not None:
            check_count("num_steps", self.num_steps, minimum=0)

    @property
    def assumption(self) -> str:
        """What a guarantee assumes."""
        return f"the starting weights depend on no private data, but on what was declared public: {self.public}"


def pretrain(
    model: nn.Module,
    optimizer: Optimizer,
    public_data: Any,
    *,
    public: str,
    epochs: int,
    batch_size: int,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    generator: torch.Generator | None = None,
) -> PublicPhase:
    """Train on public data, as usual: no clipping, no noise. Return what `privatize` wants to know of it.

    Args:
        model: The model; it is to be private later on, so that it must not have batch statistics.
        optimizer: An optimizer over its parameters; the private phase may have another one.
        public_data: Examples and targets that are not to be protected: none of them is private by another way, and
            their choice did not depend on private ones.
        public: Why the data is public; it is stated with the guarantee.
        epochs: How many times all examples are seen.
        batch_size: How many examples are in a batch; the last of an epoch may have fewer.
        loss: From (outputs, targets) to one loss per example; cross entropy, if none is given.
        generator: Where the order of the examples comes from; torch's own, if none is given.

    Assumes:
        The data is public, as ``public`` says (the caller's duty).

    >>> from hush.training import privatize
    >>> x, y = torch.randn(60, 4), torch.randint(0, 2, (60,))
    >>> model = nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> phase = pretrain(model, optimizer, (x, y), public="drawn at random", epochs=2, batch_size=20)
    >>> phase.num_steps
    6
    >>> private = privatize(model, optimizer, (x, y), epsilon=1.0, delta=1e-5, num_steps=3, starts_from=phase)
    >>> private.guarantee().assumptions[-1]
    'the starting weights depend on no private data, but on what was declared public: drawn at random'
    """
    check_instance("model", model, nn.Module)
    check_instance("optimizer", optimizer, Optimizer)
    PublicPhase(public)  # before anything is done
    check_count("epochs", epochs)
    check_count("batch_size", batch_size)
    refuse_private(model)
    count, fetch = fetcher(public_data)
    if hasattr(optimizer, "noise_stddev"):
        optimizer.noise_stddev = 0.0  # there is none in this phase
    num_steps = 0
    for _ in range(epochs):
        order = torch.randperm(count, generator=generator).numpy()
        for start in range(0, count, batch_size):
            x, y = fetch(order[start : start + batch_size])
            optimizer.zero_grad()
            outputs = model(x)
            losses = F.cross_entropy(outputs, y, reduction="none") if loss is None else loss(outputs, y)
            losses.mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            num_steps += 1
    optimizer.zero_grad()
    return PublicPhase(public, num_steps)
