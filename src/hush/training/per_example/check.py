"""Checks that per-example gradients are what they should be: against a plain loop, and against coupled losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported, check_positive
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.engine import GradientEngine, check_losses
from hush.training.plan.clipping import Flat

# From a model and a batch to one loss per example.
Loss = Callable[[nn.Module, Any], Tensor]


def check_batch(engine: GradientEngine, losses: Tensor) -> None:
    """Refuse losses of which one depends on several examples, and parameters that are used behind the layers' backs.

    The gradient of some examples' losses is followed back to every layer: in the rows of others it must be 0. And it
    must not lead to a parameter itself: what a model does with a parameter outside of its module is not recorded.
    Couplings through inputs, or through values that were detached, cannot be seen; they are the caller's duty.
    """
    assert engine.batch_size is not None
    check_losses(losses, engine.batch_size)
    params = {name: param for name, param in engine.model.named_parameters() if param.requires_grad}
    direct: tuple[Tensor | None, ...] = torch.autograd.grad(
        losses.sum(), list(params.values()), retain_graph=True, allow_unused=True
    )
    outside = [name for name, gradient in zip(params, direct, strict=True) if gradient is not None]
    if outside:
        raise Unsupported(
            f"{', '.join(outside)}: used outside of the forward of the module that owns it",
            "Call the module, or move the computation into its forward",
        )
    taps = [(use.layer, tap) for use in engine.layout.uses for tap in use.taps if tap not in engine.layout.inputs]
    refuse_coupled(losses, [(layer, engine.layout.taps[tap]) for layer, tap in taps])


def refuse_coupled(losses: Tensor, watched: list[tuple[str, Tensor]]) -> None:
    """Refuse losses of some examples whose gradient reaches other examples' rows of what is watched."""
    size = len(losses)
    chance = torch.Generator().manual_seed(size)  # the splits need not be secret, and leave torch's own numbers alone
    splits = [torch.arange(size) == index for index in {0, size - 1}]
    splits += [torch.rand(size, generator=chance) < 0.5 for _ in range(4)]
    for chosen in (split.to(losses.device) for split in splits):
        found: tuple[Tensor | None, ...] = torch.autograd.grad(
            losses[chosen].sum(), [value for _, value in watched], retain_graph=True, allow_unused=True
        )
        for (name, _), gradient in zip(watched, found, strict=True):
            if gradient is not None and bool(torch.nan_to_num(gradient[~chosen]).any()):
                raise Unsupported(
                    f"losses: that of one example depends on another one, through {name}",
                    "Per-example gradients need a loss for each example by itself; batch statistics, contrastive "
                    "losses and means over the batch have none. Inputs that are the same for all need a first "
                    "dimension of 1, such as positions.unsqueeze(0)",
                )


def check_calls(engine: GradientEngine) -> None:
    """Compare with a plain loop what the model does with two examples like those of the calls that were recorded.

    Outside the run, for a loss of its own, in the model's own mode, or, where that is random (dropout), in evaluation
    mode. What is random even then, or cannot run on two invented examples, is not compared. Real numbers are replaced
    by others: whether the run goes on must not depend on what examples contain.
    """
    engine.detach()
    try:
        with _apart(engine.model):
            for call, places, expected in _comparable(engine.model, engine.called, engine.batch_size):
                _check_call(engine, call, places, expected)
    finally:
        engine.attach()


def check_outputs(model: nn.Module, calls: list[Any], size: int) -> None:
    """Compare what a model says of two examples with what it says of each alone, where gradients are not compared."""
    with _apart(model), torch.no_grad():
        for call, places, expected in _comparable(model, calls, size):
            parts = [_some(call, 2, slice(index, index + 1)) for index in range(2)]
            alone = [_numbers(_run(model, part), places) for part in parts]
            _compare_outputs(model, [torch.cat(pair) for pair in zip(*alone, strict=True)], expected)


