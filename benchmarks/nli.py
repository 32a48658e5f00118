"""Structured attention in a network that reads two sentences (Niculae et al. 2018, section 5.2; Niculae and Martins
2020, section 5.2), on SICK.

    python benchmarks/nli.py --data ../shared/data

Decomposable attention: each word is compared with its aligned words of the other sentence, and the sums decide
between entailment, neutral and contradiction. The alignment is two softmaxes; or one joint alignment for both
directions, rescaled to sum to 1: "matching" by SparseMAP, "LP-matching" with a choice for each word of the shorter
sentence and at most one for the others, "LP-sequence" with a chain over the shorter sentence as well, and a learned
score, 1 at the start, for steps to a neighbouring word. Or it is two sequences, as the first paper puts them into ESIM:
"sequential" is a chain over the words of each sentence, whose states are the other's words, with a learned score for
steps by -2 or less, -1, 0, 1, 2 or more words, and two each for where it begins and ends: 18 scores in the two
directions. Embeddings are learned.
Prints accuracy, the fraction of pairs of words that are aligned at all, and the CPU seconds of each epoch.
"""

import argparse
import csv
import gzip
import sys
from pathlib import Path
from time import process_time

import numpy as np
import results
import torch
from torch import nn

from sklearn_sparsemap.factors import AtMostOne, FactorGraph, StructureFactor, Xor
from sklearn_sparsemap.structures import LinearChain, Matching
from sklearn_sparsemap.torch import lp_sparsemap, sparsemap

ROOT = Path(__file__).resolve().parents[1]
FILES = {"train": "SICK_train", "dev": "SICK_trial", "test": "SICK_test_annotated"}
LABELS = ("NEUTRAL", "ENTAILMENT", "CONTRADICTION")
ATTENTIONS = ("softmax", "matching", "LP-matching", "LP-sequence", "sequential")


