"""Scikit-learn-compatible estimators built on `hush.training`: any torch module, trained by DP-SGD.

torch is imported by fit and predict only, so that ``import hush.estimators`` does not need it. Rows are scaled, and the
training layer does the rest: Poisson sampling, per-example clipping, Gaussian noise and accounting.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument, check_count, check_positive
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator
from hush.numerics import quiet_numpy
from hush.randomness import RandomSource, assumptions_of, source_or_default

if TYPE_CHECKING:
    from torch import Tensor, nn

_MAX_ENTRY = 1e6  # entries are clamped to it, so that the network's arithmetic does not overflow


class _NetworkEstimator(PrivateEstimator):
    """The common part of the two estimators: store parameters, train a module, compute its outputs."""

    _needs_delta = True

    def _store_parameters(self, arguments: dict[str, Any]) -> None:
        """Store the arguments of the constructor unchanged, as scikit-learn requires, and check them."""
        for name in self._get_param_names():
            setattr(self, name, arguments[name])
        self._check()

    def _check(self) -> None:
        super()._check()
        if not callable(self.module):
            raise InvalidArgument(
                "module", self.module, "a function from (num_features, num_outputs) to a torch module"
            )
        for name in ("data_norm", "epochs", "clip_norm", "learning_rate"):
            check_positive(name, getattr(self, name))
        check_count("batch_size", self.batch_size)

    @abstractmethod
    def _num_outputs(self) -> int:
        """Return the number of outputs of the module."""

    @abstractmethod
    def _targets(self, rows: Floats, y: Any) -> Any:
        """Return the training target of each row."""

    @abstractmethod
    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""

    @quiet_numpy
    def fit(self, X: Any, y: Any) -> Self:
        """Train a new module. NaN counts as 0, and infinite entries are clamped."""
        self._check()
        rows = self._rows(X)
        self.module_ = self._train(rows, self._targets(rows, y))
        return self

    def _train(self, rows: Floats, targets: Any) -> nn.Module:
        """Train a new module and return it. The cost is charged before the first step."""
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
        # With ``units``, each row is a user of its own.
        stated = (*self._unit_assumptions, *assumptions_of(source_or_default(self.source)))
        event = replace(event, unit=self._unit, assumptions=(*event.assumptions, *stated))
        self._reserve(event, private.plan.guarantee())
        module.train()
        for x, y in private.loader:
            private.step(self._loss(private.model(x), y))
        module.eval()
        guarantee = private.guarantee()
        stated = (*guarantee.assumptions, *self._unit_assumptions)
        self.guarantee_, self.event_ = replace(guarantee, unit=self._unit, assumptions=stated), event
        return private.close()

    def _inputs(self, rows: Floats) -> NDArray[np.float32]:
        """Return rows divided by ``data_norm``. This helps optimisation only: the gradients are clipped anyway."""
        scaled = np.nan_to_num(rows / float(self.data_norm), nan=0.0, posinf=_MAX_ENTRY, neginf=-_MAX_ENTRY)
        return np.clip(scaled, -_MAX_ENTRY, _MAX_ENTRY).astype(np.float32)

    def _outputs(self, X: Any) -> Floats:
        import torch

        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        # A copy, as a module may store what it gets: the rows to predict must not be pickled with the estimator.
        module = copy.deepcopy(self.module_)
        with torch.no_grad():
            outputs = module(torch.from_numpy(self._inputs(rows)))
        return np.asarray(outputs.double().numpy())


class PrivateClassifier(PrivateClassifierMixin, ClassifierMixin, _NetworkEstimator):  # type: ignore[misc]
    """A classifier from any torch module, trained by DP-SGD.

    Choose it where linear classifiers are not enough: images, many features, or tens of thousands of rows.

    Args:
        module: A function from (number of features, number of outputs) to a new torch module, such as
            ``torch.nn.Linear``.
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee; choose less than one over the number of rows.
        data_norm: Typical size of the entries. Rows are divided by it. The guarantee does not depend on it.
        classes: All class labels, public. Rows of any other class contribute a zero gradient.
        epochs: Expected number of times that each row is used.
        batch_size: Expected number of rows in a batch.
        clip_norm: Clip norm of per-example gradients.
        learning_rate: Learning rate of SGD with momentum 0.9.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        module_: The trained module.
        classes_: The declared class labels, sorted: the order of the outputs.
        n_features_in_: Number of features in X.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy of the trained module, as stated by `hush.training.privatize`.

    Assumes:
        ``classes`` are public (the caller's duty). The number of rows, those of other classes included, is public or
        approximately so, since the sampling rate follows from it (the caller's duty; the guarantee repeats it). The
        module treats rows one by one (checked here).

    References:
        Abadi et al. 2016, Algorithm 1.

    >>> import numpy as np, torch
    >>> from hush.randomness import TestSource
    >>> X = np.array([[-1.0, 0.0], [1.0, 0.0]] * 200)
    >>> model = PrivateClassifier(torch.nn.Linear, epsilon=3.0, delta=1e-5, data_norm=1.0, classes=[0, 1],
    ...                           source=TestSource(1))
    >>> model.fit(X, [0, 1] * 200).predict([[-1.0, 0.0], [1.0, 0.0]]).tolist()
    [0, 1]
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
        self._store_parameters(locals())

    def _check(self) -> None:
        super()._check()
        self._check_classes()

    def _num_outputs(self) -> int:
        return len(np.asarray(self.classes))

    def _targets(self, rows: Floats, y: Any) -> Any:
        # Rows of other classes stay, with a zero loss: dropping them would make the sampling rate depend on labels.
        return self._class_indices(self._labels(rows, y, numeric=False))

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, targets, reduction="none", ignore_index=-1)

    def decision_function(self, X: Any) -> Floats:
        """Return the outputs of the module; with two classes, the second output minus the first."""
        outputs = self._outputs(X)
        return outputs if outputs.shape[1] > 2 else outputs[:, 1] - outputs[:, 0]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class."""
        return np.asarray(softmax(self._outputs(X), axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of each row."""
        indices = self._outputs(X).argmax(axis=1)
        return np.asarray(self.classes_[indices])


class PrivateRegressor(RegressorMixin, _NetworkEstimator):  # type: ignore[misc]
    """A regressor from any torch module, trained by DP-SGD on the squared error.

    Choose it over `PrivateLinearRegression` where a linear model is not enough and you have tens of thousands of rows.

    Args:
        module: A function from (number of features, 1) to a new torch module.
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee; choose less than one over the number of rows.
        data_norm: Typical size of the entries. Rows are divided by it. The guarantee does not depend on it.
        target_bounds: Public (lower, upper) of the target. Targets are clamped to it and scaled to [-1, 1] for
            training. A row with a missing target contributes a zero gradient.
        epochs: Expected number of times that each row is used.
        batch_size: Expected number of rows in a batch.
        clip_norm: Clip norm of per-example gradients.
        learning_rate: Learning rate of SGD with momentum 0.9.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        module_: The trained module.
        n_features_in_: Number of features in X.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy of the trained module, as stated by `hush.training.privatize`.

    Assumes:
        ``target_bounds`` are public (the caller's duty); targets are clamped to them (checked here). The number of rows
        is public or approximately so (the caller's duty; the guarantee repeats it).

    References:
        Abadi et al. 2016, Algorithm 1.

    >>> import numpy as np, torch
    >>> from hush.randomness import TestSource
    >>> X = np.linspace(-1, 1, 2000)[:, None]
    >>> model = PrivateRegressor(torch.nn.Linear, epsilon=3.0, delta=1e-5, data_norm=1.0, target_bounds=(-1, 1),
    ...                          source=TestSource(1))
    >>> model.fit(X, 0.8 * X[:, 0]).predict([[0.5]]).round(1).tolist()
    [0.4]
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
        self._store_parameters(locals())

    def _check(self) -> None:
        super()._check()
        check_target_bounds(self.target_bounds)

    def _num_outputs(self) -> int:
        return 1

    def _targets(self, rows: Floats, y: Any) -> Any:
        low, high = check_target_bounds(self.target_bounds)
        middle, half = (low + high) / 2, (high - low) / 2
        targets = np.clip((self._labels(rows, y, numeric=True) - middle) / half, -1, 1)
        return targets.astype(np.float32)

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # 0 * NaN is NaN, so a missing target is replaced before the error is formed.
        known = ~targets.isnan()
        return (outputs[:, 0] - targets.nan_to_num(0.0)) ** 2 * known

    def predict(self, X: Any) -> Floats:
        """Return a prediction for each row, clamped to ``target_bounds``."""
        low, high = check_target_bounds(self.target_bounds)
        return np.asarray(np.clip((low + high) / 2 + self._outputs(X)[:, 0] * (high - low) / 2, low, high))


def check_target_bounds(bounds: Any) -> tuple[float, float]:
    """Return the lower and the upper bound of the target."""
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not (high > low and high - low < 1e100):
        raise InvalidArgument(
            "target_bounds",
            bounds,
            "(lower, upper), finite, lower < upper",
            "Bounds are public: pass them, they are never read from the data",
        )
    return low, high
