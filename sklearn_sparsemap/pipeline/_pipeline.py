"""StructuredPipeline: scikit-learn's Pipeline around a structured model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.metaestimators import available_if

if TYPE_CHECKING:
    from typing_extensions import Self


def _last_has(name):
    """Make a check of whether the last step has a method, whose error names the step."""

    def check(pipeline):
        getattr(pipeline._final_estimator, name)
        return True

    return check


def _handed_through(name, what):
    """Make a method that transforms X and asks the last step."""

    def method(self, X, *args, **kwargs):
        return getattr(self._last(), name)(self._transformed(X), *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"StructuredPipeline.{name}"
    method.__doc__ = f"""{what}

    Parameters
    ----------
    X : as the first step takes it
    *args, **kwargs
        What else the last step's method takes.

    Returns
    -------
    result : as from the last step
    """
    return available_if(_last_has(name))(method)


class StructuredPipeline(Pipeline):
    """scikit-learn's `Pipeline`, with all that a structured model at its end can do.

    Parameters
    ----------
    steps : list of (name, estimator)
        As of `sklearn.pipeline.Pipeline`: transformers, and at the end a model such as
        `StructuredSparseMAPClassifier`.
    transform_input, memory, verbose
        As there.

    Notes
    -----
    `partial_fit` needs steps before the last that need no fit (vectorizers with `n_features`), that are fitted already,
    or that have a `partial_fit` themselves. In a `GridSearchCV`, ``search.best_estimator_`` is such a pipeline.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> from sklearn_sparsemap.pipeline import StructuredPipeline
    >>> X, y = [["the", "dog", "barks"], ["a", "cat"]], [["D", "N", "V"], ["D", "N"]]
    >>> model = StructuredPipeline([
    ...     ("features", TemplateVectorizer(["word[0]"])), ("chain", StructuredSparseMAPClassifier("chain"))
    ... ])
    >>> [(path.tolist(), p) for path, p in model.fit(X, y).predict_structures([["the", "cat"]])[0]]
    [(['D', 'N'], 1.0)]
    """

    predict_structures = _handed_through("predict_structures", "Find the few structures of each sample.")
    predict_marginals = _handed_through("predict_marginals", "Compute the probability of each label, or part.")
    predict_n_best = _handed_through("predict_n_best", "Find the best structures of each sample, with their scores.")
    log_likelihood = _handed_through("log_likelihood", "Compute the log-probability of structures under Gibbs.")
    sample = _handed_through("sample", "Draw structures from the Gibbs distribution.")

    def _can_partial_fit(self):
        getattr(self._final_estimator, "partial_fit")  # noqa: B009
        for name, step in self._head():
            if not (_is_stateless(step) or _is_fitted(step) or hasattr(step, "partial_fit")):
                raise AttributeError(
                    f"partial_fit needs steps without a fit of their own, but {name!r} is to be fitted first: set "
                    "n_features for the hashed mode, or call fit on a first part of the data"
                )
        return True

    @available_if(_can_partial_fit)
    def partial_fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Learn from a mini-batch.

        Parameters
        ----------
        X, y : as in `fit`
        **params
            Passed to the last step's `partial_fit`, such as `classes` at the first call.

        Returns
        -------
        self : StructuredPipeline
        """
        for _, step in self._head():
            # A step that keeps learning while the model learns changes the meaning of its features. Statistics such as
            # means converge, so steps with `partial_fit` are allowed.
            if hasattr(step, "partial_fit") and not _is_stateless(step):
                step.partial_fit(X, y)
            X = step.transform(X)
        self._last().partial_fit(X, y, **params)
        return self

    def _head(self):
        return [(name, step) for name, step in self.steps[:-1] if step is not None and step != "passthrough"]

    def _last(self):
        return self.steps[-1][1]

    def _transformed(self, X):
        for _, step in self._head():
            X = step.transform(X)
        return X


def make_structured_pipeline(*steps: Any, memory: Any = None, verbose: bool = False) -> StructuredPipeline:
    """Make a `StructuredPipeline`, whose steps are named by their classes.

    Parameters
    ----------
    *steps : estimators
    memory, verbose
        As of `sklearn.pipeline.make_pipeline`.

    Returns
    -------
    pipeline : StructuredPipeline

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> from sklearn_sparsemap.pipeline import make_structured_pipeline
    >>> make_structured_pipeline(TemplateVectorizer(), StructuredSparseMAPClassifier("chain")).steps[0][0]
    'templatevectorizer'
    """
    return StructuredPipeline(make_pipeline(*steps).steps, memory=memory, verbose=verbose)


def _is_stateless(step):
    return not clone(step).__sklearn_tags__().requires_fit


def _is_fitted(step):
    check = getattr(step, "__sklearn_is_fitted__", None)
    if check is not None:
        return check()
    return any(name.endswith("_") and not name.startswith("_") for name in vars(step))
