"""Factor graphs as the parameter `structure` of estimators: one graph, or a function from a sample to its graph.

`targets.py` makes a `GraphBuilder` or a `FixedGraph` of the parameter, and `estimators/_state/plain.py` writes them to
files.

Used by `estimators/_state` and `targets.py`.
"""

from collections.abc import Sized
from math import prod

import numpy as np
from scipy import sparse

from ..._core.errors import Place, SampleError, error_at, part_of
from ..._core.ragged import RaggedArray
from ..._core.validation import check_numbers
from ..._training._graph_task import GraphTask
from ...factors import FactorGraph
from ...losses._graphs import check_graph, learned_shapes
from ...structures._base import InEstimators


class GraphBuilder:
    """A function from a sample to a `FactorGraph`, with the attributes of a `Structure` that estimators read.

    Additional scores are tied by name. Files hold a builder by its parameters; see `estimators/_state/plain.py`.

    Parameters
    ----------
    function : callable
        Maps a sample to its graph. Its arguments are the features, an array or CSR matrix with one row for each
        variable (or an array with more axes, if the variables form a grid), and the sample's extra arguments.
    shapes : dict of str -> tuple of int, default=None
        Shapes of the additional scores of all graphs. By default, those of the first graph.
    """

    labelled = is_flat = False
    uses_graphs = True
    # Each layout has its own value.
    fixed_size = False
    # The rows of a sample may form a grid with any number of axes.
    score_ndim = None
    in_estimators = InEstimators()
    marginal_oracle = None
    no_marginals = FactorGraph.no_marginals

    def __init__(self, function, shapes=None):
        self.function, self.shapes = function, shapes

    def __eq__(self, other):
        return type(other) is GraphBuilder and self.function == other.function

    def __hash__(self):
        return hash(self.function)

    def __repr__(self):
        return f"a graph of each sample by {getattr(self.function, '__name__', self.function)!r}"

    def span_reader(self, labels, scheme):
        """Raise ValueError, because assignments have no spans; see `Structure.span_reader`."""
        raise ValueError("spans are those of LinearChain and Segmentation; got a factor graph")

    def learned_shapes(self, n_outputs):
        """Return the shapes of the additional scores of all graphs; None before the first call of `new_task`."""
        return self.shapes

    def new_task(self, X):
        """Make the graph of each sample.

        Parameters
        ----------
        X : RaggedArray

        Returns
        -------
        task : GraphTask

        Raises
        ------
        ValueError
            If the function fails for a sample, its graph does not have one variable for each row, or its additional
            scores differ from those of the first graph. The message names the sample.
        """
        graphs, layouts, first = [], [], None
        for i in range(len(X)):
            graph = self._graph(i, X)
            try:
                n_outputs = check_graph(graph, X.lengths[i])
                first = n_outputs if first is None else first
                if n_outputs != first:
                    raise ValueError(
                        f"its rows are variables of {n_outputs} values, those of the first sample variables of {first}"
                    )
                shapes = learned_shapes(graph)
                self.shapes = shapes if self.shapes is None else self.shapes
                self._check_shapes(shapes)
                layouts.append(graph.layout(shapes))
            except ValueError as error:
                raise SampleError("X", i, f": {error}") from error
            graphs.append(graph)
        return GraphTask(X.indptr, graphs, layouts, self.shapes, first)

    def _graph(self, i, X):
        """Return the graph of a sample; errors name the sample."""
        sample = _sample_of(X, i)
        try:
            return self.function(*sample)
        except ValueError as error:
            raise SampleError("X", i, f": {error}") from error
        except Exception as error:
            # A function with more arguments than it gets raises a TypeError.
            fault = f": the function `structure` failed on this sample: {type(error).__name__}: {error}"
            if isinstance(error, TypeError) and len(sample) == 1:
                fault += "; if it takes further arguments, make the sample a tuple: the features, and these"
            raise SampleError("X", i, fault) from error

    @staticmethod
    def split(X):
        """Split samples that are tuples into features and extra arguments of the function; see `check_samples`.

        Returns
        -------
        X : list, or the argument if no sample is a tuple
            The features.
        extras : list of tuple, or None
        """
        if not _holds_any(X, (tuple, dict)):
            if found := _first_of_parts(X):
                raise ValueError(
                    f"{found} holds arrays and other values; a sample that is not one array is a tuple of features and "
                    "further arguments of the function `structure`"
                )
            return X, None
        for i, x in enumerate(X):
            if isinstance(x[0] if isinstance(x, tuple) and x else x, dict):
                raise SampleError(
                    "X",
                    i,
                    " has a dict of features; if `structure` is a function, a sample has one row of features for each "
                    "variable, in the order in which the graph made them: join the rows of all arrays by "
                    "np.concatenate",
                )
            if not isinstance(x, tuple) or not x:
                raise SampleError(
                    "X",
                    i,
                    " is not a tuple of features and further arguments of the function `structure`, as other samples "
                    "are",
                )
            if not hasattr(x[0], "shape") and not isinstance(x[0], list | tuple):
                raise SampleError(
                    "X", i, f" begins with a {type(x[0]).__name__}; a tuple begins with the features, an array"
                )
        return [x[0] for x in X], [x[1:] for x in X]

    def _check_shapes(self, shapes):
        for name, shape in self.shapes.items():
            if name not in shapes:
                raise ValueError(f"its graph has no factor named {name!r}, which the first graph has")
            if shapes[name] != shape:
                raise ValueError(
                    f"the scores named {name!r} have shape {shapes[name]}, in other graphs {shape}; scores are tied by "
                    "name: use Pair(..., tied=True) for one score for all pairs"
                )
        unknown = [name for name in shapes if name not in self.shapes]
        if unknown:
            raise ValueError(f"its graph has a factor named {unknown[0]!r}, which the first graph does not have")


