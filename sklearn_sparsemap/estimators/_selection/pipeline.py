"""Functions that several kinds of selection use: earlier steps of a pipeline, names of groups, splits and seeds.

Used by `path.py`, `stability.py` and `strengths.py`.
"""

from __future__ import annotations

from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from .._monitor import report
from .._structured.perceptron import GroupLassoPerceptron

_N_SEEDS = 2**31 - 1  # seeds are below this number


def names_of_groups(model, head, names=None):
    """Return the names of a model's groups: `names`, those of a vectorizer's templates, or those of the model."""
    n_groups = model.groups_.n_groups
    if names is not None:
        if len(names) != n_groups:
            raise ValueError(f"names has {len(names)} entries for {n_groups} groups; give one for each")
        return list(names)
    if isinstance(model.groups, str):
        for _, step in reversed([] if head is None else head.steps):
            if hasattr(step, "template_names_"):
                return list(step.template_names_)[:n_groups]
    return list(model.groups_.names)


def last_step(estimator):
    """Return a clone of the `GroupLassoPerceptron`."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(last, GroupLassoPerceptron):
        raise ValueError(
            "estimator must be a GroupLassoPerceptron, or a Pipeline whose last step is one; "
            f"got {type(last).__name__}{' as the last step' if last is not estimator else ''}"
        )
    return clone(last)


def transform_with(estimator, X, y, *others):
    """Fit a clone of the steps before the last; return it (or None), and the transformed X and `others`."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) == 1:
        return None, (X, *others)
    head = clone(estimator[:-1])
    features = head.fit_transform(X, y)
    return head, (features, *(head.transform(other) for other in others))


def splits_of(estimator, X, y, cv, last):
    """Yield the training indices of each split, its training samples X and y, and its held-out samples X and y.

    If the estimator `last` is verbose, each split is reported.
    """
    splitter = check_cv(cv, y, classifier=is_classifier(estimator))
    for k, (train, test) in enumerate(splitter.split(X, y)):
        report(last, "fold", k + 1, splitter.get_n_splits(X, y))
        yield train, *(_safe_indexing(values, part) for part in (train, test) for values in (X, y))


def draw_seeds(rng, n):
    return [int(seed) for seed in rng.randint(_N_SEEDS, size=n)]
