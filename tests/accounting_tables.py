"""The tables that enrol every event, accountant and relation in the accounting tests.

Add a new event or accountant here, once. `test_accountants.py` notices a missing one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hush import accounting as hush
from hush.accounting import (
    Accountant,
    AllocatedEvent,
    ApproximateDPEvent,
    BallsInBinsEvent,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    ShuffledEvent,
    ZeroConcentratedDPEvent,
)
from hush.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianMixtureEvent,
    NoisyMaxEvent,
    PerChangeEvent,
    ProjectedGaussianEvent,
    RandomizedResponseEvent,
    RepeatNegativeBinomialEvent,
    RepeatPoissonEvent,
    TruncatedPoissonSampledEvent,
)
from hush.guarantee import Relation

ACCOUNTANTS: dict[str, type[Accountant]] = {
    "pld": hush.PldAccountant,
    "rdp": hush.RdpAccountant,
    "zcdp": hush.ZcdpAccountant,
    "cdp": hush.CdpAccountant,
    "gdp": hush.GdpAccountant,
    "basic": hush.BasicAccountant,
    "advanced": hush.AdvancedAccountant,
    "selection": hush.SelectionAccountant,
}
RELATIONS = {relation.value: relation for relation in Relation}

# Every kind of event, alone and in the combinations that accountants treat specially.
EVENTS: dict[str, Event] = {
    "gaussian": GaussianEvent(1.5),
    "projected-gaussian": ProjectedGaussianEvent(1.5, 20),
    "laplace": LaplaceEvent(2.0),
    "discrete-gaussian": DiscreteGaussianEvent(3.0, 2),
    "discrete-laplace": DiscreteLaplaceEvent(4.0, 2),
    "per-change-gaussian": PerChangeEvent(GaussianEvent(1.5)),
    "per-change-laplace": PerChangeEvent(LaplaceEvent(2.0)),
    "poisson-per-change": PoissonSampledEvent(PerChangeEvent(GaussianEvent(1.5)), 0.1),
    "fixed-per-change": FixedSizeSampledEvent(PerChangeEvent(LaplaceEvent(2.0)), 10, 100),
    "parallel-per-change": ParallelEvent((PerChangeEvent(LaplaceEvent(2.0)), LaplaceEvent(3.0))),
    "group-per-change": GroupEvent(PerChangeEvent(GaussianEvent(4.0)), 3),
    "gaussian-mixture": GaussianMixtureEvent(1.5, (0.0, 0.5, 2.0), (0.9, 0.08, 0.02)),
    "truncated-poisson": TruncatedPoissonSampledEvent(GaussianEvent(1.5), 0.05, 9, 100),
    "exponential-mechanism": ExponentialMechanismEvent(0.5),
    "noisy-max": NoisyMaxEvent(0.5),
    "randomized-response": RandomizedResponseEvent(0.4),
    "randomized-response-of-5": RandomizedResponseEvent(0.4, 5),
    "approximate-dp": ApproximateDPEvent(0.3, 1e-8),
    "pure-dp": ApproximateDPEvent(0.3),
    "only-delta": ApproximateDPEvent(0.0, 1e-8),
    "zcdp": ZeroConcentratedDPEvent(0.05),
    "poisson-gaussian": PoissonSampledEvent(GaussianEvent(0.8), 0.05),
    "poisson-gaussian-whole": PoissonSampledEvent(GaussianEvent(1.5), 1.0),
    "poisson-projected-gaussian": PoissonSampledEvent(ProjectedGaussianEvent(1.5, 20), 0.05),
    "poisson-laplace": PoissonSampledEvent(LaplaceEvent(1.0), 0.1),
    "poisson-discrete-gaussian": PoissonSampledEvent(DiscreteGaussianEvent(1.0), 0.1),
    "poisson-discrete-laplace": PoissonSampledEvent(DiscreteLaplaceEvent(1.0), 0.1),
    "poisson-exponential": PoissonSampledEvent(ExponentialMechanismEvent(1.0), 0.1),
    "poisson-approximate": PoissonSampledEvent(ApproximateDPEvent(0.3, 1e-8), 0.1),
    "poisson-twice": PoissonSampledEvent(PoissonSampledEvent(GaussianEvent(0.8), 0.5), 0.1),
    "poisson-two-gaussians": PoissonSampledEvent(ComposedEvent((GaussianEvent(1.0), GaussianEvent(2.0))), 0.1),
    "poisson-repeated-gaussian": PoissonSampledEvent(SelfComposedEvent(GaussianEvent(2.0), 4), 0.1),
    "poisson-two-mechanisms": PoissonSampledEvent(ComposedEvent((GaussianEvent(1.0), LaplaceEvent(1.0))), 0.1),
    "fixed-gaussian": FixedSizeSampledEvent(GaussianEvent(2.0), 10, 100),
    "fixed-gaussian-whole": FixedSizeSampledEvent(GaussianEvent(2.0), 100, 100),
    "fixed-laplace": FixedSizeSampledEvent(LaplaceEvent(3.0), 10, 100),
    "balls-in-bins": BallsInBinsEvent(GaussianEvent(0.8), 50),
    "balls-in-one-bin": BallsInBinsEvent(GaussianEvent(1.7), 1),
    "balls-in-bins-laplace": BallsInBinsEvent(LaplaceEvent(1.0), 50),
    "balls-in-bins-sampled": PoissonSampledEvent(BallsInBinsEvent(GaussianEvent(0.8), 20), 0.5),
    "allocated": AllocatedEvent(GaussianEvent(0.8), 50, 3),
    "allocated-to-every-step": AllocatedEvent(GaussianEvent(1.7), 3, 3),
    "allocated-laplace": AllocatedEvent(LaplaceEvent(1.0), 50, 3),
    "shuffled-randomized-response": ShuffledEvent(RandomizedResponseEvent(1.0, 5), 200),
    "shuffled-pure-dp": ShuffledEvent(ApproximateDPEvent(1.0), 200),
    "shuffled-gaussian": ShuffledEvent(GaussianEvent(1.0), 200),
    "composed": ComposedEvent((GaussianEvent(2.0), LaplaceEvent(3.0))),
    "composed-sampled": ComposedEvent(
        (PoissonSampledEvent(GaussianEvent(1.0), 0.05), PoissonSampledEvent(GaussianEvent(2.0), 0.1))
    ),
    "self-composed": SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.02), 5),
    "parallel": ParallelEvent((GaussianEvent(1.0), LaplaceEvent(2.0))),
    "parallel-alike": ParallelEvent((GaussianEvent(1.0), GaussianEvent(1.0))),
    "parallel-sampled": ParallelEvent(
        (PoissonSampledEvent(GaussianEvent(0.6), 0.1), PoissonSampledEvent(LaplaceEvent(0.5), 0.1))
    ),
    "parallel-composed": ParallelEvent(
        (ComposedEvent((GaussianEvent(2.0), LaplaceEvent(3.0))), ComposedEvent((GaussianEvent(1.0), LaplaceEvent(9.0))))
    ),
    "parallel-by-index": ParallelByIndexEvent((GaussianEvent(1.0), LaplaceEvent(2.0))),
    "group-gaussian": GroupEvent(GaussianEvent(4.0), 3),
    "group-poisson-gaussian": GroupEvent(PoissonSampledEvent(GaussianEvent(2.0), 0.05), 3),
    "group-balls-in-bins": GroupEvent(BallsInBinsEvent(GaussianEvent(0.8), 50), 3),
    "group-laplace": GroupEvent(LaplaceEvent(6.0), 3),
    "group-randomized-response": GroupEvent(RandomizedResponseEvent(0.2), 3),
    "group-zcdp": GroupEvent(ZeroConcentratedDPEvent(0.01), 3),
    "group-noisy-max": GroupEvent(NoisyMaxEvent(0.2), 3),
    "group-exponential": GroupEvent(ExponentialMechanismEvent(0.2), 3),
    "repeat-geometric": RepeatNegativeBinomialEvent(GaussianEvent(3.0), 0.1, 1.0),
    "repeat-logarithmic": RepeatNegativeBinomialEvent(GaussianEvent(3.0), 0.1, 0.0),
    "repeat-poisson": RepeatPoissonEvent(GaussianEvent(3.0), 10.0),
}
NOTHING: dict[str, Event] = {
    "nothing": ComposedEvent(()),
    "zero-times": SelfComposedEvent(GaussianEvent(1.0), 0),
    "zero-times-sampled": SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.1), 0),
    "nested-nothing": ComposedEvent((ComposedEvent(()), SelfComposedEvent(ComposedEvent((LaplaceEvent(1.0),)), 0))),
}

CASES: dict[str, tuple[Accountant, Event]] = {
    f"{name}-{relation}-{event_name}": (accountant(relation=RELATIONS[relation]), event)
    for name, accountant in ACCOUNTANTS.items()
    for relation in RELATIONS
    for event_name, event in EVENTS.items()
}


def supported() -> dict[str, tuple[Accountant, Event]]:
    """Return the cases that their accountant supports (zero-out is accounted for like add-or-remove)."""
    return {
        name: (accountant, event)
        for name, (accountant, event) in CASES.items()
        if accountant.relation is not Relation.ZERO_OUT and _supports(accountant, event)
    }


def _supports(accountant: Accountant, event: Event) -> bool:
    try:
        return accountant.supports(event)
    except Exception:
        return False


def parts(event: Event) -> Iterator[Event]:
    """Yield the event and everything that it contains."""
    yield event
    inner = getattr(event, "events", None) or [getattr(event, "event", None)]
    for part in inner:
        if part is not None:
            yield from parts(part)


# From the golden files' phases to events.
BUILD: dict[str, Callable[..., Event]] = {
    "sg": lambda rate, sigma: PoissonSampledEvent(GaussianEvent(sigma), rate),
    "lap": lambda scale: LaplaceEvent(scale),
    "sublap": lambda rate, scale: PoissonSampledEvent(LaplaceEvent(scale), rate),
    "rr": lambda epsilon: RandomizedResponseEvent(epsilon),
}


def build(phases: list[list[Any]]) -> Event:
    """Return the composition that a golden file's phases describe."""
    return ComposedEvent(
        tuple(SelfComposedEvent(BUILD[kind](*numbers), int(count)) for kind, *numbers, count in phases)
    )


def golden(name: str) -> Any:
    """Return a parsed file of tests/golden."""
    return json.loads((Path(__file__).parent / "golden" / name).read_text())
