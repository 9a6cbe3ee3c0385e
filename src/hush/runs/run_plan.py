"""The plan of a run: everything that is decided before its first step, and what that costs.

`hush.runs.draft` decides all that needs no data; `RunCost` there states what the run costs.

    settings + data  ->  draft_plan  ->  calibrated  ->  training steps  ->  guarantee

`RunPlan.training` is the `hush.training.TrainingPlan` that the run hands to `hush.training.start_training`. After
that, `RunPlan.with_training` replaces it by the plan of the training that was started, so that the guarantee, the
budget's charge and the metrics are about the very object that draws the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hush.accounting import Event, GaussianEvent, ParallelByIndexEvent
from hush.accounting.events import QualifiedEvent
from hush.data import Prepared
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee, Unit
from hush.runs.dataset import count_units
from hush.runs.draft import RunCost, completed, draft_training
from hush.runs.networks import Network, adapt, build_network, choose_model
from hush.runs.settings import Settings
from hush.training import TrainingPlan, Users


@dataclass(frozen=True, eq=False, kw_only=True)
class RunPlan:
    """What a run will do, and what it costs.

    Attributes:
        settings: The settings, with a value for each that was left out.
        data: The examples to train on and to measure with, and what preparing them cost.
        training: The plan that draws the noise of training.
        users: Who owns each training example; None if each is its own unit.
        evaluation: What the held-out metrics cost the held-out units; None if the metrics are exact, or there are none.
        assumptions: What the guarantee rests on besides what the training plan assumes.
    """

    settings: Settings
    data: Prepared
    training: TrainingPlan
    users: Users | None
    evaluation: GaussianEvent | None = None
    assumptions: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model's name, or its factory's."""
        assert self.settings.model is not None
        return self.settings.model

    @property
    def learning_rate(self) -> float:
        """The learning rate at the start."""
        assert self.settings.learning_rate is not None
        return self.settings.learning_rate

    def network_arguments(self) -> dict[str, Any]:
        """Return the arguments of `hush.runs.networks.build_network`, as model.json stores them."""
        shape, num_classes = self.data.shape, len(self.data.classes)
        return {"model": self.model, "shape": shape, "num_classes": num_classes, "seed": self.settings.seed}

    def build_network(self) -> Network:
        """Return the network with its starting weights: public ones, where there is a public checkpoint."""
        network = build_network(**self.network_arguments())
        adapt(network, self.settings)
        return network

    def with_training(self, training: TrainingPlan) -> RunPlan:
        """Return the same plan with another training plan."""
        return replace(self, training=training)

    @property
    def cost(self) -> RunCost:
        """What the run costs a unit, on either side."""
        return RunCost(training=self.training, learning=self.data.event, evaluation=self.evaluation)

    def event(self, num_steps: int | None = None) -> Event:
        """Return what a unit that is trained on takes part in: learning, and the first steps or all."""
        return self.cost.event(num_steps)

    def charged_event(self) -> Event:
        """Return what any unit takes part in, on whichever side it is: what a ledger charges."""
        either = self.event() if self.evaluation is None else ParallelByIndexEvent((self.event(), self.evaluation))
        return QualifiedEvent(either, self.training.relation.value, str(self.training.unit), self.assumptions)

    def epsilon(self, num_steps: int | None = None) -> float:
        """Return the epsilon of learning and of the first steps, or of all."""
        return self.cost.epsilon(num_steps)

    def guarantee(self, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return what the whole run guarantees to every unit, on whichever side it is; it may assume more."""
        return self.cost.guarantee((*self.assumptions, *assumptions))


def draft_plan(settings: Settings, data: Prepared, *, device: str) -> RunPlan:
    """Return what the settings mean for these data, with a noise multiplier of 1.

    Only public numbers decide it: the shape of an input, the number of classes, and how many units there are.
    """
    num_units = count_units(data.train)
    if num_units < 2:
        raise InvalidArgument("data", settings.data, "at least two units to train on, with a target")
    num_all_units = num_units + count_units(data.test)
    owners = data.train.units
    used = completed(
        settings,
        model=choose_model(settings, data.shape),
        num_units=num_units,
        num_all_units=num_all_units,
        rows_are_units=owners is None,
        learns=data.event is not None,
        device=device,
    )
    users = None if owners is None else Users(owners, rows_per_unit=used.rows_per_unit)
    training = draft_training(used, num_units=num_units, unit=Unit.example() if users is None else users.unit)
    return RunPlan(settings=used, data=data, training=training, users=users)


def calibrated(plan: RunPlan) -> RunPlan:
    """Return the plan with the least noise for which learning and training together stay within epsilon."""
    return plan.with_training(plan.cost.calibrated(plan.settings.epsilon).training)
