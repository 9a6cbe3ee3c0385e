"""What every attack on a mechanism is: something that learns from some outputs and is judged on others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hush.audit.testers.outputs import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackEvidence:
    """What fresh outputs showed: a point estimate, a bound, and what they follow from."""

    epsilon: float
    epsilon_lower: float
    details: Mapping[str, float | int | str]


class Certifier(Protocol):
    """A hypothesis that was fixed before it sees fresh outputs."""

    @property
    def promise(self) -> float:
        """How much it may show, as far as the outputs tell that it was learned from; certifies nothing."""

    def observe(self, first: Rows, second: Rows) -> None:
        """Take in fresh outputs on the first and on the second input."""

    def conclude(self, error: float) -> AttackEvidence:
        """Return a lower bound that is wrong with at most this probability; both directions are in it."""


class Attack(Protocol):
    """A way to find what tells two inputs apart."""

    @property
    def title(self) -> str:
        """The method, in a few words."""

    @property
    def rule(self) -> str:
        """How the threshold is chosen, in a few words."""

    def learn(self, first: Rows, second: Rows, delta: float, coins: np.random.Generator) -> Certifier:
        """Fix a hypothesis from outputs that are not used again."""
