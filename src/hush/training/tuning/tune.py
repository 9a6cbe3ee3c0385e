"""`hush.tune`: search for hyper-parameters on private data, with what the search gives away accounted for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hush.accounting import Event, RdpAccountant, calibrate_noise
from hush.accounting.budget import Budget
from hush.accounting.events import plain_event
from hush.errors import InvalidArgument, Unsupported, check_instance, check_positive, check_probability
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource
from hush.training.plan.plan import TrainingPlan
from hush.training.tuning.repetitions import LogarithmicRepetitions, Repetitions
from hush.training.tuning.scores import Score
from hush.training.tuning.search import Train, Tuned, TuningPlan, largest
from hush.training.tuning.space import Settings, Space, as_space

Cost = Callable[[Settings, float], Event | TrainingPlan]
Template = Callable[[float], Event]

_PROBES = (1.0, 2.0)  # costs that are equal at these noises are calibrated once


def plan_tuning(
    space: Any,
    *,
    cost: Cost,
    score: Score,
    epsilon: float,
    delta: float,
    repetitions: Repetitions | None = None,
    relation: Relation | None = None,
    unit: Unit | None = None,
) -> TuningPlan:
    """Calibrate a search without starting it; the arguments are those of `tune`.

    The noise is such that each of the listed settings alone would meet epsilon; all of it is then multiplied by what
    their largest Renyi divergence, order by order, needs beyond that: nothing if there is one cost, and some percent if
    there are several. (For batches of 100 and 500 of 10,000 examples and 20 and 200 steps, at epsilon 2, it is 11.5.)
    """
    check_positive("epsilon", epsilon)
    if not check_probability("delta", delta) < 1:
        raise InvalidArgument("delta", delta, "a number in (0, 1)")
    if not callable(cost):
        raise InvalidArgument("cost", type(cost).__name__, "a function of settings and a noise multiplier")
    check_instance("score", score, Score, "Such as PublicScore('...') or PrivateScore(size=1000)")
    law = LogarithmicRepetitions(10.0) if repetitions is None else repetitions
    check_instance("repetitions", law, Repetitions, "Such as LogarithmicRepetitions(mean=10)")
    checked = as_space(space)
    costs = _Costs(checked, cost, delta, relation, unit)
    templates = [costs.template(index) for index in range(len(checked.listed))]
    noises, score_noise = _calibrated(templates, score, law, epsilon, delta, costs.relation)
    plan = TuningPlan(
        space=checked,
        score=score,
        repetitions=law,
        runs=tuple(template(noise) for template, noise in zip(templates, noises, strict=True)),
        noise_multipliers=noises,
        score_noise=score_noise,
        delta=delta,
        relation=costs.relation,
        unit=costs.unit,
        assumptions=(*_assumptions(costs.unit), *score.assumptions(costs.unit), *costs.assumptions),
    )
    if not plan.guarantee().epsilon <= epsilon * (1 + 1e-9):  # a cost that is not a function of its arguments
        raise InvalidArgument("cost", "a function", "one whose events depend on its arguments only")
    return plan


def tune(
    train: Train,
    space: Any,
    *,
    cost: Cost,
    score: Score,
    epsilon: float,
    delta: float,
    repetitions: Repetitions | None = None,
    relation: Relation | None = None,
    unit: Unit | None = None,
    source: RandomSource | None = None,
    progress: bool = True,
    budget: Budget | None = None,
) -> Tuned:
    """Search for settings on private data, and release the best run only; the whole search stays within epsilon.

    A number K is drawn, and kept secret. K times settings are drawn, a model is trained with them, and scored. The best
    is returned. Of the rest nothing is: neither K nor other scores, and no output, no log and no error of any run.

    Args:
        train: From (settings, noise_multiplier) to a `Candidate`, or to `Answers` if the score is a `PrivateScore`.
            It makes a new model each time, with fresh noise, and leaves nothing behind. To find mistakes in it, call
            it on invented data: a run that fails loses, silently. Errors of hush itself, which are about arguments, do
            end the search.
        space: Settings by name: a list of values, or a `LogRange` or `UniformRange`, for each, all drawn independently;
            or a list of whole settings. It is fixed before the data are looked at.
        cost: From (settings, noise_multiplier) to what such a run costs: a `TrainingPlan`, or an event. It gets those settings
            that are listed; on the ranges a cost must not depend.
        score: How runs are compared: `PublicScore`, `PrivateScore` or `ChargedScore`.
        epsilon: What the whole search may cost.
        delta: At which delta.
        repetitions: The law of the number of runs; `LogarithmicRepetitions` with a mean of 10, if none is given.
        relation: What neighbouring datasets are; as in the plans that ``cost`` returns, unless given.
        unit: What is protected; as in those plans, too.
        source: Where randomness comes from; for tests, a TestSource.
        progress: Whether to show, on the error stream, that the search is running. How far it is, is secret.
        budget: What the search is charged to, such as a ledger's data set: reserved before it begins, all of it. Its
            runs are not to be charged again.

    Returns:
        The best run, with its settings, and the guarantee of the search.

    Guarantee:
        (epsilon, delta)-differential privacy of all that is returned, for the search as a whole.

    Assumes:
        Runs are independent given the data, and cost what ``cost`` says (checked here for runs of `hush.fit` and
        `hush.privatize` that are returned as they are; else the caller's duty). Nobody sees how long the search took,
        nor what runs wrote to files (the caller's duty). Whether a run fails does not hang on one unit, and the space
        does not depend on the data (the caller's duty). The score is as private as its type says (the caller's duty;
        checked here for `PrivateScore`, whose noise is added here).

    References:
        Papernot & Steinke 2022, Theorem 2 (truncated negative binomial and logarithmic K) and Theorem 6 (Poisson K), by
        Renyi divergences; those of different settings enter by their maximum at each order. Liu & Talwar 2019 showed
        the geometric case for pure differential privacy.

    >>> import torch
    >>> from hush.accounting import GaussianEvent
    >>> from hush.training import Candidate, PublicScore, tune
    >>> def train(settings, noise_multiplier):  # a noisy sum, for a model; settings that matter would be in it
    ...     total = 40.0 + noise_multiplier * torch.randn(()).item()
    ...     return Candidate(score=-abs(settings["guess"] - 3), result=total)
    >>> best = tune(train, {"guess": [1, 2, 3]}, cost=lambda settings, noise: GaussianEvent(noise), epsilon=2.0, delta=1e-5,
    ...             score=PublicScore("the number 3, from a book"), progress=False)
    >>> best.guarantee.epsilon <= 2, round(best.noise_multiplier, 1), round(best.one_run.epsilon, 1)
    (True, 3.6, 1.1)
    """
    plan = plan_tuning(
        space,
        cost=cost,
        score=score,
        epsilon=epsilon,
        delta=delta,
        repetitions=repetitions,
        relation=relation,
        unit=unit,
    )
    return plan.run(train, source=source, progress=progress, budget=budget)


class _Costs:
    """What runs cost: events without qualifications, of one relation and one unit, and what they assume."""

    def __init__(self, space: Space, cost: Cost, delta: float, relation: Relation | None, unit: Unit | None) -> None:
        self._space, self._cost = space, cost
        first = cost(dict(space.listed[0]), _PROBES[0])
        plan = first if isinstance(first, TrainingPlan) else None
        self.relation = relation or (plan.relation if plan is not None else Relation.ADD_OR_REMOVE)
        self.unit = unit or (plan.unit if plan is not None else Unit.example())
        check_instance("relation", self.relation, Relation)
        check_instance("unit", self.unit, Unit)
        if self.unit.group_size > 1:
            raise InvalidArgument("unit", str(self.unit), "one example or user", "See Guarantee.for_group")
        if plan is not None and not delta * plan.num_units < 1:
            raise InvalidArgument("delta", delta, "less than 1 over the number of units")
        self.assumptions: tuple[str, ...] = ()
        for index in range(len(space.listed)):
            self.assumptions += self._plain(index, _PROBES[0])[1]

    def template(self, index: int) -> Template:
        """Return what a run of one of the listed settings costs, as a function of its noise."""
        return lambda noise: self._plain(index, noise)[0]

    def _plain(self, index: int, noise: float) -> tuple[Event, tuple[str, ...]]:
        stated = self._cost(dict(self._space.listed[index]), noise)
        if isinstance(stated, TrainingPlan):
            if stated.max_batch_size is not None:
                raise Unsupported(
                    "max_batch_size: what dropped examples add to delta has no Renyi divergence",
                    "Search without a limit on the batches",
                )
            stated = stated.event()
        check_instance("cost", stated, Event, "cost(settings, noise_multiplier) returns a Plan or an event")
        return plain_event(stated, self.relation, self.unit)


def _calibrated(
    templates: list[Template], score: Score, law: Repetitions, epsilon: float, delta: float, relation: Relation
) -> tuple[tuple[float, ...], float | None]:
    """Return the noise of each run, and that of the score."""

    def smallest(template: Template) -> float:
        return calibrate_noise(
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            accountant=RdpAccountant,
            template=lambda noise: law.event(template(noise)),
        )

    alone: dict[tuple[Event, ...], float] = {}
    noises = []
    for template in templates:
        key = tuple(template(noise) for noise in _PROBES)
        if key not in alone:
            alone[key] = smallest(template)
        noises.append(alone[key])

    def score_event(noise: float) -> Event:
        found = score.event(noise)
        assert found is not None
        return found

    scored = score.event(_PROBES[0]) is not None
    score_noise = smallest(score_event) if scored else None

    def together(factor: float) -> Event:
        runs = tuple(template(factor * noise) for template, noise in zip(templates, noises, strict=True))
        return largest(runs, None if score_noise is None else score_event(factor * score_noise))

    factor = smallest(together) if len(alone) + scored > 1 else 1.0
    return tuple(factor * noise for noise in noises), None if score_noise is None else factor * score_noise


def _assumptions(unit: Unit) -> tuple[str, ...]:
    return (
        "the number of runs, how long they took and what they left behind are kept secret",
        "each run is made anew, with fresh noise, and costs what was stated for its settings",
        f"whether a run fails does not depend on one {unit}, and the space of settings on none",
    )
