"""Other regularisers of the structured-sparsity paper: rows of its tables 1 and 2, and footnote 10.

    python benchmarks/regularizers.py l2 --data DIR
    python benchmarks/regularizers.py lasso --data DIR
    python benchmarks/regularizers.py features --data DIR
    python benchmarks/regularizers.py sparse --data DIR
    python benchmarks/regularizers.py memory --data DIR

`l2`: chunking with all templates; the squared penalty is chosen by cross-validation on the training sentences. `lasso`:
Spanish entities by the lasso, with the published numbers of weights; by the online learner with debiasing, as in the
paper. `features`: chunking with groups of one feature and all its labels, compared with groups of templates, at equal
numbers of weights. `sparse`: the sparse group lasso compared with the group lasso on chunking, both to their minimum,
with weights learned again without the penalty; prints the numbers of weights and F1 along the strengths. `memory`: the
number of weights along the training of chunking with a budget of 10 templates, compared with all of them (figure 2).

DIR holds conll2000/train.txt.gz and test.txt.gz, conll2002/esp.train.gz, esp.testa.gz and esp.testb.gz. Span F1 is that
of conlleval.
"""

import argparse
import warnings
from pathlib import Path
from time import process_time

import numpy as np
import results
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import GroupLassoPerceptron, StructuredGroupLasso, StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.features import TemplateVectorizer, chunking_templates, ner_templates
from sklearn_sparsemap.metrics import span_f1_score, span_f1_scorer

ROOT = Path(__file__).resolve().parents[1]
SHRINK_EVERY = 1000  # samples between two shrinkages, as in the paper
# Table 2, Spanish: number of weights, F1 on the development and on the test part.
LASSO = [(68_565, 69.19, 71.9), (1_017_769, 70.75, 72.38), (1_555_683, 71.7, 74.03)]
ALPHAS = np.geomspace(1e-5, 1e-1, 5)  # strengths of the squared penalty
SIZES = [71_075, 158_844, 389_065]  # weights of the smallest models in table 1
STRENGTHS = np.geomspace(1.0, 1e-2, 7)  # of the sparse group lasso, in the unit of a sentence's loss


def load(args, name):
    """Return sentences and labels of a file."""
    X, y = load_conll(args.data / name, columns=("word", "pos", "label"))
    return X[: args.limit], y[: args.limit]


def load_features(args, templates, train, *tests):
    """Return the features and labels of each file; n-grams that occur less than `min_count` times are left out."""
    sentences, labels = load(args, train)
    vectorizer = TemplateVectorizer(templates, dtype="float32", min_count=args.min_count)
    X = vectorizer.fit_transform(sentences)
    print(f"{len(labels)} sentences, {X.values.shape[1]:,} columns of {len(vectorizer.template_names_)} templates")
    held = [load(args, name) for name in tests]
    return (X, labels), *((vectorizer.transform(sentences), y) for sentences, y in held)


def f1_of(model, parts, data, what):
    """Return span F1 of each part as text; record that of the last part."""
    scores = [100 * span_f1_score(y, model.predict(X)) for X, y in parts]
    results.record("other regularisers", data, f"span F1, {what}", scores[-1], "%")
    return "".join(f"{score:9.2f}" for score in scores)


def run_l2(args):
    """Choose the squared penalty by cross-validation."""
    (X, y), test = load_features(args, chunking_templates(), "conll2000/train.txt.gz", "conll2000/test.txt.gz")
    model = StructuredSparseMAPClassifier("chain", random_state=args.seeds[0])
    started = process_time()
    search = GridSearchCV(model, {"alpha": ALPHAS}, scoring=span_f1_scorer, cv=3).fit(X, y)
    for alpha, score in zip(ALPHAS, search.cv_results_["mean_test_score"]):
        print(f"alpha {alpha:.0e}: {100 * score:.2f} by cross-validation")
    n_weights = np.count_nonzero(search.best_estimator_.coef_)
    f1 = f1_of(search.best_estimator_, [test], "CoNLL-2000", "squared penalty by cross-validation")
    print(f"test{f1}, {n_weights:,} weights, {process_time() - started:.0f} s")


