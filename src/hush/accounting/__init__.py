"""Accounting: how much privacy a computation costs, and how much of a budget is left.

>>> from hush import accounting
>>> round(accounting.epsilon(noise_multiplier=1.1, sampling_rate=0.004, num_steps=3500, delta=1e-5), 2)
1.05
>>> round(accounting.calibrate_noise(epsilon=3.0, delta=1e-5, sampling_rate=0.004, num_steps=3500), 2)
0.71

**One idea: a mechanism is its privacy profile.** The profile delta(epsilon) of a pair of distributions, forwards and
backwards, determines everything that an attacker can achieve. ``losses.profile`` defines it. ``losses.noise_profiles``
and ``losses.sampled_profiles`` give it for each mechanism as a sum of positive terms, so its *relative* error is known.
``losses.pairs`` turns events into dominating pairs for each way in which neighbours can differ. It refuses any event
without a proven pair and names it in the error. From there:

- ``accountants.pld`` (the default). ``losses.lattice`` puts a pair on a grid, once from above (chords of a convex
  curve) and once from below (chords lowered by their largest overshoot, then the convex hull). ``losses.saddle_point``
  and ``losses.grid`` choose the grid for an accuracy. ``losses.composition`` composes in the frequency domain *under an
  exponential tilt* and carries a bound on every rounding error to the end. The tilt makes rounding relative to delta
  (T * 1e-16) instead of absolute (T * 1e-16 / delta), which is what puts untilted FFT accountants below the truth.
- ``accountants.rdp``. Renyi divergences come from the same profiles through one integral (``losses.renyi``), so no
  mechanism needs a second formula that might disagree with the first.
- ``accountants.zcdp``, ``accountants.gdp``, ``accountants.classic_theorems``: closed forms.
- ``filters``: budgets under adaptive choices. ``budget``: integer costs and caps, for ledgers. ``calibration``: finds
  the parameter that meets a target under any of these, rounded to the safe side.

To add a mechanism, write an event in ``events``, a profile, and a rule in ``losses/pairs``. Every accountant that
can analyse it then supports it.

The contents:

- One-liners: `epsilon`, `calibrate_noise`.
- Events, which describe a computation: `GaussianEvent`, `LaplaceEvent`, `ApproximateDPEvent`,
  `ZeroConcentratedDPEvent`; `PoissonSampledEvent`, `FixedSizeSampledEvent`, `BallsInBinsEvent`,
  `AllocatedEvent`; `ShuffledEvent`;
  `ComposedEvent`, `SelfComposedEvent`, `ParallelEvent`, `ParallelByIndexEvent`; `GroupEvent`. Mechanisms have an
  ``event`` of their own.
- Accountants, with one contract (`Accountant`): `PldAccountant` (default, certified), `RdpAccountant`,
  `ZcdpAccountant`, `GdpAccountant`, `BasicAccountant`, `AdvancedAccountant`. The classic theorems as functions are in
  `hush.lab.composition`.
- Filters and odometers, for parameters chosen adaptively: `PureFilter`, `ZcdpFilter`, `RdpFilter`, `RdpOdometer`.
- Calibration: `calibrate_noise`, `calibrate_steps`, `calibrate_sampling_rate`, `calibrate_count`,
  `calibrate_release_epsilon`.
- Budgets for ledgers: `hush.accounting.budget`; `Box` declares the releases that one pays for in advance.
"""

