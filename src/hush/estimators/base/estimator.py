"""The base class of private estimators: parameter checks, the charge to a budget, the guarantee, and reading rows.

A fit runs in this order, in every estimator of the package:

    _check         parameters, again: `set_params` may have changed them since the constructor checked them
    _rows, _labels X and y as arrays. Errors depend on types and shapes only, never on values
    _charge        the cost is stated as an event and reserved in the budget, before a value is looked at
    the release    bounded contributions, exact sums, noise: the estimator's own part
    attributes     ``guarantee_`` and ``event_``, and the fitted numbers

A fit that fails, or that the budget refuses, leaves the estimator unfitted (`SharesBudget`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from hush.accounting import Event, events
from hush.accounting.budget import Charge
from hush.accounting.receipts import check_budget, receipt_of
from hush.errors import InvalidArgument, Unsupported, check_delta, check_instance, check_positive
from hush.estimators.base.labels import (
    check_classes,
    label_column,
    numeric_labels,
    redact_cells,
    to_class_indices,
    with_numbers_only,
)
from hush.estimators.base.users import rows_of_users
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import RandomSource, assumptions_of, source_or_default

Floats = NDArray[np.float64]

_SHARED_PARAMETERS = ("budget", "source")  # a copied budget would be a second budget, with as much to spend
_MIN_EPSILON = 1e-6  # below it, accountants cannot tell a privacy loss from rounding
_DERIVED_FROM_EPSILON = ("epsilon", "noise_multiplier", "noise_scale", "scale", "scale / sensitivity")
_Plan = TypeVar("_Plan")


class LostBudget:
    """Stands for the budget of a fitted model that was pickled and loaded again.

    The model predicts but cannot be refitted.
    """

    def reserve(self, charge: Charge) -> Any:
        """Refuse the charge."""
        raise Unsupported("a pickled model loses its budget", "Call set_params(budget=...) before fit")


def clear_fit(model: Any) -> None:
    """Delete all fitted attributes. Parameters and scikit-learn's output and metadata settings remain."""
    for name in [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]:
        delattr(model, name)


