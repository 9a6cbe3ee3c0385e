"""The tables and the plot of docs/estimators.md, from the results and nothing else."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from measures import KINDS

Cell = dict[str, Any]
SHOWN = 1.0  # the epsilon of short tables


def dumped(results: dict[str, Any]) -> str:
    """Return results as JSON, a line for each cell."""
    cells = ",\n".join("  " + json.dumps(cell) for cell in results["cells"])
    rest = json.dumps({name: value for name, value in results.items() if name != "cells"}, indent=1)
    return rest.rstrip()[:-1].rstrip() + ',\n "cells": [\n' + cells + "\n ]\n}\n"


def write(results: dict[str, Any], folder: Path) -> list[Path]:
    """Replace what is between markers of the page, and draw the plot."""
    page, picture = folder / "estimators.md", folder / "estimators.svg"
    page.write_text(filled(page.read_text(), results))
    plot(results, picture)
    return [page, picture]


def filled(text: str, results: dict[str, Any]) -> str:
    """Return the page with its tables."""
    for name, block in blocks(results).items():
        before, begin, rest = text.partition(f"<!-- {name}: begin -->\n")
        _, end, after = rest.partition(f"<!-- {name}: end -->")
        if not (begin and end):
            raise SystemExit(f"the page has no markers for {name}")
        text = f"{before}{begin}\n{block}\n\n{end}{after}"
    return text


# ---- numbers


def middle(cell: Cell) -> float:
    """Return the median of a cell that has values."""
    return statistics.median(cell["values"])


def spread(cell: Cell) -> float:
    """Return half the distance between quartiles."""
    if len(cell["values"]) < 2:
        return 0.0
    quarters = statistics.quantiles(cell["values"], n=4, method="inclusive")
    return (quarters[2] - quarters[0]) / 2


def number(value: float) -> str:
    """Return three digits, without a leading zero, and something short for what is far off."""
    if not abs(value) < 100:
        return "< -99" if value < 0 else "> 99"
    text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
    return re.sub(r"^(-?)0\.", r"\1.", text)


def shown(cell: Cell | None) -> str:
    """Return median and spread."""
    if cell is None:
        return ""
    if not cell["values"]:
        return "too slow" if (cell["failure"] or "").startswith("TimeoutError") else "failed"
    text = number(middle(cell))
    return text if text.startswith(("<", ">")) or len(cell["values"]) < 2 else f"{text} ±{number(spread(cell))}"


def beyond(ours: Cell, theirs: Cell, higher: bool) -> int:
    """Return 1 if ours is better, -1 if worse, by more than chance: two standard deviations of a rank sum; else 0.

    Ranks, since some errors are beyond all measure.
    """
    mine, other = ours["values"], theirs["values"]
    wins = sum((a > b) + 0.5 * (a == b) for a in mine for b in other) - len(mine) * len(other) / 2
    doubt = math.sqrt(len(mine) * len(other) * (len(mine) + len(other) + 1) / 12)
    return 0 if abs(wins) <= 2 * doubt else int(math.copysign(1, wins if higher else -wins))


class Cells:
    """Cells by what they are about."""

    def __init__(self, results: dict[str, Any]) -> None:
        self.all: list[Cell] = results["cells"]
        self.epsilons: list[float] = results["epsilons"]
        self._found = {(c["row"], c["task"], c["epsilon"]): c for c in self.all}

    def get(self, row: str, task: str, epsilon: float | None) -> Cell | None:
        """Return a cell, if it was measured."""
        return self._found.get((row, task, epsilon))

    def rows(self, kind: str, task: str | None = None) -> dict[str, Cell]:
        """Return a cell of each row of a kind: hush, diffprivlib, ceilings and floors."""
        order = {"hush": 0, "diffprivlib": 1, "scikit-learn": 2}
        mine = [c for c in self.all if c["kind"] == kind and task in (None, c["task"])]
        ranked = sorted(mine, key=lambda c: (order[c["library"]], c["family"], c["row"]))
        return {c["row"]: c for c in ranked}


# ---- tables


def blocks(results: dict[str, Any]) -> dict[str, str]:
    """Return what stands between each pair of markers."""
    cells = Cells(results)
    return {
        "short": "\n\n".join(short(cells)),
        "peers": against(cells),
        "true": truths(cells),
        "full": "\n\n".join(full(cells)),
        "run": about(results),
    }


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    titles = list(head)
    rows = [titles, ["---"] + ["---:"] * (len(titles) - 1), *map(list, lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def label(cell: Cell) -> str:
    """Return a row's name, with its library's."""
    name = cell["row"]
    if cell["library"] == "diffprivlib":
        return f"*diffprivlib* {name}" + ("" if cell["sound"] else " †")
    return f"*{name}*" if cell["library"] == "scikit-learn" else name


def short(cells: Cells) -> Iterable[str]:
    """Return a table for each kind: a column for each task, at one epsilon."""
    for kind, about_it in KINDS.items():
        names = [task for task in about_it.tasks if any(c["task"] == task and c["kind"] == kind for c in cells.all)]
        if not names:
            continue
        lines = []
        for row, cell in cells.rows(kind).items():
            epsilon = SHOWN if cell["private"] else None
            lines.append([label(cell), *(shown(cells.get(row, task, epsilon)) for task in names)])
        better = "higher" if about_it.higher_is_better else "lower"
        yield f"**{about_it.title}** ({better} is better)\n\n" + table([f"epsilon {SHOWN:g}", *names], lines)


def full(cells: Cells) -> Iterable[str]:
    """Return a folded table for each kind and task, with all epsilons."""
    for kind, about_it in KINDS.items():
        for task in about_it.tasks:
            rows = cells.rows(kind, task)
            if not rows:
                continue
            lines = []
            for row, cell in rows.items():
                if cell["private"]:
                    columns = [shown(cells.get(row, task, epsilon)) for epsilon in cells.epsilons]
                else:
                    columns = [shown(cells.get(row, task, None)), *[""] * (len(cells.epsilons) - 1)]
                lines.append([label(cell), "" if not cell["private"] else f"{cell['delta']:g}", *columns])
            head = [f"{task}: {about_it.title}", "delta", *(f"{epsilon:g}" for epsilon in cells.epsilons)]
            yield f"<details><summary>{task}: {about_it.title}</summary>\n\n{table(head, lines)}\n\n</details>"


def comparisons(cells: Cells) -> Iterable[tuple[Cell, Cell, int]]:
    """Return every cell of hush beside the peer's of the same family, task and epsilon, and which is better."""
    theirs = [c for c in cells.all if c["library"] == "diffprivlib"]
    for peer in theirs:
        higher = KINDS[peer["kind"]].higher_is_better
        for ours in cells.all:
            same = all(ours[what] == peer[what] for what in ("family", "kind", "task", "epsilon"))
            if ours["library"] == "hush" and same and len(ours["values"]) > 1 and len(peer["values"]) > 1:
                yield ours, peer, beyond(ours, peer, higher)


