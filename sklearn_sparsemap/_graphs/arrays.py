"""Factor graphs in the form of kernels: flat arrays, and the numbers of the kinds of factors.

Used by `_graphs/tables`, `_layers`, `_training`, `factors`, `inference`, `losses` and most files here.
"""

from collections import namedtuple

from .._core.jit import FLOATS, FLOATS_2D, INTS, INTS_2D, ORACLE, FunctionTable, by_address

# Kinds of factors. COUNT is every set of the form low <= sum_i cost_i p_i <= high over literals p in [0, 1].
COUNT, OR_OUT, PAIR, STRUCTURE = range(4)
# Kernels see a factor of tables, one for each pair of categorical variables, as chains of two steps: a STRUCTURE each.
TABLE = 4
# Kinds with scores.
SCORED = PAIR, STRUCTURE, TABLE

# The score of a forbidden variable, in place of -inf. It is far below any sum of scores and multipliers, and unlike
# -inf its differences are numbers.
FORBIDDEN = -1e150

# The literals p of a factor are its variables u, or 1 - u if the sign is -1. Factor f has
#   factor_types[f]                                    its type, a number below
#   links[link_ptr[f]:link_ptr[f + 1]]                 its variables; signs and costs have the same layout
#   low[f], high[f]                                    bounds of a COUNT; infinite if there is none
#   additional_ptr[f]:additional_ptr[f + 1]            its additional scores (one of a PAIR)
#   oracles[f], dims[dims_ptr[f]:dims_ptr[f + 1]], sizes[f]    of a STRUCTURE; see structures/_base.py
# Rows are the inequalities of the factors COUNT and OR_OUT in terms of the variables u. In row r, the sum of
# row_coefs_i u[row_vars_i] is at most row_bounds[r] if its multiplier may be positive (row_high > 0), at least
# row_bounds[r] if it may be negative (row_low < 0), and equal if both. The row belongs to factor row_factors[r], and
# row_links are the links of its entries.
# pairs: the numbers of the factors PAIR; pair_ends[e] and pair_signs[e] are the variables and signs of the e-th.
# slots[slot_ptr[i]:slot_ptr[i + 1]]: the ends of pairs at variable i, as 2 e + side.
# degrees: the number of factors of each variable. owners: the STRUCTURE that contains a variable, -1 if there is none,
# -2 if there are several. structures: the numbers of the factors STRUCTURE.
# `inference/_graph`, `_layers`, `losses` and `plotting` read the fields by these names, too.
GraphArrays = namedtuple(
    "GraphArrays",
    [
        "factor_types",
        "link_ptr",
        "links",
        "signs",
        "costs",
        "low",
        "high",
        "additional_ptr",
        "oracles",
        "dims_ptr",
        "dims",
        "sizes",
        "row_ptr",
        "row_vars",
        "row_coefs",
        "row_links",
        "row_bounds",
        "row_low",
        "row_high",
        "row_factors",
        "pairs",
        "pair_ends",
        "pair_signs",
        "slot_ptr",
        "slots",
        "structures",
        "degrees",
        "owners",
    ],
)
_TYPES = [
    INTS, INTS, INTS, FLOATS, FLOATS, FLOATS, FLOATS, INTS, INTS, INTS, INTS, INTS_2D,
    INTS, INTS, FLOATS, INTS, FLOATS, FLOATS, FLOATS, INTS,
    INTS, INTS_2D, FLOATS_2D, INTS, INTS, INTS, INTS, INTS,
]  # fmt: skip

# The arrays of small graphs without pairs: those that all graphs use, and those of structures. A kernel with fewer
# arrays as arguments is compiled faster.
SmallArrays = namedtuple(
    "SmallArrays",
    [
        *("factor_types", "link_ptr", "links", "signs", "costs", "low", "high", "additional_ptr"),
        *("row_ptr", "row_vars", "row_coefs", "row_links", "row_bounds", "row_low", "row_high", "degrees", "owners"),
    ],
)
StructureArrays = namedtuple(
    "StructureArrays",
    ["structures", "link_ptr", "links", "signs", "additional_ptr", "oracles", "dims_ptr", "dims", "sizes"],
)


def _type_of(part):
    """Return the type of a namedtuple that has some of the arrays of a graph."""
    return by_address([_TYPES[GraphArrays._fields.index(name)] for name in part._fields], part)


GRAPH_ARRAYS = _type_of(GraphArrays)
SMALL_ARRAYS = _type_of(SmallArrays)
STRUCTURE_ARRAYS = _type_of(StructureArrays)


def take_arrays(part, arrays):
    """Return some of the arrays of a graph as a namedtuple of the class `part`."""
    return part(*(getattr(arrays, name) for name in part._fields))


# The MAP oracles of a graph, by their numbers. Structures of one class have the same oracle.
ORACLES = FunctionTable(ORACLE)
oracle_at = ORACLES.at
