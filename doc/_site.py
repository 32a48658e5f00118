"""Computed content of the site: methods of a page, related objects, order of the examples, tables of the papers."""

import csv
import functools
import importlib
import inspect
import logging
import re
import tomllib
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from _chart import decision_chart

ROOT = Path(__file__).parent.parent
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
PACKAGE = "sklearn_sparsemap"

_NOT_CALLED_BY_USERS = {
    *("layout", "describe", "factor_of", "bounds", "resolve", "extra_repr", "products", "weight_products", "are_whole"),
    *("marginal_oracle", "check_parts", "oracle"),
}


def offline_mathjax():
    """Return the file that renders formulas without a network, if the package with it is installed."""
    try:
        return [str(file.locate()) for file in files("sphinx-mathjax-offline") or () if file.name == "tex-svg.js"]
    except PackageNotFoundError:
        return []


def pages_at_the_top():
    """Return the names of pages beside `index` without pages below them; their left sidebar would be empty."""
    folder = Path(__file__).parent
    entries = re.findall(r"<(\w+)>$", (folder / "index.rst").read_text(encoding="utf-8"), re.M)
    below = re.compile(r"^\.\. toctree::", re.M)
    alone = [name for name in entries if not below.search((folder / f"{name}.rst").read_text(encoding="utf-8"))]
    return ["index", "search", "genindex", *alone]


def _resolve(fullname):
    module, _, name = fullname.rpartition(".")
    return getattr(importlib.import_module(module), name)


def methods_of(fullname):
    """Return the methods that the page of a class shows: its own, and those of base classes in this package."""
    kind = _resolve(fullname)
    if not inspect.isclass(kind) or not hasattr(kind, "__mro__"):
        return []
    # The page of a second name, such as `AtMostOne`, only says which class it is.
    if kind.__name__ != fullname.rpartition(".")[2]:
        return []
    found = []
    for name in dir(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), None)
        if name.startswith("_") or name in _NOT_CALLED_BY_USERS or not owner.__module__.startswith(PACKAGE):
            continue
        # scikit-learn generates these for metadata routing, without a docstring of ours.
        if name.startswith("set_") and name.endswith("_request"):
            continue
        if callable(getattr(kind, name)) and inspect.isroutine(getattr(kind, name)):
            found.append(name)
    # The protocol of structures is on the page of `Structure`; users do not call it.
    return [] if any(base.__name__ == "Structure" for base in kind.__mro__[1:]) else found


_LONG = 800  # words; if the docstrings of a class's methods have more, each method gets a page of its own


def methods_apart(fullname):
    """Return whether the methods of a class have pages of their own, to which its page only links."""
    texts = [inspect.getdoc(getattr(_resolve(fullname), name)) or "" for name in methods_of(fullname)]
    return sum(len(text.split()) for text in texts) > _LONG


