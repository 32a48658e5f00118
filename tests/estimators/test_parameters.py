"""Parameters of estimators: of one meaning, and all in the table of the guide."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import (
    DecisionFocusedRegressor,
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.structures import Subset

ESTIMATORS = (
    StructuredSparseMAPClassifier,
    GroupLassoPerceptron,
    StructuredGroupLasso,
    MultilabelLPSparseMAP,
    ParameterMixing,
    DecisionFocusedRegressor,
)
TABLE = Path(__file__).parents[2] / "doc" / "guide" / "parameters.rst"


def defaults(estimator):
    """Return the defaults of an estimator's parameters, as the guide shows them."""
    parameters = list(inspect.signature(estimator).parameters.values())
    return {p.name: "required" if p.default is p.empty else f"``{p.default!r}``" for p in parameters}


def read_table():
    """Return the rows of the table by parameter: the meaning, then the default of each estimator or an empty string."""
    rows, cells = {}, []
    for line in TABLE.read_text().splitlines():
        text = line.strip()
        if text.startswith("* - "):
            cells = []
            rows[text.removeprefix("* - ").strip("`")] = cells
        elif text == "-" or text.startswith("- "):
            cells.append(text.removeprefix("-").strip())
    return rows


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_documented(estimator):
    names = list(defaults(estimator))
    heads = [line.split(" : ")[0].strip() for line in inspect.getdoc(estimator).splitlines() if " : " in line]
    assert [name for name in names if name not in heads] == []


def test_the_guide_lists_them_all():
    rows = read_table()
    homes = dict.fromkeys(ESTIMATORS, "sklearn_sparsemap") | {ParameterMixing: "sklearn_sparsemap.distributed"}
    heads = [f":class:`~{home}.{estimator.__name__}`" for estimator, home in homes.items()]
    assert rows.pop("parameter")[1:] == heads
    expected = [defaults(estimator) for estimator in ESTIMATORS]
    assert set(rows) == set().union(*expected)
    for name, (meaning, *cells) in rows.items():
        assert meaning and cells == [each.get(name, "") for each in expected], name


def test_early_stopping_takes_a_fraction():
    X, noise = np.random.default_rng(0).normal(size=(2, 60, 3))
    y = (X[:, 0] + noise[:, 0] > 0).astype(int)
    for kind in (StructuredSparseMAPClassifier, MultilabelLPSparseMAP, ParameterMixing):
        common = {} if kind is ParameterMixing else {"max_iter": 5}
        arguments = (StructuredSparseMAPClassifier(),) if kind is ParameterMixing else ()
        model = kind(*arguments, random_state=0, **common)
        pairs = [
            ({"early_stopping": fraction}, {"early_stopping": True, **given})
            for fraction, given in ((0.1, {}), (0.3, {"validation_fraction": 0.3}))
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert not len(getattr(clone(model).fit(X, y), "validation_scores_", ()))
            scores = [[clone(model).set_params(**own).fit(X, y).validation_scores_ for own in pair] for pair in pairs]
        assert all(one == other and len(one) for one, other in scores)
        assert scores[0] != scores[1]
        for wrong in (0.0, 1.0, 2, "yes"):
            with pytest.raises(ValueError, match="'early_stopping' parameter"):
                clone(model).set_params(early_stopping=wrong).fit(X, y)


@pytest.mark.parametrize("structure", ["auto", "chain", "tree", "subset"])
def test_early_stopping_watches_the_score(structure):
    rng = np.random.default_rng(0)
    X, y = {
        "auto": lambda: (rng.normal(size=(40, 3)), rng.integers(3, size=40)),
        "chain": lambda: (list(rng.normal(size=(40, 4, 3))), list(rng.integers(3, size=(40, 4)))),
        "tree": lambda: (list(rng.normal(size=(40, 4, 3, 2))), [np.array([0, 1, 2])] * 40),
        "subset": lambda: (list(rng.normal(size=(40, 4, 3))), list(rng.random((40, 4)) < 0.5)),
    }[structure]()
    watched = []

    class Watched(StructuredSparseMAPClassifier):
        def _validation(self, *held):
            watched.append((*held[1:3], super()._validation(*held)))
            return watched[-1][-1]

    model = Watched(Subset() if structure == "subset" else structure, early_stopping=0.3)
    model.set_params(solver="adagrad", max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    ((X_held, gold, validate),) = watched
    gold = gold if not hasattr(model, "classes_") else model.classes_[getattr(gold, "values", gold)]
    gold = gold.reshape(len(X_held), -1) if structure == "chain" else gold
    features = X_held.values if structure == "auto" else X_held
    assert validate(model._learned.model) == model.score(features, gold) == max(model.validation_scores_)
