"""Figures. Only this module imports matplotlib, which comes with the extra ``plot``."""

from __future__ import annotations

from pathlib import Path

from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Guarantee

# Okabe & Ito 2008: distinguishable with every kind of colour vision.
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#666666"


def plot_plan(epochs: list[dict[str, float]], guarantee: Guarantee, path: Path) -> None:
    """Draw epsilon over the epochs, by both accountants."""
    if path.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise InvalidArgument("plot", str(path), "a file name that ends in .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise InvalidArgument("plot", str(path), "a file in a folder that exists")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Unsupported("--plot needs matplotlib", "Install it with: pip install 'hush[plot]'") from None
    figure = Figure(figsize=(7.2, 4.2), layout="constrained", dpi=150)
    axes = figure.subplots()
    at = [0.0] + [row["epoch"] for row in epochs]
    pld = [0.0] + [row["epsilon"] for row in epochs]
    rdp = [0.0] + [row["rdp_epsilon"] for row in epochs]
    marker = "o" if len(epochs) <= 30 else None
    axes.plot(at[1:], rdp[1:], color=_ORANGE, linestyle="--", marker=marker, markersize=3, label="Renyi (RDP)")
    axes.plot(at[1:], pld[1:], color=_BLUE, marker=marker, markersize=3, label="privacy loss distribution (certified)")
    axes.axhline(guarantee.epsilon, color=_GREY, linewidth=0.8, linestyle=":")
    axes.annotate(
        f"epsilon = {guarantee.epsilon:.4g}",
        (0, guarantee.epsilon),
        xytext=(4, 4),
        textcoords="offset points",
        color=_GREY,
        fontsize=9,
    )
    axes.set(xlabel="epoch", ylabel=f"epsilon at delta = {guarantee.delta:.3g}", xlim=(0, None), ylim=(0, None))
    axes.set_title("What the training has given away", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    try:
        figure.savefig(path)
    except OSError as error:
        raise InvalidArgument("plot", str(path), "a file that can be written", error.strerror or "") from None
