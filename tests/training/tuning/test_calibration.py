"""Calibrated searches: epsilon is met, costs are checked, and a search trains models from end to end."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import hush
from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    ParallelByIndexEvent,
    PoissonSampledEvent,
    RdpAccountant,
    SelectionAccountant,
    SelfComposedEvent,
)
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Relation, Unit
from hush.randomness import TestSource
from hush.training import Flat, Full, HeldOutAnswers, Poisson, Range, Repetitions, TrainingPlan, plan_tuning, tune
from hush.training.tuning.scores import PrivateScore
from training.searches import EACH_LAW, PUBLIC, gaussian_cost, planned


def mixed(settings: dict[str, Any], noise: float) -> Event:
    """Costs whose Renyi divergences have different shapes: flat beyond an order, ever steeper, or straight."""
    if settings["kind"] == "pure":
        return ApproximateDPEvent(1 / noise)
    step: Event = GaussianEvent(noise)
    return SelfComposedEvent(PoissonSampledEvent(step, 0.05) if settings["kind"] == "sampled" else step, 20)


def example_plan(settings: dict[str, Any], noise: float, **changes: Any) -> TrainingPlan:
    usual: dict[str, Any] = {
        "sampling": Full(),
        "num_units": 200,  # out of 240; the others are held out
        "num_steps": settings.get("steps", 4),
        "clipping": Flat(1.0),
        "noise_multiplier": noise,
        "delta": 1e-5,
        "physical_batch_size": 50,
    }
    return TrainingPlan(**(usual | changes))


class TestCalibration:
    @EACH_LAW
    def test_epsilon_is_met_and_used_up(self, law: Repetitions) -> None:
        plan = planned(law)
        assert 2.0 * 0.999 < plan.guarantee().epsilon <= 2.0
        assert plan.one_run().epsilon < plan.guarantee().epsilon
        assert plan.event() == replace(plan.event(), event=law.event(GaussianEvent(plan.noise_multipliers[0])))  # type: ignore[type-var]

    @pytest.mark.parametrize("kind", ["pure", pytest.param("sampled", marks=pytest.mark.slow)])
    def test_settings_of_different_costs_have_different_noise(self, kind: str) -> None:
        space = {"kind": ["straight", kind], "rate": Range.logarithmic(0.1, 1.0)}
        plan = plan_tuning(space, cost=mixed, score=PUBLIC, epsilon=2.0, delta=1e-5)
        assert 2.0 * 0.999 < plan.guarantee().epsilon <= 2.0
        law = plan.repetitions
        alone = [SelectionAccountant().compose(law.event(run)).epsilon(1e-5) for run in plan.runs]
        assert all(1.5 < epsilon <= 2.0 for epsilon in alone)  # no setting pays much for the others
        assert plan.noise_multipliers[1] < 0.5 * plan.noise_multipliers[0]  # and one noise for all would be too much
        # The bound is their largest divergence at every order.
        one_run = RdpAccountant().compose(plan._one_run())
        for order in (1.1, 2.0, 8.0, 64.0):
            divergences = [RdpAccountant().compose(run).renyi(order) for run in plan.runs]
            assert one_run.renyi(order) == pytest.approx(max(divergences), rel=1e-9)

    def test_the_cost_does_not_see_ranges(self) -> None:
        names_seen: list[set[str]] = []

        def cost(settings: dict[str, Any], noise: float) -> Event:
            names_seen.append(set(settings))
            return GaussianEvent(noise)

        plan_tuning(
            {"size": [1, 2], "rate": Range.logarithmic(0.1, 1.0)}, cost=cost, score=PUBLIC, epsilon=1.0, delta=1e-5
        )
        assert all(names == {"size"} for names in names_seen)

    def test_a_score_on_held_out_units_costs_next_to_nothing(self) -> None:
        space = [{"kind": "straight"}]
        public = plan_tuning(space, cost=mixed, score=PUBLIC, epsilon=2.0, delta=1e-5)
        private = plan_tuning(space, cost=mixed, score=PrivateScore(size=1000), epsilon=2.0, delta=1e-5)
        assert private.guarantee().epsilon <= 2.0
        assert public.noise_multipliers[0] <= private.noise_multipliers[0] < 1.02 * public.noise_multipliers[0]
        assert private.score_noise is not None
        assert private.score_noise < 10  # of a thousand
        held_out = PrivateScore(size=1000).event(private.score_noise)
        assert held_out is not None
        assert private._one_run() == ParallelByIndexEvent((*private.runs, held_out))
        composed = ComposedEvent((*private.runs, held_out))  # the cost if units were both trained on and held out
        assert RdpAccountant().compose(private.repetitions.event(composed)).epsilon(1e-5) > 2.5

    def test_replacing_a_unit_moves_a_score_twice_as_far(self) -> None:
        # A right answer instead of a wrong one moves the sum by 2, which the accountant must take into account.
        event = PrivateScore(size=9).event(3.0)
        assert event is not None
        removed, replaced = (
            RdpAccountant(relation=relation).compose(event) for relation in (Relation.ADD_OR_REMOVE, Relation.REPLACE)
        )
        assert removed.renyi(2.0) == pytest.approx(2.0 / (2 * 3.0**2), rel=1e-6)
        assert replaced.renyi(2.0) == pytest.approx(4 * removed.renyi(2.0), rel=1e-6)

    @pytest.mark.parametrize("relation", list(Relation))
    def test_relations(self, relation: Relation) -> None:
        plan = plan_tuning(
            [{}], cost=gaussian_cost, score=PrivateScore(size=10), epsilon=1.0, delta=1e-5, relation=relation
        )
        assert plan.guarantee().relation is relation
        assert 0.999 < plan.guarantee().epsilon <= 1.0

    def test_plans_bring_their_unit_and_assumptions(self) -> None:
        plan = plan_tuning(
            {"steps": [2, 4]},
            cost=lambda settings, noise: example_plan(settings, noise, unit=Unit.user(), labelled=True),
            score=PUBLIC,
            epsilon=2.0,
            delta=1e-5,
        )
        promised = plan.guarantee()
        assert promised.unit == Unit.user()
        assert "every example carries the id of its user" in promised.assumptions
        assert PUBLIC.assumptions(Unit.user())[0] in promised.assumptions
        assert "logarithmic" in promised.method
        assert "Renyi" in promised.method
        assert Event.from_json(plan.event().to_json()) == plan.event()

    def test_a_cost_that_is_not_a_function_is_refused(self) -> None:
        calls = iter(range(10**6))

        def cost(settings: dict[str, Any], noise: float) -> Event:
            return GaussianEvent(noise * 0.99 ** next(calls))

        with pytest.raises(InvalidArgument, match="^(cost|epsilon)="):
            plan_tuning([{}], cost=cost, score=PUBLIC, epsilon=1.0, delta=1e-5)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"epsilon": 0.0}, "^epsilon="),
            ({"epsilon": math.nan}, "^epsilon="),
            ({"delta": 0.0}, "^delta="),
            ({"delta": 1.0}, "^delta="),
            ({"score": 0.5}, "^score="),
            ({"repetitions": 10}, "^repetitions="),
            ({"cost": GaussianEvent(1.0)}, "^cost="),
            ({"cost": lambda settings, noise: 1.0}, "^cost="),
            ({"cost": lambda settings, noise: ApproximateDPEvent(1.0, 1e-6)}, "approximate-dp"),
            ({"cost": lambda settings, noise: GaussianEvent(1.0)}, "^epsilon="),
            ({"cost": lambda s, n: example_plan(s, n, sampling=Poisson(50, 120))}, "^max_batch_size"),
            ({"cost": example_plan, "delta": 0.01}, "^delta="),
            ({"cost": example_plan, "unit": Unit.user()}, "per example"),
            ({"unit": Unit.user().group(2)}, "^unit="),
        ],
    )
    def test_refusals(self, changes: dict[str, Any], message: str) -> None:
        usual: dict[str, Any] = {"cost": gaussian_cost, "score": PUBLIC, "epsilon": 0.5, "delta": 1e-5}
        with pytest.raises(HushError, match=message):
            plan_tuning([{}], **(usual | changes))


class TestWithTraining:
    x = torch.linspace(-1, 1, 240).reshape(-1, 1) * torch.tensor([[1.0, -0.5]])
    y = (x[:, 0] > 0).long()

    def train(self, settings: dict[str, Any], noise: float, **changes: Any) -> HeldOutAnswers:
        held_out = torch.arange(240) % 6 == 0
        model = nn.Linear(2, 2)
        usual: dict[str, Any] = {"num_steps": settings["steps"], "noise_multiplier": noise}
        run = hush.fit(
            model,
            (self.x[~held_out], self.y[~held_out]),
            delta=1e-5,
            optimizer=torch.optim.SGD(model.parameters(), lr=settings["rate"]),
            **(usual | changes),
        )
        with torch.no_grad():
            return HeldOutAnswers(model(self.x[held_out]).argmax(1) == self.y[held_out], run)

    SEARCH: ClassVar[dict[str, Any]] = {
        "cost": example_plan,
        "score": PrivateScore(size=40),
        "epsilon": 4.0,
        "delta": 1e-5,
        "repetitions": Repetitions.negative_binomial(3.0),
    }
    SPACE: ClassVar[dict[str, Any]] = {"steps": [4, 8], "rate": Range.logarithmic(0.1, 4.0)}

    def test_from_end_to_end(self, capfd: pytest.CaptureFixture[str]) -> None:
        best = tune(self.train, self.SPACE, **self.SEARCH, progress=False)
        assert best.found
        assert best.settings is not None
        assert best.result.plan.num_steps == best.settings["steps"]
        assert best.result.plan.noise_multiplier == best.noise_multiplier
        assert 3.99 < best.guarantee.epsilon <= 4.0
        assert best.price > 0.5
        assert best.price == best.guarantee.epsilon - best.one_run.epsilon
        assert "test randomness" not in best.guarantee.assumptions
        assert RdpAccountant().compose(best.event).assumptions == best.guarantee.assumptions
        assert "".join(capfd.readouterr()) == ""  # nor from the progress bars of fit
        assert hush.tune is tune

    def test_test_randomness_is_stated(self) -> None:
        seeded_search = tune(self.train, self.SPACE, **self.SEARCH, source=TestSource(1), progress=False)
        assert "test randomness" in seeded_search.guarantee.assumptions
        seeds = iter(range(10_000))

        def seeded(settings: dict[str, Any], noise: float) -> HeldOutAnswers:
            return self.train(settings, noise, source=TestSource(next(seeds)))

        seeded_runs = tune(seeded, self.SPACE, **self.SEARCH, progress=False)
        assert "test randomness" in seeded_runs.guarantee.assumptions

    @pytest.mark.parametrize(
        "changes", [{"num_steps": 9}, {"batch_size": 50}, {"noise_multiplier": 0.9}, {"epsilon": 0.3}]
    )
    @pytest.mark.quick_cases(2)
    def test_runs_of_another_cost_are_refused(self, changes: dict[str, Any]) -> None:
        def train(settings: dict[str, Any], noise: float) -> HeldOutAnswers:
            return self.train(settings, noise, **changes)

        with pytest.raises(InvalidArgument, match="^(cost|noise_multiplier)="):
            tune(train, self.SPACE, **self.SEARCH, progress=False)


@pytest.mark.slow
def test_the_factor_in_the_docstring() -> None:
    """Several costs need a common factor on their noise, of 6.1 percent in this example."""

    def cost(settings: dict[str, Any], noise: float) -> Event:
        step = PoissonSampledEvent(GaussianEvent(noise), settings["batch"] / 10_000)
        return SelfComposedEvent(step, settings["steps"])

    usual: dict[str, Any] = {"cost": cost, "score": PUBLIC, "epsilon": 2.0, "delta": 1e-5}
    together = plan_tuning({"batch": [100, 500], "steps": [20, 200]}, **usual)
    alone = [plan_tuning([settings], **usual).noise_multipliers[0] for settings in together.space.listed]
    factors = [noise / smallest for noise, smallest in zip(together.noise_multipliers, alone, strict=True)]
    assert factors == pytest.approx([1.061] * 4, abs=5e-3)
