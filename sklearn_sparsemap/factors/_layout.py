"""Layout of factors as flat arrays for the kernels.

Used by `_graph.py`.
"""

from functools import cached_property
from math import prod

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from .._core.jit import table_of
from .._core.whole_rows import NO_BOUND, WholeRows
from .._graphs.arrays import ORACLES, STRUCTURE, TABLE, SmallArrays, StructureArrays, take_arrays
from .._graphs.matching_table import matching_of
from .._graphs.table_arrays import tables_of
from ._additional import AdditionalScores
from ._arrays import graph_arrays, join
from ._rules import Or
from ._variable_arrays import VariableArrays
from ._variables import Variables

MAX_SMALL = 1000  # links of a small graph; larger graphs take longer to solve than a failed attempt may cost


class Layout(VariableArrays):
    """A graph laid out for the kernels, for additional scores of given shapes.

    Parameters
    ----------
    graph : FactorGraph
    variable_shapes : dict of str -> tuple of int
        Shapes of the variable arrays.
    factors : list of Factor
    given : dict of str -> tuple of int, or dict of str -> tuple of int
        Shapes of the additional scores: the scores of pairs, or those of a structure by name.
    featured : dict of str -> tuple of str
        For names of structure factors, the names of their additional scores that come from features; `given` then has
        the shapes of the weights.

    Attributes
    ----------
    arrays : GraphArrays
    oracles : list of MAP oracles
        ``arrays.oracles`` are indices into it.
    polytope_solvers : list of PolytopeSolver or None
        The solvers of the structures with these oracles.
    arguments : dict
        Arguments of solvers that are made once; see `_graphs/choice.py`.
    single : bool
        Whether there is one array of variables. Users then pass and get this array instead of a dict.
    n_variables, n_additional : int
        `n_additional` is the number of additional scores of kernels, with one score for each pair.
    shapes : dict of (str, str or None) -> tuple of int
        Shapes of the user's additional scores, in the order in which they are joined: by the names of factor and score
        (None for pairs).
    expand : int array of shape (n_additional,) or None
        The joined score of the user for each score of kernels; None if they are the same.
    mixes : list of (indices, first, features)
        Scores of kernels that are products of features and weights. Those at `indices` are ``features`` times the
        weights (or tables of pairs) that begin at `first` among the joined scores.
    structured : dict of str -> StructureFactor
        See `FactorGraph.structured`.

    All rooms that solve graphs or convert their arrays (`inference`, `losses`, `_layers`, `_training`, `conformal`,
    `plotting`) read these attributes, and call the methods.
    """

    def __init__(self, graph, variable_shapes, factors, given, featured):
        # A copy of the lists, because the graph may grow after this layout is made.
        self.graph = graph
        self.variable_shapes = dict(variable_shapes)
        self.factors = list(factors)
        self.n_states = dict(graph.n_states)
        self.single = len(variable_shapes) == 1
        self._given, self.featured, self._features = given, featured, {}
        self.structured, self.oracles, self.polytope_solvers = graph._structured, [], []
        self.arguments = {}
        self.n_variables = sum(prod(shape) for shape in variable_shapes.values())
        scores = AdditionalScores(given, featured)
        self.arrays = graph_arrays(graph, self.factors, self.n_variables, scores, self._number)
        self.shapes = scores.shapes
        self.mixes = scores.mixes
        self.expand = scores.expand()
        self.n_joined, self.n_additional = scores.n_joined, scores.n_seen
        # The indices and the first weight of additional scores that come from features, by their names.
        self._featured = scores.of_features()

    @cached_property
    def fixed_size(self):
        """Whether all assignments have the same number of variables on, as in structures of `fixed_size`.

        This is so if the sum of all variables is a linear combination of the factors that are equalities. Consequences
        of other factors are not considered.
        """
        if set(self.n_states) == set(self.variable_shapes):
            return True
        equalities = [factor for factor in self.factors if factor.is_equality]
        variables = join([factor.literals.indices for factor in equalities])
        if len(np.unique(variables)) < self.n_variables:
            return False
        coefs = join([factor.coefficients * factor.signs for factor in equalities], float)
        rows = np.repeat(np.arange(len(equalities)), [factor.literals.size for factor in equalities])
        matrix = sparse.csr_array((coefs, (variables, rows)), shape=(self.n_variables, len(equalities)))
        wanted = np.ones(self.n_variables)
        multipliers = lsqr(matrix, wanted, atol=1e-10, btol=1e-10)[0]
        return bool(np.abs(matrix @ multipliers - wanted).max() < 1e-6)

    @cached_property
    def tables(self):
        """The `TableArrays` of a graph with categorical variables and their tables only, else None."""
        return tables_of(self.arrays, self.of_tables) if self.of_tables.any() else None

    @property
    def has_scored_parts(self):
        """Whether there are tables or structures, so that the factors are not rules and pairs only."""
        return self.tables is not None or len(self.arrays.structures) > 0

    @cached_property
    def of_tables(self):
        """Mask of the factors, in the solvers' count, that are tables for pairs of categorical variables."""
        is_table, counts = zip(*[(factor.type == TABLE, factor.count) for factor in self.factors] or [(False, 0)])
        return np.repeat(is_table, counts)

    @property
    def n_values(self):
        """Number of values of all variables; 1 if some are binary, or the numbers differ."""
        every = {self.n_states.get(name, 1) for name in self.variable_shapes}
        return every.pop() if len(every) == 1 else 1

    @cached_property
    def only_pairs(self):
        """Whether all factors are pairs."""
        return len(self.arrays.pairs) == len(self.arrays.factor_types)

    @cached_property
    def small(self):
        """The `SmallArrays` of a graph with few links and no pairs, and its `StructureArrays`; else None.

        The latter is None if there are no structures.
        """
        if len(self.arrays.links) > MAX_SMALL or len(self.arrays.pairs):
            return None
        has_structures = len(self.arrays.structures) > 0
        structures = take_arrays(StructureArrays, self.arrays) if has_structures else None
        return take_arrays(SmallArrays, self.arrays), structures

    @cached_property
    def whole(self):
        """The structure factor that is the whole graph, in the order of the variables; None if there is none."""
        if len(self.factors) != 1 or self.factors[0].type != STRUCTURE:
            return None
        (factor,) = self.factors
        is_whole = np.array_equal(factor.literals.indices, np.arange(self.n_variables))
        return factor if is_whole and not factor.literals.negated.any() else None

    @cached_property
    def most_parts(self):
        """Number of parts of the largest structure with each oracle, by the numbers of oracles."""
        arrays = self.arrays
        n_parts = [0] * len(self.oracles)
        for f in arrays.structures.tolist():
            n_parts[arrays.oracles[f]] = max(n_parts[arrays.oracles[f]], arrays.link_ptr[f + 1] - arrays.link_ptr[f])
        return n_parts

    @cached_property
    def shares_variables(self):
        """Whether a variable is in two structures."""
        return bool((self.arrays.owners == -2).any())

    @cached_property
    def matching(self):
        """The `MatchingTable` of a graph that is one matching, else None."""
        return matching_of(self.arrays)

    @cached_property
    def whole_rows(self):
        """The inequalities of the factors in whole numbers: `WholeRows` with the rows of `GraphArrays`, in that order.

        Only weighted sums have coefficients other than 1 and -1.
        """
        arrays = self.arrays
        coefs = np.rint(arrays.row_coefs).astype(np.int64)
        low = np.where(arrays.row_low < 0.0, np.ceil(arrays.row_bounds), -NO_BOUND).astype(np.int64)
        high = np.where(arrays.row_high > 0.0, np.floor(arrays.row_bounds), NO_BOUND).astype(np.int64)
        number = 0
        for factor in self.factors:
            if factor.whole is not None:
                weights, least, most, _ = factor.whole
                r = np.searchsorted(arrays.row_factors, number)
                own = weights * factor.signs.astype(np.int64)
                coefs[arrays.row_ptr[r] : arrays.row_ptr[r + 1]] = own
                # A negated literal is 1 - u.
                shift = int(own[own < 0].sum())
                low[r] = least if least == -NO_BOUND else least + shift
                high[r] = most if most == NO_BOUND else most + shift
            number += factor.count
        return WholeRows(arrays.row_ptr, arrays.row_vars, coefs, low, high)

    def factor_of(self, number):
        """Return the factor with this number, which counts each pair separately."""
        for factor in self.factors:
            if number < factor.count:
                return factor
            number -= factor.count
        raise IndexError("there is no such factor")

    def factors_of(self, numbers):
        """Return the factors with some numbers, each once, in the order of the graph."""
        ends = np.cumsum([factor.count for factor in self.factors])
        return [self.factors[i] for i in np.unique(np.searchsorted(ends, numbers, side="right"))]

    def with_clause(self, indices, negated):
        """Return the layout with one more factor: at least one of these literals is true."""
        clause = Or(Variables(self.graph, np.asarray(indices), np.asarray(negated)))
        return _make_layout(self.graph, self.variable_shapes, [*self.factors, clause], self._given, self._features)

    def with_features(self, features):
        """Return the layout with the features of `FactorGraph.with_features`."""
        # Computed once for all features.
        self.fixed_size  # noqa: B018
        layout = object.__new__(Layout)
        layout.__dict__.update(self.__dict__)
        layout._features = features
        layout.mixes = list(self.mixes)
        for owner, matrices in features.items():
            for name, matrix in matrices.items():
                if (owner, name) in self._featured:
                    if self.shapes[owner, name] != matrix.shape[1:]:
                        raise ValueError(
                            f"{owner}[{name!r}] has shape {self.shapes[owner, name]}, but as the weights of "
                            f"{matrix.shape[1]} features it must have {matrix.shape[1:]}"
                        )
                    indices, first = self._featured[owner, name]
                    n_scores = len(np.arange(self.n_additional)[indices])
                    if matrix.shape[0] != n_scores:
                        raise ValueError(
                            f"features[{owner!r}][{name!r}] has {matrix.shape[0]} rows, but the graph has "
                            f"{n_scores} scores now; call with_features again, after its last change"
                        )
                    layout.mixes.append((indices, first, matrix))
        return layout

    def __reduce__(self):
        # Made again: unpickled arrays are writable, which kernels do not accept here, and custom oracles have new
        # numbers.
        return _make_layout, (self.graph, self.variable_shapes, self.factors, self._given, self._features)

    def _number(self, structure):
        oracle, solver = structure.oracle, structure.polytope_solver
        for i, known in enumerate(zip(self.oracles, self.polytope_solvers)):
            if known[0] is oracle and known[1] is solver:
                return i
        self.oracles.append(oracle)
        self.polytope_solvers.append(solver)
        return len(self.oracles) - 1

    def all_oracles(self, unused):
        """Return the oracles in the form that kernels take; see `table_of` for `unused`."""
        return table_of(ORACLES, self.oracles, unused)


def _make_layout(graph, variable_shapes, factors, given, features):
    featured = {owner: tuple(names) for owner, names in features.items()}
    layout = Layout(graph, variable_shapes, factors, given, featured)
    return layout.with_features(features) if features else layout
