"""The training steps of a run, with stored states and intermediate measurements.

`start` begins a private training under the plan of a run; `hush.runs.tuning` and `hush.runs.auditing` train with it,
too. `TrainingLoop` is what `hush train` does with it. At up to 20 points it first stores the state, then measures the
held-out accuracy: anything published belongs to a state from which the run can continue after a crash.
"""

from __future__ import annotations

import copy
import math
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hush.data import Examples
from hush.errors import HushError, InvalidArgument
from hush.randomness import RandomSource
from hush.runs.figures import Measurer
from hush.runs.folder import Folder, resume_command
from hush.runs.networks import Network
from hush.runs.outputs.losses import predictions, row_losses
from hush.runs.progress import Progress
from hush.runs.run_plan import RunPlan
from hush.training import Automatic, MovingAverage, PrivateTraining, Users, clipped_sum, merge_lora, start_training

POINTS = 20  # how often a run is stored, and its accuracy measured
STATE = "state.pt"
STATES = "states.json"  # how many states were stored
_AVERAGED_SHARE = 10  # the moving average covers about the last tenth of the steps
_INSPECTED = 256  # examples whose gradients are inspected at each point; the result is not private


class Interrupted(HushError):
    """The run was interrupted; `hush train --resume` continues it.

    >>> print(Interrupted(Path("runs/people-1"), 7, 100))
    interrupted after step 7 of 100. Continue with: hush train --resume runs/people-1
    """

    exit_status = 130

    def __init__(self, path: Path, steps: int | None = None, total: int | None = None) -> None:
        after = "" if steps is None else f" after step {steps} of {total}"
        super().__init__(f"interrupted{after}. Continue with: {resume_command(path)}")


def start(
    plan: RunPlan,
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    *,
    units: NDArray[np.int64] | None,
    source: RandomSource | None,
) -> tuple[PrivateTraining, MovingAverage | None]:
    """Start training a model with SGD under the plan of a run; also return the average of its weights, if wanted.

    Args:
        plan: The plan of the run.
        model: The model to train.
        data: Features and targets.
        units: The unit of each row; None if each row is its own unit.
        source: The source of the key for samples and noise; only tests pass one.
    """
    users = None if units is None else Users(units, rows_per_unit=plan.settings.rows_per_unit)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=plan.learning_rate, momentum=plan.settings.momentum)
    private = start_training(plan.training, model, optimizer, data, users=users, source=source)
    if not plan.settings.averaging:
        return private, None
    return private, MovingAverage(model, decay=averaging_decay(plan.training.num_steps))


def rate_factor(progress: float) -> float:
    """Return the factor on the learning rate after this share of the steps.

    It is 1 for the first half, and then falls to 0.1: smaller steps average the noise out.

    >>> rate_factor(0.2), rate_factor(0.75), round(rate_factor(1.0), 6)
    (1.0, 0.55, 0.1)
    """
    return 1.0 if progress < 0.5 else 1.0 - 1.8 * (progress - 0.5)


def averaging_decay(num_steps: int) -> float:
    """Return the decay of the weights' moving average."""
    return max(1 - _AVERAGED_SHARE / max(num_steps, 2 * _AVERAGED_SHARE), 0.5)


def after_step(private: PrivateTraining, average: MovingAverage | None, learning_rate: float) -> None:
    """Lower the learning rate, and add the new weights to the average."""
    for group in private.optimizer.param_groups:  # type: ignore[union-attr]  # one optimizer
        group["lr"] = learning_rate * rate_factor(private.steps_taken / private.plan.num_steps)
    if average is not None:
        average.update()


def finish(plan: RunPlan, private: PrivateTraining, average: MovingAverage | None) -> None:
    """End training: put the averaged weights into the model, and merge LoRA adapters into its layers."""
    model = private.close()
    if average is not None:
        average.apply()
    if plan.settings.lora is not None:
        merge_lora(model)


