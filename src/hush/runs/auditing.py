"""An audit of a finished run: retrains with canaries as often as time allows, and attacks the models.

    read the data  ->  same plan  ->  for each model: coins, wrong labels, training  ->  scores  ->  bound

A canary is a privacy unit with a wrong label. For each model a coin decides whether a canary takes part. The score of a
canary is the log-odds that the model gives to its wrong label. Scores of canaries that took part are higher, the more
the training leaks; the audit turns that into a lower bound on epsilon.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hush.audit import AuditResult, roc
from hush.audit.canaries import LabelCanaries, audit_label_canaries, calibrated_scores, label_canaries
from hush.audit.membership import roc_figure
from hush.data import Prepared
from hush.errors import InvalidArgument, Unsupported, check_positive
from hush.guarantee import Guarantee
from hush.randomness import RandomSource, source_or_default
from hush.report import with_audit
from hush.runs.dataset import plan_for, read_dataset
from hush.runs.draft import learning_delta
from hush.runs.folder import Folder, explained_errors
from hush.runs.job import compute_features, device_named
from hush.runs.networks import check_factory, starting_network
from hush.runs.progress import Progress, Silence
from hush.runs.run_plan import RunPlan
from hush.runs.settings import Settings
from hush.runs.steps import train_completely

AUDIT = "not-private-audit.json"
_MAX_CANARIES = 1000
_UNITS_PER_CANARY = 10
_MAX_MODELS = 200
_UNCHANGED, _NO_TARGET = -2, -1  # labels of rows that belong to no canary, and of rows without a gradient
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Retraining:
    """The data and settings shared by all models of the audit.

    Attributes:
        plan: The plan of the run.
        data: The data of the run.
        features: The features of all rows that are trained on.
        unit_of_row: The unit of each row, numbered from 0.
        device: The device to train on.
    """

    plan: RunPlan
    data: Prepared
    features: Tensor
    unit_of_row: NDArray[np.int64]
    device: torch.device

    @property
    def targets(self) -> NDArray[np.int64]:
        """The class of each row."""
        return self.data.train.targets

    @property
    def num_units(self) -> int:
        """The number of units."""
        return int(self.unit_of_row.max()) + 1


def audit(
    path: str | Path,
    *,
    seconds: float = 60.0,
    confidence: float = 0.95,
    progress: Progress | None = None,
    source: RandomSource | None = None,
    factory: str | None = None,
) -> AuditResult:
    """Attack a finished run, and write the result into its folder and its report.

    The run's data are read again, and its training is repeated with the run's own settings and noise: as often as the
    time allows, and at least once. Up to a tenth of the units become canaries. A canary has a wrong label if its coin
    says that it takes part, and no influence if not.

    The files that this writes, ``not-private-audit.json`` and a framed section of ``report.html``, are not private:
    they are computed from many models, which together reveal more than the one model that was released.

    Args:
        path: The folder of a finished run; its data must still be where they were.
        seconds: How long to train.
        confidence: The confidence of the bound.
        progress: Follows the audit; without it, nothing is shown.
        source: The source of keys and coins; a TestSource in tests.
        factory: For a model of your own, MODULE:FACTORY, as passed to ``--model``. It is imported and called; a folder
            that names another one is refused.

    Returns:
        The bound; ``epsilon_at_best`` in its details is the largest bound that so many canaries could have shown.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of the run's procedure.

    Assumes:
        The data are those that the run was made from (the caller's duty; the audit is of the procedure on the data as
        they are).

    References:
        Steinke, Nasr & Jagielski 2023 (canaries by coins, the bound); Carlini et al. 2022 (scores: log-odds of the
        label, minus what other models say).
    """
    check_positive("seconds", seconds, maximum=1e9)
    folder = Folder(Path(path))
    if not (folder.has("guarantee.json") and folder.has("run.json") and folder.finished):
        raise InvalidArgument("run", str(path), "the folder of a finished run")
    progress, coins = progress or Silence(), source_or_default(source)
    claim = Guarantee.from_json((folder.path / "guarantee.json").read_text(encoding="utf-8"))
    settings = Settings.from_json(folder.read_object("run.json").get("settings"))
    check_factory(settings.model, factory)
    retraining = _prepare_retraining(settings, coins, progress)
    scores, included = _train_models(retraining, seconds, coins, progress)
    result = audit_label_canaries(
        scores, included, delta=claim.delta, confidence=confidence, unit=claim.unit, relation=claim.relation
    )
    _write(folder, result, claim, scores, included)
    return result


def _prepare_retraining(settings: Settings, source: RandomSource, progress: Progress) -> _Retraining:
    """Read the data as the run did, and make the same plan."""
    if settings.start is not None:
        progress.say("Every model starts from the public checkpoint, as the run did.")
    device = device_named(settings.device)
    data = read_dataset(settings, source.words(4).tobytes(), learning_delta(settings), progress)
    if not data.schema.predicts_class:
        raise Unsupported("an audit of a model of numbers or labels: canaries are rows with a wrong class")
    plan = plan_for(data.outline, settings, device=str(device)).calibrated()
    features = compute_features(starting_network(plan.settings, data), data.train.inputs, device, progress)
    units = data.train.units
    unit_of_row = np.arange(len(data.train)) if units is None else np.unique(units, return_inverse=True)[1]
    return _Retraining(plan, data, features, unit_of_row, device)


def _train_models(
    retraining: _Retraining, seconds: float, source: RandomSource, progress: Progress
) -> tuple[Floats, Booleans]:
    """Train as often as time allows; return the scores and the coins of all canaries, [models, canaries]."""
    first_rows = np.unique(retraining.unit_of_row, return_index=True)[1]
    num_canaries = min(len(first_rows) // _UNITS_PER_CANARY, _MAX_CANARIES)
    if num_canaries < 1:
        raise Unsupported("an audit of a run on fewer than ten units: too few for canaries")
    canaries = label_canaries(
        retraining.targets[first_rows],
        num_classes=len(retraining.data.classes),
        num_canaries=num_canaries,
        source=source,
    )
    started = time.monotonic()
    scores: list[Floats] = []
    coins: list[Booleans] = []
    while len(scores) < _MAX_MODELS:
        elapsed = time.monotonic() - started
        if scores and elapsed * (1 + 1 / len(scores)) > seconds:
            break  # another model would take too long
        canaries = canaries.again(source)
        tick = _clock(progress, started, seconds, f"{len(scores)} models")
        scores.append(_train_model(retraining, canaries, source, tick))
        coins.append(canaries.included)
    return np.stack(scores), np.stack(coins)


def _clock(progress: Progress, started: float, seconds: float, note: str) -> Callable[[], None]:
    """Return a function that shows how much of the time has passed."""

    def tick() -> None:
        elapsed = min(int(time.monotonic() - started), int(seconds))
        progress.show("training again", elapsed, max(int(seconds), 1), note)

    return tick


def _train_model(
    retraining: _Retraining, canaries: LabelCanaries, source: RandomSource, tick: Callable[[], None]
) -> Floats:
    """Train one model with canaries, and return how well it knows their labels."""
    plan, data = retraining.plan, retraining.data
    network = starting_network(plan.settings, data).to(retraining.device)
    label_of_unit = np.full(retraining.num_units, _UNCHANGED)
    label_of_unit[canaries.units] = np.where(canaries.included, canaries.labels, _NO_TARGET)
    labels = label_of_unit[retraining.unit_of_row]
    targets = torch.from_numpy(np.where(labels == _UNCHANGED, retraining.targets, labels)).to(retraining.device)
    training_data = retraining.features, targets
    train_completely(plan, network, training_data, units=data.train.units, source=source, tick=tick)
    return _log_odds(network.classifier.eval(), retraining, canaries)


@torch.no_grad()
def _log_odds(model: nn.Module, retraining: _Retraining, canaries: LabelCanaries) -> Floats:
    """Return the log-odds of each canary's wrong label, averaged over its rows."""
    canary_of_unit = np.full(retraining.num_units, -1)
    canary_of_unit[canaries.units] = np.arange(len(canaries.units))
    rows = np.flatnonzero(canary_of_unit[retraining.unit_of_row] >= 0)
    canary_of_row = canary_of_unit[retraining.unit_of_row[rows]]
    features = retraining.features[torch.from_numpy(rows).to(retraining.device)]
    logits = torch.cat([model(part).double() for part in torch.split(features, 1024)]).cpu()
    labels = torch.from_numpy(canaries.labels[canary_of_row]).unsqueeze(1)
    label_logits = logits.gather(1, labels).squeeze(1)
    other_logits = logits.scatter(1, labels, -torch.inf).logsumexp(1)
    odds = (label_logits - other_logits).nan_to_num(0.0).numpy()
    return np.asarray(np.bincount(canary_of_row, odds) / np.bincount(canary_of_row))


