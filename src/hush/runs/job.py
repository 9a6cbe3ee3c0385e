"""A run from beginning to end: read, plan, reserve, learn, train, measure, commit, publish.

    Settings
      -> read_dataset   counts training and held-out units, and stops there for
           plan_for     all settings filled in, with a noise multiplier of 1
           calibrated   the least noise with which learning and training stay within epsilon
           reserve      the cost of the whole plan, before anything is learned
         learns what is not declared (key.json)
      -> TrainingLoop   steps, stored states and metrics on the way (state.pt, metrics.jsonl)
      -> stage          model and held-out metrics, still secret
      -> commit         the run is paid for
      -> publish        model, held-out metrics, guarantee, report

`train` starts a run in a new folder, `resume` continues one. A resumed run repeats everything up to the training loop
with the same key, and finds the same split, the same bounds and the same plan; the loop continues from its state.

One reservation pays for one run. While a process works on it, it holds the reservation (`Reservation.hold`), so a copy
of the folder cannot be continued at the same time, nor from an older state. The commit stores a hash of what is
published: if two copies of a folder reach this point, only the first one publishes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hush.accounting import budget as charging
from hush.accounting.events import QualifiedEvent
from hush.accounting.receipts import check_budget, receipt_of, row_of
from hush.data import Outline, Prepared
from hush.errors import HushError, InvalidArgument, Unsupported, check_instance
from hush.randomness import KeyedSource, RandomSource, source_or_default
from hush.runs.dataset import COUNTS_ARE_PUBLIC, assumptions_of, group_values, plan_for, read_dataset
from hush.runs.draft import evaluation_event, learning_delta
from hush.runs.figures import Measurer
from hush.runs.folder import SECRET, DiskFull, Folder
from hush.runs.networks import Network, check_factory, starting_network
from hush.runs.outcome import Outcome, publish, stage
from hush.runs.outputs.forecast import forecast, warnings
from hush.runs.outputs.labels import LabelMeasurer
from hush.runs.outputs.regression import NumberMeasurer
from hush.runs.progress import Progress, Silence
from hush.runs.run_plan import RunPlan
from hush.runs.settings import Settings
from hush.runs.steps import POINTS, STATE, STATES, Interrupted, TrainingLoop, num_states

_FORMAT = "hush.run/1"
_KEY = "key.json"
_FINGERPRINT = "data.json"
_COUNTS = "counts.json"
_LEARNED = "learned.json"
_COMMITTED = "committed.json"
_BEGUN = 1
"""What a run counts besides its states. From here on, even a refusal may depend on the data: only --force voids it."""

_CONTINUED = "only one run was continued from each stored state; otherwise their costs add up"


def train(
    settings: Settings,
    output: Path,
    *,
    progress: Progress | None = None,
    source: RandomSource | None = None,
    budget: charging.Budget | None = None,
    charged_to: Mapping[str, str] | None = None,
) -> Outcome:
    """Train a private model in a new folder.

    Args:
        settings: The settings of the run.
        output: The folder; it must be new or empty.
        progress: Follows the run; without it, nothing is shown.
        source: The source of secret keys; a TestSource in tests.
        budget: The budget to charge, such as a ledger's. Its cost is reserved before anything is learned
            from the data, and committed before the model is published. An interrupted run keeps its reservation.
        charged_to: How to find the budget again, for run.json: `hush train --resume` reads it.

    Returns:
        The finished run.

    Guarantee:
        The result, and every file of the finished folder except those named not-private and the framed part of
        report.html (`hush.report.publishable` removes it), is (epsilon, delta)-differentially private for the unit
        that the settings name. guarantee.json is computed from the very plan that drew the noise.

    Assumes:
        What `hush.data.prepare` and `hush.training.PrivateTraining` assume (the caller's duty); guarantee.json states
        all of it.
    """
    check_budget(budget)
    folder = Folder(output)
    try:
        folder = Folder.create(output)
        content = {
            "format": _FORMAT,
            "settings": settings.to_json(),
            "charged": budget is not None,
            "budget": dict(charged_to or {}),
        }
        folder.write_json("run.json", content)
        key = source_or_default(source).words(4).tobytes().hex()
        assumption = "test randomness" if source is not None else None
        folder.write_json(_KEY, {"key": key, "assumption": assumption}, secret=True)
    except DiskFull:
        remove_empty(folder)
        raise DiskFull(output, begun=False) from None
    try:
        with folder.locked(), _interruptible(folder):
            return _TrainingJob(folder, settings, progress or Silence(), source, budget).run()
    except (Interrupted, DiskFull):
        raise  # the run can be resumed
    except HushError:
        if not folder.has("metrics.jsonl") and not folder.secret(STATE).exists():
            remove_empty(folder)  # nothing was released: the corrected command may use the same name
        raise


def resume(
    path: Path,
    *,
    progress: Progress | None = None,
    device: str | None = None,
    budget: charging.Budget | None = None,
    factory: str | None = None,
) -> Outcome:
    """Continue a run that was interrupted. Nothing is spent twice. Nothing in the folder can run code.

    Args:
        path: The run's folder.
        progress: Follows the run; without it, nothing is shown.
        device: Another device to train on.
        budget: The budget that the run was started with, if there was one. The run uses what it has reserved there.
        factory: For a model of your own, MODULE:FACTORY, as ``--model`` had it. It is imported and called; a folder
            that names another one is refused.

    Returns:
        The finished run.
    """
    folder = Folder.open(path)
    if folder.finished:
        raise InvalidArgument("resume", str(path), "a run that is not finished", "This one is: see its report.html")
    content = folder.read_object("run.json")
    settings = Settings.from_json(content.get("settings"))
    check_factory(settings.model, factory)
    if content.get("charged", False) != (budget is not None):
        expected = "the budget that the run was started with" if content.get("charged") else "no budget, as it had none"
        raise InvalidArgument("budget", "given" if budget is not None else None, expected)
    if device is not None:
        settings = settings.replace(device=device)
    with folder.locked(), _interruptible(folder):
        return _TrainingJob(folder, settings, progress or Silence(), None, budget).run()


def charged_to(path: Path) -> dict[str, str]:
    """Return how to find the budget that an interrupted run is charged to, as passed to `train`; empty without one."""
    content = Folder.open(path).read_object("run.json").get("budget", {})
    check_instance("budget", content, dict, "The folder's run.json is damaged")
    return {str(name): str(value) for name, value in content.items()}


@contextmanager
def _interruptible(folder: Folder) -> Iterator[None]:
    """Say how to continue after a Ctrl-C outside the steps."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(folder.path) from None


def note_row(folder: Folder, reservation: charging.Reservation) -> None:
    """Write the ledger's row that a run is charged by into run.json."""
    row = row_of(reservation)
    if row is not None:
        folder.write_json("run.json", {**folder.read_json("run.json"), "charged_by": row.to_dict()})


def remove_empty(folder: Folder) -> None:
    """Remove the folder of a run that released nothing."""
    for path in (
        *map(folder.secret, (_KEY, "lock", _FINGERPRINT, _COUNTS, _LEARNED, STATES)),
        folder.path / "run.json",
    ):
        path.unlink(missing_ok=True)
    for path in (folder.path / SECRET, folder.path):
        if path.exists() and not any(path.iterdir()):
            path.rmdir()


def device_named(name: str | None) -> torch.device:
    """Return the device of this name; without a name, a GPU where there is one."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # the device "meta" holds no numbers, and fails here
    except (RuntimeError, AssertionError, NotImplementedError):  # depends on the backend
        raise InvalidArgument("device", name, "a device of this machine, such as cpu") from None
    return device


def compute_features(
    network: Network, inputs: NDArray[np.float32], device: torch.device, progress: Progress, stage: str = "features"
) -> Tensor:
    """Return the features of some inputs, on the device that the network is moved to."""
    if not len(inputs):
        return torch.empty(0)
    tensor = torch.from_numpy(np.ascontiguousarray(inputs))
    features = network.to(device).features(tensor, lambda done, total: progress.show(stage, done, total))
    return features.to(device)


def make_measurer(plan: RunPlan, data: Prepared, *, num_points: int, source: RandomSource | None) -> Measurer:
    """Return the measurer for held-out units."""
    shared: dict[str, Any] = {
        "examples": data.test,
        "classes": data.classes,
        "groups": group_values(data),
        "noise": None if plan.evaluation is None else plan.evaluation.noise_multiplier,
        "num_points": num_points,
        # A new key for each process: a point that is measured again after a crash gets fresh noise, and the measurement
        # before the crash was not published.
        "source": KeyedSource(os.urandom(32), 0) if source is None else source,
    }
    if data.schema.target_range is not None:
        return NumberMeasurer(**shared, target_range=data.schema.target_range)
    return LabelMeasurer(**shared) if data.schema.labels else Measurer(**shared)


def _described_target(data: Prepared) -> str:
    """Return what is predicted, in words."""
    if data.schema.labels:
        return f"{len(data.classes)} labels"
    return "a number" if data.schema.target_range is not None else f"{len(data.classes)} classes"


def _read_key(folder: Folder) -> tuple[bytes, tuple[str, ...]]:
    """Return the key of a run, and what it assumes."""
    secret = folder.read_object(_KEY, secret=True)
    try:
        return bytes.fromhex(secret["key"]), (str(secret["assumption"]),) if secret["assumption"] else ()
    except (KeyError, TypeError, ValueError):
        raise InvalidArgument("run", str(folder.path), f"a folder with a readable {_KEY}") from None


class _TrainingJob:
    """One run in one process."""

    def __init__(
        self,
        folder: Folder,
        settings: Settings,
        progress: Progress,
        source: RandomSource | None,
        budget: charging.Budget | None,
    ) -> None:
        self._folder, self._progress = folder, progress
        self._source, self._budget = source, budget
        self._key, self._key_assumptions = _read_key(folder)
        self._device = device_named(settings.device)
        self._settings = settings.replace(device=str(self._device))
        self._plan: RunPlan | None = None
        self._reservation: charging.Reservation | None = None
        self._num_learned = 0  # releases of learning in this process

    def run(self) -> Outcome:
        """Take the run from the data to the report."""
        try:
            return self._run()
        except (Interrupted, DiskFull):
            raise  # the run can be resumed, with its reservation
        except HushError:
            self._settle_refused()
            raise
        finally:
            if self._reservation is not None:
                self._reservation.release()

    def _run(self) -> Outcome:
        settings, progress = self._settings, self._progress
        data = read_dataset(
            settings,
            self._key,
            learning_delta(settings),
            progress,
            before_learning=self._plan_and_reserve,
            before_noise=self._note_learning,
        )
        assert self._plan is not None
        plan = self._plan
        self._refuse_other_data(data)
        network = starting_network(plan.settings, data)
        loop = TrainingLoop(
            self._folder,
            plan,
            network,
            examples=data.train,
            features=compute_features(network, data.train.inputs, self._device, progress),
            test_features=compute_features(network, data.test.inputs, self._device, progress, "held-out features"),
            measurer=make_measurer(plan, data, num_points=min(POINTS, plan.training.num_steps), source=self._source),
            progress=progress,
            source=self._source,
            stored=self._hold,
        )
        if self._reservation is not None and loop.plan.charged_event() != plan.charged_event():
            raise Unsupported("training under another plan than the one that was charged")
        plan = loop.plan  # from here on, guarantee and metrics are about the object that draws the noise
        self._announce(plan, data)
        network = loop.run()
        self._commit(stage(self._folder, plan, data, network, loop.figures))
        outcome = publish(
            self._folder,
            settings,
            plan,
            data,
            network,
            # Not part of the plan: a ledger must see the same event when a run is resumed.
            guarantee=replace(plan.guarantee((_CONTINUED,) if loop.resumed else ()), charged=row_of(self._reservation)),
            budget=plan.parts(),
            resumed=loop.resumed,
        )
        outcome = replace(outcome, receipt=receipt_of(self._reservation, outcome.guarantee))
        self._folder.finish()
        return outcome

    def _plan_and_reserve(self, outline: Outline) -> None:
        """Make the plan from public numbers, and reserve its cost. After this, everything may depend on the data."""
        self._refuse_other_counts(outline)
        plan = plan_for(outline, self._settings, device=str(self._device))
        self._progress.show("calibrating the noise", 0, 1)
        self._plan = self._with_evaluation(plan.calibrated(), outline)
        for sentence in (*forecast(self._plan, outline), *warnings(self._plan, self._settings.epsilon)):
            self._progress.say(f"Note: {sentence}")
        self._reserve(self._plan)

    def _reserve(self, plan: RunPlan) -> None:
        """Reserve what the run costs, under a name that the run still has when it is resumed."""
        if self._budget is None:
            return
        reservation = self._budget.reserve(
            charging.Charge(
                event=plan.charged_event(),
                purpose=f"hush train: {plan.model} on {Path(self._settings.data).name}"[:400],
                delta=plan.training.delta,
                folder=str(self._folder.path.resolve()),
                request=f"run {hashlib.sha256(b'a run' + self._key).hexdigest()[:32]}",
                resumes=True,
            )
        )
        if reservation.answer is None:
            reservation.hold(_BEGUN + num_states(self._folder))
        elif not self._folder.has_secret_json(_COMMITTED, {"sha256": reservation.answer}):
            raise self._published_elsewhere()
        self._reservation = reservation
        note_row(self._folder, reservation)

    def _note_learning(self, counts: str) -> None:
        """Refuse to learn from other counts than before: each would get noise of its own, and one was paid for.

        What is learned next counts as a first state: it is about to be shown, and a copy of the folder without it
        could learn from other data.
        """
        is_known = self._folder.secret(_LEARNED).exists()
        learned = self._folder.read_json(_LEARNED, secret=True)["sha256"] if is_known else []
        if self._num_learned == len(learned):
            learned.append(counts)
            self._folder.write_json(_LEARNED, {"sha256": learned}, secret=True)
        elif learned[self._num_learned] != counts:
            raise self._other_data()
        self._num_learned += 1
        if not num_states(self._folder):
            self._folder.write_json(STATES, {"states": 1}, secret=True)
            self._hold(1)

    def _hold(self, states: int) -> None:
        """Record that a state was stored. Raise if another process has taken over the run."""
        if self._reservation is not None and self._reservation.answer is None:
            self._reservation.hold(_BEGUN + states)

    def _commit(self, digest: str) -> None:
        """Pay for what was staged, before any of it is published."""
        if self._reservation is None or self._reservation.answer == digest:
            return
        # Written first: after a crash, the folder can tell that the committed model is its own.
        self._folder.write_json(_COMMITTED, {"sha256": digest}, secret=True)
        if self._reservation.answer is not None or self._reservation.commit(answer=digest) != digest:
            raise self._published_elsewhere()

    def _published_elsewhere(self) -> InvalidArgument:
        return InvalidArgument(
            "resume",
            str(self._folder.path),
            "a run whose model was not published yet",
            "Another copy of this folder has published a model, and the budget paid for one",
        )

    def _settle_refused(self) -> None:
        """Settle the reservation of a run that was refused before its first state.

        At most, it has paid for learning.
        """
        reservation, plan = self._reservation, self._plan
        if reservation is None or plan is None or reservation.resumed or reservation.answer is not None:
            return
        if self._folder.secret(STATE).exists() or not reservation.is_open():
            return
        if plan.learning is None:
            reservation.void()
        else:
            training = plan.training
            reservation.commit(QualifiedEvent(plan.learning, training.relation, training.unit, plan.assumptions))

    def _refuse_other_counts(self, outline: Outline) -> None:
        """Refuse to continue with other numbers of units: they would make another plan."""
        counts = {"units": outline.num_units, "held out": outline.num_held_out}
        if not self._folder.secret(_COUNTS).exists():
            self._folder.write_json(_COUNTS, counts, secret=True)
        elif not self._folder.has_secret_json(_COUNTS, counts):
            raise self._other_data()

    def _refuse_other_data(self, data: Prepared) -> None:
        """Refuse to continue with other data: the same noise on both would reveal their difference."""
        digest = hashlib.sha256()
        for part in (data.train, data.test):
            digest.update(np.ascontiguousarray(part.inputs).tobytes() + part.targets.tobytes())
            digest.update(b"" if part.units is None else part.units.tobytes())
        if not self._folder.secret(_FINGERPRINT).exists():
            self._folder.write_json(_FINGERPRINT, {"sha256": digest.hexdigest()}, secret=True)
        elif self._folder.read_json(_FINGERPRINT, secret=True)["sha256"] != digest.hexdigest():
            raise self._other_data()

    def _other_data(self) -> InvalidArgument:
        return InvalidArgument("data", self._settings.data, "the data that the run was started with", "Start a new run")

    def _with_evaluation(self, plan: RunPlan, outline: Outline) -> RunPlan:
        """Return the plan with the cost of the held-out metrics, and with all that the guarantee assumes."""
        evaluation = None
        if not outline.test_is_public and outline.num_held_out:
            evaluation = evaluation_event(self._settings.epsilon, plan.training.delta)
        assumptions = (*assumptions_of(outline), COUNTS_ARE_PUBLIC, *self._key_assumptions)
        if outline.test_is_public:
            assumptions += (f"the test part of {self._settings.data} is the published one, and its metrics are exact",)
        if evaluation is not None:
            assumptions += ("no unit is both held out and trained on: each is assigned to one side at random",)
        return replace(plan, evaluation=evaluation, assumptions=assumptions)

    def _announce(self, plan: RunPlan, data: Prepared) -> None:
        """Show what was learned, and what the run will do."""
        training = plan.training
        for sentence in data.learned:
            self._progress.say(f"  {sentence}")
        test_rows = "in the dataset's own test part" if data.test_is_public else "held out"
        self._progress.say(
            f"Training {plan.model} on {len(data.train):,} examples ({len(data.test):,} {test_rows}), "
            f"{_described_target(data)}, for {training.num_steps} steps of about {training.batch_size:,} units; "
            f"noise multiplier {training.noise_multiplier:.3f}, delta {training.delta:g}."
        )
