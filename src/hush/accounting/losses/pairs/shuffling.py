"""The dominating pair of shuffled reports."""

from __future__ import annotations

import math

from hush.accounting import events as ev
from hush.accounting.losses.noise_profiles import RandomizedResponseProfile
from hush.accounting.losses.pairs.change import Change, Direction
from hush.accounting.losses.pairs.shuffled_profile import MAX_LOCAL_EPSILON, ShuffledProfile
from hush.accounting.losses.pairs.single import leaf_pair
from hush.accounting.losses.pairs.unfolding import alternatives
from hush.accounting.losses.profile import DominatingPair
from hush.errors import Unsupported


@leaf_pair.register
def _(event: ev.ShuffledEvent, change: Change) -> DominatingPair:
    if change.direction is not Direction.REPLACE or not change.claimed or change.size > 1:
        raise Unsupported(
            f"shuffled under {change.describe()}: its amplification is proven for one replaced record",
            "Use Relation.REPLACE, under which every person reports, and Guarantee.for_group on the result",
        )
    local_epsilon = _local_epsilon(event.event, change)
    others = event.num_reports - 1
    if local_epsilon > MAX_LOCAL_EPSILON or others == 0:
        # A random order is a function of the reports with their senders, which costs nothing.
        return DominatingPair.symmetric(RandomizedResponseProfile(local_epsilon))
    return DominatingPair.symmetric(ShuffledProfile(local_epsilon, others, _clone_rate(event.event, local_epsilon)))


def _local_epsilon(event: ev.Event, change: Change) -> float:
    """Return the epsilon of a local mechanism with delta 0, or refuse it."""
    pairs = [list(option.items()) for option in alternatives(event, change)]
    sides = [side for option in pairs for pair, _ in option for side in (pair.forward, pair.backward)]
    if any(side.failure > 0 or side.max_loss == math.inf for side in sides):
        raise Unsupported(
            f"shuffled {event.kind}: shuffling is proven to amplify mechanisms with delta 0",
            "Let each person use a pure mechanism, such as RandomizedResponse, or Laplace noise",
        )
    losses = [
        math.fsum(count * max(pair.forward.max_loss, pair.backward.max_loss) for pair, count in option)
        for option in pairs
    ]
    return max(losses, default=0.0) * (1 + 1e-15)


def _clone_rate(event: ev.Event, local_epsilon: float) -> float:
    """Return the probability with which another report is a clone, rounded down."""
    if isinstance(event, ev.RandomizedResponseEvent):
        return 2 * math.exp(-local_epsilon) / (1 + math.exp(-local_epsilon)) * (1 - 1e-15)
    return math.exp(-local_epsilon) * (1 - 1e-15)
