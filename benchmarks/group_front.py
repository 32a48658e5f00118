"""F1 against the number of weights, for chunking.py and ner.py: by budgets of groups, and of weights."""

import warnings
from itertools import product
from time import perf_counter

import numpy as np
import results
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from token_dicts import word2features

from sklearn_sparsemap import GroupLassoPerceptron, StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.features import RowUnion, Template, TemplateVectorizer, TokenDictVectorizer, ngrams
from sklearn_sparsemap.metrics import span_f1_score
from sklearn_sparsemap.penalties import GroupOrder

# samples between two shrinkages, those of the paper, to which the fronts are compared
SHRINK_EVERY = 1000


def weights_of(name, sizes):
    """Return group weights by name; ``log2^p`` is a power of the paper's."""
    return np.log2(sizes) ** float(name.partition("^")[2]) if "^" in name else name


def load_part(args, folder, name):
    """Return sentences and labels of a file."""
    X, y = load_conll(args.data / folder / name, columns=("word", "pos", "label"))
    return X[: args.limit], y[: args.limit]


def print_front(args, folder, templates, train, tests, paper, grid):
    """Print a row for each choice of group weights and budget, and the paper's points.

    Parameters
    ----------
    args : namespace
        With `data`, `seeds`, `limit` and `order`: whether groups are those of the order from coarse to fine.
    folder, train : str
    tests : dict of str -> str
        Files to score on, by name.
    templates : list of templates
    paper : list of (budget, number of weights, F1 on the last of the tests)
    grid : list of (group weights, budgets)
    """
    # The number of epochs is fixed, as in the paper.
    warnings.simplefilter("ignore", ConvergenceWarning)

    sentences, labels = load_part(args, folder, train)
    vectorizer = TemplateVectorizer(templates, dtype="float32", n_jobs=2)
    start = perf_counter()
    X = vectorizer.fit_transform(sentences)
    held_out = {name: load_part(args, folder, file) for name, file in tests.items()}
    held_out = {name: (vectorizer.transform(samples), y) for name, (samples, y) in held_out.items()}
    n_templates, sizes = len(vectorizer.template_names_), np.bincount(X.groups)
    print(f"{X.values.shape[1]} columns of {n_templates} templates, {len(X.values.indices)} entries; ", end="")
    print(f"features in {perf_counter() - start:.1f} s\n")
    print(f"{'':28}{'weights':>11}{'peak':>11}" + "".join(f"{name:>9}" for name in tests) + f"{'fit':>9}")

    def report(row, model, n_weights, peak, seconds):
        f1 = [100 * span_f1_score(y, model.predict(part)) for part, y in held_out.values()]
        print(f"{row:28}{n_weights:11,}{peak:11,}" + "".join(f"{f:9.2f}" for f in f1) + f"{seconds:7.1f} s", flush=True)
        return n_weights, f1[-1]

    groups = GroupOrder.from_templates(vectorizer.template_names_) if args.order else "templates"
    start = perf_counter()
    full = StructuredSparseMAPClassifier(
        "chain", loss="hinge", solver="mira", max_iter=15, tol=0.0, random_state=args.seeds[0]
    ).fit(X, labels)
    # Sparse, where the model is large.
    n_full = int(getattr(full.coef_, "nnz", None) or np.count_nonzero(full.coef_))
    report("all templates, MIRA", full, n_full, n_full, perf_counter() - start)
    points = []
    for name, budgets in grid:
        for budget, seed in product(budgets, args.seeds):
            model = GroupLassoPerceptron(
                "chain",
                groups=groups,
                group_weights=weights_of(name, sizes),
                budget=budget,
                shrink_every=SHRINK_EVERY,
                fit_intercept=False,
                random_state=seed,
            )
            start = perf_counter()
            model.fit(X, labels)
            seconds = perf_counter() - start
            peak = int(model.memory_curve_.max())
            points.append(report(f"{name}, budget {budget}, seed {seed}", model, model.n_nonzero_coefs_, peak, seconds))
    print("\nthe paper's points, and the best of ours with no more weights:")
    for budget, n_weights, f1 in paper:
        ours = max((own for n, own in points if n <= n_weights), default=float("nan"))
        if points:
            results.record("templates by group lasso", folder, f"span F1, at most {n_weights:,} weights", ours, "%",
                           "Martins et al. 2011", f1, len(args.seeds), elsewhere=True)  # fmt: skip
        print(f"  {'MIRA, all' if budget is None else f'budget {budget}':14}{n_weights:10,} {f1:7.2f} {ours:7.2f}")


