"""Templates for dependency parsing, chosen from some 600 by the group lasso, a filter by information gain, or
the lasso (Martins et al. 2011, figure 3 and table 3).

    python benchmarks/template_selection.py --data DIR --languages English

Models are compared at equal numbers of weights, as fractions of those of the full model. The group lasso chooses
templates with such a budget, flat and from coarse to fine (`GroupOrder`); so does the lasso, whose groups are single
features. The filter takes the best templates until they have as many columns, or more. All learn the
weights of what they have chosen by ten epochs of 1-best MIRA, and so does the full model. Columns are the n-grams at
the arcs of the training trees. The best models are chosen on the development part (Spanish, which has none: a tenth of
the training part). Prints a row for each model; and after each method the scores by size, and which kinds of templates
were chosen.
"""

import argparse
import resource
import warnings
from collections import Counter
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import results
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import GroupLassoPerceptron, RaggedArray, StructuredSparseMAPClassifier, perceptron_path
from sklearn_sparsemap.datasets import load_conllu
from sklearn_sparsemap.features import ArcVectorizer, InformationGainSelector, arc_templates
from sklearn_sparsemap.penalties import GroupOrder

ROOT = Path(__file__).resolve().parents[1]
UD = ("train.conllu.gz", "dev.conllu.gz", "test.conllu.gz")
# The folder, its files (train, dev or None, test), and the fields with forms of words, from coarse to fine: Chinese has
# no lemmas, and its last characters take their place.
LANGUAGES = {
    "English": ("ud/en_ewt-r2.0", UD, ("shape", "lemma", "word")),
    "Spanish": ("conllx_es", ("esp.train.gz", None, "esp.test.gz"), ("shape", "lemma", "word")),
    "Turkish": ("ud/tr_imst-r2.0", UD, ("shape", "lemma", "word")),
    "Chinese": ("ud/zh_gsd-r1.4", UD, ("prefix1", "suffix1", "word")),
}
TAGS = ("pos", "xpos")
# The templates of models of this fraction of the weights are printed.
_NAMED = 0.01
SHARES = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8]
METHODS = ("group lasso", "coarse to fine", "information gain", "lasso")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="has ud/, conllx_es/")
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGES), choices=list(LANGUAGES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="orders of the samples")
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, help="of the full model's weights")
    parser.add_argument("--lasso-most", type=float, default=0.2, help="largest fraction for the lasso")
    parser.add_argument("--power", type=float, default=0.75, help="group weights are sizes to this power")
    parser.add_argument("--kinds", nargs="+", type=float, default=[0.05, 0.2], help="fractions whose kinds are counted")
    parser.add_argument("--min-count", type=int, default=2, help="n-grams at fewer arcs of training trees are left out")
    parser.add_argument("--shrink-every", type=int, default=250)
    parser.add_argument("--arcs", type=int, default=250_000, help="of the training sentences, drawn at random")
    parser.add_argument("--threads", type=int, default=2, help="models of a path that are debiased at a time, too")
    parser.add_argument("--longest", type=int, default=40, help="words of the longest training sentence")
    parser.add_argument("--held", type=int, default=500, help="use the first sentences of the other parts only")
    return results.parse(parser)


