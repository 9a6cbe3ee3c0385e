"""What private estimators share: parameters checked when they are made, a guarantee, and a fit that is paid for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from hush.accounting import Event, calibrate_noise, events
from hush.accounting.budget import Charge
from hush.errors import InvalidArgument, Unsupported, check_delta, check_instance, check_positive
from hush.estimators.base.labels import cells_unquoted, check_classes, column, numbers, places
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import RandomSource, assumptions_of, source_or_default

Floats = NDArray[np.float64]

_KEPT = ("budget", "source")  # a copy of a budget would be another budget
_LEAST = 1e-6  # epsilon, below which accountants see nothing but rounding
_DERIVED = ("epsilon", "noise_multiplier", "noise_scale", "scale", "scale / sensitivity")
_Planned = TypeVar("_Planned")


class Forgotten:
    """What a model that was stored and loaded has in the place of its budget: it can predict, but not be fitted."""

    def reserve(self, charge: Charge) -> Any:
        """Refuse."""
        raise Unsupported(
            "a model that was pickled does not know its budget any more", "Say set_params(budget=...) before fit"
        )


def forget(model: Any) -> None:
    """Leave nothing of an earlier fit; parameters stay, and what scikit-learn was told of outputs and metadata."""
    for name in [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]:
        delattr(model, name)


def _forgetting(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a fit after which a model is fitted, or, where it fails, is not: never old and new parts together."""

    @wraps(fit)
    def fitted(self: Any, *args: Any, **given: Any) -> Any:
        forget(self)
        try:
            return fit(self, *args, **given)
        except BaseException:
            forget(self)
            raise

    return fitted


