"""Run every reproduction that two processor cores can do, and put RESULTS.md together.

make reproduce                                      # or:
python reproductions/run_all.py [SCRIPT ...] [--seeds 3] [--data DIR] [--quick]
python reproductions/run_all.py --assemble          # only the page, from reproductions/results/*.json
python reproductions/run_all.py --jobs FILE ...     # first results and figures from files of run_jobs.py

The scripts of ``jobs.JOB_SCRIPTS`` take many hours on two cores, and run only where they are named.
"""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path

from common import SPLIT, Settings, chosen, options, save, stored, table
from jobs import JOB_SCRIPTS, read

SCRIPTS = {  # in the order of the page
    "report_recipe": "The report's own recipe",
    "softmax": "Softmax regression, and the exercise",
    "abadi": "Private PCA and a network (Abadi et al. 2016)",
    "abadi_sweeps": "Noise levels over epochs, sweeps, and accountants (Abadi et al. 2016)",
    "cifar10": "CIFAR-10: a network from scratch, and public features (Abadi et al. 2016)",
    "scattering": "Scattering features and a linear layer",
    "sweeps": "Noise scale, batch size and clip norm, over epochs",
    "projections": "Projected norms and micro-batches",
    "transfer": "From MNIST to Fashion-MNIST",
    "disparate_impact": "A rare class",
    "membership": "Epsilon against inference attacks (Jayaraman and Evans 2019)",
    "robustness": "Certified predictions (PixelDP)",
    "pixeldp": "A noise layer inside a network (PixelDP)",
    "gradient_descent": "Gradient descent on a convex problem",
    "pate": "Private aggregation of teachers (Papernot et al. 2017, 2018)",
    "hypothesis_tests": "Private tests of hypotheses: level and power",
}
HERE = Path(__file__).resolve().parent
PREFACE = f"""# Reproductions: what was published, and what hush reaches

Written by `make reproduce` (`python reproductions/run_all.py`); each section is one script. All epsilons are at delta
1e-5 by the PLD accountant, for one example that is added or removed, where nothing else is said. *Ours* is the mean
test accuracy over the seeds, *spread* the standard deviation of one run, *seconds* the time of one run on one core of
a shared machine. A seed sets the starting weights only: hush draws samples and noise under secret keys of its own.

Hyper-parameters were chosen by test accuracy, here or by the authors, and that choice is not part of any epsilon: about
15 settings were tried for softmax regression on MNIST, 20 for the network after PCA, 35 for scattering features. The
runs of these tables were made afterwards, with fresh noise. Private aggregation was set up on training images alone.
{SPLIT}
"""


def main() -> None:
    parser = options("Run every reproduction, and put RESULTS.md together.")
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="which ones; all, if none is named")
    parser.add_argument("--assemble", action="store_true", help="run nothing; write the page from stored results")
    words = "run nothing; take results from the files of run_jobs.py"
    parser.add_argument("--jobs", type=Path, nargs="+", metavar="FILE", help=words)
    given = parser.parse_args()
    unknown = set(given.scripts) - set(SCRIPTS)
    if unknown:
        parser.error(f"no such script: {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
    settings = chosen(given)
    if given.jobs is not None:
        take(given.jobs, settings)
    for script in [] if given.assemble or given.jobs else given.scripts or available():
        print(f"\n== {script}", flush=True)
        start = time.perf_counter()
        rows = importlib.import_module(script).run(settings)
        save(settings, script, rows)
        print(f"{time.perf_counter() - start:.0f} s", flush=True)
    print(f"\nWrote {os.path.relpath(assemble(settings))}")


def take(paths: list[Path], settings: Settings) -> None:
    """Write results and figures from what jobs have given; what no job has given stays as it was."""
    results = read(paths)
    if any(record["quick"] != settings.quick for record in results.records.values()):
        raise SystemExit("--quick must be said of quick jobs, and of no others")
    for script in JOB_SCRIPTS:
        if not any(key.startswith(f"{script}/") for key in results.records):
            print(f"{script}: no job has run")
            continue
        for figure in (settings.output / "figures").glob(f"{FIGURES.get(script, script)}*.svg"):
            figure.unlink()  # of another set of runs
        module = importlib.import_module(script)
        rows = module.report(settings, results)
        save(settings, script, rows, remarks=module.remarks(settings, results), versions=results.machine)
        print(f"{script}: {len(rows)} rows", flush=True)


def available() -> list[str]:
    """Return the scripts that are here, and that do not take many hours."""
    return [script for script in SCRIPTS if (HERE / f"{script}.py").exists() and script not in JOB_SCRIPTS]


def assemble(settings: Settings) -> Path:
    """Write RESULTS.md from what is stored, and return where it is."""
    parts = [PREFACE]
    for script, title in SCRIPTS.items():
        path = settings.output / "results" / f"{script}.json"
        if not path.exists():
            continue
        content, rows = stored(path)
        versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
        words = [
            f"## {title}",
            f"[`{script}.py`]({script}.py); {versions}; {content['threads']} thread(s).",
            table(rows),
        ]
        words += content.get("remarks", [])
        figures = sorted((settings.output / "figures").glob(f"{FIGURES.get(script, script)}*.svg"))
        figures = [figure for figure in figures if _is_of(figure.stem, script)]
        words += [f"![{figure.stem}](figures/{figure.name})" for figure in figures]
        if content["quick"]:
            words.insert(1, "**A quick run: these numbers test the script, and mean nothing.**")
        parts.append("\n\n".join(words) + "\n")
    page = settings.output / "RESULTS.md"
    page.write_text("\n".join(parts))
    return page


def _is_of(stem: str, script: str) -> bool:
    """Say whether a figure belongs to a script, and not to one with a longer name."""
    longer = [other for other in SCRIPTS if other != script and other.startswith(script)]
    return not any(stem.startswith(other) for other in longer)


FIGURES = {"sweeps": "sweep_"}  # how the names of a script's figures begin, if not like its own

if __name__ == "__main__":
    main()
