"""What does an epsilon buy, in accuracy and against membership attacks? (Jayaraman and Evans 2019)

Their protocol, on Location-30 and MNIST: one budget from 0.01 to 1000, and noise for it by five ways of accounting:
naive (basic) composition, advanced composition, zCDP, Renyi (RDP) and privacy loss distributions (PLD). Measured are
the *accuracy loss*, 1 - private / plain test accuracy, and the *advantage* (TPR - FPR) of Yeom's attack with the mean
training loss as threshold; beside it stands what epsilon allows any attack. Models are softmax regression and a
network with one hidden layer, trained on all members in every step (so that every accounting applies as it stands),
with clipped gradients. Theirs were trained on batches, and tuned otherwise: figures compare in shape, not in digits.
Members are half of Location-30's 5,010 people, and 10,000 of MNIST's training images (as many as they use); others
are the rest, and the test images.

Read advantages with care. One of 2,505 people a side has a standard error of about 0.014, one of 10,000 about 0.007,
and MNIST's test images are not drawn as its training images are: a few thousandths to hundredths above what a small
epsilon allows are no violation. An accuracy loss below 0 says that the plain model overfits, which noise prevents.

    python reproductions/membership.py [--seeds 3] [--data DIR] [--quick]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import DELTA, Row, Settings, figure, linear, load, main, mark, measure, sgd, train, train_plainly
from scipy.optimize import brentq
from torch import Tensor, nn

from hush import Guarantee
from hush.accounting import (
    GaussianEvent,
    PldAccountant,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
    calibrate_noise,
)
from hush.audit import roc
from hush.audit.membership import yeom
from hush.cli.commands.attack_data import ARCHIVE, read_location
from hush.lab.composition import advanced_composition
from hush.lab.data_overlap import overlap
from hush.training import Flat

EPSILONS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
SHOWN = 10.0  # the epsilon at which the table compares the ways of accounting
MEMBERS = 10_000
MOMENTUM = 0.9


@dataclass(frozen=True, slots=True)
class Split:
    """Who is in the training, and who is not."""

    name: str
    x: Tensor
    y: Tensor
    x_out: Tensor
    y_out: Tensor
    num_classes: int
    num_steps: int
    clip_norm: float
    lr: float
    plain_steps: int


@dataclass(slots=True)
class Attacks:
    """One setting's runs."""

    accuracies: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)
    swept: list[float] = field(default_factory=list)
    accused: list[np.ndarray] = field(default_factory=list)


Drawn = tuple[Attacks, dict[str, dict[float, Attacks]]]  # without privacy; then by way and budget


def run(settings: Settings) -> list[Row]:
    rows: list[Row] = []
    for split in splits(settings):
        drawn: dict[str, Drawn] = {}
        for model, make in models(split).items():
            plain, rows_plain = _baseline(settings, split, model, make)
            by_way, private = _budgets(settings, split, model, make, plain)
            rows += [*rows_plain, *private]
            drawn[model] = plain, by_way
        _draw(settings, split.name, drawn)
    return rows


def splits(settings: Settings) -> list[Split]:
    """Return both data sets; Location-30 only if it is there."""
    images = load("mnist", settings)
    size = 500 if settings.quick else MEMBERS
    steps = (3, 3) if settings.quick else (40, 600)
    parts = (images.x[:size], images.y[:size], images.x_test[:size], images.y_test[:size])
    chosen = [Split("mnist", *parts, 10, steps[0], 4.0, 0.5, steps[1])]
    archive = settings.data / "location" / ARCHIVE
    if not archive.exists():
        print(f"{ARCHIVE} is not in {archive.parent.name}: left out")
        return chosen
    people = read_location(archive)
    order = np.random.default_rng(0).permutation(len(people.labels))
    inside, outside = np.array_split(order[:1000] if settings.quick else order, 2)
    x, y = torch.from_numpy(people.x), torch.from_numpy(people.labels)
    steps = (3, 3) if settings.quick else (120, 800)
    parts = (x[inside], y[inside], x[outside], y[outside])
    return [Split("location-30", *parts, 30, steps[0], 8.0, 0.12, steps[1]), *chosen]


