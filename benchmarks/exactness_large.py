"""How exact is SparseMAP? Thousands of problems over 22 families of scores, each held against three things.

    python benchmarks/exactness_large.py [--problems 2000] [--structure tree]

- the duality gap of ``solver="auto"``, which one call of the MAP oracle certifies;
- the marginals of the active set, where that converges within 1,000 calls;
- ``vjp`` in a random direction: differences of the marginals, where those of two steps to both sides agree; elsewhere,
  at ties, there is a kink within reach, and the product is held against the active set's.

Gaps and differences are relative to the largest score, where that is above 1. Sizes are 1 to 60.
"""

import argparse
import warnings
from collections import Counter

import numpy as np
import results

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Subset

SIZES = (1, 2, 3, 5, 8, 13, 20, 40, 60)
# Fraction of the problems of each size: large ones are slow to check.
SHARES = np.array([0.06, 0.1, 0.12, 0.16, 0.18, 0.16, 0.12, 0.07, 0.03])
MAX_CALLS = 1000


def biaffine(rng, shape, rank=8):
    left, right = rng.standard_normal((shape[0], rank)), rng.standard_normal((rank, shape[-1]))
    return left @ right / np.sqrt(rank) if len(shape) == 2 else right[0]


def distances(rng, shape):
    grid = np.indices(shape)
    return -np.abs(grid[0] - grid[-1] - 1.0) + 0.1 * rng.standard_normal(shape)


def symmetric(rng, shape):
    scores = rng.standard_normal(shape)
    n = min(shape)
    if len(shape) == 2:
        scores[-n:, -n:] += scores[-n:, -n:].T.copy()
    return scores


def pruned(rng, shape):
    scores = rng.standard_normal(shape)
    scores[rng.random(shape) < 0.3] = -np.inf
    return scores


def dear_root(rng, shape):
    scores = 0.3 * rng.standard_normal(shape)
    scores[0] -= 1.0
    return scores


def near_ties(rng, shape, size):
    return rng.integers(0, 3, shape) + size * rng.standard_normal(shape)


FAMILIES = {
    **{
        f"normal {s:g}": lambda rng, shape, s=s: s * rng.standard_normal(shape)
        for s in (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4)
    },
    "biaffine": biaffine,
    "biaffine 0.1": lambda rng, shape: 0.1 * biaffine(rng, shape),
    "distances": distances,
    "exact distances": lambda rng, shape: np.round(distances(rng, shape)),
    "symmetric": symmetric,
    "integers": lambda rng, shape: rng.integers(0, 4, shape).astype(float),
    "zeros": lambda rng, shape: np.zeros(shape),
    "pruned": pruned,
    "pruned 0.1": lambda rng, shape: 0.1 * pruned(rng, shape),
    "dear root": dear_root,
    "near ties 1e-3": lambda rng, shape: near_ties(rng, shape, 1e-3),
    "near ties 1e-5": lambda rng, shape: near_ties(rng, shape, 1e-5),
}


def draw(kind, family, rng):
    """Draw a structure and its scores, as keyword arguments of `sparsemap`."""
    n = int(rng.choice(SIZES, p=SHARES))
    make = FAMILIES[family]
    if kind == "tree":
        return {"structure": DependencyTree(single_root=bool(rng.random() < 0.5)), "scores": make(rng, (n + 1, n))}
    if kind == "matching":
        return {"structure": Matching(), "scores": make(rng, (n, max(1, int(n * rng.choice([0.6, 1.0, 1.0, 1.5])))))}
    if kind == "subset":
        low = int(rng.integers(0, n + 1))
        most = int(rng.integers(low, n + 1)) if rng.random() < 0.7 else None
        return {"structure": Subset(low, most), "scores": make(rng, (n,))}
    m = int(rng.integers(1, 11))
    tables = make(rng, (m * max(1, n - 1) if rng.random() < 0.3 else m, m))
    problem = {"structure": LinearChain(), "scores": make(rng, (n, m)), "transitions": tables}
    if len(tables) > m or n == 1:
        problem["transitions"] = tables[: m * max(0, n - 1)].reshape(-1, m, m) if n > 1 else tables[:m]
    if rng.random() < 0.5:
        problem["start"], problem["end"] = make(rng, (m,)), make(rng, (m,))
    return problem


