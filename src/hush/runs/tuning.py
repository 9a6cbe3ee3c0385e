"""A search for hyper-parameters over whole runs, of which only the best is told, and which is paid for.

The budget is shared: a search for most of it; the rest, for those who are trained on, to learn what is not declared,
and, for those held out, for the figures about the best model. What a person takes part in adds up (basic composition):
those who are trained on in learning and in the search, those held out in the search, by their part of its scores, and
in the figures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hush.accounting import ComposedEvent, Event, ParallelByIndexEvent, PldAccountant
from hush.accounting import budget as charging
from hush.accounting.events import QualifiedEvent
from hush.data import Prepared
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Guarantee
from hush.randomness import KeyedSource, RandomSource, source_or_default
from hush.runs.budget import RunCost
from hush.runs.drafts import COUNTED, Draft, Ready, drafted, read, stated_by, values_of_groups
from hush.runs.figures import Measurer, evaluation_noise
from hush.runs.folder import Folder
from hush.runs.job import device_named, remove_empty
from hush.runs.networks import Network, adapt
from hush.runs.outcome import Outcome, command, publish
from hush.runs.progress import Progress, Silence
from hush.runs.settings import Settings
from hush.runs.steps import after_step, begin, losses_of
from hush.training import (
    Candidate,
    HeldOutAnswers,
    LogarithmicRepetitions,
    PrivateScore,
    PublicScore,
    TrainingPlan,
    Tuned,
    TuningPlan,
    merge_lora,
    plan_tuning,
)

SEARCHED = ("model", "learning_rate", "batch_size", "epochs", "num_steps", "clip_norm", "momentum")
_RATES = (0.25, 0.5, 1.0, 2.0)  # times the default


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
    """Search, and write the best run down as `train` does. How many runs there were, nobody gets to know.

    Args:
        settings: What all runs have in common, and the budget of everything together.
        space: The values to choose from, by the name of a setting; without any, learning rates around the default.
        output: The folder; it must be new or empty.
        mean_runs: How many runs there are on average. Their number is drawn at random, and secret.
        progress: Who is told what goes on; not how far it is.
        source: Where secret keys come from; for tests, a TestSource.
        budget: What the search is charged to, such as a ledger's data set: reserved before it begins.

    Guarantee:
        (epsilon, delta)-differential privacy of all that is written but what is named not-private.

    Assumes:
        What `hush.training.tune` and `train` assume (the caller's duty); that the search's choices, and its time, are
        seen by nobody (the caller's duty).

    References:
        Papernot & Steinke 2022, Theorem 2 (logarithmic number of runs).
    """
    folder = Folder.create(output)
    try:
        said = {"search": {name: list(values) for name, values in space.items()}, "mean_runs": mean_runs}
        folder.write_json("run.json", {"format": "hush-run/1", "settings": settings.to_json(), **said})
        with folder.locked():
            outcome = _Search(folder, settings, progress or Silence(), source, budget).run(space, mean_runs)
        folder.finish()
        return outcome
    except (HushError, KeyboardInterrupt):  # nothing was told
        remove_empty(folder)
        raise


class _Search:
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
        self._folder, self._settings, self._progress = folder, settings.at(device=str(self._device)), progress
        self._source = source_or_default(source)
        self._stated = ("test randomness",) if source is not None else ()
        self._features: dict[tuple[str, str], Tensor] = {}

    def run(self, space: Mapping[str, Sequence[Any]], mean_runs: float) -> Outcome:
        settings = self._settings
        self._said = ["--runs", f"{mean_runs!r}"]
        for name, values in space.items():
            self._said += ["--search", f"{name.replace('_', '-')}={','.join(map(str, values))}"]
        # Half of the share of delta for noise, half for values that only one unit has.
        share = (settings.delta or 1e-5) * settings.learn_share / 2
        prepared = read(settings, self._source.words(4).tobytes(), max(share, 1e-30), self._progress)
        listed = _space(space, drafted(settings, prepared))
        drafts = {_name(choice): drafted(settings.at(**choice), prepared) for choice in _combined(listed)}
        delta = next(iter(drafts.values())).plan.delta
        told = prepared.test_is_public and len(prepared.test) > 0
        if not told and not settings.learn_share > 0:
            raise InvalidArgument(
                "learn_share", settings.learn_share, "more than 0", "Figures about the best model need it"
            )
        if not len(prepared.test):
            raise InvalidArgument("holdout", settings.holdout, "more than 0", "Runs are compared on those held out")
        spared = 0.0 if told and prepared.event is None else settings.learn_share
        if prepared.event is not None:  # with fewer people than a small delta needs, learning may cost more than asked
            cost = PldAccountant().compose(prepared.event).epsilon(delta * spared)
            if not cost < settings.epsilon:
                raise InvalidArgument("learn_share", settings.learn_share, "a share that learning stays within")
            spared = max(spared, cost / settings.epsilon)
        search = plan_tuning(
            listed,
            cost=lambda choice, noise: replace(drafts[_name(choice)].plan, noise_multiplier=noise),
            score=PublicScore("the test part of the data set") if told else PrivateScore(len(prepared.test)),
            epsilon=settings.epsilon * (1 - spared),
            delta=delta * (1 - spared),
            repetitions=LogarithmicRepetitions(mean_runs),
        )
        self._progress.say(
            f"Searching {len(drafts)} settings with about {mean_runs:g} runs (their number is secret). It costs "
            f"epsilon {search.guarantee().epsilon:.3g}; one of its runs would cost {search.one_run().epsilon:.3g}."
        )
        self._compute_features(drafts, prepared)
        reservation = self._reserved(search, prepared, spared, delta)
        best = search.run(self._train(drafts, prepared, told), source=self._source, progress=False)
        if not best.found or best.settings is None:
            raise InvalidArgument("space", str(list(space)), "settings of which one trains a model", "All runs failed")
        outcome = self._write(best, drafts, prepared, spared, delta)
        if reservation is not None:
            reservation.commit()
        return outcome

    def _reserved(
        self, search: TuningPlan, prepared: Prepared, spared: float, delta: float
    ) -> charging.Reservation | None:
        """Set aside what the search costs, with learning for those trained on, and figures for those held out."""
        if self._budget is None:
            return None
        trained: Event = search.event()
        held_out = trained
        if prepared.event is not None:
            trained = ComposedEvent((prepared.event, trained))
        if not prepared.test_is_public:
            noise = evaluation_noise(self._settings.epsilon * spared, delta * spared)
            held_out = ComposedEvent((held_out, Measurer.event_of(noise)))
        both = ParallelByIndexEvent((trained, held_out))
        stated = QualifiedEvent(both, search.relation.value, str(search.unit), (*stated_by(prepared), COUNTED))
        purpose = f"hush tune on {Path(self._settings.data).name}"[:400]
        return self._budget.reserve(charging.Charge(event=stated, purpose=purpose, delta=delta))

    def _compute_features(self, drafts: Mapping[str, Draft], prepared: Prepared) -> None:
        for draft in drafts.values():
            for part in ("train", "test"):
                key = draft.description.model, part
                if key not in self._features:
                    network = draft.description.build().to(self._device)
                    given = torch.from_numpy(np.ascontiguousarray(getattr(prepared, part).inputs))
                    self._features[key] = network.features(given, self._shown).to(self._device)

    def _shown(self, done: int, total: int) -> None:
        self._progress.show("features", done, total)

    def _train(
        self, drafts: Mapping[str, Draft], prepared: Prepared, told: bool
    ) -> Callable[..., Candidate | HeldOutAnswers]:
        targets = torch.from_numpy(prepared.train.targets).to(self._device)

        def train(choice: dict[str, Any], noise: float) -> Candidate | HeldOutAnswers:
            draft = drafts[_name(choice)]
            network = self._one_run(self._settings.at(**choice), draft, noise, targets)
            probabilities = self._probabilities(network, draft)
            known = prepared.test.targets >= 0
            correct = np.where(
                known, probabilities.argmax(1) == prepared.test.targets, 0.5
            )  # half: neither right nor wrong
            if told:
                return Candidate(float(correct[known].mean()), network)
            return HeldOutAnswers(correct, network, owners=prepared.test.units)

        return train

    def _one_run(self, settings: Settings, draft: Draft, noise: float, targets: Tensor) -> Network:
        network = draft.description.build().to(self._device)
        public = adapt(network, settings)
        model = network.trained
        noisy = replace(draft, plan=replace(draft.plan, noise_multiplier=noise, starts_from=public))
        data = self._features[draft.description.model, "train"], targets
        private, average = begin(model, data, settings, noisy, None)
        model.train()
        for x, y in private.loader:
            if private.step(losses_of(model(x), y)).complete:
                after_step(private, average, draft.recipe)
        private.close()
        if average is not None:
            average.apply()
        if settings.lora is not None:
            merge_lora(model)
        return network.eval()

    @torch.no_grad()
    def _probabilities(self, network: Network, draft: Draft) -> NDArray[np.float64]:
        given = self._features[draft.description.model, "test"]
        parts = [torch.softmax(network.trained(part), 1).double().cpu() for part in torch.split(given, 1024)]
        return torch.cat(parts).numpy()

    def _write(
        self, best: Tuned, drafts: Mapping[str, Draft], prepared: Prepared, spared: float, delta: float
    ) -> Outcome:
        choice, network = dict(best.settings or {}), best.result
        draft = drafts[_name(choice)]
        settings = self._settings.at(**choice)
        noise = None
        if not prepared.test_is_public:
            noise = evaluation_noise(settings.epsilon * spared, delta * spared)
        assert best.noise_multiplier is not None
        plan = replace(draft.plan, noise_multiplier=best.noise_multiplier)
        figures = None if noise is None else Measurer.event_of(noise)
        budget = RunCost(plan, prepared.event, figures, (*stated_by(prepared), COUNTED, *self._stated))
        ready = Ready(prepared, draft.description, network, plan, budget, draft.recipe, plan.starts_from, draft.users)
        measurer = Measurer(
            examples=prepared.test,
            classes=prepared.classes,
            groups=values_of_groups(prepared),
            noise=noise,
            num_points=0,
            source=KeyedSource(os.urandom(32), 0) if not self._stated else self._source,
        )
        guarantee, parts = _together(best, budget, plan, delta, spared)
        for sentence in prepared.learned:
            self._progress.say(f"  {sentence}")
        self._progress.say(f"The best of the search: {', '.join(f'{name}={value}' for name, value in choice.items())}")
        outcome = publish(
            self._folder,
            settings,
            ready,
            network,
            figures=lambda: measurer.figures(self._probabilities(network, draft)),
            guarantee=guarantee,
            budget=parts,
            said=command(self._settings, self._folder.path, "tune", self._said),
            more={"found by a search": ", ".join(f"{name}={value}" for name, value in choice.items())},
        )
        row = {
            "step": plan.num_steps,
            "epsilon": guarantee.epsilon,
            "accuracy": outcome.accuracy,
            "private": noise is not None,
        }
        self._folder.append("metrics.jsonl", row)
        return outcome


def _together(
    best: Tuned, budget: RunCost, plan: TrainingPlan, delta: float, spared: float
) -> tuple[Guarantee, list[dict[str, Any]]]:
    """Return what search, learning and figures promise together: of the two sides, the larger sum."""
    parts = [{"what": "the search", "epsilon": best.guarantee.epsilon, "event": "private selection"}]
    sides = []
    for what, event in (
        ("learning what was not declared", budget.learned),
        ("figures about those held out", budget.figures),
    ):
        if event is not None:
            cost = PldAccountant(relation=plan.relation, unit=plan.unit).compose(event).epsilon(delta * spared)
            parts.append({"what": what, "epsilon": cost, "event": repr(event)[:160]})
            sides.append(cost)
    guarantee = Guarantee(
        epsilon=best.guarantee.epsilon + max(sides, default=0.0),
        delta=delta,
        unit=best.guarantee.unit,
        relation=best.guarantee.relation,
        method=f"{best.guarantee.method}, with learning and figures by basic composition",
        assumptions=tuple(dict.fromkeys((*best.guarantee.assumptions, *budget.assumptions))),
    )
    return guarantee, parts


def _space(space: Mapping[str, Sequence[Any]], usual: Draft) -> dict[str, list[Any]]:
    for name in space:
        if name not in SEARCHED:
            raise InvalidArgument("search", name, f"one of {', '.join(SEARCHED)}")
    found = {name: list(values) for name, values in space.items()}
    return found or {"learning_rate": [usual.recipe.learning_rate * factor for factor in _RATES]}


def _combined(space: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    choices: list[dict[str, Any]] = [{}]
    for name, values in space.items():
        choices = [{**choice, name: value} for choice in choices for value in values]
    return choices


def _name(choice: Mapping[str, Any]) -> str:
    return repr(sorted(choice.items()))
