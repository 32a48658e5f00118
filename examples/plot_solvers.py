"""
Four solvers on one problem
===========================

SparseMAP is a quadratic program over the convex hull of all structures. The active set solver ends at its exact
solution after finitely many steps. Conditional gradient, with its away-step and pairwise variants, approaches it, and
picks up structures on the way. This is Figure 2 of the SparseMAP paper: dependency trees over 20 words with random
scores. Each iteration of any solver asks once for the best tree.

The path of the picture may be given on the command line; otherwise it is saved beside this script.
"""

import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.plotting import ConvergenceDisplay
from sklearn_sparsemap.structures import DependencyTree

# %%
# One sentence of 20 words, and a score for each arc
# --------------------------------------------------
# There are 21^19 trees: a word has one of 20 others, or the root, as its head.

N_WORDS, MAX_ITER = 20, 3000
SOLVERS = ("active_set", "pairwise", "away_step", "cg")
tree = DependencyTree()
scores = np.random.default_rng(0).normal(size=(N_WORDS + 1, N_WORDS))

print("Loading the kernels; the very first run compiles them, which takes half a minute ...", flush=True)
for solver in SOLVERS:
    sparsemap(tree, scores[:3, :2], solver=solver)

# %%
# Follow the solvers
# ------------------
# `ConvergenceDisplay.from_problem` solves the problem again and again, each time with more iterations allowed.

start = perf_counter()
display = ConvergenceDisplay.from_problem(tree, scores, solvers=SOLVERS, max_iter=MAX_ITER, n_points=250)
print(f"Traced in {perf_counter() - start:.1f} s.\n")

print(f"{'':12}{'iterations until the distance to the optimum is below':>54}{'structures':>24}{'one run':>14}")
print(f"{'':12}{'1e-3':>18}{'1e-6':>18}{'1e-9':>18}{'at 1e-6':>12}{'in the end':>12}{'in ms':>14}")
for solver in SOLVERS:
    curve, distance = display.curves[solver], display.distance(solver)

    def first_below(bound, curve=curve, distance=distance):
        """Return the first place on the curve at which the distance is below a bound, or None."""
        return int(np.argmax(distance < bound)) if (distance < bound).any() else None

    reached = [first_below(bound) for bound in (1e-3, 1e-6, 1e-9)]
    iterations = "".join(f"{f'> {MAX_ITER}' if at is None else int(curve['n_iter'][at]):>18}" for at in reached)
    held = "" if reached[1] is None else int(curve["n_structures"][reached[1]])
    start = perf_counter()
    sparsemap(tree, scores, solver=solver, max_iter=MAX_ITER)
    elapsed = 1e3 * (perf_counter() - start)
    print(f"{solver:12}{iterations}{held:>12}{int(curve['n_structures'][-1]):>12}{elapsed:14.2f}")

# %%
# The picture
# -----------
# A line ends where its solver has found the optimum, up to rounding, or given up.

picture = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sys.argv[0]).with_name("solvers.png")
display.figure_.suptitle(f"Trees over {N_WORDS} words: four solvers of one SparseMAP problem", fontsize=12)
display.figure_.savefig(picture, dpi=130)
print(f"\nPicture: {picture}")
