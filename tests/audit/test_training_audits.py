"""White-box audits of the real step: how tight they are, that they are valid, and what they refuse.

False alarms: how many pairs are in order is binomial, with a probability that is known for Gaussian noise; a test fails
with 2e-7 if it lies outside of the limits for that, and with 1e-7 if a bound lies above the truth.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm
from torch import nn

from audit.step_setups import ASIDE, Probe, data, loss, setup
from hush.accounting import GaussianEvent, PldAccountant
from hush.audit import AuditResult
from hush.audit.training import (
    Observations,
    Recorder,
    Setup,
    audit_claim,
    audit_gaussian,
    compare_claim,
    observe,
)
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound, Relation
from hush.randomness import TestSource
from hush.training import Adaptive, ExponentialCurve, Full, Microbatches, Schedule

CONFIDENCE = 1 - 1e-7


def check_gaussian(seen: Observations, mu: float, *, rate: float = 1.0) -> AuditResult:
    """Check that as many pairs are in order as the noise of a known mu makes likely, and that it bounds mu."""
    found = audit_gaussian(seen, delta=1e-5, confidence=CONFIDENCE)
    law = binom(int(found.details["pairs"]), 0.5 + rate * (norm.cdf(mu / math.sqrt(2)) - 0.5))
    assert law.ppf(1e-7) <= found.details["in_order"] <= law.isf(1e-7)
    assert found.mu_lower is not None
    assert found.mu_lower <= mu
    return found


@pytest.fixture(scope="module")
def observed() -> Observations:
    return observe(setup(noise_multiplier=1.0), observations=600, source=TestSource(1))


def test_a_step_has_the_mu_of_its_noise(observed: Observations) -> None:
    found = check_gaussian(observed, 1.0)
    assert found.mu_lower > 0.2  # P(less) = 2e-8
    assert found.bound is Bound.LOWER
    assert not found.compare(observed.claimed(1e-5)).violated


def test_the_bound_reaches_four_fifths_of_the_truth(observed: Observations) -> None:
    # Of a thousand pairs, as many in order as is expected for mu = 1.
    ordered = np.repeat([1.0, -1.0], [round(1000 * norm.cdf(math.sqrt(0.5))), round(1000 * norm.sf(math.sqrt(0.5)))])
    ins, outs = np.tile(ordered[:, None], 3), np.zeros((1000, 3))
    found = audit_gaussian(replace(observed, scores_in=ins, scores_out=outs), delta=1e-5)
    assert found.mu_lower is not None
    assert 0.8 <= found.mu_lower <= 1.0


def test_two_runs_and_samples_have_it_too() -> None:
    sampled = setup(dataset=ASIDE, batch_size=5, noise_multiplier=0.8)
    seen = observe(sampled, observations=400, runs=2, source=TestSource(2))
    assert check_gaussian(seen, 1 / 0.8, rate=5 / 6).mu_lower > 0  # P(0) = 9e-12


def _network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


def _cross_entropy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), y, reduction="none")


def test_a_network_with_a_loss_of_its_own_has_it() -> None:
    """The canary is an ordinary example, whose gradient is longer than the clip norm."""
    generator = torch.Generator().manual_seed(1)
    dataset = torch.randn(20, 8, generator=generator), torch.randint(0, 3, (20,), generator=generator)
    settings = {"noise_multiplier": 0.5, "clip_norm": 0.1}
    network = Setup(model=_network, dataset=dataset, loss=_cross_entropy, settings=settings)
    found = observe(network, observations=200, source=TestSource(3))
    assert check_gaussian(found, 2.0).mu_lower > 0.4  # P(less) = 2e-9
    assert not compare_claim(found, confidence=CONFIDENCE).violated


def test_steps_are_composed_by_the_accountant(observed: Observations) -> None:
    found = audit_gaussian(observed, delta=1e-5, num_steps=100, confidence=CONFIDENCE)
    assert found.mu_lower is not None
    exact = PldAccountant().compose(GaussianEvent(1 / found.mu_lower), 100)
    assert found.epsilon_lower == pytest.approx(exact.epsilon(1e-5), rel=1e-3)
    assert found.epsilon_lower < PldAccountant().compose(GaussianEvent(1.0), 100).epsilon(1e-5)


def test_scores_are_in_clip_norms(observed: Observations) -> None:
    # Six standard deviations each: false alarms 4e-9.
    shift = observed.scores_in[:, 0].mean() - observed.scores_out[:, 0].mean()
    assert shift == pytest.approx(1.0, abs=6 * np.sqrt(2 / 600))
    assert observed.scores_out[:, 0].std() == pytest.approx(1.0, abs=6 * np.sqrt(0.5 / 600))


def _imagined(mu: float, real: Observations, seed: int, count: int = 200) -> Observations:
    """What a Gaussian mechanism of this mu would have shown."""
    random = np.random.default_rng(seed)
    ins, outs = random.normal(size=(count, 3)), random.normal(size=(count, 3))
    ins[:, 0] += mu
    return replace(real, scores_in=ins, scores_out=outs)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["gaussian", "claim"])
def test_bounds_fail_no_more_often_than_they_may(way: str, observed: Observations) -> None:
    """Over 500 audits at 95 %, of a mechanism that has exactly the privacy that is claimed."""
    failed = 0
    for seed in range(500):
        seen = _imagined(1.0, observed, seed)
        if way == "gaussian":
            failed += float(audit_gaussian(seen, delta=1e-5).mu_lower or 0) > 1.0
        else:
            failed += compare_claim(seen).violated
    assert failed <= binom.isf(1e-7, 500, 0.05)


def test_a_mechanism_with_less_privacy_than_claimed_is_caught(observed: Observations) -> None:
    # Over 200 seeds epsilon is 2.9 above the claim, with a standard deviation of 0.2.
    assert compare_claim(_imagined(5.0, observed, 0)).violated
    assert not compare_claim(_imagined(0.0, observed, 0), confidence=CONFIDENCE).violated


def test_the_recorder_leaves_weights_as_they_are() -> None:
    model = nn.Linear(2, 1)
    recorder = Recorder(model.parameters())
    before = [param.clone() for param in model.parameters()]
    model(torch.ones(1, 2)).sum().backward()
    recorder.step()
    assert all(torch.equal(one, two) for one, two in zip(before, model.parameters(), strict=True))
    assert recorder.seen[0].tolist() == [1.0, 1.0, 1.0]


def test_what_cannot_be_audited_is_refused(observed: Observations) -> None:
    with pytest.raises(InvalidArgument, match="settings"):
        setup(num_steps=3)
    with pytest.raises(Unsupported, match="clip norm moves"):
        setup(clipping=Adaptive(1.0))
    with pytest.raises(Unsupported, match="steps that differ"):
        setup(schedule=Schedule(noise_multiplier=ExponentialCurve(1.0, 2.0, 10)))
    with pytest.raises(InvalidArgument, match="1 or 2"):
        observe(setup(), runs=3)
    with pytest.raises(InvalidArgument, match="at least 20"):
        audit_claim(replace(observed, scores_in=observed.scores_in[:5]))
    plan = replace(observed.plan, contribution=Microbatches(2), relation=observed.plan.relation.ZERO_OUT)
    with pytest.raises(Unsupported, match="no plain Gaussian"):
        audit_gaussian(replace(observed, plan=plan), delta=1e-5)


def test_a_canary_without_a_gradient_is_refused() -> None:
    silent = Setup(
        model=Probe, dataset=data(canary=(0.0, 0.0)), loss=loss, settings={"noise_multiplier": 1.0, "clip_norm": 1.0}
    )
    with pytest.raises(InvalidArgument, match="not zero"):
        observe(silent, observations=1, source=TestSource(1))


def test_samples_under_replacement_are_no_pair_of_one_gaussian() -> None:
    """Both worlds sample their unit: pairs are in order more often than one sampled Gaussian allows."""
    settings = {"dataset": ASIDE, "noise_multiplier": 1.0, "relation": Relation.REPLACE}
    seen = observe(setup(batch_size=5, **settings), observations=40, source=TestSource(6))
    with pytest.raises(Unsupported, match="both worlds sample their unit"):
        audit_gaussian(seen, delta=1e-5)
    assert not compare_claim(seen, confidence=CONFIDENCE).violated


@pytest.mark.parametrize("relation", list(Relation))
def test_relations_keep_their_claims_without_sampling(relation: Relation) -> None:
    seen = observe(setup(noise_multiplier=0.7, relation=relation), observations=300, source=TestSource(7))
    assert isinstance(seen.plan.sampling, Full)
    found = check_gaussian(seen, (2 if relation is Relation.REPLACE else 1) / 0.7)  # its opposite is twice as far
    claimed = seen.claimed(1e-5)
    assert 0 < found.epsilon_lower <= claimed.epsilon
    assert not found.compare(claimed).violated
