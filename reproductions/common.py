"""What the reproductions share: data, a training loop with averaged weights, rows, tables and figures.

A seed sets torch's own generator, which the starting weights are drawn from, and nothing else: hush draws samples and
noise under secret keys of its own, so that two runs with one seed differ. The spread over seeds is thus mostly that
of the noise. (``report_recipe.py`` alone draws its noise from the seed: it protects nobody.) Hyper-parameters were
chosen on these very data (or by those who published them), and that choice is not charged to any epsilon here; ``hush
tune`` is what charges it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

import hush
from hush.training import MovingAverage, PrivateTraining, Projected

FOLDER = Path(__file__).resolve().parent
DELTA = 1e-5
PIXEL_MEANS = {"mnist": 0.1307, "fashion-mnist": 0.2860}  # widely published, and taken as public
SPLIT = (
    "Fashion-MNIST here has the official 70,000 images, but not the official split into training and test images: "
    "compare with published figures to within a few tenths of a point."
)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito 2008
MARKERS = "osD^vP*"


def default_data() -> Path:
    """Return where data are looked for: $HUSH_DATA, or a folder beside the repository."""
    named = os.environ.get("HUSH_DATA")
    return Path(named) if named else FOLDER.parents[1] / "shared" / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a script is run.

    Attributes:
        seeds: One run each, see above.
        data: The folder with ``mnist`` and ``fashion-mnist``, in IDX format.
        output: Where ``figures`` and ``results`` go.
        quick: Whether to run a few steps on a few images only: a test of the script, not an experiment.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    data: Path = field(default_factory=default_data)
    output: Path = FOLDER
    quick: bool = False

    def one_seed(self) -> Settings:
        """Return the same for the first seed alone."""
        return replace(self, seeds=self.seeds[:1])


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what was published, and what was reached here."""

    experiment: str
    data: str
    published: str
    target: float | None
    epsilon: float  # infinite: not private
    accuracies: list[float]  # in percent, one per seed
    seconds: float  # of one seed's run, on average
    note: str = ""

    @property
    def mean(self) -> float:
        """The mean accuracy."""
        return statistics.fmean(self.accuracies)

    @property
    def spread(self) -> float | None:
        """The standard deviation of one run's accuracy, if there is more than one."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else None

    def cells(self) -> list[str]:
        """Return what a table shows."""
        target = "" if self.target is None else f"{self.target:g} ({'met' if self.mean >= self.target else 'missed'})"
        spread = "" if self.spread is None else f"{self.spread:.2f}"
        epsilon = "not private" if math.isinf(self.epsilon) else f"{self.epsilon:.3g}"
        ours = f"{self.mean:.2f}"
        seeds, seconds = str(len(self.accuracies)), f"{self.seconds:.1f}"
        data = f"{self.data}, own split" if self.data == "fashion-mnist" else self.data
        return [self.experiment, data, self.published, target, epsilon, ours, spread, seeds, seconds, self.note]


HEADINGS = ["what", "data", "published", "to reach", "epsilon", "ours, %", "spread", "seeds", "seconds", "notes"]


def table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


@dataclass(frozen=True, slots=True)
class Images:
    """Training and test images, as rows of pixels less the published mean, and their classes."""

    name: str
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor

    def to(self, device: str) -> Images:
        """Return the same on another device."""
        return Images(self.name, *(part.to(device) for part in (self.x, self.y, self.x_test, self.y_test)))


def load(name: str, settings: Settings) -> Images:
    """Return a data set; a few images of it, if it is to be quick."""
    images = _load(name, settings.data)
    if not settings.quick:
        return images
    return Images(name, images.x[:2000], images.y[:2000], images.x_test[:500], images.y_test[:500])


@lru_cache(maxsize=2)
def _load(name: str, folder: Path) -> Images:
    parts = []
    for part in ("train", "t10k"):
        pixels, classes = (
            read_idx(folder / name / f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")
        )
        scaled = torch.from_numpy(pixels.reshape(len(pixels), -1).astype(np.float32) / 255)
        parts += [scaled - PIXEL_MEANS[name], torch.from_numpy(classes.astype(np.int64))]
    return Images(name, *parts)


def read_idx(path: Path) -> np.ndarray:
    """Return the array of a gzipped IDX file of bytes (LeCun, Cortes and Burges: "The MNIST database")."""
    if not path.exists():
        raise SystemExit(f"{path.name} is not in {path.parent}: say --data DIR, or set HUSH_DATA")
    raw = gzip.decompress(path.read_bytes())
    if raw[:3] != b"\0\0\x08":  # two zeros, and 8 for bytes
        raise SystemExit(f"{path.name} is no IDX file of bytes")
    shape = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run: the model with averaged weights, what it cost, and how long its steps took."""

    model: nn.Module
    private: PrivateTraining
    seconds: float

    @property
    def epsilon(self) -> float:
        """What the run has cost."""
        return self.private.guarantee().epsilon


