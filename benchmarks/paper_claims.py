"""Claims of the papers about cost and convergence that have no table of their own, each measured in seconds.

    python benchmarks/paper_claims.py
    python benchmarks/paper_claims.py --only backward

All scores are standard normal from fixed seeds. Times are CPU seconds of one thread, the least of some repeats.

- backward: LP-matchings by the papers' ADMM in NumPy with a fixed step of 0.5. Its backward pass is computed by
  unrolling (reverse mode through all iterations, on the supports stored on the way) and by Algorithm 2 of LP-SparseMAP
  (averaged projections on the last supports), both with the same projections; `lp_sparsemap` and its `vjp` for
  comparison. Algorithm 2 is also timed until its error is that of the unrolled gradient.
- step: iterations of ADMM to a residual of 1e-6 with fixed steps, and with the rule of the papers' code: every ten
  iterations the step is doubled if the primal residual is above 100 times the dual one, and halved if the dual residual
  is above 10 times the primal one.
- residual: distance of the marginals from the solution after 1 to 300 iterations of each solver of factor graphs.
- equivalent: one matching as a single factor and as a factor for each row and column, by ADMM stopped early: the
  largest difference of their marginals.
- convergence: duality gap of the active set and of three variants of conditional gradient, by calls of the oracle.
- support: time of a derivative by the number of selected structures.
- matching: time of an iteration of LP-matching, and of one call of the matching oracle, by the number of rows; of the
  oracle on random scores, and on scores -i j, which are hard for augmenting paths.
- dimension: the number of selected structures, compared with the dimension of the marginals plus one.
- parameters: the number of weights of the decomposable attention network that LP-SparseMAP describes.
- gravity: the number of groups that survive, by a constant strength of the group lasso and by a budget.
"""

import argparse
import warnings
from functools import partial
from time import process_time

import numpy as np
import results
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import GroupLassoPerceptron, lp_sparsemap, map_inference, sparsemap
from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph, StructureFactor, Xor
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching

STEP = 0.5


def least_time(function, repeats=5):
    """Return the least CPU milliseconds of some calls, after one that is not counted, and the last result."""
    result, times = function(), []
    for _ in range(repeats):
        started = process_time()
        result = function()
        times.append(process_time() - started)
    return 1e3 * min(times), result


def exponent(sizes, times):
    """Return the exponent of the power of the size that fits the times."""
    return np.polyfit(np.log(sizes), np.log(times), 1)[0]


def project_rows(scores):
    """Return the projection of each row onto the simplex."""
    ordered = -np.sort(-scores, axis=1)
    sums = np.cumsum(ordered, axis=1) - 1.0
    counts = np.arange(1, scores.shape[1] + 1)
    n_kept = (ordered * counts > sums).sum(axis=1)
    threshold = sums[np.arange(len(scores)), n_kept - 1] / n_kept
    return np.maximum(scores - threshold[:, None], 0.0)


def project_directions(directions, support):
    """Return the Jacobian products of `project_rows`: on each row's support, the directions minus their mean."""
    inside = directions * support
    return support * (inside - inside.sum(axis=1, keepdims=True) / support.sum(axis=1, keepdims=True))


def admm(scores, n_iter):
    """Run ADMM on a square LP-matching; return the marginals and the supports of rows and columns by iteration."""
    u, rows, columns, supports = np.zeros_like(scores), np.zeros_like(scores), np.zeros_like(scores), []
    for _ in range(n_iter):
        by_rows = project_rows((scores + rows + STEP * u) / (1 + STEP))
        by_columns = project_rows((scores + columns + STEP * u).T / (1 + STEP)).T
        supports.append((by_rows > 0.0, by_columns > 0.0))
        u = (by_rows + by_columns) / 2
        rows, columns = rows - STEP * (by_rows - u), columns - STEP * (by_columns - u)
    return u, supports


