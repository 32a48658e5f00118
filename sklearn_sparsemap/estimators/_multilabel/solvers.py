"""The solver of a fit of label sets, by the score model and the loss.

Used by `classifier.py`.
"""

from ...score_models import Network, Trees
from .epochs import AdamTraining
from .linear import LBFGSCrossValidation
from .out_of_fold import OutOfFoldTraining
from .trees import TreesTraining

# The docstring of `MultilabelLPSparseMAP` repeats the defaults and sizes below.
SOLVERS = ("auto", "lbfgs", "adam")


def choose_solver(estimator, inference, X, task, description, held_out=None):
    """Return the solver of a fit.

    Parameters
    ----------
    estimator : MultilabelLPSparseMAP
        Solvers read its parameters only.
    inference : LabelInference
        The solver fits its calibration, threshold, rule and label sets.
    X : RaggedArray
    task : LabelTask
    description : Network, Trees or estimator, or None
        The score model. None for linear scores and for "auto".
    held_out : (X, LabelTask), default=None
        The user's validation samples.

    Raises
    ------
    ValueError
        If the estimator asks for L-BFGS, but its loss is not smooth.
    """
    if not (description is None or isinstance(description, Network)):
        _check_steps(estimator, held_out)
        solver = TreesTraining if isinstance(description, Trees) else OutOfFoldTraining
        return solver(estimator, inference, X, task, description)
    obstacles = {
        "a network": description is not None,
        "label_graph": len(task.graph.edges) > 0,
        "loss='hinge'": estimator.loss == "hinge",
        "early_stopping": estimator.early_stopping,
        "X_val": held_out is not None,
    }
    named = [name for name, is_there in obstacles.items() if is_there]
    if estimator.solver == "lbfgs" and named:
        raise ValueError(
            "solver='lbfgs' is for linear scores and smooth losses, without edges and early stopping; it cannot be "
            f"used with {' and '.join(named)}; use solver='auto'"
        )
    if named or estimator.solver == "adam":
        return AdamTraining(estimator, inference, X, task, description, held_out=held_out)
    compares = estimator.score_model == "auto" and estimator.solver == "auto"
    return LBFGSCrossValidation(estimator, inference, X, task, compares)


def _check_steps(estimator, held_out):
    """Raise ValueError if the parameters ask for training by Adam or L-BFGS."""
    given = {
        f"solver={estimator.solver!r}": estimator.solver != "auto",
        f"early_stopping={estimator.early_stopping!r}": estimator.early_stopping is not False,
        "X_val": held_out is not None,
    }
    named = [name for name, is_there in given.items() if is_there]
    if named:
        raise ValueError(
            f"{' and '.join(named)} cannot be used with score_model={estimator.score_model!r}, whose training is "
            "chosen by cross-validation; leave them out, or use score_model='linear' or 'network'"
        )
