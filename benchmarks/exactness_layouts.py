"""Problems of `exactness.py`: small structures and factor graphs, by every solver, with their exact twins."""

import sys
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "cases"))

import naive
from naive_exact import GraphOptimum, LocalPolytope, Optimum, Vertices
from registry import best_segment, encode_segment  # noqa: F401  # the code of layouts names them

from sklearn_sparsemap import factors, lp_sparsemap, sparsemap
from sklearn_sparsemap.structures import *  # noqa: F403  # the code of layouts names them
from sklearn_sparsemap.structures import (
    Alignment,
    CustomStructure,
    DependencyTree,
    LinearChain,
    LinearProgram,
    Matching,
    Ranking,
    Segmentation,
    SequenceBudget,
    Simplex,
    Subset,
)

EXACT = ("auto", "active_set", "facets", "flow", "newton", "tables")
# Solvers that approach the solution; they may end before they reach it.
SLOW = ("cg", "away_step", "pairwise", "block", "admm")
# A gap of this size bounds the error by 5e-7.
SLOW_OPTIONS = {"tol": 1e-13, "max_iter": 300}


class _Layout:
    """Problems of one size: the parts, a twin that solves them exactly, and the solvers that take them."""

    def __init__(self, code, shape):
        self.code, self.shape = code, shape
        self.n_unary = int(np.prod(shape))

    def _flat(self, parts):
        return np.concatenate([np.zeros(0), *(np.asarray(part, float).ravel() for part in parts)])

    def _split(self, values, shapes):
        """Cut flat values by a dict of shapes, which may be nested."""
        found, start = {}, 0
        for name, shape in shapes.items():
            if isinstance(shape, dict):
                size = sum(int(np.prod(s)) for s in shape.values())
                found[name] = self._split(values[start : start + size], shape)
            else:
                size = int(np.prod(shape))
                found[name] = values[start : start + size].reshape(shape)
            start += size
        return found

    def split(self, values):
        """Return the values of all parts as scores and a dict of additional scores."""
        return values[: self.n_unary].reshape(self.shape), self._split(values[self.n_unary :], self.given)

    def solve_layer(self, problems, library, directions):
        """Solve by the layer of a library, ``"torch"`` or ``"jax"``.

        Returns
        -------
        marginals : array
        additional : list of flat arrays
        gradients : array
            Of the sum of the marginals times `directions`, with respect to the scores.
        """
        scores, additional = zip(*map(self.split, problems))
        u, v, gradients = LAYERS[library](*self._layer, np.array(scores), _stacked(additional), directions)
        return u, [self._flat(_leaves(v, self.given, i)) for i in range(len(problems))], gradients

    @cached_property
    def may_forbid(self):
        """Which parts take a score of -inf: bool array."""
        return np.ones(self.n, bool)

    @cached_property
    def solvers(self):
        """Names of the solvers that take these problems."""
        names = []
        for name in (*EXACT, *SLOW):
            try:
                self.solve([np.zeros(self.n)], name, max_iter=2)
            except ValueError:
                continue
            names.append(name)
        return names


