"""What private estimators share: parameters checked when they are made, a guarantee, and a fit that is paid for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from hush.accounting import Event, calibrate_noise, events
from hush.accounting.budget import Charge
from hush.errors import InvalidArgument, check_delta, check_positive
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import Source, assumptions_of, source_or_default

Floats = NDArray[np.float64]

_KEPT = ("budget", "source")  # a copy of a budget would be another budget


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of estimators with ``epsilon``, ``delta``, ``budget`` and ``source`` among their parameters."""

    _needs_delta = False
    _fields: tuple[str, ...] = ()

    def _check(self) -> None:
        """Check the parameters; when the estimator is made, and again in fit, as `set_params` may have come between."""
        check_positive("epsilon", self.epsilon)
        if not check_delta("delta", self.delta) > 0 and self._needs_delta:
            raise InvalidArgument("delta", self.delta, "a number in (0, 1)", "The noise is Gaussian, which needs one")

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that charges the same budget."""
        given = self.get_params(deep=False)
        return type(self)(**{k: v if k in _KEPT else clone(v, safe=False) for k, v in given.items()})

    def __sklearn_tags__(self) -> Any:
        """Say that two fits differ."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _start(self, event: Event, *assumptions: str, spent: tuple[float, float] | None = None) -> Source:
        """State what a fit costs, charge it, and return the source of its noise."""
        source = source_or_default(self.source)
        stated = (*assumptions, *assumptions_of(source))
        unit, relation = Unit.example(), Relation.ADD_OR_REMOVE
        epsilon, delta = spent or (float(self.epsilon), float(self.delta))
        guarantee = Guarantee(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            relation=relation,
            method=type(self).__name__,
            assumptions=stated,
        )
        qualified = events.Qualified(event, relation.value, str(unit), stated)
        if self.budget is not None:
            charge = Charge(event=qualified, purpose=f"fit {type(self).__name__}", delta=delta or None)
            self.budget.reserve(charge).commit()
        self.guarantee_, self.event_ = guarantee, qualified
        return source

    def _rows(self, X: Any, *, reset: bool = True) -> Floats:
        """Return rows of numbers, of which some may be missing; what is no table of numbers is refused."""
        rows: Floats = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite=not reset, ensure_min_samples=1
        )
        return rows

    def _labels(self, X: Floats, y: Any, *, numeric: bool) -> NDArray[Any]:
        """Return one label for each row."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        labels = column_or_1d(y, warn=True)
        check_consistent_length(X, labels)
        if not numeric:
            return np.asarray(labels)
        if labels.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        return np.asarray(labels, dtype=np.float64)


class PrivateClassifierMixin:
    """Classes are public: they come with the estimator, and rows of another class are left out."""

    classes: Any

    def _check_classes(self) -> None:
        classes = np.asarray(self.classes)
        if classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) != len(classes):
            raise InvalidArgument("classes", self.classes, "two or more different labels", "They are public")

    def _places(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Return each row's class as a number, -1 for one that is not declared."""
        self.classes_ = np.unique(np.asarray(self.classes))
        if self.classes_.dtype.kind in "OUS" or labels.dtype.kind in "OUS":
            table = {label: place for place, label in enumerate(self.classes_.tolist())}
            return np.array([table.get(label, -1) for label in labels.tolist()], dtype=np.int64)
        places = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        return np.where(self.classes_[places] == labels, places, -1)


@lru_cache(maxsize=256)
def noise_multiplier(epsilon: float, delta: float) -> float:
    """Return the noise of one Gaussian release of (epsilon, delta)."""
    return calibrate_noise(epsilon=epsilon, delta=delta)
