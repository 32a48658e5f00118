"""The contract of learners, which train a model step by step under a monitor.

Used by `distributed`, `estimators`, `estimators/_structured`, `boosting.py`, `epochs.py`, `lbfgs.py` and
`out_of_fold.py`.
"""

from ..._core.ragged import RaggedArray


class Learner:
    """Training of a model in steps. A subclass has `run`, `model` and `has_started`.

    `estimators/_monitor.py` uses all of it except `columns`, `narrow` and `restart`.

    Attributes
    ----------
    has_started : bool
        Whether there is a model to keep if training ends now.
    unconverged : int
        Number of samples whose inference did not converge.
    columns : DuplicateColumns or None
        The merged columns of its models, if any.
    patience : float
        Number of steps that count as one for the rule by which the monitor stops.
    step_name : str
        Name of a step in progress messages.
    max_iter : int or None
        Maximum number of steps, for progress messages.
    watches_loss : bool
        Whether the monitor may stop it because the loss of the training samples hardly decreases.
    is_validated : bool
        Whether the monitor scores each model on held-out samples, and stops by these scores. The monitor sets it.
    """

    columns = None
    watches_loss = True
    is_validated = False
    unconverged = 0
    patience = 1.0
    step_name = "iteration"
    max_iter = None

    def run(self, on_iteration):
        """Take all steps. After each, call `on_iteration` with the loss, and stop if it returns True.

        Returns
        -------
        message : str
            The reason why training did not converge; empty if it converged.
        """
        raise NotImplementedError

    def model(self):
        """Return the current model, in the learner's own form."""
        raise NotImplementedError

    def expand(self, model):
        """Convert a model from the learner's form to the user's columns and type."""
        return model

    def narrow(self, X):
        """Return features in the columns of the learner's models."""
        if self.columns is None:
            return X
        return RaggedArray(self.columns.transform(X.values), X.indptr, shapes=X.shapes)

    def restart(self, alpha):
        """Begin again from the current model, with another strength of the penalty."""
        raise NotImplementedError

    def keep(self, monitor):
        """Store the progress in the estimator if training is interrupted."""
        monitor.store()
