"""ParameterMixing: training by many workers, whose models are averaged after each round."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from .._core.annotations import Any, ArrayLike, NDArray, Self, Sequence
from .._core.available import available_if
from .._core.doc_link import DocLinkMixin
from .._core.pickles import PickleMixin
from .._core.sklearn_bases import BaseEstimator
from .._core.validation import FRACTION, N_JOBS, NOT_NEGATIVE, POSITIVE_INT, check_parameters
from ..estimators._failures import restore_on_error
from ..estimators._monitor import CallbackSupportMixin, Monitor, Progress, with_callbacks
from ..estimators._state.fitted import TrainingStateMixin
from ._engines import engine_for
from ._rounds import Training
from ._sources import Source

if TYPE_CHECKING:
    import numpy as np


def _has(name):
    """Return a decorator of methods that exist if the estimator has a method of this name."""
    return available_if(
        lambda mixing: getattr(mixing.estimator_ if hasattr(mixing, "estimator_") else mixing.estimator, name)
    )


class ParameterMixing(CallbackSupportMixin, DocLinkMixin, PickleMixin, BaseEstimator):
    """Parallel training of an online estimator on shards of the data, by iterative parameter mixing.

    In each round, all workers start from the same weights, and each visits the samples of its shard once. The results
    are averaged, and the next round starts from the average [1]_. The workers are those of dask.distributed if there is
    a client, else threads of this process. The result depends on `n_shards` and `random_state`, but not on the kind or
    number of workers. If a worker is lost, other workers repeat its tasks.

    AdaGrad's sums of squares and Adam's moments are averaged like the weights. The fitted estimator has the average of
    the weights over the steps of all workers, in which later rounds have a larger weight (`recency`). With
    `GroupLassoPerceptron`, the weights of a group are zero for workers that have discarded it. The mixture is shrunk,
    so the budget holds after each round. Debiasing takes `debias_max_iter` further rounds.

    Parameters
    ----------
    estimator : StructuredSparseMAPClassifier, GroupLassoPerceptron or MultilabelLPSparseMAP
        The estimator, which learns by its online solver, as in `partial_fit`. Its `max_iter`, `early_stopping` and
        `warm_start` are not used, nor its `random_state` for the order of samples.
    n_shards : int, default=None
        Number of shards. By default, each partition is a shard, and data in memory are split into four.
    n_rounds : int, default=10
        Number of rounds over all data.
    n_mixes : int, default=1
        Number of times that weights are averaged in a round. Larger numbers are closer to serial training, and need as
        many times the traffic.
    recency : float, default=3.0
        Weight of later rounds in averaged weights: round t has a weight of about ``t ** recency``. 0 gives all rounds
        the same weight; larger values reduce the weight of the first mixtures, which are far from the optimum. With a
        single shard, training is serial, and `recency` is not used.
    client : distributed.Client or str, default=None
        The client of the workers, or the address of a scheduler. By default, the current client, or the client of the
        futures that are passed to `fit`; if there is none, workers are threads. It is not pickled.
    early_stopping : bool or float, default=False
        Whether to hold out data, to stop when the score on them no longer improves, and to return the best model. A
        number is the fraction to hold out.
    validation_fraction : float, default=0.1
        The fraction of the samples, or of the partitions, to hold out with ``early_stopping=True``.
    n_iter_no_change : int, default=5
        Number of rounds without a higher score after which training stops.
    random_state : int, RandomState or None, default=None
        Seed of the split into shards, and of the order of samples in each round.
    n_jobs : int, default=None
        Number of threads if there are no workers. The result does not depend on it.
    verbose : int, default=0
        1 reports the first rounds and every tenth, 2 reports all.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator, as its own `fit` would leave it.
    client_ : distributed.Client or None
        The client of the last `fit`; None if `client` is an address, because `fit` then closes its client. It is not
        pickled.
    loss_curve_ : list of float
        Mean loss of all workers during each round, without the penalty.
    validation_scores_ : list of float
        With early stopping: the score after each round.
    n_iter_ : int
        Number of rounds.
    n_shards_ : int
        Number of shards.
    classes_, n_features_in_
        Attributes of the fitted estimator.

    Notes
    -----
    A round takes less time than a serial epoch, but its model is not better, and it is worse for features that occur in
    few samples. The page "Large data" of the guide has measurements, and says when to mix more often.

    Interrupting `fit` (Ctrl-C) keeps the model of the last complete round, and raises KeyboardInterrupt.

    References
    ----------
    .. [1] McDonald, Hall and Mann. Distributed Training Strategies for the Structured Perceptron. NAACL 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.distributed import ParameterMixing
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> mixing = ParameterMixing(StructuredSparseMAPClassifier(), n_shards=4, n_rounds=5, random_state=0)
    >>> mixing.fit(X, y).predict([[1.0, 0.0]])
    array(['right'], dtype='<U5')
    >>> mixing.to_local()
    StructuredSparseMAPClassifier()
    """

    # `Monitor` reads these two: the name of the step size in messages about training that diverges, and the attributes
    # that callbacks get in addition to those of `_outcome`.
    _step_size = "the estimator's step size"
    _set_by_fit = ()
    monitor_class: type[Monitor] = Monitor

    _parameter_constraints = {
        "estimator": [TrainingStateMixin],
        "n_shards": [POSITIVE_INT, None],
        "n_rounds": [POSITIVE_INT],
        "n_mixes": [POSITIVE_INT],
        "recency": [NOT_NEGATIVE],
        "client": "no_validation",
        "early_stopping": ["boolean", FRACTION],
        "validation_fraction": [FRACTION],
        "n_iter_no_change": [POSITIVE_INT],
        "random_state": ["random_state"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
    }

    estimator_: Any
    loss_curve_: list[float]
    validation_scores_: list[float]
    n_iter_: int
    n_shards_: int

    def __init__(
        self,
        estimator: Any,
        n_shards: int | None = None,
        n_rounds: int = 10,
        client: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        n_mixes: int = 1,
        recency: float = 3.0,
        early_stopping: bool | float = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.estimator = estimator
        self.n_shards = n_shards
        self.n_rounds = n_rounds
        self.client = client
        self.random_state = random_state
        self.n_mixes = n_mixes
        self.recency = recency
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @restore_on_error
    def fit(self, X: Any, y: Any = None, *, classes: Sequence[Any] | None = None) -> Self:
        """Learn from data in memory, or from partitions.

        Parameters
        ----------
        X, y : data in one of these forms
            - Data in memory, as in `fit` of the estimator. They are split into shards at random.
            - Partitions of dask: two bags, two arrays in blocks of rows, or two lists of delayed objects or of futures.
              Data on workers are not moved.
            - With ``y=None``, a bag of pairs (x, y), or a list of partitions: delayed objects, futures, functions,
              files or pairs (X, y), as in `fit_partitions` of the estimator. Workers must be able to read the files.
        classes : sequence, default=None
            For partitions: all labels that occur, if structures are made of labels. By default, they are collected in
            the pass over all partitions that counts the samples.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, the data are not as described, or there are fewer partitions than shards.
        ImportError
            If `client` is an address, and dask.distributed is not installed.
        """
        check_parameters(self)
        source = Source(X, y)
        rng = check_random_state(self.random_state)
        engine = engine_for(self.client, self.n_jobs, source.lazy)
        try:
            training = Training(self, engine, source, classes, rng)
            validate = training.score if training.held_out else None
            monitor = self.monitor_class(self, Progress(self, X, y, training.n_rounds), validate)
            training.run(monitor)
            monitor.store()
            self.client_ = None if isinstance(self.client, str) else engine.client
            monitor.end()
        finally:
            engine.close()
        return self

    def _outcome(self, monitor, model):
        training = monitor.learner.training
        return {
            "estimator_": training.fitted(model, monitor),
            "loss_curve_": list(monitor.losses),
            "validation_scores_": list(monitor.scores),
            "n_iter_": monitor.n_iter,
            "n_shards_": training.n_shards,
        }

    def to_local(self) -> Any:
        """Return a copy of the fitted estimator, which needs no client.

        Returns
        -------
        estimator : estimator
            The fitted estimator.
        """
        check_is_fitted(self)
        return copy(self.estimator_)

    @_has("predict")
    def predict(self, X: Any) -> NDArray[Any]:
        """Call `predict` of the fitted estimator."""
        return self._fitted().predict(X)

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Call `predict_proba` of the fitted estimator."""
        return self._fitted().predict_proba(X)

    @_has("predict_marginals")
    def predict_marginals(self, X: Any) -> NDArray[Any]:
        """Call `predict_marginals` of the fitted estimator."""
        return self._fitted().predict_marginals(X)

    @_has("predict_structures")
    def predict_structures(self, X: Any) -> list[list[tuple[Any, float]]]:
        """Call `predict_structures` of the fitted estimator."""
        return self._fitted().predict_structures(X)

    @_has("decision_function")
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Call `decision_function` of the fitted estimator."""
        return self._fitted().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Call `score` of the fitted estimator.

        Parameters
        ----------
        X, y, sample_weight
            As in `score` of the estimator.

        Returns
        -------
        score : float
        """
        return self._fitted().score(X, y, sample_weight)

    @property
    def classes_(self) -> NDArray[Any]:
        return self._fitted().classes_

    @property
    def n_features_in_(self) -> int:
        return self._fitted().n_features_in_

    def _fitted(self):
        check_is_fitted(self)
        return self.estimator_

    def __sklearn_is_fitted__(self):
        return "estimator_" in vars(self)

    def __sklearn_clone__(self):
        # A client cannot be copied, so a clone has the same one.
        parameters = self.get_params(deep=False)
        client = parameters.pop("client")
        return type(self)(client=client, **{name: clone(value, safe=False) for name, value in parameters.items()})

    def __getstate__(self):
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "client_"} | {"client": None}

    def __sklearn_tags__(self):
        return get_tags(self.estimator)