def unroll(v, supports):
    """Return the gradient of ``v @ u`` with respect to the scores, by reverse mode through all iterations."""
    gradient, of_u, of_rows, of_columns = np.zeros_like(v), v, np.zeros_like(v), np.zeros_like(v)
    for row_support, column_support in reversed(supports):
        of_u = of_u + STEP * (of_rows + of_columns)
        inner_rows = project_directions(of_u / 2 - STEP * of_rows, row_support) / (1 + STEP)
        inner_columns = project_directions((of_u / 2 - STEP * of_columns).T, column_support.T).T / (1 + STEP)
        gradient += inner_rows + inner_columns
        of_rows, of_columns = of_rows + inner_rows, of_columns + inner_columns
        of_u = STEP * (inner_rows + inner_columns)
    return gradient


def algorithm_2(v, supports, tol=1e-9, exact=None):
    """Return the same gradient at the solution, by averaged projections, and their number.

    With `exact` it stops once its error is at most `tol`.
    """
    row_support, column_support = supports[-1]
    change, n_iter = np.inf, 0
    while change >= tol and n_iter < 10_000:
        by_rows = project_directions(v, row_support)
        moved = (by_rows + project_directions(v.T, column_support.T).T) / 2
        change, v, n_iter = np.abs(moved - (v if exact is None else exact)).max(), moved, n_iter + 1
    return v, n_iter


def admm_with_steps(scores, step, adaptive, tol=1e-6, max_iter=10_000):
    """Run ADMM on a square LP-matching until both residuals are below `tol`; return their number and the marginals."""
    u, rows, columns = (np.zeros_like(scores) for _ in range(3))
    for n_iter in range(1, max_iter + 1):
        by_rows = project_rows((scores + rows + step * u) / (1 + step))
        by_columns = project_rows((scores + columns + step * u).T / (1 + step)).T
        before, u = u, (by_rows + by_columns) / 2
        rows, columns = rows - step * (by_rows - u), columns - step * (by_columns - u)
        primal = (np.mean((by_rows - u) ** 2 + (by_columns - u) ** 2) / 2) ** 0.5
        dual = np.mean((u - before) ** 2) ** 0.5
        if max(primal, dual) < tol:
            break
        if adaptive and n_iter % 10 == 0:
            if primal > 100.0 * dual:
                step = min(2.0 * step, 100.0)
            elif dual > 10.0 * primal:
                step = max(step / 2.0, 1e-3)
    return n_iter, u


def lp_matching(n):
    graph = FactorGraph()
    u = graph.variables((n, n))
    graph.add(*[Xor(row) for row in u], *[Xor(column) for column in u.T])
    return graph


def solve_and_differentiate(graph, scores, v):
    return lp_sparsemap(graph, scores).vjp(v)["scores"]


def backward():
    print("rows  iterations  ADMM ms  unrolled ms  Algorithm 2 ms (steps)  supports kB  library ms  its vjp ms  errors")
    for n, n_iter in ((10, 100), (10, 1000), (20, 100), (20, 1000), (40, 1000)):
        rng = np.random.default_rng(0)
        scores, v, graph = rng.normal(size=(n, n)), rng.normal(size=(n, n)), lp_matching(n)
        forward, (_, supports) = least_time(partial(admm, scores, n_iter), 2)
        unrolled, by_unrolling = least_time(partial(unroll, v, supports), 2)
        projected, (by_projections, steps) = least_time(partial(algorithm_2, v, supports), 2)
        own, _ = least_time(partial(lp_sparsemap, graph, scores))
        both, exact = least_time(partial(solve_and_differentiate, graph, scores, v))
        results.record("backward passes", f"LP-matching of {n} rows, {n_iter:,} iterations", "CPU time of Algorithm 2",
                       projected, "ms", "unrolled ADMM", unrolled)  # fmt: skip
        error = max(np.abs(by_unrolling - exact).max(), 1e-9)
        alike, (_, few) = least_time(partial(algorithm_2, v, supports, error, exact), 2)
        errors = [np.abs(other - exact).max() for other in (by_unrolling, by_projections)]
        print(
            f"{n:4} {n_iter:11} {forward:8.2f} {unrolled:12.2f} {projected:16.2f} ({steps:4}) "
            f"{n_iter * 2 * n * n / 1e3:12.0f} {own:11.3f} {both - own:11.3f}  "
            f"{errors[0]:.0e} (unrolled), {errors[1]:.0e} (Algorithm 2); {alike:.2f} ms ({few}) to that of unrolled"
        )


