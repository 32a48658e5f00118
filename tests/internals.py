"""Private names that tests use."""

import pkgutil
import sys

# _compile_ahead
from sklearn_sparsemap import _compile_ahead as compile_ahead
from sklearn_sparsemap._core import highs, jit

# _core
from sklearn_sparsemap._core.compile import mode
from sklearn_sparsemap._core.compile.mode import TESTED_VERSIONS
from sklearn_sparsemap._core.compile.sources import digest_of
from sklearn_sparsemap._core.jit import (
    FLOATS,
    FLOATS_2D_OUT,
    FLOATS_OUT,
    INTS,
    INTS_2D,
    IS_LINKED,
    ORACLE,
    PARTS,
    Entry,
    as_oracle,
    copy_into,
    entry,
    kernel,
    readonly,
    size_of,
)
from sklearn_sparsemap._core.lanes import WIDTH, larger, largest, load, pick, spread, store, total
from sklearn_sparsemap._core.threads import ends_at, over_ranges
from sklearn_sparsemap._core.validation import check_samples

# datasets
from sklearn_sparsemap.datasets import _lines as datasets_lines

# estimators
from sklearn_sparsemap.estimators._multilabel import solvers as multilabel_solvers
from sklearn_sparsemap.estimators._multilabel.calibration import (
    Calibration,
    _fit_curves,
    _softmax_slope,
    implications,
    make_coherent,
)
from sklearn_sparsemap.estimators._multilabel.data import (
    mutual_information_tree,
    read_constraints,
    read_edges,
    read_indicator,
    row_words,
    strongest_pairs,
)
from sklearn_sparsemap.estimators._multilabel.solvers import (
    Network,
    SeenSets,
    automatic_alpha,
    folds_of,
    lowest_place,
    order_of_samples,
)
from sklearn_sparsemap.estimators._multilabel.threshold import (
    GRID,
    SET_GRID,
    Tuning,
    best_threshold,
    expected_cuts,
    threshold_scores,
)
from sklearn_sparsemap.estimators._scales import column_scales, warn_of_scales

# factors
# features
# graphs
from sklearn_sparsemap.graphs.matchings import matching_multipliers_range

# inference
from sklearn_sparsemap.inference._decisions import decisions_of
from sklearn_sparsemap.inference._labels import Forest, LabelGraph, OneLabel, forest_of, n_best_in_forest
from sklearn_sparsemap.inference._problems import lay_out, raise_masks
from sklearn_sparsemap.inference._sampling import draw_structures
from sklearn_sparsemap.losses._graphs import (
    FORBIDDEN,
    ROUGH,
    GraphProblems,
    as_graph_problems,
    gold_parts,
    graph_losses,
    learned_shapes,
)

# losses
# numerics
from sklearn_sparsemap.numerics.cholesky import append_column, remove_column, solve_constrained, solve_lower
from sklearn_sparsemap.numerics.face import Direction, complete_face
from sklearn_sparsemap.numerics.loops import Problems, active_set, away_step, pairwise
from sklearn_sparsemap.numerics.solver import BY_FACETS, BY_STRUCTURES, GAVE_UP, INFEASIBLE
from sklearn_sparsemap.numerics.threshold import threshold
from sklearn_sparsemap.numerics.tight_face import project_on_tight_face, tight_face

# penalties
from sklearn_sparsemap.penalties._budget import budget_rule, disjoint_budget_rule
from sklearn_sparsemap.penalties._shrink import power_of_two, shrink_atoms

# plotting
# structures
from sklearn_sparsemap.structures._chain.flow.choice import _spread_of_paths, max_marginals
from sklearn_sparsemap.structures._chain.flow.solver import (
    grow,
    into,
    link,
    new_chain,
    new_forest,
    new_prices,
    out_of,
    price_of,
    settle,
    switch_on,
)
from sklearn_sparsemap.structures._pool import Pool
from sklearn_sparsemap.structures._tree.cuts import (
    HIDES_TIES,
    add_set,
    certify_rows,
    evaluate,
    fill_rows,
    minimum_cuts,
    new_cuts,
    new_rows,
    sparsemax,
)
from sklearn_sparsemap.testing._check import Case, check_marginals

# testing
from sklearn_sparsemap.training import _columns as training_columns

# training
from sklearn_sparsemap.training._bundle import minimize_bundle, simplex_qp
from sklearn_sparsemap.training._columns import Columns, Merging, number_columns
from sklearn_sparsemap.training._graph_task import SolutionMemory
from sklearn_sparsemap.training._label_task import LabelTask, label_losses, partly_known_losses
from sklearn_sparsemap.training._lbfgs import minimize_lbfgs
from sklearn_sparsemap.training._minibatch import Adam, LinearMinibatchOptimizer, MinibatchOptimizer
from sklearn_sparsemap.training._objective import BatchObjective
from sklearn_sparsemap.training._online import optimizer as online_optimizer
from sklearn_sparsemap.training._online.groups import COUNT, GRADIENT_STEPS, Course, GroupOptimizer, highest_of
from sklearn_sparsemap.training._online.optimizer import (
    TOP,
    LinearModel,
    MiraOptimizer,
    OnlineOptimizer,
    begins_of_pieces,
    make_rows,
    squared_norm,
)
from sklearn_sparsemap.training._partial_task import PartialTask
from sklearn_sparsemap.training._products import PIECE, DenseFeatures, Pieces, SparseFeatures
from sklearn_sparsemap.training._quasi_newton.descent import Descent, LineSearch, Pairs
from sklearn_sparsemap.training._structure_task import UNKNOWN, StructureTask, inference_of, loss_form, new_memory

LAZY = {
    "Derivations": "sklearn_sparsemap.structures._hypergraph.tensors:Derivations",
    "_states": "sklearn_sparsemap.torch._states:_states",
    "jax_states": "sklearn_sparsemap.jax._states",
    "layers_register": "sklearn_sparsemap._layers.register",
    "native": "sklearn_sparsemap.torch._native",
    "operator_of": "sklearn_sparsemap._layers.register:operator_of",
    "torch_ops": "sklearn_sparsemap.torch._ops",
    "TensorBatch": "sklearn_sparsemap.torch._native:TensorBatch",
}


def __getattr__(name):
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return pkgutil.resolve_name(LAZY[name])


def replace(patch, room, name, value):
    """Replace a limit or a function wherever the modules of a room name it; return the old one.

    A test that lowers a limit so that small data exceed it need not know the module that holds it.
    """
    inside = f"sklearn_sparsemap.{room}"
    modules = [
        module
        for path, module in list(sys.modules.items())
        if (path == inside or path.startswith(f"{inside}.")) and name in vars(module)
    ]
    assert modules, f"no module of {room} that is imported has the name {name}"
    old = vars(modules[0])[name]
    for module in modules:
        patch.setattr(module, name, value)
    return old
