"""Tables with names in all arguments: aligned by names, refused, or positional for a reason.

`ARGUMENTS` lists each public argument that may be a table. A new argument must be added to it, with its behaviour.
"""

import contextlib
import importlib
import inspect
import re
from importlib.util import find_spec

import numpy as np
import pytest
from internals import aligned, as_mapping, by_samples, order_by
from public_names import NAMES
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import (
    DecisionFocusedRegressor,
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
    sparsemap,
)
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.factors import AtMost, FactorGraph, Hierarchy, Implies, Knapsack, Label
from sklearn_sparsemap.features import InformationGainSelector, OnRows, RowUnion
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.metrics import (
    example_f1_score,
    example_f1_scorer,
    flat_accuracy_score,
    hierarchical_f1_score,
    normalized_regret,
    parts_f1_score,
    precision_at_k,
    propensity_scored_precision_at_k,
    unlabeled_attachment_score,
)
from sklearn_sparsemap.penalties import GroupOrder, GroupTree, as_group_weights, as_groups
from sklearn_sparsemap.plotting import (
    HierarchyDisplay,
    LabelCalibrationDisplay,
    LabelConfusionDisplay,
    TransitionsDisplay,
)
from sklearn_sparsemap.structures import Hyperpath, LinearChain, LinearProgram, Path, Simplex, Subset

pd = pytest.importorskip("pandas")
# Few iterations are enough to compare two fits.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# -- All public arguments ---------------------------------------------------------------------------------------------

# Types of annotations that a table can have; those without an annotation, too.
_MAY_BE_TABLE = re.compile(r"Any|ArrayLike|NDArray|Sequence|Mapping|Iterable|^$")

ARGUMENTS = {
    "aligned by names of columns or labels": """
        Y columns cost decisions edges feature_groups group_weights groups known mask matrix parents
        predicted probabilities propensity sizes y y_pred y_score y_true y_val V
    """,
    "aligned by the index of samples": "ignore sample_weight",
    "aligned by the columns of the scores, or refused": "additional",
    "refused if it has names, because nothing has these names": """
        A A_eq alphas atom_of b_eq costs features group_of marginals tails v vs ws values weights
    """,
    "refused, because the parameter takes a dict": "class_weight",
    "refused if it is a table, or read as a list of its rows": "constraints label_graph pairs coarser",
    "positional, because it defines the order that others follow": "X X_val scores x",
    "positional, because it holds names, and its entries are the order": """
        axis_names classes col_names feature_names group_names input_features inputs items labels label_names names
        order row_names tags templates words fields
    """,
    "positional, because it is parallel to other arguments of the same call, point by point": """
        bands confidence_level counts coverages curves frequencies levels losses selected strengths validation_scores
        budgets hidden_layer_sizes n_clusters
    """,
    "positional, because it is an array of the library's own format": """
        additional_slots arrays batch dense dims distinct_additional expected extra flat given group_atoms group_indptr
        indices indptr log_partition of_atoms problem problems shape shapes slot_ptr slots solution states totals
        unary work changes directions lengths arcs grandparents siblings progress attributes
        recency thresholds wanted
    """,
    "no table: structures, samples or parts of one sample, one by one": """
        against gold heads lines relations sample samples sentence sentences structures tokens frame partitions
        validation path paths spans texts
    """,
    "no table: an object, function, number or word": """
        a b again answered args ax client conformal cv decode derived_fields encode entries estimator explanation
        featured first fitted_estimator graph held_out_loss hierarchy kwargs limit map_oracle max_iter
        memory model more n n_additional n_jobs n_parts name nested node norms options parameters params per_sample
        pos_label random_state result results rival rng score_difference scoring second steps structure table
        tol transformer transformers validate variables vectors warm_start what zero_division parts_of quantity
        without_rules broken_rules
        reader
    """,
}


def public_arguments():
    """Return the name of each public argument that may be a table, with one place where it occurs."""
    found = {}
    for module, names in NAMES.items():
        if module in ("torch", "jax") and find_spec(module) is None:
            continue
        room = importlib.import_module(f"sklearn_sparsemap{module and '.'}{module}")
        for name in names.split():
            public = getattr(room, name)
            functions = [public]
            if inspect.isclass(public):
                functions = [public.__init__, *(f for n, f in inspect.getmembers(public, callable) if n[0] != "_")]
            for function in functions:
                if not callable(function) or not getattr(function, "__module__", "").startswith("sklearn_sparsemap"):
                    continue
                for argument in inspect.signature(function).parameters.values():
                    annotation = argument.annotation
                    text = "" if annotation is inspect.Parameter.empty else str(annotation)
                    if argument.name not in ("self", "cls") and _MAY_BE_TABLE.search(text):
                        found.setdefault(argument.name, f"{module}.{name}")
    return found


