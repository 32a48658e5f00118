"""Trials of score models that learn step by step: training on a fold, with the loss on its held-out samples.

Used by `comparison.py` and `trees.py`.
"""

import numpy as np
from sklearn.utils import check_random_state

from ...score_models import Network
from .._monitor import report
from .._strengths import last_decrease
from .cross_validation import calibrated_losses
from .epochs import epochs_of, for_epochs

# Number of samples that a network visits before the first measurement, and bounds of its epochs. With more visits, the
# comparison takes longer. Of two and five epochs with 13,000 samples, only five showed that products matter.
_VISITS, _EPOCHS = 40_000, (5, 30)
# Number of epochs between measurements. Sums of the step sizes of trees before the first one, and between them.
_STRIDE, _FIRST_PROGRESS, _PROGRESS = 5, 1.0, 0.5
# Training ends after this number of measurements without progress.
_PATIENCE = 2
# Minimum number of held-out samples for the calibration and the rule, if there are as many.
_MIN_CALIBRATED = 1500
# Training ends if the gap to a rival is larger than this multiple of the last decrease of the loss. Decreases that
# shrink by a ninth from one measurement to the next add up to eight times the last one.
_REACH = 8.0


class Trial:
    """Training of a score model on the samples of a fold. Its loss on the held-out samples is measured along the way.

    Parameters
    ----------
    solver : CrossValidation
    description : Network or Trees
    fold : int

    Attributes
    ----------
    steps : list of int
        Numbers of steps of training (epochs, rounds) at the measurements.
    evidence : list of arrays of shape (n_held, n_labels)
        Scores of the held-out samples.
    losses : list of arrays of shape (n_held,)
        Their calibrated log losses.
    """

    def __init__(self, solver, description, fold):
        self._solver = solver
        self._description = description
        self._fold = fold
        self._train, held = solver.folds[fold]
        self._held = solver.X.values[held]
        self.task = solver.task.take(held)
        if isinstance(description, Network):
            self._first = first_epochs(len(self._train))
            self._stride = _STRIDE
        else:
            self._stride = max(1, round(_PROGRESS / description.learning_rate))
            self._first = max(1, round(_FIRST_PROGRESS / description.learning_rate))
        self.steps, self.evidence, self.losses = [], [], []

    def run(self, n_steps=None, rival=np.inf):
        """Train, with a fixed seed, so that a choice does not depend on one.

        Parameters
        ----------
        n_steps : int, default=None
            Number of steps. By default, training ends when the loss no longer falls, or cannot reach that of a rival.
        rival : float
            Sum of the losses of a rival on the held-out samples.
        """
        solver = self._solver
        rng = check_random_state(self._fold)
        part = solver.task.take(self._train)
        learner = learner_of(solver.estimator, self._description, solver.X[self._train], part, rng, n_steps)
        most = learner.max_iter
        n_done = 0

        def on_iteration(loss):
            nonlocal n_done
            n_done += 1
            name = f"comparison, {type(self._description).__name__}, fold {self._fold + 1}, {learner.step_name}"
            report(solver.estimator, name, n_done, f"at most {most}")
            if not np.isfinite(loss):
                return True
            since = n_done - self._first
            if n_done == most or (since >= 0 and since % self._stride == 0):
                self._measure(learner.model(), n_done)
                return n_steps is None and self._is_over(rival)
            return False

        with np.errstate(over="ignore", invalid="ignore"):
            learner.run(on_iteration)

    def _measure(self, model, n_done):
        evidence = self._solver.inference.evidence(model, self._held)
        self.steps.append(n_done)
        self.evidence.append(evidence)
        self.losses.append(calibrated_losses(self._solver.inference, evidence, self.task))

    def _is_over(self, rival):
        """Tell whether training ends after the last measurement."""
        totals = [losses.sum() for losses in self.losses]
        if len(totals) - 1 - last_decrease(totals) >= _PATIENCE:
            return True
        return len(totals) > 1 and totals[-1] - rival > _REACH * (totals[-2] - totals[-1])


class Trials:
    """Trials of a score model on the folds of a solver, one after the other.

    Parameters
    ----------
    solver : CrossValidation
    description : Network or Trees

    Attributes
    ----------
    trials : list of Trial
    chosen : tuple or None
        As in `fitted_description`, set if score_model="auto" chooses the score model.
    """

    chosen = None

    def __init__(self, solver, description):
        self.solver, self.description = solver, description
        self.trials = []

    def add(self, rival=np.inf):
        """Train on the next fold, at most until the loss cannot reach that of a rival; return whether it could.

        The first fold decides how many steps the others take.
        """
        trial = Trial(self.solver, self.description, len(self.trials))
        trial.run(self.trials[0].steps[-1] if self.trials else None, rival)
        if not trial.steps:
            # It diverged.
            return False
        self.trials.append(trial)
        return True

    def complete(self):
        """Train on further folds, until there are enough held-out samples; return this object."""
        while len(self.trials) < len(self.solver.folds) and self._n_held < _MIN_CALIBRATED and self.add():
            pass
        return self

    @property
    def _n_held(self):
        return sum(len(trial.task.weights) for trial in self.trials)

    @property
    def _best(self):
        """Index of the measurement with the lowest loss."""
        n = min(len(trial.steps) for trial in self.trials)
        return last_decrease([sum(trial.losses[k].sum() for trial in self.trials) for k in range(n)])

    @property
    def n_steps(self):
        """Number of steps with the lowest loss."""
        return self.trials[0].steps[self._best]

    @property
    def losses(self):
        """Losses of the held-out samples after that many steps: list of arrays."""
        return [trial.losses[self._best] for trial in self.trials]

    @property
    def evidence(self):
        """Scores of the held-out samples after that many steps: list of arrays."""
        return [trial.evidence[self._best] for trial in self.trials]

    @property
    def weights(self):
        """Weights of the held-out samples."""
        return np.concatenate([trial.task.weights for trial in self.trials])

    @property
    def held_out(self):
        """The held-out samples of the first fold, as `LabelInference.choose_rule` takes them."""
        return self.evidence[0], self.trials[0].task, self.solver.label_sets(0)


def first_epochs(n_samples):
    """Return the number of epochs of a network before the first measurement."""
    return int(np.clip(np.ceil(_VISITS / n_samples), *_EPOCHS))


def learner_of(estimator, description, X, task, rng, n_steps=None):
    """Return the learner of a network or of trees; `n_steps` is the number of its steps, if it is known."""
    if isinstance(description, Network):
        return epochs_of(estimator, X, for_epochs(task), description, rng, n_steps)
    # Linear models need no trees.
    from .._learners.boosting import BoostingLearner

    options = {"alpha": estimator.edge_alpha, "rng": rng, "n_jobs": estimator.n_jobs}
    return BoostingLearner(description, task, X, n_rounds=n_steps, **options)