def check_derivative(problem, result, exact, rng, counts):
    """Compare `vjp` with differences, at kinks with the active set's; return how far it is from either."""
    scores = problem["scores"]
    direction, v = rng.standard_normal(scores.shape), rng.standard_normal(scores.shape)
    direction[~np.isfinite(scores)] = 0.0
    size = max(1.0, np.abs(scores[np.isfinite(scores)]).max(initial=0.0))
    slopes = []
    for h in (1e-5 * size, 1e-6 * size):
        for step in (h, -h):
            there = sparsemap(**{**problem, "scores": scores + step * direction}).marginals
            slopes.append(np.vdot(v, there - result.marginals) / step)
    given = result.vjp(v)["scores"]
    slope = np.vdot(np.where(np.isfinite(scores), given, 0.0), direction)
    if np.ptp(slopes) <= 1e-5 * (1.0 + abs(slopes[0])):
        counts["derivatives"] += 1
        return abs(slope - slopes[0]) / (1.0 + abs(slopes[0])), 0.0
    counts["kinks"] += 1
    if exact is None:
        return 0.0, 0.0
    counts["compared kinks"] += 1
    return 0.0, np.abs(given - exact.vjp(v)["scores"]).max()


MEASURES = ("gap", "difference to the active set", "error of vjp", "difference of vjp to the active set's at kinks")


def compare_with_conic(kinds, n_problems):
    """Print how far marginals are from those of the conic solver, by structure, where the problem is small enough."""
    from conic import project

    for kind in kinds:
        rng, away, counts = np.random.default_rng(0), [], Counter()
        for family in FAMILIES:
            for _ in range(-(-n_problems // len(FAMILIES))):
                problem = draw(kind, family, rng)
                try:
                    result = sparsemap(**problem)
                except ValueError:
                    continue
                expected = project(**problem)
                if expected is None:
                    counts["too large, or not solved by it"] += 1
                    continue
                size = max(1.0, np.abs(problem["scores"][np.isfinite(problem["scores"])]).max(initial=0.0))
                away.append(np.abs(expected - result.marginals).max() / size)
        data = f"{kind}, {len(away):,} problems"
        results.record("exactness", data, "largest difference to clarabel", max(away), "", package="clarabel")
        print(
            f"{kind}: {len(away)} compared, largest difference {max(away):.1e}, median {np.median(away):.1e}, "
            f"{sum(a > 1e-6 for a in away)} beyond 1e-6; {dict(counts)}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=2000, help="for each structure")
    parser.add_argument("--structure", choices=("tree", "matching", "subset", "chain"), help="only this one")
    parser.add_argument("--conic", action="store_true", help="against the conic solver clarabel only; see conic.py")
    args = results.parse(parser)
    warnings.simplefilter("ignore")
    kinds = (args.structure,) if args.structure else ("tree", "matching", "subset", "chain")
    if args.conic:
        compare_with_conic(kinds, args.problems)
        return
    print(f"{'':>10}{'family':>17}{'problems':>10}{'infeasible':>11}{'not ended':>10}{'largest gap':>13}", end="")
    print(f"{'to active set':>15}{'(compared)':>11}{'vjp':>10}{'(compared)':>11}{'at kinks':>10}", end="")
    print(f"{'(compared)':>11}{'steps':>7}")
    for kind in kinds:
        rng, worst = np.random.default_rng(0), np.zeros(4)
        for family in FAMILIES:
            counts, gap, away, slopes, most = Counter(), 0.0, 0.0, (0.0, 0.0), 0
            for _ in range(-(-args.problems // len(FAMILIES))):
                problem = draw(kind, family, rng)
                counts["problems"] += 1
                try:
                    result = sparsemap(**problem)
                except ValueError:
                    counts["infeasible"] += 1
                    continue
                finite = problem["scores"][np.isfinite(problem["scores"])]
                size = max(1.0, np.abs(finite).max(initial=0.0))
                gap, most = max(gap, result.gap / size), max(most, result.n_iter)
                counts["not ended"] += not result.converged
                exact = sparsemap(solver="active_set", max_iter=MAX_CALLS, **problem)
                if exact.gap <= 1e-12 * size:
                    counts["compared"] += 1
                    away = max(away, np.abs(exact.marginals - result.marginals).max() / size)
                else:
                    exact = None
                slopes = np.maximum(slopes, check_derivative(problem, result, exact, rng, counts))
            worst = np.maximum(worst, [gap, away, *slopes])
            print(
                f"{kind:>10}{family:>17}{counts['problems']:>10}{counts['infeasible']:>11}{counts['not ended']:>10}"
                f"{gap:>13.1e}{away:>15.1e}{counts['compared']:>11}{slopes[0]:>10.1e}{counts['derivatives']:>11}"
                f"{slopes[1]:>10.1e}{counts['compared kinks']:>11}{most:>7}",
                flush=True,
            )
        for measure, value in zip(MEASURES, worst):
            results.record("exactness", f"{kind}, {args.problems:,} problems", f"largest {measure}", value, "")


if __name__ == "__main__":
    main()