def models(split: Split) -> dict[str, Callable[[], nn.Module]]:
    features = split.x.shape[1]

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, split.num_classes))

    return {"softmax": partial(linear, features, split.num_classes), "network": network}


# Noise multipliers, by five ways to account for the same steps. All are valid; they differ in what they waste.


def naive(epsilon: float, steps: int) -> float:
    """Return the noise of one step at a share of both epsilon and delta (Dwork et al. 2006)."""
    return calibrate_noise(epsilon=epsilon / steps, delta=DELTA / steps)


def advanced(epsilon: float, steps: int) -> float:
    """Return the noise of a step by advanced composition (Dwork, Rothblum and Vadhan 2010); half of delta is slack."""

    def excess(log_each: float) -> float:
        composed = advanced_composition(math.exp(log_each), DELTA / (2 * steps), steps, slack=DELTA / 2)
        return math.log(composed.epsilon) - math.log(epsilon)

    per_step = math.exp(brentq(excess, math.log(epsilon) - 25, math.log(epsilon) + 1, xtol=1e-9))
    return calibrate_noise(epsilon=per_step * (1 - 1e-6), delta=DELTA / (2 * steps))


def composed(accountant: Any, epsilon: float, steps: int) -> float:
    def event(noise: float) -> SelfComposedEvent:
        return SelfComposedEvent(GaussianEvent(noise), steps)

    return calibrate_noise(epsilon=epsilon, delta=DELTA, accountant=accountant, template=event)


WAYS: dict[str, Callable[[float, int], float]] = {
    "naive": naive,
    "advanced": advanced,
    "zCDP": partial(composed, ZcdpAccountant),
    "RDP": partial(composed, RdpAccountant),
    "PLD": partial(composed, PldAccountant),
}


@lru_cache
def noise_of(way: str, epsilon: float, steps: int) -> float:
    return WAYS[way](epsilon, steps)


def _baseline(settings: Settings, split: Split, model: str, make: Callable[[], nn.Module]) -> tuple[Attacks, list[Row]]:
    attacks = Attacks()

    def once() -> tuple[float, float]:
        made = make()
        optimizer = torch.optim.Adam(made.parameters(), lr=1e-3)
        batch = min(200, len(split.x))
        train_plainly(made, (split.x, split.y), optimizer, batch_size=batch, num_steps=split.plain_steps)
        return attacked(made, split, attacks), math.inf

    row = measure(settings, once, f"{model}: not private", split.name)
    return attacks, [replace(row, note=f"advantage {_mean(attacks.advantages):.3f}")]


def _budgets(
    settings: Settings, split: Split, model: str, make: Callable[[], nn.Module], plain: Attacks
) -> tuple[dict[str, dict[float, Attacks]], list[Row]]:
    """Train for every budget and way; the table has all budgets by PLD, and all ways at one budget."""
    by_way: dict[str, dict[float, Attacks]] = {way: {} for way in WAYS}
    rows = []
    for way, by_epsilon in by_way.items():
        for epsilon in (SHOWN,) if settings.quick else EPSILONS:
            attacks = by_epsilon[epsilon] = Attacks()
            noise = noise_of(way, epsilon, split.num_steps)
            once = partial(_once, split, make, noise, epsilon, attacks)
            row = measure(settings, once, f"{model}: {way}, epsilon {epsilon:g}", split.name)
            if way == "PLD" or epsilon == SHOWN:
                rows.append(replace(row, note=_note(attacks, plain, epsilon, noise)))
    return by_way, rows


