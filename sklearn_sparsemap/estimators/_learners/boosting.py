"""Boosted trees as the score model of a task: gradient boosting for Fenchel-Young losses.

Each round fits one regressor with several outputs to the negative gradient of the loss in the scores of all rows, which
is gold minus marginals. The leaves of trees take a Newton step for each output. In each round, the additional scores of
the structure take a step against the signs of their gradient, whose lengths adapt to it.

References: Dietterich, Ashenfelter and Bulatov, Training Conditional Random Fields via Gradient Tree Boosting. ICML
2004. Friedman, Greedy Function Approximation: A Gradient Boosting Machine. Annals of Statistics 29, 2001. Blondel,
Martins and Niculae, Learning with Fenchel-Young Losses. JMLR 21, 2020. Riedmiller and Braun, A Direct Adaptive Method
for Faster Backpropagation Learning: The RPROP Algorithm. ICNN 1993.

Used by `estimators/_multilabel` and `estimators/_structured`.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils.validation import has_fit_parameter

from ..._core.ragged import RaggedArray
from ..._training._trees import RegressorsModel, TreesModel, own_tree, predictions_of, trees_by_output, trees_of
from ..._training.score_models import LinearModel
from ...score_models import Trees
from .._monitor import report
from .lbfgs import LBFGSLearner
from .learner import Learner
from .score_model import new_learner

# Fraction of the columns that each node of a tree compares, and their minimum number. Fewer columns take less time, and
# make trees differ. With two tables of label sets and the letters, 0.3 takes 40 % of the time of all columns, and
# held-out losses are from 5 % lower to 1 % higher.
_COLUMNS, _LEAST_COLUMNS = 0.3, 10
# Maximum number of rows that a round draws for its tree. More rows take more time; leaves get their values from all.
_MAX_ROWS = 2**15
# Weight that is added to the curvature of a leaf, in units of the mean weight of a row. Larger values shrink leaves of
# few rows.
_RIDGE = 1.0
# Longest step of a leaf, in units of the temperature, before the learning rate. It is for leaves whose rows are all
# wrong with certainty, which have no curvature.
_LONGEST = 8.0
# Maximum number of entries of a sparse matrix whose indices are int32, as in scikit-learn's trees.
_MOST_ENTRIES = np.iinfo(np.int32).max
# Shortest and longest step of a regressor without leaves.
_SHORTEST_STEP, _LONGEST_STEP = 0.1, 20.0
# Duality gap of inference, as a fraction of the mean loss, and its minimum.
_ROUGH, _MOST_ACCURATE = 0.02, 1e-10
# Additional scores: factors of the length of a step after gradients of equal and of different signs, the bounds of this
# length, and the first length, in units of the temperature. The factors are those of Riedmiller and Braun.
_GROWTH, _SHRINKING, _LENGTHS, _FIRST_LENGTH = 1.2, 0.5, (1e-6, 0.5), 0.02
# Tolerance and maximum number of iterations of the scores without features, with which boosting starts.
_START_TOL, _START_MAX_ITER = 1e-3, 50
# Number of folds if there are fewer than `_FEW` samples; the fraction of the samples that are held out otherwise; and
# the minimum number of samples for either.
_FOLDS, _FEW, _HELD_OUT, _LEAST = 3, 1000, 0.2, 10
# Number of rounds without progress of the held-out loss after which boosting ends, times the learning rate; and its
# bounds.
_PATIENCE, _PATIENCE_BOUNDS = 2.0, (5, 50)


class _State(NamedTuple):
    """A model of boosting, as `Booster` describes it, with the gradient of its loss.

    Attributes
    ----------
    stages : tuple of ScoreModel
        The models of the rounds.
    scores, additional, loss, unconverged
        See `Booster`.
    lengths : array of shape (n_additional,)
        Lengths of the last steps of the additional scores.
    slope_before : array of shape (n_additional,)
        Gradient of the round before, with zeros for scores that have not moved.
    residuals : array of shape (n_rows, n_outputs)
        Gradient with respect to the scores, of the sum of the losses.
    slope : array of shape (n_additional,)
        Gradient with respect to the additional scores.
    """

    stages: tuple
    scores: np.ndarray
    additional: np.ndarray
    lengths: np.ndarray
    slope_before: np.ndarray
    loss: float
    residuals: np.ndarray
    slope: np.ndarray
    unconverged: int


class Booster:
    """Boosting of the scores of one task, round by round.

    Parameters
    ----------
    trees : Trees
    task : Task
    X : array or CSR of shape (n_rows, n_features)
    alpha : float
        Strength of the penalty of the additional scores.
    rng : RandomState
        Draws seeds of regressors, and rows.
    n_jobs : int or None
        Number of threads of inference.

    Attributes
    ----------
    loss : float
        Weighted mean loss of the current model, with the penalty.
    scores : array of shape (n_rows, n_outputs)
        Scores of the training samples under the current model.
    additional : array of shape (n_additional,)
    n_rounds : int
    unconverged : int
        Number of samples whose inference did not converge.
    """

    def __init__(self, trees, task, X, *, alpha, rng, n_jobs):
        self.trees = trees
        self.task = task.copy()
        self.X = X
        self.alpha = alpha
        self.rng = rng
        self.n_jobs = n_jobs
        self._total = float(task.weights.sum())
        self._row_weights = task.row_weights
        self._rows = np.flatnonzero(self._row_weights > 0.0)
        self._ridge = _RIDGE * self._row_weights.sum() / (len(self._rows) * task.temperature)
        self._narrow = narrow(X)
        # scikit-learn fits sparse columns, and applies trees to sparse rows.
        self._columns = sparse.csc_matrix(self._narrow) if sparse.issparse(X) else self._narrow
        start = scores_without_features(self.task, alpha, n_jobs)
        self.base = start.intercept
        scores = np.tile(self.base, (X.shape[0], 1))
        lengths = np.full_like(start.additional, _FIRST_LENGTH * task.temperature)
        self._state = self._evaluate((), scores, start.additional, lengths, np.zeros_like(lengths))

    @property
    def loss(self):
        return self._state.loss

    @property
    def scores(self):
        return self._state.scores

    @property
    def additional(self):
        return self._state.additional

    @property
    def n_rounds(self):
        return len(self._state.stages)

    @property
    def unconverged(self):
        return self._state.unconverged

    def _evaluate(self, stages, scores, additional, lengths, slope_before):
        """Return the state of a model, with its loss and its gradient."""
        loss, residuals, joined, unconverged = self.task.loss_gradient(scores.copy(), additional, self.n_jobs)
        loss = float(loss / self._total)
        # Later losses are lower, so inference becomes more accurate.
        self.task.accuracy = max(_ROUGH * loss, _MOST_ACCURATE)
        loss += 0.5 * self.alpha * float(additional @ additional)
        slope = joined / self._total + self.alpha * additional
        return _State(stages, scores, additional, lengths, slope_before, loss, residuals, slope, unconverged)

    def step(self):
        """Take a round; return its model, whose scores are added to those of the earlier rounds."""
        state = self._state
        regressor = self._fit_regressor()
        found = trees_of(regressor)
        by_output = trees_by_output(regressor)
        rate = self.trees.learning_rate
        zeros = np.zeros(len(self.base)), np.zeros(0)
        if by_output is not None:
            own = [own_tree(tree, rate, self._leaf_values(tree, [k])) for k, tree in enumerate(by_output)]
            stage = TreesModel.sum_of(own, *zeros, self.X.shape[1])
        elif found is not None:
            own = [own_tree(tree, rate / len(found), self._leaf_values(tree)) for tree in found]
            stage = TreesModel.sum_of(own, *zeros, self.X.shape[1])
        else:
            rate *= self._length_of(regressor)
            stage = RegressorsModel([regressor], [rate], *zeros, self.X.shape[1])
        scores = state.scores + stage.scores(self.X, self.n_jobs)
        # An interrupted round changes nothing.
        self._state = self._evaluate((*state.stages, stage), scores, *self._move_additional())
        return stage

    def model(self):
        """Return the current model."""
        stages = self._state.stages
        kind = type(stages[0]) if stages else TreesModel
        return kind.sum_of(stages, self.base.copy(), self.additional.copy(), self.X.shape[1])

    def _fit_regressor(self):
        """Return a regressor that is fitted to the negative gradient of the rows."""
        rows, weights = self._rows, self._row_weights
        if len(rows) > _MAX_ROWS:
            rows = np.sort(self.rng.choice(rows, _MAX_ROWS, replace=False))
        # The gradients are multiplied by the weights of their rows.
        targets = -self._state.residuals[rows] / weights[rows, None]
        given = self.trees.estimator
        seed = self.rng.randint(2**31 - 1)
        if given is None:
            # Linear models need no trees.
            from sklearn.tree import DecisionTreeRegressor

            regressor = DecisionTreeRegressor(
                max_depth=self.trees.max_depth,
                min_samples_leaf=self.trees.min_samples_leaf,
                max_features=n_columns(self.X.shape[1]),
                random_state=seed,
            )
            return regressor.fit(self._columns[rows], targets, sample_weight=weights[rows])
        regressor = with_seed(clone(given), seed)
        if targets.shape[1] == 1:
            targets = targets[:, 0]
        options = {}
        if np.ptp(weights[rows]) > 0.0:
            if not has_fit_parameter(regressor, "sample_weight"):
                raise ValueError(
                    f"estimator={given!r} of Trees takes no sample_weight, but samples have different weights; choose "
                    "another estimator, or leave sample_weight out"
                )
            options["sample_weight"] = weights[rows]
        try:
            return regressor.fit(self.X[rows], targets, **options)
        except ValueError as error:
            raise ValueError(
                f"estimator={given!r} of Trees must be a regressor with {self._state.residuals.shape[1]} outputs "
                "(MultiOutputRegressor makes one of any regressor); its fit failed with the above error"
            ) from error

    def _leaf_values(self, tree, outputs=slice(None)):
        """Return a Newton step for each node and output of a tree: the negative gradient over the curvature.

        All rows count, also those that were not drawn for the tree. Other outputs than the given ones have steps of
        zero.
        """
        at = tree.tree_.apply(self._narrow)
        shape = tree.tree_.node_count, len(at)
        sums = sparse.csr_array((np.ones(len(at)), (at, np.arange(len(at)))), shape=shape)
        residuals = self._state.residuals
        curvature = sums @ self.task.curvatures(residuals)[:, outputs] + self._ridge
        longest = _LONGEST * self.task.temperature
        values = np.zeros((tree.tree_.node_count, residuals.shape[1]))
        values[:, outputs] = np.clip((sums @ -residuals[:, outputs]) / curvature, -longest, longest)
        return values

    def _length_of(self, regressor):
        """Return the step along the predictions of a regressor that minimises the loss, by the slopes at 0 and 1."""
        direction = predictions_of(regressor, self.X, len(self.base))
        _, residuals, _, _ = self.task.loss_gradient(self.scores + direction, self.additional, self.n_jobs)
        before = np.vdot(self._state.residuals, direction)
        after = np.vdot(residuals, direction)
        if before >= 0.0:
            return 0.0
        return float(np.clip(before / min(before - after, -np.finfo(float).tiny), _SHORTEST_STEP, _LONGEST_STEP))

    def _move_additional(self):
        """Return the additional scores after a step, the lengths of the steps, and the gradient to compare next.

        A step has a length of its own in each score, which grows while the sign of the gradient stays, and shrinks if
        it changes. So steps become short near an optimum, and at a kink, although the trees change the gradient.
        """
        state = self._state
        agreement = state.slope * state.slope_before
        turned = agreement < 0.0
        factors = np.where(turned, _SHRINKING, np.where(agreement > 0.0, _GROWTH, 1.0))
        bounds = np.multiply(_LENGTHS, self.task.temperature)
        lengths = np.clip(factors * state.lengths, *bounds)
        slope = np.where(turned, 0.0, state.slope)
        return state.additional - np.sign(slope) * lengths, lengths, slope


def n_columns(n_features):
    """Return the number of columns that each node of a tree compares."""
    return min(n_features, max(_LEAST_COLUMNS, round(_COLUMNS * n_features)))


def narrow(X):
    """Return features as float32, as trees compare them.

    Raises
    ------
    ValueError
        If a value is too large, or a sparse matrix has too many entries.
    """
    with np.errstate(over="ignore"):
        found = X.astype(np.float32, copy=False)
    values = found.data if sparse.issparse(found) else found
    if not np.isfinite(values).all():
        raise ValueError(
            f"X has values beyond {np.finfo(np.float32).max:.1e}, the largest number that trees compare; scale X"
        )
    if not sparse.issparse(found):
        return np.ascontiguousarray(found)
    if len(values) > _MOST_ENTRIES:
        raise ValueError(
            f"X has {len(values)} entries, and trees of scikit-learn take {_MOST_ENTRIES} at most; use fewer samples "
            "or features, or score_model='network'"
        )
    arrays = values, found.indices.astype(np.int32, copy=False), found.indptr.astype(np.int32, copy=False)
    return sparse.csr_matrix(arrays, shape=found.shape)


def with_seed(regressor, seed):
    """Set all parameters of a regressor that are seeds of random numbers; return it."""
    names = [name for name in regressor.get_params() if name.rpartition("__")[2] == "random_state"]
    return regressor.set_params(**dict.fromkeys(names, seed))


def scores_without_features(task, alpha, n_jobs):
    """Return about the best model whose scores do not depend on features: intercepts and additional scores.

    It is zero unless marginals are those of a Gibbs distribution. SparseMAP has sparse marginals near zero scores, and
    its fit without features is as hard as a whole fit, because many structures tie.
    """
    zeros = LinearModel.zeros(0, task.n_outputs, task.n_additional)
    if not task.is_gibbs:
        return zeros
    if task.is_expectation:
        # Without features, the expected cost would be lowest at infinite scores, where its gradient vanishes.
        task = task.under("crf", task.temperature)
    X = RaggedArray(np.zeros((int(task.row_ptr[-1]), 0)), task.row_ptr)
    learner = LBFGSLearner(task, X, zeros, alpha=alpha, tol=_START_TOL, max_iter=_START_MAX_ITER, n_jobs=n_jobs)
    learner.run(lambda loss: False)
    return learner.model()


class ChosenRounds(NamedTuple):
    """The number of rounds with the lowest loss of held-out samples.

    Attributes
    ----------
    n_rounds : int
    losses : list of float
        Weighted mean loss of all held-out samples after each round. For the perceptron, number of wrong parts.
    scores : list of arrays of shape (n_rows, n_outputs)
        Scores of the held-out samples of each fold after that number of rounds.
    additional : list of arrays of shape (n_additional,)
        Additional scores of the models of the folds.
    """

    n_rounds: int
    losses: list
    scores: list
    additional: list


class HeldOutRounds:
    """Boosting on the training parts of folds, all folds at the same time.

    Parameters
    ----------
    trees : Trees
    task : Task
    X : RaggedArray
    folds : list of (int array, int array)
        Training samples and held-out samples of each fold.
    alpha, rng, n_jobs
        As in `Booster`.
    """

    def __init__(self, trees, task, X, folds, *, alpha, rng, n_jobs):
        self.trees, self.n_jobs = trees, n_jobs
        self.boosters = [
            Booster(trees, task.take(train), X[train].values, alpha=alpha, rng=rng, n_jobs=n_jobs) for train, _ in folds
        ]
        self._held = [(task.take(held), X[held].values) for _, held in folds]
        self._total = sum(float(part.weights.sum()) for part, _ in self._held)

    def run(self, on_round=lambda number, loss: False):
        """Take rounds while the loss of the held-out samples decreases.

        Parameters
        ----------
        on_round : callable, optional
            Called with the number of rounds and the loss of the held-out samples after each round. True stops.

        Returns
        -------
        rounds : ChosenRounds
        """
        patience = int(np.clip(_PATIENCE / self.trees.learning_rate, *_PATIENCE_BOUNDS))
        scores = [
            np.tile(booster.base, (X.shape[0], 1)) for booster, (_, X) in zip(self.boosters, self._held, strict=True)
        ]
        losses = [self._loss(scores)]
        best = self._found(losses, scores)
        for number in range(1, self.trees.max_iter + 1):
            stages = [booster.step() for booster in self.boosters]
            scores = [
                own + stage.scores(X, self.n_jobs)
                for own, stage, (_, X) in zip(scores, stages, self._held, strict=True)
            ]
            losses.append(self._loss(scores))
            if losses[-1] < losses[best.n_rounds]:
                best = self._found(losses, scores)
            if on_round(number, losses[-1]) or number - best.n_rounds >= patience:
                break
        return best._replace(losses=losses[1:])

    def _loss(self, scores):
        total = 0.0
        for own, booster, (task, _) in zip(scores, self.boosters, self._held, strict=True):
            task.accuracy = booster.task.accuracy
            if task.loss == "perceptron":
                # This loss is zero at zero scores, whatever is predicted.
                (n_wrong,) = task.n_wrong([(own.copy(), booster.additional)], self.n_jobs)
                total += float(task.weights @ n_wrong)
            else:
                total += task.loss_gradient(own.copy(), booster.additional, self.n_jobs)[0]
        return float(total / self._total)

    def _found(self, losses, scores):
        return ChosenRounds(len(losses) - 1, losses, scores, [booster.additional for booster in self.boosters])


def folds_of_samples(weights, rng):
    """Return folds of samples of positive weight: a few, or a single one if samples are many; none if too few."""
    samples = np.flatnonzero(weights > 0.0)
    if len(samples) < _LEAST:
        return []
    seed = rng.randint(2**31 - 1)
    if len(samples) >= _FEW:
        return [train_test_split(samples, test_size=_HELD_OUT, random_state=seed)]
    splits = KFold(_FOLDS, shuffle=True, random_state=seed).split(samples)
    return [(samples[train], samples[held]) for train, held in splits]


class BoostingLearner(Learner):
    """Boosting with a number of rounds that held-out samples choose.

    Parameters
    ----------
    trees : Trees
    task : Task
    X : RaggedArray
    alpha : float
        Strength of the penalty of the additional scores.
    rng : RandomState
    n_jobs : int or None
    folds : list of (int array, int array), default=None
        Training samples and held-out samples, by which the number of rounds is chosen. Without folds, or if the
        monitor has held-out samples, it is `trees.max_iter`, unless the monitor stops before.
    on_round : callable, default=None
        Called after each round on the folds; see `HeldOutRounds.run`.
    n_rounds : int, default=None
        Number of rounds, if it is known; in place of folds.
    """

    step_name = "round"
    # The loss of the training samples falls until all are learned by heart.
    watches_loss = False

    def __init__(self, trees, task, X, *, alpha, rng, n_jobs, folds=None, on_round=None, n_rounds=None):
        self.trees, self.task, self.X, self.folds, self.on_round = trees, task, X, folds, on_round
        self._options = {"alpha": alpha, "rng": rng, "n_jobs": n_jobs}
        self.max_iter = trees.max_iter if n_rounds is None else n_rounds
        self.rounds = self._booster = None

    @property
    def has_started(self):
        return self._booster is not None and (self._booster.n_rounds > 0 or self.max_iter == 0)

    @property
    def unconverged(self):
        return 0 if self._booster is None else self._booster.unconverged

    def model(self):
        return self._booster.model()

    def run(self, on_iteration):
        if self.folds and not self.is_validated:
            # If training is interrupted, the model of the first fold is kept.
            search = HeldOutRounds(self.trees, self.task, self.X, self.folds, **self._options)
            self._booster = search.boosters[0]
            self.rounds = search.run(*([] if self.on_round is None else [self.on_round]))
            self.max_iter = self.rounds.n_rounds
        self._booster = Booster(self.trees, self.task, self.X.values, **self._options)
        if self.max_iter == 0:
            on_iteration(self._booster.loss)
        for _ in range(self.max_iter):
            self._booster.step()
            if on_iteration(self._booster.loss):
                break
        return ""


@new_learner.register
def _(description: Trees, estimator, task, X, rng):
    def on_round(number, loss):
        report(estimator, "round on held-out samples", number, note=f", loss {loss:.6g}")
        return False

    folds = folds_of_samples(task.weights, rng)
    options = {"alpha": estimator.alpha_, "rng": rng, "n_jobs": estimator.n_jobs}
    return BoostingLearner(description, task, X, folds=folds, on_round=on_round, **options)
