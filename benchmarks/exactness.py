"""How exact is SparseMAP? Random problems of every structure and of factor graphs, by every solver and the layers.

    python benchmarks/exactness.py --n 100000 [--structure chain] [--solver auto] [--list-failures] [--seed 0]

Each problem has scores of one scale from 1e-4 to 1e6: normal, integers with ties, or constant. Most have masks, from
-1e3 to -inf, on random parts. The reference lists all structures, or the vertices of all factors, and solves the
quadratic program over them; it certifies itself by its duality gap. Every result of every solver is held against it:

- marginals: the largest difference must be at most 1e-6, relative to the largest marginal if that is above 1;
- objective: it must be that of the marginals, and the optimum at most the gap above it;
- structures and weights: their mixture must be the marginals and the additional marginals (for a part of the results);
- vjp: the product with the Jacobian, unless the solution is at a kink or near one (for a part of the results).

Masks are no approximation of -inf here: if every structure has a mask, the best ones have as few as possible, and the
other scores decide among these. Conditional gradient, block coordinate ascent and ADMM
approach the solution only: they get few iterations, and few of the problems.
"""

import argparse
import time
import warnings
from collections import Counter, defaultdict

import numpy as np
import results
from exactness_layouts import EXACT, LAYERS, LAYOUTS, SHARES, SLOW, Layout, layouts_of
from registry import listed
from sklearn.exceptions import ConvergenceWarning

TOLERANCE = 1e-6  # of marginals, relative to the largest one if that is above 1
ROUNDING = 1e-11  # weights of this size are none
SCALES = tuple(10.0**k for k in range(-4, 7))
KINDS = ("normal", "normal", "normal", "integer", "integer", "signed", "constant")
MASKS = np.array([-1e3, -1e5, -1e10, -1e14, float(np.finfo(np.float32).min), float(np.finfo(np.float64).min), -np.inf])
UNMASKED = 0.3  # fraction of the problems without a mask
MIXED = 0.1  # fraction of the masked problems with masks of several sizes
FORCED = 0.05  # fraction of the masked problems in which every structure may have a masked part
BATCH = 10  # problems of one layout, scale and mask that are solved in one call
N_SLOW = 3  # problems of each batch that `SLOW_HERE` solve, too
SLOW_HERE = (*SLOW, "jax")  # these solve few of the problems
SOME = 0.2  # fraction of the results whose structures, and whose derivatives, are checked


class Problem:
    """One problem: a layout, the scores of its parts, and the exact solution."""

    def __init__(self, layout, values):
        self.layout, self.values = layout, values
        # As documented: finite scores below -1e100 count as that.
        self.bounded = np.where(values > -np.inf, np.maximum(values, -1e100), values)
        self.optimum = layout.optimum(self.bounded)

    @property
    def magnitude(self):
        """The size of the terms of the objective, whose rounding shows in it."""
        used = self.bounded[np.isfinite(self.bounded)]
        if not self.optimum.is_forced:
            used = used[np.abs(used) < 1e8]
        return max(1.0, np.abs(used).max(initial=0.0)) * max(1.0, self.layout.most_parts)

    def objective(self, u, v):
        """Return the objective of marginals and flat additional marginals.

        Weights of rounding size add nothing: a masked part with such a weight would decide the objective.
        """
        x = np.concatenate([u, v])
        used = np.abs(x) > ROUNDING
        return self.bounded[used] @ x[used] - 0.5 * u @ u