def test_each_argument_that_may_be_a_table_has_a_behaviour():
    listed = [name for names in ARGUMENTS.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    found = public_arguments()
    assert len(found) > 150
    missing = {name: place for name, place in found.items() if name not in listed}
    assert not missing, "give these arguments a behaviour for tables with names, in ARGUMENTS"
    if all(map(find_spec, ("torch", "jax"))):
        gone = set(listed) - set(found)
        assert not gone, "these arguments no longer exist"


# -- The function that does it ----------------------------------------------------------------------------------------


def naive_order(given, wanted):
    """Return the places of names, found one by one."""
    return [given.index(name) for name in wanted]


def test_names_are_found_as_one_by_one():
    rng, compared = np.random.default_rng(0), 0
    for names in (list("abcdef"), [3, 1, 0, 2], [("g", "a"), ("g", "b")], [True, False]):
        for _ in range(20):
            given, wanted = ([names[i] for i in rng.permutation(len(names))] for _ in range(2))
            order = order_by(given, wanted, "y", "column", "the labels")
            assert (given == wanted) if order is None else order == naive_order(given, wanted)
            table = pd.DataFrame(rng.normal(size=(len(given), len(given))), index=given)
            table.columns = pd.Index(given, tupleize_cols=False)
            own = naive_order(given, wanted)
            expected = table.to_numpy()[np.ix_(own, own)]
            found = aligned(table, wanted, wanted, name="cost", whose="the labels")
            np.testing.assert_array_equal(found, expected)
            compared += order is not None
    assert compared > 40


def test_names_that_do_not_fit_are_refused():
    def order(given, wanted, **options):
        return order_by(given, wanted, "y", "column", "the labels", **options)

    for given, wanted, message in [
        (["a", "c"], ["a", "b"], "y has the column 'c', which is not among the labels; y has no column 'b'"),
        (
            ["a"],
            ["a", "b"],
            "y has no column 'b', which is among the labels; name the columns of y like these, or pass",
        ),
        (["a", "b", "c"], ["a", "b"], "y has the column 'c', which is not among the labels"),
        (["a", "b", "a"], ["a", "b"], "y has the column 'a' twice, so its order is ambiguous"),
        (["b", "a"], ["a", "b", "a"], "the labels contain names twice"),
        (["a", "b"], [0, 1], "y has the column 'a', which is not among the labels"),
        ([4, 5], [0, 1], "y has the column 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            order(given, wanted)
    assert order(["c", "b", "a"], ["a", "b"], more=True) == [2, 1]
    with pytest.raises(ValueError, match="y has no column 'd'"):
        order(["c", "b", "a"], ["a", "d"], more=True)
    # The names that pandas writes by itself are no names, unless these are wanted, in another order.
    assert order([0, 1], ["a", "b"]) is None and order([0, 1, 2], ["a", "b"], more=True) is None
    assert order([0, 1], [1, 0]) == [1, 0]
    with pytest.raises(ValueError, match="X has the index 0, which is not among the index"):
        order_by([0, 1], [4, 5], "X", "index", "the index", default=False)
    with pytest.raises(ValueError, match="prices has the entry 'a' twice"):
        as_mapping(pd.Series([1, 2], index=["a", "a"]), "prices")


def test_square_tables_with_names_of_columns_only():
    pl = pytest.importorskip("polars")
    values = np.arange(9.0).reshape(3, 3)
    names, wanted = ["low", "mid", "high"], ["high", "low", "mid"]
    expected = values[np.ix_([2, 0, 1], [2, 0, 1])]
    for table in (pl.DataFrame(values, schema=names), pd.DataFrame(values, columns=names), pd.DataFrame(values, names)):
        np.testing.assert_array_equal(aligned(table, wanted, wanted, name="cost", whose="the labels"), expected)


def dense(coef):
    return coef.toarray() if hasattr(coef, "toarray") else coef


# -- Samples ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 6)), columns=list("abcdef"), index=rng.permutation(90) + 100)
    y = np.where(X["a"] > 0.5, "high", np.where(X["a"] < -0.5, "low", "mid"))
    return X, np.where(rng.random(90) < 0.2, rng.permutation(y), y), pd.Series(rng.random(90) + 0.1, index=X.index)


def test_sample_weights_follow_the_index_of_samples(rows):
    X, y, weights = rows
    shuffled = weights.sample(frac=1.0, random_state=0)
    assert shuffled.index.tolist() != X.index.tolist()
    sets, values = np.stack([y == "high", y != "low"], axis=1).astype(int), X[["a", "b", "c"]].to_numpy()
    few = {"max_iter": 20}
    for model, target in (
        (StructuredSparseMAPClassifier(**few), y),
        (StructuredGroupLasso(alpha=0.05, loss="crf"), y),
        (GroupLassoPerceptron(random_state=0, budget=2), y),
        (MultilabelLPSparseMAP(score_model="linear", loss="logistic", **few), sets),
        (DecisionFocusedRegressor(Subset(1, 1), max_iter=5), values),
    ):
        expected = clone(model).fit(X, target, sample_weight=weights.to_numpy())
        found = clone(model).fit(X, target, sample_weight=shuffled)
        np.testing.assert_array_equal(dense(found.coef_), dense(expected.coef_))
        scores = [found.score(X, target, sample_weight=own) for own in (shuffled, weights.to_numpy())]
        assert scores[0] == scores[1]
        for call in (lambda: clone(model).fit(X, target, foreign), lambda: found.score(X, target, foreign)):
            foreign = pd.Series(weights.to_numpy(), index=np.arange(90))
            with pytest.raises(
                ValueError, match=r"sample_weight has the index 0, .* write sample_weight.loc\[X.index\]"
            ):
                call()
        if hasattr(model, "partial_fit"):
            streams = [
                clone(model).partial_fit(
                    X, target, classes=[*np.unique(y)][: 2 if target is sets else 3], sample_weight=own
                )
                for own in (shuffled, weights.to_numpy())
            ]
            np.testing.assert_array_equal(dense(streams[0].coef_), dense(streams[1].coef_))
    assert example_f1_score(pd.DataFrame(sets, X.index), 1 - sets, sample_weight=shuffled) == example_f1_score(
        sets, 1 - sets, sample_weight=weights.to_numpy()
    )
    # Samples without an index take weights by position.
    np.testing.assert_array_equal(by_samples(shuffled, X.to_numpy(), "sample_weight"), shuffled.to_numpy())


def test_values_of_steps_follow_the_index_of_each_sample(rows):
    table = rows[0]
    X = [table.iloc[i : i + 5][["a", "b"]] for i in range(0, 60, 5)]
    y = [np.where(x["a"] > 0, "up", "down") for x in X]
    weights = [pd.Series(np.arange(1.0, 6.0), index=x.index) for x in X]
    turned = [own.iloc[::-1] for own in weights]
    models = [StructuredSparseMAPClassifier("chain", max_iter=20).fit(X, y, own) for own in (weights, turned)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    with pytest.raises(ValueError, match=r"sample_weight\[0\] has the index .* not among the index of X\[0\]"):
        StructuredSparseMAPClassifier("chain").fit(X, y, turned[::-1])
    # A Series of samples has an index of its own.
    series, names = pd.Series(X, index=list("abcdefghijkl")), list("lkjihgfedcba")
    known = pd.Series([["up"] * 5, *[None] * 11], index=names)
    assert models[0].predict(series, known=known)[11].tolist() == ["up"] * 5
    lengths = pd.Series(range(12), index=names)
    a, b = (
        flat_accuracy_score(pd.Series(y, index=series.index), y[::-1], own) for own in (lengths, np.arange(12)[::-1])
    )
    assert a == b
    heads = [[2, 0, 2], [0, 1, 1]]
    ignore = pd.Series([[True, False, False], [False] * 3], index=["s2", "s1"])
    found = unlabeled_attachment_score(pd.Series(heads, index=["s1", "s2"]), [[2, 0, 2], [1, 1, 1]], ignore=ignore)
    assert found == 1.0


# -- Groups, costs and weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [GroupLassoPerceptron, StructuredGroupLasso])
def test_groups_and_their_weights_follow_names(cls, rows):
    X, _, _ = rows
    y = np.where(X["a"] + X["b"] > 0, "up", "down")
    options = {"budget": 1, "random_state": 0} if cls is GroupLassoPerceptron else {"alpha": 0.1, "loss": "crf"}
    sensor_of = pd.Series({"f": "S3", "e": "S3", "d": "S2", "c": "S2", "b": "S1", "a": "S1", "other": "S9"})
    model = cls(groups=sensor_of, **options).fit(X, y)
    assert X.columns[model.get_support()].tolist() == ["a", "b"] and model.selected_group_names_ == ["S1"]
    same = cls(groups=[*"112233"], **options).fit(X, y)
    np.testing.assert_array_equal(model.get_support(), same.get_support())
    for wrong, message in (
        (sensor_of.drop("c"), "groups has no row 'c', which is among the names of the features"),
        (pd.concat([sensor_of, sensor_of]), "groups has the row 'f' twice"),
    ):
        with pytest.raises(ValueError, match=message):
            cls(groups=wrong, **options).fit(X, y)
    with pytest.raises(ValueError, match=r"groups has no row 0, .* pass groups.to_numpy"):
        cls(groups=sensor_of, **options).fit(X.to_numpy(), y)
    prices = {"S1": 50.0, "S2": 1.0, "S3": 1.0}
    by_dict = cls(groups=sensor_of, group_weights=prices, **options).fit(X, y)
    by_series = cls(groups=sensor_of, group_weights=pd.Series(prices).iloc[[2, 0, 1]], **options).fit(X, y)
    np.testing.assert_array_equal(by_series.group_weights_, by_dict.group_weights_)
    np.testing.assert_array_equal(by_series.get_support(), by_dict.get_support())
    with pytest.raises(ValueError, match="group_weights names the group 'S7', which does not exist"):
        cls(groups=sensor_of, group_weights=pd.Series({"S7": 1.0}), **options).fit(X, y)
    # Without names they are taken by position.
    flat = cls(groups=[*"112233"], group_weights=pd.Series([50.0, 1.0, 1.0]), **options).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(flat.group_weights_, [50.0, 1.0, 1.0])


def test_groups_of_penalties_follow_names():
    groups = as_groups(pd.Series([1, 0, 1], index=["c", "b", "a"]), feature_names=["a", "b", "c"])
    assert groups.atom_of.tolist() == [1, 0, 1]
    templates = as_groups("templates", feature_groups=pd.Series([1, 0], index=["b", "a"]), feature_names=["a", "b"])
    assert templates.atom_of.tolist() == [0, 1]
    sizes = pd.Series([4, 9], index=["x", "y"])
    assert as_group_weights("sqrt", sizes, names=["y", "x"]).tolist() == [3.0, 2.0]
    assert as_group_weights(pd.Series({"y": 5.0}), sizes, others="sqrt").tolist() == [2.0, 5.0]
    tree = GroupTree(pd.Series({"leaf": "root", "root": None}), columns=pd.Series({"root": [0], "leaf": [1]}))
    assert tree.names == ("leaf", "root") and tree.parents.tolist() == [1, -1] and tree.columns == [[1], [0]]
    assert GroupOrder(pd.DataFrame([["pos", "word"]])).names == ("pos", "word")


def test_costs_follow_labels(rows):
    X, y, _ = rows
    cost = pd.DataFrame([[0, 1, 9], [1, 0, 1], [9, 1, 0]], ["low", "mid", "high"], ["low", "mid", "high"], dtype=float)

    def fit(cost, y=y, **options):
        return StructuredSparseMAPClassifier(loss="margin_sparsemap", cost=cost, **options).fit(X, y)

    expected = fit(cost.loc[np.unique(y), np.unique(y)].to_numpy())
    for own in (cost, cost.iloc[[2, 0, 1]], cost[["high", "low", "mid"]], cost.reset_index(drop=True)):
        np.testing.assert_array_equal(fit(own).coef_, expected.coef_)
    assert np.abs(expected.coef_ - fit(cost.to_numpy()).coef_).max() > 0.01
    pl = pytest.importorskip("polars")
    np.testing.assert_array_equal(fit(pl.from_pandas(cost)).coef_, expected.coef_)
    # A fold may lack a label.
    fewer = np.where(y == "high", "mid", y)
    small = fit(cost.loc[["low", "mid"], ["low", "mid"]].to_numpy(), fewer)
    np.testing.assert_array_equal(fit(cost, fewer).coef_, small.coef_)
    with pytest.raises(ValueError, match="cost has no row 'high', which is among the labels"):
        fit(cost.loc[["low", "mid"], ["low", "mid"]])
    lasso = StructuredGroupLasso(alpha=0.01, loss="margin_sparsemap", cost=cost).fit(X, y)
    turned = StructuredGroupLasso(alpha=0.01, loss="margin_sparsemap", cost=cost.iloc[::-1]).fit(X, y)
    np.testing.assert_array_equal(lasso.coef_, turned.coef_)
    with pytest.raises(ValueError, match="cost has the row 'low', which is not among the numbers of the labels"):
        FenchelYoungLoss(Simplex(), "margin_sparsemap", cost=cost)
    with pytest.raises(ValueError, match="class_weight"):
        StructuredSparseMAPClassifier(class_weight=pd.Series({"low": 2.0})).fit(X, y)


# -- Scores and assigned weights --------------------------------------------------------------------------------------


def test_additional_scores_follow_the_columns_of_the_scores():
    rng, names = np.random.default_rng(0), ["N", "V", "D"]
    scores, transitions = pd.DataFrame(rng.normal(size=(5, 3)), columns=names), rng.normal(size=(3, 3))
    named, start = pd.DataFrame(transitions, names, names), pd.Series([1.0, 0.0, -1.0], index=names)
    expected = sparsemap(LinearChain(), scores.to_numpy(), transitions=transitions, start=start.to_numpy())
    for own in (scores, [scores, scores]):
        found = sparsemap(LinearChain(), own, transitions=named.iloc[::-1, [1, 0, 2]], start=start.iloc[::-1])
        found = found[1] if isinstance(own, list) else found
        np.testing.assert_allclose(found.marginals, expected.marginals, atol=1e-12)
    np.testing.assert_allclose(
        sparsemap(LinearChain(), scores, transitions=transitions, start=start).marginals, expected.marginals, atol=1e-12
    )
    with pytest.raises(ValueError, match="transitions has names, such as 'N', but is taken by position"):
        sparsemap(LinearChain(), scores.to_numpy(), transitions=named)
    with pytest.raises(ValueError, match="transitions has the row 'X'"):
        sparsemap(LinearChain(), scores, transitions=named.rename(index={"N": "X"}))
    with pytest.raises(ValueError, match=r"scores\[1\] has other columns than scores\[0\]"):
        sparsemap(LinearChain(), [scores, scores[["V", "N", "D"]]], transitions=named)


READERS_OF_FRAMES = {
    "classifier": StructuredSparseMAPClassifier("chain", max_iter=2),
    "group lasso": GroupLassoPerceptron("chain", budget=1, max_iter=1),
    "selector": InformationGainSelector(1),
    "rows": OnRows(StandardScaler()),
    "union": RowUnion([("all", "passthrough")]),
}


@pytest.mark.parametrize("container", [list, pd.Series])
@pytest.mark.parametrize("name", READERS_OF_FRAMES)
def test_samples_that_are_frames_have_equal_columns(name, container):
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.normal(size=(4, 2)), columns=["u", "v"]) for _ in range(12)]
    y = [np.where(frame["u"] > 0, "a", "b") for frame in frames]
    others = [frame[["v", "u"]] for frame in frames]
    with pytest.raises(ValueError, match=r"X\[3\] has other columns than X\[0\]"):
        clone(READERS_OF_FRAMES[name]).fit(container([*frames[:3], *others[3:]]), y)
    fitted = clone(READERS_OF_FRAMES[name]).fit(container(frames), y)
    read = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    with pytest.raises(ValueError, match="feature names should match"):
        read(container(others))
    with pytest.raises(ValueError, match="sample 1 has other columns than sample 0"):
        RaggedArray.from_list([frames[0], others[1]])


def test_tables_of_arrow_with_equal_columns_are_samples():
    pa = pytest.importorskip("pyarrow")
    columns = np.arange(24.0).reshape(6, 2, 2)
    X = [pa.table({"u": own[0], "v": own[1]}) for own in columns]
    fitted = StructuredSparseMAPClassifier("chain", max_iter=2).fit(X, [["a", "b"]] * 6)
    assert fitted.feature_names_in_.tolist() == ["u", "v"]


def test_assigned_weights_follow_labels():
    rng = np.random.default_rng(0)
    X = [pd.DataFrame(rng.normal(size=(4, 2)), columns=["u", "v"]) for _ in range(30)]
    model = StructuredSparseMAPClassifier("chain", max_iter=5).fit(X, [np.where(x["u"] > 0, "B", "A") for x in X])
    coef = pd.DataFrame(rng.normal(size=(2, 2)), ["A", "B"], ["u", "v"])
    model.coef_ = coef.iloc[::-1, ::-1]
    np.testing.assert_array_equal(model.coef_, coef.to_numpy())
    model.transitions_ = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], ["B", "A"], ["A", "B"])
    assert model.transitions_.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    model.start_, model.intercept_ = pd.Series({"B": 1.0, "A": 2.0}), pd.Series({"B": 3.0, "A": 4.0})
    assert model.start_.tolist() == [2.0, 1.0] and model.intercept_.tolist() == [4.0, 3.0]
    with pytest.raises(ValueError, match="end_ has the row 'C'"):
        model.end_ = pd.Series({"B": 1.0, "C": 2.0})
    with pytest.raises(ValueError, match="constraints must be"):
        StructuredSparseMAPClassifier("chain", constraints=pd.DataFrame([["A", "B"]])).fit(X, [["A"] * 4] * 30)


