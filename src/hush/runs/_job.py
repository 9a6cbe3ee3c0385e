"""A run from beginning to end: read, learn what is not declared, train, measure, write down."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from hush.data import Category, Examples, Prepared, needs_learning, open_source, prepare
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Unit
from hush.randomness import KeyedSource, Source, source_or_default
from hush.runs._budget import Budget, calibrated, learning
from hush.runs._defaults import Recipe, recipe
from hush.runs._figures import Measurer, evaluation_noise
from hush.runs._folder import Folder
from hush.runs._networks import Description, Network, adapt, describe
from hush.runs._outcome import Outcome, publish
from hush.runs._progress import Progress, Silence
from hush.runs._settings import Settings, default_delta
from hush.training import (
    Automatic,
    Clipping,
    Flat,
    Full,
    MovingAverage,
    Plan,
    Poisson,
    PrivateTraining,
    PublicPhase,
    Users,
    clipped_sum,
    merge_lora,
    privatize,
)

_POINTS = 20  # at which the run is stored, and accuracy measured
_LOOKED_AT = 256  # examples whose gradients are looked at then, for those who may see the data
_STATE, _KEY = "state.pt", "key.json"


class Interrupted(HushError):
    """Somebody ended the run; it can go on."""

    exit_status = 130

    def __init__(self, path: Path, steps: int, total: int) -> None:
        super().__init__(f"interrupted after step {steps} of {total}. Go on with: hush train --resume {path}")


def train(
    settings: Settings, output: Path, *, progress: Progress | None = None, source: Source | None = None
) -> Outcome:
    """Do a run, in a new folder.

    Args:
        settings: What to do.
        output: The folder; it must be new or empty.
        progress: Who is told how far it is.
        source: Where secret keys come from; for tests, a TestSource.

    Guarantee:
        What is returned, and every file of the finished folder but those named not-private, is
        (epsilon, delta)-differentially private for the unit that the settings name.

    Assumes:
        What `hush.data.prepare` and `hush.training.PrivateTraining` assume (the caller's duty), all of it stated in
        guarantee.json.
    """
    folder = Folder.create(output)
    try:
        folder.write_json("run.json", {"format": "hush-run/1", "settings": settings.to_json()})
        key = source_or_default(source).words(4).tobytes().hex()
        tested = "test randomness" if source is not None else None
        folder.write_json(_KEY, {"key": key, "assumption": tested}, secret=True)
        with folder.locked():
            return _Job(folder, settings, progress or Silence(), source).run()
    except HushError:
        if not folder.has("metrics.jsonl") and not folder.secret(_STATE).exists():
            remove_empty(folder)  # nothing was learned yet: whoever mends the command may use the same name
        raise


def resume(path: Path, *, progress: Progress | None = None, device: str | None = None) -> Outcome:
    """Go on with a run that was interrupted; nothing that it has spent is spent again."""
    folder = Folder.open(path)
    if folder.finished:
        raise InvalidArgument("resume", str(path), "a run that is not finished", "This one is: see its report.html")
    settings = Settings.from_json(folder.read_json("run.json")["settings"])
    if device is not None:
        settings = settings.at(device=device)
    with folder.locked():
        return _Job(folder, settings, progress or Silence(), None).run()


def remove_empty(folder: Folder) -> None:
    for place in (folder.secret(_KEY), folder.secret("lock"), folder.path / "run.json"):
        place.unlink(missing_ok=True)
    for each in (folder.path / "secret-until-finished", folder.path):
        if each.exists() and not any(each.iterdir()):
            each.rmdir()


@dataclass(frozen=True, eq=False)
class Ready:
    """All that training needs, and all that its result will say of where it comes from."""

    prepared: Prepared
    description: Description
    network: Network
    plan: Plan
    budget: Budget
    recipe: Recipe
    public: PublicPhase | None
    users: Users | None


def read(settings: Settings, key: bytes, delta: float, progress: Progress) -> Prepared:
    """Read the data, learn what is not declared with its share of the budget, and hold some units out."""
    source = open_source(
        settings.data,
        target=settings.target,
        data_dir=settings.data_dir,
        download=settings.download,
        delimiter=settings.delimiter,
    )
    unknown = needs_learning(source, settings.target, settings.schema, settings.unit, settings.groups)
    if unknown and not settings.learn_share > 0:
        raise InvalidArgument(
            "learn_share",
            settings.learn_share,
            "more than 0",
            f"Not declared: {_listed(unknown)}",
            "Declare it in a schema (see hush schema), or leave a share of the budget to learn it",
        )
    if unknown:
        progress.say(
            f"Not declared, so learned privately with {settings.learn_share:.0%} of the budget: {_listed(unknown)}."
        )
    prepared = prepare(
        source,
        target=settings.target,
        schema=settings.schema,
        unit=settings.unit,
        groups=settings.groups,
        holdout=settings.holdout,
        learn=learning(settings.epsilon, settings.learn_share, delta) if unknown else None,
        key=key,
    )
    refuse_undeclared_groups(prepared)
    for sentence in prepared.learned:
        progress.say(f"  {sentence}")
    return prepared


def refuse_undeclared_groups(prepared: Prepared) -> None:
    """What groups there are is something about people: a name that one of them has must not appear by itself."""
    for name in () if prepared.test_is_public else prepared.schema.groups:
        if name not in values_of_groups(prepared):
            raise InvalidArgument(
                "groups", name, "a column whose values are declared", f"Say --category {name}=VALUE,VALUE,..."
            )


def values_of_groups(prepared: Prepared) -> dict[str, tuple[str, ...]]:
    """Return the declared values of columns that accuracy is compared by."""
    columns = prepared.schema.columns
    return {
        name: column.values
        for name in prepared.schema.groups
        if isinstance(column := columns.get(name), Category) and column.values is not None
    }


@dataclass(frozen=True, eq=False)
class Draft:
    """What will be trained and how, but for the noise, which is 1."""

    description: Description
    recipe: Recipe
    plan: Plan
    users: Users | None


def drafted(settings: Settings, prepared: Prepared) -> Draft:
    """Return what the settings mean for these data: decided by public numbers alone."""
    own = prepared.train.units
    num_units = _num_units(prepared.train)
    if num_units < 2:
        raise InvalidArgument("data", settings.data, "at least two rows to train on, with a target")
    everybody = num_units + _num_units(prepared.test)
    description = describe(settings, prepared.shape, len(prepared.classes))
    chosen = recipe(settings, description, num_units)
    users = None if own is None else Users(own, max_examples=settings.max_per_unit)
    plan = Plan(
        sampling=Full() if chosen.batch_size == num_units else Poisson(chosen.batch_size),
        num_units=num_units,
        num_steps=chosen.num_steps,
        clipping=_clipping(chosen),
        noise_multiplier=1.0,
        delta=settings.delta or default_delta(everybody),
        physical_batch_size=1,
        unit=Unit.example() if users is None else users.unit,
        max_examples=1 if users is None else settings.max_per_unit,
        labelled=users is not None,
        starts_from=None if settings.start is None else PublicPhase(settings.public or ""),
    )
    if not plan.delta * everybody < 1:
        raise InvalidArgument("delta", plan.delta, "less than one over the number of those who are protected")
    return Draft(description, chosen, plan, users)


def begin(
    model: nn.Module, data: tuple[Tensor, Tensor], settings: Settings, draft: Draft, source: Source | None
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


class _Job:
    """One run in one process."""

    def __init__(self, folder: Folder, settings: Settings, progress: Progress, source: Source | None) -> None:
        self._folder, self._settings, self._progress = folder, settings, progress
        self._test_source = source
        secret = folder.read_json(_KEY, secret=True)
        self._key = bytes.fromhex(secret["key"])
        self._stated = (secret["assumption"],) if secret["assumption"] else ()
        wanted = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self._device = torch.device(wanted)
            torch.empty(0, device=self._device)
        except RuntimeError:
            raise InvalidArgument("device", wanted, "a device that this machine has, such as cpu") from None
        self._settings = settings.at(device=str(self._device))

    def run(self) -> Outcome:
        ready = self._prepare()
        self._tell(ready)
        features = self._features(ready, ready.prepared.train.inputs, "features")
        measured = self._features(ready, ready.prepared.test.inputs, "features of those held out")
        trained = _Training(self._folder, self._settings, ready, features, measured, self._device, self._progress)
        trained.measurer = self._measurer(ready)
        trained.source = self._test_source
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
        return outcome

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
        stated = (*prepared.assumptions, *self._stated)
        if figures is not None:
            stated += ("nobody is both held out and trained on: units are split by coins of their own",)
        budget = Budget(plan, prepared.event, figures, stated)
        return Ready(prepared, draft.description, network, plan, budget, draft.recipe, public, draft.users)

    def _tell(self, ready: Ready) -> None:
        plan, prepared = ready.plan, ready.prepared
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
            num_points=_POINTS,
            # A stream of its own for each process: a point that is measured again has other noise, and is not told.
            source=KeyedSource(os.urandom(32), 0) if self._test_source is None else self._test_source,
        )


class _Training:
    """The steps, and what is measured on the way."""

    measurer: Measurer
    source: Source | None

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
        self._begin()
        total = ready.plan.num_steps
        points = sorted({round(total * (place + 1) / _POINTS) for place in range(_POINTS)} - {0})
        done = {row["step"] for row in self._folder.rows("metrics.jsonl")}
        self.model.train()
        with _patient() as wish:
            for x, y in self.private.loader:
                losses = F.cross_entropy(self.model(x), y, reduction="none")
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

    def _begin(self) -> None:
        ready, plan = self._ready, self._ready.plan
        draft = Draft(ready.description, ready.recipe, plan, ready.users)
        data = self._features, self._targets
        self.private, self._average = begin(self.model, data, self._settings, draft, self.source)
        self._note = ""
        if self._folder.secret(_STATE).exists():
            state = torch.load(self._folder.secret(_STATE), weights_only=True, map_location=self._device)
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
        self._folder.write(_STATE, lambda path: torch.save(state, path), secret=True)

    def _point(self, taken: int) -> None:
        """Store the run, then measure: what is told of weights belongs to a state that the run goes on from."""
        self._store()
        row: dict[str, Any] = {"step": taken, "epsilon": self._ready.budget.epsilon(taken)}
        if len(self._measured):
            model = self.model if self._average is None else self._average.copy()
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
            return F.cross_entropy(model(batch[0]), batch[1], reduction="none")

        norms = clipped_sum(plain, (x, y), loss, clip_norm=self._ready.plan.clipping.clip_norm).norms.double()
        with torch.no_grad():
            losses = loss(plain, (x, y))
        q10, q50, q90 = (
            float(value) for value in torch.quantile(norms.nan_to_num(), torch.tensor([0.1, 0.5, 0.9]).to(norms))
        )
        clipped = float((norms > self._ready.plan.clipping.clip_norm).double().mean())
        found = {"clipped_fraction": clipped, "q10": q10, "q50": q50, "q90": q90, "loss": float(losses.mean())}
        return {name: value if np.isfinite(value) else None for name, value in found.items()}

    def _plain(self) -> nn.Module:
        """Return a copy of the model that is in no run."""
        import copy

        return copy.deepcopy(self.model)


def _num_units(examples: Examples) -> int:
    return len(examples) if examples.units is None else len(np.unique(examples.units))


def _clipping(chosen: Recipe) -> Clipping:
    return Automatic(1.0) if chosen.clip_norm is None else Flat(chosen.clip_norm)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


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
