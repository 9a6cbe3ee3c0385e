"""How much longer than scikit-learn's does a private fit take, where both are in closed form (k-means beside them)?

Each pair is fitted in turns, on the same rows, after one fit of each to warm up; scikit-learn's with its defaults. What
is compared is processor time of one thread, as other work on the machine disturbs that least: of a pair, the median of
the ratios of neighbouring fits, and their quartiles. scikit-learn has no histogram density; its kernel density builds a
tree. Writes benchmarks/results/estimator_speed.json.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/estimator_speed.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from hush import estimators as he

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "estimator_speed.json"
BAR = 1.2
Fit = Callable[[], Any]


def pairs(count: int, dimension: int) -> dict[str, tuple[Fit, Fit]]:
    """Return fits of both kinds, by name, on invented rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, dimension))
    y = x @ rng.normal(size=dimension) / np.sqrt(dimension) + rng.normal(size=count)
    classes = (y > 0).astype(np.int64)
    gaussian: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 2 * np.sqrt(dimension)}
    bounded: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-4, 4)}
    target: dict[str, Any] = {"target_bounds": (-5, 5)}
    directions = 50 if dimension > 100 else None
    fits: dict[str, tuple[Fit, Fit]] = {
        "PCA": (lambda: PCA(directions).fit(x), lambda: he.PrivatePCA(directions, **gaussian).fit(x)),
        "covariance": (lambda: EmpiricalCovariance().fit(x), lambda: he.PrivateCovariance(**gaussian).fit(x)),
        "standard scaler": (lambda: StandardScaler().fit(x), lambda: he.PrivateStandardScaler(**bounded).fit(x)),
        "min-max scaler": (
            lambda: MinMaxScaler().fit(x),
            lambda: he.PrivateMinMaxScaler(epsilon=1.0, bounds=(-4, 4)).fit(x),
        ),
        "naive Bayes": (
            lambda: GaussianNB().fit(x, classes),
            lambda: he.PrivateGaussianNB(**bounded, classes=[0, 1]).fit(x, classes),
        ),
        "ridge": (lambda: Ridge().fit(x, y), lambda: he.PrivateRidge(**gaussian, **target).fit(x, y)),
    }
    if dimension > 100:
        return fits
    blobs = make_blobs(count, dimension, centers=8, center_box=(-3, 3), cluster_std=0.5, random_state=0)[0]
    few = np.ascontiguousarray(x[:, :2])
    return fits | {
        "linear regression": (
            lambda: LinearRegression().fit(x, y),
            lambda: he.PrivateLinearRegression(**gaussian, **target).fit(x, y),
        ),
        "LDA": (
            lambda: LinearDiscriminantAnalysis().fit(x, classes),
            lambda: he.PrivateLDA(**gaussian, classes=[0, 1]).fit(x, classes),
        ),
        "k-means": (lambda: KMeans(8).fit(blobs), lambda: he.PrivateKMeans(8, **bounded).fit(blobs)),
        "density, 2 features": (
            lambda: KernelDensity().fit(few),
            lambda: he.PrivateHistogramDensity(**bounded).fit(few),
        ),
    }


def timed(fit: Fit) -> float:
    """Return the processor time of a fit."""
    begin = time.process_time()
    fit()
    return time.process_time() - begin


def compared(theirs: Fit, ours: Fit, repeats: int) -> dict[str, float]:
    """Fit in turns and return medians in milliseconds, and the ratio with its quartiles."""
    theirs()
    ours()
    times = np.array([(timed(theirs), timed(ours)) for _ in range(repeats)])
    low, middle, high = np.percentile(times[:, 1] / times[:, 0], [25, 50, 75])
    plain, private = np.median(times, axis=0) * 1e3
    return {
        "scikit-learn ms": float(plain),
        "hush ms": float(private),
        "ratio": float(middle),
        "quartiles": [float(low), float(high)],
    }


def main() -> None:
    """Print a table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest size, and few repeats")
    quick = parser.parse_args().quick
    sizes = ((100_000, 20, 31), (1_000_000, 10, 11), (60_000, 784, 5))
    rows: dict[str, Any] = {}
    for count, dimension, repeats in sizes[:1] if quick else sizes:
        for name, (theirs, ours) in pairs(count, dimension).items():
            speeds = compared(theirs, ours, 5 if quick else min(repeats, 5) if name == "k-means" else repeats)
            rows[f"{name}, {count} x {dimension}"] = speeds
            low, high = speeds["quartiles"]  # type: ignore[misc]
            print(
                f"{name:>20} {count:8} x {dimension:3}  {speeds['scikit-learn ms']:9.1f} ms {speeds['hush ms']:9.1f} ms"
                f"  {speeds['ratio']:.2f} ({low:.2f} to {high:.2f}) {'' if speeds['ratio'] <= BAR else 'slower'}",
                flush=True,
            )
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    about = {name: version(name) for name in ("scikit-learn", "numpy", "scipy")} | {"commit": commit.strip()}
    about |= {"python": sys.version.split()[0], "machine": platform.machine(), "bar": BAR}
    about |= {"threads": os.environ.get("OMP_NUM_THREADS", "default")}
    if not quick:
        RESULTS.write_text(json.dumps(about | {"fits": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