_S = PACKAGE + "."
# Each list is a set of related objects; the page of each links to the others.
RELATED = [
    ["sparsemap", "map_inference", "marginal_inference", "lp_sparsemap", "n_best"],
    ["inspection.feature_table", "inspection.transition_table", "inspection.explain", "inspection.Explanation"],
    ["inspection.label_table", "inspection.explain", "MultilabelLPSparseMAP"],
    ["inspection.feature_table", "plotting.FeatureTableDisplay"],
    ["inspection.transition_table", "plotting.TransitionsDisplay", "plotting.LabelConfusionDisplay"],
    ["inspection.explain", "plotting.ExplanationDisplay"],
    ["sparsemap", "inference.SparseMAPResult", "inference.SparseMAPBatch"],
    ["map_inference", "inference.MAPResult", "inference.MAPBatch"],
    ["marginal_inference", "inference.MarginalResult", "inference.MarginalBatch"],
    ["lp_sparsemap", "factors.FactorGraph", "inference.LPSparseMAPResult", "inference.LPSparseMAPBatch"],
    [f"structures.{name}" for name in ("Simplex", "LinearChain", "DependencyTree", "Matching", "Subset")],
    ["structures.LinearProgram", "structures.Path", "structures.CustomStructure", "structures.Subset"],
    ["structures.Hyperpath", "structures.Path", "structures.CustomStructure", "structures.Segmentation"],
    ["structures.Ranking", "structures.Matching", "structures.Subset", "plotting.RankingDisplay"],
    ["structures.SequenceBudget", "structures.LinearChain", "structures.Subset", "structures.Segmentation"],
    ["structures.Segmentation", "structures.LinearChain", "plotting.SegmentationDisplay"],
    ["structures.HeadAutomaton", "structures.DependencyTree", "factors.second_order_tree"],
    ["factors.second_order_tree", "factors.FactorGraph", "structures.HeadAutomaton", "features.SiblingVectorizer"],
    [f"features.{name}" for name in ("SiblingVectorizer", "SiblingTemplate", "sibling_templates", "ArcVectorizer")],
    [f"features.{name}" for name in ("GrandparentVectorizer", "GrandparentTemplate", "grandparent_templates")],
    ["structures.CustomStructure", "structures.Structure", "testing.check_structure"],
    ["factors.FactorGraph", "factors.StructureFactor", "factors.Pair", "plotting.FactorGraphDisplay"],
    ["factors.FactorGraph", "factors.PairTable", "factors.grid_graph", "StructuredSparseMAPClassifier"],
    [f"factors.{name}" for name in ("Xor", "AtMostOne", "Or", "Budget", "Knapsack")],
    [f"factors.{name}" for name in ("OrOut", "XorOut", "AndOut", "Imply")],
    [f"factors.{name}" for name in ("AtMost", "AtLeast", "Exactly", "Exclusive", "Implies", "Iff", "Label")],
    ["MultilabelLPSparseMAP", "factors.AtMost", "factors.Implies", "metrics.example_f1_score"],
    ["MultilabelLPSparseMAP", "plotting.LabelGraphDisplay", "datasets.load_multilabel_arff"],
    ["factors.Hierarchy", "plotting.HierarchyDisplay", "metrics.hierarchical_f1_score"],
    ["metrics.precision_at_k", "metrics.propensity_scored_precision_at_k", "metrics.example_f1_score"],
    ["StructuredSparseMAPClassifier", "GroupLassoPerceptron", "MultilabelLPSparseMAP"],
    ["StructuredSparseMAPClassifier", "losses.FenchelYoungLoss", "RaggedArray"],
    ["estimators.cross_val_marginals", "StructuredSparseMAPClassifier", "RaggedArray"],
    ["StructuredSparseMAPClassifier", "features.TemplateVectorizer", "features.ArcVectorizer"],
    ["GroupLassoPerceptron", "penalties.groups_from", "penalties.as_groups"],
    ["GroupLassoPerceptron", "perceptron_path", "stability_selection"],
    ["StructuredGroupLasso", "StructuredGroupLassoCV", "structured_group_lasso_path", "GroupLassoPerceptron"],
    ["perceptron_path", "estimators.GroupPath", "plotting.GroupPathDisplay"],
    ["structured_group_lasso_path", "plotting.CoefficientPathDisplay", "plotting.GroupPathDisplay"],
    ["plotting.LossCurveDisplay", "plotting.MemoryCurveDisplay", "StructuredSparseMAPClassifier"],
    ["stability_selection", "estimators.StabilitySelection"],
    ["GroupLassoPerceptron", "plotting.MemoryCurveDisplay", "features.InformationGainSelector"],
    ["penalties.GroupTree", "penalties.GroupOrder", "penalties.Groups", "plotting.GroupOrderDisplay"],
    ["penalties.groups_from", "penalties.groups_by_name", "penalties.as_groups", "GroupLassoPerceptron"],
    [f"penalties.{name}" for name in ("GroupLasso", "SparseGroupLasso", "L1", "ElasticNet", "Penalty")],
    [f"penalties.{name}" for name in ("as_groups", "as_group_weights", "Groups")],
    [
        f"features.{name}"
        for name in ("TemplateVectorizer", "Template", "ngrams", "chunking_templates", "ner_templates")
    ],
    [f"features.word_{name}" for name in ("shape", "case", "digits", "punctuation")],
    [f"features.{name}" for name in ("ArcVectorizer", "ArcTemplate", "dependency_templates", "arc_templates")],
    [f"features.{name}" for name in ("TokenDictVectorizer", "OnRows", "RowUnion", "TemplateVectorizer")],
    ["features.OutOfFoldScores", "features.OnRows", "features.RowUnion", "StructuredSparseMAPClassifier"],
    ["features.WordVectors", "features.WordClusters", "datasets.load_word_vectors", "features.RowUnion"],
    ["pipeline.StructuredPipeline", "pipeline.make_structured_pipeline", "StructuredSparseMAPClassifier"],
    ["features.TemplateVectorizer", "features.sentences_from_frame", "features.TokenDictVectorizer"],
    ["features.TemplateVectorizer", "datasets.load_conll", "metrics.span_f1_score"],
    ["features.ArcVectorizer", "datasets.load_conllu", "datasets.dump_conllu", "metrics.unlabeled_attachment_score"],
    ["metrics.labeled_attachment_score", "metrics.unlabeled_attachment_score", "structures.DependencyTree"],
    ["datasets.load_listops", "datasets.make_listops"],
    ["metrics.span_f1_score", "metrics.span_precision_recall_f1"],
    ["metrics.flat_accuracy_score", "metrics.sequence_accuracy_score", "metrics.parts_f1_score"],
    [f"plotting.{name}Display" for name in ("Tree", "Chain", "Matching", "Segmentation", "Parts")],
    ["datasets.ConlluSentence", "datasets.load_conllu", "datasets.dump_conllu"],
    ["plotting.ConvergenceDisplay", "inference.SparseMAPResult"],
    ["conformal.ConformalStructures", "plotting.ConformalCoverageDisplay", "n_best"],
    ["torch.sparsemap", "torch.SparseMAP", "torch.SelectedStructures", "jax.sparsemap"],
    ["torch.lp_sparsemap", "torch.LPSparseMAP", "jax.lp_sparsemap"],
    ["torch.map_inference", "jax.map_inference", "torch.sparsemap"],
    ["torch.FenchelYoungLoss", "losses.FenchelYoungLoss"],
    ["DecisionFocusedRegressor", "structures.Path", "structures.LinearProgram", "metrics.normalized_regret"],
    ["DecisionFocusedRegressor", "losses.SPOPlusLoss", "losses.PerturbedFenchelYoungLoss"],
    ["losses.SPOPlusLoss", "torch.SPOPlusLoss"],
    ["losses.PerturbedFenchelYoungLoss", "torch.PerturbedFenchelYoungLoss"],
]


