"""The outcome of a run: the model, the guarantee, the held-out metrics and the report, as files.

`stage` stores everything that depends on the data among the folder's secrets, so that it is computed only once:

1. model.safetensors (the classifier's weights) and model.json (how to rebuild the network around them);
2. figures.json, the held-out metrics.

It returns a hash of these files, under which the run is charged. Only then does `publish` copy them into the folder,
and write

3. guarantee.json, which marks the model as usable: `load` needs it;
4. report.html, for people.

`load` rebuilds the model from a finished folder.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hush.accounting.receipts import Receipt
from hush.data import Prepared, RawData, Schema, num_inputs, open_data, transform
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.guarantee import Guarantee
from hush.notebook import card, short_repr
from hush.report import render
from hush.runs.folder import Folder
from hush.runs.networks import (
    PRIVATE,
    Network,
    build_network,
    check_factory,
    network_arguments,
    read_weights,
)
from hush.runs.options import command_words, reported
from hush.runs.outputs.forecast import warnings
from hush.runs.outputs.losses import predictions
from hush.runs.outputs.onnx_file import export_onnx
from hush.runs.run_plan import RunPlan
from hush.runs.settings import Settings
from hush.runs.steps import averaging_decay, rate_factor
from hush.strict_json import take_format

_FORMAT = "hush.model/1"
_WEIGHTS, _MODEL, _FIGURES = "model.safetensors", "model.json", "figures.json"
_STAGED = (_WEIGHTS, _MODEL, _FIGURES)  # in the order in which they are written
SCHEMA = "schema.json"


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """A finished run, as `train`, `resume` and `tune` return it.

    Attributes:
        path: Its folder.
        accuracy: The held-out accuracy; None if nothing was held out, or too little for a measurement through the
            noise.
        guarantee: The guarantee of the run.
        noise_multiplier: The noise multiplier of training.
        model: The trained network, from inputs as `hush.data.transform` makes them to one logit for each class.
        receipt: The cost of the run and the rest of the budget; None without a ledger.

    >>> outcome = Outcome(Path("run"), 0.93, Guarantee(epsilon=3.0, delta=1e-5), 1.2, nn.Identity())
    >>> outcome.accuracy, outcome.guarantee.epsilon
    (0.93, 3.0)
    """

    path: Path
    accuracy: float | None
    guarantee: Guarantee
    noise_multiplier: float
    model: nn.Module
    receipt: Receipt | None = None

    def __repr__(self) -> str:
        """Return one line. The report in the run's folder has everything."""
        cost = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        return short_repr("Outcome", {"path": str(self.path), "accuracy": self.accuracy, **cost})

    def _repr_html_(self) -> str:
        """Return the outcome for a notebook."""
        facts = {
            "folder": self.path,
            "held-out accuracy": None if self.accuracy is None else f"{self.accuracy:.1%}",
            "noise multiplier": f"{self.noise_multiplier:.4g}",
        }
        notes = [str(self.guarantee), *([] if self.receipt is None else [str(self.receipt)])]
        return card("A private model", facts, notes=[*notes, "report.html in the folder says more."])


