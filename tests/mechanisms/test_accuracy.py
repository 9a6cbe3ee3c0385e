"""Accuracy statements hold with their stated confidence, and are not much wider than needed where they can be tight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hush import mechanisms as m
from hush.guarantee import Relation
from hush.randomness import TestSource

CONFIDENCE = 0.9
ROUNDS = 1500
# False alarms: 1e-7 for a statement that holds exactly as often as it says, less for others.
FEWEST = int(binom.ppf(1e-7, ROUNDS, CONFIDENCE))
SCORES = np.array([5.0, 4.0, 3.0, 0.0, 0.0, 4.5])


def left_out(scores: Any, chosen: list[int]) -> float:
    """Return by how much the best candidate that was left out beats the worst chosen one."""
    others = np.delete(scores, chosen)
    return float(others.max() - scores[chosen].min())


def choice_holds(mechanism: Any, source: TestSource) -> bool:
    value = mechanism.release(SCORES, source).value
    chosen = [value[0]] if isinstance(value, tuple) else value if isinstance(value, list) else [value]
    return left_out(SCORES, chosen) <= mechanism.accuracy(len(SCORES), CONFIDENCE)


def number_holds(mechanism: Any, source: TestSource) -> bool:
    return abs(mechanism.release(7, source).value - 7) <= mechanism.accuracy(CONFIDENCE)


def threshold_holds(mechanism: Any, source: TestSource) -> bool:
    margin = mechanism.accuracy(20, CONFIDENCE)
    session = mechanism.start(0.0, source)
    return all(session.ask(-margin) in (False, None) for _ in range(19)) and session.ask(margin) not in (False, None)


def value_holds(mechanism: Any, source: TestSource) -> bool:
    value = mechanism.start(-1e6, source).ask(7.0)
    return value is not None and abs(value - 7.0) <= mechanism.value_accuracy(CONFIDENCE)


def reported_counts_hold(mechanism: Any, source: TestSource) -> bool:
    records = np.repeat(np.arange(mechanism.num_values), [300, 50, 0])
    estimate = mechanism.estimate(mechanism.release(records, source).value)
    return bool(np.abs(estimate - [300, 50, 0]).max() <= mechanism.accuracy(350, CONFIDENCE))


def third_sum_holds(mechanism: Any, source: TestSource) -> bool:
    session, vectors = mechanism.start(source), np.full((50, 4), 0.4)
    sums = [session.sum(vectors) for _ in range(3)]
    return bool(np.abs(sums[2] - 50 * 0.4).max() <= mechanism.accuracy(50, CONFIDENCE))


def smooth_release_holds(mechanism: Any, source: TestSource) -> bool:
    return abs(mechanism.release(500.0, 1.0, source).value - 500.0) <= mechanism.accuracy(1.0, CONFIDENCE)


def proposal_holds(mechanism: Any, source: TestSource) -> bool:
    return abs(mechanism.release(7.0, 1e6, source).value - 7.0) <= mechanism.accuracy(CONFIDENCE)


def noisy_bound_holds(mechanism: Any, source: TestSource) -> bool:
    value, bound = mechanism.release(7.0, 3.0, source).value
    return abs(value - 7.0) <= mechanism.accuracy(bound, CONFIDENCE)


def mean_holds(mechanism: Any, source: TestSource) -> bool:
    rows = np.full((200, 4), 0.25)
    value = mechanism.release(rows, source).value
    return bool(np.abs(value - 0.25).max() <= mechanism.accuracy(200, CONFIDENCE))


def reported_mean_holds(mechanism: Any, source: TestSource) -> bool:
    values = np.linspace(-2.0, 5.0, 300)
    estimated = mechanism.estimate(mechanism.release(values, source).value)
    return bool(abs(estimated - values.mean()) <= mechanism.accuracy(len(values), CONFIDENCE))


CASES: dict[str, tuple[Any, Callable[[Any, TestSource], bool]]] = {
    "laplace": (m.Laplace(epsilon=1.0, sensitivity=1.0), number_holds),
    "gaussian": (m.Gaussian(epsilon=1.0, delta=1e-5, sensitivity=1.0), number_holds),
    "discrete-laplace": (m.DiscreteLaplace(epsilon=0.1), number_holds),
    "discrete-gaussian": (m.DiscreteGaussian(epsilon=1.0, delta=1e-5), number_holds),
    "staircase": (m.Staircase(epsilon=2.0, sensitivity=1.0), number_holds),
    "exponential": (m.ExponentialMechanism(epsilon=2.0), choice_holds),
    "permute-and-flip": (m.PermuteAndFlip(epsilon=2.0), choice_holds),
    "noisy-max": (m.ReportNoisyMax(epsilon=3.0), choice_holds),
    "noisy-max-gap": (m.ReportNoisyMaxWithGap(epsilon=3.0), choice_holds),
    "one-shot-top-k": (m.OneShotTopK(epsilon=9.0, k=2), choice_holds),
    "iterated-top-k": (m.IteratedTopK(epsilon=6.0, k=2), choice_holds),
    "above-threshold": (m.AboveThreshold(epsilon=1.0), threshold_holds),
    "numeric-threshold": (m.NumericSparseVector(epsilon=1.0), threshold_holds),
    "numeric-value": (m.NumericSparseVector(epsilon=1.0), value_holds),
    "randomized-response": (m.RandomizedResponse(epsilon=1.0, num_values=3), reported_counts_hold),
    "unary-encoding": (m.UnaryEncoding(epsilon=1.0, num_values=3), reported_counts_hold),
    "piecewise": (m.Piecewise(epsilon=1.0, bounds=(-2.0, 5.0)), reported_mean_holds),
    "smooth-cauchy": (m.SmoothCauchy(epsilon=1.0, bounds=(0, 1000)), smooth_release_holds),
    "smooth-laplace": (m.SmoothLaplace(epsilon=1.0, delta=1e-6, bounds=(0, 1000)), smooth_release_holds),
    "propose-test-release": (m.ProposeTestRelease(epsilon=1.0, delta=1e-6, proposed_bound=1.0), proposal_holds),
    "noisy-local-sensitivity": (
        m.NoisyLocalSensitivity(epsilon=1.0, delta=1e-6, bound_sensitivity=1.0),
        noisy_bound_holds,
    ),
    "vector-mean-l2": (m.VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=4), mean_holds),
    "individual-sums": (
        m.IndividualSums(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=4, full_sums=3),
        third_sum_holds,
    ),
    "vector-mean-l1": (
        m.VectorMeanL1(epsilon=1.0, clip_norm=2.0, dimension=4, relation=Relation.REPLACE),
        mean_holds,
    ),
}
TIGHT = (
    "laplace",
    "gaussian",
    "discrete-laplace",
    "smooth-cauchy",
    "smooth-laplace",
    "propose-test-release",
)


@pytest.mark.parametrize("name", CASES)
def test_statements_hold_with_their_confidence(name: str) -> None:
    mechanism, holds = CASES[name]
    source = TestSource(f"accuracy of {name}")
    held = sum(holds(mechanism, source) for _ in range(ROUNDS))
    assert held >= FEWEST
    if name in TIGHT:  # at 0.9 exactly, or up to 0.91 for integers: P(Binomial(1500, 0.91) > 1425) = 2e-9
        assert held <= (CONFIDENCE + 0.05) * ROUNDS, "a bound much larger than needed would always hold"
