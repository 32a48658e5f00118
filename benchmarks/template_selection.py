"""Templates for dependency parsing, chosen from some 600 by the group lasso, beside a filter by information gain and
the lasso (Martins et al. 2011, figure 3 and table 3).

    python benchmarks/template_selection.py --data DIR --languages English

For each seed the group lasso learns with some budgets, flat and from coarse to fine (`GroupOrder`); the filter keeps as
many templates; the lasso, whose groups are single features, gets the numbers of weights that the group lasso has come
to. All learn the weights of what they have chosen by ten epochs of 1-best MIRA, and so does the full model. Columns are
the n-grams at the arcs of the training trees. The best models are chosen on the development part (Spanish, which has
none: a tenth of the training part). Prints a row for each model, the scores at equal numbers of weights, and which
kinds of templates were chosen.
"""

import argparse
import resource
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import GroupLassoPerceptron, StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conllu
from sklearn_sparsemap.features import ArcVectorizer, InformationGainSelector, arc_templates
from sklearn_sparsemap.metrics import unlabeled_attachment_score
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
# So many templates are named, or about as many.
_SHOWN = 20
# Of the full model's weights.
_SHARES = 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4
METHODS = ("group lasso", "coarse to fine", "information gain", "lasso")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="has ud/, conllx_es/")
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGES), choices=list(LANGUAGES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="orders of the samples")
    parser.add_argument("--few-seeds", type=int, default=1, help="for the lasso, which takes long")
    parser.add_argument("--budgets", nargs="+", type=int, default=[10, 25, 50, 100, 200, 330], help="of templates")
    parser.add_argument("--kept", nargs="+", type=int, default=[1, 3, 8, 20, 50, 120, 300], help="by the filter")
    parser.add_argument("--group-weights", default="log2")
    parser.add_argument("--min-count", type=int, default=2, help="n-grams at fewer arcs of training trees are left out")
    parser.add_argument("--shrink-every", type=int, default=250)
    parser.add_argument("--arcs", type=int, default=250_000, help="of the training sentences, drawn at random")
    parser.add_argument("--threads", type=int, default=2, help="models that are fitted at a time")
    parser.add_argument("--longest", type=int, default=40, help="words of the longest training sentence")
    parser.add_argument("--held", type=int, default=500, help="use the first sentences of the other parts only")
    return parser.parse_args()


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
    """The features of a language, made once, and what is learned from them."""

    def __init__(self, args, language):
        (train, self.heads), *held = load_parts(args, language)
        templates = arc_templates(TAGS, LANGUAGES[language][2])
        start = perf_counter()
        vectorizer = ArcVectorizer(templates, arcs="gold", min_count=args.min_count, dtype="float32", n_jobs=2)
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

    def score(self, model, columns=None):
        """Return the attachment scores on the development and the test part, in percent."""
        found = []
        for X, heads in self.held:
            X = X if columns is None else take(X, columns)
            found.append(100 * unlabeled_attachment_score(heads, model.predict(X)))
        return found

    def learn(self, method, budget, seed):
        """Return the number of weights, the two scores, the templates that were chosen, and the seconds it took."""
        start, templates = perf_counter(), []
        if method in ("full", "information gain"):
            best = np.argsort(-self.selector.scores_, kind="stable")[:budget]
            columns = None if method == "full" else np.isin(self.selector.groups_, best)
            model, templates = self.mira(seed, columns), sorted(best.tolist())
            n_weights, scores = int(np.count_nonzero(model.coef_)), self.score(model, columns)
        else:
            model = self.selected(seed, budget, method)
            n_weights, scores = model.n_nonzero_coefs_, self.score(model)
            if method != "lasso":
                templates = model.selected_groups_.tolist()
        return n_weights, scores, templates, perf_counter() - start

    def mira(self, seed, columns=None):
        """Learn the weights of some columns, or of all."""
        X = self.X if columns is None else take(self.X, columns)
        return StructuredSparseMAPClassifier(
            "tree", loss="hinge", solver="mira", max_iter=10, tol=0.0, fit_intercept=False, random_state=seed
        ).fit(X, self.heads)

    def selected(self, seed, budget, method):
        """Learn with a budget of templates, or of features."""
        groups = {"group lasso": "templates", "coarse to fine": self.order, "lasso": None}[method]
        return GroupLassoPerceptron(
            "tree",
            groups=groups,
            group_weights="uniform" if groups is None else self.args.group_weights,
            budget=budget,
            shrink_every=self.args.shrink_every,
            fit_intercept=False,
            random_state=seed,
        ).fit(self.X, self.heads)

    @cached_property
    def order(self):
        """The order of the templates by what they look at."""
        tags, words = TAGS, self.words
        pairs = [*pairwise(tags), (tags[-1], words[-1]), *((word, words[-1]) for word in words[:-1])]
        return GroupOrder.from_templates(self.names, coarser=pairs)


def take(X, columns):
    """Return samples with some columns."""
    found = X[:]
    found.values, found.groups = X.values[:, columns], X.groups[columns]
    return found


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def at_size(points, n_weights):
    """Interpolate the score of a front at a number of weights, over its logarithm; NaN outside of it."""
    sizes, scores = np.array(sorted(points), float).T
    return float(np.interp(np.log(n_weights), np.log(sizes), scores, left=np.nan, right=np.nan))


