"""SparseMAP as a quadratic program over the inequalities of each polytope, by clarabel: another method, another code.

    pip install clarabel

The polytopes: matchings by their rows and columns; subsets by their sizes; chains by the flow through their steps;
trees by a flow of one unit from the root to each word, over no more of an arc than there is of it (Martins et al.,
Concise Integer Linear Programming Formulations for Dependency Parsing, ACL 2009).
"""

import clarabel
import numpy as np
from scipy import sparse

from sklearn_sparsemap.structures import LinearChain, Matching, Subset

_MAX_VARIABLES = 2500


class _Program:
    """Rows of ``A x = b`` and of ``A x <= b``, given as dicts of column -> coefficient."""

    def __init__(self, n_variables):
        self.n, self.equal, self.less = n_variables, [], []

    def constraints(self):
        """Return the coefficients of all rows, equalities first, and their bounds."""
        rows = [*self.equal, *self.less]
        entries = [(i, column, value) for i, (row, _) in enumerate(rows) for column, value in row.items()]
        places, columns, values = map(np.array, zip(*entries))
        A = sparse.csc_matrix((values, (places, columns)), (len(rows), self.n))
        return A, np.array([bound for _, bound in rows], dtype=np.float64)

    def solve(self, quadratic, linear, gap=1e-11):
        """Minimise ``1/2 x' diag(quadratic) x + linear' x``; return x, or None where the solver ends elsewhere."""
        A, b = self.constraints()
        cones = [clarabel.ZeroConeT(len(self.equal)), clarabel.NonnegativeConeT(len(self.less))]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = gap
        settings.tol_feas = 1e-11
        solver = clarabel.DefaultSolver(sparse.diags(quadratic, format="csc"), linear, A, b, cones, settings)
        solution = solver.solve()
        return np.array(solution.x) if solution.status == clarabel.SolverStatus.Solved else None


def project_grid(scores, horizontal, vertical):
    """Return the marginals of LP-SparseMAP on a grid of variables of several values, with two tables of scores.

    Each table of marginals has those of its two pixels as the sums of its rows and of its columns.
    """
    height, width, k = scores.shape
    pixels = np.arange(height * width).reshape(height, width)
    ends = [(pixels[:, :-1], pixels[:, 1:]), (pixels[:-1], pixels[1:])]
    pairs = [np.column_stack([first.ravel(), second.ravel()]) for first, second in ends]
    tables = np.concatenate([np.tile(np.ravel(t), len(own)) for t, own in zip((horizontal, vertical), pairs)])
    made = _Program(scores.size + len(tables))
    for pixel in range(height * width):
        made.equal.append(({pixel * k + s: 1.0 for s in range(k)}, 1.0))
    for e, pair in enumerate(np.concatenate(pairs).tolist()):
        cells = scores.size + k * k * e + np.arange(k * k).reshape(k, k)
        for pixel, lines in zip(pair, (cells, cells.T)):
            for s in range(k):
                made.equal.append(({**dict.fromkeys(lines[s].tolist(), 1.0), pixel * k + s: -1.0}, 0.0))
    for i in range(made.n):
        made.less.append(({i: -1.0}, 0.0))
    linear = np.concatenate([np.ravel(scores), tables])
    found = made.solve(1.0 * (np.arange(made.n) < scores.size), -linear, gap=1e-12)
    return None if found is None else found[: scores.size].reshape(scores.shape)


def project(structure, scores, transitions=None, start=None, end=None):
    """Return the marginals of SparseMAP, in the shape of the scores; None if the problem is too large."""
    scores = np.array(scores, dtype=np.float64)
    linear = scores.copy()
    if isinstance(structure, LinearChain):
        linear[0] += 0.0 if start is None else start
        linear[-1] += 0.0 if end is None else end
    made = program_of(structure, scores.shape)
    if made.n > _MAX_VARIABLES:
        return None
    edges = np.zeros(made.n - scores.size)
    if transitions is not None and len(scores) > 1:
        tables = np.broadcast_to(transitions, (len(scores) - 1, *np.shape(transitions)[-2:]))
        edges[: tables.size] = tables.ravel()
    linear = np.concatenate([linear.ravel(), edges])
    for i in np.flatnonzero(linear == -np.inf):
        made.equal.append(({int(i): 1.0}, 0.0))
    linear[linear == -np.inf] = 0.0
    x = made.solve(np.repeat([1.0, 0.0], [scores.size, len(edges)]), -linear)
    return None if x is None else x[: scores.size].reshape(scores.shape)


def program_of(structure, shape):
    """Return the `_Program` of a structure; its first variables are those of the scores."""
    made = {LinearChain: _chain, Matching: _matching, Subset: _subset}.get(type(structure), _tree)(structure, shape)
    made.less += [({i: -1.0}, 0.0) for i in range(made.n)]
    return made


def _matching(structure, shape):
    n_rows, n_cols = shape
    made = _Program(n_rows * n_cols)
    places = np.arange(made.n).reshape(shape)
    for lines, full in ((places, n_rows <= n_cols), (places.T, n_cols <= n_rows)):
        for line in lines:
            (made.equal if full else made.less).append((dict.fromkeys(line.tolist(), 1.0), 1.0))
    return made


def _subset(structure, shape):
    made = _Program(shape[0])
    everything = dict.fromkeys(range(made.n), 1.0)
    most = made.n if structure.max_size is None else min(structure.max_size, made.n)
    made.less += [(everything, most), (dict.fromkeys(everything, -1.0), -structure.min_size)]
    made.less += [({i: 1.0}, 1.0) for i in range(made.n)]
    return made


def _chain(structure, shape):
    n, m = shape
    made = _Program(n * m + (n - 1) * m * m)
    edge = n * m + np.arange((n - 1) * m * m).reshape(n - 1, m, m)
    made.equal += [(dict.fromkeys(range(t * m, (t + 1) * m), 1.0), 1.0) for t in range(n)]
    for t in range(n - 1):
        for s in range(m):
            made.equal.append(({t * m + s: -1.0, **dict.fromkeys(edge[t, s].tolist(), 1.0)}, 0.0))
            made.equal.append((({(t + 1) * m + s: -1.0, **dict.fromkeys(edge[t, :, s].tolist(), 1.0)}), 0.0))
    return made


def _tree(structure, shape):
    n = shape[1]
    n_arcs = (n + 1) * n
    made = _Program(n_arcs * (1 + n))
    arc = np.arange(n_arcs).reshape(n + 1, n)
    made.equal += [(dict.fromkeys(arc[:, m].tolist(), 1.0), 1.0) for m in range(n)]
    made.equal += [({int(arc[m + 1, m]): 1.0}, 0.0) for m in range(n)]
    if structure.single_root:
        made.equal.append((dict.fromkeys(arc[0].tolist(), 1.0), 1.0))
    for k in range(n):
        flow = n_arcs * (1 + k) + arc
        made.less += [({int(f): 1.0, int(a): -1.0}, 0.0) for f, a in zip(flow.ravel(), arc.ravel())]
        for m in range(n):
            row = dict.fromkeys(flow[:, m].tolist(), 1.0)
            for to in range(n):
                place = int(flow[m + 1, to])
                row[place] = row.get(place, 0.0) - 1.0
            made.equal.append((row, float(m == k)))
    return made
