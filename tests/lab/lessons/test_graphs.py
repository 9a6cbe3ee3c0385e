"""Smooth sensitivity of triangle counts, checked against its definition on every graph of five vertices."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.lab.lessons.graphs import private_triangles, triangle_bound, triangle_sensitivity, triangles
from hush.mechanisms import SmoothCauchy
from hush.randomness import TestSource

EDGES = list(itertools.combinations(range(5), 2))
GRAPHS = range(1 << len(EDGES))


def matrix(code: int) -> np.ndarray[Any, Any]:
    graph = np.zeros((5, 5), dtype=int)
    for number, (i, j) in enumerate(EDGES):
        graph[i, j] = graph[j, i] = code >> number & 1
    return graph


def by_hand(graph: np.ndarray[Any, Any]) -> int:
    return sum(graph[i, j] * graph[j, k] * graph[i, k] for i, j, k in itertools.combinations(range(len(graph)), 3))


def test_counts_and_sensitivities_of_all_graphs() -> None:
    counts = np.array([by_hand(matrix(code)) for code in GRAPHS])
    local = np.max([abs(counts - counts[np.arange(len(counts)) ^ (1 << edge)]) for edge in range(len(EDGES))], axis=0)
    codes = np.array(GRAPHS)
    for code in range(0, len(counts), 37):
        graph = matrix(code)
        assert triangles(graph) == counts[code]
        apart = np.array([int(other).bit_count() for other in codes ^ code])
        for distance in range(5):
            assert triangle_sensitivity(graph, distance) == local[apart <= distance].max()
        smallest = (np.exp(-0.7 * apart) * local).max()
        assert triangle_bound(graph, 0.7) == pytest.approx(smallest, rel=1e-9)


@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_the_bound_is_smooth(beta: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        graph = np.triu(rng.random((9, 9)) < rng.random(), 1).astype(int)
        graph = graph + graph.T
        other = graph.copy()
        i, j = rng.choice(9, size=2, replace=False)
        other[i, j] = other[j, i] = 1 - graph[i, j]
        bounds = triangle_bound(graph, beta), triangle_bound(other, beta)
        assert max(bounds) <= math.exp(beta) * min(bounds) * (1 + 1e-9)
        assert abs(triangles(graph) - triangles(other)) <= min(bounds)


def test_the_noise_follows_the_bound_and_a_sparse_graph_has_little() -> None:
    mechanism = SmoothCauchy(epsilon=1.0, bounds=(0, math.comb(60, 3)))
    ring = np.roll(np.eye(60, dtype=int), 1, axis=1)
    ring = ring + ring.T
    assert triangle_bound(ring, mechanism.beta) < 3 < 58, "the global sensitivity is 58"
    release = private_triangles(ring, epsilon=1.0, source=TestSource(1))
    assert release.value == mechanism.release(0.0, triangle_bound(ring, mechanism.beta), TestSource(1)).value
    assert release.guarantee.epsilon == 1.0


@pytest.mark.parametrize(
    "wrong",
    [np.ones((3, 3), dtype=int), np.zeros((2, 3), dtype=int), [[0, 2], [2, 0]], [[0, 1], [0, 0]], np.zeros((3, 3))],
)
def test_what_is_no_graph(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="adjacency"):
        triangles(wrong)


def test_too_small_a_graph() -> None:
    with pytest.raises(InvalidArgument, match="at least 3 vertices"):
        private_triangles([[0, 1], [1, 0]], epsilon=1.0)