def read_pairs(path):
    """Return pairs of sentences, as lists of words, and the number of their label."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            (row["sentence_A"].lower().split(), row["sentence_B"].lower().split(),
             LABELS.index(row["entailment_judgment"].strip()))
            for row in rows
        ]  # fmt: skip


def lp_matching(shape):
    graph = FactorGraph()
    pairs = graph.variables(shape)
    graph.add(*[Xor(row) for row in pairs], *[AtMostOne(column) for column in pairs.T])
    return graph


def lp_sequence(shape):
    graph = FactorGraph()
    pairs = graph.variables(shape)
    graph.add(StructureFactor(LinearChain(), pairs, name="chain"), *[AtMostOne(column) for column in pairs.T])
    return graph


class Network(nn.Module):
    """Decomposable attention."""

    def __init__(self, attention, n_words, size, dropout, temperature, n_jobs):
        super().__init__()
        self.attention, self.options = attention, {"temperature": temperature, "n_jobs": n_jobs}
        self.embed = nn.Embedding(n_words, size, padding_idx=0)
        self.attend = nn.Sequential(nn.Dropout(dropout), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        self.compare = nn.Sequential(nn.Dropout(dropout), nn.Linear(4 * size, size), nn.ReLU())
        self.decide = nn.Sequential(nn.Dropout(dropout), nn.Linear(2 * size, size), nn.ReLU(), nn.Linear(size, 3))
        self.near = nn.Parameter(torch.ones(()))
        # Nine scores for each of the two directions.
        self.steps, self.starts, self.ends = (nn.Parameter(torch.zeros(2, n)) for n in (5, 2, 2))

    def align(self, scores, lengths):
        """Return the weights of pairs for the words of the first sentence, and for those of the second."""
        inside = [torch.arange(scores.shape[1 + k]) < lengths[:, k, None] for k in (0, 1)]
        if self.attention == "softmax":
            lowest = torch.finfo(scores.dtype).min
            rows, columns = inside[0][:, :, None], inside[1][:, None, :]
            return scores.masked_fill(~columns, lowest).softmax(2), scores.masked_fill(~rows, lowest).softmax(1)
        if self.attention == "sequential":
            turned = self.by_steps(scores.transpose(1, 2), lengths.flip(1), 1)
            return self.by_steps(scores, lengths, 0), turned.transpose(1, 2)
        if self.attention == "matching":
            joint = sparsemap(Matching(), scores, lengths, **self.options)
        else:
            joint = self.by_graph(scores, lengths)
        return tuple(joint / joint.sum(k, keepdim=True).clamp(min=1e-6) for k in (2, 1))

    def by_steps(self, scores, lengths, direction):
        """Return a soft sequence of words of the second sentence, one for each word of the first."""
        words = torch.arange(scores.shape[2])
        steps = self.steps[direction][(words - words[:, None]).clamp(-2, 2) + 2]
        # A first step from before the sentence, or a last one to behind it, counts as a step to the next word.
        start = self.starts[direction][words.clamp(max=1)]
        end = self.ends[direction][(words != lengths[:, 1, None] - 1).long()]
        return sparsemap(LinearChain(), scores, lengths, transitions=steps, start=start, end=end, **self.options)

    def by_graph(self, scores, lengths):
        """Return the joint alignment of a graph whose rows are the words of the shorter sentence."""
        n = max(scores.shape[1:])
        square = nn.functional.pad(scores, (0, n - scores.shape[2], 0, n - scores.shape[1]))
        turned = (lengths[:, 0] > lengths[:, 1])[:, None, None]
        square = torch.where(turned, square.transpose(1, 2), square)
        graph, additional = lp_matching, None
        if self.attention == "LP-sequence":
            steps = torch.arange(n)
            graph = lp_sequence
            additional = {"chain": {"transitions": self.near * ((steps[:, None] - steps).abs() == 1)}}
        joint = lp_sparsemap(graph, square, additional, lengths.sort(dim=1).values, **self.options)
        joint = torch.where(turned, joint.transpose(1, 2), joint)
        return joint[:, : scores.shape[1], : scores.shape[2]]

    def forward(self, first, second, lengths):
        """Return the scores of the labels, and the fraction of pairs of words that are aligned."""
        a, b = self.embed(first), self.embed(second)
        scores = self.attend(a) @ self.attend(b).transpose(1, 2) / a.shape[2] ** 0.5
        rows, columns = self.align(scores, lengths)
        sides = []
        for k, (own, other) in enumerate(((a, rows @ b), (b, columns.transpose(1, 2) @ a))):
            compared = self.compare(torch.cat([own, other, own * other, (own - other).abs()], 2))
            inside = torch.arange(own.shape[1]) < lengths[:, k, None]
            sides.append((compared * inside[..., None]).sum(1))
        real = (first > 0)[:, :, None] & (second > 0)[:, None, :]
        return self.decide(torch.cat(sides, 1)), ((rows > 0) & real).sum() / real.sum()


class Pairs:
    """Pairs of sentences as numbers of words, batch by batch."""

    def __init__(self, pairs, numbers):
        self.sides = [[torch.tensor([numbers.get(word, 1) for word in pair[k]]) for pair in pairs] for k in (0, 1)]
        self.lengths = torch.tensor([[len(pair[0]), len(pair[1])] for pair in pairs])
        self.labels = torch.tensor([pair[2] for pair in pairs])

    def __len__(self):
        return len(self.labels)

    def batch(self, places):
        """Return padded words of both sentences, lengths, and labels."""
        padded = (nn.utils.rnn.pad_sequence([side[i] for i in places], batch_first=True) for side in self.sides)
        return *padded, self.lengths[places], self.labels[places]


@torch.no_grad()
def evaluate(model, pairs):
    """Return the accuracy and the fraction of aligned pairs of words, in percent."""
    model.eval()
    right, shares = [], []
    for start in range(0, len(pairs), 64):
        *batch, labels = pairs.batch(np.arange(start, min(start + 64, len(pairs))))
        scores, share = model(*batch)
        right.append(scores.argmax(1) == labels)
        shares.append(float(share))
    return 100 * float(torch.cat(right).double().mean()), 100 * np.mean(shares)


def run(attention, parts, n_words, args, seed):
    """Train one network; return accuracy, fraction of aligned pairs, and seconds of an epoch."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    train = parts["train"]
    model = Network(attention, n_words, args.size, args.dropout, args.temperature, args.jobs)
    optimizer = torch.optim.Adam(model.parameters(), args.rate)
    best, seconds = (-1.0,), []
    for epoch in range(args.epochs):
        model.train()
        started = process_time()
        for places in np.array_split(rng.permutation(len(train)), len(train) // args.batch):
            *batch, labels = train.batch(places)
            loss = nn.functional.cross_entropy(model(*batch)[0], labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        seconds.append(process_time() - started)
        dev, share = evaluate(model, parts["dev"])
        print(f"{attention}, seed {seed}, epoch {epoch + 1}: dev {dev:.2f}, aligned {share:.1f} %, {seconds[-1]:.1f} s",
              flush=True)  # fmt: skip
        if dev > best[0]:
            best = dev, share, epoch + 1, {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(best[3])
    accuracy, share = evaluate(model, parts["test"])
    if attention == "LP-sequence":
        print(f"learned score of steps to a neighbouring word: {float(model.near.detach()):.2f}")
    print(f"{attention}, seed {seed}: dev {best[0]:.2f}, aligned {best[1]:.1f} %, epoch {best[2]}, "
          f"test {accuracy:.2f}, aligned {share:.1f} %, {np.median(seconds):.1f} s an epoch", flush=True)  # fmt: skip
    return accuracy, share, np.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with sick/")
    parser.add_argument("--attentions", nargs="+", default=ATTENTIONS, choices=ATTENTIONS)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=2e-3, help="of Adam")
    parser.add_argument("--temperature", type=float, default=0.5, help="of the structured attentions")
    parser.add_argument("--jobs", type=int, default=1, help="threads of the layer")
    args = results.parse(parser)
    folder = args.data / "sick"
    if not folder.exists():
        sys.exit(f"no {folder}; name the folder that has sick/ with --data")
    torch.set_num_threads(1)
    parts = {part: read_pairs(folder / f"{name}.txt.gz") for part, name in FILES.items()}
    words = sorted({word for a, b, _ in parts["train"] for word in a + b})
    # 0 is padding, 1 a word that was not seen in training.
    numbers = {word: i + 2 for i, word in enumerate(words)}
    parts = {part: Pairs(pairs, numbers) for part, pairs in parts.items()}
    lines = []
    for attention in args.attentions:
        figures = np.array([run(attention, parts, len(numbers) + 2, args, seed) for seed in args.seeds])
        accuracy, share, _ = figures.mean(0)
        spread = f" ± {figures[:, 0].std(ddof=1):.2f}" if len(figures) > 1 else ""
        results.record("attention", "SICK", f"accuracy, {attention}", accuracy, "%", seeds=len(args.seeds))
        results.record("attention", "SICK", f"aligned pairs of words, {attention}", share, "%", seeds=len(args.seeds))
        lines.append(f"| {attention} | {accuracy:.2f}{spread} | {share:.1f} % | {np.median(figures[:, 2]):.1f} s |")
    print("\n| attention | accuracy | aligned pairs of words | an epoch |\n|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
