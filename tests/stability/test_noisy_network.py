"""Networks with a noise layer: certificates where the true radius is known, and under attack."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from scipy.special import ndtr  # noqa: E402
from scipy.stats import binom  # noqa: E402
from torch import nn  # noqa: E402

from cases import first_quick  # noqa: E402
from hush.errors import InvalidArgument  # noqa: E402
from hush.lab.radius import pixeldp_radius  # noqa: E402
from hush.stability import InputNorm, NoiseLayer, NoisyNetwork, pgd  # noqa: E402
from hush.stability.noisy_network import upper_bound  # noqa: E402


def half_space(norm: InputNorm = InputNorm.L2, stddev: float = 0.5, sharpness: float = 1000.0) -> NoisyNetwork:
    """Return a network that says 1 where the first number, with noise, is positive."""
    first, rest = nn.Linear(3, 3, bias=False), nn.Linear(3, 2, bias=False)
    first.weight.data.copy_(torch.eye(3))
    rest.weight.data.copy_(torch.tensor([[-sharpness, 0, 0], [sharpness, 0, 0]]))
    return NoisyNetwork(NoiseLayer(first, noise_stddev=stddev, norm=norm), rest).eval()


@pytest.mark.parametrize("norm", [InputNorm.L1, InputNorm.L2])
def test_a_half_space_is_certified_to_nearly_its_distance(norm: InputNorm) -> None:
    torch.manual_seed(1)
    for distance in (0.2, 0.6, 1.0):
        example = torch.tensor([distance, 0.0, 0.0])
        certificate = half_space(norm).certify(example, num_samples=50_000, confidence=1 - 1e-7)
        # False alarms: 1e-7 for each to lie beyond; fixed seed.
        assert certificate.label == 1
        assert 0.8 * distance < certificate.radius <= distance
        assert certificate.norm is norm


def test_the_stated_confidence_is_kept_and_a_broken_twin_is_caught() -> None:
    # At this distance the true radius is 0.1. A certificate beyond it is wrong; at most one in five is. The twin takes
    # the sample for the truth, and is wrong every other time.
    torch.manual_seed(2)
    network, example = half_space(), torch.tensor([0.1, 0.0, 0.0])
    wrong, twin_wrong, runs = 0, 0, 200
    for _ in range(runs):
        certificate = network.certify(example, num_samples=300, confidence=0.8)
        wrong += certificate.withstands(0.1 + 1e-4)
        twin_wrong += float(network.scores(example, 300)[:, 1].mean()) > ndtr(0.1 / 0.5)
    assert wrong <= binom.isf(1e-7, runs, 0.2)  # fixed seed
    assert twin_wrong > binom.isf(1e-7, runs, 0.2)


def test_scores_certify_more_than_votes_would_where_the_network_is_sure() -> None:
    # A soft score, of a network that is never sure: the expected score, not the vote, is what is stable.
    torch.manual_seed(3)
    soft = half_space(sharpness=1.0)
    example = torch.tensor([1.0, 0.0, 0.0])
    scores = soft.scores(example, 20_000)
    certificate = soft.certify(example, num_samples=20_000)
    assert scores.shape == (20_000, 2)
    assert certificate.lower == pytest.approx(float(scores[:, 1].mean()), abs=0.03)
    assert certificate.radius < half_space().certify(example, num_samples=20_000).radius


def test_the_radius_of_the_first_proof_is_smaller() -> None:
    torch.manual_seed(4)
    network, example = half_space(), torch.tensor([1.0, 0.0, 0.0])
    ours, theirs = (
        network.certify(example, num_samples=5000, **settings).radius for settings in ({}, {"radius": pixeldp_radius})
    )
    assert 0.3 * ours < theirs < ours


def trained(stddev: float, norm: InputNorm) -> tuple[NoisyNetwork, Any, Any]:
    """Return a small network, trained with its noise on two rings, and inputs with their classes."""
    torch.manual_seed(5)
    angles, classes = 2 * math.pi * torch.rand(400), torch.randint(0, 2, (400,))
    inputs = torch.stack([angles.cos(), angles.sin()], dim=1) * (1 + 2 * classes[:, None])
    rest = nn.Sequential(nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    network = NoisyNetwork(NoiseLayer(nn.Linear(2, 32), noise_stddev=stddev, norm=norm), rest)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), classes).backward()
        optimizer.step()
    return network.eval(), inputs[:20], classes[:20]


@pytest.mark.parametrize("norm", first_quick(InputNorm, 1))
def test_no_attack_within_the_radius_succeeds(norm: InputNorm) -> None:
    network, inputs, classes = trained(0.1, norm)
    num_certified = 0
    for example, truth in zip(inputs[:12], classes[:12], strict=True):
        certificate = network.certify(example, num_samples=2000, confidence=1 - 1e-6)
        if certificate.label != int(truth) or not certificate.radius > 0:
            continue
        num_certified += 1
        radius = 0.99 * certificate.radius
        moved = pgd(network, example[None], truth[None], radius=radius, norm=norm, num_draws=20, num_steps=10)
        scores = network.scores(moved[0], 4000)[:, certificate.label]
        # The expected score is above the runner-up's, i.e. above a half; its sample errs by 0.04 with e^-12.
        assert float(scores.mean()) > 0.5 - 0.04
    assert num_certified >= 6


def test_an_attack_far_beyond_the_radius_succeeds() -> None:
    network, inputs, classes = trained(0.1, InputNorm.L2)
    moved = pgd(network, inputs, classes, radius=2.5, num_draws=20)
    predictions = [network.predict(example, num_samples=200) for example in moved]
    wrong = sum(prediction != int(truth) for prediction, truth in zip(predictions, classes, strict=True))
    assert wrong > 10


@pytest.mark.parametrize("distribution", ["rare", "half", "sure"])
def test_bounds_on_expected_scores_fail_as_rarely_as_they_say(distribution: str) -> None:
    generator = torch.Generator().manual_seed(6)
    runs, error = 2000, 0.05
    uniform = torch.rand(100, runs, generator=generator, dtype=torch.float64)
    scores, mean = {
        "rare": ((uniform < 0.02).double(), 0.02),
        "half": ((uniform < 0.5).double(), 0.5),
        "sure": (0.1 * uniform, 0.05),
    }[distribution]
    failures = int((upper_bound(scores, error) < mean).sum())
    assert failures <= binom.isf(1e-6, runs, error)  # fixed seed
    assert float(upper_bound(scores, error).mean()) < mean + 0.2


def test_what_would_mix_copies_or_lose_digits_is_refused() -> None:
    network = half_space()
    with pytest.raises(InvalidArgument, match=r"eval\(\)"):
        network.train().predict(torch.zeros(3))
    network.eval()
    for example in (torch.full((3,), math.nan), torch.full((3,), 1e9), torch.zeros(3, dtype=torch.long)):
        with pytest.raises(InvalidArgument, match="times the noise"):
            network.predict(example)
    network.rest.weight.data[0, 0] = math.inf
    with pytest.raises(InvalidArgument, match="logits"):
        network.predict(torch.zeros(3))


def test_a_tie_is_no_prediction() -> None:
    torch.manual_seed(7)
    certificate = half_space().certify(torch.zeros(3), confidence=1 - 1e-7)
    assert certificate.label is None
    assert certificate.radius == 0.0
