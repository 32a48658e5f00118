"""Words of two sentences that say nearly the same, aligned one to one: links decided jointly, or word by word.

    python benchmarks/alignment.py --data ../shared/data

A small network scores pairs of words by simple features of the pair and its neighbours. Each word of the shorter
sentence takes one of the other's words, or none, which is a column of its own with a learned score. The same network is
trained with softmax or sparsemax word by word, and with SparseMAP's and the structured hinge loss over matchings, in
which no word is taken twice. All scores are then decided in both ways. Prints precision, recall and F1 of links,
against all gold links of the test part.
"""

import argparse
import gzip
import sys
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
import results
import torch
from torch import nn

from sklearn_sparsemap import map_inference
from sklearn_sparsemap.structures import Matching, Simplex
from sklearn_sparsemap.torch import FenchelYoungLoss

ROOT = Path(__file__).resolve().parents[1]
SETS = ("wiki", "mtref")


def read_pairs(path):
    """Return pairs of sentences, as lists of words, and their links; the shorter one first."""
    pairs = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            _, first, _, second, _, _, _, links = line.rstrip("\n").split("\t")[:8]
            first, second = first.split(), second.split()
            gold = [tuple(map(int, link.split("-"))) for link in links.split()]
            if len(first) > len(second):
                first, second, gold = second, first, [(j, i) for i, j in gold]
            pairs.append((first, second, set(gold)))
    return pairs


@cache
def likeness(first, second):
    """Return the similarity of the spelling of two words."""
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def features(first, second, frequencies):
    """Return the features of all pairs of words: (len(first), len(second), n_features)."""
    alike = np.array([[likeness(a, b) for b in second] for a in first])
    same = alike == 1.0
    places = [np.arange(len(words)) / max(len(words) - 1, 1) for words in (first, second)]
    apart = np.abs(np.subtract.outer(*places))
    padded = {}
    for name, table in (("same", same.astype(float)), ("alike", alike)):
        padded[name] = np.pad(table, 2)
    n, m = alike.shape
    # The similarities of the neighbours on the same diagonal.
    around = [padded[name][2 + k : 2 + k + n, 2 + k : 2 + k + m] for name in padded for k in (-2, -1, 1, 2)]
    rare = [np.array([-np.log(frequencies.get(word, 0.5)) for word in words]) for words in (first, second)]
    prefix = np.array([[a[:3] == b[:3] for b in second] for a in first])
    marks = [np.array([not word[0].isalnum() for word in words]) for words in (first, second)]
    # How often the word is in the other sentence: one that is there once needs no context.
    often = same.sum(1)[:, None], same.sum(0)[None, :]
    columns = [same, alike, alike**2, prefix, apart, apart**2, *around, same / np.maximum(1, np.maximum(*often)),
               same * apart,
               alike - alike.max(1, keepdims=True), alike - alike.max(0, keepdims=True),
               0.1 * rare[0][:, None], 0.1 * rare[1][None, :], marks[0][:, None], marks[1][None, :],
               marks[0][:, None] != marks[1][None, :]]  # fmt: skip
    return np.stack([np.broadcast_to(column, alike.shape) for column in columns], axis=2).astype(np.float32)


class Part:
    """One part of a set, with features; `gold` is a partner for each row, the last column for none."""

    def __init__(self, pairs, frequencies):
        self.links = [links for _, _, links in pairs]
        self.X = [torch.from_numpy(features(first, second, frequencies)) for first, second, _ in pairs]
        self.gold = []
        for X, links in zip(self.X, self.links):
            partners, taken = np.full(len(X), -1), set()
            # If a word has several gold partners, it takes the first free one.
            for i, j in sorted(links):
                if partners[i] < 0 and j not in taken:
                    partners[i] = j
                    taken.add(j)
            self.gold.append(partners)

    def __len__(self):
        return len(self.X)


