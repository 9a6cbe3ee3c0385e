"""Private statistics of arrays: user-level by default, with intervals, guarantees and events.

Every function takes ``units``, an id for each row, and bounds what one user contributes; `EachRow` in its place asks
for privacy per row. With ``groups`` there is a result for each group, of public ``keys`` or of those that a private
`Selection` tells.

- Totals: `count`, `distinct_count`, `sum`; `mean`, `variance`, `std`, `describe`, which share one release.
- Order: `quantiles`, `median` (`TreeQuantile`, `ExponentialQuantile`, `SmoothQuantile`).
- Tables: `histogram`, `contingency_table`, `top_k` (a `TopK`).
- Vectors: `vector_mean`, `covariance`.
- Bounds: `approximate_bounds` (`ApproximateBounds`, `bounds_threshold`).
- Noise: `LaplaceNoise`, `GaussianNoise`. Groups: `TruncatedGeometric`, `LaplaceThreshold`, `GaussianThreshold`.
- What is returned: `Estimate`. For totals computed elsewhere: `release_sums`, `plan_noise`, `Block`, `NoisePlan`.
"""

from hush.statistics.columns import EachRow as EachRow
from hush.statistics.log_bounds import ApproximateBounds as ApproximateBounds
from hush.statistics.log_bounds import approximate_bounds as approximate_bounds
from hush.statistics.log_bounds import bounds_threshold as bounds_threshold
from hush.statistics.moments import describe as describe
from hush.statistics.moments import mean as mean
from hush.statistics.moments import std as std
from hush.statistics.moments import variance as variance
from hush.statistics.noise.estimate import Estimate as Estimate
from hush.statistics.noise.release import Block as Block
from hush.statistics.noise.release import GaussianNoise as GaussianNoise
from hush.statistics.noise.release import LaplaceNoise as LaplaceNoise
from hush.statistics.noise.release import NoisePlan as NoisePlan
from hush.statistics.noise.release import plan_noise as plan_noise
from hush.statistics.noise.release import release_sums as release_sums
from hush.statistics.noise.selection import GaussianThreshold as GaussianThreshold
from hush.statistics.noise.selection import LaplaceThreshold as LaplaceThreshold
from hush.statistics.noise.selection import Selection as Selection
from hush.statistics.noise.selection import TruncatedGeometric as TruncatedGeometric
from hush.statistics.order_statistics import ExponentialQuantile as ExponentialQuantile
from hush.statistics.order_statistics import SmoothQuantile as SmoothQuantile
from hush.statistics.order_statistics import TreeQuantile as TreeQuantile
from hush.statistics.order_statistics import median as median
from hush.statistics.order_statistics import quantiles as quantiles
from hush.statistics.tables import TopK as TopK
from hush.statistics.tables import contingency_table as contingency_table
from hush.statistics.tables import histogram as histogram
from hush.statistics.tables import top_k as top_k
from hush.statistics.totals import count as count
from hush.statistics.totals import distinct_count as distinct_count
from hush.statistics.totals import sum as sum
from hush.statistics.vectors import covariance as covariance
from hush.statistics.vectors import vector_mean as vector_mean

__all__ = [
    "ApproximateBounds",
    "Block",
    "EachRow",
    "Estimate",
    "ExponentialQuantile",
    "GaussianNoise",
    "GaussianThreshold",
    "LaplaceNoise",
    "LaplaceThreshold",
    "NoisePlan",
    "Selection",
    "SmoothQuantile",
    "TopK",
    "TreeQuantile",
    "TruncatedGeometric",
    "approximate_bounds",
    "bounds_threshold",
    "contingency_table",
    "count",
    "covariance",
    "describe",
    "distinct_count",
    "histogram",
    "mean",
    "median",
    "plan_noise",
    "quantiles",
    "release_sums",
    "std",
    "sum",
    "top_k",
    "variance",
    "vector_mean",
]
