"""From exact totals to released ones. For whoever computes totals elsewhere, as `hush.sql` does on database engines.

In reading order:

- `release`: noise on blocks of integer totals. `Block`, `NoisePlan` and `plan_noise` are public in `hush.statistics`;
  here are `NoiseKind`, their type, and `release_sums`, which plans and adds noise in one call.
- `selection`: which groups to reveal if they are not public. `SelectionPlan` is a `Selection` with its numbers.
- `budget_split`: one budget for both. `plan_release` returns a `ReleasePlan`; `check_selection_delta` refuses early.
- `tree`: quantiles from trees of noisy counts. `tree_block` is their sensitivity, `release_tree` adds the noise,
  `NoisyTree` is the result, and `rank_limits` bounds the error of a rank.
- `tails`: confidence intervals for sums (`reach`), ratios (`quotients`) and variances (`variance_ends`).
- `estimate`: the result type of `hush.statistics`. `charged`: charges a budget before a result leaves.
"""

from hush.statistics.noise.budget_split import ReleasePlan as ReleasePlan
from hush.statistics.noise.budget_split import check_selection_delta as check_selection_delta
from hush.statistics.noise.budget_split import plan_release as plan_release
from hush.statistics.noise.release import NoiseKind as NoiseKind
from hush.statistics.noise.release import release_sums as release_sums
from hush.statistics.noise.selection import SelectionPlan as SelectionPlan
from hush.statistics.noise.tails import Tail as Tail
from hush.statistics.noise.tails import quotients as quotients
from hush.statistics.noise.tails import reach as reach
from hush.statistics.noise.tails import variance_ends as variance_ends
from hush.statistics.noise.tree import BRANCHING as BRANCHING
from hush.statistics.noise.tree import HEIGHT as HEIGHT
from hush.statistics.noise.tree import UNITS as UNITS
from hush.statistics.noise.tree import NoisyTree as NoisyTree
from hush.statistics.noise.tree import rank_limits as rank_limits
from hush.statistics.noise.tree import release_tree as release_tree
from hush.statistics.noise.tree import tree_block as tree_block

__all__ = [
    "BRANCHING",
    "HEIGHT",
    "UNITS",
    "NoiseKind",
    "NoisyTree",
    "ReleasePlan",
    "SelectionPlan",
    "Tail",
    "check_selection_delta",
    "plan_release",
    "quotients",
    "rank_limits",
    "reach",
    "release_sums",
    "release_tree",
    "tree_block",
    "variance_ends",
]
