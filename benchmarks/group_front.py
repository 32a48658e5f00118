"""The front of F1 against the number of weights, for chunking.py and ner.py."""

import warnings
from itertools import product
from time import perf_counter

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import GroupLassoPerceptron, StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.metrics import span_f1_score


def weights_of(name, sizes):
    """Return group weights by name; ``log2^p`` is a power of the paper's."""
    return np.log2(sizes) ** float(name.partition("^")[2]) if "^" in name else name


def print_front(args, folder, templates, train, tests, paper, grid):
    """Print a row for each choice of group weights and budget, and what the paper has.

    Parameters
    ----------
    args : namespace
        With `data`, `seeds` and `limit`.
    folder, train : str
    tests : dict of str -> str
        Files to score on, by name.
    templates : list of templates
    paper : list of (budget, number of weights, F1 on the last of the tests)
    grid : list of (group weights, budgets)
    """
    # The number of epochs is fixed, as in the paper.
    warnings.simplefilter("ignore", ConvergenceWarning)

    def load(name):
        X, y = load_conll(args.data / folder / name, columns=("word", "pos", "label"))
        return X[: args.limit], y[: args.limit]

    sentences, labels = load(train)
    vectorizer = TemplateVectorizer(templates, dtype="float32", n_jobs=2)
    start = perf_counter()
    X = vectorizer.fit_transform(sentences)
    held_out = {name: load(file) for name, file in tests.items()}
    held_out = {name: (vectorizer.transform(samples), y) for name, (samples, y) in held_out.items()}
    n_templates, sizes = len(vectorizer.template_names_), np.bincount(X.groups)
    print(f"{X.values.shape[1]} columns of {n_templates} templates, {len(X.values.indices)} entries; ", end="")
    print(f"features in {perf_counter() - start:.1f} s\n")
    print(f"{'':28}{'weights':>11}{'peak':>11}" + "".join(f"{name:>9}" for name in tests) + f"{'fit':>9}")

    def report(row, model, n_weights, peak, seconds):
        f1 = [100 * span_f1_score(y, model.predict(part)) for part, y in held_out.values()]
        print(f"{row:28}{n_weights:11,}{peak:11,}" + "".join(f"{f:9.2f}" for f in f1) + f"{seconds:7.1f} s", flush=True)
        return n_weights, f1[-1]

    start = perf_counter()
    full = StructuredSparseMAPClassifier(
        "chain", loss="hinge", solver="mira", max_iter=15, tol=0.0, random_state=args.seeds[0]
    ).fit(X, labels)
    n_full = int(np.count_nonzero(full.coef_))
    report("all templates, MIRA", full, n_full, n_full, perf_counter() - start)
    points = []
    for name, budgets in grid:
        for budget, seed in product(budgets, args.seeds):
            model = GroupLassoPerceptron(
                "chain",
                groups="templates",
                group_weights=weights_of(name, sizes),
                budget=budget,
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
        print(f"  {'MIRA, all' if budget is None else f'budget {budget}':14}{n_weights:10,} {f1:7.2f} {ours:7.2f}")
