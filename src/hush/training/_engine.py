"""The engine: runs a model so that every example's gradient can be clipped, with one backward and no weight gradients.

`attach` gives every module that owns trained parameters a private way forward: by its rule (`_rules`), or, for modules
without a rule, by `vmap` on that module alone. The module objects, their types, names and parameters stay as they are;
outside a private step, under ``no_grad`` and in copies, modules do what they always did.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.training import _sequence_rules as _sequence_rules
from hush.training._calls import Call, ExpandedCall, weighted_sum
from hush.training._rules import attach

# What rounding can add to a clipped gradient's norm, by the precision that it was computed in.
_SLACK = {torch.float64: 1e-6, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 4e-3}


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """The sum of clipped gradients, by parameter name, and the norm that each example's gradient had before.

    A norm of an example that was not finite is NaN; it contributed nothing.
    """

    gradients: dict[str, Tensor]
    norms: Tensor


class Engine:
    """Records what a private forward needs, and turns it into clipped sums."""

    def __init__(self, model: nn.Module) -> None:
        """Attach to a model; see `attach` for what is refused."""
        self.model = model
        self.names = {id(param): name for name, param in model.named_parameters()}
        self._modules = {id(module): name or "the model" for name, module in model.named_modules()}
        self.batch_size: int | None = None
        self.calls: list[Call] = []
        self._buffers: dict[str, int] = {}
        self.probe = torch.zeros((), requires_grad=True)
        self._attached = attach(model, self)

    def name(self, module: nn.Module) -> str:
        """Return a module's name within the model."""
        return self._modules[id(module)]

    def detach(self) -> None:
        """Give every module its ordinary way forward back."""
        for module in self._attached:
            module.__dict__.pop("forward", None)
        self._attached = []

    def attach(self) -> None:
        """Take it away again."""
        self._attached = attach(self.model, self)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copy of a model is an ordinary model."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        """So is a pickled one."""
        return _nothing, ()

    @property
    def recording(self) -> bool:
        """Whether a forward now is part of a private step."""
        return self.batch_size is not None and torch.is_grad_enabled()

    @contextmanager
    def batch(self, size: int) -> Iterator[None]:
        """Record forwards of a batch of this size."""
        self.begin(size)
        try:
            yield
        finally:
            self.end()

    def begin(self, size: int) -> None:
        """Record from now on, for a batch of this size."""
        self.end()
        self.batch_size = size
        self._buffers = {name: buffer._version for name, buffer in self.model.named_buffers()}
        device = next((param.device for param in self.model.parameters()), torch.device("cpu"))
        self.probe = torch.zeros((), requires_grad=True, device=device)

    def end(self) -> None:
        """Stop recording, and forget."""
        for call in self.calls:
            call.result = None  # it leads to the graph, and that to the call
        self.batch_size, self.calls = None, []

    def refuse_changed_buffers(self) -> None:
        """Refuse a model that keeps something of the data in its buffers: they would be released without noise."""
        changed = [name for name, buffer in self.model.named_buffers() if buffer._version != self._buffers.get(name)]
        if changed:
            raise Unsupported(
                f"{', '.join(changed)}: the forward pass writes something of the data into these buffers",
                "They are part of the model, and get no noise: switch their statistics off",
            )

    def signature(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return which layers were called on what shapes."""
        return tuple((call.name, () if call.like is None else tuple(call.like.shape)) for call in self.calls)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let modules run as ever, within a private forward."""
        size, self.batch_size = self.batch_size, None
        try:
            yield
        finally:
            self.batch_size = size

    def batched(self, x: Tensor, name: str, *, vectors: bool = False) -> Tensor:
        """Return an input whose first dimension is the batch; one that is the same for all is repeated for each."""
        size = self.batch_size
        assert size is not None
        if x.dim() > (1 if vectors else 0) and len(x) == size:
            return x
        if vectors and x.dim() == 1:
            return x.expand(size, -1)
        if x.dim() > 0 and len(x) == 1:
            return x.expand(size, *x.shape[1:])
        raise Unsupported(
            f"{name}: its input has first dimension {len(x) if x.dim() else 'none'}, not the batch's {size}",
            "Keep examples in the first dimension, or evaluate under torch.no_grad()",
        )

    def backward(self, losses: Tensor, *, keep_graph: bool = False) -> None:
        """Run one backward from one loss per example."""
        size = self.batch_size
        if size is None:
            raise InvalidArgument("losses", "out of turn", "losses of a batch that the loader gave")
        check_losses(losses, size)
        for call in self.calls:
            call.gradient = None  # whatever another backward left there
        if not self.calls:
            raise InvalidArgument("losses", "unrelated", "losses of the private model's output", "Run it on the batch")
        expanded = [
            (call, key, copy)
            for call in self.calls
            if isinstance(call, ExpandedCall)
            for key, copy in call.copies.items()
        ]
        inputs = [self.probe, *(copy for _, _, copy in expanded)]
        found = torch.autograd.grad(losses.sum(), inputs, allow_unused=True, retain_graph=keep_graph)
        for (call, key, _), gradient in zip(expanded, found[1:], strict=True):
            call.gradients[key] = gradient
        for call_ in self.calls:
            call_.result = None  # the graph is not needed any more

    def clipped_sum(self, clip_norm: float, weights: Tensor | None = None, num_summed: int = 0) -> ClippedSum:
        """Return the clipped sum of what was recorded; ``weights`` (0 or 1) leave examples out.

        ``num_summed`` is about how many examples are added up in all: the more, the coarser the sum's own rounding.
        """
        # Whatever precision the caller runs the model in, norms and sums are computed as they are written here.
        with torch.no_grad(), torch.autocast(self.probe.device.type, enabled=False):
            for call in self.calls:
                call.refuse_if_overwritten()
            shared = self._shared()
            squares, summed = self._square_norms(shared)
            bad = ~(torch.isfinite(squares) & (squares >= 0))
            if bad.any():
                for call in self.calls:
                    call.drop(bad)
                summed = {
                    key: each.masked_fill(bad.view(-1, *[1] * (each.dim() - 1)), 0.0) for key, each in summed.items()
                }
            norms = squares.masked_fill(bad, 0.0).sqrt()
            target = clip_norm * (1 - self._slack(num_summed))
            factors = torch.clamp(target / norms.clamp_min(1e-300), max=1.0).masked_fill(bad, 0.0).float()
            if weights is not None:
                factors = factors * weights.to(factors)
            totals: dict[str, Tensor] = {}
            for call in self.calls:
                if not self._is_shared(call, shared):
                    for key, value in call.clipped_sum(factors).items():
                        totals[self.names[id(call.params[key])]] = value.float()
            for name, each in summed.items():
                totals[name] = weighted_sum(factors, each)
            return ClippedSum(totals, norms.masked_fill(bad, torch.nan).float())

    def _shared(self) -> set[int]:
        """Return the parameters that are used by more than one call: their norms have cross terms."""
        seen: set[int] = set()
        shared: set[int] = set()
        for call in self.calls:
            for param in call.params.values():
                (shared if id(param) in seen else seen).add(id(param))
        return shared

    @staticmethod
    def _is_shared(call: Call, shared: set[int]) -> bool:
        return any(id(param) in shared for param in call.params.values())

    def _square_norms(self, shared: set[int]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return squared norms over all parameters, and the summed gradients of those that are shared."""
        assert self.batch_size is not None
        total = torch.zeros(self.batch_size, device=self.probe.device, dtype=torch.float64)
        summed: dict[str, Tensor] = {}
        for call in self.calls:
            if not self._is_shared(call, shared):
                total += call.square_norms()
                continue
            for key, each in call.per_example().items():
                name = self.names[id(call.params[key])]
                summed[name] = summed[name] + each.float() if name in summed else each.float()
        for each in summed.values():
            total += each.flatten(1).double().square().sum(1)
        return total, summed

    def _slack(self, num_summed: int) -> float:
        """Return the share of the clip norm that is left to rounding: of one gradient, and of sums of many in fp32."""
        assert self.batch_size is not None
        kinds = {call.like.dtype for call in self.calls if call.like is not None} | {torch.float32}
        kinds |= {param.dtype for call in self.calls for param in call.params.values()}
        of_sums = (num_summed or self.batch_size) * 2.0**-21
        return min(max(_SLACK.get(kind, 1e-4) for kind in kinds) + of_sums, 0.5)


def _nothing() -> None:
    return None


def check_losses(losses: Any, size: int) -> None:
    """Refuse what is not one differentiable loss per example."""
    if not isinstance(losses, Tensor):
        raise InvalidArgument("losses", type(losses).__name__, "a tensor with one loss per example")
    if losses.shape != (size,):
        raise InvalidArgument(
            "losses.shape",
            tuple(losses.shape),
            f"({size},): one loss per example",
            'Use reduction="none", and average over tokens or pixels of each example yourself',
        )
    if not losses.requires_grad:
        raise InvalidArgument("losses", "constant", "losses that depend on the model", "Was it run under no_grad?")
