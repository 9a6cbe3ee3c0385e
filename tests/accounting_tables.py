"""What the accounting tests enrol: every event, every accountant, every relation.

A new event or accountant is added here once; `test_accountants.py` notices one that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hush import accounting as hush
from hush.accounting import (
    Accountant,
    ApproximateDP,
    BallsInBins,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Group,
    Laplace,
    Parallel,
    ParallelByIndex,
    PoissonSampled,
    ProjectedGaussian,
    RandomizedResponse,
    RepeatNegativeBinomial,
    RepeatPoisson,
    SelfComposed,
    ZeroConcentratedDP,
)
from hush.guarantee import Relation

ACCOUNTANTS: dict[str, type[Accountant]] = {
    "pld": hush.PldAccountant,
    "rdp": hush.RdpAccountant,
    "zcdp": hush.ZcdpAccountant,
    "gdp": hush.GdpAccountant,
    "basic": hush.BasicAccountant,
    "advanced": hush.AdvancedAccountant,
}
RELATIONS = {relation.value: relation for relation in Relation}

# Each kind of event, alone and in the combinations that the accountants treat in a way of their own.
EVENTS: dict[str, Event] = {
    "gaussian": Gaussian(1.5),
    "projected-gaussian": ProjectedGaussian(1.5, 20),
    "laplace": Laplace(2.0),
    "discrete-gaussian": DiscreteGaussian(3.0, 2),
    "discrete-laplace": DiscreteLaplace(4.0, 2),
    "exponential-mechanism": ExponentialMechanism(0.5),
    "randomized-response": RandomizedResponse(0.4),
    "randomized-response-of-5": RandomizedResponse(0.4, 5),
    "approximate-dp": ApproximateDP(0.3, 1e-8),
    "pure-dp": ApproximateDP(0.3),
    "only-delta": ApproximateDP(0.0, 1e-8),
    "zcdp": ZeroConcentratedDP(0.05),
    "poisson-gaussian": PoissonSampled(Gaussian(0.8), 0.05),
    "poisson-gaussian-whole": PoissonSampled(Gaussian(1.5), 1.0),
    "poisson-projected-gaussian": PoissonSampled(ProjectedGaussian(1.5, 20), 0.05),
    "poisson-laplace": PoissonSampled(Laplace(1.0), 0.1),
    "poisson-discrete-gaussian": PoissonSampled(DiscreteGaussian(1.0), 0.1),
    "poisson-discrete-laplace": PoissonSampled(DiscreteLaplace(1.0), 0.1),
    "poisson-exponential": PoissonSampled(ExponentialMechanism(1.0), 0.1),
    "poisson-approximate": PoissonSampled(ApproximateDP(0.3, 1e-8), 0.1),
    "poisson-twice": PoissonSampled(PoissonSampled(Gaussian(0.8), 0.5), 0.1),
    "poisson-two-gaussians": PoissonSampled(Composed((Gaussian(1.0), Gaussian(2.0))), 0.1),
    "poisson-repeated-gaussian": PoissonSampled(SelfComposed(Gaussian(2.0), 4), 0.1),
    "poisson-two-mechanisms": PoissonSampled(Composed((Gaussian(1.0), Laplace(1.0))), 0.1),
    "fixed-gaussian": FixedSizeSampled(Gaussian(2.0), 10, 100),
    "fixed-gaussian-whole": FixedSizeSampled(Gaussian(2.0), 100, 100),
    "fixed-laplace": FixedSizeSampled(Laplace(3.0), 10, 100),
    "balls-in-bins": BallsInBins(Gaussian(0.8), 50),
    "balls-in-one-bin": BallsInBins(Gaussian(1.7), 1),
    "balls-in-bins-laplace": BallsInBins(Laplace(1.0), 50),
    "balls-in-bins-sampled": PoissonSampled(BallsInBins(Gaussian(0.8), 20), 0.5),
    "composed": Composed((Gaussian(2.0), Laplace(3.0))),
    "composed-sampled": Composed((PoissonSampled(Gaussian(1.0), 0.05), PoissonSampled(Gaussian(2.0), 0.1))),
    "self-composed": SelfComposed(PoissonSampled(Gaussian(1.0), 0.02), 5),
    "parallel": Parallel((Gaussian(1.0), Laplace(2.0))),
    "parallel-alike": Parallel((Gaussian(1.0), Gaussian(1.0))),
    "parallel-sampled": Parallel((PoissonSampled(Gaussian(0.6), 0.1), PoissonSampled(Laplace(0.5), 0.1))),
    "parallel-composed": Parallel((Composed((Gaussian(2.0), Laplace(3.0))), Composed((Gaussian(1.0), Laplace(9.0))))),
    "parallel-by-index": ParallelByIndex((Gaussian(1.0), Laplace(2.0))),
    "group-gaussian": Group(Gaussian(4.0), 3),
    "group-poisson-gaussian": Group(PoissonSampled(Gaussian(2.0), 0.05), 3),
    "group-balls-in-bins": Group(BallsInBins(Gaussian(0.8), 50), 3),
    "group-laplace": Group(Laplace(6.0), 3),
    "group-randomized-response": Group(RandomizedResponse(0.2), 3),
    "group-zcdp": Group(ZeroConcentratedDP(0.01), 3),
    "group-exponential": Group(ExponentialMechanism(0.2), 3),
    "repeat-geometric": RepeatNegativeBinomial(Gaussian(3.0), 0.1, 1.0),
    "repeat-logarithmic": RepeatNegativeBinomial(Gaussian(3.0), 0.1, 0.0),
    "repeat-poisson": RepeatPoisson(Gaussian(3.0), 10.0),
}
NOTHING: dict[str, Event] = {
    "nothing": Composed(()),
    "zero-times": SelfComposed(Gaussian(1.0), 0),
    "zero-times-sampled": SelfComposed(PoissonSampled(Gaussian(1.0), 0.1), 0),
    "nested-nothing": Composed((Composed(()), SelfComposed(Composed((Laplace(1.0),)), 0))),
}

CASES: dict[str, tuple[Accountant, Event]] = {
    f"{name}-{relation}-{event_name}": (accountant(relation=RELATIONS[relation]), event)
    for name, accountant in ACCOUNTANTS.items()
    for relation in RELATIONS
    for event_name, event in EVENTS.items()
}


def supported() -> dict[str, tuple[Accountant, Event]]:
    """The cases that their accountant says it can analyse (zero-out is add-or-remove by another name)."""
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
    """The event and all that it contains."""
    yield event
    inner = getattr(event, "events", None) or [getattr(event, "event", None)]
    for part in inner:
        if part is not None:
            yield from parts(part)


# From the golden files' phases to events.
BUILD: dict[str, Callable[..., Event]] = {
    "sg": lambda rate, sigma: PoissonSampled(Gaussian(sigma), rate),
    "lap": lambda scale: Laplace(scale),
    "sublap": lambda rate, scale: PoissonSampled(Laplace(scale), rate),
    "rr": lambda epsilon: RandomizedResponse(epsilon),
}


def build(phases: list[list[Any]]) -> Event:
    """The composition that a golden file's phases describe."""
    return Composed(tuple(SelfComposed(BUILD[kind](*numbers), int(count)) for kind, *numbers, count in phases))


def golden(name: str) -> Any:
    """A file of tests/golden, parsed."""
    return json.loads((Path(__file__).parent / "golden" / name).read_text())
