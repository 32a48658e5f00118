"""StructuredPipeline: scikit-learn's Pipeline around a structured model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from .._core.annotations import Any, NDArray, Self
from .._core.available import available_if
from .._core.doc_link import DocLinkMixin
from .._core.export import ArraysMixin
from .._core.pickles import PickleMixin
from .._core.plain import add_form
from .._core.unwrap import transformed, unwrap

if TYPE_CHECKING:
    import numpy as np

    from .._core.sklearn_bases import Pipeline
    from ..spans import Span
else:
    from sklearn.pipeline import Pipeline


def _last_has(name):
    """Return a check that the last step of a pipeline has a method; the error names the step."""
    return lambda pipeline: getattr(pipeline._final_estimator, name)


def _handed_through(name, what):
    """Make a method that transforms X and calls the last step. It exists if the last step has it."""

    def method(self, X, *args, **kwargs):
        steps, last = unwrap(self)
        return getattr(last, name)(transformed(steps, X), *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"StructuredPipeline.{name}"
    method.__doc__ = f"""{what}

    Parameters
    ----------
    X : samples
        As for the first step.
    *args, **kwargs
        Further arguments of the method of the last step.

    Returns
    -------
    result
        As returned by the last step.
    """
    return available_if(_last_has(name))(method)


def _checked_by_the_last_step(name, what):
    """Make a method of scikit-learn's `Pipeline` that calls the last step, which checks that it is fitted.

    scikit-learn's method checks that the pipeline is fitted, and for that collects the tags of all steps, which takes
    longer than the prediction of one sample.
    """

    def method(self, X, **params):
        is_fitted = getattr(self._final_estimator, "__sklearn_is_fitted__", None)
        if params or is_fitted is None or not is_fitted():
            return getattr(super(StructuredPipeline, self), name)(X, **params)
        for _, step in self.steps[:-1]:
            if step is not None and step != "passthrough":
                X = step.transform(X)
        return getattr(self._final_estimator, name)(X)

    method.__name__ = name
    method.__qualname__ = f"StructuredPipeline.{name}"
    method.__doc__ = f"""{what}

    Parameters
    ----------
    X : samples
        As for the first step.
    **params
        Further arguments of the method of the last step.

    Returns
    -------
    result
        As returned by the last step.
    """
    return available_if(_last_has(name))(method)


class StructuredPipeline(ArraysMixin, DocLinkMixin, PickleMixin, Pipeline):
    """scikit-learn's `Pipeline` with the methods of a structured model.

    Parameters
    ----------
    steps : list of (name, estimator)
        As for `sklearn.pipeline.Pipeline`: transformers, followed by a model such as
        `StructuredSparseMAPClassifier`.
    transform_input, memory, verbose
        As for `sklearn.pipeline.Pipeline`.

    Notes
    -----
    For `partial_fit`, each step before the last must need no fit (vectorizers with `n_features`), be fitted already, or
    have a `partial_fit` of its own. A step in a `FrozenEstimator` learns nothing. In a `GridSearchCV`,
    ``search.best_estimator_`` is such a pipeline.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> from sklearn_sparsemap.pipeline import StructuredPipeline
    >>> X, y = [["the", "dog", "barks"], ["a", "cat"]], [["D", "N", "V"], ["D", "N"]]
    >>> model = StructuredPipeline([
    ...     ("features", TemplateVectorizer(["word[0]"])), ("chain", StructuredSparseMAPClassifier("chain", alpha=1e-4))
    ... ])
    >>> [(path.tolist(), p) for path, p in model.fit(X, y).predict_structures([["the", "cat"]])[0]]
    [(['D', 'N'], 1.0)]
    """

    _whole = ("steps",)

    if TYPE_CHECKING:
        # The methods of the last step; type checkers do not see that some models lack some.
        def predict(self, X: Any, **params: Any) -> NDArray[Any]: ...
        def predict_proba(self, X: Any, **params: Any) -> NDArray[Any]: ...
        def decision_function(self, X: Any, **params: Any) -> NDArray[Any]: ...
        def predict_structures(self, X: Any, *args: Any, **kwargs: Any) -> list[list[tuple[Any, float]]]: ...
        def predict_marginals(self, X: Any, known: Any = None) -> NDArray[Any]: ...
        def predict_n_best(self, X: Any, k: int, known: Any = None) -> list[list[tuple[Any, float]]]: ...
        def log_likelihood(self, X: Any, y: Any) -> NDArray[np.float64]: ...
        def predict_spans(self, X: Any, *, min_probability: float = 0.0, tokens: Any = None) -> list[list[Span]]: ...
        def sample(
            self, X: Any, n_samples: int = 1, random_state: Any = None, known: Any = None
        ) -> list[list[Any]]: ...
    else:
        predict = _checked_by_the_last_step("predict", "Predict the structure, or the labels, of each sample.")
        predict_proba = _checked_by_the_last_step("predict_proba", "Compute the probability of each label.")
        decision_function = _checked_by_the_last_step("decision_function", "Compute the scores of parts.")
        predict_structures = _handed_through("predict_structures", "Find the few structures of each sample.")
        predict_marginals = _handed_through("predict_marginals", "Compute the probability of each label, or part.")
        predict_spans = _handed_through("predict_spans", "Find the spans of each sample, with their probabilities.")
        predict_n_best = _handed_through(
            "predict_n_best", "Find the best structures of each sample, with their scores."
        )
        log_likelihood = _handed_through("log_likelihood", "Compute the log-probability of structures under Gibbs.")
        sample = _handed_through("sample", "Draw structures from the Gibbs distribution.")

    def _can_partial_fit(self):
        getattr(self._final_estimator, "partial_fit")  # noqa: B009
        if isinstance(self._final_estimator, FrozenEstimator):
            raise AttributeError("partial_fit has no effect on a FrozenEstimator, which is the last step")
        for step in unwrap(self)[0]:
            if not (_is_ready(step) or hasattr(step, "partial_fit")):
                names = [name for name, own in self.steps if own is step]
                raise AttributeError(
                    f"partial_fit needs steps without a fit of their own, but the step {(names or [step])[0]!r} "
                    f"({type(step).__name__}) must be fitted first: set n_features for the hashed mode, or call fit on "
                    "a first part of the data"
                )

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
        steps, last = unwrap(self)
        for step in steps:
            # A step that keeps learning while the model learns changes the meaning of its features. Statistics such as
            # means converge, so steps with `partial_fit` are allowed.
            if _learns_from_streams(step):
                step.partial_fit(X, y)
            X = step.transform(X)
        last.partial_fit(X, y, **params)
        return self


# For files of estimators that hold a pipeline.
for _cls in (StructuredPipeline, Pipeline):
    add_form(f"pipeline.{_cls.__name__}", _cls)


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


def _learns_from_streams(step):
    """Tell whether a step learns from each mini-batch. A frozen one only seems to: it has the methods of its own."""
    is_frozen = isinstance(step, FrozenEstimator)
    return not is_frozen and hasattr(step, "partial_fit") and clone(step).__sklearn_tags__().requires_fit


def _is_ready(step):
    """Tell whether a step is fitted, or needs no fit."""
    try:
        check_is_fitted(step)
    except NotFittedError:
        return False
    return True
