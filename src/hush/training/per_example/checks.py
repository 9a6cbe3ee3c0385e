"""Checks that per-example gradients are correct: comparison with a plain loop, and detection of coupled losses.

In a run, three checks look at a new kind of batch:

`check_batch`    no loss depends on another example, by its gradients; no parameter is used outside of its module
`check_calls`    on two invented examples, clipped sums equal those of a loop, eagerly and as torch.compile traces them
`check_outputs`  outputs for two examples equal those for each alone, where gradients are not compared

What gradients do not show is found by running the batch again on other rows (`hush.training.watch.rehearsal`).

The comparison with a loop catches errors of torch itself: the tracer of torch 2.11 silently lost the gradient of an
output that was a conversion to its own type.

`check` lets users compare their own model with a loop. `clipped_sum` and `looped_sum` return both results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from hush.errors import InvalidArgument, Unsupported, check_positive
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.engine import GradientEngine, check_losses
from hush.training.per_example.invented_calls import (
    ComparableCall,
    comparable_calls,
    float_numbers,
    isolated,
    run_call,
    select_rows,
)
from hush.training.plan.clipping import Flat
from hush.training.watch.loss_graphs import refuse_outside_parameters, refuse_scaled
from hush.training.watch.rehearsal import Call, Rehearsal

# From a model and a batch to one loss per example.
Loss = Callable[[nn.Module, Any], Tensor]

_PUBLIC_KEY = bytes(32)  # of invented rows, where no run is watched
_NO_CLIPPING = 1e12  # a clip norm that no gradient of the comparison reaches


def check_batch(engine: GradientEngine, losses: Tensor, *, seed: int = 0, num_halves: int = 0) -> None:
    """Refuse losses that depend on several examples, and parameters that are used outside of their module.

    The gradient of some examples' losses is followed back to every layer: in the rows of other examples it must be 0.
    It must not lead to a parameter directly: the engine does not see what a model does with a parameter outside of the
    module that owns it. A parameter outside of the model, of a criterion, would not be trained at all.

    Args:
        engine: The engine that has recorded the batch.
        losses: One loss per example.
        seed: The seed of the random halves into which examples are split.
        num_halves: How many such halves are tried; 0 for splits that tell all pairs of examples apart.
    """
    refuse_outside_use(engine, losses)
    refuse_outside_parameters(losses, engine.model)
    refuse_scaled(losses)
    refuse_coupled(losses, engine.gradient_taps(), seed=seed, num_halves=num_halves)


def used_calls(engine: GradientEngine, losses: Tensor) -> list[Call]:
    """Return the model's calls, each with the outputs that the losses use.

    CLIP returns similarities of all pairs, say, but a loss of the embeddings does not use them.
    """
    calls = []
    for arguments, result in zip(engine.calls, engine.results, strict=True):
        leaves = tree_leaves(result)
        outputs = [(number, leaf) for number, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        outputs = [(number, leaf) for number, leaf in outputs if leaf.requires_grad and leaf.grad_fn is not None]
        gradients: tuple[Tensor | None, ...] = ()
        if outputs:
            gradients = torch.autograd.grad(
                losses.sum(), [leaf for _, leaf in outputs], retain_graph=True, allow_unused=True
            )
        used = [number for (number, _), gradient in zip(outputs, gradients, strict=True) if gradient is not None]
        calls.append(Call(arguments, used))
    return calls


def refuse_outside_use(engine: GradientEngine, losses: Tensor) -> None:
    """Refuse parameters that are used outside of the module that owns them: the engine would miss their gradients.

    A rule runs its layer without autograd's view of the parameters. So any gradient that autograd itself finds for a
    parameter comes from elsewhere.
    """
    # Checks run between the forward and the backward pass of a batch.
    assert engine.batch_size is not None
    check_losses(losses, engine.batch_size)
    params = {name: param for name, param in engine.model.named_parameters() if param.requires_grad}
    direct: tuple[Tensor | None, ...] = torch.autograd.grad(
        losses.sum(), list(params.values()), retain_graph=True, allow_unused=True
    )
    # A compiled pass returns zeros for some parameters that it does not use. An eager pass was checked before it.
    is_compiled = engine.backend is not None
    outside = [
        name
        for name, gradient in zip(params, direct, strict=True)
        if gradient is not None and not (is_compiled and not gradient.any())
    ]
    if not outside:
        return
    advice = "Call the module, or move the computation into its forward"
    if any("lora_" in name for name in outside):
        advice = "peft does that in adapters of embeddings and in DoRA. Adapt linear layers instead, without DoRA"
    raise Unsupported(f"{', '.join(outside)}: used outside of the forward of the module that owns it", advice)


def refuse_coupled(losses: Tensor, watched: list[tuple[str, Tensor]], *, seed: int = 0, num_halves: int = 0) -> None:
    """Refuse losses of some examples whose gradient reaches the rows of other examples.

    Args:
        losses: One loss per example.
        watched: Tensors with a row for each example, by the name of their layer.
        seed: The seed of the random halves.
        num_halves: How many halves are tried, each of which separates a given pair with probability 1/4 in the right
            order; 0 for splits that separate every pair.
    """
    size = len(losses)
    splits = _all_pairs(size)
    if num_halves:
        generator = torch.Generator().manual_seed(seed)  # torch's own state stays as it is
        splits = [torch.rand(size, generator=generator) < 0.5 for _ in range(num_halves)]
    tensors, scaled = [value for _, value in watched], list[str]()
    whole = _row_norms(torch.autograd.grad(losses.sum(), tensors, retain_graph=True, allow_unused=True))
    for chosen in (split.to(losses.device) for split in splits):
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
            losses[chosen].sum(), tensors, retain_graph=True, allow_unused=True
        )
        for (name, _), gradient in zip(watched, gradients, strict=True):
            # NaN in another example's row is 0 times infinity, and no dependence.
            if gradient is not None and bool(torch.nan_to_num(gradient[~chosen]).any()):
                raise Unsupported(
                    f"losses: the loss of one example depends on another example, through {name}",
                    "Per-example gradients need a loss that depends on one example only. Batch statistics, contrastive "
                    "losses and means over the batch do not have one. Inputs that all examples share need a first "
                    "dimension of 1, such as positions.unsqueeze(0)",
                )
        triples = zip(watched, _row_norms(gradients), whole, strict=True)
        scaled += [
            name
            for (name, _), part, norms in triples
            if part is not None and norms is not None and _are_scaled(part[chosen], norms[chosen])
        ]
    if scaled:
        raise Unsupported(
            f"losses: the gradient of one example depends on another example, through {scaled[0]}",
            "A backward hook must not divide by a norm over the batch, say",
        )


def _row_norms(gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the norm of each row: whole gradients of all layers would take the memory of another backward pass."""
    return [
        None if gradient is None else torch.linalg.vector_norm(gradient.reshape(len(gradient), -1).float(), dim=1)
        for gradient in gradients
    ]


