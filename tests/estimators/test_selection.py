"""Choosing groups: paths and stability do what their slow and obvious twins do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron, perceptron_path, stability_selection
from sklearn_sparsemap.features import InformationGainSelector, TemplateVectorizer, ngrams
from sklearn_sparsemap.metrics import sequence_accuracy_scorer

GROUP_OF = np.repeat(np.arange(5), 4)
TEMPLATES = [*ngrams("pos", (1, 2), 1), "word[0]", "word[-1]|pos[0]"]


def sensors(n=300, seed=0):
    """Five groups of four sensors, of which groups 1 and 3 matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    scores = np.stack([X[:, 4:8].sum(axis=1), X[:, 12:16] @ [1, -1, 1, -1], np.zeros(n)], axis=1)
    return X, np.array(["a", "b", "c"])[scores.argmax(axis=1)]


def sentences(n=80, seed=0):
    rng = np.random.default_rng(seed)
    words = {"D": ["the", "a"], "N": ["dog", "cat", "house", "idea"], "V": ["sees", "likes", "is"]}
    X, y = [], []
    for _ in range(n):
        tags = list("DNV") + (["D", "N"] if rng.random() < 0.5 else [])
        X.append([{"word": str(rng.choice(words[t])), "pos": t if rng.random() < 0.9 else "N"} for t in tags])
        y.append([{"D": "B", "N": "I", "V": "O"}[t] for t in tags])
    return X, y


def quick(**params):
    return GroupLassoPerceptron(**{"groups": GROUP_OF, "shrink_every": 50, "random_state": 0, **params})


def tagger(**params):
    model = quick(structure="chain", groups="templates", shrink_every=20, **params)
    return make_pipeline(TemplateVectorizer(TEMPLATES), model)


# -- Paths ---------------------------------------------------------------------------------------------------------


def test_a_path_is_one_fit_a_budget():
    X, y = sensors(400)
    # Budget and alpha of the estimator are not used.
    path = perceptron_path(quick(alpha=0.1), X[:300], y[:300], [2, 1, None], X_val=X[300:], y_val=y[300:])
    assert path.budgets == [2, 1, None] and path.names == list(range(5))
    assert path.estimators is None and path.split_scores.shape == (3, 1)
    for i, budget in enumerate(path.budgets):
        twin = quick(budget=budget).fit(X[:300], y[:300])
        assert path.scores[i] == twin.score(X[300:], y[300:])
        assert path.n_nonzero_coefs[i] == twin.n_nonzero_coefs_
        assert_array_equal(path.selected_groups[i], twin.selected_groups_)
    assert path.selected_names(2) == [1, 3] and path.selected_names(None) == list(range(5))
    assert path.best_budget == path.budgets[path.best_index]
    assert path.scores[path.best_index] == path.scores.max()
    assert "best" in str(path) and " all " in str(path) and len(str(path).splitlines()) == 4
    with pytest.raises(ValueError, match="the path has no budget of 4; it has 2, 1, None"):
        path.selected_names(4)


@pytest.mark.parametrize("unit, budgets", [("groups", [2, None, 1, 4]), ("weights", [26, 60, 13])])
def test_a_warm_path_goes_on_from_budget_to_budget(unit, budgets):
    X, y = sensors(400)
    fitted = perceptron_path(
        quick(max_iter=3), X[:300], y[:300], budgets, unit=unit, X_val=X[300:], y_val=y[300:], warm_start=True,
        return_estimators=True, n_jobs=2,
    )  # fmt: skip
    order = np.random.RandomState(0).permutation(300)
    for i, budget in enumerate(budgets):
        # Anew for each: first without a budget, then by all larger ones.
        larger = sorted((b for b in budgets if b is not None and budget is not None and b >= budget), reverse=True)
        twin = quick().set_params(budget_unit=unit)
        for own in [None, None, *([None] if None in budgets else []), *larger]:
            twin.set_params(budget=own).partial_fit(X[:300][order], y[:300][order], classes=["a", "b", "c"])
        twin.finalize(X[:300], y[:300])
        assert_array_equal(fitted.estimators[i].coef_.toarray(), twin.coef_.toarray())
        assert fitted.scores[i] == twin.score(X[300:], y[300:])
        assert_array_equal(fitted.selected_groups[i], twin.selected_groups_)
    assert fitted.selected_names(budgets[0]) == [1, 3]


def test_warm_paths_of_a_pipeline():
    X, y = sentences()
    path = perceptron_path(tagger(), X, y, [2, 5], cv=2, scoring=sequence_accuracy_scorer, warm_start=True)
    assert [len(groups) for groups in path.selected_groups] == [2, 5] and path.scores.min() > 0.3
    with pytest.raises(ValueError, match="class_weight='balanced' needs all of y at once"):
        perceptron_path(tagger(class_weight="balanced"), X, y, [2], cv=2, warm_start=True)


