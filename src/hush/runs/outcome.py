"""What a finished run leaves: the model, the guarantee, the figures and the report."""

from __future__ import annotations

import json
import platform
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hush.data import RawData, Schema, open_data, transform
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee
from hush.report import render
from hush.runs.folder import Folder
from hush.runs.networks import PRIVATE, Description, Network, read_weights
from hush.runs.settings import Settings

if TYPE_CHECKING:
    from hush.runs.drafts import Ready

_FORMAT = "hush-model/1"
SCHEMA = "schema.json"


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """A finished run.

    Attributes:
        path: Its folder.
        accuracy: Of those held out; None if nobody was.
        guarantee: What the run promises.
        noise_multiplier: The noise that training had.
        model: The trained network, from inputs as `hush.data.transform` makes them to one number for each class.
    """

    path: Path
    accuracy: float | None
    guarantee: Guarantee
    noise_multiplier: float
    model: nn.Module


@dataclass(frozen=True, eq=False, slots=True)
class Trained:
    """A model that was read from a run's folder.

    Attributes:
        network: The network, in evaluation mode.
        schema: How inputs are made from data.
        classes: Names of the classes.
        guarantee: What the run promised.
    """

    network: Network
    schema: Schema
    classes: tuple[str, ...]
    guarantee: Guarantee

    @torch.no_grad()
    def probabilities(self, data: RawData | str | Path) -> NDArray[np.float64]:
        """Return the probability of each class, for all rows or images of some data."""
        source = data if isinstance(data, RawData) else open_data(data)
        inputs = torch.from_numpy(np.ascontiguousarray(transform(self.schema, source)))
        parts = [torch.softmax(self.network(part), 1).double() for part in torch.split(inputs, 1024)]
        return torch.cat(parts).numpy()

    def predict(self, data: RawData | str | Path) -> list[str]:
        """Return the most likely class, for all rows or images of some data."""
        return [self.classes[place] for place in self.probabilities(data).argmax(1)]


def load(path: str | Path) -> Trained:
    """Read the model of a finished run.

    A model of your own is built again by its factory, MODULE:FACTORY, which Python must find and which is run: load
    only folders that you trust.
    """
    folder = Folder(Path(path))
    if not folder.has("guarantee.json"):  # it is written after the model
        raise InvalidArgument("run", str(path), "the folder of a finished run, with a guarantee.json")
    content = folder.read_json("model.json")
    if content.get("format") != _FORMAT:
        raise InvalidArgument("run", str(path), f"the folder of a finished run, with a model.json of {_FORMAT}")
    built = content["network"]
    network = Description(built["model"], tuple(built["shape"]), built["num_classes"], built["seed"]).build()
    network.trained.load_state_dict(read_weights(folder.path / "model.safetensors", "run"))
    return Trained(
        network.eval(),
        Schema.from_json(json.dumps(content["schema"])),
        tuple(content["classes"]),
        Guarantee.from_json((folder.path / "guarantee.json").read_text(encoding="utf-8")),
    )


def publish(
    folder: Folder,
    settings: Settings,
    ready: Ready,
    network: Network,
    *,
    figures: Callable[[], dict[str, Any]],
    guarantee: Guarantee,
    budget: list[dict[str, Any]],
    resumed: int = 0,
    more: Mapping[str, Any] | None = None,
    said: str | None = None,
) -> Outcome:
    """Write everything down; figures about those held out are made once, and kept, whatever happens.

    The model is written first: one that remembers what it sees must not remember those who were held out.
    """
    _write_model(folder, ready, network)
    if settings.schema is not None:
        folder.write(SCHEMA, settings.schema.to_json())
    if not len(ready.prepared.test):
        found: dict[str, Any] = {}
    elif folder.has("figures.json"):
        found = folder.read_json("figures.json")
    else:
        found = figures()
        folder.write_json("figures.json", found)
    folder.write("guarantee.json", guarantee.to_json() + "\n")
    record = _record(folder, settings, ready, found, guarantee) | {"budget": budget, "resumed": resumed}
    record["hyperparameters"] |= dict(more or {})
    record["command"] = said or record["command"]
    folder.write("report.html", render(record))
    accuracy = found.get("accuracy", {}).get("value")
    return Outcome(folder.path, accuracy, guarantee, ready.plan.noise_multiplier, network.cpu())


def _write_model(folder: Folder, ready: Ready, network: Network) -> None:
    from safetensors.torch import save_file

    weights = {name: value.detach().cpu().contiguous().clone() for name, value in network.trained.state_dict().items()}
    # Wherever a copy of the file goes, it says what it is: weights that count as public start from other files.
    folder.write("model.safetensors", lambda path: save_file(weights, path, metadata=PRIVATE))
    content = {
        "format": _FORMAT,
        "help": "hush.runs.load(FOLDER) builds the network again; model.safetensors holds the weights of `trained`",
        "network": asdict(ready.description),
        "classes": list(ready.prepared.classes),
        "schema": json.loads(ready.prepared.schema.to_json()),
    }
    folder.write_json("model.json", content)


