"""Accounting: what was given away, and what may still be.

- One-liners: `epsilon`, `calibrate_noise`.
- Events, what was run: `GaussianEvent`, `LaplaceEvent`, `DiscreteGaussianEvent`, `DiscreteLaplaceEvent`, `ProjectedGaussianEvent`,
  `ExponentialMechanismEvent`, `RandomizedResponseEvent`, `ApproximateDPEvent`, `ZeroConcentratedDPEvent`; `PoissonSampledEvent`,
  `FixedSizeSampledEvent`, `BallsInBinsEvent`; `ComposedEvent`, `SelfComposedEvent`, `ParallelEvent`, `ParallelByIndexEvent`;
  `RepeatNegativeBinomialEvent`, `RepeatPoissonEvent`; `GroupEvent`.
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
from hush.accounting.events import ApproximateDPEvent as ApproximateDPEvent
from hush.accounting.events import BallsInBinsEvent as BallsInBinsEvent
from hush.accounting.events import ComposedEvent as ComposedEvent
from hush.accounting.events import DiscreteGaussianEvent as DiscreteGaussianEvent
from hush.accounting.events import DiscreteLaplaceEvent as DiscreteLaplaceEvent
from hush.accounting.events import Event as Event
from hush.accounting.events import ExponentialMechanismEvent as ExponentialMechanismEvent
from hush.accounting.events import FixedSizeSampledEvent as FixedSizeSampledEvent
from hush.accounting.events import GaussianEvent as GaussianEvent
from hush.accounting.events import GroupEvent as GroupEvent
from hush.accounting.events import LaplaceEvent as LaplaceEvent
from hush.accounting.events import ParallelByIndexEvent as ParallelByIndexEvent
from hush.accounting.events import ParallelEvent as ParallelEvent
from hush.accounting.events import PoissonSampledEvent as PoissonSampledEvent
from hush.accounting.events import ProjectedGaussianEvent as ProjectedGaussianEvent
from hush.accounting.events import RandomizedResponseEvent as RandomizedResponseEvent
from hush.accounting.events import RepeatNegativeBinomialEvent as RepeatNegativeBinomialEvent
from hush.accounting.events import RepeatPoissonEvent as RepeatPoissonEvent
from hush.accounting.events import SelfComposedEvent as SelfComposedEvent
from hush.accounting.events import ZeroConcentratedDPEvent as ZeroConcentratedDPEvent
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
    "ApproximateDPEvent",
    "BallsInBinsEvent",
    "BasicAccountant",
    "ComposedEvent",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "ExponentialMechanismEvent",
    "FixedSizeSampledEvent",
    "GaussianEvent",
    "GdpAccountant",
    "GroupEvent",
    "LaplaceEvent",
    "ParallelByIndexEvent",
    "ParallelEvent",
    "PldAccountant",
    "PoissonSampledEvent",
    "PrivacyFilter",
    "ProjectedGaussianEvent",
    "PureFilter",
    "RandomizedResponseEvent",
    "RdpAccountant",
    "RdpFilter",
    "RepeatNegativeBinomialEvent",
    "RepeatPoissonEvent",
    "SelfComposedEvent",
    "ZcdpAccountant",
    "ZcdpFilter",
    "ZcdpOdometer",
    "ZeroConcentratedDPEvent",
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