def step():
    rng = np.random.default_rng(0)
    starts = 0.01, 0.1, 0.5, 1.0, 10.0
    print("first step" + "".join(f"{start:>18g}" for start in starts))
    for n in (10, 20):
        scores = rng.normal(size=(n, n))
        exact = lp_sparsemap(lp_matching(n), scores, tol=1e-11).marginals
        for adaptive in (False, True):
            found = [admm_with_steps(scores, start, adaptive) for start in starts]
            cells = [f"{n_iter:6} (err {np.abs(u - exact).max():.0e})" for n_iter, u in found]
            print(f"{n} rows, {'adaptive' if adaptive else 'fixed':9}" + " ".join(cells), flush=True)


def graphs():
    """Yield names, graphs, scores and additional scores."""
    rng = np.random.default_rng(0)
    yield "matching 10 x 10", lp_matching(10), rng.normal(size=(10, 10)), None
    graph = FactorGraph()
    u = graph.variables((16, 15))
    graph.add(StructureFactor(DependencyTree(), u))
    graph.add(*[Budget(u[h, [m for m in range(15) if m != h - 1]], 2) for h in range(1, 16)])
    yield "tree + budgets of 2, 15 words", graph, rng.normal(size=(16, 15)), None
    graph = FactorGraph()
    u = graph.variables((10, 15))
    graph.add(StructureFactor(LinearChain(), u, name="chain"), *[AtMostOne(column) for column in u.T])
    transitions = rng.normal(size=(9, 15, 15))
    yield "LP-sequence 10 x 15", graph, rng.normal(size=(10, 15)), {"chain": {"transitions": transitions}}


def residual():
    limits = 1, 3, 10, 30, 100, 300
    print(f"{'graph':30} {'solver':8}" + "".join(f"{k:>10}" for k in limits))
    for name, graph, scores, additional in graphs():
        exact = lp_sparsemap(graph, scores, additional=additional, tol=1e-11, max_iter=20_000).marginals
        for solver in ("admm", "block", "newton"):
            found = [
                lp_sparsemap(graph, scores, additional=additional, solver=solver, tol=1e-11, max_iter=k).marginals
                for k in limits
            ]
            print(f"{name:30} {solver:8}" + "".join(f"{np.abs(u - exact).max():10.1e}" for u in found), flush=True)


def equivalent():
    scores = 3 * np.random.default_rng(0).normal(size=(10, 10))
    coarse, fine = FactorGraph(), lp_matching(10)
    coarse.add(StructureFactor(Matching(), coarse.variables((10, 10))))
    print("iterations  largest difference of the marginals")
    for k in (1, 5, 10, 30, 100, 1000):
        a, b = (lp_sparsemap(graph, scores, solver="admm", tol=1e-9, max_iter=k).marginals for graph in (coarse, fine))
        print(f"{k:10}  {np.abs(a - b).max():.1e}")


def convergence():
    limits = 3, 10, 30, 100, 300, 1000, 3000
    scores = np.random.default_rng(0).normal(size=(21, 20))
    print(f"{'gap, tree of 20 words':24}" + "".join(f"{k:>10}" for k in limits))
    for solver in ("active_set", "pairwise", "away_step", "cg"):
        found = [sparsemap(DependencyTree(), scores, solver=solver, tol=1e-13, max_iter=k).gap for k in limits]
        print(f"{solver:24}" + "".join(f"{max(gap, 0.0):10.1e}" for gap in found), flush=True)


def support():
    scores = np.random.default_rng(0).normal(size=(31, 30))
    v = np.random.default_rng(1).normal(size=(31, 30))
    print("scale  selected trees   derivative us")
    sizes, times = [], []
    for scale in (8.0, 4.0, 2.0, 1.0, 0.5):
        result = sparsemap(DependencyTree(), scale * scores, solver="active_set")
        milliseconds, _ = least_time(partial(result.vjp, v), 100)
        sizes.append(len(result.weights))
        times.append(1e3 * milliseconds)
        print(f"{scale:5g} {sizes[-1]:15} {times[-1]:15.1f}")
    print(f"exponent {exponent(sizes, times):.2f}")


