"""RAPPOR: reports words as noisy Bloom filters, any number of times, and decodes the shares of candidate words.

word       sets a few bits of a Bloom filter, by hashes of the person's cohort
permanent  each bit randomised once and remembered (`Rappor._remember`)
report     each permanent bit randomised again, fresh every time (`Rappor.transform`)
shares     least squares of the bit shares on the candidates' Bloom filters (`Rappor.frequencies`)
"""

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

_FIRST_WORD = "each person reports the word of their first row, until the next fit"


class Rappor(TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Report a word as noisy bits of a Bloom filter, any number of times, at a single cost for all reports.

    Rows are (person, word); several further columns form one word together. The word sets ``num_hashes`` of
    ``num_bits`` bits, which depend on the word and on the person's random cohort. Each bit is then replaced by a fair
    coin with probability f = ``permanent_noise``, once and for all. This permanent response is remembered. Every report
    is drawn afresh: a bit is 1 with probability q = ``one_rate`` where the permanent response is 1, and p =
    ``zero_rate`` where it is 0. Averaging many reports reveals the permanent response and nothing more.

    Choose it for words from an open vocabulary, or where the same question is asked again and again. For a single
    report, or a known list of categories, `LocalRandomizer` is more accurate. Measured with the default parameters,
    50,000 people, one report each and 30 candidates: shares are off by 1.0 %. A `LocalRandomizer` with 30 categories is
    off by 0.74 % at the epsilon of one report, and by 0.07 % at that of all reports, spent at once (190 times fewer
    people).

    The estimator remembers permanent responses by person, so it belongs with the data. Copies and pickles forget them.
    An analyst, who needs the parameters only, creates one with the same parameters and calls `frequencies`.

    Args:
        permanent_noise: f, in (0, 1).
        zero_rate: p, in [0, 1], different from q.
        one_rate: q, in [0, 1].
        num_bits: Size of the Bloom filter.
        num_hashes: Number of bits that a word sets.
        num_cohorts: Number of cohorts, each with its own hashes: words that collide in one do not collide in another.
        budget: The first transform after each fit is charged to it. It must be a budget of users whose relation is
            replacement. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        epsilon: Epsilon of all reports together: 2 h ln((1 - f / 2) / (f / 2)), with h = ``num_hashes``.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of one person, for all transforms after a fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        epsilon-differential privacy, delta = 0, when all rows of one person are replaced by any others in as many rows,
        for any number of reports: the word of the first row is reported forever. That a person is there, and how often,
        is visible. A single report of a person without any other has ``one_report_epsilon``.

    Assumes:
        Later words of a person are ignored (checked here: the first is reported again). The memory is kept (the
        caller's duty: fitting again clears it and costs again). Names of persons are public or not published (the
        caller's duty).

    References:
        Erlingsson, Pihur & Korolova 2014: Theorem 1 (all reports), Theorem 2 (one report), Section 4 (decoding).
        Variant: least squares over all candidates instead of the Lasso, so that estimates are unbiased. For one report
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
                "permanent_noise", self.permanent_noise, "a number in (0, 1)", "With 1, reports carry no information"
            )
        if check_fraction("zero_rate", self.zero_rate) == check_fraction("one_rate", self.one_rate):
            raise InvalidArgument(
                "one_rate", self.one_rate, "a number different from zero_rate", "Otherwise reports carry no information"
            )
        if not check_count("num_bits", self.num_bits, minimum=2) <= 1 << 20:
            raise InvalidArgument("num_bits", self.num_bits, "at most 2^20")
        if not 2 * check_count("num_hashes", self.num_hashes) <= self.num_bits:
            raise InvalidArgument("num_hashes", self.num_hashes, "at most half of num_bits")
        check_count("num_cohorts", self.num_cohorts)

    @property
    def epsilon(self) -> float:
        """Epsilon of all reports together, rounded up."""
        # Two words differ in at most 2 h bits of the filter, and each permanent bit is wrong with probability f / 2
        # (Erlingsson et al. 2014, Theorem 1). The last factor rounds up.
        flip_rate = Fraction(self.permanent_noise) / 2
        return 2 * int(self.num_hashes) * math.log((1 - flip_rate) / flip_rate) * (1 + 2.0**-45)

    @property
    def one_report_epsilon(self) -> float:
        """Epsilon of a single report by a person without any other, rounded up."""
        one_rate, zero_rate = self._rates()
        low, high = sorted((one_rate, zero_rate))
        if low == 0 or high == 1:
            return self.epsilon
        # Two words differ in at most h bits that turn from 1 to 0, and h that turn from 0 to 1.
        odds = math.log(high * (1 - low) / (low * (1 - high))) * (1 + 2.0**-45)
        return min(int(self.num_hashes) * odds, self.epsilon)

    def _rates(self) -> tuple[Fraction, Fraction]:
        """Return the probability of reporting a 1 where the word sets the bit (q*), and where it does not (p*)."""
        # A set bit stays with probability 1 - f, and is a fair coin with probability f.
        f, p, q = (Fraction(x) for x in (self.permanent_noise, self.zero_rate, self.one_rate))
        return f / 2 * (p + q) + (1 - f) * q, f / 2 * (p + q) + (1 - f) * p

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that any value is allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters and public attributes. A copy remembers no one."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_memory": {}} if "_memory" in state else state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the number of columns and clear the memory. Nothing is charged."""
        self._check()
        self._table(X, reset=True)
        self._memory: dict[str, tuple[int, NDArray[np.bool_]]] = {}
        self._fitted_design = self._design()
        self.guarantee_, self.event_ = self._guarantee_and_event(
            events.ApproximateDPEvent(self.epsilon), (_FIRST_WORD,)
        )
        return self

    def transform(self, X: Any) -> Floats:
        """Return the reports: each person's cohort and bits. The first call after a fit is charged."""
        check_is_fitted(self)
        rows = self._table(X, reset=False)
        if self._design() != self._fitted_design:
            raise InvalidArgument("parameters", "changed", "those of the fit", "Fit again, which is charged again")
        if not self._memory:
            self._charge(events.ApproximateDPEvent(self.epsilon), _FIRST_WORD)
        source = source_or_default(self.source)
        people = [_word(row[:1]) for row in rows.tolist()]
        self._remember(
            {person: _word(row[1:]) for person, row in zip(people[::-1], rows.tolist()[::-1], strict=True)}, source
        )
        cohorts = np.array([self._memory[person][0] for person in people], dtype=np.float64)
        permanent = np.stack([self._memory[person][1] for person in people])
        ones = bernoulli(source, float(self.one_rate), permanent.size).reshape(permanent.shape)
        zeros = bernoulli(source, float(self.zero_rate), permanent.size).reshape(permanent.shape)
        return np.concatenate([cohorts[:, None], np.where(permanent, ones, zeros)], axis=1)

    def frequencies(self, reports: Any, candidates: Any, *, confidence: float = 0.95) -> Estimate:
        """Return an unbiased estimate of the share of reports whose word is each candidate. Noise may bring it below 0.

        Shares of the bits in each cohort are regressed on the candidates' bits and a constant. The candidates need not
        be complete: averaged over hashes, all other words add up to the constant. The intervals are the normal
        approximation for all candidates together (Bonferroni), if each person reported once.

        Args:
            reports: Reports, as ``transform`` returns them.
            candidates: Words whose shares to estimate.
            confidence: Coverage of all intervals together, in (0, 1).
        """
        self._check()
        words = [word if isinstance(word, (tuple, list)) else (word,) for word in candidates]
        if not words or not check_probability("confidence", confidence) < 1:
            raise InvalidArgument("confidence", confidence, "a number in (0, 1), and at least one candidate")
        reports = check_array(reports, dtype=np.float64)
        if reports.shape[1] != self.num_bits + 1:
            raise InvalidArgument("reports", reports.shape, f"{self.num_bits + 1} columns, as transform returns")
        cohorts = [reports[reports[:, 0] == cohort, 1:] for cohort in range(self.num_cohorts)]
        if sum(map(len, cohorts)) != len(reports):
            raise InvalidArgument(
                "reports", "unknown cohorts", f"cohorts 0 to {self.num_cohorts - 1} in the first column"
            )
        value, error = self._decode(cohorts, [_word(word) for word in words])
        # Bonferroni: each interval may fail with the share of one candidate.
        margin = float(ndtri(1 - (1 - float(confidence)) / (2 * len(words)))) * error
        guarantee, event = self._guarantee_and_event(events.ApproximateDPEvent(self.epsilon), (_FIRST_WORD,))
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
        """Return the share of each word and its standard error."""
        one_rate, zero_rate = (float(rate) for rate in self._rates())
        designs = [
            np.concatenate([self._filters(words, [cohort] * len(words)).T, np.ones((self.num_bits, 1))], axis=1)
            for cohort in range(self.num_cohorts)
        ]
        total = sum(len(reports) for reports in cohorts)
        # E of a de-biased bit in cohort c is design_c @ shares. Weighted by the sizes of the cohorts: normal equations.
        gram = sum(len(reports) / total * design.T @ design for reports, design in zip(cohorts, designs, strict=True))
        if np.linalg.matrix_rank(gram) < len(gram):
            raise InvalidArgument("candidates", len(words), "words with linearly independent bits", "Use more cohorts")
        inverse = np.linalg.inv(gram)
        # The least-squares solution is a mean over reports of one vector each, whose spread gives the standard error.
        contributions = np.concatenate(
            [
                (reports - zero_rate) / (one_rate - zero_rate) @ design @ inverse
                for reports, design in zip(cohorts, designs, strict=True)
            ]
        )[:, :-1]
        return contributions.mean(axis=0), contributions.std(axis=0) / math.sqrt(max(total - 1, 1))

    def _remember(self, words: dict[str, str], source: RandomSource) -> None:
        """Draw and remember the permanent responses of people who have none yet."""
        newcomers = [person for person in words if person not in self._memory]
        cohorts = uniform_below(source, int(self.num_cohorts), len(newcomers)).tolist()
        bits = self._filters([words[person] for person in newcomers], cohorts)
        noisy = bernoulli(source, float(self.permanent_noise), bits.size).reshape(bits.shape)
        coins = uniform_below(source, 2, bits.size).reshape(bits.shape) == 1
        permanent = np.where(noisy, coins, bits)
        self._memory.update({person: (cohorts[index], permanent[index]) for index, person in enumerate(newcomers)})

    def _filters(self, words: list[str], cohorts: list[int]) -> NDArray[np.bool_]:
        """Return the Bloom filter of each word in its cohort."""
        bits = np.zeros((len(words), int(self.num_bits)), dtype=np.bool_)
        for index, (word, cohort) in enumerate(zip(words, cohorts, strict=True)):
            for number in range(int(self.num_hashes)):
                digest = hashlib.sha256(f"{cohort},{number},{word}".encode(errors="surrogatepass")).digest()
                bits[index, int.from_bytes(digest[:16], "big") % int(self.num_bits)] = True
        return bits

    def _design(self) -> tuple[float, ...]:
        """Return the parameters on which reports depend."""
        rates = self.permanent_noise, self.zero_rate, self.one_rate
        return *rates, self.num_bits, self.num_hashes, self.num_cohorts

    def _table(self, X: Any, *, reset: bool) -> NDArray[Any]:
        if isinstance(X, (list, tuple)):
            X = np.array(X, dtype=object)  # otherwise one text cell would turn all cells into text
        rows = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_features=1 + reset)
        return np.asarray(rows)


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+[.]0*")


def _word(values: Any) -> str:
    """Return values as one text. A whole number is the same word and person, whatever the type of its column."""
    return "\x1f".join(map(_text, values))


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text.split(".")[0] if _WHOLE_NUMBER.fullmatch(text) else text