def test_numbers_with_names_that_nothing_has_are_refused():
    graph = FactorGraph()
    u, named = graph.variables(2), pd.Series([1.0, 2.0], index=["a", "b"])
    for call in (
        lambda: Knapsack(u, named, 2.0),
        lambda: LinearProgram(pd.DataFrame([[1.0, 1.0]], columns=["a", "b"]), [1.0]),
        lambda: Hyperpath(named.astype(int), [[0, -1], [1, -1]]),
        lambda: Hyperpath([1, 2], pd.DataFrame([[0, -1], [1, -1]], columns=["left", "right"])),
        lambda: as_groups(GroupOrder([(0, 1)]), feature_groups=pd.Series([0, 1], index=["a", "b"])),
    ):
        with pytest.raises(ValueError, match="to_numpy"):
            call()
    assert Knapsack(u, named.reset_index(drop=True), 2.0).k == 2.0


def test_arcs_are_read_by_the_names_of_columns():
    edges = [[0, 1], [1, 2], [0, 2]]
    for names in (["tail", "head"], ["source", "target"], ["from", "to"], [0, 1]):
        table = pd.DataFrame(edges, columns=names)
        assert Path(table, 0, 2).edges.tolist() == edges
        if names[0] != 0:
            assert Path(table[names[::-1]], 0, 2).edges.tolist() == edges
    with pytest.raises(ValueError, match="edges has the columns 'x', 'y'; call the start of an arc one of"):
        Path(pd.DataFrame(edges, columns=["x", "y"]), 0, 2)


