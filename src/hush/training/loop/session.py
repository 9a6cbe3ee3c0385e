"""A private training run: what `hush.privatize` returns."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, Unsupported, check_count, check_instance
from hush.guarantee import Guarantee
from hush.randomness import RandomSource, assumptions_of, source_or_default
from hush.training.loop.batches import Batches
from hush.training.loop.payment import Payment
from hush.training.loop.update import Ball, Updater
from hush.training.noise.gaussian import gaussian
from hush.training.noise.stream import NoiseStream
from hush.training.per_example.check import check_batch, check_calls, check_outputs
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.engine import GradientEngine
from hush.training.per_example.projected import ProjectedClipping
from hush.training.plan.clipping import Adaptive, Clipping
from hush.training.plan.contributions import Projected
from hush.training.plan.loader import Loader, Micro, fetcher, moved
from hush.training.plan.plan import TrainingPlan
from hush.training.plan.units import Users


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
        plan: TrainingPlan,
        *,
        users: Users | None = None,
        projection: Ball | None = None,
        compile: bool | str | None = None,  # noqa: A002
        memory_limit: int | None = None,
        source: RandomSource | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Attach to the model; `hush.privatize` makes the plan, too."""
        check_instance("model", model, nn.Module)
        if isinstance(model, torch._dynamo.OptimizedModule):
            raise InvalidArgument("model", "compiled", "the model itself", "compile=True compiles it with its privacy")
        optimizers = tuple(optimizer) if isinstance(optimizer, (list, tuple)) else (optimizer,)
        for one in optimizers:
            check_instance("optimizer", one, Optimizer, "Such as torch.optim.SGD(model.parameters(), lr=0.1)")
            _check_optimizer(model, one)
        _refuse_idle(model, optimizers)
        for one in optimizers:
            if plan.correlated is not None and hasattr(one, "noise_stddev"):
                raise Unsupported(f"{type(one).__name__} with correlated noise, whose size changes from step to step")
        own = source_or_default(source)
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self.steps_taken = 0
        self._process, self._generation = os.getpid(), 0
        self._optimizers = optimizers
        self._num_examples, fetch = fetcher(dataset)
        self._keys = [(0, own.words(4).tobytes())]  # from which step on each holds
        self._assumptions = assumptions_of(own)
        self._batches = Batches(plan, users, dataset, self._num_examples, self._key_for)
        if projection is not None:
            check_instance("projection", projection, Ball, "Such as Ball(radius=10.0)")
        self._projection = projection
        if isinstance(compile, str) and compile not in torch.compiler.list_backends(exclude_tags=()):
            raise InvalidArgument("compile", compile, "True, False or a backend", *torch.compiler.list_backends())
        if compile is None:
            compile = next(model.parameters()).is_cuda  # noqa: A001
        if memory_limit is not None:
            check_count("memory_limit", memory_limit)
        backend = "inductor" if compile is True else compile or None
        self._engine = GradientEngine(model, backend=backend, memory=memory_limit)
        self._engine.replays = True
        if isinstance(plan.contribution, Projected):
            self._engine.detach()  # it was refused there what cannot be private; everything else runs as it is
        self._updater = Updater(model, optimizers)
        self.clipping = plan.clipping
        self._totals: dict[str, Tensor] = {}
        self._unclipped: Tensor | float = 0.0  # how many examples, less half of all
        self._current: Micro | None = None
        self._position = 0  # of the next physical batch within the logical one
        self._random: list[Tensor] = []  # torch's own numbers at the beginning of the step
        self._checked: set[Any] = set()
        factor = plan.factor()
        self._recursion = None if factor is None else factor.recursion
        self._stream: NoiseStream | None = None
        self._projected: ProjectedClipping | None = None
        self.loader = Loader(
            fetch,
            self._batches,
            lambda: self.steps_taken,
            plan.num_steps,
            self._begin,
            plan.contribution.change,
            self._batches.count,
            lambda: self._generation,
        )
        # Last: whatever is refused above costs nothing.
        self._payment = None if budget is None else Payment(plan, budget)

    def step(self, losses: Tensor | Callable[[], Tensor]) -> Step:
        """Take one loss per example of the batch that the loader gave; at the end of a logical batch, update.

        Backward, clipping and accumulation in every call; noise, the optimizer's step and accounting in the last of a
        logical batch. An example whose gradient is not finite contributes nothing. For `Projected` contributions, take
        a function that runs the model and returns the losses.
        """
        self._refuse_forks()
        batch = self._current
        if batch is None:
            raise InvalidArgument("losses", "out of turn", "one call of step for each batch of private.loader")
        found = self._projected_sum(losses, batch) if self._is_projected else self._clipped_sum(losses, batch)
        for name, value in found.gradients.items():
            # In fp64 over physical batches: in fp32, an example could push a sum to where others are rounded away.
            if name in self._totals:
                self._totals[name] = self._totals[name].double().add_(value)
            else:  # the next sum may lie where this one does
                self._totals[name] = value if batch.ends else value.double()
        self._engine.end()
        self._current, self._position = None, self._position + 1
        if batch.ends:
            self._update()
        return Step(self.steps_taken, batch.ends)

    @property
    def _is_projected(self) -> bool:
        return isinstance(self.plan.contribution, Projected)

    def _projected_sum(self, losses: Any, batch: Micro) -> ClippedSum:
        contribution = self.plan.contribution
        assert isinstance(contribution, Projected)
        if isinstance(losses, Tensor) or not callable(losses):
            raise InvalidArgument(
                "losses",
                type(losses).__name__,
                "a function that computes them",
                "Projections need several runs: private.step(lambda: loss(private.model(x), y))",
            )
        if self._projected is None:
            key = self._key_for("projections")
            self._projected = ProjectedClipping(self.model, projections=contribution.projections, key=key)
        if self._position == 0 and (self.steps_taken & (self.steps_taken - 1)) == 0:  # as exact ways are
            self._projected.refuse_coupled(losses, len(batch.weights))
            check_outputs(self.model, self._projected.calls, len(batch.weights))
        return self._projected(
            losses,
            clip_norm=self._clipping_of(self.steps_taken).clip_norm,
            weights=moved(batch.weights, next(self.model.parameters()).device),
            step=self.steps_taken,
            num_summed=2 * self.plan.setting(self.steps_taken)[1],
        )

    def _clipped_sum(self, losses: Any, batch: Micro) -> ClippedSum:
        plan = self.plan
        self._engine.refuse_changed_buffers()
        if self._is_to_be_checked():
            check_batch(self._engine, losses)
            if not self._checked:
                check_calls(self._engine)
            self._checked.add(self._engine.signature())
            self._engine.watching = False
        shares = None
        rows = len(batch.real) // len(batch.weights)
        if rows > 1:
            share = batch.real.astype(np.float32) / (plan.contribution.copies * plan.contribution.examples)
            shares = moved(share, losses.device)
        self._engine.backward(losses, weights=shares)
        weights = moved(batch.weights, losses.device)
        clipping = self._clipping_of(self.steps_taken)
        found = self._engine.clipped_sum(clipping, weights, num_summed=2 * plan.setting(self.steps_taken)[1], rows=rows)
        if isinstance(self.clipping, Adaptive):
            signs = torch.where(found.norms <= self.clipping.clip_norm, 0.5, -0.5).masked_fill(found.norms.isnan(), 0.0)
            self._unclipped = self._unclipped + (signs * weights).sum()
        return found

    def _clipping_of(self, step: int) -> Clipping:
        """Return how gradients are clipped in a step; with the clip norm, the noise changes as well."""
        factor = self.plan.clip_factor(step)
        return self.clipping if factor == 1 else replace(self.clipping, clip_norm=self.clipping.clip_norm * factor)

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
        """Return what the weights, as they are now, give away.

        For a number of steps that was fixed in advance. If the run was ended early because of what it had learned, the
        plan's own guarantee, of all its steps, is what holds: ``private.plan.guarantee()``.
        """
        early = 0 < self.steps_taken < self.plan.num_steps
        assumed = ("the run was not ended because of what it had learned",) if early else ()
        paid = () if self._payment is None else self._payment.assumptions
        return self.plan.guarantee(self.steps_taken, (*assumed, *paid, *self._assumptions))

    def close(self) -> nn.Module:
        """End the run: give the model its ordinary way forward back, and return it.

        A run that is charged to a budget is charged for the steps that were taken, where these are charged one by one.
        """
        if self._payment is not None:
            self._refuse_forks()
            self._payment.settle(self.steps_taken)
        self._engine.detach()
        self._engine.end()
        return self.model

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that resumes the run, from the beginning of the current step.

        It contains the key of samples and noise: whoever has it can subtract the noise. Keep it as safe as the data.
        """
        return {
            "schema": "hush.training/3",
            "plan": _terms(self.plan),
            "num_examples": self._num_examples,
            "steps_taken": self.steps_taken,
            "keys": list(self._keys),
            "recursion": repr(self._recursion),
            "owners": self._batches.owners,
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
        releases: what is published of more than one such run adds up. An epoch that has begun is finished in its own
        order; so of runs in `BallsInBins`, which rely on that order, publish only one that goes on from a state.
        """
        check_instance("state", state, dict)
        if state.get("schema") != "hush.training/3":
            raise InvalidArgument("schema", state.get("schema"), "what state_dict returned")
        agreed = {"plan": _terms(self.plan), "num_examples": self._num_examples, "recursion": repr(self._recursion)}
        agreed["owners"] = self._batches.owners
        for name, own in agreed.items():
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
        if self._payment is not None:
            self._payment.loaded()
        self.steps_taken = state["steps_taken"]  # first of all: should loading fail half-way, this is not too little
        self.model.load_state_dict(state["model"])
        for one, stored in zip(self._optimizers, state["optimizers"], strict=True):
            one.load_state_dict(stored)
        self.clipping = replace(self.plan.clipping, clip_norm=state["clip_norm"])
        self._assumptions = tuple(state["assumptions"])
        self._keys = [(first, key) for first, key in state["keys"] if first < max(self.steps_taken, 1)]
        if "test randomness" not in self._assumptions:
            # What was drawn before stays under its keys, for later noise that is correlated with it.
            self._keys = [*(pair for pair in self._keys if self.steps_taken), (self.steps_taken, os.urandom(32))]
        self._stream = self._projected = None
        self._batches.resumed()
        self._generation += 1  # loops that were begun before are over
        torch.set_rng_state(state["random"][0].cpu())
        for device, numbers in enumerate(state["random"][1:][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(numbers.cpu(), device)

    def _key_for(self, purpose: str, step: int | None = None) -> bytes:
        """Return the key for a purpose in a step; the current one, if none is said."""
        at = self.steps_taken if step is None else step
        key = next(key for first, key in reversed(self._keys) if first <= at)
        return hashlib.sha256(key + purpose.encode()).digest()

    def _begin(self, batch: Micro) -> None:
        if batch.position == 0:
            self._abandon()  # a loop that was left half-way, and begins the step anew
            self._random = _random_state()
        unanswered = self._current is not None
        if unanswered or (batch.step, batch.position) != (self.steps_taken, self._position):
            self._abandon()
            raise InvalidArgument("step", "out of turn", "one loop over private.loader, and a step for each batch")
        self._refuse_forks()
        if self._payment is not None:
            self._payment.refuse_unpaid(self.steps_taken)
        self._current = batch
        if not self._is_projected:
            self._engine.begin(len(batch.indices))

    def _refuse_forks(self) -> None:
        if os.getpid() != self._process:
            raise Unsupported(
                "a run in a forked process would draw the samples and the noise of the other one",
                "Fork before privatize, or load state_dict() into a run of its own",
            )

    def _abandon(self) -> None:
        """Forget an unfinished logical batch."""
        self._current, self._totals, self._position, self._unclipped = None, {}, 0, 0.0
        self._engine.end()

    def _update(self) -> None:
        """Add the noise to the clipped sum, once; divide by the public batch size; let the optimizers step."""
        plan, totals, step, unclipped = self.plan, self._totals, self.steps_taken, self._unclipped
        clipping, key = self._clipping_of(step), self._key_for("noise")
        for one in self._optimizers:
            _check_optimizer(self.model, one)  # groups may have been added
        # Counted before anything is drawn or changed: a crash in between wastes a step, and never repeats its noise.
        self.steps_taken += 1
        self._abandon()
        noise = plan.noise_on_sum(step) * clipping.clip_norm
        if isinstance(clipping, Adaptive):
            multiplier, size = plan.setting(step)
            scale = clipping.noise_on_count(multiplier, size)
            more = float(gaussian(self._key_for("noise of the count", step), step, 1, scale=scale))
            self.clipping = clipping.moved((float(unclipped) + more) / size + 0.5)
        self._updater(key, step, totals, noise, plan.divisor(step), self._noise_stream())
        if self._projection is not None:
            self._projection.project(self.model.parameters())
        if self._payment is not None and self.steps_taken == plan.num_steps:
            self._payment.settle(self.steps_taken)

    def _noise_stream(self) -> NoiseStream | None:
        """Return the noise of a plan whose noise is correlated."""
        if self._recursion is None:
            return None
        if self._stream is None:
            trained = [param for param in self.model.parameters() if param.requires_grad]
            keys = [(first, self._key_for("noise", first)) for first, _ in self._keys]
            self._stream = NoiseStream(
                self._recursion,
                keys,
                sum(param.numel() for param in trained),
                num_steps=self.plan.num_steps,
                device=trained[0].device,
            )
        return self._stream


def _terms(plan: TrainingPlan) -> str:
    """Return what a resumed run has to agree with: all but how many examples go through the model at once."""
    return repr(replace(plan, physical_batch_size=1))


def _random_state() -> list[Tensor]:
    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def _check_optimizer(model: nn.Module, optimizer: Optimizer) -> None:
    own = {id(param) for param in model.parameters()}
    for group in optimizer.param_groups:
        if any(id(param) not in own for param in group["params"]):
            raise InvalidArgument("optimizer", type(optimizer).__name__, "one over the model's own parameters")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise Unsupported("LBFGS evaluates the loss several times per step", "Use SGD or AdamW")
    if not any(param.requires_grad for param in model.parameters()):
        raise InvalidArgument("model", type(model).__name__, "at least one parameter that is trained")


def _refuse_idle(model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
    """Refuse parameters that are trained by no optimizer: they would be clipped and paid for, and stay as they are."""
    moved_ones = {id(param) for one in optimizers for group in one.param_groups for param in group["params"]}
    idle = [name for name, param in model.named_parameters() if param.requires_grad and id(param) not in moved_ones]
    if idle:
        shown = ", ".join(idle[:8]) + (", ..." if len(idle) > 8 else "")
        raise InvalidArgument(
            "optimizer",
            shown,
            "an optimizer for every parameter that requires a gradient",
            "Freeze them, or build the optimizer after the model is complete",
        )
