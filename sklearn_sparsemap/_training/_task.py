"""The interface of samples for optimisers and estimators: structures, factor graphs and label sets.

Used by `estimators`, `_decision_task.py`, `_graph_task.py`, `_label_task.py`, `_partial_task.py` and
`_structure_task.py`.
"""

from copy import copy
from functools import partial

import numpy as np

from ..losses._recipes import TRAINED

# Residuals up to this are errors of inference.
_ZERO = 1e-6


class Task:
    """Samples for inference; `learn` adds correct structures and a loss.

    Tasks of label sets and of decisions have them from the start.

    Other rooms use tasks, too: `conformal` calls `marginals`, `log_partitions`, `maxima`, `n_best`, `parts`, `value`,
    `values` and `in_shapes`.

    Scores are an array with one row for each row of the features of all samples, and `n_outputs` columns. Additional
    scores are flat, and the same for all samples.

    Attributes
    ----------
    row_ptr : int array of shape (n_samples + 1,)
        The beginnings of the samples' rows.
    weights : array of shape (n_samples,)
        Sample weights, set with the loss.
    visits : int array of shape (n_samples,), or None
        How often an online learner visits each sample in an epoch. None means once.
    n_outputs : int
        Number of scores of a row.
    additional_shapes : dict
        Shapes of the learned additional scores: name -> shape, or name -> a dict of these.
    n_additional : int
        Number of learned additional scores.
    loss : str
    graphs : list of FactorGraph, or None
        The graph of each sample, if samples are factor graphs.
    varies : bool, or array of shape (n_rows, 1)
        Whether structures differ in their number of parts; an array tells this for the sample of each row.
    is_flat : bool
        Whether a sample is a single row with a single label.
    repeats : bool
        Whether a structure may have a part several times.
    is_expectation : bool
        Whether the loss is the expected cost, which is not convex.
    mask : float or array of shape (n_additional,)
        Array that is added to the additional scores and not learned: -inf for forbidden parts, else 0.
    per_sample : tuple of str
        Names of further attributes with an entry for each sample: lists, arrays, or None.
    sequential : bool
        Whether compiled code can learn a linear model from one sample at a time; otherwise, mini-batches are used.
        `estimators/_learners` and `_objective.py` read the `form` of the loss (see `loss_form`) of a sequential task.
    accuracy : float
        Duality gap at which inference ends in `loss_gradient` of a sequential task. It is small by default, because
        L-BFGS compares losses that are close.
    violated : sequence of lists of Factor
        The factors that gold of each sample violates, if samples are factor graphs. Training needs samples without any.
    length_factor : float
        How many usual samples a sample stands for on average: above 1 if sequences are long and their labels stay for
        many steps, as in recordings. The strength of the penalty and the patience of AdaGrad depend on it.
    """

    sequential = varies = is_flat = repeats = is_expectation = False
    accuracy, length_factor = 1e-12, 1.0
    violated = ()
    n_outputs, n_additional = 1, 0
    weights, visits, mask, per_sample, graphs = None, None, 0.0, (), None

    @property
    def has_kinks(self):
        """Whether the loss may have kinks, which SparseMAP has in the additional scores."""
        return TRAINED[self.loss].argmax == "sparsemap" and self.n_additional > 0

    @property
    def row_weights(self):
        """Weights of the rows, with which the residuals of `loss_gradient` are multiplied."""
        return np.repeat(self.weights, np.diff(self.row_ptr))

    @property
    def is_gibbs(self):
        """Whether marginals are those of a Gibbs distribution."""
        return TRAINED[self.loss].argmax == "gibbs"

    def curvatures(self, residuals):
        """Return about the second derivatives of the loss in each score, given its residuals.

        A marginal u of a Gibbs distribution has the derivative u (1 - u), divided by the temperature. That of SparseMAP
        has at most 1 while it is between 0 and 1, and 0 elsewhere. A wrong part has 1 in any case: after a step of the
        temperature, it may no longer be wrong. The expected cost of a single label has at most its residual, divided by
        the temperature.
        """
        weights = self.row_weights[:, None]
        sizes = np.abs(residuals)
        if self.is_expectation:
            return sizes / self.temperature
        if self.is_gibbs:
            # Weights of zero have residuals of zero.
            return np.maximum(sizes * (1.0 - sizes / np.where(weights > 0.0, weights, 1.0)), 0.0) / self.temperature
        return weights * (sizes > _ZERO * weights) / self.temperature

    def smoothness(self):
        """Return Lipschitz constants of the gradients of the samples' losses in their scores; None if unknown."""
        return None

    def copy(self):
        """Return a copy that may be modified. Attributes with an underscore are derived and not copied."""
        found = copy(self)
        for name in [name for name in vars(found) if name.startswith("_")]:
            delattr(found, name)
        return found

    def take(self, samples):
        """Return the task of some of the samples."""
        found = self.copy()
        found.row_ptr = np.concatenate([[0], np.cumsum(self.row_ptr[samples + 1] - self.row_ptr[samples])])
        for name in ("weights", "visits", *self.per_sample):
            values = getattr(self, name)
            if values is not None:
                setattr(found, name, [values[i] for i in samples] if isinstance(values, list) else values[samples])
        return found

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        """Return the loss of all samples, and its gradient.

        Parameters
        ----------
        scores : array of shape (n_rows, n_outputs)
            A task with `overwrites_scores`, such as a `StructureTask`, overwrites it with the residuals.
        additional : array of shape (n_additional,)
        n_jobs : int or None
        mean : bool, default=False
            Whether the gradient is that of the weighted mean, for mini-batches; otherwise it is that of the weighted
            sum, like the loss. Tasks that are `sequential` support this only in their `batches`.

        Returns
        -------
        loss : float
        residuals : array of shape (n_rows, n_outputs)
            Gradient with respect to the scores.
        joined : array of shape (n_additional,)
            Gradient with respect to the additional scores.
        n_inexact : int
            Number of samples whose inference ended too far from the optimum for an accurate loss.
        """
        raise NotImplementedError

    def gold_rows(self):
        """Return the gold indicators of the rows, for models that learn from single rows.

        Returns
        -------
        gold : array of shape (n_rows, n_outputs)
            1 for the parts of the gold structures, 0 for others, NaN if unknown. A part that a structure has several
            times has this number.
        single : bool
            Whether each row has exactly one part, by the kind of the structures.
        """
        raise NotImplementedError

    def epochs(self, optimizer, X, remember=True):
        """Return a function that visits samples in an order, and returns the weighted sum of their losses.

        Parameters
        ----------
        optimizer : GradientSteps, or OnlineOptimizer if the task is `sequential`
        X : RaggedArray
        remember : bool, default=True
            Whether an epoch may warm start from solutions of the previous one.
        """
        return partial(optimizer.epoch, self, X)

    def batches(self, X, order, batch_size, gap):
        """Yield mini-batches of samples with a positive weight, in an order.

        Parameters
        ----------
        X : RaggedArray
        order : int array
            Indices of the samples.
        batch_size : int
        gap : float
            Duality gap of the inference of structures; the scores are divided by the temperature.

        Yields
        ------
        batch : object
            Its method `loss_gradient` is that of a task of these samples, with ``mean=True``.
        features : array or CSR
            The rows of the samples.
        """
        if len(order) == len(X) <= batch_size and (order == np.arange(len(X))).all():
            # Small mini-batches of a stream need no selection.
            if self.weights.any():
                yield self, X.values
            return
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            batch = self.take(chosen)
            if batch.weights.any():
                # If each sample is a single row, indexing the rows is faster.
                yield batch, X.values[chosen] if X.values.shape[0] == len(X) else X[chosen].values

    def predict(self, scores, additional, n_jobs):
        """Return the best structure of each sample, in the form in which `learn` takes gold."""
        raise NotImplementedError

    def marginals(self, scores, additional, n_jobs):
        """Return the marginals of all samples, like `scores`, and arrays of gaps and objectives.

        The latter are None if inference is exact.
        """
        raise NotImplementedError

    def distributions(self, scores, additional, n_jobs):
        """Return the distribution of SparseMAP for each sample, and arrays of gaps and objectives.

        A distribution is a list of (structure, probability), the most probable first.

        Raises
        ------
        ValueError
            If the polytope of a sample is a relaxation, whose points are no distributions.
        """
        raise NotImplementedError

    def without_rules(self, scores, additional):
        """Return the best structure of one sample if no rule held, and the texts of the rules that it violates.

        None if there are no rules, or if they are not separate from the structure.
        """
        return None

    def log_partitions(self, scores, additional, n_jobs):
        """Return the logarithm of the sum of ``exp(score)`` over the structures of each sample: array."""
        raise NotImplementedError

    def maxima(self, scores, additional, n_jobs):
        """Return the highest total score of a structure of each sample: array."""
        raise NotImplementedError

    def n_best(self, scores, additional, k, n_jobs, chosen=None):
        """Return the `k` best structures of samples, in the form of `predict`, with their values: list of lists.

        `chosen` are the indices of the samples, by default all.
        """
        raise NotImplementedError

    def in_shapes(self, values):
        """Split values for the scores of all samples into arrays in the shapes of the scores, one for each sample."""
        raise NotImplementedError

    def parts(self, gold):
        """Return the parts of one structure for each sample.

        Parameters
        ----------
        gold : sequence
            In the form of `predict`. The codes of labels that the model does not know are -1.

        Returns
        -------
        parts : list of (int array, int array)
            Indices of the unary parts among the scores of the sample, and of the additional parts; some may be -1,
            which stands for no part. None for a structure that the model cannot predict.

        Raises
        ------
        ValueError
            If a structure is none of its sample; the message names it.
        """
        raise NotImplementedError

    def encode(self, i, structures):
        """Return the parts of structures of sample i, as `parts` does. They are not checked."""
        raise NotImplementedError

    def value(self, i, scores, additional, parts):
        """Return the total score of a structure of sample i, given its parts, and the flat scores of the sample."""
        unary, joint = parts
        return np.add.reduce(scores[unary[unary >= 0]]) + np.add.reduce(additional[joint[joint >= 0]])

    def values(self, i, scores, additional, structures):
        """Return the total scores of structures of sample i, rounded as in `value`."""
        return [self.value(i, scores, additional, parts) for parts in self.encode(i, structures)]

    def difference(self, first, second):
        """Return the parts of a structure minus those of another one, for a single sample, as `explain` shows them.

        Returns
        -------
        parts : array of shape (n_rows * n_outputs,)
        joint : array of shape (n_additional,)
        """
        raise NotImplementedError

    def describe(self, part, labels):
        """Return a name for a unary part of the first sample, or None; `labels` are those of the outputs, or None."""
        raise NotImplementedError

    def names_of_pairs(self):
        """Return the names of scored pairs by the name of their additional scores."""
        return {}

    def n_wrong(self, scored, n_jobs):
        """Return the number of wrong parts of each sample: those whose marginals differ from gold by more than half.

        Parameters
        ----------
        scored : list of (scores, additional)
            The scores of each model that is compared, as in `loss_gradient`. Models share what a task prepares.
        n_jobs
            As in `loss_gradient`.

        Returns
        -------
        n_wrong : list of arrays of shape (n_samples,)
            The numbers of each model.
        """
        task = self.copy()
        task.weights = np.ones(len(self.row_ptr) - 1)
        found = []
        for scores, additional in scored:
            _, residuals, _, _ = task.loss_gradient(scores, additional, n_jobs)
            wrong = (np.abs(residuals).reshape(len(scores), -1) > 0.5).sum(axis=1)
            found.append(np.diff(np.concatenate([[0.0], np.cumsum(wrong)])[self.row_ptr]))
        return found

    def agreement(self, gold, predicted, weights):
        """Compare predictions with gold.

        Returns
        -------
        n_agreeing, n_parts : float
            Weighted numbers of agreeing parts and of all parts, those of gold and prediction together. Numbers of
            several sets of samples may be added; their `agreement_score` is the score.
        """
        raise NotImplementedError


def agreement_of(counts, weights):
    """Return the sums of `Task.agreement`, from the numbers of `Structure.agreement` of each sample."""
    n_common, n_gold, n_predicted = weights @ np.array(counts, np.float64)
    return 2.0 * n_common, n_gold + n_predicted


def agreement_score(n_agreeing, n_parts):
    """Return the score of an agreement. Without any parts, gold and prediction agree."""
    return float(n_agreeing / n_parts) if n_parts else 1.0
