"""
Five solvers on one problem
===========================

SparseMAP is a quadratic program over the convex hull of all structures. The active set method reaches its exact
solution after finitely many steps. Conditional gradient and its away-step and pairwise variants converge to it. This
is Figure 2 of the SparseMAP paper: dependency trees over 20 words with random scores. Each iteration of these four
solvers calls the MAP oracle once. The fifth solver is not in the paper: it applies Newton's method to the facets of
the polytope, and an iteration is one Newton step.

With scores a tenth as large, the solution has many more structures. Solvers that add structures one by one then need
many more iterations, and facets need fewer.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.plotting import ConvergenceDisplay
from sklearn_sparsemap.structures import DependencyTree

# %%
# One sentence of 20 words, and a score for each arc
# --------------------------------------------------
# There are 21^19 trees: a word has one of 20 others, or the root, as its head.

N_WORDS, MAX_ITER = 20, 3000
SOLVERS = ("active_set", "pairwise", "away_step", "cg", "facets")
tree = DependencyTree()
scores = np.random.default_rng(0).normal(size=(N_WORDS + 1, N_WORDS))

for solver in SOLVERS:
    sparsemap(tree, scores[:3, :2], solver=solver)

# %%
# Follow the solvers
# ------------------
# The problem is solved again and again, each time with more iterations allowed. The intermediate results of the facets
# are no mixtures of structures, so there is one point for them, the solution.

GRID = np.unique(np.geomspace(2, MAX_ITER, 150).astype(int)).tolist()


def solve(problem, solver):
    """Solve a problem with increasing limits of iterations, until convergence."""
    results = []
    for k in GRID if solver != "facets" else [MAX_ITER]:
        result = sparsemap(tree, problem, solver=solver, tol=1e-12, max_iter=k)
        results.append(result)
        if result.n_iter < k:
            break
    return results


figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.6), layout="constrained")


def trace(scale, axes):
    """Draw and print how each solver gets on with the scores times `scale`."""
    problem = scale * scores
    results = {solver: solve(problem, solver) for solver in SOLVERS}
    display = ConvergenceDisplay.from_result(results, ax=axes)
    print(
        f"\n{f'scores of scale {scale}':22}"
        f"{'iterations until the distance to the optimum is below':>54}",
        end="",
    )
    print(
        f"{'structures':>14}{'one run':>14}\n{'':22}{'1e-3':>18}{'1e-6':>18}"
        f"{'1e-9':>18}",
        end="",
    )
    print(f"{'in the end':>14}{'in ms':>14}")
    for solver in SOLVERS:
        curve, distance = display.curves[solver], display.distance(solver)
        iterations = ""
        for bound in (1e-3, 1e-6, 1e-9):
            below = distance < bound
            first = curve["n_iter"][np.argmax(below)]
            iterations += f"{int(first) if below.any() else f'> {MAX_ITER}':>18}"
        start = perf_counter()
        sparsemap(tree, problem, solver=solver, max_iter=MAX_ITER)
        elapsed = 1e3 * (perf_counter() - start)
        print(
            f"{solver:22}{iterations}{int(curve['n_structures'][-1]):>14}"
            f"{elapsed:14.2f}",
            flush=True,
        )
    axes[0].set_title(f"scores of scale {scale}", loc="left", fontsize=11)
    return display


for scale, row in zip((1.0, 0.1), axes):
    display = trace(scale, row)
    # One legend is enough.
    if scale < 1.0:
        display.legend_.remove()

# %%
# The picture
# -----------
# A line ends where its solver has found the optimum, up to rounding, or given up.

figure.suptitle(
    f"Trees over {N_WORDS} words: five solvers of one SparseMAP problem", fontsize=12
)
plt.show()
