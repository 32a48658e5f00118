"""Boosted regression trees, and other boosted regressors, that compute scores.

All trees of a model are joined in flat arrays, so that a compiled loop visits them, without a call of Python for each.

Used by `estimators`.
"""

from collections import namedtuple

import numpy as np
from numba import types
from scipy import sparse

from .._core.jit import FLOATS, FLOATS_2D, FLOATS_2D_OUT, FLOATS_32, INTS, PARTS, by_address, entry, readonly
from .._core.threads import over_ranges
from .._numerics.cholesky import add_scaled
from .score_models import ScoreModel

# Trees in flat arrays. Node i asks whether column feature[i] of a row is at most threshold[i]. If so, the next node is
# children[2 i], otherwise children[2 i + 1]. A leaf has -1 in place of a column, and children[2 i] is its row of
# `values`. Tree t begins at node roots[t].
Trees = namedtuple("Trees", ["feature", "threshold", "children", "values", "roots"])
TREES = by_address([PARTS, FLOATS, PARTS, FLOATS_2D, INTS], Trees)

# Maximum number of cells of a block of rows, features and scores together, so that it stays in the processor's cache.
_CELLS = 2**16
# Cost of a step from a node to its child, in units of an addition, and number of additions in a call on one thread.
_STEP, _COST_PER_CALL = 8, 2**22


@entry(types.void(TREES, FLOATS_32, FLOATS_2D_OUT))
def _add_values(trees, x, out):
    """Add the values of all trees to the scores of rows.

    Parameters
    ----------
    trees : Trees
    x : float32 array of shape (n_rows * n_columns,)
        The columns to which `trees.feature` refers.
    out : array of shape (n_rows, n_outputs)
    """
    n_rows = out.shape[0]
    width = x.shape[0] // max(n_rows, 1)
    for t in range(trees.roots.shape[0]):
        root = trees.roots[t]
        for i in range(n_rows):
            own = x[i * width : (i + 1) * width]
            node = root
            # Unsigned indices tell Numba that they are not negative.
            while trees.feature[np.uint64(node)] >= 0:
                is_above = (
                    not np.float64(own[np.uint64(trees.feature[np.uint64(node)])]) <= trees.threshold[np.uint64(node)]
                )
                node = np.int64(trees.children[np.uint64(2 * node + is_above)])
            add_scaled(out[i], 1.0, trees.values[trees.children[np.uint64(2 * node)]])