def draw_problems(name, rng, n):
    """Draw problems of one layout, scale, kind of scores and mask.

    Returns
    -------
    layout : Layout or GraphLayout
    problems : list of Problem
    scale : float
    kind, mask : str
    """
    layouts = layouts_of(name)
    layout = layouts[rng.integers(len(layouts))]
    scale, kind = SCALES[rng.integers(len(SCALES))], KINDS[rng.integers(len(KINDS))]
    masks = np.roll(MASKS, -rng.integers(len(MASKS)))[: rng.choice([1, len(MASKS)], p=[1.0 - MIXED, MIXED])]
    is_masked = rng.random() >= UNMASKED
    is_planted = rng.random() >= FORCED or not isinstance(layout, Layout)
    problems = []
    for _ in range(n):
        values = draw_values(layout.n, scale, kind, rng)
        if is_masked:
            masked = rng.random(layout.n) < rng.choice([0.1, 0.3, 0.6])
            masked[layout.n_unary :] &= rng.random() < 0.5
            if is_planted:
                masked[layout.plant(rng)] = False
            own = rng.choice(masks, layout.n)
            masked &= layout.may_forbid | (own > -np.inf)
            values[masked] = own[masked]
        problems.append(Problem(layout, values))
    name = "none" if not is_masked else f"{masks[0]:.3g}" if len(masks) == 1 else "mixed"
    return layout, problems, scale, kind, name


def draw_values(n, scale, kind, rng):
    if kind == "normal":
        return scale * rng.standard_normal(n)
    if kind == "integer":
        return scale * rng.integers(0, int(rng.integers(2, 5)), n)
    if kind == "signed":
        return scale * rng.integers(-2, 3, n)
    return np.full(n, 0.0 if rng.random() < 0.5 else scale)


class Tally:
    """Counts by category (structure, solver, scale, kind of scores, mask) and outcome, and all failures.

    Attributes
    ----------
    counts : dict of tuple -> Counter
    failures : list of (category, outcome, error, Problem)
    n_problems : Counter
        By structure.
    not_certified : int
        Problems that the reference could not solve; they are left out.
    worst : float
        The largest error of marginals that count as correct.
    """

    def __init__(self):
        self.counts, self.failures, self.n_problems = defaultdict(Counter), [], Counter()
        self.not_certified, self.worst = 0, 0.0

    def add(self, category, outcome):
        self.counts[category][outcome] += 1

    def fail(self, category, outcome, problem, error=np.inf):
        self.add(category, outcome)
        self.failures.append((category, outcome, error, problem))

    def total(self, outcome, solvers=None):
        """Return how often an outcome was counted, over some solvers."""
        return sum(c[outcome] for category, c in self.counts.items() if solvers is None or category[1] in solvers)


def error_of(found, expected):
    """Return the largest difference, relative to the largest expected value if that is above 1."""
    found = np.asarray(found, float).ravel()
    if not np.isfinite(found).all():
        return np.inf
    return np.abs(found - expected).max(initial=0.0) / max(1.0, np.abs(expected).max(initial=0.0))


def check_result(problem, result, rng, tally, category):
    """Compare a result with the exact solution; count it and its errors."""
    exact, u = problem.optimum, result.marginals.ravel()
    error = error_of(u, exact.marginals)
    if not result.converged:
        tally.fail(category, "unconverged", problem, error)
        return
    if error > TOLERANCE:
        tally.fail(category, "wrong", problem, error)
        return
    tally.worst = max(tally.worst, error)
    tally.add(category, "right")
    v = problem.layout.additional_of(result)
    here, slack = problem.objective(u, v), 1e-9 * problem.magnitude
    if not np.isfinite(slack):
        # Masks in all structures near the limits of float64, of which the objective is a sum.
        return
    if abs(here - result.objective) > slack or not exact.value <= result.objective + result.gap + slack:
        tally.fail(category, "gap", problem, exact.value - result.objective - result.gap)
    elif here > exact.value + slack + TOLERANCE * problem.magnitude:
        # Above the optimum: the additional marginals belong to no mixture.
        tally.fail(category, "additional", problem, here - exact.value)
    if rng.random() < SOME and isinstance(problem.layout, Layout):
        check_structures(problem, result, u, v, tally, category)
    if rng.random() < SOME and category[1] in EXACT:
        direction = rng.standard_normal(problem.layout.shape)
        check_derivative(problem, lambda: result.vjp(direction)["scores"], direction, tally, category)


