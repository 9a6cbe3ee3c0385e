"""The report's figures 1 to 3, with correct epsilons: noise scale, batch size and clip norm.

Softmax regression on Fashion-MNIST for 20 epochs (the report: 50), by DP-SGD proper: each example's gradient is
clipped, samples are Poisson, noise of sigma C is added to their sum. What the figures show: noise buys privacy with
little accuracy down to epsilons below 1; at one noise multiplier, a larger batch costs more privacy and has *less*
noise on its mean; the clip norm costs no privacy at all, and with a learning rate of 1/C hardly matters over two
decades.

    python reproductions/sweeps.py [--seeds 3] [--data DIR] [--quick]
"""

from __future__ import annotations

from functools import partial
from typing import Any

from common import Images, Row, Settings, accuracy, figure, linear, load, main, mark, measure, sgd, train

EPOCHS = 20
BASE: dict[str, Any] = {"sigma": 1.0, "batch": 600, "clip_norm": 1.0, "lr": 0.1}
SIGMAS = (0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0)
BATCHES = (100, 200, 400, 600, 800, 1000)
CLIP_NORMS = (0.01, 0.1, 0.5, 1.0, 3.0, 10.0)


def run(settings: Settings) -> list[Row]:
    images = load("fashion-mnist", settings)
    points = {
        "noise scale": [({"sigma": value}, value) for value in SIGMAS],
        "batch size": [({"sigma": 0.7, "batch": value, "lr": BASE["lr"] * value / 600}, value) for value in BATCHES],
        "clip norm": [({"clip_norm": value}, value) for value in CLIP_NORMS],
        "clip norm, learning rate ~ 1/C": [({"clip_norm": v, "lr": BASE["lr"] / v}, v) for v in CLIP_NORMS],
    }
    curves: dict[str, tuple[list[float], list[Row]]] = {}
    for name, changes in points.items():
        used = changes[2:3] if settings.quick else changes
        rows = [_measure(settings, images, name, value, BASE | change) for change, value in used]
        curves[name] = [value for _, value in used], rows
    _draw(settings, curves)
    return [row for _, rows in curves.values() for row in rows]


def once(
    images: Images, settings: Settings, *, sigma: float, batch: int, clip_norm: float, lr: float
) -> tuple[float, float]:
    steps = 5 if settings.quick else EPOCHS * len(images.x) // batch
    model = linear()
    trained = train(
        model,
        (images.x, images.y),
        sgd(model, lr),
        noise_multiplier=sigma,
        batch_size=batch,
        clip_norm=clip_norm,
        num_steps=steps,
    )
    return accuracy(trained.model, images.x_test, images.y_test), trained.epsilon


def _measure(settings: Settings, images: Images, name: str, value: float, recipe: dict[str, Any]) -> Row:
    note = (
        f"sigma {recipe['sigma']:g}, batches of {recipe['batch']}, C = {recipe['clip_norm']:g}, lr {recipe['lr']:.3g}"
    )
    return measure(settings, partial(once, images, settings, **recipe), f"{name} = {value:g}", images.name, note=note)


def _draw(settings: Settings, curves: dict[str, tuple[list[float], list[Row]]]) -> None:
    for title in ("noise scale", "batch size"):
        values, rows = curves[title]
        with figure(settings, f"sweep_{title.replace(' ', '_')}") as axes:
            axes.plot(values, [row.mean for row in rows])
            axes.set(xlabel=title, ylabel="test accuracy, %", xscale="log" if title == "noise scale" else "linear")
            mark(axes, values)
            other = axes.twinx()
            other.plot(values, [row.epsilon for row in rows], color="#D55E00", marker="s", linestyle="--")
            other.set(ylabel="epsilon (dashed)", yscale="log")
            other.grid(visible=False)
    with figure(settings, "sweep_clip_norm") as axes:
        for name, (values, rows) in curves.items():
            if name.startswith("clip norm"):
                axes.plot(values, [row.mean for row in rows], label=name)
                shown = values
        axes.set(
            xlabel="clip norm C",
            ylabel="test accuracy, %",
            xscale="log",
            title=f"epsilon {rows[0].epsilon:.3g} for all",
        )
        mark(axes, shown)
        axes.legend(fontsize=7)


if __name__ == "__main__":
    main(run, __doc__)
