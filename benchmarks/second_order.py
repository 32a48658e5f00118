"""Dependency parsing of first and second order on UD treebanks, with the same features of arcs
(Martins et al. 2013; LP-SparseMAP in place of AD3).

    python benchmarks/second_order.py --data ../shared/data

The parser of second order is `factors.second_order_tree`: a tree, and a head automaton for each word and side whose
scores have features of the head and two consecutive modifiers ("siblings"), and of the head of the head and a modifier
("grandparents", which has both). A seed draws the training sentences (`--most`) and their order, the same for all
parsers. The number of epochs is chosen for each loss, parser and seed by the attachment score on the development part.
Prints, for each treebank and loss: attachment scores on the test part and the gain over first order, with intervals of
95 % over the seeds (Student's t); CPU milliseconds a sentence of training (without features) and of prediction; the
fraction of test sentences whose linear relaxation is integral; and the seconds of training with features, by the CPU
and by the clock.
"""

import argparse
from copy import deepcopy
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import results

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conllu
from sklearn_sparsemap.factors import second_order_tree
from sklearn_sparsemap.features import (
    ArcVectorizer,
    GrandparentVectorizer,
    SiblingVectorizer,
    dependency_templates,
    grandparent_templates,
    sibling_templates,
)
from sklearn_sparsemap.inference._graph.map import relax
from sklearn_sparsemap.inference._graph.problems import problems_by_graph
from sklearn_sparsemap.metrics import unlabeled_attachment_score
from sklearn_sparsemap.structures import DependencyTree

TREEBANKS = {"English": "ud/en_ewt-r2.0", "Chinese": "ud/zh_gsd-r1.4", "Turkish": "ud/tr_imst-r2.0"}
LOSSES = "sparsemap", "margin_sparsemap", "hinge"
FIRST = "first order"
_ARCS = ArcVectorizer(dependency_templates(fine_pos="xpos"), n_features=2**20)
_SIBLINGS = SiblingVectorizer(sibling_templates(fine_pos="xpos"), dtype=np.float32)
_GRANDPARENTS = GrandparentVectorizer(grandparent_templates(fine_pos="xpos"), dtype=np.float32)
# The parsers, and the features of each.
VECTORIZERS = {
    FIRST: [_ARCS],
    "siblings": [_ARCS, _SIBLINGS],
    "grandparents": [_ARCS, _SIBLINGS, _GRANDPARENTS],
}
PARTS = "train", "dev", "test"
BATCH = 250
# Sentences by which the fraction of integral relaxations is counted.
SOME = 200
# Distance from 0 and 1 within which a marginal is integral.
INTEGRAL = 1e-4


class Corpus:
    """One part of a treebank, whose features are made a mini-batch at a time."""

    def __init__(self, path, vectorizers):
        self.sentences, self.heads = load_conllu(path)
        self.vectorizers = vectorizers

    def batches(self, order):
        """Yield features and heads of the sentences with these numbers."""
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            parts = [vectorizer.transform([self.sentences[i] for i in places]) for vectorizer in self.vectorizers]
            X = parts[0] if len(parts) == 1 else list(zip(*parts))
            yield X, [self.heads[i] for i in places]


def parse(model, corpus, most):
    """Return the attachment score of the first sentences in percent, and CPU milliseconds a sentence."""
    trees, seconds = [], 0.0
    for X, _ in corpus.batches(range(len(corpus.heads))[:most]):
        started = process_time()
        trees.extend(model.predict(X))
        seconds += process_time() - started
    return 100 * unlabeled_attachment_score(corpus.heads[: len(trees)], trees), 1e3 * seconds / len(trees)


def fraction_integral(model, corpus):
    """Return the fraction of the first sentences whose linear relaxation is a tree."""
    found = []
    for X, _ in corpus.batches(range(len(corpus.heads))[:SOME]):
        graphs = [second_order_tree(*sample) for sample in X]
        scores = [(sample[0] @ model.coef_.ravel()).reshape(graph["tree"].shape) for sample, graph in zip(X, graphs)]
        for problems in problems_by_graph(graphs, scores, model.additional_scores_)[0]:
            u = relax(problems, 1e-6).marginals
            found.append((np.minimum(u, 1.0 - u) < INTEGRAL).all())
    return np.mean(found)


