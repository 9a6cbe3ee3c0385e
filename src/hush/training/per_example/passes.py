"""Passes through an unmodified model: losses, their directional derivatives, and weighted gradients.

`projected_clipping` clips by estimated norms, for which it runs a model several times on the same batch. `Passes` makes
sure that the runs are of the same function: each starts from the same random state, ``no_grad`` stops derivatives in
forward mode as it does in a backward pass, and autocast is refused.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from hush.errors import Unsupported
from hush.training.per_example.engine import check_losses

# Runs the model on the batch; returns one loss per example.
Losses = Callable[[], Tensor]


class Passes:
    """Runs a model on one batch, again and again, each time from the same random state.

    Attributes:
        params: The trained parameters, by name.
    """

    def __init__(self, model: nn.Module, losses: Losses, size: int) -> None:
        """Take a model, a function that runs it on a batch, and the size of that batch."""
        self._model, self._losses, self._size = model, losses, size
        self.params: dict[str, Tensor] = {
            name: param for name, param in model.named_parameters() if param.requires_grad
        }
        # Dropout must draw the same masks in every pass: otherwise the norm would be that of another function.
        self._random_state = torch.get_rng_state()
        self._random_states_cuda = torch.cuda.get_rng_state_all()

    def losses(self) -> Tensor:
        """Return the losses, with their graph for a backward pass."""
        before = {name: param._version for name, param in self.params.items()}
        values: Tensor = self._run()
        check_losses(values, self._size)
        # A forward that writes to a parameter would release data without noise.
        changed = [name for name, param in self.params.items() if param._version != before[name]]
        if changed:
            raise Unsupported(
                f"{', '.join(changed)}: the forward pass changes these parameters, and adds no noise to them"
            )
        return values

    def losses_and_outputs(self) -> tuple[Tensor, list[tuple[str, Tensor]]]:
        """Return the losses, and every tensor that a module returned for the batch, by the module's name."""
        outputs: list[tuple[str, Tensor]] = []
        names = {module: name for name, module in self._model.named_modules()}

        def collect(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            batches = [leaf for leaf in tree_leaves(output) if _is_batch(leaf, self._size) and leaf.requires_grad]
            outputs.extend((names[module] or "the model", batch) for batch in batches)

        with self._hooked(after=collect):
            return self.losses(), outputs

    def tangents(self, vectors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the losses, and their derivatives along a vector, by forward-mode differentiation."""
        _load_formulas()
        try:
            with forward_ad.dual_level(), self._hooked(after=_stop_at_padding):
                for name, param in self.params.items():
                    param.requires_grad_(False)
                    # In place, so that all holders of the parameter see its tangent, which is gone at the level's end.
                    param.copy_(forward_ad.make_dual(param.detach().clone(), vectors[name]))  # type: ignore[no-untyped-call]
                # One pass gives all examples' derivatives along the vector: <g_i, v> for each i.
                values, tangent = forward_ad.unpack_dual(self._run())  # type: ignore[no-untyped-call]
                check_losses(values.detach().clone().requires_grad_(), self._size)
                return values.detach(), torch.zeros_like(values) if tangent is None else tangent.detach()
        finally:
            for param in self.params.values():
                param.requires_grad_(True)

    def weighted_sum(self, losses: Tensor, factors: Tensor) -> dict[str, Tensor]:
        """Return the gradient of the sum of factor times loss, by parameter."""
        # The gradient of sum_i f_i loss_i is sum_i f_i g_i. `where` comes first: 0 times infinity is NaN.
        total = (torch.where(factors > 0, losses, 0.0) * factors.to(losses)).sum()
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(total, list(self.params.values()), allow_unused=True)
        return {name: value.detach() for name, value in zip(self.params, gradients, strict=True) if value is not None}

    @contextmanager
    def without(self, left_out: Tensor) -> Iterator[None]:
        """Put zeros into the rows of some examples wherever a module takes or returns a batch.

        A factor of 0 in front of the loss is not enough: in the backward pass it may be multiplied with infinity.
        """

        def clean_tensor(value: Any) -> Any:
            if not _is_batch(value, self._size):
                return value
            return value.masked_fill(left_out.to(value.device).view(-1, *([1] * (value.dim() - 1))), 0.0)

        def clean(values: Any) -> Any:
            return tree_map(clean_tensor, values)

        with self._hooked(
            before=lambda module, args, kwargs: (clean(args), clean(kwargs)),
            after=lambda module, args, kwargs, output: clean(output),
        ):
            yield

    @contextmanager
    def _hooked(self, *, before: Callable[..., Any] | None = None, after: Callable[..., Any]) -> Iterator[None]:
        """Call these hooks before and after every module, until the end of the block."""
        handles = []
        for module in self._model.modules():
            handles.append(module.register_forward_hook(after, with_kwargs=True))
            if before is not None:
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _run(self) -> Any:
        torch.set_rng_state(self._random_state)
        for device, state in enumerate(self._random_states_cuda):
            torch.cuda.set_rng_state(state, device)
        with _ForwardModeGuard():
            return self._losses()


@contextmanager
def in_double_precision(model: nn.Module) -> Iterator[None]:
    """Let a model compute in double precision, until the end of the block; it takes and returns what it did before.

    Its backward pass adds up the gradients of all examples. In single precision, one example could change how thousands
    of others are rounded (`norms.rounding_slack`).
    """

    def widen(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return tree_map_only(Tensor, _to_double, (args, kwargs))

    def narrow(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        return tree_map_only(Tensor, lambda value: value.float() if value.dtype is torch.float64 else value, output)

    tensors = {id(value): value for value in (*model.parameters(), *model.buffers()) if value.dtype is torch.float32}
    originals = {key: value.data for key, value in tensors.items()}
    # Modules may be called one by one, on inputs of any type.
    handles = [module.register_forward_pre_hook(widen, with_kwargs=True) for module in model.modules()]
    if tensors:
        handles.append(model.register_forward_hook(narrow, with_kwargs=True))
    try:
        for value in tensors.values():
            value.data = value.data.double()  # the same object: optimizers, ties and the caller refer to it
        yield
    finally:
        for key, value in tensors.items():
            value.data = originals[key]
        for handle in handles:
            handle.remove()


def _to_double(value: Tensor) -> Tensor:
    return value.double() if value.dtype is torch.float32 else value


@cache
def _load_formulas() -> None:
    """Load torch's formulas for forward mode. Torch would load them later, with a warning about its own code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("torch._decomp.decompositions_for_jvp")


class _ForwardModeGuard(TorchFunctionMode):
    """Makes ``no_grad`` stop tangents, as it stops gradients; refuses autocast."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            raise Unsupported("autocast: projections in half precision are too coarse", "Use float32")
        result = func(*args, **(kwargs or {}))
        if func is torch._C._set_grad_enabled:
            # Otherwise a detached part would count in the projections, but not in the gradient that is clipped.
            torch._C._set_fwd_grad_enabled(args[0])
        return result

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        torch._C._set_fwd_grad_enabled(True)


def _stop_at_padding(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
    """Remove the tangents of padding rows: the backward pass drops their gradient, too."""
    if not isinstance(module, nn.Embedding) or module.padding_idx is None:
        return output
    indices = args[0] if args else kwargs["input"]
    return torch.where((indices == module.padding_idx).unsqueeze(-1), output.detach(), output)


def _is_batch(value: Any, size: int) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 0 and len(value) == size
