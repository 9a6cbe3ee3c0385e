"""A private training run: what `hush.privatize` returns."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import Source, assumptions_of, source_or_default
from hush.training._check import check_first_batch
from hush.training._engine import Engine
from hush.training._noise import gaussian
from hush.training._plan import Plan, make_plan
from hush.training._sampling import Loader, Micro, fetcher, poisson_sample


@dataclass(frozen=True, slots=True)
class Step:
    """What happened: how many steps have been taken, and whether this call completed one."""

    number: int
    complete: bool


class PrivateTraining:
    """A model, an optimizer and a dataset, trained under a plan.

    Attributes:
        model: The caller's own model.
        optimizer: The caller's own optimizer.
        loader: Physical batches; iterate over it once, calling `step` for each.
        plan: What was agreed on.
        steps_taken: How many noisy steps the weights have seen.

    Guarantee:
        After n steps the weights are (epsilon, delta)-differentially private, as `guarantee` says; also everything that
        is computed from the weights alone.

    Assumes:
        The loss of an example depends on that example only (checked here, on the first batch, by the gradients of two
        losses). Nothing else of the data is released: losses and accuracies on training data are not private (the
        caller's duty). The sampling rate is public (the caller's duty).

    References:
        Abadi et al. 2016, Algorithm 1, with the lots drawn by Poisson sampling, and the noisy sum divided by the
        expected lot size.
    """

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, dataset: Any, plan: Plan, *, source: Source | None = None
    ) -> None:
        """Attach to the model; `hush.privatize` makes the plan, too."""
        check_instance("model", model, nn.Module)
        check_instance("optimizer", optimizer, Optimizer, "Such as torch.optim.SGD(model.parameters(), lr=0.1)")
        _check_optimizer(model, optimizer)
        chosen = source_or_default(source)
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self.steps_taken = 0
        self._num_examples, fetch = fetcher(dataset)
        self._key = chosen.words(4).tobytes()
        self._assumptions = assumptions_of(chosen)
        self._engine = Engine(model)
        self._totals: dict[str, Tensor] = {}
        self._current: Micro | None = None
        self._checked = False
        self.loader = Loader(
            fetch, self._sample, plan.physical_batch_size, lambda: self.steps_taken, plan.num_steps, self._begin
        )

    def step(self, losses: Tensor) -> Step:
        """Take one loss per example of the batch that the loader gave; at the end of a logical batch, update.

        Backward, clipping and accumulation in every call; noise, the optimizer's step and accounting in the last of a
        logical batch. An example whose gradient is not finite contributes nothing.
        """
        batch = self._current
        if batch is None:
            raise InvalidArgument("losses", "out of turn", "one call of step for each batch of private.loader")
        if not self._checked:
            check_first_batch(self._engine, losses)
            self._checked = True
        self._engine.backward(losses)
        weights = torch.from_numpy(batch.weights).to(losses.device)
        found = self._engine.clipped_sum(self.plan.clip_norm, weights, num_summed=2 * self.plan.batch_size)
        for name, value in found.gradients.items():
            self._totals[name] = self._totals[name].add_(value) if name in self._totals else value
        self._engine.end()
        self._current = None
        if batch.ends:
            self._update()
        return Step(self.steps_taken, batch.ends)

    def guarantee(self) -> Guarantee:
        """Return what the weights, as they are now, give away."""
        return self.plan.guarantee(self.steps_taken, self._assumptions)

    def close(self) -> nn.Module:
        """End the run: give the model its ordinary way forward back, and return it."""
        self._engine.detach()
        self._engine.end()
        return self.model

    def state_dict(self) -> dict[str, Any]:
        """Return all that resumes the run exactly, from the beginning of the current step.

        It contains the key of the noise: whoever has it can subtract the noise. Keep it as safe as the data.
        """
        return {
            "schema": "hush.training/1",
            "plan": _plan_state(self.plan),
            "num_examples": self._num_examples,
            "steps_taken": self.steps_taken,
            "key": self._key,
            "assumptions": self._assumptions,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume; the plan must be the same, and steps that were taken here already cannot be taken back."""
        check_instance("state", state, dict)
        if state.get("schema") != "hush.training/1":
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
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps_taken, self._key = state["steps_taken"], state["key"]
        self._assumptions = tuple(state["assumptions"])
        self._abandon()

    def _sample(self, step: int) -> NDArray[np.int64]:
        return poisson_sample(self._key_for("sampling"), step, self._num_examples, self.plan.sampling_rate)

    def _key_for(self, purpose: str) -> bytes:
        return hashlib.sha256(self._key + purpose.encode()).digest()

    def _begin(self, batch: Micro) -> None:
        if self._current is not None:
            self._abandon()
            raise InvalidArgument("step", "not called", "one private.step(losses) for every batch of the loader")
        self._current = batch
        self._engine.begin(len(batch.indices))

    def _abandon(self) -> None:
        """Forget an unfinished logical batch."""
        self._current, self._totals = None, {}
        self._engine.end()

    def _update(self) -> None:
        """Add the noise to the clipped sum, once; divide by the public batch size; let the optimizer step."""
        plan = self.plan
        params = {name: param for name, param in self.model.named_parameters() if param.requires_grad}
        sizes = [param.numel() for param in params.values()]
        device = next(iter(params.values())).device
        noise = gaussian(self._key_for("noise"), self.steps_taken, sum(sizes), device)
        noise.mul_(plan.noise_multiplier * plan.clip_norm / plan.batch_size)
        for (name, param), part in zip(params.items(), torch.split(noise, sizes), strict=True):
            noisy = part.to(param.device).view_as(param)
            if name in self._totals:
                noisy.add_(self._totals[name], alpha=1 / plan.batch_size)
            param.grad = noisy.to(param.dtype)
        # Counted before the weights change: a crash in between may waste a step, never give one away.
        self.steps_taken += 1
        self._totals = {}
        self.optimizer.step()


