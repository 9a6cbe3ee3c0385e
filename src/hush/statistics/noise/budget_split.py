"""One budget for noise and group selection, under arrays and SQL alike.

A release of grouped totals has up to two parts: noise on the totals, and, if the groups are not public, the selection
of groups to reveal. `plan_release` splits epsilon and delta between them and returns a `ReleasePlan`:

- epsilon: a third goes to the selection, two thirds to the noise.
- delta: if the noise is Gaussian, half goes to each part; Laplace noise needs no delta, so the selection gets all of
  it.
- public groups: the noise gets everything.

`hush.statistics.request` uses it for arrays, and `hush.sql` for queries; both then call `ReleasePlan.choose_groups`,
`NoisePlan.release` and `ReleasePlan.claim`, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.accounting import ComposedEvent, Event, events
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee, Relation, Unit
from hush.randomness import RandomSource, assumptions_of
from hush.statistics.noise.release import Block, CalibratedPlan, LaplaceNoise, NoiseKind, plan_noise
from hush.statistics.noise.selection import Selection, SelectionPlan, TruncatedGeometric

SELECTION_SHARE = 1 / 3  # of epsilon
ONE_ID = "each person has exactly one id"


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """Noise and group selection that share one budget, fixed before anyone looks at the data.

    >>> plan = plan_release((Block.disjoint(1, whole=True),), groups_per_unit=1, public_groups=False,
    ...                     epsilon=0.75, delta=1e-6)
    >>> plan.noise.epsilon, plan.event.events[1]
    (0.5, ApproximateDPEvent(epsilon=0.25, delta=9.9999e-07))

    Attributes:
        noise: The noise on the totals.
        selection: How groups are selected; None if they are public.
        epsilon: The epsilon of both together.
        delta: The requested delta. The plan may need less: see ``spent_delta``.
    """

    noise: CalibratedPlan
    selection: SelectionPlan | None
    epsilon: float
    delta: float

    @property
    def event(self) -> Event:
        """The event of noise and selection together."""
        return self.noise.event if self.selection is None else ComposedEvent((self.noise.event, self.selection.event))

    @property
    def spent_delta(self) -> float:
        """The delta that the plan needs: 0 for Laplace noise on public groups."""
        # A selection spends all of the delta that the noise leaves.
        return self.noise.delta if self.selection is None else self.delta

    def choose_groups(self, num_units: NDArray[np.int64], source: RandomSource) -> NDArray[np.int64]:
        """Return the indices of the groups to reveal: all if they are public, else a private selection.

        Args:
            num_units: The number of units of each group, after contributions were bounded.
            source: The source of the randomness.
        """
        if self.selection is None:
            return np.arange(len(num_units))
        return np.flatnonzero(self.selection.choose(num_units, source))

    def claim(
        self,
        source: RandomSource,
        *,
        unit: Unit,
        method: str = "bounded contributions",
        assumptions: tuple[str, ...] = (),
    ) -> tuple[Guarantee, Event]:
        """Return the guarantee of the release, and its event for accountants.

        Args:
            source: The source of the randomness; a test source becomes an assumption.
            unit: The privacy unit.
            method: The quantity that the noise is added to, in words.
            assumptions: Further assumptions of the caller.
        """
        described = f"{self.noise.kind} noise on {method}"
        return claim(
            self.event, self.epsilon, self.spent_delta, described, unit=unit, source=source, assumptions=assumptions
        )


def plan_release(
    blocks: tuple[Block, ...],
    *,
    groups_per_unit: int,
    public_groups: bool,
    epsilon: float,
    delta: float = 0.0,
    noise: NoiseKind | None = None,
    selection: Selection | None = None,
    groups_per_block: int | None = None,
) -> ReleasePlan:
    """Split epsilon and delta between noise and group selection.

    Args:
        blocks: The columns of totals that will be released together.
        groups_per_unit: In how many groups one unit can be.
        public_groups: Whether the list of groups is public. If not, groups are selected privately.
        epsilon: The budget of noise and selection together.
        delta: The delta of noise and selection together.
        noise: The kind of noise; None for the kind with the smaller mean squared error.
        selection: How groups are selected; None for `Selection.truncated_geometric`.
        groups_per_block: In how many groups one unit adds what the blocks say. By default ``groups_per_unit``; 1 if the
            blocks bound what a unit adds to all groups together.

    Guarantee:
        Selected groups and their noisy totals together are (epsilon, delta)-differentially private.

    Assumes:
        One unit adds no more to the totals than the blocks say, and is in at most ``groups_per_unit`` groups (the
        caller's duty: bound contributions first).

    References:
        `plan_noise` and `hush.statistics.noise.selection`; basic composition of both.
    """
    # With a limit in total, blocks already cover all groups, so noise must not grow with their number.
    noisy_groups = groups_per_unit if groups_per_block is None else groups_per_block
    if public_groups:
        plan = plan_noise(blocks, groups_per_unit=noisy_groups, epsilon=epsilon, delta=delta, noise=noise)
        return ReleasePlan(plan, None, epsilon, delta)
    check_selection_delta(delta)
    # Basic composition: (epsilon / 3, delta_s) for the selection and (2 epsilon / 3, delta_n) for the noise add up to
    # (epsilon, delta_s + delta_n) (Dwork & Roth 2014, Theorem 3.16).
    selection_epsilon = epsilon * SELECTION_SHARE
    plan = plan_noise(
        blocks,
        groups_per_unit=noisy_groups,
        epsilon=epsilon - selection_epsilon,
        delta=delta / 2,
        noise=noise,
    )
    # The plan above was chosen with delta / 2. If it turned out to be Laplace, it needs none of it.
    selection_delta = delta if isinstance(plan.noise, LaplaceNoise) else delta / 2
    chosen = (selection or TruncatedGeometric()).plan(
        groups_per_unit=groups_per_unit, epsilon=selection_epsilon, delta=selection_delta
    )
    return ReleasePlan(plan, chosen, epsilon, delta)


def check_selection_delta(delta: float) -> None:
    """Refuse delta = 0 if the groups are not public. Call it before you read the groups."""
    if not delta > 0:
        raise InvalidArgument(
            "delta",
            delta,
            "a number in (0, 1)",
            "The group keys are not public, so revealing which groups exist needs delta > 0",
            "Pass delta=, or list the groups in keys=",
        )


def claim(
    event: Event,
    epsilon: float,
    delta: float,
    method: str,
    *,
    unit: Unit,
    source: RandomSource,
    assumptions: tuple[str, ...] = (),
) -> tuple[Guarantee, Event]:
    """Return the guarantee of a release under add-or-remove, and its event; both state what they assume.

    Args:
        event: The cost of the release.
        epsilon: The epsilon of the guarantee.
        delta: The delta of the guarantee.
        method: How the release was made, in words.
        unit: The privacy unit.
        source: The source of the randomness; a test source becomes an assumption.
        assumptions: Further assumptions of the caller.
    """
    # A guarantee per row does not depend on ids.
    stated = (*(() if unit == Unit.example() else (ONE_ID,)), *assumptions, *assumptions_of(source))
    guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=unit, method=method, assumptions=stated)
    return guarantee, events.QualifiedEvent(event, Relation.ADD_OR_REMOVE, unit, stated)
