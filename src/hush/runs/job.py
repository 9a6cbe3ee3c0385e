"""A run from beginning to end: read, learn what is not declared, train, measure, write down."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hush.accounting import budget as charging
from hush.data import Prepared
from hush.errors import HushError, InvalidArgument
from hush.randomness import KeyedSource, RandomSource, source_or_default
from hush.runs.budget import RunCost, calibrated
from hush.runs.drafts import COUNTED, Ready, drafted, read, stated_by, values_of_groups
from hush.runs.figures import Measurer, evaluation_noise
from hush.runs.folder import Folder, NoRoom
from hush.runs.networks import adapt
from hush.runs.outcome import Outcome, publish
from hush.runs.progress import Progress, Silence
from hush.runs.settings import Settings
from hush.runs.steps import POINTS, STATE, Interrupted, Training

_KEY = "key.json"


def train(
    settings: Settings,
    output: Path,
    *,
    progress: Progress | None = None,
    source: RandomSource | None = None,
    budget: charging.Budget | None = None,
) -> Outcome:
    """Do a run, in a new folder.

    Args:
        settings: What to do.
        output: The folder; it must be new or empty.
        progress: Who is told how far it is.
        source: Where secret keys come from; for tests, a TestSource.
        budget: What the run is charged to, such as a ledger's data set: reserved before anything is told, committed
            when it is finished. An interrupted run keeps what it has reserved.

    Guarantee:
        What is returned, and every file of the finished folder but those named not-private and the framed part of
        report.html (`hush.report.publishable` takes it out), is (epsilon, delta)-differentially private for the unit
        that the settings name.

    Assumes:
        What `hush.data.prepare` and `hush.training.PrivateTraining` assume (the caller's duty), all of it stated in
        guarantee.json.
    """
    folder = Folder(output)
    try:
        folder = Folder.create(output)
        said = {"settings": settings.to_json(), "charged": budget is not None}
        folder.write_json("run.json", {"format": "hush-run/1", **said})
        key = source_or_default(source).words(4).tobytes().hex()
        tested = "test randomness" if source is not None else None
        folder.write_json(_KEY, {"key": key, "assumption": tested}, secret=True)
    except NoRoom:
        remove_empty(folder)
        raise NoRoom(output, begun=False) from None
    try:
        with folder.locked(), _stoppable(folder):
            return _Job(folder, settings, progress or Silence(), source, budget).run()
    except (Interrupted, NoRoom):
        raise  # it can go on
    except HushError:
        if not folder.has("metrics.jsonl") and not folder.secret(STATE).exists():
            remove_empty(folder)  # nothing was told yet: whoever mends the command may use the same name
        raise


def resume(
    path: Path,
    *,
    progress: Progress | None = None,
    device: str | None = None,
    budget: charging.Budget | None = None,
) -> Outcome:
    """Go on with a run that was interrupted; nothing that it has spent is spent again.

    A run that is charged to a budget goes on with what it has reserved there.
    """
    folder = Folder.open(path)
    if folder.finished:
        raise InvalidArgument("resume", str(path), "a run that is not finished", "This one is: see its report.html")
    said = folder.read_json("run.json")
    settings = Settings.from_json(said["settings"])
    if said.get("charged", False) != (budget is not None):
        expected = "the one that the run was begun with" if said.get("charged") else "none: the run was begun without"
        raise InvalidArgument("budget", "given" if budget is not None else None, expected)
    if device is not None:
        settings = settings.at(device=device)
    with folder.locked(), _stoppable(folder):
        return _Job(folder, settings, progress or Silence(), None, budget).run()


@contextmanager
def _stoppable(folder: Folder) -> Iterator[None]:
    """Say how to go on when somebody stops the run outside of its steps."""
    try:
        yield
    except KeyboardInterrupt:
        if folder.finished:
            raise
        raise Interrupted(folder.path) from None


def remove_empty(folder: Folder) -> None:
    """Remove what a run that came to nothing has left."""
    for place in (*map(folder.secret, (_KEY, "lock", "data.json")), folder.path / "run.json"):
        place.unlink(missing_ok=True)
    for each in (folder.path / "secret-until-finished", folder.path):
        if each.exists() and not any(each.iterdir()):
            each.rmdir()


def device_named(name: str | None) -> torch.device:
    """Return the device of this name; without one, a GPU if there is one."""
    wanted = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.zeros(1, device=device).item()  # a device without numbers (meta) fails here
    except (RuntimeError, AssertionError, NotImplementedError):  # each backend has its own
        raise InvalidArgument("device", wanted, "a device that this machine has, such as cpu") from None
    return device


class _Job:
    """One run in one process."""

    def __init__(
        self,
        folder: Folder,
        settings: Settings,
        progress: Progress,
        source: RandomSource | None,
        budget: charging.Budget | None,
    ) -> None:
        self._folder, self._settings, self._progress = folder, settings, progress
        self._test_source, self._budget = source, budget
        secret = folder.read_json(_KEY, secret=True)
        self._key = bytes.fromhex(secret["key"])
        self._stated = (secret["assumption"],) if secret["assumption"] else ()
        self._device = device_named(settings.device)
        self._settings = settings.at(device=str(self._device))

    def run(self) -> Outcome:
        ready = self._prepare()
        features = self._features(ready, ready.prepared.train.inputs, "features")
        measured = self._features(ready, ready.prepared.test.inputs, "features of those held out")
        trained = Training(self._folder, self._settings, ready, features, measured, self._device, self._progress)
        trained.measurer = self._measurer(ready)
        trained.source = self._test_source
        trained.begin()
        reservation = self._reserved(ready)
        self._tell(ready)  # not before all that may refuse: what was learned is told by runs that count it
        network = trained.run()
        outcome = publish(
            self._folder,
            self._settings,
            ready,
            network,
            figures=lambda: trained.measurer.figures(trained.probabilities(trained.model)),
            guarantee=ready.budget.guarantee(),
            budget=ready.budget.parts(),
            resumed=trained.resumed,
        )
        self._folder.finish()
        if reservation is not None:
            reservation.commit()
        return outcome

    def _reserved(self, ready: Ready) -> charging.Reservation | None:
        """Set aside what the run costs, under a name that the same run has when it goes on."""
        if self._budget is None:
            return None
        return self._budget.reserve(
            charging.Charge(
                event=ready.budget.whole_event(),
                purpose=f"hush train: {ready.description.model} on {Path(self._settings.data).name}"[:400],
                delta=ready.plan.delta,
                request=f"run {hashlib.sha256(b'a run' + self._key).hexdigest()[:32]}",
                resumes=True,
            )
        )

    def _prepare(self) -> Ready:
        settings = self._settings
        prepared = read(settings, self._key, settings.delta or 1e-5, self._progress)
        self._refuse_other_data(prepared)
        return self._plan(prepared)

    def _refuse_other_data(self, prepared: Prepared) -> None:
        """The same noise on other data would show the difference: a run goes on with the data that it began with."""
        print_ = hashlib.sha256()
        for part in (prepared.train, prepared.test):
            print_.update(np.ascontiguousarray(part.inputs).tobytes() + part.targets.tobytes())
            print_.update(b"" if part.units is None else part.units.tobytes())
        if not self._folder.secret("data.json").exists():
            self._folder.write_json("data.json", {"sha256": print_.hexdigest()}, secret=True)
        elif self._folder.read_json("data.json", secret=True)["sha256"] != print_.hexdigest():
            raise InvalidArgument("data", self._settings.data, "the data that the run began with", "Begin a new run")

    def _plan(self, prepared: Prepared) -> Ready:
        settings = self._settings
        draft = drafted(settings, prepared)
        network = draft.description.build()
        public = adapt(network, settings)
        self._progress.show("calibrating the noise", 0, 1)
        plan = calibrated(draft.plan, prepared.event, settings.epsilon)
        noise = None
        if not prepared.test_is_public and len(prepared.test):
            noise = evaluation_noise(settings.epsilon, plan.delta)
        figures = None if noise is None else Measurer.event_of(noise)
        stated = (*stated_by(prepared), COUNTED, *self._stated)
        if prepared.test_is_public:
            stated += (f"the test part of {settings.data} is the one that was published, and its figures are exact",)
        if self._folder.secret(STATE).exists():
            stated += ("of this run's states, only one was gone on from, or what was published of all adds up",)
        if figures is not None:
            stated += ("nobody is both held out and trained on: units are split by coins of their own",)
        budget = RunCost(plan, prepared.event, figures, stated)
        return Ready(prepared, draft.description, network, plan, budget, draft.recipe, public, draft.users)

    def _tell(self, ready: Ready) -> None:
        plan, prepared = ready.plan, ready.prepared
        for sentence in prepared.learned:
            self._progress.say(f"  {sentence}")
        held = "in the data set's own test part" if prepared.test_is_public else "held out"
        self._progress.say(
            f"Training {ready.description.model} on {len(prepared.train):,} examples ({len(prepared.test):,} {held}), "
            f"{len(prepared.classes)} classes, for {plan.num_steps} steps of about {plan.batch_size:,}; "
            f"noise multiplier {plan.noise_multiplier:.3f}, delta {plan.delta:g}."
        )

    def _features(self, ready: Ready, inputs: NDArray[np.float32], stage: str) -> Tensor:
        if not len(inputs):
            return torch.empty(0)
        network = ready.network.to(self._device)
        given = torch.from_numpy(np.ascontiguousarray(inputs))
        found = network.features(given, lambda done, total: self._progress.show(stage, done, total))
        return found.to(self._device)

    def _measurer(self, ready: Ready) -> Measurer:
        noise = None if ready.budget.figures is None else ready.budget.figures.noise_multiplier
        return Measurer(
            examples=ready.prepared.test,
            classes=ready.prepared.classes,
            groups=values_of_groups(ready.prepared),
            noise=noise,
            num_points=min(POINTS, ready.plan.num_steps),
            # A stream of its own for each process: a point that is measured again has other noise, and is not told.
            source=KeyedSource(os.urandom(32), 0) if self._test_source is None else self._test_source,
        )
