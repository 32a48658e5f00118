"""How exact is SparseMAP? Random problems of every structure, by every solver, against enumeration.

    python benchmarks/exactness.py --n 100000 [--structure chain] [--solver auto] [--list-failures] [--seed 0]

Each problem has scores of one scale from 1e-4 to 1e6, normal, integers with ties, or zeros; most have masks, from
-1e3 to -inf, on random parts. The reference lists all structures and solves the quadratic programme over them; it
certifies itself by its duality gap. Every result of every solver is held against it:

- marginals: the largest difference must be at most 1e-6, relative to the largest marginal if that is above 1;
- objective: that of the marginals, and the optimum must be at most the gap above it;
- structures and weights: their mixture must be the marginals and the additional marginals (a part of the problems);
- vjp: the product with the Jacobian, unless the solution is at a kink or near one (a part of the problems).

Conditional gradient converges slowly, so its problems count as unconverged by themselves.
"""

import argparse
import sys
import time
import warnings
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import naive
from naive_exact import Optimum, Vertices
from registry import best_segment, encode_segment, listed

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import (
    Alignment,
    CustomStructure,
    DependencyTree,
    LinearChain,
    LinearProgram,
    Matching,
    Ranking,
    Segmentation,
    Simplex,
    Subset,
)

TOLERANCE = 1e-6  # of marginals, relative to the largest one if that is above 1
SCALES = tuple(10.0**k for k in range(-4, 7))
MASKS = (-1e3, -1e5, -1e10, -1e14, float(np.finfo(np.float32).min), float(np.finfo(np.float64).min), -np.inf)
EXACT = ("auto", "active_set", "facets", "interior_point")
SLOW = ("cg", "away_step", "pairwise")
# Conditional gradient: its gap bounds the error, which is below TOLERANCE at this one.
SLOW_OPTIONS = {"tol": 1e-13, "max_iter": 300}
BATCH = 10  # problems of one layout, scale and mask that are solved in one call
SOME = 0.2  # fraction of the results whose structures, and whose derivatives, are checked
# Sum and count of structures that a problem may have: the reference looks at all of them.
MOST_STRUCTURES = 1300


class Layout:
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
        self.code, self.shape, self.given = code, shape, given
        self.n_unary = int(np.prod(shape))
        self.n = self.n_unary + sum(int(np.prod(s)) for s in given.values())

    def __repr__(self):
        return f"{self.code}, {self.shape}" + "".join(f", {name}={shape}" for name, shape in self.given.items())

    @property
    def structure(self):
        return make_structure(self.code)

    def split(self, values):
        """Return the values of all parts as scores and a dict of additional scores."""
        additional, start = {}, self.n_unary
        for name, shape in self.given.items():
            stop = start + int(np.prod(shape))
            additional[name] = values[start:stop].reshape(shape)
            start = stop
        return values[: self.n_unary].reshape(self.shape), additional


@cache
def make_structure(code):
    return eval(code)  # the code is in this file


@cache
def vertices_of(layout):
    """List all structures of a layout, with the additional parts found by asking for the score of each alone."""
    structure = layout.structure
    list_all = ENUMERATE[type(structure)]
    options = {} if isinstance(structure, CustomStructure) else vars(structure)
    if isinstance(structure, LinearProgram):
        options = {"A": structure.A, "b": structure.b, "A_eq": structure.A_eq, "b_eq": structure.b_eq}
    columns = []
    for k in range(layout.n - layout.n_unary):
        values = np.zeros(layout.n)
        values[layout.n_unary + k] = 1.0
        scores, additional = layout.split(values)
        columns.append(list_all(scores, **additional, **options)[2])
    scores, additional = layout.split(np.zeros(layout.n))
    structures, M, _ = list_all(scores, **additional, **options)
    return Vertices(structures, M.T.copy(), np.array(columns).reshape(len(columns), len(structures)).T)


def enumerate_program(scores, A, b, A_eq, b_eq):
    """Return (bools, unary indicators M, total scores) of all 0-1 solutions."""
    n = len(scores)
    X = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool)
    X = X[(X @ A.T <= b + 1e-9).all(axis=1) & (abs(X @ A_eq.T - b_eq) <= 1e-9).all(axis=1)]
    return [tuple(x) for x in X.tolist()], X.T.astype(float), X @ scores


