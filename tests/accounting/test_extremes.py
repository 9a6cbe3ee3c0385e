"""Extreme inputs: answered or refused, but never wrong, and never with gigabytes of memory."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator

import mpmath
import pytest

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from hush.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    RandomizedResponseEvent,
)
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Relation

MEGABYTES = 200

# Each problem runs in a separate process, which reports its answer and the memory that it took beyond importing. The
# processes are forks of one, as importing takes longer than most problems. After ten minutes a problem hangs.
PROGRAM = """
import json, os, resource, signal, sys, warnings
warnings.simplefilter("error")
from hush.accounting import *
from hush.accounting.events import *
from hush.guarantee import Relation
PldAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 0.1), 3).interval(1e-5)  # libraries loaded, caches warm
while line := sys.stdin.readline():
    with warnings.catch_warnings():  # from Python 3.12 on: libraries may have threads
        warnings.filterwarnings("ignore", "This process", DeprecationWarning)
        child = os.fork()
    if child:
        if status := os.waitpid(child, 0)[1]:
            print(json.dumps({"status": status}), flush=True)
        continue
    signal.alarm(600)
    event, delta, relation = json.loads(line)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lower, upper = PldAccountant(relation=Relation(relation)).compose(eval(event)).interval(delta)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"interval": [repr(lower), repr(upper)], "megabytes": (after - before) / 1024}), flush=True)
    os._exit(0)
"""
Solve = Callable[..., tuple[float, float]]


@pytest.fixture(scope="module")
def solve() -> Iterator[Solve]:
    """Return a function that solves a problem, and fails if that took too much memory."""
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def solved(event: Event, delta: float, relation: Relation = Relation.ADD_OR_REMOVE) -> tuple[float, float]:
            print(json.dumps([repr(event), delta, relation.value]), file=process.stdin, flush=True)
            answer = json.loads(process.stdout.readline())  # type: ignore[union-attr]
            assert "interval" in answer, f"{answer}: see what it wrote to stderr"
            assert answer["megabytes"] < MEGABYTES
            lower, upper = answer["interval"]
            return float(lower), float(upper)

        yield solved
        process.stdin.close()


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of the analytic Gaussian, computed with 60 digits."""
    with mpmath.workdps(60):
        mu_, delta_ = mpmath.mpf(mu), mpmath.mpf(delta)

        def excess(epsilon: mpmath.mpf) -> mpmath.mpf:
            first = mpmath.ncdf(mu_ / 2 - epsilon / mu_)
            return first - mpmath.exp(epsilon) * mpmath.ncdf(-mu_ / 2 - epsilon / mu_) - delta_

        if excess(mpmath.mpf(0)) <= 0:
            return 0.0
        low, high = mpmath.mpf(0), mu_ * (mu_ / 2 + 40)
        for _ in range(180):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return float(high)


CORNERS = list(itertools.product([0.05, 1000.0], [1.0, 1e-6], [1, 10**6], [1e-15, 1e-18]))


@pytest.mark.parametrize(("sigma", "rate", "count", "delta"), CORNERS)
def test_corners(solve: Solve, sigma: float, rate: float, count: int, delta: float) -> None:
    event = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(sigma), rate), count)
    lower, upper = solve(event, delta)
    assert 0 <= lower <= upper
    assert not math.isnan(upper)
    assert upper <= RdpAccountant().compose(event).epsilon(delta) * (1 + 1e-6)
    if rate == 1:
        truth = gaussian_epsilon(math.sqrt(count) / sigma, delta)
        assert lower <= truth * (1 + 1e-10)
        assert truth * (1 - 1e-12) <= upper <= truth * (1 + 1e-5)
    else:
        # One step costs no more than all of them.
        single_step = PldAccountant().compose(PoissonSampledEvent(GaussianEvent(sigma), rate)).interval(delta)[0]
        assert single_step <= upper * (1 + 1e-9)
    assert lower >= upper * 0.99 - 1e-12, "the interval is too wide"


@pytest.mark.parametrize(("sigma", "rate", "count", "delta"), CORNERS[::3])
def test_corners_replaced(solve: Solve, sigma: float, rate: float, count: int, delta: float) -> None:
    event = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(sigma), rate), count)
    lower, upper = solve(event, delta, Relation.REPLACE)
    assert 0 <= lower <= upper
    assert PldAccountant().compose(event).interval(delta)[0] <= upper * (1 + 1e-9)


