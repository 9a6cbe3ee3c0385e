"""An audit of a finished run: the same training again, with canaries, as often as time allows."""

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
from hush.errors import InvalidArgument, Unsupported, check_positive
from hush.guarantee import Guarantee
from hush.randomness import RandomSource, source_or_default
from hush.report import with_audit
from hush.runs.budget import calibrated
from hush.runs.drafts import Draft, drafted, read
from hush.runs.folder import Folder, telling
from hush.runs.job import device_named
from hush.runs.networks import adapt
from hush.runs.progress import Progress, Silence
from hush.runs.settings import Settings
from hush.runs.steps import after_step, begin, losses_of
from hush.training import merge_lora

AUDIT = "not-private-audit.json"
_MOST_CANARIES = 1000
_MOST_RUNS = 200
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Shadow:
    """What is trained again.

    Attributes:
        settings, draft: As the run was.
        features: Of all rows that are trained on.
        targets: Their classes.
        unit_of: Whose each row is: a number from 0 on.
        device: Where to train.
    """

    settings: Settings
    draft: Draft
    features: Tensor
    targets: NDArray[np.int64]
    unit_of: NDArray[np.int64]
    device: torch.device


def audit(
    path: str | Path,
    *,
    seconds: float = 60.0,
    confidence: float = 0.95,
    progress: Progress | None = None,
    source: RandomSource | None = None,
) -> AuditResult:
    """Attack a finished run, and write what was found into its folder and its report.

    The run's data are read again, and its training is repeated with the run's own settings and noise, within the time
    given and once at least. Up to a tenth of the units become canaries: with a wrong label if their coin says that they
    take part, and without any influence if not. How well the models know the wrong labels bounds epsilon.

    What is written, ``not-private-audit.json`` and a framed section of ``report.html``, is not private: it is computed
    from many models, which together give away more than the one that was promised.

    Args:
        path: The folder of a finished run; its data must still be where they were.
        seconds: How long to train.
        confidence: Of the bound.
        progress: Who is told how far it is.
        source: Where keys and coins come from; for tests, a TestSource.

    Returns:
        The bound; ``epsilon_at_best`` in its details is the most that so many canaries could have shown.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of the run's procedure.

    Assumes:
        The data are those that the run was made from (the caller's duty; the audit is of the procedure on what is
        there). A model of one's own is built again by its factory, which is run (the caller's duty to trust it).

    References:
        Steinke, Nasr & Jagielski 2023 (canaries by coins, the bound); Carlini et al. 2022 (scores: log-odds of the
        label, less what other models say).
    """
    check_positive("seconds", seconds, maximum=1e9)
    folder = Folder(Path(path))
    if not (folder.has("guarantee.json") and folder.has("run.json") and folder.finished):
        raise InvalidArgument("run", str(path), "the folder of a finished run")
    told, own = progress or Silence(), source_or_default(source)
    claimed = Guarantee.from_json((folder.path / "guarantee.json").read_text(encoding="utf-8"))
    shadow = _shadow(Settings.from_json(folder.read_json("run.json")["settings"]), own, told)
    scores, included = _trained(shadow, seconds, own, told)
    found = audit_label_canaries(
        scores, included, delta=claimed.delta, confidence=confidence, unit=claimed.unit, relation=claimed.relation
    )
    _write(folder, found, claimed, scores, included)
    return found


def _shadow(settings: Settings, source: RandomSource, progress: Progress) -> _Shadow:
    """Read the data as the run did, and plan the same training."""
    if settings.train_only or settings.lora is not None or settings.start is not None:
        progress.say("Every model starts from the public checkpoint, as the run did.")
    device = device_named(settings.device)
    prepared = read(settings, source.words(4).tobytes(), settings.delta or 1e-5, progress)
    draft = drafted(settings, prepared)
    plan = calibrated(draft.plan, prepared.event, settings.epsilon)
    given = torch.from_numpy(np.ascontiguousarray(prepared.train.inputs))
    network = draft.description.build().to(device)
    features = network.features(given, lambda done, total: progress.show("features", done, total)).to(device)
    units = prepared.train.units
    unit_of = np.arange(len(prepared.train)) if units is None else np.unique(units, return_inverse=True)[1]
    draft = Draft(draft.description, draft.recipe, plan, draft.users)
    return _Shadow(settings, draft, features, prepared.train.targets, unit_of, device)


