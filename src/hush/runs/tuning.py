"""A private search for hyper-parameters: only the best of many runs is released, and all are accounted for.

Most of the budget pays for the search. The rest pays, on the side of the training units, for learning undeclared
bounds, values and classes; and on the side of the held-out units, for the metrics of the best model. Both sides take
part in the search: training units through the runs, held-out units through the scores. So each side composes the search
with its own remaining parts (basic composition), and the guarantee states the larger of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hush.accounting import ComposedEvent, Event, GaussianEvent, ParallelByIndexEvent, PldAccountant
from hush.accounting import budget as charging
from hush.accounting.events import QualifiedEvent
from hush.accounting.receipts import check_budget, receipt_of, row_of
from hush.data import Outline, Prepared
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.guarantee import Guarantee
from hush.randomness import RandomSource, source_or_default
from hush.runs.dataset import COUNTS_ARE_PUBLIC, assumptions_of, plan_for, read_dataset
from hush.runs.draft import evaluation_event, learning_delta
from hush.runs.folder import Folder
from hush.runs.job import compute_features, device_named, make_measurer, note_row, remove_empty
from hush.runs.networks import Network, class_probabilities, starting_network
from hush.runs.options import options_of
from hush.runs.outcome import Outcome, publish, repeat_command, stage
from hush.runs.progress import Progress, Silence
from hush.runs.run_plan import RunPlan, shortened_event
from hush.runs.settings import Settings
from hush.runs.steps import train_completely
from hush.training import (
    Candidate,
    HeldOutAnswers,
    Repetitions,
    Score,
    TrainingPlan,
    Tuned,
    TuningPlan,
    plan_tuning,
)

_RATE_FACTORS = (0.25, 0.5, 1.0, 2.0)  # the default search: these times the default learning rate
Choice = Mapping[str, Any]


def tune(
    settings: Settings,
    space: Mapping[str, Sequence[Any]],
    output: Path,
    *,
    mean_runs: float = 10.0,
    progress: Progress | None = None,
    source: RandomSource | None = None,
    budget: charging.Budget | None = None,
) -> Outcome:
    """Search for hyper-parameters, and write the best run as `train` does. The number of runs stays secret.

    Args:
        settings: The settings common to all runs, and the budget of the whole search.
        space: The values to choose from, by the name of a setting; if empty, learning rates around the default.
        output: The folder; it must be new or empty.
        mean_runs: How many runs there are on average. Their number is random and secret.
        progress: Follows the search; without it, nothing is shown. How far the search has come is secret.
        source: The source of secret keys; a TestSource in tests.
        budget: The budget to charge, such as a ledger's; reserved before the search starts.

    Returns:
        The best run.

    Guarantee:
        Everything that is written, except files named not-private, is (epsilon, delta)-differentially private: the
        search, learning and the held-out metrics together.

    Assumes:
        What `hush.training.tune` and `train` assume (the caller's duty). No one observes how long the search took, or
        its intermediate choices (the caller's duty).

    References:
        Papernot & Steinke 2022, Theorem 2 (logarithmic number of runs).
    """
    check_budget(budget)
    folder = Folder.create(output)
    try:
        search = {"search": {name: list(values) for name, values in space.items()}, "mean_runs": mean_runs}
        folder.write_json("run.json", {"format": "hush.run/1", "settings": settings.to_json(), **search})
        with folder.locked():
            outcome = _TuningJob(folder, settings, progress or Silence(), source, budget).run(space, mean_runs)
        folder.finish()
        return outcome
    except (HushError, KeyboardInterrupt):  # nothing was released
        remove_empty(folder)
        raise


def searchable() -> dict[str, str]:
    """Return the settings that can be searched: the name of the field, and the name on the command line."""
    return {item.name: item.flag.lstrip("-") for item in options_of(Settings, "tune") if item.searchable}


@dataclass(frozen=True, slots=True)
class _ReservedShare:
    """The share of epsilon and delta that the search leaves for learning and held-out metrics."""

    share: float
    epsilon: float
    delta: float

    def evaluation_event(self) -> GaussianEvent:
        """Return the cost of the best model's held-out metrics."""
        return evaluation_event(self.epsilon * self.share, self.delta * self.share)


@dataclass(frozen=True, eq=False, slots=True)
class _PlannedSearch:
    """A search that was planned from public numbers.

    Attributes:
        outline: The public numbers.
        plans: The plan of each run that the search may make, by its choice of settings.
        reserve: The share left for learning and for the held-out metrics.
        search: The search.
    """

    outline: Outline
    plans: Mapping[str, RunPlan]
    reserve: _ReservedShare
    search: TuningPlan


class _TuningJob:
    """One search for hyper-parameters, in one process."""

    def __init__(
        self,
        folder: Folder,
        settings: Settings,
        progress: Progress,
        source: RandomSource | None,
        budget: charging.Budget | None,
    ) -> None:
        self._budget = budget
        self._device = device_named(settings.device)
        self._folder, self._settings, self._progress = folder, settings.replace(device=str(self._device)), progress
        self._source = source_or_default(source)
        self._key_assumptions = ("test randomness",) if source is not None else ()
        self._features: dict[tuple[str, str], Tensor] = {}
        self._planned: _PlannedSearch | None = None
        self._reservation: charging.Reservation | None = None
        self._begun = False  # whether a run of the search may have started

    def run(self, space: Mapping[str, Sequence[Any]], mean_runs: float) -> Outcome:
        """Take the search from the data to the report of its best run."""
        try:
            return self._run(space, mean_runs)
        except KeyboardInterrupt:
            if self._reservation is None or self._reservation.is_open():
                self._folder.finish()  # the best run may be among the secrets already, and would not be paid for
            if self._reservation is not None and self._reservation.is_open():
                self._reservation.void()  # a search shows nothing before its end
            raise
        except HushError:
            self._settle_refused()
            raise
        finally:
            if self._reservation is not None:
                self._reservation.release()

    def _run(self, space: Mapping[str, Sequence[Any]], mean_runs: float) -> Outcome:
        settings = self._settings
        # Half of the reserved delta pays for the noise of learning, and half for values that only one unit has.
        delta_share = learning_delta(settings) * settings.learn_share / 2
        key = self._source.words(4).tobytes()
        data = read_dataset(
            settings,
            key,
            max(delta_share, 1e-30),
            self._progress,
            before_learning=lambda outline: self._plan_and_reserve(outline, space, mean_runs),
        )
        assert self._planned is not None
        planned = self._planned
        self._compute_features(planned.plans, data)
        self._begun = True
        best = planned.search.run(self._trainer(planned.plans, data), source=self._source, progress=False)
        if not best.found or best.settings is None:
            raise InvalidArgument("space", str(list(space)), "settings that can be trained", "All runs failed")
        return self._publish(best, planned, data, self._command(space, mean_runs))

    def _plan_and_reserve(self, outline: Outline, space: Mapping[str, Sequence[Any]], mean_runs: float) -> None:
        """Plan the search from public numbers, and reserve its cost. After this, everything may depend on the data."""
        if not outline.plan.predicts_class:
            raise Unsupported("a search for a model of numbers or labels", "hush train needs no search to train one")
        settings, device = self._settings, str(self._device)
        values = _checked_space(space, plan_for(outline, settings, device=device))
        plans = {
            _name(choice): plan_for(outline, settings.replace(**choice), device=device)
            for choice in _combinations(values)
        }
        delta = next(iter(plans.values())).training.delta
        reserve = self._reserve_share(outline, delta)
        is_public = outline.test_is_public
        search = plan_tuning(
            values,
            cost=lambda choice, noise_multiplier: _training_plan(plans[_name(choice)], noise_multiplier),
            score=Score.public("the test part of the dataset") if is_public else Score.private(outline.num_held_out),
            epsilon=settings.epsilon * (1 - reserve.share),
            delta=delta * (1 - reserve.share),
            repetitions=Repetitions.logarithmic(mean_runs),
        )
        self._progress.say(
            f"Searching {len(plans)} settings with about {mean_runs:g} runs (their number is secret). It costs "
            f"epsilon {search.guarantee().epsilon:.3g}; one of its runs would cost {search.one_run().epsilon:.3g}."
        )
        self._planned = _PlannedSearch(outline, plans, reserve, search)
        self._reservation = self._charge(self._planned)

    def _settle_refused(self) -> None:
        """Settle the reservation of a search that ends without a result. At most, learning has released something."""
        reservation, planned = self._reservation, self._planned
        if reservation is None or planned is None or not reservation.is_open():
            return
        if self._begun:
            reservation.commit()  # that all runs failed is a result of the search
        elif planned.outline.event is None:
            reservation.void()
        else:
            reservation.commit(self._qualified(planned.outline.event, planned))

    def _reserve_share(self, outline: Outline, delta: float) -> _ReservedShare:
        """Return which share of the budget learning and held-out metrics need."""
        settings, is_public = self._settings, outline.test_is_public
        if not outline.num_held_out:
            raise InvalidArgument("holdout", settings.holdout, "more than 0", "Runs are compared on held-out units")
        if not is_public and not settings.learn_share > 0:
            raise InvalidArgument(
                "learn_share", settings.learn_share, "more than 0", "The metrics of the best model need a share"
            )
        share = 0.0 if is_public and outline.event is None else settings.learn_share
        if outline.event is not None:  # a small delta can make learning cost more than its share
            cost = PldAccountant().compose(outline.event).epsilon(delta * share)
            if not cost < settings.epsilon:
                raise InvalidArgument("learn_share", settings.learn_share, "a share that is enough for learning")
            share = max(share, cost / settings.epsilon)
        return _ReservedShare(share, settings.epsilon, delta)

    def _charge(self, planned: _PlannedSearch) -> charging.Reservation | None:
        """Reserve what the search costs, with learning for training units, and with metrics for held-out units."""
        if self._budget is None:
            return None
        training: Event = planned.search.event()
        evaluation = training
        if planned.outline.event is not None:
            training = ComposedEvent((planned.outline.event, training))
        if not planned.outline.test_is_public:
            evaluation = ComposedEvent((evaluation, planned.reserve.evaluation_event()))
        event = self._qualified(ParallelByIndexEvent((training, evaluation)), planned)
        purpose = f"hush tune on {Path(self._settings.data).name}"[:400]
        folder = str(self._folder.path.resolve())
        reservation = self._budget.reserve(
            charging.Charge(event=event, purpose=purpose, delta=planned.reserve.delta, folder=folder)
        )
        reservation.hold(1)  # begun: from here on, even a refusal may depend on the data
        note_row(self._folder, reservation)
        return reservation

    def _qualified(self, event: Event, planned: _PlannedSearch) -> Event:
        """Return an event with the search's unit and relation, and with all that it assumes."""
        search = planned.search
        return QualifiedEvent(event, search.relation, search.unit, self._assumptions(planned.outline))

    def _assumptions(self, outline: Outline) -> tuple[str, ...]:
        """Return the assumptions of the prepared data and of the keys."""
        return (*assumptions_of(outline), COUNTS_ARE_PUBLIC, *self._key_assumptions)

    def _compute_features(self, plans: Mapping[str, RunPlan], data: Prepared) -> None:
        """Compute the features of all rows, once for each model."""
        for plan in plans.values():
            for part, examples in (("train", data.train), ("test", data.test)):
                if (plan.model, part) not in self._features:
                    network = starting_network(plan.settings, data)
                    features = compute_features(network, examples.inputs, self._device, self._progress)
                    self._features[plan.model, part] = features

    def _trainer(
        self, plans: Mapping[str, RunPlan], data: Prepared
    ) -> Callable[[dict[str, Any], float], Candidate | HeldOutAnswers]:
        """Return the function that the search calls for each run."""
        targets = torch.from_numpy(data.train.targets).to(self._device)

        def train(choice: dict[str, Any], noise_multiplier: float) -> Candidate | HeldOutAnswers:
            plan = plans[_name(choice)]
            plan = plan.with_training(_training_plan(plan, noise_multiplier))
            network = starting_network(plan.settings, data).to(self._device)
            training_data = self._features[plan.model, "train"], targets
            train_completely(plan, network, training_data, units=data.train.units, source=None)
            predictions = self._probabilities(plan, network.eval()).argmax(1)
            is_known = data.test.targets >= 0
            # A row without a known class counts half: neither right nor wrong.
            correct = np.where(is_known, predictions == data.test.targets, 0.5)
            if data.test_is_public:
                return Candidate(float(correct[is_known].mean()), network)
            return HeldOutAnswers(correct, network, units=data.test.units)

        return train

    def _probabilities(self, plan: RunPlan, network: Network) -> Any:
        """Return a network's class probabilities for the held-out rows."""
        return class_probabilities(network.classifier, self._features[plan.model, "test"])

    def _publish(self, best: Tuned, planned: _PlannedSearch, data: Prepared, command: str) -> Outcome:
        """Commit the search, then write the best run with the guarantee of the whole search."""
        choice, network, reserve = dict(best.settings or {}), best.result, planned.reserve
        plan = planned.plans[_name(choice)]
        assert best.noise_multiplier is not None
        plan = replace(
            plan,
            training=_training_plan(plan, best.noise_multiplier),
            evaluation=None if data.test_is_public else reserve.evaluation_event(),
            assumptions=self._assumptions(planned.outline),
        )
        measurer = make_measurer(plan, data, num_points=0, source=self._source if self._key_assumptions else None)
        guarantee, parts = _total(best, plan, reserve)
        stage(self._folder, plan, data, network, lambda: measurer.figures(self._probabilities(plan, network)))
        if self._reservation is not None:
            self._reservation.commit()
        for sentence in data.learned:
            self._progress.say(f"  {sentence}")
        chosen = ", ".join(f"{name}={value}" for name, value in choice.items())
        self._progress.say(f"The best settings: {chosen}")
        outcome = publish(
            self._folder,
            self._settings.replace(**choice),
            plan,
            data,
            network,
            guarantee=replace(guarantee, charged=row_of(self._reservation)),
            budget=parts,
            command=command,
            more={"found by a search": chosen},
        )
        outcome = replace(outcome, receipt=receipt_of(self._reservation, guarantee))
        row = {
            "step": plan.training.num_steps,
            "epsilon": guarantee.epsilon,
            "accuracy": outcome.accuracy,
            "private": plan.evaluation is not None,
        }
        self._folder.append("metrics.jsonl", row)
        return outcome

    def _command(self, space: Mapping[str, Sequence[Any]], mean_runs: float) -> str:
        """Return the command that repeats the search."""
        flags, words = searchable(), ["--runs", f"{mean_runs!r}"]
        for name, values in space.items():
            words += ["--search", f"{flags[name]}={','.join(map(str, values))}"]
        return repeat_command(self._settings, self._folder.path, "tune", words)


def _training_plan(plan: RunPlan, noise_multiplier: float) -> TrainingPlan:
    """Return the plan of a run of the search, which determines both its noise and its cost."""
    return replace(plan.training, noise_multiplier=noise_multiplier)


def _total(best: Tuned, plan: RunPlan, reserve: _ReservedShare) -> tuple[Guarantee, list[dict[str, Any]]]:
    """Return the joint guarantee of search, learning and metrics, and the cost of each part.

    Each side has the search and one of the other two parts. The guarantee states the side with the larger sum.
    """
    parts = [{"what": "the search", "epsilon": best.guarantee.epsilon, "event": "private selection"}]
    rests = []
    accountant = PldAccountant(relation=plan.training.relation, unit=plan.training.unit)
    for what, event in (
        ("learning bounds, values and classes", plan.learning),
        ("held-out metrics, for other units", plan.evaluation),
    ):
        if event is not None:
            cost = accountant.compose(event).epsilon(reserve.delta * reserve.share)
            parts.append({"what": what, "epsilon": cost, "event": shortened_event(event)})
            rests.append(cost)
    guarantee = Guarantee(
        epsilon=best.guarantee.epsilon + max(rests, default=0.0),
        delta=reserve.delta,
        unit=best.guarantee.unit,
        relation=best.guarantee.relation,
        method=f"{best.guarantee.method}, with learning and held-out metrics by basic composition",
        assumptions=tuple(dict.fromkeys((*best.guarantee.assumptions, *plan.assumptions))),
    )
    return guarantee, parts


def _checked_space(space: Mapping[str, Sequence[Any]], default: RunPlan) -> dict[str, list[Any]]:
    """Return the values to choose from: those that were given, or learning rates around the default."""
    for name in space:
        if name not in searchable():
            raise InvalidArgument("search", name, f"one of {', '.join(searchable())}")
    if not space:
        return {"learning_rate": [default.learning_rate * factor for factor in _RATE_FACTORS]}
    return {name: list(values) for name, values in space.items()}


def _combinations(space: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every choice of one value for each setting."""
    choices: list[dict[str, Any]] = [{}]
    for name, values in space.items():
        choices = [{**choice, name: value} for choice in choices for value in values]
    return choices


def _name(choice: Choice) -> str:
    """Return a key for a choice, whatever the order of its settings."""
    return repr(sorted(choice.items()))
