"""A private search under a plan: runs a secret number of trainings, and releases only the best.

repetitions.draw > [ space.draw > train > score.value ] K times > the best run > Tuned
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from torch import nn

from hush.accounting import Event, ParallelByIndexEvent, SelectionAccountant
from hush.accounting.budget import Budget, Charge
from hush.accounting.events import QualifiedEvent, plain_event
from hush.accounting.hold import active
from hush.accounting.receipts import Receipt, check_budget, receipt_of
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import RandomSource, assumptions_of, source_or_default, uniform_below
from hush.training.loop.session import PrivateTraining
from hush.training.tuning.repetitions import Repetitions
from hush.training.tuning.scores import Candidate, HeldOutAnswers, Score
from hush.training.tuning.silence import SearchIndicator, silenced
from hush.training.tuning.space import Hyperparameters, Space

Train = Callable[[Hyperparameters, float], Candidate | HeldOutAnswers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The best run of a private search. The number of runs and the other scores stay secret.

    Attributes:
        settings: The settings of the best run; None if there was no run, which only `Repetitions.poisson` allows.
        score: Its score, as private as the guarantee says. Minus infinity if all runs failed; None without a run.
        result: The result of the run; None if it failed.
        noise_multiplier: The noise that the run was given.
        guarantee: The guarantee of the whole search.
        event: The event of the search, to compose it with others. It is an upper bound: at each Renyi order, the
            largest of the costs of all settings.
        one_run: The guarantee of a single run with the same noise, by the same accountant.
        receipt: The cost of the search and the rest of the budget; None without a ledger.

    >>> from hush.accounting import GaussianEvent
    >>> from hush.training import Score, plan_tuning
    >>> plan = plan_tuning({"rate": [0.1, 0.3]}, cost=lambda settings, noise: GaussianEvent(noise),
    ...                    score=Score.public("made up"), epsilon=2.0, delta=1e-5)
    >>> best = plan.run(lambda settings, noise: Candidate(score=settings["rate"]), progress=False)
    >>> best.found, best.price > 0
    (True, True)
    """

    settings: Hyperparameters | None
    score: float | None
    result: Any
    noise_multiplier: float | None
    guarantee: Guarantee
    event: Event
    one_run: Guarantee
    receipt: Receipt | None = None

    @property
    def found(self) -> bool:
        """Whether there was a run that did not fail."""
        return self.score is not None and math.isfinite(self.score)

    @property
    def price(self) -> float:
        """How much more epsilon the search costs than one run with the same noise."""
        return self.guarantee.epsilon - self.one_run.epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPlan:
    """A private search, fixed before it starts: the settings and their distribution, the noise, and the cost.

    `plan_tuning` makes one.

    Attributes:
        space: The distribution of the settings.
        score: How runs are compared.
        repetitions: The distribution of the number of runs.
        runs: For each listed combination of settings, the cost of a run for a unit that it is trained on.
        noise_multipliers: For each listed combination, the noise of a run.
        score_noise: The noise on a run's score, if any.
        delta: The delta of the guarantee.
        relation: The neighbouring relation of the guarantee.
        unit: The privacy unit.
        assumptions: The assumptions of the guarantee.

    >>> from hush.accounting import GaussianEvent
    >>> from hush.training import Score, plan_tuning
    >>> plan = plan_tuning({"rate": [0.1, 0.3]}, cost=lambda settings, noise: GaussianEvent(noise),
    ...                    score=Score.public("made up"), epsilon=2.0, delta=1e-5)
    >>> plan.guarantee().epsilon <= 2.0, round(plan.noise_multipliers[0], 2)
    (True, 3.58)
    """

    space: Space
    score: Score
    repetitions: Repetitions
    runs: tuple[Event, ...]
    noise_multipliers: tuple[float, ...]
    score_noise: float | None
    delta: float
    relation: Relation
    unit: Unit
    assumptions: tuple[str, ...]

    def event(self, assumptions: tuple[str, ...] = ()) -> Event:
        """Return the event of the whole search."""
        search = self.repetitions.event(self._one_run())
        return QualifiedEvent(search, self.relation, self.unit, self._all_assumptions(assumptions))

    def guarantee(self, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return the guarantee of the whole search, with additional assumptions."""
        search = f"the best of {self.repetitions.mean:.3g} runs on average ({self.repetitions.name})"
        return self._guarantee_of(
            self.repetitions.event(self._one_run()),
            f"private selection of {search}, {SelectionAccountant.method}",
            assumptions,
        )

    def one_run(self) -> Guarantee:
        """Return the guarantee of a single run with the same noise, by the same accountant."""
        return self._guarantee_of(self._one_run(), SelectionAccountant.method, ())

    def run(
        self, train: Train, *, source: RandomSource | None = None, progress: bool = True, budget: Budget | None = None
    ) -> Tuned:
        """Search, and return the best run. `tune` describes the arguments.

        Every call is a separate search, which costs what `guarantee` states.
        """
        if not callable(train):
            raise InvalidArgument("train", type(train).__name__, "a function of settings and a noise multiplier")
        check_budget(budget)
        checked_source = source_or_default(source)
        charge = Charge(
            event=self.event(assumptions_of(checked_source)), purpose="a search for hyper-parameters", delta=self.delta
        )
        reservation = None if budget is None else budget.reserve(charge)
        with active(reservation):
            with SearchIndicator(show=progress):
                best = self._search(train, checked_source)
            if reservation is not None:
                reservation.commit()
        tuned = self._release(best, checked_source)
        return replace(tuned, receipt=receipt_of(reservation, tuned.guarantee))

    def _search(self, train: Train, source: RandomSource) -> _FinishedRun | None:
        best = _Best(source)
        with silenced():  # each attempt silences itself anew, which is cheap within this
            for _ in range(self.repetitions.draw(source)):
                best.offer(self._attempt(train, source))
        return best.run

    def _attempt(self, train: Train, source: RandomSource) -> _FinishedRun:
        """Make one run. Its output, and the reason if it fails, are discarded: both may depend on the data."""
        index, settings = self.space.draw(source)
        noise = self.noise_multipliers[index]
        try:
            with silenced():
                outcome: Any = train(copy.deepcopy(settings), noise)
                score = self._score(outcome, self.runs[index], source)
        except HushError:  # about arguments, which are public: no error of hush depends on the content of data
            raise
        except Exception:
            return _FinishedRun(settings, -math.inf, None, noise)
        return _FinishedRun(settings, score if math.isfinite(score) else -math.inf, outcome.result, noise)

    def _score(self, outcome: Any, stated: Event, source: RandomSource) -> float:
        if not isinstance(outcome, self.score.returned):
            raise InvalidArgument(
                "train",
                f"a function that returned {type(outcome).__name__}",
                f"one that returns {self.score.returned.__name__}",
                f"{type(self.score).__name__} needs it",
            )
        self._check_cost(outcome.result, stated)
        return self.score.value(outcome, self.score_noise, self.unit, source)

    def _check_cost(self, result: Any, stated: Event) -> None:
        """Refuse a training run whose cost differs from the stated one. Only `PrivateTraining` reveals its cost."""
        if not isinstance(result, PrivateTraining):
            return
        if plain_event(result.plan.event(), self.relation, self.unit)[0] != stated:
            raise InvalidArgument(
                "cost",
                "an event other than that of the run's plan",
                "the cost of a run with these settings and this noise",
                "Return the plan of such a run, made with noise_multiplier=... and without epsilon=...",
            )

    def _release(self, run: _FinishedRun | None, source: RandomSource) -> Tuned:
        assumptions = assumptions_of(source)
        if run is not None and isinstance(run.result, PrivateTraining):
            assumptions += run.result._assumptions
        return Tuned(
            settings=None if run is None else run.settings,
            score=None if run is None else run.score,
            result=None if run is None else run.result,
            noise_multiplier=None if run is None else run.noise_multiplier,
            guarantee=self.guarantee(assumptions),
            event=self.event(assumptions),
            one_run=self.one_run(),
        )

    def _one_run(self) -> Event:
        return largest(self.runs, None if self.score_noise is None else self.score.event(self.score_noise))

    def _guarantee_of(self, event: Event, method: str, assumptions: tuple[str, ...]) -> Guarantee:
        return Guarantee(
            epsilon=_epsilon(event, self.delta, self.relation),
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            method=method,
            assumptions=self._all_assumptions(assumptions),
        )

    def _all_assumptions(self, more: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.assumptions, *more)))  # each once, in order


@lru_cache(maxsize=64)
def _epsilon(event: Event, delta: float, relation: Relation) -> float:
    return SelectionAccountant(relation=relation).compose(event).epsilon(delta)


@dataclass(frozen=True, slots=True)
class _FinishedRun:
    """A finished run; a failed one has a score of minus infinity."""

    settings: Hyperparameters
    score: float
    result: Any
    noise_multiplier: float


class _Best:
    """The best run so far. Ties are broken uniformly at random, and nothing of the other runs is stored."""

    def __init__(self, source: RandomSource) -> None:
        self.run: _FinishedRun | None = None
        self._source = source
        self._num_tied = 0

    def offer(self, run: _FinishedRun) -> None:
        """Consider a run."""
        if self.run is not None:
            _refuse_shared(self.run.result, run.result)
        if self.run is None or run.score > self.run.score:
            self.run, self._num_tied = run, 1
        elif run.score == self.run.score:
            self._num_tied += 1
            # The n-th of n equally good runs replaces the previous one with probability 1 / n.
            if int(uniform_below(self._source, self._num_tied, 1)[0]) == 0:
                self.run = run


def _refuse_shared(first: Any, second: Any) -> None:
    """Refuse a model that two runs have trained: the runs would not be independent."""
    models = [result.model if isinstance(result, PrivateTraining) else result for result in (first, second)]
    if models[0] is models[1] and isinstance(models[0], nn.Module):
        raise InvalidArgument(
            "train",
            "a function that returned one model twice",
            "a new model from every run",
            "Runs must not depend on each other: create the model inside train",
        )


def largest(runs: tuple[Event, ...], score: Event | None) -> Event:
    """Return an event whose divergence at every order is the largest of these.

    The settings of a run are drawn without looking at the data, and are known in the end. So the divergence of a run is
    at most that of the most expensive settings (quasi-convexity). Held-out units are disjoint from those that are
    trained on. Both cases are a maximum over parts of a fixed index.
    """
    different = tuple(dict.fromkeys(runs if score is None else (*runs, score)))
    return different[0] if len(different) == 1 else ParallelByIndexEvent(different)
