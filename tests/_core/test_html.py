"""HTML representations: short, escaped, and linked to the documentation."""

import importlib
import inspect
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    marginal_inference,
    perceptron_path,
    sparsemap,
    stability_selection,
)
from sklearn_sparsemap.factors import FactorGraph, Xor
from sklearn_sparsemap.inspection import explain, feature_table, transition_table
from sklearn_sparsemap.structures import LinearChain, Matching, Simplex

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ["", ".estimators", ".features", ".distributed", ".pipeline", ".conformal"]


class Balanced(HTMLParser):
    """Check that tags are closed in the order in which they are opened; collect the rows."""

    def __init__(self, html):
        super().__init__()
        self.open, self.rows = [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "tr" in self.open:
            self.rows[-1].append(data)


def rows_of(shown):
    html = shown._repr_html_()
    assert len(html) < 4000
    return Balanced(html).rows


def test_a_table_escapes_and_counts_the_rows_left_out():
    model = StructuredSparseMAPClassifier().fit(np.eye(12), np.repeat(["<i>", "</b>"], 6))
    for shown in (explain(model, np.eye(12)[0]), feature_table(model, [f"<{k}>" for k in range(12)], n=6)):
        html = shown._repr_html_()
        assert "<i>" not in html and "<0>" not in html and "&lt;/b&gt;" in html
        assert html.count("</b>") == 1
    rows = Balanced(html).rows
    assert len(rows) == 12 and rows[-1] == [f"{len(shown) - 10} more"]
    assert [row[:2] for row in rows[1:-1]] == [[str(label), name] for label, name, _ in shown[:10].tolist()]
    assert rows[1][0] == "</b>" and rows[1][1].startswith("<")
    assert all(row[2] == f"{value:.4g}" for row, value in zip(rows[1:-1], shown["weight"], strict=False))
    few = feature_table(model, n=2)
    assert len(few) == 8 and len(Balanced(few._repr_html_()).rows) == 9


def test_results_show_their_certificate_and_structures():
    result = sparsemap(Simplex(), [0.5, 1.0, -1.0])
    head, values, *support = rows_of(result)
    assert head == ["objective", "gap", "n_iter", "converged"] and values[3] == "True"
    assert support == [["weight", "structure"], ["0.75", "1"], ["0.25", "0"]]
    many = rows_of(sparsemap(LinearChain(), np.zeros((6, 3)), transitions=np.full((3, 3), 1e-3) * np.eye(3)))
    assert len(many) <= 14
    # The structures of a solution by facets are not computed for the sake of the notebook.
    by_facets = sparsemap(Matching(), np.zeros((4, 4)), solver="facets")
    assert len(rows_of(by_facets)) == 2 and "support" not in vars(by_facets)
    assert by_facets.weights.size and len(rows_of(by_facets)) > 2


def test_batches_show_a_row_for_each_of_the_first_samples():
    scores = [np.arange(3.0) + i for i in range(25)]
    graph = FactorGraph()
    graph.add(Xor(graph.variables(3)))
    for batch, columns in (
        (sparsemap(Simplex(), scores), ["objective", "gap", "n_iter", "converged"]),
        (map_inference(Simplex(), scores), ["values"]),
        (marginal_inference(Simplex(), scores), ["log_partition"]),
        (lp_sparsemap(graph, scores), ["objective", "gap", "residual", "n_iter", "converged"]),
    ):
        head, *rows, last = rows_of(batch)
        assert head == ["sample", *columns] and last == ["15 more"]
        assert [row[0] for row in rows] == [str(i) for i in range(10)]
        assert all(len(row) == len(head) for row in rows)
        # Nothing but arrays is read, so no result is made.
        assert batch._made == [None] * 25
    result = lp_sparsemap(graph, scores[0])
    assert rows_of(result)[0] == ["objective", "gap", "residual", "n_iter", "integral", "converged"]


def test_ragged_arrays_show_the_shapes_of_their_samples():
    matchings = RaggedArray(np.zeros(10), [0, 6, 10], shapes=[[2, 3], [2, 2]])
    assert rows_of(matchings) == [["sample", "shape"], ["0", "(2, 3)"], ["1", "(2, 2)"]]
    assert rows_of(RaggedArray.from_list([np.zeros((2, 3))] * 12))[-1] == ["2 more"]


def test_tables_of_models_are_arrays_and_tables():
    X, y = [np.eye(3), np.eye(3)[::-1]], [["<A>", "B", "B"], ["B", "B", "<A>"]]
    model = StructuredSparseMAPClassifier("chain").fit(X, y)
    found = feature_table(model)
    assert isinstance(found, np.ndarray) and rows_of(found)[0] == ["label", "feature", "weight"]
    assert rows_of(found)[1][0] == "<A>" and found["label"]._repr_html_() is None
    assert len(rows_of(transition_table(model))) == 5
    assert rows_of(explain(model, X[0]))[0] == ["name", "row", "label", "contribution", "part of"]


def test_selections_show_the_table_that_they_print():
    X = np.random.default_rng(0).normal(size=(200, 6))
    y = X[:, :2].sum(axis=1) > 0
    model = GroupLassoPerceptron(groups=[0, 0, 1, 1, 2, 2], budget=1, random_state=0)
    path = perceptron_path(model, X[:100], y[:100], [1, 2], X_val=X[100:], y_val=y[100:])
    printed = [line.split() for line in str(path).splitlines()]
    shown = rows_of(path)
    assert shown[0] == ["budget", "groups", "weights", "score"]
    assert [row[:3] for row in shown] == [line[:3] for line in printed]
    stability = stability_selection(model, X, y, n_resamples=5, random_state=0)
    assert [row[0] for row in rows_of(stability)] == [line.split()[0] for line in str(stability).splitlines()]


def estimators():
    for room in ROOMS:
        module = importlib.import_module(f"sklearn_sparsemap{room}")
        for name in module.__all__:
            if inspect.isclass(kind := getattr(module, name)) and issubclass(kind, BaseEstimator):
                yield name, kind


def test_every_estimator_links_to_its_page():
    reference = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "doc" / "api").glob("*.rst"))
    pages = reference.split()
    linked = 0
    for name, kind in estimators():
        link = kind._get_doc_link(object.__new__(kind))
        page = link.removeprefix(kind._doc_link_template.partition("{")[0]).removesuffix(".html")
        assert f"~{page}" in pages and page.endswith(f".{name}"), (name, link)
        linked += 1
    assert linked > 15


@pytest.mark.parametrize("model", [MultilabelLPSparseMAP(), StructuredSparseMAPClassifier()])
def test_the_diagram_has_the_link(model):
    link = model._doc_link_template.format(name=f"sklearn_sparsemap.{type(model).__name__}")
    assert f'href="{link}' in model._repr_html_()


def test_a_subclass_of_a_user_has_no_link():
    class Own(StructuredSparseMAPClassifier):
        pass

    assert Own()._get_doc_link() == ""
