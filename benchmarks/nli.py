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

    python benchmarks/nli.py --network decomposable --set SNLI      # table 3 of Niculae and Martins 2020
    python benchmarks/nli.py --network ESIM --set SNLI              # table 2 of Niculae et al. 2018

train the published networks. "decomposable" has 130,803 weights and embeddings of 300; the joint alignment serves both
directions as it is, and no score is divided by the root of the dimension. "ESIM" has BiLSTMs of 150 units in each
direction and layers of 300, dropout 0.5 and batches of 16, and is trained by gradient descent at rates of 2^-6 to 2^-3,
which fall by a tenth after each epoch that is not the best. The best rate on the validation part is chosen for each
seed. SNLI has no training part here: nine tenths of its validation part are learned from, the rest validates, and the
test part is the published one. Embeddings are learned, because those of GloVe are not at hand. ``--align`` prints the
alignment of two sentences by each trained network (figures 4 and 5), ``--processes`` trains networks side by side.
"""

import argparse
import csv
import gzip
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
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
RATES = {"small": [2e-3], "decomposable": [1e-3], "ESIM": [2**-6, 2**-5, 2**-4, 2**-3]}
# Two sentences to align.
SENTENCES = "a man is playing a guitar on the street", "the guitar is being played by a man"
DECAY = 0.9  # of the rate of ESIM after an epoch that is not the best


def read_pairs(path):
    """Return pairs of sentences, as lists of words, and the number of their label."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            (row["sentence_A"].lower().split(), row["sentence_B"].lower().split(),
             LABELS.index(row["entailment_judgment"].strip()))
            for row in rows
        ]  # fmt: skip


@cache
def read(folder, name):
    """Return the parts of a data set: lists of pairs of sentences with labels."""
    if name == "SICK":
        return {part: read_pairs(folder / "sick" / f"{file}.txt.gz") for part, file in FILES.items()}
    dev, test = (read_lines(folder / "snli" / f"{part}.txt.gz") for part in ("dev", "test"))
    order = np.random.default_rng(0).permutation(len(dev))
    cut = len(dev) // 10
    return {"train": [dev[i] for i in order[cut:]], "dev": [dev[i] for i in order[:cut]], "test": test}


