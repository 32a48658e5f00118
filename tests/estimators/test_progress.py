"""Progress of long phases at verbose=1, and silence at verbose=0."""

import re
import warnings

import numpy as np
import pytest
from samples import make_chains
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import (
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
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.estimators import cross_val_marginals
from sklearn_sparsemap.score_models import Network
from sklearn_sparsemap.structures import LinearProgram, Subset

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6))
Y = (X[:, :3] + RNG.normal(size=(60, 3)) > 0.0).astype(int)
LABELS = np.where(X[:, 0] > 0.0, "b", "a")
GROUPS = np.repeat([0, 1, 2], 2)
VALUES = np.abs(X[:, :4])
PROGRAM = LinearProgram([[3.0, 2.0, 2.0, 1.0]], [4.0])

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def steps(text, name):
    """Return pairs (number, number of steps), as text, of the reports of a phase."""
    return re.findall(rf"\] {name} (\d+) of ((?:at most )?\d+)", text)


def counted(n):
    return [(str(k + 1), str(n)) for k in range(n)]


def test_cross_validation_of_label_sets(capsys):
    MultilabelLPSparseMAP(verbose=1, score_model="linear").fit(X, Y)
    said = capsys.readouterr().out
    found = re.findall(r"cross-validation, strength (\d+) of at most (\d+), fold (\d+) of (\d+)", said)
    numbers, most, folds, n_folds = (list(map(int, column)) for column in zip(*found))
    assert set(n_folds) == {5} and folds == [1, 2, 3, 4, 5] * (len(folds) // 5)
    assert numbers == sorted(numbers) and numbers[0] == 1 and len(set(numbers)) >= 3 and max(numbers) <= most[0]
    assert "iteration 1: loss" in said and "1 of at most 1000" in said


def test_networks_and_their_calibration(capsys):
    model = MultilabelLPSparseMAP(verbose=1, score_model=Network((4,)), max_iter=3, random_state=0).fit(X, Y)
    said = capsys.readouterr().out
    assert steps(said, "calibration, epoch") == counted(model.n_iter_)
    assert re.search(r"epoch 3: loss .* s; 3 of at most 3\n", said)


def test_strengths_folds_and_debiasing(capsys):
    StructuredGroupLassoCV(groups=GROUPS, n_alphas=12, cv=2, verbose=1, loss="crf", debias=True).fit(X, LABELS)
    said = capsys.readouterr().out
    assert steps(said, "fold") == counted(2)
    # The first ten and the last one.
    expected = [pair for pair in counted(12) if pair[0] != "11"]
    assert steps(said, "strength") == 2 * expected
    assert re.search(r"strength 1 of 12, alpha [\d.e-]+: 0 groups", said)
    assert (
        said.index("fold 2 of 2")
        < said.index("] iteration 1: loss")
        < said.index("debiasing, iteration 1 of at most 5000")
    )
    structured_group_lasso_path(X, LABELS, groups=GROUPS, n_alphas=3, verbose=1, loss="crf")
    assert steps(capsys.readouterr().out, "strength") == counted(3)


def test_budgets_parts_and_the_end_of_streams(capsys):
    model = GroupLassoPerceptron(groups=GROUPS, budget=1, max_iter=2, debias_max_iter=3, random_state=0, verbose=1)
    path = perceptron_path(model, X, LABELS, [1, 2], cv=2, return_estimators=True)
    said = capsys.readouterr().out
    assert steps(said, "fold") == counted(2) and steps(said, "budget") == 3 * counted(2)
    assert "epoch" not in said and [each.verbose for each in path.estimators] == [1, 1]
    stability_selection(model, X, LABELS, n_resamples=4, random_state=0)
    assert steps(capsys.readouterr().out, "part") == counted(4)
    model.partial_fit(X, LABELS, ["a", "b"]).finalize(X, LABELS)
    assert steps(capsys.readouterr().out, "debiasing, epoch") == counted(3)
    model.fit_partitions([(X[:30], LABELS[:30]), (X[30:], LABELS[30:])])
    assert steps(capsys.readouterr().out, "labels of partition") == counted(2)
    ParameterMixing(model, n_shards=2, n_rounds=2, random_state=0, verbose=1).fit(X, LABELS)
    assert re.search(r"round 2: loss .* s; 2 of at most 2\n", capsys.readouterr().out)


def test_optimal_decisions_of_slow_oracles(capsys):
    model = DecisionFocusedRegressor(PROGRAM, max_iter=3, verbose=1).fit(X, VALUES)
    said = capsys.readouterr().out
    assert steps(said, "optimal decisions, part")[:10] == counted(10)
    silent = clone(model).set_params(verbose=0).fit(X, VALUES)
    np.testing.assert_array_equal(model.coef_, silent.coef_)
    assert capsys.readouterr().out == ""


CHAINS, CODES = make_chains(20)
SEARCHES = {
    "chain": (StructuredSparseMAPClassifier("chain", max_iter=4), {"alpha": [0.1, 1.0]}, CHAINS, CODES),
    "crf": (StructuredSparseMAPClassifier("chain", "crf", solver="adagrad"), {"alpha": [0.1, 1.0]}, CHAINS, CODES),
    "sets": (MultilabelLPSparseMAP(max_iter=4), {"threshold": [0.4, 0.5]}, X, Y),
    "network": (MultilabelLPSparseMAP(max_iter=4, score_model=Network((4,))), {"threshold": [0.4, 0.5]}, X, Y),
    "groups": (GroupLassoPerceptron(groups=GROUPS, max_iter=2), {"budget": [1, 2]}, X, LABELS),
    "lasso": (StructuredGroupLasso(groups=GROUPS, loss="crf", debias=True), {"alpha": [0.1, 0.2]}, X, LABELS),
    "strengths": (StructuredGroupLassoCV(groups=GROUPS, n_alphas=3, cv=2, loss="crf"), {"eps": [0.1, 0.2]}, X, LABELS),
    "decisions": (DecisionFocusedRegressor(Subset(2, 2), max_iter=4), {"alpha": [0.1, 1.0]}, X, VALUES),
    "program": (DecisionFocusedRegressor(PROGRAM, max_iter=4), {"alpha": [0.1, 1.0]}, X, VALUES),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_are_silent_by_default(name, capsys):
    model, grid, samples, y = SEARCHES[name]
    # Compiling for the first use is reported on its own.
    clone(model).fit(samples, y)
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        GridSearchCV(model, grid, cv=2).fit(samples, y)
    if name in ("chain", "crf"):
        cross_val_marginals(model, samples, y, cv=2)
    said = capsys.readouterr()
    assert said.out == said.err == ""
