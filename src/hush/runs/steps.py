"""The steps of a run, what is measured on the way, and how it is stored."""

from __future__ import annotations

import copy
import math
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from hush.errors import HushError, InvalidArgument
from hush.randomness import RandomSource
from hush.runs.defaults import Recipe
from hush.runs.drafts import Draft, Ready
from hush.runs.figures import Measurer
from hush.runs.folder import Folder
from hush.runs.networks import Network
from hush.runs.progress import Progress
from hush.runs.settings import Settings
from hush.training import Automatic, MovingAverage, PrivateTraining, clipped_sum, merge_lora, privatize

POINTS = 20  # at which the run is stored, and accuracy measured
STATE = "state.pt"
_LOOKED_AT = 256  # examples whose gradients are looked at then, for those who may see the data


class Interrupted(HushError):
    """Somebody ended the run; it can go on."""

    exit_status = 130

    def __init__(self, path: Path, steps: int | None = None, total: int | None = None) -> None:
        after = "" if steps is None else f" after step {steps} of {total}"
        super().__init__(f"interrupted{after}. Go on with: hush train --resume {shlex.quote(str(path))}")


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross entropy of each example; one without a target (-1) has no loss and no gradient."""
    return F.cross_entropy(outputs, targets, reduction="none", ignore_index=-1)


def begin(
    model: nn.Module, data: tuple[Tensor, Tensor], settings: Settings, draft: Draft, source: RandomSource | None
) -> tuple[PrivateTraining, MovingAverage | None]:
    """Begin training with SGD, and an average of the weights if one is wanted."""
    trained = [param for param in model.parameters() if param.requires_grad]
    private = privatize(
        model,
        torch.optim.SGD(trained, lr=draft.recipe.learning_rate, momentum=settings.momentum),
        data,
        delta=draft.plan.delta,
        noise_multiplier=draft.plan.noise_multiplier,
        num_steps=draft.plan.num_steps,
        sampling=draft.plan.sampling,
        clipping=draft.plan.clipping,
        physical_batch_size=draft.recipe.physical_batch_size,
        unit=draft.users,
        starts_from=draft.plan.starts_from,
        source=source,
    )
    return private, MovingAverage(model, decay=draft.recipe.decay) if settings.averaging else None


def after_step(private: PrivateTraining, average: MovingAverage | None, recipe: Recipe) -> None:
    """Take in the new weights, and let the learning rate fall: smaller steps average noise out."""
    for group in private.optimizer.param_groups:  # type: ignore[union-attr]  # one optimizer
        group["lr"] = recipe.learning_rate * recipe.rate(private.steps_taken / private.plan.num_steps)
    if average is not None:
        average.update()


class Training:
    """The steps, and what is measured on the way."""

    measurer: Measurer
    source: RandomSource | None

    def __init__(
        self,
        folder: Folder,
        settings: Settings,
        ready: Ready,
        features: Tensor,
        measured: Tensor,
        device: torch.device,
        progress: Progress,
    ) -> None:
        self._folder, self._ready, self._progress = folder, ready, progress
        self._settings, self._device = settings, device
        self._features, self._measured = features, measured
        self._targets = torch.from_numpy(ready.prepared.train.targets).to(device)
        self.model = ready.network.trained.to(device)
        self.resumed = 0
        self.private: PrivateTraining
        self._average: MovingAverage | None = None
        self._writer: Any = None

    @property
    def steps_taken(self) -> int:
        return self.private.steps_taken

    def run(self) -> Network:
        ready = self._ready
        total = ready.plan.num_steps
        points = sorted({round(total * (place + 1) / POINTS) for place in range(POINTS)} - {0})
        done = {row["step"] for row in self._folder.rows("metrics.jsonl")}
        self.model.train()
        with _patient() as wish:
            for x, y in self.private.loader:
                losses = losses_of(self.model(x), y)
                if not self.private.step(losses).complete:
                    continue
                taken = self.private.steps_taken
                after_step(self.private, self._average, ready.recipe)
                self._progress.show("training", taken, total, self._note)
                if taken in points and taken not in done:
                    self._point(taken)
                if wish.is_set() and taken < total:
                    self._store()
                    raise Interrupted(self._folder.path, taken, total)
        self.private.close()
        if self._average is not None:
            self._average.apply()
        if self._settings.lora is not None:
            merge_lora(self.model)
        return ready.network.eval()

    def begin(self) -> None:
        """Begin, or go on from what was stored."""
        ready, plan = self._ready, self._ready.plan
        draft = Draft(ready.description, ready.recipe, plan, ready.users)
        data = self._features, self._targets
        self.private, self._average = begin(self.model, data, self._settings, draft, self.source)
        self._note = ""
        if self._folder.secret(STATE).exists():
            state = torch.load(self._folder.secret(STATE), weights_only=True, map_location=self._device)
            self.private.load_state_dict(state["run"])
            if self._average is not None:
                self._average.load_state_dict(state["average"])
            self.resumed = state["resumed"] + 1
            self._progress.say(f"Going on after step {self.private.steps_taken} of {plan.num_steps}.")
        if self._settings.tensorboard:
            self._writer = _writer(self._folder.path / "tensorboard")

    def _store(self) -> None:
        state = {
            "run": self.private.state_dict(),
            "average": None if self._average is None else self._average.state_dict(),
            "resumed": self.resumed,
        }
        self._folder.write(STATE, lambda path: torch.save(state, path), secret=True)

    def _point(self, taken: int) -> None:
        """Store the run, then measure: what is told of weights belongs to a state that the run goes on from."""
        self._store()
        row: dict[str, Any] = {"step": taken, "epsilon": self._ready.budget.epsilon(taken)}
        if len(self._measured):
            # A copy: a model of somebody's own may remember what it sees, and this is not what it is trained on.
            model = copy.deepcopy(self.model) if self._average is None else self._average.copy()
            row |= {"accuracy": None, "private": self.measurer.noise is not None}
            share = self.measurer.point(self.probabilities(model))
            row |= {"accuracy": share["value"], "low": share["low"], "high": share["high"]}
        self._folder.append("metrics.jsonl", row)
        self._folder.append("not-private.jsonl", {"step": taken, **self._gradients()})
        shown = [] if row.get("accuracy") is None else [f"accuracy {row['accuracy']:.1%}"]
        self._note = ", ".join([*shown, f"epsilon {row['epsilon']:.2f}"])
        if self._writer is not None:
            for name in ("epsilon", "accuracy"):
                if row.get(name) is not None:
                    self._writer.add_scalar(name, row[name], taken)
            self._writer.flush()

    @torch.no_grad()
    def probabilities(self, model: nn.Module) -> NDArray[np.float64]:
        """Return what a model says of those held out."""
        was = model.training
        model.eval()
        parts = [torch.softmax(model(part), 1).double().cpu() for part in torch.split(self._measured, 1024)]
        model.train(was)
        return torch.cat(parts).numpy()

    def _gradients(self) -> dict[str, float | None]:
        """Return norms of some examples' gradients, and their losses: not private, for whoever may see the data."""
        some = torch.linspace(0, len(self._features) - 1, min(_LOOKED_AT, len(self._features))).long()
        x, y = self._features[some], self._targets[some]
        plain = self._plain()

        def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            return losses_of(model(batch[0]), batch[1])

        norms = clipped_sum(plain, (x, y), loss, clip_norm=self._ready.plan.clipping.clip_norm).norms.double()
        with torch.no_grad():
            losses = loss(plain, (x, y))
        q10, q50, q90 = (
            float(value) for value in torch.quantile(norms.nan_to_num(), torch.tensor([0.1, 0.5, 0.9]).to(norms))
        )
        clipped = float((norms > self._ready.plan.clipping.clip_norm).double().mean())
        if isinstance(self._ready.plan.clipping, Automatic):
            clipped = math.nan  # all of them are scaled
        found = {"clipped_fraction": clipped, "q10": q10, "q50": q50, "q90": q90, "loss": float(losses.mean())}
        return {name: value if np.isfinite(value) else None for name, value in found.items()}

    def _plain(self) -> nn.Module:
        """Return a copy of the model that is in no run."""
        return copy.deepcopy(self.model)


@contextmanager
def _patient() -> Iterator[threading.Event]:
    """Take Ctrl-C as a wish to stop after the step; a second one stops at once, as ever."""
    wish = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return

    def handle(number: int, frame: Any) -> None:
        if wish.is_set():
            raise KeyboardInterrupt
        wish.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _writer(path: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InvalidArgument("tensorboard", True, "the package tensorboard", "pip install tensorboard") from None
    return SummaryWriter(str(path))
