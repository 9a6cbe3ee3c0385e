"""`hush.tune`: search for hyper-parameters on private data, and account for the search.

`plan_tuning` calibrates the noise of the runs such that the whole search meets an epsilon. `tune` does that and then
searches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hush.accounting import Event, SelectionAccountant, calibrate_noise
from hush.accounting.budget import Budget
from hush.accounting.events import plain_event
from hush.errors import InvalidArgument, Unsupported, check_instance, check_positive, check_probability
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource
from hush.training.plan.training_plan import TrainingPlan
from hush.training.tuning.repetitions import Repetitions
from hush.training.tuning.scores import Score
from hush.training.tuning.search import Train, Tuned, TuningPlan, largest
from hush.training.tuning.space import Hyperparameters, Space, as_space

HyperparameterCost = Callable[[Hyperparameters, float], Event | TrainingPlan]
Template = Callable[[float], Event]  # from a noise multiplier to the event of a run

_PROBES = (1.0, 2.0)  # costs that are equal at these noise multipliers are calibrated once


def plan_tuning(
    space: Any,
    *,
    cost: HyperparameterCost,
    score: Score,
    epsilon: float,
    delta: float,
    repetitions: Repetitions | None = None,
    relation: Relation | None = None,
    unit: Unit | None = None,
) -> TuningPlan:
    """Calibrate a search without starting it. The arguments are those of `tune`.

    First, the noise is calibrated for each listed combination of settings alone. Then all noise is multiplied by the
    factor that the largest of their divergences, order by order, or of their profiles needs beyond that. With a single
    cost the factor is 1; with several it is some percent more. (It is 1.061 for batches of 100 and 500 out of 10,000
    examples, 20 and 200 steps, at epsilon 2.)
    """
    check_positive("epsilon", epsilon)
    if not check_probability("delta", delta) < 1:
        raise InvalidArgument("delta", delta, "a number in (0, 1)")
    if not callable(cost):
        raise InvalidArgument("cost", type(cost).__name__, "a function of settings and a noise multiplier")
    check_instance("score", score, Score, "Such as Score.public('...') or Score.private(size=1000)")
    repetitions = Repetitions.logarithmic(10.0) if repetitions is None else repetitions
    check_instance("repetitions", repetitions, Repetitions, "Such as Repetitions.logarithmic(mean=10)")
    checked_space = as_space(space)
    costs = _Costs(checked_space, cost, delta, relation, unit)
    templates = [costs.template(index) for index in range(len(checked_space.listed))]
    noises, score_noise = _calibrated(templates, score, repetitions, epsilon, delta, costs.relation)
    plan = TuningPlan(
        space=checked_space,
        score=score,
        repetitions=repetitions,
        runs=tuple(template(noise) for template, noise in zip(templates, noises, strict=True)),
        noise_multipliers=noises,
        score_noise=score_noise,
        delta=delta,
        relation=costs.relation,
        unit=costs.unit,
        assumptions=(*_assumptions(costs.unit), *score.assumptions(costs.unit), *costs.assumptions),
    )
    if not plan.guarantee().epsilon <= epsilon * (1 + 1e-9):
        raise InvalidArgument("cost", "a function", "a function whose events depend on its arguments only")
    return plan


def tune(
    train: Train,
    space: Any,
    *,
    cost: HyperparameterCost,
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
    """Search for settings on private data, and release only the best run. The whole search stays within epsilon.

    A number K is drawn and never revealed. K times, settings are drawn, a model is trained with them and scored. The
    best run is returned. K, the other scores, and all output, logs and errors of the runs stay secret.

    Args:
        train: From (settings, noise_multiplier) to a `Candidate`, or to `HeldOutAnswers` if the score is private. It
            must create a new model each time, with fresh noise, and leave nothing behind. A run that fails loses
            silently, so test the function on made-up data first. Errors raised by hush itself, which concern arguments,
            end the search.
        space: The settings by name: a list of values or a `Range` for each, drawn independently. Or a list of
            complete settings. Fix it before you look at the data.
        cost: From (settings, noise_multiplier) to the cost of such a run: a `TrainingPlan` or an event. It gets only
            the listed settings; the cost must not depend on the ranges.
        score: How runs are compared: `Score.public`, `Score.private` or `Score.charged`.
        epsilon: The epsilon of the whole search.
        delta: The delta of the whole search.
        repetitions: The distribution of the number of runs. By default `Repetitions.logarithmic` with a mean of 10.
        relation: The neighbouring relation. By default, that of the plans that ``cost`` returns.
        unit: The privacy unit. By default, the unit of those plans.
        source: The random source; for tests, a TestSource.
        progress: Whether to show, on the error stream, that the search is running. Its progress is secret.
        budget: The budget that the search is charged to, such as a ledger's. The whole cost is reserved before
            the search. Do not charge the runs again.

    Returns:
        The best run, with its settings and the guarantee of the search.

    Guarantee:
        Everything that is returned is (epsilon, delta)-differentially private, for the search as a whole.

    Assumes:
        Runs are independent given the data, and cost what ``cost`` says (checked here for runs of `hush.fit` and
        `hush.privatize` that are returned as they are; otherwise the caller's duty). No one observes how long the
        search took, nor what runs wrote to files (the caller's duty). Whether a run fails does not depend on one unit,
        and the space does not depend on the data (the caller's duty). The score is as private as its type says (checked
        here for `Score.private`, whose noise is added here; otherwise the caller's duty).

    References:
        Papernot & Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy", Theorem 2 (truncated negative
        binomial and logarithmic K) and Theorem 6 (Poisson K); Koskela, Redberg & Wang 2024, "Privacy Profiles for
        Private Selection", where that is less (`hush.accounting.accountants.selection` proves it). Different settings
        enter by the maximum of their divergences or profiles. Liu & Talwar 2019 showed the geometric case for pure
        differential privacy.

    >>> import torch
    >>> from hush.accounting import GaussianEvent
    >>> from hush.training import Candidate, Score, tune
    >>> def train(settings, noise_multiplier):  # stands for a training: a noisy sum
    ...     total = 40.0 + noise_multiplier * torch.randn(()).item()
    ...     return Candidate(score=-abs(settings["guess"] - 3), result=total)
    >>> best = tune(train, {"guess": [1, 2, 3]}, cost=lambda settings, noise: GaussianEvent(noise), epsilon=2.0,
    ...             delta=1e-5, score=Score.public("the number 3, from a book"), progress=False)
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
    """The costs of runs, as events of one relation and unit, and the assumptions of these events."""

    def __init__(
        self, space: Space, cost: HyperparameterCost, delta: float, relation: Relation | None, unit: Unit | None
    ) -> None:
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
            self.assumptions += self._event_and_assumptions(index, _PROBES[0])[1]

    def template(self, index: int) -> Template:
        """Return the cost of a run of a listed combination, as a function of its noise."""
        return lambda noise: self._event_and_assumptions(index, noise)[0]

    def _event_and_assumptions(self, index: int, noise: float) -> tuple[Event, tuple[str, ...]]:
        stated = self._cost(dict(self._space.listed[index]), noise)
        if isinstance(stated, TrainingPlan):
            if stated.max_batch_size is not None:
                raise Unsupported(
                    "max_batch_size: the Renyi divergence of a truncated sample is not known",
                    "Search without a limit on the batches",
                )
            stated = stated.event()
        check_instance("cost", stated, Event, "cost(settings, noise_multiplier) returns a TrainingPlan or an event")
        return plain_event(stated, self.relation, self.unit)


def _calibrated(
    templates: list[Template],
    score: Score,
    repetitions: Repetitions,
    epsilon: float,
    delta: float,
    relation: Relation,
) -> tuple[tuple[float, ...], float | None]:
    """Return the noise of each run, and that of the score, such that the search meets epsilon."""

    def smallest_noise(template: Template) -> float:
        return calibrate_noise(
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            accountant=SelectionAccountant,
            template=lambda noise: repetitions.event(template(noise)),
        )

    # Calibration takes seconds, so settings of equal cost share it. Events are equal if they are at both probes.
    noise_by_cost: dict[tuple[Event, ...], float] = {}
    noises = []
    for template in templates:
        key = tuple(template(noise) for noise in _PROBES)
        if key not in noise_by_cost:
            noise_by_cost[key] = smallest_noise(template)
        noises.append(noise_by_cost[key])

    def score_event(noise: float) -> Event:
        event = score.event(noise)
        assert event is not None
        return event

    has_score_noise = score.event(_PROBES[0]) is not None
    score_noise = smallest_noise(score_event) if has_score_noise else None

    def scaled(factor: float) -> Event:
        runs = tuple(template(factor * noise) for template, noise in zip(templates, noises, strict=True))
        return largest(runs, None if score_noise is None else score_event(factor * score_noise))

    # A single cost is calibrated already.
    factor = smallest_noise(scaled) if len(noise_by_cost) + has_score_noise > 1 else 1.0
    return tuple(factor * noise for noise in noises), None if score_noise is None else factor * score_noise


def _assumptions(unit: Unit) -> tuple[str, ...]:
    return (
        "the number of runs, their duration and everything they left behind stay secret",
        "each run is independent, with fresh noise, and costs what was stated for its settings",
        f"whether a run fails does not depend on one {unit}, and the space of settings does not depend on the data",
    )
