"""Errors of one sample: each public call names the user's argument and the sample's position, and says what to do."""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone

from sklearn_sparsemap import (
    DecisionFocusedRegressor,
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    marginal_inference,
    n_best,
    sparsemap,
)
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.datasets import save_partition
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.factors import AtMostOne, Exactly, FactorGraph, Xor
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.inspection import explain
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.metrics import normalized_regret
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Subset

# Names of variables, some of which look like names of samples or like places in formats.
NAMES = ("u", "scores", "X", "x", "y", "known", "scores[2]", "100 %s {0} [1]")
REMEDY = "Remove a factor"
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
rng = np.random.default_rng(0)


def refused(call, argument, sample, *words):
    """Check that a call is refused with the argument, the position, and words of the message; return the message."""
    with warnings.catch_warnings(), pytest.raises(ValueError) as caught:
        warnings.simplefilter("ignore")
        call()
    error, message = caught.value, str(caught.value)
    assert (error.argument, error.sample) == (argument, sample), message
    name = argument if sample is None else f"{argument}[{', '.join(map(str, np.atleast_1d(sample)))}]"
    assert re.search(rf"(^|[ (]){re.escape(name)}(?!\w)", message), message
    for word in words:
        assert word in message, message
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(copy.copy(error)) == message
    assert (again.argument, again.sample, again.infeasible) == (argument, sample, error.infeasible)
    return message


def possible(name):
    graph = FactorGraph()
    u = graph.variables(4, name)
    graph.add(Xor(u[:2]), Xor(u[2:]))
    return graph


def impossible(name):
    graph = FactorGraph()
    u = graph.variables(4, name)
    graph.add(Xor(u[1:3]), Exactly(u[1:3], 2))
    return graph


def samples_of(n=6, n_rows=4):
    return [rng.normal(size=(n_rows, 3)) for _ in range(n)]


def with_large(X, *places):
    """Return samples of which some begin with 100."""
    X = [x.copy() for x in X]
    for i in places:
        X[i][0, 0] = 100.0
    return X


@pytest.mark.parametrize("name", NAMES)
def test_names_of_variables_are_no_names_of_samples(name):
    good, bad = possible(name), impossible(name)
    rules = [repr(factor) for factor in bad.factors]
    assert all(name in rule for rule in rules)
    scores = rng.normal(size=(5, 4))
    forbidden = scores.copy()
    forbidden[3, :2] = -np.inf
    mixed = [good, bad, good, bad, good]
    for call, at in (
        (lambda: lp_sparsemap(mixed, list(scores)), 1),
        (lambda: lp_sparsemap(mixed[::-1][:4], list(scores[:4]), n_jobs=2), 1),
        (lambda: lp_sparsemap([good, good, good, bad], list(scores[:4])), 3),
        (lambda: lp_sparsemap(bad, scores[0]), None),
        (lambda: map_inference(bad, scores), 0),
        (lambda: n_best(bad, scores[0], 2), None),
    ):
        message = refused(call, "scores", at, "Remove a factor, or allow more variables by scores above -inf")
        assert all(rule in message for rule in rules), message
    for call in (lp_sparsemap, map_inference, lambda *given: n_best(*given, 3)):
        refused(lambda call=call: call(good, forbidden), "scores", 3, "Remove a factor", name)
    # The list of the best assignments ends without an error.
    assert [len(own) for own in n_best(good, scores, 9)] == [4] * 5
    refused(lambda: lp_sparsemap(good, [*scores[:2], np.full(4, np.nan)]), "scores", 2, "[0] is nan")


