"""What a user asks of a factor graph, checked and laid out for the kernels."""

import numpy as np

from ..._jit import readonly
from ..._validation import check_numbers, check_scores
from ...factors._graph import FactorGraph
from ...graphs._arrays import FORBIDDEN, PAIR, STRUCTURE


class GraphSample:
    """One sample of a factor graph, checked and laid out for the kernels.

    Attributes
    ----------
    scores : read-only array of shape (n_variables,)
        With FORBIDDEN in place of -inf.
    additional : read-only array of shape (n_additional,)
        One entry for each pair, and those of the structures; see `Layout`.
    """

    __slots__ = ("_graph", "_layout", "_single", "additional", "scores")

    def __init__(self, graph, layout, single, scores, additional):
        self._graph, self._layout, self._single = graph, layout, single
        self.scores, self.additional = scores, additional

    def like(self, scores, additional):
        """Return a sample of the same graph under other scores."""
        return GraphSample(self._graph, self._layout, self._single, readonly(scores), readonly(additional))

    def shape_variables(self, flat):
        """Give an array of one entry a variable the form in which the user gave the scores."""
        arrays, start = {}, 0
        for name, shape in self._layout.variable_shapes.items():
            stop = start + int(np.prod(shape))
            arrays[name] = flat[start:stop].reshape(shape).copy()
            start = stop
        return next(iter(arrays.values())) if self._single else arrays

    def join_variables(self, values, name):
        """Check what goes with the variables; return it flat."""
        return _join_scores(self._layout.variable_shapes, values, self._single, name, _check_finite)

    def shape_additional(self, flat):
        """Give one entry for each pair and structure score its place among the additional scores."""
        shaped, start = {}, 0
        for factor in self._layout.factors:
            if factor.kind == PAIR:
                shaped[factor.name] = flat[start : start + factor.n_pairs].reshape(factor.shape).copy()
                start += factor.n_pairs
            elif factor.kind == STRUCTURE and factor.name is not None:
                shaped[factor.name] = {}
                for (owner, name), shape in self._layout.shapes.items():
                    if owner == factor.name and name is not None:
                        stop = start + int(np.prod(shape))
                        shaped[factor.name][name] = flat[start:stop].reshape(shape).copy()
                        start = stop
        return shaped

    def sum_additional(self, flat):
        """The same, in the shapes of the scores: what belongs to one score is summed."""
        if self._layout.expand is not None:
            flat = np.bincount(self._layout.expand, flat, minlength=self._layout.n_joined)
        shaped, start = {}, 0
        for (owner, name), shape in self._layout.shapes.items():
            stop = start + int(np.prod(shape))
            array = flat[start:stop].reshape(shape)
            if name is None:
                shaped[owner] = array
            else:
                shaped.setdefault(owner, {})[name] = array
            start = stop
        return shaped

    def join_additional(self, given):
        """Join what goes with the additional scores; what is not given is zero."""
        joined = []
        known = {owner for owner, _ in self._layout.shapes}
        unknown = sorted(set(given) - known)
        if unknown:
            raise ValueError(f"no additional scores named {unknown[0]!r} were given; there are {sorted(known)}")
        for (owner, name), shape in self._layout.shapes.items():
            value = given.get(owner, {} if name is not None else 0.0)
            value = value.get(name, 0.0) if name is not None else value
            array = check_numbers(value, owner if name is None else f"{owner}[{name!r}]")
            if array.shape not in (shape, ()):
                raise ValueError(f"{owner} has shape {array.shape}; its scores have {shape}")
            joined.append(np.broadcast_to(array, shape).ravel())
        flat = np.concatenate(joined) if joined else np.zeros(0)
        return flat if self._layout.expand is None else flat[self._layout.expand]


def _check_finite(values, ndim, name):
    array = check_numbers(values, name)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return array


def _join_scores(shapes, scores, single, name, check=check_scores):
    """Check one sample's scores; return them flat. Arrays of variables that are left out are zero."""
    if not isinstance(scores, dict):
        if not single:
            raise ValueError(f"{name} must be a dict with one array for each of {list(shapes)}")
        scores = {next(iter(shapes)): scores}
    unknown = sorted(set(scores) - set(shapes), key=str)
    if unknown:
        raise ValueError(f"{name} names {unknown[0]!r}, which the graph does not have; there are {list(shapes)}")
    flat = []
    for array_name, shape in shapes.items():
        label = name if single else f"{name}[{array_name!r}]"
        if array_name not in scores:
            flat.append(np.zeros(int(np.prod(shape))))
            continue
        array = check(scores[array_name], len(shape), label)
        if array.shape != shape:
            raise ValueError(f"{label} has shape {array.shape}; the graph's variables have {shape}")
        flat.append(array.ravel())
    return np.concatenate(flat)


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
        # Of different shapes: samples, of which one is wrong, or a wrong sample.
        return True


