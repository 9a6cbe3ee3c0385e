"""The arguments of `hush train` and `hush tune`: one for each setting, and a default stays a default."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from hush.cli import build_parser
from hush.cli.settings import given_flags, settings_of
from hush.data import Numeric, Schema
from hush.errors import InvalidArgument
from hush.runs import Settings, options_of

BASIC = ("t.csv", "--epsilon", "3")


def parse(command: str, *words: str) -> argparse.Namespace:
    return build_parser().parse_args([command, *words])


@pytest.mark.parametrize("command", ["train", "tune"])
def test_defaults_are_those_of_the_settings(command: str) -> None:
    assert settings_of(parse(command, *BASIC)) == Settings(data="t.csv", epsilon=3.0)


FLAGS: dict[str, tuple[tuple[str, ...], Any]] = {
    "target": (("--target", "y"), "y"),
    "task": (("--task", "regression"), "regression"),
    "delta": (("--delta", "1e-7"), 1e-7),
    "unit": (("--unit", "who"), "who"),
    "rows_per_unit": (("--rows-per-unit", "2"), 2),
    "max_batch_size": (("--max-batch-size", "300"), 300),
    "holdout": (("--holdout", "0"), 0.0),
    "learn_share": (("--learn-share", "0.5"), 0.5),
    "groups": (("--group", "sex", "--group", "age"), ("sex", "age")),
    "schema": (("--bounds", "a=0:1"), Schema(columns={"a": Numeric(lower=0, upper=1)})),
    "model": (("--model", "cnn"), "cnn"),
    "epochs": (("--epochs", "2.5"), 2.5),
    "num_steps": (("--num-steps", "7"), 7),
    "batch_size": (("--batch-size", "64"), 64),
    "learning_rate": (("--learning-rate", "0.1"), 0.1),
    "momentum": (("--momentum", "0"), 0.0),
    "clip_norm": (("--clip-norm", "2"), 2.0),
    "averaging": (("--no-averaging",), False),
    "seed": (("--seed", "-3"), -3),
    "device": (("--device", "cpu"), "cpu"),
    "data_dir": (("--data-dir", "d"), "d"),
    "download": (("--no-download",), False),
    "delimiter": (("--delimiter", ";"), ";"),
    "decimal_comma": (("--decimal-comma", "a", "--decimal-comma", "b"), ("a", "b")),
    "start": (("--start", "w", "--public", "why"), "w"),
    "public": (("--start", "w", "--public", "why"), "why"),
    "train_only": (("--train-only", "0"), ("0",)),
    "replace_head": (("--start", "w", "--public", "why", "--replace-head"), True),
    "lora": (("--start", "w", "--public", "why", "--lora", "2"), 2),
    "tensorboard": (("--tensorboard",), True),
}


def test_every_setting_has_a_flag() -> None:
    assert {"data", "epsilon", *FLAGS} == {item.name for item in options_of(Settings)}


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name: str) -> None:
    words, value = FLAGS[name]
    assert getattr(settings_of(parse("train", *BASIC, *words)), name) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "--epsilon", "3"), "data=None: expected a CSV, Excel, Parquet or NPZ file.*Give DATA"),
        (("train", "t.csv"), "epsilon=None: expected the privacy budget.*Give --epsilon"),
        (("tune", "t.csv"), "epsilon=None"),
    ],
)
def test_required_settings(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        settings_of(parse(*words))


def test_only_train_can_leave_the_data_out(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("tune", "schema"):
        with pytest.raises(SystemExit):
            parse(command)
        assert "DATA" in capsys.readouterr().err


def test_given_flags() -> None:
    options = parse(
        "train", "--resume", "run", "--num-steps", "7", "--seed", "0", "--no-averaging", "--bounds", "a=0:1"
    )
    flags = given_flags(options)
    assert flags["num_steps"] == "--num-steps"
    assert flags["seed"] == "--seed"  # also if it is 0
    assert flags["averaging"] == "--no-averaging"
    assert flags["bounds"] == "--bounds"
    assert not {"epsilon", "download", "quiet", "json", "output"} & set(flags)


def test_schema_files_are_read(tmp_path: Path) -> None:
    schema = Schema(columns={"a": Numeric(lower=0, upper=1)}, classes=("0", "1"))
    schema.save(tmp_path / "schema.json")
    settings = settings_of(parse("tune", *BASIC, "--schema", str(tmp_path / "schema.json")))
    assert settings.schema == schema
    assert json.loads(json.dumps(settings.to_json()))["schema"]["columns"]["a"]["upper"] == 1
