"""The exact distribution of a local mechanism's reports: every draw is enumerated, and probabilities are fractions."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.randomness import TestSource

EPSILON = 1.25
TINY = Fraction(1, 10**40)
Law = dict[Any, Fraction]


def exact_exp(x: float) -> Fraction:
    with localcontext() as context:
        context.prec = 60
        return Fraction(Decimal(x).exp())


class Coins:
    """Replaces a module's draws: all coins show the same side, and uniform draws go through all of their values."""

    def __init__(self, monkeypatch: Any, module: Any) -> None:
        self.side = True
        self.probability = Fraction(0)
        monkeypatch.setattr(module, "flip", self._flip)
        monkeypatch.setattr(module, "uniform_below", lambda source, bound, size: np.arange(size) % bound)

    def _flip(self, source: Any, approximate: Any, enclosure: Any) -> Any:
        low, high = enclosure(0, 60)
        assert high - low < TINY
        self.probability = (low + high) / 2
        assert approximate == pytest.approx(np.full(len(approximate), float(self.probability)), rel=1e-13)
        return np.full(len(approximate), self.side)

    def law(self, mechanism: Any, record: float, draws: tuple[int, int]) -> Law:
        """Return the exact distribution of a report.

        Args:
            mechanism: The mechanism.
            record: The true value.
            draws: The number of equally likely outcomes for either side of the coin.
        """
        law: Law = Counter()  # type: ignore[assignment]
        for self.side, count in ((True, draws[0]), (False, draws[1])):
            reports = mechanism.release([record] * count, TestSource(1)).value.tolist()
            weight = self.probability if self.side else 1 - self.probability
            for report in reports:
                law[report] += weight / count
        return law


def check_ratios(laws: list[Law], epsilon: float) -> None:
    """Check that all inputs have the same outputs, with ratios of at most e^epsilon, and that one ratio reaches it."""
    assert all(set(law) == set(laws[0]) for law in laws)
    limit = exact_exp(epsilon)
    worst = max(first[report] / second[report] for first in laws for second in laws for report in first)
    assert abs(worst - limit) < TINY * 10**6
    assert all(abs(sum(law.values()) - 1) < TINY for law in laws)
