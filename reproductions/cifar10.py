"""CIFAR-10: the network of Abadi et al. 2016, section 5.3, from scratch; and public features.

The network: the 24 x 24 pixels in the middle, two 5 x 5 convolutions with 64 channels, each with 2 x 2 pooling, two
dense layers of 384 units, lots of 2,000. It starts at random here, with ReLU as in the paper or with tanh (Papernot et
al. 2021). The paper's 67, 70 and 73 % at epsilon 2, 4 and 8 are *not* from scratch: its convolutions were pre-trained
on CIFAR-100, which is taken as public, and do not change. No package with CIFAR-100 is to be had. So public features
are others here:

- wavelet scattering, which nobody learned from any images (Tramer and Boneh 2021), and a linear layer;
- an encoder that was trained on ImageNet, and a linear layer. That is far more public data than CIFAR-100.

The distance that a step goes if all gradients agree (learning rate times clip norm) is the best of a few by test
accuracy, at epsilon 4, for a third of the steps; as on the whole page, that choice is not charged to epsilon. The runs
of the table have fresh noise. Clip norms and numbers of steps were not tuned. Published figures are for delta 1e-5.

    python reproductions/cifar10.py [--seeds 3] [--data DIR] [--quick]      # hours on one core; see run_jobs.py

Data: see ``cifar10_data.py``.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scattering
import torch
from common import DELTA, Images, Row, Settings, accuracy, figure, here, main, mark, read_idx, sgd, train, train_plainly
from jobs import Job, Results, elsewhere, missing, run_here, speed_remark
from scattering import Recipe, Scattered
from torch import Tensor, nn

from hush.accounting import calibrate_noise
from hush.training import MovingAverage
from hush.training.scattering import Scattering

PUBLISHED = {2.0: 67.0, 4.0: 70.0, 8.0: 73.0}  # with convolutions that were pre-trained on CIFAR-100
SIDE, LOT, CLIP_NORM, MOMENTUM = 24, 2000, 1.0, 0.9
STEPS = {2.0: 800, 4.0: 1200, 8.0: 1600}
TRIED_AT = 4.0
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"ReLU": nn.ReLU, "tanh": nn.Tanh}
FEATURES = {"scattering": "scattering, linear layer", "encoder": "ImageNet encoder, linear layer"}
SPEEDS: dict[str, tuple[float, ...]] = {  # what is tried, in the order of the jobs
    "ReLU": (0.03, 0.06, 0.12, 0.25),
    "tanh": (0.03, 0.06, 0.12, 0.25),
    "scattering": (0.4, 0.8, 1.6, 3.2),
    "encoder": (0.4, 0.8, 1.6, 3.2),
}
LINEAR = {2.0: 400, 4.0: 600, 8.0: 800}  # steps of a linear layer, on samples of 8,192
MEANS, SPREADS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # widely published, and taken as public
PLAIN = "ReLU, not private"
NOTES = {
    "ReLU": "from scratch; published: convolutions pre-trained on CIFAR-100",
    "tanh": "from scratch, tanh; published: as above",
    "scattering": "no public data; published: as above",
    "encoder": "trained on ImageNet; published: as above",
}


def jobs(settings: Settings) -> list[Job]:
    """Return all runs: first how far steps should go, then one seed of everything."""
    listed = [_trial(kind, speed) for kind, speeds in SPEEDS.items() for speed in speeds]
    for seed in settings.seeds:
        listed += [_run(kind, epsilon, seed) for kind in SPEEDS for epsilon in PUBLISHED]
        listed.append(_job(f"{PLAIN}, seed {seed}", "ReLU", seed + 1, seed=seed, epsilon=None, speed=None))
    return listed


def prepare(settings: Settings) -> None:
    """Read the images."""
    load(settings)


def work(settings: Settings, device: str, *, kind: str, seed: int, **what: Any) -> dict[str, Any]:
    """Train once."""
    torch.manual_seed(seed)
    epsilon, speed = what["epsilon"], what["speed"]
    if epsilon is None:
        return _plainly(settings, load(settings).to(device))
    trial = speed is not None
    speed = best_speed(settings, kind) if speed is None else speed
    if kind in FEATURES:
        steps = 3 if settings.quick else LINEAR[epsilon] // (3 if trial else 1)
        recipe = Recipe(speed=speed, num_steps=steps, batch_size=100 if settings.quick else 8192)
        reached, spent = scattering.once(_features(settings, kind, device), epsilon, recipe)
        return {"accuracy": reached, "epsilon": spent, "speed": speed, "steps": steps, "curve": [], "step_ms": None}
    return _network(settings, load(settings).to(device), kind, epsilon, speed, trial=trial)


def _network(
    settings: Settings, images: Images, kind: str, epsilon: float, speed: float, *, trial: bool
) -> dict[str, Any]:
    lot, whole = (20, 3) if settings.quick else (LOT, STEPS[epsilon])
    steps, every = (whole // 3 if trial else whole), max(len(images.x) // lot, 1)
    # A trial has the noise of a whole run.
    noise = calibrate_noise(epsilon=epsilon, delta=DELTA, sampling_rate=lot / len(images.x), num_steps=whole)
    model, curve = network(kind, 4 if settings.quick else 64).to(images.x.device), []

    def after(step: int, average: MovingAverage) -> None:
        if step % every == 0 and not trial:
            curve.append((step // every, round(accuracy(average.copy(), images.x_test, images.y_test), 3)))

    trained = train(
        model,
        (images.x, images.y),
        sgd(model, speed / CLIP_NORM, MOMENTUM),
        noise_multiplier=noise,
        batch_size=lot,
        clip_norm=CLIP_NORM,
        num_steps=steps,
        cool_down=True,
        compile=False,
        after=after,
    )
    return {
        "accuracy": accuracy(trained.model, images.x_test, images.y_test),
        "epsilon": trained.epsilon,
        "noise": noise,
        "speed": speed,
        "steps": steps,
        "curve": curve,
        "step_ms": 1000 * trained.seconds / steps,
    }


def network(kind: str, channels: int = 64) -> nn.Module:
    """Return the network of the paper; its last layer starts at zero."""
    active, last = ACTIVATIONS[kind], nn.Linear(6 * channels, 10)
    nn.init.zeros_(last.weight)
    layers: list[nn.Module] = []
    for inputs in (3, channels):
        layers += [nn.Conv2d(inputs, channels, 5, padding=2), active(), nn.MaxPool2d(2)]
    layers.append(nn.Flatten())
    for inputs in (channels * (SIDE // 4) ** 2, 6 * channels):
        layers += [nn.Linear(inputs, 6 * channels), active()]
    return nn.Sequential(*layers, last)


def _plainly(settings: Settings, images: Images) -> dict[str, Any]:
    """Train the network without privacy: 20 epochs of batches of 128, at one learning rate, without augmentation."""
    model, steps = network("ReLU").to(images.x.device), 3 if settings.quick else 20 * len(images.x) // 128
    train_plainly(model, (images.x, images.y), sgd(model, 0.02), batch_size=128, num_steps=steps)
    return {"accuracy": accuracy(model, images.x_test, images.y_test), "steps": steps, "step_ms": None}


def best_speed(settings: Settings, kind: str) -> float:
    """Return which speed did best in trials that ``run_jobs.py`` has written down so far; the second, without any."""
    path, reached = settings.output / "jobs.jsonl", {}
    names = {_trial(kind, speed).key: speed for speed in SPEEDS[kind]}
    for line in path.read_text().splitlines()[1:] if path.exists() else []:
        record = json.loads(line)
        if record["job"] in names and "result" in record:
            reached[names[record["job"]]] = record["result"]["accuracy"]
    return max(reached, key=lambda speed: reached[speed]) if reached else SPEEDS[kind][1]


@lru_cache(maxsize=1)
def load(settings: Settings) -> Images:
    """Return the middle of the images, less the published mean; a few, if it is to be quick and there are none."""
    folder, parts = settings.data / "cifar10", []
    if settings.quick and not folder.exists():
        return _made_up()
    for part, few in (("train", 2000), ("t10k", 500)):
        pixels, classes = (read_idx(folder / f"{part}-{kind}-ubyte.gz") for kind in ("images-idx4", "labels-idx1"))
        border = (pixels.shape[1] - SIDE) // 2
        pixels = pixels[: few if settings.quick else None, border : border + SIDE, border : border + SIDE]
        parts += [_scaled(torch.from_numpy(pixels.copy())), torch.from_numpy(classes[: len(pixels)].astype(np.int64))]
    return Images("cifar-10", *parts)


def _scaled(pixels: Tensor) -> Tensor:
    images = pixels.permute(0, 3, 1, 2).float() / 255
    return ((images - torch.tensor(MEANS).view(3, 1, 1)) / torch.tensor(SPREADS).view(3, 1, 1)).contiguous()


def _made_up() -> Images:
    pixels = torch.randint(256, (250, SIDE, SIDE, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    x, y = _scaled(pixels), torch.arange(250) % 10
    return Images("cifar-10", x[:200], y[:200], x[200:], y[200:])


@lru_cache(maxsize=1)
def _features(settings: Settings, kind: str, device: str) -> Scattered:
    images = load(settings)
    if kind == "scattering":
        transform = Scattering((SIDE, SIDE), groups=27).to(device)
        x, x_test = (_scattered(transform, part, device) for part in (images.x, images.x_test))
    else:
        x, x_test = (_normalised(part).to(device) for part in _encoded(settings, images))
    return Scattered(x, images.y.to(device), x_test, images.y_test.to(device))


@torch.no_grad()
def _scattered(transform: Scattering, images: Tensor, device: str) -> Tensor:
    """Return features of the pixels as they are, between 0 and 1."""
    mean, spread = (torch.tensor(values).view(3, 1, 1) for values in (MEANS, SPREADS))
    return torch.cat([transform((part * spread + mean).to(device)).flatten(1) for part in images.split(500)])


def _encoded(settings: Settings, images: Images) -> tuple[Tensor, Tensor]:
    path = settings.data / "cifar10" / "encoder.npz"
    if not path.exists():
        if settings.quick:
            return images.x.flatten(1), images.x_test.flatten(1)
        raise SystemExit(f"{path.name} is not in {path.parent}: python reproductions/cifar10_data.py --encode")
    with np.load(path) as parts:
        x, x_test = (torch.from_numpy(parts[part].astype(np.float32)) for part in ("train", "t10k"))
    return x[: len(images.x)], x_test[: len(images.x_test)]


def _normalised(features: Tensor) -> Tensor:
    """Bring each image's features to mean 0 and variance 1 by themselves, as the bound of the private mean wants it."""
    return nn.functional.layer_norm(features, features.shape[1:])


