"""A private training run: the object that `hush.privatize` returns.

Data flows through a step like this:

    loader > your forward and losses > step(): backward, clipped sum > last batch of the step: noise, optimizer > model

`PrivateTraining` holds the state of that flow. The loader announces each physical batch that it serves (`_serve`);
``step`` clips (`batch_sums`) and accumulates; after the last physical batch of a step, `_update` adds the noise once
(`update`).

Samples and noise are functions of (key, step). So a run can be resumed, and its state holds no gradient without noise.
A resumed run continues under a new key (`keys`).
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.accounting.budget import Budget
from hush.accounting.receipts import Receipt, check_budget
from hush.errors import InvalidArgument, Unsupported, check_count, check_instance
from hush.guarantee import Guarantee
from hush.notebook import card
from hush.randomness import RandomSource, assumptions_of, source_or_default
from hush.strict_json import take_format
from hush.training.loop.batch_sums import BatchSums
from hush.training.loop.batches import Batches
from hush.training.loop.keys import RunKeys
from hush.training.loop.optimizer_checks import check_optimizer, check_optimizers, refuse_later_parameters
from hush.training.loop.payment import Payment
from hush.training.loop.ranks import refuse_ranks, refuse_world
from hush.training.loop.unclipped_counts import (
    count_unclipped,
    group_shares,
    moved_thresholds,
    noisy_counts,
    restored_clipping,
)
from hush.training.loop.update import Ball, Updater
from hush.training.noise.noise_grid import NoiseGrid
from hush.training.noise.stream import NoiseStream
from hush.training.plan.clipping import Adaptive, Clipping
from hush.training.plan.loader import Loader, PhysicalBatch, fetcher, to_device
from hush.training.plan.training_plan import TrainingPlan
from hush.training.plan.units import Users
from hush.training.watch.check_steps import check_position, check_steps
from hush.training.watch.held import StoredData
from hush.training.watch.outside import OutsideWatch
from hush.training.watch.weights import WeightWatch

_FORMAT = "hush.training/4"
_READ = "losses do not depend on numbers that the loop reads from a batch in Python, as item() does, to mix examples"
_SET_LATER = "the weights that the model got between privatize and the first step come from public data"


@dataclass(frozen=True, slots=True)
class Step:
    """The result of `PrivateTraining.step`.

    Attributes:
        number: How many noisy steps the run has taken.
        complete: Whether this call completed one; False if more physical batches of the same step follow.

    >>> Step(number=3, complete=True).complete
    True
    """

    number: int
    complete: bool


class PrivateTraining:
    """A model, an optimizer and a dataset, trained under a plan.

    Attributes:
        model: Your own model.
        optimizer: Your own optimizer, or optimizers.
        loader: The physical batches. Iterate over it once, and call `step` for each.
        plan: The plan of the run.
        clipping: How gradients are clipped now: the plan's clipping, or its current state under adaptive clipping.
        steps_taken: How many noisy steps have been applied to the weights.

    Guarantee:
        After n steps the weights are (epsilon, delta)-differentially private, with the numbers of `guarantee`; so is
        everything that is computed from the weights alone.

    Assumes:
        The loss of an example depends on that example only, and the forward pass stores nothing about it in the model
        (checked here: what a model holds, at every step; losses, by gradients at new kinds of batches, and on invented
        examples at the first step, at secret ones and at the last; the caller's duty where examples mix on rare
        contents only, or at so few steps that no secret one is among them). The weights change in private steps only
        (checked here; if not, the guarantee is withdrawn, with the reason). Torch computes an example the same in every
        row of a batch of one shape, to the last bit (an assumption on its kernels). Nothing else computed from the data
        is released: losses and accuracies on training data are not private (the caller's duty). The sampling rate is
        public (the caller's duty).

    References:
        Abadi et al. 2016, Algorithm 1, with lots drawn by Poisson sampling, and the noisy sum divided by the expected
        lot size.

    >>> from hush.randomness import TestSource
    >>> from hush.training import privatize
    >>> model = nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> private = privatize(model, optimizer, (torch.randn(100, 4),), noise_multiplier=2.0, delta=1e-3, num_steps=2,
    ...                     source=TestSource(0))
    >>> for (x,) in private.loader:
    ...     step = private.step(private.model(x).square().sum(1))
    >>> private.steps_taken, round(private.guarantee().epsilon, 2)
    (2, 2.05)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        data: Any,
        plan: TrainingPlan,
        *,
        users: Users | None = None,
        projection: Ball | None = None,
        compile: bool | str | None = None,  # noqa: A002
        memory_limit: int | None = None,
        source: RandomSource | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Attach to the model. Call `privatize` or `start_training` instead, which describe the arguments."""
        check_instance("model", model, nn.Module)
        if isinstance(model, torch._dynamo.OptimizedModule):
            raise InvalidArgument(
                "model", "compiled", "the uncompiled model", "Pass compile=True, which compiles its private version"
            )
        refuse_ranks(model)
        optimizers = tuple(optimizer) if isinstance(optimizer, (list, tuple)) else (optimizer,)
        check_optimizers(model, optimizers, plan)
        if projection is not None:
            check_instance("projection", projection, Ball, "Such as Ball(radius=10.0)")
        if memory_limit is not None:
            check_count("memory_limit", memory_limit)
        check_budget(budget)
        checked_source = source_or_default(source)
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self.clipping = plan.clipping
        self.steps_taken = 0
        self._optimizers, self._projection = optimizers, projection
        self._process = os.getpid()
        self._generation = 0  # counts resumptions
        self._num_examples, fetch = fetcher(data)
        self._keys = RunKeys([(0, checked_source.words(4).tobytes())])
        self._assumptions = assumptions_of(checked_source)
        self._batches = Batches(plan, users, data, self._num_examples, self._key_for)
        self._sums = BatchSums(
            model,
            plan,
            compile=compile,
            memory_limit=memory_limit,
            projection_key=lambda: self._key_for("projections"),
        )
        self._updater = Updater(model, optimizers)
        self._weights, self._outside = WeightWatch(model), OutsideWatch(model, optimizers)
        self._check_steps: frozenset[int] | None = None
        self._withdrawn: str | None = None  # why the run no longer has a guarantee
        self._has_served = self._is_closed = False
        self._params = tuple(model.parameters())  # those that get noise
        # The step in progress: its clipped sums so far, the batch that waits for its losses, the next batch's position.
        self._totals: dict[str, Tensor] = {}
        self._current: PhysicalBatch | None = None
        self._position = 0
        # For each clipping group, the number of unclipped examples, minus half of all examples.
        self._unclipped: Tensor | float = 0.0
        self._random: list[Tensor] = []  # the states of torch's generators at the beginning of the step
        factor = plan.factor()
        self._recursion = None if factor is None else factor.recursion
        self._stream: NoiseStream | None = None
        self.loader = Loader(
            fetch,
            self._batches,
            lambda: self.steps_taken,
            plan.num_steps,
            self._serve,
            plan.contribution.change,
            self._batches.count,
            lambda: self._generation,
        )
        # Last, so that a run that is refused above reserves nothing.
        self._payment = None if budget is None else Payment(plan, budget, self._assumptions)

    def step(self, losses: Tensor | Callable[[], Tensor]) -> Step:
        """Process one physical batch, given the loss of each of its examples.

        Every call runs backward, clips and accumulates. The last call of a logical batch also adds the noise, lets the
        optimizers step and counts the step. An example whose gradient is not finite contributes zero.

        Args:
            losses: One loss per example of the batch that the loader served last. For `Projected` contributions, a
                function that runs the model and returns the losses.
        """
        self._refuse_forks()
        batch = self._current
        if batch is None:
            raise InvalidArgument("losses", "out of turn", "one call of step for each batch of private.loader")
        try:
            clipped = self._sums(losses, batch, self._clipping_of(self.steps_taken), step=self.steps_taken)
        except Unsupported as error:
            self._withdraw_for(error)
            raise
        if isinstance(self.clipping, Adaptive):
            clip_norm, shares = self.clipping.clip_norm, group_shares(self.model, self.clipping)
            weights = to_device(batch.weights, clipped.norms.device)
            self._unclipped = self._unclipped + count_unclipped(clipped, weights, [clip_norm * s for s in shares])
        for name, value in clipped.gradients.items():
            # In double precision, as each of them: in single precision, one example could change how all others round.
            if name in self._totals:
                self._totals[name].add_(value)
            else:  # a copy: the engine may reuse the memory for the next batch
                self._totals[name] = value if batch.ends else value.clone()
        self._sums.end()
        if self._sums.has_reads and _READ not in self._assumptions:
            self._assumptions = (*self._assumptions, _READ)
        self._current, self._position = None, self._position + 1
        if batch.ends:
            self._update()
        return Step(self.steps_taken, batch.ends)

    def _clipping_of(self, step: int) -> Clipping:
        """Return the clipping of a step, with the schedule applied. The noise scales with its clip norm."""
        factor = self.plan.clip_factor(step)
        return self.clipping if factor == 1 else replace(self.clipping, clip_norm=self.clipping.clip_norm * factor)

    def __repr__(self) -> str:
        """Return one line: the model, and how far the run is. The guarantee takes longer to compute."""
        steps = {"steps_taken": self.steps_taken, "num_steps": self.plan.num_steps}
        name = type(self.model).__name__
        return f"PrivateTraining({name}, {', '.join(f'{key}={value}' for key, value in steps.items())})"

    def _repr_html_(self) -> str:
        """Return the run for a notebook: how far it is, and its guarantee so far."""
        facts = {
            "model": type(self.model).__name__,
            "steps": f"{self.steps_taken:,} of {self.plan.num_steps:,}",
            "clipping": self.clipping,
            "noise multiplier": f"{self.plan.noise_multiplier:.4g}",
        }
        return card("Private training", facts, notes=[f"So far: {self.guarantee()}", *self._receipt_lines()])

    def _receipt_lines(self) -> list[str]:
        return [] if self.receipt is None else [str(self.receipt)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Refuse to copy: two runs with one key would use the same noise."""
        raise Unsupported("a copy of a run would use its noise twice", "Copy private.model, or use state_dict()")

    def __reduce__(self) -> Any:
        """Refuse to pickle, for the same reason."""
        raise Unsupported("a pickled run would use its noise twice", "Store private.state_dict()")

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the current weights.

        Its epsilon is infinite, and its first assumption says why, if a check has found after some steps that they were
        not private, or if weights were changed outside of private steps. A model may be changed after `close`.

        It assumes that the number of steps was fixed in advance. If you stopped early because of intermediate results,
        the guarantee of the whole plan holds: ``private.plan.guarantee()``.
        """
        is_early = 0 < self.steps_taken < self.plan.num_steps
        early = ("the run was not stopped because of what it had learned",) if is_early else ()
        paid = () if self._payment is None else self._payment.assumptions
        stated = self.plan.guarantee(self.steps_taken, (*early, *paid, *self._assumptions))
        reason = self._reason_to_withdraw()
        if reason is None:
            return stated
        method = "no method: the guarantee is withdrawn"
        return replace(stated, epsilon=math.inf, method=method, assumptions=(reason, *stated.assumptions))

    def _reason_to_withdraw(self) -> str | None:
        """Return in words why the run has no guarantee; None if it has one."""
        if self._withdrawn is None and self._current is not None and not self._is_closed:
            # A forward pass that stored something may have been refused for another reason.
            with suppress(StoredData):
                self._refuse_stored()
        return self._withdrawn or self._outside_changes()

    def _withdraw_for(self, error: Unsupported) -> None:
        """Withdraw the guarantee, if what a check has found is in the model, or may be in steps that were released."""
        if self._withdrawn is None and (self._sums.looks_back or isinstance(error, StoredData)):
            self._withdrawn = f"withdrawn after {self.steps_taken} steps: {' '.join(str(error).split())}"

    def _outside_changes(self) -> str | None:
        """Return in words what has changed since the last private step; None if nothing has."""
        changed = [] if self._is_closed else self._weights.changed()
        # While the loop has a batch, what a forward pass stores is compared with the state before it.
        if not changed and not self._is_closed and self._current is None:
            changed = self._outside.changed()
        if not changed:
            return None
        return f"withdrawn: {changed[0]} was changed outside of a private step, which costs privacy without bound"

    def _refuse_outside_changes(self) -> None:
        """Refuse to go on after parameters were changed outside of a private step."""
        reason = self._outside_changes()
        if reason is None:
            return
        if not self._has_served:
            # Weights may be set until the run begins, as they may be before privatize.
            self._assumptions = (*self._assumptions, _SET_LATER)
            self._weights.remember(contents=False)
            self._outside.remember()
            return
        self._withdrawn = self._withdrawn or reason
        raise Unsupported(
            f"a model or an optimizer that was changed outside of a private step, so the guarantee is {reason}",
            "Take no ordinary steps, load states with private.load_state_dict, change a copy of the model (also to "
            "evaluate averaged weights), bound weights by projection=, and store nothing in hooks",
        )

    @property
    def receipt(self) -> Receipt | None:
        """The cost of the run and the rest of the budget, once the run is closed; None unless a ledger pays for it."""
        return None if self._payment is None else self._payment.receipt(self.guarantee())

    def close(self) -> nn.Module:
        """End the run, detach it from the model, and return the model.

        If the run is charged to a budget, it is charged for the steps that were taken, where steps are charged one by
        one, and for the whole plan otherwise.
        """
        self._stop_watching()
        if self._payment is not None:
            self._refuse_forks()
            self._payment.settle(self.steps_taken)
        self._sums.detach()
        return self.model

    def _stop_watching(self) -> None:
        """Look a last time. What happens to the model after the end of the run is no concern of its guarantee."""
        if self._is_closed:
            return
        self._withdrawn = self._withdrawn or self._outside_changes()
        self._is_closed = True
        if self._current is not None:  # a batch that was served, and perhaps stored
            self._refuse_stored()

    def _refuse_stored(self) -> None:
        try:
            self._sums.refuse_stored()
        except StoredData as error:
            self._withdraw_for(error)
            raise

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of everything that resumes the run from the beginning of the current step.

        It contains the key of samples and noise. Anyone who has it can subtract the noise: keep it as safe as the data.
        """
        return {
            "format": _FORMAT,
            "plan": _terms(self.plan),
            "num_examples": self._num_examples,
            "steps_taken": self.steps_taken,
            "keys": list(self._keys.pairs),
            "recursion": repr(self._recursion),
            "owners": self._batches.owners,
            "clip_norm": self.clipping.clip_norm,
            "thresholds": moved_thresholds(self.clipping),
            "assumptions": self._assumptions,
            "withdrawn": self._reason_to_withdraw(),
            "turn": 1 if self._payment is None else self._payment.turn,
            "model": copy.deepcopy(self.model.state_dict()),
            "optimizers": [copy.deepcopy(optimizer.state_dict()) for optimizer in self._optimizers],
            "random": self._random if self._position else _random_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume a run. The plan must be the same, and this object must not have taken more steps than the state.

        Samples and noise are drawn under a new key, except in tests (see the module's docstring). Two runs that
        continue from the same state are two releases: their costs add up if you publish both. An epoch that has begun
        is finished in its own order. `BallsInBins` relies on that order being secret, so publish only one run that
        continues from a state. A budget pays for one: the next one is refused at its first step.
        """
        check_instance("state", state, dict)
        written = take_format(dict(state))
        if written != _FORMAT:
            raise InvalidArgument("format", written, "the result of state_dict")
        terms = {
            "plan": _terms(self.plan),
            "num_examples": self._num_examples,
            "recursion": repr(self._recursion),
            "owners": self._batches.owners,
        }
        for name, expected in terms.items():
            if state[name] != expected:
                raise InvalidArgument(name, state[name], f"{expected}", "A run must continue under its original plan")
        if not state["steps_taken"] >= self.steps_taken:
            raise InvalidArgument(
                "steps_taken",
                state["steps_taken"],
                f"at least the {self.steps_taken} of this run",
                "The same noise on other weights would reveal their difference",
            )
        self._abandon_step()
        if self._payment is not None:
            self._payment.loaded(state.get("turn", 1))
        # Before the rest: if loading fails half-way, the steps of the new weights are counted already.
        self.steps_taken = state["steps_taken"]
        self._has_served, self._check_steps = True, None
        try:
            self.model.load_state_dict(state["model"])
        finally:
            self._weights.remember(contents=True)
            self._outside.remember()
        for optimizer, optimizer_state in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(optimizer_state)
        self._outside.remember_states()
        self.clipping = restored_clipping(self.plan.clipping, state["clip_norm"], state.get("thresholds"))
        self._assumptions = tuple(state["assumptions"])
        self._withdrawn = self._withdrawn or state.get("withdrawn")
        is_test = "test randomness" in self._assumptions
        self._keys = RunKeys(state["keys"]).resumed(self.steps_taken, renew=not is_test)
        self._stream = None
        self._sums.resume(self.steps_taken)
        self._batches.forget()
        self._generation += 1  # ends loops that were started before
        torch.set_rng_state(state["random"][0].cpu())
        for device, generator_state in enumerate(state["random"][1:][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(generator_state.cpu(), device)

    def _key_for(self, purpose: str, step: int | None = None) -> bytes:
        """Return the key for a purpose in a step; by default in the current one."""
        return self._keys.derive(purpose, self.steps_taken if step is None else step)

    def _serve(self, batch: PhysicalBatch, fetched: Any) -> AbstractContextManager[Any]:
        """Prepare for the losses of a batch, which the loader is about to serve. Return a context for that time."""
        self._refuse_forks()  # before torch's generators are read: in a fork, CUDA's cannot be
        refuse_world()  # a process group may have been started since
        if batch.position == 0:
            self._abandon_step()  # a loop that was left half-way starts its step again
            self._random = _random_state()
        is_unanswered = self._current is not None
        if is_unanswered or (batch.step, batch.position) != (self.steps_taken, self._position):
            self._abandon_step()
            raise InvalidArgument("step", "out of turn", "one loop over private.loader, and one step for each batch")
        if self._payment is not None:
            self._payment.refuse_unpaid(self.steps_taken, begins=batch.position == 0)
        self._refuse_outside_changes()
        self._current, self._has_served = batch, True
        return self._sums.begin(batch, fetched, self._key_for("checks") if self._must_check(batch) else None)

    @property
    def _steps_to_check(self) -> frozenset[int]:
        if self._check_steps is None:
            self._check_steps = check_steps(self.plan.num_steps, self._key_for("check steps"))
        return self._check_steps

    def _must_check(self, batch: PhysicalBatch) -> bool:
        """Return whether to run a batch again on invented rows: the first one, and one in each of some secret steps."""
        step = self.steps_taken
        if step not in self._steps_to_check:
            return step == 0 and batch.position == 0
        return batch.position == check_position(step, self._key_for("checks"), self._batches.count(step))

    def _refuse_forks(self) -> None:
        if os.getpid() != self._process:
            raise Unsupported(
                "a run in a forked process would draw the same samples and noise as its parent",
                "Fork before privatize, or load state_dict() into a new run",
            )

    def _abandon_step(self) -> None:
        """Forget the physical batches of an unfinished step."""
        self._current, self._totals, self._position, self._unclipped = None, {}, 0, 0.0
        self._sums.end()

    def _update(self) -> None:
        """Finish a step: add the noise to the clipped sum, and let the optimizers step."""
        plan, totals, step, unclipped = self.plan, self._totals, self.steps_taken, self._unclipped
        clipping, key = self._clipping_of(step), self._key_for("noise")
        for optimizer in self._optimizers:
            check_optimizer(self.model, optimizer)  # parameter groups may have been added since
        refuse_later_parameters(self._params, self._optimizers)
        # Counted before anything is drawn or changed: a crash in between wastes a step, but never repeats its noise.
        self.steps_taken += 1
        self._abandon_step()
        if isinstance(clipping, Adaptive):
            noise_multiplier, batch_size = plan.setting(step)
            count_noise = clipping.noise_on_count(noise_multiplier, batch_size)
            shares, count_key = group_shares(self.model, clipping), self._key_for("noise of the count", step)
            counts = noisy_counts(count_key, step, unclipped, count_noise, len(shares))
            self.clipping = clipping.moved([count / batch_size + 0.5 for count in counts], shares)
        grid = self._grid(step, clipping.clip_norm)
        try:
            self._updater(key, step, totals, grid, plan.divisor(step), self._noise_stream())
        except StoredData as error:
            self._withdraw_for(error)
            raise
        for param in self._params:
            param.grad = None  # another step of an optimizer would repeat the update
        if self._projection is not None:
            self._projection.project(self.model.parameters())
        # Contents are read where they will be compared.
        self._weights.remember(contents=self.steps_taken == plan.num_steps or self.steps_taken in self._steps_to_check)
        self._outside.remember_states()
        if self._payment is not None and self.steps_taken == plan.num_steps:
            self._payment.settle(self.steps_taken)

    def _grid(self, step: int, clip_norm: float) -> NoiseGrid:
        """Return the grid of a step's noisy sum, from public numbers."""
        num_steps = self.plan.num_steps
        return NoiseGrid.of_sum(
            clip_norm=clip_norm,
            stddev=self.plan.noise_on_sum(step) * clip_norm,
            size=sum(param.numel() for param in self.model.parameters() if param.requires_grad),
            smallest_share=self.plan.contribution.smallest_share,
            rounding_gain=0.0 if self._recursion is None else self._recursion.rounding_gain(num_steps),
        )

    def _noise_stream(self) -> NoiseStream | None:
        """Return the correlated noise of the plan, or None if the noise is independent."""
        if self._recursion is None:
            return None
        if self._stream is None:
            trained = [param for param in self.model.parameters() if param.requires_grad]
            keys = [(first, self._key_for("noise", first)) for first, _ in self._keys.pairs]
            self._stream = NoiseStream(
                self._recursion,
                keys,
                sum(param.numel() for param in trained),
                num_steps=self.plan.num_steps,
                stddev=self._grid(0, self.plan.clipping.clip_norm).stddev,
                device=trained[0].device,
            )
        return self._stream


def unit_rows(private: PrivateTraining, unit: int) -> NDArray[np.int64]:
    """Return the examples of a unit of a run. Audits use it to find the rows of a canary."""
    return private._batches.rows_of(unit)


def leave_out_unit(private: PrivateTraining, unit: int, is_left_out: Callable[[int], bool]) -> None:
    """Remove a unit from the samples of some steps, for audits that compare a run with and without a canary.

    Args:
        private: The run, before its first step.
        unit: The unit.
        is_left_out: From the number of a step to whether the unit is missing there.
    """
    private._batches.leave_out(unit, is_left_out)


def _terms(plan: TrainingPlan) -> str:
    """Return the terms that a resumed run must share: the plan without the physical batch size."""
    return repr(replace(plan, physical_batch_size=1))


def _random_state() -> list[Tensor]:
    """Return the states of torch's generators, which dropout draws from."""
    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