@pytest.mark.parametrize("name", NAMES)
def test_models_name_samples_of_X_whatever_the_names_of_variables(name):
    X = samples_of()
    y = [np.array([1, 0, 1, 0], bool)] * 6
    model = StructuredSparseMAPClassifier(lambda x: (impossible if x[0, 0] > 50 else possible)(name), max_iter=3)
    model.fit(X, y)
    sets = ConformalStructures(model, confidence_level=0.5).conformalize(X, y)
    stopped = clone(model).set_params(solver="adagrad", early_stopping=True, max_iter=2)
    bad = with_large(X, 2, 4)
    rules = [repr(factor) for factor in impossible(name).factors]
    calls = {
        "predict": lambda: model.predict(bad),
        "predict_marginals": lambda: model.predict_marginals(bad),
        "predict_n_best": lambda: model.predict_n_best(bad, 2),
        "score": lambda: model.score(bad, y),
        "predict_set": lambda: sets.predict_set(bad),
        "conformalize": lambda: clone(sets).conformalize(bad, y),
        "nonconformity": lambda: sets.nonconformity(bad, y),
    }
    for n_jobs in (None, 2):
        model.n_jobs = n_jobs
        for call in calls.values():
            message = refused(call, "X", 2, "the scores of X[2]", REMEDY)
            assert all(rule in message for rule in rules) and "-inf" not in message, message
    message = refused(lambda: stopped.fit(X, y, X_val=bad, y_val=y), "X_val", 2, "the scores of X_val[2]", REMEDY)
    assert all(rule in message for rule in rules)
    message = refused(lambda: explain(model, bad[2]), "x", None, "under the scores of x", REMEDY)
    assert all(rule in message for rule in rules)
    known = [None, None, None, [True, True, False, False], None, None]
    for call in (model.predict, model.predict_marginals, lambda X, known: model.predict_n_best(X, 2, known)):
        refused(lambda call=call: call(X, known), "known", 3, "replace more entries by None")
    results = Parallel(n_jobs=2, backend="loky")(delayed(message_of)(name, X) for X in (bad, bad[1:]))
    assert [own[:2] for own in results] == [("X", 2), ("X", 1)]
    assert all(rule in own[2] for rule in rules for own in results)


def message_of(name, X):
    """Fit a model in another process, and return what its error says."""
    y = [np.array([1, 0, 1, 0], bool)] * len(X)
    model = StructuredSparseMAPClassifier(lambda x: (impossible if x[0, 0] > 50 else possible)(name), max_iter=3)
    try:
        model.fit([np.zeros((4, 3))] * len(X), y).predict(X)
    except ValueError as error:
        return error.argument, error.sample, str(error)


# Structures, and scores of five samples of which the fourth is infeasible.
def forbidden(*shape):
    scores = rng.normal(size=(5, *shape))
    scores[3] = -np.inf
    return scores


STRUCTURES = [
    (LinearChain(), forbidden(3, 2)),
    (LinearChain(), list(forbidden(3, 2)[:1]) + [rng.normal(size=(4, 2))] + list(forbidden(3, 2)[2:])),
    (DependencyTree(), forbidden(4, 3)),
    (Matching(), forbidden(3, 3)),
    (Subset(2, 2), forbidden(4)),
]


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(("structure", "scores"), STRUCTURES)
def test_inference_names_scores(structure, scores, n_jobs):
    calls = [map_inference, sparsemap, lambda *given, **options: n_best(*given, 2, **options)]
    calls += [marginal_inference] * (structure.marginal_oracle is not None)
    wrong = [own.copy() for own in scores]
    wrong[3] = np.where(wrong[3] == -np.inf, 0.0, wrong[3])
    wrong[2].flat[1] = np.nan
    ragged = RaggedArray.from_list(wrong) if structure.score_ndim == 2 else wrong
    for call in calls:
        with_options = lambda *given, call=call: call(structure, *given, n_jobs=n_jobs)  # noqa: E731
        refused(lambda: with_options(scores), "scores", 3, "forbid every structure", "allow at least one by scores")
        refused(lambda: with_options(scores[3]), "scores", None, "infeasible: scores", "allow at least one by scores")
        refused(lambda: with_options(wrong), "scores", 2, "is nan; scores must be finite, or -inf to forbid a part")
        refused(lambda: with_options(ragged), "scores", 2, "is nan")
        refused(lambda: with_options([*wrong[:2], wrong[0][None]]), "scores", 2, "axes; got shape")