def load_parts(args, language):
    """Return sentences and heads of training, development and test part."""
    folder, files, _ = LANGUAGES[language]
    train, dev, test = (None if name is None else load_conllu(args.data / folder / name) for name in files)
    order = np.random.default_rng(0).permutation(len(train[0])).tolist()
    if dev is None:
        held, order = order[: len(order) // 10], order[len(order) // 10 :]
        dev = [train[0][i] for i in held], [train[1][i] for i in held]
    order = [i for i in order if len(train[0][i]) <= args.longest]
    n_arcs = np.cumsum([len(train[0][i]) ** 2 for i in order])
    order = order[: int(np.searchsorted(n_arcs, args.arcs)) + 1]
    train = [train[0][i] for i in order], [train[1][i] for i in order]
    return train, *((X[: args.held], heads[: args.held]) for X, heads in (dev, test))


class Bench:
    """The features of a language, made once, and the models learned from them."""

    def __init__(self, args, language):
        (train, self.heads), *held = load_parts(args, language)
        templates = arc_templates(TAGS, LANGUAGES[language][2])
        start = perf_counter()
        options = {"min_count": args.min_count, "dtype": "float32", "n_jobs": args.threads}
        vectorizer = ArcVectorizer(templates, arcs="gold", **options)
        vectorizer.fit(train, self.heads)
        self.names = vectorizer.template_names_
        self.X = vectorizer.transform(train)
        self.held = [(vectorizer.transform(X), heads) for X, heads in held]
        self.args, self.words = args, LANGUAGES[language][2]
        print(
            f"{language}: {len(train)} training sentences, {sum(map(len, train))} words, "
            f"{len(self.X.values.indptr) - 1} rows, {len(self.X.values.indices)} entries in {self.X.values.shape[1]} "
            f"columns of {len(templates)} templates; features in {perf_counter() - start:.0f} s, {peak():.2f} GiB",
            flush=True,
        )
        labels = []
        for heads in self.heads:
            arcs = np.zeros((len(heads) + 1, len(heads)), np.int64)
            arcs[heads, np.arange(len(heads))] = 1
            labels.append(arcs.ravel())
        start = perf_counter()
        self.selector = InformationGainSelector(1).fit(self.X, labels)
        print(f"information gain of all templates in {perf_counter() - start:.0f} s", flush=True)

    def path(self, method, budgets, seed):
        """Yield number of weights, scores on the development and the test part in percent, templates, for each budget.

        Budgets are numbers of weights, in descending order. The full model and the filter learn by MIRA.
        """
        if method in ("full", "information gain"):
            ranking = np.argsort(-self.selector.scores_, kind="stable")
            n_columns = np.cumsum(np.bincount(self.selector.groups_)[ranking])
            for budget in budgets:
                n_templates = len(ranking) if method == "full" else int(np.searchsorted(n_columns, budget)) + 1
                yield self.mira(seed, np.sort(ranking[:n_templates]))
            return
        groups = {"group lasso": "templates", "coarse to fine": self.order, "lasso": None}[method]
        model = GroupLassoPerceptron(
            "tree",
            groups=groups,
            group_weights="uniform" if groups is None else np.bincount(self.X.groups) ** self.args.power,
            shrink_every=self.args.shrink_every,
            fit_intercept=False,
            random_state=seed,
        )
        X_dev, dev = self.held[0]
        path = perceptron_path(
            model, self.X, self.heads, budgets, unit="weights", X_val=X_dev, y_val=dev, return_estimators=True,
            n_jobs=self.args.threads, warm_start=True,
        )  # fmt: skip
        for score, fitted in zip(path.scores, path.estimators):
            templates = [] if groups is None else fitted.selected_groups_.tolist()
            yield fitted.n_nonzero_coefs_, 100 * score, 100 * fitted.score(*self.held[1]), templates

    def mira(self, seed, templates):
        """Learn the weights of some templates; return a row of `path`."""
        X, held = self.X, self.held
        if len(templates) < len(self.names):
            columns = np.isin(X.groups, templates)
            X, held = take(X, columns), [(take(X_held, columns), heads) for X_held, heads in held]
        model = StructuredSparseMAPClassifier(
            "tree", loss="hinge", solver="mira", max_iter=10, tol=0.0, fit_intercept=False, random_state=seed
        ).fit(X, self.heads)
        dev, test = (100 * model.score(X_held, heads) for X_held, heads in held)
        return int(np.count_nonzero(model.coef_)), dev, test, templates.tolist()

    @cached_property
    def order(self):
        """The order of the templates, from coarse to fine."""
        tags, words = TAGS, self.words
        pairs = [*pairwise(tags), (tags[-1], words[-1]), *((word, words[-1]) for word in words[:-1])]
        return GroupOrder.from_templates(self.names, coarser=pairs)


def take(X, columns):
    """Return samples with some columns."""
    return RaggedArray(X.values[:, columns], X.indptr, X.groups[columns])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def distinct_rows(name):
    """Return the kinds that a template belongs to."""
    parts = name.split("|")
    fields = {part.partition(".")[2].partition("[")[0] for part in parts if "." in part}
    sides = {part.partition(".")[0] for part in parts if "." in part}
    yield from (f"field {field}" for field in fields)
    yield "between" if "between" in sides else "head and modifier" if len(sides) == 2 else "one end"
    if any("[" in part and "[0]" not in part for part in parts):
        yield "context"
    yield " and ".join(part for part in parts if "." not in part) or "neither direction nor distance"


def run(args, language):
    start = perf_counter()
    bench = Bench(args, language)
    # By method and share, a row of path() for each seed.
    found = {(method, share): [] for method in args.methods for share in sorted(args.shares)}
    full = []
    print(f"{'':18}{'share':>8}{'seed':>6}{'weights':>12}{'templates':>11}{'UAS dev':>9}{'test':>9}")

    def note(method, share, seed, row):
        n_weights, dev, test, templates = row
        print(f"{method:18}{share:8.1%}{seed:6}{n_weights:12,}{len(templates):11}{dev:9.2f}{test:9.2f}", flush=True)
        return row

    for seed in args.seeds:
        full.append(note("full", 1.0, seed, next(bench.path("full", [0], seed))))
    for method in args.methods:
        began = perf_counter()
        shares = sorted((s for s in args.shares if method != "lasso" or s <= args.lasso_most), reverse=True)
        budgets = [int(share * full[0][0]) for share in shares]
        for seed in args.seeds:
            for share, row in zip(shares, bench.path(method, budgets, seed)):
                found[method, share].append(note(method, share, seed, row))
        print(f"{method} in {perf_counter() - began:.0f} s", flush=True)
        print_summary(args, language, found, full)
        print_kinds(args, bench.names, found)
        print(
            f"{language}: {perf_counter() - start:.0f} s ({process_time():.0f} s of CPU for all so far), peak memory "
            f"{peak():.2f} GiB\n",
            flush=True,
        )


def mean_and_range(values):
    if not values:
        return "-"
    spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}"