def test_of_equal_scores_the_smaller_model_is_best():
    X, y = sensors(100)
    path = perceptron_path(quick(), X, y, [5, 2, 4], X_val=X, y_val=y, scoring=lambda model, X, y: 0.5)
    assert path.best_budget == 2


@pytest.mark.parametrize("cv", [None, 3, KFold(3, shuffle=True, random_state=0)])
def test_cross_validated_scores_are_those_of_scikit_learn(cv):
    X, y = sensors()
    path = perceptron_path(make_pipeline(StandardScaler(), quick()), X, y, [1, 3], cv=cv)
    for i, budget in enumerate([1, 3]):
        twin = make_pipeline(StandardScaler(), quick(budget=budget))
        assert_allclose(path.split_scores[i], cross_val_score(twin, X, y, cv=cv), rtol=1e-12)
        assert path.scores[i] == pytest.approx(path.split_scores[i].mean())
        assert path.n_nonzero_coefs[i] == twin.fit(X, y)[-1].n_nonzero_coefs_


def test_paths_of_sparse_features():
    X, y = sensors(100)
    forms = X, sparse.csr_array(X)
    dense, thin = (perceptron_path(make_pipeline(quick()), form, y, [1, 2], cv=2) for form in forms)
    assert_array_equal(dense.split_scores, thin.split_scores)
    model = quick(budget=2)
    dense, thin = (stability_selection(model, form, y, n_resamples=3, random_state=0) for form in forms)
    assert_array_equal(dense.selections, thin.selections)


def test_paths_of_a_pipeline_fit_its_vectorizer_to_the_training_part_only():
    X, y = sentences()
    path = perceptron_path(tagger(), X, y, [2, 5], cv=4, scoring=sequence_accuracy_scorer, return_estimators=True)
    for i, budget in enumerate([2, 5]):
        twin = clone(tagger(budget=budget))
        assert_allclose(path.split_scores[i], cross_val_score(twin, X, y, cv=4, scoring=sequence_accuracy_scorer))
        twin.fit(X, y)
        assert_array_equal(path.selected_groups[i], twin[-1].selected_groups_)
        assert path.selected_names(budget) == [twin[0].template_names_[g] for g in twin[-1].selected_groups_]
        # Whole pipelines come back.
        whole = path.estimators[i]
        assert isinstance(whole, Pipeline) and whole[-1].budget == budget
        assert [a.tolist() for a in whole.predict(X)] == [a.tolist() for a in twin.predict(X)]
    held_out = perceptron_path(tagger(), X[:60], y[:60], [2], X_val=X[60:], y_val=y[60:])
    assert held_out.scores[0] == tagger(budget=2).fit(X[:60], y[:60]).score(X[60:], y[60:])


@pytest.mark.parametrize("random_state", [None, 3, np.random.RandomState(3)])
def test_paths_do_not_depend_on_the_number_of_threads(random_state):
    X, y = sensors()
    found = []
    for n_jobs in (1, 2):
        np.random.seed(7)  # noqa: NPY002 - what random_state=None draws from
        model = quick(random_state=clone(quick(random_state=random_state)).random_state)
        path = perceptron_path(model, X, y, [1, 2, 4], cv=2, n_jobs=n_jobs, return_estimators=True)
        assert isinstance(path.estimators[0], GroupLassoPerceptron)
        found.append((path.split_scores, [each.coef_.toarray() for each in path.estimators]))
    assert_array_equal(found[0][0], found[1][0])
    assert_array_equal(found[0][1], found[1][1])


def test_the_estimator_is_left_as_it_is():
    X, y = sentences(40)
    model = tagger(budget=3)
    before = repr(model)
    perceptron_path(model, X, y, [2], cv=2)
    stability_selection(model, X, y, n_resamples=2, random_state=0)
    assert repr(model) == before
    assert not hasattr(model[0], "template_names_") and not hasattr(model[-1], "classes_")


def test_stratified_by_labels_like_scikit_learn():
    X, y = sensors(60)
    seen = []

    class Splitter(StratifiedKFold):
        def split(self, X, y=None, groups=None):
            seen.append(y)
            return super().split(X, y, groups)

    perceptron_path(quick(), X, y, [1], cv=Splitter(2))
    assert_array_equal(seen[0], y)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"estimator": LogisticRegression()}, "must be a GroupLassoPerceptron.*; got LogisticRegression$"),
        ({"estimator": make_pipeline(StandardScaler(), LogisticRegression())}, "LogisticRegression as the last step"),
        ({"budgets": []}, "budgets is empty"),
        ({"budgets": 3}, "budgets must be a sequence of ints; got 3"),
        ({"budgets": [1, 0]}, r"budgets\[1\] must be a positive int; got 0"),
        ({"budgets": [1.5]}, r"budgets\[0\] must be a positive int; got 1.5"),
        ({"budgets": [True]}, r"budgets\[0\] must be a positive int; got True"),
        ({"budgets": [6]}, "budget=6 is more than the 5 groups"),
        ({"X_val": np.zeros((2, 20))}, "X_val and y_val go together"),
        ({"X_val": np.zeros((2, 20)), "y_val": ["a", "b"], "cv": 3}, "either on X_val or by cross-validation"),
        ({"y": ["a", "b"]}, "inconsistent numbers of samples"),
        ({"names": ["one"]}, "names has 1 entries for 5 groups"),
    ],
)
def test_wrong_paths_are_refused(change, message):
    X, y = sensors(60)
    arguments = {"estimator": quick(), "X": X, "y": y, "budgets": [1], **change}
    with pytest.raises(ValueError, match=message):
        perceptron_path(**arguments)


