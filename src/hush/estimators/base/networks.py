"""Networks trained by DP-SGD, with scikit-learn's manners; torch is loaded by fit alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget, Charge
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument, check_count, check_positive
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator
from hush.numerics import silent
from hush.randomness import RandomSource

if TYPE_CHECKING:
    from torch import Tensor, nn

_LARGEST = 1e6  # entries beyond it are cut: a network's arithmetic must not overflow


class _Network(PrivateEstimator):
    """What both networks do: keep parameters, train, and predict outputs."""

    _needs_delta = True

    def _keep(self, given: dict[str, Any]) -> None:
        """Store a constructor's arguments, untouched, and check them."""
        for name in self._get_param_names():
            setattr(self, name, given[name])
        self._check()

    def _check(self) -> None:
        super()._check()
        if not callable(self.module):
            raise InvalidArgument("module", self.module, "a function of (features, outputs) that makes a torch module")
        for name in ("data_norm", "epochs", "clip_norm", "learning_rate"):
            check_positive(name, getattr(self, name))
        check_count("batch_size", self.batch_size)

    @abstractmethod
    def _num_outputs(self) -> int:
        """Return how many outputs the module has."""

    @abstractmethod
    def _targets(self, rows: Floats, y: Any) -> Any:
        """Return what is to be learned of each row."""

    @abstractmethod
    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""

    @silent
    def fit(self, X: Any, y: Any) -> Self:
        """Train a new module; NaN counts as 0, and infinity as a large number."""
        self._check()
        rows = self._rows(X)
        self.module_ = self._train(rows, self._targets(rows, y))
        return self

    def _train(self, rows: Floats, targets: Any) -> nn.Module:
        """Train a new module and return it; the cost is charged as soon as it is known, before the first step."""
        import torch

        from hush.training import privatize

        module: nn.Module = self.module(rows.shape[1], self._num_outputs())
        optimizer = torch.optim.SGD(module.parameters(), lr=float(self.learning_rate), momentum=0.9)
        inputs = torch.from_numpy(self._inputs(rows))
        private = privatize(
            module,
            optimizer,
            (inputs, torch.from_numpy(targets)),
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            epochs=self.epochs,
            batch_size=min(int(self.batch_size), len(rows)),
            clip_norm=float(self.clip_norm),
            source=self.source,
        )
        event = private.plan.event()
        assert isinstance(event, QualifiedEvent)
        if self.budget is not None:
            charge = Charge(event=event, purpose=f"fit {type(self).__name__}", delta=float(self.delta))
            self.budget.reserve(charge).commit()
        module.train()
        for x, y in private.loader:
            private.step(self._loss(private.model(x), y))
        module.eval()
        self.guarantee_, self.event_ = private.guarantee(), event
        return private.close()

    def _inputs(self, rows: Floats) -> NDArray[np.float32]:
        """Return rows in units of the norm: scaled for the network's sake only, since gradients are clipped."""
        scaled = np.nan_to_num(rows / float(self.data_norm), nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
        return np.clip(scaled, -_LARGEST, _LARGEST).astype(np.float32)

    def _outputs(self, X: Any) -> Floats:
        import torch

        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        with torch.no_grad():
            found = self.module_(torch.from_numpy(self._inputs(rows)))
        return np.asarray(found.double().numpy())


class PrivateClassifier(PrivateClassifierMixin, ClassifierMixin, _Network):  # type: ignore[misc]
    """A classifier from any torch module, trained by DP-SGD.

    Choose it where linear classifiers are not enough: images, many features, much data (tens of thousands of rows).

    >>> import numpy as np, torch
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0, 0.0], [1.0, 0.0]] * 200)
    >>> model = PrivateClassifier(torch.nn.Linear, epsilon=3.0, delta=1e-5, data_norm=1.0, classes=[0, 1],
    ...                           source=TestSource(1))
    >>> model.fit(X, [0, 1] * 200).predict([[-1.0, 0.0], [1.0, 0.0]]).tolist()
    [0, 1]

    Guarantee:
        (epsilon, delta)-differential privacy of the trained module, as `hush.training.privatize` states it.

    Assumes:
        ``classes`` are public (the caller's duty). The number of rows, those of other classes included, from which the
        sampling rate follows, is public, or about so (the caller's duty; the guarantee repeats it). The module treats
        rows one by one (checked here).

    References:
        Abadi et al. 2016, Algorithm 1.

    Args:
        module: From (number of features, number of outputs) to a new torch module, such as ``torch.nn.Linear``.
        epsilon: Of the guarantee.
        delta: Of the guarantee; less than one over the number of rows.
        data_norm: About how large entries or rows are: they are divided by it. No privacy rests on it.
        classes: All labels, public; rows of others have no loss.
        epochs: How many times a row is seen on average.
        batch_size: How many rows are in a batch on average.
        clip_norm: To what norm a row's gradient is clipped.
        learning_rate: Of SGD with momentum 0.9.
        budget: What fits are charged to.
        source: Of noise, for tests.

    Attributes:
        module_: The trained module.
        classes_: The labels, sorted: the order of outputs.
        n_features_in_: How many features there are.
        guarantee_: What fit gave away.
        event_: The same for accountants.
    """

    def __init__(
        self,
        module: Callable[[int, int], nn.Module],
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        classes: Any,
        epochs: float = 20,
        batch_size: int = 256,
        clip_norm: float = 1.0,
        learning_rate: float = 0.5,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self._keep(locals())

    def _check(self) -> None:
        super()._check()
        self._check_classes()

    def _num_outputs(self) -> int:
        return len(np.asarray(self.classes))

    def _targets(self, rows: Floats, y: Any) -> Any:
        # Rows of other classes stay, without a loss: how many they are must not change the rate of sampling.
        return self._places(self._labels(rows, y, numeric=False))

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, targets, reduction="none", ignore_index=-1)

    def decision_function(self, X: Any) -> Floats:
        """Return the module's outputs; for two classes, by how much the second exceeds the first."""
        found = self._outputs(X)
        return found if found.shape[1] > 2 else found[:, 1] - found[:, 0]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class."""
        return np.asarray(softmax(self._outputs(X), axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        best = self._outputs(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


class PrivateRegressor(RegressorMixin, _Network):  # type: ignore[misc]
    """A regressor from any torch module, trained by DP-SGD on squared errors.

    Choose it over `PrivateLinearRegression` where a line is not enough and there are tens of thousands of rows.

    >>> import numpy as np, torch
    >>> from hush.randomness import TestSource
    >>> X = np.linspace(-1, 1, 2000)[:, None]
    >>> model = PrivateRegressor(torch.nn.Linear, epsilon=3.0, delta=1e-5, data_norm=1.0, target_bounds=(-1, 1),
    ...                          source=TestSource(1))
    >>> model.fit(X, 0.8 * X[:, 0]).predict([[0.5]]).round(1).tolist()
    [0.4]

    Guarantee:
        (epsilon, delta)-differential privacy of the trained module, as `hush.training.privatize` states it.

    Assumes:
        ``target_bounds`` are public (the caller's duty); targets are clamped to them (checked here). The number of rows
        is public, or about so (the caller's duty; the guarantee repeats it).

    References:
        Abadi et al. 2016, Algorithm 1.

    Args:
        module: From (number of features, 1) to a new torch module.
        epsilon: Of the guarantee.
        delta: Of the guarantee; less than one over the number of rows.
        data_norm: About how large entries or rows are: they are divided by it. No privacy rests on it.
        target_bounds: (lower, upper), public. Within them targets are scaled to -1 and 1; a row of which
            the target is NaN has no loss.
        epochs: How many times a row is seen on average.
        batch_size: How many rows are in a batch on average.
        clip_norm: To what norm a row's gradient is clipped.
        learning_rate: Of SGD with momentum 0.9.
        budget: What fits are charged to.
        source: Of noise, for tests.

    Attributes:
        module_: The trained module.
        n_features_in_: How many features there are.
        guarantee_: What fit gave away.
        event_: The same for accountants.
    """

    def __init__(
        self,
        module: Callable[[int, int], nn.Module],
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        target_bounds: tuple[float, float],
        epochs: float = 20,
        batch_size: int = 256,
        clip_norm: float = 1.0,
        learning_rate: float = 0.1,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self._keep(locals())

    def _check(self) -> None:
        super()._check()
        check_target_bounds(self.target_bounds)

    def _num_outputs(self) -> int:
        return 1

    def _targets(self, rows: Floats, y: Any) -> Any:
        low, high = check_target_bounds(self.target_bounds)
        middle, half = (low + high) / 2, (high - low) / 2
        wanted = np.clip((self._labels(rows, y, numeric=True) - middle) / half, -1, 1)
        return wanted.astype(np.float32)

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # As 0 * NaN is NaN, what is missing is taken out before the error is.
        known = ~targets.isnan()
        return (outputs[:, 0] - targets.nan_to_num(0.0)) ** 2 * known

    def predict(self, X: Any) -> Floats:
        """Return a number within the bounds for each row."""
        low, high = check_target_bounds(self.target_bounds)
        return np.asarray(np.clip((low + high) / 2 + self._outputs(X)[:, 0] * (high - low) / 2, low, high))


def check_target_bounds(bounds: Any) -> tuple[float, float]:
    """Return the ends of public bounds."""
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not (high > low and high - low < 1e100):
        raise InvalidArgument("target_bounds", bounds, "(lower, upper), finite, lower < upper", "They are public")
    return low, high