def test_additional_scores_are_named():
    scores = np.zeros((3, 4, 2))
    transitions = [np.zeros((2, 2)), np.zeros((2, 2)), np.array([[0.0, 1.0], [np.nan, 0.0]])]
    for infer in (map_inference, sparsemap):
        call = lambda infer=infer: infer(LinearChain(), scores, transitions=transitions)  # noqa: E731
        refused(call, "transitions", 2, "[1, 0] is nan")
    graph = FactorGraph()
    u = graph.variables(3, "scores")
    graph.add(Xor(u))
    refused(lambda: lp_sparsemap(graph, [{"scores": [0.0, 1.0]}] * 2), "scores", 0, "has shape (2,)")
    several = FactorGraph()
    several.add(Xor([*several.variables(2, "x"), *several.variables(2, "y")]))
    wrong = [{"x": [0.0, 1.0], "y": [0.0, 1.0]}, {"x": [0.0, 1.0], "y": [0.0, np.inf]}]
    refused(lambda: lp_sparsemap(several, wrong), "scores", 1, "scores[1]['y'][1] is inf")
    refused(lambda: lp_sparsemap([graph, None], np.zeros((2, 3))), "graph", 1, "must be a FactorGraph")
    start = [lp_sparsemap(graph, np.zeros(3)), lp_sparsemap(possible("u"), np.zeros(4))]
    refused(lambda: lp_sparsemap(graph, np.zeros((2, 3)), warm_start=start), "warm_start", 1, "solve the graph once")
    results = sparsemap(LinearChain(), scores)
    refused(lambda: results.vjp([np.zeros((4, 2)), np.zeros((4, 2)), np.zeros((4, 3))]), "vs", 2, "it must have")


def test_losses_name_gold_and_scores():
    scores = rng.normal(size=(4, 3, 2))
    gold = [np.array([0, 1, 0])] * 4
    for name in ("sparsemap", "crf", "hinge"):
        loss = FenchelYoungLoss(LinearChain(), name)
        barred = scores.copy()
        barred[2, 1, 1] = -np.inf
        refused(lambda loss=loss, own=barred: loss.loss_gradient(own, gold), "gold", 2, "is forbidden")
        refused(lambda loss=loss: loss.loss_gradient(scores, [*gold[:2], [0, 5, 0], gold[3]]), "gold", 2)
        barred[1] = -np.inf
        refused(lambda loss=loss, own=barred: loss.loss_gradient(own, gold), "scores", 1, "forbid every structure")
        refused(lambda loss=loss: loss.loss_gradient(scores[0], [0, 9, 0]), "gold", None)
    loss = FenchelYoungLoss(possible("gold"), "sparsemap")
    flat = rng.normal(size=(3, 4))
    refused(lambda: loss.loss_gradient(flat, [[1, 0, 1, 0], [1, 0, 0, 1], [1, 1, 0, 1]]), "gold", 2)
    refused(lambda: loss.loss_gradient(flat, [[1, 0, 1, 0]] * 2 + [[1, 0, 1]]), "gold", 2)