def related_to(fullname):
    """Return the full names of the objects related to one, each once."""
    name = fullname.removeprefix(_S)
    found = {other: None for group in RELATED if name in group for other in group if other != name}
    return [_S + other for other in found]


def link_public_name(app, env, node, content):
    """Return the link of a name in single backticks that is given without its module, or None if it is not public."""
    if node["refdomain"] != "py" or node["reftype"] != "obj":
        return None
    domain, suffix = env.get_domain("py"), "." + node["reftarget"].lstrip(".~")
    kinds = ("class", "function", "method", "attribute", "property", "exception")
    # Sphinx also records objects under the private module that defines them.
    public = [name for name in domain.objects if name.endswith(suffix) and "._" not in name]
    found = [name for name in public if domain.objects[name].objtype in kinds]
    # The name of a method alone does not identify its class.
    found = [name for name in found if domain.objects[name].objtype in kinds[:2] or "." in suffix[1:]]
    # Layers have the names of the functions that they wrap; a short name means the function.
    found = [name for name in found if not name.startswith((_S + "torch.", _S + "jax."))] or found
    if len(found) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, content)


_LONGEST_WORD = 30  # characters of inline code that fit into a line of a phone, 390 pixels wide, in nested lists
_LONGEST_IN_TABLE = 18  # the same in a column of a table; larger: wider tables, which scroll