def _are_scaled(part: Tensor, whole: Tensor) -> bool:
    """Return whether rows have another norm if other rows have a loss, too. Kernels may round differently."""
    finite = part.isfinite() & whole.isfinite()
    part, whole = part[finite], whole[finite]
    return bool(((part - whole).abs() > 0.05 * torch.maximum(part, whole) + 1e-6 * whole.sum()).any())


def _all_pairs(size: int) -> list[Tensor]:
    """Return splits such that, for all i and j, one of them chooses i and not j: the binary digits of i, and of -1-i.

    >>> [split.tolist() for split in _all_pairs(3)]
    [[False, True, False], [True, False, True], [False, False, True], [True, True, False]]
    """
    digits = [(torch.arange(size) >> power) % 2 == 1 for power in range(max(size - 1, 1).bit_length())]
    return [split for digit in digits for split in (digit, ~digit)]


def check_calls(engine: GradientEngine, calls: list[Call] | None = None) -> None:
    """Compare the recorded calls with a plain loop, on two invented examples (see `invented_calls`).

    The comparison does not disturb the training run, and uses its own loss.

    Args:
        engine: The engine that has recorded the calls.
        calls: These calls, with the outputs that matter; by default, all do.
    """
    used = None
    if calls is not None:
        pairs = zip(calls, engine.results, strict=True)
        used = [float_numbers(result, call.output_numbers) for call, result in pairs]
    engine.detach()
    try:
        with isolated(engine.model):
            for call in comparable_calls(engine.model, engine.calls, engine.batch_size, used):
                _check_call(engine, call)
    finally:
        engine.attach()


def check_outputs(model: nn.Module, calls: list[Any], size: int) -> None:
    """Compare a model's outputs for two invented examples with those for each alone."""
    with isolated(model), torch.no_grad():
        for call in comparable_calls(model, calls, size):
            # Example by example, so that nothing can mix.
            alone = [call.outputs_of(run_call(model, call.example(index))) for index in range(2)]
            _compare_outputs(model, [torch.cat(pair) for pair in zip(*alone, strict=True)], call.outputs)


