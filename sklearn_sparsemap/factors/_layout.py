"""Layout of factors as flat arrays for the kernels."""

from functools import cached_property
from math import prod

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from .._core.indices import are_places
from .._core.jit import readonly, table_of
from ..graphs.arrays import ORACLES, PAIR, SCORED, STRUCTURE, TABLE, GraphArrays
from ..graphs.matching_table import matching_of
from ..graphs.table_arrays import tables_of
from ..structures._base import check_dims
from ._forms import UserForms
from ._rules import Or
from ._variables import Variables


class Layout(UserForms):
    """A graph laid out for the kernels, for additional scores of given shapes.

    Parameters
    ----------
    graph : FactorGraph
    variable_shapes : dict of str -> tuple of int
        Of the variable arrays.
    factors : list of Factor
    given : dict of str -> tuple of int, or dict of str -> tuple of int
        Shapes of the additional scores: of a pair's scores, or of a structure's by name.
    featured : dict of str -> tuple of str
        Names of structure factors, and of their additional scores that come from features; `given` then has the shapes
        of the weights.

    Attributes
    ----------
    arrays : GraphArrays
    oracles : list of MAP oracles
        To which ``arrays.oracles`` refers.
    polytope_solvers : list of PolytopeSolver or None
        Those of their structures.
    n_variables, n_additional : int
        `n_additional` counts the entries of the joined additional scores as kernels see them, one for each pair.
    shapes : dict of (str, str or None) -> tuple of int
        The given additional scores in the order in which they are joined: by the factor's name, and the name among a
        structure's (None for pairs).
    expand : int array of shape (n_additional,) or None
        Where each entry comes from in the joined scores of the user; None if they are the same.
    mixes : list of (places, first, features)
        Entries that are products of features with weights: those at these places are ``features`` times the weights, or
        the tables of pairs, that begin at `first` among the joined scores.
    structured : dict of str -> StructureFactor
        See `FactorGraph.structured`.
    """

    def __init__(self, graph, variable_shapes, factors, given, featured):
        # The graph may grow; this layout, and results made with it, do not.
        self.graph = graph
        self.variable_shapes, self.factors, self.n_states = dict(variable_shapes), list(factors), graph.n_states
        self._given, self.featured, self._features = given, featured, {}
        n_variables = sum(prod(shape) for shape in variable_shapes.values())
        self.n_variables = n_variables
        self.shapes, self.mixes, self.structured = {}, [], graph._structured
        # The places and the first weight of additional scores that come from features, by their names.
        self._featured = {}
        # The first entry of each name in the user's additional scores.
        firsts = {}
        self.oracles, self.polytope_solvers = [], []
        joined, expand, n_entries = 0, [], 0
        number, first_link = 0, 0
        kinds, lengths, n_additional, low, high = [], [], [], [], []
        links, signs, costs = [], [], []
        oracles, dims, sizes = [], [], []
        row_lengths, row_factors, row_bounds, row_low, row_high = [], [], [], [], []
        row_vars, row_coefs, row_links = [], [], []
        for factor in factors:
            n, literals = factor.count, factor.literals
            kinds.append(np.full(n, STRUCTURE if factor.kind == TABLE else factor.kind))
            lengths.append(np.full(n, literals.size // n if n else 0))
            links.append(literals.indices)
            signs.append(factor.signs)
            costs.append(factor.coefficients)
            _check_lengths(factor, graph, signs[-1], costs[-1])
            bounds = factor.bounds()
            low.append(np.full(n, bounds[0]))
            high.append(np.full(n, bounds[1]))
            own, own_sizes, oracle = (), (0, 0, 0, 0), -1
            first, n_own = joined, 0
            if factor.kind in SCORED:
                shapes = given.get(factor.name, {}) if factor.name else {}
                of_name = shapes if isinstance(shapes, dict) else {None: shapes}
                size = sum(map(prod, of_name.values()))
                # Factors with the same name share their scores.
                first = firsts.setdefault(factor.name, joined) if size else joined
                if first == joined:
                    self.shapes |= {(factor.name, key): shape for key, shape in of_name.items()}
                    joined += size
                n_own = 1
                if factor.kind != PAIR:
                    of_own = factor.kernel_shapes(of_name, featured.get(factor.name, ()))
                    n_own = sum(map(prod, of_own.values()))
                    own = check_dims(factor.structure, factor.structure.dims(factor.kernel_shape, of_own))
                    own_sizes, oracle = factor.structure.layout(own), self._number(factor.structure)
                    self._note_features(factor, of_name, of_own, first, n_entries)
                expand.append(first + np.arange(n * n_own) % max(size, 1))
                n_entries += n * n_own
            for places, coefs, bound, lowest, highest in factor.rows():
                own_signs = signs[-1][places]
                row_lengths.append(len(places))
                row_factors.append(number + places[0] * n // literals.size)
                row_vars.append(literals.indices[places])
                row_coefs.append(coefs * own_signs)
                row_links.append(first_link + places)
                # In terms of the variables: a negated literal is 1 - u.
                row_bounds.append(bound - coefs[own_signs < 0].sum())
                row_low.append(lowest)
                row_high.append(highest)
            n_additional.append(np.full(n, n_own))
            oracles.append(np.full(n, oracle))
            dims.extend([own] * n if own else [()] * n)
            sizes.append(np.tile(own_sizes, (n, 1)))
            number += n
            first_link += len(links[-1])
        kinds, lengths = _join(kinds), _join(lengths)
        links = _join(links)
        if not are_places(links, n_variables):
            raise ValueError("a factor has a variable that the graph does not have; take those of graph.variables")
        self._featured = {key: (_as_slice(_join(places)), first) for key, (places, first) in self._featured.items()}
        expand = _join(expand)
        self.n_additional = len(expand)
        is_plain = not (self.mixes or self._featured)
        self.expand = None if is_plain and np.array_equal(expand, np.arange(joined)) else expand
        self.n_joined = joined
        structures = np.flatnonzero(kinds == STRUCTURE)
        link_ptr = _ptr(lengths)
        pairs = np.flatnonzero(kinds == PAIR)
        pair_ends = links[link_ptr[pairs][:, None] + [0, 1]]
        owners = np.full(n_variables, -1)
        for f in structures:
            own_links = links[link_ptr[f] : link_ptr[f + 1]]
            owners[own_links] = np.where(owners[own_links] == -1, f, -2)
        self.arrays = GraphArrays(
            kinds=readonly(kinds, np.int64),
            link_ptr=readonly(link_ptr, np.int64),
            links=readonly(links, np.int64),
            signs=readonly(_join(signs, float)),
            costs=readonly(_join(costs, float)),
            low=readonly(_join(low, float)),
            high=readonly(_join(high, float)),
            additional_ptr=readonly(_ptr(_join(n_additional)), np.int64),
            oracles=readonly(_join(oracles), np.int64),
            dims_ptr=readonly(_ptr([len(d) for d in dims]), np.int64),
            dims=readonly([d for own in dims for d in own], np.int64),
            sizes=readonly(np.concatenate(sizes) if sizes else np.zeros((0, 4)), np.int64),
            row_ptr=readonly(_ptr(row_lengths), np.int64),
            row_vars=readonly(_join(row_vars), np.int64),
            row_coefs=readonly(_join(row_coefs, float)),
            row_links=readonly(_join(row_links), np.int64),
            row_bounds=readonly(np.array(row_bounds, float)),
            row_low=readonly(np.array(row_low, float)),
            row_high=readonly(np.array(row_high, float)),
            row_factors=readonly(row_factors, np.int64),
            pairs=readonly(pairs, np.int64),
            pair_ends=readonly(pair_ends, np.int64),
            pair_signs=readonly(_join(signs, float)[link_ptr[pairs][:, None] + [0, 1]]),
            slot_ptr=readonly(_ptr(np.bincount(pair_ends.ravel(), minlength=n_variables)), np.int64),
            slots=readonly(np.argsort(pair_ends, axis=None, kind="stable"), np.int64),
            structures=readonly(structures, np.int64),
            degrees=readonly(np.bincount(links, minlength=n_variables), np.int64),
            owners=readonly(owners, np.int64),
        )

    @cached_property
    def fixed_size(self):
        """Whether all assignments have the same number of variables on, as in structures of `fixed_size`.

        This is so if the sum of all variables is a linear combination of the factors that are equalities. Consequences
        of other factors are not considered.
        """
        if set(self.n_states) == set(self.variable_shapes):
            return True
        equalities = [factor for factor in self.factors if factor.is_equality]
        variables = _join([factor.literals.indices for factor in equalities])
        if len(np.unique(variables)) < self.n_variables:
            return False
        coefs = _join([factor.coefficients * factor.signs for factor in equalities], float)
        rows = np.repeat(np.arange(len(equalities)), [factor.literals.size for factor in equalities])
        matrix = sparse.csr_array((coefs, (variables, rows)), shape=(self.n_variables, len(equalities)))
        wanted = np.ones(self.n_variables)
        multipliers = lsqr(matrix, wanted, atol=1e-10, btol=1e-10)[0]
        return bool(np.abs(matrix @ multipliers - wanted).max() < 1e-6)

    @cached_property
    def tables(self):
        """The `TableArrays` of a graph with categorical variables and their tables only, else None."""
        return tables_of(self.arrays, self.of_tables) if self.of_tables.any() else None

    @cached_property
    def of_tables(self):
        """Mask of the factors, in the solvers' count, that are tables for pairs of categorical variables."""
        is_table, counts = zip(*[(factor.kind == TABLE, factor.count) for factor in self.factors] or [(False, 0)])
        return np.repeat(is_table, counts)

    @property
    def n_values(self):
        """Number of values of all variables; 1 if some are binary, or the numbers differ."""
        every = {self.n_states.get(name, 1) for name in self.variable_shapes}
        return every.pop() if len(every) == 1 else 1

    @cached_property
    def only_pairs(self):
        """Whether all factors are pairs."""
        return len(self.arrays.pairs) == len(self.arrays.kinds)

    @cached_property
    def shares_variables(self):
        """Whether a variable is in two structures."""
        return bool((self.arrays.owners == -2).any())

    @cached_property
    def matching(self):
        """The `MatchingTable` of a graph that is one matching, else None."""
        return matching_of(self.arrays)

    def factor_of(self, number):
        """Return the factor with this number, which counts each pair separately."""
        for factor in self.factors:
            if number < factor.count:
                return factor
            number -= factor.count
        raise IndexError("there is no such factor")

    def with_clause(self, indices, negated):
        """Return the layout with one more factor: at least one of these literals is true."""
        clause = Or(Variables(self.graph, np.asarray(indices), np.asarray(negated)))
        return _lay_out(self.graph, self.variable_shapes, [*self.factors, clause], self._given, self._features)

    def with_features(self, features):
        """Return the layout with the features of `FactorGraph.with_features`."""
        if not features:
            return self
        # Computed once for all features.
        self.fixed_size  # noqa: B018
        found = object.__new__(Layout)
        found.__dict__.update(self.__dict__)
        found._features, found.mixes = features, list(self.mixes)
        for owner, own in features.items():
            for name, matrix in own.items():
                if (owner, name) in self._featured:
                    if self.shapes[owner, name] != matrix.shape[1:]:
                        raise ValueError(
                            f"{owner}[{name!r}] has shape {self.shapes[owner, name]}, but as the weights of "
                            f"{matrix.shape[1]} features it must have {matrix.shape[1:]}"
                        )
                    places, first = self._featured[owner, name]
                    found.mixes.append((places, first, matrix))
        return found

    def _note_features(self, factor, given, shapes, first, start):
        """Note the places of additional scores of a factor that are not given themselves, but weights of features."""
        if factor.kind == TABLE:
            if factor.features is not None:
                stop = start + factor.count * factor.n_states**2
                self.mixes.append((slice(start, stop), first, factor.features))
            return
        for name, shape in shapes.items():
            if name in self.featured.get(factor.name, ()):
                self._featured.setdefault((factor.name, name), ([], first))[0].append(start + np.arange(prod(shape)))
            first, start = first + prod(given[name]), start + prod(shape)

    def __reduce__(self):
        # Lay out again: unpickled arrays are writable, which kernels do not accept here, and custom oracles have new
        # numbers.
        return _lay_out, (self.graph, self.variable_shapes, self.factors, self._given, self._features)

    def _number(self, structure):
        oracle, own = structure.oracle, structure.polytope_solver
        for i, known in enumerate(zip(self.oracles, self.polytope_solvers)):
            if known[0] is oracle and known[1] is own:
                return i
        self.oracles.append(oracle)
        self.polytope_solvers.append(own)
        return len(self.oracles) - 1

    def all_oracles(self, unused):
        """Return the oracles in the form that kernels take; see `table_of` for `unused`."""
        return table_of(ORACLES, self.oracles, unused)


def _lay_out(graph, variable_shapes, factors, given, features):
    featured = {owner: tuple(own) for owner, own in features.items()}
    return Layout(graph, variable_shapes, factors, given, featured).with_features(features)


def _as_slice(places):
    """Return places that are adjacent as a slice, which copies nothing."""
    is_range = np.array_equal(places, np.arange(len(places)) + places[0])
    return slice(places[0], places[0] + len(places)) if is_range else places


def _check_lengths(factor, graph, signs, coefficients):
    """Raise ValueError unless the arrays of a factor are as long as kernels take them to be; they may be edited."""
    n, size = factor.count, factor.literals.size
    lengths = {"signs": np.size(signs), "coefficients": np.size(coefficients)}
    if factor.kind == STRUCTURE:
        lengths["shape"] = n * prod(factor.shape)
    wrong = [f"{length} by its {name}" for name, length in lengths.items() if length != size]
    if factor.literals._graph is not graph:
        wrong.append("of another graph")
    if wrong or (n and size % n):
        what = wrong[0] if wrong else f"{n} factors that cannot share these evenly"
        raise ValueError(
            f"{type(factor).__name__} (name={factor.name!r}) was edited: it has {size} variables, but {what}; make a "
            "new factor, and add it to a new graph"
        )


def _join(parts, dtype=np.int64):
    return np.concatenate([np.asarray(p, dtype=dtype) for p in parts]) if parts else np.zeros(0, dtype)


def _ptr(lengths):
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])