def _write(folder: Folder, result: AuditResult, claim: Guarantee, scores: Floats, included: Booleans) -> None:
    """Write the audit into the run's folder and into its report."""
    centred = calibrated_scores(scores)
    curve = roc(centred[included], centred[~included])
    content: dict[str, Any] = {
        **json.loads(result.to_json()),
        "sentence": result.compare(claim).sentence,
        "claimed": claim.to_json(),
        "facts": {
            "Models trained again": len(scores),
            "Area under the curve": round(float(curve.auc), 4),
            "Largest epsilon it could have shown": round(float(result.details["epsilon_at_best"]), 3),
        },
        "roc": [[float(rate), float(curve.tpr_at(float(rate)))] for rate in _false_positive_rates(curve.num_out)],
    }
    _replace_file(folder.path / AUDIT, json.dumps(content, indent=2, allow_nan=False) + "\n")
    if folder.has("report.html"):
        page = (folder.path / "report.html").read_text(encoding="utf-8")
        figure = roc_figure({"the attack": curve}, claimed=claim if claim.epsilon < math.inf else None)
        _replace_file(folder.path / "report.html", with_audit(page, content, figure))


def _false_positive_rates(num_out: int) -> Floats:
    """Return the rates at which the curve is drawn, from the smallest that can be observed to 1."""
    return np.minimum(np.geomspace(1 / max(num_out, 1), 1.0, 200) * (1 + 1e-12), 1.0)


def _replace_file(path: Path, text: str) -> None:
    """Write a file that only its owner can read, completely or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    with explained_errors(path.parent):
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