def test_label_sequences():
    """Models of sequences, some of them empty, name X, y and known; positions count the empty ones."""
    X = samples_of(7)
    y = [["a", "b", "a", "b"]] * 7
    empty = [x if i not in (0, 3) else x[:0] for i, x in enumerate(X)]
    y_empty = [own if i not in (0, 3) else [] for i, own in enumerate(y)]
    model = StructuredSparseMAPClassifier("chain", loss="crf", max_iter=3).fit(X, y)
    barred = StructuredSparseMAPClassifier("chain", loss="crf", constraints=[("a", "a")], max_iter=3).fit(X, y)
    sets = ConformalStructures(model, confidence_level=0.5).conformalize(X, y)
    nan = [x.copy() for x in empty]
    nan[5][2, 1] = np.nan
    methods = {
        "predict": model.predict,
        "predict_marginals": model.predict_marginals,
        "decision_function": model.decision_function,
        "predict_structures": model.predict_structures,
        "predict_n_best": lambda X, *known: model.predict_n_best(X, 2, *known),
        "sample": model.sample,
    }
    for method in methods.values():
        refused(lambda method=method: method(nan), "X", 5, "at row 2; impute or drop")
    for name in ("predict", "predict_marginals", "predict_structures", "predict_n_best"):
        known = [None if i != 5 else ["a", None, "b", "c"] for i in range(7)]
        refused(lambda name=name, own=known: methods[name](empty, own), "known", 5, "not in classes_; use None")
        known = [None if i != 5 else ["a", None, "b"] for i in range(7)]
        refused(lambda name=name, own=known: methods[name](empty, own), "known", 5, "X[5] has 4 steps", "has 3 labels")
    known = [None if i != 5 else ["a", "a", None, None] for i in range(7)]
    refused(lambda: barred.predict(empty, known), "known", 5, "replace more entries by None")
    refused(lambda: barred.predict_marginals(empty, known), "known", 5, "replace more entries by None")
    for call in (model.log_likelihood, sets.nonconformity, sets.covers, clone(sets).conformalize, model.score):
        wrong = [own if i != 5 else own[:3] for i, own in enumerate(y_empty)]
        refused(lambda call=call, own=wrong: call(empty, own), "y", 5, "has 3 labels; give one for each step")
        refused(lambda call=call: call(nan, y_empty), "X", 5, "at row 2; impute or drop")
    violated = [own if i != 5 else ["a", "a", "a", "a"] for i, own in enumerate(y_empty)]
    refused(lambda: barred.log_likelihood(empty, violated), "y", 5, "no structure, or none that the model allows")
    refused(lambda: clone(barred).fit(empty, violated), "y", 5, "set constraints=None")
    refused(lambda: clone(model).fit(nan, y_empty), "X", 5, "at row 2; impute or drop")
    refused(lambda: clone(model).fit(empty, wrong), "y", 5, "has 3 labels; give one for each step")
    weights = [np.ones(len(x)) if i != 5 else np.ones(3) for i, x in enumerate(empty)]
    refused(lambda: clone(model).fit(empty, y_empty, sample_weight=weights), "sample_weight", 5, "give one weight")
    refused(lambda: clone(model).partial_fit(nan, y_empty, classes=["a", "b"]), "X", 5, "at row 2; impute or drop")
    refused(lambda: clone(model).partial_fit(empty, wrong, classes=["a", "b"]), "y", 5, "has 3 labels")
    refused(lambda: explain(model, nan[5]), "x", None, "at row 2; impute or drop")
    short = ConformalStructures(model, confidence_level=0.5, risk="structure")
    refused(lambda: short.conformalize(empty, [own if i != 5 else [None] * 4 for i, own in enumerate(y_empty)]), "y", 5)


def test_constraints_name_the_short_sample():
    X = [rng.normal(size=(3, 2)) for _ in range(6)]
    y = [["B-x", "I-x", "O"]] * 6
    # Each sequence ends with O after a label before it.
    rules = [(None, "O"), ("B-x", None), ("I-x", None)]
    model = StructuredSparseMAPClassifier("chain", loss="crf", constraints=rules, max_iter=3).fit(X, y)
    short = [x if i != 4 else x[:1] for i, x in enumerate(X)]
    short[1] = short[1][:0]
    for call in (
        model.predict,
        model.predict_marginals,
        lambda X: model.predict_n_best(X, 2),
        model.sample,
        ConformalStructures(model, confidence_level=0.5).conformalize(X, y).predict_set,
    ):
        refused(lambda call=call: call(short), "X", 4, "allow no sequence of labels for X[4]", "set constraints=None")
    stopped = clone(model).set_params(solver="adagrad", early_stopping=True)
    y_val = [own[: len(x)] for own, x in zip(y, short)]
    refused(lambda: stopped.fit(X, y, X_val=short[2:], y_val=y_val[2:]), "X_val", 2, "allow no sequence of labels")
    refused(lambda: explain(model, short[4]), "x", None, "allow no sequence of labels for x")


