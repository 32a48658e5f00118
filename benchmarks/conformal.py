"""Conformal sets of structures: coverage and sizes, compared with sets by Gibbs mass.

    python benchmarks/conformal.py --data DIR

DIR holds ocr_letters/, conll2000/, ud/en_ewt-r2.0/, multilabel/ and hmc/ImCLEF07A*. Models learn from small parts of
the training data. Samples of the test data (chunking: at most 15 words, trees: at most 10 words) are cut 20 times into
halves for calibration and test. The table has the mean coverage over the cuts; medians and means of the set sizes, of
the first --lists samples; and the fraction of sets that are longer than --max-size, at which lists end. Gibbs mass: the
most probable structures whose total probability reaches a calibrated level (adaptive prediction sets, Romano, Sesia and
Candes 2020). Its calibration, too, needs lists, so that --lists samples serve for all of it.
"""

import argparse
import warnings
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from time import process_time

import numpy as np
import results
from hierarchies import load as load_hierarchy
from ocr import load_letters
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.datasets import load_conll, load_conllu, load_multilabel_arff
from sklearn_sparsemap.factors import Hierarchy
from sklearn_sparsemap.features import ArcVectorizer, TemplateVectorizer, chunking_templates, dependency_templates
from sklearn_sparsemap.structures import DependencyTree

ROOT = Path(__file__).resolve().parents[1]
LEVELS = (0.8, 0.9)
N_CUTS = 20


def as_objects(samples):
    """Return a 1-D object array of samples."""
    array = np.empty(len(samples), object)
    array[:] = list(samples)
    return array


def load_words(folder):
    X, y, folds = load_letters(folder / "ocr_letters" / "letters.npz")
    return X[folds == 0], y[folds == 0], X[folds > 1], as_objects(y[folds > 1])


def load_chunks(folder):
    parts = [
        load_conll(folder / "conll2000" / f"{part}.txt.gz", columns=("word", "pos", "label"))
        for part in ("train", "test")
    ]
    (X, y), (X_test, y_test) = parts
    short = [i for i, labels in enumerate(y_test) if 3 <= len(labels) <= 15]
    vectorizer = TemplateVectorizer(chunking_templates()[:30])
    X = vectorizer.fit_transform(X[:2500])
    return X, y[:2500], vectorizer.transform([X_test[i] for i in short]), as_objects([y_test[i] for i in short])


def load_trees(folder):
    (X, y), (X_test, y_test) = (load_conllu(folder / f"ud/en_ewt-r2.0/{part}.conllu.gz") for part in ("train", "test"))
    train = [i for i in range(6000) if len(y[i]) <= 25][:2000]
    short = [i for i, heads in enumerate(y_test) if 3 <= len(heads) <= 10]
    vectorizer = ArcVectorizer(dependency_templates(fine_pos="xpos"), n_features=2**18)
    X = vectorizer.fit_transform([X[i] for i in train])
    X_test = vectorizer.transform([X_test[i] for i in short])
    return X, [y[i] for i in train], X_test, as_objects([y_test[i] for i in short])


def load_label_sets(folder, name, n_labels):
    (X, Y), (X_test, Y_test) = (
        load_multilabel_arff(folder / "multilabel" / f"{name}-{part}.arff.gz", n_labels) for part in ("train", "test")
    )
    X, X_test = (part.toarray() if hasattr(part, "toarray") else np.asarray(part) for part in (X, X_test))
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), Y, scaler.transform(X_test), np.asarray(Y_test), None


def load_tree_of_labels(folder):
    *data, parents = load_hierarchy(folder, "ImCLEF07A")
    return *data, Hierarchy(parents)


ONLINE = {"solver": "adagrad", "random_state": 0}
STRUCTURES = {
    "letters of words": (load_words, {"structure": "chain", "alpha": 1e-3}),
    "chunks": (load_chunks, {"structure": "chain", "max_iter": 8, **ONLINE}),
    "dependency trees": (load_trees, {"structure": DependencyTree(single_root=True), "max_iter": 5, **ONLINE}),
}
LABELS = {
    "label sets (tmc2007)": lambda folder: load_label_sets(folder, "tmc2007-500", 22),
    "label sets (yeast)": lambda folder: load_label_sets(folder, "yeast", 14),
    "hierarchy (ImCLEF07A)": load_tree_of_labels,
}


