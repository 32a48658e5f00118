"""Solutions of batches some of whose samples are empty, because the mask or a length leaves nothing, or invalid.

Layers describe samples by rows of ints, shape (n_samples, 1 + n_lengths): whether the mask leaves a part, and the
lengths. A zero anywhere in a row says that the sample is empty. Its scores are never read, and its marginals and their
derivatives are zero.

Used by `jax`, `torch`, `graphs.py`, `losses.py` and `structures.py`.
"""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from .._core.errors import SampleError


def nonempty(rows):
    """Tell for each row of ints whether it describes a sample with parts; works for arrays and tensors."""
    # Negative lengths are wrong, which operators report.
    return (rows != 0).all(1) | (rows < 0).any(1)


def position(number, lead):
    """Return the indices of a sample along the leading axes; None for a single sample."""
    return tuple(int(i) for i in np.unravel_index(number, lead)) if lead else None


@contextmanager
def naming(samples, lead):
    """Replace the numbers of samples in the errors of operators by their positions.

    Parameters
    ----------
    samples : sequence of int
        The numbers, among all samples, of those that the operator was given.
    lead : tuple of int
        The leading axes of the user's scores.
    """
    try:
        yield
    except SampleError as error:
        if error.sample is not None:
            error.sample = position(samples[error.sample], lead)
        if error.infeasible and error.remedy:
            error.remedy += ", or by the mask. Padding is given by lengths, not by a mask"
        raise


def solve_samples(operator, scores, additional, rows, lead):
    """Solve the samples that are not empty.

    Parameters
    ----------
    operator : Operator
    scores, additional : arrays
        As in `Operator.solve`.
    rows : int array of shape (n_samples, 1 + n_lengths)
    lead : tuple of int
        The leading axes of the user's scores, whose product is n_samples.

    Returns
    -------
    solved : object
        As that of `Operator.solve`.

    Raises
    ------
    ValueError
        As by `Operator.solve`; the message names the sample by its indices along the leading axes.
    """
    samples = range(len(rows)) if rows.all() else np.flatnonzero(nonempty(rows))
    lengths, solved = rows[:, 1:], None
    with naming(samples, lead):
        if len(samples) == len(scores):
            return operator.solve(scores, additional, lengths)
        if len(samples):
            own = additional if len(additional) == 1 else additional[samples]
            solved = operator.solve(scores[samples], own, lengths[samples])
    return WithEmpty(solved, samples, scores.shape, (len(scores), operator.n_additional))


def best_of_samples(operator, scores, additional, rows, lead, cost):
    """Return the best structure of each sample; None for empty samples. See `Operator.best` and `solve_samples`."""
    samples = np.flatnonzero(nonempty(rows))
    found = [None] * len(rows)
    own = additional if len(additional) == 1 else additional[samples]
    if len(samples):
        with naming(samples, lead):
            best = operator.best(scores[samples], own, rows[samples, 1:], cost)
        for i, structure in zip(samples, best, strict=True):
            found[i] = structure
    return found


def solve_valid(operator, scores, additional, rows):
    """Solve the samples that are neither empty nor invalid; see `solve_samples`.

    For JAX alone, whose traced programs take NaN in place of an exception.

    Returns
    -------
    solved : object
        As that of `solve_samples`. Results of samples for which it raises ValueError are NaN.
    """
    parts = list(_valid_parts(operator, scores, additional, rows, np.arange(len(scores))))
    if parts and len(parts[0][0]) == len(scores):
        return parts[0][1]
    return WithInvalid(parts, scores.shape, (len(scores), operator.n_additional))


def _valid_parts(operator, scores, additional, rows, samples):
    """Solve some samples together or, if one of them is invalid, each half of them: pairs of samples and solutions."""
    own = additional if len(additional) == 1 else additional[samples]
    try:
        yield samples, solve_samples(operator, scores[samples], own, rows[samples], (len(samples),))
    except ValueError:
        if len(samples) > 1:
            for half in np.array_split(samples, 2):
                yield from _valid_parts(operator, scores, additional, rows, half)


class WithInvalid:
    """Solutions of a batch with invalid samples, whose results are NaN; see `SolvedStructures`.

    Parameters
    ----------
    parts : list of (samples, solved)
        Numbers of samples, and their solutions. Other samples are invalid.
    shape, additional_shape : tuple of int
        Shapes of the scores and the additional scores of all samples.
    """

    def __init__(self, parts, shape, additional_shape):
        self._parts = parts
        found = [np.full(own, np.nan) for own in (shape, additional_shape, shape[:1])]
        self.marginals, self.additional, self.values = found
        for samples, solved in parts:
            for array, own in zip(found, (solved.marginals, solved.additional, solved.values)):
                array[samples] = own

    def products(self, unary, extra):
        """Multiply padded directions with the Jacobian. That of invalid samples is NaN, but times zero it is zero.

        So a sum over the samples, such as the gradient of scores that all share, is that of the valid samples, if it
        does not depend on the others.
        """
        is_used = unary.reshape(len(unary), -1).any(axis=1) | extra.any(axis=1)
        found = tuple(np.zeros(own.shape) for own in (unary, extra))
        for own in found:
            own[is_used] = np.nan
        for samples, solved in self._parts:
            for own, part in zip(found, solved.products(unary[samples], extra[samples])):
                own[samples] = part
        return found


class Nothing(NamedTuple):
    """The result of an empty sample, which has no structures."""

    structures: list
    weights: np.ndarray


class WithEmpty:
    """Solutions of a batch with empty samples; see `SolvedStructures`.

    Parameters
    ----------
    solved : object
        Solutions of the others; None if there are none.
    samples : int array
        The numbers of the others.
    shape, additional_shape : tuple of int
        Shapes of the scores and the additional scores of all samples.
    """

    def __init__(self, solved, samples, shape, additional_shape):
        self._solved, self._samples, self._shapes = solved, samples, (shape, additional_shape)
        found = [] if solved is None else [solved.marginals, solved.additional, solved.values]
        self.marginals, self.additional, self.values = self._spread(*found, shapes=(*self._shapes, shape[:1]))

    def _spread(self, *found, shapes):
        """Return arrays of all samples, with zeros for empty ones."""
        arrays = [np.zeros(shape) for shape in shapes]
        for array, part in zip(arrays, found):
            array[self._samples] = part
        return arrays

    @property
    def batch(self):
        """A result for each sample."""
        results = [Nothing([], np.zeros(0)) for _ in range(len(self.values))]
        for k, i in enumerate(self._samples):
            results[i] = self._solved.batch[k]
        return results

    def products(self, unary, extra):
        """Multiply padded directions of scores and additional scores with the Jacobian."""
        found = () if self._solved is None else self._solved.products(unary[self._samples], extra[self._samples])
        return self._spread(*found, shapes=self._shapes)

    def weight_products(self, flat):
        """Multiply an array over the selected structures with the Jacobians of their weights; padded arrays."""
        found = () if self._solved is None else self._solved.weight_products(flat)
        return self._spread(*found, shapes=self._shapes)
