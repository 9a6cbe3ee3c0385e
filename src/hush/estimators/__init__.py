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

from hush.estimators._bounds import LearnBounds as LearnBounds
from hush.estimators._covariance import PrivateCovariance as PrivateCovariance
from hush.estimators._density import PrivateHistogramDensity as PrivateHistogramDensity
from hush.estimators._discriminant import PrivateLDA as PrivateLDA
from hush.estimators._encoder import PublicOneHotEncoder as PublicOneHotEncoder
from hush.estimators._erm_bolt_on import BoltOnSGD as BoltOnSGD
from hush.estimators._erm_frank_wolfe import FrankWolfe as FrankWolfe
from hush.estimators._erm_gradients import NoisyGradients as NoisyGradients
from hush.estimators._erm_objective import ObjectivePerturbation as ObjectivePerturbation
from hush.estimators._erm_output import OutputPerturbation as OutputPerturbation
from hush.estimators._functional import FunctionalMechanism as FunctionalMechanism
from hush.estimators._functional import FunctionalRegression as FunctionalRegression
from hush.estimators._grid_search import PrivateGridSearch as PrivateGridSearch
from hush.estimators._kmeans import PrivateKMeans as PrivateKMeans
from hush.estimators._linear import PrivateLinearRegression as PrivateLinearRegression
from hush.estimators._linear import PrivateRidge as PrivateRidge
from hush.estimators._linear_classifiers import PrivateLinearSVC as PrivateLinearSVC
from hush.estimators._linear_classifiers import PrivateLogisticRegression as PrivateLogisticRegression
from hush.estimators._local_bayes import LocalNaiveBayes as LocalNaiveBayes
from hush.estimators._local_linear import LocalLinearRegression as LocalLinearRegression
from hush.estimators._local_randomizer import LocalRandomizer as LocalRandomizer
from hush.estimators._local_rappor import Rappor as Rappor
from hush.estimators._naive_bayes import PrivateGaussianNB as PrivateGaussianNB
from hush.estimators._networks import PrivateClassifier as PrivateClassifier
from hush.estimators._networks import PrivateRegressor as PrivateRegressor
from hush.estimators._pca import PrivatePCA as PrivatePCA
from hush.estimators._scalers import PrivateMinMaxScaler as PrivateMinMaxScaler
from hush.estimators._scalers import PrivateStandardScaler as PrivateStandardScaler
from hush.estimators._second_moments import AnalyzeGauss as AnalyzeGauss
from hush.estimators._second_moments import ExponentialPCA as ExponentialPCA
from hush.estimators._second_moments import Wishart as Wishart
from hush.estimators._select_best import PrivateSelectBest as PrivateSelectBest
from hush.estimators._splits import Folds as Folds
from hush.estimators._splits import HeldOut as HeldOut
from hush.estimators._trees import PrivateDecisionTreeClassifier as PrivateDecisionTreeClassifier
from hush.estimators._trees import PrivateRandomForestClassifier as PrivateRandomForestClassifier
from hush.estimators.pate import PATEClassifier as PATEClassifier

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