# -- Label sets -------------------------------------------------------------------------------------------------------

KINDS = {
    "numbers": lambda Y: Y,
    "Int64": lambda Y: Y.astype("Int64"),
    "boolean": lambda Y: Y.astype("boolean"),
    "converted": lambda Y: Y.convert_dtypes(),
    "objects": lambda Y: Y.astype(object),
    "bools as objects": lambda Y: Y.astype(bool).astype(object),
    "mixed": lambda Y: Y.astype({"a": "Int64", "b": "boolean", "c": object}),
    "polars": lambda Y: pytest.importorskip("polars").from_pandas(Y),
}


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    Z = (X[:, :3] + 0.4 * rng.normal(size=(90, 3)) > [0.0, 0.5, 1.0]).astype(int)
    Y = pd.DataFrame(Z, columns=list("abc"))
    return X, Y, MultilabelLPSparseMAP(score_model="linear", loss="logistic", alpha=0.01).fit(X, Y)


@pytest.mark.parametrize("kind", KINDS)
def test_all_calls_read_each_type_of_columns(sets, kind):
    X, Y, model = sets
    own, predicted, probabilities = KINDS[kind](Y)[["c", "a", "b"]], model.predict(X), model.predict_proba(X)
    named = pd.DataFrame(predicted, columns=Y.columns)
    assert model.score(X, own) == model.score(X, Y) > 0.5
    np.testing.assert_array_equal(model.predict(X, known=own), Y.to_numpy())
    assert ConformalStructures(model).conformalize(X, own).threshold_ == (
        ConformalStructures(model).conformalize(X, Y).threshold_
    )
    for metric, others in (
        (example_f1_score, ()),
        (hierarchical_f1_score, (Hierarchy.from_edges([("b", "a"), ("c", "a")]),)),
        (parts_f1_score, ()),
    ):
        if metric is parts_f1_score:
            named = named.astype(bool)
        expected = metric(Y.to_numpy(bool), predicted, *others)
        assert metric(own, named, *others) == metric(named[["b", "c", "a"]], own, *others) == expected
    columns = pd.DataFrame(probabilities, columns=Y.columns)
    rare = pd.Series({"b": 0.5, "c": 0.2, "a": 0.9})
    assert precision_at_k(own, columns, 2) == precision_at_k(Y.to_numpy(), probabilities, 2)
    assert propensity_scored_precision_at_k(own, columns, 1, rare) == pytest.approx(
        propensity_scored_precision_at_k(Y.to_numpy(), probabilities, 1, rare[["a", "b", "c"]].to_numpy())
    )
    cheap = MultilabelLPSparseMAP(score_model="linear", loss="logistic", alpha=0.01, max_iter=5)
    for scoring in (None, example_f1_scorer):
        scores = [cross_val_score(cheap, X, y, cv=KFold(3), scoring=scoring) for y in (own, Y[["c", "a", "b"]])]
        np.testing.assert_array_equal(*scores)
        assert np.isfinite(scores[0]).all()
    search = GridSearchCV(cheap, {"alpha": [0.01, 1.0]}, cv=KFold(3), error_score="raise").fit(X, own)
    assert search.best_score_ == GridSearchCV(cheap, {"alpha": [0.01, 1.0]}, cv=KFold(3)).fit(X, Y).best_score_


