"""StructuredSparseMAPClassifier: a model of part scores under a structure."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import (
    Any,
    ArrayLike,
    Callable,
    HasFit,
    LossName,
    Mapping,
    NDArray,
    ScoreModelName,
    Self,
    Sequence,
    StructureName,
)
from ..._core.available import available_if
from ..._core.errors import naming
from ..._core.moments import whole
from ..._core.validation import (
    FRACTION,
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_INT,
    check_choice,
    check_parameters,
)
from ..._training._partial_task import PartialTask
from ..._training._task import agreement_score
from ..._training.score_models import LinearModel
from ...inference._batch import marginal_oracle_of
from ...losses._recipes import TRAINED
from ...structures import Structure
from .._failures import in_turn, restore_on_error
from .._learners import boosting, network, out_of_fold  # noqa: F401, register their learners
from .._learners.epochs import adjust_optimizer, learn_online, new_optimizer, partial_fit_minibatch
from .._learners.held_out import check_validation, hold_out
from .._learners.initial import check_finite_weights, weights_of_last_fit, zero_weights
from .._learners.lbfgs import LBFGSLearner, PartialLBFGSLearner
from .._learners.score_model import (
    check_learns_from_streams,
    check_no_linear_parameters,
    continues,
    description_of,
    initial_model,
    new_learner,
    stream_optimizer,
)
from .._monitor import CallbackSupportMixin, Progress, with_callbacks
from .._state.fitted import FittedState
from .._strengths import relative, rows_per_column, total_variance
from .new_labels import add_labels
from .penalty import choose_penalty
from .score_model import choose_score_model
from .stream import LinearStructuredClassifier
from .targets import resolve_structure, targets_of

if TYPE_CHECKING:
    from ...factors import FactorGraph
    from ...score_models import Network, Trees

    SolverName = Literal["auto", "lbfgs", "adagrad", "mira"]

_SOLVERS = ("auto", "lbfgs", "adagrad", "mira")
_MAX_ITER = {"lbfgs": 1000, "online": 100}
# The usual penalty on the sum of the losses, as a fraction of the total variance of the features. It is a Gaussian
# prior under which the scores of parts have the standard deviation 2.6. Log losses need larger scores where features
# can separate the labels, up to 10: their fraction grows from the second one with the square root of the number of rows
# for each column, if there are more than two. The perceptron loss has no scale; a strong penalty makes it forget the
# weights of early mistakes. Chosen on held-out parts of training data; see doc/notes/training.md. The labels of
# recordings, which stay for many steps, depend on transitions, whose scores do not grow with the variance of the
# features. They need a weaker penalty, as the square of the length; see `benchmarks/recordings.py`. Log losses do not.
_PENALTY, _PERCEPTRON_PENALTY, _LOG_LOSS_PENALTY, _DENSITY = 0.15, 1.5, 0.01, 2.0
# The usual penalty on the sum of the losses for other score models than linear ones. With 0, networks lose .3 points on
# letters; with 3 times as much they are as good.
_OTHER_PENALTY = 1.0
# Maximum of the total variance. The penalty is also that of additional scores, such as transitions, which do not grow
# with the features.
_MAX_VARIANCE = 100.0
# Number of samples that streams are taken to have, and largest number of samples that a weight is equivalent to.
_STREAM, _MAX_WEIGHT = 10_000, 1e15
# Attributes of a fit that chose the strength on a path.
_PATH = ("alphas_", "held_out_losses_")
# Default of `tol` for L-BFGS: largest entry of the gradient. Larger values save iterations, but end farther from the
# minimum. Chosen on held-out parts of training data, like `_epoch_tol`.
_LBFGS_TOL = 1e-3
# Maximum number of weights for which L-BFGS is preferred: it is exact and needs no tuning.
_MAX_BATCH_WEIGHTS = 50_000


class StructuredSparseMAPClassifier(CallbackSupportMixin, LinearStructuredClassifier):
    """Structured classifier, trained with a SparseMAP loss or another Fenchel-Young loss.

    A score model computes the scores of parts from the features; by default it is linear. The score of a structure is
    the sum of the scores of its parts and of learned additional scores, such as the transitions of a chain. Training
    minimises the mean Fenchel-Young loss plus ``alpha/2 |w|^2`` ([1]_, section 4), or the mean expected cost plus this
    penalty. With 1-D `y` this is multiclass classification with the sparsemax loss.

    Parameters
    ----------
    structure : {"auto", "chain", "tree", "matching"}, Structure, FactorGraph or callable, default="auto"
        The output structure. ``"auto"``: one label for each sample (1-D `y`, 2-D `X`). ``"chain"``: one label for each
        step. ``"tree"``: the head of each word. ``"matching"``: the column of each row. ``Simplex()`` and samples with
        several rows: the index of one of them. A `FactorGraph` is that of all samples; a callable maps each sample to
        its `FactorGraph`; see the notes.
    loss : str, default="sparsemap"
        The training loss: ``"sparsemap"``, ``"margin_sparsemap"``, ``"perceptron"``, ``"hinge"``, ``"crf"``,
        ``"margin_crf"`` or ``"expected_cost"``; see `sklearn_sparsemap.losses.FenchelYoungLoss`. The losses named
        ``margin_``, and hinge, require that the true structure's score exceeds that of each other one by the number of
        wrong parts. If structures differ in their number of parts, missing parts count, too. ``"expected_cost"``
        minimises the expected number of wrong (and missing) parts of structures drawn from the Gibbs distribution, see
        `sklearn_sparsemap.losses.ExpectedCost`. It is not convex: with linear scores, L-BFGS first fits crf, and
        continues from there. Online and with other score models, fit ``loss="crf"`` first, then set ``warm_start=True``
        and this loss, and fit again.
    cost : array-like of shape (n_classes, n_classes), default=None
        Costs of wrong labels, for structures made of labels, losses with a margin and the expected cost: the cost of
        predicting the label of the column if the label of the row is true, in the order of `classes_`. A table with the
        names of labels may have more labels than `y`. Default: each wrong label costs 1.
    temperature : float, default=1.0
        Scale of the loss. Small values approach a structured perceptron, large values require a wider margin.
        Probabilities are those of the scores divided by the temperature. The perceptron loss does not depend on it. If
        structures differ in their number of parts, the losses sparsemap and margin_sparsemap predict an independent
        part if its score exceeds temperature / 2.
    alpha : float, "auto" or None, default=None
        Strength of the squared penalty on all weights except the intercept. Larger values give smaller weights.
        Default: ``0.15 * v / n``, with the total variance v of the features (at most 100) and the number n of samples;
        more for perceptron; less for crf, margin_crf, expected_cost and recordings; ``1 / n`` for other score models
        than linear ones.
        ``"auto"`` chooses another strength if held-out samples show that it is better, and then learns from all
        samples, in about twice the time.
    solver : {"auto", "lbfgs", "adagrad", "mira"}, default="auto"
        Optimiser. ``"lbfgs"`` is exact batch optimisation, for models of up to some million weights, and for smooth
        losses: not for perceptron and hinge. ``"adagrad"`` learns online, with sparse updates and averaged weights, for
        large models and streams. ``"mira"`` learns online, for hinge only: each step is just large enough to correct
        the mistake on a sample, and `alpha` is not used. ``"auto"`` takes L-BFGS for smooth losses and up to 50,000
        weights, else AdaGrad. `partial_fit` is always online.
    eta0 : float, default=None
        Step size of AdaGrad (default: 0.1), or the maximum step size of MIRA (its aggressiveness, C; default: no
        maximum), which is multiplied by the sample weight. L-BFGS has no step size.
    max_iter : int, default=None
        Maximum number of iterations. Default: 1000 for L-BFGS, 100 epochs for AdaGrad and MIRA.
    tol : float, default=None
        Tolerance. Smaller values take longer, and end closer to the minimum of the objective. AdaGrad and MIRA stop if
        an epoch lowers the loss by at most `tol` (default: 7e-3) times the mean loss of all epochs so far, on average
        over the last `n_iter_no_change` epochs. L-BFGS stops if no entry of the gradient is larger than `tol` (default:
        1e-3), or, at a kink, of the averaged subgradient.
    fit_intercept : bool, default=True
        Whether to learn an intercept for each output. It is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. The weight of a structured sample is the mean over the labels of its steps. If a label of
        steps is rare, use weights of steps in `sample_weight` instead.
    average : bool or "recent", default="recent"
        Whether AdaGrad and MIRA return the average of the weights over all steps. ``"recent"`` is the same in `fit`. In
        `partial_fit` it is the average over the last part of the stream, which restarts if samples that arrive show
        that it is worse than the current weights.
    early_stopping : bool or float, default=False
        Whether to hold out a fraction of the samples, to stop when the `score` on them no longer improves, and to
        return the best model. A number is the fraction to hold out.
    validation_fraction : float, default=0.1
        The fraction to hold out with ``early_stopping=True``, unless `fit` gets validation samples.
    n_iter_no_change : int, default=5
        Number of epochs over which `tol` averages; with early stopping, the number of epochs or iterations without a
        higher score after which training stops.
    shuffle : bool, default=True
        Whether AdaGrad and MIRA visit the samples in a new random order in each epoch.
    warm_start : bool, default=False
        Whether `fit` starts from the weights of the last call.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling and of the validation split.
    n_jobs : int, default=None
        Number of threads for L-BFGS, AdaGrad and prediction. Results do not depend on it. L-BFGS keeps BLAS on one
        thread; AdaGrad uses up to four, if samples are large enough.
    verbose : int, default=0
        1 reports the first iterations (L-BFGS) or epochs and every tenth, 2 reports all.
    batch_size : int, default=None
        AdaGrad: number of samples whose inference uses the same weights, so that several threads solve them at the same
        time. Each sample then makes a step of its own. Values above a few reduce quality. Default: 1. The samples of a
        batch of factor graphs make a single step together; their default is 16.
    constraints : {"bio", "bioes", "bilou", "iob1", "iob2", "ioe1", "ioe2"} or list of pairs, default=None
        Forbidden transitions of chains, in training and in all predictions. ``"bio"`` (or ``"iob2"``): ``I-PER``
        follows only ``B-PER`` or ``I-PER``. ``"bioes"``: also, ``B-PER`` and ``I-PER`` are followed only by ``I-PER``
        or ``E-PER``. The others are schemes of spans, too; see `sklearn_sparsemap.metrics.convert_spans`. A list
        holds forbidden pairs of labels ``(from, to)``; ``(None, label)`` forbids a label in the first step, and
        ``(label, None)`` in the last one. Forbidden entries of
        `transitions_`, `start_` and `end_` are -inf. True labels that violate the constraints raise a ValueError.
    score_model : {"linear", "network", "trees", "auto"}, Network, Trees or estimator, default="linear"
        The model of the scores of parts, for every structure and loss. A `Network` or `Trees` of
        `sklearn_sparsemap.score_models` has parameters; ``"network"`` and ``"trees"`` have their defaults. Otherwise, a
        classifier of scikit-learn. The parameters `solver`, `eta0`, `batch_size`, `fit_intercept` and `average` are for
        linear scores only, as is ``alpha="auto"``. ``"auto"`` compares linear scores, a network and trees by the loss
        of held-out samples, and takes the first one that no other clearly improves on; it takes up to about a hundred
        times as long as linear scores, which it takes in streams and for sparse features.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, if structures are made of labels.
    coef_ : ndarray or CSR of shape (n_outputs, n_features)
        Weights of the features. There is one output for each label, and a single output for trees, matchings and other
        structures that are not made of labels. A CSR array if the model is large and few of its weights are nonzero.
        Both forms can be assigned; `sparsify` and `densify` convert one into the other. Only with
        ``score_model="linear"``, like `intercept_`.
    intercept_ : ndarray of shape (n_outputs,)
        Intercepts. All weights are float32 if all of `X` is in the first call, else float64.
    transitions_ : ndarray of shape (n_classes, n_classes)
        Chains: score of the transition from one label (row) to the next (column). Like `coef_`, `intercept_`, `start_`
        and `end_` it can be assigned, for example to forbid a transition with -inf; training then continues from the
        assigned values. Edits in place affect prediction only, until the model is trained
        further, and nothing with `constraints`.
    start_, end_ : ndarray of shape (n_classes,)
        Chains: scores of the first and of the last label.
    durations_ : ndarray of shape (max_length, n_classes)
        Segmentations: scores of the lengths of spans. Like `transitions_` it can be assigned.
    additional_scores_ : dict of str -> ndarray
        All learned additional scores by name, including those of a `CustomStructure`.
    score_model_ : object
        The fitted score model; for an estimator of scikit-learn, the fitted estimator, or a list of one for each
        output.
    chosen_score_model_ : "linear", Network, Trees or estimator
        What the parameter `score_model` could have been: the given description, or what ``"auto"`` chose.
    alpha_ : float
        Strength of the penalty: the given, the default or the chosen one.
    alphas_ : ndarray of shape (n_alphas,)
        With ``alpha="auto"``: the strengths that were tried, descending.
    held_out_losses_ : ndarray of shape (n_alphas,)
        With ``alpha="auto"``: the mean loss of the held-out samples at each of them.
    n_features_in_ : int
    n_iter_ : int
        Number of iterations or epochs.
    loss_curve_ : list of float
        The objective after each iteration (L-BFGS), or the mean loss during each epoch plus the penalty (AdaGrad),
        or that loss alone (MIRA). `partial_fit`: the mean loss of each mini-batch, or of several
        consecutive ones.
    validation_scores_ : list of float
        With early stopping: the score after each iteration.

    Notes
    -----
    Structured data are sequences of per-sample arrays: `X` is a list, 1-D object array, Series or `RaggedArray` of 2-D
    arrays or CSR matrices of shape (n_steps, n_features), or one 3-D array; `y` is a sequence of label sequences.
    Labels may be any hashable. In `fit`, a label of None is unknown. ``predict(X, known=...)`` completes partially
    known structures. Label sequences may have a weight for each step in `sample_weight`.

    Structures that are not made of labels have one row of features for each part. A tree over n words has (n + 1) * n
    rows, head by head (0 is the root), or an array of shape (n + 1, n, n_features). A matching has an array of shape
    (n_rows, n_cols, n_features), or n * n rows if it is square. A `RaggedArray` may carry such `shapes`. `y` holds
    structures in the form that their class documents.

    With factor graphs, a sample has one row of features for each variable, in the order in which the graph made them,
    or the shape of the variables and one more axis, of features. `y` holds an array of bool in the shape of the
    variables, or a dict of such arrays. Samples that violate a rule are left out, with a warning. The losses crf and
    margin_crf are not available. The page "Learning over graphs" of the guide says more.

    The page "Training in detail" of the guide says how `alpha` is chosen, how each score model learns, what unknown
    labels and weights of steps mean, and what the learners approximate.

    Interrupting `fit` (Ctrl-C) keeps the model of the last complete step, and raises KeyboardInterrupt. Before the
    first step, and after an error, the estimator is unchanged.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> X = [np.array([[1.0], [0.0], [0.9]]), np.array([[0.1], [1.1]])]
    >>> y = [["b", "a", "b"], ["a", "b"]]
    >>> model = StructuredSparseMAPClassifier(structure="chain").fit(X, y)
    >>> model.predict([np.array([[0.0], [1.0]])])[0].tolist()
    ['a', 'b']
    """

    # `LearnsInRounds` of `estimators/_rounds.py` lists what training in rounds uses. `_partitions.py` calls
    # `_prepare_stream`, `_check_params`, `_configure_epoch` and `_iteration_limit`; `estimators/_state/fitted.py` calls
    # `_make_optimizer`, and `penalty.py` calls `_learner`.
    _set_by_fit = (*LinearStructuredClassifier._set_by_fit, "alpha_", "_chosen")
    _readable_states = ("online", "mira", "minibatch", "adam")
    _weighs_steps = True
    _step_size = "eta0"
    _former_pairs: Mapping[str, str] = {"loss": "cost", "solver": "eta0"}
    # Default of `tol` for epochs, for `Monitor`. Smaller values do not improve scores on held-out data; see
    # doc/notes/training.md.
    _epoch_tol = 7e-3

    # "no_validation" marks parameters that are checked elsewhere, with more specific messages.
    _parameter_constraints = {
        "structure": "no_validation",
        "loss": [StrOptions(set(TRAINED))],
        "cost": ["array-like", None],
        "temperature": [POSITIVE],
        "alpha": [NOT_NEGATIVE, StrOptions({"auto"}), None],
        "solver": [StrOptions(set(_SOLVERS))],
        "eta0": [POSITIVE, None],
        "max_iter": [POSITIVE_INT, None],
        "tol": [NOT_NEGATIVE, None],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "average": ["boolean", StrOptions({"recent"})],
        "early_stopping": ["boolean", FRACTION],
        "validation_fraction": [FRACTION],
        "n_iter_no_change": [POSITIVE_INT],
        "shuffle": ["boolean"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [*N_JOBS],
        "verbose": ["verbose"],
        "batch_size": [POSITIVE_INT, None],
        "constraints": "no_validation",
        "score_model": "no_validation",
    }

    alpha_: float
    alphas_: NDArray[np.float64]
    held_out_losses_: NDArray[np.float64]
    validation_scores_: list[float]

    def __init__(
        self,
        structure: StructureName | Structure | FactorGraph | Callable[[Any], FactorGraph] = "auto",
        loss: LossName | Literal["expected_cost"] = "sparsemap",
        cost: ArrayLike | None = None,
        temperature: float = 1.0,
        alpha: float | Literal["auto"] | None = None,
        solver: SolverName = "auto",
        eta0: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        average: bool | Literal["recent"] = "recent",
        early_stopping: bool | float = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        shuffle: bool = True,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
        batch_size: int | None = None,
        constraints: Literal["bio", "bioes", "bilou", "iob1", "iob2", "ioe1", "ioe2"]
        | Sequence[tuple[Any, Any]]
        | None = None,
        score_model: ScoreModelName | Network | Trees | HasFit = "linear",
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.cost = cost
        self.temperature = temperature
        self.alpha = alpha
        self.solver = solver
        self.eta0 = eta0
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.shuffle = shuffle
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.batch_size = batch_size
        self.constraints = constraints
        self.score_model = score_model

    @property
    def score_model_(self) -> Any:
        """The fitted score model; for an estimator of scikit-learn, the fitted estimator."""
        self = whole(self)
        return self._current.public

    @property
    def chosen_score_model_(self) -> Any:
        """The given description of the score model, or the one that ``score_model="auto"`` chose."""
        self = whole(self)
        check_is_fitted(self)
        description = self._description()
        return "linear" if description is None else description

    @with_callbacks
    @restore_on_error
    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, X_val: Any = None, y_val: Any = None
    ) -> Self:
        """Learn from labelled samples.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features), or a sequence of such of shape (n_steps, n_features)
            Features; a sequence for structured problems. Label sequences without steps are left out, with a warning.
        y : array-like of shape (n_samples,), or a sequence of structures
            Gold labels or structures; see the notes of the class.
        sample_weight : array-like of shape (n_samples,), or sequence of arrays, default=None
            Weights of the samples. For label sequences, an array may hold a weight for each step; see the notes of the
            class. If it and X have an index, it is put in the order of X.
        X_val, y_val : as `X` and `y`, default=None
            Validation samples for early stopping. Training stops when the `score` on them no longer improves, and the
            best model is kept, as with ``early_stopping=True``, but no samples of `X` are held out.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or the data are not as described; the message names the sample. Also if
            `early_stopping` is the fraction of the samples to hold out, and validation samples are given.
        """
        structure = self._check_params(X)
        data = X, y
        X, gold, classes, task = self._training_data(structure, X, y, sample_weight, unknown=True)
        held_out = None
        is_given = X_val is not None or y_val is not None
        if is_given:
            check_validation(self, X_val, y_val)
        elif self.early_stopping:
            X, gold, task, held_out = self._hold_out(structure, X, gold, task)
        if self.warm_start and hasattr(self, "_structure"):
            self._check_score_model("warm_start=True")
            model = weights_of_last_fit(self, structure, task, X.values, classes)
            model = model.dense() if self.solver == "lbfgs" else model
        else:
            model = zero_weights(task, X.values, self.solver)
        self._begin(structure, classes)
        if self.score_model == "auto" and isinstance(model, LinearModel):
            self._chosen, candidate = choose_score_model(self, task, X, gold)
            self._take_strength(candidate)
        else:
            self._set_strength(task, X, gold)
        task.weights = relative(task.weights)
        if is_given:
            held_out = self._given_validation(structure, X_val, y_val, model)
        learner = self._learner(task, X, model, check_random_state(self.random_state))
        validate = held_out and self._validation(*held_out, learner)
        progress = Progress(self, *data, learner.max_iter)
        monitor = self.monitor_class(self, progress, validate, watch_loss=learner.watches_loss)
        monitor.run(learner)
        monitor.store()
        monitor.end()
        return self

    def _description(self):
        """Return the description of the score model; None for linear scores. It alone chooses the kind of model."""
        # Streams of "auto" begin with linear scores.
        given = self.score_model
        if isinstance(given, str) and given == "auto":
            given = vars(self).get("_chosen", "linear")
        return None if isinstance(given, str) and given == "linear" else description_of(given)

    def _check_score_model(self, purpose):
        """Raise ValueError unless the training of the fitted score model can continue with the parameters."""
        description = self._description()
        model = self._learned.model
        if "partial_fit" not in model.supports:
            raise ValueError(
                f"{purpose} is for score_model='linear' and 'network'; the training of other score models cannot "
                "continue; call fit of a clone"
            )
        if not continues(description, model):
            raise ValueError(
                f"score_model={self.score_model!r} differs from that of the fitted model; fit a clone, without "
                f"{purpose}"
            )

    def _set_strength(self, task, X, gold=None):
        """Set `alpha_`: the given strength, the usual one or, in `fit`, one that is chosen on held-out samples.

        Streams, without `gold`, keep the strength of the first mini-batch or of `fit`.
        """
        if gold is not None:
            for name in _PATH:
                vars(self).pop(name, None)
        if isinstance(self.alpha, Real):
            self.alpha_ = self.alpha
        elif gold is not None or not hasattr(self, "alpha_"):
            lengths = np.diff(task.row_ptr)
            weights = repetitions = np.ones(len(X))
            n_samples = _STREAM
            if gold is not None:
                weights = task.weights / task.weights.max()
                repetitions = np.where(weights > 0.0, np.clip(task.weights, 1.0, _MAX_WEIGHT), 0.0)
                n_samples = repetitions.sum()
            if self._description() is not None:
                self.alpha_ = float(_OTHER_PENALTY / n_samples)
                return
            loss = TRAINED[task.loss]
            penalty = _PERCEPTRON_PENALTY if task.loss == "perceptron" else _PENALTY
            penalty /= task.length_factor**2
            if loss.argmax == "gibbs":
                density = rows_per_column(X.values, np.repeat(repetitions, lengths))
                penalty = min(_LOG_LOSS_PENALTY * max(density / _DENSITY, 1.0) ** 0.5, _PENALTY)
            if loss.argmax != "map" and not loss.margin:
                # Scores are proportional to the temperature.
                penalty /= self.temperature
            if loss.expected:
                # The cost does not depend on the temperature.
                penalty /= self.temperature**2
            variance = total_variance(X.values, np.repeat(weights, lengths))
            self.alpha_ = float(penalty * min(variance, _MAX_VARIANCE) / n_samples)
        if gold is not None and self.alpha == "auto" and self.solver != "mira":
            self.alpha_, self.alphas_, self.held_out_losses_, _ = choose_penalty(self, task, X, gold)

    def _take_strength(self, other):
        """Take the strength of another estimator, with the path on which it was chosen."""
        for name in ("alpha_", *_PATH):
            vars(self).pop(name, None)
            if name in vars(other):
                setattr(self, name, vars(other)[name])

    def _learner(self, task, X, model, rng):
        """Return the learner of `fit`, which starts from a model; `rng` draws the order of the samples.

        The model is linear, except in a warm start: other kinds of score models have initial models of their own.
        """
        description = self._description()
        if isinstance(task, PartialTask) and TRAINED[task.loss].margin and not task.is_expectation:
            raise ValueError(
                f"y has labels of None, for which the cost of loss={task.loss!r} is not defined; use 'sparsemap', "
                "'perceptron', 'crf' or 'expected_cost'"
            )
        if description is not None:
            start = {} if isinstance(model, LinearModel) else {"start": model}
            return new_learner(description, self, task, X, rng, **start)
        solver = self.solver
        if solver == "auto":
            is_small = np.prod(model.coef.shape) <= _MAX_BATCH_WEIGHTS
            solver = "lbfgs" if is_small and TRAINED[task.loss].argmax != "map" else "adagrad"
        max_iter = self._iteration_limit(solver)
        if solver != "lbfgs":
            return learn_online(self, task, X, model, max_iter, rng)
        kind = PartialLBFGSLearner if isinstance(task, PartialTask) else LBFGSLearner
        tol = _LBFGS_TOL if self.tol is None else self.tol
        return kind(
            task, X, model.astype(np.float64), partial(LinearModel.astype, dtype=model.coef.dtype),
            alpha=self.alpha_, tol=tol, max_iter=max_iter, n_jobs=self.n_jobs, fit_intercept=self.fit_intercept,
        )  # fmt: skip

    @available_if(check_learns_from_streams)
    @in_turn
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        on_new_labels: Literal["raise", "add"] = "raise",
    ) -> Self:
        """Learn online from a mini-batch: one pass of AdaGrad (or MIRA) over its samples, in their order.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`. Sample weights are absolute here: a sample of weight 2 counts as two samples.
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur. Required at the first call if structures are made of labels.
        on_new_labels : {"raise", "add"}, default="raise"
            Whether a label of `y` that is not in `classes_` raises an error, or is added, with weights of zero. With
            ``"add"``, `classes` is not required. Each call with new labels copies all weights.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As in `fit`; also at the first call without `classes`, and for a label that is not among them.
        AttributeError
            If the score model needs all samples at once: trees, or an estimator of scikit-learn. The estimator then has
            no `partial_fit`.
        """
        goes_on = self._learned.optimizer is not None
        check_choice("on_new_labels", on_new_labels, ("raise", "add"))
        if on_new_labels == "add":
            classes = add_labels(self, self._check_params(), y, classes)
        task, X = self._prepare_stream(X, y, classes, sample_weight)
        if task is None:
            return self
        self._record_loss(partial_fit_minibatch(self, self._learned.optimizer, task, X, keep=goes_on))
        return self

    def _prepare_stream(self, X, y, classes=None, sample_weight=None):
        """Lay out samples of a stream, and make sure that there is an optimiser; return their task, and X.

        If all samples are left out, the task is None, and a stream that has not begun gets no optimiser: the usual
        strength of the penalty needs a sample.
        """
        first, structure, classes, X, task = self._check_stream(X, y, classes, sample_weight)
        if first:
            # A new stream does not continue the score model that "auto" chose in an earlier fit.
            vars(self).pop("_chosen", None)
        description = self._description()
        if first:
            model = (
                zero_weights(task, X.values, self.solver).copy()
                if description is None
                else initial_model(description, self, task, X.values)
            )
            self._learned = FittedState(model)
            self.n_iter_, self.loss_curve_ = 0, []
        else:
            self._check_score_model("partial_fit")
        self._begin(structure, classes)
        if not len(X):
            return None, X
        self._set_strength(task, X)
        optimizer = self._learned.optimizer
        # From now on the optimiser has the weights, even if training is interrupted.
        self._learned = FittedState(
            optimizer=self._make_optimizer() if optimizer is None else self._adjusted(optimizer)
        )
        return task, X

    def _make_optimizer(self):
        """Return an optimiser that starts from the current model."""
        description = self._description()
        model = check_finite_weights(self._learned.model)
        return new_optimizer(self, model) if description is None else stream_optimizer(description, self, model)

    def _adjusted(self, optimizer):
        """Apply the parameters, which may have changed, to an optimiser; return it."""
        description = self._description()
        if description is None:
            return adjust_optimizer(self, optimizer)
        return stream_optimizer(description, self, None, optimizer)

    def _configure_epoch(self, n_samples, number=0):
        self._adjusted(self._learned.optimizer)

    def _iteration_limit(self, solver="online"):
        """Return the maximum number of iterations of a solver."""
        return _MAX_ITER["lbfgs" if solver == "lbfgs" else "online"] if self.max_iter is None else self.max_iter

    def _check_params(self, X=None):
        """Check the parameters; return the structure."""
        check_parameters(self)
        structure = resolve_structure(self.structure, X)
        argmax = TRAINED[self.loss].argmax
        if argmax == "gibbs":
            marginal_oracle_of(structure, f"loss={self.loss!r}")
        if self.solver == "lbfgs" and argmax == "map":
            raise ValueError(f"loss={self.loss!r} is not smooth, which solver='lbfgs' needs; use 'adagrad'")
        if self.solver == "mira" and self.loss != "hinge":
            raise ValueError(f"solver='mira' is for loss='hinge'; got loss={self.loss!r}")
        # The description checks the parameter, which may be any object.
        if self._description() is not None and self.score_model != "auto":
            check_no_linear_parameters(self)
        return structure

    def _hold_out(self, structure, X, gold, task):
        """Split off the held-out samples; return X, gold and task of the others, and arguments of `_validation`."""
        rng = check_random_state(self.random_state)
        train, held = hold_out(self, len(X), rng, targets_of(structure).strata(gold))
        X_held = X[held]
        gold_held = gold[held]
        held_task = task.take(held)
        weights = held_task.weights if held_task.weights.any() else np.ones(len(held))
        if not task.weights[train].any():
            raise ValueError("all samples with a positive weight are held out; hold out a smaller fraction")
        return X[train], gold[train], task.take(train), (held_task, X_held, gold_held, weights)

    def _given_validation(self, structure, X_val, y_val, model):
        """Return the arguments of `_validation` that describe the user's validation samples.

        The model of the estimator becomes `model`, from which training starts.
        """
        self._learned = FittedState(model)
        try:
            return self._samples_to_score(structure, targets_of(structure).features(self, structure, X_val), y_val)
        except ValueError as error:
            raise ValueError(f"X_val and y_val: {error}") from error

    def _validation(self, task, X, gold, weights, learner):
        """Return a function that maps a model of a learner to its score on held-out samples; see `_agreement`."""
        X = learner.narrow(X)

        # Only samples of `X_val` can be infeasible, because training samples have a gold structure.
        @naming(X="X_val")
        def score(model):
            return agreement_score(*self._agreement(task, X, gold, weights, model))

        return score
