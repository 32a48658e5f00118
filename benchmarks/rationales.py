"""Latent rationales on CoNLL-2002, Spanish: does a sentence name a person, and which words say so?

    python benchmarks/rationales.py --data ../shared/data

A network of two parts is trained on the answer alone. The first part reads the sentence and scores each word. A layer
selects at most `--budget` words by these scores. The second part decides from the selected words alone, each by itself.
Plausibility is the overlap of the selected words with the gold names of persons, in the sentences that have one. The
layers:

- SequenceBudget: a score for runs and the budget as one structure, whose SparseMAP is exact;
- Subset: SparseMAP over sets of at most that many words;
- top-k: the words with the highest positive scores, with a straight-through gradient by the sigmoid;
- sparsemax: the words share a weight of 1; any number of words may have some (no budget);
- relaxed graph: the scores and the budget of SequenceBudget as factors, by `lp_sparsemap`.

The first and the last learn one score for neighbours of one kind. Networks are tested without mixtures: they read the
best structure, or the selection of the relaxation at a temperature near 0. The temperature of training is chosen on
a tenth of the training sentences, by this accuracy; gold names are used for the figures only. Prints means over the
seeds with intervals of 95 % (Student's t).
"""

import argparse
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np
import results
import torch
from torch import nn

from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.factors import AtMost, FactorGraph, Pair
from sklearn_sparsemap.structures import SequenceBudget, Simplex, Subset
from sklearn_sparsemap.torch import lp_sparsemap, sparsemap

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("SequenceBudget", "Subset", "top-k", "sparsemax", "relaxed graph")
BATCH = 32
LONGEST = 60  # words; the rest of a sentence is cut off
# Factor of the temperature at which the best structure is all that SparseMAP selects.
SHARP = 1e-4
N_SHAPES = 6


def shape_of(word, is_first):
    """Return the number of a word's shape."""
    if word[0].isupper():
        return 3 if is_first else 1 + (word.isupper() and len(word) > 1)
    return 4 if word[0].isdigit() else 5 if not word[0].isalpha() else 0


def read(path, vocabulary=None):
    """Return sentences as arrays (words, shapes, suffixes, gold), and the vocabularies."""
    X, y = load_conll(path, columns=("word", "pos", "label"))
    X = [[token["word"] for token in own[:LONGEST]] for own in X]
    if vocabulary is None:
        vocabulary = [count(word.lower() for own in X for word in own), count(word[-3:] for own in X for word in own)]
    known, suffixes = vocabulary
    samples = []
    for own, labels in zip(X, y):
        gold = np.array([label.endswith("PER") for label in labels[:LONGEST]])
        rows = [(known.get(w.lower(), 1), shape_of(w, i == 0), suffixes.get(w[-3:], 1)) for i, w in enumerate(own)]
        samples.append((np.array(rows), gold))
    return samples, vocabulary


def count(words):
    """Number the words that occur at least twice, from 2 on; 0 is padding, 1 is any other word."""
    values, counts = np.unique(list(words), return_counts=True)
    return {word: i for i, word in enumerate(values[counts > 1], 2)}


def of_similar_lengths(samples, rng):
    """Return a random order in which neighbours have similar lengths, so that batches have little padding."""
    order = rng.permutation(len(samples))
    pools = [order[start : start + 10 * BATCH] for start in range(0, len(order), 10 * BATCH)]
    pools = [sorted(pool, key=lambda i: len(samples[i][0])) for pool in pools]
    groups = [pool[start : start + BATCH] for pool in pools for start in range(0, len(pool), BATCH)]
    return [i for g in rng.permutation(len(groups)) for i in groups[g]]


def batches(samples, order):
    """Yield padded tensors (rows, lengths, answers) and the gold words."""
    for start in range(0, len(order), BATCH):
        own = [samples[i] for i in order[start : start + BATCH]]
        rows = nn.utils.rnn.pad_sequence([torch.tensor(r) for r, _ in own], batch_first=True)
        answers = torch.tensor([float(gold.any()) for _, gold in own])
        yield rows, torch.tensor([len(r) for r, _ in own]), answers, [gold for _, gold in own]


@cache
def graph_of(shape, budget):
    """Return a graph of neighbours and a budget."""
    graph = FactorGraph()
    u = graph.variables(shape)
    graph.add(AtMost(u, budget), Pair(u[:-1], u[1:], name="runs", tied=True))
    return graph


