"""The engine: runs a model so that every example's gradient can be clipped, with one backward and no weight gradients.

`attach` gives every module that owns trained parameters a private way forward: by its rule (`_rules`), or, for modules
without a rule, by `vmap` on that module alone. The module objects, their types, names and parameters stay as they are;
outside a private step, under ``no_grad`` and in copies, modules do what they always did.

Compiled, a model runs twice in its own Python: once for a new kind of batch, to find out which taps its layers want
(and to be checked), and once while torch.compile traces it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map_only

from hush.errors import InvalidArgument, Unsupported
from hush.training.kernels.graphs import GraphReplay
from hush.training.per_example import sequence_rules as sequence_rules
from hush.training.per_example.clipped_sum import Clip, ClippedSum, ParameterUses, Use, finish
from hush.training.per_example.gradients import Gradient
from hush.training.per_example.rules import attach
from hush.training.plan.clipping import Clipping

# What rounding in fp32 can add to a clipped gradient's norm; norms are those of the very numbers that are summed.
_SLACK = 1e-4
_FP16_SCALE = 2.0**10  # small gradients vanish in fp16; all that comes of the losses is scaled, and scaled back


class _Stale(Exception):
    """What a compiled call does is not what was found out about it."""


@dataclass(slots=True)
class _Layout:
    """The taps of one call of the model, and the uses of parameters that they belong to."""

    taps: list[Tensor] = field(default_factory=list)
    inputs: set[int] = field(default_factory=set)
    uses: list[Use] = field(default_factory=list)


class GradientEngine:
    """Records what a private forward needs, and turns it into clipped sums."""

    def __init__(self, model: nn.Module, *, backend: str | None = None, memory: int | None = None) -> None:
        """Attach to a model; see `attach` for what is refused.

        Args:
            model: The model.
            backend: A backend of torch.compile, to use it.
            memory: How many bytes all examples' gradients of one parameter may take; an eighth of the device's memory.
        """
        self.model = model
        self._run: Callable[..., Any] = model._call_impl
        self.memory = _share_of_memory(model) if memory is None else memory
        self.backend = backend
        self._params = dict(model.named_parameters())
        self.names = {id(param): name for name, param in self._params.items()}
        uses = Counter(id(param) for _, param in model.named_parameters(remove_duplicate=False))
        self.tied = {param for param, count in uses.items() if count > 1}
        self._modules = {id(module): name or "the model" for name, module in model.named_modules()}
        self._owners = list(model.named_modules())
        self.batch_size: int | None = None
        self.layout = _Layout()
        self.position = 0  # of the next tap
        self.place = 0  # of the next use
        self.watching = True  # whether contents of buffers are compared, too
        self._in_backward = False
        self.replays = False  # whether sums may lie where the next ones will
        self._graphed = False  # whether the model's passes are CUDA graphs
        self._replay = GraphReplay()
        self.replaying = False  # whether taps are there already
        self.called: list[tuple[Any, Any]] = []  # with what the model was called
        self.values: list[Tensor | None] = []
        self._scale = 1.0
        self._buffers: dict[str, tuple[Tensor, int]] = {}
        self._contents: dict[str, Tensor] = {}
        self._layouts: dict[Any, _Layout] = {}
        self._attached: list[nn.Module] = []
        self._forward: Callable[..., Any] | None = None
        self.attach()

    def name(self, module: nn.Module) -> str:
        """Return a module's name within the model."""
        return self._modules[id(module)]

    def attach(self) -> None:
        """Give modules their private way forward."""
        self._attached = attach(self.model, self)
        self.model._compiled_call_impl = _Entry(self)

    def detach(self) -> None:
        """Give every module its ordinary way forward back."""
        for module in self._attached:
            module.__dict__.pop("forward", None)
        self.model._compiled_call_impl = None
        self._attached = []

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
        self._buffers = {name: (buffer, buffer._version) for name, buffer in self._named_buffers()}
        self._contents = self._fingerprints() if self.watching else {}

    def _fingerprints(self) -> dict[str, Tensor]:
        """Return numbers that show whether buffers and frozen parameters have changed."""
        frozen = [(name, param) for name, param in self._params.items() if not param.requires_grad]
        with torch.no_grad():
            kept = [(name, each.detach().double().flatten()) for name, each in (*self._named_buffers(), *frozen)]
            return {name: torch.stack([each.sum(), each.square().sum()]) for name, each in kept}

    def _named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Return what the model's own method would, faster: modules are those that it had at the beginning."""
        for prefix, module in self._owners:
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    yield f"{prefix}.{name}" if prefix else name, buffer

    def end(self) -> None:
        """Stop recording, and forget."""
        self.batch_size, self.position, self.place, self.replaying = None, 0, 0, False
        self.layout, self.called, self.values = _Layout(), [], []

    def refuse_changed_buffers(self) -> None:
        """Refuse a model that keeps something of the data in its buffers: they would be released without noise."""
        changed = []
        for name, buffer in self._named_buffers():
            before, version = self._buffers.get(name, (None, 0))
            if before is not buffer or version != buffer._version:
                changed.append(name)
        if self.watching:
            now = self._fingerprints()
            for name, numbers in self._contents.items():
                if (
                    name in now
                    and name not in changed
                    and not torch.equal(numbers.nan_to_num(), now[name].nan_to_num())
                ):
                    changed.append(name)
        refuse_buffers(changed)

    def signature(self) -> tuple[Any, ...]:
        """Return which layers were called on what shapes."""
        return tuple(tuple(tap.shape) for tap in self.layout.taps)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let modules run as ever, within a private forward."""
        size, self.batch_size = self.batch_size, None
        try:
            yield
        finally:
            self.batch_size = size

    def tap(
        self, shape: tuple[int, ...], like: Tensor, *, of_input: bool = False, base: Tensor | None = None
    ) -> Tensor:
        """Return the next tap: zeros, or a parameter, for every example."""
        if self._in_backward:
            raise Unsupported("checkpointing: layers are run again in the backward pass", "Use physical_batch_size")
        if not self.replaying:
            made = torch.zeros((), dtype=like.dtype, device=like.device) if base is None else base.detach()
            if of_input:
                self.layout.inputs.add(self.position)
            self.layout.taps.append(made.expand(shape).requires_grad_())
        elif base is not None:  # not compiled; and the parameter may be in another place now
            self.layout.taps[self.position] = base.detach().expand(shape).requires_grad_()
        tap = self.layout.taps[self.position]
        if self.replaying and tuple(tap.shape) != tuple(shape):
            raise _Stale
        self.position += 1
        return tap

    def used(
        self,
        layer: str,
        param: Tensor,
        taps: int,
        form: Callable[..., Gradient],
        rows: tuple[int, int] | None = None,
    ) -> None:
        """Say that the last taps belong to a use of this parameter."""
        if self.replaying:
            if self.place >= len(self.layout.uses) or self.layout.uses[self.place].layer != layer:
                raise _Stale
            self.place += 1
            return
        self.place += 1
        if id(param) not in self.names:
            raise Unsupported(f"{layer}: a parameter that is computed by a hook", "Use torch's parametrizations")
        last = tuple(range(self.position - taps, self.position))
        self.layout.uses.append(Use(layer, self.names[id(param)], last, form, rows))

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

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the model: privately in a private step, compiled if that is wanted and its taps are known."""
        if not self.recording:
            return self._run(*args, **kwargs)
        self.called.append((args, kwargs))
        if self.backend is None:
            return self._run(*args, **kwargs)
        key = self._kind_of(args, kwargs)
        known = self._layouts.get(key)
        first_tap, first_use = len(self.layout.taps), len(self.layout.uses)
        if known is not None:
            self.layout.taps.extend(known.taps)
            self.layout.inputs |= {first_tap + tap for tap in known.inputs}
            self.layout.uses.extend(use.moved(first_tap) if first_tap else use for use in known.uses)
            self.replaying = True
            try:
                result = self._compiled()(*args, **kwargs)
                if (self.position, self.place) == (len(self.layout.taps), len(self.layout.uses)):
                    return result
            except _Stale:  # other layers than last time: their taps have to be found out again
                pass
            finally:
                self.replaying = False
            del self._layouts[key], self.layout.taps[first_tap:], self.layout.uses[first_use:]
            self.layout.inputs = {tap for tap in self.layout.inputs if tap < first_tap}
            self.position, self.place = first_tap, first_use
        result = self._run(*args, **kwargs)
        self._layouts[key] = _Layout(
            self.layout.taps[first_tap:],
            {tap - first_tap for tap in self.layout.inputs if tap >= first_tap},
            [use.moved(-first_tap) for use in self.layout.uses[first_use:]],
        )
        return result

    def _compiled(self) -> Callable[..., Any]:
        if self._forward is None:
            assert self.backend is not None
            run = self._run

            def forward(*args: Any, **kwargs: Any) -> Any:
                return run(*args, **kwargs)  # inlined; by itself, torch's own code is not compiled

            # A GPU replays what it is told often; what it returns is its own memory, which the next call overwrites.
            self._graphed = graphs = self.backend == "inductor" and self._is_small()
            options: Any = {"triton.cudagraphs": True} if graphs else None
            compiled = torch.compile(forward, dynamic=False, backend=self.backend, options=options)

            def copied(*args: Any, **kwargs: Any) -> Any:
                found = compiled(*args, **kwargs)
                return tree_map_only(Tensor, Tensor.clone, found) if graphs else found

            self._forward = copied
        return self._forward

    def _is_small(self) -> bool:
        """Say whether there is memory to spare on a GPU: what a graph uses stays its own."""
        device = self.layout.taps[0].device
        if device.type != "cuda":
            return False
        brought = sum(tap.numel() * tap.element_size() for tap in self.layout.taps)
        return brought <= int(torch.cuda.get_device_properties(device).total_memory) // 32

    def _kind_of(self, args: Any, kwargs: Any) -> Any:
        """Return what decides which taps a call wants."""
        leaves, structure = tree_flatten((args, kwargs))
        kinds = tuple(
            (tuple(leaf.shape), leaf.dtype, leaf.device, leaf.requires_grad)
            if isinstance(leaf, Tensor)
            else leaf
            if isinstance(leaf, (int, float, str, type(None)))
            else type(leaf)
            for leaf in leaves
        )
        trained = tuple(param.requires_grad for param in self._params.values())
        autocast = tuple(
            torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None for kind in ("cpu", "cuda")
        )
        return len(self.layout.taps), self.batch_size, kinds, str(structure), trained, autocast, self.model.training

    def backward(self, losses: Tensor, *, weights: Tensor | None = None, keep_graph: bool = False) -> None:
        """Run one backward from one loss per example, each times its weight."""
        size = self.batch_size
        if size is None:
            raise InvalidArgument("losses", "out of turn", "losses of a batch that the loader gave")
        check_losses(losses, size)
        if not self.layout.taps:
            raise InvalidArgument("losses", "unrelated", "losses of the private model's output", "Run it on the batch")
        half = any(tap.dtype is torch.float16 for tap in self.layout.taps)
        self._scale = _FP16_SCALE if half else 1.0
        weighted = losses if weights is None else torch.where(weights > 0, losses * weights.to(losses.dtype), 0.0)
        total = weighted.sum() if not half else weighted.float().sum() * self._scale
        self._in_backward = True
        try:
            self.values = list(torch.autograd.grad(total, self.layout.taps, allow_unused=True, retain_graph=keep_graph))
        finally:
            self._in_backward = False

    def clipped_sum(
        self, clipping: Clipping, weights: Tensor | None = None, num_summed: int = 0, rows: int = 1
    ) -> ClippedSum:
        """Return the clipped sum of what was recorded; ``weights`` (0 or 1) leave contributions out.

        ``num_summed`` is about how many contributions are added up in all: the more, the coarser the sum's own
        rounding. Each contribution is the sum of so many ``rows``, examples one after the other.
        """
        assert self.batch_size is not None
        uses: dict[str, list[Use]] = {}
        for use in self.layout.uses:
            if self._params[use.param].requires_grad and all(self.values[tap] is not None for tap in use.taps):
                uses.setdefault(use.param, []).append(use)
        values: list[Any] = self.values
        self.values = []
        device = self.layout.taps[0].device
        kind = torch.float64 if any(tap.dtype is torch.float64 for tap in self.layout.taps) else torch.float32
        ones = torch.ones(self.batch_size // rows, device=device) if weights is None else weights.to(device)
        chosen = ones.to(kind)
        slack = rounding_slack(num_summed or self.batch_size)
        sizes = {name: param.numel() for name, param in self._params.items() if param.requires_grad}
        places, shares = clipping.groups.of(sizes)
        place_of = dict(zip(sizes, places, strict=True))
        clip = Clip(clipping, [clipping.clip_norm * (1 - slack) * share for share in shares], self._scale)
        # Whatever precision the caller runs the model in, norms and sums are computed as they are written here.
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            groups = [
                ParameterUses(tuple(self._params[name].shape), place_of[name], group) for name, group in uses.items()
            ]
            sums, norms = self._finished(groups, clip, values, chosen, rows)
        return ClippedSum(dict(zip(uses, sums, strict=True)), norms)

    def _finished(
        self, groups: list[ParameterUses], clip: Clip, values: list[Any], chosen: Tensor, rows: int
    ) -> tuple[list[Tensor], Tensor]:
        """Return sums and norms: a CUDA graph, where the passes are, and lay gradients always in one place."""

        def run(chosen: Tensor) -> tuple[list[Tensor], Tensor]:
            return finish(groups, clip, values, chosen, rows=rows)

        if not (self.replays and self._graphed and chosen.is_cuda):
            return run(chosen)
        uses = [use for group in groups for use in group.uses]
        shape = tuple((group.shape, group.place, len(group.uses)) for group in groups)
        what = tuple((use.taps, use.rows, id(use.form)) for use in uses)
        precision = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        terms = shape, what, repr(clip.clipping), tuple(clip.targets), clip.scale, rows, precision
        read = [values[tap] for use in uses for tap in use.taps]
        return self._replay(terms, read, chosen, run, [use.form for use in uses])


class _Entry:
    """What a call of the model itself does, in place of torch's own."""

    def __init__(self, engine: GradientEngine) -> None:
        self.engine = engine

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.engine.call(args, kwargs)


def _share_of_memory(model: nn.Module) -> int:
    device = next((param.device for param in model.parameters()), torch.device("cpu"))
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // 8
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8


def _nothing() -> None:
    return None


def rounding_slack(num_summed: int) -> float:
    """Return by what share clipping must go below the clip norm, for a sum of about so many examples."""
    return min(_SLACK + num_summed * 2.0**-21, 0.5)


def refuse_buffers(changed: list[str]) -> None:
    """Refuse, if there are any, buffers that a forward pass has changed."""
    if changed:
        raise Unsupported(
            f"{', '.join(changed)}: the forward pass writes something of the data into these buffers",
            "They are part of the model, and get no noise: switch their statistics off. What does not depend on "
            "data is there after one run of the model before",
        )


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
