"""Private names that tests know, each with the reason, by room.

A test goes through public names if it can. Otherwise it imports the private name from here, so that a module that
moves changes one line. `replace` lowers a limit, or watches a function, wherever it stands.
"""

import pkgutil
import sys

# --- _core
# All entries, the time of compilation, and the attributes that tests of the cache and of signals change.
import sklearn_sparsemap._core.jit as jit

# Tests make kernels: of lanes, in which they call other kernels, and for other processes.
from sklearn_sparsemap._core.jit import FLOATS, FLOATS_2D_OUT, FLOATS_OUT, INTS, INTS_2D, ORACLE, PARTS, entry, kernel

# Code on disk: the plain mode, the digest of sources, and the size from which the time of compilation is estimated.
from sklearn_sparsemap._core.jit import IS_LINKED, Entry, size_of
from sklearn_sparsemap._core.compile.sources import digest_of

# Read-only arrays are a type of their own, which entries take; oracles of a user's structure are made by `as_oracle`.
from sklearn_sparsemap._core.jit import as_oracle, copy_into, readonly

# The environment variables that change how kernels run, and the versions of Numba in the workflows.
import sklearn_sparsemap._core.compile.mode as mode
from sklearn_sparsemap._core.compile.mode import TESTED_VERSIONS

# Vectors of the processor against NumPy.
import sklearn_sparsemap._core.lanes as lanes
from sklearn_sparsemap._core.lanes import WIDTH, larger, largest, load, pick, spread, store, total

# Time limits of kernels, and work that threads share.
import sklearn_sparsemap._core.threads as threads
from sklearn_sparsemap._core.threads import ends_at, over_ranges

# The parts that the command `sklearn_sparsemap.compile` compiles must be all that there are.
import sklearn_sparsemap._compile_ahead as compile_ahead

# --- _numerics
# Solvers that start at given structures, and problems as kernels take them.
from sklearn_sparsemap._numerics.loops import Problems, active_set, away_step, pairwise

# Factorisations against NumPy's.
from sklearn_sparsemap._numerics.cholesky import append_column, remove_column, solve_constrained, solve_lower

# The face of a solution: the derivatives of facets are compared with those of its vertices.
from sklearn_sparsemap._numerics.face import Direction, complete_face

# Projections onto the equations of a face, against a dense projector.
from sklearn_sparsemap._numerics.tight_face import project_on_tight_face, tight_face

# The root of a piecewise linear function, against bisection.
from sklearn_sparsemap._numerics.threshold import threshold

# --- structures
# Kernels of chains, against dense twins.
from sklearn_sparsemap.structures._chain.flow.forest import link, switch_on
from sklearn_sparsemap.structures._chain.flow.solver import (
    all_states,
    grow,
    into,
    new_chain,
    new_forest,
    new_prices,
    out_of,
    price_backward,
    price_forward,
    price_of,
    solve_forest,
)

# Kernels of trees, against enumerations: cuts, the bound of their multipliers, and the statuses of solvers.
from sklearn_sparsemap.structures._tree.cuts import (
    BY_FACETS,
    GAVE_UP,
    HIDES_TIES,
    INFEASIBLE,
    add_set,
    certify_rows,
    evaluate,
    fill_rows,
    minimum_cuts,
    new_cuts,
    new_rows,
    sparsemax,
)

# The structure of a user's program whose solutions are known.
from sklearn_sparsemap.structures._pool import Pool

# --- _graphs
# Newton's method of a graph starts from these multipliers, whose conditions are checked.
from sklearn_sparsemap._graphs.matchings import matching_multipliers_range

# --- penalties
# Proximal operators of overlapping groups, against quadratic programs.
from sklearn_sparsemap.penalties._budget import budget_rule, disjoint_budget_rule
from sklearn_sparsemap.penalties._budget import disjoint_budget_factors, group_budget_factors
from sklearn_sparsemap.penalties._shrink import _gap as gap_of_overlapping
from sklearn_sparsemap.penalties._shrink import power_of_two, shrink_atoms

