"""Mechanisms: private answers from data, each with an event, a guarantee and an accuracy.

A mechanism is a frozen dataclass of public numbers. Data are arguments of ``release``, which returns a `Release`: the
value, its `hush.guarantee.Guarantee`, and the mechanism. The guarantee and the accounting event are known before any
data are read. Data never cause an exception: NaN, infinity and unusable records count as fixed values.

>>> from hush.mechanisms import Laplace
>>> release = Laplace(epsilon=0.5, sensitivity=1.0).release(412.0)  # a count, with noise
>>> print(release.guarantee)
epsilon <= 0.5, delta = 0 per example (add-or-remove), by Laplace mechanism

`compose` returns the event of several mechanisms for an accountant.

- Numbers (`additive_noise`, `noise`, `integer_noise`, `vector_mean`): `Laplace`, `Gaussian`, `Staircase`;
  `DiscreteLaplace`, `DiscreteGaussian`; `VectorMeanL1`, `VectorMeanL2`.
- Choices (`selection`): `ExponentialMechanism`, `PermuteAndFlip`, `ReportNoisyMax`, `ReportNoisyMaxWithGap`;
  `OneShotTopK`, `IteratedTopK`.
- Streams of queries (`sparse_vector`): `AboveThreshold`, `NumericSparseVector`. Streams of sums, for which each record
  pays what it costs itself (`individual_sums`): `IndividualSums`.
- The local model (`randomized_response`, `piecewise_mechanism`): `RandomizedResponse`, `UnaryEncoding`; for
  numbers, `Piecewise`.
- Less noise for stable data (`smooth_sensitivity`, `stability`): `SmoothCauchy`, `SmoothLaplace`;
  `ProposeTestRelease` (with `median_distance`), `NoisyLocalSensitivity`, `StableValue`.
- Any function (`subsample`): `SubsampleAggregate`, by the mean, the median or the most common of its results.
- `Sensitivity` of standard queries: counts, histograms, sums, means, variances, quantiles, sums of vectors.
- `Monotone`: the sensitivity of scores that all move in the same direction.

`mechanism` defines the interface, `Mechanism`. To add a mechanism, write a subclass, a row in
``tests/mechanism_tables.py``, which enrols it in the contract tests, and a pair of neighbours and a broken twin in
``tests/black_box``.
"""

from hush.mechanisms.individual_sums import IndividualSums as IndividualSums
from hush.mechanisms.integer_noise import DiscreteGaussian as DiscreteGaussian
from hush.mechanisms.integer_noise import DiscreteLaplace as DiscreteLaplace
from hush.mechanisms.mechanism import Mechanism as Mechanism
from hush.mechanisms.mechanism import Release as Release
from hush.mechanisms.mechanism import SensitivityType as SensitivityType
from hush.mechanisms.mechanism import compose as compose
from hush.mechanisms.noise import Gaussian as Gaussian
from hush.mechanisms.noise import Laplace as Laplace
from hush.mechanisms.noise import Staircase as Staircase
from hush.mechanisms.piecewise_mechanism import Piecewise as Piecewise
from hush.mechanisms.randomized_response import RandomizedResponse as RandomizedResponse
from hush.mechanisms.randomized_response import UnaryEncoding as UnaryEncoding
from hush.mechanisms.selection import ExponentialMechanism as ExponentialMechanism
from hush.mechanisms.selection import IteratedTopK as IteratedTopK
from hush.mechanisms.selection import OneShotTopK as OneShotTopK
from hush.mechanisms.selection import PermuteAndFlip as PermuteAndFlip
from hush.mechanisms.selection import ReportNoisyMax as ReportNoisyMax
from hush.mechanisms.selection import ReportNoisyMaxWithGap as ReportNoisyMaxWithGap
from hush.mechanisms.sensitivity import Monotone as Monotone
from hush.mechanisms.sensitivity import Sensitivity as Sensitivity
from hush.mechanisms.smooth_sensitivity import SmoothCauchy as SmoothCauchy
from hush.mechanisms.smooth_sensitivity import SmoothLaplace as SmoothLaplace
from hush.mechanisms.sparse_vector import AboveThreshold as AboveThreshold
from hush.mechanisms.sparse_vector import NumericSparseVector as NumericSparseVector
from hush.mechanisms.stability import NoisyLocalSensitivity as NoisyLocalSensitivity
from hush.mechanisms.stability import ProposeTestRelease as ProposeTestRelease
from hush.mechanisms.stability import StableValue as StableValue
from hush.mechanisms.stability import median_distance as median_distance
from hush.mechanisms.subsample import SubsampleAggregate as SubsampleAggregate
from hush.mechanisms.vector_mean import VectorMeanL1 as VectorMeanL1
from hush.mechanisms.vector_mean import VectorMeanL2 as VectorMeanL2

__all__ = [
    "AboveThreshold",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "Gaussian",
    "IndividualSums",
    "IteratedTopK",
    "Laplace",
    "Mechanism",
    "Monotone",
    "NoisyLocalSensitivity",
    "NumericSparseVector",
    "OneShotTopK",
    "PermuteAndFlip",
    "Piecewise",
    "ProposeTestRelease",
    "RandomizedResponse",
    "Release",
    "ReportNoisyMax",
    "ReportNoisyMaxWithGap",
    "Sensitivity",
    "SmoothCauchy",
    "SmoothLaplace",
    "StableValue",
    "Staircase",
    "SubsampleAggregate",
    "UnaryEncoding",
    "VectorMeanL1",
    "VectorMeanL2",
    "compose",
    "median_distance",
]
