"""One setting of ``membership.py``: its data, its noise, its training and the attacks on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import DELTA, Settings, linear, train, train_plainly
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor, nn

from hush.accounting import (
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
    calibrate_noise,
)
from hush.audit import roc
from hush.audit.membership import shadows, yeom
from hush.cli.commands.attack_data import ARCHIVE, read_location
from hush.guarantee import Relation
from hush.lab.attributes import attack_attribute, impute
from hush.lab.composition import advanced_composition
from hush.lab.data_overlap import overlap
from hush.lab.trained_attacks import shokri
from hush.training import FixedSize, Microbatches, Poisson, ShuffledEpochs

MODELS = ("softmax", "network")
SIZES = {"location-30": (30, 100), "purchase-like": (100, 20)}  # classes, epochs
MEMBERS, BATCH, LEARNING_RATE, CLIP_NORM, UNITS, NUM_ATTRIBUTES = 10_000, 200, 0.01, 1.0, 64, 20
LARGEST_LOSS = 1e9  # of a model that was trained on hardly anything but noise


@dataclass(frozen=True, slots=True)
class Split:
    """Who is in the training, and who is not."""

    name: str
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    x_out: NDArray[np.float32]
    y_out: NDArray[np.int64]
    num_classes: int
    epochs: int

    @property
    def both(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Members, then others."""
        return np.concatenate([self.x, self.x_out]), np.concatenate([self.y, self.y_out])

    @property
    def num_steps(self) -> int:
        """How many Poisson samples are drawn."""
        return max(round(self.epochs * len(self.x) / BATCH), 1)


@lru_cache(maxsize=4)
def split(settings: Settings, data: str) -> Split:
    """Return a data set's two halves, always the same."""
    num_classes, epochs = SIZES[data]
    if data == "purchase-like":
        size = 1000 if settings.quick else 2 * MEMBERS
        x, y = purchase_like(np.random.default_rng(0), size, num_classes)
    else:
        archive = settings.data / "location" / ARCHIVE
        if not archive.exists():
            raise SystemExit(f"{ARCHIVE} is not in {archive.parent}: say --data DIR, or set HUSH_DATA")
        people = read_location(archive)
        x, y = people.x, people.labels
    order = np.random.default_rng(0).permutation(len(y))
    inside, outside = np.array_split(order[:1000] if settings.quick else order, 2)
    return Split(data, x[inside], y[inside], x[outside], y[outside], num_classes, 1 if settings.quick else epochs)


