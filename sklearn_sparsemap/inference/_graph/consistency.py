"""Arc consistency: values of variables that the tables of a graph rule out, because a neighbour allows none of them.

`map.py` calls `rule_out` before a solver.

Used by `map.py`.
"""

import numpy as np

from ..._graphs.arrays import FORBIDDEN

# Maximum number of rounds. A round passes on what the previous one has ruled out, so long chains may need more; the
# values that are left then are left to the solvers.
_MAX_ROUNDS = 1000


def rule_out(problems):
    """Forbid the values of variables that are in no feasible assignment, as far as single tables tell.

    Parameters
    ----------
    problems : GraphBatch
        Samples of a graph of tables.

    Returns
    -------
    problems : GraphBatch
        The same objects if nothing is forbidden.
    contradicted : bool array of shape (n_samples,)
        Whether no value of some variable is left, so that no assignment is feasible.
    guilty : float array of shape (n_samples, n_links)
        1.0 at the links of tables with the values that they have ruled out.
    """
    n = len(problems.scores)
    tables = problems.layout.tables
    contradicted = np.zeros(n, bool)
    guilty = np.zeros((n, len(problems.layout.arrays.links)))
    allowed = problems.scores > 0.5 * FORBIDDEN
    free = problems.additional[:, tables.cells[0] : tables.cells[-1]] > -np.inf
    if allowed.all() and free.all():
        return problems, contradicted, guilty
    # A cell supports a value of the first end of its edge, by its row, and a value of the second, by its column.
    n_values = np.diff(tables.nodes)[tables.ends[:, 0]]
    edge = np.repeat(np.arange(len(n_values)), n_values**2)
    within = np.arange(len(edge)) - (tables.cells[edge] - tables.cells[0])
    rows = tables.messages[edge] + within // n_values[edge]
    columns = tables.messages[edge] + within % n_values[edge] + n_values[edge]
    for i in range(n):
        values = allowed[i]
        cells = free[min(i, len(free) - 1)]
        for _ in range(_MAX_ROUNDS):
            contradicted[i] = not np.logical_or.reduceat(values, tables.nodes[:-1]).all()
            used = cells & values[tables.values[rows]] & values[tables.values[columns]]
            supported = np.zeros(len(tables.values), bool)
            supported[rows[used]] = supported[columns[used]] = True
            lost = np.flatnonzero(~supported & values[tables.values])
            if contradicted[i] or not len(lost):
                break
            values[tables.values[lost]], guilty[i, tables.links[lost]] = False, 1.0
    return problems._replace(scores=np.where(allowed, problems.scores, FORBIDDEN)), contradicted, guilty
