"""The rest of a budget as one number: how many standard queries still fit.

A standard query is a Gaussian query (a Laplace query if delta is 0), sized so that the whole budget pays for exactly
100. So an unspent budget has 100 left, and each further standard query takes one. Epsilon cannot be used this way:
because of composition, the first small query raises it a lot, and later ones only a little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from hush.accounting import ApproximateDPEvent, Event, GaussianEvent
from hush.accounting.budget import Cap, Cost

WHOLE = 100


@dataclass(frozen=True, slots=True)
class StandardQuery:
    """The query size of which a budget pays for 100.

    >>> from hush.guarantee import Unit
    >>> cap = Cap(epsilon=3, delta=1e-6, unit=Unit.user())
    >>> query = standard_query(cap)
    >>> query.words, query.left(Cost()), query.left(cap.cost(query.event) + cap.cost(query.event))
    ('Gaussian noise of ... times the sensitivity', 100, 98)

    Attributes:
        cap: The budget's cap.
        event: The query.
        words: Its noise, in words.
    """

    cap: Cap
    event: Event
    words: str

    def left(self, spent: Cost) -> int:
        """Return how many of them fit, if this much is spent."""
        cost, number = self.cap.cost(self.event), 0
        for more in (64, 32, 16, 8, 4, 2, 1):
            if number + more <= WHOLE and self.cap.fits(spent + cost.times(number + more)):
                number += more
        return number


@lru_cache(maxsize=1024)
def standard_query(cap: Cap) -> StandardQuery:
    """Return the standard query of a cap."""
    noise = cap.least_noise(Cost())
    if noise < math.inf:
        noise *= math.sqrt(WHOLE)
        return StandardQuery(cap, GaussianEvent(noise), f"Gaussian noise of {noise:.4g} times the sensitivity")
    epsilon = cap.epsilon / WHOLE
    rounded_down = epsilon * (1 - 1e-9)  # a cost is rounded up, and 100 have to fit
    return StandardQuery(cap, ApproximateDPEvent(rounded_down), f"Laplace noise for epsilon {epsilon:.4g}")
