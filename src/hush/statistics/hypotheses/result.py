"""The result of a hypothesis test: a p-value, an estimate with its interval, and what the release cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hush.accounting import Event
from hush.accounting.receipts import Receipt
from hush.guarantee import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisResult:
    """A private test of a hypothesis, with a p-value that accounts for the noise.

    >>> from hush.randomness import TestSource
    >>> from hush.statistics import EachRow
    >>> from hush.statistics.hypotheses import goodness_of_fit
    >>> die = [1, 2, 3, 4, 5, 6, 6, 6, 6] * 40
    >>> fair = dict.fromkeys(range(1, 7), 1 / 6)
    >>> print(goodness_of_fit(die, fair, units=EachRow(), epsilon=1.0, source=TestSource(1)))
    p = 0.0001: evidence against the hypothesis that the shares are as stated. Noise and chance are both counted.

    Attributes:
        hypothesis: The null hypothesis, in words.
        p_value: The probability, if the hypothesis is true, of noise and data as far from it as these, or further. 1 if
            the noise hides the data.
        statistic: The statistic; larger is further from the hypothesis.
        estimate: The size of the effect, such as a difference of means; None for tests without one.
        low: The lower end of its confidence interval, which counts noise and chance; None for tests that have none.
        high: The upper end.
        confidence: The confidence of the interval.
        is_hidden: Whether the noise hides the data, so that nothing can be said. It is also true if no row could be
            used, such as with keys that the column does not have.
        totals: The noisy totals that everything here was computed from, in rows.
        noise_scale: The scale of the noise on each of them: the Laplace scale or the Gaussian standard deviation.
        guarantee: The guarantee of the release.
        event: The same for accountants.
        receipt: The cost of the release and the rest of the budget; None without a ledger.
    """

    hypothesis: str
    p_value: float
    statistic: float
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float
    is_hidden: bool
    totals: Any
    noise_scale: float
    guarantee: Guarantee
    event: Event
    receipt: Receipt | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return the result in words."""
        if self.is_hidden:
            return (
                f"p = 1: nothing is known about the hypothesis that {self.hypothesis}. The noise hides the data, "
                "or few rows could be used: check that keys have the spelling and the type of the column's values."
            )
        # Words for the reader's eye. What counts is the level that was fixed before.
        verdict = "evidence" if self.p_value <= 0.05 else "no evidence"
        text = f"p = {self.p_value:.3g}: {verdict} against the hypothesis that {self.hypothesis}."
        if self.low is not None:
            interval = f"{100 * self.confidence:.10g} % interval {self.low:.4g} to {self.high:.4g}"
            text += f" The estimate is {self.estimate:.4g} ({interval})."
        elif self.estimate is not None:
            text += f" The estimate is {self.estimate:.4g}."
        return f"{text} Noise and chance are both counted."
