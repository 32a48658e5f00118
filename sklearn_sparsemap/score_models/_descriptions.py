"""Descriptions of score models: parameters that estimators read. They learn nothing themselves."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Literal

from sklearn.utils._param_validation import HasMethods, StrOptions

from .._core.annotations import Any, Sequence
from .._core.doc_link import DocLinkMixin
from .._core.sklearn_bases import BaseEstimator
from .._core.validation import POSITIVE, POSITIVE_INT, Number, check_parameters


class _Description(DocLinkMixin, BaseEstimator):
    """Parameters of a score model, which `GridSearchCV` can set as ``score_model__name``."""

    def check(self) -> None:
        """Raise ValueError unless all parameters are in range; the message names the parameter."""
        check_parameters(self)


class Network(_Description):
    """Scores by a network with hidden layers: a multilayer perceptron of the features of a row.

    Weights are learned by Adam on mini-batches of samples, together with the additional scores of the structure, whose
    learning rate is ten times as large. Features should have similar scales, such as those of `StandardScaler`.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default=(256,)
        Number of units of each hidden layer.
    activation : {"relu"}, default="relu"
        Activation function of the hidden units.
    dropout : float, default=0.2
        Fraction of the hidden units that are dropped at each step of training. Larger values regularise more.
    eta0 : float, default=1e-3
        Learning rate of Adam.
    batch_size : int, default=32
        Number of samples in a mini-batch.
    max_iter : int, default=None
        Maximum number of epochs. Default: that of the estimator, or 100.

    See Also
    --------
    sklearn_sparsemap.StructuredSparseMAPClassifier : Takes a description as `score_model`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.score_models import Network
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 10)
    >>> y = X[:, 0] != X[:, 1]
    >>> network = Network(hidden_layer_sizes=(16,), dropout=0.0, eta0=0.01)
    >>> StructuredSparseMAPClassifier(score_model=network, random_state=0).fit(X, y).score(X, y)
    1.0
    """

    _parameter_constraints = {
        "hidden_layer_sizes": "no_validation",
        "activation": [StrOptions({"relu"})],
        "dropout": [Number(numbers.Real, 0, 1, closed="left")],
        "eta0": [POSITIVE],
        "batch_size": [POSITIVE_INT],
        "max_iter": [POSITIVE_INT, None],
    }

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (256,),
        *,
        activation: Literal["relu"] = "relu",
        dropout: float = 0.2,
        eta0: float = 1e-3,
        batch_size: int = 32,
        max_iter: int | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.dropout = dropout
        self.eta0 = eta0
        self.batch_size = batch_size
        self.max_iter = max_iter

    def check(self) -> None:
        super().check()
        sizes = self.hidden_layer_sizes
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):
            raise ValueError(f"hidden_layer_sizes must be a sequence of sizes, such as (256,); got {sizes!r}")
        if not all(POSITIVE_INT.is_satisfied_by(size) for size in sizes):
            raise ValueError(f"hidden_layer_sizes must hold positive ints; got {sizes!r}")


class Trees(_Description):
    """Scores by boosted regression trees, for a Fenchel-Young loss of structures.

    Each round fits one regressor with an output for each score of a row to gold structures minus marginals, the
    negative gradient of the loss ([1]_, [2]_). Leaves take a Newton step for each output. The additional scores of the
    structure are learned in the same rounds. Trees learn thresholds and interactions of features, and do not depend on
    their units. They compare features as float32, as all trees of scikit-learn.

    Parameters
    ----------
    max_iter : int, default=200
        Maximum number of rounds. Held-out samples choose the number of rounds, and all samples are learned from then.
        With ``early_stopping=True`` or validation samples, their `score` stops the rounds instead.
    learning_rate : float, default=0.1
        Factor of the step of each round. Smaller values need more rounds.
    max_depth : int or None, default=6
        Maximum depth of a tree. Larger values allow interactions of more features. None sets no limit.
    min_samples_leaf : int, default=5
        Minimum number of rows in a leaf. Larger values regularise more.
    estimator : regressor, default=None
        A regressor of scikit-learn with several outputs, of which a clone is fitted in each round. Its predictions are
        multiplied by the step that minimises the loss, unless it is a tree, a forest, or a `MultiOutputRegressor` of
        trees, whose leaves take steps of their own. `to_arrays` stores these models of trees only. Default: a
        `DecisionTreeRegressor` with the above parameters, whose nodes compare three in ten features, at least 10, drawn
        anew for each node.

    See Also
    --------
    sklearn_sparsemap.StructuredSparseMAPClassifier : Takes a description as `score_model`.

    References
    ----------
    .. [1] Dietterich, Ashenfelter and Bulatov. Training Conditional Random Fields via Gradient Tree Boosting. ICML
       2004.
    .. [2] Blondel, Martins and Niculae. Learning with Fenchel-Young Losses. JMLR 2020.

    Examples
    --------
    Labels that depend on an interaction of two features, one of which is in other units:

    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.score_models import Trees
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2)) * [1, 1e6]
    >>> y = (X[:, 0] > 0.2) != (X[:, 1] > 0)
    >>> trees = Trees(max_depth=3, max_iter=50)
    >>> model = StructuredSparseMAPClassifier(score_model=trees, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _parameter_constraints = {
        "max_iter": [POSITIVE_INT],
        "learning_rate": [POSITIVE],
        "max_depth": [POSITIVE_INT, None],
        "min_samples_leaf": [POSITIVE_INT],
        "estimator": [HasMethods(["fit", "predict"]), None],
    }

    def __init__(
        self,
        *,
        max_iter: int = 200,
        learning_rate: float = 0.1,
        max_depth: int | None = 6,
        min_samples_leaf: int = 5,
        estimator: Any = None,
    ) -> None:
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.estimator = estimator
