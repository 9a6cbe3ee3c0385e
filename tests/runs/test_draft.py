"""Defaults: hyper-parameters that follow from public numbers alone."""

from __future__ import annotations

from typing import Any

import pytest

from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.runs import Settings
from hush.runs.draft import Undeclared, choose_model, completed, default_delta, draft_plan, physical_batch_size
from hush.training import Full, Poisson


def complete(num_units: int = 1000, model: str = "softmax", **settings: Any) -> Settings:
    return completed(
        Settings(**{"data": "t.csv", "epsilon": 3.0, **settings}),
        model=model,
        num_units=num_units,
        num_all_units=num_units + num_units // 9,
        rows_are_units=settings.get("unit") is None,
        learns=False,
        device="cpu",
    )


@pytest.mark.parametrize(
    ("num_units", "batch_size", "num_steps"), [(100, 100, 40), (1000, 256, 157), (60_000, 15_000, 160)]
)
def test_a_quarter_of_the_units_for_forty_epochs(num_units: int, batch_size: int, num_steps: int) -> None:
    settings = complete(num_units)
    assert (settings.batch_size, settings.num_steps, settings.epochs) == (batch_size, num_steps, None)


def test_what_is_given_stays() -> None:
    settings = complete(batch_size=50, num_steps=7, learning_rate=0.3, delta=1e-7, unit="who", rows_per_unit=3)
    assert (settings.batch_size, settings.num_steps, settings.learning_rate) == (50, 7, 0.3)
    assert (settings.delta, settings.rows_per_unit) == (1e-7, 3)
    assert complete(epochs=2.0).num_steps == 8


def test_what_has_no_use_is_off() -> None:
    settings = complete(rows_per_unit=8, learn_share=0.2)
    assert (settings.rows_per_unit, settings.learn_share) == (1, 0.0)


def test_a_batch_cannot_be_larger_than_the_data() -> None:
    with pytest.raises(InvalidArgument, match="batch_size=1001: expected at most the number of units"):
        complete(batch_size=1001)


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [
        (None, None, "softmax"),
        (None, (1, 28, 28), "scattering"),
        (None, (1, 7, 28), "softmax"),
        ("mlp", (1, 28, 28), "mlp"),
        ("my.module:make", None, "my.module:make"),
    ],
)
def test_the_default_model_depends_on_the_shape(
    model: str | None, shape: tuple[int, ...] | None, expected: str
) -> None:
    assert choose_model(Settings(data="t", epsilon=1.0, model=model), shape) == expected


@pytest.mark.parametrize(("shape", "message"), [(None, "not images"), ((1, 7, 28), "8 by 8 pixels")])
@pytest.mark.parametrize("model", ["cnn", "scattering"])
def test_images_have_to_be_large_enough(model: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        choose_model(Settings(data="t", epsilon=1.0, model=model), shape)


def test_the_weights_travel_a_fixed_distance() -> None:
    few, many = complete(num_steps=10), complete(num_steps=40)
    assert few.learning_rate is not None
    assert many.learning_rate is not None
    assert few.learning_rate * 10 == pytest.approx(many.learning_rate * 40)
    assert few.learning_rate * 10 == pytest.approx(0.8 * 3000**0.6)
    clipped = complete(num_steps=10, clip_norm=0.5).learning_rate
    assert clipped == pytest.approx(2 * few.learning_rate)  # gradients are half as long
    assert complete(num_steps=10, model="own:model").learning_rate == pytest.approx(few.learning_rate / 2)


def test_delta_counts_those_held_out() -> None:
    assert complete(99_000).delta == pytest.approx(1e-6)  # 110,000 with those held out
    assert complete(1000).delta == 1e-5


def test_a_draft_without_data_has_the_same_defaults() -> None:
    settings, used = Settings(data="", epsilon=3.0), complete(99_000)
    training = draft_plan(settings, num_units=99_000, num_held_out=11_000).training
    assert (training.batch_size, training.num_steps, training.delta) == (used.batch_size, used.num_steps, used.delta)
    assert draft_plan(settings, num_units=99_000).training.delta == pytest.approx(1e-5)


def test_steps_can_be_limited_to_one_shape() -> None:
    def sampling(**settings: Any) -> Any:
        return draft_plan(Settings(data="", epsilon=3.0, **settings), num_units=1000).training.sampling

    assert sampling() == Poisson(256)
    assert sampling(max_batch_size=320) == Poisson(256, max_batch_size=320)
    assert sampling(batch_size=1000) == Full()
    assert sampling(batch_size=1000, max_batch_size=900) == Poisson(1000, max_batch_size=900)


def test_learning_needs_a_share() -> None:
    with pytest.raises(InvalidArgument, match="learn_share=0: expected more than 0"):
        draft_plan(Settings(data="", epsilon=3.0, learn_share=0.0), num_units=100, undeclared=Undeclared.VALUES)


def test_learning_and_metrics_are_per_unit_under_add_or_remove() -> None:
    settings = Settings(data="", epsilon=3.0)
    for more in ({"undeclared": Undeclared.BOUNDS}, {"num_held_out": 9}):
        with pytest.raises(Unsupported, match="learning or held-out metrics"):
            draft_plan(settings, num_units=100, relation=Relation.REPLACE, **more)  # type: ignore[arg-type]
        with pytest.raises(Unsupported, match="learning or held-out metrics"):
            draft_plan(settings, num_units=100, unit=Unit.user(), group_size=2, **more)  # type: ignore[arg-type]


def test_delta_is_small_against_the_number_of_units() -> None:
    assert default_delta(100) == 1e-5
    assert default_delta(99_999) == 1e-5
    for num_units in (10**5, 123_456, 10**6, 10**7 + 1):
        assert default_delta(num_units) * num_units < 1
        assert default_delta(num_units) >= 0.01 / num_units


@pytest.mark.parametrize(
    ("device", "rows_per_unit", "size"),
    [("cpu", 1, 512), ("cpu", 5, 510), ("cpu", 1000, 1000), ("cuda:1", 1, 4096), ("mps", 1, 512)],
)
def test_physical_batches_hold_whole_units(device: str, rows_per_unit: int, size: int) -> None:
    assert physical_batch_size(device, rows_per_unit) == size
