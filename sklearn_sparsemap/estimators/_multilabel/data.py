"""Training samples of label sets: their checks, the label graph, and their folds.

Used by most files here.
"""

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..._core.blocks import blocks, dense
from ..._core.folds import row_words
from ..._core.indicators import as_indicator, in_order, label_sets, names_in
from ..._core.ordering import sorted_set
from ..._core.ragged import RaggedArray, ragged_of_checked
from ..._core.tables import column_names, rows_of
from ..._core.validation import check_magnitude, check_matrix, first_of, is_missing, keep_text, name_array
from ...factors._hierarchy import Hierarchy, close_upwards
from ...factors._label_constraints import LabelConstraint, _index_of
from ...inference._labels import LabelGraph, OneLabel
from .._failures import warn_user
from .._structured.data import check_target, encode_labels, given_classes, label_array, sorted_labels
from .coherence import implications

_SEVERAL_LABELS = "pass an indicator matrix of 0 and 1, or a set of names for each sample"

# Maximum number of labels for a full label graph; beyond it, number of pairs for each label, those with the highest
# mutual information. Mini-batches make the scores of all pairs nonzero, so inference would get slower with each epoch.
_MAX_WHOLE, _PAIRS_PER_LABEL = 200, 3
# Number of pairs of labels in a block of mutual information, whose temporary arrays fit into the processor's cache.
_CELLS_OF_PAIRS = 2**16
# Smallest and largest number of folds, and number of samples times folds. More folds take longer, and their models are
# closer to the final one. Ten folds gain little more than five.
_MIN_FOLDS, _MAX_FOLDS, _SAMPLES_BY_FOLDS = 3, 5, 2500
# Largest difference of the projections of samples with equal features, relative to the largest projection. Rounding in
# preprocessing by matrix products causes differences of 1e-15.
_SAME = 1e-9


def validate_samples(estimator, X, y, *, reset, classes=None, partial=False, has_unknown=False):
    """Check training samples.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
    X, y
        As in its `fit`.
    reset : bool
        Whether a new model begins. Otherwise the samples must agree with the fitted labels and features.
    classes : sequence, default=None
        The argument of `fit` or `partial_fit`, or the names of the columns.
    partial : bool, default=False
        Whether `partial_fit` was called.
    has_unknown : bool, default=False
        Whether some entries of `y` were NaN, so that a single column is an indicator matrix.

    Returns
    -------
    X : RaggedArray
    gold : CSR of shape (n_samples, n_labels)
    classes : array of shape (n_labels,)
    single : bool
        Whether y has one label for each sample.
    """
    is_table = not isinstance(y, np.ndarray) and column_names(y) is not None
    if isinstance(X, RaggedArray):
        raise ValueError("X is a RaggedArray; multilabel problems have one row of features a sample, a 2-D array")
    check_target(y, _SEVERAL_LABELS)
    checks = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "multi_output": True}
    X, y = validate_data(estimator, check_matrix(X), keep_text(y), reset=reset, **checks)
    X = ragged_of_checked(X, np.arange(X.shape[0] + 1))
    check_magnitude(X)
    fitted = None if reset else estimator.classes_
    is_indicator = (not partial and classes is not None) or estimator.constraints or is_table
    is_indicator = is_indicator or has_unknown or (fitted is not None and not estimator._single)
    if y.ndim == 2 and y.shape[1] == 1 and not sparse.issparse(y) and not is_indicator:
        # scikit-learn reads a single column as labels. Here it is, unless something says that it is an indicator.
        y = column_or_1d(y, warn=True)
    single = y.ndim == 1
    if fitted is not None and single != estimator._single:
        was = "1-D" if estimator._single else "an indicator matrix"
        raise ValueError(f"y was {was} in the first call; got y of shape {y.shape}")
    if not single:
        gold = read_indicator(y)
        return X, gold, read_names(classes, gold.shape[1], estimator.constraints, fitted), single
    check_classification_targets(y)
    if classes is not None and not partial:
        raise ValueError("classes name the columns of an indicator matrix; leave classes at None for a 1-D y")
    classes = given_classes(classes, fitted) if partial else np.unique(y)
    codes = encode_labels(y.tolist(), classes, np.arange(len(y) + 1))
    gold = sparse.csr_array((np.ones(len(y)), codes, np.arange(len(y) + 1)), shape=(len(y), len(classes)))
    return X, gold, classes, single