def run_budgets(args, parts, groups, sizes, data):
    """Print F1 of the online learner for each number of weights and seed."""
    (X, y), *held = parts
    for size in sizes:
        for seed in args.seeds:
            started = process_time()
            model = GroupLassoPerceptron(
                "chain",
                groups=groups,
                budget=size,
                budget_unit="weights",
                shrink_every=SHRINK_EVERY,
                fit_intercept=False,
                random_state=seed,
            ).fit(X, y)
            seconds = process_time() - started
            kind = groups or "features"
            f1 = f1_of(model, held, data, f"groups are {kind}, at most {size:,} weights, seed {seed}")
            print(f"{kind:10}{size:12,}{seed:4}{model.n_nonzero_coefs_:12,}{f1}{seconds:7.0f} s", flush=True)


def run_lasso(args):
    """Give each weight a group of its own: one feature with one label."""
    files = ("esp.train.gz", "esp.testa.gz", "esp.testb.gz")
    (X, y), *held = load_features(args, ner_templates(), *(f"conll2002/{name}" for name in files))
    print("published: " + ", ".join(f"{size:,}: {dev} / {test}" for size, dev, test in LASSO))
    run_budgets(args, [(X, y), *held], None, [size for size, *_ in LASSO], "CoNLL-2002 Spanish")


def run_features(args):
    """Compare groups of one feature with groups of templates."""
    parts = load_features(args, chunking_templates(), "conll2000/train.txt.gz", "conll2000/test.txt.gz")
    for groups in ("templates", None):
        run_budgets(args, parts, groups, SIZES, "CoNLL-2000")


def run_sparse(args):
    """Fit group lasso and sparse group lasso along strengths."""
    (X, y), test = load_features(args, chunking_templates(), "conll2000/train.txt.gz", "conll2000/test.txt.gz")
    print(f"{'l1_ratio':>9}{'alpha':>9}{'groups':>8}{'weights':>10}{'F1':>9}{'gap':>9}{'CPU':>8}")
    for l1_ratio in (0.0, 0.5, 0.9):
        model = StructuredGroupLasso(
            "chain", groups="templates", loss="crf", l1_ratio=l1_ratio, tol=args.tol, max_iter=1000, debias=True,
        )  # fmt: skip
        for alpha in STRENGTHS:
            started = process_time()
            model.set_params(alpha=alpha).fit(X, y)
            f1 = f1_of(model, [test], f"CoNLL-2000, {len(y):,} sentences", f"l1_ratio {l1_ratio}, alpha {alpha:.3f}")
            print(
                f"{l1_ratio:9}{alpha:9.3f}{len(model.selected_groups_):8}{model.n_nonzero_coefs_:10,}{f1}"
                f"{model.dual_gap_:9.1e}{process_time() - started:8.1f}",
                flush=True,
            )


def run_memory(args):
    """Print the number of weights by the samples visited, before and after each shrinkage."""
    ((X, y),) = load_features(args, chunking_templates(), "conll2000/train.txt.gz")
    options = {"fit_intercept": False, "random_state": args.seeds[0]}
    full = StructuredSparseMAPClassifier("chain", loss="hinge", solver="mira", max_iter=10, **options).fit(X, y)
    n_full = np.count_nonzero(full.coef_)
    model = GroupLassoPerceptron("chain", groups="templates", budget=10, shrink_every=SHRINK_EVERY, **options).fit(X, y)
    n_peak = int(model.memory_curve_.max())
    for step, count in zip(model.memory_steps_, model.memory_curve_):
        print(f"{step:8,} samples{count:12,} weights{8 * count / 2**20:8.1f} MiB", flush=True)
    print(f"MIRA {n_full:,} weights; peak {n_peak:,}, {100 * n_peak / n_full:.1f} %; end {model.n_nonzero_coefs_:,}")
    results.record("memory of training", "CoNLL-2000", "largest number of weights, budget of 10 templates", n_peak,
                   "weights", "MIRA with all templates", n_full)  # fmt: skip


RUNS = {"memory": run_memory, "l2": run_l2, "lasso": run_lasso, "features": run_features, "sparse": run_sparse}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("item", choices=list(RUNS))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="has conll2000/, conll2002/")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="orders of the samples")
    parser.add_argument("--limit", type=int, help="use only so many sentences of each part")
    parser.add_argument("--min-count", type=int, default=2, help="rarer n-grams are left out")
    parser.add_argument("--tol", type=float, default=0.03, help="gap of `sparse`, in the unit of a sentence's loss")
    args = results.parse(parser)
    # Numbers of epochs are fixed, as in the paper.
    warnings.simplefilter("ignore", ConvergenceWarning)
    RUNS[args.item](args)


if __name__ == "__main__":
    main()
