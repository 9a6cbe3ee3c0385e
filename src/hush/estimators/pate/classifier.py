"""PATE as a classifier: teachers on disjoint private parts, a noisy vote on public rows, a student of the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from hush.accounting import ComposedEvent, Event, PldAccountant
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument, check_count, check_delta, check_instance, check_positive
from hush.estimators.base.estimator import KeepsBudget, check_budget_and_source
from hush.estimators.pate.aggregators import ConfidentGNMax, GNMax, LNMax, VoteAggregator, VoteAnswers, VotePlan
from hush.estimators.pate.noise import MOST_TEACHERS
from hush.estimators.pate.report import CostReport, DataDependentCost
from hush.estimators.pate.rows import PrivateRows, known_classes, private_rows, public_rows
from hush.estimators.pate.student import ask_and_teach, probabilities
from hush.estimators.pate.teachers import count_votes, parts
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, assumptions_of, source_or_default

if TYPE_CHECKING:
    from hush.accounting.budget import Budget

_ASSUMED = "teachers share nothing with each other, and public rows are not from the private data"


def _has_probabilities(model: PATEClassifier) -> bool:
    return hasattr(getattr(model, "student_", model.student), "predict_proba")


class PATEClassifier(KeepsBudget, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
    """

    def __init__(
        self,
        teacher: Any,
        student: Any,
        *,
        num_teachers: int,
        aggregator: VoteAggregator,
        epsilon: float,
        delta: float,
        classes: Any = None,
        semi_supervised: bool = False,
        report: CostReport | None = None,
        budget: Budget | None = None,
        n_jobs: int | None = None,
        source: RandomSource | None = None,
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
        check_instance("aggregator", self.aggregator, VoteAggregator, "Such as ConfidentGNMax(...)")
        known_classes(self.classes)
        check_budget_and_source(self.budget, self.source)
        check_positive("epsilon", self.epsilon)
        check_positive("delta", check_delta("delta", self.delta))
        check_instance("semi_supervised", self.semi_supervised, bool)
        if self.report is not None:
            check_instance("report", self.report, CostReport)
            if not isinstance(self.aggregator, (LNMax, GNMax, ConfidentGNMax)):
                raise InvalidArgument("report", self.report, "None", "This aggregator has no cost by the votes")
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
        classes = known_classes(self.classes)
        private = private_rows(X, y, units, classes, self)
        questions = public_rows(public, private.rows.shape[1], self)
        source = source_or_default(self.source)
        plan = self._planned(len(questions))
        event, unit = self._event(plan, source, units)
        guarantee = PldAccountant(unit=unit).compose(event).guarantee(self.delta)
        reservation = self._reserve(event)
        student, answers, cost = self._learned(private, questions, len(classes), plan, source)
        if reservation is not None:
            reservation.commit()
        self.classes_ = classes
        self.student_, self.data_dependent_ = student, cost
        self.guarantee_, self.event_ = guarantee, event
        self.num_asked_ = answers.num_asked
        self.num_answered_ = int((answers.labels >= 0).sum())
        return self

    def _planned(self, num_queries: int) -> VotePlan:
        spare = (0.0, 0.0) if self.report is None else (self.report.epsilon, self.report.delta)
        epsilon, delta = self.epsilon - spare[0], self.delta - spare[1]
        return self.aggregator.plan(num_queries, epsilon=epsilon, delta=delta)

    def _event(self, plan: VotePlan, source: RandomSource, units: Any) -> tuple[Event, Unit]:
        event = plan.event if self.report is None else ComposedEvent((plan.event, self.report.event))
        unit = Unit.example() if units is None else Unit.user()
        assumptions = (_ASSUMED, *assumptions_of(source))
        return QualifiedEvent(event, Relation.ADD_OR_REMOVE.value, str(unit), assumptions), unit

    def _reserve(self, event: Event) -> Any:
        if self.budget is None:
            return None
        from hush.accounting.budget import Charge

        return self.budget.reserve(Charge(event=event, purpose="PATEClassifier.fit", delta=self.delta))

    def _learned(
        self, private: PrivateRows, questions: Any, num_classes: int, plan: VotePlan, source: RandomSource
    ) -> tuple[Any, VoteAnswers, DataDependentCost | None]:
        """Return the student, what was released, and what that cost by the votes. Votes themselves are not kept."""
        counts = count_votes(
            self.teacher,
            private.rows,
            private.labels,
            questions,
            rows=parts(len(private.rows), private.units, self.num_teachers, source),
            num_classes=num_classes,
            n_jobs=self.n_jobs,
        )
        student, answers = ask_and_teach(
            self.student,
            questions,
            counts,
            self.aggregator,
            source,
            limit=plan.limit,
            num_teachers=self.num_teachers,
            semi_supervised=self.semi_supervised,
        )
        if self.report is None:
            return student, answers, None
        cost = self.report.release(
            counts,
            answers,
            self.aggregator,
            num_teachers=self.num_teachers,
            delta=self.delta - self.report.delta,
            source=source,
        )
        return student, answers, cost

    def _rows(self, x: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, x, reset=False, dtype="numeric")

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the student's classes."""
        rows = self._rows(X)
        return np.asarray(self.classes_[np.asarray(self.student_.predict(rows), dtype=np.int64)])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the student's probabilities, one column per class."""
        rows = self._rows(X)
        return probabilities(self.student_, rows, len(self.classes_))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return logarithms of the student's probabilities; -inf for a class that it never saw."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))