def purchase_like(
    rng: np.random.Generator, size: int, num_classes: int, num_columns: int = 600
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw records of binary columns: each class has a rate of its own for a tenth of them, and tastes vary.

    Popularity of columns is Beta(1, 3), as some goods are bought by many and most by few. It is made up.
    """
    popular = rng.beta(1.0, 3.0, num_columns)
    special = rng.random((num_classes, num_columns)) < 0.1
    rates = np.where(special, rng.beta(1.0, 3.0, (num_classes, num_columns)), popular)
    labels = rng.integers(0, num_classes, size)
    # Logits move together within a record: how much somebody buys is not what they buy.
    logits = np.log(rates[labels] / (1 - rates[labels])) + rng.normal(0.0, 0.5, (size, 1))
    x = rng.random((size, num_columns)) < 1 / (1 + np.exp(-logits))
    return x.astype(np.float32), labels.astype(np.int64)


def make(model: str, num_columns: int, num_classes: int) -> nn.Module:
    """Return a new model."""
    if model == "softmax":
        return linear(num_columns, num_classes)
    return nn.Sequential(nn.Linear(num_columns, UNITS), nn.Tanh(), nn.Linear(UNITS, num_classes))


# Noise multipliers, by several ways to account for the same run. All are valid; they differ in what they waste.


def naive(epsilon: float, epochs: int, rate: float, steps: int) -> float:
    """Return the noise of one epoch at a share of both epsilon and delta (Dwork et al. 2006)."""
    return calibrate_noise(epsilon=epsilon / epochs, delta=DELTA / epochs)


def advanced(epsilon: float, epochs: int, rate: float, steps: int) -> float:
    """Return the noise of an epoch by advanced composition (Dwork et al. 2010); half of delta is slack."""

    def excess(log_each: float) -> float:
        composed = advanced_composition(math.exp(log_each), DELTA / (2 * epochs), epochs, slack=DELTA / 2)
        return math.log(composed.epsilon) - math.log(epsilon)

    each = math.exp(brentq(excess, math.log(epsilon) - 25, math.log(epsilon) + 1, xtol=1e-9))
    return calibrate_noise(epsilon=each * (1 - 1e-6), delta=DELTA / (2 * epochs))


def in_epochs(accountant: Any, epsilon: float, epochs: int, rate: float, steps: int) -> float:
    """Return the noise if each epoch costs what one step on all records does."""
    return calibrate_noise(
        epsilon=epsilon,
        delta=DELTA,
        accountant=accountant,
        template=lambda noise: SelfComposedEvent(GaussianEvent(noise), epochs),
    )


def in_samples(accountant: Any, epsilon: float, epochs: int, rate: float, steps: int) -> float:
    """Return the noise for Poisson samples."""

    def event(noise: float) -> Event:
        return SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise), rate), steps)

    return calibrate_noise(epsilon=epsilon, delta=DELTA, accountant=accountant, template=event)


WAYS: dict[str, Callable[[float, int, float, int], float]] = {
    "naive": naive,
    "advanced": advanced,
    "zCDP": partial(in_epochs, ZcdpAccountant),
    "RDP": partial(in_samples, RdpAccountant),
}


def of_fixed_size(epsilon: float, size: int, steps: int) -> float:
    """Return the noise for batches of a fixed size, if a record is replaced."""
    return calibrate_noise(
        epsilon=epsilon,
        delta=DELTA,
        accountant=PldAccountant,
        relation=Relation.REPLACE,
        template=lambda noise: SelfComposedEvent(FixedSizeSampledEvent(GaussianEvent(noise), BATCH, size), steps),
    )


@lru_cache
def plan_of(way: str, epsilon: float, size: int, epochs: int, steps: int) -> dict[str, Any]:
    """Return how a run samples, and its noise."""
    if way in WAYS:
        noise = WAYS[way](epsilon, epochs, BATCH / size, steps)
        if way == "RDP":
            return {"noise_multiplier": noise, "sampling": Poisson(BATCH), "num_steps": steps}
        return {"noise_multiplier": noise, "sampling": ShuffledEpochs(BATCH), "epochs": epochs}
    plan = {"noise_multiplier": of_fixed_size(epsilon, size, steps), "sampling": FixedSize(BATCH), "num_steps": steps}
    return plan if way == "each record" else plan | {"contribution": Microbatches(BATCH)}


def trained(
    of: Split, records: tuple[Tensor, Tensor], model: str, way: str, epsilon: float | None
) -> tuple[nn.Module, float | None]:
    """Train a model, and return it with the milliseconds of a step."""
    made = make(model, of.x.shape[1], of.num_classes).to(records[0].device)
    optimizer = torch.optim.Adam(made.parameters(), lr=LEARNING_RATE)
    if epsilon is None:
        train_plainly(made, records, optimizer, batch_size=BATCH, num_steps=of.num_steps)
        return made.eval(), None
    size = len(records[0])
    plan = plan_of(way, epsilon, size, of.epochs, max(round(of.epochs * size / BATCH), 1))
    done = train(made, records, optimizer, decay=0.5, clip_norm=CLIP_NORM, compile=False, **plan)
    steps = done.private.plan.num_steps
    return done.model.eval(), 1000 * done.seconds / steps


def once(
    of: Split,
    settings: Settings,
    device: str,
    model: str,
    way: str,
    epsilon: float | None,
    runs: int,
    shadow_models: int,
) -> dict[str, Any]:
    """Train several targets and attack them: everything that JSON can hold."""
    records = torch.from_numpy(of.x).to(device), torch.from_numpy(of.y).to(device)
    targets, times = [], []
    for seed in range(runs):
        torch.manual_seed(seed)
        target, step_ms = trained(of, records, model, way, epsilon)
        targets.append(target)
        times.append(step_ms)
    result: dict[str, Any] = {"noise": None, "step_ms": None if times[0] is None else float(np.mean(times))}
    if epsilon is not None:
        result["noise"] = plan_of(way, epsilon, len(of.x), of.epochs, of.num_steps)["noise_multiplier"]
    result |= _yeom(of, device, targets)
    result["shokri"] = _shokri(of, device, targets, partial(_shadow, of, device, model, way, epsilon), shadow_models)
    result |= _attributes(of, device, targets) if shadow_models else {"attributes": [], "attribute_accuracies": []}
    return result


@torch.no_grad()
def probabilities(model: nn.Module, device: str, x: NDArray[Any]) -> NDArray[np.float64]:
    """Return a model's probabilities of the classes."""
    logits = model(torch.from_numpy(np.asarray(x, dtype=np.float32)).to(device)).double()
    return np.asarray(F.softmax(logits.nan_to_num(0.0), dim=1).cpu().numpy())


@torch.no_grad()
def losses(model: nn.Module, device: str, x: NDArray[Any], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a model's loss on each record, finite even for a model of noise."""
    logits = model(torch.from_numpy(np.asarray(x, dtype=np.float32)).to(device)).double()
    values = F.cross_entropy(logits, torch.from_numpy(y).to(device), reduction="none")
    return np.asarray(values.nan_to_num(LARGEST_LOSS).clamp(0, LARGEST_LOSS).cpu().numpy())


def _yeom(of: Split, device: str, targets: list[nn.Module]) -> dict[str, Any]:
    """Attack by losses, with the mean training loss as threshold and with the best one; and compare the accused."""
    fixed, swept, accuracies, accused = [], [], [], []
    for target in targets:
        inside, outside = (losses(target, device, x, y) for x, y in ((of.x, of.y), (of.x_out, of.y_out)))
        threshold = float(inside.mean())
        found, wrong = (yeom(values, mean_train_loss=threshold) for values in (inside, outside))
        fixed.append(float(found.mean() - wrong.mean()))
        swept.append(roc(yeom(inside), yeom(outside)).advantage)
        accused.append(np.concatenate([found, wrong]) > 0)
        right = probabilities(target, device, of.x_out).argmax(1) == of.y_out
        accuracies.append(100 * float(right.mean()))
    member = np.arange(len(accused[0])) < len(of.x)
    common = overlap(np.stack(accused), member)
    precisions = [None if math.isnan(value) else value for value in common.precision]
    same = {"jaccard": common.jaccard, "precision": precisions[-1], "precisions": precisions}
    return {"yeom": fixed, "swept": swept, "accuracies": accuracies, **same}


def _shadow(
    of: Split, device: str, model: str, way: str, epsilon: float | None, x: NDArray[Any], y: NDArray[np.int64]
) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    records = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    shadow, _ = trained(of, records, model, way, epsilon)
    return partial(probabilities, shadow, device)


def _shokri(of: Split, device: str, targets: list[nn.Module], fit: Any, num_models: int) -> list[float]:
    """Return the best advantage of Shokri's attack on each target; its shadow models know all records' halves."""
    if not num_models:
        return []
    x, y = of.both
    torch.manual_seed(len(targets))  # the shadow models' starting weights are none of the targets'
    trained_shadows = shadows(fit, x, y, num_models=num_models, num_classes=of.num_classes, rng=1)
    answers = np.stack([probabilities(target, device, x) for target in targets])
    scores = shokri(answers, trained_shadows.probabilities, trained_shadows.included, y, classifier=AttackNetwork)
    inside = scores[:, : len(of.x)] > 0.5
    outside = scores[:, len(of.x) :] > 0.5
    return [float(a.mean() - b.mean()) for a, b in zip(inside, outside, strict=True)]


class AttackNetwork:
    """A classifier with 64 hidden units, for machines without scikit-learn: 60 steps of Adam on all rows."""

    classes_ = (0, 1)

    def fit(self, x: NDArray[Any], y: NDArray[Any]) -> AttackNetwork:
        """Learn to tell 1 from 0."""
        rows, wanted = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.network = nn.Sequential(nn.Linear(rows.shape[1], 64), nn.ReLU(), nn.Linear(64, 2))
        optimizer = torch.optim.Adam(self.network.parameters(), lr=0.02)
        for _ in range(60):
            optimizer.zero_grad()
            F.cross_entropy(self.network(rows), wanted).backward()
            optimizer.step()
        return self

    @torch.no_grad()
    def predict_proba(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probabilities of 0 and 1."""
        return np.asarray(F.softmax(self.network(torch.from_numpy(x.astype(np.float32))).double(), 1).numpy())


def attributes(of: Split) -> list[int]:
    """Return the columns to guess: some of those that neither nearly all nor nearly no records have."""
    share = of.x_out.mean(0)
    usual = np.flatnonzero((share > 0.2) & (share < 0.8))
    return sorted(int(column) for column in np.random.default_rng(2).permutation(usual)[:NUM_ATTRIBUTES])


def _attributes(of: Split, device: str, targets: list[nn.Module]) -> dict[str, Any]:
    """Return the advantage, and the accuracy on members, for each column and target."""
    members, others = (of.x.astype(np.float64), of.y), (of.x_out.astype(np.float64), of.y_out)
    unused = np.zeros(len(of.x), dtype=np.int64)  # the better baseline, `imputation`, is a job of its own
    results = [
        [
            attack_attribute(
                partial(losses, target, device), members, others, column=column, values=(0, 1), imputed=unused
            )
            for column in attributes(of)
        ]
        for target in targets
    ]
    return {
        "attributes": [[result.advantage for result in run] for run in results],
        "attribute_accuracies": [[result.member_accuracy for result in run] for run in results],
    }


def imputation(of: Split) -> dict[str, Any]:
    """Return how often each column is guessed right for members without a model, from others' records and classes."""
    accuracies = []
    for column in attributes(of):
        known, missing = (
            np.hstack([np.delete(x, column, axis=1), np.eye(of.num_classes)[y]])
            for x, y in ((of.x_out[:3000], of.y_out[:3000]), (of.x, of.y))
        )
        guesses = impute(known, of.x_out[:3000, column].astype(np.int64), missing, num_values=2)
        accuracies.append(float((guesses == of.x[:, column]).mean()))
    return {"columns": attributes(of), "accuracies": accuracies}