def lists_of(model, score, X, y, args):
    """Return the nonconformity of gold structures, and for the first samples of the first structures."""
    # One calibration sample is too few for any level, so that all structures are listed.
    conformal = ConformalStructures(model, max_size=args.max_size, score=score).conformalize(X[:1], y[:1])
    lists = [np.array([value for _, value in own]) for own in conformal.predict_set(X[: args.lists])]
    return conformal.nonconformity(X, y), lists


def mass_before(log_losses, lists):
    """Return the total probability of the structures before gold ones and before those of lists; 1 after a list."""
    before = [np.cumsum(np.exp(-own)) - np.exp(-own) for own in lists]
    places = [np.searchsorted(own, gold - 1e-9) for own, gold in zip(lists, log_losses)]
    return np.array([own[i] if i < len(own) else 1.0 for own, i in zip(before, places)]), before


def show(name, what, gold, lists, max_size):
    rng, n, cells = np.random.default_rng(0), len(gold), []
    lengths = np.array([len(own) for own in lists])
    found = {level: [] for level in LEVELS}
    for _ in range(N_CUTS):
        order = rng.permutation(n)
        cal, test = order[: n // 2], order[n // 2 :]
        for level in LEVELS:
            threshold = np.sort(gold[cal])[ceil((len(cal) + 1) * level - 1e-9) - 1]
            listed = test[test < len(lists)]
            sizes = np.array([np.searchsorted(lists[i], threshold, side="right") for i in listed])
            is_cut = (sizes == lengths[listed]) & (sizes == max_size)
            found[level].append(((gold[test] <= threshold).mean(), np.median(sizes), sizes.mean(), is_cut.mean()))
    for level in LEVELS:
        coverage, median, mean, cut = np.mean(found[level], axis=0)
        own = f"{what}, level {level}"
        results.record("conformal sets", name, f"coverage, {own}", 100 * coverage, "%", seeds=N_CUTS)
        results.record("conformal sets", name, f"median size, {own}", median, "structures", seeds=N_CUTS)
        cells.append(f"{100 * coverage:.1f} | {median:.0f} | {mean:.1f} | {100 * cut:.0f} %")
    print(f"| {name} | {what} | {' | '.join(cells)} |", flush=True)


def show_parts(name, model, X, y):
    """Print the fraction of correct parts outside their sets, and the sizes of sets, over cuts into halves."""
    levels, missed, sizes = [0.9, 0.95, 0.98], [], []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))
        cal, test = order[: len(y) // 2], order[len(y) // 2 :]
        conformal = ConformalStructures(model, levels, risk="parts").conformalize(X[cal], y[cal])
        missed.append(conformal.missed(X[test], y[test]).mean(axis=0))
        sets = conformal.predict_set(X[test[:100]])
        # A step of a sequence has a set of labels; a sample of label sets has one.
        steps = np.concatenate([own if own.ndim == 3 else own[None] for own in sets])
        sizes.append((steps.sum(axis=1).mean(axis=0), np.median(steps.sum(axis=1), axis=0)))
    for k, level in enumerate(levels):
        outside = 100.0 * np.array(missed)[:, k]
        mean, median = np.mean(sizes, axis=0)[:, k]
        results.record("conformal sets", name, f"missed parts, level {level}", outside.mean(), "%", seeds=5)
        results.record("conformal sets", name, f"labels of a set, level {level}", mean, "labels", seeds=5)
        cells = f"{100 * (1 - level):.0f} % | {outside.mean():.2f} % ({outside.min():.2f} to {outside.max():.2f})"
        print(f"| {name} | {cells} | {mean:.2f} | {median:.0f} |", flush=True)


def compare_with_mapie(folder):
    """Compare sets of letters, one by one, with those of MAPIE for the same model: coverage, sizes, time."""
    X, y, X_test, y_test = load_words(folder)
    X, X_test = (np.vstack(list(part)) for part in (X, X_test))
    y, y_test = (np.concatenate(list(part)) for part in (y, y_test))
    model = StructuredSparseMAPClassifier(loss="crf", alpha=1e-3).fit(X, y)
    # Compiles the kernels, or loads them.
    ConformalStructures(model, 0.9, risk="parts").conformalize(X[:99], y[:99]).predict_set(X[:5])
    half = len(y_test) // 2
    cal, test = (X_test[:half], y_test[:half]), (X_test[half:], y_test[half:])
    begin = process_time()
    ours = ConformalStructures(model, 0.9, risk="parts").conformalize(*cal).predict_set(test[0])
    seconds, is_ours = process_time() - begin, np.asarray(ours).astype(bool)
    is_theirs, theirs = None, None
    if find_spec("mapie"):
        from mapie.classification import SplitConformalClassifier

        begin = process_time()
        mapie = SplitConformalClassifier(model, confidence_level=0.9, conformity_score="lac").conformalize(*cal)
        is_theirs = mapie.predict_set(test[0])[1][:, :, 0]
        theirs = process_time() - begin
    gold = np.searchsorted(model.classes_, test[1])
    for measure, unit, of in (
        ("coverage, level 0.9", "%", lambda sets: 100 * sets[np.arange(len(gold)), gold].mean()),
        ("labels of a set, level 0.9", "labels", lambda sets: sets.sum(axis=1).mean()),
        ("CPU time, level 0.9", "s", None),
    ):
        own, other = (seconds, theirs) if of is None else [None if s is None else of(s) for s in (is_ours, is_theirs)]
        peer, shown = ("", "not installed") if other is None else ("MAPIE", f"{other:.4g}")
        print(f"letters one by one, {measure}: {own:.4g}, MAPIE {shown}", flush=True)
        results.record("conformal sets", "letters one by one", measure, own, unit, peer, other, package="MAPIE")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the data")
    parser.add_argument("--max-size", type=int, default=500, help="maximum length of a list")
    parser.add_argument("--samples", type=int, default=2000, help="maximum number of samples")
    parser.add_argument("--lists", type=int, default=200, help="number of samples whose sets are listed")
    parser.add_argument("--parts", action="store_true", help="only sets of parts, of words, chunks and label sets")
    args = results.parse(parser)
    for category in (ConvergenceWarning, UserWarning):
        warnings.simplefilter("ignore", category)
    if args.parts:
        print("| data | level | missed parts (5 seeds) | labels of a set, mean | median |\n|---|---|---|---|---|")
        for name in ("letters of words", "chunks", "label sets (yeast)"):
            if name in STRUCTURES:
                load, options = STRUCTURES[name]
                X, y, X_test, y_test = load(args.data)
                model = StructuredSparseMAPClassifier(loss="sparsemap", **options).fit(X, y)
            else:
                X, y, X_test, y_test, _ = LABELS[name](args.data)
                model = MultilabelLPSparseMAP(random_state=0).fit(X, y)
            rows = np.random.default_rng(0).permutation(len(y_test))[: args.samples]
            show_parts(name, model, X_test[rows], y_test[rows])
        compare_with_mapie(args.data)
        return
    heads = [f"{what} at {level}" for level in LEVELS for what in ("coverage", "median", "mean", "cut")]
    print(f"| data | sets by | {' | '.join(heads)} |\n|{'---|' * (2 + len(heads))}")
    begin = process_time()
    for name, (load, options) in STRUCTURES.items():
        X, y, X_test, y_test = load(args.data)
        rows = np.random.default_rng(0).permutation(len(y_test))[: args.samples]
        X_test, y_test = X_test[rows], y_test[rows]
        for loss, scores in (("sparsemap", ["reduced_cost"]), ("crf", ["reduced_cost", "log_loss"])):
            model = StructuredSparseMAPClassifier(loss=loss, **options).fit(X, y)
            for score in scores:
                gold, lists = lists_of(model, score, X_test, y_test, args)
                show(name, f"{score}, {loss}", gold, lists, args.max_size)
        show(name, "Gibbs mass, crf", *mass_before(gold[: args.lists], lists), args.max_size)
    for name, load in LABELS.items():
        X, Y, X_test, Y_test, constraints = load(args.data)
        some = np.random.default_rng(0).permutation(len(X))[:2500]
        model = MultilabelLPSparseMAP(constraints=constraints).fit(X[some], Y[some])
        rows = np.random.default_rng(0).permutation(len(Y_test))[: args.samples]
        X_test, Y_test = X_test[rows], Y_test[rows]
        for score in ("reduced_cost", "log_loss"):
            gold, lists = lists_of(model, score, X_test, Y_test, args)
            show(name, score, gold, lists, args.max_size)
        show(name, "mass", *mass_before(gold[: args.lists], lists), args.max_size)
    print(f"\n{process_time() - begin:.0f} CPU seconds")


if __name__ == "__main__":
    main()
