"""Watches every operation of a private forward pass, for parameters that no module's rule covers.

Three kinds of tensors take part in an operation: those that depend on the batch, whose layout says which entries belong
to which example (`operations.layouts`); parameters, and what was computed from parameters alone (`operations.recipes`);
and constants. Where a parameter meets the batch, a rule for this operation puts a tap there (`meeting`).

The first pass of a kind of batch tracks all this, and writes its decisions down in a `Plan`. Later passes of the same
kind, and torch.compile's, follow the plan, and look at operations on parameters only.

Some constants have a row for each example without depending on any, such as positions that are expanded to the batch.
They are noticed when they meet it: then the pass starts again with this knowledge (`Restart`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from hush.errors import Unsupported
from hush.training.operations.following import AllPairs, Conflict, Follower
from hush.training.operations.layouts import ANYWHERE, NOWHERE, Layout
from hush.training.operations.names import QUESTIONS, UNSEEN_BY_DYNAMO, name_of, writes_in_place
from hush.training.operations.recipes import Recipe, parameters
from hush.training.per_example.gradients import DenseGradient, Gradient
from hush.training.per_example.taps import StaleLayout
from hush.training.per_example.watching.arguments import tensors_in
from hush.training.per_example.watching.led_back import LedBack
from hush.training.per_example.watching.modules import fits, tag_outputs
from hush.training.per_example.watching.notes import compare, noted, positional
from hush.training.per_example.watching.plan import Plan, Refusal, Restart
from hush.training.per_example.watching.sources import derive, expanded

if TYPE_CHECKING:
    from hush.training.per_example.engine import GradientEngine

_TAG = "_hush_tag"


class OperationMode(TorchFunctionMode):
    """Sees every operation of a forward pass.

    Attributes:
        engine: The engine.
        size: B, the size of the batch.
        plan: The decisions that are made, or followed.
        is_replaying: Whether they are followed.
        paused: Whether a module's rule is at work, which puts its own taps.
        derived: Functions of parameters alone, in the order in which this pass computed them.
        constants: Copies of the tensors that entered into them, in a pass that follows a plan.
    """

    def __init__(self, engine: GradientEngine, trained: dict[int, str]) -> None:
        """Take the engine, and the names of the trained parameters by identity."""
        super().__init__()
        self.engine, self.trained = engine, trained
        self.size = 0
        self.plan = Plan()
        self.is_replaying = self.paused = self.active = False
        self._next = 0
        self._token: object = None
        self.derived: list[Tensor] = []
        self.constants: list[Tensor] = []
        self._copies: dict[int, Tensor] = {}
        self._written_through: dict[int, Tensor] = {}
        self._counts: Counter[Any] = Counter()
        self._follower = Follower(0, self.layout)
        self.expanded_layout = Layout(0)
        self._lost_by = "the beginning"

    # Passes

    @contextmanager
    def tracking(self, size: int, plan: Plan, inputs: Any) -> Iterator[None]:
        """Track a pass, and write down its decisions."""
        plan.begin()
        self.size, self.plan, self.is_replaying, self.paused = size, plan, False, False
        self._token, self._counts = object(), Counter()
        self.derived, self._copies, self._written_through = [], {}, {}
        self._follower = Follower(size, self.layout)
        tagged = self._tag_inputs(inputs)
        self.active = True
        try:
            with self:
                yield
        except Conflict as conflict:
            self._share_input(conflict)
            raise Unsupported(
                "the model: an operation on a parameter puts different examples into one place",
                "Keep examples in one dimension. Inputs that all examples share need a first dimension of 1",
            ) from conflict
        except Refusal as refusal:
            raise refusal.reason from None
        finally:
            self.active = False
            self.derived, self._copies, self._written_through = [], {}, {}
            for value in tagged:
                value.__dict__.pop(_TAG, None)

    @contextmanager
    def replaying(self, size: int, plan: Plan) -> Iterator[None]:
        """Follow the decisions of an earlier pass."""
        self.size, self.plan, self.is_replaying, self.paused = size, plan, True, False
        self._next, self.derived, self.constants = 0, [], []
        self.active = True
        try:
            with self:
                yield
            if self._next != len(plan.decisions):
                raise StaleLayout
            plan.refresh(self.constants)
        finally:
            self.active = False
            self.derived, self.constants = [], []

    def _tag_inputs(self, inputs: Any) -> list[Tensor]:
        """Say of the model's inputs which of them have a row for each example."""
        tagged = []
        for number, value in enumerate(tree_leaves(inputs)):
            if not isinstance(value, Tensor) or number in self.plan.shared or hasattr(value, _TAG):
                continue
            if (dim := self._batch_dim(value)) is not None:
                self.tag(value, Layout(ANYWHERE if self.size == 1 else dim, inputs=frozenset([number])))
                tagged.append(value)
        return tagged

    def _batch_dim(self, value: Tensor) -> int | None:
        """Return the first dimension if it is as long as the batch, or else the second."""
        return next((dim for dim in range(min(value.dim(), 2)) if value.shape[dim] == self.size), None)

    def _share_input(self, conflict: Conflict) -> None:
        """Of two inputs in conflict, such as a [T, T] mask where T = B, the later one has no rows for examples.

        Start again with this knowledge, or return, if it cannot explain the conflict.
        """
        for layout in sorted(conflict.layouts, key=lambda known: -min(known.inputs, default=-1)):
            new = layout.inputs - self.plan.shared
            others = [other.inputs for other in conflict.layouts if other is not layout]
            if new and all(not new <= other for other in others):
                self.plan.shared |= new
                raise Restart from conflict

    # Tags

    def tag(self, value: Tensor, tag: Layout | Recipe) -> None:
        """Remember what is known of a tensor, until the end of the pass."""
        setattr(value, _TAG, (self._token, tag))

    def tag_of(self, value: Any) -> Layout | Recipe | None:
        """Return what is known of a tensor."""
        pair = getattr(value, _TAG, None)
        return pair[1] if pair is not None and pair[0] is self._token else None

    def layout(self, value: Any) -> Layout | None:
        """Return where a tensor holds the examples; None, if it does not depend on the batch."""
        if not isinstance(value, Tensor):
            return None
        tag = self.tag_of(value)
        if tag is not None:
            return tag if isinstance(tag, Layout) else None
        if value.requires_grad and id(value) not in self.trained and not isinstance(value, nn.Parameter):
            # The result of code that no mode sees, such as an autograd function of the model's own.
            return self._unseen(value)
        return None

    def _unseen(self, value: Tensor) -> Layout:
        dims = [dim for dim, length in enumerate(value.shape) if length == self.size]
        if self.size == 1:
            return Layout(ANYWHERE)
        return Layout(0) if dims == [0] else Layout(NOWHERE)

    def recipe(self, value: Any) -> Recipe | None:
        """Return how a tensor was computed from parameters alone, if it was."""
        tag = self.tag_of(value)
        return tag if isinstance(tag, Recipe) else None

    def is_source(self, value: Any) -> bool:
        """Return whether a tensor is a trained parameter, or was computed from parameters alone."""
        if not isinstance(value, Tensor):
            return False
        if self.is_replaying:
            if isinstance(value, nn.Parameter) and value.requires_grad:
                return True
            return any(value is derived for derived in self.derived)
        return (id(value) in self.trained and value.requires_grad) or self.recipe(value) is not None

    # Decisions

    def decide(self, decision: Callable[[], Any]) -> Any:
        """Return a decision, made now and written down, or that of the plan."""
        if self.is_replaying:
            if self._next >= len(self.plan.decisions):
                raise StaleLayout
            chosen = self.plan.decisions[self._next]
            self._next += 1
            return chosen
        chosen = decision()
        self.plan.decisions.append(chosen)
        return chosen

    def layout_to_use(self, value: Tensor, name: str) -> Layout:
        """Return the layout of a tensor that meets a parameter, as a decision; refuse one that is unknown."""
        layout = self.decide(lambda: self.layout(value))
        if layout is None or not layout.is_known:
            raise Unsupported(
                f"{name}: a parameter meets values whose examples cannot be told apart, perhaps since {self._lost_by}",
                "Keep examples in a dimension of their own",
            )
        if layout.owners is not None:
            self.plan.is_static = False
        return layout  # type: ignore[no-any-return]

    # Operations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if self.paused or not torch.is_grad_enabled():
            result = func(*args, **kwargs)
            if not self.paused and not self.is_replaying:
                self._follow_constants(func, args, kwargs, result)
            return result
        if self.is_replaying:
            return self._replayed(func, args, kwargs)
        try:
            return self._tracked(func, args, kwargs)
        except Unsupported as reason:
            raise Refusal(reason) from reason

    def call(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an operation from within a rule, as if the model had done it."""
        return self.__torch_function__(func, (), args, kwargs)

    def _replayed(self, func: Any, args: Any, kwargs: Any) -> Any:
        # Dynamo does not know the names of functions, and shows no questions.
        name = None if torch.compiler.is_compiling() else name_of(func)
        if name in QUESTIONS or not self._has_source(args, kwargs):
            return func(*args, **kwargs)
        kind, known_name, copied, notes = self.decide(_nothing)
        if name is not None and name != known_name:
            raise StaleLayout
        args, kwargs = positional(known_name, args, kwargs)
        compare(self, notes, args, kwargs, derives=kind == "derive")
        if kind == "meet":
            return self._met(func, known_name, args, kwargs, copied)
        result = func(*args, **kwargs)
        if kind == "derive":
            self._remember_derived(known_name, args, result)
        return result

    def _has_source(self, args: Any, kwargs: Any) -> bool:
        """Return whether an operation takes a parameter, or what was computed from parameters alone.

        Dynamo traces this for every operation of a model, so it is written for it: in the open, and without generators.
        """
        derived = self.derived
        for value in args:
            if isinstance(value, nn.Parameter):
                if value.requires_grad:
                    return True
            elif isinstance(value, Tensor):
                for other in derived:
                    if value is other:
                        return True
            elif isinstance(value, (tuple, list)) and self._has_source(value, None):
                return True
        return bool(kwargs) and self._has_source(tuple(kwargs.values()), None)

    def _tracked(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = name_of(func)
        if name in QUESTIONS or name.startswith("set_"):
            return func(*args, **kwargs)
        args, kwargs = positional(name, args, kwargs)
        tensors = tensors_in(args, kwargs)
        batched = [value for value in tensors if self.layout(value) is not None]
        has_source = any(self.is_source(value) for value in tensors)
        if name in ("detach", "data") and has_source:
            self.plan.has_operations = True
            self.decide(lambda: ("constant", name, None, noted(self, args, kwargs, derives=False)))
        if name in ("detach", "data") or not has_source:
            result = func(*args, **kwargs)
            if batched:
                self._follow(func, name, args, kwargs, batched, result)
            return result
        return self._with_sources(func, name, args, kwargs, tensors, batched)

    def _with_sources(
        self, func: Any, name: str, args: Any, kwargs: Any, tensors: list[Tensor], batched: list[Tensor]
    ) -> Any:
        self.plan.has_operations = True
        self._refuse_writes_through_views(name, args, tensors)
        original = args, kwargs
        if name in UNSEEN_BY_DYNAMO:
            self.plan.is_compilable = False
        if name in ("to", "type_as") and batched and self.is_source(args[0]):
            # Only its type counts.
            args = (
                args[0],
                *(torch.empty((), dtype=b.dtype, device=b.device) if isinstance(b, Tensor) else b for b in args[1:]),
            )
            batched = []
        if name == "getitem" and isinstance(args[1], Tensor) and args[1].dim() == 0 and args[1].dtype is torch.int64:
            # Which expert is next: a matter of control, as with a number. Data may decide otherwise in the next pass.
            self.plan.is_static = self.plan.is_static and not batched
            args, batched = (args[0], int(args[1])), [value for value in batched if value is not args[1]]
        key = self._key(name, tensors)
        promoted = self.plan.promoted.get(key)
        if not batched and promoted is None:
            self._copies = {}
            self.decide(lambda: ("derive", name, None, noted(self, *original, derives=True)))
            self._note_write(func, name, args)
            result = derive(self, func, name, args, kwargs, key)
            self._remember_derived(name, args, result)
            return result
        if promoted is not None and promoted[0] == "constant":
            self.tag(tensors[promoted[1]], promoted[2])
            batched = [tensors[promoted[1]], *batched]
        copied = promoted[1] if promoted is not None and promoted[0] == "copies" else None
        self.decide(lambda: ("meet", name, copied, noted(self, *original, derives=False)))
        result = self._met(func, name, args, kwargs, copied)
        if copied is not None:
            self.tag(result, self.expanded_layout)
        elif (isinstance(result, Tensor) and self.tag_of(result) is None) or writes_in_place(func):
            self._follow(func, name, args, kwargs, batched, result)
        return result

    def _met(self, func: Any, name: str, args: Any, kwargs: Any, copied: int | None) -> Any:
        from hush.training.per_example.watching.meeting import meet

        if copied is None:
            return meet(self, func, name, args, kwargs)
        return expanded(self, func, name, args, kwargs, copied)

    def _key(self, name: str, tensors: list[Tensor]) -> Any:
        """Return what tells this operation apart in every pass over the same kind of batch."""
        names = tuple(
            self.trained.get(id(value)) or getattr(self.recipe(value), "key", None)
            for value in tensors
            if self.is_source(value)
        )
        self._counts[name, names] += 1
        return name, names, self._counts[name, names]

    def _follow_constants(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Follow the batch where no gradient is recorded."""
        name = name_of(func)
        if name in QUESTIONS:
            return
        batched = [value for value in tensors_in(args, kwargs) if self.layout(value) is not None]
        if batched:
            self._follow(func, name, args, kwargs, batched, result)

    def _follow(self, func: Any, name: str, args: Any, kwargs: Any, batched: list[Tensor], result: Any) -> None:
        """Note where the results hold the examples."""
        if name == "setitem":
            return self._follow_item(args)
        parts = tensors_in((result,), {})
        if not parts:
            return None
        layouts = self._layouts_of(func, name, args, kwargs, batched, result)
        self.plan.is_static = self.plan.is_static and not self._follower.is_decided_by_data
        lost = [layout for layout in _layouts(layouts) if isinstance(layout, Layout) and not layout.is_known]
        if lost and all(known.is_known for value in batched if (known := self.layout(value)) is not None):
            self._lost_by = name
        for part, layout in zip(parts, _layouts(layouts), strict=True):
            if isinstance(layout, Layout) and id(part) not in self.trained:
                if layout.owners is not None:
                    self.plan.is_static = False
                self.tag(part, layout)
        return None

    def _layouts_of(self, func: Any, name: str, args: Any, kwargs: Any, batched: list[Tensor], result: Any) -> Any:
        """Return the layouts of the results; what mixes examples is refused only where it meets a parameter."""
        try:
            return self._follower.results(func, name, args, kwargs, batched, result)
        except Conflict as conflict:
            # All pairs, as in CLIP, are often returned beside what the losses use.
            if not isinstance(conflict, AllPairs):
                self._share_input(conflict)
            inputs = frozenset().union(*(layout.inputs for layout in conflict.layouts))
            return tree_map_only(Tensor, lambda _: Layout(NOWHERE, inputs=inputs), result)

    def _follow_item(self, args: Any) -> None:
        """Note that a constant has become part of the batch, where an item of it was replaced."""
        target, index, value = args
        layout = self.layout(value)
        if layout is None or self.layout(target) is not None or target is value:
            return
        if layout.dim in (ANYWHERE, NOWHERE):
            self.tag(target, layout)
            return
        for dim, length in enumerate(target.shape):
            if length != value.shape[layout.dim]:
                continue
            places = torch.arange(length).view([-1 if d == dim else 1 for d in range(target.dim())])
            try:
                item = places.expand(target.shape)[index]
            except (RuntimeError, IndexError):
                break
            position = layout.dim - value.dim() + item.dim()
            if position >= 0 and item.shape[position] == length and item.stride()[position] == 1:
                self.tag(target, layout.at(dim))
                return
        self.tag(target, Layout(NOWHERE, inputs=layout.inputs))

    def stored(self, value: Any) -> Any:
        """Return an argument as it is noted: with a recipe instead of its result."""
        recipe = self.recipe(value)
        return self._copies.get(id(value), value) if recipe is None else recipe

    def keep_constant(self, value: Tensor) -> None:
        """Keep a copy of a tensor that enters into a recipe, for later passes to bring up to date."""
        self._copies[id(value)] = copy = value.detach().clone()
        self.plan.constants.append(copy)

    def number_of(self, value: Tensor) -> int | None:
        """Return which function of parameters alone a tensor is."""
        return next((number for number, other in enumerate(self.derived) if other is value), None)

    def _remember_derived(self, name: str, args: Any, result: Any) -> None:
        if name == "setitem":  # an item of a constant may have been written
            self.derived.append(args[0])
            return
        for part in tensors_in((result,), {}):
            if part.is_floating_point() and part.requires_grad:
                self.derived.append(part)

    def _note_write(self, func: Any, name: str, args: Any) -> None:
        """Note which functions of parameters change with a tensor that is written in place, as they share memory."""
        if not writes_in_place(func):
            return
        memory = args[0].untyped_storage().data_ptr()
        for other in self.derived:
            if other is not args[0] and other.untyped_storage().data_ptr() == memory:
                self._written_through[id(other)] = args[0]

    def _refuse_writes_through_views(self, name: str, args: Any, tensors: list[Tensor]) -> None:
        if name == "setitem" and self._written_through.get(id(args[0])) is args[2]:
            del self._written_through[id(args[0])]  # Python ends ``x[i] += y`` so
        if any(id(value) in self._written_through for value in tensors):
            raise Unsupported(
                f"{self.named(tensors, {})}: a function of parameters was written in place through a view",
                "Write a new tensor, as by torch.where or torch.cat",
            )

    # Taps

    def tap_of(self, source: Tensor) -> Tensor:
        """Return a tap [B, *shape] whose gradient is every example's gradient of a source."""
        tap = self.engine.tap((self.size, *source.shape), source)
        self.use(source, DenseGradient, num_taps=1)
        return tap

    def use(
        self,
        source: Tensor,
        form: Callable[..., Gradient],
        *,
        num_taps: int,
    ) -> None:
        """Record that the last taps bring out the gradients of a source, in a form."""
        for name in self.decide(lambda: self._names(source)):
            layer = name.rpartition(".")[0] or "the model"
            param = self.engine.parameter(name)
            recipe = None if self.is_replaying else self.recipe(source)
            if recipe is not None:
                self.engine.record_use(layer, param, LedBack(form, recipe, param), num_taps=num_taps)
            else:
                self.engine.record_use(layer, param, form, num_taps=num_taps)

    def _names(self, source: Tensor) -> list[str]:
        recipe = self.recipe(source)
        if recipe is None:
            return [self.trained[id(source)]]
        return [self.trained[id(param)] for param in parameters(recipe, self.trained) if param.requires_grad]

    def named(self, args: Any, kwargs: Any) -> str:
        """Return the names of the parameters among the arguments."""
        names = [name for value in tensors_in(args, kwargs) if self.is_source(value) for name in self._names(value)]
        return ", ".join(names) or "the model"

    def name_of_use(self, *values: Any) -> str:
        """Return the names of the parameters among these tensors, for messages."""
        return self.decide(lambda: self.named(values, {}))  # type: ignore[no-any-return]

    # Modules with rules

    def module(self, module: nn.Module, rule: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a module: by its rule if its inputs hold examples in the usual place, or operation by operation."""
        if not self.decide(lambda: fits(self, module, args, kwargs)):
            self.plan.has_operations = True
            return type(module).forward(module, *args, **kwargs)
        self.paused = True
        try:
            result = rule(self.engine, module, *args, **kwargs)
        finally:
            self.paused = False
        if not self.is_replaying:
            tag_outputs(self, module, args, result)
        return result


def _nothing() -> None:
    return None


def _layouts(structure: Any) -> list[Any]:
    """Return the layouts in a structure of results, in order."""
    if isinstance(structure, (tuple, list)):
        return [layout for part in structure for layout in _layouts(part)]
    return [structure]
