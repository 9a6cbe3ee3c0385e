"""The interface of attacks on a mechanism: learn from some outputs, then test on fresh ones.

`tester.audit_mechanism` calls `Attack.learn` with search outputs, feeds fresh outputs to the `Certifier` that it
returns, and reports the `AttackEvidence` that the certifier concludes with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hush.audit.testers.outputs import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackEvidence:
    """The evidence from fresh outputs.

    Attributes:
        epsilon: The point estimate.
        epsilon_lower: The lower bound.
        details: The event or statistic, and the numbers behind the bound.
    """

    epsilon: float
    epsilon_lower: float
    details: Mapping[str, float | int | str]


class Certifier(Protocol):
    """A hypothesis that is fixed before any fresh output is seen."""

    @property
    def promise(self) -> float:
        """The bound that the search outputs suggest. It only ranks hypotheses; it certifies nothing."""

    def observe(self, first: Rows, second: Rows) -> None:
        """Take in a block of fresh outputs on the first and on the second input."""

    def conclude(self, error: float) -> AttackEvidence:
        """Return a lower bound, over both directions, that fails with probability at most ``error``."""


class Attack(Protocol):
    """Learns to tell two inputs apart from a mechanism's outputs.

    >>> from hush.audit.testers import EventSearch
    >>> attack: Attack = EventSearch()
    >>> attack.title
    'event search'
    """

    @property
    def title(self) -> str:
        """The method in a few words."""

    @property
    def rule(self) -> str:
        """How the threshold is chosen, in a few words."""

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> Certifier:
        """Fix a hypothesis from search outputs, which are not used again.

        Args:
            first: Outputs on the first input, one row per run.
            second: Outputs on the second input.
            delta: The delta at which epsilon will be bounded.
            coins: Randomness for the attack itself, e.g. to break ties.
        """