LARGE: dict[str, tuple[Event, float, Relation]] = {
    "wide-discrete-gaussian": (SelfComposedEvent(DiscreteGaussianEvent(1e4), 10**6), 1e-5, Relation.ADD_OR_REMOVE),
    "wide-discrete-laplace": (SelfComposedEvent(DiscreteLaplaceEvent(1e6), 10**6), 1e-5, Relation.ADD_OR_REMOVE),
    "large-sensitivity": (SelfComposedEvent(DiscreteLaplaceEvent(1e4, 10**4), 10), 1e-5, Relation.ADD_OR_REMOVE),
    "two-periods": (
        ComposedEvent(
            (SelfComposedEvent(DiscreteGaussianEvent(30.0), 100), SelfComposedEvent(DiscreteLaplaceEvent(7.0), 20))
        ),
        1e-9,
        Relation.ADD_OR_REMOVE,
    ),
    "group": (
        GroupEvent(SelfComposedEvent(PoissonSampledEvent(GaussianEvent(20.0), 0.01), 1000), 50),
        1e-5,
        Relation.ADD_OR_REMOVE,
    ),
    "a-million-responses": (SelfComposedEvent(RandomizedResponseEvent(1e-3), 10**6), 1e-12, Relation.REPLACE),
    "many-sigmas": (
        ComposedEvent(
            tuple(SelfComposedEvent(PoissonSampledEvent(GaussianEvent(0.8 + 0.02 * i), 0.01), 100) for i in range(100))
        ),
        1e-6,
        Relation.ADD_OR_REMOVE,
    ),
    "sampled-small-noise": (
        SelfComposedEvent(PoissonSampledEvent(LaplaceEvent(0.05), 1e-4), 10**5),
        1e-9,
        Relation.ADD_OR_REMOVE,
    ),
    "exponential": (SelfComposedEvent(ExponentialMechanismEvent(0.01), 10**5), 1e-12, Relation.ADD_OR_REMOVE),
    "mixed-scales": (
        ComposedEvent(
            (
                SelfComposedEvent(PoissonSampledEvent(GaussianEvent(0.5), 1e-4), 10**4),
                GaussianEvent(200.0),
                LaplaceEvent(0.3),
            )
        ),
        1e-8,
        Relation.ADD_OR_REMOVE,
    ),
}


SLOW = {"many-sigmas", "group", "mixed-scales", "sampled-small-noise"}


@pytest.mark.parametrize(
    ("event", "delta", "relation"),
    [pytest.param(*row, marks=[pytest.mark.slow] if name in SLOW else [], id=name) for name, row in LARGE.items()],
)
def test_large_problems_fit_in_memory(solve: Solve, event: Event, delta: float, relation: Relation) -> None:
    lower, upper = solve(event, delta, relation)
    assert 0 < lower <= upper < math.inf
    assert upper <= RdpAccountant(relation=relation).compose(event).epsilon(delta) * (1 + 1e-6)
    # Concentrated privacy bounds what many exponential mechanisms lose to a few percent, and no closer.
    assert upper - lower <= (5e-2 if "ExponentialMechanism" in repr(event) else 1e-2) * upper


@pytest.mark.parametrize("delta", [1e-40, pytest.param(1e-100, marks=pytest.mark.slow)])
def test_tiny_deltas_are_answered(solve: Solve, delta: float) -> None:
    event = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.1), 10)
    lower, upper = solve(event, delta)
    assert 0 <= lower <= upper
    assert upper >= solve(event, 1e-18)[0]


@pytest.mark.parametrize("delta", [1e-290, 1e-310, 5e-324])
def test_deltas_beyond_the_floats_are_refused(delta: float) -> None:
    with pytest.raises(InvalidArgument, match="^delta="):
        PldAccountant().compose(LaplaceEvent(1.0), 5).epsilon(delta)


@pytest.mark.parametrize("delta", [1e-200, 1e-279])
def test_deltas_at_the_end_of_floats_are_bounded_from_above(delta: float) -> None:
    for event in (
        GaussianEvent(2.0),
        SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.1), 10),
        SelfComposedEvent(LaplaceEvent(1.0), 5),
    ):
        epsilon = PldAccountant().compose(event).epsilon(delta)
        assert epsilon >= PldAccountant().compose(event).epsilon(1e-100) * (1 - 1e-5)


