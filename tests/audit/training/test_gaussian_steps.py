"""White-box audits of the real step: how tight they are, that they are valid, and what they refuse.

False alarms: the number of ordered pairs is binomial, with a probability that is known for Gaussian noise. It leaves
its limits with probability 2e-7, and a bound lies above the truth with probability 1e-7.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm
from torch import nn

from audit.training.step_setups import ORTHOGONAL, setup, simulated
from hush.accounting import GaussianEvent, PldAccountant
from hush.audit import AuditResult
from hush.audit.training import Setup, audit_gaussian, compare_claim, observe
from hush.audit.training.observed_steps import Observations
from hush.errors import Unsupported
from hush.guarantee import Bound, Relation
from hush.randomness import TestSource
from hush.training import Full, Microbatches

CONFIDENCE = 1 - 1e-7


def check_gaussian(observations: Observations, mu: float, *, rate: float = 1.0) -> AuditResult:
    """Check that the number of ordered pairs is likely under noise of a known mu, and that the bound is below mu."""
    result = audit_gaussian(observations, delta=1e-5, confidence=CONFIDENCE)
    law = binom(int(result.details["pairs"]), 0.5 + rate * (norm.cdf(mu / math.sqrt(2)) - 0.5))
    assert law.ppf(1e-7) <= result.details["in_order"] <= law.isf(1e-7)
    assert result.mu_lower is not None
    assert result.mu_lower <= mu
    return result


def test_a_step_has_the_mu_of_its_noise(observed: Observations) -> None:
    result = check_gaussian(observed, 1.0)
    assert result.mu_lower > 0.2  # P(less) = 2e-8
    assert result.bound is Bound.LOWER
    assert not result.compare(observed.claimed(1e-5)).violated


def test_the_bound_reaches_four_fifths_of_the_truth(observed: Observations) -> None:
    # Of a thousand pairs, as many in order as is expected for mu = 1.
    ordered = np.repeat([1.0, -1.0], [round(1000 * norm.cdf(math.sqrt(0.5))), round(1000 * norm.sf(math.sqrt(0.5)))])
    scores_in, scores_out = np.tile(ordered[:, None], 3), np.zeros((1000, 3))
    result = audit_gaussian(replace(observed, scores_in=scores_in, scores_out=scores_out), delta=1e-5)
    assert result.mu_lower is not None
    assert 0.8 <= result.mu_lower <= 1.0


def test_poisson_samples_in_two_runs_have_the_mu_of_their_noise() -> None:
    sampled = setup(dataset=ORTHOGONAL, batch_size=5, noise_multiplier=0.8)
    observations = observe(sampled, observations=400, runs=2, source=TestSource(2))
    assert check_gaussian(observations, 1 / 0.8, rate=5 / 6).mu_lower > 0  # P(0) = 9e-12


def _network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


def _cross_entropy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), y, reduction="none")


def test_a_network_has_the_mu_of_its_noise() -> None:
    """The canary is an ordinary example, whose gradient is longer than the clip norm."""
    generator = torch.Generator().manual_seed(1)
    dataset = torch.randn(20, 8, generator=generator), torch.randint(0, 3, (20,), generator=generator)
    settings = {"noise_multiplier": 0.5, "clip_norm": 0.1}
    network = Setup(model=_network, data=dataset, loss=_cross_entropy, settings=settings)
    observations = observe(network, observations=200, source=TestSource(3))
    assert check_gaussian(observations, 2.0).mu_lower > 0.4  # P(less) = 2e-9
    assert not compare_claim(observations, confidence=CONFIDENCE).violated


def test_steps_are_composed_by_the_accountant(observed: Observations) -> None:
    result = audit_gaussian(observed, delta=1e-5, num_steps=100, confidence=CONFIDENCE)
    assert result.mu_lower is not None
    exact = PldAccountant().compose(GaussianEvent(1 / result.mu_lower), 100)
    assert result.epsilon_lower == pytest.approx(exact.epsilon(1e-5), rel=1e-3)
    assert result.epsilon_lower < PldAccountant().compose(GaussianEvent(1.0), 100).epsilon(1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["gaussian", "claim"])
def test_bounds_keep_their_confidence(way: str, observed: Observations) -> None:
    """Over 500 audits at 95 %, of a mechanism that has exactly the privacy that is claimed."""
    failed = 0
    for seed in range(500):
        observations = simulated(1.0, observed, seed)
        if way == "gaussian":
            failed += float(audit_gaussian(observations, delta=1e-5).mu_lower or 0) > 1.0
        else:
            failed += compare_claim(observations).violated
    assert failed <= binom.isf(1e-7, 500, 0.05)


def test_unsuitable_observations_are_refused(observed: Observations) -> None:
    plan = replace(observed.plan, contribution=Microbatches(2), relation=observed.plan.relation.ZERO_OUT)
    with pytest.raises(Unsupported, match="not a plain Gaussian"):
        audit_gaussian(replace(observed, plan=plan), delta=1e-5)


def test_gaussian_audits_of_samples_under_replacement_are_refused() -> None:
    """Both datasets sample their unit: more pairs are ordered than one sampled Gaussian allows."""
    settings = {"dataset": ORTHOGONAL, "noise_multiplier": 1.0, "relation": Relation.REPLACE}
    observations = observe(setup(batch_size=5, **settings), observations=40, source=TestSource(6))
    with pytest.raises(Unsupported, match="both datasets sample their unit"):
        audit_gaussian(observations, delta=1e-5)
    assert not compare_claim(observations, confidence=CONFIDENCE).violated


@pytest.mark.parametrize(
    "relation", [Relation.ADD_OR_REMOVE, *(pytest.param(other, marks=pytest.mark.slow) for other in list(Relation)[1:])]
)
def test_relations_keep_their_claims_without_sampling(relation: Relation) -> None:
    observations = observe(setup(noise_multiplier=0.7, relation=relation), observations=300, source=TestSource(7))
    assert isinstance(observations.plan.sampling, Full)
    # Under replacement the canary becomes its opposite, which is twice as far away.
    result = check_gaussian(observations, (2 if relation is Relation.REPLACE else 1) / 0.7)
    claimed = observations.claimed(1e-5)
    assert 0 < result.epsilon_lower <= claimed.epsilon
    assert not result.compare(claimed).violated