def test_metrics_and_displays_refuse_other_columns(sets):
    X, Y, model = sets
    columns = pd.DataFrame(model.predict_proba(X), columns=Y.columns)
    displays = pytest.importorskip("matplotlib") and LabelCalibrationDisplay
    values = columns.to_numpy()
    in_order = displays.from_predictions(Y.to_numpy(), values).calibration_error
    assert displays.from_predictions(Y[["c", "a", "b"]], columns).calibration_error == in_order
    other = Y.rename(columns={"a": "z"})
    for call in (
        lambda: example_f1_score(other, Y),
        lambda: precision_at_k(other, columns, 1),
        lambda: parts_f1_score(other.astype(bool), Y),
        lambda: displays.from_predictions(other, columns),
        lambda: normalized_regret(columns, other, Subset()),
        lambda: hierarchical_f1_score(other, Y, Hierarchy.from_edges([("b", "a"), ("c", "a")])),
    ):
        with pytest.raises(ValueError, match=r"which is not among|which is among"):
            call()
    with pytest.raises(ValueError, match="y_true is a table, but must be a sequence"):
        flat_accuracy_score(Y, Y)
    with pytest.raises(ValueError, match="y_pred is a table"):
        LabelConfusionDisplay.from_predictions(Y.to_numpy().tolist(), Y)
    with pytest.raises(ValueError, match="propensity has the row 'z'"):
        propensity_scored_precision_at_k(Y, columns, 1, pd.Series({"z": 0.5, "a": 0.5, "b": 0.5}))