def as_graph_samples(graph, scores, additional, numbers=None):
    """Check scores and additional scores; return a layout, a list of `GraphSample`, and whether there were many.

    `numbers` are those of the samples, where they are not counted from 0: there are many then.

    Raises
    ------
    ValueError
        Naming the sample and what is wrong.
    """
    if not isinstance(graph, FactorGraph):
        raise ValueError(f"graph must be a FactorGraph; got {graph!r}")
    if graph.n_variables == 0:
        raise ValueError("the graph has no variables; make some with graph.variables(shape)")
    many = numbers is not None or is_many(graph, scores)
    if many and len(scores) == 0:
        raise ValueError("scores is empty; there must be at least one sample")
    single = len(graph.shapes) == 1
    samples = list(scores) if many else [scores]
    if isinstance(additional, list | tuple):
        if not many or len(additional) != len(samples):
            n = len(samples) if many else "one sample"
            raise ValueError(f"additional is a list of {len(additional)} for {n}; pass one dict, or one a sample")
        names = range(len(samples)) if numbers is None else numbers
        given = [_check_additional(graph, own, f"additional[{i}]") for i, own in zip(names, additional)]
    else:
        given = [_check_additional(graph, additional, "additional")]
    shapes = [_shapes_of(own) for own in given]
    for i, own in enumerate(shapes):
        if own != shapes[0]:
            raise ValueError(f"additional[{i}] has shapes {own}, but additional[0] has {shapes[0]}; make all alike")
    layout = graph.layout(shapes[0])
    joined = []
    for own in given:
        flat = [np.zeros(0)]
        for owner, name in layout.shapes:
            flat.append((own[owner] if name is None else own[owner][name]).ravel())
        flat = np.concatenate(flat)
        joined.append(readonly(flat if layout.expand is None else flat[layout.expand]))
    found = []
    for i, own in enumerate(samples):
        name = f"scores[{i if numbers is None else numbers[i]}]" if many else "scores"
        flat = _join_scores(graph.shapes, own, single, name)
        flat[flat == -np.inf] = FORBIDDEN
        found.append(GraphSample(graph, layout, single, readonly(flat), joined[i if len(joined) > 1 else 0]))
    return layout, found, many


def _shapes_of(given):
    return {
        name: {n: a.shape for n, a in value.items()} if isinstance(value, dict) else value.shape
        for name, value in given.items()
    }


def _check_additional(graph, additional, label):
    """Return additional scores as float64 arrays: dict of name -> array, or -> dict for structures."""
    additional = {} if additional is None else additional
    if not isinstance(additional, dict):
        raise ValueError(f"{label} must be a dict by the names of factors; got {type(additional).__name__}")
    named = {factor.name: factor for factor in graph.factors if factor.name is not None}
    unknown = sorted(set(additional) - set(named), key=str)
    if unknown:
        raise ValueError(f"{label} names {unknown[0]!r}, but the named factors are {sorted(named)}")
    given = {}
    for name, factor in named.items():
        what = f"{label}[{name!r}]"
        if factor.kind == PAIR:
            if name not in additional:
                raise ValueError(f"the pairs named {name!r} need scores: pass additional={{{name!r}: ...}}")
            given[name] = _pair_scores(additional[name], factor, what)
        elif factor.kind == STRUCTURE:
            given[name] = _structure_scores(additional.get(name, {}), factor, what)
    return given


def _pair_scores(value, factor, what):
    array = check_numbers(value, what).copy()
    wanted = ((),) if factor.tied else (factor.shape, ())
    if array.shape not in wanted:
        raise ValueError(f"{what} has shape {array.shape}; there must be {' or '.join(map(str, wanted))} pair scores")
    if not np.isfinite(array).all():
        bad = array.ravel()[np.argmin(np.isfinite(array.ravel()))]
        raise ValueError(f"{what} contains {bad}; pair scores must be finite. To forbid a pair use AtMostOne")
    return array


def _structure_scores(value, factor, what):
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a dict of the structure's additional scores; got {type(value).__name__}")
    structure = factor.structure
    accepted = structure.additional_shapes(factor.shape)
    unknown = sorted(set(value) - set(structure.additional_names), key=str)
    if unknown:
        takes = ", ".join(structure.additional_names) or "none"
        raise ValueError(f"{what}: {structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    given = {}
    for name in structure.additional_names:
        if value.get(name) is not None:
            found = np.shape(value[name])
            if found not in accepted[name]:
                wanted = " or ".join(map(str, accepted[name]))
                raise ValueError(f"{what}[{name!r}] has shape {found}; it must have {wanted}")
            # A chain of one step has an empty array of transitions for each step.
            empty = np.size(value[name]) == 0
            given[name] = np.zeros(found) if empty else check_scores(value[name], len(found), f"{what}[{name!r}]")
    return given
