"""Labelled dependency parsing on UD English: trees and the labels of their arcs.

    python benchmarks/labelled_parsing.py --data ../shared/data

In each epoch the trees are learned as in `parsing.py`, and from the features of the gold arcs, folded to fewer
columns, a classifier of their labels. Trees are predicted in two ways: the best tree, then the best label of each arc;
and both together, by ``DependencyTree(n_labels=...)`` under the score of the arc plus a multiple of the log-probability
of its label, chosen on the development part. Prints the attachment scores, and the times of an epoch without and with
labels; with --joint also that of learning all labels of all arcs together, on the first sentences.
"""

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np
import results
from parsing import TREEBANKS, Corpus
from scipy import sparse
from scipy.special import log_softmax

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier, map_inference
from sklearn_sparsemap.features import ArcVectorizer, dependency_templates
from sklearn_sparsemap.metrics import labeled_attachment_score, unlabeled_attachment_score
from sklearn_sparsemap.structures import DependencyTree


def fold(rows, n_columns):
    """Return hashed features with fewer columns, a power of 2."""
    shape = rows.shape[0], n_columns
    folded = sparse.csr_array((rows.data.copy(), rows.indices & (n_columns - 1), rows.indptr.copy()), shape)
    folded.sum_duplicates()
    return folded


def rows_of_arcs(X, trees):
    """Return the places of the arcs of trees among the rows of a batch: a sentence's arcs stand head by head."""
    return np.concatenate(
        [start + np.asarray(heads) * len(heads) + np.arange(len(heads)) for start, heads in zip(X.indptr, trees)]
    )


def labels_of(corpus, places):
    return [token["deprel"] for i in places for token in corpus.sentences[i]]


def learn(parts, loss, alpha, n_epochs, n_columns, classes):
    """Return a parser and a labeller, and the seconds of each epoch without and with labels."""
    train = parts["train"]
    parser = StructuredSparseMAPClassifier(DependencyTree(single_root=True), loss, alpha=alpha)
    labeller = StructuredSparseMAPClassifier(loss="sparsemap", alpha=alpha)
    rng, seconds = np.random.default_rng(0), []
    for epoch in range(n_epochs):
        order, without, extra, done = rng.permutation(len(train)), 0.0, 0.0, 0
        for X, y, of_features in train.batches(order):
            started = perf_counter()
            parser.partial_fit(X, y)
            without += of_features + perf_counter() - started
            started = perf_counter()
            arcs = fold(X.values[rows_of_arcs(X, y)], n_columns)
            labeller.partial_fit(arcs, labels_of(train, order[done : done + len(y)]), classes=classes)
            extra += perf_counter() - started
            done += len(y)
        seconds.append((without, without + extra))
        print(f"epoch {epoch + 1}: {without:.1f} s without labels, {without + extra:.1f} s with them", flush=True)
    return parser, labeller, seconds


def predict(parser, labeller, corpus, n_columns, weights):
    """Return trees labelled afterwards, and those found together with their labels for each weight."""
    code = {label: i for i, label in enumerate(labeller.classes_)}
    afterwards, together, gold = [], {weight: [] for weight in weights}, []
    structure = DependencyTree(single_root=True, n_labels=len(code))
    for X, y, _ in corpus.batches():
        scores = parser.decision_function(X)
        of_labels = log_softmax(labeller.decision_function(fold(X.values, n_columns)), axis=1)
        trees = parser.predict(X)
        best = of_labels[rows_of_arcs(X, trees)].argmax(axis=1)
        ends = np.cumsum([len(heads) for heads in trees])
        afterwards += [np.column_stack(pair) for pair in zip(trees, np.split(best, ends[:-1]))]
        for weight in weights:
            both = [
                own[:, :, None] + weight * of_labels[start:stop].reshape(*own.shape, -1)
                for own, start, stop in zip(scores, X.indptr, X.indptr[1:])
            ]
            together[weight] += map_inference(structure, both, n_jobs=2).structures
        gold += y
    named = [[code.get(token["deprel"], -1) for token in sentence] for sentence in corpus.sentences]
    return [np.column_stack(pair) for pair in zip(gold, named)], afterwards, together


