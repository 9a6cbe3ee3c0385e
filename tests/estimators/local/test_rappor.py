"""RAPPOR: exact ratios of any number of reports, the memory, decoding, and twins."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone

import hush.estimators as he
from black_box.certainty import audit
from estimators.checks import TELLING, unexpected_failures
from estimators.purse import Purse
from hush.accounting import PldAccountant
from hush.audit.testers import Batched
from hush.errors import BudgetExceeded, InvalidArgument, Unsupported
from hush.estimators import Rappor
from hush.estimators.local import rappor
from hush.guarantee import Relation, Unit
from hush.randomness import TestSource

SMALL = {"permanent_noise": 0.75, "num_bits": 2, "num_hashes": 1, "num_cohorts": 1}


def table(people, words):
    rows = np.empty((len(people), 2), dtype=object)
    rows[:, 0], rows[:, 1] = people, words
    return rows


def two_words(model):
    """Return two words whose bits all differ, by a search over public hashes."""
    words = [f"word {number}" for number in range(50)]
    filters = model._filters(words, [0] * len(words))
    opposite = next(index for index, bits in enumerate(filters) if (bits != filters[0]).all())
    return words[0], words[opposite]


def test_scikit_learn_checks():
    # It has no epsilon to raise. Fixed key: no chance.
    assert unexpected_failures(Rappor(), **TELLING) == []


@pytest.mark.parametrize(
    ("noise", "one_report", "for_ever"),
    [(0.5, 1.0743, 4 * math.log(3)), (0.75, 0.5343, 4 * math.log(5 / 3))],
)
def test_the_epsilons_of_the_paper(noise, one_report, for_ever):
    """Erlingsson, Pihur & Korolova 2014, Theorems 1 and 2: two hashes, p = 1/2, q = 3/4; 0.5343 is in their text."""
    model = Rappor(permanent_noise=noise)
    assert model.one_report_epsilon == pytest.approx(one_report, abs=5e-5)
    assert model.epsilon == pytest.approx(for_ever)
    assert Rappor(permanent_noise=noise, zero_rate=0.0, one_rate=1.0).one_report_epsilon == pytest.approx(for_ever)


class Draws:
    """Replaces the module's coins: each kind falls as set, and its probability is recorded."""

    def __init__(self, monkeypatch):
        self.sides, self.asked = {}, []
        monkeypatch.setattr(rappor, "bernoulli", self._bernoulli)
        monkeypatch.setattr(rappor, "uniform_below", self._uniform)

    def _bernoulli(self, source, probability, size):
        kind = ("noisy", "one", "zero")[len(self.asked)]
        self.asked.append(Fraction(probability))
        return np.full(size, self.sides[kind])

    def _uniform(self, source, bound, size):
        return np.full(size, self.sides["coin"] if bound == 2 else 0)


def channel(monkeypatch, settings):
    """Return P(permanent bit = 1 | bit of the word) and P(reported bit = 1 | permanent bit), as the code draws them."""
    model = Rappor(**SMALL | settings)
    word, _ = two_words(model)
    word_bits = model._filters([word], [0])[0].tolist()
    permanent_draws, report_draws = {}, {}
    with monkeypatch.context() as patched:
        draws = Draws(patched)
        for noisy, coin, if_one, if_zero in product((0, 1), repeat=4):
            draws.sides, draws.asked = {"noisy": noisy, "coin": coin, "one": if_one, "zero": if_zero}, []
            reported_bits = model.fit(table([1], [word])).transform(table([1], [word]))[0, 1:].astype(int).tolist()
            (_, permanent_bits), f, q, p = model._memory["1"], *draws.asked
            weight = (f if noisy else 1 - f) / 2
            for bit, permanent, reported in zip(word_bits, permanent_bits.tolist(), reported_bits, strict=True):
                permanent_draws.setdefault((bit, noisy, coin), (permanent, weight))
                side = if_one if permanent else if_zero
                chance = (q if if_one else 1 - q) if permanent else (p if if_zero else 1 - p)
                report_draws.setdefault((permanent, side), (reported, chance))
    return (
        {bit: sum(w for (b, *_), (set_, w) in permanent_draws.items() if b == bit and set_) for bit in (True, False)},
        {bit: sum(c for (b, _), (set_, c) in report_draws.items() if b == bit and set_) for bit in (True, False)},
    )


