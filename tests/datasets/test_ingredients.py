"""The small data set of the package."""

import pytest

from sklearn_sparsemap.datasets import load_ingredients
from sklearn_sparsemap.features import sentences_from_frame


def test_both_forms_have_the_same_lines():
    pytest.importorskip("pandas")
    X, y = load_ingredients()
    tokens, labels = sentences_from_frame(load_ingredients(as_frame=True), label="label")
    assert [list(line) for line in labels] == y and len(y) == 316
    assert [[token["word"] for token in line] for line in tokens] == X


def test_all_lines_have_a_label_for_each_word():
    X, y = load_ingredients()
    assert [len(line) for line in X] == [len(labels) for labels in y] and min(map(len, X)) > 0
    kinds = {label[2:] for labels in y for label in labels}
    assert kinds == {"", "AMOUNT", "UNIT", "FOOD", "NOTE"}
