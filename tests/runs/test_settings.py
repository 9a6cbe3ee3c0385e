"""Settings: checked when they are made, stored as JSON, and extended by one field in one place."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, fields
from typing import Any

import pytest

from hush.cli.settings import add_settings, settings_of
from hush.data import Numeric, Schema
from hush.errors import HushError, InvalidArgument, check_count
from hush.runs import Settings, option, options_of
from hush.runs import settings as settings_module
from hush.runs.options import OptionGroup, command_words, reported

SCHEMA = Schema(columns={"age": Numeric(lower=0, upper=120)}, target="y", classes=("no", "yes"))
EVERYTHING = Settings(
    data="my data.csv", epsilon=1.25, target="y", delta=3e-7, model="mlp", unit="who", rows_per_unit=7,
    groups=("sex", "age"), schema=SCHEMA, holdout=0.2, learn_share=0.3, num_steps=9, batch_size=11, learning_rate=1 / 3,
    max_batch_size=44,
    momentum=0.0, clip_norm=0.1, averaging=False, seed=-5, device="cpu", data_dir="d", download=False, delimiter=";",
    decimal_comma=("income",),
    start="w.safetensors", public="made up", train_only=("0", "*.bias"), replace_head=True, lora=2, tensorboard=True,
)  # fmt: skip


@pytest.mark.parametrize("settings", [Settings(data="t.csv", epsilon=3.0), EVERYTHING], ids=["defaults", "everything"])
def test_settings_survive_json(settings: Settings) -> None:
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_json_has_the_names_that_stored_runs_have() -> None:
    """The fields of run.json since the first release, and later ones: a run must be resumable by later versions."""
    names = {
        "data", "epsilon", "target", "delta", "model", "unit", "rows_per_unit", "groups", "schema", "holdout",
        "learn_share", "epochs", "num_steps", "batch_size", "learning_rate", "momentum", "clip_norm", "averaging",
        "seed", "device", "data_dir", "download", "delimiter", "start", "public", "train_only", "replace_head", "lora",
        "tensorboard", "max_batch_size",
    }  # fmt: skip
    assert names <= set(EVERYTHING.to_json())
    assert Settings.from_json({"data": "t.csv", "epsilon": 3.0}) == Settings(data="t.csv", epsilon=3.0)
    with pytest.raises(InvalidArgument, match="settings of this version"):
        Settings.from_json({"data": "t.csv", "epsilon": 3.0, "colour": "red"})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0.0}, "epsilon=0"),
    ({"epsilon": math.nan}, "epsilon=nan"),
    ({"delta": 0.0}, "delta=0"),
    ({"delta": math.nan}, "delta=nan"),
    ({"rows_per_unit": 0}, "rows_per_unit=0"),
    ({"num_steps": True}, "num_steps=True"),
    ({"batch_size": 2.0}, "batch_size=2"),
    ({"max_batch_size": 0}, "max_batch_size=0"),
    ({"epochs": math.inf}, "epochs=inf"),
    ({"learning_rate": 1e31}, r"learning_rate=1e\+31"),
    ({"clip_norm": math.nan}, "clip_norm=nan"),
    ({"momentum": 1.0}, "momentum=1"),
    ({"momentum": math.nan}, "momentum=nan"),
    ({"holdout": 1.0}, "holdout=1"),
    ({"learn_share": -0.1}, "learn_share=-0.1"),
    ({"seed": 2**63}, "seed=9223372036854775808"),
    ({"model": "forest"}, "model='forest'"),
    ({"epochs": 2.0, "num_steps": 5}, "epochs=2: expected either epochs= or num_steps=. Give one of them"),
    ({"start": "w.safetensors", "public": " "}, "public=' '"),
    ({"public": "why"}, "no statement unless there is a checkpoint"),
    ({"lora": 2}, "start=None"),
    ({"replace_head": True}, "start=None"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HushError, match=message):
        Settings(**{"data": "t.csv", "epsilon": 3.0, **changes})


def test_replace_checks_again() -> None:
    settings = Settings(data="t.csv", epsilon=3.0)
    assert settings.replace(epsilon=1.0) == Settings(data="t.csv", epsilon=1.0)
    with pytest.raises(InvalidArgument, match="epsilon=-1"):
        settings.replace(epsilon=-1.0)


def test_every_field_is_an_option_and_documented() -> None:
    assert [item.name for item in fields(Settings)] == [item.name for item in options_of(Settings)]
    assert "rows_per_unit: The most rows of a unit that are used in one step." in (Settings.__doc__ or "")
    for item in options_of(Settings):
        assert not item.help.endswith("."), item.name
        assert not item.help.startswith("of "), item.name


# One field is an edit in one place


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended(Settings):
    """The settings of a later version, with two more fields."""

    warmup_steps: int = option(
        5, help="the number of warm-up steps", group=OptionGroup("warming up"), metavar="W", check=check_count,
        searchable=True,
    )  # fmt: skip
    nesterov: bool = option(False, help="use Nesterov momentum", commands=("train",))


def parse(command: str, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.set_defaults(command=command)
    add_settings(parser, command, Extended)
    return parser.parse_args(["t.csv", "--epsilon", "3", *words])


def recipe() -> type[Settings]:
    """Return settings with the field that the module's docstring shows, as it stands there."""
    lines = (settings_module.__doc__ or "").splitlines()
    start = next(number for number, line in enumerate(lines) if "= option(" in line)
    end = lines.index("    )", start)
    body = ["@dataclass(frozen=True, slots=True, kw_only=True)", "class Recipe(Settings):", *lines[start : end + 1]]
    names: dict[str, Any] = {**vars(settings_module), "__name__": settings_module.__name__}
    exec("\n".join(body), names)
    made: type[Settings] = names["Recipe"]
    return made


