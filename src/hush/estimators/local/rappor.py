"""RAPPOR: words told as noisy Bloom filters, as often as one likes, and the shares of candidates decoded from them."""

from __future__ import annotations

import hashlib
import math
import re
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from hush.accounting import events
from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count, check_fraction, check_probability
from hush.estimators.base.estimator import Floats, PrivateEstimator, check_budget_and_source
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, bernoulli, source_or_default, uniform_below
from hush.statistics import Estimate

_FIRST = "each person tells what their first row says, for as long as this is not fitted again"


class Rappor(TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    r"""Tell a word as noisy bits of a Bloom filter, again and again, at one price for all times.

    Rows are (person, word); several further columns are one word together. A person's word sets ``num_hashes`` of
    ``num_bits`` bits, places that depend on the word and on the person's random cohort. Each bit is then replaced by a
    fair coin with probability f = ``permanent_noise``, once and for ever: the permanent response, which is remembered.
    What is told is new each time: a bit is 1 with probability ``one_rate`` (q) where the permanent response is 1, with
    ``zero_rate`` (p) where it is 0. Whoever averages over many reports learns the permanent response and no more.

    Choose it for words from an open vocabulary, or where the same question is asked again and again. For one report,
    or a known list of categories, `LocalRandomizer` tells more. Measured with the default parameters, 50,000 people,
    one report each and 30 candidates: shares are off by 1.0 %. A `LocalRandomizer` with 30 categories is off by 0.74 %
    at the epsilon of one report, and by 0.07 % at that of all reports, if spent at once (190 times fewer people).

    What is remembered are permanent responses, by person: it belongs with the data. A copy or a pickle forgets it.
    An analyst, who needs the parameters only, makes one with the same and calls `frequencies`.

    Args:
        permanent_noise: f, in (0, 1).
        zero_rate: p, in [0, 1], not equal to q.
        one_rate: q, in [0, 1].
        num_bits: Of the Bloom filter.
        num_hashes: Bits that a word sets.
        num_cohorts: Groups with other hashes each: words that collide in one do not in another.
        budget: What the first transform after each fit is charged to: a data set of users whose relation is
            replacement.
        source: Of randomness, for tests.

    Attributes:
        epsilon: Of all reports together: 2 h ln((1 - f / 2) / (f / 2)), derived from the parameters.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What all transforms after one fit give away of one person.
        event_: The same for accountants.

    Guarantee:
        epsilon-differential privacy, delta = 0, for all rows of one person, replaced by any others in as many rows, no
        matter how many reports are told: the first row's word is told for ever. That somebody is there, and how often,
        is seen. One report alone, by a person of whom nothing else is told, has ``one_report_epsilon``.

    Assumes:
        Later words of a person are left out (checked here: the first is told again). The memory is kept (the caller's
        duty: fitting again forgets it, and costs again). Persons' names are public or not told (the caller's duty).

    References:
        Erlingsson, Pihur & Korolova 2014: Theorem 1 (all reports), Theorem 2 (one), Section 4 (decoding; here least
        squares over all candidates instead of Lasso, so that estimates are without bias). Of one report
        with h = 2, p = 1/2, q = 3/4 they state epsilon 0.5343: that is f = 3/4; f = 1/2 has 1.0743.

    >>> rappor = Rappor()
    >>> round(rappor.epsilon, 4), round(rappor.one_report_epsilon, 4)
    (4.3944, 1.0743)
    """

    delta = 0.0
    _unit = Unit.user()
    _relation = Relation.REPLACE
    _private_step = "transform"

    def __init__(
        self,
        *,
        permanent_noise: float = 0.5,
        zero_rate: float = 0.5,
        one_rate: float = 0.75,
        num_bits: int = 128,
        num_hashes: int = 2,
        num_cohorts: int = 8,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.permanent_noise = permanent_noise
        self.zero_rate = zero_rate
        self.one_rate = one_rate
        self.num_bits = num_bits
        self.num_hashes = num_hashes
        self.num_cohorts = num_cohorts
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        check_budget_and_source(self.budget, self.source)
        if not check_probability("permanent_noise", self.permanent_noise) < 1:
            raise InvalidArgument(
                "permanent_noise", self.permanent_noise, "a number in (0, 1)", "With 1 nothing is told"
            )
        if check_fraction("zero_rate", self.zero_rate) == check_fraction("one_rate", self.one_rate):
            raise InvalidArgument("one_rate", self.one_rate, "another number than zero_rate", "Else nothing is told")
        if not check_count("num_bits", self.num_bits, minimum=2) <= 1 << 20:
            raise InvalidArgument("num_bits", self.num_bits, "at most 2^20")
        if not 2 * check_count("num_hashes", self.num_hashes) <= self.num_bits:
            raise InvalidArgument("num_hashes", self.num_hashes, "at most half of num_bits")
        check_count("num_cohorts", self.num_cohorts)

    @property
    def epsilon(self) -> float:
        """What all reports together cost, rounded up."""
        half = Fraction(self.permanent_noise) / 2
        return 2 * int(self.num_hashes) * math.log((1 - half) / half) * (1 + 2.0**-45)

    @property
    def one_report_epsilon(self) -> float:
        """What one report alone costs, rounded up: by somebody of whom nothing else is told."""
        one, zero = self._rates()
        low, high = sorted((one, zero))
        if low == 0 or high == 1:
            return self.epsilon
        # At most h bits go from 1 to 0, and as many back.
        odds = math.log(high * (1 - low) / (low * (1 - high))) * (1 + 2.0**-45)
        return min(int(self.num_hashes) * odds, self.epsilon)

    def _rates(self) -> tuple[Fraction, Fraction]:
        """Return with what probability a bit is told as 1 if the word sets it (q*), and if not (p*)."""
        f, p, q = (Fraction(x) for x in (self.permanent_noise, self.zero_rate, self.one_rate))
        return f / 2 * (p + q) + (1 - f) * q, f / 2 * (p + q) + (1 - f) * p

    def __sklearn_tags__(self) -> Any:
        """Say that any value is fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return parameters and public attributes; a copy remembers nobody."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_memory": {}} if "_memory" in state else state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the number of columns, and forget everybody. Nothing is charged."""
        self._check()
        self._table(X, reset=True)
        self._memory: dict[str, tuple[int, NDArray[np.bool_]]] = {}
        self._fitted = self._numbers()
        self.guarantee_, self.event_ = self._claimed(events.ApproximateDPEvent(self.epsilon), (_FIRST,))
        return self

    def transform(self, X: Any) -> Floats:
        """Return what each row tells: the person's cohort, and the bits. The first transform after a fit is charged."""
        check_is_fitted(self)
        rows = self._table(X, reset=False)
        if self._numbers() != self._fitted:
            raise InvalidArgument("parameters", "changed", "those of fit", "Fit again: that costs again")
        if not self._memory:
            self._start(events.ApproximateDPEvent(self.epsilon), _FIRST)
        source = source_or_default(self.source)
        people = [_word(row[:1]) for row in rows.tolist()]
        self._remember(
            {who: _word(row[1:]) for who, row in zip(people[::-1], rows.tolist()[::-1], strict=True)}, source
        )
        cohorts = np.array([self._memory[who][0] for who in people], dtype=np.float64)
        permanent = np.stack([self._memory[who][1] for who in people])
        ones = bernoulli(source, float(self.one_rate), permanent.size).reshape(permanent.shape)
        zeros = bernoulli(source, float(self.zero_rate), permanent.size).reshape(permanent.shape)
        return np.concatenate([cohorts[:, None], np.where(permanent, ones, zeros)], axis=1)

    def frequencies(self, told: Any, candidates: Any, *, confidence: float = 0.95) -> Estimate:
        """Return the share of reports whose word is each candidate, without bias: noise may bring one below 0.

        Bits' shares in each cohort are regressed on the candidates' bits and a constant. Candidates together need not
        be all: other words are, on average over hashes, the constant. The intervals are the normal approximation, for
        all candidates together (Bonferroni), if each person is in ``told`` once.
        """
        self._check()
        words = [one if isinstance(one, (tuple, list)) else (one,) for one in candidates]
        if not words or not check_probability("confidence", confidence) < 1:
            raise InvalidArgument("confidence", confidence, "a number in (0, 1), and one candidate or more")
        reports = check_array(told, dtype=np.float64)
        if reports.shape[1] != self.num_bits + 1:
            raise InvalidArgument("told", reports.shape, f"{self.num_bits + 1} columns", "It is what transform returns")
        cohorts = [reports[reports[:, 0] == cohort, 1:] for cohort in range(self.num_cohorts)]
        if sum(map(len, cohorts)) != len(reports):
            raise InvalidArgument("told", "other cohorts", f"cohorts 0 to {self.num_cohorts - 1} in the first column")
        value, error = self._decode(cohorts, [_word(word) for word in words])
        margin = float(ndtri(1 - (1 - float(confidence)) / (2 * len(words)))) * error
        guarantee, event = self._claimed(events.ApproximateDPEvent(self.epsilon), (_FIRST,))
        return Estimate(
            value=value,
            low=np.clip(value - margin, 0.0, 1.0),
            high=np.clip(value + margin, 0.0, 1.0),
            confidence=float(confidence),
            noise_scale=float(error.max()),
            guarantee=guarantee,
            event=event,
            keys=tuple(candidates),
        )

    def _decode(self, cohorts: list[Floats], words: list[str]) -> tuple[Floats, Floats]:
        """Return the words' shares, and the standard errors."""
        one, zero = (float(rate) for rate in self._rates())
        designs = [
            np.concatenate([self._filters(words, [cohort] * len(words)).T, np.ones((self.num_bits, 1))], axis=1)
            for cohort in range(self.num_cohorts)
        ]
        total = sum(len(reports) for reports in cohorts)
        gram = sum(len(reports) / total * design.T @ design for reports, design in zip(cohorts, designs, strict=True))
        if np.linalg.matrix_rank(gram) < len(gram):
            raise InvalidArgument("candidates", len(words), "words whose bits are independent", "Use more cohorts")
        inverse = np.linalg.inv(gram)
        # Least squares is a mean over reports, of one vector for each: so is what it varies by.
        each = np.concatenate(
            [
                (reports - zero) / (one - zero) @ design @ inverse
                for reports, design in zip(cohorts, designs, strict=True)
            ]
        )[:, :-1]
        return each.mean(axis=0), each.std(axis=0) / math.sqrt(max(total - 1, 1))

    def _remember(self, words: dict[str, str], source: RandomSource) -> None:
        """Draw permanent responses of people who have none."""
        new = [who for who in words if who not in self._memory]
        cohorts = uniform_below(source, int(self.num_cohorts), len(new)).tolist()
        bits = self._filters([words[who] for who in new], cohorts)
        noisy = bernoulli(source, float(self.permanent_noise), bits.size).reshape(bits.shape)
        coins = uniform_below(source, 2, bits.size).reshape(bits.shape) == 1
        permanent = np.where(noisy, coins, bits)
        self._memory.update({who: (cohorts[place], permanent[place]) for place, who in enumerate(new)})

    def _filters(self, words: list[str], cohorts: list[int]) -> NDArray[np.bool_]:
        """Return the Bloom filter of each word in its cohort."""
        bits = np.zeros((len(words), int(self.num_bits)), dtype=np.bool_)
        for place, (word, cohort) in enumerate(zip(words, cohorts, strict=True)):
            for number in range(int(self.num_hashes)):
                digest = hashlib.sha256(f"{cohort},{number},{word}".encode(errors="surrogatepass")).digest()
                bits[place, int.from_bytes(digest[:16], "big") % int(self.num_bits)] = True
        return bits

    def _numbers(self) -> tuple[float, ...]:
        rates = self.permanent_noise, self.zero_rate, self.one_rate
        return *rates, self.num_bits, self.num_hashes, self.num_cohorts

    def _table(self, X: Any, *, reset: bool) -> NDArray[Any]:
        if isinstance(X, (list, tuple)):
            X = np.array(X, dtype=object)  # as text, all cells would be what one of them is
        rows = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_features=1 + reset)
        return np.asarray(rows)


_WHOLE = re.compile(r"[+-]?[0-9]+[.]0*")


def _word(values: Any) -> str:
    """Write values as text; a whole number is the same word, and the same person, whatever type its column has."""
    return "\x1f".join(map(_written, values))


def _written(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text