def make_label_graph(estimator, classes, single, gold, weights):
    """Return the label graph of a new model, by the parameters `label_graph`, `constraints` and `loss`."""
    constraints = [] if estimator.constraints is None else read_constraints(estimator.constraints, classes)
    if single:
        if constraints:
            raise ValueError("constraints are for indicator matrices; a 1-D y has exactly one label a sample")
        return OneLabel(len(classes))
    edges = np.zeros((0, 2), np.int64)
    if estimator.label_graph is not None:
        edges = read_edges(estimator.label_graph, classes, gold, weights, loops=estimator.loss != "hinge")
    graph = LabelGraph(len(classes), edges[:0] if estimator.loss == "logistic" else edges, constraints)
    if constraints:
        graph.check_feasible()
    return graph


def read_indicator(Y):
    """Return an indicator matrix as CSR of float64.

    Raises
    ------
    ValueError
        If an entry is neither 0 nor 1; the message names the first one.
    """
    if Y.dtype == object or Y.dtype.kind in "US":
        raise ValueError(
            f"Y is a 2-D array of {Y.dtype}; it must be an indicator matrix of 0 and 1, as "
            "sklearn.preprocessing.MultiLabelBinarizer makes it"
        )
    matrix = sparse.csr_array(Y, dtype=np.float64)
    if sparse.issparse(Y) and not (matrix.has_canonical_format and matrix.data.all()):
        # The arrays belong to the user.
        matrix = matrix.copy()
    matrix.sum_duplicates()
    wrong = np.flatnonzero((matrix.data != 0.0) & (matrix.data != 1.0))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right") - 1)
        raise ValueError(
            f"Y[{row}, {matrix.indices[wrong[0]]}] is {matrix.data[wrong[0]]:g}; an indicator matrix holds 0 and 1 "
            "only; if numbers are names of labels, pass a set of them for each sample"
        )
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def order_of_samples(X, gold, known=None):
    """Return an order of samples that depends on their content only, and on their last digits hardly at all.

    Samples are sorted by a random projection of their features. A change of the last digits of `X` swaps neighbours at
    most. Samples with equal features are neighbours, in an order given by their labels, so that assigning them
    to folds in turn spreads them over the folds.

    Parameters
    ----------
    X : array or CSR of shape (n_samples, n_features)
    gold : CSR of shape (n_samples, n_labels)
    known : bool array of shape (n_samples, n_labels), default=None

    Returns
    -------
    order : int array of shape (n_samples,)
    """
    values = X @ np.random.default_rng(0).normal(size=X.shape[1])
    words = row_words(gold)
    if known is not None:
        words += np.uint64(5) * row_words(known)
    order = np.argsort(values, kind="stable")
    is_next = np.diff(values[order], prepend=-np.inf) > _SAME * np.abs(values).max(initial=0.0)
    group = np.empty(len(order), np.uint64)
    group[order] = np.cumsum(is_next)
    # Each group has an order of labels of its own. With the same one, and as many samples in each group as folds, each
    # fold would hold out other labels.
    words += (group + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.lexsort((values, words ^ (words >> np.uint64(27)), group))


def folds_of(positions, max_folds=_MAX_FOLDS):
    """Assign samples to folds in turn: list of (train, held), empty if there are too few.

    There are at most `max_folds` folds: by default five for up to 500 samples, and three for more than 625.

    Parameters
    ----------
    positions : int array of shape (n_samples,)
        Position of each sample in the order in which they are assigned.
    max_folds : int
    """
    n_samples = len(positions)
    if n_samples < 2 * _MIN_FOLDS:
        return []
    n_folds = min(max_folds, max(_SAMPLES_BY_FOLDS // n_samples, _MIN_FOLDS), n_samples // 2)
    fold = positions % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def in_folds(X, task, *max_folds):
    """Order the samples of positive weight at random, and assign them to folds; return X, the task, the folds.

    The random order depends on the content of the samples only. The optional last argument is the maximum number of
    folds.
    """
    rows = np.flatnonzero(task.weights > 0.0)
    known = None if task.known is None else task.known[rows]
    order = order_of_samples(X.values[rows], task.gold[rows], known)
    positions = np.random.default_rng(0).permutation(len(rows))
    rows = rows[order[positions]]
    return X[rows], task.take(rows), folds_of(positions, *max_folds)


def strata_of(gold, n_held):
    """Return the labels of samples, one each, if samples of which `n_held` are held out can be stratified, else None.

    Parameters
    ----------
    gold : CSR of shape (n_samples, n_labels)
    n_held : int
    """
    counts = np.bincount(gold.indices, minlength=gold.shape[1])
    n_present = (counts > 0).sum()
    can_stratify = counts[counts > 0].min() > 1 and n_present <= min(n_held, gold.shape[0] - n_held)
    return gold.indices if can_stratify else None


def begin_names(Y, classes, constraints=None, partial=False):
    """Return an indicator matrix in the order of the labels of a new model, these labels, and whether `Y` held names.

    The labels are `classes`; by default the names of the columns, or for collections the sorted names. They are None
    for a matrix without names. The parameters are those of `validate_samples` and of the estimator.
    """
    if isinstance(classes, list | tuple) and classes and all(np.array_equal(own, [0, 1]) for own in classes):
        # The classes of each label, as scikit-learn's MultiOutputClassifier takes them.
        raise ValueError("classes are the names of the labels, not the two values of each; leave classes out")
    samples = label_sets(Y)
    if samples is not None:
        if classes is None and partial:
            raise ValueError("classes must be given at the first call of partial_fit: all labels that will occur")
        if classes is None or isinstance(classes, set):
            # A set, of all names in the partitions of data, has no order.
            classes = _sorted_names(
                names_in(samples) if classes is None else dict.fromkeys(sorted_set(classes)), constraints
            )
        return as_indicator(samples, classes), classes, True
    names = None if isinstance(Y, np.ndarray) else column_names(Y)
    if names is None:
        return Y, classes, False
    if classes is not None:
        return in_order(Y, classes), classes, False
    return Y, None if names == list(range(len(names))) else label_array(names), False


def _sorted_names(names, constraints):
    """Return names, a dict of them, sorted, with those of hierarchies; or the labels of a hierarchy of paths."""
    for constraint in constraints if isinstance(constraints, list | tuple) else [constraints]:
        if isinstance(constraint, Hierarchy) and constraint.paths:
            return label_array(constraint.labels)
        if isinstance(constraint, Hierarchy) and constraint.is_named:
            names.update(dict.fromkeys(constraint.labels))
    if not names:
        raise ValueError("y has no labels, because all of its collections are empty; give some samples a label")
    return sorted_labels(names)


def read_names(classes, n_labels, constraints, fitted):
    """Return the labels' names: `classes`, those of a `Hierarchy` from edges, or the indices.

    `fitted` are the names of a fitted model, from which they must not differ, or None.
    """
    if fitted is not None and n_labels != len(fitted):
        raise ValueError(f"y has {n_labels} labels, but the model was fitted with {len(fitted)}")
    if classes is None and fitted is not None:
        return fitted
    if classes is None and constraints is not None:
        classes = names_in_edges(constraints, n_labels)
    if classes is None:
        return np.arange(n_labels)
    if any(name is None or is_missing(name) for name in classes):
        raise ValueError("a label has no name (None or NaN); name each column of Y")
    names = name_array(classes)
    if names.ndim != 1 or len(names) != n_labels:
        raise ValueError(f"there are {n_labels} labels, but names of shape {names.shape}; name each column of Y")
    if len(set(names.tolist())) < n_labels:
        raise ValueError("two labels have the same name; names must differ")
    if fitted is not None and names.tolist() != fitted.tolist():
        raise ValueError("classes differ from those of the first call; fit a clone")
    return names


def names_in_edges(constraints, n_labels):
    """Return the names of all labels in a `Hierarchy` from edges; None if there is none."""
    for constraint in constraints if isinstance(constraints, list | tuple) else [constraints]:
        if isinstance(constraint, Hierarchy) and constraint.is_named and len(constraint.labels) == n_labels:
            return constraint.labels
    return None


def read_constraints(constraints, names):
    """Return constraints with their resolved form: list of (LabelConstraint, (indices, signs, low, high))."""
    if constraints is None:
        return []
    if isinstance(constraints, LabelConstraint):
        constraints = [constraints]
    if isinstance(constraints, str | dict) or not isinstance(constraints, Iterable):
        raise ValueError(f"constraints must be a list such as [AtMost(3)]; got {constraints!r}")
    constraints = list(constraints)
    for constraint in constraints:
        if not isinstance(constraint, LabelConstraint):
            raise ValueError(
                f"{constraint!r} is no constraint on labels; there are AtMost, AtLeast, Exactly, Exclusive, Implies "
                "and Hierarchy in sklearn_sparsemap.factors"
            )
    names = names.tolist()
    return [(constraint, bounds) for constraint in constraints for bounds in constraint.resolve_all(names)]


def read_edges(label_graph, names, Y, weights, loops=True):
    """Return the edges of the label graph: int array of shape (n_edges, 2), the smaller index first.

    Without `loops` a full graph of many labels becomes a tree, whose relaxation of MAP is integral.
    """
    n = len(names)
    if isinstance(label_graph, str):
        if label_graph == "full" and n <= _MAX_WHOLE:
            return np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64)
        if label_graph == "full" and loops:
            return strongest_pairs(Y, weights, _PAIRS_PER_LABEL * n)
        if label_graph in ("full", "tree"):
            return mutual_information_tree(Y, weights)
        raise ValueError(f"label_graph={label_graph!r} is not one of 'full', 'tree', None, or an array of label pairs")
    if column_names(label_graph, "label_graph") is not None:
        # Python iterates tables by columns.
        label_graph = rows_of(label_graph)
    try:
        pairs = [tuple(pair) for pair in label_graph]
    except TypeError as error:
        raise ValueError(f"label_graph must be 'full', 'tree', None or a list of label pairs: {error}") from error
    edges = np.zeros((len(pairs), 2), np.int64)
    known = names.tolist()
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"label_graph[{number}] is {pair!r}; an edge is a pair of labels")
        pair = [label.item() if isinstance(label, np.generic) else label for label in pair]
        edges[number] = sorted(_index_of(label, known, f"label_graph[{number}]") for label in pair)
        if edges[number, 0] == edges[number, 1]:
            raise ValueError(f"label_graph[{number}] joins the label {pair[0]!r} with itself")
    values, counts = np.unique(edges, axis=0, return_counts=True)
    if len(edges) and counts.max() > 1:
        twice = [known[i] for i in values[counts.argmax()]]
        raise ValueError(f"label_graph has the pair {twice} more than once; each pair has one score")
    return edges


def informative_pairs(Y, weights):
    """Compute the mutual information of all pairs of labels, in blocks.

    Parameters
    ----------
    Y : CSR of shape (n_samples, n_labels)
    weights : array of shape (n_samples,)

    Yields
    ------
    firsts, seconds : int arrays of shape (n_pairs,)
        Pairs of labels whose mutual information is positive, in order.
    information : array of shape (n_pairs,)
    """
    n = Y.shape[1]
    total = weights.sum()
    by_label = sparse.csr_array(Y.T)
    weighted = sparse.csr_array(Y.multiply(weights[:, None]))
    single = weights @ Y / total
    for rows in blocks(n, n, _CELLS_OF_PAIRS):
        both = np.asarray((by_label[rows] @ weighted).todense())[:, rows.start :] / total
        p, q = single[rows, None], single[None, rows.start :]
        first_only, second_only = p - both, q - both
        information = np.zeros_like(both)
        for joint, independent in (
            (both, p * q),
            (first_only, p * (1.0 - q)),
            (second_only, (1.0 - p) * q),
            (1.0 - both - first_only - second_only, (1.0 - p) * (1.0 - q)),
        ):
            joint = np.maximum(joint, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                information += np.where(joint > 0.0, joint * np.log(joint / independent), 0.0)
        # Rounding gives independent labels a tiny mutual information.
        firsts, seconds = np.nonzero(np.triu(information >= 1e-12, 1))
        yield firsts + rows.start, seconds + rows.start, information[firsts, seconds]


def strongest_pairs(Y, weights, most):
    """Return the `most` pairs of labels with the highest mutual information: int array, in lexicographic order."""
    pairs = np.zeros((0, 2), np.int64)
    values = np.zeros(0)
    for firsts, seconds, information in informative_pairs(Y, weights):
        pairs = np.concatenate([pairs, np.stack([firsts, seconds], axis=1)])
        values = np.concatenate([values, information])
        order = np.argsort(-values, kind="stable")[:most]
        pairs, values = pairs[order], values[order]
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def mutual_information_tree(Y, weights):
    """Return the spanning tree of labels with the highest mutual information (Chow and Liu).

    It is a forest if some labels are independent of all others. The parameters are those of `informative_pairs`.
    """
    firsts, seconds, information = map(np.concatenate, zip(*informative_pairs(Y, weights)))
    graph = sparse.csr_array((-information, (firsts, seconds)), shape=(Y.shape[1], Y.shape[1]))
    tree = minimum_spanning_tree(graph).tocoo()
    return np.sort(np.stack([tree.row, tree.col], axis=1).astype(np.int64), axis=1)[np.lexsort((tree.col, tree.row))]


def add_ancestors(gold, constraints, known=None):
    """Add the ancestors of gold labels in hierarchies.

    Parameters
    ----------
    gold : array or CSR of shape (n_samples, n_labels)
    constraints : list
        As `read_constraints` returns.
    known : bool array of shape (n_samples, n_labels), default=None

    Returns
    -------
    gold
    known
        An ancestor of a label that is on is known.
    """
    pairs = implications([each for each in constraints if isinstance(each[0], Hierarchy)])
    if not pairs:
        return gold, known
    gold = close_upwards(gold, pairs)
    return gold, None if known is None else known | (dense(gold) > 0.0)


def _count_violations(graph, gold):
    """List the constraints that label sets violate, with numbers of samples, for a message."""
    counts = {}
    for pair in graph.constraints:
        n = int(LabelGraph(graph.n_labels, graph.edges[:0], [pair]).violated(gold).sum())
        counts[repr(pair[0])] = counts.get(repr(pair[0]), 0) + n
    shown = [f"{name} ({n})" for name, n in sorted(counts.items(), key=lambda item: -item[1]) if n]
    return f": {first_of(shown)}"


def leave_out_violations(graph, X, gold, weights, known=None, partial=False):
    """Drop the samples whose labels violate a constraint, with a warning.

    Samples with unknown labels are dropped if no completion satisfies all constraints.

    Returns
    -------
    X, gold, weights, known
        Those of the remaining samples.
    n_violations : int
    """
    wrong = graph.violated(gold) if known is None else graph.forest.contradicted(dense(gold) > 0.5, known)
    n = int(wrong.sum())
    if not n:
        return X, gold, weights, known, 0
    if not partial and not weights[~wrong].any():
        raise ValueError(f"the labels of every sample violate the constraints {[c for c, _ in graph.constraints]}")
    counts = _count_violations(graph, gold[np.flatnonzero(wrong)]) if known is None else ""
    warn_user(
        f"the labels of {n} of {len(wrong)} samples violate the constraints and are left out of training (rows "
        f"{first_of(np.flatnonzero(wrong))}){counts}; correct these labels, or weaken the constraints"
    )
    kept = np.flatnonzero(~wrong)
    return X[kept], gold[kept], weights[kept], None if known is None else known[kept], n
