"""A private training run: what `hush.privatize` returns."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.errors import InvalidArgument, Unsupported, check_count, check_instance
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import Source, assumptions_of, source_or_default
from hush.training._check import check_batch, check_calls
from hush.training._clipping import Adaptive, Clipping, Flat
from hush.training._engine import Engine
from hush.training._noise import gaussian
from hush.training._plan import Plan, make_plan
from hush.training._sampling import Loader, Micro, fetcher, moved, poisson_sample
from hush.training._update import Updater


@dataclass(frozen=True, slots=True)
class Step:
    """What happened: how many steps have been taken, and whether this call completed one."""

    number: int
    complete: bool


class PrivateTraining:
    """A model, an optimizer and a dataset, trained under a plan.

    Attributes:
        model: The caller's own model.
        optimizer: The caller's own optimizer, or optimizers.
        loader: Physical batches; iterate over it once, calling `step` for each.
        plan: What was agreed on.
        clipping: How gradients are clipped now: as the plan says, or as an adaptive way has moved since.
        steps_taken: How many noisy steps the weights have seen.

    Guarantee:
        After n steps the weights are (epsilon, delta)-differentially private, as `guarantee` says; also everything that
        is computed from the weights alone.

    Assumes:
        The loss of an example depends on that example only (checked here, for every new shape of batch, as far as
        gradients show it; the caller's duty where inputs or detached values couple examples). Nothing else of the data
        is released: losses and accuracies on training data are not private (the caller's duty). The sampling rate is
        public (the caller's duty).

    References:
        Abadi et al. 2016, Algorithm 1, with the lots drawn by Poisson sampling, and the noisy sum divided by the
        expected lot size.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        dataset: Any,
        plan: Plan,
        *,
        compile: bool | str | None = None,  # noqa: A002
        memory_limit: int | None = None,
        source: Source | None = None,
    ) -> None:
        """Attach to the model; `hush.privatize` makes the plan, too."""
        check_instance("model", model, nn.Module)
        if isinstance(model, torch._dynamo.OptimizedModule):
            raise InvalidArgument("model", "compiled", "the model itself", "compile=True compiles it with its privacy")
        optimizers = tuple(optimizer) if isinstance(optimizer, (list, tuple)) else (optimizer,)
        for one in optimizers:
            check_instance("optimizer", one, Optimizer, "Such as torch.optim.SGD(model.parameters(), lr=0.1)")
            _check_optimizer(model, one)
        chosen = source_or_default(source)
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self.steps_taken = 0
        self._optimizers = optimizers
        self._num_examples, fetch = fetcher(dataset)
        self._key = chosen.words(4).tobytes()
        self._assumptions = assumptions_of(chosen)
        if isinstance(compile, str) and compile not in torch.compiler.list_backends(exclude_tags=()):
            raise InvalidArgument("compile", compile, "True, False or a backend", *torch.compiler.list_backends())
        if compile is None:
            compile = next(model.parameters()).is_cuda  # noqa: A001
        if memory_limit is not None:
            check_count("memory_limit", memory_limit)
        self._engine = Engine(model, backend="inductor" if compile is True else compile or None, memory=memory_limit)
        self._updater = Updater(model, optimizers)
        self.clipping = plan.clipping
        self._totals: dict[str, Tensor] = {}
        self._unclipped: Tensor | float = 0.0  # how many examples, less half of all
        self._current: Micro | None = None
        self._position = 0  # of the next physical batch within the logical one
        self._random: list[Tensor] = []  # torch's own numbers at the beginning of the step
        self._checked: set[Any] = set()
        self.loader = Loader(
            fetch,
            self._sample,
            plan.physical_batch_size,
            plan.max_batch_size,
            lambda: self.steps_taken,
            plan.num_steps,
            self._begin,
        )

    def step(self, losses: Tensor) -> Step:
        """Take one loss per example of the batch that the loader gave; at the end of a logical batch, update.

        Backward, clipping and accumulation in every call; noise, the optimizer's step and accounting in the last of a
        logical batch. An example whose gradient is not finite contributes nothing.
        """
        batch = self._current
        if batch is None:
            raise InvalidArgument("losses", "out of turn", "one call of step for each batch of private.loader")
        self._engine.refuse_changed_buffers()
        if self._is_to_be_checked():
            check_batch(self._engine, losses)
            if not self._checked:
                check_calls(self._engine)
            self._checked.add(self._engine.signature())
            self._engine.watching = False
        self._engine.backward(losses)
        weights = moved(batch.weights, losses.device)
        found = self._engine.clipped_sum(self.clipping, weights, num_summed=2 * self.plan.batch_size)
        if isinstance(self.clipping, Adaptive):
            signs = torch.where(found.norms <= self.clipping.clip_norm, 0.5, -0.5).masked_fill(found.norms.isnan(), 0.0)
            self._unclipped = self._unclipped + (signs * weights).sum()
        for name, value in found.gradients.items():
            # In fp64 over physical batches: in fp32, an example could push a sum to where others are rounded away.
            self._totals[name] = self._totals[name].double().add_(value) if name in self._totals else value
        self._engine.end()
        self._current, self._position = None, self._position + 1
        if batch.ends:
            self._update()
        return Step(self.steps_taken, batch.ends)

    def _is_to_be_checked(self) -> bool:
        """New shapes are checked; and, where it is not compiled, steps 1, 2, 4, 8, ...: losses may change."""
        again = (
            self._engine.backend is None and self._position == 0 and (self.steps_taken & (self.steps_taken - 1)) == 0
        )
        return again or self._engine.signature() not in self._checked

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Refuse: two runs with one key would use their noise twice."""
        raise Unsupported("a copy of a run would use its noise twice", "Copy private.model, or use state_dict()")

    def __reduce__(self) -> Any:
        """Refuse that, too."""
        raise Unsupported("a pickled run would use its noise twice", "Store private.state_dict()")

    def guarantee(self) -> Guarantee:
        """Return what the weights, as they are now, give away."""
        return self.plan.guarantee(self.steps_taken, self._assumptions)

    def close(self) -> nn.Module:
        """End the run: give the model its ordinary way forward back, and return it."""
        self._engine.detach()
        self._engine.end()
        return self.model

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that resumes the run, from the beginning of the current step.

        It contains the key of samples and noise: whoever has it can subtract the noise. Keep it as safe as the data.
        """
        return {
            "schema": "hush.training/2",
            "plan": _plan_state(self.plan),
            "num_examples": self._num_examples,
            "steps_taken": self.steps_taken,
            "key": self._key,
            "clip_norm": self.clipping.clip_norm,
            "assumptions": self._assumptions,
            "model": copy.deepcopy(self.model.state_dict()),
            "optimizers": [copy.deepcopy(one.state_dict()) for one in self._optimizers],
            "random": self._random if self._position else _random_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume; the plan must be the same, and steps that were taken here already cannot be taken back.

        Samples and noise are drawn under a new key, unless it is a test's: of two runs that go on from one state, say
        with different learning rates, the difference must not be bare, nor rest on the same samples. Both are
        releases: what is published of more than one such run adds up.
        """
        check_instance("state", state, dict)
        if state.get("schema") != "hush.training/2":
            raise InvalidArgument("schema", state.get("schema"), "what state_dict returned")
        for name, own in (("plan", _plan_state(self.plan)), ("num_examples", self._num_examples)):
            if state[name] != own:
                raise InvalidArgument(name, state[name], f"{own}", "A run goes on under the plan that it began with")
        if not state["steps_taken"] >= self.steps_taken:
            raise InvalidArgument(
                "steps_taken",
                state["steps_taken"],
                f"at least the {self.steps_taken} of this run",
                "The same noise on other weights would show their difference",
            )
        self._abandon()
        self.steps_taken = state["steps_taken"]  # first of all: should loading fail half-way, this is not too little
        self.model.load_state_dict(state["model"])
        for one, stored in zip(self._optimizers, state["optimizers"], strict=True):
            one.load_state_dict(stored)
        self.clipping = replace(self.plan.clipping, clip_norm=state["clip_norm"])
        self._assumptions = tuple(state["assumptions"])
        self._key = state["key"] if "test randomness" in self._assumptions else os.urandom(32)
        torch.set_rng_state(state["random"][0])
        for device, numbers in enumerate(state["random"][1:][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(numbers, device)

    def _sample(self, step: int) -> NDArray[np.int64]:
        return poisson_sample(self._key_for("sampling"), step, self._num_examples, self.plan.sampling_rate)

    def _key_for(self, purpose: str) -> bytes:
        return hashlib.sha256(self._key + purpose.encode()).digest()

    def _begin(self, batch: Micro) -> None:
        if batch.position == 0:
            self._abandon()  # a loop that was left half-way, and begins the step anew
            self._random = _random_state()
        unanswered = self._current is not None
        if unanswered or (batch.step, batch.position) != (self.steps_taken, self._position):
            self._abandon()
            raise InvalidArgument("step", "out of turn", "one loop over private.loader, and a step for each batch")
        self._current = batch
        self._engine.begin(len(batch.indices))

    def _abandon(self) -> None:
        """Forget an unfinished logical batch."""
        self._current, self._totals, self._position, self._unclipped = None, {}, 0, 0.0
        self._engine.end()

    def _update(self) -> None:
        """Add the noise to the clipped sum, once; divide by the public batch size; let the optimizers step."""
        plan, totals, step, unclipped = self.plan, self._totals, self.steps_taken, self._unclipped
        clipping = self.clipping
        for one in self._optimizers:
            _check_optimizer(self.model, one)  # groups may have been added
        # Counted before anything is drawn or changed: a crash in between wastes a step, and never repeats its noise.
        self.steps_taken += 1
        self._abandon()
        noise = plan.noise_on_sum * clipping.clip_norm
        if isinstance(clipping, Adaptive):
            scale = clipping.noise_on_count(plan.noise_multiplier, plan.batch_size)
            more = float(gaussian(self._key_for("noise of the count"), step, 1, scale=scale))
            self.clipping = clipping.moved((float(unclipped) + more) / plan.batch_size + 0.5)
        self._updater(self._key_for("noise"), step, totals, noise, plan.batch_size)


def _random_state() -> list[Tensor]:
    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def _plan_state(plan: Plan) -> dict[str, Any]:
    return asdict(plan) | {"relation": plan.relation.value, "unit": str(plan.unit), "clipping": repr(plan.clipping)}


def _check_optimizer(model: nn.Module, optimizer: Optimizer) -> None:
    own = {id(param) for param in model.parameters()}
    for group in optimizer.param_groups:
        if any(id(param) not in own for param in group["params"]):
            raise InvalidArgument("optimizer", type(optimizer).__name__, "one over the model's own parameters")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise Unsupported("LBFGS evaluates the loss several times per step", "Use SGD or AdamW")
    if not any(param.requires_grad for param in model.parameters()):
        raise InvalidArgument("model", type(model).__name__, "at least one parameter that is trained")


def _clipping(clip_norm: float | None, clipping: Clipping | None) -> Clipping:
    if clipping is None:
        return Flat(1.0 if clip_norm is None else clip_norm)
    if clip_norm is not None:
        raise InvalidArgument("clip_norm", clip_norm, "nothing, beside clipping=...", "It has a clip norm of its own")
    return clipping


def privatize(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    dataset: Any,
    *,
    delta: float,
    clip_norm: float | None = None,
    clipping: Clipping | None = None,
    batch_size: int | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    epochs: float | None = None,
    num_steps: int | None = None,
    physical_batch_size: int | None = None,
    max_batch_size: int | None = None,
    relation: Relation = Relation.ADD_OR_REMOVE,
    unit: Unit | None = None,
    compile: bool | str | None = None,  # noqa: A002
    memory_limit: int | None = None,
    source: Source | None = None,
) -> PrivateTraining:
    """Prepare a model for private training: three lines more in an ordinary loop.

    Args:
        model: Any module that treats examples, in the first dimension, one by one. It stays the caller's own.
        optimizer: Any of torch's over the model's parameters, or several.
        dataset: Tensors of one length (as a tuple, or a TensorDataset), or a Dataset with a length.
        delta: The delta of the guarantee; less than one over the number of examples.
        clip_norm: To what norm each example's gradient is clipped; 1, if nothing is said.
        clipping: Or how it is clipped, such as ``Automatic()`` or ``Flat(groups=PerLayer())``.
        batch_size: How many examples are in a batch on average; without it, all are in every batch (DP-GD).
        epsilon: What the whole run may cost; the noise is calibrated to it.
        noise_multiplier: The noise instead; with epsilon as well, the run ends before it would cost more.
        epochs: How many times an example is seen on average.
        num_steps: Or how many steps are taken.
        physical_batch_size: How many examples go through the model at once; only memory and speed depend on it.
        max_batch_size: How many examples take part in a step at most, so that all steps have one shape and cost the
            same; what that changes is part of delta. Without it, a large sample takes one more physical batch.
        relation: What neighbouring datasets are.
        unit: What is protected.
        compile: Whether torch.compile is to speed up the model and the clipping, or by which of its backends; without
            it, on a GPU only. The numbers are the same within rounding.
        memory_limit: How many bytes all examples' gradients of one parameter may take; beyond it they are computed a
            few at a time, and twice. An eighth of the device's memory, unless given.
        source: Where the secret key comes from; for tests, a TestSource.

    Returns:
        The run: ``private.model``, ``private.loader``, ``private.step(losses)``, ``private.guarantee()``.

    >>> from torch.nn import functional as F
    >>> x, y = torch.randn(200, 4), torch.randint(0, 2, (200,))
    >>> model = nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> private = privatize(model, optimizer, (x, y), epsilon=3.0, delta=1e-5, epochs=2, batch_size=50)
    >>> for x, y in private.loader:
    ...     losses = F.cross_entropy(private.model(x), y, reduction="none")
    ...     step = private.step(losses)
    >>> round(private.guarantee().epsilon, 3)
    3.0
    """
    settings: dict[str, Any] = {"relation": relation, "unit": Unit.example() if unit is None else unit}
    plan = make_plan(
        num_examples=fetcher(dataset)[0],
        delta=delta,
        clipping=_clipping(clip_norm, clipping),
        batch_size=batch_size,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        epochs=epochs,
        num_steps=num_steps,
        physical_batch_size=physical_batch_size,
        max_batch_size=max_batch_size,
        **settings,
    )
    return PrivateTraining(model, optimizer, dataset, plan, compile=compile, memory_limit=memory_limit, source=source)