def train(
    model: nn.Module,
    examples: tuple[Tensor, Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    decay: float = 0.98,
    cool_down: bool = False,
    rate: Callable[[int], float] | None = None,
    after: Callable[[int, MovingAverage], None] | None = None,
    **plan: Any,
) -> Trained:
    """Train privately; the result has the moving average of the weights, which costs nothing (post-processing).

    With ``cool_down`` the learning rate goes down to 0, linearly; ``rate`` gives another factor for each step. It does
    not depend on the data, and costs nothing. ``after`` sees the average after every step.
    """
    private = hush.privatize(model, optimizer, examples, delta=DELTA, **plan)
    per_example = partial(F.cross_entropy, reduction="none") if loss is None else loss
    average = MovingAverage(model, decay=decay)
    several = isinstance(private.plan.contribution, Projected)
    total = private.plan.num_steps
    falls = (lambda step: 1 - step / total) if cool_down else (lambda _: 1.0)
    rates = LambdaLR(optimizer, falls if rate is None else rate)
    model.train()
    start, done = time.perf_counter(), 0
    for x, y in private.loader:

        def losses(x: Tensor = x, y: Tensor = y) -> Tensor:
            return per_example(private.model(x), y)

        if private.step(losses if several else losses()).complete:
            average.update()
            rates.step()
            done += 1
            if after is not None:
                after(done, average)
    return Trained(average.copy(), private, time.perf_counter() - start)


def train_plainly(
    model: nn.Module,
    examples: tuple[Tensor, Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    batch_size: int,
    num_steps: int,
    after: Callable[[int], None] | None = None,
) -> nn.Module:
    """Train without any privacy, to compare with: random batches, no clipping, no noise."""
    x, y = examples
    for step in range(num_steps):
        model.train()
        batch = torch.randint(len(x), (batch_size,), device=x.device)
        optimizer.zero_grad()
        F.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
        if after is not None:
            after(step + 1)
    return model


def sgd(model: nn.Module, lr: float, momentum: float = 0.9) -> torch.optim.Optimizer:
    """Return SGD."""
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)


def linear(features: int = 784, classes: int = 10) -> nn.Module:
    """Return a linear model that starts at zero: noise has nothing to unlearn."""
    model = nn.Linear(features, classes)
    for param in model.parameters():
        nn.init.zeros_(param)
    return model


@torch.no_grad()
def predictions(model: nn.Module, x: Tensor) -> Tensor:
    """Return the most likely classes."""
    model.eval()
    return torch.cat([model(part).argmax(1) for part in x.split(2000)])


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Return how many in a hundred are right."""
    return 100 * (predictions(model, x) == y).double().mean().item()


def measure(
    settings: Settings,
    once: Callable[[], tuple[float, float]],
    experiment: str,
    data: str,
    *,
    published: str = "",
    target: float | None = None,
    note: str = "",
) -> Row:
    """Run once per seed; ``once`` returns an accuracy, in percent, and the epsilon that it cost."""
    accuracies, start = [], time.perf_counter()
    for seed in settings.seeds:
        torch.manual_seed(seed)
        accuracies.append(once())
    seconds = (time.perf_counter() - start) / len(accuracies)
    row = Row(
        experiment, data, published, target, max(e for _, e in accuracies), [a for a, _ in accuracies], seconds, note
    )
    print("  ".join(cell for cell in row.cells() if cell), flush=True)
    return row


@contextmanager
def figure(settings: Settings, name: str, columns: int = 1, rows: int = 1) -> Iterator[Any]:
    """Give axes to draw on, and save them as figures/NAME.svg; the same drawing gives the same file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style = {
        "svg.hashsalt": "hush",
        "svg.fonttype": "none",
        "axes.prop_cycle": matplotlib.cycler(color=COLOURS, marker=list(MARKERS)),
        "axes.grid": True,
        "grid.alpha": 0.3,
        "font.size": 9,
    }
    with matplotlib.rc_context(style):
        drawn, axes = pyplot.subplots(rows, columns, figsize=(3.8 * columns + 1.2, 3.4 * rows), layout="constrained")
        yield axes
        folder = settings.output / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        drawn.savefig(folder / f"{name}.svg", metadata={"Date": None})
        pyplot.close(drawn)


def mark(axes: Any, values: Sequence[float]) -> None:
    """Label an axis, logarithmic or not, at the values that were tried."""
    axes.set_xticks(list(values), [f"{value:g}" for value in values], fontsize=7)
    axes.minorticks_off()


def save(
    settings: Settings,
    script: str,
    rows: Sequence[Row],
    *,
    remarks: Sequence[str] = (),
    versions: dict[str, str] | None = None,
) -> None:
    """Write results/SCRIPT.json, from which the page of results is put together.

    Remarks go below the table. Versions are those here, unless the rows come from jobs that ran elsewhere.
    """
    folder = settings.output / "results"
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "script": script,
        "quick": settings.quick,
        "delta": DELTA,
        "versions": here() if versions is None else versions,
        "threads": torch.get_num_threads() if versions is None else 1,
        "remarks": list(remarks),
        "rows": [asdict(row) | {"epsilon": None if math.isinf(row.epsilon) else row.epsilon} for row in rows],
    }
    (folder / f"{script}.json").write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")