def train_completely(
    plan: RunPlan,
    network: Network,
    data: tuple[Tensor, Tensor],
    *,
    units: NDArray[np.int64] | None,
    source: RandomSource | None,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Train a network's classifier from the first step to the last; ``tick`` is called after each."""
    model = network.classifier
    private, average = start(plan, model, data, units=units, source=source)
    model.train()
    for x, y in private.loader:
        if private.step(row_losses(model(x), y)).complete:
            after_step(private, average, plan.learning_rate)
            tick()
    finish(plan, private, average)


def num_states(folder: Folder) -> int:
    """Return how many states a run has stored. After a crash in between, it may be one too few, never too many."""
    return int(folder.read_json(STATES, secret=True)["states"]) if folder.secret(STATES).exists() else 0


class TrainingLoop:
    """The steps of one run in its folder, with what is measured on the way.

    Attributes:
        plan: The plan of the run. Once training is started, its training plan is the one that draws the noise.
        model: The classifier that is trained.
        resumed: How often the run was resumed.
    """

    def __init__(
        self,
        folder: Folder,
        plan: RunPlan,
        network: Network,
        *,
        examples: Examples,
        features: Tensor,
        test_features: Tensor,
        measurer: Measurer,
        progress: Progress,
        source: RandomSource | None,
        stored: Callable[[int], None],
    ) -> None:
        """Start training, or continue from the stored state.

        Args:
            folder: The run's folder.
            plan: The plan of the run.
            network: The network whose classifier is trained.
            examples: The training examples.
            features: Their features.
            test_features: The features of the held-out rows.
            measurer: Measures the model on them.
            progress: Notified of each step.
            source: Where the key of samples and noise comes from, in tests.
            stored: Called with the number of stored states, before anything of the last one is published.
        """
        self.model = network.classifier.to(features.device)
        self.resumed = 0
        self._folder, self._network, self._progress = folder, network, progress
        self._features, self._test_features, self._measurer = features, test_features, measurer
        self._targets = torch.from_numpy(examples.targets).to(features.device)
        self._note, self._stored, self._num_states = "", stored, num_states(folder)
        training_data = features, self._targets
        self._private, self._average = start(plan, self.model, training_data, units=examples.units, source=source)
        # From here on there is one training plan: guarantee, charge and metrics are about the one that draws the noise.
        self.plan = plan.with_training(self._private.plan)
        if folder.secret(STATE).exists():
            self._load_state()
        self._writer = _tensorboard(folder.path / "tensorboard") if plan.settings.tensorboard else None

    def _load_state(self) -> None:
        """Continue from the stored state, with new keys for the noise that is left."""
        try:
            state = torch.load(self._folder.secret(STATE), weights_only=True, map_location=self._features.device)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError):  # what it says may be about the content
            raise InvalidArgument("resume", str(self._folder.path), f"a folder with a readable {STATE}") from None
        self._private.load_state_dict(state["run"])
        if self._average is not None:
            self._average.load_state_dict(state["average"])
        self.resumed = state["resumed"] + 1
        self._progress.say(f"Continuing after step {self._private.steps_taken} of {self.plan.training.num_steps}.")

    def run(self) -> Network:
        """Run the remaining steps, and return the trained network."""
        total = self.plan.training.num_steps
        points = {round(total * number / POINTS) for number in range(1, POINTS + 1)} - {0}
        points -= {row["step"] for row in self._folder.rows("metrics.jsonl")}
        self.model.train()
        with _deferred_interrupt() as interrupted:
            for x, y in self._private.loader:
                losses = row_losses(self.model(x), y)
                if not self._private.step(losses).complete:
                    continue
                taken = self._private.steps_taken
                after_step(self._private, self._average, self.plan.learning_rate)
                self._progress.show("training", taken, total, self._note)
                if taken in points:
                    self._store_and_measure(taken)
                if interrupted.is_set() and taken < total:
                    self._store()
                    raise Interrupted(self._folder.path, taken, total)
        finish(self.plan, self._private, self._average)
        return self._network.eval()

    def figures(self) -> dict[str, Any]:
        """Return all held-out metrics of the model; call it once."""
        return self._measurer.figures(predictions(self.model, self._test_features, self._measurer.examples.targets))

    def _store(self) -> None:
        """Store all that resumes the run. It contains the keys of the noise, so it is one of the secrets."""
        state = {
            "run": self._private.state_dict(),
            "average": None if self._average is None else self._average.state_dict(),
            "resumed": self.resumed,
        }
        self._folder.write(STATE, lambda path: torch.save(state, path), secret=True)
        self._num_states += 1
        self._folder.write_json(STATES, {"states": self._num_states}, secret=True)
        self._stored(self._num_states)

    def _store_and_measure(self, taken: int) -> None:
        """Store the run, then measure: metrics are published only for a state that the run continues from."""
        self._store()
        row: dict[str, Any] = {"step": taken, "epsilon": self.plan.epsilon(taken)}
        if len(self._test_features):
            # A copy: a user's own model may keep what it sees in its buffers, and must not see held-out rows.
            model = copy.deepcopy(self.model) if self._average is None else self._average.copy()
            targets = self._measurer.examples.targets
            share = self._measurer.point(predictions(model, self._test_features, targets))
            row |= {"accuracy": share["value"], "private": self._measurer.noise is not None}
            row |= {"low": share["low"], "high": share["high"]}
        self._folder.append("metrics.jsonl", row)
        self._folder.append("not-private.jsonl", {"step": taken, **self._inspect_gradients()})
        accuracy = [] if row.get("accuracy") is None else [f"accuracy {row['accuracy']:.1%}"]
        self._note = ", ".join([*accuracy, f"epsilon {row['epsilon']:.2f}"])
        if self._writer is not None:
            for name in ("epsilon", "accuracy"):
                if row.get(name) is not None:
                    self._writer.add_scalar(name, row[name], taken)
            self._writer.flush()

    def _inspect_gradients(self) -> dict[str, float | None]:
        """Return quantiles of some examples' gradient norms, and their mean loss. They are not private."""
        count = min(_INSPECTED, len(self._features))
        rows = torch.linspace(0, len(self._features) - 1, count).long()
        batch = self._features[rows], self._targets[rows]
        model = copy.deepcopy(self.model)  # which no private training watches
        clipping = self.plan.training.clipping

        def losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            return row_losses(model(batch[0]), batch[1])

        norms = clipped_sum(model, batch, losses, clip_norm=clipping.clip_norm).norms.double()
        with torch.no_grad():
            mean_loss = float(losses(model, batch).mean())
        q10, q50, q90 = (
            float(value) for value in torch.quantile(norms.nan_to_num(), torch.tensor([0.1, 0.5, 0.9]).to(norms))
        )
        clipped = float((norms > clipping.clip_norm).double().mean())
        if isinstance(clipping, Automatic):
            clipped = math.nan  # every gradient is scaled
        values = {"clipped_fraction": clipped, "q10": q10, "q50": q50, "q90": q90, "loss": mean_loss}
        return {name: value if np.isfinite(value) else None for name, value in values.items()}


@contextmanager
def _deferred_interrupt() -> Iterator[threading.Event]:
    """Treat Ctrl-C as a request to stop after the current step; a second Ctrl-C stops at once."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def handle(number: int, frame: Any) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tensorboard(path: Path) -> Any:
    """Return a writer of TensorBoard's files; the package may be missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InvalidArgument("tensorboard", True, "the package tensorboard", "pip install tensorboard") from None
    return SummaryWriter(str(path))