def _plan_state(plan: Plan) -> dict[str, Any]:
    return asdict(plan) | {"relation": plan.relation.value, "unit": str(plan.unit)}


def _check_optimizer(model: nn.Module, optimizer: Optimizer) -> None:
    own = {id(param) for param in model.parameters()}
    for group in optimizer.param_groups:
        if any(id(param) not in own for param in group["params"]):
            raise InvalidArgument("optimizer", type(optimizer).__name__, "one over the model's own parameters")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise Unsupported("LBFGS evaluates the loss several times per step", "Use SGD or AdamW")
    if not any(param.requires_grad for param in model.parameters()):
        raise InvalidArgument("model", type(model).__name__, "at least one parameter that is trained")


def privatize(
    model: nn.Module,
    optimizer: Optimizer,
    dataset: Any,
    *,
    delta: float,
    clip_norm: float = 1.0,
    batch_size: int | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    epochs: float | None = None,
    num_steps: int | None = None,
    physical_batch_size: int | None = None,
    relation: Relation = Relation.ADD_OR_REMOVE,
    unit: Unit | None = None,
    source: Source | None = None,
) -> PrivateTraining:
    """Prepare a model for private training: three lines more in an ordinary loop.

    Args:
        model: Any module that treats examples, in the first dimension, one by one. It stays the caller's own.
        optimizer: Any of torch's over the model's parameters.
        dataset: Tensors of one length (as a tuple, or a TensorDataset), or a Dataset with a length.
        delta: The delta of the guarantee; less than one over the number of examples.
        clip_norm: To what norm each example's gradient is clipped.
        batch_size: How many examples are in a batch on average; without it, all are in every batch (DP-GD).
        epsilon: What the whole run may cost; the noise is calibrated to it.
        noise_multiplier: The noise instead; with epsilon as well, the run ends before it would cost more.
        epochs: How many times an example is seen on average.
        num_steps: Or how many steps are taken.
        physical_batch_size: How many examples go through the model at once; only memory and speed depend on it.
        relation: What neighbouring datasets are.
        unit: What is protected.
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
        clip_norm=clip_norm,
        batch_size=batch_size,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        epochs=epochs,
        num_steps=num_steps,
        physical_batch_size=physical_batch_size,
        **settings,
    )
    return PrivateTraining(model, optimizer, dataset, plan, source=source)