def test_weights_that_forbid_everything_are_named():
    X, y = samples_of(), [["a", "b", "a", "b"]] * 6
    model = StructuredSparseMAPClassifier("chain", max_iter=3).fit(X, y)
    model.additional_scores_["transitions"][:] = -np.inf
    X = [X[0][:1], X[1], X[2]]
    refused(lambda: model.predict(X), "X", 1, "forbid every structure; allow at least one by weights above -inf")


def test_trees_and_matchings():
    lengths = [2, 3, 4, 2, 3]
    X = [rng.normal(size=(n + 1, n, 2)) for n in lengths]
    y = [np.zeros(n, int) for n in lengths]
    model = StructuredSparseMAPClassifier(DependencyTree(), loss="crf", max_iter=3).fit(X, y)
    cycle = [own if i != 3 else np.array([2, 1]) for i, own in enumerate(y)]
    refused(lambda: clone(model).fit(X, cycle), "y", 3)
    refused(lambda: model.log_likelihood(X, cycle), "y", 3)
    known = [None if i != 3 else [2, 1] for i in range(5)]
    refused(lambda: model.predict(X, known), "known", 3)
    bad = [x if i != 2 else x[:, :3] for i, x in enumerate(X)]
    refused(lambda: model.predict(bad), "X", 2)
    refused(lambda: clone(model).fit(bad, y), "X", 2)


def test_flat_classes_and_groups():
    X = rng.normal(size=(40, 6))
    model = GroupLassoPerceptron(groups=[[0, 1], [2, 3], [4, 5]], budget=1, shrink_every=5).fit(X, X[:, 0] > 0.0)
    kept = X[:, model.get_support()]
    with pytest.raises(ValueError, match=r"X has 2 features, .*fitted with 6\. As many are selected: .*get_support"):
        model.predict(kept)
    with pytest.raises(ValueError, match=r"^(?!.*selected).* features"):
        model.predict(X[:, :3])
    refused(lambda: clone(model).fit(X, [True, None] * 20), "y", 1, "leave out samples without a label")
    lasso = StructuredGroupLasso(structure="chain", max_iter=3)
    samples = samples_of(5)
    nan = [x.copy() for x in samples]
    nan[3][1] = np.inf
    refused(lambda: lasso.fit(nan, [["a", "b", "a", "b"]] * 5), "X", 3, "impute or drop")


def test_label_sets():
    X = rng.normal(size=(30, 4))
    names = [["a"], ["b"], ["a", "b"]] * 10
    model = MultilabelLPSparseMAP(constraints=[AtMostOne(["a", "b"])], max_iter=3)
    model.fit(X, [["a"], ["b"]] * 15)
    known = [None, None, {"a": True, "b": True}, None]
    refused(lambda: model.predict(X[:4], known=known), "known", 2)
    refused(lambda: model.predict(X[:4], known=[None, {"c": True}, None, None]), "known", 1, "labels in classes_")
    refused(lambda: model.predict(X[:4], known=[None, None, 3, None]), "known", 2, "must be a dict")
    refused(lambda: clone(model).fit(X, [*names[:-1], "a"]), "y", 29, "give each sample one")
    refused(lambda: model.score(X[:3], [["a"], ["a"], ["z"]]), "y", 2, "has the label 'z'")


def test_decisions():
    X, values = rng.normal(size=(2, 12, 3))
    structures = [Subset(1, 1), Subset(1, 2)]
    mask = np.ones((12, 3), bool)
    mask[7] = False
    barred = np.where(mask, values, -np.inf)
    for n_jobs in (None, 2):
        model = DecisionFocusedRegressor(lambda x: structures[int(x[0] > 0.0)], n_jobs=n_jobs).fit(X, values)
        remedy = "allow at least one by scores above -inf"
        refused(lambda model=model: model.predict(X, mask), "mask", 7, remedy)
        refused(lambda model=model: model.score(X, barred), "y", 7, remedy)
        refused(lambda model=model: clone(model).fit(X, barred), "y", 7, remedy)
    refused(lambda: normalized_regret(barred, np.zeros((12, 3)), structures[0]), "V", 7, "allow at least one")
    stopped = DecisionFocusedRegressor(structures[0], early_stopping=True, max_iter=2)
    refused(lambda: stopped.fit(X, values, X_val=X, y_val=barred), "y_val", 7)


