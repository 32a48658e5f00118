"""Operators: SparseMAP of padded batches as functions of arrays.

An operator takes arrays only, so that a traced program can refer to it by a number or a name. All its arrays have an
axis of samples first: scores (n_samples, *shape); additional scores (n_samples, n_additional), joined in the order of
`Operator.extra`, or (1, n_additional) if all samples share them; lengths (n_samples, n_lengths), where n_lengths is 0
for batches without padding. The Jacobian over scores and additional scores together is symmetric.

The subclasses are in `structures.py` and `graphs.py`, and `register.py` makes their instances.

Used by `graphs.py`, `structures.py` and `tensors.py`.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._core.errors import SampleError
from .._core.offsets import size_of
from .._core.validation import LARGEST_SCORE, bound_masks
from .entry import Registered


class Operator(Registered):
    """SparseMAP, or another regularised argmax, of padded batches of one kind of problem.

    Parameters
    ----------
    structure : Structure, FactorGraph or GraphFunction
    extra : tuple of (name, shape)
        The padded additional scores of a sample, in the order in which they are joined; a name may be a tuple.
    options : (argmax, tol, max_iter, n_jobs)

    Attributes
    ----------
    n_additional : int
    """

    # Whether additional scores are those of factors. If they are, decisions can be fractional, because they solve the
    # linear relaxation.
    of_factors = False

    def __init__(self, structure, extra, options):
        self.structure, self.extra = structure, extra
        self.argmax, self.tol, self.max_iter, self.n_jobs = options
        self.n_additional = size_of(dict(extra))

    def solve(self, scores, additional, lengths):
        """Solve a batch of at least one sample.

        Returns
        -------
        solved : object
            Has `marginals`, `additional`, `values` (n_samples,) and ``products(unary, extra)``. Of structures, also
            `batch` and `weight_products`, which torch/_weights.py reads.

        Raises
        ------
        ValueError
            If scores are NaN or infinite, lengths out of range, or a sample is infeasible.
        """
        raise NotImplementedError

    def encode(self, sample, gold, shape, parts, additional):
        """Write the gold structure of a sample.

        Parameters
        ----------
        sample : object
            That of the sample; see `sample_layout` of subclasses.
        gold : object
            In the form in which the structure decodes, maybe padded.
        shape : tuple of int
            Shape of the sample's scores.
        parts, additional : arrays of zeros, like the padded scores and additional scores of a sample
            Outputs: the numbers of occurrences of the parts.

        Raises
        ------
        ValueError
            If gold is not a structure of this problem.
        """
        raise NotImplementedError

    def best(self, scores, additional, lengths, cost):
        """Return the best structure of each sample, in the form in which the structure decodes.

        `cost` is subtracted from the score of each part, unless all structures of the sample have the same number of
        parts. Otherwise as `solve`, for the regularised argmax ``"map"``.
        """
        raise NotImplementedError

    def check_decisions(self, flat, samples, padded, rows, lead):
        """Raise ValueError for the first decision that is not allowed.

        Parameters
        ----------
        flat : array of shape (n_samples, n_parts)
            Decisions of 0 and 1, or numbers of occurrences.
        samples : int array
            The samples to check.
        padded : tuple of int
            Shape of the padded scores of a sample.
        rows, lead
            As in `solve_samples`.
        """
        raise NotImplementedError


def without_padding(structure, shape):
    """Return a structure without its padding, if it is an array."""
    array = np.asarray(structure)
    if array.ndim == 0 or array.ndim < len(shape):
        return structure if array.ndim else array[()]
    return array[tuple(slice(n) for n in shape)]


def nested(flat):
    """Return values by the keys of additional scores as a dict by name; keys (factor, name) make dicts in dicts."""
    found = {}
    for key, value in flat.items():
        owner, name = (key, None) if isinstance(key, str) else key
        if name is None:
            found[owner] = value
        else:
            found.setdefault(owner, {})[name] = value
    return found


def warn_if_inexact(converged):
    """Issue a ConvergenceWarning unless all samples of a batch converged."""
    if not converged.all():
        warnings.warn(
            f"SparseMAP did not converge for {np.count_nonzero(~converged)} of {len(converged)} samples; their "
            "marginals and gradients are approximate. Divide the scores by a number, or raise tol",
            ConvergenceWarning,
            stacklevel=2,
        )


def check_values(values, sizes, what):
    """Return scores with bounded masks; raise ValueError for NaN and +inf.

    `values` are flat, with `sizes[i]` entries of sample i, or of all samples together for None.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.abs(values).sum() < LARGEST_SCORE:
            return values
    bad = ~(values < LARGEST_SCORE)
    if bad.any():
        place = int(np.argmax(bad))
        raise SampleError(
            what,
            None if sizes is None else int(np.searchsorted(np.cumsum(sizes), place, side="right")),
            f" contains {values[place]}; scores must be finite and below {LARGEST_SCORE:g}, or -inf to forbid a part",
        )
    return bound_masks(values)
