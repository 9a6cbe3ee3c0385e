"""Private statistics of arrays: user-level by default, with confidence intervals, guarantees and events.

Every function takes ``units``, the privacy unit of each row, and bounds how much one unit contributes; pass `EachRow`
for privacy per row. With ``groups``, you get a result for each group. The groups are a public list (``keys``), or are
selected privately (a `Selection`).

| what | where |
|---|---|
| totals | `count`, `distinct_count`, `sum` |
| averages | `mean`, `variance`, `std`; `describe` gives all of them from one release |
| order | `quantiles`, `median` by a `MedianMethod` |
| tables | `histogram`, `contingency_table`, `top_k` |
| vectors | `vector_mean`, `covariance` |
| bounds | `approximate_bounds`; `LearnBounds`, on a share of a statistic's epsilon |
| noise | `LaplaceNoise`, `GaussianNoise` |
| groups that are not public | a `Selection` |
| results | `Estimate` |
| tests of hypotheses, with p-values that count the noise | `hush.statistics.hypotheses` |

The ideas of the package:

- **Bound, sum, then add noise.** A statistic clamps and samples what one unit contributes (`bounding`), sums integers
  on a fixed-point grid, and hands exact totals with a stated sensitivity (a `Block`) to the noise layer. `request`
  holds the steps that all statistics share.
- **Noise is added in one place.** `noise.release` is the only code that adds noise to totals, and it knows their event.
  `hush.sql` bounds contributions on a database engine, and releases its totals through the same `plan_release`, limits
  (`ContributionLimits`) and trees. Estimators use `plan_noise`, and `hush.data` uses `plan_gaussian`, with blocks of
  their own.
- **A mean is one release.** Mean and variance release weights that add up to one per row, so that count and sum come
  with them at no extra cost (`moments`).
- **No value raises or warns.** Data are read row by row (`columns`); unusable values count as missing. Only the type
  and the length of a column, which are public, can cause an error.
- **Intervals cover the noise only.** They contain the answer over bounded contributions, not the raw answer.
- **Bounds are learned in one way.** `LogHistogram` counts magnitudes, and the rules `OccupiedBins`, `BinRuns` and
  `ExtremeBins` read bounds from the noisy counts, for arrays, estimators, `hush.data` and `hush.sql` alike. `EvenBins`
  finds closer ones.
"""

from hush.statistics.approximate_bounds import LearnBounds as LearnBounds
from hush.statistics.approximate_bounds import approximate_bounds as approximate_bounds
from hush.statistics.columns import EachRow as EachRow
from hush.statistics.moments import describe as describe
from hush.statistics.moments import mean as mean
from hush.statistics.moments import std as std
from hush.statistics.moments import variance as variance
from hush.statistics.noise.estimate import Estimate as Estimate
from hush.statistics.noise.release import GaussianNoise as GaussianNoise
from hush.statistics.noise.release import LaplaceNoise as LaplaceNoise
from hush.statistics.noise.selection import Selection as Selection
from hush.statistics.order_statistics import MedianMethod as MedianMethod
from hush.statistics.order_statistics import median as median
from hush.statistics.order_statistics import quantiles as quantiles
from hush.statistics.tables import contingency_table as contingency_table
from hush.statistics.tables import histogram as histogram
from hush.statistics.tables import top_k as top_k
from hush.statistics.totals import count as count
from hush.statistics.totals import distinct_count as distinct_count
from hush.statistics.totals import sum as sum
from hush.statistics.vectors import covariance as covariance
from hush.statistics.vectors import vector_mean as vector_mean

# isort: split
# Shared inside hush, not public.
from hush.statistics.approximate_bounds import bins_plan as bins_plan
from hush.statistics.approximate_bounds import learned_bounds as learned_bounds
from hush.statistics.bin_runs import BinRuns as BinRuns
from hush.statistics.bounding import one_row_per_unit as one_row_per_unit
from hush.statistics.columns import codes_of as codes_of
from hush.statistics.even_bins import EvenBins as EvenBins
from hush.statistics.limits import MAX_ROWS_PER_UNIT as MAX_ROWS_PER_UNIT
from hush.statistics.limits import ContributionLimits as ContributionLimits
from hush.statistics.limits import TotalLimits as TotalLimits
from hush.statistics.log_histogram import ExtremeBins as ExtremeBins
from hush.statistics.log_histogram import LogHistogram as LogHistogram
from hush.statistics.log_histogram import OccupiedBins as OccupiedBins
from hush.statistics.noise.release import Block as Block
from hush.statistics.noise.release import CalibratedPlan as CalibratedPlan
from hush.statistics.noise.release import NoisePlan as NoisePlan
from hush.statistics.noise.release import plan_noise as plan_noise
from hush.statistics.noise.selection import TruncatedGeometric as TruncatedGeometric

# isort: split
# The public sub-package, which needs all of the above.
from hush.statistics import hypotheses as hypotheses

__all__ = [
    "EachRow",
    "Estimate",
    "GaussianNoise",
    "LaplaceNoise",
    "LearnBounds",
    "MedianMethod",
    "Selection",
    "approximate_bounds",
    "contingency_table",
    "count",
    "covariance",
    "describe",
    "distinct_count",
    "histogram",
    "mean",
    "median",
    "quantiles",
    "std",
    "sum",
    "top_k",
    "variance",
    "vector_mean",
]
