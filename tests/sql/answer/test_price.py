"""Arguments that set the price of an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hush.accounting import ApproximateDPEvent, PldAccountant
from hush.errors import InvalidArgument
from hush.sql.answer.choices.limits import Measure
from hush.sql.answer.price import PriceRequest
from hush.statistics import GaussianNoise, LaplaceNoise

REQUEST = PriceRequest(1.0, 1e-6, None, None, None, None, 0.95)


def test_a_share_pays_for_the_limits_and_the_rest_for_the_answer() -> None:
    limits, rest = REQUEST.split((Measure.ROWS,), {}, 0.25)
    assert PldAccountant().compose(limits.event).epsilon(0.0) == pytest.approx(0.25)
    assert rest == replace(REQUEST, epsilon=0.75)
    assert rest.bound() == ApproximateDPEvent(0.75, 1e-6)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_the_share_is_a_part(share: float) -> None:
    with pytest.raises(InvalidArgument, match="limits_share"):
        REQUEST.split((Measure.ROWS,), {}, share)


def test_gaussian_noise_takes_a_delta() -> None:
    assert REQUEST.allows_gaussian()
    assert replace(REQUEST, noise=GaussianNoise()).allows_gaussian()
    assert not replace(REQUEST, noise=LaplaceNoise()).allows_gaussian()
    assert not replace(REQUEST, delta=0.0).allows_gaussian()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": None}, "^epsilon=None: .* accuracy= and expected="),
        ({"epsilon": -1.0}, "^epsilon="),
        ({"delta": 1.0}, "^delta="),
        ({"confidence": 1.0}, "^confidence="),
        ({"accuracy": 0.05}, "^accuracy=0.05: .* not both"),
        ({"expected": 100.0}, "^expected=100: expected None without accuracy="),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(changes: dict[str, float | None], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        replace(REQUEST, **changes).check(allow_expected=False)


def test_a_price_without_accuracy_may_have_an_expected_size() -> None:
    replace(REQUEST, expected=100.0).check(allow_expected=True)
    with pytest.raises(InvalidArgument, match="expected"):
        replace(REQUEST, expected=-1.0).check(allow_expected=True)


def test_limits_are_not_chosen_for_an_accuracy() -> None:
    with pytest.raises(InvalidArgument, match="depends on the limits"):
        replace(REQUEST, epsilon=None, accuracy=0.05, expected=100.0).split((Measure.ROWS,), {}, 0.1)
