"""Turns exact totals into released ones, for everything that computes totals: arrays, SQL, estimators and data.

Nothing here is public: call `hush.statistics` or `hush.sql` instead. In reading order:

- `release`: noise on blocks of integer totals. `plan_noise` calibrates it to a budget (of the kind `NoiseKind`), and
  `plan_gaussian` takes a noise multiplier. Both return a `NoisePlan`, which adds the noise.
- `selection`: chooses the groups to reveal if they are not public. `SelectionPlan` is a `Selection` with its numbers,
  and `plan_threshold` makes one from a noise multiplier.
- `budget_split`: one budget for both. `plan_release` returns a `ReleasePlan`, and `claim` the guarantee of a cost.
- `levels`: contribution limits from noisy counts of units. `choose_limit` returns a `ChosenLimit`, and `highest_level`
  is the search that limits and bounds share.
- `tree`: trees of noisy counts. `tree_block` is their sensitivity, `TreeCells` are exact counts, and `NoisyTrees` adds
  noise where it is looked at. `quantiles`: quantiles of noisy trees with their intervals (`tree_quantiles`).
- `tails`: confidence intervals for sums (`reach`), ratios (`quotients`) and variances (`variance_ends`).
- `estimate`: the result type of `hush.statistics`. `charge`: charges a budget before a result leaves.
"""

from hush.statistics.noise.budget_split import ReleasePlan as ReleasePlan
from hush.statistics.noise.budget_split import claim as claim
from hush.statistics.noise.budget_split import plan_release as plan_release
from hush.statistics.noise.levels import NUM_LEVELS as NUM_LEVELS
from hush.statistics.noise.levels import ChosenLimit as ChosenLimit
from hush.statistics.noise.levels import choose_limit as choose_limit
from hush.statistics.noise.levels import highest_level as highest_level
from hush.statistics.noise.levels import weighted_sum as weighted_sum
from hush.statistics.noise.quantiles import rank_reach as rank_reach
from hush.statistics.noise.quantiles import tree_quantiles as tree_quantiles
from hush.statistics.noise.release import NoiseKind as NoiseKind
from hush.statistics.noise.release import NoisePlan as NoisePlan
from hush.statistics.noise.release import plan_gaussian as plan_gaussian
from hush.statistics.noise.selection import SelectionPlan as SelectionPlan
from hush.statistics.noise.selection import plan_threshold as plan_threshold
from hush.statistics.noise.tails import Tail as Tail
from hush.statistics.noise.tails import quotients as quotients
from hush.statistics.noise.tails import reach as reach
from hush.statistics.noise.tails import variance_ends as variance_ends
from hush.statistics.noise.tree import CountedNodes as CountedNodes
from hush.statistics.noise.tree import EvenTree as EvenTree
from hush.statistics.noise.tree import NoisyTrees as NoisyTrees
from hush.statistics.noise.tree import TreeCells as TreeCells
from hush.statistics.noise.tree import level_scales as level_scales
from hush.statistics.noise.tree import tree_block as tree_block

__all__: list[str] = []  # shared inside hush, not public
