"""Triangles of a graph, private in its edges: noise by smooth sensitivity.

One edge may be in n - 2 triangles, so the global sensitivity is n - 2. In most graphs no edge is in nearly as many. The
local sensitivity of the triangle count, s edges away, has a closed form (`triangle_sensitivity`), and with it the
smallest smooth bound, to which `hush.mechanisms.SmoothCauchy` scales its noise.

The neighbours here differ in one *edge*. A person with many edges is protected far less; there is no such closed form
for a person with all edges (node privacy).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.errors import InvalidArgument, check_count, check_positive
from hush.mechanisms import Release, SmoothCauchy
from hush.randomness import RandomSource

__all__ = ["private_triangles", "triangle_bound", "triangle_sensitivity", "triangles"]

Graph = NDArray[np.int64]


def triangles(adjacency: ArrayLike) -> int:
    """Return the number of triangles. It is not private.

    >>> triangles([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    1
    """
    graph = _checked(adjacency)
    return int(np.trace(graph @ graph @ graph)) // 6


def triangle_sensitivity(adjacency: ArrayLike, distance: int = 0) -> int:
    """Return the largest local sensitivity of the triangle count, up to ``distance`` changed edges away.

    The edge (i, j) changes the count by the number of common neighbours of i and j. With s other changes, a vertex
    that has one of the two edges becomes a common one by a single change, and any other by two.

    >>> star = np.zeros((5, 5), dtype=int)
    >>> star[0, 1:] = star[1:, 0] = 1
    >>> [triangle_sensitivity(star, distance) for distance in range(4)]
    [1, 1, 2, 3]

    Args:
        adjacency: The graph, as a symmetric matrix of 0 and 1 with zeros on the diagonal.
        distance: s.

    References:
        Nissim, Raskhodnikova & Smith 2007, Claim 3.13.
    """
    graph = _checked(adjacency)
    return _sensitivity(*_pairs(graph), check_count("distance", distance, minimum=0), len(graph))


def triangle_bound(adjacency: ArrayLike, beta: float) -> float:
    """Return the smallest smooth bound: the maximum over s of e^(-beta s) times the sensitivity s edges away.

    >>> round(triangle_bound(np.zeros((6, 6), dtype=int), beta=0.5), 3)  # 2 edges away from a sensitivity of 1
    0.368

    Args:
        adjacency: As for `triangle_sensitivity`.
        beta: The smoothness: the bound grows by at most the factor e^beta from edge to edge.

    References:
        Nissim, Raskhodnikova & Smith 2007, Definition 2.2 and Claim 3.13.
    """
    graph, smoothness = _checked(adjacency), check_positive("beta", beta)
    common, single = _pairs(graph)
    # Beyond 2 n changes no sensitivity grows: it is n - 2 everywhere.
    terms = (math.exp(-smoothness * s) * _sensitivity(common, single, s, len(graph)) for s in range(2 * len(graph) + 1))
    return max(terms) * (1 + 1e-12)


def private_triangles(adjacency: ArrayLike, *, epsilon: float, source: RandomSource | None = None) -> Release[float]:
    """Return a private triangle count, with Cauchy noise.

    >>> from hush.randomness import TestSource
    >>> clique = np.ones((30, 30), dtype=int) - np.eye(30, dtype=int)
    >>> release = private_triangles(clique, epsilon=2.0, source=TestSource(1))
    >>> triangles(clique), abs(release.value - 4060) < 200, release.guarantee.epsilon
    (4060, True, 2.0)

    Args:
        adjacency: As for `triangle_sensitivity`. Its number of vertices is public.
        epsilon: The epsilon of the release.
        source: The source of the noise.

    Guarantee:
        epsilon-differential privacy when one edge is added or removed, delta = 0. An "example" of the guarantee is an
        edge.

    Assumes:
        The matrix is a graph, and its number of vertices is public (checked here; the caller's duty).

    References:
        Nissim, Raskhodnikova & Smith 2007, Claim 3.13; `SmoothCauchy`.
    """
    graph = _checked(adjacency)
    most = math.comb(len(graph), 3)
    if most == 0:
        raise InvalidArgument("adjacency", graph.shape, "at least 3 vertices", "There is nothing to count")
    mechanism = SmoothCauchy(epsilon=epsilon, bounds=(0, most))
    return mechanism.release(float(triangles(graph)), triangle_bound(graph, mechanism.beta), source)


def _checked(adjacency: ArrayLike) -> Graph:
    """Return a graph's matrix."""
    graph = np.asarray(adjacency)
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or graph.dtype.kind not in "biu":
        raise InvalidArgument("adjacency", graph.shape, "a square matrix of integers")
    if not (np.isin(graph, (0, 1)).all() and (graph == graph.T).all() and not graph.diagonal().any()):
        raise InvalidArgument("adjacency", "other", "a symmetric matrix of 0 and 1, with zeros on the diagonal")
    return graph.astype(np.int64)


def _pairs(graph: Graph) -> tuple[Graph, Graph]:
    """Return, for each pair of vertices, how many others have both edges to them, and how many have one."""
    common = graph @ graph
    degrees = graph.sum(1)
    # Of i's edges, one may go to j, and j is no third vertex; the same for j's.
    single = degrees[:, None] + degrees[None, :] - 2 * graph - 2 * common
    rows, columns = np.triu_indices(len(graph), 1)
    return common[rows, columns], single[rows, columns]


def _sensitivity(common: Graph, single: Graph, distance: int, num_vertices: int) -> int:
    if len(common) == 0:
        return 0
    reached = common + (distance + np.minimum(distance, single)) // 2
    return int(np.minimum(reached, max(num_vertices - 2, 0)).max())