def fit_phones(app, doctree, docname):
    """Mark inline code with long words, which `site.css` breaks, and keep "-inf" in text in one line."""
    from docutils import nodes

    for code in doctree.findall(nodes.literal):
        parent = code.parent
        while not isinstance(parent, nodes.entry | nodes.document):
            parent = parent.parent
        longest = _LONGEST_IN_TABLE if isinstance(parent, nodes.entry) else _LONGEST_WORD
        if max(map(len, code.astext().split()), default=0) > longest:
            code["classes"].append("long")
    for text in list(doctree.findall(nodes.Text)):
        is_code = isinstance(text.parent, nodes.literal | nodes.math | nodes.FixedTextElement)
        if "-inf" in text and not is_code:
            text.parent.replace(text, nodes.Text(text.replace("-inf", "-\N{WORD JOINER}inf")))


def name_thumbnails(app, doctree, docname):
    """Give the thumbnails of examples, which the gallery leaves without a description, the titles of their pages."""
    from docutils import nodes

    pages = {Path(name).name: name for name in app.env.found_docs if name.startswith("auto_examples/")}
    for image in doctree.findall(nodes.image):
        name = re.fullmatch(r"sphx_glr_(\w+)_thumb\.png", Path(image["uri"]).name)
        if name and not image.get("alt") and name[1] in pages:
            image["alt"] = f"Example: {app.env.titles[pages[name[1]]].astext()}"


def _is_empty(ax):
    """Return whether axes show a frame with nothing in it."""
    drawn = ax.has_data() or ax.texts or ax.artists or ax.tables or ax.get_legend()
    return ax.axison and ax.get_visible() and not drawn


def warn_of_empty_axes(figure_class):
    """Make saved figures warn of empty axes: a gallery saves and closes a figure at the end of its block."""
    save = figure_class.savefig

    @functools.wraps(save)
    def save_and_warn(figure, file, *args, **kwargs):
        for number, ax in enumerate(figure.axes):
            if _is_empty(ax):
                # Sphinx counts warnings of loggers of this name.
                logging.getLogger("sphinx.pictures").warning("%s: axes %d are empty", Path(file).name, number)
        return save(figure, file, *args, **kwargs)

    figure_class.savefig = save_and_warn


THUMBNAIL = 400, 280  # pixels, twice the size on the page
CUT = 1000  # pixels; the largest width of the part of a picture that a thumbnail shows; larger: smaller text