def rivals(cells: Cells) -> dict[tuple[str, str, str], dict[float, tuple[Cell, Cell, int]]]:
    """Return, for each row of the peer, task and delta of ours, the best of ours at each epsilon, by its median."""
    by_peer: dict[tuple[str, str, str], dict[float, tuple[Cell, Cell, int]]] = {}
    for ours, peer, verdict in comparisons(cells):
        sign = 1 if KINDS[peer["kind"]].higher_is_better else -1
        for delta in ("0", "1e-5") if ours["delta"] == 0 else ("1e-5",):
            by_epsilon = by_peer.setdefault((peer["row"], peer["task"], delta), {})
            before = by_epsilon.get(peer["epsilon"])
            if before is None or sign * middle(ours) > sign * middle(before[0]):
                by_epsilon[peer["epsilon"]] = (ours, peer, verdict)
    return by_peer


def against(cells: Cells) -> str:
    """Return a table of the peer's rows and our best of the same family."""
    lines, signs = [], {1: "better", 0: "equal", -1: "**worse**"}
    for (row, task, delta), by_epsilon in sorted(rivals(cells).items()):
        texts = []
        for epsilon in cells.epsilons:
            if epsilon not in by_epsilon:
                texts.append("")
                continue
            ours, peer, verdict = by_epsilon[epsilon]
            texts.append(f"{signs[verdict]}: {number(middle(ours))} / {number(middle(peer))}")
        sound = next(iter(by_epsilon.values()))[1]["sound"]
        lines.append([row + ("" if sound else " †"), task, delta, *texts])
    return table(["diffprivlib's", "task", "our delta", *(f"{e:g}" for e in cells.epsilons)], lines)


def truths(cells: Cells) -> str:
    """Return what the peer's true guarantees are."""
    true_epsilons = {c["row"]: c["true"] for c in cells.all if c["library"] == "diffprivlib"}
    return table(["diffprivlib's", "true epsilon, one row added or removed"], sorted(map(list, true_epsilons.items())))


def about(results: dict[str, Any]) -> str:
    """Return how the cells were measured."""
    lines, versions = [], dict[str, set[str]]()
    for index, one in enumerate(results["runs"]):
        cells = sum(cell["run"] == index for cell in results["cells"])
        lines.append(
            f"- {cells} cells: {one['seconds']} s with {one['processes']} processes on {one['cores']} cores, load "
            f"before {one['load_before']:g}."
        )
        for name, version in one["versions"].items():
            library, _, package = name.partition(": ")
            versions.setdefault(library, set()).add(f"{package} {version}")
    libraries = [f"- With {library}: {', '.join(sorted(numbers))}." for library, numbers in versions.items()]
    return "\n".join(lines + [one for one in libraries if not one.startswith("- With scikit-learn")])