class Layout(_Layout):
    """A structure with scores of one shape and a choice of additional scores.

    Parameters
    ----------
    code : str
        Python code that makes the structure.
    shape : tuple of int
    given : dict of str -> tuple of int
        Shapes of the additional scores.
    """

    def __init__(self, code, shape, **given):
        super().__init__(code, shape)
        self.given = given
        self.n = self.n_unary + sum(int(np.prod(s)) for s in given.values())

    def __repr__(self):
        return f"{self.code}, {self.shape}" + "".join(f", {name}={shape}" for name, shape in self.given.items())

    @cached_property
    def structure(self):
        return eval(self.code)  # code of this file

    @cached_property
    def vertices(self):
        """All structures. Which additional parts they have is found by scoring these one by one."""
        columns = []
        for k in range(self.n_unary, self.n):
            columns.append(self._enumerate(np.arange(self.n) == k)[2])
        structures, M, _ = self._enumerate(np.zeros(self.n))
        return Vertices(structures, M.T.copy(), np.array(columns).reshape(len(columns), len(structures)).T)

    def _enumerate(self, values):
        scores, additional = self.split(values.astype(float))
        structure = self.structure
        options = {} if isinstance(structure, CustomStructure) else vars(structure)
        if isinstance(structure, LinearProgram):
            options = {name: getattr(structure, name) for name in ("A", "b", "A_eq", "b_eq")}
        return ENUMERATE[type(structure)](scores, **additional, **options)

    def optimum(self, values):
        return Optimum(self.vertices, values)

    @property
    def _layer(self):
        return "sparsemap", self.structure

    @property
    def most_parts(self):
        """The largest number of parts of a structure."""
        return self.vertices.counts.sum(axis=1).max()

    def plant(self, rng):
        """Return which parts some structure has."""
        return self.vertices.counts[rng.integers(len(self.vertices.counts))] > 0

    def solve(self, problems, solver, **options):
        if solver in SLOW:
            options = SLOW_OPTIONS | options
        scores, additional = zip(*map(self.split, problems))
        more = {name: [own[name] for own in additional] for name in self.given}
        return list(sparsemap(self.structure, list(scores), solver=solver, **more, **options))

    def additional_of(self, result):
        return self._flat(_leaves(result.additional_marginals, self.given))

    def snippet(self, values, solver):
        """Return code that shows a result."""
        scores, additional = self.split(values)
        lines = ["import numpy as np", "from numpy import inf", "from sklearn_sparsemap.structures import *"]
        if isinstance(self.structure, CustomStructure) and "best_segment" in self.code:
            lines.append("from registry import best_segment, encode_segment  # of tests")
        lines.append(f"structure = {self.code}")
        lines.append(f"scores = np.array({scores.tolist()!r})")
        lines += [f"{name} = np.array({value.tolist()!r})" for name, value in additional.items()]
        if solver in LAYERS:
            lines.insert(
                2, f"from sklearn_sparsemap.{solver} import sparsemap  # arrays of {solver} in place of NumPy's"
            )
            named = ", ".join(f"{name!r}: {name}" for name in additional)
            lines.append(f"r = sparsemap(structure, scores, return_additional=True, additional={{{named}}})")
        else:
            options = SLOW_OPTIONS if solver in SLOW else {}
            options = "".join(f", {name}={value}" for name, value in options.items())
            named = "".join(f", {name}={name}" for name in additional)
            lines.insert(2, "from sklearn_sparsemap import sparsemap")
            lines.append(f"r = sparsemap(structure, scores{named}, solver={solver!r}{options})")
        return "\n".join(lines)