def test_hierarchies_and_transitions_are_drawn_by_names():
    pytest.importorskip("matplotlib")
    pytest.importorskip("networkx")
    tree = Hierarchy.from_edges([("dog", "animal"), ("cat", "animal")])
    shown = HierarchyDisplay(tree, pd.Series({"cat": 0.1, "animal": 0.9, "dog": 0.8}))
    assert dict(zip(shown.labels, shown.probabilities)) == {"animal": 0.9, "dog": 0.8, "cat": 0.1}
    matrix = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], ["I", "B"], ["B", "I"])
    assert TransitionsDisplay(matrix, ["B", "I"]).matrix.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert TransitionsDisplay(matrix).labels == ["B", "I"]


def test_decisions_follow_the_columns_of_the_fit(sets):
    X, _, _ = sets
    V = pd.DataFrame(X[:, :3] + 1.0, columns=["p", "q", "r"])
    model = DecisionFocusedRegressor(Subset(1, 1), max_iter=5).fit(X, V)
    turned = V[["r", "p", "q"]]
    assert model.score(X, turned) == model.score(X, V)
    mask = V > 0.5
    mask.iloc[:, 0] = True
    np.testing.assert_array_equal(model.predict(X, mask=mask[["q", "r", "p"]]), model.predict(X, mask=mask.to_numpy()))
    with pytest.raises(ValueError, match="y has the column 'z', which is not among the columns of the fit"):
        model.score(X, V.rename(columns={"p": "z"}))
    decisions = pd.DataFrame(model.predict(X), columns=V.columns)
    assert normalized_regret(turned, decisions, Subset(1, 1)) == pytest.approx(-model.score(X, V), abs=1e-12)
    restored = DecisionFocusedRegressor.from_arrays(model.to_arrays())
    assert restored.score(X, turned) == model.score(X, V)