def read_lines(path):
    """Return pairs of sentences of SNLI, as lists of words, and the number of their label."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [(first.split(), second.split(), int(label)) for first, second, label in rows]


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

    joint_as_it_is = False

    def __init__(self, attention, n_words, args):
        super().__init__()
        size, dropout = args.size, args.dropout
        self.attention, self.options = attention, {"temperature": args.temperature, "n_jobs": args.jobs}
        self.add_layers(n_words, size, dropout)
        self.near = nn.Parameter(torch.ones(()))
        # Nine scores for each of the two directions.
        self.steps, self.starts, self.ends = (nn.Parameter(torch.zeros(2, n)) for n in (5, 2, 2))

    def add_layers(self, n_words, size, dropout):
        self.embed = nn.Embedding(n_words, size, padding_idx=0)
        self.attend = nn.Sequential(nn.Dropout(dropout), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        self.compare = nn.Sequential(nn.Dropout(dropout), nn.Linear(4 * size, size), nn.ReLU())
        self.decide = nn.Sequential(nn.Dropout(dropout), nn.Linear(2 * size, size), nn.ReLU(), nn.Linear(size, 3))

    def align(self, scores, lengths):
        """Return the weights of pairs for the words of the first sentence, and for those of the second."""
        if self.attention == "softmax":
            inside = [(torch.arange(scores.shape[1 + k]) < lengths[:, k, None]).to(scores.device) for k in (0, 1)]
            lowest = torch.finfo(scores.dtype).min
            rows, columns = inside[0][:, :, None], inside[1][:, None, :]
            return scores.masked_fill(~columns, lowest).softmax(2), scores.masked_fill(~rows, lowest).softmax(1)
        device, scores = scores.device, scores.cpu()
        # Inference is compiled for the CPU.
        return tuple(own.to(device) for own in self.align_jointly(scores, lengths))

    def align_jointly(self, scores, lengths):
        """Return the same of structured attention."""
        if self.attention == "sequential":
            turned = self.by_steps(scores.transpose(1, 2), lengths.flip(1), 1)
            return self.by_steps(scores, lengths, 0), turned.transpose(1, 2)
        if self.attention == "matching":
            joint = sparsemap(Matching(), scores, lengths, **self.options)
        else:
            joint = self.by_graph(scores, lengths)
        if self.joint_as_it_is:
            return joint, joint
        return tuple(joint / joint.sum(k, keepdim=True).clamp(min=1e-6) for k in (2, 1))

    def by_steps(self, scores, lengths, direction):
        """Return a soft sequence of words of the second sentence, one for each word of the first."""
        words = torch.arange(scores.shape[2])
        steps = self.steps.cpu()[direction][(words - words[:, None]).clamp(-2, 2) + 2]
        # A first step from before the sentence, or a last one to behind it, counts as a step to the next word.
        start = self.starts.cpu()[direction][words.clamp(max=1)]
        end = self.ends.cpu()[direction][(words != lengths[:, 1, None] - 1).long()]
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
            additional = {"chain": {"transitions": self.near.cpu() * ((steps[:, None] - steps).abs() == 1)}}
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
            inside = (torch.arange(own.shape[1]) < lengths[:, k, None]).to(own.device)
            sides.append((compared * inside[..., None]).sum(1))
        real = (first > 0)[:, :, None] & (second > 0)[:, None, :]
        return self.decide(torch.cat(sides, 1)), ((rows > 0) & real).sum() / real.sum()


class Decomposable(Network):
    """The published decomposable attention: 130,803 weights and embeddings of 300."""

    joint_as_it_is = True

    def add_layers(self, n_words, size, dropout):
        def layers(n_in):
            return [nn.Linear(n_in, 100), nn.Dropout(dropout), nn.ReLU()]

        self.embed = nn.Embedding(n_words, 300, padding_idx=0)
        self.attend = nn.Sequential(*layers(300), nn.Linear(100, 100))
        self.compare = nn.Sequential(*layers(600), *layers(100))
        self.decide = nn.Sequential(*layers(200), nn.Linear(100, 3))

    def encode(self, words, lengths):
        return self.embed(words)

    def forward(self, first, second, lengths):
        a, b = (self.encode(words, own) for words, own in zip((first, second), lengths.T))
        rows, columns = self.align(self.attend(a) @ self.attend(b).transpose(1, 2), lengths)
        sums = [self.pool(x, context, own)
                for x, context, own in zip((a, b), (rows @ b, columns.transpose(1, 2) @ a), lengths.T)]  # fmt: skip
        real = (first > 0)[:, :, None] & (second > 0)[:, None, :]
        return self.decide(torch.cat(sums, 1)), ((rows > 0) & real).sum() / real.sum()

    def pool(self, x, context, lengths):
        """Return a vector of a sentence, compared with its context."""
        inside = (torch.arange(x.shape[1]) < lengths[:, None])[..., None].to(x.device)
        return (self.compare(torch.cat([x, context], 2)) * inside).sum(1)


class ESIM(Decomposable):
    """The published ESIM: sentences are read by a BiLSTM, and compared words by another one."""

    def add_layers(self, n_words, size, dropout):
        self.embed = nn.Embedding(n_words, 300, padding_idx=0)
        self.read, self.infer = (nn.LSTM(300, 150, batch_first=True, bidirectional=True) for _ in range(2))
        self.drop, self.attend = nn.Dropout(dropout), nn.Identity()
        self.compare = nn.Sequential(nn.Linear(1200, 300), nn.ReLU())
        self.decide = nn.Sequential(nn.Linear(1200, 300), nn.ReLU(), nn.Dropout(dropout), nn.Linear(300, 3))

    def run(self, lstm, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.drop(x), lengths, True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)[0]

    def encode(self, words, lengths):
        return self.run(self.read, self.embed(words), lengths)

    def pool(self, x, context, lengths):
        compared = self.compare(torch.cat([x, context, x - context, x * context], 2))
        states = self.run(self.infer, compared, lengths)
        inside = (torch.arange(x.shape[1]) < lengths[:, None])[..., None].to(x.device)
        highest = states.masked_fill(~inside, -torch.inf).amax(1)
        return torch.cat([(states * inside).sum(1) / lengths[:, None].to(x.device), highest], 1)


NETWORKS = {"small": Network, "decomposable": Decomposable, "ESIM": ESIM}


class Pairs:
    """Pairs of sentences as numbers of words, batch by batch."""

    def __init__(self, pairs, numbers, device):
        self.device = device
        self.sides = [[torch.tensor([numbers.get(word, 1) for word in pair[k]]) for pair in pairs] for k in (0, 1)]
        self.lengths = torch.tensor([[len(pair[0]), len(pair[1])] for pair in pairs])
        self.labels = torch.tensor([pair[2] for pair in pairs])

    def __len__(self):
        return len(self.labels)

    def batch(self, places):
        """Return padded words of both sentences, lengths, and labels."""
        padded = (nn.utils.rnn.pad_sequence([side[i] for i in places], batch_first=True) for side in self.sides)
        return *(words.to(self.device) for words in padded), self.lengths[places], self.labels[places].to(self.device)


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


@cache
def load(folder, name, device):
    """Return the parts of a data set as `Pairs`, and the numbers of words: 0 is padding, 1 an unknown word."""
    parts = read(folder, name)
    words = sorted({word for a, b, _ in parts["train"] for word in a + b})
    numbers = {word: i + 2 for i, word in enumerate(words)}
    return {part: Pairs(pairs, numbers, device) for part, pairs in parts.items()}, numbers


def train_epoch(model, optimizer, pairs, batch_size, rng):
    model.train()
    for places in np.array_split(rng.permutation(len(pairs)), len(pairs) // batch_size):
        *batch, labels = pairs.batch(places)
        loss = nn.functional.cross_entropy(model(*batch)[0], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def run(attention, rate, seed, args):
    """Train one network; return its figures and what it prints of alignments."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    parts, numbers = load(args.data, args.set, args.device)
    rng = np.random.default_rng(seed)
    model = NETWORKS[args.network](attention, len(numbers) + 2, args).to(args.device)
    descent = torch.optim.SGD if args.network == "ESIM" else torch.optim.Adam
    optimizer = descent(model.parameters(), rate)
    best, seconds = (-1.0,), []
    for epoch in range(args.epochs):
        started = process_time()
        train_epoch(model, optimizer, parts["train"], args.batch, rng)
        seconds.append(process_time() - started)
        dev, share = evaluate(model, parts["dev"])
        print(f"{attention}, rate {rate:g}, seed {seed}, epoch {epoch + 1}: dev {dev:.2f}, aligned {share:.1f} %, "
              f"{seconds[-1]:.1f} s", flush=True)  # fmt: skip
        if dev > best[0]:
            best = dev, share, epoch + 1, {key: value.clone() for key, value in model.state_dict().items()}
        elif args.network == "ESIM":
            optimizer.param_groups[0]["lr"] *= DECAY
    model.load_state_dict(best[3])
    accuracy, share = evaluate(model, parts["test"])
    shown = alignment(model, numbers, args.align) if args.align else ""
    if attention == "LP-sequence":
        print(f"learned score of steps to a neighbouring word, seed {seed}: {float(model.near.detach()):.2f}")
    print(f"{attention}, rate {rate:g}, seed {seed}: dev {best[0]:.2f}, aligned {best[1]:.1f} %, epoch {best[2]}, "
          f"test {accuracy:.2f}, aligned {share:.1f} %, {np.median(seconds):.1f} s an epoch", flush=True)  # fmt: skip
    return {"rate": rate, "seed": seed, "dev": best[0], "test": accuracy, "aligned": share, "seconds": seconds,
            "shown": shown}  # fmt: skip