def test_the_recipe_for_a_new_field_works_as_written() -> None:
    kind = recipe()
    default = kind(data="t.csv", epsilon=3.0)
    assert default.warmup_steps is None  # type: ignore[attr-defined]
    assert reported(default)["warmup steps"] == "there are none"
    parser = argparse.ArgumentParser()
    parser.set_defaults(command="train")
    add_settings(parser, "train", kind)
    assert "--warmup-steps W" in parser.format_help()
    settings = settings_of(parser.parse_args(["t.csv", "--epsilon", "3", "--warmup-steps", "7"]), kind)
    assert settings.to_json()["warmup_steps"] == 7
    assert kind.from_json(settings.to_json()) == settings
    assert reported(settings)["warmup steps"] == 7
    with pytest.raises(InvalidArgument, match="warmup_steps=0"):
        settings.replace(warmup_steps=0)


def test_a_new_field_is_in_the_parser() -> None:
    parser = argparse.ArgumentParser()
    add_settings(parser, "train", Extended)
    text = parser.format_help()
    assert "--warmup-steps W" in text
    assert "warming up:" in text
    assert "the number of warm-up steps (default: 5)" in " ".join(text.split())
    settings = settings_of(parse("train", "--warmup-steps", "7", "--nesterov"), Extended)
    assert settings == Extended(data="t.csv", epsilon=3.0, warmup_steps=7, nesterov=True)
    assert settings_of(parse("train"), Extended) == Extended(data="t.csv", epsilon=3.0)
    with pytest.raises(InvalidArgument, match="warmup_steps=0"):
        settings_of(parse("train", "--warmup-steps", "0"), Extended)
    with pytest.raises(SystemExit):
        parse("tune", "--nesterov")  # which only train has


def test_a_new_field_is_in_json_and_in_the_command() -> None:
    settings = Extended(data="t.csv", epsilon=3.0, warmup_steps=7, nesterov=True)
    assert settings.to_json()["warmup_steps"] == 7
    assert Extended.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    assert Extended.from_json(Settings(data="t.csv", epsilon=3.0).to_json()).warmup_steps == 5  # of an older run
    words = command_words(settings, "train")
    assert words == ["t.csv", "--epsilon", "3", "--warmup-steps", "7", "--nesterov"]
    assert settings_of(parse("train", *words[3:]), Extended) == settings


def test_a_new_field_is_in_the_report() -> None:
    table = reported(Extended(data="t.csv", epsilon=3.0, warmup_steps=7))
    assert table["warmup steps"] == 7
    assert table["nesterov"] is False
