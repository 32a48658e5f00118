"""FactorGraph: variables and factors.

Used by `inference`, `_graph_function.py`, `_tables.py` and `_trees.py`.
"""

from __future__ import annotations

from itertools import groupby
from math import prod
from operator import index

import numpy as np
from scipy import sparse

from .._core.annotations import Any, Mapping
from .._core.html import N_ROWS, as_html, short, table
from .._core.keys import HasContent, as_key
from .._graphs.arrays import PAIR, SCORED, STRUCTURE, TABLE
from ..structures import Structure
from ._assignments import parts_and_violations
from ._layout import Layout
from ._logic import Factor, StructureFactor, check_name
from ._rules import Or
from ._tables import ExactlyOne
from ._variables import Condition, Variables, as_condition


class FactorGraph(HasContent):
    """Binary variables joined by factors: logic, scores of pairs, and whole structures.

    Make arrays of variables with `variables`, join them with factors by `add`, and pass the graph to `lp_sparsemap` or
    `map_inference` together with scores. The graph contains no scores, so one graph serves any number of samples. The
    solvers compute LP-SparseMAP [1]_.

    Attributes
    ----------
    factors : list of Factor
        In the order in which they were added.
    n_variables : int
        Number of variables in all arrays.
    revision : int
        Number of changes by the methods of the graph, and by new values of attributes of its factors.
    names : list of str
        Names of the variable arrays.
    shapes : dict of str -> tuple of int
        Shapes of the variable arrays, by name.
    n_states : dict of str -> int
        Number of values of the arrays that `categorical` made, by name.
    scored : list of Factor
        Factors that have scores and a name, in the order in which they were added.

    References
    ----------
    .. [1] Niculae and Martins. LP-SparseMAP: Differentiable Relaxed Optimization for Sparse Structured Prediction. ICML
       2020.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Xor
    >>> graph = FactorGraph()
    >>> u = graph.variables((2, 3), name="links")
    >>> graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    >>> graph
    FactorGraph(links (2, 3); 2 Exactly(1), 3 Exclusive)
    >>> lp_sparsemap(graph, [[1.0, 0.5, 0.0], [1.0, 0.0, 0.0]]).marginals.round(3)
    array([[0.417, 0.542, 0.042],
           [0.583, 0.208, 0.208]])
    """

    _layouts = None  # layouts by the shapes of additional scores
    _laid_out = None  # the version of the graph that the layouts are for
    _revision = 0
    _seen = None  # the factors at the last call of `version`
    _n_lists = 0  # number of lists of factors that `version` has seen
    _structures = ()  # the distinct structures at the last call of `version`

    # The following attributes are those of `Structure`, for code that takes both.
    labelled = repeats = False
    marginal_oracle = None
    no_marginals = "in factor graphs those of a Gibbs distribution are sums over all assignments, which are #P-hard"

    def __init__(self) -> None:
        self.factors: list[Factor] = []
        self.scored: list[Factor] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.n_states: dict[str, int] = {}
        # The variable arrays; one factor of each name, whose scores the others share.
        self._arrays, self._named = {}, {}
        # Structure factors of the arrays that `structured` made, by the names of the arrays.
        self._structured = {}
        # The graph without features, which owns the layouts; features by the names of factors and of their scores.
        self._plain, self.features = self, {}

    @property
    def names(self) -> list[str]:
        return list(self._arrays)

    @property
    def n_variables(self) -> int:
        if not self._arrays:
            return 0
        last = next(reversed(self._arrays.values()))
        return int(last.indices.flat[0]) + last.size

    @property
    def revision(self) -> int:
        return self._plain._revision

    def note_change(self) -> None:
        """Count a change, after which layers and solvers read the graph again."""
        self._plain._revision += 1

    def version(self) -> Any:
        """Return a value that differs after each change of the graph: of its factors, and of their structures.

        In this process only; `content` describes the graph in all processes.
        """
        plain = self._plain
        if plain._seen != plain.factors:
            plain._seen = list(plain.factors)
            plain._n_lists = plain._n_lists + 1
            structures = {
                id(factor.structure): factor.structure for factor in plain.factors if factor.type == STRUCTURE
            }
            plain._structures = tuple(structures.values())
        return plain._revision, plain._n_lists, *[structure.version() for structure in plain._structures]

    def content(self) -> Any:
        factors = tuple((type(factor).__name__, factor.content()) for factor in self.factors)
        return as_key((self.shapes, self.n_states, list(self._structured))), factors, as_key(self.features)

    def of_shape(self, shape: tuple[int, ...]) -> FactorGraph:
        """Return the graph for samples of this shape, as a `GraphFunction` does: this one."""
        return self

    def variables(self, shape: int | tuple[int, ...], name: str | None = None) -> Variables:
        """Add an array of binary variables.

        Parameters
        ----------
        shape : int or tuple of int
        name : str, default=None
            Name of the array. Default: ``"u"``, ``"u2"`` and so on.

        Returns
        -------
        variables : Variables
            Indexed and sliced like a NumPy array; ``~`` negates.
        """
        return self._add_variables(_as_shape(shape), name)

    def categorical(self, shape: int | tuple[int, ...], n_states: int, *, name: str | None = None) -> Variables:
        """Add an array of categorical variables, each of which has exactly one of several values.

        Parameters
        ----------
        shape : int or tuple of int
        n_states : int
            Number of values, at least 2.
        name : str, default=None
            As in `variables`.

        Returns
        -------
        variables : Variables of shape ``shape + (n_states,)``
            One binary variable for each value; exactly one along the last axis is on. `PairTable` has scores for pairs
            of categorical variables; all other factors take the binary variables.

        Examples
        --------
        >>> from sklearn_sparsemap import lp_sparsemap
        >>> from sklearn_sparsemap.factors import FactorGraph
        >>> graph = FactorGraph()
        >>> colours = graph.categorical(2, n_states=3, name="colours")
        >>> graph
        FactorGraph(colours (2, 3); 2 ExactlyOne)
        >>> lp_sparsemap(graph, [[0.5, 0.5, 0.0], [3.0, 0.0, 0.0]]).marginals.round(3)
        array([[0.5, 0.5, 0. ],
               [1. , 0. , 0. ]])
        """
        try:
            n_states = index(n_states)
        except TypeError as error:
            raise ValueError(f"n_states must be an int; got {n_states!r}") from error
        if n_states < 2:
            raise ValueError(f"n_states must be at least 2; got {n_states}")
        array = self._add_variables((*_as_shape(shape), n_states), name)
        name = next(reversed(self._arrays))
        self.n_states[name] = n_states
        self.factors.append(ExactlyOne(array, name))
        self.note_change()
        return array

    def structured(self, structure: Structure, shape: int | tuple[int, ...], *, name: str | None = None) -> Variables:
        """Add an array of variables that are the parts of a structure.

        It is the array of `variables` with a `StructureFactor`. In addition, true assignments may have the form of the
        structure, such as the heads of a tree, and `StructuredSparseMAPClassifier` predicts in this form: the best
        structure under the marginals of the linear relaxation, unless that violates another factor.

        Parameters
        ----------
        structure : Structure
            A structure without additional scores.
        shape : int or tuple of int
            The shape of its scores.
        name : str, default=None
            As in `variables`.

        Returns
        -------
        variables : Variables

        Raises
        ------
        ValueError
            If the structure has no such scores.

        Examples
        --------
        >>> from sklearn_sparsemap.factors import AtMost, FactorGraph
        >>> from sklearn_sparsemap.losses import FenchelYoungLoss
        >>> from sklearn_sparsemap.structures import DependencyTree
        >>> graph = FactorGraph()
        >>> arcs = graph.structured(DependencyTree(), (3, 2), name="tree")
        >>> graph.add(AtMost(arcs[0], 1))
        >>> loss, _ = FenchelYoungLoss(graph).loss_gradient([[2.0, 1.5], [0.0, 1.0], [0.5, 0.0]], [0, 1])
        >>> round(loss, 6)
        0.125
        """
        array = self._add_variables(_as_shape(shape), name)
        name = next(reversed(self._arrays))
        self._structured[name] = StructureFactor(structure, array)
        self.factors.append(self._structured[name])
        self.note_change()
        return array

    def with_features(self, features: Mapping[str, Mapping[str, Any]]) -> FactorGraph:
        """Return this graph with features of additional scores.

        The scores are then the products of these features with weights. The weights are passed, or learned, in place of
        the scores. Graphs with different features of the same graph share its layout and are solved together.

        Parameters
        ----------
        features : dict of str -> dict of str -> sparse or dense array of shape (n_scores, n_features)
            For names of structure factors and of their additional scores: the features of each score. Rows follow the
            order in which factors of this name were added, and of each factor its scores in C order.

        Returns
        -------
        graph : FactorGraph
            No factors can be added to it.

        Raises
        ------
        ValueError
            If there are no such scores, or there is not one row of finite features for each.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_sparsemap import map_inference
        >>> from sklearn_sparsemap.factors import FactorGraph, StructureFactor
        >>> from sklearn_sparsemap.structures import HeadAutomaton
        >>> graph = FactorGraph()
        >>> u = graph.variables(2)
        >>> graph.add(StructureFactor(HeadAutomaton(), u, name="head"))
        >>> adjacent = np.zeros((3, 3))
        >>> adjacent[1, 1] = 1.0
        >>> second = graph.with_features({"head": {"siblings": adjacent.reshape(9, 1)}})
        >>> map_inference(second, [1.0, 0.5], additional={"head": {"siblings": [-2.0]}}).structure
        array([ True, False])
        """
        # The copy uses the layouts of the graph without features.
        graph = object.__new__(FactorGraph)
        graph.__dict__.update(self.__dict__)
        graph._layouts = graph._laid_out = graph._seen = None
        graph.features = {
            owner: {name: self._check_features(owner, name, matrix) for name, matrix in matrices.items()}
            for owner, matrices in features.items()
        }
        return graph

    def _check_features(self, owner, name, matrix):
        factors = [factor for factor in self.scored if factor.name == owner and factor.type == STRUCTURE]
        if not factors or name not in factors[0].structure.additional_names:
            raise ValueError(f"the graph has no structure factors named {owner!r} with additional scores {name!r}")
        matrix = sparse.csr_array(matrix)
        n_scores = sum(prod(factor.accepted_shapes[name][0]) for factor in factors)
        label = f"features[{owner!r}][{name!r}]"
        if matrix.shape[0] != n_scores:
            raise ValueError(f"{label} has {matrix.shape[0]} rows; there must be one for each of {n_scores} scores")
        if not np.isfinite(matrix.data).all():
            raise ValueError(f"{label} contains NaN or infinity")
        return matrix

    def are_whole(self, variables: Variables) -> bool:
        """Return whether the last axis of `variables` has all values of a categorical variable, in order."""
        indices, n = variables.indices, variables.shape[-1]
        whole = np.zeros(indices.shape[:-1], bool)
        for name, n_states in self.n_states.items():
            array = self._arrays[name]
            position = indices[..., 0] - array.indices.flat[0]
            whole |= (n_states == n) & (position >= 0) & (position < array.size) & (position % n == 0)
        return bool(whole.all() and not variables.negated.any() and (np.diff(indices, axis=-1) == 1).all())

    def _check_growing(self):
        if self._plain is not self:
            raise ValueError("a graph with features is a view; add variables and factors to the graph without features")

    def _add_variables(self, shape, name):
        self._check_growing()
        if not shape or min(shape) < 1:
            raise ValueError(f"a variable array needs at least one variable; got shape {shape}")
        if name is None:
            free = ("u", *(f"u{k}" for k in range(2, len(self._arrays) + 3)))
            name = next(n for n in free if n not in self._arrays)
        if not isinstance(name, str) or not name or name in self._arrays:
            raise ValueError(f"name must be a str that no other variable array has; got {name!r}")
        indices = self.n_variables + np.arange(prod(shape)).reshape(shape)
        self._arrays[name] = Variables(self, indices, np.zeros(shape, bool))
        self.shapes[name] = shape
        self.note_change()
        return self._arrays[name]

    def add(self, *factors: Factor | Condition, name: str | None = None) -> None:
        """Join variables of this graph.

        Parameters
        ----------
        *factors : Factor, Condition or Variables
            For example ``Exactly(u[0], 1)``, ``AtMost(costs @ u[0], 2.5)``, ``(u[0, 0] & u[0, 1]) >> ~u[1, 0]``. Each
            clause of a condition becomes a factor `Or`. Variables alone must all be on.
        name : str, default=None
            Name of all of these factors, which must not have names of their own. Conditions are named in this way.

        Raises
        ------
        ValueError
            If an argument is not a factor, joins variables of another graph, has a name although `name` is given, or
            has the name of a factor with other scores.

        Examples
        --------
        >>> from sklearn_sparsemap.factors import FactorGraph
        >>> graph = FactorGraph()
        >>> slots = graph.variables(4, name="slots")
        >>> graph.add(slots[:-1] >> ~slots[1:], name="slots that touch")
        >>> graph.violations([1, 1, 0, 0])
        [AtLeast([~slots[0], ~slots[1]], 1, name='slots that touch')]
        """
        self._check_growing()
        if name is not None:
            check_name(name, "add")
        named = {}
        factors = _as_factors(factors)
        for factor in factors:
            if name is not None and factor.name is not None:
                raise ValueError(
                    f"add got name={name!r}, but {factor!r} has a name already; add factors with names of their own in "
                    "another call"
                )
            if factor.literals is None:
                what = type(factor).__name__
                raise ValueError(
                    f"{factor!r} is about labels; in a factor graph pass variables, such as {what}(u[0], 2)"
                )
            if factor.literals._graph is not self:
                raise ValueError(f"{factor!r} joins variables of another graph, not of this one")
            own = factor.name if name is None else name
            if factor.type in SCORED and own is not None:
                known = self._named.get(own) or named.get(own)
                if known is not None and not _share_scores(known, factor):
                    raise ValueError(
                        f"there is a factor named {own!r} already, which has other scores, {known!r}; names tell "
                        "scores apart: factors of one name share theirs"
                    )
                named[own] = known or factor
        if name is not None:
            for factor in factors:
                factor.name = name
        self._named |= named
        self.factors.extend(factors)
        self.scored.extend(factor for factor in factors if factor.type in SCORED and factor.name is not None)
        self.note_change()

    def violations(self, y: Any) -> list[Factor]:
        """List the factors that an assignment violates.

        Parameters
        ----------
        y : array-like of bool or 0/1, or dict of str -> array-like
            An assignment in the shape of the variables; for several arrays of variables, a dict with one for each.
            Variables with several values may be given by the indices of their values, and arrays that `structured` made
            by their structure.

        Returns
        -------
        factors : list of Factor
            In the order in which they were added. Empty if the assignment satisfies all of them.

        Raises
        ------
        ValueError
            If `y` does not have the shape of the variables, or holds anything other than their values.

        Examples
        --------
        >>> from sklearn_sparsemap.factors import AtMost, Exactly, FactorGraph
        >>> graph = FactorGraph()
        >>> shifts = graph.variables((2, 3), name="shifts")
        >>> graph.add(*[Exactly(shift, 1, name="one worker a shift") for shift in shifts])
        >>> graph.add(*[AtMost(worker, 1, name="one shift a worker") for worker in shifts.T])
        >>> graph.violations([[1, 0, 0], [1, 0, 0]])
        [AtMost([shifts[0, 0], shifts[1, 0]], 1, name='one shift a worker')]
        """
        layout = self.layout()
        return layout.factors_of(parts_and_violations(self, layout, y)[2])

    def __getitem__(self, name: str) -> Variables:
        """Return the variable array of this name."""
        return self._arrays[name]

    def describe(self, number: int, negated: bool = False) -> str:
        """Return the name of a variable, such as ``"links[0, 1]"``."""
        for name, array in self._arrays.items():
            first = array.indices.flat[0]
            if first <= number < first + array.size:
                position = ", ".join(str(int(i)) for i in np.unravel_index(number - first, array.shape))
                return f"{'~' if negated else ''}{name}[{position}]"
        raise IndexError(f"there is no variable {number}")

    def layout(self, given=None):
        """Return the graph in the form of the solvers, for additional scores of these shapes; see `Layout`."""
        given = given or {}
        key = tuple(
            (name, tuple(shape.items()) if isinstance(shape, dict) else shape) for name, shape in sorted(given.items())
        )
        featured = {owner: tuple(names) for owner, names in self.features.items()}
        key = (key, tuple(sorted(featured.items())))
        plain = self._plain
        version = self.version()
        if plain._laid_out != version:
            plain._layouts, plain._laid_out = {}, version
        if key not in plain._layouts:
            plain._layouts[key] = Layout(plain, self.shapes, self.factors, given, featured)
        layout = plain._layouts[key]
        return layout.with_features(self.features) if self.features else layout

    def _counts(self):
        """Return the number of factors of each type, in the order in which they appear."""
        counts = {}
        for factor in self.factors:
            title = repr(factor.structure) if factor.type == STRUCTURE else factor.title
            counts[title] = counts.get(title, 0) + factor.count
        return counts

    def __repr__(self):
        arrays = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items()) or "no variables"
        factors = ", ".join(f"{n} {title}" for title, n in self._counts().items()) or "no factors"
        return f"FactorGraph({arrays}; {factors})"

    def _repr_html_(self):
        rows = []
        for _, group in groupby(self.factors, key=lambda f: (f.title, f.name, f.type == STRUCTURE and f.shape)):
            group = list(group)
            meaning = (type(group[0]).__doc__ or "").partition("\n")[0]
            n = sum(f.count for f in group)
            sizes = sorted({2 if f.type == PAIR else f.literals.size // max(f.count, 1) for f in group})
            size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
            cells = group[0].title, group[0].name or "", n, size, short(group[0]), meaning
            rows.append(cells)
        variables = [(name, shape, prod(shape)) for name, shape in self.shapes.items()]
        columns = ("factor", "name", "number", "variables each", "first", "meaning")
        return as_html(
            f"FactorGraph: {self.n_variables} variables, {sum(self._counts().values())} factors",
            table(("variables", "shape", "number"), variables),
            table(columns, rows[:N_ROWS], len(rows)),
        )

    def __getstate__(self):
        # Layouts contain numbers of oracles, which are valid in this process only.
        return {**self.__dict__, "_layouts": None, "_laid_out": None}


def _as_shape(shape):
    """Return the shape of an array of variables as a tuple."""
    try:
        return (index(shape),) if np.ndim(shape) == 0 else tuple(index(n) for n in shape)
    except TypeError as error:
        raise ValueError(f"shape must be an int or a tuple of ints; got {shape!r}") from error


def _as_factors(given):
    """Return factors and conditions as factors, with one for each clause of a condition."""
    factors = []
    for factor in given:
        if isinstance(factor, Condition | Variables):
            factors += [Or(clause) for clause in as_condition(factor).clauses()]
        elif isinstance(factor, Factor):
            factors.append(factor)
        else:
            raise ValueError(f"add takes factors and conditions, such as Exactly(u, 1) and u[0] | u[1]; got {factor!r}")
    return factors


def _share_scores(known, factor):
    """Return whether two factors of one name can have the same scores."""
    if known.type != factor.type or known is factor:
        return False
    if factor.type == PAIR:
        return known.tied and factor.tied
    if factor.type == TABLE:
        of_features = known.features is not None and factor.features is not None
        return ((known.tied and factor.tied) or of_features) and known.shape == factor.shape
    # Scores that are not learned by themselves come from features, and then their shapes may differ.
    alike = known.shape[-1] == factor.shape[-1] or not known.structure.learned_shapes(known.shape[-1])
    return known.structure == factor.structure and alike