from hush.accounting import budget as budget
from hush.accounting import events as events
from hush.accounting.accountants.accountant import Accountant as Accountant
from hush.accounting.accountants.classic_theorems import AdvancedAccountant as AdvancedAccountant
from hush.accounting.accountants.classic_theorems import BasicAccountant as BasicAccountant
from hush.accounting.accountants.gdp import GdpAccountant as GdpAccountant
from hush.accounting.accountants.pld import PldAccountant as PldAccountant
from hush.accounting.accountants.rdp import RdpAccountant as RdpAccountant
from hush.accounting.accountants.rdp import renyi_to_epsilon as renyi_to_epsilon
from hush.accounting.accountants.zcdp import ZcdpAccountant as ZcdpAccountant
from hush.accounting.box import Box
from hush.accounting.calibration import calibrate_count as calibrate_count
from hush.accounting.calibration import calibrate_noise as calibrate_noise
from hush.accounting.calibration import calibrate_release_epsilon as calibrate_release_epsilon
from hush.accounting.calibration import calibrate_sampling_rate as calibrate_sampling_rate
from hush.accounting.calibration import calibrate_steps as calibrate_steps
from hush.accounting.events import AllocatedEvent as AllocatedEvent
from hush.accounting.events import ApproximateDPEvent as ApproximateDPEvent
from hush.accounting.events import BallsInBinsEvent as BallsInBinsEvent
from hush.accounting.events import ComposedEvent as ComposedEvent
from hush.accounting.events import Event as Event
from hush.accounting.events import FixedSizeSampledEvent as FixedSizeSampledEvent
from hush.accounting.events import GaussianEvent as GaussianEvent
from hush.accounting.events import GroupEvent as GroupEvent
from hush.accounting.events import LaplaceEvent as LaplaceEvent
from hush.accounting.events import ParallelByIndexEvent as ParallelByIndexEvent
from hush.accounting.events import ParallelEvent as ParallelEvent
from hush.accounting.events import PoissonSampledEvent as PoissonSampledEvent
from hush.accounting.events import SelfComposedEvent as SelfComposedEvent
from hush.accounting.events import ShuffledEvent as ShuffledEvent
from hush.accounting.events import ZeroConcentratedDPEvent as ZeroConcentratedDPEvent
from hush.accounting.filters import PrivacyFilter as PrivacyFilter
from hush.accounting.filters import PureFilter as PureFilter
from hush.accounting.filters import RdpFilter as RdpFilter
from hush.accounting.filters import RdpOdometer as RdpOdometer
from hush.accounting.filters import ZcdpFilter as ZcdpFilter
from hush.accounting.shortcuts import epsilon as epsilon

# isort: split
# Shared inside hush, not public.
from hush.accounting.accountants.cdp import CdpAccountant as CdpAccountant
from hush.accounting.accountants.chosen_claims import choose_claims as choose_claims
from hush.accounting.accountants.classic_theorems import advanced_epsilon as advanced_epsilon
from hush.accounting.accountants.classic_theorems import amplified_epsilon as amplified_epsilon
from hush.accounting.accountants.selection import SelectionAccountant as SelectionAccountant
from hush.accounting.calibration import gaussian_multiplier as gaussian_multiplier
from hush.accounting.calibration import selection_epsilon as selection_epsilon
from hush.accounting.events import DiscreteGaussianEvent as DiscreteGaussianEvent
from hush.accounting.events import ProjectedGaussianEvent as ProjectedGaussianEvent
from hush.accounting.events import RepeatNegativeBinomialEvent as RepeatNegativeBinomialEvent
from hush.accounting.events import RepeatPoissonEvent as RepeatPoissonEvent
from hush.accounting.losses.noise_profiles import gaussian_delta as gaussian_delta

__all__ = [
    "Accountant",
    "AdvancedAccountant",
    "AllocatedEvent",
    "ApproximateDPEvent",
    "BallsInBinsEvent",
    "BasicAccountant",
    "Box",
    "ComposedEvent",
    "Event",
    "FixedSizeSampledEvent",
    "GaussianEvent",
    "GdpAccountant",
    "GroupEvent",
    "LaplaceEvent",
    "ParallelByIndexEvent",
    "ParallelEvent",
    "PldAccountant",
    "PoissonSampledEvent",
    "PureFilter",
    "RdpAccountant",
    "RdpFilter",
    "RdpOdometer",
    "SelfComposedEvent",
    "ShuffledEvent",
    "ZcdpAccountant",
    "ZcdpFilter",
    "ZeroConcentratedDPEvent",
    "calibrate_count",
    "calibrate_noise",
    "calibrate_release_epsilon",
    "calibrate_sampling_rate",
    "calibrate_steps",
    "epsilon",
]
