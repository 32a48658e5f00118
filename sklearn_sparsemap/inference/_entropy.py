"""`entropy`: the entropy of Gibbs distributions, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._core.annotations import Any
from .._core.jit import readonly
from .._core.offsets import offsets, ragged_indices
from .._core.validation import check_n_jobs
from ..structures._base import check_structure
from ._batch import marginal_oracle_of, marginal_problems
from ._problems import batch_of

if TYPE_CHECKING:
    from .._core.annotations import AdditionalScores
    from ..structures import Structure

# The gradient is minus the slope at t = 1 of the marginals of ``t * scores``, by the central difference of fourth
# order: places and weights. The probabilities are powers of those at t = 1, so the size of the scores does not matter:
# a step is small if it is small compared with the inverse of the logarithm of a probability. Probabilities below
# ``exp(-_LEAST_LOG - entropy)`` are rounding errors.
_STENCIL = ((-2, 1.0 / 12.0), (-1, -8.0 / 12.0), (1, 8.0 / 12.0), (2, -1.0 / 12.0))
_STEP = 2.0**-8  # step, times the largest logarithm; the error of the difference is about _STEP^4 / 30
_LEAST_LOG = 40.0


def entropy(structure: Structure, scores: Any, *, n_jobs: int | None = None, **additional: AdditionalScores) -> Any:
    """Compute the entropy of the Gibbs distribution ``p(s) = exp(score(s)) / Z``, and its gradient.

    The entropy is ``-sum_s p(s) log p(s)``, in nats: ``log Z`` minus the expected score. It tells how uncertain the
    scores are of the whole structure, and lies between 0 and the logarithm of the number of structures.

    Parameters
    ----------
    structure : Structure
        The structure, which needs Gibbs marginals; see `marginal_inference`.
    scores : array-like, or a list of them
        As in `marginal_inference`.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores. The results do not depend on it.
    **additional : array-like
        Additional scores by name, as in `sparsemap`.

    Returns
    -------
    value : float
        The entropy.
    gradient : dict of str -> ndarray
        Gradients with respect to ``"scores"`` and to each given additional score. It is minus the covariance of the
        parts with the score, with an error of about 1e-10 of its largest entry. For a list of samples, a list of
        pairs (value, gradient) is returned.

    Raises
    ------
    ValueError
        As in `marginal_inference`.

    Examples
    --------
    >>> from sklearn_sparsemap.inference import entropy
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> value, gradient = entropy(LinearChain(), [[1.0, 0.0], [0.0, 0.0]])
    >>> round(value, 3), gradient["scores"].round(3).tolist()
    (1.275, [[-0.197, 0.197], [0.0, 0.0]])
    """
    check_n_jobs(n_jobs)
    check_structure(structure)
    marginal_oracle_of(structure, "entropy")
    batch, many, _ = batch_of(structure, scores, additional)
    problems = _centred(structure, batch.rescale_masks())
    marginals, log_partition, expected = marginal_problems(structure, problems, n_jobs=n_jobs, many=many)
    ptr = problems.score_ptr
    additional_ptr = offsets(problems.additional_stop - problems.additional_start)
    # Scores of -inf have no probability.
    own = np.where(marginals > 0.0, problems.scores, 0.0)
    own_additional = np.where(expected > 0.0, problems.additional, 0.0)
    of_parts = [(slice(*ptr[i : i + 2]), slice(*additional_ptr[i : i + 2])) for i in range(len(ptr) - 1)]
    means = [marginals[here] @ own[here] + expected[there] @ own_additional[there] for here, there in of_parts]
    # Rounding can make the entropy of a certain structure negative.
    values = np.maximum(log_partition - means, 0.0)
    steps = _STEP / (_LEAST_LOG + values)
    by_part = np.repeat(steps, np.diff(ptr))
    by_additional = np.repeat(steps, np.diff(additional_ptr))
    slopes = np.zeros(len(own))
    additional_slopes = np.zeros(len(own_additional))
    for place, weight in _STENCIL:
        moved = problems._replace(
            scores=readonly(problems.scores + place * by_part * own),
            additional=readonly(problems.additional + place * by_additional * own_additional),
        )
        found, _, found_additional = marginal_problems(structure, moved, n_jobs=n_jobs, many=many)
        # The weights sum to zero. Without the marginals, rounding of the sum would be larger.
        slopes -= weight / by_part * (found - marginals)
        additional_slopes -= weight / by_additional * (found_additional - expected)
    pairs = []
    for i, (shape, (here, there)) in enumerate(zip(batch.shapes, of_parts)):
        gradient = {"scores": slopes[here].reshape(shape), **batch.split_additional(additional_slopes[there], i)}
        pairs.append((float(values[i]), gradient))
    return pairs if many else pairs[0]


def _centred(structure, problems):
    """Return problems in which large common terms of all structures of a problem are subtracted from the scores.

    This changes no probability, and rounding is that of the differences. Each problem gets additional scores of its
    own, one after the other.
    """
    scores = problems.scores.copy()
    for dims, first, stop in zip(problems.dims, problems.score_ptr, problems.score_ptr[1:]):
        own = scores[first:stop]
        places = structure.exclusive_parts(dims)
        if places is None and structure.fixed_size:
            places = np.arange(len(own))[None]
        if places is not None:
            highest = own[places].max(axis=1, keepdims=True)
            own[places] -= np.where(highest > -np.inf, highest, 0.0)
    lengths = problems.additional_stop - problems.additional_start
    ptr = offsets(lengths)
    return problems._replace(
        scores=readonly(scores),
        additional=readonly(problems.additional[ragged_indices(problems.additional_start, lengths)]),
        additional_start=readonly(ptr[:-1], np.int64),
        additional_stop=readonly(ptr[1:], np.int64),
    )