@pytest.mark.parametrize("delta", [0.5, 0.9, 0.99, math.nextafter(1, 0)])
def test_large_deltas_are_answered(delta: float) -> None:
    for event in (
        GaussianEvent(0.2),
        SelfComposedEvent(PoissonSampledEvent(GaussianEvent(0.3), 0.2), 40),
        SelfComposedEvent(LaplaceEvent(0.5), 9),
    ):
        lower, upper = PldAccountant().compose(event).interval(delta)
        assert 0 <= lower <= upper < math.inf


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("delta", [1e-18, 1e-5, 0.3])
def test_single_gaussians_in_sixty_digits(mu: float, delta: float) -> None:
    truth = gaussian_epsilon(mu, delta)
    lower, upper = PldAccountant().compose(GaussianEvent(1 / mu)).interval(delta)
    assert lower <= truth * (1 + 1e-14)
    assert truth * (1 - 1e-14) <= upper <= truth * (1 + 1e-8)


# Mechanisms with too little noise: at delta 1e-5 almost all of the largest loss remains.
@pytest.mark.parametrize(
    ("sigma", "sensitivity"), [(0.1, 1), (0.05, 1), (0.02, 1), (0.001, 1), (1.0, 50), (100.0, 10_000)]
)
@pytest.mark.parametrize("count", [1, 3])
def test_discrete_gaussians_with_little_noise(sigma: float, sensitivity: int, count: int) -> None:
    # The noise is almost surely 0, so the loss (D / sigma)^2 / 2 has a probability of about 1/2.
    epsilon = PldAccountant().compose(DiscreteGaussianEvent(sigma, sensitivity), count).epsilon(1e-5)
    truth = count * 0.5 * (sensitivity / sigma) ** 2
    assert truth * (1 - 1e-3) <= epsilon <= truth * 1.3


LITTLE_NOISE = pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussianEvent(0.05),
        DiscreteGaussianEvent(0.1),
        LaplaceEvent(0.05),
        DiscreteLaplaceEvent(0.05),
        GaussianEvent(0.05),
    ],
    ids=str,
)


@LITTLE_NOISE
def test_little_noise_on_a_sample(event: Event) -> None:
    # A record is sampled with probability 7/8, and then it is visible: at least one large loss remains.
    epsilon = PldAccountant().compose(PoissonSampledEvent(event, 0.5), 3).epsilon(1e-5)
    assert epsilon >= PldAccountant().compose(event).epsilon(1e-5) - math.log(2) - 1e-6


@pytest.mark.slow
@LITTLE_NOISE
def test_little_noise_on_a_sample_has_an_interval(event: Event) -> None:
    lower, upper = PldAccountant().compose(PoissonSampledEvent(event, 0.5), 3).interval(1e-5)
    assert 0 <= lower <= upper


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-5])
@pytest.mark.parametrize("delta", [0.0, 1e-8])
def test_claims_of_next_to_nothing(epsilon: float, delta: float) -> None:
    for count in (1, 3, 10**6):
        for accountant in (PldAccountant(), RdpAccountant()):
            if accountant.supports(ApproximateDPEvent(epsilon, delta)):
                total = (
                    accountant.compose(ApproximateDPEvent(epsilon, delta), count)
                    .compose(LaplaceEvent(2.0))
                    .epsilon(0.02)
                )
                alone = accountant.compose(LaplaceEvent(2.0)).epsilon(0.02)
                assert alone * (1 - 1e-5) <= total <= 0.5 + count * epsilon + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("count", [10**9, 10**15, 10**30, 10**400], ids=["1e9", "1e15", "1e30", "1e400"])
def test_absurd_counts_are_answered_or_refused(count: int) -> None:
    for event in (
        GaussianEvent(1.0),
        PoissonSampledEvent(GaussianEvent(1.0), 0.01),
        LaplaceEvent(1.0),
        ApproximateDPEvent(0.1),
    ):
        for accountant in (PldAccountant(), RdpAccountant()):
            with contextlib.suppress(HushError):
                assert accountant.compose(event, count).epsilon(1e-5) > 1e3


def test_absurd_sizes_are_refused_in_the_grammar() -> None:
    for make in (
        lambda: RandomizedResponseEvent(1.0, 10**400),
        lambda: DiscreteGaussianEvent(1.0, 10**400),
        lambda: GroupEvent(GaussianEvent(1e6), 10**400),
    ):
        with contextlib.suppress(HushError):
            assert PldAccountant(relation=Relation.REPLACE).compose(make(), 3).epsilon(1e-5) >= 0
