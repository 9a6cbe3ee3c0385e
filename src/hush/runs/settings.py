"""What a run was asked to do. Written to the run's folder, so that it can be resumed and repeated."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from typing import Any

from hush.data import Schema
from hush.errors import InvalidArgument, check_count, check_delta, check_fraction, check_instance, check_positive

MODELS = ("softmax", "mlp", "cnn", "scattering")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that decides a run but the data themselves.

    Attributes:
        data: A file, a folder or the name of a known data set.
        epsilon: What the whole run may cost: learning of bounds, training, and figures about those held out.
        target: The column to predict.
        delta: At which delta; without it, 1e-5, or less where there are more people.
        model: softmax, mlp, cnn, scattering, or MODULE:FACTORY; without it, scattering for images, softmax for tables.
        unit: The column that says whose a row is.
        rows_per_unit: How many rows of one unit take part in a step at most.
        groups: Columns to compare accuracy by.
        schema: What is declared of the data.
        holdout: The share of units that is held out to measure with.
        learn_share: The share of the budget for what is not declared.
        epochs: How often each row is seen, on average.
        num_steps: Or how many steps are taken.
        batch_size: How many units a step has, on average.
        learning_rate, momentum: Of SGD.
        clip_norm: To clip at this norm; without it, gradients are clipped automatically.
        averaging: Whether the weights of the last steps are averaged.
        seed: Of the starting weights, which are public.
        device: Where to train; without it, a GPU if there is one.
        data_dir, download, delimiter: As for `hush.data.open_data`.
        start: A checkpoint to start from: the weights of a model trained on public data.
        public: Why it is public. Required with ``start``, and stated wherever the guarantee is.
        train_only: Names of the parameters or layers to train; the others stay as they are.
        replace_head: Whether the last layer is not taken from the checkpoint, but starts from zero.
        lora: The rank of products that are trained beside frozen layers.
        tensorboard: Whether to write scalars for TensorBoard, too.
    """

    data: str
    epsilon: float
    target: str | None = None
    delta: float | None = None
    model: str | None = None
    unit: str | None = None
    rows_per_unit: int = 4
    groups: tuple[str, ...] = ()
    schema: Schema | None = None
    holdout: float = 0.1
    learn_share: float = 0.1
    epochs: float | None = None
    num_steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    momentum: float = 0.9
    clip_norm: float | None = None
    averaging: bool = True
    seed: int = 0
    device: str | None = None
    data_dir: str | None = None
    download: bool = True
    delimiter: str | None = None
    start: str | None = None
    public: str | None = None
    train_only: tuple[str, ...] = ()
    replace_head: bool = False
    lora: int | None = None
    tensorboard: bool = False

    def __post_init__(self) -> None:
        """Refuse what no data could make right."""
        check_positive("epsilon", self.epsilon, "With 0 nothing could be learned; 1 to 3 is usual")
        if self.delta is not None and not check_delta("delta", self.delta) > 0:
            raise InvalidArgument("delta", self.delta, "a number in (0, 1)", "Training adds Gaussian noise")
        for name in ("rows_per_unit", "num_steps", "batch_size", "lora"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        for name in ("epochs", "learning_rate", "clip_norm"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), maximum=1e30)  # beyond it, weights are no numbers
        if not -(2**63) <= self.seed < 2**63:
            raise InvalidArgument("seed", self.seed, "a whole number of 64 bits")
        for name in ("holdout", "learn_share"):
            if not 0 <= check_fraction(name, getattr(self, name)) < 1:
                raise InvalidArgument(name, getattr(self, name), "a share in [0, 1)")
        if not 0 <= self.momentum < 1:
            raise InvalidArgument("momentum", self.momentum, "a number in [0, 1)")
        if self.epochs is not None and self.num_steps is not None:
            raise InvalidArgument("epochs", self.epochs, "nothing, beside a number of steps")
        if self.model is not None and self.model not in MODELS and self.model.count(":") != 1:
            raise InvalidArgument("model", self.model, f"{', '.join(MODELS)} or MODULE:FACTORY")
        self._check_start()

    def _check_start(self) -> None:
        if self.start is not None and not (self.public or "").strip():
            raise InvalidArgument(
                "public",
                self.public,
                "words: which data the checkpoint was trained on, and why they are public",
                "What is called public is not protected, and the guarantee will say so",
            )
        if self.public is not None and self.start is None:
            raise InvalidArgument("public", self.public, "nothing without a checkpoint to start from")
        if self.start is None and (self.replace_head or self.lora is not None):
            raise InvalidArgument(
                "start", None, "a public checkpoint", "A new head or LoRA needs a model to start from"
            )

    def to_json(self) -> dict[str, Any]:
        """Return all of it as what JSON can write."""
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "schema"}
        plain["schema"] = None if self.schema is None else json.loads(self.schema.to_json())
        return plain

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Settings:
        """Return the settings that were written."""
        check_instance("settings", content, dict)
        known = {each.name for each in fields(cls)}
        if not set(content) <= known:
            raise InvalidArgument("settings", sorted(set(content) - known), "only what this version of hush knows")
        schema = content.get("schema")
        values = {**content, "schema": None if schema is None else Schema.from_json(json.dumps(schema))}
        for name in ("groups", "train_only"):
            values[name] = tuple(values.get(name) or ())
        return cls(**values)

    def at(self, **changes: Any) -> Settings:
        """Return the same with some changes."""
        return replace(self, **changes)


def default_delta(num_units: int) -> float:
    """Return 1e-5, or the largest power of ten below one over the number of those who are protected."""
    return min(1e-5, 10.0 ** (math.ceil(-math.log10(max(num_units, 1))) - 1))
