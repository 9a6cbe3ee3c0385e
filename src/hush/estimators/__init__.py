"""Private estimators with scikit-learn's manners: parameters in the constructor, a guarantee after fit.

- Regression from noisy sufficient statistics: `PrivateLinearRegression` (AdaSSP), `PrivateRidge`;
  `FunctionalRegression`.
- Linear classifiers: `PrivateLogisticRegression`, `PrivateLinearSVC`, by `ObjectivePerturbation`, `OutputPerturbation`,
  `BoltOnSGD`, `NoisyGradients`, `FrankWolfe` or `FunctionalMechanism`.
- Classes from noisy moments: `PrivateGaussianNB`, `PrivateLDA`; from trees: `PrivateRandomForestClassifier`,
  `PrivateDecisionTreeClassifier`; from teachers' votes: `PATEClassifier` (`hush.estimators.pate`).
- Networks: `PrivateClassifier`, `PrivateRegressor`, over `hush.training`; torch is loaded by fit.
- Without labels: `PrivatePCA` (by `AnalyzeGauss`, `Wishart` or `ExponentialPCA`), `PrivateCovariance`, `PrivateKMeans`,
  `PrivateHistogramDensity`.
- Preparation: `PrivateStandardScaler`, `PrivateMinMaxScaler`, `PublicOneHotEncoder`; bounds that are not known:
  `LearnBounds`.
- Rows that nobody may hold (the local model): `LocalRandomizer` perturbs tables, `Rappor` words; `LocalNaiveBayes` and
  `LocalLinearRegression` learn from what was told.
- Choices: `PrivateSelectBest` of features, `PrivateGridSearch` of settings, on `HeldOut` rows or `Folds`.
"""

from hush.estimators.base.bounds import LearnBounds as LearnBounds
from hush.estimators.base.networks import PrivateClassifier as PrivateClassifier
from hush.estimators.base.networks import PrivateRegressor as PrivateRegressor
from hush.estimators.linear.bolt_on import BoltOnSGD as BoltOnSGD
from hush.estimators.linear.classifiers import PrivateLinearSVC as PrivateLinearSVC
from hush.estimators.linear.classifiers import PrivateLogisticRegression as PrivateLogisticRegression
from hush.estimators.linear.frank_wolfe import FrankWolfe as FrankWolfe
from hush.estimators.linear.functional import FunctionalMechanism as FunctionalMechanism
from hush.estimators.linear.functional import FunctionalRegression as FunctionalRegression
from hush.estimators.linear.noisy_gradients import NoisyGradients as NoisyGradients
from hush.estimators.linear.objective import ObjectivePerturbation as ObjectivePerturbation
from hush.estimators.linear.output import OutputPerturbation as OutputPerturbation
from hush.estimators.linear.regression import PrivateLinearRegression as PrivateLinearRegression
from hush.estimators.linear.regression import PrivateRidge as PrivateRidge
from hush.estimators.local.bayes import LocalNaiveBayes as LocalNaiveBayes
from hush.estimators.local.linear import LocalLinearRegression as LocalLinearRegression
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
from hush.estimators.selection.grid_search import PrivateGridSearch as PrivateGridSearch
from hush.estimators.selection.select_best import PrivateSelectBest as PrivateSelectBest
from hush.estimators.selection.splits import Folds as Folds
from hush.estimators.selection.splits import HeldOut as HeldOut

__all__ = [
    "AnalyzeGauss",
    "BoltOnSGD",
    "ExponentialPCA",
    "Folds",
    "FrankWolfe",
    "FunctionalMechanism",
    "FunctionalRegression",
    "HeldOut",
    "LearnBounds",
    "LocalLinearRegression",
    "LocalNaiveBayes",
    "LocalRandomizer",
    "NoisyGradients",
    "ObjectivePerturbation",
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
    "PrivateRandomForestClassifier",
    "PrivateRegressor",
    "PrivateRidge",
    "PrivateSelectBest",
    "PrivateStandardScaler",
    "PublicOneHotEncoder",
    "Rappor",
    "Wishart",
]