# -- Stability -----------------------------------------------------------------------------------------------------


def test_frequencies_are_those_of_a_loop():
    X, y = sensors()
    stability = stability_selection(quick(budget=3), X, y, n_resamples=12, sample_fraction=0.4, random_state=5)
    rng = np.random.RandomState(5)
    counts = np.zeros(5)
    for _ in range(12):
        part = np.sort(rng.permutation(300)[:120])
        # Debiasing has no say in what is selected.
        counts[quick(budget=3).fit(X[part], y[part]).selected_groups_] += 1
    assert_array_equal(stability.frequencies, counts / 12)
    assert stability.frequencies.sum() == pytest.approx(3.0)
    assert stability.selections.shape == (12, 5) and (stability.selections.sum(axis=1) == 3).all()
    assert stability.stable(1.0).tolist() == [1, 3]
    for threshold in (0.1, 0.5, 3 / 12):
        assert_array_equal(stability.stable(threshold), np.flatnonzero(counts >= 12 * threshold - 1e-9))
    lines = str(stability).splitlines()
    assert len(lines) == 6 and lines[1].split() == ["1", "1.00"] and lines[2].split() == ["3", "1.00"]


@pytest.mark.parametrize("random_state", [None, 3, np.random.RandomState(3)])
def test_stability_is_settled_by_its_random_state(random_state):
    X, y = sensors()
    model = quick(budget=4, random_state=random_state)
    first, other = (stability_selection(model, X, y, n_resamples=8, random_state=1, n_jobs=n) for n in (1, 2))
    assert_array_equal(first.selections, other.selections)
    different = stability_selection(model, X, y, n_resamples=8, random_state=2)
    assert (different.selections != first.selections).any()


def test_stability_of_templates():
    X, y = sentences()
    stability = stability_selection(tagger(budget=2), X, y, n_resamples=10, random_state=0)
    assert stability.names == [str(t) for t in TEMPLATES]
    # Fewer than the budget where groups tie.
    assert 0 < stability.frequencies.sum() <= 2.0
    named = stability_selection(quick(budget=2), *sensors(), n_resamples=2, names="abcde", random_state=0)
    assert named.names == list("abcde")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"estimator": quick()}, "without budget and alpha all groups are selected"),
        ({"estimator": LogisticRegression()}, "must be a GroupLassoPerceptron"),
        ({"n_resamples": 0}, "n_resamples must be a positive int"),
        ({"sample_fraction": 1.0}, r"sample_fraction must be a fraction in \(0, 1\); got 1.0"),
        ({"sample_fraction": "half"}, "sample_fraction must be a fraction"),
        ({"sample_fraction": 0.001}, "sample_fraction=0.001 of 60 samples is less than one"),
        ({"y": ["a"]}, "inconsistent numbers of samples"),
    ],
)
def test_wrong_resampling_is_refused(change, message):
    X, y = sensors(60)
    with pytest.raises(ValueError, match=message):
        stability_selection(**{"estimator": quick(budget=2), "X": X, "y": y, "random_state": 0, **change})


@pytest.mark.parametrize("threshold", [0, 1.5, True, "most"])
def test_wrong_thresholds_are_refused(threshold):
    stability = stability_selection(quick(budget=1), *sensors(60), n_resamples=2, random_state=0)
    with pytest.raises(ValueError, match=r"threshold must be a fraction in \(0, 1\]"):
        stability.stable(threshold)


# -- Names ---------------------------------------------------------------------------------------------------------


def test_filtered_templates_keep_their_names():
    X, y = sentences()
    vectorizer = TemplateVectorizer(TEMPLATES)
    selector = InformationGainSelector(4)
    pipeline = make_pipeline(vectorizer, selector, tagger()[-1])
    path = perceptron_path(pipeline, X, y, [2], X_val=X, y_val=y, return_estimators=True)
    filtered = selector.fit(vectorizer.fit_transform(X), y).selected_groups_
    kept = {vectorizer.template_names_[g] for g in filtered}
    assert set(path.selected_names(2)) <= kept
    assert {str(name) for name in path.estimators[0][-1].selected_group_names_} == set(path.selected_names(2))