def large(templates):
    """Return templates with others: forms in lower case, longer affixes, and pairs of fields at neighbouring words.

    Those of named entities, 324, become 452, as many as the paper has (which does not name all of its own).
    """
    found = list(templates)
    for field in ("lower", "prefix4", "suffix4"):
        found += ngrams(field, (1, 3), 3)
    pairs = "word pos", "word shape", "lower case", "lower pos", "pos shape"
    for one, other in map(str.split, (*pairs, "pos suffix3", "pos prefix3", "shape suffix3")):
        found += [Template.parse(f"{one}[{i}]|{other}[{j}]") for i, j in product((-1, 0, 1), repeat=2)]
    return [*found, *(Template.parse(f"{field}[-1]|{field}[1]") for field in ("word", "pos"))]


def dicts_of(sentences):
    """Return the handmade features of sklearn-crfsuite's tutorial, all of them indicators."""
    return [
        [{name: str(value) for name, value in word2features(words, i).items()} for i in range(len(words))]
        for words in sentences
    ]


class Sizes:
    """Features of some parts of data, the first of which is learned from."""

    def __init__(self, args, parts, templates):
        start = perf_counter()
        options = {"min_count": args.min_count, "dtype": "float32"}
        handmade = make_pipeline(FunctionTransformer(dicts_of), TokenDictVectorizer(**options))
        union = RowUnion([("templates", TemplateVectorizer(templates, **options)), ("handmade", handmade)])
        self.X, self.y = union.fit_transform(parts[0][0]), parts[0][1]
        self.held = [(union.transform(X), y) for X, y in parts[1:]]
        self.sizes = np.bincount(self.X.groups)
        print(
            f"{len(self.y)} sentences, {self.X.values.shape[1]} columns of {len(self.sizes)} groups, of which "
            f"{len(templates)} are templates, {len(self.X.values.indices)} entries; features in "
            f"{perf_counter() - start:.1f} s"
        )
        print(f"{'':34}{'weights':>11}{'groups':>8}{'peak':>11}{'span F1 on the others':>24}", flush=True)

    def learn(self, size, weights, seed):
        """Learn a model of at most so many weights, and print its row; return the scores."""
        start = perf_counter()
        model = GroupLassoPerceptron(
            "chain",
            groups="templates",
            group_weights=weights_of(weights, self.sizes),
            budget=size,
            budget_unit="weights",
            shrink_every=SHRINK_EVERY,
            fit_intercept=False,
            random_state=seed,
        ).fit(self.X, self.y)
        seconds = perf_counter() - start
        f1 = [100 * span_f1_score(y, model.predict(X)) for X, y in self.held]
        print(
            f"{f'{size:,}, {weights}, seed {seed}':34}{model.n_nonzero_coefs_:11,}{len(model.selected_groups_):8}"
            f"{int(model.memory_curve_.max()):11,}" + "".join(f"{f:9.2f}" for f in f1) + f"{seconds:9.1f} s",
            flush=True,
        )
        return f1

    def choose(self, args, size):
        """Return the group weights that are best on the second part with the first seed; print all scores."""
        found = {weights: [self.learn(size, weights, args.seeds[0])] for weights in args.weights}
        best = max(found, key=lambda weights: found[weights][0][0])
        found[best] += [self.learn(size, best, seed) for seed in args.seeds[1:]]
        rows = np.array(found[best])
        mean, low, high = rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0)
        scores = ", ".join(f"{m:.2f} ({a:.2f} to {b:.2f})" for m, a, b in zip(mean, low, high))
        results.record("templates by group lasso", f"{len(self.y):,} sentences, {len(self.sizes)} groups",
                       f"span F1, at most {size:,} weights", mean[-1], "%", seeds=len(rows))  # fmt: skip
        print(f"at most {size:,} weights: {best}, {scores}\n", flush=True)
        return best


def print_sizes(args, folder, templates, train, dev, test):
    """Print a row for each number of weights and choice of group weights, and the choice by the score on `dev`.

    Handmade features are further groups, one for each attribute.

    Parameters
    ----------
    args : namespace
        With `data`, `seeds`, `limit`, `sizes`, `weights` and `min_count`.
    folder, train, test : str
    templates : list of templates
    dev : str or None
        The file to choose on. None: the last tenth of the training sentences; the choice is then refitted on all.
    """
    warnings.simplefilter("ignore", ConvergenceWarning)
    (X, y), held = load_part(args, folder, train), load_part(args, folder, test)
    if dev is not None:
        bench = Sizes(args, [(X, y), load_part(args, folder, dev), held], templates)
        for size in args.sizes:
            bench.choose(args, size)
        return
    n = len(X) - len(X) // 10
    bench = Sizes(args, [(X[:n], y[:n]), (X[n:], y[n:])], templates)
    choice = {size: bench.choose(args, size) for size in args.sizes}
    print("the choice, learned from all training sentences")
    bench = Sizes(args, [(X, y), held], templates)
    for size, weights in choice.items():
        for seed in args.seeds:
            bench.learn(size, weights, seed)