class GraphLayout(_Layout):
    """A factor graph.

    Parameters
    ----------
    code : str
        Statements that add variables ``u`` and factors to ``graph``.
    shape : tuple of int
        Of the variables.
    given : dict
        Shapes of the additional scores.
    """

    def __init__(self, code, shape, given=None):
        super().__init__(code, shape)
        self.given = given or {}
        flat = [own for s in self.given.values() for own in (s.values() if isinstance(s, dict) else [s])]
        self.n = self.n_unary + sum(int(np.prod(s)) for s in flat)

    def __repr__(self):
        return self.code

    @cached_property
    def graph(self):
        names = {**vars(factors), **globals(), "graph": factors.FactorGraph()}
        exec(self.code, names)
        return names["graph"]

    @cached_property
    def may_forbid(self):
        allowed, start = super().may_forbid.copy(), self.n_unary
        finite = {factor.name for factor in self.graph.factors if isinstance(factor, factors.Pair)}
        for name, shape in self.given.items():
            stop = start + (0 if isinstance(shape, dict) else int(np.prod(shape)))
            allowed[start:stop] = name not in finite
            start = stop
        return allowed

    @cached_property
    def polytope(self):
        n_additional = self.n - self.n_unary
        return LocalPolytope(self.graph, self.shape, lambda values: self._split(values, self.given), n_additional)

    def optimum(self, values):
        return GraphOptimum(self.polytope, values)

    @property
    def _layer(self):
        return "lp_sparsemap", self.graph

    @property
    def most_parts(self):
        return self.n

    def plant(self, rng):
        assignments = self.polytope.assignments
        return assignments[rng.integers(len(assignments))]

    def solve(self, problems, solver, **options):
        options = {"tol": 1e-10} | options
        if solver in SLOW:
            options = {"tol": 1e-13, "max_iter": 1000} | options
        scores, additional = zip(*map(self.split, problems))
        return list(lp_sparsemap(self.graph, list(scores), additional=list(additional), solver=solver, **options))

    def additional_of(self, result):
        return self._flat(_leaves(result.additional_marginals, self.given))

    def snippet(self, values, solver):
        scores, additional = self.split(values)
        text = repr({name: _as_lists(part) for name, part in additional.items()})
        lines = ["import numpy as np", "from numpy import inf", "from sklearn_sparsemap.factors import *"]
        lines += ["from sklearn_sparsemap.structures import *", f"graph = FactorGraph()\n{self.code}"]
        lines += [f"scores = np.array({scores.tolist()!r})", f"additional = {text}"]
        if solver in LAYERS:
            lines.insert(2, f"from sklearn_sparsemap.{solver} import lp_sparsemap  # arrays of {solver}, not of NumPy")
            lines.append("r = lp_sparsemap(graph, scores, additional=additional)")
        else:
            options = {"tol": 1e-13, "max_iter": 1000} if solver in SLOW else {"tol": 1e-10}
            options = "".join(f", {name}={value}" for name, value in options.items())
            lines.insert(2, "from sklearn_sparsemap import lp_sparsemap")
            lines.append(f"r = lp_sparsemap(graph, scores, additional=additional, solver={solver!r}{options})")
        return "\n".join(lines)


def _as_lists(part):
    return {name: own.tolist() for name, own in part.items()} if isinstance(part, dict) else part.tolist()


def _stacked(parts):
    """Turn dicts of arrays, maybe nested, into one dict of arrays with an axis of samples."""
    found = {}
    for name, part in parts[0].items():
        own = [other[name] for other in parts]
        found[name] = _stacked(own) if isinstance(part, dict) else np.array(own)
    return found


def _mapped(function, parts):
    return {name: _mapped(function, p) if isinstance(p, dict) else function(p) for name, p in parts.items()}


def solve_by_torch(name, what, scores, additional, directions):
    import torch

    from sklearn_sparsemap import torch as layers

    scores = torch.tensor(scores, requires_grad=True)
    more = _mapped(torch.tensor, additional)
    u, v = getattr(layers, name)(what, scores, additional=more, return_additional=True)
    (u * torch.tensor(directions)).sum().backward()
    return u.detach().numpy(), _mapped(lambda part: part.detach().numpy(), v), scores.grad.numpy()


def solve_by_jax(name, what, scores, additional, directions):
    import jax

    from sklearn_sparsemap import jax as layers

    with jax.enable_x64(True):
        more = _mapped(jax.numpy.asarray, additional)
        u, pull, v = jax.vjp(
            lambda s: getattr(layers, name)(what, s, additional=more, return_additional=True),
            jax.numpy.asarray(scores),
            has_aux=True,
        )
        (gradients,) = pull(jax.numpy.asarray(directions))
        return np.asarray(u), _mapped(np.asarray, v), np.asarray(gradients)


LAYERS = {
    name: solve for name, solve in (("torch", solve_by_torch), ("jax", solve_by_jax)) if find_spec(name) is not None
}


def _leaves(found, shapes, i=None):
    """Yield the arrays of nested dicts in the order of `shapes`; of sample `i` if there is an axis of samples."""
    for name, shape in shapes.items():
        if isinstance(shape, dict):
            yield from _leaves(found[name], shape, i)
        else:
            part = found[name] if i is None else found[name][i]
            # A table that many pairs share has the sum of their marginals.
            yield np.reshape(part, (-1, *shape)).sum(axis=0)