def test_columns_with_several_levels_are_named_in_rules(sets):
    X, Y, _ = sets
    Y = Y.set_axis(pd.MultiIndex.from_tuples([("g", "a"), ("g", "b"), ("h", "a")]), axis=1)
    a, b = ("g", "a"), ("g", "b")
    cheap = {"loss": "logistic", "alpha": 0.01}
    for rule, wrong in (
        (AtMost([a, b], 1), lambda P: P[:, 0] & P[:, 1]),
        (Implies([a], Label(b)), lambda P: P[:, 0] & ~P[:, 1]),
        (Hierarchy.from_edges([(a, b)]), lambda P: P[:, 0] & ~P[:, 1]),
        (Hierarchy({a: [b]}), lambda P: P[:, 0] & ~P[:, 1]),
    ):
        model = MultilabelLPSparseMAP(constraints=rule, **cheap)
        with (
            pytest.warns(UserWarning, match="violate")
            if isinstance(rule, AtMost | Implies)
            else contextlib.nullcontext()
        ):
            model.fit(X, Y)
        assert not wrong(model.predict(X) > 0).any() and model.predict(X).any()
    with pytest.raises(ValueError, match=r"or write Label\(\('g', 'b'\)\)"):
        Implies(a, b)


def test_names_reach_rules_in_cross_validation(sets):
    X, Y, _ = sets
    model = MultilabelLPSparseMAP(constraints=Implies("c", "a"), loss="logistic", alpha=0.01, max_iter=3)
    options = {"cv": KFold(3), "method": "predict_proba"}
    with pytest.warns(UserWarning, match="violate"):
        assert cross_val_predict(model, X, Y, **options, params={"classes": list(Y)}).shape == Y.shape
    with pytest.raises(ValueError, match=r"params=\{'classes': names\}"):
        cross_val_predict(model, X, Y, **options)
    with pytest.raises(ValueError, match=r"classes are the names of the labels, .*; leave classes out"):
        MultilabelLPSparseMAP().partial_fit(X, Y, classes=[[0, 1]] * 3)