class Scorer(nn.Module):
    """Scores of pairs, and of having no partner."""

    def __init__(self, n_features, hidden):
        super().__init__()
        self.pairs = nn.Sequential(nn.Linear(n_features, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.none = nn.Parameter(torch.zeros(1))

    def forward(self, X):
        """Return the scores of one pair of sentences: (rows, columns)."""
        return self.pairs(X)[..., 0]


def with_own_columns(scores, none):
    """Return scores with a column for each row, in which that row alone has no partner."""
    n = len(scores)
    own = torch.full((n, n), -torch.inf, dtype=scores.dtype)
    return torch.cat([scores, own.masked_fill(torch.eye(n, dtype=torch.bool), 0.0) + none], 1)


def loss_of(name, model, X, gold):
    """Return the loss of a pair of sentences."""
    scores = model(X)
    n, m = scores.shape
    if name in ("softmax", "sparsemax"):
        joined = torch.cat([scores, model.none.expand(n, 1)], 1)
        target = torch.from_numpy(np.where(gold < 0, m, gold))
        if name == "softmax":
            return nn.functional.cross_entropy(joined, target, reduction="sum")
        return FenchelYoungLoss(Simplex(), reduction="sum")(joined, target)
    target = torch.from_numpy(np.where(gold < 0, m + np.arange(n), gold))[None]
    loss = "sparsemap" if name == "SparseMAP" else "hinge"
    return FenchelYoungLoss(Matching(), loss)(with_own_columns(scores, model.none)[None], target)


@torch.no_grad()
def evaluate(model, part):
    """Return precision, recall and F1 of rows by themselves, and of matchings."""
    counts = np.zeros((2, 3))
    tables = [model(X) for X in part.X]
    joint = map_inference(Matching(), [with_own_columns(table, model.none).double().numpy() for table in tables])
    for table, links, matching in zip(tables, part.links, joint):
        m = table.shape[1]
        best, none = table.argmax(1).numpy(), (table.max(1).values < model.none).numpy()
        by_rows = {(i, int(j)) for i, j in enumerate(best) if not none[i]}
        by_all = {(i, int(j)) for i, j in enumerate(matching.structure) if j < m}
        for row, found in zip(counts, (by_rows, by_all)):
            row += len(found & links), len(found), len(links)
    right, found, gold = counts.T
    precision, recall = right / found, right / gold
    return 100 * np.stack([precision, recall, 2 * precision * recall / (precision + recall)], axis=1)


def run(name, parts, args, seed):
    """Train with one loss; return the figures on the test part of the epoch that was best on the development part."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = Scorer(parts["train"].X[0].shape[2], args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), args.rate)
    train = parts["train"]
    best, started = None, perf_counter()
    for epoch in range(args.epochs):
        for places in np.array_split(rng.permutation(len(train)), max(1, len(train) // args.batch)):
            loss = sum(loss_of(name, model, train.X[i], train.gold[i]) for i in places) / len(places)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        # Each loss is judged by the way of deciding that it was trained for.
        dev = evaluate(model, parts["dev"])[int(name in ("SparseMAP", "hinge")), 2]
        if best is None or dev > best[0]:
            best = dev, epoch + 1, evaluate(model, parts["test"])
    seconds = (perf_counter() - started) / args.epochs
    print(f"{name}, seed {seed}: dev {best[0]:.2f}, epoch {best[1]}, {seconds:.1f} s an epoch, test by rows "
          f"{best[2][0].round(2)}, jointly {best[2][1].round(2)}", flush=True)  # fmt: skip
    return best[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    losses = ["softmax", "sparsemax", "SparseMAP", "hinge"]
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with multimwa/")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--losses", nargs="+", default=losses, choices=losses)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=3e-3, help="of Adam")
    args = results.parse(parser)
    torch.set_num_threads(1)
    lines = []
    for name in args.sets:
        folder = args.data / "multimwa"
        if not folder.exists():
            sys.exit(f"no {folder}; name the folder that has multimwa/ with --data")
        pairs = {part: read_pairs(folder / f"{name}-{part}.tsv.gz") for part in ("train", "dev", "test")}
        words, counts = np.unique([w for a, b, _ in pairs["train"] for w in a + b], return_counts=True)
        frequencies = dict(zip(words.tolist(), (counts / 10).tolist()))
        parts = {part: Part(own, frequencies) for part, own in pairs.items()}
        one_to_one = [sum(p >= 0 for g in part.gold for p in g) / sum(map(len, part.links)) for part in parts.values()]
        print(f"{name}: {', '.join(f'{part} {len(own)}' for part, own in parts.items())}; "
              f"{100 * one_to_one[2]:.1f} % of the test's links one to one", flush=True)  # fmt: skip
        for loss in args.losses:
            runs = np.array([run(loss, parts, args, seed) for seed in args.seeds])
            for way, figures in zip(("word by word", "jointly"), runs.transpose(1, 2, 0)):
                spread = f" ± {figures[2].std(ddof=1):.2f}" if len(args.seeds) > 1 else ""
                p, r, f = figures.mean(axis=1)
                results.record("links of words", name, f"F1, {loss}, {way}", f, "%", seeds=len(args.seeds))
                lines.append(f"| {name} | {loss} | {way} | {p:.2f} | {r:.2f} | {f:.2f}{spread} |")
    print("\n| set | loss | links decided | precision | recall | F1 |\n|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
