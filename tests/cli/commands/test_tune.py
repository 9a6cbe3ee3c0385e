"""`hush tune`: how a search is written, and what is refused. tests/runs/test_tuning.py searches."""

from __future__ import annotations

from typing import Any

import pytest

from hush.cli import build_parser
from hush.cli.commands.tune import parse_search
from hush.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning-rate=0.1, 1", ("learning_rate", [0.1, 1.0])),
        ("num-steps=10,20", ("num_steps", [10, 20])),
        ("batch-size=64", ("batch_size", [64])),
        ("model=softmax,my.module:make", ("model", ["softmax", "my.module:make"])),
        ("momentum=0", ("momentum", [0.0])),
    ],
)
def test_values_have_the_type_of_their_setting(text: str, expected: tuple[str, list[Any]]) -> None:
    assert parse_search(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning-rate", "NAME=A,B,..."),
        ("learning-rate=", "NAME=A,B,..."),
        ("learning-rate=1,,2", "NAME=A,B,..."),
        ("learning-rate=a", "with numbers"),
        ("batch-size=1.5", "with numbers"),
        ("colour=1", "a NAME out of model, epochs, num-steps, batch-size, learning-rate, momentum, clip-norm"),
        ("seed=1,2", "a NAME out of"),
        ("=1", "a NAME out of"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match="^search=.*" + message):
        parse_search(text)


def test_the_parser() -> None:
    options = build_parser().parse_args(
        ["tune", "t.csv", "--search", "num-steps=1", "--search", "model=mlp", "--runs", "3"]
    )
    assert (options.search, options.runs) == (["num-steps=1", "model=mlp"], 3.0)
    assert build_parser().parse_args(["tune", "t.csv"]).runs == 10