def enumerate_program(scores, A, b, A_eq, b_eq):
    """Return (bools, unary indicators M, total scores) of all 0-1 solutions."""
    n = len(scores)
    X = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool)
    X = X[(X @ A.T - b <= 1e-9).all(axis=1) & (abs(X @ A_eq.T - b_eq) <= 1e-9).all(axis=1)]
    return [tuple(x) for x in X.tolist()], X.T.astype(float), X @ scores


ENUMERATE = {
    Simplex: naive.enumerate_simplex,
    LinearChain: naive.enumerate_chain,
    SequenceBudget: naive.enumerate_budgeted,
    DependencyTree: naive.enumerate_trees,
    Matching: naive.enumerate_matchings,
    Subset: naive.enumerate_subsets,
    Alignment: naive.enumerate_alignments,
    Ranking: naive.enumerate_rankings,
    Segmentation: naive.enumerate_segmentations,
    CustomStructure: naive.enumerate_segments,
    LinearProgram: enumerate_program,
}


def chains():
    sizes = (1, 1), (1, 2), (1, 5), (2, 1), (3, 1), (7, 1), (2, 2), (2, 4), (3, 3), (4, 3), (5, 2), (8, 2), (3, 7)
    for n, m in sizes:
        choices = [{}, {"transitions": (m, m)}, {"transitions": (m, m), "start": (m,), "end": (m,)}]
        choices += [{"start": (m,)}, {"transitions": (m, m), "end": (m,)}]
        if n > 2:
            choices.append({"transitions": (n - 1, m, m)})
            choices.append({"transitions": (n - 1, m, m), "start": (m,), "end": (m,)})
        for given in choices:
            yield Layout("LinearChain()", (n, m), **given)


def budgets():
    for n, m in ((1, 2), (2, 3), (4, 3), (5, 2), (8, 2)):
        for code in ("0", "1", "3", "0.5", "3, 0"):
            for given in ({}, {"transitions": (m, m)}, {"transitions": (m, m), "start": (m,), "end": (m,)}):
                yield Layout(f"SequenceBudget({code})", (n, m), **given)
                if code[0] != "3" or n > 2:
                    yield Layout(f"SequenceBudget({code}, exactly=True)", (n, m), **given)


def trees():
    for projective in (False, True):
        for single_root in (False, True):
            code = f"DependencyTree(projective={projective}, single_root={single_root}"
            for n in (1, 2, 3, 4, 5):
                yield Layout(code + ")", (n + 1, n))
            for n, n_labels in ((1, 3), (2, 1), (2, 3), (3, 2)):
                yield Layout(f"{code}, n_labels={n_labels})", (n + 1, n, n_labels))


def segmentations():
    for n, longest, m in ((1, 1, 1), (1, 2, 3), (2, 2, 1), (3, 2, 2), (5, 3, 2), (4, 4, 3), (6, 2, 2)):
        choices = [{}, {"durations": (longest, m)}, {"transitions": (m, m)}]
        choices.append({"durations": (longest, m), "transitions": (m, m), "start": (m,), "end": (m,)})
        for given in choices:
            yield Layout(f"Segmentation({longest})", (n, m), **given)
            yield Layout(f"Segmentation({longest}, 'spans')", (n, longest, m), **given)


def alignments():
    for n, m in ((1, 1), (1, 4), (3, 1), (2, 2), (3, 4), (4, 4)):
        yield Layout("Alignment()", (n, m))
        for kind in ("global", "local"):
            yield Layout(f"Alignment({kind!r})", (n, m))
            yield Layout(f"Alignment({kind!r})", (n, m), gaps=(2,))