def train(parser, loss, corpora, arguments, seed):
    """Return the figures of the best epoch on the development part."""
    structure = DependencyTree(single_root=True) if parser == FIRST else second_order_tree
    model = StructuredSparseMAPClassifier(
        structure, loss, alpha=arguments.alpha, solver="adagrad", n_jobs=arguments.jobs
    )
    training, development, test = corpora
    rng, best, fit, cpu, clock = np.random.default_rng(seed), {"dev": -1.0}, 0.0, 0.0, 0.0
    drawn = rng.permutation(len(training.heads))[: arguments.most]
    for epoch in range(1, arguments.epochs + 1):
        begun, begun_clock = process_time(), perf_counter()
        for X, y in training.batches(rng.permutation(drawn)):
            started = process_time()
            model.partial_fit(X, y)
            fit += process_time() - started
        cpu, clock = cpu + process_time() - begun, clock + perf_counter() - begun_clock
        dev, _ = parse(model, development, arguments.held)
        print(f"  {parser}, {loss}, seed {seed}, epoch {epoch}: {dev:.2f} ({cpu:.0f} CPU s)", flush=True)
        if dev > best["dev"]:
            best = {"dev": dev, "epoch": epoch, "model": deepcopy(model)}
    model = best.pop("model")
    best["test"], best["predict_ms"] = parse(model, test, arguments.held)
    best["train_ms"] = 1e3 * fit / len(drawn) / arguments.epochs
    best["integral"] = 1.0 if parser == FIRST else fraction_integral(model, test)
    return best | {"cpu": cpu, "clock": clock, "n_sentences": len(drawn)}


def show(name, loss, parser, found, gains):
    """Print and record the figures of all seeds."""
    mean = {key: np.mean([one[key] for one in found]) for key in found[0]}
    epochs = ", ".join(str(one["epoch"]) for one in found)
    data, test = f"UD {name}, {mean['n_sentences']:.0f} sentences", [one["test"] for one in found]
    gain = f"{np.mean(gains):.2f} ± {results.half_width(gains):.2f}" if parser != FIRST else ""
    print(
        f"| {name} | {loss} | {parser} | {epochs} | {mean['dev']:.2f} | {mean['test']:.2f} ± "
        f"{results.half_width(test):.2f} | {gain} | {mean['train_ms']:.1f} | {mean['predict_ms']:.1f} | "
        f"{100 * mean['integral']:.0f} % | {mean['cpu']:.0f} | {mean['clock']:.0f} |",
        flush=True,
    )
    if parser == FIRST:
        return
    seeds = {"seeds": len(found), "interval": results.half_width(gains) if len(found) > 1 else None}
    task, of, first = "parsing of second order", f"{parser}, {loss}", mean["test"] - np.mean(gains)
    results.record(task, data, f"UAS, {of}", mean["test"], "%", FIRST, first, **seeds)
    results.record(task, data, f"integral relaxations, {of}", 100 * mean["integral"], "%", seeds=len(found))
    results.record(task, data, f"prediction of a sentence, CPU, {of}", mean["predict_ms"], "ms", seeds=len(found))
    for clock, seconds in (("CPU", mean["cpu"]), ("clock", mean["clock"])):
        results.record(task, data, f"training with features, {clock}, {of}", seconds, "s", seeds=len(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--treebanks", nargs="+", default=list(TREEBANKS), choices=list(TREEBANKS))
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    parser.add_argument("--parsers", nargs="+", default=["siblings"], choices=list(VECTORIZERS)[1:])
    parser.add_argument("--alpha", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--most", type=int, default=None, help="draw so many sentences of the training part only")
    parser.add_argument("--held", type=int, default=None, help="use so many sentences of the other parts only")
    arguments = results.parse(parser)
    print("| treebank | loss | parser | epochs | dev | test | gain ", end="")
    print("| training, ms | prediction, ms | integral | CPU s | clock s |\n|" + "---|" * 12, flush=True)
    for name in arguments.treebanks:
        folder = Path(arguments.data) / TREEBANKS[name]
        for loss in arguments.losses:
            first = None
            for kind in (FIRST, *arguments.parsers):
                corpora = [Corpus(folder / f"{part}.conllu.gz", VECTORIZERS[kind]) for part in PARTS]
                found = [train(kind, loss, corpora, arguments, seed) for seed in range(arguments.seeds)]
                first = first or found
                show(name, loss, kind, found, [one["test"] - base["test"] for one, base in zip(found, first)])


if __name__ == "__main__":
    main()
