"""PATE as a classifier: teachers on disjoint parts, a noisy vote on public rows, and a student trained on the answers.

private rows  usable ones, assigned to teachers by unit (`rows`, `teachers`)
votes         one per teacher and public row; only the counts are kept
answers       noisy maxima, until the budget is used up (`aggregators`)
student       trained on public rows and answers (`student`)
report        optionally, the data-dependent cost of the answers (`report`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from hush.accounting import ComposedEvent, Event, PldAccountant
from hush.accounting.events import QualifiedEvent
from hush.accounting.hold import active
from hush.accounting.receipts import receipt_of
from hush.errors import InvalidArgument, check_count, check_delta, check_instance, check_positive
from hush.estimators.base.estimator import SharesBudget, check_budget_and_source
from hush.estimators.base.users import ONE_ROW, OneRowPerUser
from hush.estimators.pate.aggregators import ConfidentGNMax, GNMax, LNMax, VoteAggregator, VoteAnswers, VotePlan
from hush.estimators.pate.noise import MAX_TEACHERS
from hush.estimators.pate.report import CostReport, DataDependentCost
from hush.estimators.pate.rows import PrivateRows, known_classes, private_rows, public_rows
from hush.estimators.pate.student import ask_and_teach, probabilities
from hush.estimators.pate.teachers import assign_rows, count_votes
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, assumptions_of, source_or_default

if TYPE_CHECKING:
    from hush.accounting.budget import Budget

_ASSUMPTION = "teachers share nothing with each other, and public rows do not come from the private data"


def _has_probabilities(model: PATEClassifier) -> bool:
    return hasattr(getattr(model, "student_", model.student), "predict_proba")


class PATEClassifier(SharesBudget, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train a student on noisy votes of teachers, each trained on its own part of the private data.

    Choose it for any kind of model, however large or not differentiable, if you have *public rows without labels* from
    about the same distribution, and enough private data for a hundred teachers or more. For linear or convex models, or
    without public rows, objective perturbation or noisy gradients are the better choice. Known as private aggregation
    of teacher ensembles (PATE).

    Args:
        teacher: An estimator, which is cloned, or a function without arguments that returns one.
        student: The same. It learns from public rows and class numbers 0, 1, ...
        num_teachers: Number of teachers; public.
        aggregator: How votes become answers, such as `ConfidentGNMax(...)`.
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee, in (0, 1).
        classes: All class labels: public, never read from the data.
        semi_supervised: Whether the student gets all public rows, with class -1 where there is no answer.
        report: A `CostReport`, to set ``data_dependent_``. Default: none.
        budget: Every fit is charged to it before anything is trained. Default: no charge.
        n_jobs: Number of parallel jobs for teachers, as in scikit-learn.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        guarantee_: Privacy guarantee of this fit, for any data.
        event_: The same guarantee as an accounting event, for composition.
        student_: The trained student.
        classes_: The declared class labels, sorted.
        num_asked_: Number of public rows that were asked: the first ones.
        num_answered_: Number of them that got an answer.
        data_dependent_: A `DataDependentCost`, or None without a report.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.

    Guarantee:
        (``epsilon``, ``delta``)-DP of the fitted object per example, or per user with ``units``, under add-or-remove,
        for any data. Queries stop before it would be exceeded. The cost of a ``report`` is included.

    Assumes:
        ``classes``, ``num_teachers`` and the public rows do not come from the private data (the caller's duty).
        Teachers share no state (the caller's duty; each is a new copy). All rows of a user have the same value in
        ``units`` (the caller's duty). Rows with NaN, an infinity, an undeclared label or no id are dropped (checked
        here). A teacher that fails abstains (checked here).

    References:
        Papernot et al. 2017 (teachers, `LNMax`), 2018 (`GNMax`, `ConfidentGNMax`, `InteractiveGNMax`). Variant: a coin
        decides the teacher of each unit, so that the number of rows stays private; queries are stopped by a filter on
        squares of mu (Smith & Thakurta 2022).

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
        """Store the arguments, and check them."""
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
        if not check_count("num_teachers", self.num_teachers, minimum=2) <= MAX_TEACHERS:
            raise InvalidArgument("num_teachers", self.num_teachers, f"at most {MAX_TEACHERS}")
        check_instance("aggregator", self.aggregator, VoteAggregator, "Pass ConfidentGNMax(...), for example")
        known_classes(self.classes)
        check_budget_and_source(self.budget, self.source)
        check_positive("epsilon", self.epsilon)
        check_positive("delta", check_delta("delta", self.delta))
        check_instance("semi_supervised", self.semi_supervised, bool)
        if self.report is not None:
            check_instance("report", self.report, CostReport)
            if not isinstance(self.aggregator, (LNMax, GNMax, ConfidentGNMax)):
                raise InvalidArgument(
                    "report", self.report, "None", "The data-dependent cost of this aggregator is not implemented"
                )
            if not (self.report.epsilon < self.epsilon and self.report.delta < self.delta):
                raise InvalidArgument("report", self.report, "less than epsilon and delta", "The answers need the rest")

    def fit(self, X: Any, y: Any, public: Any = None, units: Any = None) -> Self:
        """Train teachers on private rows, ask them about public ones, and train the student on the answers.

        Args:
            X: Private rows.
            y: Their labels.
            public: Public rows without labels. They are asked in this order, so shuffle them.
            units: One id per private row; all rows of a user go to the same teacher. `OneRowPerUser()` if there are no
                ids, as no user has more than one row. If omitted, each row is a unit of its own.
        """
        self._check()
        classes = known_classes(self.classes)
        private = private_rows(X, y, units, classes, self)
        questions = public_rows(public, private.rows.shape[1], self)
        source = source_or_default(self.source)
        plan = self._plan_queries(len(questions))
        event, unit = self._event(plan, source, units)
        guarantee = PldAccountant(unit=unit).compose(event).guarantee(self.delta)
        # Before any teacher is trained: a budget that is too small must refuse without having looked at the data.
        reservation = self._reserve(event)
        with active(reservation):
            student, answers, cost = self._train(private, questions, len(classes), plan, source)
            if reservation is not None:
                # Nothing is published before this: the student and the labels stand for releases.
                reservation.commit()
                self.receipt_ = receipt_of(reservation, guarantee)
        self.classes_ = classes
        self.student_, self.data_dependent_ = student, cost
        self.guarantee_, self.event_ = guarantee, event
        self.num_asked_ = answers.num_asked
        self.num_answered_ = int((answers.labels >= 0).sum())
        return self

    def _plan_queries(self, num_queries: int) -> VotePlan:
        """Plan the queries within epsilon and delta, minus what the report costs."""
        # Basic composition: the epsilons and deltas of answers and report add up.
        report_budget = (0.0, 0.0) if self.report is None else (self.report.epsilon, self.report.delta)
        epsilon, delta = self.epsilon - report_budget[0], self.delta - report_budget[1]
        return self.aggregator.plan(num_queries, epsilon=epsilon, delta=delta)

    def _event(self, plan: VotePlan, source: RandomSource, units: Any) -> tuple[Event, Unit]:
        # The planned event is charged, not what was used: how much that is depends on the votes.
        event = plan.event if self.report is None else ComposedEvent((plan.event, self.report.event))
        unit = Unit.example() if units is None else Unit.user()
        statements = (ONE_ROW,) if isinstance(units, OneRowPerUser) else ()
        assumptions = (_ASSUMPTION, *statements, *assumptions_of(source))
        return QualifiedEvent(event, Relation.ADD_OR_REMOVE, unit, assumptions), unit

    def _reserve(self, event: Event) -> Any:
        if self.budget is None:
            return None
        from hush.accounting.budget import Charge

        return self.budget.reserve(Charge(event=event, purpose="PATEClassifier.fit", delta=self.delta))

    def _train(
        self, private: PrivateRows, questions: Any, num_classes: int, plan: VotePlan, source: RandomSource
    ) -> tuple[Any, VoteAnswers, DataDependentCost | None]:
        """Return the student, the released answers, and their data-dependent cost. Votes are not kept."""
        counts = count_votes(
            self.teacher,
            private.rows,
            private.labels,
            questions,
            rows=assign_rows(len(private.rows), private.units, self.num_teachers, source),
            num_classes=num_classes,
            n_jobs=self.n_jobs,
        )
        # The votes are private. What leaves are noisy answers, and a student that sees nothing else (post-processing).
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
        """Return the class that the student predicts for each row."""
        rows = self._rows(X)
        return np.asarray(self.classes_[np.asarray(self.student_.predict(rows), dtype=np.int64)])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class."""
        rows = self._rows(X)
        return probabilities(self.student_, rows, len(self.classes_))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the log-probability of each class; -inf for a class that the student never saw."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))
