"""Dependency parsing on UD treebanks: six losses with the same features and the same tuning
(Niculae et al. 2018, section 5.1, table 1, figure 4).

    python benchmarks/parsing.py --data ../shared/data

For each treebank and each loss, first-order trees are learned online from hashed arc features in mini-batches, so that
memory does not grow with the treebank. All losses see the same mini-batches in the same order; the strength of the
penalty and the number of epochs are chosen for each loss by the attachment score on the development part. Prints a
table with the score on the test part, and the score and the mean number of selected structures by epoch. Each epoch
also prints the mean number of heads of a word with nonzero probability, and the percentages of sentences whose gold
tree is selected, and is the first of those selected.
"""

import argparse
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import numpy as np
import results

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conllu
from sklearn_sparsemap.features import ArcVectorizer, dependency_templates
from sklearn_sparsemap.losses import LOSSES
from sklearn_sparsemap.metrics import unlabeled_attachment_score
from sklearn_sparsemap.structures import DependencyTree

TREEBANKS = {"English": "ud/en_ewt-r2.0", "Chinese": "ud/zh_gsd-r1.4"}
# The paper's, with features of a bi-LSTM (SVM is the structured hinge loss).
PAPER = {
    "English": {"hinge": 87.02, "crf": 86.74, "sparsemap": 86.90, "margin_sparsemap": 87.34},
    "Chinese": {"hinge": 81.94, "crf": 83.18, "sparsemap": 84.03, "margin_sparsemap": 82.63},
}
BATCH = 500


def batches(n, order=None):
    """Cut sample numbers into mini-batches."""
    order = np.arange(n) if order is None else order
    return [order[start : start + BATCH] for start in range(0, n, BATCH)]


def pick(samples, places):
    return [samples[i] for i in places]


class Corpus:
    """One part of a treebank, whose features are made a mini-batch at a time."""

    def __init__(self, path, vectorizer, most=None):
        self.sentences, self.heads = load_conllu(path)
        self.sentences, self.heads = self.sentences[:most], self.heads[:most]
        self.vectorizer = vectorizer

    def __len__(self):
        return len(self.sentences)

    def batches(self, order=None):
        """Yield features and heads, and the seconds it took to make the features."""
        for places in batches(len(self), order):
            started = perf_counter()
            X = self.vectorizer.transform(pick(self.sentences, places))
            yield X, pick(self.heads, places), perf_counter() - started


def attachment_scores(models, corpus, pool):
    """Return the score of each model, in percent."""
    found = [[] for _ in models]
    for X, _, _ in corpus.batches():
        for trees, parsed in zip(found, pool.map(lambda model: model.predict(X), models)):  # noqa: B023
            trees.extend(parsed)
    return [100 * unlabeled_attachment_score(corpus.heads, trees) for trees in found]


def supports(models, corpus, pool, n=BATCH):
    """Describe the trees that each model selects for the first sentences.

    Returns
    -------
    described : list of tuple
        The mean number of trees, the mean number of heads of a word, and the percentages of sentences whose gold tree
        is selected, and has the largest weight.
    """
    X = corpus.vectorizer.transform(corpus.sentences[:n])
    described = []
    for selected in pool.map(lambda model: model.predict_structures(X), models):
        n_heads, is_selected, is_first = [], [], []
        for pairs, gold in zip(selected, corpus.heads):
            trees = np.array([tree for tree, _ in pairs])
            n_heads += [len(np.unique(heads)) for heads in trees.T]
            is_gold = (trees == gold).all(axis=1)
            is_selected.append(is_gold.any())
            is_first.append(is_gold[np.argmax([weight for _, weight in pairs])])
        sizes = [len(pairs) for pairs in selected]
        described.append((np.mean(sizes), np.mean(n_heads), 100 * np.mean(is_selected), 100 * np.mean(is_first)))
    return described


