"""Every mechanism with data to run it on: the table that enrols mechanisms in the contract tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush import mechanisms as m
from hush.guarantee import Relation
from hush.randomness import RandomSource

REPLACE = Relation.REPLACE
HOSTILE = (math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 0.0, 5e-324)


def ask_all(mechanism: Any, values: Any, source: RandomSource | None) -> list[Any]:
    """Return the answers of a sparse vector session, until it is over."""
    session = mechanism.start(10.0, source)
    answers = []
    for value in values:
        if not session.remaining:
            break
        answers.append(session.ask(value))
    return answers


def add_twice(mechanism: Any, vectors: Any, source: RandomSource | None) -> Any:
    """Return two sums of a session with individual accounting."""
    session = mechanism.start(source)
    return np.concatenate([session.sum(vectors), session.sum(vectors)])


@dataclass(frozen=True)
class Row:
    """A mechanism, a function that runs it on data, ordinary data, and hostile data that must be answered, too."""

    mechanism: m.Mechanism
    run: Callable[[Any, Any, RandomSource | None], Any]
    data: Any
    hostile: tuple[Any, ...]


def _release(mechanism: Any, data: Any, source: RandomSource | None) -> Any:
    return mechanism.release(data, source).value


def _release_two(mechanism: Any, data: Any, source: RandomSource | None) -> Any:
    return mechanism.release(*data, source).value


def _median(mechanism: Any, data: Any, source: RandomSource | None) -> Any:
    return mechanism.median(data, source).value


SCORES = [3.0, 7.0, 6.0, 1.0]
HOSTILE_SCORES = (*tuple([value, 1.0, 2.0, 3.0] for value in HOSTILE), [0.0] * 4, [math.nan] * 4, [1e300, -1e300, 1, 2])
HOSTILE_PAIRS = tuple((a, b) for a in HOSTILE for b in HOSTILE)
HOSTILE_DISTANCES = tuple(("blue", distance) for distance in HOSTILE)
RECORDS = [float(x % 37) for x in range(101)]
HOSTILE_RECORDS = (*tuple([*RECORDS, value] for value in HOSTILE), [math.nan] * 5)
VECTORS = np.ones((50, 3))
HOSTILE_VECTORS = (*tuple(np.full((4, 3), value) for value in HOSTILE), np.array([[1.7e308, -1.7e308, math.nan]]))


def _raises(block: Any) -> float:
    raise ValueError("secret")


ROWS: dict[str, Row] = {
    "laplace": Row(m.Laplace(epsilon=0.7, sensitivity=2.0), _release, 5.0, HOSTILE),
    "laplace-vector": Row(
        m.Laplace(epsilon=0.7, sensitivity=2.0, size=3), _release, [1.0, 2.0, 3.0], tuple([[v, 0, 1] for v in HOSTILE])
    ),
    "laplace-replace": Row(m.Laplace(epsilon=0.7, sensitivity=2.0, relation=REPLACE), _release, 5.0, HOSTILE),
    "gaussian": Row(m.Gaussian(epsilon=0.7, delta=1e-6, sensitivity=2.0), _release, 5.0, HOSTILE),
    "gaussian-replace": Row(
        m.Gaussian(epsilon=0.7, delta=1e-6, sensitivity=2.0, relation=REPLACE, size=2), _release, [5.0, 1.0], ()
    ),
    "gaussian-classic": Row(m.Gaussian.classic(epsilon=0.7, delta=1e-6, sensitivity=2.0), _release, 5.0, HOSTILE),
    "discrete-laplace": Row(
        m.DiscreteLaplace(epsilon=0.7, sensitivity=2), _release, 5, (0, 10**30, -(10**30), 2**63 - 1)
    ),
    "discrete-laplace-replace": Row(
        m.DiscreteLaplace(epsilon=0.7, sensitivity=3, relation=REPLACE, size=2), _release, [1, 2], ()
    ),
    "discrete-gaussian": Row(
        m.DiscreteGaussian(epsilon=0.7, delta=1e-6, sensitivity=2), _release, 5, (0, 10**30, -(2**63))
    ),
    "discrete-gaussian-vector": Row(
        m.DiscreteGaussian(epsilon=0.7, delta=1e-6, sensitivity=2, size=2), _release, [1, 2], ()
    ),
    "staircase": Row(m.Staircase(epsilon=2.0, sensitivity=1.5), _release, 5.0, HOSTILE),
    "exponential": Row(m.ExponentialMechanism(epsilon=0.7), _release, SCORES, HOSTILE_SCORES),
    "exponential-monotone": Row(
        m.ExponentialMechanism(epsilon=0.7, sensitivity=m.Monotone()), _release, SCORES, HOSTILE_SCORES
    ),
    "permute-and-flip": Row(m.PermuteAndFlip(epsilon=0.7), _release, SCORES, HOSTILE_SCORES),
    "noisy-max": Row(m.ReportNoisyMax(epsilon=0.7), _release, SCORES, HOSTILE_SCORES),
    "noisy-max-gap": Row(m.ReportNoisyMaxWithGap(epsilon=0.7), _release, SCORES, HOSTILE_SCORES),
    "one-shot-top-k": Row(m.OneShotTopK(epsilon=0.7, k=2), _release, SCORES, HOSTILE_SCORES),
    "iterated-top-k": Row(m.IteratedTopK(epsilon=0.7, k=2), _release, SCORES, HOSTILE_SCORES),
    "iterated-top-k-delta": Row(m.IteratedTopK(epsilon=0.7, k=3, delta=1e-6), _release, SCORES, HOSTILE_SCORES),
    "above-threshold": Row(m.AboveThreshold(epsilon=0.7, count=2), ask_all, [0, 20, 5, 30], (HOSTILE,)),
    "above-threshold-monotone": Row(
        m.AboveThreshold(epsilon=0.7, sensitivity=m.Monotone(3.0)), ask_all, [0, 20], (HOSTILE,)
    ),
    "numeric-sparse-vector": Row(m.NumericSparseVector(epsilon=0.7, count=2), ask_all, [0, 20, 5, 30], (HOSTILE,)),
    "randomized-response": Row(m.RandomizedResponse(epsilon=0.7), _release, [0, 1, 1, 0], (HOSTILE,)),
    "randomized-response-k": Row(m.RandomizedResponse(epsilon=0.7, num_values=7), _release, [0, 6, 3], (HOSTILE,)),
    "unary-encoding": Row(m.UnaryEncoding(epsilon=0.7, num_values=5), _release, [0, 4, 2], (HOSTILE,)),
    "piecewise": Row(m.Piecewise(epsilon=0.7, bounds=(-1.0, 4.0)), _release, [0.0, 4.0, 2.5], (HOSTILE,)),
    "smooth-cauchy": Row(
        m.SmoothCauchy(epsilon=0.7, bounds=(0, 40), relation=REPLACE), _median, RECORDS, HOSTILE_RECORDS
    ),
    "smooth-cauchy-hook": Row(m.SmoothCauchy(epsilon=0.7, bounds=(0, 40)), _release_two, (20.0, 0.5), HOSTILE_PAIRS),
    "smooth-laplace": Row(
        m.SmoothLaplace(epsilon=0.7, delta=1e-6, bounds=(0, 40), relation=REPLACE), _median, RECORDS, HOSTILE_RECORDS
    ),
    "smooth-laplace-hook": Row(
        m.SmoothLaplace(epsilon=0.7, delta=1e-6, bounds=(0, 40)), _release_two, (20.0, 0.5), HOSTILE_PAIRS
    ),
    "propose-test-release": Row(
        m.ProposeTestRelease(epsilon=0.7, delta=1e-6, proposed_bound=1.0), _release_two, (20.0, 90), HOSTILE_PAIRS
    ),
    "stable-value": Row(m.StableValue(epsilon=0.7, delta=1e-6), _release_two, ("blue", 90), HOSTILE_DISTANCES),
    "noisy-local-sensitivity": Row(
        m.NoisyLocalSensitivity(epsilon=0.7, delta=1e-6, bound_sensitivity=1.0),
        _release_two,
        (20.0, 3.0),
        HOSTILE_PAIRS,
    ),
    "subsample-mean": Row(
        m.SubsampleAggregate.mean(np.mean, num_blocks=8, epsilon=0.7, bounds=(0, 40)),
        _release,
        RECORDS,
        (*HOSTILE_RECORDS, [], [1.0]),
    ),
    "subsample-median": Row(
        m.SubsampleAggregate.median(np.median, num_blocks=8, epsilon=0.7, delta=1e-6, bounds=(0, 40)),
        _release,
        RECORDS,
        (*HOSTILE_RECORDS, [], [1.0]),
    ),
    "subsample-raising": Row(
        m.SubsampleAggregate.median(_raises, num_blocks=8, epsilon=0.7, bounds=(0, 40)),
        _release,
        RECORDS,
        (),
    ),
    "subsample-most-common": Row(
        m.SubsampleAggregate.most_common(max, num_blocks=8, epsilon=0.7, values=("a", "b", "c")),
        _release,
        list("aabbbc"),
        ([], [1, "a"], [None]),
    ),
    "vector-mean-l2": Row(
        m.VectorMeanL2(epsilon=0.7, delta=1e-6, clip_norm=2.0, dimension=3), _release, VECTORS, HOSTILE_VECTORS
    ),
    "vector-mean-l2-replace": Row(
        m.VectorMeanL2(epsilon=0.7, delta=1e-6, clip_norm=2.0, dimension=3, relation=REPLACE),
        _release,
        VECTORS,
        HOSTILE_VECTORS,
    ),
    "individual-sums": Row(
        m.IndividualSums(epsilon=0.7, delta=1e-6, clip_norm=2.0, dimension=3, full_sums=4),
        add_twice,
        VECTORS,
        HOSTILE_VECTORS,
    ),
    "individual-sums-replace": Row(
        m.IndividualSums(epsilon=0.7, delta=1e-6, clip_norm=2.0, dimension=3, full_sums=1, relation=REPLACE),
        add_twice,
        VECTORS,
        HOSTILE_VECTORS,
    ),
    "vector-mean-l1": Row(m.VectorMeanL1(epsilon=0.7, clip_norm=2.0, dimension=3), _release, VECTORS, HOSTILE_VECTORS),
}