@torch.no_grad()
def alignment(model, numbers, sentences):
    """Return the weights of all pairs of words of two sentences as text."""
    model.eval()
    words = [own.lower().split() for own in sentences]
    device = model.near.device
    batch = [torch.tensor([[numbers.get(word, 1) for word in own]], device=device) for own in words]
    lengths, kept = torch.tensor([[len(own) for own in words]]), []
    align = model.align
    model.align = lambda *given: kept.append(align(*given)) or kept[0]
    model(*batch, lengths)
    del model.align
    width = max(map(len, words[0]))
    lines = [" " * width + "".join(f"{word[:7]:>8}" for word in words[1])]
    for word, weights in zip(words[0], kept[0][0][0]):
        lines.append(f"{word:{width}}" + "".join(f"{w:8.2f}" if w > 0 else "       ." for w in weights.tolist()))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with sick/, snli/")
    parser.add_argument("--set", default="SICK", choices=("SICK", "SNLI"))
    parser.add_argument("--network", default="small", choices=NETWORKS)
    parser.add_argument("--attentions", nargs="+", default=ATTENTIONS, choices=ATTENTIONS)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--size", type=int, default=64, help="of the small network")
    parser.add_argument("--dropout", type=float, help="default: 0.5 for ESIM, else 0.2")
    parser.add_argument("--batch", type=int, help="default: 16 for ESIM, else 32")
    parser.add_argument("--rates", type=float, nargs="+", help="of Adam, or of gradient descent for ESIM")
    parser.add_argument("--temperature", type=float, help="of the structured attentions; default: 0.5 if small, else 1")
    parser.add_argument("--align", nargs="*", metavar="SENTENCE", help="print the alignment of two sentences")
    parser.add_argument("--device", default="cpu", help="of the network")
    parser.add_argument("--jobs", type=int, default=1, help="threads of the layer")
    parser.add_argument("--processes", type=int, default=1, help="networks that are trained at the same time")
    args = results.parse(parser)
    folder = args.data / args.set.lower()
    if not folder.exists():
        sys.exit(f"no {folder}; name the folder that has sick/ and snli/ with --data")
    if args.align is not None and len(args.align) != 2:
        args.align = SENTENCES
    args.rates = args.rates or RATES[args.network]
    args.dropout = args.dropout or (0.5 if args.network == "ESIM" else 0.2)
    args.batch = args.batch or (16 if args.network == "ESIM" else 32)
    args.temperature = args.temperature or (0.5 if args.network == "small" else 1.0)
    jobs = [(attention, rate, seed, args) for attention in args.attentions for seed in args.seeds
            for rate in args.rates]  # fmt: skip
    if args.processes > 1:
        with ProcessPoolExecutor(args.processes, get_context("spawn")) as pool:
            done = list(pool.map(run, *zip(*jobs)))
    else:
        done = [run(*job) for job in jobs]
    print_table([job[0] for job in jobs], done, args)


