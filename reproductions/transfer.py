"""Does it help to start from public data? Pre-train on MNIST (declared public), fine-tune on Fashion-MNIST (private).

One small convolutional network at one epsilon, from random weights and from weights that were trained on digits; a
linear layer on its features, which stay as they are, random or trained on digits; and a linear layer on pixels.
Digits are far from clothes: whichever wins is what the table says, and the last line of the output says it in words.

    python reproductions/transfer.py [--seeds 3] [--data DIR] [--quick]
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from common import Images, Row, Settings, accuracy, figure, linear, load, main, measure, sgd, train
from torch import Tensor, nn

from hush.training import PublicPhase, pretrain

EPSILON = 2.0
PUBLIC = "MNIST, handwritten digits that were published for research"
NETWORK: dict[str, Any] = {"batch_size": 1024, "num_steps": 300, "clip_norm": 0.5}
HEAD: dict[str, Any] = {"batch_size": 6000, "num_steps": 500, "clip_norm": 1.0}  # as in softmax.py
SHORT: dict[str, Any] = {"batch_size": 100, "num_steps": 3}


def run(settings: Settings) -> list[Row]:
    private, public = load("fashion-mnist", settings), load("mnist", settings)
    network, head = ({**plan, **SHORT} if settings.quick else plan for plan in (NETWORK, HEAD))
    ways = {
        "network from random weights": partial(fine_tuned, private, None, settings, network),
        "network from MNIST's weights": partial(fine_tuned, private, public, settings, network),
        "linear layer on random features": partial(on_features, private, None, settings, head),
        "linear layer on MNIST's features": partial(on_features, private, public, settings, head),
        "linear layer on pixels": partial(on_pixels, private, head),
    }
    rows = [measure(settings, way, f"transfer: {name}", private.name) for name, way in ways.items()]
    rows[1] = replace(rows[1], note=verdict(rows))
    print(rows[1].note)
    with figure(settings, "transfer") as axes:
        axes.barh(list(ways), [row.mean for row in rows], xerr=[row.spread or 0.0 for row in rows])
        axes.set(xlabel="test accuracy, %", title=f"Fashion-MNIST, epsilon {EPSILON:g}", xlim=(50, 95))
        axes.invert_yaxis()
    return rows


def verdict(rows: list[Row]) -> str:
    """Return in words what the rows say, of the same network and of the best of either kind."""
    tuned = [row for row in rows if "MNIST" in row.experiment]
    others = [row for row in rows if row not in tuned]
    best, rival = (max(part, key=lambda row: row.mean) for part in (tuned, others))
    return (
        f"The network: {compared(tuned[0], others[0])}. The best with it, {best.experiment!r}, against the best "
        f"without, {rival.experiment!r}: {compared(best, rival)}."
    )


def compared(tuned: Row, scratch: Row) -> str:
    """Return which is better; a difference below twice its standard error is none."""
    difference = tuned.mean - scratch.mean
    error = sum((row.spread or 0.0) ** 2 / len(row.accuracies) for row in (scratch, tuned)) ** 0.5
    if abs(difference) <= 2 * error:
        return f"pre-training makes no difference that these seeds can show ({difference:+.2f} points)"
    return f"{'pre-training' if difference > 0 else 'starting from scratch'} wins, by {abs(difference):.2f} points"


def body() -> nn.Sequential:
    """Return layers from pixels to 512 features."""
    first, second = nn.Conv2d(1, 16, 5, 3, padding=2), nn.Conv2d(16, 32, 4, 2)
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), first, nn.Tanh(), second, nn.Tanh(), nn.Flatten())


def started(public: Images | None, settings: Settings) -> tuple[nn.Sequential, PublicPhase | None]:
    """Return a body that was trained on public images, or is random."""
    backbone = body()
    if public is None:
        return backbone, None
    model = nn.Sequential(backbone, nn.Linear(512, 10))
    images = (public.x[:500], public.y[:500]) if settings.quick else (public.x, public.y)
    phase = pretrain(model, sgd(model, 0.05), images, public=PUBLIC, epochs=1, batch_size=128)
    return backbone, phase


def fine_tuned(private: Images, public: Images | None, settings: Settings, plan: dict[str, Any]) -> tuple[float, float]:
    backbone, phase = started(public, settings)
    model = nn.Sequential(backbone, linear(512))
    examples = (private.x, private.y)
    trained = train(model, examples, sgd(model, 1.0), epsilon=EPSILON, starts_from=phase, **plan)
    return accuracy(trained.model, private.x_test, private.y_test), trained.epsilon


def on_features(
    private: Images, public: Images | None, settings: Settings, plan: dict[str, Any]
) -> tuple[float, float]:
    """Train a linear layer; features stay, so that they are computed once."""
    backbone, phase = started(public, settings)
    x, x_test = (features(backbone, part) for part in (private.x, private.x_test))
    model = linear(512)
    trained = train(model, (x, private.y), sgd(model, 1.0), epsilon=EPSILON, starts_from=phase, **plan)
    return accuracy(trained.model, x_test, private.y_test), trained.epsilon


def on_pixels(private: Images, plan: dict[str, Any]) -> tuple[float, float]:
    """Train softmax regression, without any features: what there is to beat."""
    model = linear()
    trained = train(model, (private.x, private.y), sgd(model, 1.0), epsilon=EPSILON, **plan)
    return accuracy(trained.model, private.x_test, private.y_test), trained.epsilon


@torch.no_grad()
def features(backbone: nn.Module, x: Tensor) -> Tensor:
    """Return features, each image's brought to one mean and size by itself, which costs nothing."""
    return torch.cat([F.layer_norm(backbone(part), (512,)) / 2 for part in x.split(2000)])


if __name__ == "__main__":
    main(run, __doc__)
