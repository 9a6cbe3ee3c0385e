from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from estimators.checks import TELLING, unexpected_failures
from estimators.purse import Purse
from hush.accounting import PldAccountant
from hush.audit.testers import Batched, audit_mechanism
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators import LocalRandomizer
from hush.estimators.local import randomizer as local_randomizer_module
from hush.guarantee import Relation, Unit
from hush.ledger import Ledger
from hush.mechanisms import Piecewise, RandomizedResponse, UnaryEncoding
from hush.randomness import TestSource

AUDIT = {"samples": 60_000, "confidence": 1 - 1e-6, "relation": Relation.REPLACE}
MIXED = {"bounds": (0, 10), "categories": {1: ["a", "b", "c"]}}


def test_scikit_learn_checks():
    assert unexpected_failures(LocalRandomizer(epsilon=900.0, bounds=(-10, 10)), **TELLING) == []


def told_by(make):
    """Return a mechanism of one row, many times over."""

    def draw(row, source, count):
        rows = np.tile(np.array([row], dtype=object), (count, 1))
        return np.nan_to_num(make(source).fit(rows).transform(rows), nan=-99.0)

    return Batched(draw)


class WholeEpsilonForEach(LocalRandomizer):
    """A broken twin: the epsilon of a column is counted once for all of them."""

    def fit(self, X, y=None):
        super().fit(X)
        self.channels_ = [RandomizedResponse(epsilon=self.epsilon, num_values=one.num_values) for one in self.channels_]
        return self


class TellsWhatItHas(LocalRandomizer):
    """A broken twin: a column with something unknown is not told."""

    def transform(self, X):
        told = super().transform(X)
        told[np.asarray(X)[:, 0] == "?", 0] = math.nan
        return told


@pytest.mark.parametrize("kind", [LocalRandomizer, WholeEpsilonForEach])
def test_epsilon_is_that_of_all_columns(kind):
    def make(source):
        categories = {place: ["no", "yes"] for place in range(3)}
        return kind(epsilon=1.5, bounds=None, categories=categories, sampled=3, source=source)

    result = audit_mechanism(told_by(make), ["no"] * 3, ["yes"] * 3, source=TestSource(1), **AUDIT)
    assert (result.epsilon_lower > 1.5) is (kind is WholeEpsilonForEach)
    assert result.epsilon_lower > 1.2  # else the audit would not be looking; over 12 seeds 1.37 +- 0.02


@pytest.mark.parametrize(
    ("kind", "other"), [*((LocalRandomizer, other) for other in ("?", math.nan, None, [1])), (TellsWhatItHas, "?")]
)
def test_unknown_values_are_not_seen(kind, other):
    def make(source):
        return kind(epsilon=1.0, bounds=(0, 1), categories={0: ["a", "b"]}, sampled=2, source=source)

    first, second = np.empty(2, dtype=object), np.empty(2, dtype=object)
    first[:] = "a", 0.5
    second[0], second[1] = other, "text"
    result = audit_mechanism(told_by(make), first, second, source=TestSource(1), **AUDIT)
    assert (result.epsilon_lower > 1.0) is (kind is TellsWhatItHas)


class NotClamped(Piecewise):
    """A broken twin: the window goes wherever the value is."""

    def release(self, records, source=None):
        shift = np.asarray(records, dtype=np.float64) - np.clip(np.asarray(records, dtype=np.float64), *self.bounds)
        told = super().release(records, source)
        return type(told)(told.value + shift, told.guarantee, told.mechanism)


@pytest.mark.parametrize("kind", [Piecewise, NotClamped])
def test_numbers_are_clamped(kind, monkeypatch):
    monkeypatch.setattr(local_randomizer_module, "Piecewise", kind)
    result = audit_mechanism(
        told_by(lambda source: LocalRandomizer(epsilon=1.0, bounds=(0, 1), source=source)),
        [0.0],
        [1e6],
        source=TestSource(1),
        **AUDIT,
    )
    assert (result.epsilon_lower > 1.0) is (kind is NotClamped)