def worse(results: dict[str, Any]) -> str:
    """Return every cell in which hush is worse than the peer by more than chance."""
    cells = Cells(results)
    best = [one for by_epsilon in rivals(cells).values() for one in by_epsilon.values() if one[2] < 0]
    lines = ["The best of ours worse than diffprivlib's, beyond chance (delta 0, or either):", *_comparisons(best)]
    single = [one for one in comparisons(cells) if one[2] < 0]
    return "\n".join([*lines, "Any of ours worse:", *_comparisons(single)])


def _comparisons(compared: Iterable[tuple[Cell, Cell, int]]) -> list[str]:
    lines = []
    for ours, peer, _ in compared:
        where = f"  {ours['task']:14} epsilon {ours['epsilon']:<5g} {ours['row']:32}"
        lines.append(f"{where} {shown(ours):16} (delta {ours['delta']:g}) | {shown(peer)} {peer['row']}")
    return lines or ["  nowhere"]


# ---- plot

PANELS = (
    ("digits", "classify"),
    ("breast cancer", "classify"),
    ("glm binary", "classify"),
    ("mnist", "classify"),
    ("diabetes", "regress"),
    ("glm linear", "regress"),
)
DRAWN = {
    "logistic, objective, pure": ("logistic, objective, pure", "#1b6ca8", "o", "-"),
    "logistic, objective": ("logistic, objective", "#1b6ca8", "s", "-"),
    "logistic, noisy gradients": ("logistic, noisy gradients", "#d1495b", "^", "-"),
    "naive Bayes, pure": ("naive Bayes, pure", "#66a182", "o", "-"),
    "naive Bayes": ("naive Bayes", "#66a182", "s", "-"),
    "LDA": ("LDA", "#2e4057", "D", "-"),
    "forest": ("forest", "#edae49", "s", "-"),
    "network, 64 hidden": ("network", "#8d6a9f", "v", "-"),
    "network regression, linear": ("network", "#8d6a9f", "v", "-"),
    "PATE, 100 teachers": ("PATE", "#444444", "P", "-"),
    "linear (AdaSSP)": ("AdaSSP", "#2e4057", "D", "-"),
    "linear, functional, pure": ("linear, functional, pure", "#edae49", "o", "-"),
    "LogisticRegression": ("diffprivlib logistic", "#1b6ca8", "x", ":"),
    "GaussianNB": ("diffprivlib naive Bayes", "#66a182", "x", ":"),
    "RandomForestClassifier": ("diffprivlib forest", "#edae49", "x", ":"),
    "LinearRegression": ("diffprivlib linear", "#edae49", "x", ":"),
}


def plot(results: dict[str, Any], path: Path) -> None:
    """Draw a panel for each task of classification and regression."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = Cells(results)
    style = {"svg.hashsalt": "hush", "svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
    with matplotlib.rc_context(style):
        figure, axes = pyplot.subplots(2, 3, figsize=(12.5, 7.6), layout="constrained")
        handles: dict[str, Any] = {}
        for panel, (task, kind) in zip(axes.ravel(), PANELS, strict=True):
            _panel(panel, cells, task, kind, handles)
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _panel(panel: Any, cells: Cells, task: str, kind: str, handles: dict[str, Any]) -> None:
    shift = 0
    for row, (name, colour, marker, line) in DRAWN.items():
        points = [(e, c) for e in cells.epsilons if (c := cells.get(row, task, e)) is not None and c["values"]]
        if not points or points[0][1]["kind"] != kind:
            continue
        shift += 1
        places = [epsilon * 1.02 ** (shift - 4) for epsilon, _ in points]
        quarters = [[abs(middle(c) - _quarter(c, k)) for _, c in points] for k in (0, 2)]
        handles[name] = panel.errorbar(
            places, [middle(c) for _, c in points], yerr=quarters, color=colour, marker=marker, linestyle=line,
            markersize=4.5, linewidth=1.2, elinewidth=0.7,
        )  # fmt: skip
    ceilings = [middle(c) for row, c in cells.rows(kind, task).items() if row.startswith("ceiling")]
    floors = [middle(c) for row, c in cells.rows(kind, task).items() if row.startswith("floor")]
    if ceilings and floors:
        handles["best without privacy"] = panel.axhline(max(ceilings), color="black", linewidth=0.8)
        handles["commonest class, or mean"] = panel.axhline(floors[0], color="black", linewidth=0.8, linestyle="--")
    if kind == "regress" and ceilings:
        panel.set_ylim(-0.5, max(ceilings) + 0.1)
    panel.set_xscale("log")
    panel.set_xticks(cells.epsilons, [f"{epsilon:g}" for epsilon in cells.epsilons])
    panel.minorticks_off()
    panel.set_title(task)
    panel.set_xlabel("epsilon")
    panel.set_ylabel(KINDS[kind].title)


def _quarter(cell: Cell, which: int) -> float:
    if len(cell["values"]) < 2:
        return cell["values"][0]
    return statistics.quantiles(cell["values"], n=4, method="inclusive")[which]
