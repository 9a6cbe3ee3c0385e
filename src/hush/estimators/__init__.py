"""Private, scikit-learn-compatible estimators: parameters in the constructor, a guarantee after fit.

Regression
    `PrivateLinearRegression` (AdaSSP) and `PrivateRidge`, from noisy sufficient statistics; `FunctionalRegression`,
    with delta = 0.
Linear classifiers
    `PrivateLogisticRegression` and `PrivateLinearSVC`, by `ObjectivePerturbation`, `OutputPerturbation`, `BoltOnSGD`,
    `NoisyGradients`, `FrankWolfe` or `FunctionalMechanism`.
Other classifiers
    `PrivateGaussianNB` and `PrivateLDA`, from noisy moments; `PrivateRandomForestClassifier` and
    `PrivateDecisionTreeClassifier`; `PATEClassifier`, from votes of teachers (`hush.estimators.pate`).
Networks
    `PrivateClassifier` and `PrivateRegressor`, around `hush.training`; torch is loaded by fit.
Without labels
    `PrivatePCA` (by `AnalyzeGauss`, `Wishart` or `ExponentialPCA`), `PrivateCovariance`, `PrivateKMeans`,
    `PrivateHistogramDensity`.
Preparation
    `PrivateStandardScaler`, `PrivateMinMaxScaler`, `PublicOneHotEncoder`; `LearnBounds`, for bounds that you do not
    know.
The local model, for data you must not collect in the clear
    `LocalRandomizer` randomises tables, `Rappor` words; `LocalNaiveBayes` and `LocalLinearRegression` learn from the
    reports.
Choices
    `PrivateSelectBest` of features, `PrivateGridSearch` of settings, on `HeldOut` rows or `Folds`.

People
    ``fit(X, y, units=ids)`` protects a person with all their rows, of which it uses one; `OneRowPerUser` states that
    every person has only one row. `guarantee_of` adds up all private steps of a pipeline.

Ideas that hold across the package:

- **One base class** (`base.estimator`). Parameters are checked in the constructor and again in fit. A fit states its
  cost and charges it before it reads any value. Clones share the budget; pickled models lose it and cannot be refitted.
- **Labels and cells are read one by one** (`base.labels`). In an array, a single text would turn all labels into text,
  so one record would change how all others are read.
- **Sums are integers.** `moments.gram` puts clipped rows on a grid of 2^-16 and lets BLAS add up integers, which is
  exact. Noise is added once, in a single Gaussian release of all statistics, each with a share of the squared
  sensitivity. `moments.moments` does the same for bounds instead of norms, with the noise plans of `hush.statistics`.
- **A linear classifier is a loss and a method** (`linear.method`). From public numbers alone, a method prepares a
  recipe that knows its event. No proof rests on an exact minimum: noise masks everything within the tolerance
  (`linear.noise.mask_error`).
- **Published proofs are checked.** The Wishart noise of Jiang et al. 2016 is not pure (`moments.wishart` has the exact
  delta). Costs of PATE queries that depend on earlier outcomes bound the privacy loss only after the fact
  (`pate.report`).
- **Every estimator is enrolled in a contract** by a table (`tests/estimators/table.py`): refusals, charges, strange
  rows, and an audit on worst-case neighbours, which must also detect the leak when epsilon is many times larger.

Sub-packages, in reading order: `base`, `moments`, `linear`, `partitions`, `selection`, `local`, `pate`. scikit-learn is
the only further dependency (``hush[estimators]``). diffprivlib is a peer in the benchmarks, not a dependency:
`benchmarks/estimators_peers` explains why.
"""

from hush.extras import with_command as with_command

try:
    import sklearn as sklearn
except ModuleNotFoundError as error:
    raise with_command(error, "hush.estimators") from None