def _once(
    split: Split, make: Callable[[], nn.Module], noise: float, epsilon: float, attacks: Attacks
) -> tuple[float, float]:
    model = make()
    plan = {"num_steps": split.num_steps, "noise_multiplier": noise, "clipping": Flat(split.clip_norm)}
    optimizer = sgd(model, split.lr, MOMENTUM)
    trained = train(model, (split.x, split.y), optimizer, decay=0.5, cool_down=True, **plan)
    return attacked(trained.model, split, attacks), epsilon


@torch.no_grad()
def attacked(model: nn.Module, split: Split, attacks: Attacks) -> float:
    """Attack a model by its losses, with the mean training loss as threshold; return its accuracy on others."""
    model.eval()
    logits, logits_out = model(split.x).double(), model(split.x_out).double()
    # A model that was trained on hardly anything but noise may be sure of everything; its losses stay finite.
    losses, losses_out = (
        F.cross_entropy(values, true, reduction="none").nan_to_num(1e9).clamp(0, 1e9).numpy()
        for values, true in ((logits, split.y), (logits_out, split.y_out))
    )
    inside, outside = (yeom(values, mean_train_loss=float(losses.mean())) for values in (losses, losses_out))
    attacks.advantages.append(float(inside.mean() - outside.mean()))
    attacks.swept.append(roc(yeom(losses), yeom(losses_out)).advantage)
    attacks.accused.append(np.r_[inside, outside] > 0)
    attacks.accuracies.append(100 * (logits_out.argmax(1) == split.y_out).double().mean().item())
    return attacks.accuracies[-1]


def accuracy_loss(attacks: Attacks, plain: Attacks) -> float:
    return 1 - _mean(attacks.accuracies) / _mean(plain.accuracies)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _note(attacks: Attacks, plain: Attacks, epsilon: float, noise: float) -> str:
    """Say what was measured, what epsilon allows, and how many of the accused are the same in all runs."""
    allowed = Guarantee(epsilon=epsilon, delta=DELTA).advantage()
    note = (
        f"noise {noise:.3g}; accuracy loss {accuracy_loss(attacks, plain):.2f}; "
        f"advantage {_mean(attacks.advantages):.3f}, allowed {allowed:.3f}"
    )
    if len(attacks.accused) < 2:
        return note
    size = len(attacks.accused[0]) // 2
    member = np.arange(len(attacks.accused[0])) < size
    again = overlap(np.stack(attacks.accused), member)
    return f"{note}; accused in every run: {again.precision[-1]:.0%} members"


def _draw(settings: Settings, data: str, drawn: dict[str, Drawn]) -> None:
    with figure(settings, f"membership_{data}", columns=2, rows=len(drawn)) as grid:
        for (left, right), (model, (plain, by_way)) in zip(np.atleast_2d(grid), drawn.items(), strict=True):
            for way, by_epsilon in by_way.items():
                budgets = list(by_epsilon)
                left.plot(budgets, [accuracy_loss(value, plain) for value in by_epsilon.values()], label=way, ms=4)
                right.plot(budgets, [_mean(value.advantages) for value in by_epsilon.values()], label=way, ms=4)
            curve = np.logspace(math.log10(EPSILONS[0]), math.log10(EPSILONS[-1]), 60)
            allowed = [Guarantee(epsilon=float(value), delta=DELTA).advantage() for value in curve]
            right.plot(curve, allowed, "k--", marker="", lw=1, label="allowed by epsilon")
            right.axhline(_mean(plain.advantages), color="grey", ls=":", marker="", label="not private")
            left.set(
                xscale="log", xlabel="epsilon", ylabel="accuracy loss", title=f"{data}, {model}", ylim=(-0.05, 1.05)
            )
            top = max(0.05, 1.3 * _mean(plain.advantages))
            right.set(xscale="log", xlabel="epsilon", ylabel="advantage", title=f"{data}, {model}", ylim=(-0.03, top))
            for axes in (left, right):
                mark(axes, EPSILONS)
                axes.legend(fontsize=7)


if __name__ == "__main__":
    main(run, __doc__)