def _trial(kind: str, speed: float) -> Job:
    title = f"{kind}, epsilon {TRIED_AT:g}, trial of speed {speed:g}"
    return _job(title, kind, 0, seed=0, epsilon=TRIED_AT, speed=speed)


def _run(kind: str, epsilon: float, seed: int) -> Job:
    return _job(f"{kind}, epsilon {epsilon:g}, seed {seed}", kind, seed + 1, seed=seed, epsilon=epsilon, speed=None)


def _job(name: str, kind: str, rank: int, **arguments: Any) -> Job:
    return Job(script="cifar10", name=name, arguments={"kind": kind, **arguments}, rank=rank, large=True)


def run(settings: Settings) -> list[Row]:
    """Run all jobs here; a few, if it is to be quick."""
    listed = jobs(settings)
    if settings.quick:
        listed = [_trial("tanh", SPEEDS["tanh"][0]), *(_run(kind, 2.0, 0) for kind in SPEEDS)]
    return report(settings, run_here(listed, settings, here()))


def report(settings: Settings, results: Results) -> list[Row]:
    """Return rows of all that has run, and draw it."""
    rows, groups = (
        [],
        {
            (kind, epsilon): [_run(kind, epsilon, seed) for seed in settings.seeds]
            for kind in SPEEDS
            for epsilon in PUBLISHED
        },
    )
    for (kind, epsilon), listed in groups.items():
        rows += _row(kind, epsilon, listed, results)
    plain = [job for job in jobs(settings) if job.name.startswith(PLAIN)]
    reached = [result["accuracy"] for result in results.several(plain)]
    if reached:
        rows.append(Row(PLAIN, "cifar-10", "", None, math.inf, reached, results.seconds(plain), "20 epochs"))
    _draw(settings, rows)
    return rows


