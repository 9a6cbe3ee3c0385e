"""How clipping and noise affect the convergence of training: reproduces the table of `hush.lab.ntk`, with plots.

1. The table, on two problems. A linear model in two layers with four examples, found among small integers, shows the
   worst that clipping can do. A small network, which has learnt eleven handwritten digits and has not seen the twelfth,
   shows what it usually does.
2. The decrease of the loss that the kernel predicts for a step, against the actual decrease.
3. Gradient descent without noise, under several ways to clip, on the linear model.
4. Gradient descent with noise and without clipping, on linear regression, against the floor that theory predicts.

    python examples/ntk_laboratory.py [--output ntk_laboratory]

It takes less than a minute, and writes ntk_laboratory.png and ntk_laboratory.svg to the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn

from hush.lab import ntk
from hush.training import Automatic, Clipping, Flat, Global, PerLayer

# Okabe & Ito 2008: distinguishable with every kind of colour vision. Markers and dashes say the same once more.
BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY = "#000000", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"

Problem = tuple[nn.Module, Tensor, Tensor, ntk.Loss]
Study = tuple[dict[str, ntk.Ntk], dict[str, Tensor]]


class Two(nn.Module):
    """A linear model whose weights are in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(2, 1, bias=False), nn.Linear(2, 1, bias=False)
        nn.init.zeros_(self.left.weight)
        nn.init.zeros_(self.right.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Add up both layers, each on its half of the inputs."""
        total: Tensor = self.left(x[:, :2]) + self.right(x[:, 2:])
        return total


def squared(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs - y).square().sum(1)


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, y, reduction="none")


def linear_problem() -> Problem:
    x = [[-2.0, 0, -3, -4], [3, 4, 4, -1], [-3, 3, -2, -1], [-2, -1, -4, 2]]
    return Two(), torch.tensor(x), torch.tensor([[1.0], [7], [-1], [1]]), squared


def network_problem() -> Problem:
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images[:12], dtype=torch.float32) / 16, torch.tensor(labels[:12])
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(model(x[1:]), y[1:]).mean().backward()
        optimizer.step()
    return model, x, y, cross_entropy


def ways(clip_norm: float, threshold: float, beyond: float) -> dict[str, Clipping | None]:
    return {
        "none": None,
        "flat, large clip norm": Flat(1e3),
        "global": Global(clip_norm, threshold=threshold),
        "global, some beyond": Global(clip_norm, threshold=beyond),
        "flat": Flat(clip_norm),
        "automatic": Automatic(clip_norm),
        "flat, per layer": Flat(clip_norm, PerLayer()),
        "automatic, per layer": Automatic(clip_norm, PerLayer()),
    }


def print_table(title: str, kernels: dict[str, ntk.Ntk], losses: dict[str, Tensor]) -> None:
    """Print the kernels at the start, and the course of gradient descent.

    Of the eigenvalues it shows the smallest real and the largest imaginary part.
    """
    print(f"\n{title}")
    print(f"{'clipping':<23}{'symmetric':<11}{'eigenvalues >= 0':<25}{'quadratic form >= 0':<21}{'loss never rises'}")
    for name, kernel in kernels.items():
        values, way = kernel.eigenvalues, losses[name]
        real, imaginary = float(values.real.min()), float(values.imag.abs().max())
        spectrum = f"{yes(kernel.has_nonnegative_eigenvalues):<4}({real:.2g}, +-{imaginary:.2g}i)"
        form = f"{yes(kernel.loss_cannot_rise):<4}({kernel.smallest_quadratic_form:.2g})"
        monotone = yes(bool((way.diff() <= 1e-12).all()))
        path = f"{monotone:<4}({way[0]:.3g}, {way.max():.3g} at most, {way[-1]:.2g})"
        print(f"{name:<23}{yes(kernel.is_symmetric):<11}{spectrum:<25}{form:<21}{path}")


def study(title: str, problem: Problem, chosen: dict[str, Clipping | None], **settings: Any) -> Study:
    """Return the kernels and the losses of gradient descent under each way to clip, and print them."""
    kernels = {name: ntk.kernel(*problem, clipping=clipping) for name, clipping in chosen.items()}
    losses = {name: ntk.descent(*problem, clipping=clipping, **settings) for name, clipping in chosen.items()}
    print_table(title, kernels, losses)
    return kernels, losses


def yes(true: bool) -> str:
    return "yes" if true else "NO"


def draw_spectra(axes: Axes, kernels: dict[str, ntk.Ntk]) -> None:
    shown = ["none", "global", "global, some beyond", "flat", "automatic", "flat, per layer", "automatic, per layer"]
    for height, name in enumerate(reversed(shown)):
        kernel = kernels[name]
        largest = float(kernel.eigenvalues.real.max())
        values, form = kernel.eigenvalues.real / largest, kernel.smallest_quadratic_form / largest
        axes.axhline(height, color="#dddddd", linewidth=0.8, zorder=0)
        axes.plot(values, [height] * len(values), "o", color=BLUE, markersize=6, label="eigenvalues")
        axes.plot([form], [height], "D", color=ORANGE, markersize=9, fillstyle="none", label="smallest quadratic form")
    axes.axvline(0, color=BLACK, linewidth=0.8)
    axes.set_xscale("symlog", linthresh=0.01, linscale=0.6)
    axes.set(yticks=range(len(shown)), yticklabels=shown[::-1], xlabel="value, in multiples of the largest eigenvalue")
    axes.set_xticks([-0.1, -0.01, 0, 0.01, 0.1, 1], ["-0.1", "-0.01", "0", "0.01", "0.1", "1"])
    axes.minorticks_off()
    axes.set_xlim(-0.3, 1.4)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[:2], labels[:2], loc="upper left", bbox_to_anchor=(0.01, 0.95))
    axes.set_title("Spectra on the linear model: left of 0, the loss may rise")


def draw_gaps(axes: Axes, problem: Problem, clip_norm: float) -> None:
    rates = [10 ** (-3 + 0.25 * step) for step in range(9)]
    styles: list[tuple[str, Clipping | None, str, str, float]] = [
        ("none", None, BLACK, "o", 4),
        ("flat", Flat(clip_norm), BLUE, "s", 9),
        ("flat, per layer", Flat(clip_norm, PerLayer()), ORANGE, "^", 5),
    ]
    for name, clipping, colour, marker, size in styles:
        kernel = ntk.kernel(*problem, clipping=clipping)
        measured = [ntk.measured_decrease(*problem, learning_rate=rate, clipping=clipping) for rate in rates]
        gaps = [abs(decrease - kernel.predicted_decrease(rate)) for decrease, rate in zip(measured, rates, strict=True)]
        axes.plot(rates, measured, color=colour, marker=marker, markersize=size, fillstyle="none", label=name)
        axes.plot(rates, gaps, color=colour, marker=marker, markersize=size, fillstyle="none", linestyle=":")
        predicted = kernel.predicted_decrease(rates[0])
        print(f"  {name:<17} predicted {predicted:.6e}, measured {measured[0]:.6e} at {rates[0]:g}")
    axes.text(rates[4], 6e-6, "decrease of the loss", verticalalignment="top")
    axes.text(rates[0], 4e-8, "its distance from\nthe prediction", verticalalignment="center")
    axes.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="loss")
    axes.legend(loc="lower right")
    axes.set_title("One step of the network: slopes are 1 and 2")


def draw_descent(axes: Axes, losses: dict[str, Tensor], rate: float) -> None:
    styles: dict[str, tuple[str, Any]] = {
        "none": (BLACK, "-"),
        "global": (GREEN, "-."),
        "flat": (BLUE, "--"),
        "global, some beyond": (PURPLE, (0, (1, 1))),
        "flat, per layer": (ORANGE, "-"),
    }
    for name, (colour, dashes) in styles.items():
        axes.plot(rate * torch.arange(len(losses[name])), losses[name], color=colour, linestyle=dashes, label=name)
    axes.set(xlabel="time (learning rate x steps)", ylabel="mean loss", ylim=(0, 17), xlim=(0, 60))
    axes.legend(loc="upper left", ncols=2)
    axes.set_title("Descent of the linear model, without noise")


def draw_noise(axes: Axes) -> None:
    chance = torch.Generator().manual_seed(3)
    size, inputs, rate, num_steps, num_runs = 60, 20, 0.3, 120, 200
    x = torch.randn(size, inputs, generator=chance, dtype=torch.float64)
    y = x @ torch.randn(inputs, 1, generator=chance, dtype=torch.float64)
    model = nn.Linear(inputs, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    hessian = x.mT @ x / size
    distance = -torch.linalg.solve(hessian, x.mT @ y / size).flatten()
    stddevs = [0.0, 0.01, 0.1, 1.0]
    settings: dict[str, Any] = {"learning_rate": rate, "num_steps": num_steps}
    mean_losses = ntk.noise_sweep(
        model, x, y, squared, noise_stddevs=stddevs, rng=chance, num_runs=num_runs, **settings
    ).mean(1)
    marks = torch.arange(0, num_steps + 1, 6)
    for stddev, losses, colour, marker in zip(stddevs, mean_losses, (BLACK, SKY, BLUE, ORANGE), "osD^", strict=True):
        theory = ntk.expected_excess(hessian, distance, noise_stddev=stddev, **settings)
        floor = ntk.noise_floor(hessian, learning_rate=rate, noise_stddev=stddev)
        axes.plot(theory, color=colour, linewidth=1)
        axes.plot(marks, losses[marks], marker, color=colour, markersize=4, label=f"sigma = {stddev:g}")
        if stddev:
            axes.axhline(floor, color=colour, linestyle=":", linewidth=1)
            late = float(losses[-20:].mean())
            simple = rate * stddev**2 * inputs / 4
            print(f"  sigma {stddev:<5g} floor {floor:.4g}, measured {late:.4g}; lr sigma^2 d / 4 is {simple:.4g}")
    axes.set(yscale="log", xlabel="step", ylabel="loss above its minimum", xlim=(0, num_steps), ylim=(1e-6, 40))
    legend = f"marks: means of {num_runs} runs; lines: theory; dotted: floor"
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.71), ncols=2, title=legend)
    axes.set_title("Noise alone: the same speed, down to a floor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("ntk_laboratory"), help="folder for the plots")
    options = parser.parse_args()
    torch.set_num_threads(1)  # for matrices this small, threads cost more than they bring
    figure = Figure(figsize=(13, 9.5), layout="constrained", dpi=110)
    panels = figure.subplots(2, 2)
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)

    print("[1/3] Kernels, and gradient descent, under each way to clip (about 20 s) ...", flush=True)
    title, rate = "A linear model in two layers, four examples, clip norm 1:", 0.06
    chosen = ways(1.0, threshold=60.0, beyond=20.0)
    kernels, losses = study(title, linear_problem(), chosen, learning_rate=rate, num_steps=1000)
    draw_spectra(panels[0, 0], kernels)
    draw_descent(panels[1, 0], losses, rate)
    title, network = (
        "A network, eleven digits that it knows and one that it does not, clip norm 0.1:",
        network_problem(),
    )
    study(title, network, ways(0.1, threshold=60.0, beyond=0.7), learning_rate=0.1, num_steps=150)
    print("\n[2/3] One step of the network: the decrease of the loss ...", flush=True)
    draw_gaps(panels[0, 1], network, 0.1)
    print("\n[3/3] Linear regression with noise and without clipping ...", flush=True)
    draw_noise(panels[1, 1])

    for axes in panels.flat:
        axes.title.set(horizontalalignment="left", position=(0, 1))
        axes.get_legend().set_frame_on(False)
    options.output.mkdir(parents=True, exist_ok=True)
    for ending in ("png", "svg"):
        figure.savefig(options.output / f"ntk_laboratory.{ending}")
    print(f"\nThe plots are in {options.output}: ntk_laboratory.png and .svg")


if __name__ == "__main__":
    main()
