"""A private search that is agreed on: runs whose number is secret, and of which only the best is kept."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import nn

from hush.accounting import Event, ParallelByIndexEvent, RdpAccountant
from hush.accounting.budget import Budget, Charge
from hush.accounting.events import QualifiedEvent, plain_event
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import RandomSource, assumptions_of, source_or_default, uniform_below
from hush.training.loop.session import PrivateTraining
from hush.training.tuning.repetitions import Repetitions
from hush.training.tuning.scores import Candidate, HeldOutAnswers, Score
from hush.training.tuning.silence import Running, silenced
from hush.training.tuning.space import Settings, Space

Train = Callable[[Settings, float], Candidate | HeldOutAnswers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The best run of a private search. How many there were, and how good the others, nobody gets to know.

    Attributes:
        settings: Of the best run; None if there was no run at all, which only `PoissonRepetitions` allow.
        score: Its score, private as the guarantee says; minus infinity if it failed, and so all others; None without a
            run.
        result: What it returned; None if it failed.
        noise_multiplier: The noise that it was given.
        guarantee: What the whole search promises.
        event: What the search was, for an accountant that composes it with more. It dominates: the largest of what
            the settings cost at each Renyi order.
        one_run: What a single run with the same noise would have promised, by the same method.
    """

    settings: Settings | None
    score: float | None
    result: Any
    noise_multiplier: float | None
    guarantee: Guarantee
    event: Event
    one_run: Guarantee

    @property
    def found(self) -> bool:
        """Whether there is a run, and it did not fail."""
        return self.score is not None and math.isfinite(self.score)

    @property
    def price(self) -> float:
        """By how much epsilon the search costs more than one run with the same noise."""
        return self.guarantee.epsilon - self.one_run.epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPlan:
    """A private search, agreed on before it starts: the settings, their law, the noise of each run, and the cost.

    Attributes:
        space: The law of the settings.
        score: How runs are compared.
        repetitions: The law of their number.
        runs: What a run of each of the listed settings costs those that it is trained on.
        noise_multipliers: The noise of a run of each of them.
        score_noise: The noise on its score, if there is any.
        delta, relation, unit: What the guarantee is about.
        assumptions: What it rests on.
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
        inner = self.repetitions.event(self._one_run())
        return QualifiedEvent(inner, self.relation.value, str(self.unit), self._together(assumptions))

    def guarantee(self, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """Return what the search promises."""
        manner = f"the best of {self.repetitions.mean:.3g} runs on average ({self.repetitions.name})"
        return self._promise(
            self.repetitions.event(self._one_run()),
            f"private selection of {manner}, {RdpAccountant.method}",
            assumptions,
        )

    def one_run(self) -> Guarantee:
        """Return what one run would promise, with the same noise and by the same method."""
        return self._promise(self._one_run(), RdpAccountant.method, ())

    def run(
        self, train: Train, *, source: RandomSource | None = None, progress: bool = True, budget: Budget | None = None
    ) -> Tuned:
        """Search, and return the best run. `tune` says what ``train`` has to be.

        Every call is a search of its own, and costs what `guarantee` says.
        """
        if not callable(train):
            raise InvalidArgument("train", type(train).__name__, "a function of settings and a noise multiplier")
        own = source_or_default(source)
        charge = Charge(event=self.event(), purpose="a search for hyper-parameters", delta=self.delta)
        reservation = None if budget is None else budget.reserve(charge)
        with Running(show=progress):
            best = self._search(train, own)
        if reservation is not None:
            reservation.commit()
        return self._released(best, own)

    def _search(self, train: Train, source: RandomSource) -> _Run | None:
        best = _Best(source)
        for _ in range(self.repetitions.draw(source)):
            best.offer(self._attempt(train, source))
        return best.run

    def _attempt(self, train: Train, source: RandomSource) -> _Run:
        """Make one run. Whatever it prints, and why it fails if it does, is lost: it may depend on the data."""
        index, settings = self.space.draw(source)
        noise = self.noise_multipliers[index]
        try:
            with silenced():
                outcome: Any = train(copy.deepcopy(settings), noise)
                score = self._scored(outcome, self.runs[index], source)
        except HushError:  # about arguments, which are public: hush raises none because of what data contain
            raise
        except Exception:
            return _Run(settings, -math.inf, None, noise)
        return _Run(settings, score if math.isfinite(score) else -math.inf, outcome.result, noise)

    def _scored(self, outcome: Any, stated: Event, source: RandomSource) -> float:
        if not isinstance(outcome, self.score.returned):
            raise InvalidArgument(
                "train",
                f"a function that returned {type(outcome).__name__}",
                f"one that returns {self.score.returned.__name__}",
                f"That is what {type(self.score).__name__} takes",
            )
        self._check_cost(outcome.result, stated)
        return self.score.value(outcome, self.score_noise, self.unit, source)

    def _check_cost(self, result: Any, stated: Event) -> None:
        """Refuse a training run of another cost than was stated; only of `PrivateTraining` can it be known."""
        if not isinstance(result, PrivateTraining):
            return
        if plain_event(result.plan.event(), self.relation, self.unit)[0] != stated:
            raise InvalidArgument(
                "cost",
                "another event than that of the run's plan",
                "what a run with these settings and this noise costs",
                "Return the plan of just such a run, with noise_multiplier=... and without epsilon=...",
            )

    def _released(self, run: _Run | None, source: RandomSource) -> Tuned:
        own = assumptions_of(source)
        if run is not None and isinstance(run.result, PrivateTraining):
            own += run.result._assumptions
        return Tuned(
            settings=None if run is None else run.settings,
            score=None if run is None else run.score,
            result=None if run is None else run.result,
            noise_multiplier=None if run is None else run.noise_multiplier,
            guarantee=self.guarantee(own),
            event=self.event(own),
            one_run=self.one_run(),
        )

    def _one_run(self) -> Event:
        return largest(self.runs, None if self.score_noise is None else self.score.event(self.score_noise))

    def _promise(self, event: Event, method: str, assumptions: tuple[str, ...]) -> Guarantee:
        return Guarantee(
            epsilon=_epsilon(event, self.delta, self.relation),
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            method=method,
            assumptions=self._together(assumptions),
        )

    def _together(self, assumptions: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.assumptions, *assumptions)))


@lru_cache(maxsize=64)
def _epsilon(event: Event, delta: float, relation: Relation) -> float:
    return RdpAccountant(relation=relation).compose(event).epsilon(delta)


@dataclass(frozen=True, slots=True)
class _Run:
    settings: Settings
    score: float
    result: Any
    noise_multiplier: float


class _Best:
    """The best run so far, of several equally good ones each with the same chance; of the others nothing is kept."""

    def __init__(self, source: RandomSource) -> None:
        self.run: _Run | None = None
        self._source = source
        self._equal = 0

    def offer(self, run: _Run) -> None:
        if self.run is not None:
            _refuse_shared(self.run.result, run.result)
        if self.run is None or run.score > self.run.score:
            self.run, self._equal = run, 1
        elif run.score == self.run.score:
            self._equal += 1
            if int(uniform_below(self._source, self._equal, 1)[0]) == 0:
                self.run = run


def _refuse_shared(one: Any, other: Any) -> None:
    """Refuse a model that two runs trained: the second is no run of its own, and changes what the first returned."""
    models = [each.model if isinstance(each, PrivateTraining) else each for each in (one, other)]
    if models[0] is models[1] and isinstance(models[0], nn.Module):
        raise InvalidArgument(
            "train",
            "a function that returned one model twice",
            "a model of its own from every run",
            "Runs must not depend on each other: make the model within train",
        )


def largest(runs: tuple[Event, ...], score: Event | None) -> Event:
    """Return an event whose divergence is the largest of these at every order.

    Which settings a run has is drawn, not decided by data, and known in the end; so its divergence is at most that of
    the settings that cost the most (quasi-convexity). Those who are held out are another part of the data than those
    who are trained on. Both are what the maximum over parts of a fixed index says.
    """
    different = tuple(dict.fromkeys(runs if score is None else (*runs, score)))
    return different[0] if len(different) == 1 else ParallelByIndexEvent(different)