# -- Conformal sets ---------------------------------------------------------------------------------------------------


def test_groups_of_conformal_sets_follow_names(sets):
    X, Y, model = sets
    table = pd.DataFrame(X, columns=list("wxyz"), index=[f"s{i}" for i in range(90)])
    group_of = pd.Series(np.where(X[:, 0] > 0, "north", "south"), index=table.index)
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(table, Y)
    by_row = ConformalStructures(pipeline, 0.8, groups=lambda row: "north" if row["w"] > 0 else "south")
    by_array = ConformalStructures(pipeline, 0.8)
    assert by_row.conformalize(table, Y).groups_ == group_of.tolist()
    assert by_array.conformalize(table, Y, groups=group_of.iloc[::-1]).groups_ == group_of.tolist()
    assert by_row.threshold_ == by_array.threshold_
    with pytest.raises(ValueError, match="groups has the index 0, which is not among the index of X"):
        by_array.predict_set(table, groups=group_of.reset_index(drop=True))
    pl = pytest.importorskip("polars")
    plain = ConformalStructures(model, 0.8, groups=lambda row: row["w"] > 0)
    with pytest.warns(UserWarning, match="X has feature names"):
        assert plain.conformalize(pl.from_pandas(table), Y).groups_ == (X[:, 0] > 0).tolist()


def test_a_model_that_is_fitted_again_warns(sets):
    X, Y, model = sets
    chains = [x.reshape(2, 2) for x in X]
    tagger = StructuredSparseMAPClassifier("chain", max_iter=10).fit(chains, [["a", "b"], ["b", "a"]] * 45)
    labels = [["a", "b"], ["b", "a"]] * 45
    for own, samples, y in ((clone(model).fit(X, Y), X, Y), (tagger, chains, labels)):
        conformal = ConformalStructures(own, 0.5).conformalize(samples, y)
        before = conformal.covers(samples, y)
        if own is tagger:
            # The same weights in another form, and from a file.
            own.sparsify()
        np.testing.assert_array_equal(conformal.covers(samples, y), before)
        restored = ConformalStructures.from_arrays(conformal.to_arrays())
        np.testing.assert_array_equal(restored.covers(samples, y), before)
        own.fit(samples[:45], y[:45])
        for call in (
            lambda: conformal.covers(samples, y),
            lambda: conformal.predict_set(samples),
            lambda: conformal.missed(samples, y),
        ):
            with pytest.warns(UserWarning, match="fitted again after conformalize"):
                call()
        np.testing.assert_array_equal(conformal.conformalize(samples, y).covers(samples, y).shape, before.shape)
        own.partial_fit(samples, y)
        with pytest.warns(UserWarning, match="fitted again after conformalize"):
            conformal.covers(samples, y)


def test_threshold_classifiers_around_models_name_the_remedy():
    selection = pytest.importorskip("sklearn.model_selection")
    X = np.random.default_rng(0).normal(size=(60, 2))
    tuned = selection.TunedThresholdClassifierCV(StructuredSparseMAPClassifier(loss="crf"), cv=2).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match=r"predicts by a threshold .* pass the model, its estimator_"):
        ConformalStructures(tuned).conformalize(X, X[:, 0] > 0)
    fixed = selection.FixedThresholdClassifier(StructuredSparseMAPClassifier(loss="crf")).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="got FixedThresholdClassifier; pass its estimator_"):
        ConformalStructures(fixed).conformalize(X, X[:, 0] > 0)
    assert len(ConformalStructures(tuned.estimator_).conformalize(X, X[:, 0] > 0).predict_set(X)) == 60