def kinds_of(name):
    """Return the kinds that a template belongs to."""
    parts = name.split("|")
    fields = {part.partition(".")[2].partition("[")[0] for part in parts if "." in part}
    sides = {part.partition(".")[0] for part in parts if "." in part}
    yield from (f"field {field}" for field in fields)
    yield "between" if "between" in sides else "head and modifier" if len(sides) == 2 else "one end"
    if any("[" in part and "[0]" not in part for part in parts):
        yield "context"
    yield " and ".join(part for part in parts if "." not in part) or "neither direction nor distance"


def budgets_of(args, method):
    return args.kept if method == "information gain" else args.budgets


def seeds_of(args, method):
    return args.seeds[: args.few_seeds] if method == "lasso" else args.seeds


def run(args, language):
    start = perf_counter()
    bench = Bench(args, language)
    rows = {method: {seed: [] for seed in seeds_of(args, method)} for method in args.methods}
    chosen, full = {}, []
    print(f"{'':18}{'budget':>12}{'seed':>6}{'weights':>12}{'UAS dev':>9}{'test':>9}{'fit':>10}")

    def learn(job):
        return job, *bench.learn(*job)

    def learn_all(jobs):
        with ThreadPoolExecutor(args.threads) as pool:
            for (method, budget, seed), n_weights, (dev, test), templates, seconds in pool.map(learn, jobs):
                print(
                    f"{method:18}{budget:>12,}{seed:6}{n_weights:12,}{dev:9.2f}{test:9.2f}{seconds:8.1f} s", flush=True
                )
                if method == "full":
                    full.append((n_weights, dev, test))
                else:
                    rows[method][seed].append((n_weights, dev, test))
                    chosen[method, budget, seed] = templates

    for seed in args.seeds:
        others = [method for method in args.methods if method != "lasso" and seed in rows[method]]
        jobs = [(method, budget, seed) for method in others for budget in budgets_of(args, method)]
        learn_all([("full", len(bench.names), seed), *jobs])
        if seed in rows.get("lasso", ()):
            learn_all([("lasso", n, seed) for n, *_ in rows["group lasso"][seed]])
    print_summary(args, language, rows, full)
    print_kinds(args, bench.names, chosen)
    print(f"{language}: {perf_counter() - start:.0f} s in all, peak memory {peak():.2f} GiB\n", flush=True)


def print_summary(args, language, rows, full):
    """Print test scores at some sizes, and of the models chosen on the development part."""
    full_size, _, full_score = np.mean(full, axis=0)
    print(f"\n{language}: UAS on the test part at equal numbers of weights, mean over the seeds (lowest to highest)")
    print("| weights | of all | " + " | ".join(args.methods) + " |")
    print("|---|---|" + "---|" * len(args.methods))
    for share in _SHARES:
        size = share * full_size
        cells = []
        for method in args.methods:
            scores = [at_size([(n, test) for n, _, test in row], size) for row in rows[method].values()]
            spread = f" ({min(scores):.2f} to {max(scores):.2f})" if len(scores) > 1 else ""
            cells.append("-" if np.isnan(scores).any() else f"{np.mean(scores):.2f}{spread}")
        print(f"| {size:,.0f} | {share:.1%} | " + " | ".join(cells) + " |")
    print(f"| {full_size:,.0f} (full) | 100% | {full_score:.2f} |\n")
    for method in args.methods:
        best = [max(row, key=lambda point: point[1]) for row in rows[method].values()]
        print(
            f"{method}, best on the development part: {np.mean([n for n, *_ in best]):,.0f} weights, test "
            f"{np.mean([test for *_, test in best]):.2f}"
        )


def print_kinds(args, names, chosen):
    """Print which share of each kind's templates was chosen, for the budgets of the methods that choose templates."""
    total = Counter(kind for name in names for kind in kinds_of(name))
    selectors = [method for method in args.methods if method != "lasso"]
    columns = [(method, budget) for method in selectors for budget in budgets_of(args, method)]
    print("\nshare of the templates of each kind that was chosen, mean over the seeds")
    print("| kind | templates | " + " | ".join(f"{method}, {budget}" for method, budget in columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for kind in sorted(total):
        cells = []
        for method, budget in columns:
            seeds = seeds_of(args, method)
            picked = [names[k] for seed in seeds for k in chosen[method, budget, seed]]
            n = sum(kind in kinds_of(name) for name in picked)
            cells.append(f"{n / len(seeds) / total[kind]:.0%}")
        print(f"| {kind} | {total[kind]} | " + " | ".join(cells) + " |")
    for method in selectors:
        budget, seed = min(budgets_of(args, method), key=lambda budget: abs(budget - _SHOWN)), args.seeds[0]
        print(f"{method}, {budget}, seed {seed}: " + ", ".join(names[k] for k in chosen[method, budget, seed]))


def main():
    args = parse_arguments()
    # The number of epochs is fixed.
    warnings.simplefilter("ignore", ConvergenceWarning)
    # That is what the group weights of the paper are for.
    warnings.filterwarnings("ignore", "group_weights='log2' discards")
    for language in args.languages:
        run(args, language)


if __name__ == "__main__":
    main()
