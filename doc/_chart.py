"""The decision chart: an SVG drawing whose boxes are links, from the target to the estimator and its structure."""

from html import escape

WIDTH, LEFT, RIGHT = 960, 300, 350  # units of the drawing: its width, width of the questions, left edge of the answers
ROW, BOX = 76, 46  # units: distance of two questions, height of a box

# Each row: question, what leads to the answers, the answers (text, page).
_S = "generated/sklearn_sparsemap."
QUESTIONS = [
    (
        "Do you have targets to learn from?",
        "no",
        [
            ("sparsemap", _S + "sparsemap"),
            ("map_inference", _S + "map_inference"),
            ("lp_sparsemap", _S + "lp_sparsemap"),
        ],
    ),
    ("Is your model a neural network?", "yes", [("layers and losses for PyTorch and JAX", "layers")]),
    ("Is the target a set of labels?", "yes", [("MultilabelLPSparseMAP", _S + "MultilabelLPSparseMAP")]),
    (
        "Do predictions feed an optimisation?",
        "yes",
        [("DecisionFocusedRegressor", _S + "DecisionFocusedRegressor")],
    ),
    (
        "Do you want few groups of features?",
        "yes",
        [
            ("streams: GroupLassoPerceptron", _S + "GroupLassoPerceptron"),
            ("optimum: StructuredGroupLasso", _S + "StructuredGroupLasso"),
        ],
    ),
    (
        "Otherwise",
        "",
        [("StructuredSparseMAPClassifier", _S + "StructuredSparseMAPClassifier")],
    ),
]
# Each entry: what a target is, the structure.
STRUCTURES = [
    ("one label", "structures.Simplex"),
    ("a label for each step", "structures.LinearChain"),
    ("… few steps in one state", "structures.SequenceBudget"),
    ("labelled spans", "structures.Segmentation"),
    ("the head of each word", "structures.DependencyTree"),
    ("a partner for each row", "structures.Matching"),
    ("two sequences, aligned", "structures.Alignment"),
    ("an order of items", "structures.Ranking"),
    ("some of n items", "structures.Subset"),
    ("a path in a graph", "structures.Path"),
    ("a derivation of a grammar", "structures.Hyperpath"),
    ("a 0-1 program", "structures.LinearProgram"),
    ("variables under rules", "factors.FactorGraph"),
    ("anything else", "structures.CustomStructure"),
]


def _text(x, y, words, kind="", anchor="middle"):
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _box(x, y, width, height, kind):
    return f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height}" rx="6" class="{kind}"/>'


def _link(page, shapes):
    return f'<a href="{page}.html">{"".join(shapes)}</a>'


def _arrow(x1, y1, x2, y2):
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#chart-arrow)"/>'


def _questions():
    for place, (question, condition, answers) in enumerate(QUESTIONS):
        top = 8 + place * ROW
        middle = top + BOX / 2
        yield _box(8, top, LEFT, BOX, "ask")
        yield _text(8 + LEFT / 2, middle + 5, question)
        yield _arrow(8 + LEFT, middle, RIGHT - 2, middle)
        yield _text((8 + LEFT + RIGHT) / 2 - 3, middle - 5, condition, "note")
        if place < len(QUESTIONS) - 1:
            yield _arrow(8 + LEFT / 2, top + BOX, 8 + LEFT / 2, top + ROW - 2)
            other = "yes" if condition == "no" else "no"
            yield _text(18 + LEFT / 2, top + BOX + 20, other, "note", "start")
        width = (WIDTH - 8 - RIGHT - 10 * (len(answers) - 1)) / len(answers)
        for column, (words, page) in enumerate(answers):
            x = RIGHT + column * (width + 10)
            yield _link(page, [_box(x, top, width, BOX, "answer"), _text(x + width / 2, middle + 5, words)])


def _structures(top):
    yield _text(8, top, "The target of StructuredSparseMAPClassifier, and the structure for it", "note", "start")
    n_columns = 4
    width = (WIDTH - 16 - 10 * (n_columns - 1)) / n_columns
    for place, (target, name) in enumerate(STRUCTURES):
        row, column = divmod(place, n_columns)
        x, y = 8 + column * (width + 10), top + 12 + row * 64
        shapes = [
            _box(x, y, width, 54, "answer"),
            _text(x + width / 2, y + 22, target, "note"),
            _text(x + width / 2, y + 42, name.rpartition(".")[2]),
        ]
        yield _link(_S + name, shapes)


def decision_chart():
    """Return the chart as SVG; its links start from the root of the site."""
    top = 8 + len(QUESTIONS) * ROW + 12
    height = top + 12 + 64 * -(-len(STRUCTURES) // 4)
    arrow = '<marker id="chart-arrow" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    arrow += '<path d="M0,0 L8,4 L0,8 z"/></marker>'
    shapes = "".join([*_questions(), *_structures(top)])
    label = "From the target to the estimator, and to its structure"
    return (
        f'<div class="chart"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"<defs>{arrow}</defs>{shapes}</svg></div>"
    )
