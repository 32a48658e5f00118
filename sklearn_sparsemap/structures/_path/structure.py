"""Path: the way through a directed acyclic graph."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from ..._core.annotations import Any, ArrayLike, Mapping, NDArray, Sequence
from ..._core.jit import readonly
from ..._core.keys import as_key
from ..._core.tables import column_names, read_arcs
from ..._core.validation import check_not_masked, check_positive
from .._base import InEstimators, Structure, as_bools, as_parts, check_fits, solver_in_tensors
from .arcs import usable_arcs
from .entering import ways_of_path
from .gibbs import path_marginals
from .map import DEPTH, EDGE, best_path


class Path(Structure):
    """A path from one node of a directed acyclic graph to another: shortest paths, if scores are negative lengths.

    Scores have shape (n_edges,); -inf forbids an edge. A structure is a bool array of shape (n_edges,), also given as 0
    and 1; `predict` of an estimator returns an array (n_samples, n_edges). Edges that lie on no path from the source to
    the target are never used.

    Parameters
    ----------
    edges : array-like of shape (n_edges, 2)
        The tail and the head of each edge, ints that are not negative. A table has a column called tail, source, from
        or parent, and one called head, target, to or child. Two nodes may have several edges. Each call of the oracle
        takes a time proportional to the number of edges.
    source, target : int
        First and last node of the path.

    Attributes
    ----------
    fixed_size : bool
        Whether all paths have the same number of edges; see `Structure`.

    Raises
    ------
    ValueError
        If nodes are not as described, the graph has a cycle, which the message names, or no path leads from the source
        to the target.

    See Also
    --------
    Hyperpath : Derivations, whose hyperarcs may have two tails. With one they are paths, and take 1.3 times as long.
    LinearProgram : Paths in graphs with cycles, and paths under further constraints.

    Notes
    -----
    The MAP oracle is dynamic programming over the nodes in topological order. Gibbs marginals are the derivatives of
    the same sums, with log-sums for maxima [1]_. See `Structure` for the conventions, [2]_ for SparseMAP over a
    structure.

    References
    ----------
    .. [1] Eisner. Inside-Outside and Forward-Backward Algorithms Are Just Backprop. Workshop on Structured Prediction
       for NLP, 2016.
    .. [2] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference, sparsemap
    >>> from sklearn_sparsemap.structures import Path
    >>> roads = Path([(0, 1), (1, 3), (0, 2), (2, 3)], source=0, target=3)
    >>> used, value = map_inference(roads, [-1.0, -2.0, -1.5, -1.0])
    >>> used.tolist(), value
    ([False, False, True, True], -2.5)
    >>> sparsemap(roads, [-1.0, -2.0, -1.5, -1.0]).marginals.round(3).tolist()
    [0.375, 0.375, 0.625, 0.625]
    """

    oracle = best_path
    entering = ways_of_path
    tensor_solver = solver_in_tensors(__package__)
    marginal_oracle = path_marginals
    sums_for_entering = True
    strict_encode = True
    in_estimators = InEstimators(predicts_arrays=True)
    # An instance attribute here, which follows from the graph.
    fixed_size = False
    _rows_of_samples = "a path has one row for each edge of the graph"

    def __init__(self, edges: ArrayLike, source: int, target: int) -> None:
        if column_names(edges, "edges") is not None:
            edges = read_arcs(edges, "edges")
        check_not_masked(edges, "edges")
        given = np.asarray(edges)
        if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu" or not len(given):
            raise ValueError(
                f"edges must be ints of shape (n_edges, 2), the two nodes of each edge; got shape {given.shape} of "
                f"{given.dtype}"
            )
        if given.min() < 0:
            raise ValueError(f"edges[{int(given.min(axis=1).argmin())}] has a negative node; number them from 0")
        for name, node in (("source", source), ("target", target)):
            if isinstance(node, bool) or not isinstance(node, Integral) or not (given == node).any():
                raise ValueError(f"{name} must be a node of the edges; got {node!r}")
        if source == target:
            raise ValueError(f"source and target are both {source}; a path has at least one edge")
        check_fits(given, "edges")
        # The arcs follow from them.
        self.edges = readonly(given.astype(np.int64), np.int64)
        self.source = int(source)
        self.target = int(target)
        self._arcs, self.fixed_size = usable_arcs(self.edges, self.source, self.target)
        n_nodes = int(self._arcs[-1, 2]) + 1
        n_slots = int(self._arcs[:, DEPTH].max()) + 1
        self._dims = (len(given), n_nodes, n_slots, *self._arcs.ravel().tolist())

    @classmethod
    def grid(cls, height: int, width: int) -> Path:
        """Return the paths through a grid of nodes, from the top left to the bottom right, to the right and down.

        Edges are ordered by rows: those to the right within a row, and then those down to the next row.

        Parameters
        ----------
        height, width : int
            Numbers of rows and columns of nodes.

        Returns
        -------
        path : Path
            With ``height * (width - 1) + (height - 1) * width`` edges.

        Examples
        --------
        >>> from sklearn_sparsemap.structures import Path
        >>> Path.grid(2, 2).edges.tolist()
        [[0, 1], [0, 2], [1, 3], [2, 3]]
        """
        for name, number in (("height", height), ("width", width)):
            check_positive(name, number, integer=True)
        edges = []
        for row in range(height):
            nodes = range(row * width, (row + 1) * width)
            edges += [(node, node + 1) for node in nodes[:-1]]
            if row + 1 < height:
                edges += [(node, node + width) for node in nodes]
        return cls(edges or np.zeros((0, 2), int), 0, height * width - 1)

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        if shape[0] != len(self.edges):
            raise ValueError(f"this graph has {len(self.edges)} edges, but there are {shape[0]} scores")
        return self._dims

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        return int(dims[2]), 0, 2 * int(dims[1])

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        return int(dims[0] + 2 * dims[1])

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n = len(self.edges)
        used = as_bools(structure, n, f"a path is {n} bools, or 0 and 1, one for each edge")
        slots = np.full(int(dims[2]), -1)
        node = 0
        arcs = self._arcs[used[self._arcs[:, EDGE]]]
        for edge, tail, head, depth in arcs.tolist():
            if tail != node:
                break
            slots[depth], node = edge, head
        if node != dims[1] - 1 or (slots >= 0).sum() != used.sum():
            raise ValueError(
                f"the edges {np.flatnonzero(used).tolist()} are no path from node {self.source} to node {self.target}"
            )
        return as_parts(slots), as_parts([])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        used = np.zeros(len(self.edges), bool)
        used[slots[slots >= 0]] = True
        return used

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        return ((len(self.edges),),)

    def _params(self):
        return {"edges": self.edges.tolist(), "source": self.source, "target": self.target}

    def content(self) -> Any:
        return as_key(self.edges), self.source, self.target

    def __repr__(self):
        return f"Path({len(self.edges)} edges, source={self.source}, target={self.target})"
