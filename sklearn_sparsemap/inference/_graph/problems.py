"""The user's input for a factor graph, checked and laid out for the kernels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..._core.validation import LARGEST_SCORE, check_numbers, check_scores
from ...factors._graph import FactorGraph
from ...factors._variable_arrays import check_finite
from ...graphs.arrays import FORBIDDEN, PAIR, STRUCTURE
from .._problems import check_additional


class GraphProblems(NamedTuple):
    """Samples of one factor graph, checked and laid out for the kernels.

    Attributes
    ----------
    layout : Layout
    scores : array of shape (n_samples, n_variables)
        Scores, in which FORBIDDEN replaces -inf.
    additional : array of shape (n_samples, n_additional) or (1, n_additional)
        Scores of the pairs and additional scores of the structures; see `Layout`. A single row applies to all samples.
    scales : array of shape (n_samples, 3), or None
        Factors of the additional scores; the accuracy of the linear relaxation, see `next_step`; and reference values:
        for tables, gaps are relative to the objective minus the reference value.
    """

    layout: object
    scores: np.ndarray
    additional: np.ndarray
    scales: object = None

    def take(self, rows):
        """Return some of the samples."""
        additional = self.additional if len(self.additional) == 1 else self.additional[rows]
        return GraphProblems(
            self.layout, self.scores[rows], additional, None if self.scales is None else self.scales[rows]
        )

    def sizes(self):
        """Return the largest absolute score of each sample."""
        own = _largest(self.scores, -0.5 * FORBIDDEN)
        if not self.additional.shape[1]:
            return own
        additional = _largest(self.additional, np.inf)
        return np.maximum(own, additional if self.scales is None else self.scales[:, 0] * additional)

    def certain(self):
        """Tell which variables are certain: they are only in pairs, and their score outweighs all these pairs.

        Returns
        -------
        certain : bool array of shape (n_samples, n_variables)
        """
        arrays = self.layout.arrays
        size = np.abs(self.additional[:, arrays.additional_ptr[arrays.pairs]])
        total = np.array([np.bincount(arrays.pair_ends.ravel(), s.repeat(2), self.scores.shape[1]) for s in size])
        return (np.abs(self.scores) > total) & (arrays.degrees == np.diff(arrays.slot_ptr))

    def scaled(self, factors):
        """Return the samples with scores multiplied by a factor for each sample; forbidden variables remain so."""
        factors = np.asarray(factors)[:, None]
        scores = np.where(self.scores > 0.5 * FORBIDDEN, factors * self.scores, FORBIDDEN)
        return self._replace(scores=scores, scales=factors * ([1.0, 0.0, 0.0] if self.scales is None else self.scales))

    def values(self, u, joint):
        """Return the total score of marginals of the variables and the additional scores, one row for each sample.

        It is -inf for an assignment in which a forbidden variable is on.
        """
        additional = np.broadcast_to(self.additional, joint.shape)
        allowed, used = self.scores > 0.5 * FORBIDDEN, joint != 0.0
        rows = zip(self.scores, additional, u, joint, allowed, used)
        values = np.array([s[a] @ p[a] + t[b] @ v[b] for s, t, p, v, a, b in rows])
        # Marginals of solutions are exactly 0 there, or nearly so.
        values[(~allowed & (u > 0.5)).any(axis=1)] = -np.inf
        return values


def _largest(rows, bound):
    """Return the largest absolute value below a bound in each row."""
    sizes = np.abs(rows)
    largest = sizes.max(axis=1, initial=0.0)
    if not (largest < bound).all():
        largest = np.where(sizes < bound, sizes, 0.0).max(axis=1, initial=0.0)
    return largest


def is_many(graph, scores):
    """Tell whether `scores` holds many samples."""
    if isinstance(scores, dict):
        return False
    if isinstance(scores, np.ndarray) and scores.dtype != object:
        return scores.ndim > len(next(iter(graph.shapes.values())))
    if not hasattr(scores, "__len__"):
        raise ValueError(
            f"scores must be an array in the shape of the variables, a dict of these by name, or a list; got {scores!r}"
        )
    if isinstance(scores, list | tuple) and len(scores) and isinstance(scores[0], dict):
        return True
    try:
        return np.ndim(scores) > len(next(iter(graph.shapes.values()))) or len(scores) == 0
    except ValueError:
        # A list of arrays with different shapes is a list of samples, or a malformed sample.
        return True


def as_graph_problems(graph, scores, additional, numbers=None):
    """Check scores and additional scores; return `GraphProblems`, and whether there were many samples.

    `numbers` are the indices of the samples in the user's list; if given, there are many samples.

    Raises
    ------
    ValueError
        If the scores do not fit the graph; the message names the sample and the fault.
    """
    if not isinstance(graph, FactorGraph):
        raise ValueError(f"graph must be a FactorGraph; got {graph!r}")
    if graph.n_variables == 0:
        raise ValueError("the graph has no variables; make some with graph.variables(shape)")
    many = numbers is not None or is_many(graph, scores)
    if many and len(scores) == 0:
        raise ValueError("scores is empty; there must be at least one sample")
    samples = scores if many else [scores]
    numbers = range(len(samples)) if numbers is None else numbers
    if isinstance(additional, list | tuple):
        if not many or len(additional) != len(samples):
            n = len(samples) if many else "one sample"
            raise ValueError(f"additional is a list of {len(additional)} for {n}; pass one dict, or one for each")
        given = [_check_additional(graph, own, f"additional[{i}]") for i, own in zip(numbers, additional)]
    else:
        given = [_check_additional(graph, additional, "additional")]
    shapes = [_shapes_of(own) for own in given]
    for i, own in enumerate(shapes):
        if own != shapes[0]:
            raise ValueError(f"additional[{i}] has shapes {own}, but additional[0] has {shapes[0]}; make all alike")
    layout = graph.layout(shapes[0])
    rows = np.empty((len(samples), layout.n_variables))
    for row, i, own in zip(rows, numbers, samples):
        row[:] = layout.join_variables(own, f"scores[{i}]" if many else "scores", check_scores)
    np.maximum(rows, FORBIDDEN, out=rows)
    flat = [layout.join_additional(own) for own in given] if layout.n_additional else np.zeros((1, 0))
    return GraphProblems(layout, rows, np.array(flat)), many


def problems_by_graph(graphs, scores, additional):
    """Check samples of one graph, or of a list with one graph for each sample.

    Returns
    -------
    groups : list of (places, GraphProblems)
        The samples of each graph, with their indices.
    many : bool
        Whether a list was given.
    """
    if isinstance(graphs, FactorGraph):
        problems, many = as_graph_problems(graphs, scores, additional)
        return [(np.arange(len(problems.scores)), problems)], many
    if not isinstance(graphs, Sequence | np.ndarray) or isinstance(graphs, str):
        raise ValueError(f"graph must be a FactorGraph, or a list with one for each sample; got {graphs!r}")
    for i, graph in enumerate(graphs):
        if not isinstance(graph, FactorGraph):
            raise ValueError(f"graph[{i}] must be a FactorGraph; got {graph!r}")
    if not hasattr(scores, "__len__") or isinstance(scores, dict) or len(scores) != len(graphs) or not len(graphs):
        raise ValueError(f"with a list of {len(graphs)} graphs, scores must be a list with one sample for each")
    own = isinstance(additional, list | tuple)
    if own and len(additional) != len(graphs):
        raise ValueError(f"additional is a list of {len(additional)} for {len(graphs)} samples; pass one dict for each")
    places = {}
    for i, graph in enumerate(graphs):
        places.setdefault(id(graph), []).append(i)
    groups = []
    for chosen in places.values():
        given = [additional[i] for i in chosen] if own else additional
        problems, _ = as_graph_problems(graphs[chosen[0]], [scores[i] for i in chosen], given, chosen)
        groups.append((chosen, problems))
    return groups, True


def _shapes_of(given):
    return {
        name: {n: a.shape for n, a in value.items()} if isinstance(value, dict) else value.shape
        for name, value in given.items()
    }


def _check_additional(graph, additional, label):
    """Check additional scores; return them as float64 arrays by name, for structures as a dict by name."""
    additional = {} if additional is None else additional
    if not isinstance(additional, dict):
        raise ValueError(f"{label} must be a dict by the names of factors; got {type(additional).__name__}")
    scored = graph.scored
    named = {factor.name for factor in scored}
    unknown = sorted(additional.keys() - named, key=str)
    if unknown:
        raise ValueError(f"{label} names {unknown[0]!r}, but the named factors are {sorted(named)}")
    given = {}
    for factor in scored:
        name = factor.name
        what = f"{label}[{name!r}]"
        if factor.kind != STRUCTURE:
            if name not in additional and factor.count == 0:
                # There are no pairs, such as vertical ones in a grid with one row.
                given.setdefault(name, np.zeros(factor.accepted_shapes[None][-1]))
                continue
            if name not in additional:
                raise ValueError(f"the pairs named {name!r} need scores: pass additional={{{name!r}: ...}}")
            scores_of = _pair_scores if factor.kind == PAIR else _table_scores
            given[name] = scores_of(additional[name], factor, what)
        else:
            own = _structure_scores(additional.get(name, {}), factor, what, graph.features.get(name, {}))
            if own:
                given[name] = own
    return given


def _pair_scores(value, factor, what):
    array = check_numbers(value, what).copy()
    wanted = factor.accepted_shapes[None]
    if array.shape not in wanted:
        raise ValueError(f"{what} has shape {array.shape}; there must be {' or '.join(map(str, wanted))} pair scores")
    if not np.isfinite(array).all():
        bad = array.ravel()[np.argmin(np.isfinite(array.ravel()))]
        raise ValueError(f"{what} contains {bad}; pair scores must be finite. To forbid a pair use AtMostOne")
    if np.abs(array).max(initial=0.0) > LARGEST_SCORE:
        raise ValueError(f"{what} has values beyond {LARGEST_SCORE:g}, with which sums overflow; rescale all scores")
    return array


def _table_scores(value, factor, what):
    # There may be no pairs, such as vertical ones in a grid with one row.
    array = check_scores(value, np.ndim(value), what) if np.size(value) else np.zeros(np.shape(value))
    wanted = factor.accepted_shapes[None]
    if array.shape not in wanted:
        raise ValueError(f"{what} has shape {array.shape}; there must be tables of {' or '.join(map(str, wanted))}")
    if factor.features is not None and not np.isfinite(array).all():
        raise ValueError(f"{what} contains -inf; tables that are summed with features must be finite")
    return array


def _structure_scores(value, factor, what, features):
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a dict of the structure's additional scores; got {type(value).__name__}")
    structure = factor.structure
    unknown = sorted(set(value) - set(structure.additional_names), key=str)
    if unknown:
        takes = ", ".join(structure.additional_names) or "none"
        raise ValueError(f"{what}: {structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    names = [name for name in structure.additional_names if value.get(name) is not None]
    found = {}
    for name in names:
        label = f"{what}[{name!r}]"
        if name in features:
            found[name] = check_finite(value[name], 1, label)
            if found[name].shape != features[name].shape[1:]:
                raise ValueError(f"{label} has shape {found[name].shape}; there are {features[name].shape[1]} features")
        else:
            found[name] = check_additional(label, value[name], structure, factor.shape, name)
    return found