@pytest.mark.parametrize(
    "settings", [{}, {"zero_rate": 0.9, "one_rate": 0.2}, {"permanent_noise": 0.5, "one_rate": 1.0}]
)
def test_ratios_of_every_number_of_reports(monkeypatch, settings):
    """The reports of a bit are exchangeable, so their number of ones suffices. Two words differ in at most two bits."""
    permanent, reported = channel(monkeypatch, settings)
    model = Rappor(**SMALL | settings)
    f, p, q = (Fraction(x) for x in (model.permanent_noise, model.zero_rate, model.one_rate))
    assert permanent == {True: 1 - f / 2, False: f / 2}
    assert reported == {True: q, False: p}

    def law(bit, ones, reports):
        return sum(
            chance * reported[k] ** ones * (1 - reported[k]) ** (reports - ones)
            for k, chance in ((True, permanent[bit]), (False, 1 - permanent[bit]))
        )

    worst = {}
    for reports in (1, 2, 5, 60):
        pairs = [(law(True, ones, reports), law(False, ones, reports)) for ones in range(reports + 1)]
        ratios = [a / b for a, b in pairs if b] + [1]
        inverse = [b / a for a, b in pairs if a] + [1]
        # One bit turns from 1 to 0 and another from 0 to 1.
        worst[reports] = math.log(max(ratios)) + math.log(max(inverse))
    assert worst[1] == pytest.approx(model.one_report_epsilon)
    assert all(loss <= model.epsilon for loss in worst.values())
    assert worst[60] == pytest.approx(model.epsilon, rel=1e-3)


class NoPermanentStep(Rappor):
    """A broken twin: only the reports are noisy, and there is no permanent response."""

    def _remember(self, words, source):
        cohorts = [0] * len(words)
        bits = self._filters(list(words.values()), cohorts)
        self._memory = {who: (0, bits[index]) for index, who in enumerate(words)}


class Forgets(Rappor):
    """A broken twin: a new permanent response for each report."""

    def transform(self, X):
        once = X.copy()
        once[:, 0] = np.arange(len(X))
        return super().transform(once)


@pytest.mark.parametrize("kind", [Rappor, NoPermanentStep, pytest.param(Forgets, marks=pytest.mark.slow)])
def test_many_reports_cost_no_more(kind):
    reports, settings = 6, SMALL | {"zero_rate": 0.1, "one_rate": 0.9}

    def draw(word, source, count):
        rows = table(np.repeat(np.arange(count), reports), [word] * (count * reports))
        bits = kind(**settings, source=source).fit(rows).transform(rows)[:, 1:]
        return bits.reshape(count, reports, 2).sum(axis=1)

    model = kind(**settings)
    words = two_words(model)
    result = audit(Batched(draw), *words, samples=7_000, source=TestSource(1), relation=Relation.REPLACE)
    assert (result.epsilon_lower > model.epsilon) is (kind is not Rappor)
    assert result.epsilon_lower > 0.4 * model.epsilon


def test_the_first_word_is_reported_forever():
    model = Rappor(zero_rate=0.0, one_rate=1.0, source=TestSource(1)).fit(table([1], ["a"]))
    first = model.transform(table([1, 1, 2], ["a", "b", "c"]))
    assert first[0].tolist() == first[1].tolist() != first[2].tolist()
    again = model.transform(np.array([[1.0, 5.0], [2.0, math.nan]]))  # the same people, as floats
    assert again.tolist() == first[1:].tolist()


def test_a_memory_is_paid_once():
    rows, purse = table([1, 2], ["a", "b"]), Purse(3)
    model = Rappor(budget=purse).fit(rows)
    assert purse.charged == []
    for _ in range(5):
        model.transform(rows)
    assert len(purse.charged) == 1
    copied = copy.copy(model)  # it forgets all people
    assert copied._memory == {}
    with pytest.raises(Unsupported, match="budget"):
        copied.transform(rows)
    copied.set_params(budget=purse).transform(rows)
    model.fit(rows).transform(rows)
    assert len(purse.charged) == 3
    with pytest.raises(BudgetExceeded):
        clone(model).fit(rows).transform(rows)
    accountant = PldAccountant(relation=Relation.REPLACE, unit=Unit.user())
    assert accountant.compose(purse.charged[0].event).epsilon(0.0) == pytest.approx(model.epsilon)
    assert (model.guarantee_.unit, model.guarantee_.relation) == (Unit.user(), Relation.REPLACE)