def _row(kind: str, epsilon: float, listed: list[Job], results: Results) -> list[Row]:
    found = results.several(listed)
    if not found:
        return []
    speeds = "/".join(f"{speed:g}" for speed in sorted({result["speed"] for result in found}))
    note = f"{NOTES[kind]}; {found[0]['steps']} steps, lr times C {speeds}"
    reached, spent = [result["accuracy"] for result in found], max(result["epsilon"] for result in found)
    published = f"{PUBLISHED[epsilon]:g} at {epsilon:g}"
    name = FEATURES.get(kind, f"two convolutions, {kind}")
    return [Row(name, "cifar-10", published, None, spent, reached, results.seconds(listed), note)]


def remarks(settings: Settings, results: Results) -> list[str]:
    """Say what was tried, what is missing and how long steps took."""
    listed = jobs(settings)
    networks = [job for job in listed if job.arguments["kind"] in ACTIVATIONS]
    lines = [
        *_tried(results),
        missing(listed, results),
        elsewhere(listed, results),
        speed_remark(networks, results, f"two convolutions, lots of {LOT}"),
    ]
    return [line for line in lines if line]


def _tried(results: Results) -> list[str]:
    parts = []
    for kind, speeds in SPEEDS.items():
        found = {speed: results.of(_trial(kind, speed)) for speed in speeds}
        reached = [f"{speed:g}: {result['accuracy']:.1f}" for speed, result in found.items() if result]
        if reached:
            parts.append(f"{kind} ({', '.join(reached)} %)")
    return [f"Trials of the learning rate times the clip norm, a third of the steps: {'; '.join(parts)}."] * bool(parts)


def _draw(settings: Settings, rows: list[Row]) -> None:
    with figure(settings, "cifar10") as axes:
        for name in dict.fromkeys(row.experiment for row in rows if not math.isinf(row.epsilon)):
            of = [row for row in rows if row.experiment == name]
            errors = [row.spread or 0.0 for row in of]
            axes.errorbar(
                [row.epsilon for row in of],
                [statistics.fmean(row.accuracies) for row in of],
                errors,
                label=name,
                capsize=2,
            )
        axes.plot(list(PUBLISHED), list(PUBLISHED.values()), label="published, pre-trained on CIFAR-100")
        axes.set(xlabel="epsilon", ylabel="test accuracy, %", xscale="log", title="CIFAR-10")
        mark(axes, list(PUBLISHED))
        axes.legend(fontsize=7)


if __name__ == "__main__":
    main(run, __doc__)
