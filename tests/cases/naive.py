"""Slow, obvious twins of the fast code: enumeration, dense linear algebra, finite differences."""

import math
from functools import cache
from itertools import pairwise, permutations, product

import numpy as np


def enumerate_simplex(scores):
    """Return (structures, unary indicators M, total scores) of all choices."""
    n = len(scores)
    return list(range(n)), np.eye(n), np.asarray(scores, dtype=float)


def enumerate_chain(scores, transitions=None, start=None, end=None):
    """Return (paths, unary indicators M with one column a path, total scores) of all paths."""
    n, m = scores.shape
    paths = list(product(range(m), repeat=n))
    M = np.zeros((n * m, len(paths)))
    theta = np.zeros(len(paths))
    for p, path in enumerate(paths):
        for t, s in enumerate(path):
            M[t * m + s, p] = 1.0
        theta[p] = chain_score(path, scores, transitions, start, end)
    return paths, M, theta


def enumerate_budgeted(scores, budget, state, exactly, **additional):
    """Return (paths, unary indicators M, total scores) of all paths that keep a budget of steps in a state."""
    paths, M, theta = enumerate_chain(scores, **additional)
    most = budget if isinstance(budget, int) else max(1, math.floor(round(budget * len(scores), 6)))
    counts = [path.count(state) for path in paths]
    kept = [p for p, count in enumerate(counts) if count == most or (count < most and not exactly)]
    return [paths[p] for p in kept], M[:, kept], theta[kept]


def enumerate_trees(scores, projective=False, single_root=False, n_labels=None):
    """Return (heads, unary indicators M, total scores) of all trees over scores of shape (n + 1, n); maybe labelled."""
    trees = all_trees(scores.shape[1], projective, single_root)
    if n_labels is not None:
        n = scores.shape[1]
        labelled = [tuple(zip(heads, labels)) for heads in trees for labels in product(range(n_labels), repeat=n)]
        return _indicators(labelled, scores, lambda tree: [(h, m, label) for m, (h, label) in enumerate(tree)])
    return _indicators(trees, scores, lambda heads: [(h, m) for m, h in enumerate(heads)])


@cache
def all_trees(n, projective, single_root):
    """Return the heads of all trees of n words."""
    trees = []
    for heads in product(range(n + 1), repeat=n):
        if all(_hangs_on_root(heads, m) for m in range(1, n + 1)):
            if single_root and heads.count(0) > 1:
                continue
            if projective and any(_cross(heads, a, b) for a in range(1, n + 1) for b in range(1, n + 1)):
                continue
            trees.append(heads)
    return trees


def _hangs_on_root(heads, m):
    for _ in range(len(heads)):
        m = heads[m - 1]
        if m == 0:
            return True
    return False


def _cross(heads, a, b):
    """Tell whether the arcs into words a and b cross, drawn above the sentence with the root at its left."""
    i, j = sorted((heads[a - 1], a))
    k, l = sorted((heads[b - 1], b))  # noqa: E741
    return i < k < j < l


def best_tree_value(weights):
    """Return the score of the best non-projective tree under weights [head, modifier] of the nodes, 0 the root.

    Chu-Liu/Edmonds by the book: contract one cycle of best heads, solve what is left, -inf if there is none.
    """
    n = len(weights)
    heads = {m: max((h for h in range(n) if h != m), key=lambda h: weights[h, m]) for m in range(1, n)}
    for start in heads:
        path, v = [], start
        while v != 0 and v not in path:
            path.append(v)
            v = heads[v]
        if v != 0:
            break
    else:
        return sum(weights[h, m] for m, h in heads.items())
    cycle = path[path.index(v) :]
    within = {c: weights[heads[c], c] for c in cycle}
    if min(within.values()) == -np.inf:
        return -np.inf
    rest = [v for v in range(n) if v not in cycle]
    smaller = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
    smaller[:-1, :-1] = weights[np.ix_(rest, rest)]
    for a, v in enumerate(rest):
        smaller[a, -1] = max(weights[v, c] - within[c] for c in cycle)
        smaller[-1, a] = max(weights[c, v] for c in cycle)
    return sum(within.values()) + best_tree_value(smaller)


def best_projective_value(weights):
    """Return the score of the best projective tree: spans with the word that heads them, joined two by two."""
    n = len(weights)

    @cache
    def best(i, j, head):
        if i == j:
            return 0.0
        joined = [-np.inf]
        for k in range(i, j):
            if head <= k:
                joined += [best(i, k, head) + best(k + 1, j, m) + weights[head, m] for m in range(k + 1, j + 1)]
            else:
                joined += [best(k + 1, j, head) + best(i, k, m) + weights[head, m] for m in range(i, k + 1)]
        return max(joined)

    return best(0, n - 1, 0)