class TreesModel(ScoreModel):
    """Sums of regression trees with several outputs.

    The scores of a row are `base` plus the values of the leaf that it reaches in each tree, added in the order of the
    trees. As in scikit-learn, features are rounded to float32 before they are compared.

    Parameters
    ----------
    feature : int32 array of shape (n_nodes,)
        The column that each node compares; -1 for leaves.
    threshold : array of shape (n_nodes,)
    children : int32 array of shape (n_nodes, 2)
        The next node of rows whose value is at most the threshold, and of the other rows. Children come after their
        parents. The first entry of a leaf is its row of `values`.
    values : array of shape (n_leaves, n_outputs)
        Values of the leaves, multiplied by the learning rate.
    roots : int array of shape (n_trees,)
        The first node of each tree.
    base : array of shape (n_outputs,)
    additional : array of shape (n_additional,)
    n_features : int

    Raises
    ------
    ValueError
        If the arrays do not describe trees. Files may be damaged, and kernels follow these indices.
    """

    def __init__(self, feature, threshold, children, values, roots, base, additional, n_features):
        self.feature, self.threshold, self.children, self.values = feature, threshold, children, values
        self.roots, self.base, self.additional, self.n_features = roots, base, additional, n_features
        self.check()

    @classmethod
    def sum_of(cls, parts, base, additional, n_features):
        """Return a model with the trees of other models, or with single trees, each an `OwnTree`."""
        n_nodes = np.cumsum([0, *(len(part.feature) for part in parts)])
        n_leaves = np.cumsum([0, *(len(part.values) for part in parts)])
        children = [
            part.children + np.where(part.feature[:, None] < 0, leaf, node)
            for part, node, leaf in zip(parts, n_nodes[:-1], n_leaves[:-1])
        ]
        roots = [part.roots + node for part, node in zip(parts, n_nodes[:-1])]
        return cls(
            np.concatenate([np.zeros(0, np.int32), *(part.feature for part in parts)]),
            np.concatenate([np.zeros(0), *(part.threshold for part in parts)]),
            np.concatenate([np.zeros((0, 2), np.int32), *children]).astype(np.int32),
            np.concatenate([np.zeros((0, len(base))), *(part.values for part in parts)]),
            np.concatenate([np.zeros(0, np.int64), *roots]),
            base,
            additional,
            n_features,
        )

    def __setstate__(self, state):
        self.__dict__.update(state)
        # The state may come from a damaged file.
        self.check()

    def check(self):
        """Raise ValueError unless the arrays describe trees whose paths end within the arrays."""
        ints = self.feature, self.children, self.roots
        floats = self.threshold, self.values, self.base
        axes = [np.ndim(array) for array in (*ints, *floats)]
        if not all(isinstance(array, np.ndarray) for array in (*ints, *floats)) or axes != [1, 2, 1, 1, 2, 1]:
            raise ValueError("the arrays of trees have the wrong number of axes")
        if any(array.dtype.kind != "i" for array in ints) or any(array.dtype != np.float64 for array in floats):
            raise ValueError("the arrays of trees must be integers, and values must be float64")
        if not isinstance(self.n_features, int | np.integer) or isinstance(self.n_features, bool):
            raise ValueError(f"the number of features of trees must be an int; got {self.n_features!r}")
        self.sizes  # noqa: B018, checks the additional scores
        n_nodes = len(self.feature)
        n_leaves = len(self.values)
        if self.threshold.shape != (n_nodes,) or self.children.shape != (n_nodes, 2):
            raise ValueError("the arrays of trees must have an entry for each node")
        if self.values.shape[1] != len(self.base):
            raise ValueError(f"leaves have {self.values.shape[1]} values, but there are {len(self.base)} outputs")
        is_leaf = self.feature < 0
        inner = self.children[~is_leaf]
        leaves = self.children[is_leaf, 0]
        parents = np.flatnonzero(~is_leaf)[:, None]
        # A path visits ascending nodes, so it ends.
        if (
            (self.feature >= self.n_features).any()
            or (self.feature < -1).any()
            or (inner <= parents).any()
            or (inner >= n_nodes).any()
            or (leaves < 0).any()
            or (leaves >= n_leaves).any()
            or (self.roots < 0).any()
            or (self.roots >= n_nodes).any()
        ):
            raise ValueError("the nodes of trees refer to nodes, leaves or features that do not exist; fit again")
        if not all(np.isfinite(array).all() for array in floats):
            raise ValueError("thresholds and values of trees must be finite; fit again")

    @property
    def sizes(self):
        if np.ndim(self.additional) != 1:
            raise ValueError(f"additional scores of trees must have one axis; got shape {np.shape(self.additional)}")
        return int(self.n_features), len(self.base), len(self.additional)

    @property
    def arrays(self):
        """Thresholds, values of leaves, base, additional scores."""
        return [self.threshold, self.values, self.base, self.additional]

    @property
    def dtype(self):
        return self.values.dtype

    def copy(self):
        arrays = self.feature, self.threshold, self.children, self.values, self.roots, self.base, self.additional
        return TreesModel(*(array.copy() for array in arrays), self.n_features)

    def scores(self, X, n_jobs=None):
        """Compute the scores of rows; see `ScoreModel`. Blocks of sparse rows become dense in the columns of nodes."""
        n_rows = X.shape[0]
        n_outputs = len(self.base)
        columns = None
        feature = self.feature
        if sparse.issparse(X):
            columns, feature = used_columns_of(feature)
        width = X.shape[1] if columns is None else len(columns) + 1
        trees = Trees(
            readonly(feature, np.int32),
            readonly(self.threshold),
            readonly(self.children.reshape(-1), np.int32),
            readonly(self.values),
            readonly(self.roots, np.int64),
        )
        size = max(1, _CELLS // (width + n_outputs))
        begins = np.arange(0, n_rows, size)
        scores = np.empty((n_rows, n_outputs))

        def fill(start, stop):
            for first in begins[start:stop].tolist():
                rows = slice(first, first + size)
                x = narrow_rows(X, rows, columns)
                # A call may be repeated, so it must not read what an earlier one has written.
                own = np.tile(self.base, (len(x), 1))
                _add_values(trees, x.reshape(-1), own)
                scores[rows] = own

        depth = np.log2(2.0 + len(self.feature) / max(len(self.roots), 1))
        cost = width + len(self.roots) * (_STEP * depth + n_outputs)
        over_ranges(fill, cost * np.minimum(size, n_rows - begins), n_jobs, _COST_PER_CALL)
        return scores


class RegressorsModel(ScoreModel):
    """Sums of the predictions of fitted regressors, which are not made of trees.

    Files without pickles cannot hold it, because they hold no scikit-learn estimators.

    Parameters
    ----------
    regressors : list of estimators
    rates : sequence of float
        The factor of each regressor.
    base : array of shape (n_outputs,)
    additional : array of shape (n_additional,)
    n_features : int
    """

    def __init__(self, regressors, rates, base, additional, n_features):
        self.regressors, self.rates, self.base = regressors, rates, base
        self.additional, self.n_features = additional, n_features

    @classmethod
    def sum_of(cls, parts, base, additional, n_features):
        """Return a model with the regressors of other models."""
        regressors = [regressor for part in parts for regressor in part.regressors]
        rates = [rate for part in parts for rate in part.rates]
        return cls(regressors, rates, base, additional, n_features)

    @property
    def sizes(self):
        return self.n_features, len(self.base), len(self.additional)

    @property
    def arrays(self):
        """Base, additional scores."""
        return [self.base, self.additional]

    def copy(self):
        # Fitted regressors do not change.
        arrays = self.base.copy(), self.additional.copy()
        return RegressorsModel(list(self.regressors), list(self.rates), *arrays, self.n_features)

    def scores(self, X, n_jobs=None):
        scores = np.tile(self.base, (X.shape[0], 1))
        for regressor, rate in zip(self.regressors, self.rates):
            scores += rate * predictions_of(regressor, X, len(self.base))
        return scores


def predictions_of(regressor, X, n_outputs):
    """Return the predictions of a regressor, with an axis of outputs."""
    return np.asarray(regressor.predict(X), np.float64).reshape(X.shape[0], n_outputs)


# A tree alone: the arrays of `TreesModel`.
OwnTree = namedtuple("OwnTree", ["feature", "threshold", "children", "values", "roots"])


def trees_of(regressor):
    """Return the trees of a fitted regressor, whose mean it predicts, or None if it is not made of trees."""
    # scikit-learn's trees are imported by those who boost.
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
    from sklearn.tree import BaseDecisionTree

    if isinstance(regressor, BaseDecisionTree):
        return [regressor]
    return regressor.estimators_ if isinstance(regressor, RandomForestRegressor | ExtraTreesRegressor) else None


def trees_by_output(regressor):
    """Return a tree for each output of a fitted `MultiOutputRegressor` of trees, or None if it is something else."""
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.tree import BaseDecisionTree

    if not isinstance(regressor, MultiOutputRegressor):
        return None
    found = regressor.estimators_
    return found if all(isinstance(tree, BaseDecisionTree) for tree in found) else None


def own_tree(tree, factor, values=None):
    """Return an `OwnTree` of a fitted tree of scikit-learn.

    Parameters
    ----------
    tree : DecisionTreeRegressor
    factor : float
        Factor of the values.
    values : array of shape (n_nodes, n_outputs), default=None
        Values in place of those that the tree predicts.
    """
    found = tree.tree_
    is_leaf = found.children_left < 0
    nodes = np.flatnonzero(is_leaf)
    children = np.stack([found.children_left, found.children_right], axis=1)
    children[nodes] = 0
    children[nodes, 0] = np.arange(len(nodes))
    own = (found.value[:, :, 0] if values is None else values)[nodes]
    feature = np.where(is_leaf, -1, found.feature)
    threshold = np.where(is_leaf, 0.0, found.threshold)
    return OwnTree(feature.astype(np.int32), threshold, children.astype(np.int32), factor * own, np.zeros(1, np.int64))


def used_columns_of(feature):
    """Return the columns that nodes compare, ascending, and the nodes' places among them; -1 for leaves."""
    is_leaf = feature < 0
    columns = np.unique(feature[~is_leaf])
    return columns, np.where(is_leaf, -1, np.searchsorted(columns, feature))


@np.errstate(over="ignore")
def narrow_rows(X, rows, columns=None):
    """Return some rows of the features as a dense array of float32.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
    rows : slice
    columns : int array, default=None
        The columns of a CSR matrix to return, ascending. One more column, of arbitrary values, follows.
    """
    if not sparse.issparse(X):
        return np.ascontiguousarray(X[rows], np.float32)
    indptr = X.indptr[rows.start : rows.stop + 1]
    first, last = indptr[0], indptr[-1]
    indices = X.indices[first:last]
    places = np.searchsorted(columns, indices)
    is_used = np.append(columns, -1)[places] == indices
    places[~is_used] = len(columns)
    parts = X.data[first:last].astype(np.float32), places, indptr - first
    return sparse.csr_array(parts, shape=(len(indptr) - 1, len(columns) + 1)).toarray()
