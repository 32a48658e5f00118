"""The rule of the steps, and the arrays that the threads of an epoch use; see `rules` and `epoch`.

`optimizer.py` and `groups.py` make the tuples, the arrays by the order of their fields.

Used by `epoch.py`, `groups.py`, `optimizer.py`, `rules.py`, `scores.py` and `shrinkage.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_OUT, INTS, INTS_2D_OUT, INTS_OUT, FirstClass, by_address
from ...penalties._budget import BUDGET_FACTORS, no_budget
from .._data import ROWS, ROWS_32, TARGETS
from .dense import SHARE

# The rule of AdaGrad (step size `eta0`, penalty `alpha`), of MIRA (maximum step size `C`), and of gradient steps with
# shrinkage of groups. They have one type, because functions are compiled for each type of rule.
#
# For all rules: `tol` is the duality gap of inference; `fit_intercept` tells whether the intercept is learned; `every`
# is the number of samples between two ends of samples, see `Steps`; `curve` is an output, the numbers of weights with
# their steps, see `record`.
#
# For gradient steps: the step size is eta0 / sqrt(ceil(step / period)), and `alpha` the strength of the penalty without
# a budget. The budget is -1 if not given; `budget_factors` computes its shrinkage. `weights`, `order`, `indptr` and
# `atoms` describe the groups, see penalties/_shrink.py. `defers` tells whether shrinkages are deferred, which needs a
# budget. `sigma` is an output: two strengths, the last nonzero one and the mean of all. `held` is empty for a budget of
# groups. For a budget of weights it is an output: the maximum number of weights that each atom has had at a shrinkage,
# which is its size in the budget even after it was discarded.
Rule = namedtuple(
    "Rule",
    [
        "budget_factors", "tol", "fit_intercept", "every", "curve", "is_mira", "eta0", "alpha", "C",
        "period", "budget", "defers", "weights", "order", "indptr", "atoms", "sigma", "held",
    ],
)  # fmt: skip
RULE = by_address(
    [BUDGET_FACTORS, types.float64, types.boolean, types.int64, INTS_2D_OUT, types.boolean] + [types.float64] * 4
    + [types.int64, types.boolean, FLOATS_OUT, INTS, INTS, INTS, FLOATS_OUT, INTS_OUT],
    Rule,
)  # fmt: skip

NO_CURVE = np.zeros((0, 2), np.int64)
_NO_INTS = np.zeros(0, np.int64)
_NO_FLOATS = np.zeros(0)
_NO_ATOMS = np.zeros(0, np.int64)
_NO_ATOMS.flags.writeable = False
# A rule whose fields have no effect, except for the intercept. Others are made by `_replace`.
DEFAULT_RULE = Rule(
    no_budget, 0.0, True, 1, NO_CURVE, False, 0.0, 0.0, 0.0,
    1.0, -1, False, _NO_FLOATS, _NO_ATOMS, _NO_ATOMS, _NO_ATOMS, _NO_FLOATS, _NO_INTS,
)  # fmt: skip

# Arrays that all threads of an epoch use. `counters` are those of dense.py, and `signals` those of `barrier_wait`. For
# the rows of a block, `scores` holds the scores for each piece of columns, and `residuals` the residuals. For each
# sample of a block, `additional` holds the gradient with respect to the additional scores, and `losses` the loss and
# the excess of its gap over the rule's tolerance. total[0] is the weighted sum of the losses, each before its update.
# `multiplicity` is that of `Sample`.
Team = namedtuple(
    "Team", ["counters", "signals", "scores", "residuals", "additional", "losses", "total", "multiplicity"]
)
TEAM = by_address([INTS_2D_OUT, INTS_OUT] + [FLOATS_OUT] * 5 + [FLOATS], Team)
# The index of a thread, the number of threads, the number of samples of a block, and the thread's columns.
Part = namedtuple("Part", ["me", "n_threads", "batch_size", "share"])
PART = by_address([types.int64] * 3 + [SHARE], Part)
# Work arrays of a thread, for the updates for a row of features, see `_gather`: the features, their values and
# multiplicities, the outputs with nonzero residuals, these residuals, and the places of the weights of all pairs of
# output and feature. `additional` holds the additional scores with the mask.
Moves = namedtuple("Moves", ["features", "values", "times", "outputs", "residuals", "indices", "additional"])
MOVES = by_address([INTS_OUT, FLOATS_OUT, FLOATS_OUT, INTS_OUT, FLOATS_OUT, INTS_OUT, FLOATS_OUT], Moves)

# The functions of a rule for a store, which an epoch calls: `take` counts the samples of a block and takes the step of
# each, and `end` follows every few samples. The arguments are described in `epoch`.
Steps = namedtuple("Steps", ["take", "end"])


ROWS_OF = {"float64": ROWS, "float32": ROWS_32}  # types of rows by the type of the weights


def take_signature(store, rows):
    """Return the signature of `Steps.take` for types of the store and of the rows."""
    return types.void(RULE, store, rows, TARGETS, INTS, TEAM, PART, types.int64, types.int64, MOVES)


def end_signature(store):
    """Return the signature of `Steps.end` for a type of the store."""
    return types.void(RULE, store, INTS_OUT, types.int64, types.int64)


def steps_type(store, rows):
    """Return the type of `Steps`."""
    return by_address([FirstClass(take_signature(store, rows)), FirstClass(end_signature(store))], Steps)
