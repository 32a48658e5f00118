"""Dependency parsing of first and second order on UD treebanks, with the same features of arcs
(Martins et al. 2013; LP-SparseMAP in place of AD3).

    python benchmarks/second_order.py --data ../shared/data

The parser of second order is `factors.sibling_tree`: a tree, and a head automaton for each word and side whose scores
have features of the head and two consecutive modifiers. Both orders see the same mini-batches in the same order. The
number of epochs is chosen for each loss and order by the attachment score on the development part. Prints, for each
treebank and loss: attachment scores on the test part, milliseconds a sentence of training (without features) and of
prediction, and the fraction of test sentences whose linear relaxation is integral. Times are CPU seconds.
"""

import argparse
from copy import deepcopy
from pathlib import Path
from time import process_time

import numpy as np
import results

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conllu
from sklearn_sparsemap.factors import sibling_tree
from sklearn_sparsemap.features import ArcVectorizer, SiblingVectorizer, dependency_templates, sibling_templates
from sklearn_sparsemap.inference._graph.map import relax
from sklearn_sparsemap.inference._graph.problems import problems_by_graph
from sklearn_sparsemap.metrics import unlabeled_attachment_score
from sklearn_sparsemap.structures import DependencyTree

TREEBANKS = {"English": "ud/en_ewt-r2.0", "Chinese": "ud/zh_gsd-r1.4", "Turkish": "ud/tr_imst-r2.0"}
LOSSES = "sparsemap", "margin_sparsemap", "hinge"
BATCH = 250
# Sentences by which the fraction of integral relaxations is counted.
SOME = 200
# Distance from 0 and 1 within which a marginal is integral.
INTEGRAL = 1e-4


class Corpus:
    """One part of a treebank, whose features are made a mini-batch at a time."""

    def __init__(self, path, vectorizers, most):
        sentences, heads = load_conllu(path)
        self.sentences, self.heads, self.vectorizers = sentences[:most], heads[:most], vectorizers

    def batches(self, order=None):
        """Yield features and heads, and the CPU seconds that the features took."""
        order = range(len(self.heads)) if order is None else order
        for start in range(0, len(order), BATCH):
            places, started = order[start : start + BATCH], process_time()
            parts = [vectorizer.transform([self.sentences[i] for i in places]) for vectorizer in self.vectorizers]
            X = parts[0] if len(parts) == 1 else list(zip(*parts))
            yield X, [self.heads[i] for i in places], process_time() - started


def parse(model, corpus):
    """Return the attachment score in percent, and CPU milliseconds a sentence."""
    trees, seconds = [], 0.0
    for X, _, _ in corpus.batches():
        started = process_time()
        trees.extend(model.predict(X))
        seconds += process_time() - started
    return 100 * unlabeled_attachment_score(corpus.heads, trees), 1e3 * seconds / len(trees)


def fraction_integral(model, corpus):
    """Return the fraction of the first sentences whose linear relaxation is a tree."""
    found = []
    for X, _, _ in corpus.batches(range(min(SOME, len(corpus.heads)))):
        graphs = [sibling_tree(*sample) for sample in X]
        weights = {"siblings": model.additional_scores_["siblings"]}
        scores = [(arcs @ model.coef_.ravel()).reshape(graph["tree"].shape) for (arcs, _), graph in zip(X, graphs)]
        for _, problems in problems_by_graph(graphs, scores, weights)[0]:
            u = relax(problems, 1e-6).marginals
            found.append((np.minimum(u, 1.0 - u) < INTEGRAL).all())
    return np.mean(found)


def train(order, loss, parts, alpha, n_epochs, n_jobs):
    """Return the record of the best epoch on the development part."""
    structure = DependencyTree(single_root=True) if order == 1 else sibling_tree
    model = StructuredSparseMAPClassifier(structure, loss, alpha=alpha, solver="adagrad", n_jobs=n_jobs)
    rng, best = np.random.default_rng(0), {"dev": -1.0}
    for epoch in range(1, n_epochs + 1):
        fit, features = 0.0, 0.0
        for X, y, seconds in parts["train"].batches(rng.permutation(len(parts["train"].heads))):
            started = process_time()
            model.partial_fit(X, y)
            fit, features = fit + process_time() - started, features + seconds
        dev, _ = parse(model, parts["dev"])
        per_sentence = 1e3 * np.array([fit, features]) / len(parts["train"].heads)
        print(f"  order {order}, {loss}, epoch {epoch}: {dev:.2f} ({per_sentence.round(1)} ms a sentence)", flush=True)
        if dev > best["dev"]:
            best = {"dev": dev, "epoch": epoch, "model": deepcopy(model)}
    best["train_ms"] = per_sentence[0]
    best["test"], best["predict_ms"] = parse(best["model"], parts["test"])
    best["integral"] = 1.0 if order == 1 else fraction_integral(best["model"], parts["test"])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--treebanks", nargs="+", default=list(TREEBANKS), choices=list(TREEBANKS))
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    parser.add_argument("--alpha", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--most", type=int, default=None, help="use so many sentences of the training part only")
    parser.add_argument("--held", type=int, default=None, help="use so many sentences of the other parts only")
    arguments = results.parse(parser)
    arcs = ArcVectorizer(dependency_templates(fine_pos="xpos"), n_features=2**20)
    siblings = SiblingVectorizer(sibling_templates(fine_pos="xpos"), dtype=np.float32)
    vectorizers = {1: [arcs], 2: [arcs, siblings]}
    print("| treebank | loss | order | epoch | dev | test | training, ms | prediction, ms | integral |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    first_order = {}
    for name in arguments.treebanks:
        for loss in arguments.losses:
            for order in vectorizers:
                parts = {
                    part: Corpus(
                        Path(arguments.data) / TREEBANKS[name] / f"{part}.conllu.gz",
                        vectorizers[order],
                        arguments.most if part == "train" else arguments.held,
                    )
                    for part in ("train", "dev", "test")
                }
                best = train(order, loss, parts, arguments.alpha, arguments.epochs, arguments.jobs)
                first_order.setdefault((name, loss), best["test"])
                if order == 2:
                    results.record("parsing of second order", f"UD {name}", f"UAS, {loss}", best["test"], "%",
                                   "first order", first_order[name, loss])  # fmt: skip
                print(
                    f"| {name} | {loss} | {order} | {best['epoch']} | {best['dev']:.2f} | {best['test']:.2f} | "
                    f"{best['train_ms']:.1f} | {best['predict_ms']:.1f} | {100 * best['integral']:.0f} % |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