# --- inference
# Gibbs samples of one problem, which estimators draw, by the thousand; and levels of masks.
from sklearn_sparsemap.inference._problems import batch_of, rescale_masks
from sklearn_sparsemap.inference._sampling import draw_structures

# The search in training, against the relaxation and the best assignment.
import sklearn_sparsemap.inference._graph.map as graph_map
from sklearn_sparsemap.inference._graph.map import best_or_relaxed, relax

# Label sets and forests of labels, against lp_sparsemap and enumeration.
from sklearn_sparsemap.inference._labels import Forest, LabelGraph, OneLabel, forest_of, n_best_in_forest

# --- losses
# Losses of graphs that are known roughly, or start from a solution, as in mini-batches.
from sklearn_sparsemap.losses._graphs import (
    FORBIDDEN,
    ROUGH,
    as_graph_problems,
    gold_parts,
    graph_losses,
    learned_shapes,
)

# --- _training
# Objectives and optimisers alone, against plain implementations, scipy and finite differences.
from sklearn_sparsemap._training._bundle import minimize_bundle, simplex_qp
from sklearn_sparsemap._training._quasi_newton.descent import CurvaturePairs, Descent, LineSearch, minimize_lbfgs
from sklearn_sparsemap._training._objective import PIECE, BatchObjective, DenseFeatures, SparseFeatures
from sklearn_sparsemap._training._minibatch import Adam, LinearMinibatchOptimizer, MinibatchOptimizer
import sklearn_sparsemap._training._online.optimizer as online_optimizer
from sklearn_sparsemap._training._online.optimizer import (
    FRONT,
    TOP,
    LinearModel,
    MiraOptimizer,
    OnlineOptimizer,
    begins_of_pieces,
    make_rows,
    squared_norm,
)
from sklearn_sparsemap._training._online.groups import COUNT, GRADIENT_STEPS, GroupOptimizer
from sklearn_sparsemap._training._curve import BoundedCurve, highest_of, mean_of

# Samples as optimisers see them: parts of a task, partly known ones, and solutions that are kept for the next epoch.
from sklearn_sparsemap._training._structure_task import UNKNOWN, StructureTask, Inference, loss_form, new_memory
from sklearn_sparsemap._training._partial_task import PartialTask
from sklearn_sparsemap._training._label_task import LabelTask, label_losses, partly_known_losses
from sklearn_sparsemap._training._graph_task import GraphTask, SolutionMemory

# Flat trees, against the predictions of scikit-learn's.
from sklearn_sparsemap._training._trees import RegressorsModel, TreesModel, own_tree, trees_of

# Equal columns, against a dict of columns.
import sklearn_sparsemap._training._columns as training_columns
from sklearn_sparsemap._training._columns import DuplicateColumns, find_scaled_duplicates, number_columns

# --- estimators
# Parts of a fit of label sets, against slow twins: edges, folds, curves, thresholds, and the choice of a model.
from sklearn_sparsemap.estimators._multilabel.data import (
    folds_of,
    mutual_information_tree,
    order_of_samples,
    read_constraints,
    read_edges,
    read_indicator,
    row_words,
    strongest_pairs,
)
from sklearn_sparsemap.estimators._multilabel.calibration import (
    Calibration,
    _fit_curves,
    _softmax_slope,
)
from sklearn_sparsemap.estimators._multilabel.decisions import (
    GRID,
    SET_GRID,
    ObservedLabelSets,
    Tuning,
    expected_cuts,
    threshold_scores,
)

# The comparison of score models of label sets, with given losses.
import sklearn_sparsemap.estimators._multilabel.comparison as multilabel_comparison
import sklearn_sparsemap.estimators._multilabel.trials as multilabel_trials
import sklearn_sparsemap._training._trees as boosting_trees