@pytest.mark.parametrize("sampled", [1, 2, 3])
def test_each_row_tells_so_many_columns(sampled):
    randomizer = LocalRandomizer(epsilon=1.0, bounds=(0, 1), sampled=sampled, source=TestSource(1))
    told = ~np.isnan(randomizer.fit_transform(np.full((30_000, 3), math.nan)))
    assert (told.sum(axis=1) == sampled).all()
    # False alarms: P(|Binomial(30000, 1/3) - 10000| > 600) = 2e-13.
    assert told.mean(axis=0) == pytest.approx(np.full(3, sampled / 3), abs=0.02)
    assert sum(one.epsilon for one in randomizer.channels_[:sampled]) <= 1.0
    assert PldAccountant(relation=Relation.REPLACE).compose(randomizer.event_).epsilon(0.0) <= 1.0 + 1e-9


def test_how_columns_are_told():
    rows = np.array([[5.0, "a", 7]] * 10, dtype=object)
    randomizer = LocalRandomizer(epsilon=5.0, bounds=(0, 10), categories={1: ["a", "b", "c"], 2: range(900)}).fit(rows)
    assert [type(one) for one in randomizer.channels_] == [Piecewise, RandomizedResponse, UnaryEncoding]
    assert randomizer.sampled_ == 2
    assert {one.epsilon for one in randomizer.channels_} == {math.nextafter(2.5, 0)}
    assert randomizer.transform(rows).shape == (10, 902)
    assert randomizer.get_feature_names_out().tolist()[:4] == ["x0", "x1", "x2_0", "x2_1"]


def test_each_transform_is_charged():
    rows, purse = np.zeros((5, 2)), Purse(2)
    randomizer = LocalRandomizer(epsilon=0.5, bounds=(0, 1), budget=purse).fit(rows)
    assert purse.charged == []
    randomizer.transform(rows)
    randomizer.transform(rows)
    assert [charge.purpose for charge in purse.charged] == ["transform LocalRandomizer"] * 2
    assert {charge.event for charge in purse.charged} == {randomizer.event_}
    with pytest.raises(BudgetExceeded):
        randomizer.transform(rows)
    assert clone(randomizer).budget is purse


def test_a_ledger_of_replacements_takes_it(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/privacy.db")
    answers = ledger.dataset("answers", epsilon=1.2, delta=0.0, unit="row", relation=Relation.REPLACE)
    randomizer = LocalRandomizer(epsilon=0.5, bounds=(0, 1), budget=answers).fit([[0.0]])
    randomizer.transform([[0.3]])
    randomizer.transform([[0.3]])
    with pytest.raises(BudgetExceeded):
        randomizer.transform([[0.3]])


def test_the_guarantee_is_that_of_fit():
    randomizer = LocalRandomizer(epsilon=3.0, bounds=(0, 1)).fit([[0.0]])
    assert (randomizer.guarantee_.relation, randomizer.guarantee_.unit) == (Relation.REPLACE, Unit.example())
    randomizer.set_params(epsilon=0.1).transform([[0.5]])
    assert randomizer.guarantee_.epsilon == randomizer.channels_[0].epsilon == 3.0
    assert any("transformed once" in text for text in randomizer.guarantee_.assumptions)
    assert pickle.loads(pickle.dumps(randomizer)).guarantee_ == randomizer.guarantee_


def test_fit_learns_nothing():
    one, other = (LocalRandomizer(epsilon=1.0, **MIXED).fit(rows) for rows in ([[1, "a"]], [[1e9, "z"], [None, "c"]]))
    assert one.channels_ == other.channels_
    assert (one.categories_, one.event_) == (other.categories_, other.event_)


def test_estimates_are_unbiased_within_their_intervals():
    rng, source = np.random.default_rng(0), TestSource(5)
    shares, errors, held = np.array([0.6, 0.3, 0.1]), [], []
    for _ in range(200):
        rows = np.empty((300, 2), dtype=object)
        rows[:, 0], rows[:, 1] = rng.uniform(2, 6, 300), rng.choice(["a", "b", "c"], 300, p=shares)
        randomizer = LocalRandomizer(epsilon=4.0, sampled=2, source=source, **MIXED)
        told = randomizer.fit_transform(rows)
        found, mean = randomizer.frequencies(told, 1, confidence=0.5), randomizer.means(told, confidence=0.5)
        errors.append([*(found.value - shares), mean.value[0] - 4.0])
        held.append([*((found.low <= shares) & (shares <= found.high)), mean.low[0] <= 4.0 <= mean.high[0]])
        assert found.keys == ("a", "b", "c")
        assert math.isnan(mean.value[1])
    scores = np.mean(errors, axis=0) / (np.std(errors, axis=0) / math.sqrt(len(errors)))
    # False alarms: four means, each beyond 6 of Student's with 199 degrees of freedom by 1e-8; four counts of intervals
    # that hold, P(|Binomial(200, 0.5) - 100| > 42) = 1e-9. Those of twice the width hold 164 times.
    assert np.abs(scores).max() < 6
    assert np.abs(np.sum(held, axis=0) - 100).max() <= 42


def test_shares_told_as_bits():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 40, (20_000, 1)) // 20 * 7
    randomizer = LocalRandomizer(epsilon=1.0, bounds=None, categories={0: range(40)}, source=TestSource(1)).fit(rows)
    assert isinstance(randomizer.channels_[0], UnaryEncoding)
    found = randomizer.frequencies(randomizer.transform(rows), 0, confidence=1 - 1e-8)
    # False alarms: 1e-8, and of 38 normal ones beyond 6.5 standard deviations 3e-9.
    assert found[7].low < 0.5 < found[7].high
    assert np.abs(np.delete(found.value, [0, 7])).max() < 6.5 * found.noise_scale


