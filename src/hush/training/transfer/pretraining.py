"""Public pre-training: a phase on public data before the private one. It costs nothing (see `PublicPhase`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.errors import check_count, check_instance
from hush.training.plan.loader import fetcher
from hush.training.plan.public_phase import PublicPhase
from hush.training.transfer.trained_part import refuse_private


def pretrain(
    model: nn.Module,
    optimizer: Optimizer,
    data: Any,
    *,
    public: str,
    epochs: int,
    batch_size: int,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    rng: int | torch.Generator | None = None,
) -> PublicPhase:
    """Train on public data in the ordinary way, without clipping or noise.

    It is the public half of transfer learning; private training of a part of the model is the other one.

    Args:
        model: The model. It is trained privately later, so it must not use batch statistics.
        optimizer: An optimizer over the model's parameters. The private phase may use another one.
        data: Examples and targets that need no protection. They must not contain private examples, nor be chosen
            by looking at private ones.
        public: Your statement of which data it is and why it is public; the guarantee repeats it.
        epochs: The number of passes over the examples.
        batch_size: The number of examples in a batch; the last batch of an epoch may have fewer.
        loss: From (outputs, targets) to one loss per example. By default, cross entropy.
        rng: Shuffles the examples: a seed or a torch generator. By default, torch's global generator.

    Returns:
        The statement about this phase, for ``privatize(..., starts_from=...)``.

    Assumes:
        The data are public, as ``public`` says (the caller's duty).

    >>> from hush.training import privatize
    >>> x, y = torch.randn(60, 4), torch.randint(0, 2, (60,))
    >>> model = nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> phase = pretrain(model, optimizer, (x, y), public="drawn at random", epochs=2, batch_size=20)
    >>> phase.num_steps
    6
    >>> private = privatize(model, optimizer, (x, y), epsilon=1.0, delta=1e-5, num_steps=3, starts_from=phase)
    >>> private.guarantee().assumptions[-1]
    'the starting weights depend on no private data, only on data declared public: drawn at random'
    """
    check_instance("model", model, nn.Module)
    check_instance("optimizer", optimizer, Optimizer)
    PublicPhase(public)  # refuses an empty reason before the model changes
    check_count("epochs", epochs)
    check_count("batch_size", batch_size)
    refuse_private(model)
    generator = _shuffler(rng)
    num_examples, fetch = fetcher(data)
    if hasattr(optimizer, "noise_stddev"):
        optimizer.noise_stddev = 0.0  # for AdamBC: this phase adds no noise
    num_steps = 0
    for _ in range(epochs):
        order = torch.randperm(num_examples, generator=generator).numpy()
        for start in range(0, num_examples, batch_size):
            x, y = fetch(order[start : start + batch_size])
            optimizer.zero_grad()
            outputs = model(x)
            losses = F.cross_entropy(outputs, y, reduction="none") if loss is None else loss(outputs, y)
            losses.mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            num_steps += 1
    optimizer.zero_grad()
    return PublicPhase(public, num_steps)


def _shuffler(rng: Any) -> torch.Generator | None:
    if rng is None or isinstance(rng, torch.Generator):
        return rng
    return torch.Generator().manual_seed(check_count("rng", rng, "Or pass a torch.Generator", minimum=0))
