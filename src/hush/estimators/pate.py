"""Private aggregation of teacher ensembles (PATE): any estimator, made private by votes of many.

- `PATEClassifier`: teachers on disjoint private parts, a noisy vote on public rows, a student of the answers.
- Aggregators: `GNMax`, `ConfidentGNMax` (the usual choice), `InteractiveGNMax`, `LNMax`.
- `CostReport`: what the answers cost on the data at hand, sanitised; `DataDependentCost` is its result.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d

from hush.accounting import Composed, Event, PldAccountant
from hush.accounting.events import Qualified
from hush.errors import InvalidArgument, check_count, check_delta, check_instance, check_positive
from hush.estimators._pate_aggregators import MOST_TEACHERS as MOST_TEACHERS
from hush.estimators._pate_aggregators import Aggregator as Aggregator
from hush.estimators._pate_aggregators import Answers as Answers
from hush.estimators._pate_aggregators import ConfidentGNMax as ConfidentGNMax
from hush.estimators._pate_aggregators import GNMax as GNMax
from hush.estimators._pate_aggregators import InteractiveGNMax as InteractiveGNMax
from hush.estimators._pate_aggregators import LNMax as LNMax
from hush.estimators._pate_aggregators import Plan
from hush.estimators._pate_report import CostReport as CostReport
from hush.estimators._pate_report import DataDependentCost as DataDependentCost
from hush.estimators._pate_teachers import count_votes, made, parts
from hush.guarantee import Relation, Unit
from hush.randomness import Source, assumptions_of, source_or_default

if TYPE_CHECKING:
    from hush.accounting.budget import Budget

__all__ = [
    "Aggregator",
    "Answers",
    "ConfidentGNMax",
    "CostReport",
    "DataDependentCost",
    "GNMax",
    "InteractiveGNMax",
    "LNMax",
    "PATEClassifier",
]

_ASSUMED = "teachers share nothing with each other, and public rows are not from the private data"


class PATEClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from a noisy vote of teachers, each trained on its own part of the private data.

    Choose it for any model, however large or not differentiable, if there are *public rows without labels* from about
    the same distribution, and enough private data for a hundred teachers or more. For a linear or convex model, or
    without public rows, objective perturbation or noisy gradients are the better choice.

    >>> from hush.randomness import TestSource
    >>> from sklearn.linear_model import LogisticRegression
    >>> grid = np.linspace(-1, 1, 4000)
    >>> x, y = np.column_stack([grid, -grid]), (grid > 0).astype(int)
    >>> pate = PATEClassifier(
    ...     LogisticRegression(), LogisticRegression(), num_teachers=100,
    ...     aggregator=ConfidentGNMax(threshold=60, sigma_threshold=40, sigma=20),
    ...     epsilon=2.0, delta=1e-5, classes=[0, 1], source=TestSource(1),
    ... )
    >>> pate.fit(x, y, public=x[::100]).score(x, y) > 0.9
    True
    >>> pate.guarantee_.epsilon <= 2.0
    True

    Guarantee:
        (``epsilon``, ``delta``)-DP of the fitted object per example, or per user with ``units``, under add-or-remove,
        whatever the data are. Queries stop before it would be exceeded. With a ``report``, its cost is within.

    Assumes:
        ``classes``, ``num_teachers`` and the public rows do not come from the private data (the caller's duty).
        Teachers share no state (the caller's duty; each is a new copy). All rows of a user have one value in ``units``
        (the caller's duty). Rows with NaN, an infinity or a label beside ``classes`` are dropped (checked here). A
        teacher that fails abstains (checked here).

    References:
        Papernot et al. 2017 (teachers, `LNMax`), 2018 (`GNMax`, `ConfidentGNMax`, `InteractiveGNMax`). Variant: a coin
        decides each unit's teacher, so that the number of rows stays private; stopping is by a filter on squares of
        mu (Smith & Thakurta 2022).

    Args:
        teacher: An estimator, which is cloned, or a function without arguments that returns one.
        student: The same; it learns from public rows and classes by number, 0, 1, ...
        num_teachers: Public.
        aggregator: `ConfidentGNMax(...)` or another.
        epsilon: Of everything that leaves.
        delta: Of everything that leaves.
        classes: All labels: public, never read from the data.
        semi_supervised: Whether the student gets all public rows, those without an answer as -1.
        report: A `CostReport`, for ``data_dependent_``.
        budget: Charged before anything is trained.
        n_jobs: As in scikit-learn, for teachers.
        source: Of randomness, for tests.

    Attributes:
        guarantee_: What holds for all data.
        event_: What an accountant is told.
        student_: The fitted student.
        classes_: The classes.
        num_asked_: How many public rows, from the first on, were asked.
        num_answered_: How many of them got an answer.
        data_dependent_: A `DataDependentCost`, or None without a report.
    """

    def __init__(
        self,
        teacher: Any,
        student: Any,
        *,
        num_teachers: int,
        aggregator: Aggregator,
        epsilon: float,
        delta: float,
        classes: Any = None,
        semi_supervised: bool = False,
        report: CostReport | None = None,
        budget: Budget | None = None,
        n_jobs: int | None = None,
        source: Source | None = None,
    ) -> None:
        """Store the arguments, after a look at each."""
        self.teacher = teacher
        self.student = student
        self.num_teachers = num_teachers
        self.aggregator = aggregator
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.semi_supervised = semi_supervised
        self.report = report
        self.budget = budget
        self.n_jobs = n_jobs
        self.source = source
        self._check()

    def _check(self) -> None:
        for name in ("teacher", "student"):
            value = getattr(self, name)
            if not (hasattr(value, "fit") or callable(value)):
                raise InvalidArgument(name, value, "an estimator, or a function that returns one")
        if not check_count("num_teachers", self.num_teachers, minimum=2) <= MOST_TEACHERS:
            raise InvalidArgument("num_teachers", self.num_teachers, f"at most {MOST_TEACHERS}")
        check_instance("aggregator", self.aggregator, Aggregator, "Such as ConfidentGNMax(...)")
        check_positive("epsilon", self.epsilon)
        check_positive("delta", check_delta("delta", self.delta))
        check_instance("semi_supervised", self.semi_supervised, bool)
        if self.report is not None:
            check_instance("report", self.report, CostReport)
            if isinstance(self.aggregator, InteractiveGNMax):
                raise InvalidArgument("report", self.report, "None", "InteractiveGNMax has no cost by the votes here")
            if not (self.report.epsilon < self.epsilon and self.report.delta < self.delta):
                raise InvalidArgument("report", self.report, "a part of epsilon and delta", "Answers need the rest")

    def fit(self, X: Any, y: Any, public: Any = None, units: Any = None) -> Self:
        """Train teachers on private rows, ask them about public ones, and train the student on the answers.

        Args:
            X: Private rows.
            y: Their labels.
            public: Rows without labels, which are no secret; asked in this order, so shuffle them.
            units: Whose each private row is; every row is one of its own if None.
        """
        self._check()
        rows, labels, whose, classes = self._private(X, y, units)
        questions = self._public(public, rows.shape[1])
        source = source_or_default(self.source)
        plan = self._planned(len(questions))
        event, unit = self._event(plan, source, whose)
        guarantee = PldAccountant(unit=unit).compose(event).guarantee(self.delta)
        reservation = self._reserve(event)
        counts = count_votes(
            self.teacher,
            rows,
            labels,
            questions,
            rows=parts(len(rows), whose, self.num_teachers, source),
            num_classes=len(classes),
            n_jobs=self.n_jobs,
        )
        student, answers, cost = self._taught(questions, counts, plan, source)
        if reservation is not None:
            reservation.commit()
        self.n_features_in_, self.classes_ = rows.shape[1], classes
        self.student_, self.data_dependent_ = student, cost
        self.guarantee_, self.event_ = guarantee, event
        self.num_asked_ = answers.num_asked
        self.num_answered_ = int((answers.labels >= 0).sum())
        return self

    def _private(self, x: Any, y: Any, units: Any) -> tuple[Any, NDArray[np.int64], Any, NDArray[Any]]:
        """Return rows that can be used, classes by number, and units; others are dropped, each for itself."""
        rows = check_array(x, dtype="numeric", ensure_all_finite=False, estimator=self, input_name="X")
        if y is None:
            raise InvalidArgument(
                "y", None, "one label per row", "A classifier requires y to be passed, but the target y is None"
            )
        given = column_or_1d(y, warn=True)
        check_consistent_length(rows, given, units)
        classes = self._classes()
        given = _comparable(given, classes)
        places = np.clip(np.searchsorted(classes, given), 0, len(classes) - 1)
        with np.errstate(all="ignore"):
            usable = np.isfinite(rows).all(axis=1) & (classes[places] == given)
        whose = None if units is None else _named(column_or_1d(units))[usable]
        return rows[usable], places[usable], whose, classes

    def _classes(self) -> NDArray[Any]:
        if self.classes is None:
            raise InvalidArgument("classes", None, "all labels", "Read from the data, they would tell which there are")
        classes = np.unique(np.asarray(self.classes))
        if not (len(classes) >= 2 and classes.dtype.kind in "biufUS"):
            raise InvalidArgument("classes", self.classes, "two labels or more, numbers or text")
        return classes

    def _public(self, public: Any, num_features: int) -> Any:
        if public is None:
            raise InvalidArgument("public", None, "public rows, without labels", "Teachers need something to vote on")
        rows = check_array(public, dtype="numeric", estimator=self, input_name="public")
        if rows.shape[1] != num_features:
            raise InvalidArgument("public.shape", rows.shape, f"{num_features} features, as X has")
        return rows

    def _planned(self, num_queries: int) -> Plan:
        spare = (0.0, 0.0) if self.report is None else (self.report.epsilon, self.report.delta)
        epsilon, delta = self.epsilon - spare[0], self.delta - spare[1]
        return self.aggregator.plan(num_queries, epsilon=epsilon, delta=delta)

    def _event(self, plan: Plan, source: Source, units: Any) -> tuple[Event, Unit]:
        event = plan.event if self.report is None else Composed((plan.event, self.report.event))
        unit = Unit.example() if units is None else Unit.user()
        assumptions = (_ASSUMED, *assumptions_of(source))
        return Qualified(event, Relation.ADD_OR_REMOVE.value, str(unit), assumptions), unit

    def _reserve(self, event: Event) -> Any:
        if self.budget is None:
            return None
        from hush.accounting.budget import Charge

        return self.budget.reserve(Charge(event=event, purpose="PATEClassifier.fit", delta=self.delta))

    def _taught(
        self, questions: Any, counts: NDArray[np.int64], plan: Plan, source: Source
    ) -> tuple[Any, Answers, DataDependentCost | None]:
        """Ask, and teach the student; in several rounds, if the aggregator wants the student's predictions."""
        left, found = plan.limit, list[Answers]()
        student: Any = None
        for some in np.array_split(np.arange(len(questions)), self.aggregator.num_rounds):
            guesses = None if student is None else self._guesses(student, questions[some], counts.shape[1])
            answers = self.aggregator.answer(
                counts[some], source, limit=left, predictions=guesses, num_teachers=self.num_teachers
            )
            left -= answers.spent
            found.append(answers)
            student = self._student(questions, np.concatenate([one.labels for one in found]))
            if answers.num_asked < len(some):
                break
        everything = _joined(found, len(questions))
        cost = None
        if self.report is not None:
            cost = self.report.release(
                counts,
                everything,
                self.aggregator,
                num_teachers=self.num_teachers,
                delta=self.delta - self.report.delta,
                source=source,
            )
        return student, everything, cost

    def _student(self, questions: Any, labels: NDArray[np.int64]) -> Any:
        """Return a student of the answers so far: all that it sees is public, or was paid for."""
        known = labels >= 0
        if len(np.unique(labels[known])) < 2:
            warnings.warn("the answers have fewer than two classes: the student says always the same", stacklevel=4)
            constant = int(labels[known][0]) if known.any() else 0
            return DummyClassifier(strategy="constant", constant=constant).fit(questions[:1], [constant])
        if self.semi_supervised:
            padded = np.full(len(questions), -1, dtype=np.int64)
            padded[: len(labels)] = labels
            return made(self.student).fit(questions, padded)
        return made(self.student).fit(questions[: len(labels)][known], labels[known])

    @staticmethod
    def _guesses(student: Any, questions: Any, num_classes: int) -> NDArray[np.float64]:
        if not hasattr(student, "predict_proba"):
            raise InvalidArgument("student", student, "one with predict_proba", "InteractiveGNMax asks for it")
        guesses: NDArray[np.float64] = np.zeros((len(questions), num_classes), dtype=np.float64)
        guesses[:, np.asarray(student.classes_, dtype=np.int64)] = student.predict_proba(questions)
        return guesses

    def _rows(self, x: Any) -> Any:
        check_is_fitted(self)
        rows = check_array(x, dtype="numeric", estimator=self, input_name="X")
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features"
                " as input"
            )
        return rows

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the student's classes."""
        rows = self._rows(X)
        return np.asarray(self.classes_[np.asarray(self.student_.predict(rows), dtype=np.int64)])

    @available_if(lambda self: hasattr(getattr(self, "student_", self.student), "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the student's probabilities, one column per class."""
        rows = self._rows(X)
        return self._guesses(self.student_, rows, len(self.classes_))


def _joined(found: list[Answers], num_queries: int) -> Answers:
    """Return all rounds as one, those not reached as not asked."""
    missing = num_queries - sum(len(one.labels) for one in found)
    labels = np.concatenate([*(one.labels for one in found), np.full(missing, -1, dtype=np.int64)])
    consulted = np.concatenate([*(one.consulted for one in found), np.zeros(missing, dtype=np.bool_)])
    spent = sum((one.spent for one in found), Fraction(0))
    return Answers(labels, consulted, sum(one.num_asked for one in found), spent)


def _comparable(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels of a type that compares with the classes; what is in a list of objects must not raise."""
    numeric = classes.dtype.kind in "biuf"
    if labels.dtype.kind == "O":
        return np.array([_number(one) for one in labels]) if numeric else labels.astype(str)
    if numeric != (labels.dtype.kind in "biuf"):
        raise InvalidArgument("y.dtype", str(labels.dtype), f"one that compares with classes, {classes.dtype}")
    return labels


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _named(units: NDArray[Any]) -> NDArray[Any]:
    """Return units that can be sorted: objects by their text. Two of one text share a teacher, which harms nobody."""
    return units.astype(str) if units.dtype.kind == "O" else units