def matching():
    sizes, by_graph, by_oracle, hard = (20, 40, 80, 160), [], [], []
    print("rows  an iteration of LP-matching us   a call of the matching oracle us   on scores -i j")
    for n in sizes:
        scores, graph = np.random.default_rng(0).normal(size=(n, n)), lp_matching(n)
        solve = partial(lp_sparsemap, graph, scores, solver="admm")
        few, more = (least_time(partial(solve, max_iter=k), 3)[0] for k in (10, 40))
        by_graph.append(1e3 * (more - few) / 30)
        batch = list(np.random.default_rng(0).normal(size=(20, n, n)))
        by_oracle.append(1e3 * least_time(partial(map_inference, Matching(), batch))[0] / len(batch))
        places = np.arange(1.0, n + 1)
        hard.append(1e3 * least_time(partial(map_inference, Matching(), [-np.outer(places, places)] * 5), 3)[0] / 5)
        print(f"{n:4} {by_graph[-1]:31.1f} {by_oracle[-1]:32.1f} {hard[-1]:16.1f}")
    measured = {"an iteration of LP-matching": by_graph, "a call of the matching oracle": by_oracle,
                "a call of the matching oracle on scores -i j": hard}  # fmt: skip
    for measure, values in measured.items():
        results.record("growth with rows", "20 to 160 rows", f"exponent, {measure}", exponent(sizes, values), "")
    print("exponents " + ", ".join(f"{exponent(sizes, values):.2f}" for values in measured.values()))


def dimension():
    print("scale  most trees selected of 20 problems (10 words)   dimension of the marginals plus one")
    rng = np.random.default_rng(0)
    for scale in (3.0, 1.0, 0.3, 0.1):
        found = sparsemap(DependencyTree(), list(scale * rng.normal(size=(20, 11, 10))), solver="active_set")
        # Arcs from a word to itself do not exist, and each word has one head.
        print(f"{scale:5g} {max(len(result.weights) for result in found):45} {10 * 10 - 10 + 1:36}")


def parameters():
    # Inputs and outputs of each layer: two read a word, two compare it with its context, two classify.
    layers = (300, 100), (100, 100), (600, 100), (100, 100), (200, 100), (100, 3)
    n_weights = sum(n_in * n_out + n_out for n_in, n_out in layers)
    results.record("decomposable attention", "weights of the layers", "number", n_weights, "weights")
    print(f"{sum(n_in * n_out + n_out for n_in, n_out in layers):,} weights without embeddings")


def gravity():
    rng = np.random.default_rng(0)
    group_of = np.repeat(np.arange(30), 4)
    X = rng.normal(size=(2000, 120))
    coef = rng.normal(size=24)
    y = (X[:, :24] @ coef + rng.normal(size=2000) > 0).astype(int)
    options = {"groups": group_of, "debias": None, "max_iter": 5, "random_state": 0, "shrink_every": 200}
    for name, values in (("alpha", [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0]), ("budget", [2, 4, 6, 8, 12, 20, 30])):
        counts = [len(GroupLassoPerceptron(**{name: value}, **options).fit(X, y).selected_groups_) for value in values]
        print(f"{name:7}" + "".join(f"{value:>8g}" for value in values))
        print("groups " + "".join(f"{count:8}" for count in counts), flush=True)


CLAIMS = {
    claim.__name__: claim
    for claim in (backward, step, residual, equivalent, convergence, support, matching, dimension, parameters, gravity)
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CLAIMS, default=list(CLAIMS))
    arguments = results.parse(parser)
    # Some runs end early on purpose.
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="no group of features has survived")
    for name in arguments.only:
        print(f"\n{name}", flush=True)
        CLAIMS[name]()


if __name__ == "__main__":
    main()