@contextmanager
def _apart(model: nn.Module) -> Iterator[None]:
    """Run a model outside of a run: precisely, and with its modes and torch's own numbers as they were afterwards."""
    device = next(model.parameters()).device
    modes = Modes(model)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        with (
            torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
            torch.autocast(device.type, enabled=False),
            precisely(),
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        modes.restore()


class Modes:
    """Which modules of a model are in training mode; some may be set apart, such as fixed batch norms."""

    def __init__(self, model: nn.Module) -> None:
        """Remember them."""
        self._modes = [(module, module.training) for module in model.modules()]

    def restore(self) -> None:
        """Set them as they were."""
        for module, mode in self._modes:
            module.training = mode


def _comparable(model: nn.Module, calls: list[Any], size: int | None) -> Iterator[tuple[Any, list[int], list[Tensor]]]:
    """Return calls on two invented examples, where examples' numbers are among the outputs, and these."""
    if size is None or size < 2:
        return
    modes = Modes(model)
    for call in calls:
        two = _some(call, size, slice(0, 2))
        for way in (torch.randn, torch.rand, torch.ones):
            invented = _invented(two, way)
            modes.restore()
            outputs = _settled(model, invented)
            if outputs is None:
                model.eval()
                outputs = _settled(model, invented)
            if outputs is None:
                continue  # random in any mode, or it cannot run
            places = _places(outputs, _leaves(model, _some(invented, 2, slice(0, 1))))
            expected = [outputs[place] for place in places]
            if places and all(bool(each.isfinite().all()) for each in expected):
                yield invented, places, expected
                break


def _places(two: list[Tensor], one: list[Tensor] | None) -> list[int]:
    """Return which outputs are of examples: those that are of one for one of them, and of two for two."""
    if one is None or len(one) != len(two):
        return [place for place, each in enumerate(two) if each.dim() and len(each) == 2]
    pairs = zip(two, one, strict=True)
    return [place for place, (a, b) in enumerate(pairs) if a.dim() and b.dim() and (len(a), len(b)) == (2, 1)]


def _settled(model: nn.Module, call: Any) -> list[Tensor] | None:
    """Return all numbers that a model returns, if it can run and they are not random."""
    outputs = _leaves(model, call)
    return outputs if outputs is not None and all(_same(outputs, _leaves(model, call, n)) for n in (1, 2, 3)) else None


def _leaves(model: nn.Module, call: Any, seed: int = 0) -> list[Tensor] | None:
    """Return all numbers that a model returns; None if it cannot run."""
    try:
        with torch.no_grad():
            outputs = _run(model, call, seed)
    except Exception:  # a model may raise anything for examples that nobody has
        return None
    return _numbers(outputs)


def _run(model: nn.Module, call: Any, seed: int = 0) -> Any:
    """Run a model on a call; a coin that it flips for all examples falls the same way each time."""
    torch.manual_seed(seed)
    return model(*call[0], **call[1])


def _same(one: list[Tensor], two: list[Tensor] | None) -> bool:
    return two is not None and all(
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(one, two, strict=True)
    )


def _numbers(outputs: Any, places: list[int] | None = None) -> list[Tensor]:
    """Return the numbers among what a model returned, or those at some places."""
    leaves = torch.utils._pytree.tree_leaves(outputs)
    found = [each for each in leaves if isinstance(each, Tensor) and each.is_floating_point()]
    return found if places is None else [found[place] for place in places]


def _invented(call: Any, way: Callable[..., Tensor]) -> Any:
    """Return a call with other real numbers, the same ones each time; integers may be indices, and stay."""
    chance = torch.Generator().manual_seed(0)
    options = {} if way is torch.ones else {"generator": chance}

    def other(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        return way(value.shape, **options).to(value)

    return torch.utils._pytree.tree_map(other, call)


def _check_call(engine: GradientEngine, call: Any, places: list[int], expected: list[Tensor]) -> None:
    model = engine.model
    other = GradientEngine(model)
    try:
        with other.batch(2):
            found = _numbers(_run(model, call), places)
    finally:
        other.detach()
    _compare_outputs(model, found, expected)
    for backend in {None, engine.backend and "aot_eager"}:  # what dynamo traces is compared, too
        fast = _clipped_sum(model, call, _own_loss(2, places), 1e12, backend, 2)
        try:
            plain = _looped_sum(model, call, _own_loss(1, places), 1e12, 2)
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError) as error:
            raise Unsupported(
                f"the model: it runs on two examples, but not on one ({error})",
                "Does it mix examples, or squeeze them?",
            ) from error
        _compare(fast, plain, _tolerance(model))


def _compare_outputs(model: nn.Module, found: list[Tensor], expected: list[Tensor]) -> None:
    tolerance = _tolerance(model)
    for one, two in zip(found, expected, strict=True):
        near = tolerance * float(two.abs().max()) if two.numel() else 0.0
        if one.shape != two.shape or not torch.allclose(one.detach(), two, rtol=tolerance, atol=near, equal_nan=True):
            raise Unsupported(
                "the model: it computes something else for one example than for a batch",
                "Does a module without a rule of its own mix examples?",
            )


@contextmanager
def precisely() -> Iterator[None]:
    """Multiply without TensorFloat32, whose rounding is larger than what is looked for."""
    switches: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    for switch in switches:
        switch.allow_tf32 = False
    try:
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value


def _own_loss(count: int, places: list[int]) -> Loss:
    """Weigh all numbers that the model returns for an example."""

    def loss(model: nn.Module, call: Any) -> Tensor:
        total = torch.zeros(count, device=next(model.parameters()).device, dtype=torch.float32)
        for output in _numbers(_run(model, call), places):
            values = output.reshape(count, -1).float()
            total = total + (values * torch.cos(torch.arange(values.shape[1], device=values.device) + 0.5)).sum(1)
        return total

    return loss


def _tolerance(model: nn.Module) -> float:
    return max(2e-3 if param.dtype in (torch.float32, torch.float64) else 0.1 for param in model.parameters())


def clipped_sum(model: nn.Module, batch: Any, loss: Loss, *, clip_norm: float) -> ClippedSum:
    """Return the noiseless clipped sum and every example's norm, for inspection: neither is private.

    Args:
        model: The model; if it is in a private run already, use that run's own `step`.
        batch: Whatever ``loss`` takes; its first tensor's first dimension is the batch.
        loss: From (model, batch) to one loss per example.
        clip_norm: To what norm gradients are clipped.
    """
    return _clipped_sum(model, batch, loss, check_positive("clip_norm", clip_norm), None, _size(batch))


def _clipped_sum(
    model: nn.Module, batch: Any, loss: Loss, clip_norm: float, backend: str | None, size: int
) -> ClippedSum:
    engine = GradientEngine(model, backend=backend)
    try:
        for _ in range(1 if backend is None else 2):  # the first time, taps are found out
            with engine.batch(size):
                engine.backward(loss(model, batch))
                found = engine.clipped_sum(Flat(clip_norm))
        return found
    finally:
        engine.detach()


def looped_sum(model: nn.Module, batch: Any, loss: Loss, *, clip_norm: float) -> ClippedSum:
    """Return the same by a plain loop over the examples, with autograd's own gradients: the oracle."""
    return _looped_sum(model, batch, loss, check_positive("clip_norm", clip_norm), _size(batch))


def _looped_sum(model: nn.Module, batch: Any, loss: Loss, clip_norm: float, size: int) -> ClippedSum:
    params = {name: param for name, param in model.named_parameters() if param.requires_grad}
    totals = {name: torch.zeros_like(param, dtype=torch.float32) for name, param in params.items()}
    norms = []
    for index in range(size):
        losses = loss(model, _some(batch, size, slice(index, index + 1)))
        check_losses(losses, 1)
        found: tuple[Tensor | None, ...] = torch.autograd.grad(losses.sum(), list(params.values()), allow_unused=True)
        gradients = {name: one.double() for name, one in zip(params, found, strict=True) if one is not None}
        square = sum((one.square().sum() for one in gradients.values()), torch.zeros(()))
        norm = torch.sqrt(torch.as_tensor(square))
        norms.append(norm if torch.isfinite(norm) else torch.full_like(norm, torch.nan))
        if torch.isfinite(norm):
            factor = min(1.0, clip_norm / max(float(norm), 1e-300))
            for name, one in gradients.items():
                totals[name] += factor * one
    return ClippedSum(totals, torch.stack(norms))


def check(model: nn.Module, batch: Any, loss: Loss, *, clip_norm: float = 1.0, tolerance: float = 1e-3) -> None:
    """Compare norms and clipped sum with a plain loop; name every parameter that differs.

    Use a few examples, in evaluation mode or without dropout: the loop draws its own.
    """
    fast, plain = (way(model, batch, loss, clip_norm=clip_norm) for way in (clipped_sum, looped_sum))
    _compare(fast, plain, tolerance)


def _compare(fast: ClippedSum, plain: ClippedSum, tolerance: float) -> None:
    largest = max((float(value.abs().max()) for value in plain.gradients.values()), default=0.0)
    largest = max(largest, 1e-3 * float(plain.norms.nan_to_num().max()))  # examples may cancel
    wrong = []
    for name, value in plain.gradients.items():
        other = fast.gradients.get(name, torch.zeros_like(value))
        if not float((other - value).abs().max()) <= tolerance * max(largest, 1e-12):
            wrong.append(name)
    if wrong:
        raise Unsupported(
            f"{', '.join(wrong)}: the clipped sum differs from that of a loop over the examples",
            "Is some example's result dependent on another's, or on random numbers?",
        )
    if not torch.allclose(fast.norms, plain.norms.to(fast.norms), rtol=tolerance, equal_nan=True):
        raise Unsupported("norms differ from those of a loop over the examples")


def _size(batch: Any) -> int:
    for value in torch.utils._pytree.tree_leaves(batch):
        if isinstance(value, Tensor) and value.dim():
            return len(value)
    raise InvalidArgument("batch", type(batch).__name__, "something with a tensor in it")


def _some(batch: Any, size: int | None, which: slice) -> Any:
    """Return some examples of a batch."""

    def part(value: Any) -> Any:
        return value[which] if isinstance(value, Tensor) and value.dim() > 0 and len(value) == size else value

    return torch.utils._pytree.tree_map(part, batch)
