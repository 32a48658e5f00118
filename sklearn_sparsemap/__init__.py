"""Structured prediction with sparse probabilities: scikit-learn estimators on Numba solvers."""

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    # Static type checkers see the public names through these imports.
    from ._compile_ahead import compile
    from ._core.ragged import RaggedArray
    from ._show_versions import show_versions
    from .estimators import (
        DecisionFocusedRegressor,
        GroupLassoPerceptron,
        MultilabelLPSparseMAP,
        StructuredGroupLasso,
        StructuredGroupLassoCV,
        StructuredSparseMAPClassifier,
        perceptron_path,
        stability_selection,
        structured_group_lasso_path,
    )
    from .inference import lp_sparsemap, map_inference, marginal_inference, n_best, sparsemap

# Public names are resolved at their first use (PEP 562), so that importing the package imports neither Numba nor
# any of its modules.
_PUBLIC = {
    "DecisionFocusedRegressor": ".estimators",
    "GroupLassoPerceptron": ".estimators",
    "MultilabelLPSparseMAP": ".estimators",
    "RaggedArray": "._core.ragged",
    "StructuredGroupLasso": ".estimators",
    "StructuredGroupLassoCV": ".estimators",
    "StructuredSparseMAPClassifier": ".estimators",
    "compile": "._compile_ahead",
    "lp_sparsemap": ".inference",
    "map_inference": ".inference",
    "marginal_inference": ".inference",
    "n_best": ".inference",
    "perceptron_path": ".estimators",
    "show_versions": "._show_versions",
    "sparsemap": ".inference",
    "stability_selection": ".estimators",
    "structured_group_lasso_path": ".estimators",
}
# The rooms of layers, `torch` and `jax`, are imported by their names, because they need those libraries.
_SUBMODULES = {
    "conformal",
    "datasets",
    "distributed",
    "estimators",
    "factors",
    "features",
    "inference",
    "inspection",
    "losses",
    "metrics",
    "penalties",
    "pipeline",
    "plotting",
    "score_models",
    "spans",
    "structures",
    "testing",
}

__all__ = [
    "DecisionFocusedRegressor",
    "GroupLassoPerceptron",
    "MultilabelLPSparseMAP",
    "RaggedArray",
    "StructuredGroupLasso",
    "StructuredGroupLassoCV",
    "StructuredSparseMAPClassifier",
    "__version__",
    "compile",
    "lp_sparsemap",
    "map_inference",
    "marginal_inference",
    "n_best",
    "perceptron_path",
    "show_versions",
    "sparsemap",
    "stability_selection",
    "structured_group_lasso_path",
]


def __getattr__(name):
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name], __name__), name)
    elif name in _SUBMODULES:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_PUBLIC) | _SUBMODULES)