def _record(
    folder: Folder, settings: Settings, ready: Ready, figures: dict[str, Any], guarantee: Guarantee
) -> dict[str, Any]:
    prepared, plan = ready.prepared, ready.plan
    exact = prepared.test_is_public
    rows = folder.rows("metrics.jsonl")
    private = [] if exact else ["accuracy", "curve", "classes", "groups", "calibration"]
    return {
        "title": f"A private model of {Path(settings.data).name}",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "finished": True,
        "guarantee": guarantee.to_json(),
        "private": private,
        "data": {
            "name": Path(settings.data).name,
            "num_train": len(prepared.train),
            "num_test": len(prepared.test),
            "classes": list(prepared.classes),
            "features": " x ".join(str(side) for side in prepared.shape) + " numbers",
            "unit": str(plan.unit),
            "test_is_public": exact,
            "how_measured": _how(prepared.test_is_public, len(prepared.test) > 0),
        },
        "learned": list(prepared.learned),
        "public": _public(settings, ready),
        "curve": [row for row in rows if row.get("accuracy") is not None],
        **figures,
        "classes": [
            {"accuracy" if key == "value" else key: value for key, value in each.items()}
            for each in figures.get("classes", [])
        ],
        "not_private": _diagnostics(folder),
        "hyperparameters": _hyperparameters(settings, ready),
        "versions": _versions(),
        "command": command(settings, folder.path),
        "warnings": _warnings(settings, ready, guarantee),
    }


def _how(public: bool, measured: bool) -> str:
    if not measured:
        return "not measured: nobody was held out"
    if public:
        return "exactly, on the public test part of the data set"
    return (
        "with noise, on people who were held out and not trained on: the figures protect them as strongly as the model "
        "protects the others"
    )


def _public(settings: Settings, ready: Ready) -> list[str]:
    told = [sentence for sentence in ready.prepared.assumptions if "public" in sentence]
    if ready.public is not None:
        told.append(f"the weights of {Path(settings.start or '').name}, declared public: {ready.public.public}")
    if ready.description.model == "scattering":
        told.append("the wavelets of the features: fixed, not learned")
    if settings.schema is not None:
        told.append("everything that was declared of the data: bounds, values, classes")
    return told


def _warnings(settings: Settings, ready: Ready, guarantee: Guarantee) -> list[str]:
    told = []
    if guarantee.epsilon > 10:
        told.append("An epsilon above 10 promises little in the worst case.")
    if ready.plan.num_units < 1000:
        told.append("With less than a thousand people to learn from, noise takes much of the accuracy.")
    if ready.users is None:
        told.append(
            "Each row is protected by itself. If one person can have several rows, name the column that says whose "
            "they are: --unit COLUMN."
        )
    return told


def _diagnostics(folder: Folder) -> dict[str, Any]:
    rows = folder.rows("not-private.jsonl")
    clipped = [(row, row["clipped_fraction"]) for row in rows]
    return {
        "clipped_fraction": [{"step": row["step"], "value": value} for row, value in clipped if value is not None],
        "norm_quantiles": [{key: row[key] for key in ("step", "q10", "q50", "q90")} for row in rows],
        "loss": [{"step": row["step"], "value": row["loss"]} for row in rows],
    }


def _hyperparameters(settings: Settings, ready: Ready) -> dict[str, Any]:
    plan, chosen = ready.plan, ready.recipe
    found = {
        "model": ready.description.model,
        "batch size (expected)": plan.batch_size,
        "steps": plan.num_steps,
        "sampling rate": plan.sampling_rate,
        "sampling": repr(plan.sampling),
        "noise multiplier": plan.noise_multiplier,
        "clipping": repr(plan.clipping),
        "learning rate": chosen.learning_rate,
        "learning rate at the end": chosen.learning_rate * chosen.rate(1.0),
        "momentum": settings.momentum,
        "weight averaging": f"moving average, decay {chosen.decay:.4g}" if settings.averaging else "none",
        "rows of a unit in a step": settings.rows_per_unit if ready.users is not None else 1,
        "held out": settings.holdout,
        "share of the budget to learn with": settings.learn_share if ready.prepared.event is not None else 0,
        "seed of the starting weights": settings.seed,
        "new head": settings.replace_head,
        "LoRA rank": settings.lora or "none",
        "trained": ", ".join(settings.train_only)
        or ("everything" if settings.lora is None else "products, and the head"),
    }
    return {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in found.items()}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("hush", "torch", "numpy", "scipy", "duckdb", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def command(settings: Settings, folder: Path, verb: str = "train", more: Sequence[str] = ()) -> str:
    """Return the command that does the same, with fresh noise; what was declared is in the run's folder."""
    flags: list[str] = []
    plain = {
        "--target": settings.target, "--epsilon": settings.epsilon, "--delta": settings.delta,
        "--model": settings.model, "--unit": settings.unit, "--epochs": settings.epochs, "--steps": settings.num_steps,
        "--batch-size": settings.batch_size, "--learning-rate": settings.learning_rate,
        "--clip-norm": settings.clip_norm, "--delimiter": settings.delimiter, "--start": settings.start,
        "--public": settings.public, "--lora": settings.lora, "--device": settings.device,
        "--data-dir": settings.data_dir,
    }  # fmt: skip
    for flag, value in plain.items():
        if value is not None:
            flags += [flag, _number(value)]
    defaults = Settings(data="x", epsilon=1.0)
    for flag, name in (
        ("--holdout", "holdout"), ("--learn-share", "learn_share"), ("--momentum", "momentum"), ("--seed", "seed"),
        ("--rows-per-unit", "rows_per_unit"),
    ):  # fmt: skip
        if getattr(settings, name) != getattr(defaults, name):
            flags += [flag, _number(getattr(settings, name))]
    for name in settings.groups:
        flags += ["--group", name]
    for name in settings.train_only:
        flags += ["--train-only", name]
    for flag, given in (("--replace-head", settings.replace_head), ("--no-averaging", not settings.averaging)):
        flags += [flag] if given else []
    if settings.schema is not None:
        flags += ["--schema", str(folder / SCHEMA)]
    return shlex.join(["hush", verb, settings.data, *flags, *more])


def _number(value: object) -> str:
    """Return what reads as the same value again, 3.0 as 3."""
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
