"""Settings: everything that determines a run, apart from the data.

This is where an option of `hush train` and `hush tune` is added, as one field:

    warmup_steps: int | None = option(
        None, help="the number of warm-up steps", unset="there are none", group=MODEL, metavar="W", check=check_count
    )

The arguments ``--warmup-steps W``, the check, the JSON in ``run.json``, the row in the report, the command that repeats
the run and the documentation in Python follow from it; see `hush.runs.options`. A default other than None has to pass
the check, too: `check_count` refuses 0. Code that uses the setting reads ``settings.warmup_steps``.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from hush.data import TASKS, Schema
from hush.errors import InvalidArgument, check_count, check_delta, check_fraction, check_instance, check_positive
from hush.runs.options import OptionGroup, documented, option, options_of

MODELS = ("softmax", "mlp", "cnn", "scattering")
DEFAULT_EPOCHS = 40
_READING = ("train", "tune", "schema")  # the commands that open the data
_PLANNING = ("train", "tune", "plan")  # the commands that choose the noise
_LARGEST = 1e30  # beyond it, 32-bit weights overflow

FINDING = OptionGroup("finding the data")
PROTECTION = OptionGroup("what is protected")
DECLARATIONS = OptionGroup(
    "what is known about the data", "Everything declared here is taken as public. The rest is learned privately."
)
MODEL = OptionGroup("the model")
TRANSFER = OptionGroup("starting from a public model")
OUTPUT = OptionGroup("output")


def _check_epsilon(name: str, value: Any) -> None:
    check_positive(name, value, "With 0 nothing can be learned; 1 to 3 is usual")


def _check_delta(name: str, value: Any) -> None:
    if not check_delta(name, value) > 0:
        raise InvalidArgument(name, value, "a number in (0, 1)", "Training adds Gaussian noise, which needs delta > 0")


def _check_share(name: str, value: Any) -> None:
    if not 0 <= check_fraction(name, value) < 1:
        raise InvalidArgument(name, value, "a number in [0, 1)")


def _check_bounded(name: str, value: Any) -> None:
    check_positive(name, value, maximum=_LARGEST)


def _check_momentum(name: str, value: Any) -> None:
    if not 0 <= value < 1:
        raise InvalidArgument(name, value, "a number in [0, 1)")


def _check_seed(name: str, value: Any) -> None:
    if not -(2**63) <= value < 2**63:
        raise InvalidArgument(name, value, "an integer of 64 bits")


def _check_task(name: str, value: Any) -> None:
    if value not in TASKS:
        raise InvalidArgument(name, value, ", ".join(TASKS))


def _check_model(name: str, value: Any) -> None:
    if value not in MODELS and value.count(":") != 1:
        raise InvalidArgument(name, value, f"{', '.join(MODELS)} or MODULE:FACTORY")


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that determines a run, apart from the data.

    Settings are checked when they are made, written to the run's folder, and read again by `hush train --resume`.

    >>> settings = Settings(data="patients.csv", epsilon=3.0, target="diagnosis", unit="patient")
    >>> settings.replace(epsilon=1.0).epsilon
    1.0
    >>> Settings.from_json(settings.to_json()) == settings
    True
    >>> Settings(data="patients.csv", epsilon=float("nan"))
    Traceback (most recent call last):
    hush.errors.InvalidArgument: epsilon=nan: expected a finite number > 0. With 0 nothing can be learned; ...
    """

    data: str = option(
        help="a CSV, Excel, Parquet or NPZ file, a folder of IDX files or images, or a known dataset: digits, mnist, "
        "fashion-mnist or cifar10",
        flag="DATA",
        label=None,
        commands=_READING,
    )
    target: str | None = option(
        None, help="the column to predict, or several columns of true and false, separated by commas",
        unset="the schema's target, or the images' labels", metavar="COLUMN", label=None,
    )  # fmt: skip
    task: str | None = option(
        None, help="classification, regression or multi-label: what is predicted",
        unset="the types in the file decide, and hush asks where they leave it open", metavar="TASK",
        check=_check_task,
    )  # fmt: skip
    epsilon: float = option(
        help="the privacy budget for everything that is released: learned bounds, the model and held-out metrics",
        label=None,
        check=_check_epsilon,
        commands=_PLANNING,
    )

    data_dir: str | None = option(
        None,
        help="the folder of known datasets",
        unset="$HUSH_DATA",
        group=FINDING,
        metavar="DIR",
        label=None,
        commands=_READING,
    )
    download: bool = option(True, help="download known datasets", group=FINDING, label=None, commands=_READING)
    delimiter: str | None = option(
        None, help="the column separator of a CSV file", unset="it is detected", group=FINDING, metavar="CHAR",
        label=None, commands=_READING,
    )  # fmt: skip

    decimal_comma: tuple[str, ...] = option(
        (), help="a column of a CSV file whose numbers have decimal commas, so that 1.234 is 1234; may be repeated",
        group=FINDING, flag="--decimal-comma", metavar="COLUMN", label=None,
    )  # fmt: skip

    delta: float | None = option(
        None, help="the delta of the guarantee", unset="1e-5, or less for 100,000 units or more", group=PROTECTION,
        label=None, check=_check_delta, commands=_PLANNING,
    )  # fmt: skip
    unit: str | None = option(
        None, help="the column that identifies the privacy unit", unset="each row is its own privacy unit",
        group=PROTECTION, metavar="COLUMN", label="privacy unit",
    )  # fmt: skip
    rows_per_unit: int = option(
        4,
        help="the most rows of a unit that are used in one step",
        group=PROTECTION,
        metavar="K",
        check=check_count,
    )
    holdout: float = option(
        0.1, help="the share of units held out to measure the model", group=PROTECTION, metavar="SHARE",
        label="share of units held out", check=_check_share,
    )  # fmt: skip
    learn_share: float = option(
        0.1, help="the share of the budget for learning undeclared bounds, values and classes", group=PROTECTION,
        metavar="SHARE", label="share of the budget for learning", check=_check_share, commands=_PLANNING,
    )  # fmt: skip

    schema: Schema | None = option(
        None, help="a file of declarations; `hush schema DATA` writes a template", group=DECLARATIONS, metavar="FILE",
        label=None,
    )  # fmt: skip
    groups: tuple[str, ...] = option(
        (), help="a column whose groups are compared by accuracy; may be repeated", group=DECLARATIONS, flag="--group",
        metavar="COLUMN",
    )  # fmt: skip

    model: str | None = option(
        None, help="softmax, mlp, cnn, scattering, or MODULE:FACTORY, a function of input shape and number of classes",
        unset="scattering for images and softmax for tables", group=MODEL, check=_check_model, searchable=True,
    )  # fmt: skip
    epochs: float | None = option(
        None, help="how often each unit is seen, on average", unset=f"{DEFAULT_EPOCHS} times", group=MODEL, label=None,
        check=_check_bounded, searchable=True, commands=_PLANNING,
    )  # fmt: skip
    num_steps: int | None = option(
        None, help="the number of steps, instead of --epochs", group=MODEL, metavar="T", label="steps",
        check=check_count, searchable=True, commands=_PLANNING,
    )  # fmt: skip
    batch_size: int | None = option(
        None, help="the number of units in a step, on average", unset="a quarter of them, and at least 256",
        group=MODEL, metavar="B", label="expected batch size", check=check_count, searchable=True, commands=_PLANNING,
    )  # fmt: skip
    max_batch_size: int | None = option(
        None, help="the largest number of units in a step; a larger sample is cut to a random part of this size",
        group=MODEL, metavar="B", label="largest batch size", check=check_count, commands=("train", "plan"),
    )  # fmt: skip
    learning_rate: float | None = option(
        None, help="the learning rate of SGD at the start", unset="it follows from epsilon and the number of units",
        group=MODEL, metavar="RATE", check=_check_bounded, searchable=True,
    )  # fmt: skip
    momentum: float = option(0.9, help="the momentum of SGD", group=MODEL, check=_check_momentum, searchable=True)
    clip_norm: float | None = option(
        None, help="the norm that per-example gradients are clipped to", unset="clipping is automatic", group=MODEL,
        metavar="C", label=None, check=_check_bounded, searchable=True,
    )  # fmt: skip
    averaging: bool = option(True, help="average the weights of the last steps", group=MODEL, label="weight averaging")
    seed: int = option(
        0, help="the seed of the starting weights, which are public", group=MODEL, label="seed of the starting weights",
        check=_check_seed,
    )  # fmt: skip
    device: str | None = option(
        None, help="the device to train on, such as cpu or cuda", unset="a GPU where there is one", group=MODEL
    )

    start: str | None = option(
        None, help="a safetensors file with the weights of a public model", group=TRANSFER, metavar="FILE", label=None
    )
    public: str | None = option(
        None, help="the data that model was trained on, and why they are public", group=TRANSFER, metavar="WHY",
        label=None,
    )  # fmt: skip
    replace_head: bool = option(False, help="start with a new output layer", group=TRANSFER, label="new output layer")
    train_only: tuple[str, ...] = option(
        (), help="a layer or parameter to train; all others are frozen; may be repeated", unset="all are trained",
        group=TRANSFER, metavar="NAME", label="trained layers",
    )  # fmt: skip
    lora: int | None = option(
        None, help="train LoRA adapters of this rank", group=TRANSFER, metavar="RANK", label="LoRA rank",
        check=check_count,
    )  # fmt: skip

    tensorboard: bool = option(
        False, help="also write scalars for TensorBoard", group=OUTPUT, label=None, commands=("train",)
    )

    def __post_init__(self) -> None:
        """Check each setting on its own, then those that depend on each other."""
        for item in options_of(type(self)):
            value = getattr(self, item.name)
            if item.check is not None and value is not None:
                item.check(item.name, value)
        if self.epochs is not None and self.num_steps is not None:
            raise InvalidArgument("epochs", self.epochs, "either epochs= or num_steps=", "Give one of them")
        self._check_start()

    def _check_start(self) -> None:
        """Check what belongs to a public checkpoint."""
        if self.start is not None and not (self.public or "").strip():
            raise InvalidArgument(
                "public",
                self.public,
                "a statement of which data the checkpoint was trained on, and why they are public",
                "Public data are not protected, and the guarantee says so",
            )
        if self.public is not None and self.start is None:
            raise InvalidArgument(
                "public", self.public, "no statement unless there is a checkpoint", "Give start=, or omit public="
            )
        if self.start is None and (self.replace_head or self.lora is not None):
            raise InvalidArgument(
                "start", None, "a public checkpoint", "A new output layer or LoRA needs a model to start from"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the settings as values that JSON can hold."""
        return {
            item.name: json.loads(value.to_json()) if isinstance(value, Schema) else value
            for item in options_of(type(self))
            for value in [getattr(self, item.name)]
        }

    @classmethod
    def from_json(cls, content: Any) -> Settings:
        """Return the settings that `to_json` wrote; those that are missing have their default."""
        check_instance("settings", content, dict)
        for name in ("data", "epsilon"):
            if name not in content:
                raise InvalidArgument("settings", sorted(content), f"settings with {name}")
        types = {item.name: item.type for item in options_of(cls)}
        if not set(content) <= set(types):
            raise InvalidArgument("settings", sorted(set(content) - set(types)), "settings of this version of hush")
        return cls(**{name: _from_json(types[name], value) for name, value in content.items()})

    def replace(self, **changes: Any) -> Settings:
        """Return a copy of the settings with some changes."""
        return dataclasses.replace(self, **changes)


def _from_json(kind: type, value: Any) -> Any:
    """Return a value from JSON as the type of its field."""
    if kind is tuple:
        return tuple(value or ())
    if kind is Schema and value is not None:
        return Schema.from_json(json.dumps(value))
    return value
