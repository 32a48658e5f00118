"""Inference of a model of label sets: evidence, probabilities and marginals of labels, and the chosen label sets.

Used by `base.py` and `face.py`.
"""

from copy import deepcopy

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from ..._core.blocks import blocks, dense
from ..._training._label_task import LabelTask
from ..._training._task import agreement_score
from .._failures import warn_user
from .._structured.restrictions import explain_infeasible
from .calibration import Calibration
from .coherence import implications, make_coherent
from .decisions import ObservedLabelSets, Tuning, expected_cuts
from .known import agree

MAP_TIME_LIMIT = 1.0  # seconds for the best label set of a sample; larger values leave fewer sets without a certificate
# Rules that decision="auto" chooses from, in the order of preference if they tie.
RULES = ("observed_sets", "expected_f1", "threshold")
# Largest duality gap, relative to 1 + the objective, that does not cause a warning in prediction.
_INEXACT = 1e-6
# Factor by which the threshold scores of earlier mini-batches of a stream are multiplied at each new one.
_DECAY = 0.95
# Maximum number of held-out samples of a fold on which decision rules are compared.
_MAX_COMPARED = 1000


class LabelInference:
    """From the weights of a model to probabilities, marginals and label sets.

    The model, a `NetworkModel`, is an argument of the methods, because training compares several ones.

    Parameters
    ----------
    graph : LabelGraph or OneLabel
    loss : str
    classes : array of shape (n_labels,)
    decision : str
        The parameter of the estimator.
    threshold : float or "auto"
        The parameter of the estimator.
    n_jobs : int or None
    calibration : Calibration
    cut : float
        The threshold, given or tuned.
    rule : str
        The rule that ``decision="auto"`` chose.
    sets : ObservedLabelSets or None
    """

    def __init__(self, graph, loss, classes, decision, threshold, n_jobs, calibration, cut, rule, sets):
        self.graph, self.loss, self.classes, self.n_jobs, self.decision = graph, loss, classes, n_jobs, decision
        # A single label for each sample is the one with the highest score.
        self.is_map = decision == "map" or not graph.varies
        self.tunes_threshold = threshold == "auto" and not self.is_map
        self.calibration, self.cut, self.rule, self.sets = calibration, cut, rule, sets

    @property
    def fitted(self):
        """The attributes of an estimator with this inference."""
        return {"_calibration": self.calibration, "threshold_": self.cut, "_rule": self.rule, "_sets": self.sets}

    # -- Prediction

    def shift(self, argmax):
        """Return the constant to add to scores, so that a kind of inference agrees with the loss of the model.

        SparseMAP's regulariser subtracts 1/2 for each label, and those of the other losses nothing. If all structures
        have one label, no constant has an effect.
        """
        return 0.5 * self.graph.varies * ((argmax == "sparsemap") - (self.loss == "sparsemap"))

    def evidence(self, model, X, warn=False, marginals=None):
        """Return the scores on which the calibration is based: array of shape (n_samples, n_labels).

        The score of a label plus the scores of its edges times the marginals of the labels at their other ends. Under a
        hierarchy, scores are pooled as in training, where labels that contradict each other get their mean score.
        `marginals` are those of the labels, if they are known already.
        """
        graph = self.graph
        scores = check_finite(model.scores(X))
        if len(graph.edges):
            ends, shape = graph.edges.T, (graph.n_labels, graph.n_labels)
            one_way = sparse.csr_array((model.additional, ends), shape=shape)
            marginals = self.marginals(model, X, warn) if marginals is None else marginals
            scores += np.asarray(marginals @ (one_way + one_way.T))
        return graph.forest.pool(scores, self.n_jobs) if graph.constraints and graph.forest is not None else scores

    def marginals(self, model, X, warn=False):
        """Return the marginals of the labels; with `warn`, issue a warning if they are inexact."""
        task = LabelTask(self.graph, self.loss)
        out = np.empty((X.shape[0], self.graph.n_labels))
        n_inexact, largest = 0, 0.0
        for rows in blocks(X.shape[0], self.graph.n_labels):
            scores = check_finite(model.scores(X[rows]))
            with explain_infeasible(range(len(out))[rows]):
                out[rows], gaps, objectives = task.marginals(scores, model.additional, self.n_jobs)
            if gaps is not None:
                n_inexact += int((gaps > _INEXACT * (1.0 + np.abs(objectives))).sum())
                largest = max(largest, float(gaps.max()))
        if warn and n_inexact:
            warn_user(
                f"LP-SparseMAP did not converge for {n_inexact} samples (largest duality gap {largest:.1e}), so their "
                "probabilities are inexact; raise alpha for both weights and edges, or scale the features",
                ConvergenceWarning,
            )
        return out

    def probabilities(self, evidence):
        """Return coherent probabilities of labels: array of shape (n_samples, n_labels)."""
        probabilities = self.calibration.probabilities(evidence)
        constraints = self.graph.constraints
        return make_coherent(probabilities, implications(constraints)) if constraints else probabilities

    def observed_sets(self):
        """Return the label sets of the training samples; raise ValueError if the model keeps none."""
        if self.sets is None:
            raise ValueError(
                "the model keeps no label sets: partial_fit and a 1-D y have none; fit an indicator matrix, or use "
                "decision='threshold'"
            )
        return self.sets

    def choose(self, model, X, map_time_limit=MAP_TIME_LIMIT, warn=False, marginals=None, known=None):
        """Return the labels that the decision rule chooses: bool array of shape (n_samples, n_labels).

        The other arguments are those of `predict` and `evidence`; `known` is in the form of `read_known_labels`.
        """
        graph = self.graph
        if self.is_map:
            shift = self.shift("map")

            def best(graph, rows):
                task = LabelTask(graph, self.loss, map_time_limit=map_time_limit)
                return task.predict(check_finite(model.scores(X[rows])) + shift, model.additional, self.n_jobs)

            chosen = np.concatenate([best(graph, rows) for rows in blocks(X.shape[0], graph.n_labels)])
        else:
            probabilities = self.probabilities(self.evidence(model, X, warn, marginals))
            rule = self.rule if self.decision == "auto" else self.decision
            cuts = self.cut
            if rule == "observed_sets":
                chosen = self.observed_sets().choose(probabilities, cuts)
            else:
                if rule == "expected_f1":
                    cuts = expected_cuts(probabilities, cuts)[:, None]
                chosen = probabilities > cuts
            cuts = np.broadcast_to(cuts, (len(chosen), 1))

            def best(graph, rows):
                task = LabelTask(graph, self.loss, map_time_limit=map_time_limit)
                return task.predict(probabilities[rows] - cuts[rows], None, self.n_jobs)

            wrong = np.flatnonzero(graph.violated(chosen))
            if len(wrong):
                chosen[wrong] = best(graph, wrong)
        return chosen if known is None else agree(chosen, known, graph, self.classes, best)

    # -- Choices on held-out samples

    def calibrate(self, evidence, task):
        """Calibrate probabilities on the evidence of held-out samples; return their log loss."""
        gold = dense(task.gold)
        weights = task.label_weights
        if weights.any():
            unfitted = Calibration.unfitted(self.loss, gold.shape[1], self.calibration.single)
            self.calibration = unfitted.fit(evidence, gold, weights)
        return float(self.calibration.losses(evidence, gold, weights).sum())

    def store_label_sets(self, task, rule=None):
        """Store the label sets of fully known training samples, and the rule of decision="auto"."""
        gold = sparse.csr_array(task.gold, dtype=np.float64)
        weights = task.weights
        if task.known is not None:
            whole = np.flatnonzero(task.known.all(axis=1))
            gold, weights = gold[whole], weights[whole]
        keeps = self.graph.varies and weights.any()
        self.sets = ObservedLabelSets.of_samples(gold, weights) if keeps else None
        if rule is None:
            # With unknown labels, the fully known samples are few and not representative.
            rule = "expected_f1" if self.sets is None or task.known is not None else "observed_sets"
        self.rule = rule

    def choose_rule(self, held_out):
        """Return the best threshold, the rule, and the mean example F1 on held-out samples; see `Tuning`.

        With a fixed threshold, all rules are compared, on at most 1,000 samples of each part.

        Parameters
        ----------
        held_out : iterable of (evidence, LabelTask, ObservedLabelSets or None)
            Held-out samples, and the label sets of the samples that were not held out.
        """
        is_tuned = self.tunes_threshold
        rules = [self.decision] if is_tuned and self.decision != "auto" else RULES
        tuning = Tuning(rules, "auto" if is_tuned else self.cut)
        for evidence, task, sets in held_out:
            self._compare_rules(tuning, evidence if is_tuned else evidence[:_MAX_COMPARED], task, sets)
        return tuning.best()

    def tune_along(self, tuning, model, X, task):
        """Tune the threshold on samples of a stream before training on them.

        Parameters
        ----------
        tuning : Tuning or None
            The comparison with the samples of the stream so far, which other threads may pickle.
        model : NetworkModel
        X, task
            The samples.

        Returns
        -------
        tuning : Tuning
            With these samples.
        """
        tuning = Tuning(["threshold"], decay=_DECAY) if tuning is None else deepcopy(tuning)
        self._compare_rules(tuning, self.evidence(model, X), task)
        self.cut, *_ = tuning.best()
        return tuning

    def _compare_rules(self, tuning, evidence, task, sets=None):
        """Add the first samples of a task to a comparison. Unknown labels do not count.

        Parameters
        ----------
        tuning : Tuning
        evidence : array of shape (n_samples, n_labels)
            As `evidence` returns.
        task : LabelTask
        sets : ObservedLabelSets, default=None
            Label sets of other samples.
        """
        for rows in blocks(*evidence.shape):
            probabilities = self.probabilities(evidence[rows])
            if task.known is not None:
                probabilities = np.where(task.known[rows], probabilities, np.finfo(np.float64).tiny)
            tuning.add(probabilities, dense(task.gold[rows]), task.weights[rows], sets)

    def validate(self, model, X, task):
        """Score a model on held-out samples."""
        if self.tunes_threshold:
            return self.choose_rule([(self.evidence(model, X), task, self.sets)])[2]
        chosen = self.choose(model, X, marginals=self.marginals(model, X) if len(self.graph.edges) else None)
        chosen = chosen if task.known is None else chosen & task.known
        return agreement_score(*task.agreement(dense(task.gold) > 0.5, chosen, task.weights))

    def held_out_loss(self, model, X, task):
        """Return the mean loss on held-out samples."""
        total = 0.0
        for rows in blocks(len(task.weights), task.n_outputs):
            part = task.take(np.arange(rows.start, rows.stop))
            total += part.loss_gradient(model.scores(X[rows]), model.additional, self.n_jobs)[0]
        return total / task.weights.sum()


def check_finite(scores):
    """Return scores of a model; raise ValueError if they are not finite."""
    if not np.isfinite(scores).all():
        raise ValueError("the model's scores are not finite; scale the features, or lower eta0")
    return scores