def here() -> dict[str, str]:
    """Return the versions of what runs here."""
    return {"hush": hush.__version__, "torch": torch.__version__, "python": platform.python_version()}


def stored(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """Return what `save` wrote."""
    content = json.loads(path.read_text())
    rows = [Row(**row | {"epsilon": math.inf if row["epsilon"] is None else row["epsilon"]}) for row in content["rows"]]
    return content, rows


def options(description: str) -> argparse.ArgumentParser:
    """Return the options that all scripts have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=3, help="how many runs of each experiment")
    parser.add_argument("--data", type=Path, default=default_data(), help="the folder with mnist and fashion-mnist")
    parser.add_argument("--output", type=Path, default=FOLDER, help="where figures and results go")
    parser.add_argument("--quick", action="store_true", help="a few steps on a few images, to test the script")
    return parser


def chosen(given: argparse.Namespace) -> Settings:
    """Return settings from options; what was quick is kept apart from results."""
    apart = given.quick and given.output == FOLDER
    output = Path(tempfile.mkdtemp(prefix="hush-quick-")) if apart else given.output
    return Settings(seeds=tuple(range(given.seeds)), data=given.data, output=output, quick=given.quick)


def main(run: Callable[[Settings], list[Row]], description: str | None) -> None:
    """Run a script from the command line: print its table, store its rows."""
    script = Path(sys.argv[0]).stem
    settings = chosen(options((description or "").splitlines()[0]).parse_args())
    rows = run(settings)
    save(settings, script, rows)
    print("\n" + table(rows))
    if any(row.data == "fashion-mnist" for row in rows):
        print("\n" + SPLIT)