class FixedGraph(GraphBuilder):
    """One `FactorGraph` for all samples.

    Parameters
    ----------
    graph : FactorGraph
    shapes : dict, default=None
        As in `GraphBuilder`.
    """

    def __init__(self, graph, shapes=None):
        self.graph, self.shapes = graph, shapes

    def __eq__(self, other):
        """Return whether the graphs have the same variables and factors, as a copy in a clone of an estimator has."""
        if not isinstance(other, FixedGraph):
            return False
        graph, alike = self.graph, other.graph
        if (graph.shapes, graph.n_states) != (alike.shapes, alike.n_states):
            return False
        layout = graph.layout()
        same = alike.layout()
        return (
            list(map(repr, graph.factors)) == list(map(repr, alike.factors))
            and layout.oracles == same.oracles
            and all(map(np.array_equal, layout.arrays, same.arrays))
        )

    def __hash__(self):
        return hash(repr(self))

    def __repr__(self):
        return repr(self.graph)

    def _graph(self, i, X):
        """Return the graph, if the rows of a sample, where they form a grid, have the shape of its variables."""
        shapes = list(self.graph.shapes.values())
        if X.shapes is None or len(shapes) != 1:
            return self.graph
        found = tuple(X.shapes[i].tolist())
        is_single = not self.graph.n_states
        wanted = shapes[0] if is_single else shapes[0][:-1]
        if found not in (wanted, shapes[0]):
            raise SampleError(
                "X",
                i,
                f" has the shape {(*found, X.values.shape[1])}, but the variables of the graph have {wanted}; give a "
                "sample this shape and one more axis, of features",
            )
        return self.graph

    def split(self, X):
        """Return the samples, which have no extra arguments; dicts of arrays by name are joined to rows."""
        if isinstance(X, dict):
            raise ValueError(
                "X is one dict; pass a list of samples. A sample is a dict with features for each of "
                f"{list(self.graph.shapes)}, so write [{{name: X[name][i] for name in X}} for i in range(n_samples)]; "
                "or it is one array, in which the rows of all variables are stacked in the order of the calls of "
                "graph.variables. y is a list of dicts"
            )
        if not _holds_any(X, dict):
            if found := _first_of_parts(X):
                raise ValueError(
                    f"{found} holds arrays and other values; with one graph for all samples, a sample is its features "
                    "alone. If the graph depends on further values, pass a function of the features and these as "
                    "`structure`"
                )
            return X, None
        return [self._rows_of(x, Place("X", i)) for i, x in enumerate(X)], None

    def _rows_of(self, sample, which):
        """Join the arrays of a sample, in the order of the graph's variables, to one row for each variable."""
        shapes = self.graph.shapes
        if not isinstance(sample, dict) or set(sample) != set(shapes):
            found = f"arrays named {sorted(sample, key=str)}" if isinstance(sample, dict) else type(sample).__name__
            raise error_at(which, f" must be a dict with features for each of {list(shapes)}; got {found}")
        parts = []
        for name, shape in shapes.items():
            rows = sample[name]
            rows = rows if sparse.issparse(rows) else check_numbers(rows, part_of(which, name), named=True)
            shapes_of_rows = [shape[:-1], shape] if name in self.graph.n_states else [shape]
            if rows.shape[:-1] not in [*shapes_of_rows, *((prod(own),) for own in shapes_of_rows)]:
                raise error_at(
                    part_of(which, name),
                    f" has shape {rows.shape}, but these variables of the graph have {shapes_of_rows[0]}; give this "
                    "shape and one more axis, of features",
                )
            parts.append(rows.reshape(-1, rows.shape[-1]))
        widths = {name: part.shape[1] for name, part in zip(shapes, parts)}
        if len(set(widths.values())) > 1:
            raise error_at(
                which,
                "the arrays of ",
                f" have different numbers of features, {widths}; give all the same, with 0 for features that others "
                "have",
            )
        return sparse.vstack(parts, format="csr") if any(map(sparse.issparse, parts)) else np.concatenate(parts)


def _holds_any(X, kinds):
    """Tell whether X is a sequence in which a sample is of one of these types."""
    return not isinstance(X, RaggedArray) and isinstance(X, Sized) and any(isinstance(x, kinds) for x in X)


def _first_of_parts(X):
    """Describe the first sample that is a sequence of arrays and other values; None if there is none."""
    if isinstance(X, RaggedArray) or not isinstance(X, Sized):
        return None
    for i, x in enumerate(X):
        is_sequence = isinstance(x, list | tuple) or getattr(getattr(x, "dtype", None), "kind", "") == "O"
        if is_sequence and any(getattr(part, "ndim", 0) > 1 for part in x) and not _is_array(x):
            return f"X[{i}], of type {type(x).__name__},"
    return None


def _is_array(x):
    try:
        return np.asarray(x).dtype != object
    except ValueError:
        return False


def _sample_of(X, i):
    """Return the arguments of the user's function for a sample: its features, in their shape, and extra arguments."""
    sample = X[i]
    if X.shapes is not None:
        sample = sample.reshape(*X.shapes[i].tolist(), sample.shape[1])
    return sample, *(() if X.extras is None else X.extras[i])