def print_table(attentions, done, args):
    """Print and record the figures of each attention, at the rate that is best on the validation part of each seed."""
    data = args.set if args.network == "small" else f"{args.set}, {args.network}"
    print("\n| attention | accuracy | aligned pairs of words | rates | an epoch | first and last epoch |")
    print("|---|---|---|---|---|---|")
    for attention in args.attentions:
        own = [figures for name, figures in zip(attentions, done) if name == attention]
        best = [max((f for f in own if f["seed"] == seed), key=lambda f: f["dev"]) for seed in args.seeds]
        accuracies = np.array([figures["test"] for figures in best])
        accuracy, share = accuracies.mean(), np.mean([figures["aligned"] for figures in best])
        spread = f" ± {accuracies.std(ddof=1):.2f}" if len(best) > 1 else ""
        results.record("attention", data, f"accuracy, {attention}", accuracy, "%", seeds=len(best))
        results.record("attention", data, f"aligned pairs of words, {attention}", share, "%", seeds=len(best))
        seconds = np.mean([figures["seconds"] for figures in best], axis=0)
        rates = ", ".join(f"{figures['rate']:g}" for figures in best)
        print(f"| {attention} | {accuracy:.2f}{spread} | {share:.1f} % | {rates} | {np.median(seconds):.1f} s | "
              f"{seconds[0]:.1f} s, {seconds[-1]:.1f} s |")  # fmt: skip
        if args.align:
            print("\n" + best[0]["shown"] + "\n")


if __name__ == "__main__":
    main()
