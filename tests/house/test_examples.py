"""The short examples run, and stay short."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "scripts"
# Most lines of code, and what is printed.
SHORT = {
    "dataframe_tagger": (20, ["span F1 of", "overall", "word[0]", "I-NP", "contribution"]),
    "from_crfsuite": (45, ["word.lower()", "B-NP"]),
    "embeddings_and_templates": (20, ["templates__case[0]", "'vectors'", "span F1"]),
    "parser": (15, ["labelled attachment score", "# sent_id = toy-41"]),
    "column_groups": (12, ["selected [", "by the accuracy 0.9"]),
    "knapsack": (12, ["taken: [", "that is lost: "]),
    "soft_rules": (12, ["[3 4 5 2 8 6 1 7 9]", "wrong: [(4, 5, 5)]"]),
    "attention": (12, ["attention (3, 4, 5, 5)", ", 0]"]),
}


def n_lines_of_code(path):
    """Count the lines on which statements stand, without those of the docstring."""
    tree = ast.parse(path.read_text())
    lines = set()
    for node in tree.body[1:]:
        lines |= {n.lineno for n in ast.walk(node) if hasattr(n, "lineno")}
    return len(lines)


@pytest.mark.parametrize("name", SHORT)
def test_short_examples_run(name, capsys, monkeypatch, tmp_path):
    path = EXAMPLES / f"{name}.py"
    if "import torch" in path.read_text():
        pytest.importorskip("torch")
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path / "model.joblib")])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    most, expected = SHORT[name]
    assert n_lines_of_code(path) <= most
    for part in expected:
        assert part in printed


def test_a_script_for_crfsuite_changes_by_two_lines():
    lines = (EXAMPLES / "from_crfsuite.py").read_text().splitlines()
    changed = [k for k, line in enumerate(lines) if line.startswith("# Instead of ")]
    assert len(changed) == 5
    # Training and prediction need two of them, the others are reports.
    assert sum(k < lines.index("y_pred = crf.predict(X_test)") for k in changed) == 2
