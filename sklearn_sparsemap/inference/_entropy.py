"""`entropy`: the entropy of Gibbs distributions, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._core.annotations import Any
from .._core.offsets import offsets
from .._core.validation import check_n_jobs
from ..structures._base import check_structure
from ._batch import marginal_oracle_of, marginal_problems, marginal_slopes
from ._problems import batch_of

if TYPE_CHECKING:
    from .._core.annotations import AdditionalScores
    from ..structures import Structure


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
        parts with the score, with a relative error of about 1e-10. For a list of samples, a list of pairs (value,
        gradient) is returned.

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
    problems = batch.rescale_masks()
    marginals, log_partition, expected = marginal_problems(structure, problems, n_jobs=n_jobs, many=many)
    ptr = problems.score_ptr
    additional_ptr = offsets(problems.additional_stop - problems.additional_start)
    bounds = zip(problems.additional_start, problems.additional_stop)
    joined = np.concatenate([problems.additional[start:stop] for start, stop in bounds])
    # Scores of -inf have no probability.
    own = np.where(marginals > 0.0, problems.scores, 0.0)
    own_additional = np.where(expected > 0.0, joined, 0.0)
    slopes, additional_slopes = marginal_slopes(structure, problems, -own, -own_additional, n_jobs=n_jobs)
    pairs = []
    for i, shape in enumerate(batch.shapes):
        here = slice(ptr[i], ptr[i + 1])
        there = slice(additional_ptr[i], additional_ptr[i + 1])
        mean = marginals[here] @ own[here] + expected[there] @ own_additional[there]
        gradient = {"scores": slopes[here].reshape(shape), **batch.split_additional(additional_slopes[there], i)}
        # Rounding can make the entropy of a certain structure negative.
        pairs.append((max(float(log_partition[i] - mean), 0.0), gradient))
    return pairs if many else pairs[0]