def attachment(gold, trees):
    """Return UAS and LAS in percent."""
    heads = [[tree[:, 0] for tree in own] for own in (gold, trees)]
    return 100 * unlabeled_attachment_score(*heads), 100 * labeled_attachment_score(gold, trees)


def time_joint(corpus, n_columns, classes, n):
    """Return the seconds of an epoch over n sentences without labels, and with all labels of all arcs at once."""
    X, y = corpus.vectorizer.transform(corpus.sentences[:n]), corpus.heads[:n]
    code = {label: i for i, label in enumerate(classes)}
    labels = [[code[token["deprel"]] for token in sentence] for sentence in corpus.sentences[:n]]
    X = RaggedArray(fold(X.values, n_columns), X.indptr, shapes=X.shapes)
    found = []
    for structure, trees in (
        (DependencyTree(single_root=True), y),
        (DependencyTree(single_root=True, n_labels=len(classes)), [np.column_stack(p) for p in zip(y, labels)]),
    ):
        model = StructuredSparseMAPClassifier(structure, "margin_sparsemap", alpha=1e-3).partial_fit(X[:20], trees[:20])
        started = perf_counter()
        model.partial_fit(X, trees)
        found.append(perf_counter() - started)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--loss", default="margin_sparsemap")
    parser.add_argument("--alpha", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--features", type=int, default=2**22)
    parser.add_argument("--columns", type=int, default=2**18, help="of the labeller")
    parser.add_argument("--weights", nargs="+", type=float, default=[0.1, 0.3, 1.0])
    parser.add_argument("--most", type=int, default=None, help="use so many sentences of each part only")
    parser.add_argument("--joint", type=int, default=0, help="time joint learning on so many sentences")
    arguments = results.parse(parser)
    vectorizer = ArcVectorizer(dependency_templates(fine_pos="xpos"), n_features=arguments.features, n_jobs=2)
    folder = Path(arguments.data) / TREEBANKS["English"]
    parts = {p: Corpus(folder / f"{p}.conllu.gz", vectorizer, arguments.most) for p in ("train", "dev", "test")}
    classes = sorted(set(labels_of(parts["train"], range(len(parts["train"])))))
    if arguments.joint:
        without, joint = time_joint(parts["train"], arguments.columns, classes, arguments.joint)
        print(f"{arguments.joint} sentences, without features: {without:.1f} s without labels, {joint:.1f} s jointly")
    models = learn(parts, arguments.loss, arguments.alpha, arguments.epochs, arguments.columns, classes)
    gold, afterwards, together = predict(*models[:2], parts["dev"], arguments.columns, arguments.weights)
    weight = max(together, key=lambda w: labeled_attachment_score(gold, together[w]))
    found = {"dev": (gold, afterwards, together[weight])}
    gold, afterwards, together = predict(*models[:2], parts["test"], arguments.columns, [weight])
    found["test"] = gold, afterwards, together[weight]
    print(f"\n{len(classes)} labels, weight {weight:g}")
    print("| labels | UAS dev | LAS dev | UAS test | LAS test |")
    print("|---|---|---|---|---|")
    for place, name in ((1, "after the tree"), (2, "with the tree")):
        scores = [score for part in found.values() for score in attachment(part[0], part[place])]
        for measure, score in zip(("UAS", "LAS"), scores[2:]):
            results.record("labelled parsing", "UD English", f"{measure}, labels {name}", score, "%")
        print(f"| {name} | " + " | ".join(f"{score:.2f}" for score in scores) + " |")
    without, with_labels = np.median(models[2], axis=0)
    print(f"an epoch: {without:.1f} s without labels, {with_labels:.1f} s with labels")


if __name__ == "__main__":
    main()