def _atomic_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit`` so that a failed fit leaves the model unfitted, and so that it takes ``units``.

    Old and new attributes never mix. A ``fit`` that has ``units`` among its parameters reads them itself.
    """
    reads_units = "units" in signature(fit).parameters

    @wraps(fit)
    def fitted(self: Any, *args: Any, **kwargs: Any) -> Any:
        units = None if reads_units else kwargs.pop("units", None)
        clear_fit(self)
        try:
            return fit(self, *args, **kwargs) if units is None else self._fit_users(fit, units, *args, **kwargs)
        except BaseException:
            clear_fit(self)
            raise

    if not reads_units:
        fitted.__signature__ = _with_units(signature(fit))  # type: ignore[attr-defined]
    return fitted


def _with_units(stated: Signature) -> Signature:
    """Return a signature with ``units``, by which scikit-learn knows that fit takes it."""
    units = Parameter("units", Parameter.KEYWORD_ONLY, default=None, annotation=Any)
    return stated.replace(parameters=[*stated.parameters.values(), units])


class SharesBudget:
    """A mixin for estimators whose clones charge the same budget, and whose failed fits leave them unfitted.

    scikit-learn deep-copies parameters when it clones an estimator. A deep copy of a budget could be spent a second
    time, so ``budget`` and ``source`` are passed on as they are.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the class's own ``fit``, so that it clears earlier results and takes ``units``."""
        if "fit" in vars(cls):
            cls.fit = _atomic_fit(vars(cls)["fit"])  # type: ignore[attr-defined]
        super().__init_subclass__(**kwargs)  # scikit-learn reads the signature of fit

    def _fit_users(self, fit: Callable[..., Any], units: Any, X: Any, y: Any = None) -> Any:
        """Fit with a guarantee for users, or refuse."""
        why = "its guarantee is about rows, and no proof is implemented for users"
        raise Unsupported(f"units= of {type(self).__name__}: {why}", "Leave out units, for privacy per row")

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that charges the same budget."""
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        return type(self)(
            **{
                name: value if name in _SHARED_PARAMETERS else clone(value, safe=False)
                for name, value in parameters.items()
            }
        )

    def __getstate__(self) -> Any:
        """Return the state to pickle. A fitted model travels without its budget, which stays with its process."""
        inherited: Any = super().__getstate__()
        state = dict(inherited)
        if state.get("budget") is not None and "guarantee_" in state:
            state["budget"] = LostBudget()
        return state


def check_budget_and_source(budget: Any, source: Any) -> None:
    """Check the types of ``budget`` and ``source``."""
    check_budget(budget)
    if source is not None:
        check_instance("source", source, RandomSource, "It is for tests. Omit it for cryptographic randomness")


class PrivateEstimator(SharesBudget, BaseEstimator):  # type: ignore[misc]
    """Base class of estimators that have ``epsilon``, ``delta``, ``budget`` and ``source`` among their parameters.

    A subclass checks its parameters in ``_check``, which the constructor and ``fit`` both call, and calls ``_charge``
    with the event of its release before it draws any noise.
    """

    _needs_delta = False
    _unit = Unit.example()
    _relation = Relation.ADD_OR_REMOVE
    _private_step = "fit"
    _unit_assumptions: tuple[str, ...] = ()
    _max_rows = 1 << 30  # integer sums over this many rows are exact

    def _check(self) -> None:
        """Check the parameters: in the constructor, and again in fit, since `set_params` may have changed them."""
        if not check_positive("epsilon", self.epsilon) >= _MIN_EPSILON:
            raise InvalidArgument(
                "epsilon", self.epsilon, f"at least {_MIN_EPSILON:g}", "With less, the result is only noise"
            )
        check_budget_and_source(self.budget, self.source)
        if not check_delta("delta", self.delta) > 0 and self._needs_delta:
            raise InvalidArgument(
                "delta", self.delta, "a number in (0, 1)", "The noise is Gaussian, which needs delta > 0"
            )

    def _fit_users(self, fit: Callable[..., Any], units: Any, X: Any, y: Any = None) -> Any:
        """Fit one row of each user. What the fit proves about a row then holds for a user."""
        if self._relation is not Relation.ADD_OR_REMOVE or self._unit != Unit.example():
            return super()._fit_users(fit, units, X, y)
        rows, labels, assumption = rows_of_users(units, X, y, source_or_default(self.source))
        self._unit, self._unit_assumptions = Unit.user(), (assumption,)
        try:
            return fit(self, rows, labels)
        finally:
            del self._unit, self._unit_assumptions

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that fits are not deterministic."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _charge(self, event: Event, *assumptions: str, spent: tuple[float, float] | None = None) -> RandomSource:
        """State the cost of this fit, charge it to the budget, and return the random source for the noise.

        Args:
            event: The release, for accountants.
            assumptions: The assumptions of the guarantee beyond relation and unit.
            spent: (epsilon, delta) of the guarantee, if they differ from the parameters.
        """
        guarantee, qualified = self._guarantee_and_event(event, assumptions, spent)
        self._reserve(qualified, guarantee)
        self.guarantee_, self.event_ = guarantee, qualified
        return source_or_default(self.source)

    def _reserve(self, qualified: Event, guarantee: Guarantee) -> None:
        """Charge an event to the budget, if there is one."""
        if self.budget is None:
            return
        purpose = f"{self._private_step} {type(self).__name__}"
        try:
            reservation = self.budget.reserve(Charge(event=qualified, purpose=purpose, delta=guarantee.delta or None))
            reservation.commit()
        except Unsupported as error:
            if self._unit != Unit.example():
                raise
            advice = "If the budget protects people, pass units= to fit: one id per row, or OneRowPerUser()"
            raise Unsupported(str(error), advice) from None
        self.receipt_ = receipt_of(reservation, guarantee)

    def _guarantee_and_event(
        self, event: Event, assumptions: tuple[str, ...], spent: tuple[float, float] | None = None
    ) -> tuple[Guarantee, Event]:
        """Return the guarantee of the private step, and the same claim as a qualified event."""
        stated = (*assumptions, *self._unit_assumptions, *assumptions_of(source_or_default(self.source)))
        epsilon, delta = spent or (float(self.epsilon), float(self.delta))
        guarantee = Guarantee(
            epsilon=epsilon,
            delta=delta,
            unit=self._unit,
            relation=self._relation,
            method=type(self).__name__,
            assumptions=stated,
        )
        return guarantee, events.QualifiedEvent(event, self._relation, self._unit, stated)

    def _rows(self, X: Any, *, reset: bool = True, missing: bool | None = None) -> Floats:
        """Return X as rows of floats, or refuse it because of its type or shape.

        Args:
            X: The table, as the caller passed it.
            reset: Whether this is a fit: the number and names of features are recorded instead of compared.
            missing: Whether NaN and infinity are allowed. Default: in a fit, which drops such rows. An error would
                reveal that some row has one.
        """
        require_finite = not (reset if missing is None else missing)
        with redact_cells():
            rows: Floats = validate_data(
                self,
                with_numbers_only(X),
                reset=reset,
                dtype=np.float64,
                ensure_all_finite=require_finite,
                ensure_min_samples=1,
            )
        if not len(rows) <= self._max_rows:
            raise InvalidArgument(
                "X", "a table", f"at most {self._max_rows} rows", "Sums over more rows would not be exact"
            )
        return rows

    def _labels(self, X: Floats, y: Any, *, numeric: bool) -> NDArray[Any]:
        """Return one label per row; with ``numeric`` as floats, NaN where a label is not a number."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        labels = label_column(y)
        check_consistent_length(X, labels)
        return numeric_labels(labels) if numeric else labels


