"""SparseMAP over non-projective trees by cuts: every set of words is entered by at least one arc.

Each word has one head, so its arcs are a point of the simplex. The weight that enters a set S is ``|S|`` minus the
weight of the arcs inside, so the cut of S is ``inside(S) <= |S| - 1``. A single root is the same as equality for the
set of all words. Few cuts bind; violated cuts are added as they are found.

If arcs have labels, the entries of a word's row are all pairs of a head and a label, and cuts see the sums over labels.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel
from ..._numerics.certificate import certify_rows, is_in_polytope
from ..._numerics.competence import ALL, AT_ONCE, as_competence
from ..._numerics.facets import BINDING, HIDES_TIES, MAX_STEPS, is_feasible
from ..._numerics.newton import evaluate, has_flat_dual, maximise_dual, new_cuts, new_rows
from ..._numerics.polytope_solver import PolytopeSolver
from ..._numerics.rows import has_ties, lower_rows, read_rows, write_rows
from ..._numerics.solver import BY_FACETS, GAVE_UP, INFEASIBLE, as_solver
from ..._numerics.sparsemax import sparsemax, supports_reach
from ..._numerics.tight_face import as_equations, face_products
from .separation import minimum_cuts
from .sets import add_set, find_set, have_crossing, read_set
from .ties import decide_kink

_MAX_ROUNDS = 200
_FEW_PARTS = 20  # `PolytopeSolver.few_parts`; up to four words, cuts save too little to be worth compiling


@kernel
def _steps_of(rows):
    """Return the layout of the parts; see `_numerics.rows`."""
    n = rows.u.shape[0]
    n_labels = rows.u.shape[1] // (n + 1)
    return n_labels, n * n_labels, n_labels


@kernel
def fill_rows(rows, scores, n):
    """Copy the scores of arcs, one row for each word, without arcs from a word to itself.

    Return the largest difference, and whether any arc is forbidden.
    """
    n_columns = rows.u.shape[1]
    read_rows(rows, scores, _steps_of(rows))
    for m in range(n):
        for column in range(m + 1, n_columns, n + 1):
            rows.scores[m, column] = -np.inf
    size, n_forbidden = lower_rows(rows)
    return size, n_forbidden > n * (n_columns // (n + 1))


@kernel
def _add_labels(rows, arcs):
    """Write the weight of each arc, summed over its labels."""
    n_nodes = arcs.shape[1]
    for m in range(arcs.shape[0]):
        for h in range(n_nodes):
            total = 0.0
            for column in range(h, rows.u.shape[1], n_nodes):
                total += rows.u[m, column]
            arcs[m, h] = total


@kernel
def _forget(cuts, k, since):
    """Drop the cuts that do not bind, except the first and those added `since`; return the number of cuts."""
    kept = 1
    for c in range(1, k):
        if cuts.multiplier[c] > 0.0 or cuts.slope[c] > 0.0 or c >= since:
            cuts.multiplier[kept], cuts.bound[kept] = cuts.multiplier[c], cuts.bound[c]
            for v in range(cuts.member.shape[1]):
                cuts.member[kept, v] = cuts.member[c, v]
            for w in range(cuts.bits.shape[1]):
                cuts.bits[kept, w] = cuts.bits[c, w]
            kept += 1
    return kept


@kernel
def cut_trees(rows, cuts, k, single_root, size, limit):
    """Solve subject to the `k` known cuts and add violated ones, until none is violated.

    Parameters
    ----------
    rows : Rows
    cuts : Cuts
        Gets the violated cuts.
    k : int
        Number of known cuts.
    single_root : bool
        Whether the first cut is an equation.
    size : float
        Magnitude of the scores.
    limit : int
        Maximum number of Newton steps.

    Returns
    -------
    k : int
        The number of cuts; -1 if `limit` Newton steps, or the capacity for cuts, do not suffice.
    steps : int
        The number of Newton steps.
    """
    n = rows.u.shape[0]
    sets = np.empty((n + 1, n + 1), np.bool_)
    arcs = np.empty((n, n + 1))
    capacity = cuts.bound.shape[0]
    steps = maximise_dual(rows, cuts, k, np.int64(single_root), size, limit)
    if n == 1:
        return k, steps
    for _ in range(_MAX_ROUNDS):
        if steps >= limit:
            return -1, steps
        since = k
        _add_labels(rows, arcs)
        found, violated = minimum_cuts(arcs, sets)
        for f in range(found):
            k = add_set(cuts, k, sets[f])
        if violated == 0:
            # Tight cuts were added, too; `has_flat_dual` needs them to decide whether the multipliers are unique.
            evaluate(rows, cuts, k, cuts.multiplier, cuts.slope)
            return k, steps
        if k > capacity - 2 * (n + 1):
            k = _forget(cuts, k, since)
            if k > capacity - 2 * (n + 1):
                return -1, steps
        steps += maximise_dual(rows, cuts, k, np.int64(single_root), size, limit - steps)
    return -1, steps


@kernel
def start_cuts(n, n_labels):
    """Allocate the cuts of `n` words, with the cut of all words, which nearly always binds."""
    cuts = new_cuts(4 * n + 40, n_labels * (n + 1), True)
    nodes = np.empty(n + 1, np.bool_)
    for v in range(n + 1):
        nodes[v] = v > 0
    return cuts, add_set(cuts, np.int64(0), nodes)


@kernel
def _warm_cuts(cuts, k, slots, weights):
    """Warm start with the sets and multipliers of an earlier solution; return the number of cuts."""
    nodes = np.empty(slots.shape[1] + 1, np.bool_)
    for s in range(min(slots.shape[0], cuts.bound.shape[0] - k - 1)):
        read_set(slots[s], nodes)
        place, k = find_set(cuts, k, nodes)
        if place >= 0:
            cuts.multiplier[place] = weights[s]
    return k


@as_solver
def tree_facets(
    oracle, scores, additional, dims, sizes, aim, tol, limit, warm_slots, warm_additional, warm_weights, marginals
):
    """Solve one problem exactly; see `_numerics.facets`."""
    n = dims[0]
    single_root = dims[2] != 0
    n_labels = dims[3] if dims.shape[0] > 3 else 1
    rows = new_rows(n, n_labels * (n + 1))
    steps = _steps_of(rows)
    size, forbidden = fill_rows(rows, scores, n)
    no_parts = np.empty((0, 0), np.int32)
    if forbidden and not is_feasible(oracle, scores, additional, dims, sizes):
        return no_parts, no_parts, np.empty(0), INFEASIBLE, 0.0, 0.0, 1
    cuts, k = start_cuts(n, n_labels)
    if warm_weights.shape[0] == warm_slots.shape[0] + 1:
        k = _warm_cuts(cuts, k, warm_slots, warm_weights)
    objective, gap, floor = 0.0, np.inf, 0.0
    n_free = np.int64(single_root)
    k, n_iter = cut_trees(rows, cuts, k, single_root, size, min(MAX_STEPS, limit[0]))
    if k >= 0:
        write_rows(rows, steps, marginals)
        if is_in_polytope(rows, cuts, k, n_free):
            objective, gap, floor = certify_rows(scores, marginals, rows, cuts, k)
    if not gap <= max(tol, 4.0 * floor):
        return no_parts, no_parts, np.empty(0), GAVE_UP, objective, gap, n_iter
    tied = False
    needed = np.zeros(k, np.bool_)
    if has_ties(rows) or have_crossing(cuts, k) or has_flat_dual(rows, cuts, k, n_free):
        tied, k, needed = decide_kink(oracle, additional, dims, sizes, rows, cuts, k, n_free, steps, size)
        if not tied:
            write_rows(rows, steps, marginals)
    kept = 0
    for c in range(k):
        needed[c] |= c < n_free or cuts.multiplier[c] > BINDING
        kept += needed[c]
    sets = np.empty((kept, n), np.int32)
    weights = np.empty(kept + 1)
    weights[kept] = tied or size > HIDES_TIES
    kept = 0
    for c in range(k):
        if needed[c]:
            weights[kept] = cuts.multiplier[c]
            place = 0
            for v in range(1, n + 1):
                sets[kept, v - 1] = -1
                if cuts.member[c, v] != 0.0:
                    sets[kept, place] = v
                    place += 1
            kept += 1
    return sets, no_parts, weights, BY_FACETS, objective, gap, n_iter


@as_equations
def tree_equations(dims, z, p, slots, weights):
    """Return the equations of a face: heads of each word, and tight cuts; see `_numerics.tight_face`."""
    n = dims[0]
    n_sets = slots.shape[0] // dims[0]
    block = np.empty(p.shape[0], np.int32)
    most = 0
    n_labels = dims[3] if dims.shape[0] > 3 else 1
    for i in range(p.shape[0]):
        block[i] = i // n_labels % n if p[i] > 0.0 else -1
    sizes = np.zeros(n_sets, np.int64)
    for s in range(n_sets):
        while sizes[s] < n and slots[s * n + sizes[s]] > 0:
            sizes[s] += 1
        most += sizes[s] ** 2 * n_labels
    ends = np.zeros(n_sets + 1, np.int32)
    parts = np.empty(most, np.int32)
    k = np.int64(0)
    used = 0
    for s in range(n_sets):
        words = slots[s * n : s * n + sizes[s]]
        for h in words:
            for m in words:
                first = (h * n + m - 1) * n_labels
                for i in range(first, first + n_labels):
                    if p[i] > 0.0:
                        parts[used] = i
                        used += 1
        if used > ends[k]:
            k += 1
            ends[k] = used
    return block, n, ends[: k + 1].copy(), parts, weights[weights.shape[0] - 1] != 0.0


@kernel
def _enough(n):
    """Return the total size of the words' sparsemax supports from which on cuts are expected to be faster.

    The constants were fitted to timings with 5 to 100 words.
    """
    return min(1.75 * n + 10.0, 3.0 * n - 2.0)


@as_competence
def prefers_cuts(scores, additional, dims, marginals, gap, n_calls):
    """Return the competence of cuts: `AT_ONCE` or `ALL`, because it depends on the scores alone."""
    n = dims[0]
    return AT_ONCE if supports_reach(scores, n + 1, n, _enough(n), True) else np.int64(ALL)


@as_competence
def prefers_labelled_cuts(scores, additional, dims, marginals, gap, n_calls):
    """Return the competence of cuts for a tree with labels; see `prefers_cuts`."""
    n, width, total, threshold = dims[0], dims[3], 0.0, np.inf
    line = np.empty((n + 1) * width)
    u = np.empty((n + 1) * width)
    for m in range(n):
        for h in range(n + 1):
            for label in range(width):
                line[h * width + label] = scores[(h * n + m) * width + label] if h != m + 1 else -np.inf
        threshold, count = sparsemax(line, threshold, u)
        total += count
    return AT_ONCE if total >= _enough(n) else np.int64(ALL)


def _are_nearly_equal(problems):
    """Return whether scores are so close that each arc has weight. Cuts then take less time than a few oracle calls."""
    starts = problems.score_ptr[:-1]
    with np.errstate(invalid="ignore"):
        spread = np.maximum.reduceat(problems.scores, starts) - np.minimum.reduceat(problems.scores, starts)
    return bool((problems.dims[:, 0] * spread < 1.0).all())


tree_products = face_products("tree_products", tree_equations)
CUTS = PolytopeSolver(
    "facets",
    tree_facets,
    tree_products,
    _FEW_PARTS,
    prefers_cuts,
    equations=tree_equations,
    soon_exact=_are_nearly_equal,
)
LABELLED_CUTS = CUTS._replace(before=prefers_labelled_cuts)
