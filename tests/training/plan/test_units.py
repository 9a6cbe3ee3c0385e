"""Users and time windows as privacy units: their ids, their gradients, and the comparison of two ways."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

import hush
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.guarantee.unit import UnitKind
from hush.training import Full, InOrder, UserGroups, Users, compare_units
from training.loops import LINEAR_COUNT, linear_data, linear_run
from training.sums import COUNT, IDS, data, model, run, sums


def test_a_users_gradient_is_the_clipped_sum_of_its_examples() -> None:
    x, y = data()
    total, _, divisor = sums(run(x, y, sampling=Full(), clip_norm=0.3, unit=Users(IDS, rows_per_unit=4)))[0]
    network = model()
    expected = torch.zeros_like(total)
    for user in range(10):
        rows = torch.from_numpy(user == IDS)
        loss = nn.functional.cross_entropy(network(x[rows]), y[rows], reduction="sum")
        gradient = torch.cat(
            [part.flatten().double() for part in torch.autograd.grad(loss, list(network.parameters()))]
        )
        expected += gradient * min(1.0, 0.3 / float(gradient.norm()))
    assert divisor == 10
    assert torch.allclose(total, expected, rtol=1e-3, atol=1e-4)


def test_clipping_a_users_examples_one_by_one_would_be_noticed() -> None:
    """A broken twin: four equal gradients of one user, clipped one by one, move the sum by four clip norms."""
    x, y = data()
    x[IDS == 5], y[IDS == 5] = x[20].clone(), y[20].clone()
    other = x.clone()
    other[IDS == 5] = 0.0
    twins = [sums(run(inputs, y, sampling=Full(), clip_norm=0.01))[0][0] for inputs in (x, other)]
    assert float((twins[0] - twins[1]).norm()) > 0.035
    totals = [sums(run(inputs, y, sampling=Full(), clip_norm=0.01, unit=Users(IDS)))[0][0] for inputs in (x, other)]
    assert 0.005 < float((totals[0] - totals[1]).norm()) <= 0.01


def test_a_column_names_the_unit_and_repeated_ids_are_noticed() -> None:
    x, y = data()
    dataset = {"x": x, "y": y, "user_id": torch.from_numpy(IDS)}
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 2, "batch_size": 5}
    with pytest.raises(InvalidArgument, match="user_id"):
        hush.privatize(network, optimizer, dataset, **settings)
    private = hush.privatize(network, optimizer, dataset, unit="user_id", **settings)
    assert private.plan.num_units == 10
    assert private.guarantee().unit.kind is UnitKind.USER
    for batch in private.loader:
        private.step(nn.functional.cross_entropy(private.model(batch["x"]), batch["y"], reduction="none"))
    other = model()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    assert hush.privatize(other, optimizer, dataset, unit=Unit.example(), **settings).plan.num_units == COUNT
    with pytest.raises(InvalidArgument, match="^unit='nobody'"):
        hush.privatize(model(), optimizer, dataset, unit="nobody", **settings)
    with pytest.raises(InvalidArgument, match="one id for each of the 40"):
        run(x, y, unit=np.arange(3), batch_size=5)
    with pytest.raises(InvalidArgument, match="^unit='missing'"):
        run(x, y, unit=np.full(COUNT, np.nan), batch_size=5)


def test_windows_split_users() -> None:
    x, y = data()
    private = run(x, y, unit=Users(IDS, 2, np.arange(COUNT) * 60.0, timedelta(minutes=2)), batch_size=5)
    assert private.plan.num_units == 20
    assert str(private.guarantee().unit) == "user within one of the windows of 2 minutes from 1970-01-01"


def test_two_ways_to_protect_users_are_compared() -> None:
    few = compare_units(num_units=100, rows_per_unit=2, batch_size=100, noise_multiplier=5.0, num_steps=10, delta=1e-5)
    assert few.users.epsilon == pytest.approx(few.groups.epsilon, rel=1e-6), "without sampling there is no difference"
    many = compare_units(
        num_units=1000, rows_per_unit=8, batch_size=20, noise_multiplier=1.0, num_steps=500, delta=1e-5
    )
    assert many.recommended is UserGroups
    assert f"{many.groups.epsilon:.3g}" in str(many)


class Named(Dataset[dict[str, Any]]):
    """Examples that are mappings."""

    def __init__(self, repeat: int) -> None:
        self.x, self.y = linear_data()
        self.repeat = repeat

    def __len__(self) -> int:
        return LINEAR_COUNT

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.x[index], "y": self.y[index], "user_id": index // self.repeat}


@pytest.mark.parametrize("name", ["userId", "UserID", "user id", "uid", "subject", "patient-number", "email"])
@pytest.mark.parametrize("kind", ["integers", "column", "floats", "words"])
def test_repeated_ids_are_noticed(name: str, kind: str) -> None:
    x, y = linear_data()
    ids: Any = torch.arange(LINEAR_COUNT) // 3
    ids = {"integers": ids, "column": ids.view(-1, 1), "floats": ids.double(), "words": ids.numpy().astype(str)}[kind]
    with pytest.raises(InvalidArgument, match="^unit=None"):
        linear_run({"x": x, "y": y, name: ids})
    assert linear_run({"x": x, "y": y, name: ids}, unit=name, batch_size=4).plan.num_units == 20


def test_datasets_of_mappings_have_columns() -> None:
    with pytest.raises(InvalidArgument, match="user_id"):
        linear_run(Named(3))
    assert linear_run(Named(3), unit="user_id", batch_size=4).plan.num_units == 20
    linear_run(Named(1))


def test_times_may_be_datetimes() -> None:
    x, y = linear_data()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=30 * number) for number in range(LINEAR_COUNT)]
    ids = np.zeros(LINEAR_COUNT, dtype=int)
    private = linear_run((x, y), unit=Users(ids, 4, times, timedelta(days=1)), batch_size=1, num_steps=1, delta=1e-2)
    assert private.plan.num_units == 2
    with pytest.raises(InvalidArgument, match="^times="):
        linear_run((x, y), unit=Users(ids, 4, ["now"] * LINEAR_COUNT, timedelta(hours=10)))
    with pytest.raises(InvalidArgument, match="^window=10"):
        Users(ids, 4, times, 10)  # type: ignore[arg-type]
    for missing in (None, float("nan")):
        with pytest.raises(InvalidArgument, match="^unit='missing'"):
            linear_run((x, y), unit=Users([missing, *["a"] * (LINEAR_COUNT - 1)]), batch_size=1)


def test_missing_ids_in_mappings_are_refused() -> None:
    x, y = linear_data()
    rows = [{"x": x[i], "y": y[i], "user": "ann" if i % 2 else float("nan")} for i in range(LINEAR_COUNT)]
    with pytest.raises(InvalidArgument, match="^unit='missing'"):
        linear_run(rows, unit="user", batch_size=1)


@pytest.mark.parametrize("name", ["label_id", "class_id", "input_ids", "label", "category_no"])
def test_ids_of_things_are_not_people(name: str) -> None:
    x, y = linear_data()
    linear_run({"x": x, "y": y, name: torch.arange(LINEAR_COUNT) // 3})


@pytest.mark.parametrize("name", ["customerid", "patientno", "Employee Number", "ssn", "phone", "IDs", "pid"])
def test_other_names_for_people_are_noticed(name: str) -> None:
    x, y = linear_data()
    with pytest.raises(InvalidArgument, match="^unit=None"):
        linear_run({"x": x, "y": y, name: torch.arange(LINEAR_COUNT) // 3})


def test_users_come_in_the_order_of_their_first_example() -> None:
    x, y = linear_data()
    ids = np.array([f"u{number // 2:03}" for number in range(LINEAR_COUNT)])
    renamed = ids.copy()
    renamed[:2] = "zzz"
    rows, renamed_rows = (Users(column).rows(None, LINEAR_COUNT) for column in (ids, renamed))
    assert all(np.array_equal(*pair) for pair in zip(rows, renamed_rows, strict=True))
    with pytest.raises(Unsupported, match="InOrder with users"):
        linear_run((x, y), unit=Users(ids), sampling=InOrder(5), relation=Relation.REPLACE)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([1.0, np.nan, 2.0, 1.0], dtype=object),
        ["a", float("nan"), "b", "a"],
        np.array([2.0**25, 1, 2, 3], dtype=np.float32),
        np.array([0.5, 1, 2, 3]),
        np.ma.masked_array([1, 2, 3, 4], mask=[0, 1, 0, 0]),
        [("a", 1), "b", "c", "d"],
        [True, 1, 1, 0],
        ["3", 3, 4, 5],
    ],
)
def test_ids_that_would_split_or_merge_people_are_refused(ids: Any) -> None:
    with pytest.raises(InvalidArgument, match="^unit="):
        Users(ids).rows(None, 4)


def test_large_ids_stay_apart() -> None:
    assert len(Users([2**63, 2**63 + 1, -1, 2**63]).rows(None, 4)) == 3
    assert len(Users(["a", "a\0", "b", "a"]).rows(None, 4)) == 3
    assert len(Users([*np.array(["ann", "bob"]), "ann", "bob"]).rows(None, 4)) == 2


def test_a_unit_without_ids_does_not_excuse_repeated_ids() -> None:
    x, y = linear_data()
    with pytest.raises(InvalidArgument, match="user.id"):
        linear_run({"x": x, "y": y, "user.id": torch.arange(LINEAR_COUNT) // 2}, unit=Unit.user())