def check_derivative(problem, product, direction, tally, category):
    """Check a product with the Jacobian, unless the solution is at a kink or near one."""
    if problem.optimum.projector is None:
        return
    error = error_of(product(), problem.optimum.projector @ direction.ravel())
    tally.add(category, "vjp checked")
    if error > TOLERANCE:
        tally.fail(category, "vjp", problem, error)


def check_structures(problem, result, u, v, tally, category):
    """Check that structures and weights are of the same solution as the marginals."""
    vertices = problem.layout.vertices
    rows = [vertices.index.get(listed(structure)) for structure in result.structures]
    tally.add(category, "structures checked")
    if None in rows:
        tally.fail(category, "structure", problem)
        return
    weights = result.weights
    error = max(
        abs(weights.sum() - 1.0),
        -weights.min(initial=0.0),
        error_of(weights @ vertices.unary[rows], u),
        error_of(weights @ vertices.additional[rows], v),
    )
    if error > TOLERANCE:
        tally.fail(category, "mixture", problem, error)


def check_solver(layout, problems, solver, rng, tally, categories):
    """Solve all problems in one call, or one by one if that raises, and check the results."""
    try:
        results = layout.solve([p.values for p in problems], solver)
    except Exception:
        results = []
        for p in problems:
            try:
                results += layout.solve([p.values], solver)
            except Exception as error:
                results.append(error)
    for p, result, category in zip(problems, results, categories, strict=True):
        if isinstance(result, Exception):
            tally.fail(category, f"raised {type(result).__name__}", p)
        else:
            check_result(p, result, rng, tally, category)


def check_layer(layout, problems, library, rng, tally, categories):
    """Hold marginals and gradients of the layer of a library against the exact solutions."""
    directions = rng.standard_normal((len(problems), *layout.shape))
    try:
        with warnings.catch_warnings():
            # One sample that does not converge sends all of them one by one.
            warnings.simplefilter("error", ConvergenceWarning)
            u, additional, gradients = layout.solve_layer([p.values for p in problems], library, directions)
    except Exception as error:
        if len(problems) > 1:
            for p, category in zip(problems, categories, strict=True):
                check_layer(layout, [p], library, rng, tally, [category])
        elif isinstance(error, ConvergenceWarning) or "ConvergenceWarning" in str(error):
            tally.fail(categories[0], "unconverged", problems[0])
        else:
            tally.fail(categories[0], f"raised {type(error).__name__}", problems[0])
        return
    for i, (p, category) in enumerate(zip(problems, categories, strict=True)):
        marginals = u[i].ravel()
        error = error_of(marginals, p.optimum.marginals)
        if error > TOLERANCE:
            tally.fail(category, "wrong", p, error)
            continue
        tally.add(category, "right")
        tally.worst = max(tally.worst, error)
        off = p.objective(marginals, additional[i]) - p.optimum.value
        if abs(off) > (1e-9 + TOLERANCE) * p.magnitude:
            tally.fail(category, "additional", p, off)
        if rng.random() < SOME:
            check_derivative(p, lambda i=i: gradients[i], directions[i], tally, category)


def check_refused(problem, tally, category):
    """Check that a problem all of whose structures are forbidden is refused."""
    try:
        problem.layout.solve([problem.values], "auto")
    except ValueError:
        tally.add(category, "right")
    else:
        tally.fail(category, "not refused", problem)