def subsets():
    for n in (1, 2, 5, 8):
        sizes = {(0, None), (1, None), (0, 1), (1, 1), (n, n), (0, n // 2), (n // 2, n // 2 + 1)}
        for low, high in sorted(sizes, key=str):
            if low <= n and (high is None or high <= n):
                yield Layout(f"Subset({low}, {high})", (n,))


def programs():
    yield Layout("LinearProgram([[3.0, 2.0, 2.0]], [4.0])", (3,))
    yield Layout("LinearProgram([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], [9.0])", (6,))
    yield Layout("LinearProgram([[1.0]], [1.0])", (1,))
    yield Layout("LinearProgram([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]], [1.0, 1.0], integer=False)", (4,))
    yield Layout(
        "LinearProgram([[2.0, 1.0, 3.0, 1.0, 2.0]], [5.0], A_eq=[[1.0, 1.0, 1.0, 1.0, 1.0]], b_eq=[2.0])", (5,)
    )


def logic_graphs(n_graphs=60):
    """Random graphs of logic factors, pairs and knapsacks, each satisfied by some assignment."""
    rng, found = np.random.default_rng(7), []
    kinds = ("Xor", "AtMostOne", "Or", "OrOut", "XorOut", "AndOut", "Imply", "Budget", "Pair", "Knapsack")
    while len(found) < n_graphs:
        n = int(rng.integers(2, 8))
        lines, given = [f"u = graph.variables({n})"], {}
        for number in range(int(rng.integers(1, 6))):
            kind = kinds[rng.integers(len(kinds))]
            chosen = rng.permutation(n)[: rng.integers(2, min(n, 5) + 1)]
            literals = ", ".join(f"{'~' * int(rng.random() < 0.3)}u[{i}]" for i in chosen)
            if kind == "Pair":
                i, j = chosen[:2]
                given[f"p{number}"] = (1,)
                lines.append(f"graph.add(Pair(u[[{i}]], u[[{j}]], name='p{number}'))")
            elif kind == "Knapsack":
                costs = rng.integers(1, 9, len(chosen)) / 8.0
                lines.append(f"graph.add(Knapsack([{literals}], {costs.tolist()}, {float(0.5 * costs.sum())}))")
            elif kind == "Budget":
                lines.append(f"graph.add(Budget([{literals}], {int(rng.integers(0, len(chosen) + 1))}))")
            else:
                lines.append(f"graph.add({kind}([{literals}]))")
        layout = GraphLayout("\n".join(lines), (n,), given)
        if len(layout.polytope.assignments):
            found.append(layout)
    return found


def pair_graphs():
    for n in (2, 3, 5, 7):
        i, j = np.triu_indices(n, 1)
        code = f"u = graph.variables({n})\ngraph.add(Pair(u[{i.tolist()}], u[{j.tolist()}], name='pairs'))"
        yield GraphLayout(code, (n,), {"pairs": (len(i),)})


def table_graphs():
    for n, k in ((1, 2), (2, 2), (3, 2), (3, 3)):
        code = f"u = graph.categorical({n}, {k})"
        if n > 1:
            code += "\ngraph.add(PairTable(u[:-1], u[1:], name='near'))"
        yield GraphLayout(code, (n, k), {"near": (n - 1, k, k)} if n > 1 else {})
    code = "u = graph.categorical(3, 2)\ngraph.add(PairTable(u[[0, 1, 2]], u[[1, 2, 0]], name='ring', tied=True))"
    yield GraphLayout(code, (3, 2), {"ring": (2, 2)})
    code = "u = graph.categorical((2, 2), 2)\n"
    code += "graph.add(PairTable(u[:, :-1], u[:, 1:], name='across'), PairTable(u[:-1], u[1:], name='down', tied=True))"
    yield GraphLayout(code, (2, 2, 2), {"across": (2, 1, 2, 2), "down": (2, 2)})


def structure_graphs():
    code = "u = graph.variables(({n}, {m}))\ngraph.add(StructureFactor(LinearChain(), u, name='chain'))\n"
    for n, m in ((1, 2), (2, 2), (3, 2), (3, 3)):
        own = code.format(n=n, m=m) + f"graph.add(*[Budget(u[:, s], {max(1, n - 1)}) for s in range(1, {m})])"
        yield GraphLayout(own, (n, m), {"chain": {"transitions": (m, m)}})
    own = code.format(n=2, m=3) + "graph.add(*[AtMostOne(u[:, s]) for s in range(3)])"
    yield GraphLayout(own, (2, 3), {"chain": {"transitions": (3, 3), "start": (3,)}})
    own = code.format(n=3, m=3) + "graph.add(StructureFactor(LinearChain(), u.T, name='columns'))"
    yield GraphLayout(own, (3, 3), {"chain": {"transitions": (3, 3)}, "columns": {"transitions": (3, 3)}})
    for n in (2, 3):
        own = f"u = graph.variables(({n + 1}, {n}))\ngraph.add(StructureFactor(DependencyTree(), u))\n"
        own += f"graph.add(*[Budget([u[h, m] for m in range({n}) if m != h - 1], 1) for h in range(1, {n + 1})])"
        yield GraphLayout(own, (n + 1, n))
    own = "u = graph.variables((3, 3))\n"
    own += "graph.add(StructureFactor(Matching(), u), Budget(u[0], 1), Imply([u[0, 0], u[1, 1]]))"
    yield GraphLayout(own, (3, 3))


def matching_graphs():
    for n, m in ((1, 1), (2, 2), (2, 3), (3, 3)):
        code = f"u = graph.variables(({n}, {m}))\n"
        code += "graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])"
        yield GraphLayout(code, (n, m))


def hierarchies():
    """Labels that imply their parents, forests and others."""
    for parents in ([-1, 0], [-1, 0, 0, 1], [-1, 0, 1, 2, 3], [-1, -1, 0, 1, 3, 3, 2], [-1, -1, (0, 1)],
                    [-1, -1, (0, 1), (1, 2), 0, (3, 4)]):  # fmt: skip
        pairs = [(c, p) for c, above in enumerate(parents) for p in np.atleast_1d(above).tolist() if p >= 0]
        code = f"u = graph.variables({len(parents)})\ngraph.add(*[Imply([u[c], u[p]]) for c, p in {pairs}])"
        yield GraphLayout(code, (len(parents),))


def simplices():
    for n in (1, 2, 3, 6, 12, 40):
        yield Layout("Simplex()", (n,))


def matchings():
    for shape in ((1, 1), (1, 4), (3, 1), (2, 2), (3, 3), (2, 5), (4, 3), (4, 4), (5, 5), (6, 6)):
        yield Layout("Matching()", shape)


def rankings():
    for n in (1, 2, 3, 4, 5, 6):
        yield Layout("Ranking()", (n,))
    for n, k in ((1, 1), (2, 1), (3, 2), (4, 1), (5, 3), (6, 2), (5, 5)):
        yield Layout(f"Ranking({k})", (n,))


def segments():
    for n in (1, 2, 5, 8):
        code = f"CustomStructure(best_segment, additional={{'lengths': ({n},)}}, encode=encode_segment)"
        yield Layout(code, (n,), lengths=(n,))


LAYOUTS = {
    **{"simplex": simplices, "chain": chains, "tree": trees, "matching": matchings, "subset": subsets},
    **{"alignment": alignments, "segmentation": segmentations, "ranking": rankings, "custom": segments},
    **{"program": programs, "logic": logic_graphs, "pairs": pair_graphs, "tables": table_graphs},
    **{"graph of structures": structure_graphs, "graph of matchings": matching_graphs, "hierarchy": hierarchies},
    **{"budget": budgets},
}


@cache
def layouts_of(name):
    """Return the layouts of a name in `LAYOUTS`."""
    return list(LAYOUTS[name]())


# Relative numbers of problems: Python oracles, and graphs, are slow.
SHARES = {
    **{"simplex": 5, "chain": 25, "tree": 20, "matching": 18, "subset": 10, "alignment": 6, "segmentation": 6},
    **{"ranking": 8, "custom": 1.5, "program": 0.5, "logic": 6, "pairs": 3, "tables": 4, "graph of structures": 3},
    **{"graph of matchings": 2, "hierarchy": 3, "budget": 8},
}
