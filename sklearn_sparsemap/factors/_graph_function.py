"""Graphs that depend on the shape of a sample.

Used by `_layers` and `losses`.
"""

from functools import lru_cache

from .._core.annotations import Any
from ..structures import Structure
from ._graph import FactorGraph


class GraphFunction:
    """A factor graph for each shape of a sample, made by a function; its attributes are those of `FactorGraph`.

    Layers call `of_shape`; they and losses read the attributes.

    Parameters
    ----------
    function : callable
        Maps the shape of a sample to a graph with one array of variables, in this shape. Called once for each shape.
    """

    labelled = FactorGraph.labelled
    repeats = FactorGraph.repeats
    marginal_oracle = FactorGraph.marginal_oracle
    no_marginals = FactorGraph.no_marginals

    # Each graph has arrays of its own.
    shapes = None

    def __init__(self, function: Any) -> None:
        self._function = function
        self._graph = lru_cache(4096)(self._make_graph)

    def of_shape(self, shape):
        """Return the graph for samples of this shape."""
        shape = tuple(shape)
        graph = self._graph(shape)
        # The graph may grow after the function has returned it.
        if list(graph.shapes.values()) != [shape]:
            raise ValueError(
                f"the function `graph` was given shape {shape}, but the variables of its graph have "
                f"{list(graph.shapes.values())}; there must be one array of variables, in that shape"
            )
        return graph

    def _make_graph(self, shape):
        return check_returned(self._function(shape), f"the function `graph`, for shape {shape},")

    def __repr__(self):
        return repr(self._function)


def check_returned(graph: Any, source: str) -> FactorGraph:
    """Return a graph that a user's function has returned; raise ValueError if it is none."""
    if not isinstance(graph, FactorGraph):
        raise ValueError(f"{source} must return a FactorGraph; got {type(graph).__name__}")
    return graph


def as_graph(graph: Any) -> Any:
    """Return a graph, or a function from shapes to graphs as a `GraphFunction`; raise ValueError for anything else."""
    if isinstance(graph, FactorGraph):
        return graph
    if isinstance(graph, type) and issubclass(graph, Structure):
        raise ValueError(f"structure must be an instance such as LinearChain(); got {graph!r}")
    if callable(graph):
        return GraphFunction(graph)
    raise ValueError(
        "graph must be a FactorGraph, a function from a sample's shape to one, or in losses a structure such as "
        f"LinearChain(); got {graph!r}"
    )