class Network(nn.Module):
    """Scores words, selects some, and decides from these."""

    def __init__(self, layer, budget, sizes, temperature, size=48):
        super().__init__()
        self.layer, self.budget, self.temperature = layer, budget, temperature
        self.embed = nn.ModuleList(nn.Embedding(n, d) for n, d in zip(sizes, (size, 8, 16)))
        width = size + 24
        self.context = nn.Sequential(
            nn.Dropout(0.2), nn.Conv1d(width, size, 3, padding=1), nn.ReLU(), nn.Conv1d(size, 1, 3, padding=1)
        )
        self.value = nn.Sequential(nn.Dropout(0.2), nn.Linear(width, size), nn.ReLU(), nn.Linear(size, 1))
        # Begin with more words that score above 0 than may be read, so that all layers begin with gradients.
        nn.init.constant_(self.context[-1].bias, 1.0)
        self.runs, self.bias = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(-0.5))

    def select(self, scores, lengths, temperature):
        """Return the weight of each word, between 0 and 1."""
        if self.layer == "sparsemax":
            return sparsemap(Simplex(), scores, lengths, temperature)
        if self.layer == "Subset":
            return sparsemap(Subset(max_size=self.budget), scores, lengths, temperature)
        if self.layer == "SequenceBudget":
            pairs = torch.stack([torch.zeros_like(scores), scores], dim=-1)
            transitions = self.runs * torch.eye(2)
            budget = SequenceBudget(self.budget)
            return sparsemap(budget, pairs, lengths, temperature, transitions=transitions)[..., 1]
        inside = torch.arange(scores.shape[1]) < lengths[:, None]
        if self.layer == "relaxed graph":
            # A chain's score of equal neighbours, u v + (1 - u) (1 - v), has a part for each word and one for both.
            words = torch.arange(scores.shape[1])
            n_neighbours = (words > 0).float() + (words + 1 < lengths[:, None]).float()
            own = scores - self.runs * n_neighbours
            graph = lambda shape: graph_of(tuple(shape), self.budget)  # noqa: E731
            return lp_sparsemap(graph, own, {"runs": 2.0 * self.runs}, lengths, temperature)
        soft = torch.sigmoid(scores / temperature) * inside
        kept = scores.masked_fill(~inside, -torch.inf)
        top = kept.topk(min(self.budget, scores.shape[1]), dim=1)
        hard = torch.zeros_like(soft).scatter(1, top.indices, (top.values > 0).to(soft.dtype))
        return hard + soft - soft.detach()

    def forward(self, rows, lengths, *, sharp=False):
        """Return the scores of the answer, and the weights of the words."""
        words = torch.cat([embed(rows[..., k]) for k, embed in enumerate(self.embed)], dim=-1)
        scores = self.context(words.transpose(1, 2))[:, 0]
        factor = SHARP if sharp and self.layer != "sparsemax" else 1.0
        weights = self.select(scores, lengths, self.temperature * factor).to(scores.dtype)
        return self.bias + (weights * self.value(words)[..., 0]).sum(1), weights


def evaluate(network, samples):
    """Return accuracy, and for sentences with a person token F1, IoU, words read, runs, fraction over budget."""
    network.eval()
    right, found = [], []
    with torch.no_grad():
        for rows, lengths, answers, gold in batches(samples, range(len(samples))):
            scores, weights = network(rows, lengths, sharp=True)
            right += ((scores > 0) == (answers > 0.5)).tolist()
            for own, is_name in zip(weights.numpy(), gold):
                if is_name.any():
                    found.append(overlap(own[: len(is_name)] > 1e-6, is_name, network.budget))
    return np.append(np.mean(right), np.mean(found, axis=0))


def overlap(chosen, gold, budget):
    both, either = (chosen & gold).sum(), (chosen | gold).sum()
    n_runs = (np.diff(chosen.astype(int), prepend=0) == 1).sum()
    return 2.0 * both / (chosen.sum() + gold.sum()), both / either, chosen.sum(), n_runs, chosen.sum() > budget


def train(layer, samples, sizes, args, temperature, seed):
    """Return a trained network; `args` are those of the command line."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = Network(layer, args.budget, sizes, temperature)
    optimizer = torch.optim.Adam(network.parameters(), lr=args.rate)
    loss = nn.BCEWithLogitsLoss()
    for _ in range(args.epochs):
        network.train()
        for rows, lengths, answers, _ in batches(samples, of_similar_lengths(samples, rng)):
            optimizer.zero_grad()
            loss(network(rows, lengths)[0], answers).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
    return network


def as_interval(values):
    """Return the mean of an array of seeds with half the width of its interval."""
    return f"{np.mean(values):.1f} ± {results.half_width(values):.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with conll2002/")
    parser.add_argument("--limit", type=int, default=3000, help="number of training sentences")
    parser.add_argument("--budget", type=int, default=4, help="maximum number of words that may be read")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--layers", nargs="+", default=LAYERS, choices=LAYERS)
    parser.add_argument("--temperatures", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--rate", type=float, default=1e-2, help="learning rate of Adam")
    args = results.parse(parser)
    torch.set_num_threads(1)

    folder = args.data / "conll2002"
    samples, vocabulary = read(folder / "esp.train.gz")
    test, _ = read(folder / "esp.testb.gz", vocabulary)
    sizes = len(vocabulary[0]) + 2, N_SHAPES, len(vocabulary[1]) + 2
    order = np.random.default_rng(0).permutation(len(samples))[: args.limit]
    samples = [samples[i] for i in order]
    development, training = samples[: len(samples) // 10], samples[len(samples) // 10 :]
    print(f"{len(training)} training, {len(development)} development, {len(test)} test sentences")
    print("\n| layer | accuracy | token F1 | IoU | words read | runs | over budget | CPU s | temperature |")
    print("|" + "---|" * 9)
    for layer in args.layers:
        tried = {}
        for temperature in args.temperatures:
            # A seed that is not among those of the figures.
            network = train(layer, training, sizes, args, temperature, args.seeds)
            tried[temperature] = evaluate(network, development)[0]
        best = max(tried, key=tried.get)
        tested, begun = [], process_time()
        for seed in range(args.seeds):
            tested.append(evaluate(train(layer, training, sizes, args, best, seed), test))
        seconds, (right, f1, iou, n_words, n_runs, over) = process_time() - begun, np.array(tested).T
        for measure, values in (("accuracy", right), ("token F1", f1)):
            results.record("rationales", "CoNLL-2002, Spanish", f"{measure}, {layer}", 100 * values.mean(), "%",
                           seeds=args.seeds, interval=results.half_width(100 * values))  # fmt: skip
        print(
            f"| {layer} | {as_interval(100 * right)} | {as_interval(100 * f1)} | {as_interval(100 * iou)} | "
            f"{n_words.mean():.1f} | {n_runs.mean():.2f} | {100 * over.mean():.1f} % | {seconds / args.seeds:.0f} | "
            f"{best:g} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
