"""Accounting: what was given away, and what may still be.

- One-liners: `epsilon`, `calibrate_noise`.
- Events, what was run: `Gaussian`, `Laplace`, `DiscreteGaussian`, `DiscreteLaplace`, `ProjectedGaussian`,
  `ExponentialMechanism`, `RandomizedResponse`, `ApproximateDP`, `ZeroConcentratedDP`; `PoissonSampled`,
  `FixedSizeSampled`, `BallsInBins`; `Composed`, `SelfComposed`, `Parallel`, `ParallelByIndex`;
  `RepeatNegativeBinomial`, `RepeatPoisson`; `Group`.
- Accountants, one contract (`Accountant`): `PldAccountant` (default, certified), `RdpAccountant`, `ZcdpAccountant`,
  `GdpAccountant`, `BasicAccountant`, `AdvancedAccountant`.
- Classic theorems: `basic_composition`, `advanced_composition`, `optimal_composition`, `sampling_amplification`,
  `parallel_composition`.
- Parameters chosen on the way: `PureFilter`, `ZcdpFilter`, `RdpFilter`, `filter_for`, `ZcdpOdometer`.
- Calibration: `calibrate_noise`, `calibrate_steps`, `calibrate_sampling_rate`, `calibrate_contributions`,
  `calibrate_count`.
- Curves: `epsilon_curve`, `delta_curve`, `max_true_positive_rate`.
"""

from hush.accounting.accountants.accountant import Accountant as Accountant
from hush.accounting.accountants.classic import AdvancedAccountant as AdvancedAccountant
from hush.accounting.accountants.classic import BasicAccountant as BasicAccountant
from hush.accounting.accountants.classic import advanced_composition as advanced_composition
from hush.accounting.accountants.classic import basic_composition as basic_composition
from hush.accounting.accountants.classic import optimal_composition as optimal_composition
from hush.accounting.accountants.classic import parallel_composition as parallel_composition
from hush.accounting.accountants.classic import sampling_amplification as sampling_amplification
from hush.accounting.accountants.gdp import GdpAccountant as GdpAccountant
from hush.accounting.accountants.pld import PldAccountant as PldAccountant
from hush.accounting.accountants.rdp import RdpAccountant as RdpAccountant
from hush.accounting.accountants.zcdp import ZcdpAccountant as ZcdpAccountant
from hush.accounting.calibrate import calibrate_contributions as calibrate_contributions
from hush.accounting.calibrate import calibrate_count as calibrate_count
from hush.accounting.calibrate import calibrate_noise as calibrate_noise
from hush.accounting.calibrate import calibrate_sampling_rate as calibrate_sampling_rate
from hush.accounting.calibrate import calibrate_steps as calibrate_steps
from hush.accounting.curves import delta_curve as delta_curve
from hush.accounting.curves import epsilon_curve as epsilon_curve
from hush.accounting.curves import max_true_positive_rate as max_true_positive_rate
from hush.accounting.events import ApproximateDP as ApproximateDP
from hush.accounting.events import BallsInBins as BallsInBins
from hush.accounting.events import Composed as Composed
from hush.accounting.events import DiscreteGaussian as DiscreteGaussian
from hush.accounting.events import DiscreteLaplace as DiscreteLaplace
from hush.accounting.events import Event as Event
from hush.accounting.events import ExponentialMechanism as ExponentialMechanism
from hush.accounting.events import FixedSizeSampled as FixedSizeSampled
from hush.accounting.events import Gaussian as Gaussian
from hush.accounting.events import Group as Group
from hush.accounting.events import Laplace as Laplace
from hush.accounting.events import Parallel as Parallel
from hush.accounting.events import ParallelByIndex as ParallelByIndex
from hush.accounting.events import PoissonSampled as PoissonSampled
from hush.accounting.events import ProjectedGaussian as ProjectedGaussian
from hush.accounting.events import RandomizedResponse as RandomizedResponse
from hush.accounting.events import RepeatNegativeBinomial as RepeatNegativeBinomial
from hush.accounting.events import RepeatPoisson as RepeatPoisson
from hush.accounting.events import SelfComposed as SelfComposed
from hush.accounting.events import ZeroConcentratedDP as ZeroConcentratedDP
from hush.accounting.filters import PrivacyFilter as PrivacyFilter
from hush.accounting.filters import PureFilter as PureFilter
from hush.accounting.filters import RdpFilter as RdpFilter
from hush.accounting.filters import ZcdpFilter as ZcdpFilter
from hush.accounting.filters import ZcdpOdometer as ZcdpOdometer
from hush.accounting.filters import filter_for as filter_for
from hush.accounting.shortcuts import epsilon as epsilon

__all__ = [
    "Accountant",
    "AdvancedAccountant",
    "ApproximateDP",
    "BallsInBins",
    "BasicAccountant",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "ExponentialMechanism",
    "FixedSizeSampled",
    "Gaussian",
    "GdpAccountant",
    "Group",
    "Laplace",
    "Parallel",
    "ParallelByIndex",
    "PldAccountant",
    "PoissonSampled",
    "PrivacyFilter",
    "ProjectedGaussian",
    "PureFilter",
    "RandomizedResponse",
    "RdpAccountant",
    "RdpFilter",
    "RepeatNegativeBinomial",
    "RepeatPoisson",
    "SelfComposed",
    "ZcdpAccountant",
    "ZcdpFilter",
    "ZcdpOdometer",
    "ZeroConcentratedDP",
    "advanced_composition",
    "basic_composition",
    "calibrate_contributions",
    "calibrate_count",
    "calibrate_noise",
    "calibrate_sampling_rate",
    "calibrate_steps",
    "delta_curve",
    "epsilon",
    "epsilon_curve",
    "filter_for",
    "max_true_positive_rate",
    "optimal_composition",
    "parallel_composition",
    "sampling_amplification",
]