def cut_thumbnails(app):
    """Cut thumbnails out of the upper left of large pictures: the text of a whole one would be too small to read."""
    from PIL import Image

    wide, high = THUMBNAIL
    for thumbnail in Path(app.srcdir, "auto_examples").rglob("*_thumb.png"):
        drawn = thumbnail.parents[1] / thumbnail.name.replace("_thumb", "_001_2_00x")
        if not drawn.is_file():
            continue
        with Image.open(drawn) as picture:
            picture = picture.convert("RGB")
        width = min(picture.width, picture.height * wide // high, CUT)
        picture = picture.crop((0, 0, width, min(picture.height, width * high // wide)))
        picture.thumbnail(THUMBNAIL, Image.Resampling.LANCZOS)
        page = Image.new("RGB", THUMBNAIL, "white")
        page.paste(picture, ((wide - picture.width) // 2, (high - picture.height) // 2))
        page.save(thumbnail)


def show_thumbnail(app, docname, source):
    """Show the thumbnail of an example beside its introduction, because its picture is at the end of the page."""
    folder, _, name = docname.rpartition("/")
    thumbnail = f"/{folder}/images/thumb/sphx_glr_{name}_thumb.png"
    if docname.startswith("auto_examples/") and name.startswith("plot_"):
        image = f".. image:: {thumbnail}\n   :class: preview\n   :alt: A part of the picture at the end\n\n"
        source[0] = re.sub(r"^.+\n=+\n\n", lambda title: title[0] + image, source[0], count=1, flags=re.M)


def lay_out(app, docname, source):
    """Add the directives that sources leave out, so that they can be read as plain text on hosts of code.

    Entries of the index, at the end of a source, go below the title. On pages with pictures, code outside of the
    directive `plot` runs in the same namespace as the code in it.
    """
    text = source[0]
    entries = "".join(re.findall(r"^\.\. index::.*\n", text, re.M))
    if entries and docname != "index":
        text = re.sub(r"^\.\. index::.*\n", "", text, flags=re.M)
        text = re.sub(r"^.+\n=+\n\n", lambda title: f"{title[0]}{entries}\n", text, count=1, flags=re.M)
    if re.search(r"^\.\. plot::\n   :context:", text, re.M):
        text = re.sub(r"^>>> (?:.+\n)+", _in_namespace, text, flags=re.M)
        # Each page begins with an empty namespace.
        text = re.sub(r"^(\.\. plot::\n   :context:).*$", r"\1 reset", text, count=1, flags=re.M)
    source[0] = text


def _in_namespace(block):
    if "+SKIP" in block[0]:
        return block[0]
    code = re.sub("^(?=.)", "   ", block[0], flags=re.M)
    return f".. plot::\n   :context: close-figs\n   :nofigs:\n\n{code}"


SECTIONS = ["../examples/learning", "../examples/label_sets", "../examples/inference", "../examples/factor_graphs",
            "../examples/groups", "../examples/scripts", "../examples/networks", "*"]  # fmt: skip
# The order within a section: the easiest first.
EXAMPLES = [
    *("plot_quickstart.py", "plot_parses.py", "plot_jigsaw.py", "plot_segments.py", "plot_recording.py"),
    *("plot_sensor_trees.py", "plot_letters_network.py", "plot_forest_rules.py", "plot_ranking.py"),
    *("plot_predict_then_optimise.py", "plot_restored_picture.py", "plot_conformal_words.py", "plot_dag_orderings.py"),
    *("plot_multilabel.py", "plot_digit_attributes.py"),
    *("plot_alignment.py", "plot_solvers.py"),
    *("plot_schedule.py", "plot_sudoku.py", "plot_valency.py", "plot_sequence_alignment.py", "plot_matching_graph.py"),
    *("plot_sensor_groups.py", "plot_template_selection.py", "plot_coarse_to_fine.py", "plot_budget_search.py"),
    *("plot_lstm_tagger.py", "plot_alignment_layer.py", "plot_rationales.py", "plot_listops.py"),
    *("plot_hopfield.py", "plot_bit_vae.py"),
    *("dataframe_tagger.py", "from_crfsuite.py", "parser.py", "embeddings_and_templates.py", "column_groups.py"),
    *("attention.py", "soft_rules.py", "knapsack.py"),
]


def example_order(name):
    """Return the key by which the examples of a section are sorted."""
    return EXAMPLES.index(name) if name in EXAMPLES else len(EXAMPLES), name


# Each row: paper, number, item, where, command, published, ours, status, why.
PAPERS = Path(__file__).parent / "papers.csv"
STATUSES = ("as published", "published model", "other data", "other model", "not reproduced", "contradicted")


def read_papers():
    """Return the items of the papers, in their order: list of dicts."""
    with open(PAPERS, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _plain(text):
    """Return a text without markup."""
    return re.sub(r"([\\*_|`])", r"\\\1", text)


def _place(where):
    """Return a link to a public name or a page."""
    return f":py:obj:`~{where}`" if where.startswith(_S) else f":doc:`/{where}`"


def _command(command):
    """Return a command as code, or a link to its example."""
    example = re.fullmatch(r"python examples/(.*plot_\w+)\.py", command)
    if example:
        return f":doc:`/auto_examples/{example[1]}`"
    return f"``{command}``" if command else ""


def paper_table(paper):
    """Return the table of a paper's items, as lines of reStructuredText."""
    head = ["", "item", "in the library", "reproduced by", "the paper", "here", "status"]
    rows = [head]
    for row in read_papers():
        if row["paper"] == paper:
            status = f"**{row['status']}**. {_plain(row['why'])}"
            cells = [row["number"], _plain(row["item"]), _place(row["where"]), _command(row["command"])]
            rows.append([*cells, _plain(row["published"]), _plain(row["ours"]), status])
    lines = [".. list-table::", "   :class: papers", "   :header-rows: 1", ""]
    for row in rows:
        for place, cell in enumerate(row):
            lines.append(f"   {'* -' if place == 0 else '  -'} {cell}".rstrip())
    return lines


# Networks of the papers that scripts of `benchmarks` build in PyTorch, by script.
NETWORKS = {
    "published_parsing.py": "BiLSTM parser",
    "nli.py": "attention between two sentences: decomposable, ESIM, and a small one",
    "listops.py": "tagger with a latent tree",
}


def paper_networks():
    """Return the items whose model is a network of a paper, by network, as lines of reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - network", "     - script", "     - items"]
    for script, network in NETWORKS.items():
        used = [row["number"] for row in read_papers() if f"benchmarks/{script}" in row["command"]]
        lines += [f"   * - {network}", f"     - ``benchmarks/{script}``", f"     - {', '.join(used)}"]
    return lines


def papers_not_reproduced():
    """Return the items that are not reproduced, with their reasons, as lines of reStructuredText."""
    rows = [row for row in read_papers() if row["status"] == "not reproduced"]
    return [f"- {row['number']}, {_plain(row['item'])}. {_plain(row['why'])}" for row in rows]


def api_lists():
    """Return the objects of all pages of `api`, in the order of its table, as lines of reStructuredText."""
    folder = Path(__file__).parent
    lines = []
    for page in re.findall(r"^:doc:`api/(\w+)`", (folder / "api.rst").read_text(encoding="utf-8"), re.M):
        text = (folder / "api" / f"{page}.rst").read_text(encoding="utf-8")
        title = text.split("\n", 1)[0]
        lines += [f":doc:`{title} <api/{page}>`", "-" * (len(title) + len(page) + 14), "", ".. autosummary::", ""]
        lines += [*re.findall(r"^   ~[\w.]+$", text, re.M), ""]
    return lines


def fill_tables(app, docname, source):
    """Put computed content into the pages that ask for it.

    They ask by ``.. paper-table:: PAPER``, ``.. paper-networks::``, ``.. papers-not-reproduced::``,
    ``.. decision-chart::`` and ``.. api-lists::``.
    """
    if docname == "api":
        source[0] = source[0].replace(".. api-lists::", "\n".join(api_lists()))
    if docname == "choose":
        chart = ".. raw:: html\n\n   " + decision_chart()
        source[0] = source[0].replace(".. decision-chart::", chart)
    if docname == "papers":
        asked = re.compile(r"^\.\. paper-table:: (.+)$", re.M)
        source[0] = asked.sub(lambda found: "\n".join(paper_table(found[1])), source[0])
        source[0] = source[0].replace(".. paper-networks::", "\n".join(paper_networks()))
        source[0] = source[0].replace(".. papers-not-reproduced::", "\n".join(papers_not_reproduced()))