def with_root_row(scores):
    """Return scores of shape (n + 1, n) as weights [head, modifier] of n + 1 nodes."""
    return np.hstack([np.full((len(scores), 1), -np.inf), scores])


def enumerate_matchings(scores):
    """Return (columns of the rows, unary indicators M, total scores) of all maximal matchings."""
    matchings = all_matchings(*scores.shape)
    return _indicators(matchings, scores, lambda columns: [(i, c) for i, c in enumerate(columns) if c >= 0])


@cache
def all_matchings(n, m):
    """Return the columns of n rows, -1 for none, in all maximal matchings with m columns."""
    matchings = []
    for columns in product(range(-1, m), repeat=n):
        matched = [c for c in columns if c >= 0]
        if len(matched) == len(set(matched)) == min(n, m):
            matchings.append(columns)
    return matchings


def enumerate_alignments(scores, gaps=None, mode="warping"):
    """Return (alignments, unary indicators M, total scores) of all monotone alignments."""
    n, m = scores.shape
    if mode == "warping":
        paths = all_warping_paths(n, m)
        return _indicators(paths, scores, lambda path: path)
    alignments = [
        columns
        for columns in product(range(-1, m), repeat=n)
        if all(a < b for a, b in pairwise([c for c in columns if c >= 0]))
    ]
    found, M, theta = _indicators(alignments, scores, lambda columns: [(i, c) for i, c in enumerate(columns) if c >= 0])
    if gaps is not None:
        theta = theta + np.array([gap_counts(columns, m, mode) @ np.asarray(gaps) for columns in alignments])
    return found, M, theta


def gap_counts(columns, m, mode):
    """Count the rows and the columns without a partner; in a local alignment those between its pairs only."""
    pairs = [(i, c) for i, c in enumerate(columns) if c >= 0]
    spans = len(columns), m
    if mode == "local":
        spans = [pairs[-1][axis] - pairs[0][axis] + 1 for axis in (0, 1)] if pairs else (0, 0)
    return np.array([span - len(pairs) for span in spans], float)


@cache
def all_warping_paths(n, m):
    """Return the cells of all paths through a grid, from its first cell to its last one."""
    if n == m == 1:
        return [((0, 0),)]
    before = [(n - i, m - j) for i, j in ((0, 1), (1, 0), (1, 1)) if n > i and m > j]
    return [(*path, (n - 1, m - 1)) for shape in before for path in all_warping_paths(*shape)]


def enumerate_rankings(scores, top_k=None):
    """Return (items from the best on, points M with one column a ranking, total scores) of all rankings."""
    n = len(scores)
    rankings = list(permutations(range(n), n if top_k is None else top_k))
    most = n - 1 if top_k is None else top_k
    M = np.zeros((n, len(rankings)))
    for p, items in enumerate(rankings):
        for place, item in enumerate(items):
            M[item, p] = most - place
    theta = np.where(M > 0, M * np.where(M > 0, np.asarray(scores)[:, None], 0.0), 0.0).sum(axis=0)
    return rankings, M, theta


def enumerate_segmentations(
    scores, durations=None, transitions=None, start=None, end=None, max_length=None, parts="steps", open_ended=False
):
    """Return (segmentations, unary indicators M, total scores) of all labelled spans up to a longest length."""
    by_spans = parts == "spans"
    longest = len(scores) if open_ended else max_length
    found = all_segmentations(len(scores), longest, scores.shape[-1], by_spans)
    structures = found if by_spans else [labels_of(spans) for spans in found]
    if by_spans:
        _, M, theta = _indicators(found, scores, lambda spans: [(i, j - i - 1, y) for i, j, y in spans])
    else:
        _, M, theta = _indicators(structures, scores, lambda labels: list(enumerate(labels)))
    for p, spans in enumerate(found):
        for i, j, label in spans:
            theta[p] += 0.0 if durations is None else durations[min(j - i, max_length) - 1, label]
        for (_, _, label), (_, _, following) in pairwise(spans):
            theta[p] += 0.0 if transitions is None else transitions[label, following]
        theta[p] += 0.0 if start is None else start[spans[0][2]]
        theta[p] += 0.0 if end is None else end[spans[-1][2]]
    return structures, M, theta


@cache
def all_segmentations(n, max_length, n_labels, alike):
    """Return all ways to cut n steps into labelled spans; whether neighbours may be `alike` in their labels."""
    if n == 0:
        return [()]
    return [
        (*before, (n - length, n, label))
        for length in range(1, min(n, max_length) + 1)
        for before in all_segmentations(n - length, max_length, n_labels, alike)
        for label in range(n_labels)
        if alike or not before or before[-1][2] != label
    ]