@dataclass(frozen=True, eq=False, slots=True)
class Trained:
    """The model of a finished run, as `load` returns it.

    Attributes:
        network: The network, in evaluation mode.
        schema: The schema that turns data into inputs.
        classes: The names of the classes or labels; empty if the target is a number.
        guarantee: The guarantee of the run.

    >>> from hush.data import Numeric
    >>> from hush.runs.networks import build_network
    >>> schema = Schema(columns={"age": Numeric(lower=0, upper=100)}, classes=("healthy", "ill"))
    >>> network = build_network("softmax", (1,), 2)
    >>> trained = Trained(network, schema, schema.classes, Guarantee(epsilon=1.0, delta=1e-5))
    >>> trained.classes
    ('healthy', 'ill')
    """

    network: Network
    schema: Schema
    classes: tuple[str, ...]
    guarantee: Guarantee

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        images = self.schema.images
        if images is not None and images.shape is not None:
            return images.shape
        return (num_inputs(self.schema.columns),)

    def __repr__(self) -> str:
        """Return one line: what is predicted, and the cost."""
        values: dict[str, object] = {"target": self.schema.target, "classes": self.classes}
        return short_repr("Trained", {**values, "epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta})

    def _repr_html_(self) -> str:
        """Return the model for a notebook."""
        columns = ", ".join(self.schema.columns) or None
        facts = {"target": self.schema.target, "classes": ", ".join(self.classes) or None, "columns": columns}
        return card(
            "A private model", facts, notes=[str(self.guarantee), "predict(data) takes a file or a data frame."]
        )

    def probabilities(self, data: Any) -> NDArray[np.float64]:
        """Return the probability of each class or label, for all rows or images of some data."""
        if self.schema.target_range is not None:
            raise Unsupported("probabilities of a target that is a number", "Use predict")
        return self._predictions(data)

    def predict(self, data: Any) -> list[Any]:
        """Return the most likely class for each row or image of some data, its number, or the tuple of its labels."""
        values = self._predictions(data)
        if self.schema.target_range is not None:
            lower, upper = self.schema.target_range.lower or 0.0, self.schema.target_range.upper or 0.0
            clamped = np.clip(np.nan_to_num(values), -1.0, 1.0)
            return list((lower + (clamped + 1) / 2 * (upper - lower)).tolist())
        if self.schema.labels:
            return [tuple(np.array(self.classes)[row].tolist()) for row in values > 0.5]
        return [self.classes[label] for label in values.argmax(1)]

    def _predictions(self, data: Any) -> NDArray[np.float64]:
        raw_data = data if isinstance(data, RawData) else open_data(data)
        inputs = torch.from_numpy(np.ascontiguousarray(transform(self.schema, raw_data)))
        return predictions(self.network, inputs, self._kind_of_target())

    def to_onnx(self, path: str | Path) -> None:
        """Write the network as an ONNX file, with classes, schema and guarantee in its metadata.

        Its inputs are what `hush.data.transform` returns, and its outputs one logit for each class or label, or one
        number that is scaled to [-1, 1]. The file is a function of the private model, so the run's guarantee covers it.

        Args:
            path: The file. onnx and onnxscript have to be installed: ``pip install 'hush[onnx]'``.
        """
        metadata = {
            "hush.classes": json.dumps(list(self.classes), ensure_ascii=False),
            "hush.schema": self.schema.to_json(),
            "hush.guarantee": self.guarantee.to_json(),
        }
        export_onnx(self.network, self.shape, Path(path), metadata=metadata)

    def _kind_of_target(self) -> NDArray[Any]:
        """Return an empty array of the kind of targets that the model was trained on."""
        if self.schema.target_range is not None:
            return np.empty(0, dtype=np.float32)
        return np.empty((0, len(self.classes)) if self.schema.labels else 0, dtype=np.int64)


def load(path: str | Path, *, factory: str | None = None) -> Trained:
    """Rebuild the model of a finished run. Nothing in the folder can run code, unless you name the factory yourself.

    Args:
        path: The run's folder.
        factory: For a model of your own, MODULE:FACTORY, as ``--model`` had it. It is imported and called; a folder
            that names another one is refused.

    Returns:
        The model, with its schema and its guarantee.
    """
    folder = Folder(Path(path))
    if not folder.has("guarantee.json"):  # which is written after the model
        raise InvalidArgument("run", str(path), "the folder of a finished run, with a guarantee.json")
    content = folder.read_object(_MODEL)
    if take_format(dict(content)) != _FORMAT:
        raise InvalidArgument("run", str(path), f"the folder of a finished run, with a model.json of {_FORMAT}")
    try:
        return _rebuilt(folder, content, factory)
    # A part is missing, of another kind, or too large: torch says so by the others.
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(error, HushError):
            raise
        advice = "It is damaged, or not by hush"
        raise InvalidArgument("run", str(path), "a folder with a model that can be rebuilt", advice) from None


def _rebuilt(folder: Folder, content: Mapping[str, Any], factory: str | None) -> Trained:
    """Return the model that a folder describes."""
    arguments = content["network"]
    check_factory(arguments["model"], factory)
    classes = tuple(content["classes"])
    if (len(classes) or 1) != arguments["num_classes"]:
        raise ValueError("one name for each class")
    network = build_network(**{**arguments, "shape": tuple(arguments["shape"])})
    network.classifier.load_state_dict(read_weights(folder.path / _WEIGHTS, "run"))
    return Trained(
        network.eval(),
        Schema.from_json(json.dumps(content["schema"])),
        classes,
        Guarantee.from_json((folder.path / "guarantee.json").read_text(encoding="utf-8")),
    )


def stage(
    folder: Folder, plan: RunPlan, data: Prepared, network: Network, figures: Callable[[], dict[str, Any]]
) -> str:
    """Write the model and its held-out metrics among the folder's secrets; return a hash that identifies them.

    The model is written first: a user-defined model may store its inputs in buffers, and is about to see held-out rows.
    The held-out metrics are computed once, and read from the folder if a resumed run has them already.

    Args:
        folder: The run's folder.
        plan: The plan of the run.
        data: The data of the run.
        network: The trained network.
        figures: Computes the held-out metrics.
    """
    if not folder.secret(_FIGURES).exists():
        _write_model(folder, plan, data, network)
        folder.write_json(_FIGURES, figures() if len(data.test) else {}, secret=True)
    digest = hashlib.sha256()
    for name in _STAGED:
        with folder.secret(name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def publish(
    folder: Folder,
    settings: Settings,
    plan: RunPlan,
    data: Prepared,
    network: Network,
    *,
    guarantee: Guarantee,
    budget: list[dict[str, Any]],
    resumed: int = 0,
    more: Mapping[str, Any] | None = None,
    command: str | None = None,
) -> Outcome:
    """Write everything that a run releases. Call it when the run is paid for.

    Args:
        folder: The run's folder, with what `stage` has written.
        settings: The settings of the run.
        plan: The plan of the run.
        data: The data of the run.
        network: The trained network.
        guarantee: The guarantee of the run.
        budget: How the budget was spent.
        resumed: How often the run was resumed.
        more: More rows of the report's table of settings.
        command: The command that repeats the run, if it is not `hush train`.
    """
    metrics: dict[str, Any] = folder.read_json(_FIGURES, secret=True)
    for name in _STAGED if metrics else _STAGED[:-1]:
        folder.write(name, partial(shutil.copyfile, folder.secret(name)))
    if settings.schema is not None:
        folder.write(SCHEMA, settings.schema.to_json())
    folder.write("guarantee.json", guarantee.to_json() + "\n")
    record = _record(folder, settings, plan, data, metrics, guarantee) | {"budget": budget, "resumed": resumed}
    record["hyperparameters"] |= dict(more or {})
    record["command"] = command or repeat_command(settings, folder.path)
    folder.write("report.html", render(record))
    accuracy = metrics.get("accuracy", {}).get("value")
    return Outcome(folder.path, accuracy, guarantee, plan.training.noise_multiplier, network.cpu())


def _write_model(folder: Folder, plan: RunPlan, data: Prepared, network: Network) -> None:
    """Write the weights, and what is needed to rebuild the network around them."""
    from safetensors.torch import save_file

    state = network.classifier.state_dict()
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    # A copy of the file still says that it is private, so that no other run can start from it as a public model.
    folder.write(_WEIGHTS, lambda path: save_file(weights, path, metadata=PRIVATE), secret=True)
    content = {
        "format": _FORMAT,
        "help": "hush.runs.load(FOLDER) rebuilds the network; model.safetensors holds the weights of its classifier",
        "network": network_arguments(plan.settings, data),
        "classes": list(data.classes),
        "schema": json.loads(data.schema.to_json()),
    }
    folder.write_json(_MODEL, content, secret=True)


def _record(
    folder: Folder,
    settings: Settings,
    plan: RunPlan,
    data: Prepared,
    figures: dict[str, Any],
    guarantee: Guarantee,
) -> dict[str, Any]:
    """Return the record of a run, as `hush.report.render` takes it."""
    is_exact = data.test_is_public
    curve = [row for row in folder.rows("metrics.jsonl") if row.get("accuracy") is not None]
    return {
        "title": f"A private model of {Path(settings.data).name}",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "finished": True,
        "guarantee": guarantee.to_json(),
        "private": [] if is_exact else ["accuracy", "error", "curve", "classes", "groups", "calibration"],
        "data": {
            "name": Path(settings.data).name,
            "num_train": len(data.train),
            "num_test": len(data.test),
            "classes": list(data.classes),
            "features": _features(data.shape),
            "unit": str(plan.training.unit),
            "test_is_public": is_exact,
            "how_measured": _how_measured(is_exact, len(data.test) > 0),
        },
        "learned": list(data.learned),
        "public": _public(settings, plan, data),
        "curve": curve,
        **figures,
        "classes": [
            {"accuracy" if key == "value" else key: value for key, value in row.items()}
            for row in figures.get("classes", [])
        ],
        "not_private": _diagnostics(folder),
        "hyperparameters": _hyperparameters(plan),
        "versions": _versions(),
        "warnings": warnings(plan, guarantee.epsilon),
    }


def _features(shape: tuple[int, ...]) -> str:
    """Write the shape of one input.

    >>> _features((1,)), _features((30,)), _features((1, 8, 8))
    ('1 number', '30 numbers', '1 x 8 x 8 numbers')
    """
    return " x ".join(str(side) for side in shape) + (" number" if shape == (1,) else " numbers")


def _how_measured(is_exact: bool, has_test_rows: bool) -> str:
    """Describe how the held-out metrics were measured."""
    if not has_test_rows:
        return "not measured: no units were held out"
    if is_exact:
        return "exactly, on the public test part of the dataset"
    return (
        "with noise, on held-out units that the model was not trained on: the metrics protect them as strongly as the "
        "model protects the others"
    )


def _public(settings: Settings, plan: RunPlan, data: Prepared) -> list[str]:
    """Return the public inputs of the run."""
    sentences = list(data.public_facts)
    if settings.start is not None:
        sentences.append(f"the weights of {Path(settings.start).name}, declared public: {settings.public}")
    if plan.model == "scattering":
        sentences.append("the wavelets of the features, which are fixed and not learned")
    if settings.schema is not None:
        sentences.append("everything that was declared about the data: bounds, values, classes")
    return sentences


def _diagnostics(folder: Folder) -> dict[str, Any]:
    """Return the records of gradients and losses. It is not private; the report frames it."""
    rows = folder.rows("not-private.jsonl")
    clipped = [(row["step"], row["clipped_fraction"]) for row in rows]
    return {
        "clipped_fraction": [{"step": step, "value": value} for step, value in clipped if value is not None],
        "norm_quantiles": [{key: row[key] for key in ("step", "q10", "q50", "q90")} for row in rows],
        "loss": [{"step": row["step"], "value": row["loss"]} for row in rows],
    }


def _hyperparameters(plan: RunPlan) -> dict[str, Any]:
    """Return the report's table: every setting as it was used, and what followed from the settings."""
    training, settings = plan.training, plan.settings
    derived = {
        "sampling": repr(training.sampling),
        "sampling rate": training.sampling_rate,
        "noise multiplier": training.noise_multiplier,
        "clipping": repr(training.clipping),
        "learning rate at the end": plan.learning_rate * rate_factor(1.0),
        "decay of the weights' average": averaging_decay(training.num_steps) if settings.averaging else "none",
    }
    table = {**reported(settings), **derived}
    return {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in table.items()}


def _versions() -> dict[str, str]:
    """Return the versions of the packages that a result depends on."""
    versions = {"python": platform.python_version()}
    for name in ("hush", "torch", "numpy", "scipy", "duckdb", "safetensors"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def repeat_command(settings: Settings, folder: Path, command: str = "train", more: Sequence[str] = ()) -> str:
    """Return the command that repeats a run with fresh noise; its declarations are read from the run's folder.

    >>> repeat_command(Settings(data="people.csv", epsilon=3.0, num_steps=40, averaging=False), Path("run"))
    'hush train people.csv --epsilon 3 --num-steps 40 --no-averaging'
    """
    words = command_words(settings, command, schema=folder / SCHEMA)
    return shlex.join(["hush", command, *words, *more])