def test_second_moments():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 40_000)
    rows = np.stack([x, 10 - x / 2], axis=1)
    randomizer = LocalRandomizer(epsilon=6.0, bounds=(0, 10), sampled=2, source=TestSource(1))
    moments = randomizer.second_moments(randomizer.fit_transform(rows))
    # Over 24 seeds +- 0.14 at most: 6.6 standard deviations.
    assert moments == pytest.approx(rows.T @ rows / len(rows), abs=0.9)
    told = randomizer.transform(rows)
    assert abs(np.mean(told[:, 0] ** 2) - np.mean(x**2)) > 3  # what is taken away is not small


def test_missing_values_as_a_category():
    rows = np.array([["a"]] * 3000 + [[None]] * 1000 + [["?"]] * 1000, dtype=object)
    for known, expected in (["a", "b"], [0.8, 0.2]), (["a", "b", None], [0.6, 0.0, 0.4]):
        randomizer = LocalRandomizer(epsilon=3.0, bounds=None, categories={0: known}, source=TestSource(1))
        found = randomizer.frequencies(randomizer.fit_transform(rows), 0)
        # Standard errors are 0.005: 7.5 of them.
        assert found.value == pytest.approx(expected, abs=0.04)


def test_nothing_told_of_a_column():
    randomizer = LocalRandomizer(epsilon=1.0, **MIXED).fit([[1, "a"]])
    told = np.array([[math.nan, math.nan]])
    found = randomizer.frequencies(told, 1)
    assert np.isnan(found.value).all()
    assert (found.low.tolist(), found.high.tolist()) == ([0] * 3, [1] * 3)
    assert np.isnan(randomizer.means(told).value).all()
    assert np.isnan(randomizer.second_moments(told)).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"bounds": (1, 0)},
        {"bounds": None, "categories": None},
        {"categories": {0: ["a"]}},
        {"categories": {0: ["a", "a"]}},
        {"categories": {0: "ab"}},
        {"categories": {-1: ["a", "b"]}},
        {"categories": [["a", "b"]]},
        {"sampled": 0},
    ],
)
def test_wrong_parameters(wrong):
    with pytest.raises(InvalidArgument):
        LocalRandomizer(**{"epsilon": 1.0, **MIXED, **wrong})


@pytest.mark.parametrize(
    "wrong", [{"sampled": 3}, {"categories": {2: ["a", "b"]}}, {"bounds": None}, {"bounds": ([0, 0], [1, 1])}]
)
def test_parameters_that_do_not_fit_the_table(wrong):
    with pytest.raises(InvalidArgument):
        LocalRandomizer(**{"epsilon": 1.0, **MIXED, **wrong}).fit([[1, "a"]])


def test_wrong_questions():
    randomizer = LocalRandomizer(epsilon=1.0, **MIXED).fit([[1, "a"]])
    told = np.zeros((3, 2))
    for column in (0, 2, -1, "x"):
        with pytest.raises(InvalidArgument, match="column"):
            randomizer.frequencies(told, column)
    with pytest.raises(InvalidArgument, match="told"):
        randomizer.means(np.zeros((3, 3)))
    with pytest.raises(InvalidArgument, match="confidence"):
        randomizer.means(told, confidence=1.0)