def test_steps_before_a_model():
    sentences = [[{"word": "a"}, {"word": "b"}], [{"word": "b"}], [{"word": "a"}, {"token": "b"}]]
    vectorizer = TemplateVectorizer(["word[0]"])
    message = refused(lambda: vectorizer.fit(sentences), "X", 2, "X[2][1] lacks the field 'word'")
    assert "give every token this field" in message
    refused(lambda: vectorizer.fit([[{"word": "a"}], [{"word": 2.5}]]), "X", 1, "X[1][0] is 2.5", "strings or integers")
    refused(lambda: vectorizer.fit([[{"word": "a"}], "two words"]), "X", 1, "split it into tokens first")


def test_ragged_and_sparse_samples():
    X = [sparse.csr_array(x) for x in samples_of(4)]
    model = StructuredSparseMAPClassifier("chain", max_iter=2).fit(X, [["a", "b", "a", "b"]] * 4)
    broken = [x.copy() for x in X]
    broken[2].indices[4] = 99
    refused(lambda: model.predict(broken), "X", 2, "X[2] (row 1): the sparse matrix is malformed")
    joined = RaggedArray.from_list(X)
    joined.values.indices[int(joined.values.indptr[9])] = 99
    refused(lambda: model.predict(joined), "X", 2, "X[2] (row 1): the sparse matrix is malformed")
    masked = [np.ma.masked_array(x.toarray()) for x in X]
    refused(lambda: model.predict([X[0].toarray(), masked[1]]), "X", 1, "fill it in by X[1].filled(value)")
    refused(lambda: model.predict([X[0].toarray(), X[1].toarray()[0]]), "X", 1, "write X[1][:, None]")


def test_partitions(tmp_path):
    X, y = samples_of(), [["a", "b", "a", "b"]] * 6
    nan = [x.copy() for x in X]
    nan[2][1] = np.nan
    short = [own if i != 4 else own[:1] for i, own in enumerate(y)]
    for model in (
        StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=2),
        GroupLassoPerceptron(structure="chain", budget=1, max_iter=2),
    ):
        fit = clone(model).fit_partitions
        refused(lambda fit=fit: fit([(X, y), (nan, y)]), "X", 2, "partitions[1]: X[2] contains NaN", "impute or drop")
        refused(lambda fit=fit: fit([(nan, y), (X, y)]), "X", 2, "partitions[0]: X[2] contains NaN")
        refused(lambda fit=fit: fit(lambda: iter([(X, y), (X, short)])), "y", 4, "partitions[1]: X[4] has 4 steps")
    model = StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=2)
    refused(lambda: model.fit_partitions([(X, y)] * 2, validation=(nan, y)), "X", 2, "validation: X[2] contains NaN")
    paths = [tmp_path / name for name in ("one.npz", "two.npz")]
    for path, own in zip(paths, (y, short), strict=True):
        save_partition(path, X, own)
    mixing = ParameterMixing(clone(model), n_rounds=1)
    for order in ([0, 1], [1, 0]):
        parts = [paths[i] for i in order]
        refused(lambda own=parts: mixing.fit(own), "y", 4, f"partitions[{order.index(1)}]: X[4] has 4 steps")
    refused(lambda: mixing.fit(X, short), "y", 4, "X[4] has 4 steps")