def check_width(name: str, X: Any, width: int) -> Floats:
    """Return X as rows of floats with the given number of columns. Missing values stay missing."""
    with redact_cells():
        rows: Floats = check_array(X, dtype=np.float64, ensure_all_finite=False, input_name=name)
    if rows.shape[1] != width:
        raise InvalidArgument(f"{name}.shape[1]", rows.shape[1], f"{width} columns, as transform returns")
    return rows


class PrivateClassifierMixin:
    """Classifiers with public classes.

    You declare ``classes`` in the constructor, because reading them from y would reveal which labels occur. Rows of any
    other class are dropped. Labels of which none has the type of a class, such as text for numbers, are refused.
    """

    classes: Any

    def _check_classes(self) -> None:
        check_classes(self.classes)

    def _class_indices(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Return the index of each row's class, or -1 for a class that is not declared. Sets ``classes_``."""
        self.classes_ = np.unique(np.asarray(self.classes))
        return to_class_indices(labels, self.classes_)


def blame_epsilon(epsilon: float, build: Callable[[], _Plan]) -> _Plan:
    """Build a noise plan. If one of its derived numbers is invalid, raise an error about epsilon.

    An extreme scale or noise multiplier is a consequence of epsilon, which is the argument that the caller passed.

    Args:
        epsilon: As the caller passed it.
        build: Makes the plan, the recipe or the mechanism.
    """
    try:
        return build()
    except OverflowError:
        pass
    except InvalidArgument as error:
        name, _, rest = str(error).partition("=")
        about_argument = rest.startswith(f"{float(epsilon):.3g}:")
        if name not in _DERIVED_FROM_EPSILON or about_argument:
            raise
    expected = "a larger value, or fewer features" if epsilon < 1 else "a smaller value"
    advice = "The noise is too large to compute exactly" if epsilon < 1 else "The noise could not hide rounding errors"
    raise InvalidArgument("epsilon", float(epsilon), expected, advice)