def _trained(
    shadow: _Shadow, seconds: float, source: RandomSource, progress: Progress
) -> tuple[Floats, NDArray[np.bool_]]:
    """Train as often as time allows; return the scores of all canaries, and their coins, [runs, canaries]."""
    first = np.unique(shadow.unit_of, return_index=True)[1]
    count = min(len(first) // 10, _MOST_CANARIES)
    if count < 1:
        raise Unsupported("an audit of a run on fewer than ten units: too few for canaries")
    canaries = label_canaries(
        shadow.targets[first],
        num_classes=shadow.draft.description.num_classes,
        num_canaries=count,
        source=source,
    )
    began = time.monotonic()
    scores: list[Floats] = []
    coins: list[NDArray[np.bool_]] = []
    while len(scores) < _MOST_RUNS:
        passed = time.monotonic() - began
        if scores and passed * (1 + 1 / len(scores)) > seconds:
            break  # another one would take too long
        note = f"{len(scores)} models"
        canaries = canaries.again(source)
        scores.append(_scores_of_one(shadow, canaries, source, _ticking(progress, began, seconds, note)))
        coins.append(canaries.included)
    return np.stack(scores), np.stack(coins)


def _ticking(progress: Progress, began: float, seconds: float, note: str) -> Callable[[], None]:
    def tick() -> None:
        progress.show("training again", min(int(time.monotonic() - began), int(seconds)), max(int(seconds), 1), note)

    return tick


def _scores_of_one(shadow: _Shadow, canaries: LabelCanaries, source: RandomSource, tick: Callable[[], None]) -> Floats:
    """Train one model with canaries, and return how well it knows their labels."""
    network = shadow.draft.description.build()
    adapt(network, shadow.settings)
    model = network.trained.to(shadow.device)
    label_of = np.full(int(shadow.unit_of.max()) + 1, -2)
    label_of[canaries.units] = np.where(canaries.included, canaries.labels, -1)  # -1: no loss, and no gradient
    planted = label_of[shadow.unit_of]
    targets = torch.from_numpy(np.where(planted == -2, shadow.targets, planted)).to(shadow.device)
    data = shadow.features, targets
    private, average = begin(model, data, shadow.settings, shadow.draft, source)
    model.train()
    for x, y in private.loader:
        if private.step(losses_of(model(x), y)).complete:
            after_step(private, average, shadow.draft.recipe)
            tick()
    private.close()
    if average is not None:
        average.apply()
    if shadow.settings.lora is not None:
        merge_lora(model)
    return _known(model.eval(), shadow, canaries)


@torch.no_grad()
def _known(model: nn.Module, shadow: _Shadow, canaries: LabelCanaries) -> Floats:
    """Return the log-odds of each canary's wrong label, the mean over its rows."""
    place = np.full(int(shadow.unit_of.max()) + 1, -1)
    place[canaries.units] = np.arange(len(canaries.units))
    rows = np.flatnonzero(place[shadow.unit_of] >= 0)
    owners = place[shadow.unit_of[rows]]
    some = shadow.features[torch.from_numpy(rows).to(shadow.device)]
    logits = torch.cat([model(part).double() for part in torch.split(some, 1024)]).cpu()
    labels = torch.from_numpy(canaries.labels[owners]).unsqueeze(1)
    own = logits.gather(1, labels).squeeze(1)
    others = logits.scatter(1, labels, -torch.inf).logsumexp(1)
    odds = (own - others).nan_to_num(0.0).numpy()
    return np.asarray(np.bincount(owners, odds) / np.bincount(owners))


def _write(folder: Folder, found: AuditResult, claimed: Guarantee, scores: Floats, included: NDArray[np.bool_]) -> None:
    """Write the audit beside the run, and into its report."""
    centred = calibrated_scores(scores)
    curve = roc(centred[included], centred[~included])
    content: dict[str, Any] = {
        **json.loads(found.to_json()),
        "sentence": found.compare(claimed).sentence,
        "claimed": claimed.to_json(),
        "facts": {
            "Models trained again": len(scores),
            "Area under the curve": round(float(curve.auc), 4),
            "Largest epsilon it could have shown": round(float(found.details["epsilon_at_best"]), 3),
        },
        "roc": [[float(rate), float(curve.tpr_at(float(rate)))] for rate in _rates(curve.num_out)],
    }
    _replace(folder.path / AUDIT, json.dumps(content, indent=2, allow_nan=False) + "\n")
    if folder.has("report.html"):
        page = (folder.path / "report.html").read_text(encoding="utf-8")
        drawn = roc_figure({"the attack": curve}, claimed=claimed if claimed.epsilon < math.inf else None)
        _replace(folder.path / "report.html", with_audit(page, content, drawn))


def _rates(num_out: int) -> Floats:
    """Return false positive rates to draw the curve at, from the smallest that can be seen to all."""
    return np.minimum(np.geomspace(1 / max(num_out, 1), 1.0, 200) * (1 + 1e-12), 1.0)


def _replace(place: Path, text: str) -> None:
    """Write a file that only its owner can read, all of it or nothing."""
    beside = place.with_name(f".{place.name}.partial")
    with telling(place.parent):
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