ENUMERATE = {
    Simplex: naive.enumerate_simplex,
    LinearChain: naive.enumerate_chain,
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
    for n, m in ((1, 1), (1, 2), (1, 5), (2, 1), (3, 1), (7, 1), (2, 2), (2, 4), (3, 3), (4, 3), (5, 2), (8, 2), (3, 7)):
        choices = [{}, {"transitions": (m, m)}, {"transitions": (m, m), "start": (m,), "end": (m,)}]
        choices += [{"start": (m,)}, {"transitions": (m, m), "end": (m,)}]
        if n > 2:
            choices.append({"transitions": (n - 1, m, m)})
            choices.append({"transitions": (n - 1, m, m), "start": (m,), "end": (m,)})
        for given in choices:
            yield Layout("LinearChain()", (n, m), **given)


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
        for low, high in sorted({(0, None), (1, None), (0, 1), (1, 1), (n, n), (0, n // 2), (n // 2, n // 2 + 1)}, key=str):
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


LAYOUTS = {
    "simplex": [Layout("Simplex()", (n,)) for n in (1, 2, 3, 6, 12, 40)],
    "chain": list(chains()),
    "tree": list(trees()),
    "matching": [
        Layout("Matching()", shape)
        for shape in ((1, 1), (1, 4), (3, 1), (2, 2), (3, 3), (2, 5), (4, 3), (4, 4), (5, 5), (6, 6))
    ],
    "subset": list(subsets()),
    "alignment": list(alignments()),
    "segmentation": list(segmentations()),
    "ranking": [Layout("Ranking()", (n,)) for n in (1, 2, 3, 4, 5, 6)]
    + [Layout(f"Ranking({k})", (n,)) for n, k in ((1, 1), (2, 1), (3, 2), (4, 1), (5, 3), (6, 2), (5, 5))],
    "custom": [
        Layout(f"CustomStructure(best_segment, additional={{'lengths': ({n},)}}, encode=encode_segment)", (n,), lengths=(n,))
        for n in (1, 2, 5, 8)
    ],
    "program": list(programs()),
}
# Relative numbers of problems: those of Python oracles are slow.
SHARES = {"simplex": 5, "chain": 25, "tree": 20, "matching": 18, "subset": 10, "alignment": 6, "segmentation": 6,
          "ranking": 8, "custom": 1.5, "program": 0.5}  # fmt: skip


def draw_values(layout, vertices, scale, kind, mask, is_planted, rng):
    """Draw the scores of all parts of one problem; if `is_planted`, some structure has no masked part."""
    if kind == "normal":
        values = scale * rng.standard_normal(layout.n)
    elif kind == "integer":
        values = scale * rng.integers(0, int(rng.integers(2, 5)), layout.n)
    elif kind == "signed":
        values = scale * rng.integers(-2, 3, layout.n)
    else:
        values = np.full(layout.n, 0.0 if rng.random() < 0.5 else scale)
    if mask is not None:
        masked = rng.random(layout.n) < rng.choice([0.1, 0.3, 0.6])
        masked[layout.n_unary :] &= rng.random() < 0.5
        if is_planted:
            masked[vertices.counts[rng.integers(len(vertices.counts))] > 0] = False
        values[masked] = mask
    return values


@cache
def solvers_of(layout_code, shape):
    """Return the names of the solvers that take a structure."""
    names = []
    for name in EXACT + SLOW:
        try:
            sparsemap(make_structure(layout_code), np.zeros(shape), solver=name, **zeros_of(layout_code, shape))
        except ValueError:
            continue
        names.append(name)
    return names


def zeros_of(layout_code, shape):
    return {"lengths": np.zeros(shape)} if "lengths" in layout_code else {}


class Tally:
    """Counts by structure, solver, scale, kind of scores and mask, and the failures."""

    def __init__(self):
        self.counts, self.failures, self.worst = defaultdict(Counter), [], 0.0

    def add(self, category, outcome):
        self.counts[category][outcome] += 1

    def fail(self, category, what, error, problem):
        self.add(category, what)
        self.failures.append((category, what, error, problem))


class Problem:
    """One problem: a layout, scores, and the exact solution."""

    def __init__(self, layout, values, mask):
        self.layout, self.values = layout, values
        self.scores, self.additional = layout.split(values)
        self.optimum = Optimum(vertices_of(layout), values, mask)
        self.tolerance = TOLERANCE
        if self.optimum.is_forced:
            # Rounding at the size of the mask is in every score.
            self.tolerance += 8.0 * np.finfo(float).eps * abs(mask) * len(values)

    def snippet(self, solver):
        """Return code that shows the failure."""
        lines = [
            "import numpy as np",
            "from numpy import inf",
            "from sklearn_sparsemap import sparsemap",
            "from sklearn_sparsemap.structures import *",
            f"structure = {self.layout.code}",
            f"scores = np.array({self.scores.tolist()!r})",
        ]
        named = ""
        for name, value in self.additional.items():
            lines.append(f"{name} = np.array({value.tolist()!r})")
            named += f", {name}={name}"
        if solver.startswith("torch"):
            lines[2] = "import torch\nfrom sklearn_sparsemap.torch import sparsemap"
            tensors = ", ".join(f"{name!r}: torch.tensor({name})" for name in self.additional)
            lines.append(f"r = sparsemap(structure, torch.tensor(scores), return_additional=True, additional={{{tensors}}})")
        else:
            options = "".join(f", {k}={v}" for k, v in SLOW_OPTIONS.items()) if solver in SLOW else ""
            lines.append(f"r = sparsemap(structure, scores{named}, solver={solver!r}{options})")
        lines.append(f"exact = np.array({self.optimum.marginals.reshape(self.layout.shape).round(9).tolist()!r})")
        return "\n".join(lines)


def magnitude(problem):
    """Return the largest score of a part that the exact solution uses, times the number of parts of a structure."""
    vertices = problem.optimum.vertices
    used = problem.values[np.isfinite(problem.values)]
    if not problem.optimum.is_forced:
        used = used[np.abs(used) < 1e8]
    return max(1.0, np.abs(used).max(initial=0.0)) * max(1.0, vertices.counts.sum(axis=1).max())


def error_of(found, expected):
    """Return the largest difference, relative to the largest expected value if that is above 1."""
    found = np.asarray(found, float).ravel()
    if not np.isfinite(found).all():
        return np.inf
    return np.abs(found - expected).max(initial=0.0) / max(1.0, np.abs(expected).max(initial=0.0))


def objective_of(problem, u, v):
    """Return the objective of marginals and flat additional marginals, without forbidden parts that have none."""
    x = np.concatenate([u, v])
    return problem.values[x != 0] @ x[x != 0] - 0.5 * u @ u


def check_result(problem, result, solver, rng, tally, category):
    """Hold a result against the exact solution; count it, and what is wrong with it."""
    exact = problem.optimum
    u = result.marginals.ravel()
    if not result.converged:
        tally.fail(category, "unconverged", error_of(u, exact.marginals), (problem, solver))
        return
    error = error_of(u, exact.marginals)
    if error > problem.tolerance:
        tally.fail(category, "wrong", error, (problem, solver))
        return
    if not exact.is_forced:
        tally.worst = max(tally.worst, error)
    tally.add(category, "right")
    slack = 1e-9 * magnitude(problem)
    v = flat(problem, result.additional_marginals)
    here = objective_of(problem, u, v)
    if abs(here - result.objective) > slack or not exact.value <= result.objective + result.gap + slack:
        tally.fail(category, "gap", exact.value - result.objective - result.gap, (problem, solver))
    elif here > exact.value + slack + TOLERANCE * magnitude(problem):
        # More than the optimum: the additional marginals belong to no mixture.
        tally.fail(category, "additional", here - exact.value, (problem, solver))
    if rng.random() < SOME:
        check_structures(problem, result, solver, u, v, tally, category)
    if rng.random() < SOME and solver in EXACT and not exact.is_forced and exact.projector is not None:
        direction = rng.standard_normal(problem.layout.shape)
        error = error_of(result.vjp(direction)["scores"], exact.projector @ direction.ravel())
        tally.add(category, "vjp checked")
        if error > TOLERANCE:
            tally.fail(category, "vjp", error, (problem, solver))


def check_structures(problem, result, solver, u, v, tally, category):
    """Check that structures and weights are of the same solution as the marginals."""
    vertices = problem.optimum.vertices
    rows = [vertices.index.get(listed(structure)) for structure in result.structures]
    tally.add(category, "structures checked")
    if None in rows:
        tally.fail(category, "structure", np.inf, (problem, solver))
        return
    weights = result.weights
    off = max(
        abs(weights.sum() - 1.0),
        -weights.min(initial=0.0),
        error_of(weights @ vertices.unary[rows], u),
        error_of(weights @ vertices.additional[rows], v),
    )
    if off > TOLERANCE:
        tally.fail(category, "mixture", off, (problem, solver))


def flat(problem, additional):
    return np.concatenate([np.zeros(0), *(np.asarray(additional[name]).ravel() for name in problem.layout.given)])


def solve_batch(layout, problems, solver):
    """Solve all problems in one call; one by one if that raises."""
    options = dict(SLOW_OPTIONS) if solver in SLOW else {}
    scores = [p.scores for p in problems]
    additional = {name: [p.additional[name] for p in problems] for name in layout.given}
    try:
        return list(sparsemap(layout.structure, scores, solver=solver, **additional, **options))
    except Exception:
        found = []
        for p in problems:
            try:
                found.append(sparsemap(layout.structure, p.scores, solver=solver, **p.additional, **options))
            except Exception as error:
                found.append(error)
        return found


def check_layer(layout, problems, rng, tally, category):
    """Hold the marginals, and the gradients, of the layer of PyTorch against the exact solutions."""
    import torch

    from sklearn_sparsemap.torch import sparsemap as layer

    scores = torch.tensor(np.array([p.scores for p in problems]), requires_grad=True)
    more = {name: torch.tensor(np.array([p.additional[name] for p in problems])) for name in layout.given}
    try:
        u, v = layer(layout.structure, scores, return_additional=True, additional=more)
    except Exception as error:
        for p in problems:
            tally.fail(category, f"raised {type(error).__name__}", np.inf, (p, "torch"))
        return
    directions = rng.standard_normal(scores.shape)
    (u * torch.tensor(directions)).sum().backward()
    gradients = scores.grad.numpy()
    for i, p in enumerate(problems):
        exact = p.optimum
        marginals = u[i].detach().numpy().ravel()
        error = error_of(marginals, exact.marginals)
        if error > p.tolerance:
            tally.fail(category, "wrong", error, (p, "torch"))
            continue
        tally.add(category, "right")
        own = flat(p, {name: part[i].detach().numpy() for name, part in v.items()})
        here = objective_of(p, marginals, own)
        slack = (1e-9 + TOLERANCE) * magnitude(p)
        if abs(here - exact.value) > slack:
            tally.fail(category, "additional", here - exact.value, (p, "torch"))
        if rng.random() < SOME and not exact.is_forced and exact.projector is not None:
            error = error_of(gradients[i], exact.projector @ directions[i].ravel())
            tally.add(category, "vjp checked")
            if error > TOLERANCE:
                tally.fail(category, "vjp", error, (p, "torch"))


def draw_problems(name, rng, n):
    """Draw problems of one layout, scale, kind of scores and mask; return them with their category."""
    layouts = LAYOUTS[name]
    layout = layouts[rng.integers(len(layouts))]
    vertices = vertices_of(layout)
    scale = SCALES[rng.integers(len(SCALES))]
    kind = ("normal", "normal", "normal", "integer", "integer", "signed", "constant")[rng.integers(7)]
    mask = None if rng.random() < 0.3 else MASKS[rng.integers(len(MASKS))]
    is_planted = rng.random() < 0.9
    problems = []
    for _ in range(n):
        values = draw_values(layout, vertices, scale, kind, mask, is_planted, rng)
        problems.append(Problem(layout, values, mask))
    return layout, problems, (scale, kind, "none" if mask is None else f"{mask:.3g}", is_planted)


def run(n, structures, rng, *, solvers=None, layers=True, deadline=np.inf):
    """Solve `n` problems; return the tally.

    Parameters
    ----------
    n : int
    structures : sequence of str
    rng : numpy.random.Generator
    solvers : sequence of str, default=None
        Only these.
    layers : bool, default=True
        Whether the layer of PyTorch solves the problems, too.
    deadline : float, default=inf
        `time.monotonic` at which to stop.
    """
    tally = Tally()
    shares = np.array([SHARES[name] for name in structures], float)
    n_left = n
    while n_left > 0 and time.monotonic() < deadline:
        name = structures[rng.choice(len(structures), p=shares / shares.sum())]
        size = min(n_left, BATCH if SHARES[name] > 2 else 10)
        layout, problems, (scale, kind, mask, is_planted) = draw_problems(name, rng, size)
        n_left -= size
        tally.counts["problems"][name] += size
        feasible = [p for p in problems if p.optimum.is_feasible]
        for p in problems:
            if not p.optimum.is_feasible:
                check_refused(p, tally, (name, "auto", scale, kind, mask + " infeasible"))
        kept = [p for p in feasible if p.optimum.is_certified]
        tally.counts["reference"]["not certified"] += len(feasible) - len(kept)
        if not kept:
            continue
        names = [s for s in solvers_of(layout.code, layout.shape) if solvers is None or s in solvers]
        for solver in names:
            chosen = kept if solver in EXACT else kept[:3]
            for p, result in zip(chosen, solve_batch(layout, chosen, solver)):
                category = name, solver, scale, kind, mask + " in all structures" * p.optimum.is_forced
                if isinstance(result, Exception):
                    tally.fail(category, f"raised {type(result).__name__}", np.inf, (p, solver))
                else:
                    check_result(p, result, solver, rng, tally, category)
        if layers and (solvers is None or "torch" in solvers):
            for is_forced in (False, True):
                chosen = [p for p in kept if p.optimum.is_forced == is_forced]
                if chosen:
                    category = name, "torch", scale, kind, mask + " in all structures" * is_forced
                    check_layer(layout, chosen, rng, tally, category)
    return tally


def check_refused(problem, tally, category):
    """Check that a problem all of whose structures are forbidden is refused."""
    try:
        sparsemap(problem.layout.structure, problem.scores, **problem.additional)
    except ValueError:
        tally.add(category, "right")
        return
    tally.fail(category, "not refused", np.inf, (problem, "auto"))


CHECKS = ("vjp checked", "structures checked")
MAIN = ("right", "wrong", "unconverged")


def print_table(tally, axis, title):
    """Print the counts by some axes of the categories."""
    rows = defaultdict(Counter)
    for category, counts in tally.counts.items():
        if category not in ("problems", "reference"):
            rows[tuple(category[a] for a in axis)].update(counts)
    print(f"\n{title:>28}" + "".join(f"{name:>20}" for name in MAIN + CHECKS) + "   other failures")
    for key in sorted(rows, key=str):
        label = " ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in key)
        others = {name: count for name, count in rows[key].items() if name not in MAIN + CHECKS}
        line = f"{label:>28}" + "".join(f"{rows[key][name]:>20}" for name in MAIN + CHECKS)
        print(line + "   " + ", ".join(f"{name} {count}" for name, count in sorted(others.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000, help="number of problems")
    parser.add_argument("--structure", default="all", choices=("all", *LAYOUTS))
    parser.add_argument("--solver", help="only this solver, or torch")
    parser.add_argument("--list-failures", type=int, nargs="?", const=3, default=0, help="print so many of each kind")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    structures = list(LAYOUTS) if args.structure == "all" else [args.structure]
    start = time.monotonic()
    solvers = None if args.solver is None else (args.solver,)
    tally = run(args.n, structures, np.random.default_rng(args.seed), solvers=solvers)
    print(dict(tally.counts.pop("problems")), dict(tally.counts.pop("reference", {})), f"{time.monotonic() - start:.0f} s")
    print(f"largest error of those right: {tally.worst:.1e}")
    print_table(tally, (0, 1), "structure solver")
    print_table(tally, (2,), "scale")
    print_table(tally, (3,), "kind")
    print_table(tally, (4,), "mask")
    seen = Counter()
    for category, what, error, (problem, solver) in tally.failures:
        key = category[0], category[1], what
        seen[key] += 1
        if seen[key] <= args.list_failures and not (what == "unconverged" and solver in SLOW):
            print(f"\n# {category}: {what}, {error:.2g}; {problem.layout}\n{problem.snippet(solver)}")


if __name__ == "__main__":
    main()
