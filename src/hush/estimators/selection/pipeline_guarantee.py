"""The guarantee of a whole pipeline, over all of its private steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from hush.accounting import ComposedEvent, Event, PldAccountant, RdpAccountant
from hush.errors import InvalidArgument, Unsupported, check_delta
from hush.estimators.base.estimator import SharesBudget
from hush.estimators.selection.splits import private_steps, public_steps
from hush.guarantee import Guarantee

_BY_ROW = "the function of each FunctionTransformer treats every row by itself"


def guarantee_of(model: Any, *, delta: float | None = None) -> Guarantee:
    """Return the guarantee of one fit of a model: of all private steps of a pipeline together.

    A pipeline costs as much as all of its steps together, not only what its last step states. Every step must be
    private or learn nothing from the data. Others, such as ``StandardScaler``, ``GridSearchCV`` or
    ``BaggingClassifier``, learn from the data without accounting for it and are refused.

    Args:
        model: A fitted private estimator, or a pipeline, column transformer or union of such.
        delta: The delta of the guarantee; by default the sum of the deltas of all steps.

    Guarantee:
        (epsilon, delta)-DP of one fit of the model, for the unit and relation of its steps: the smallest epsilon of
        their composed privacy loss distribution, of their Renyi divergence, and of the sum of their epsilons.

    Assumes:
        Whatever the steps assume (repeated in the guarantee). All steps were fitted by one call of ``fit`` (the
        caller's duty). A function of a ``FunctionTransformer`` treats each row by itself (the caller's duty; in the
        guarantee).

    References:
        Dwork & Roth 2014, Theorem 3.16 (sums); Zhu, Dong & Wang 2022, Theorem 10 (dominating pairs compose).

    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from hush.estimators import PrivateGaussianNB, PrivateStandardScaler
    >>> scaler = PrivateStandardScaler(epsilon=1.0, bounds=(-1, 1))
    >>> model = make_pipeline(scaler, PrivateGaussianNB(epsilon=2.0, bounds=(-3, 3), classes=[0, 1]))
    >>> guarantee = guarantee_of(model.fit(np.zeros((20, 2)), np.arange(20) % 2))
    >>> round(guarantee.epsilon, 6), guarantee.delta, str(guarantee.unit)
    (3.0, 0.0, 'example')
    """
    steps = _fitted_steps(model)
    claims: list[Guarantee] = [step.guarantee_ for step in steps]
    if len({(claim.unit, claim.relation, claim.bound) for claim in claims}) != 1:
        raise Unsupported("steps with different units or relations: their costs do not add up", "Pass units= to all")
    sum_of_deltas = _rounded_up(sum(Fraction(claim.delta) for claim in claims))
    total_delta = sum_of_deltas if delta is None else check_delta("delta", delta)
    epsilon = min(_epsilons(claims, tuple(step.event_ for step in steps), total_delta, sum_of_deltas))
    if not (epsilon < math.inf and total_delta < 1):
        raise InvalidArgument("delta", total_delta, f"at least {sum_of_deltas:.3g}, the sum of the steps' deltas")
    sentences = [sentence for claim in claims for sentence in claim.assumptions]
    if any(isinstance(step, FunctionTransformer) and step.func is not None for step in public_steps(model)):
        sentences.append(_BY_ROW)
    return Guarantee(
        epsilon=epsilon,
        delta=total_delta,
        unit=claims[0].unit,
        relation=claims[0].relation,
        method=claims[0].method if len(claims) == 1 else f"composition of {len(claims)} private steps",
        assumptions=tuple(dict.fromkeys(sentences)),
    )


def _fitted_steps(model: Any) -> list[Any]:
    """Return the private steps of a model, at least one."""
    if isinstance(model, SharesBudget):
        check_is_fitted(model, "event_")
    steps = private_steps(model)
    if not steps:
        raise InvalidArgument("model", type(model).__name__, "a model with a private step", "It learns nothing")
    for step in steps:
        if not isinstance(getattr(step, "guarantee_", None), Guarantee):
            raise InvalidArgument("model", type(step).__name__, "steps with guarantee_ after fit")
    return steps


def _epsilons(
    claims: Sequence[Guarantee], events: tuple[Event, ...], delta: float, sum_of_deltas: float
) -> Iterator[float]:
    """Yield upper bounds on epsilon at a delta."""
    yield math.inf
    if delta >= sum_of_deltas:
        yield _rounded_up(sum(Fraction(claim.epsilon) for claim in claims))
    if len(claims) == 1 and delta == claims[0].delta:
        return  # what the step itself says
    for kind in (PldAccountant, RdpAccountant):
        try:
            yield kind(relation=claims[0].relation, unit=claims[0].unit).compose(ComposedEvent(events)).epsilon(delta)
        except Unsupported:
            continue


def _rounded_up(number: Fraction | int) -> float:
    """Return the smallest float that is not below a number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