def _check_call(engine: GradientEngine, call: ComparableCall) -> None:
    model = engine.model
    other_engine = GradientEngine(model)
    try:
        with other_engine.batch(2):
            outputs = call.outputs_of(run_call(model, call.arguments))
    finally:
        other_engine.detach()
    _compare_outputs(model, outputs, call.outputs)
    for backend in {None, engine.backend and "aot_eager"}:  # dynamo's traces are compared, too
        # Unclipped sums show errors that clipping to one norm would hide.
        fast = _clipped_sum(model, call.arguments, _weighted_outputs(call, 2), _NO_CLIPPING, backend, 2)
        try:
            plain = _looped_sum(model, call.arguments, _weighted_outputs(call, 1), _NO_CLIPPING, 2)
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError) as error:
            raise Unsupported(
                f"the model: it runs on two examples, but not on one ({error})",
                "Does it mix examples, or squeeze the batch dimension?",
            ) from error
        _compare(fast, plain, _tolerance(model))


def _compare_outputs(model: nn.Module, outputs: list[Tensor], expected: list[Tensor]) -> None:
    tolerance = _tolerance(model)
    for output, reference in zip(outputs, expected, strict=True):
        atol = tolerance * float(reference.abs().max()) if reference.numel() else 0.0
        same_shape = output.shape == reference.shape
        if not same_shape or not torch.allclose(output.detach(), reference, rtol=tolerance, atol=atol, equal_nan=True):
            raise Unsupported(
                "the model: its output for an example depends on the rest of the batch",
                "Does a module without a rule of its own mix examples?",
            )


def _weighted_outputs(call: ComparableCall, size: int) -> Loss:
    """Return a loss that weighs every number that the model returns for an example differently."""

    def loss(model: nn.Module, arguments: Any) -> Tensor:
        total = torch.zeros(size, device=next(model.parameters()).device, dtype=torch.float32)
        for output in call.outputs_of(run_call(model, arguments)):
            # Weights that differ, so that errors cannot cancel between the outputs of an example.
            values = output.reshape(size, -1).float()
            total = total + (values * torch.cos(torch.arange(values.shape[1], device=values.device) + 0.5)).sum(1)
        return total

    return loss


def _tolerance(model: nn.Module) -> float:
    # Half precision keeps 8 to 11 bits of each factor.
    return max(2e-3 if param.dtype in (torch.float32, torch.float64) else 0.1 for param in model.parameters())


def clipped_sum(model: nn.Module, batch: Any, loss: Loss, *, clip_norm: float) -> ClippedSum:
    """Return the sum of clipped gradients, without noise, and every example's norm. Neither is private.

    Use it to inspect gradient norms on public data, for instance to choose a clip norm. What a run refuses is refused
    here, too: losses that mix examples, models that store data, parameters outside of the model.

    Args:
        model: The model. If it is in a private run already, use that run's ``step``.
        batch: Whatever ``loss`` takes. The first dimension of its first tensor is the batch.
        loss: From (model, batch) to one loss per example.
        clip_norm: The norm that gradients are clipped to.

    Example:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> x = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
        >>> total = clipped_sum(model, x, lambda model, x: model(x).sum(1), clip_norm=1.0)
        >>> [f"{norm:.1f}" for norm in total.norms]
        ['5.0', '0.5']
    """
    check_positive("clip_norm", clip_norm)
    size = _batch_size(batch)
    engine = GradientEngine(model)
    try:
        # The loss gets the very tensors that are recorded as the rows of the examples.
        with engine.batch(size), Rehearsal(batch, size, _PUBLIC_KEY, num_pairs=2) as rehearsal:
            losses = loss(model, batch)
            rehearsal.stop()
            engine.refuse_changed_buffers()
            check_losses(losses, size)
            check_batch(engine, losses)
            rehearsal.refuse_mixed_losses(losses)
            engine.backward(losses)
            return engine.clipped_sum(Flat(clip_norm))
    finally:
        engine.detach()


def _clipped_sum(
    model: nn.Module, batch: Any, loss: Loss, clip_norm: float, backend: str | None, size: int
) -> ClippedSum:
    engine = GradientEngine(model, backend=backend)
    try:
        for number in range(1 if backend is None else 2):  # a compiled model learns its taps in a first, eager pass
            with engine.batch(size):
                losses = loss(model, batch)
                if number == 0:
                    refuse_outside_use(engine, losses)
                engine.backward(losses)
                total = engine.clipped_sum(Flat(clip_norm))
        return total
    finally:
        engine.detach()