def labels_of(spans):
    """Return the label of each step."""
    return tuple(label for i, j, label in spans for _ in range(i, j))


def enumerate_subsets(scores, min_size=0, max_size=None):
    """Return (bools, unary indicators M, total scores) of all subsets of allowed size."""
    n = len(scores)
    subsets = [
        s for s in product((False, True), repeat=n) if min_size <= sum(s) <= (n if max_size is None else max_size)
    ]
    return _indicators(subsets, scores, lambda subset: [(i,) for i, taken in enumerate(subset) if taken])


def enumerate_paths(scores, edges, source, target):
    """Return (bools, unary indicators M, total scores) of all paths from the source to the target."""
    paths = [[e in path for e in range(len(edges))] for path in all_paths(edges, source, target)]
    return _indicators(list(map(tuple, paths)), scores, lambda path: [(e,) for e, used in enumerate(path) if used])


def all_paths(edges, node, target):
    """Return the paths from a node to another, each a list of edges."""
    if node == target:
        return [[]]
    leaving = [e for e, (tail, _) in enumerate(edges) if tail == node]
    return [[e, *rest] for e in leaving for rest in all_paths(edges, edges[e][1], target)]


def enumerate_modifiers(scores, siblings=None, grandparents=None):
    """Return (bools, unary indicators M, total scores) of all modifiers of a head, with one of its candidates."""
    n_candidates = 0 if grandparents is None else len(grandparents)
    n = len(scores) - n_candidates
    heads = [tuple(g == i for i in range(n_candidates)) for g in range(n_candidates)] or [()]
    structures = [head + words for head in heads for words in product((False, True), repeat=n)]
    structures, M, theta = _indicators(structures, scores, lambda chosen: [(i,) for i, on in enumerate(chosen) if on])
    for s, chosen in enumerate(structures):
        modifiers = [j for j in range(n) if chosen[n_candidates + j]]
        if siblings is not None:
            for i, j in pairwise([-1, *modifiers, n]):
                theta[s] += siblings[i + 1, j]
        if grandparents is not None:
            for j in modifiers:
                theta[s] += grandparents[chosen.index(True), j]
    return structures, M, theta


def enumerate_segments(scores, lengths):
    """Return (parts, unary indicators M, total scores) of all segments, with a score for each length."""
    n = len(scores)
    segments = [tuple(range(i, j)) for i in range(n) for j in range(i + 1, n + 1)]
    segments, M, theta = _indicators(segments, scores, lambda parts: [(p,) for p in parts])
    return segments, M, theta + [lengths[len(parts) - 1] for parts in segments]


def _indicators(structures, scores, parts_of):
    M = np.zeros((len(structures), *scores.shape))
    for s, structure in enumerate(structures):
        for part in parts_of(structure):
            M[(s, *part)] = 1.0
    M = M.reshape(len(structures), scores.size)
    theta = np.where(M > 0, scores.ravel(), 0.0).sum(axis=1)
    return structures, M.T, theta


def chain_score(path, scores, transitions=None, start=None, end=None):
    """Return the total score of a path, term by term."""
    total = 0.0
    for t, s in enumerate(path):
        total += scores[t, s]
        if t > 0 and transitions is not None:
            matrix = transitions if transitions.ndim == 2 else transitions[t - 1]
            total += matrix[path[t - 1], s]
    if start is not None:
        total += start[path[0]]
    if end is not None:
        total += end[path[-1]]
    return total


def solve_qp(M, theta, tol=1e-13):
    """Maximise theta.w - 1/2 |M w|^2 over the simplex, over all columns; return (M w, w).

    The textbook active set with everything dense and made from scratch in each round. Columns with a score of -inf
    are left out. Where [M; 1] has a null space on the support, go along it, uphill, until a weight is zero.
    """
    allowed = np.flatnonzero(theta > -np.inf)
    M, theta = M[:, allowed], theta[allowed]
    tol *= 1.0 + np.abs(theta).max()
    support = [int(np.argmax(theta))]
    y = np.ones(1)
    for _ in range(100_000):
        while True:
            A = np.vstack([M[:, support], np.ones(len(support))])
            _, singular, vt = np.linalg.svd(A)
            rank = int((singular > 1e-10).sum())
            if rank < len(support):
                direction = vt[-1]
                if theta[support] @ direction < 0:
                    direction = -direction
                shrinking = direction < -1e-12
                steps = np.where(shrinking, y / np.where(shrinking, -direction, 1.0), np.inf)
                s = int(np.argmin(steps))
                y = y + steps[s] * direction
            else:
                k = len(support)
                kkt = np.zeros((k + 1, k + 1))
                kkt[:k, :k] = M[:, support].T @ M[:, support]
                kkt[k, :k] = kkt[:k, k] = 1.0
                z = np.linalg.solve(kkt, np.append(theta[support], 1.0))[:k]
                if (z >= -1e-14).all():
                    y = np.maximum(z, 0.0)
                    break
                steps = np.where(z < 0, y / np.where(z < 0, y - z, 1.0), np.inf)
                s = int(np.argmin(steps))
                y = y + steps[s] * (z - y)
            y = np.maximum(np.delete(y, s), 0.0)
            del support[s]
        u = M[:, support] @ y
        reduced = theta - M.T @ u
        best = int(np.argmax(reduced))
        if reduced[best] - reduced[support] @ y <= tol or best in support:
            w = np.zeros(len(theta))
            w[support] = y
            full = np.zeros(allowed.max() + 1)
            full[allowed] = w
            return u, full
        support.append(best)
        y = np.append(y, 0.0)
    raise AssertionError("the reference QP did not converge")


