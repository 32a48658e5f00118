"""What optimisers and estimators know of samples: one protocol for structures, factor graphs and label sets."""

from copy import copy

import numpy as np

from ..losses._fenchel_young import LOSSES


class Task:
    """Samples laid out for inference under any scores; once they `learn` what is right, with the loss of the scores.

    Scores are an array with one row for each row of the features of all samples, and with `n_outputs` columns.
    Additional scores are flat, and the same for all samples.

    Attributes
    ----------
    row_ptr : int array of shape (n_samples + 1,)
        Where the rows of each sample begin.
    weights : array of shape (n_samples,)
        Set by `learn`.
    n_outputs : int
    additional_shapes : dict
        What is learned beside the scores of the rows: name -> shape, or name -> such a dict.
    loss : str
    varies : bool, or array of shape (n_rows, 1)
        Whether structures differ in their number of parts; or which rows are of samples where they do.
    is_flat : bool
        Whether a sample is a single row with a single label.
    sequential : bool
        Whether compiled code learns sample by sample; else mini-batches are learned.
    """

    sequential = varies = is_flat = False
    n_outputs = 1
    weights = None

    @property
    def n_additional(self):
        return n_scores(self.additional_shapes)

    @property
    def has_kinks(self):
        """Whether the loss may have no gradient somewhere: in the additional scores of SparseMAP."""
        return LOSSES[self.loss].argmax == "sparsemap" and self.n_additional > 0

    def copy(self):
        """Return a task that may be changed; what has an underscore follows from the rest, and is made anew."""
        found = copy(self)
        for name in [name for name in vars(found) if name.startswith("_")]:
            delattr(found, name)
        return found

    def take(self, places):
        """Return a task of the samples of some numbers; a subclass takes what else it has for each sample."""
        found = self.copy()
        found.row_ptr = np.concatenate([[0], np.cumsum(self.row_ptr[places + 1] - self.row_ptr[places])])
        if self.weights is not None:
            found.weights = self.weights[places]
        return found

    def loss_gradient(self, scores, additional, n_jobs, mean=False):
        """Return the loss of all samples, and its gradient.

        Parameters
        ----------
        scores : array of shape (n_rows, n_outputs)
        additional : array of shape (n_additional,)
        n_jobs : int or None
        mean : bool, default=False
            Whether the gradient is that of the weighted mean, as mini-batches want it; else of the weighted sum, as is
            the loss. Only tasks that are not `sequential` know this.

        Returns
        -------
        loss : float
        residuals : array of shape (n_rows, n_outputs)
            Gradient with respect to the scores.
        joined : array of shape (n_additional,)
            Gradient with respect to the additional scores.
        n_inexact : int
            Number of samples whose inference did not come near the optimum.
        """
        raise NotImplementedError

    def epochs(self, optimizer, X, remember=True):
        """Return a function that lets an optimiser visit samples in an order: it returns their weighted losses' sum.

        Parameters
        ----------
        optimizer : MinibatchOptimizer, or where the task is `sequential` OnlineOptimizer
        X : RaggedArray
        remember : bool, default=True
            Whether an epoch may start from solutions of the one before.
        """
        return lambda order: optimizer.epoch(self, X, order)

    def predict(self, scores, additional, n_jobs):
        """Return the best structure of each sample, in the form in which gold ones are given to `learn`."""
        raise NotImplementedError

    def marginals(self, scores, additional, n_jobs):
        """Return the marginals of each sample, and arrays of duality gaps and objectives (None where it is exact)."""
        raise NotImplementedError

    def agreement(self, gold, predicted, weights):
        """Return the share of parts that are right, or where structures differ in their number of parts their F1."""
        raise NotImplementedError


def n_scores(shapes):
    """Return how many additional scores of some shapes there are."""
    return sum(map(n_scores, shapes.values())) if isinstance(shapes, dict) else int(np.prod(shapes))


def split_scores(flat, shapes):
    """Cut flat additional scores, or what goes with them, into views by name."""
    found, start = {}, 0
    for name, shape in shapes.items():
        part = flat[start : start + n_scores(shape)]
        found[name] = split_scores(part, shape) if isinstance(shape, dict) else part.reshape(shape)
        start += len(part)
    return found


def accuracy_of(right, weights):
    """Return the share of what is right, from one bool array and one weight a sample."""
    return float(np.average(np.concatenate(right), weights=np.repeat(weights, [len(r) for r in right])))


def f1_of(pairs, weights):
    """Return the F1 of parts, from the slots of the right and the predicted structure and one weight of each sample."""
    counts = [(((gold == found) & (gold >= 0)).sum(), (gold >= 0).sum() + (found >= 0).sum()) for gold, found in pairs]
    n_right, n = weights @ np.array(counts, np.float64)
    # Without any parts, all agree.
    return float(2.0 * n_right / n) if n else 1.0