def train(name, directory, losses, alphas, n_epochs, n_features, most):
    """Train the given losses with all penalties; return one record for each."""
    vectorizer = ArcVectorizer(dependency_templates(fine_pos="xpos"), n_features=n_features, n_jobs=2)
    folder = Path(directory) / TREEBANKS[name]
    parts = {part: Corpus(folder / f"{part}.conllu.gz", vectorizer, most) for part in ("train", "dev", "test")}
    structure = DependencyTree(single_root=True)
    best = {}
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(parts["train"])) for _ in range(n_epochs)]
    with ThreadPoolExecutor(2) as pool:
        for alpha in alphas:
            models = [StructuredSparseMAPClassifier(structure, loss, alpha=alpha) for loss in losses]
            curves = [[] for _ in models]
            for epoch, order in enumerate(orders):
                features_seconds, fit_seconds = 0.0, np.zeros(len(models))

                def learn(m):
                    started = perf_counter()
                    models[m].partial_fit(X, y)  # noqa: B023
                    return perf_counter() - started

                for X, y, seconds in parts["train"].batches(order):  # noqa: B007
                    features_seconds += seconds
                    fit_seconds += list(pool.map(learn, range(len(models))))
                dev = attachment_scores(models, parts["dev"], pool)
                described = supports(models, parts["dev"], pool)
                for m, loss in enumerate(losses):
                    curves[m].append((dev[m], described[m][0]))
                    seconds = features_seconds + fit_seconds[m]
                    if loss not in best or dev[m] > best[loss]["dev"]:
                        best[loss] = {"dev": dev[m], "alpha": alpha, "epochs": epoch + 1, "seconds": seconds,
                                      "coef": models[m].coef_.copy(), "curve": curves[m]}  # fmt: skip
                print(
                    f"{name} alpha={alpha:g} epoch {epoch + 1}: features {features_seconds:.1f} s, "
                    + ", ".join(
                        f"{loss} {d:.2f} ({s:.0f} s, {trees:.1f} trees, {heads:.2f} heads a word, "
                        f"gold selected {selected:.1f} %, first {first:.1f} %)"
                        for loss, d, s, (trees, heads, selected, first) in zip(losses, dev, fit_seconds, described)
                    ),
                    flush=True,
                )
        # The weights that were best on the development part take the place of the last ones.
        for loss, model in zip(losses, models):
            model.coef_[:] = best[loss].pop("coef")
        for loss, score in zip(losses, attachment_scores(models, parts["test"], pool)):
            best[loss]["test"] = score
    best["n_train"] = len(parts["train"])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--treebanks", nargs="+", default=list(TREEBANKS), choices=list(TREEBANKS))
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=list(LOSSES))
    parser.add_argument("--alphas", nargs="+", type=float, default=[1e-3, 1e-2])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--features", type=int, default=2**22)
    parser.add_argument("--most", type=int, default=None, help="use so many sentences of each part only")
    arguments = results.parse(parser)
    for name in arguments.treebanks:
        best = train(
            name,
            arguments.data,
            arguments.losses,
            arguments.alphas,
            arguments.epochs,
            arguments.features,
            arguments.most,
        )
        n_train = best.pop("n_train")
        print(f"\n{name}: {n_train} training sentences")
        print("| loss | UAS dev | UAS test | the paper's (bi-LSTM) | alpha | epochs | an epoch, features included |")
        print("|---|---|---|---|---|---|---|")
        for loss, record in best.items():
            paper = PAPER[name].get(loss, "-")
            peer, theirs = ("Niculae et al. 2018, BiLSTM", paper) if loss in PAPER[name] else ("", None)
            results.record("parsing", f"UD {name}", f"UAS, {loss}", record["test"], "%", peer, theirs,
                           elsewhere=bool(peer))  # fmt: skip
            rate = 60 * n_train / record["seconds"]
            print(
                f"| {loss} | {record['dev']:.2f} | {record['test']:.2f} | {paper} | {record['alpha']:g} | "
                f"{record['epochs']} | {record['seconds']:.0f} s, {rate:,.0f} sentences a minute |"
            )
        print("\nUAS on the development part (mean number of selected trees) by epoch, at the chosen alpha:")
        for loss, record in best.items():
            print(f"  {loss}: " + ", ".join(f"{score:.2f} ({size:.1f})" for score, size in record["curve"]))
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