def frank_wolfe(M, theta, variant, n_steps, tol=0.0):
    """Take steps of conditional gradient over all columns, with an exact line search.

    Returns M w and the number of steps, fewer than `n_steps` once the gap is `tol`.
    """
    w = np.zeros(len(theta))
    w[np.argmax(theta)] = 1.0
    for taken in range(n_steps):
        reduced = theta - M.T @ (M @ w)
        if reduced.max() - reduced @ w <= tol:
            return M @ w, taken
        best = np.eye(len(theta))[np.argmax(reduced)]
        used = np.flatnonzero(w > 0)
        worst_column = used[np.argmin(reduced[used])]
        worst = np.eye(len(theta))[worst_column]
        forward, away = best - w, w - worst
        if variant == "pairwise":
            direction, largest = best - worst, w[worst_column]
        elif variant == "away_step" and reduced @ away > reduced @ forward:
            direction, largest = away, w[worst_column] / (1.0 - w[worst_column])
        else:
            direction, largest = forward, 1.0
        curvature = np.sum((M @ direction) ** 2)
        step = largest if curvature == 0 else min(largest, reduced @ direction / curvature)
        w = w + step * direction
        w[w < 1e-14] = 0.0
    return M @ w, n_steps


def hamming_cost(M, gold):
    """Return the cost of each structure: its wrong parts, and where structures differ in size also the missing ones."""
    wrong, missing = M.T @ (1.0 - M[:, gold]), (1.0 - M.T) @ M[:, gold]
    if M.max(initial=0.0) > 1.0:
        # Points: what is missing of the right ones, half of the squared distance.
        return 0.5 * ((M - M[:, [gold]]) ** 2).sum(axis=0)
    return wrong if len(set(M.sum(axis=0))) == 1 else wrong + missing


def loss_by_enumeration(M, theta, gold, name, temperature=1.0, cost=None):
    """Return the loss of structure number `gold` and its gradient, from the definition over all structures.

    Parameters
    ----------
    M : array with one column a structure, its unary parts
    theta : array
        Total scores.
    gold : int
    name : str
    temperature : float
    cost : array with one entry a structure, default=None
        None is `hamming_cost`.
    """
    cost = hamming_cost(M, gold) if cost is None else cost
    with_margin = name == "hinge" or name.startswith("margin")
    total = theta / temperature + cost * with_margin
    if name in ("perceptron", "hinge"):
        best = int(np.argmax(total))
        value, u, omega_of_gold = total[best], M[:, best], 0.0
    elif name.endswith("crf"):
        weights = np.exp(total - total.max())
        value, u, omega_of_gold = total.max() + np.log(weights.sum()), M @ (weights / weights.sum()), 0.0
    else:
        u, w = solve_qp(M, total)
        used = w > 0
        value = total[: len(w)][used] @ w[used] - 0.5 * u @ u
        omega_of_gold = 0.5 * M[:, gold] @ M[:, gold]
    return temperature * (value + omega_of_gold) - theta[gold], u - M[:, gold]


def probabilities(theta):
    """Return the Gibbs probability of each structure, given its total score."""
    weights = np.exp(theta - theta.max())
    return weights / weights.sum()


def expected_cost(M, theta, cost, temperature=1.0):
    """Return the expected cost of a structure, and its gradient in the unary scores, from the definition.

    Parameters
    ----------
    M : array with one column a structure, its unary parts
    theta : array
        Total scores.
    cost : array with one entry a structure
    temperature : float
    """
    p = probabilities(theta / temperature)
    mean = cost @ p
    return mean, M @ (p * (cost - mean)) / temperature
