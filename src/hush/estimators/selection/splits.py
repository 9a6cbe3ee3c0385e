"""Splits: which rows a search trains on and which it compares on, and the cost of comparing several settings.

`HeldOut` compares on rows that no fit saw; `Folds` cross-validates. Both assign rows by independent coins, so that
adding or removing a row moves no other row. `fit_event` and `check_private_steps` make sure that every step of a
pipeline is paid for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    """A way to train on some rows and compare on others. Independent coins decide where each row goes.

    Attributes:
        refits: Whether the best setting is fitted once more, to all rows.
    """

    refits = False

    @abstractmethod
    def masks(self, count: int, source: RandomSource) -> Masks:
        """Return, for each fit of one setting, the mask of the rows to train on and of those to compare on."""

    @abstractmethod
    def event(self, fits: Sequence[Sequence[Event]], comparison: Event) -> Event:
        """Return the cost to one row of all settings' fits, one per mask, and of a single comparison of them all."""


@dataclass(frozen=True, slots=True)
class HeldOut(RowSplit):
    """Compare on held-out rows, which no fit sees: a row pays for the fits or for the comparison, never for both.

    Attributes:
        share: Probability with which a row is held out, in (0, 1).

    >>> from hush.randomness import TestSource
    >>> (train, held_out), = HeldOut(0.25).masks(1000, TestSource(1))
    >>> bool((train ^ held_out).all()), 200 < int(held_out.sum()) < 300
    (True, True)
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        """Check the share."""
        if not check_positive("share", self.share) < 1:
            raise InvalidArgument("share", self.share, "a number in (0, 1)")

    def masks(self, count: int, source: RandomSource) -> Masks:
        """Return one pair of masks."""
        held_out = bernoulli(source, float(self.share), count).astype(bool)
        return [(~held_out, held_out)]

    def event(self, fits: Sequence[Sequence[Event]], comparison: Event) -> Event:
        """Return the more expensive of all fits together and the comparison."""
        # Coins put a row on one side only: the costs compose in parallel.
        return ParallelByIndexEvent((ComposedEvent(tuple(event for setting in fits for event in setting)), comparison))


@dataclass(frozen=True, slots=True)
class Folds(RowSplit):
    """Cross-validation: compare on each fold the models trained on the others, then fit the best setting to all rows.

    It costs more than `HeldOut`: for each setting, a row takes part in all fits but one, then in the comparison, and in
    the final fit.

    Attributes:
        num_folds: Number of folds, at least 2.

    >>> from hush.randomness import TestSource
    >>> masks = Folds(3).masks(900, TestSource(1))
    >>> len(masks), int(sum(compare.sum() for _, compare in masks))  # every row is compared on once
    (3, 900)
    """

    refits = True

    num_folds: int = 5

    def __post_init__(self) -> None:
        """Check the number."""
        if not check_count("num_folds", self.num_folds) >= 2:
            raise InvalidArgument("num_folds", self.num_folds, "at least 2")

    def masks(self, count: int, source: RandomSource) -> Masks:
        """Return one pair of masks per fold."""
        assignments = uniform_below(source, self.num_folds, count)
        return [(assignments != fold, assignments == fold) for fold in range(self.num_folds)]

    def event(self, fits: Sequence[Sequence[Event]], comparison: Event) -> Event:
        """Return the fits that a row takes part in, for the most expensive fold, and the comparison."""
        # A row in a given fold is trained on in the fits of all other folds.
        cases = {
            ComposedEvent(tuple(event for setting in fits for index, event in enumerate(setting) if index != fold))
            for fold in range(self.num_folds)
        }
        worst_fold = ParallelByIndexEvent(tuple(sorted(cases, key=repr)))
        return ComposedEvent((worst_fold, comparison))


def fit_event(model: object) -> Event:
    """Return the cost of a fit: the event of a private estimator, or those of all steps of a pipeline."""
    events = tuple(step.event_ for step in private_steps(model))
    for event in events:
        plain_event(event, RELATION, UNIT)  # refuses an event of another relation or unit
    return events[0] if len(events) == 1 else ComposedEvent(events)


def private_steps(model: object) -> list[Any]:
    """Return the private estimators of a fitted model: itself, or steps of a pipeline. Refuse steps without a cost.

    Steps that learn nothing from the data are left out.
    """
    steps = _steps(model, fitted=True)
    if steps is not None:
        return [private for step in steps for private in private_steps(step)]
    if isinstance(getattr(model, "event_", None), Event):
        return [model]
    if _learns_nothing(model):
        return []
    raise _not_private(model)


def public_steps(model: object) -> list[object]:
    """Return the steps of a fitted model that learn nothing from the data."""
    steps = _steps(model, fitted=True)
    if steps is not None:
        return [public for step in steps for public in public_steps(step)]
    return [model] if _learns_nothing(model) else []


def check_private_steps(model: object) -> None:
    """Refuse, before anything is fitted, steps of scikit-learn that learn from the data.

    Other steps without an event are refused by `fit_event`, after the fit.
    """
    steps = _steps(model, fitted=False)
    for step in steps or ():
        check_private_steps(step)
    if steps is None and type(model).__module__.startswith("sklearn.") and not _learns_nothing(model):
        raise _not_private(model)


# By type: the tag "requires_fit" does not say that fit learns nothing (a Gaussian process stores all rows).
_STATELESS = (PublicOneHotEncoder, FunctionTransformer, Normalizer, Binarizer, PolynomialFeatures)


def _learns_nothing(model: object) -> bool:
    return type(model) in _STATELESS


def _not_private(model: object) -> InvalidArgument:
    advice = "It learns from the data, but its cost is not accounted for. Use a private estimator"
    return InvalidArgument("estimator", type(model).__name__, "a private estimator, with event_ after fit", advice)


def _steps(model: Any, *, fitted: bool) -> list[object] | None:
    """Return the steps of a pipeline, column transformer or union; None for any other estimator.

    A class derived from these is another estimator: its ``fit`` could read the data before its steps do.
    """
    if type(model) is Pipeline:
        steps = [step for _, step in model.steps]
    elif type(model) is FeatureUnion:
        steps = [step for _, step in model.transformer_list]
    elif type(model) is ColumnTransformer:
        steps = _column_steps(model, fitted=fitted)
    else:
        return None
    return [step for step in steps if step is not None and not isinstance(step, str)]


def _column_steps(model: ColumnTransformer, *, fitted: bool) -> list[object]:
    if any(callable(columns) for _, _, columns in model.transformers):
        advice = "A function could choose columns by their values. Name the columns instead"
        raise InvalidArgument("columns", "a function", "names or numbers of columns", advice)
    if not fitted:
        return [*(step for _, step, _ in model.transformers), model.remainder]
    # A step without columns is not fitted, so it learned nothing.
    return [step for _, step, columns in model.transformers_ if not _is_empty(columns)]


def _is_empty(columns: object) -> bool:
    selected = np.asarray(columns)
    return selected.size == 0 or (selected.dtype.kind == "b" and not selected.any())
