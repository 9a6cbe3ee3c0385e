"""Who pays for privacy? Class 8 of MNIST, cut to 500 examples (Bagdasaryan, Poursaeed and Shmatikov 2019).

Their settings: clip norm S = 1, noise multiplier z = 0.8, batches of 256. They train a convolutional network for 60
epochs with learning rate 0.01; here it is one hidden layer, for 20 epochs with 0.05, which a processor does in
seconds. Then two things that might help, at the same epsilon: batches eight times as large, and automatic clipping,
which brings all gradients to one norm, the small ones of frequent classes too. What they do to the gap is in the table.

    python reproductions/disparate_impact.py [--seeds 3] [--data DIR] [--quick]
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from common import Images, Row, Settings, figure, load, main, measure, predictions, sgd, train, train_plainly
from torch import Tensor, nn

from hush.training import Automatic, Flat

RARE, LEFT = 8, 500
EPOCHS, BATCH, NOISE, MOMENTUM = 20, 256, 0.8, 0.5
PAPER: dict[str, Any] = {"lr": 0.05, "batch_size": BATCH, "clipping": Flat(1.0)}
WAYS: dict[str, dict[str, Any]] = {
    "DP-SGD, batches of 256": PAPER,
    "automatic clipping": PAPER | {"clipping": Automatic()},
    "batches of 2048": PAPER | {"lr": 0.4, "batch_size": 8 * BATCH},
    "batches of 2048, automatic clipping": PAPER | {"lr": 0.4, "batch_size": 8 * BATCH, "clipping": Automatic()},
}


def run(settings: Settings) -> list[Row]:
    images = without_most(load("mnist", settings), 20 if settings.quick else LEFT)
    by_name: dict[str, list[Tensor]] = {}
    rows = _measure(settings, images, by_name, "not private", partial(plainly, images, settings), "")
    epsilon: float | None = None
    for name, way in WAYS.items():
        once = partial(privately, images, settings, epsilon=epsilon, **way)
        published = "minority accuracy collapses (figure)" if name.startswith("DP-SGD") else ""
        rows += _measure(settings, images, by_name, name, once, published)
        epsilon = rows[-1].epsilon if epsilon is None else epsilon  # what the paper's noise costs, for all
    _draw(settings, by_name, epsilon)
    return rows


def without_most(images: Images, left: int) -> Images:
    """Return images with the first few only of the rare class, for training; the test images are all there."""
    rare = (images.y == RARE).nonzero().flatten()
    is_kept = torch.ones(len(images.y), dtype=torch.bool)
    is_kept[rare[left:]] = False
    return replace(images, x=images.x[is_kept], y=images.y[is_kept])


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def plainly(images: Images, settings: Settings) -> tuple[nn.Module, float]:
    model = network()
    steps = 5 if settings.quick else EPOCHS * len(images.x) // BATCH
    optimizer = sgd(model, PAPER["lr"], MOMENTUM)
    return train_plainly(model, (images.x, images.y), optimizer, batch_size=BATCH, num_steps=steps), math.inf


def privately(
    images: Images, settings: Settings, *, lr: float, epsilon: float | None, batch_size: int, **plan: Any
) -> tuple[nn.Module, float]:
    model = network()
    noise = {"noise_multiplier": NOISE} if epsilon is None else {"epsilon": epsilon}
    size = min(batch_size, len(images.x) // 8)
    steps = 5 if settings.quick else math.ceil(EPOCHS * len(images.x) / size)
    optimizer = sgd(model, lr, MOMENTUM)
    trained = train(model, (images.x, images.y), optimizer, batch_size=size, num_steps=steps, **noise, **plan)
    return trained.model, trained.epsilon


def per_class(model: nn.Module, images: Images) -> Tensor:
    """Return how many in a hundred test images of each class are right."""
    right = (predictions(model, images.x_test) == images.y_test).double()
    return torch.stack([100 * right[images.y_test == one].mean() for one in range(10)])


def _measure(
    settings: Settings, images: Images, by_name: dict[str, list[Tensor]], name: str, once: Any, published: str
) -> list[Row]:
    """Return two rows: the rare class, and the mean of the others."""
    by_seed = by_name.setdefault(name, [])

    def rare() -> tuple[float, float]:
        model, epsilon = once()
        by_seed.append(per_class(model, images))
        return by_seed[-1][RARE].item(), epsilon

    row = measure(settings, rare, f"class {RARE}: {name}", "mnist, cut", published=published)
    others = [(by_class.sum() - by_class[RARE]).item() / 9 for by_class in by_seed]
    gap = sum(others) / len(others) - row.mean
    second = replace(row, experiment=f"other classes: {name}", published="", accuracies=others)
    return [replace(row, note=f"{gap:.1f} points below the other classes"), second]


def _draw(settings: Settings, by_name: dict[str, list[Tensor]], epsilon: float | None) -> None:
    with figure(settings, "disparate_impact", columns=2) as (left, right):
        means = {name: torch.stack(accuracies).mean(0) for name, accuracies in by_name.items()}
        for name, mean in means.items():
            left.plot(range(10), mean, linestyle="", label=name)
        left.set(xlabel="class", ylabel="test accuracy, %", title=f"epsilon {epsilon:.2f}", xticks=range(10))
        left.legend(fontsize=6)
        gaps = [((mean.sum() - mean[RARE]) / 9 - mean[RARE]).item() for mean in means.values()]
        right.barh(list(means), gaps)
        right.set(xlabel=f"others less class {RARE}, points", title=f"class {RARE} has {LEFT} examples")
        right.invert_yaxis()


if __name__ == "__main__":
    main(run, __doc__)