# A classifier as a score model: its objective against differences, and its learner against SciPy's optimisers.
from sklearn_sparsemap.estimators._learners.out_of_fold import (
    ClassifierModel,
    OutOfFoldLearner,
    ScaleObjective,
    fit_out_of_fold,
)

# The strength of a penalty, alone: variances, the vertex of a parabola through losses, and the choice; and what counts
# as a clear gain or decrease of held-out losses.
from sklearn_sparsemap.estimators._strengths import (
    choose_strength,
    is_clear_gain,
    last_decrease,
    minimum_of_curve,
    nearest_to_usual,
    rows_per_column,
    total_variance,
    try_strengths,
)

# Boosting of any task, against a plain loop.
import sklearn_sparsemap.estimators._learners.boosting as boosting
from sklearn_sparsemap.estimators._learners.boosting import Booster, BoostingLearner, HeldOutRounds, folds_of_samples

# The scale of columns, of which 2^31 - 1 take no memory.
from sklearn_sparsemap.estimators._structured.groups import column_scales, warn_of_scales

# --- datasets
# Lines in blocks of any size, which parsers would hide.
import sklearn_sparsemap.datasets._lines as datasets_lines

# --- testing
# Checks of marginals that `check_structure` makes for structures that are too large to list.
from sklearn_sparsemap.testing._check import Case, check_marginals

# --- Imported if a test asks for them, because they need PyTorch or JAX.
LAZY = {
    # Samples that are left to the compiled solver, and the batches that structures get.
    "native": "sklearn_sparsemap.torch._native",
    "TensorBatch": "sklearn_sparsemap.torch._native:TensorBatch",
    # The oracle of a round of the active set, whose reads from the device are counted.
    "Derivations": "sklearn_sparsemap.structures._hypergraph.tensors:Derivations",
    # Operators, which PyTorch itself checks, and solutions that are kept for derivatives.
    "torch_ops": "sklearn_sparsemap.torch._ops",
    "operator_of": "sklearn_sparsemap._layers.register:operator_of",
    "layers_register": "sklearn_sparsemap._layers.register",
    "_states": "sklearn_sparsemap.torch._states:_states",
    "jax_states": "sklearn_sparsemap.jax._states",
}


def __getattr__(name):
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return pkgutil.resolve_name(LAZY[name])


def with_modules(code):
    """Return code for another process: `{jit}` and the like become the names of private modules."""
    for module in (jit, lanes, mode, threads, compile_ahead):
        placeholder = module.__name__.rpartition(".")[2].lstrip("_")
        code = code.replace(f"{{{placeholder}}}", module.__name__)
    return code


def modules_with(room, name):
    """Return the imported modules of a room that have a name."""
    inside = f"sklearn_sparsemap.{room}"
    modules = [
        module
        for path, module in list(sys.modules.items())
        if (path == inside or path.startswith(f"{inside}.")) and name in vars(module)
    ]
    assert modules, f"no module of {room} that is imported has the name {name}"
    return modules


def replace(patch, room, name, value):
    """Replace a limit or a function wherever the modules of a room name it; return the old one.

    A test that lowers a limit so that small data exceed it need not know the module that holds it.
    """
    modules = modules_with(room, name)
    old = vars(modules[0])[name]
    for module in modules:
        patch.setattr(module, name, value)
    return old


_COHERENCE = vars(modules_with("estimators", "make_coherent")[0])
implications, make_coherent = _COHERENCE["implications"], _COHERENCE["make_coherent"]
LBFGSLearner = vars(modules_with("estimators", "LBFGSLearner")[0])["LBFGSLearner"]
NetworkModel = vars(modules_with("_training", "NetworkModel")[0])["NetworkModel"]

# The classes whose objects files may hold.
NAMES_IN_FILES = vars(modules_with("_core", "_NAMES")[0])["_NAMES"]

# Names in an order, against a search one by one.
aligned, as_mapping, by_samples, order_by = (
    modules_with("_core", name)[0].__dict__[name] for name in ("aligned", "as_mapping", "by_samples", "order_by")
)