def test_layers_of_torch():
    torch = pytest.importorskip("torch")
    from sklearn_sparsemap import torch as layers

    scores = torch.zeros(2, 3, 4, 3, dtype=torch.float64)
    nan, barred = scores.clone(), scores.clone()
    nan[1, 2, 0, 0], barred[1, 1] = torch.nan, -torch.inf
    words = "or by the mask. Padding is given by lengths, not by a mask"
    n_compared = 0
    for structure in (LinearChain(), Matching(), DependencyTree()):
        given = scores if not isinstance(structure, DependencyTree) else scores[..., :3]
        wrong = nan if not isinstance(structure, DependencyTree) else nan[..., :3]
        for backend in ("compiled", "native"):
            options = {"backend": backend}
            call = lambda s, structure=structure, options=options: layers.sparsemap(structure, s, **options)  # noqa: E731
            refused(lambda: call(barred[..., : given.shape[-1]]), "scores", (1, 1), words)
            refused(lambda: call(wrong), "scores", (1, 2), "finite")
            refused(lambda: call(wrong[1, 2]), "scores", None, "finite")
            n_compared += 1
    assert n_compared == 6
    lengths = torch.full((2, 3), 4)
    lengths[0, 0], lengths[1, 1] = 0, 5
    refused(lambda: layers.sparsemap(LinearChain(), scores, lengths), "lengths", (1, 1), "is 5")
    refused(lambda: layers.map_inference(LinearChain(), barred), "scores", (1, 1), words)
    gold = torch.zeros(2, 3, 4, dtype=torch.int64)
    gold[1, 0, 2] = 7
    refused(lambda: layers.FenchelYoungLoss(LinearChain())(scores, gold), "y", (1, 0))
    barred[1, 1], barred[1, 2, 1, 0] = 0.0, -torch.inf
    refused(lambda: layers.FenchelYoungLoss(LinearChain())(barred, 0 * gold), "y", (1, 2), "is forbidden")
    decisions = torch.zeros(2, 3, 4, dtype=torch.float64)
    decisions[:, :, 0] = 1.0
    decisions[1, 1, 1] = 1.0
    loss = layers.PerturbedFenchelYoungLoss(Subset(1, 1))
    refused(lambda: loss(torch.zeros_like(decisions), decisions), "decisions", (1, 1), "has no structure")
    for name in NAMES:
        values = torch.zeros(2, 3, 4, dtype=torch.float64)
        values[1, 2, :2] = -torch.inf
        for backend in ("compiled", "native"):
            call = lambda name=name, backend=backend: layers.lp_sparsemap(possible(name), values, backend=backend)  # noqa: E731
            assert name in refused(call, "scores", (1, 2), "under scores[1, 2]", REMEDY, words)


def test_layers_of_jax():
    jax = pytest.importorskip("jax")
    from sklearn_sparsemap import jax as layers

    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else warnings.catch_warnings():
        barred = np.zeros((2, 3, 4, 3))
        barred[1, 1] = -np.inf
        for call, message in (
            (lambda: layers.sparsemap(LinearChain(), barred), r"scores\[1, 1\].*not by a mask"),
            (lambda: layers.map_inference(LinearChain(), barred), r"scores\[1, 1\].*not by a mask"),
            (
                lambda: layers.sparsemap(LinearChain(), np.where(barred < 0, np.nan, barred)),
                r"scores\[1, 1\] contains nan",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                call()
        for name in NAMES:
            values = np.zeros((2, 3, 4))
            values[1, 2, :2] = -np.inf
            with pytest.raises(ValueError, match=r"under scores\[1, 2\].*Remove a factor") as caught:
                layers.lp_sparsemap(possible(name), values)
            assert name in str(caught.value)


def test_an_error_is_formatted_when_it_is_shown():
    with pytest.raises(ValueError, match=r"^scores\[1\]") as caught:
        map_inference(LinearChain(), np.array([[[0.0]], [[np.nan]]]))
    error = caught.value
    assert type(error) is not ValueError and not error.infeasible
    error.argument, error.sample, error.remedy = "x", (2, 3), " or {} %s"
    error.message = "the rows of ", " end; write ", "[:1]"
    error.names = None, "X"
    assert str(error) == "the rows of x[2, 3] end; write X[2, 3][:1] or {} %s"
    error.sample = None
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "the rows of x end; write X[:1] or {} %s"
