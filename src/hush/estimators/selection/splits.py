"""Which rows fits are compared on, and what the comparison of several settings costs: rows held out, or folds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, PolynomialFeatures

from hush.accounting import ComposedEvent, Event
from hush.accounting.events import ParallelByIndexEvent, plain_event
from hush.errors import InvalidArgument, check_count, check_positive
from hush.estimators.selection.encoder import PublicOneHotEncoder
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, bernoulli, uniform_below

Masks = list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]

RELATION, UNIT = Relation.ADD_OR_REMOVE, Unit.example()


class RowSplit(ABC):
    """A way to train on some rows and compare on others; where a row goes is decided by coins of its own."""

    refits = False  # whether the best setting is fitted again, to all rows

    @abstractmethod
    def masks(self, count: int, source: RandomSource) -> Masks:
        """Return, for each fit of one setting, which rows it is trained on and which it is compared on."""

    @abstractmethod
    def event(self, fits: Sequence[Sequence[Event]], comparison: Event) -> Event:
        """Return what one row pays for all settings' fits, one for each mask, and for one comparison of them all."""


@dataclass(frozen=True, slots=True)
class HeldOut(RowSplit):
    """Compare on rows that nothing is trained on: a row pays for the fits or for the comparison, never for both.

    Attributes:
        share: Of rows for the comparison.
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        """Check the share."""
        if not check_positive("share", self.share) < 1:
            raise InvalidArgument("share", self.share, "a number in (0, 1)")

    def masks(self, count: int, source: RandomSource) -> Masks:
        """Return one pair of masks."""
        out = bernoulli(source, float(self.share), count).astype(bool)
        return [(~out, out)]

    def event(self, fits: Sequence[Sequence[Event]], comparison: Event) -> Event:
        """Return the worse of all fits and the comparison."""
        return ParallelByIndexEvent((ComposedEvent(tuple(event for each in fits for event in each)), comparison))


@dataclass(frozen=True, slots=True)
class Folds(RowSplit):
    """Cross-validation: compare on every fold what is trained on the others, and fit the best setting to all rows.

    Dearer than `HeldOut`: for each setting a row is in all fits but one, then in the comparison, and in the last fit.

    Attributes:
        num_folds: How many.
    """

    refits = True

    num_folds: int = 5

    def __post_init__(self) -> None:
        """Check the number."""
        if not check_count("num_folds", self.num_folds) >= 2:
            raise InvalidArgument("num_folds", self.num_folds, "at least 2")

    def masks(self, count: int, source: RandomSource) -> Masks:
        """Return a pair of masks for each fold."""
        places = uniform_below(source, self.num_folds, count)
        return [(places != fold, places == fold) for fold in range(self.num_folds)]

    def event(self, fits: Sequence[Sequence[Event]], comparison: Event) -> Event:
        """Return all fits but those without the row's fold, of the dearest fold, and the comparison."""
        cases = {
            ComposedEvent(tuple(event for each in fits for place, event in enumerate(each) if place != fold))
            for fold in range(self.num_folds)
        }
        paid = ParallelByIndexEvent(tuple(sorted(cases, key=repr)))
        return ComposedEvent((paid, comparison))


def fit_event(model: object) -> Event:
    """Return what a fit cost: that of a private estimator, or of all steps of what is made of steps."""
    steps = _steps(model, fitted=True)
    if steps is not None:
        return ComposedEvent(tuple(fit_event(step) for step in steps))
    event = getattr(model, "event_", None)
    if isinstance(event, Event):
        plain_event(event, RELATION, UNIT)  # refuses one of another relation or unit
        return event
    if _learns_nothing(model):
        return ComposedEvent(())
    raise _unpaid(model)


def check_paid(model: object) -> None:
    """Refuse, before anything is fitted, steps of scikit-learn that learn: `fit_event` refuses others afterwards."""
    steps = _steps(model, fitted=False)
    for step in steps or ():
        check_paid(step)
    if steps is None and type(model).__module__.startswith("sklearn.") and not _learns_nothing(model):
        raise _unpaid(model)


# By name: a tag that no fit is needed does not say that a fit learns nothing (a Gaussian process keeps all rows).
_STATELESS = (PublicOneHotEncoder, FunctionTransformer, Normalizer, Binarizer, PolynomialFeatures)


def _learns_nothing(model: object) -> bool:
    return type(model) in _STATELESS


def _unpaid(model: object) -> InvalidArgument:
    advice = "What it learns from the data is not paid"
    return InvalidArgument("estimator", type(model).__name__, "private: with event_ after fit", advice)


def _steps(model: object, *, fitted: bool) -> list[object] | None:
    """Return what a pipeline, column transformer or union consists of; None for anything else."""
    if isinstance(model, Pipeline):
        found = [step for _, step in model.steps]
    elif isinstance(model, FeatureUnion):
        found = [step for _, step in model.transformer_list]
    elif isinstance(model, ColumnTransformer):
        found = _column_steps(model, fitted=fitted)
    else:
        return None
    return [step for step in found if step is not None and not isinstance(step, str)]


def _column_steps(model: ColumnTransformer, *, fitted: bool) -> list[object]:
    if any(callable(columns) for _, _, columns in model.transformers):
        advice = "A function of the data may choose by their values: name columns instead"
        raise InvalidArgument("columns", "function", "names or numbers of columns", advice)
    if not fitted:
        return [*(step for _, step, _ in model.transformers), model.remainder]
    # A step without columns is not fitted, and has learned nothing.
    return [step for _, step, columns in model.transformers_ if not _none(columns)]


def _none(columns: object) -> bool:
    chosen = np.asarray(columns)
    return chosen.size == 0 or (chosen.dtype.kind == "b" and not chosen.any())