def test_a_pickle_holds_nobody():
    rows = table(["somebody"], ["a secret"])
    model = Rappor().fit(rows)
    model.transform(rows)
    assert b"somebody" not in pickle.dumps(model)
    assert len(model._memory) == 1


def test_changed_parameters_need_another_fit():
    model = Rappor().fit(table([1], ["a"])).set_params(permanent_noise=0.9)
    with pytest.raises(InvalidArgument, match="parameters"):
        model.transform(table([1], ["a"]))


def test_any_row_is_reported():
    rows = table([None, math.nan, (1, 2), [3], "\udcff"], [None, math.nan, [1], {"a": 1}, "\udcff"])
    assert Rappor().fit(rows).transform(rows).shape == (5, 129)


def test_shares_of_candidates_are_unbiased_within_their_intervals():
    rng, source = np.random.default_rng(0), TestSource(3)
    words, shares = ["a", "b", "c", "d"], np.array([0.5, 0.3, 0.2, 0.0])
    settings = {"num_bits": 16, "num_cohorts": 4, "permanent_noise": 0.25}
    errors, held = [], []
    for _ in range(40):
        rows = table(np.arange(2000), rng.choice(words, 2000, p=shares))
        told_reports = Rappor(**settings, source=source).fit(rows).transform(rows)
        estimate = Rappor(**settings).frequencies(told_reports, words, confidence=0.9)
        errors.append(estimate.value - shares)
        held.append((estimate.low <= shares).all() and (shares <= estimate.high).all())
    scores = np.mean(errors, axis=0) / (np.std(errors, axis=0) / math.sqrt(len(errors)))
    # False alarms: four means, each beyond 7.5 of Student's with 39 degrees of freedom by 5e-9; four deviations, each
    # 75 % off by 2e-10; P(Binomial(40, 0.9) < 24) = 9e-8.
    assert np.abs(scores).max() < 7.5
    assert np.std(errors, axis=0) == pytest.approx(np.full(4, estimate.noise_scale), rel=0.75)
    assert np.sum(held) >= 24


def test_words_that_are_not_candidates():
    rng = np.random.default_rng(0)
    rows = table(
        np.arange(20_000), np.where(rng.random(20_000) < 0.4, "known", rng.integers(0, 500, 20_000).astype(str))
    )
    model = Rappor(num_cohorts=16, permanent_noise=0.25, source=TestSource(1))
    # False alarms: 1e-8 for each of the intervals, and the two intervals are 8 standard deviations apart.
    estimate = model.frequencies(model.fit_transform(rows), ["known", "unheard of"], confidence=1 - 1e-8)
    assert estimate["known"].low < 0.4 < estimate["known"].high
    assert estimate["unheard of"].low == 0.0
    assert estimate["known"].low > estimate["unheard of"].high


def test_candidates_that_cannot_be_told_apart():
    reports = Rappor(**SMALL).fit_transform(table([1, 2, 3], ["a", "b", "c"]))
    with pytest.raises(InvalidArgument, match="candidates"):
        Rappor(**SMALL).frequencies(reports, ["a", "b", "c", "d"])
    with pytest.raises(InvalidArgument, match="reports"):
        Rappor().frequencies(reports, ["a"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"permanent_noise": 0.0},
        {"permanent_noise": 1.0},
        {"permanent_noise": math.nan},
        {"zero_rate": 0.75},
        {"one_rate": 1.1},
        {"num_bits": 1},
        {"num_hashes": 65},
        {"num_cohorts": 0},
    ],
)
def test_wrong_parameters(wrong):
    with pytest.raises(InvalidArgument):
        Rappor(**wrong)


def test_a_person_is_the_same_whatever_type_the_column_has():
    rappor = he.Rappor(permanent_noise=0.5, source=TestSource(1)).fit([[1.0, "a"]])
    for rows in (
        [[1.0, "a"]],
        np.array([[1.0, "b"]], dtype=object),
        np.array([["1.0", "c"]]),
        [["1", "d"]],
        [[1, "e"]],
    ):
        rappor.transform(rows)
    assert len(rappor._memory) == 1


def test_a_wrong_budget_is_refused():
    with pytest.raises(InvalidArgument, match="budget"):
        he.Rappor(budget=3.0)
