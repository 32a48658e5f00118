"""The additional parts of the structures that an assignment of the variables selects.

Used by `factors`.
"""

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, entry
from .arrays import GRAPH_ARRAYS, ORACLES, oracle_at


@entry(types.void(GRAPH_ARRAYS, ORACLES.type, FLOATS, FLOATS_OUT, FLOATS_OUT))
def add_structure_parts(graph, oracles, u, joint, wrong):
    """Count the additional parts of each structure factor under an assignment `u` of the variables, into `joint`.

    The structure of an assignment is the MAP under scores of 1 for parts that are on, and -1 for all others. If the
    assignment is not a structure of a factor, the entry of `wrong` for it becomes 1.
    """
    for number, f in enumerate(graph.structures):
        start, stop = graph.link_ptr[f], graph.link_ptr[f + 1]
        first, last = graph.additional_ptr[f], graph.additional_ptr[f + 1]
        scores = np.empty(stop - start)
        n_on = 0
        for link in range(start, stop):
            is_on = (u[graph.links[link]] > 0.0) == (graph.signs[link] > 0.0)
            scores[link - start] = 1.0 if is_on else -1.0
            n_on += is_on
        slots = np.empty(graph.sizes[f, 0], np.int32)
        extra = np.empty(graph.sizes[f, 1], np.int32)
        oracle_at(oracles, graph.oracles[f])(
            scores,
            np.zeros(last - first),
            graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]],
            np.zeros(graph.sizes[f, 2]),
            slots,
            extra,
        )
        for part in slots:
            if part >= 0:
                n_on += -1 if scores[part] > 0.0 else 1
        if n_on != 0:
            wrong[number] = 1.0
            continue
        for part in extra:
            if part >= 0:
                joint[first + part] += 1.0
