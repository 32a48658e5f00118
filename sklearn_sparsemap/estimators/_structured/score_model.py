"""score_model="auto": linear scores, or another score model whose loss on held-out samples is clearly lower.

Used by `classifier.py`.
"""

from copy import copy

import numpy as np

from ...score_models import Network, Trees
from .._failures import check_finite_loss
from .._monitor import report
from .._strengths import has_few_entries, is_clear_gain, last_decrease
from .penalty import held_out_parts

# Score models in the order in which they are tried, with the descriptions that are tried. Trees take longer steps than
# those of the fit, so that they need fewer rounds.
_TRIED = {"linear": "linear", "network": Network(), "trees": Trees(learning_rate=0.3, max_iter=60)}
# Number of steps of training between two measurements of the held-out loss, by the name of the step.
_STRIDES = {"iteration": 20, "epoch": 4, "round": 5}
# Training ends after this number of measurements without progress.
_PATIENCE = 2


def choose_score_model(estimator, task, X, gold):
    """Compare score models by the loss of held-out samples; return "linear", "network" or "trees", and its estimator.

    Another model than the linear one is chosen if its loss is lower by more than one standard error. Features that
    are mostly zero, and fewer samples than a comparison needs, have linear scores. The estimator is a copy that has the
    strength of the penalty for this model.

    Parameters
    ----------
    estimator : StructuredSparseMAPClassifier
    task : Task
        With gold structures and weights.
    X : RaggedArray
    gold : array or RaggedArray
    """
    chosen = None
    lowest = None
    for name, description in _TRIED.items():
        candidate = copy(estimator)
        candidate.score_model = description
        candidate._set_strength(task, X, gold)
        parts = [] if has_few_entries(X.values) else held_out_parts(candidate, task, X, gold)
        if not parts:
            return name, candidate
        losses = np.concatenate([_best_losses(estimator, name, part) for part in parts])
        if lowest is None or is_clear_gain(lowest - losses):
            chosen = name, candidate
            lowest = losses
    return chosen


def _best_losses(estimator, name, part):
    """Train the learner of a `HeldOutPart` until the held-out loss no longer decreases; return its lowest losses."""
    learner = part.learner
    stride = _STRIDES[learner.step_name]
    found = []
    n_steps = 0

    def on_iteration(loss):
        nonlocal n_steps
        check_finite_loss(loss, part.estimator._step_size)
        n_steps += 1
        report(estimator, f"held-out samples, {name}, {learner.step_name}", n_steps)
        if n_steps % stride:
            return False
        found.append(part.losses_of(learner.model()))
        totals = [losses.sum() for losses in found]
        return len(totals) - 1 - last_decrease(totals) >= _PATIENCE

    # Its number of rounds is that of the lowest loss here.
    learner.is_validated = True
    learner.run(on_iteration)
    found.append(part.losses_of(learner.model()))
    return min(found, key=np.sum)