def print_summary(args, language, found, full):
    """Print test scores by size, and of the models chosen on the development part."""
    size, tests = full[0][0], mean_and_range([test for _, _, test, _ in full])
    print(f"\n{language}: UAS on the test part by number of weights, mean of {len(full)} seeds (lowest to highest)")
    print("| at most | of all | " + " | ".join(args.methods) + " |")
    print("|---|---|" + "---|" * len(args.methods))
    for share in sorted(args.shares):
        cells = [mean_and_range([test for _, _, test, _ in found[method, share]]) for method in args.methods]
        means = {m: np.mean([test for _, _, test, _ in found[m, share]]) for m in args.methods if found[m, share]}
        theirs = means.get("information gain")
        for method, mean in means.items():
            if method != "information gain":
                results.record("templates for parsing", language, f"UAS, {method}, {share:.1%} of the weights", mean,
                               "%", "" if theirs is None else "information gain", theirs, len(full))  # fmt: skip
        print(f"| {int(share * size):,} | {share:.1%} | " + " | ".join(cells) + " |")
    print(f"| {size:,} (full) | 100% | {tests} |" + " |" * (len(args.methods) - 1) + "\n")
    for method in args.methods:
        # Those of each seed, in the order of the shares.
        paths = zip(*(rows for (own, _), rows in found.items() if own == method and rows))
        best = [max(path, key=lambda row: row[1]) for path in paths]
        if best:
            print(
                f"{method}, best on the development part: {np.mean([n for n, *_ in best]):,.0f} weights, test "
                f"{mean_and_range([test for _, _, test, _ in best])}"
            )


def print_kinds(args, names, found):
    """Print the fraction of each kind's templates that was chosen, for some sizes and methods."""
    total = Counter(kind for name in names for kind in distinct_rows(name))
    columns = [(method, share) for share in args.kinds for method in args.methods if method != "lasso"]
    columns = [column for column in columns if found.get(column)]
    print("\nshare of the templates of each kind that was chosen, mean over the seeds")
    print("| kind | templates | " + " | ".join(f"{method}, {share:.0%}" for method, share in columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for kind in [None, *sorted(total)]:
        cells = []
        for column in columns:
            rows = found[column]
            n = np.mean([sum(kind is None or kind in distinct_rows(names[k]) for k in row[3]) for row in rows])
            cells.append(f"{n / total[kind]:.0%}" if kind else f"{n:.0f}")
        label = ("all, number", len(names)) if kind is None else (kind, total[kind])
        print("| {} | {} | ".format(*label) + " | ".join(cells) + " |")
    for method in args.methods:
        if method != "lasso" and found.get((method, _NAMED)):
            chosen = found[method, _NAMED][0][3]
            print(f"{method}, {_NAMED:.0%}, first seed: " + ", ".join(names[k] for k in chosen))


def main():
    args = parse_arguments()
    # The number of epochs is fixed.
    warnings.simplefilter("ignore", ConvergenceWarning)
    # The group weights do so on purpose.
    warnings.filterwarnings("ignore", "these group weights discard")
    for language in args.languages:
        run(args, language)


if __name__ == "__main__":
    main()