# isort: split
from hush.estimators.base.networks import PrivateClassifier as PrivateClassifier
from hush.estimators.base.networks import PrivateRegressor as PrivateRegressor
from hush.estimators.base.users import OneRowPerUser as OneRowPerUser
from hush.estimators.linear.bolt_on import BoltOnSGD as BoltOnSGD
from hush.estimators.linear.classifiers import PrivateLinearSVC as PrivateLinearSVC
from hush.estimators.linear.classifiers import PrivateLogisticRegression as PrivateLogisticRegression
from hush.estimators.linear.frank_wolfe import FrankWolfe as FrankWolfe
from hush.estimators.linear.functional_mechanism import FunctionalMechanism as FunctionalMechanism
from hush.estimators.linear.functional_mechanism import FunctionalRegression as FunctionalRegression
from hush.estimators.linear.noisy_gradients import NoisyGradients as NoisyGradients
from hush.estimators.linear.objective import ObjectivePerturbation as ObjectivePerturbation
from hush.estimators.linear.output import OutputPerturbation as OutputPerturbation
from hush.estimators.linear.poisson import PrivatePoissonRegression as PrivatePoissonRegression
from hush.estimators.linear.regression import PrivateLinearRegression as PrivateLinearRegression
from hush.estimators.linear.regression import PrivateRidge as PrivateRidge
from hush.estimators.local.bayes import LocalNaiveBayes as LocalNaiveBayes
from hush.estimators.local.linear_regression import LocalLinearRegression as LocalLinearRegression
from hush.estimators.local.randomizer import LocalRandomizer as LocalRandomizer
from hush.estimators.local.rappor import Rappor as Rappor
from hush.estimators.moments.covariance import PrivateCovariance as PrivateCovariance
from hush.estimators.moments.density import PrivateHistogramDensity as PrivateHistogramDensity
from hush.estimators.moments.discriminant import PrivateLDA as PrivateLDA
from hush.estimators.moments.naive_bayes import PrivateGaussianNB as PrivateGaussianNB
from hush.estimators.moments.pca import PrivatePCA as PrivatePCA
from hush.estimators.moments.scalers import PrivateMinMaxScaler as PrivateMinMaxScaler
from hush.estimators.moments.scalers import PrivateStandardScaler as PrivateStandardScaler
from hush.estimators.moments.second_moments import AnalyzeGauss as AnalyzeGauss
from hush.estimators.moments.second_moments import ExponentialPCA as ExponentialPCA
from hush.estimators.moments.second_moments import Wishart as Wishart
from hush.estimators.partitions.kmeans import PrivateKMeans as PrivateKMeans
from hush.estimators.partitions.trees import PrivateDecisionTreeClassifier as PrivateDecisionTreeClassifier
from hush.estimators.partitions.trees import PrivateRandomForestClassifier as PrivateRandomForestClassifier
from hush.estimators.pate import PATEClassifier as PATEClassifier
from hush.estimators.selection.encoder import PublicOneHotEncoder as PublicOneHotEncoder
from hush.estimators.selection.feature_selection import PrivateSelectBest as PrivateSelectBest
from hush.estimators.selection.grid_search import PrivateGridSearch as PrivateGridSearch
from hush.estimators.selection.pipeline_guarantee import guarantee_of as guarantee_of
from hush.estimators.selection.splits import Folds as Folds
from hush.estimators.selection.splits import HeldOut as HeldOut

# isort: split
# Public in `hush.statistics`.
from hush.statistics import LearnBounds as LearnBounds

__all__ = [
    "AnalyzeGauss",
    "BoltOnSGD",
    "ExponentialPCA",
    "Folds",
    "FrankWolfe",
    "FunctionalMechanism",
    "FunctionalRegression",
    "HeldOut",
    "LocalLinearRegression",
    "LocalNaiveBayes",
    "LocalRandomizer",
    "NoisyGradients",
    "ObjectivePerturbation",
    "OneRowPerUser",
    "OutputPerturbation",
    "PATEClassifier",
    "PrivateClassifier",
    "PrivateCovariance",
    "PrivateDecisionTreeClassifier",
    "PrivateGaussianNB",
    "PrivateGridSearch",
    "PrivateHistogramDensity",
    "PrivateKMeans",
    "PrivateLDA",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateMinMaxScaler",
    "PrivatePCA",
    "PrivatePoissonRegression",
    "PrivateRandomForestClassifier",
    "PrivateRegressor",
    "PrivateRidge",
    "PrivateSelectBest",
    "PrivateStandardScaler",
    "PublicOneHotEncoder",
    "Rappor",
    "Wishart",
    "guarantee_of",
]
