"""The gradient engine: runs a model so that every example's gradient can be clipped, with one backward pass.

`GradientEngine` attaches to a model. Common layers get a private forward by a rule (`rules`); all other operations on
trained parameters are seen by a mode (`watching`). Module objects, their types, names and parameters stay as they are.
Outside of a private step, under ``no_grad`` and in copies, modules behave as usual. A private step:

begin        records from now on, for a batch of this size
forward      the model's own forward; layers ask for taps and report the parameters that they use
backward     one backward pass from one loss per example; the taps bring out per-example gradients
clipped_sum  norms, clip factors, and the sum of the clipped gradients
end          forgets the batch

For every new kind of batch, the model first runs eagerly, to learn which taps it asks for. Later calls of the same kind
get these taps, and torch.compile traces the model with them as inputs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map_only

from hush.errors import InvalidArgument, Unsupported
from hush.training.kernels.graphs import GraphReplay
from hush.training.per_example import sequence_rules as sequence_rules
from hush.training.per_example.buffers import BufferWatch
from hush.training.per_example.clipped_sum import ClippedSum, ClipTargets, ParameterUses, Use, clip_and_sum
from hush.training.per_example.gradients import Gradient
from hush.training.per_example.norms import rounding_slack
from hush.training.per_example.rules import attach
from hush.training.per_example.taps import Mark, StaleLayout, TapLayout, TapRecorder
from hush.training.per_example.watching.checkpoints import Checkpoints
from hush.training.per_example.watching.mode import OperationMode
from hush.training.per_example.watching.plan import Plan, RandomStates, Restart
from hush.training.plan.clipping import Clipping

# Small gradients vanish in fp16. Losses are scaled up by this, and clip factors scale back.
_FP16_SCALE = 2.0**10

_MAX_RESTARTS = 64  # of a pass that finds out, one after the other, which constants have a row for each example

_MAX_FAILURES = 4  # of a compiled call to ask for the taps that are known: then it runs eagerly
_MAX_KNOWN = 256  # kinds of calls to remember

Call = tuple[tuple[Any, ...], dict[str, Any]]  # the arguments of a call of the model


@dataclass(slots=True)
class KnownCall:
    """What is known of calls of one kind.

    Attributes:
        plan: What was decided about its operations.
        layout: Its taps; None, if data decide about them.
        failures: How often they were not those of the next call.
    """

    plan: Plan
    layout: TapLayout | None = None
    failures: int = 0


class GradientEngine:
    """Records private forward passes, and turns them into clipped sums.

    A session uses `begin`, `backward`, `clipped_sum` and `end` in every step. Rules use `recording`, `batched`, `tap`,
    `record_use` and `parameter`. Checks read `calls` and `gradient_taps`.

    Attributes:
        model: The model.
        backend: The backend of torch.compile; None, if the model is not compiled.
        memory: How many bytes the dense gradients of one parameter may take.
    """

    def __init__(
        self, model: nn.Module, *, backend: str | None = None, memory: int | None = None, replay: bool = False
    ) -> None:
        """Attach to a model; see `rules.attach` for what is refused.

        Args:
            model: The model.
            backend: A backend of torch.compile, to compile the model.
            memory: How many bytes the dense gradients of one parameter may take; an eighth of the device's memory, if
                omitted.
            replay: Whether clipping may be replayed from a CUDA graph. Then a clipped sum may be overwritten by the
                next one.
        """
        self.model, self.backend = model, backend
        self.memory = _share_of_memory(model) if memory is None else memory
        self._call_model: Callable[..., Any] = model._call_impl
        self._params = dict(model.named_parameters())
        self._param_names = {id(param): name for name, param in self._params.items()}
        # A tied parameter needs dense gradients, so that the uses can be added before norms are taken.
        occurrences = Counter(id(param) for _, param in model.named_parameters(remove_duplicate=False))
        self._tied = {param for param, count in occurrences.items() if count > 1}
        self._module_names = {id(module): name or "the model" for name, module in model.named_modules()}
        self._buffers = BufferWatch(model)
        self._attached: list[nn.Module] = []
        # The current batch.
        self._batch_size: int | None = None
        self._recorder = TapRecorder()
        self._calls: list[Call] = []
        self._results: list[Any] = []
        self._runs_eagerly = False
        self._gradients: list[Tensor | None] = []  # what the backward pass brought out, by tap
        self._loss_scale = 1.0
        self._in_backward = False
        # Compilation and CUDA graphs.
        self._known: dict[Any, KnownCall] = {}
        self._compiled: Callable[..., Any] | None = None
        self._passes_are_graphs = False
        self._may_replay = replay
        self._graphs = GraphReplay()
        trained = {id(param): name for name, param in self._params.items()}
        self.mode = OperationMode(self, trained)
        self._checkpoints = Checkpoints()
        self.attach()

    # Attaching

    def attach(self) -> None:
        """Give modules their private forward."""
        self._attached = attach(self.model, self)
        self.model._compiled_call_impl = _EngineCall(self)

    def detach(self) -> None:
        """Give every module its ordinary forward back."""
        for module in self._attached:
            module.__dict__.pop("forward", None)
        self.model._compiled_call_impl = None
        self._attached = []

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Return None: a copy of a private model is an ordinary model."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as None: a pickled private model is an ordinary model, too."""
        return _none, ()

    # A step

    @contextmanager
    def batch(self, size: int) -> Iterator[None]:
        """Record forwards of a batch of this size, until the end of the block."""
        self.begin(size)
        try:
            yield
        finally:
            self.end()

    def begin(self, size: int) -> None:
        """Record from now on, for a batch of this size."""
        self.end()
        self._batch_size = size
        # Buffers are compared with their state before the first forward of the batch.
        self._buffers.start()

    def end(self) -> None:
        """Stop recording, and forget the batch."""
        self._batch_size = None
        self._recorder.reset()
        self._calls, self._results, self._gradients = [], [], []
        self._runs_eagerly = False

    def run_eagerly(self) -> None:
        """Run this batch without torch.compile, so that its operations can be recorded."""
        self._runs_eagerly = True

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let modules run their ordinary forward, within a private one."""
        size, self._batch_size = self._batch_size, None
        try:
            yield
        finally:
            self._batch_size = size

    def refuse_changed_buffers(self) -> None:
        """Refuse a model whose buffers have changed since `begin`: they would be released without noise."""
        self._buffers.refuse_changes()

    def compare_contents(self, *, on: bool) -> None:
        """From the next batch on, detect changes by the contents of tensors, too, or by cheap counters only."""
        self._buffers.compare_contents(on=on)

    def signature(self) -> tuple[Any, ...]:
        """Return which layers were called on which shapes, as far as taps show."""
        return tuple(tuple(tap.shape) for tap in self._recorder.layout.taps)

    # For checks

    @property
    def batch_size(self) -> int | None:
        """The size of the batch that is being recorded; None between batches."""
        return self._batch_size

    @property
    def calls(self) -> list[Call]:
        """The arguments with which the model was called for this batch."""
        return self._calls

    @property
    def results(self) -> list[Any]:
        """What the model returned for these calls."""
        return self._results

    def gradient_taps(self) -> list[tuple[str, Tensor]]:
        """Return the taps that bring out gradients, not inputs, each with its layer's name."""
        layout = self._recorder.layout
        return [(use.layer, layout.taps[tap]) for use in layout.uses for tap in use.taps if tap not in layout.inputs]

    # For rules

    @property
    def recording(self) -> bool:
        """Whether a forward now is part of a private step."""
        return self._batch_size is not None and torch.is_grad_enabled()

    def name(self, module: nn.Module) -> str:
        """Return a module's name within the model."""
        return self._module_names[id(module)]

    def parameter(self, name: str) -> Tensor:
        """Return a parameter by its name."""
        return self._params[name]

    def is_tied(self, param: Tensor) -> bool:
        """Return whether several modules share this parameter."""
        return id(param) in self._tied

    def tap(
        self, shape: tuple[int, ...], like: Tensor, *, of_input: bool = False, base: Tensor | None = None
    ) -> Tensor:
        """Return the next tap; see `TapRecorder.tap`."""
        if self._in_backward:
            raise Unsupported("checkpointing: layers are run again in the backward pass", "Use physical_batch_size")
        return self._recorder.tap(shape, like, of_input=of_input, base=base)

    def record_use(
        self,
        layer: str,
        param: Tensor,
        form: Callable[..., Gradient],
        *,
        num_taps: int = 1,
        rows: tuple[int, int] | None = None,
    ) -> None:
        """Record that a layer uses a parameter, and that the last taps belong to this use.

        Args:
            layer: The layer's name.
            param: The parameter.
            form: Makes a `Gradient` of what the taps bring out.
            num_taps: How many of the last taps belong to it.
            rows: Which rows of the parameter are used, if not all: the first, and one beyond the last.
        """
        if self._recorder.expects_use(layer):
            return
        if id(param) not in self._param_names:
            raise Unsupported(f"{layer}: a parameter that is computed by a hook", "Use torch's parametrizations")
        self._recorder.record_use(layer, self._param_names[id(param)], form, num_taps, rows)

    def batched(self, x: Tensor, name: str, *, vectors: bool = False) -> Tensor:
        """Return an input whose first dimension is the batch; an input that all examples share is repeated.

        Args:
            x: The input.
            name: The layer's name, for messages.
            vectors: Whether a one-dimensional input is a vector that all examples share.
        """
        size = self._batch_size
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

    # Forward

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the model: recorded in a private step, and compiled once its taps are known."""
        if not self.recording:
            return self._call_model(*args, **kwargs)
        self._calls.append((args, kwargs))
        result = self._run(self._call_model, args, kwargs, "model")
        self._results.append(result)
        return result

    def watched(self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the forward of a module that is called outside of the model's own forward."""
        return self._run(forward, args, kwargs, None)

    def _run(self, forward: Callable[..., Any], args: Any, kwargs: Any, kind: str | None) -> Any:
        with self._checkpoints.switched_off():
            return self._run_once(forward, args, kwargs, kind)

    def _run_once(self, forward: Callable[..., Any], args: Any, kwargs: Any, kind: str | None) -> Any:
        key = None if kind is None else self._call_key(args, kwargs)
        mark = self._recorder.mark()
        known = self._known.get(key) if key is not None else None
        failures = 0
        if known is not None and known.layout is not None:
            known_call = known
            # Taps of eager passes are new each time: one that stays alive may keep a step's graph alive.
            layout = known.layout if self.backend is not None else known.layout.renewed()
            complete, result = self._recorder.replay(layout, lambda: self._replayed(known_call, args, kwargs))
            if complete:
                return result
            # The model used other layers than last time: learn their taps again.
            failures = known.failures + 1
            self._recorder.rewind(mark)
            known = None
        known = known or KnownCall(Plan(), failures=failures)
        result = self._learn(forward, known.plan, args, kwargs, mark)
        if key is not None:
            layout = self._recorder.since(mark)
            known.layout = None if not known.plan.is_static else layout if self.backend else layout.detached()
            self._remember(key, known)
        return result

    def _remember(self, key: Any, known: KnownCall) -> None:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[key] = known

    def _learn(self, forward: Callable[..., Any], plan: Plan, args: Any, kwargs: Any, mark: Mark) -> Any:
        """Run a forward, and watch where the batch and the parameters go."""
        assert self._batch_size is not None
        states = RandomStates()
        for _ in range(_MAX_RESTARTS):
            try:
                with self.mode.tracking(self._batch_size, plan, (args, kwargs)):
                    return forward(*args, **kwargs)
            except Restart:
                self._recorder.rewind(mark)
                states.restore()
        raise Unsupported("the model: it uses parameters in too many places with a row for each example")

    def _replayed(self, known: KnownCall, args: Any, kwargs: Any) -> Any:
        plan = known.plan
        # Dynamo would not let checkpoints be switched off.
        is_compiled = plan.is_compilable and known.failures < _MAX_FAILURES and not self._checkpoints.were_used
        is_compiled = is_compiled and self.backend is not None and not self._runs_eagerly
        forward = self._compiled_forward() if is_compiled else self._call_model
        if not plan.has_operations:
            return forward(*args, **kwargs)
        assert self._batch_size is not None
        with self.mode.replaying(self._batch_size, plan):
            if forward is self._call_model:
                return forward(*args, **kwargs)
            try:
                return forward(*args, **kwargs)
            except (TypeError, IndexError, AttributeError) as error:
                # A rule was given another operation than the one it had been decided for.
                raise StaleLayout from error

    def _compiled_forward(self) -> Callable[..., Any]:
        if self._compiled is None:
            assert self.backend is not None
            call_model = self._call_model

            def forward(*args: Any, **kwargs: Any) -> Any:
                return call_model(*args, **kwargs)  # inlined; torch does not compile its own code unasked

            # Dynamo counts recompilations by code object, which all engines of a process would share.
            forward.__code__ = forward.__code__.replace()

            # CUDA graphs return memory of their own, which the next call overwrites: results are copied.
            self._passes_are_graphs = as_graphs = self.backend == "inductor" and self._fits_in_graphs()
            options: Any = {"triton.cudagraphs": True} if as_graphs else None
            compiled = torch.compile(forward, dynamic=False, backend=self.backend, options=options)

            def compiled_forward(*args: Any, **kwargs: Any) -> Any:
                result = compiled(*args, **kwargs)
                return tree_map_only(Tensor, Tensor.clone, result) if as_graphs else result

            self._compiled = compiled_forward
        return self._compiled

    def _fits_in_graphs(self) -> bool:
        """Return whether a GPU has memory to spare: a CUDA graph keeps all memory that it uses."""
        taps = self._recorder.layout.taps
        device = taps[0].device
        if device.type != "cuda":
            return False
        tap_bytes = sum(tap.numel() * tap.element_size() for tap in taps)
        return tap_bytes <= int(torch.cuda.get_device_properties(device).total_memory) // 32

    def _call_key(self, args: Any, kwargs: Any) -> Any:
        """Return everything that decides which taps a call asks for."""
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
        # A second call in one batch continues the numbering, so it is another kind of call.
        num_taps = len(self._recorder.layout.taps)
        return num_taps, self._batch_size, kinds, str(structure), trained, autocast, self.model.training

    # Backward

    def backward(self, losses: Tensor, *, weights: Tensor | None = None, keep_graph: bool = False) -> None:
        """Run one backward pass.

        Args:
            losses: One loss per example.
            weights: A factor for each loss; an example of weight 0 has gradient 0, even if its loss is not finite.
            keep_graph: Whether you will run another backward pass from the same losses.
        """
        size, taps = self._batch_size, self._recorder.layout.taps
        if size is None:
            raise InvalidArgument("losses", "out of turn", "losses of a batch that the loader gave")
        check_losses(losses, size)
        if not taps:
            raise InvalidArgument("losses", "unrelated", "losses of the private model's output", "Run it on the batch")
        half = any(tap.dtype is torch.float16 for tap in taps)
        self._loss_scale = _FP16_SCALE if half else 1.0
        # `where` and not a product alone: 0 times an infinite loss is NaN, and would spread to the sum.
        weighted = losses if weights is None else torch.where(weights > 0, losses * weights.to(losses.dtype), 0.0)
        total = weighted.sum() if not half else weighted.float().sum() * self._loss_scale
        # Checkpointed layers would run their forward, and ask for taps, during the backward pass.
        self._in_backward = True
        try:
            self._gradients = list(torch.autograd.grad(total, taps, allow_unused=True, retain_graph=keep_graph))
        finally:
            self._in_backward = False

    def clipped_sum(
        self, clipping: Clipping, weights: Tensor | None = None, num_summed: int = 0, rows: int = 1
    ) -> ClippedSum:
        """Return the clipped sum of the gradients that the last `backward` brought out. It uses them up.

        Args:
            clipping: How to clip.
            weights: 1 for each contribution, 0 for one to leave out.
            num_summed: About how many contributions are added up in all, over physical batches: with too many, rounding
                could move the sum, which is refused.
            rows: How many consecutive examples make up one contribution.
        """
        assert self._batch_size is not None
        layout = self._recorder.layout
        uses: dict[str, list[Use]] = {}
        for use in layout.uses:
            if self._params[use.param].requires_grad and all(self._gradients[tap] is not None for tap in use.taps):
                uses.setdefault(use.param, []).append(use)
        gradients: list[Any] = self._gradients
        self._gradients = []
        device = layout.taps[0].device
        dtype = torch.float64 if any(tap.dtype is torch.float64 for tap in layout.taps) else torch.float32
        # Several rows may be copies of one contribution.
        ones = torch.ones(self._batch_size // rows, device=device) if weights is None else weights.to(device)
        sizes = {name: param.numel() for name, param in self._params.items() if param.requires_grad}
        groups, shares = clipping.groups.of(sizes)
        group_of = dict(zip(sizes, groups, strict=True))
        # Rounding in the sum may lengthen a contribution, so it is clipped a little shorter.
        clip_norm = clipping.clip_norm * (1 - rounding_slack())
        clip = ClipTargets(clipping, [clip_norm * share for share in shares], self._loss_scale, num_summed)
        # Autocast is the caller's choice for the model; norms and sums are computed in the types written here.
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            params = [
                ParameterUses(tuple(self._params[name].shape), group_of[name], param_uses)
                for name, param_uses in uses.items()
            ]
            sums, norms = self._sums(params, clip, gradients, ones.to(dtype), rows)
        whole_norms = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(norms, dim=0)
        return ClippedSum(dict(zip(uses, sums, strict=True)), whole_norms, norms)

    def _sums(
        self, params: list[ParameterUses], clip: ClipTargets, gradients: list[Any], chosen: Tensor, rows: int
    ) -> tuple[list[Tensor], Tensor]:
        """Return sums and norms.

        They come from a CUDA graph if the model's passes are graphs, too: then gradients lie at fixed addresses.
        """

        def run(chosen: Tensor) -> tuple[list[Tensor], Tensor]:
            return clip_and_sum(params, clip, gradients, chosen, rows=rows)

        if not (self._may_replay and self._passes_are_graphs and chosen.is_cuda):
            return run(chosen)
        uses = [use for param in params for use in param.uses]
        shapes = tuple((param.shape, param.group, len(param.uses)) for param in params)
        forms = tuple((use.taps, use.rows, id(use.form)) for use in uses)
        precision = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        terms = shapes, forms, repr(clip.clipping), tuple(clip.targets), clip.scale, rows, precision
        inputs = [gradients[tap] for use in uses for tap in use.taps]
        return self._graphs(terms, inputs, chosen, run, [use.form for use in uses])


class _EngineCall:
    """Replaces torch's own call of the model by the engine's."""

    def __init__(self, engine: GradientEngine) -> None:
        self.engine = engine

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.engine.call(args, kwargs)


def _share_of_memory(model: nn.Module) -> int:
    """Return an eighth of the memory of the model's device."""
    device = next((param.device for param in model.parameters()), torch.device("cpu"))
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // 8
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8


def _none() -> None:
    return None


def check_losses(losses: Any, size: int) -> None:
    """Refuse anything except one differentiable loss per example."""
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