def run(n, structures, rng, *, solvers=None):
    """Solve random problems; return the tally.

    Parameters
    ----------
    n : int
        Number of problems. Each is solved by every solver that takes it.
    structures : sequence of str
        Keys of `LAYOUTS`.
    rng : numpy.random.Generator
    solvers : sequence of str, default=None
        Only these; ``"torch"`` and ``"jax"`` are the layers. By default all that are installed.
    """
    tally, shares = Tally(), np.array([SHARES[name] for name in structures])
    while n > 0:
        name = structures[rng.choice(len(structures), p=shares / shares.sum())]
        layout, problems, scale, kind, mask = draw_problems(name, rng, min(n, BATCH))
        n -= len(problems)
        tally.n_problems[name] += len(problems)
        for p in problems:
            if not p.optimum.is_feasible:
                check_refused(p, tally, (name, "auto", scale, kind, mask + " infeasible"))
        kept = [p for p in problems if p.optimum.is_feasible and p.optimum.is_certified]
        tally.not_certified += sum(p.optimum.is_feasible and not p.optimum.is_certified for p in problems)
        masks = [mask + " in all structures" * p.optimum.is_forced for p in kept]
        for solver in (*layout.solvers, *LAYERS):
            if kept and (solvers is None or solver in solvers):
                check = check_layer if solver in LAYERS else check_solver
                most = N_SLOW if solver in SLOW_HERE else len(kept)
                categories = [(name, solver, scale, kind, own) for own in masks[:most]]
                check(layout, kept[:most], solver, rng, tally, categories)
    return tally


MAIN = ("right", "wrong", "unconverged")
CHECKS = ("vjp checked", "structures checked")


def print_table(tally, axes, title):
    """Print the counts by some axes of the categories."""
    rows = defaultdict(Counter)
    for category, counts in tally.counts.items():
        rows[tuple(category[a] for a in axes)].update(counts)
    print(f"\n{title:>32}" + "".join(f"{name:>20}" for name in MAIN + CHECKS) + "   other outcomes")
    for key in sorted(rows, key=str):
        label = " ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in key)
        others = [f"{name} {count}" for name, count in sorted(rows[key].items()) if name not in MAIN + CHECKS]
        print(f"{label:>32}" + "".join(f"{rows[key][name]:>20}" for name in MAIN + CHECKS) + "   " + ", ".join(others))


def print_failures(tally, most):
    """Print up to `most` problems of each structure, solver and outcome, as code: the smallest ones."""
    seen = Counter()
    for category, outcome, error, problem in sorted(tally.failures, key=lambda failure: len(failure[3].values)):
        key = category[0], category[1], outcome
        seen[key] += 1
        if seen[key] <= most and (outcome != "unconverged" or category[1] not in SLOW):
            print(f"\n# {category}: {outcome}, {error:.2g}\n{problem.layout.snippet(problem.values, category[1])}")
            print(f"exact = np.array({problem.optimum.marginals.reshape(problem.layout.shape).tolist()!r})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000, help="number of problems")
    parser.add_argument("--structure", default="all", choices=("all", *LAYOUTS))
    parser.add_argument("--solver", help="only this solver, or the layers of torch or jax")
    parser.add_argument("--list-failures", type=int, nargs="?", const=3, default=0, help="print so many of each kind")
    parser.add_argument("--seed", type=int, default=0)
    args = results.parse(parser)
    warnings.simplefilter("ignore")
    start = time.process_time()
    tally = run(
        args.n,
        list(LAYOUTS) if args.structure == "all" else [args.structure],
        np.random.default_rng(args.seed),
        solvers=None if args.solver is None else (args.solver,),
    )
    print(", ".join(f"{name} {count}" for name, count in tally.n_problems.items()))
    print(f"{time.process_time() - start:.0f} CPU seconds; reference not certified: {tally.not_certified}", end="")
    print(f"; largest error of marginals that are right: {tally.worst:.1e}")
    print_table(tally, (0, 1), "structure, solver")
    print_table(tally, (2,), "scale")
    print_table(tally, (3,), "scores")
    print_table(tally, (4,), "mask")
    exact = (*EXACT, *LAYERS)
    for title, solvers in (("exact solvers and layers", exact), ("solvers that approach the solution", SLOW)):
        n = {outcome: tally.total(outcome, solvers) for outcome in MAIN}
        for outcome in MAIN:
            data = f"{sum(tally.n_problems.values()):,} random problems, {title}"
            results.record("exactness", data, f"{outcome} results", n[outcome], "results")
        print(f"\n{title}: {sum(n.values())} results, {n['wrong']} wrong, {n['unconverged']} unconverged", end="")
    print()
    print_failures(tally, args.list_failures)


if __name__ == "__main__":
    main()
