"""Dependency parsing with a BiLSTM: six losses on the same network (Niculae et al. 2018, section 5.1, table 1).

    python benchmarks/neural_parsing.py --data ../shared/data

Words, their last three letters and tags are embedded, read by a BiLSTM of two layers, and mapped to heads and
modifiers, whose products score arcs, plus a score of the distance for each modifier; `FenchelYoungLoss` over
non-projective trees with one root trains it. In training words are dropped now and then, rare ones more often. What is
judged are weights that are averaged over about an epoch. All losses begin from the same weights and see the same
batches. The peer is the biaffine parser of Dozat and Manning (2017): the same network, whose loss is PyTorch's cross
entropy of the head of each word by itself, with the best tree at prediction. Prints UAS on the development and the test
part, of the epoch that is best on the former.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter

import numpy as np
import results
import torch
from batches import batches_by_length, decayed, in_order
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sklearn_sparsemap import map_inference
from sklearn_sparsemap.datasets import load_conllu
from sklearn_sparsemap.losses import LOSSES
from sklearn_sparsemap.metrics import unlabeled_attachment_score
from sklearn_sparsemap.structures import DependencyTree
from sklearn_sparsemap.torch import FenchelYoungLoss

ROOT = Path(__file__).resolve().parents[1]
TREEBANKS = {"English": "en_ewt-r2.0", "Chinese": "zh_gsd-r1.4", "Turkish": "tr_imst-r2.0"}
TREE = DependencyTree(single_root=True)
FAR = 8
PEER = "biaffine"


class Parser(nn.Module):
    """Words, their suffixes and tags to scores of arcs."""

    def __init__(self, sizes, embedding, hidden, layers, dropout):
        super().__init__()
        widths = embedding, embedding // 2, embedding // 2
        self.embeds = nn.ModuleList(nn.Embedding(size, width) for size, width in zip(sizes, widths, strict=True))
        self.drop = nn.Dropout(dropout)
        self.read = nn.LSTM(
            sum(widths), hidden, layers, batch_first=True, bidirectional=True, dropout=dropout if layers > 1 else 0.0
        )
        self.root = nn.Parameter(0.1 * torch.randn(1, 1, 2 * hidden))
        # The first steps of a structured hinge loss push all words of a sentence the same way: ReLUs would die of it.
        self.as_head, self.as_modifier = (nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh()) for _ in range(2))
        self.product, self.bias = nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
        # How far, and on which side, a word has its head.
        self.apart = nn.Linear(hidden, 2 * FAR + 1)

    def forward(self, fields, lengths):
        """Return scores of shape (batch, words + 1, words)."""
        embedded = self.drop(torch.cat([embed(field) for embed, field in zip(self.embeds, fields, strict=True)], 2))
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states = self.drop(nn.utils.rnn.pad_packed_sequence(self.read(packed)[0], batch_first=True)[0])
        heads = self.as_head(torch.cat([self.root.expand(len(states), 1, -1), states], 1))
        modifiers = self.as_modifier(states)
        products = self.product(heads) @ modifiers.transpose(1, 2) / heads.shape[2] ** 0.5
        places = torch.arange(heads.shape[1])
        steps = (places[:, None] - places[1:]).clamp(-FAR, FAR) + FAR
        apart = self.apart(modifiers).transpose(1, 2).gather(1, steps.expand(len(states), -1, -1))
        return products + apart + self.bias(heads)


class Corpus:
    """One part of a treebank, as numbers."""

    def __init__(self, path, most, longest, vocabularies=None):
        sentences, heads = load_conllu(path, fields=("word", "pos"))
        kept = [i for i, sentence in enumerate(sentences) if len(sentence) <= longest][:most]
        sentences, self.heads = [sentences[i] for i in kept], [heads[i] for i in kept]
        columns = [
            [[of(token) for token in sentence] for sentence in sentences]
            for of in (lambda t: t["word"].lower(), lambda t: t["word"].lower()[-3:], lambda t: t["pos"])
        ]
        if vocabularies is None:
            counts = [Counter(value for row in column for value in row) for column in columns]
            # 0 is a word that is unknown, or that occurred once.
            vocabularies = [{value: i for i, value in enumerate(sorted(v for v in c if c[v] > 1), 1)} for c in counts]
            self.counts = torch.tensor([1, *(counts[0][word] for word in vocabularies[0])])
        self.vocabularies = vocabularies
        self.fields = [
            [torch.tensor([known.get(value, 0) for value in row]) for row in column]
            for known, column in zip(vocabularies, columns, strict=True)
        ]
        self.lengths = np.array([len(row) for row in self.heads])

    def __len__(self):
        return len(self.heads)

    def batch(self, places, forget=0.0):
        """Return words, suffixes and tags, padded; lengths; and the heads.

        A word of the training part that is there `n` times becomes an unknown one with probability
        forget / (forget + n).
        """
        words, *others = (
            nn.utils.rnn.pad_sequence([rows[i] for i in places], batch_first=True) for rows in self.fields
        )
        if forget:
            words = words.masked_fill(torch.rand(words.shape) < forget / (forget + self.counts[words]), 0)
        return (words, *others), torch.from_numpy(self.lengths[places]), [self.heads[i] for i in places]


@torch.no_grad()
def evaluate(model, corpus):
    """Return UAS in percent."""
    model.eval()
    gold, found = [], []
    for places in in_order(corpus.lengths, 32):
        fields, lengths, heads = corpus.batch(places)
        tables = model(fields, lengths).double().numpy()
        found += [r.structure for r in map_inference(TREE, [t[: n + 1, :n] for t, n in zip(tables, lengths.tolist())])]
        gold += heads
    return 100 * unlabeled_attachment_score(gold, found)


def by_heads(scores, heads, lengths):
    """Return the sum over all words of the cross entropy of their heads: the loss of a biaffine parser."""
    is_padding = torch.arange(scores.shape[1]) > lengths[:, None]
    tables = scores.masked_fill(is_padding[:, :, None], -torch.inf).transpose(1, 2)
    gold = nn.utils.rnn.pad_sequence([torch.as_tensor(own) for own in heads], batch_first=True, padding_value=-100)
    return nn.functional.cross_entropy(tables.flatten(0, 1), gold.flatten(), reduction="sum")


def loss_function(name, args):
    """Return a function of scores, heads and lengths."""
    if name == PEER:
        return by_heads
    return FenchelYoungLoss(TREE, name, args.temperature, reduction="sum", n_jobs=args.jobs)


def run(loss_name, parts, args, seed):
    """Train with one loss; return UAS on both parts, and the seconds of an epoch."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    train = parts["train"]
    sizes = [len(known) + 1 for known in train.vocabularies]
    model = Parser(sizes, args.embedding, args.hidden, args.layers, args.dropout)
    # Weights are judged by their running mean over about an epoch, as those of an averaged perceptron are.
    n_batches = len(batches_by_length(train.lengths, args.batch, np.random.default_rng(0)))
    mean = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(1 - 1 / n_batches))
    loss_of = loss_function(loss_name, args)
    optimizer = torch.optim.Adam(model.parameters(), args.rate)
    rates = decayed(optimizer, args.epochs)
    best, seconds = (-1.0,), []
    for epoch in range(args.epochs):
        model.train()
        started, spreads = perf_counter(), []
        for places in batches_by_length(train.lengths, args.batch, rng):
            fields, lengths, heads = train.batch(places, args.forget)
            scores = model(fields, lengths)
            loss = loss_of(scores, heads, lengths) / lengths.sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            mean.update_parameters(model)
            spreads.append(float(scores.detach().std()))
        rates.step()
        seconds.append(perf_counter() - started)
        dev = evaluate(mean, parts["dev"])
        print(f"{loss_name}, seed {seed}, epoch {epoch + 1}: dev {dev:.2f}, {seconds[-1]:.1f} s, "
              f"deviation of the scores {np.mean(spreads):.3f}", flush=True)  # fmt: skip
        if dev > best[0]:
            best = dev, epoch + 1, {key: value.clone() for key, value in mean.state_dict().items()}
    mean.load_state_dict(best[2])
    test = evaluate(mean, parts["test"])
    print(f"{loss_name}, seed {seed}: dev {best[0]:.2f}, test {test:.2f}, epoch {best[1]}, "
          f"{np.median(seconds):.1f} s an epoch", flush=True)  # fmt: skip
    return best[0], test, np.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with ud/")
    parser.add_argument("--treebanks", nargs="+", default=["English"], choices=TREEBANKS)
    parser.add_argument("--losses", nargs="+", default=[*LOSSES, PEER], choices=[*LOSSES, PEER])
    parser.add_argument("--most", type=int, default=None, help="use so many sentences of each part only")
    parser.add_argument("--longest", type=int, default=1000, help="and only those of so many words")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--embedding", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--forget", type=float, default=0.25, help="how readily words become unknown ones")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the loss")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=4e-3, help="of Adam")
    parser.add_argument("--jobs", type=int, default=1, help="threads of the layer")
    args = results.parse(parser)
    torch.set_num_threads(1)
    for name in args.treebanks:
        folder = args.data / "ud" / TREEBANKS[name]
        if not folder.exists():
            sys.exit(f"no {folder}; name the folder that has ud/ with --data")
        parts = {"train": Corpus(folder / "train.conllu.gz", args.most, args.longest)}
        for part in ("dev", "test"):
            known = parts["train"].vocabularies
            parts[part] = Corpus(folder / f"{part}.conllu.gz", args.most, args.longest, known)
        print(f"{name}: " + ", ".join(f"{part} {len(own)}" for part, own in parts.items()), flush=True)
        rows = {loss: [run(loss, parts, args, seed) for seed in args.seeds] for loss in args.losses}
        print("\n| loss | UAS dev | UAS test | an epoch |\n|---|---|---|---|")
        means = {loss: np.mean(figures, axis=0) for loss, figures in rows.items()}
        for loss, (dev, test, seconds) in means.items():
            print(f"| {loss} | {dev:.2f} | {test:.2f} | {seconds:.1f} s |")
            if loss == PEER:
                continue
            peer, (_, theirs, theirs_seconds) = (PEER, means[PEER]) if PEER in means else ("", (None,) * 3)
            of = {"peer": peer, "seeds": len(args.seeds), "package": "torch"}
            results.record("parsing with a BiLSTM", f"UD {name}", f"UAS, {loss}", test, "%", theirs=theirs, **of)
            results.record("parsing with a BiLSTM", f"UD {name}", f"time of an epoch, {loss}", seconds, "s",
                           theirs=theirs_seconds, **of)  # fmt: skip


if __name__ == "__main__":
    main()