def looped_sum(model: nn.Module, batch: Any, loss: Loss, *, clip_norm: float) -> ClippedSum:
    """Do the same as `clipped_sum` by a plain loop over the examples: slow, but the reference for `check`.

    Args:
        model: The model.
        batch: Whatever ``loss`` takes. The first dimension of its first tensor is the batch.
        loss: From (model, batch) to one loss per example.
        clip_norm: The norm that gradients are clipped to.

    Example:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> x = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
        >>> total = looped_sum(model, x, lambda model, x: model(x).sum(1), clip_norm=1.0)
        >>> [f"{value:.2f}" for value in total.gradients["weight"][0]]
        ['0.90', '1.20']
    """
    return _looped_sum(model, batch, loss, check_positive("clip_norm", clip_norm), _batch_size(batch))


def _looped_sum(model: nn.Module, batch: Any, loss: Loss, clip_norm: float, size: int) -> ClippedSum:
    params = {name: param for name, param in model.named_parameters() if param.requires_grad}
    totals = {name: torch.zeros_like(param, dtype=torch.float64) for name, param in params.items()}
    norms = []
    for index in range(size):
        losses = loss(model, select_rows(batch, size, slice(index, index + 1)))
        check_losses(losses, 1)
        computed: tuple[Tensor | None, ...] = torch.autograd.grad(
            losses.sum(), list(params.values()), allow_unused=True
        )
        # In double precision, so that the oracle's own rounding does not matter.
        gradients = {name: value.double() for name, value in zip(params, computed, strict=True) if value is not None}
        square = sum((gradient.square().sum() for gradient in gradients.values()), torch.zeros(()))
        norm = torch.sqrt(torch.as_tensor(square))
        # An example whose gradient is not finite counts as 0, as in a private step.
        norms.append(norm if torch.isfinite(norm) else torch.full_like(norm, torch.nan))
        if torch.isfinite(norm):
            factor = min(1.0, clip_norm / max(float(norm), 1e-300))
            for name, gradient in gradients.items():
                totals[name] += factor * gradient
    return ClippedSum(totals, torch.stack(norms))


def check(model: nn.Module, batch: Any, loss: Loss, *, clip_norm: float = 1.0, tolerance: float = 1e-3) -> None:
    """Compare norms and clipped sum with a plain loop; raise `Unsupported`, naming every parameter that differs.

    Use a few examples, and a model without dropout or in evaluation mode: the loop would draw other random numbers.

    Args:
        model: The model.
        batch: Whatever ``loss`` takes. The first dimension of its first tensor is the batch.
        loss: From (model, batch) to one loss per example.
        clip_norm: The norm that gradients are clipped to.
        tolerance: The largest difference, relative to the largest gradient.

    Example:
        A loss that divides by a norm over the batch has no per-example gradients:

        >>> def normalised(model, x):
        ...     outputs = model(x).sum(1)
        ...     return outputs / outputs.norm()
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
        >>> check(nn.Linear(2, 1), x, normalised)
        Traceback (most recent call last):
        ...
        hush.errors.Unsupported: weight, bias: the clipped sum differs from that of a loop over the examples...
    """
    # Not `clipped_sum`, which would refuse a coupled loss before it can be compared.
    fast = _clipped_sum(model, batch, loss, check_positive("clip_norm", clip_norm), None, _batch_size(batch))
    _compare(fast, looped_sum(model, batch, loss, clip_norm=clip_norm), tolerance)


def _compare(fast: ClippedSum, plain: ClippedSum, tolerance: float) -> None:
    largest = max((float(value.abs().max()) for value in plain.gradients.values()), default=0.0)
    largest = max(largest, 1e-3 * float(plain.norms.nan_to_num().max()))  # gradients of examples may cancel
    wrong = []
    for name, value in plain.gradients.items():
        other = fast.gradients.get(name, torch.zeros_like(value))
        # Written so that NaN fails.
        if not float((other - value).abs().max()) <= tolerance * max(largest, 1e-12):
            wrong.append(name)
    if wrong:
        raise Unsupported(
            f"{', '.join(wrong)}: the clipped sum differs from that of a loop over the examples",
            "Does the result for an example depend on other examples, or on random numbers?",
        )
    if not torch.allclose(fast.norms, plain.norms.to(fast.norms), rtol=tolerance, equal_nan=True):
        raise Unsupported("norms differ from those of a loop over the examples")


def _batch_size(batch: Any) -> int:
    for value in tree_leaves(batch):
        if isinstance(value, Tensor) and value.dim():
            return len(value)
    raise InvalidArgument("batch", type(batch).__name__, "a batch that contains a tensor")
