"""Inference with a linear structured model: supports, the k best structures, likelihoods, and samples."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from ..._core.annotations import Any, NDArray
from ..._core.shapes import split_flat
from ..._core.validation import check_positive, check_same_length
from ...inference import marginal_inference, sparsemap
from ...inference._problems import lay_out
from ...inference._sampling import draw_structures
from ...losses import LOSSES, FenchelYoungLoss
from ...structures import Structure
from ...training._structure_task import is_flat
from .._failures import warn_of_convergence
from .completions import blamed_on_gold, blamed_on_known, check_known_length, forbid_others
from .empty import with_empty

# Largest duality gap, relative to 1 + the objective, that does not cause a warning in prediction.
_INEXACT = 1e-8


class QuestionsMixin:
    """Methods of `LinearStructuredModel` that need only its scores."""

    def predict_structures(self, X: Any, known: Any = None) -> list[list[tuple[Any, float]]]:
        """Return the support of SparseMAP for each sample: structures with their probabilities.

        The distribution is that of SparseMAP for every loss. After training with crf, `predict_marginals` returns
        marginals of the Gibbs distribution.

        Parameters
        ----------
        X : as in `fit`
        known : sequence, default=None
            As in `predict`.

        Returns
        -------
        structures : list of lists of (structure, probability)
            The most probable structure first. Structures are as in `predict`.
        """
        structure, X = self._check_predict(X)
        if not isinstance(structure, Structure):
            raise ValueError(
                "predict_structures is for structures, not for factor graphs, in which LP-SparseMAP has no "
                "distribution; use predict_marginals"
            )

        def answer(scores, additional):
            results = sparsemap(structure, scores, n_jobs=self.n_jobs, **additional)
            check_converged(results.gap, results.objective)
            return [
                [(self._as_labels(s), weight) for s, weight in zip(result.structures, result.weights.tolist())]
                for result in results
            ]

        return self._ask_by_name(X, "sparsemap", known, answer, [(self._no_labels(), 1.0)])

    def predict_n_best(self, X: Any, k: int, known: Any = None) -> list[list[tuple[Any, float]]]:
        """Find the `k` structures with the highest scores for each sample.

        Parameters
        ----------
        X : as in `fit`
        k : int
            Number of structures.
        known : sequence, default=None
            As in `predict`.

        Returns
        -------
        best : list of lists of (structure, score)
            The best structure first. Structures are as in `predict`; for flat data they are labels. A list has fewer
            than `k` entries if fewer structures exist.

        Raises
        ------
        ValueError
            If the data are not as described.
        """
        check_positive("k", k, integer=True)
        _, X = self._check_predict(X)

        def answer(task, scores, additional):
            results = task.n_best(scores, additional, int(k), self.n_jobs)
            return [[(self._as_labels(s), value) for s, value in best] for best in results]

        return self._ask(X, "map", known, answer, [(self._no_labels(), 0.0)])

    def log_likelihood(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Compute the log-probability of structures under the model's Gibbs distribution.

        Parameters
        ----------
        X, y : as in `fit`
            A label of None is unknown. The result is then the log-probability of all completions together.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            The crf loss is minus this, times the temperature.

        Raises
        ------
        ValueError
            If the model was not trained with crf or margin_crf, or the data are not as described.
        """
        self._check_gibbs("log_likelihood")
        structure, X = self._check_predict(X)
        check_same_length(X, y)

        def of_structures(scores, additional):
            pairs = FenchelYoungLoss(structure, "crf").loss_gradient(scores, list(y), n_jobs=self.n_jobs, **additional)
            return [-loss for loss, _ in pairs]

        def log_partitions(scores, additional):
            return marginal_inference(structure, scores, n_jobs=self.n_jobs, **additional).log_partition

        with blamed_on_gold():
            if not structure.labelled:
                return np.array(self._ask_by_name(X, "gibbs", None, of_structures))
            completions = self._ask_by_name(X, "gibbs", y, log_partitions, 0.0)
        total = self._ask_by_name(X, "gibbs", None, log_partitions, 0.0)
        return np.minimum(np.subtract(completions, total), 0.0)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None, known: Any = None) -> list[list[Any]]:
        """Draw structures from the model's Gibbs distribution.

        Parameters
        ----------
        X : as in `fit`
        n_samples : int, default=1
            Number of structures for each sample.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        known : sequence, default=None
            As in `predict`. Samples are then drawn from the completions.

        Returns
        -------
        structures : list of lists of structures
            As `predict` returns them.

        Raises
        ------
        ValueError
            If the model was not trained with crf or margin_crf, or the data are not as described.
        """
        self._check_gibbs("sample")
        check_positive("n_samples", n_samples, integer=True)
        (structure, X), rng = self._check_predict(X), check_random_state(random_state)

        def answer(scores, additional):
            problems = lay_out(structure, scores, additional)[0]
            drawn = [draw_structures(structure, problem, int(n_samples), rng) for problem in problems]
            return [[self._as_labels(s) for s in structures] for structures in drawn]

        return self._ask_by_name(X, "gibbs", known, answer, [self._no_labels()] * int(n_samples))

    def _check_gibbs(self, what):
        self._check_predict_ready()
        if LOSSES[self._latest_loss].argmax != "gibbs":
            raise ValueError(
                f"{what} is for models of a Gibbs distribution; train with loss='crf' (this model has "
                f"loss={self._latest_loss!r})"
            )

    def _ask(self, X, argmax, known, answer, of_empty=None):
        """Return the result of each sample.

        Parameters
        ----------
        X : RaggedArray
        argmax, known
            As in `_scores`.
        answer : callable
            Maps the task of the samples that have rows, their scores and the additional scores to their results.
        of_empty : object, default=None
            The result of a sample without rows.
        """
        task = self._task(X)

        def of_rows():
            scores, additional = self._scores(task, X, self._current, argmax, known)
            with self._blamed(known):
                return answer(task, scores, additional)

        return with_empty(X, of_rows, of_empty)

    def _ask_by_name(self, X, argmax, known, answer, of_empty=None):
        """Return the result of each sample; `answer` maps a list of scores, and additional scores by name, to them."""

        def in_shapes(task, scores, additional):
            return answer(list(task.in_shapes(scores)), split_flat(additional, task.additional_shapes))

        return self._ask(X, argmax, known, in_shapes, of_empty)

    def _blamed(self, known):
        """Return a context for inference with known entries; see `blamed_on_known`."""
        return blamed_on_known(known, getattr(self, "constraints", None))

    def _as_labels(self, structure):
        """Return a structure of codes in the form of `predict`."""
        return self.classes_[structure] if self._structure.labelled else structure

    def _no_labels(self):
        """Return the label sequence of a sample without steps; None for other structures, which are never empty."""
        return self.classes_[:0] if self._structure.labelled else None

    def _restricted(self, task, X, scores, known):
        """Return scores with -inf for parts that contradict `known`."""
        if known is None:
            return scores
        if not isinstance(self._structure, Structure):
            check_known_length(known, len(X))
            return task.restrict(scores, known)
        if is_flat(self._structure) and hasattr(known, "__len__") and not isinstance(known, str):
            known = [[label] for label in known]
        return forbid_others(self._structure, X, getattr(self, "classes_", None), known, scores)


def check_converged(gaps, objectives):
    """Warn of samples whose probabilities are inexact."""
    inexact = gaps > _INEXACT * (1.0 + np.abs(objectives))
    if inexact.any():
        warn_of_convergence(
            f"SparseMAP did not converge for {inexact.sum()} samples (largest duality gap {gaps.max():.1e}), so their "
            "probabilities are inexact; this happens if almost all scores tie"
        )