class KeepsBudget:
    """An estimator whose copies charge the very budget that it has: a copy of a budget would be another one.

    A fit that the budget refuses, or that fails, leaves it unfitted, whatever was fitted before.
    """

    def __init_subclass__(cls, **given: Any) -> None:
        """Let the type's own fit forget what was fitted before."""
        super().__init_subclass__(**given)
        if "fit" in vars(cls):
            cls.fit = _forgetting(vars(cls)["fit"])  # type: ignore[attr-defined]

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that charges the same budget."""
        given = self.get_params(deep=False)  # type: ignore[attr-defined]
        return type(self)(**{k: v if k in _KEPT else clone(v, safe=False) for k, v in given.items()})

    def __getstate__(self) -> Any:
        """Return what is pickled: a fitted model without its budget, which cannot travel."""
        kept: Any = super().__getstate__()
        state = dict(kept)
        if state.get("budget") is not None and "guarantee_" in state:
            state["budget"] = Forgotten()
        return state


def check_budget_and_source(budget: Any, source: Any) -> None:
    """Refuse what is neither."""
    if not (budget is None or callable(getattr(budget, "reserve", None))):
        raise InvalidArgument("budget", budget, "a budget", "Such as hush.Ledger(...).dataset(...)")
    if source is not None:
        check_instance("source", source, RandomSource, "It is for tests: leave it out for cryptographic randomness")


class PrivateEstimator(KeepsBudget, BaseEstimator):  # type: ignore[misc]
    """Base of estimators with ``epsilon``, ``delta``, ``budget`` and ``source`` among their parameters."""

    _needs_delta = False
    _unit = Unit.example()
    _relation = Relation.ADD_OR_REMOVE
    _private_step = "fit"
    _most_rows = 1 << 30  # sums of so many are exact

    def _check(self) -> None:
        """Check the parameters; when the estimator is made, and again in fit, as `set_params` may have come between."""
        if not check_positive("epsilon", self.epsilon) >= _LEAST:
            raise InvalidArgument("epsilon", self.epsilon, f"at least {_LEAST:g}", "Below, noise is all that is left")
        check_budget_and_source(self.budget, self.source)
        if not check_delta("delta", self.delta) > 0 and self._needs_delta:
            raise InvalidArgument("delta", self.delta, "a number in (0, 1)", "The noise is Gaussian, which needs one")

    def __sklearn_tags__(self) -> Any:
        """Say that two fits differ."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _start(self, event: Event, *assumptions: str, spent: tuple[float, float] | None = None) -> RandomSource:
        """State what a fit costs, charge it, and return the source of its noise."""
        guarantee, qualified = self._claimed(event, assumptions, spent)
        if self.budget is not None:
            purpose = f"{self._private_step} {type(self).__name__}"
            self.budget.reserve(Charge(event=qualified, purpose=purpose, delta=guarantee.delta or None)).commit()
        self.guarantee_, self.event_ = guarantee, qualified
        return source_or_default(self.source)

    def _claimed(
        self, event: Event, assumptions: tuple[str, ...], spent: tuple[float, float] | None = None
    ) -> tuple[Guarantee, Event]:
        """Return what the private step promises, and the same for accountants."""
        stated = (*assumptions, *assumptions_of(source_or_default(self.source)))
        epsilon, delta = spent or (float(self.epsilon), float(self.delta))
        guarantee = Guarantee(
            epsilon=epsilon,
            delta=delta,
            unit=self._unit,
            relation=self._relation,
            method=type(self).__name__,
            assumptions=stated,
        )
        return guarantee, events.QualifiedEvent(event, self._relation.value, str(self._unit), stated)

    def _rows(self, X: Any, *, reset: bool = True, missing: bool | None = None) -> Floats:
        """Return rows of numbers; what is no table of numbers is refused.

        Some may be ``missing``: in fit, which leaves such rows out, and where a transformed row may be missing as well.
        """
        finite = not (reset if missing is None else missing)
        with cells_unquoted():
            rows: Floats = validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite, ensure_min_samples=1
            )
        if not len(rows) <= self._most_rows:
            raise InvalidArgument("X", "a table", f"at most {self._most_rows} rows", "Sums would not be exact")
        return rows

    def _labels(self, X: Floats, y: Any, *, numeric: bool) -> NDArray[Any]:
        """Return one label for each row."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        labels = column(y)
        check_consistent_length(X, labels)
        return numbers(labels) if numeric else labels


def check_width(name: str, X: Any, width: int) -> Floats:
    """Return rows of numbers, so many to a row; what is missing stays missing."""
    rows: Floats = check_array(X, dtype=np.float64, ensure_all_finite=False, input_name=name)
    if rows.shape[1] != width:
        raise InvalidArgument(f"{name}.shape[1]", rows.shape[1], f"{width} columns", "As transform returns")
    return rows


class PrivateClassifierMixin:
    """Classes are public: they come with the estimator, and rows of another class are left out."""

    classes: Any

    def _check_classes(self) -> None:
        check_classes(self.classes)

    def _places(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Return each row's class as a number, -1 for one that is not declared."""
        self.classes_ = np.unique(np.asarray(self.classes))
        return places(labels, self.classes_)


def planned(epsilon: float, make: Callable[[], _Planned]) -> _Planned:
    """Return a plan of noise; what is wrong with its numbers is said of epsilon, from which they are."""
    try:
        return make()
    except OverflowError:
        pass
    except InvalidArgument as error:
        name, _, rest = str(error).partition("=")
        if name not in _DERIVED or rest.startswith(f"{float(epsilon):.3g}:"):  # it is said of what was given
            raise
    wanted = "larger, or fewer features" if epsilon < 1 else "smaller"
    advice = "Rounding would decide beside so much noise" if epsilon < 1 else "Rounding would decide beside so little"
    raise InvalidArgument("epsilon", float(epsilon), wanted, advice)


@lru_cache(maxsize=256)
def noise_multiplier(epsilon: float, delta: float) -> float:
    """Return the noise of one Gaussian release of (epsilon, delta)."""
    return calibrate_noise(epsilon=epsilon, delta=delta)
