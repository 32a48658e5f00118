"""A tree latent in a network that counts arguments: valency tagging on ListOps
(Niculae and Martins 2020, section 5.1).

    python benchmarks/listops.py --data ../shared/data

A BiLSTM over the tokens scores arcs; their posteriors under a structure weight one step of a graph convolution whose
input is the same vector for each token, so that the tree is all that passes; a linear layer then says how many
arguments each operator has. Only these numbers are learned from. Training expressions are drawn; the test is the file
of the data set. Prints a table: accuracy and F1 (the mean over the numbers of arguments) of operators on the validation
part and on the test file, and the fraction of heads in the latent trees that agree with the brackets.

    python benchmarks/listops.py --published --sentences 4000 --epochs 20 --rate 1e-3 --batch 64

takes the published form of the model: scores of arcs that are not divided by the root of their dimension, a graph
convolution whose input is concatenated to its output, budgets of 5 that hold for the root, too, solvers that stop after
10 iterations, the next word as the head from left to right, and a rate that falls by a tenth whenever F1 on the
validation part does not rise, up to five times. Sizes, rate and numbers of sentences and epochs are options of their
own, because the published ones (300 units, 90,000 sentences, 100 epochs, a rate of 1e-4) take days on two cores. The F1
on the validation part by epoch is figure 3.

    python benchmarks/listops.py --models tree "tree + budget" --supervise 1

learns the latent arcs from the brackets, too. The Fenchel-Young loss of the arcs has the gradient `arcs - gold`, which
needs no inference besides that of the layer.
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import results
import torch
from batches import batches_by_length, in_order
from sklearn.metrics import f1_score
from torch import nn

from sklearn_sparsemap.datasets import load_listops, make_listops
from sklearn_sparsemap.factors import Budget, FactorGraph, StructureFactor
from sklearn_sparsemap.structures import DependencyTree
from sklearn_sparsemap.torch import LPSparseMAP, SparseMAP

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY = ("", "[MIN", "[MAX", "[MED", "[SM", "]", *"0123456789")
_MAX_TREE = 500  # tokens; longer sentences have a flat tree in the published form
_MAX_FALLS = 5  # epochs without a better F1, after which the published training stops
# Accuracy and F1.
PAPER = {"left-to-right": (28.07, 17.43), "tree": (68.74, 69.12), "tree + budget": (82.75, 82.95)}


class Sentences:
    """Expressions as padded tensors, batch by batch."""

    def __init__(self, X, heads, valencies, device):
        number = {token: i for i, token in enumerate(VOCABULARY)}
        self.device = device
        self.tokens = [torch.tensor([number[token] for token in tokens]) for tokens in X]
        self.heads = [torch.from_numpy(own) for own in heads]
        self.valencies = [torch.from_numpy(own) for own in valencies]
        self.lengths = np.array([len(tokens) for tokens in X])

    def __len__(self):
        return len(self.tokens)

    def batch(self, places):
        """Return tokens, lengths, heads, and numbers of arguments (0 where there is no operator)."""
        lengths = torch.from_numpy(self.lengths[places])
        tokens, heads, valencies = (
            nn.utils.rnn.pad_sequence([rows[i] for i in places], batch_first=True)
            for rows in (self.tokens, self.heads, self.valencies)
        )
        return tokens.to(self.device), lengths, heads.to(self.device), valencies.to(self.device)


def as_arcs(heads, lengths):
    """Return the arcs of trees given by heads: (batch, words + 1, words)."""
    n = heads.shape[1]
    inside = (torch.arange(n) < lengths[:, None]).to(heads.device)
    return (nn.functional.one_hot(heads, n + 1) * inside[:, :, None]).transpose(1, 2).float()


class Tagger(nn.Module):
    """Tokens to arcs to numbers of arguments."""

    def __init__(self, layer, embedding, hidden, published):
        super().__init__()
        self.layer, self.published = layer, published
        if isinstance(layer, nn.Module):
            self.embed = nn.Embedding(len(VOCABULARY), embedding, padding_idx=0)
            each = hidden // 2 if published else hidden
            self.read = nn.LSTM(embedding, each, batch_first=True, bidirectional=True)
            self.root = nn.Parameter(0.1 * torch.randn(1, 1, hidden))
            self.as_head, self.as_modifier = nn.Linear(2 * each, hidden), nn.Linear(2 * each, hidden)
        self.word = nn.Parameter(torch.randn(hidden))
        self.own, self.from_head, self.from_modifiers = (nn.Linear(hidden, hidden) for _ in range(3))
        self.tag = nn.Linear(2 * hidden if published else hidden, 4)

    def arcs(self, tokens, lengths, heads):
        """Return the arcs by which messages pass, (batch, words + 1, words), and their scores; None for fixed arcs."""
        if self.layer == "gold":
            return as_arcs(heads, lengths), None
        if self.published and tokens.shape[1] > _MAX_TREE:
            return as_arcs(torch.zeros_like(heads), lengths), None
        if self.layer == "left-to-right":
            before = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
            # The head of the last word is the root.
            after = (before + 2) * (before + 1 < lengths[:, None].to(tokens.device))
            return as_arcs(after if self.published else before, lengths), None
        embedded = self.embed(tokens)
        if self.published:
            # The root is read as a vector of zeros before the sentence.
            states = self.states(nn.functional.pad(embedded, (0, 0, 1, 0)), lengths + 1)
            scores = self.as_head(states) @ torch.relu(self.as_modifier(states[:, 1:])).transpose(1, 2)
        else:
            states = self.states(embedded, lengths)
            heads = torch.cat([self.root.expand(len(tokens), 1, -1), self.as_head(states)], 1)
            # Scaled as in attention: larger scores leave one tree in the first epoch, whose gradient is zero.
            scores = heads @ self.as_modifier(states).transpose(1, 2) / heads.shape[2] ** 0.5
        # Inference is compiled for the CPU.
        return self.layer(scores.cpu(), lengths=lengths).to(scores.device), scores

    def states(self, embedded, lengths):
        """Return the states of the BiLSTM."""
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.read(packed)[0], batch_first=True)[0]

    def forward(self, tokens, lengths, heads):
        """Return the scores of 2 to 5 arguments for each token, the arcs and their scores."""
        arcs, scores = self.arcs(tokens, lengths, heads)
        between = arcs[:, 1:]
        # The same vector at each token: what comes from the head is that vector where there is one, and what comes from
        # the modifiers is as many times that vector as there are.
        n_heads, n_modifiers = between.sum(1)[..., None], between.sum(2)[..., None]
        mixed = self.own(self.word) + n_heads * self.from_head(self.word) + n_modifiers * self.from_modifiers(self.word)
        states = torch.relu(mixed)
        if self.published:
            states = torch.cat([self.word.expand_as(states), states], 2)
        return self.tag(states), arcs, scores


def make_layer(name, budget, args):
    """Return the layer of a structure, or the name of fixed arcs."""
    max_iter = 10 if args.published else None
    if name == "tree":
        return SparseMAP(DependencyTree(), n_jobs=args.jobs, max_iter=max_iter)
    if name != "tree + budget":
        return name

    def tree_with_budgets(shape):
        graph = FactorGraph()
        arcs = graph.variables(shape)
        n_words = shape[1]
        # The root is no operator, and a budget of all words is none.
        limited = arcs if args.published else arcs[1:]
        budgets = [Budget(row, budget) for row in limited] if budget < n_words else []
        graph.add(StructureFactor(DependencyTree(), arcs), *budgets)
        return graph

    return LPSparseMAP(tree_with_budgets, n_jobs=args.jobs, max_iter=max_iter)


def train_epoch(model, optimizer, sentences, batch_size, supervise, rng):
    """Pass once over the sentences; return the mean loss."""
    model.train()
    total = 0.0
    if model.published:
        batches = batches_by_length(sentences.lengths, batch_size, rng)
    else:
        order = rng.permutation(len(sentences))
        batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    for places in batches:
        tokens, lengths, heads, valencies = sentences.batch(places)
        logits, arcs, scores = model(tokens, lengths, heads)
        is_operator = valencies > 0
        loss = nn.functional.cross_entropy(logits[is_operator], valencies[is_operator] - 2)
        objective = loss
        if supervise and scores is not None:
            # The gradient of the Fenchel-Young loss of the arcs, by the mean over the words.
            slope = (arcs - as_arcs(heads, lengths)).detach()
            objective = loss + supervise * (slope * scores).sum() / int(lengths.sum())
        optimizer.zero_grad()
        objective.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += float(loss.detach()) * len(places)
    return total / len(sentences)


@torch.no_grad()
def evaluate(model, sentences, batch_size=64):
    """Return accuracy and F1 of operators and the fraction of gold heads, all in percent, and nonzero arcs a token."""
    model.eval()
    gold, found, right, n_arcs = [], [], [], []
    for places in in_order(sentences.lengths, batch_size):
        tokens, lengths, heads, valencies = sentences.batch(places)
        logits, arcs, _ = model(tokens, lengths, heads)
        is_operator = valencies > 0
        gold.append(valencies[is_operator].cpu())
        found.append(logits[is_operator].argmax(1).cpu() + 2)
        inside = torch.arange(tokens.shape[1]) < lengths[:, None]
        right.append((arcs.argmax(1) == heads).cpu()[inside])
        n_arcs.append(torch.count_nonzero(arcs, 1).cpu()[inside])
    gold, found, right, n_arcs = (torch.cat(parts).numpy() for parts in (gold, found, right, n_arcs))
    f1 = f1_score(gold, found, average="macro")
    return 100 * np.array([np.mean(gold == found), f1, right.mean()]), n_arcs.mean()


def run(name, parts, args, seed):
    """Train and test one model; return its figures."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    layers = [make_layer(name, budget, args) for budget in args.budget]
    model = Tagger(layers[-1], args.embedding, args.hidden, args.published).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), args.rate)
    best, seconds, n_falls, begun = None, [], 0, perf_counter()
    for epoch in range(args.epochs):
        started, model.layer = process_time(), layers[min(epoch, len(layers) - 1)]
        loss = train_epoch(model, optimizer, parts["train"], args.batch, args.supervise, rng)
        seconds.append(process_time() - started)
        model.layer = layers[-1]
        (accuracy, f1, heads), n_arcs = evaluate(model, parts["dev"])
        print(f"{name}, seed {seed}, epoch {epoch + 1}: loss {loss:.3f}, dev accuracy {accuracy:.2f}, F1 {f1:.2f}, "
              f"heads {heads:.2f}, {n_arcs:.2f} heads a token, {seconds[-1]:.1f} s", flush=True)  # fmt: skip
        if best is None or f1 > best[1]:
            state = {key: value.clone() for key, value in model.state_dict().items()}
            best = accuracy, f1, epoch + 1, state
        elif args.published:
            optimizer.param_groups[0]["lr"] *= 0.9
            n_falls += 1
            if n_falls == _MAX_FALLS:
                break
        # The next epoch must not end after the limit.
        if (perf_counter() - begun) * (epoch + 2) / (epoch + 1) > args.seconds:
            break
    model.load_state_dict(best[3])
    started = process_time()
    figures, n_arcs = evaluate(model, parts["test"])
    print(f"{name}, seed {seed}: test {figures.round(2)}, {n_arcs:.2f} heads a token, epoch {best[2]}, "
          f"{process_time() - started:.1f} s", flush=True)  # fmt: skip
    return *best[:2], *figures, n_arcs, np.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*PAPER, "gold"]
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with listops/")
    parser.add_argument("--models", nargs="+", default=names, choices=names)
    parser.add_argument("--sentences", type=int, default=20_000, help="for training")
    parser.add_argument("--max-length", type=int, default=40, help="maximum number of tokens of a training sentence")
    parser.add_argument("--test-length", type=int, default=50, help="maximum number of tokens of a test sentence")
    parser.add_argument("--test-sentences", type=int, default=None, help="test on so many, drawn from the file")
    parser.add_argument("--dev-sentences", type=int, default=None, help="validate on so many of a tenth of them")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=np.inf, help="for each model: no epoch ends later")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="of the network")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    budget_help = (
        "of each epoch, the last one of all that follow; 6: five arguments and the closing bracket; published: 5"
    )
    parser.add_argument("--budget", type=int, nargs="+", help=budget_help)
    parser.add_argument("--embedding", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=3e-3, help="of Adam")
    parser.add_argument("--published", action="store_true", help="the published form of the model and of training")
    parser.add_argument("--supervise", type=float, default=0.0, help="weight of the loss of the latent arcs")
    parser.add_argument("--jobs", type=int, default=1, help="threads of the layer")
    args = results.parse(parser)
    args.budget = args.budget or [5 if args.published else 6]
    path = args.data / "listops" / "test_d20s.tsv.gz"
    if not path.exists():
        sys.exit(f"no {path}; name the folder that has listops/ with --data")
    torch.set_num_threads(1)
    loaded = zip(*load_listops(path))
    test = [sample for sample in loaded if 4 <= len(sample[0]) <= args.test_length]
    if args.test_sentences is not None:
        kept = np.random.default_rng(0).permutation(len(test))[: args.test_sentences]
        test = [test[i] for i in sorted(kept)]
    known = {tuple(tokens) for tokens, _, _ in test}
    rows = {name: [] for name in args.models}
    for seed in args.seeds:
        drawn = zip(*make_listops(int(1.1 * args.sentences), max_length=args.max_length, random_state=seed))
        new = [sample for sample in drawn if tuple(sample[0]) not in known]
        cut = int(len(new) / 1.1)
        cuts = {"train": new[:cut], "dev": new[cut:], "test": test}
        cuts["dev"] = cuts["dev"][: args.dev_sentences]
        parts = {part: Sentences(*zip(*samples), args.device) for part, samples in cuts.items()}
        print(f"seed {seed}: " + ", ".join(f"{part} {len(own)}" for part, own in parts.items()), flush=True)
        for name in args.models:
            rows[name].append(run(name, parts, args, seed))
    print("\n| arcs | dev accuracy | F1 | test accuracy | F1 | published | gold heads | heads a token | CPU an epoch |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, figures in rows.items():
        seconds = np.median(np.array(figures)[:, -1])
        valid, valid_f1, accuracy, f1, heads, n_arcs, _ = (
            f"{values.mean():.2f}" + (f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else "")
            for values in np.array(figures).T
        )
        peer, theirs = ("Niculae and Martins 2020", PAPER[name][0]) if name in PAPER else ("", None)
        sizes = f", published form, {args.hidden} units, at most {args.max_length} tokens"
        form = sizes * args.published + ", supervised arcs" * (args.supervise > 0)
        results.record("ListOps", f"{args.sentences:,} sentences{form}", f"accuracy, {name}",
                       np.array(figures)[:, 2].mean(), "%", peer, theirs, len(figures),
                       elsewhere=bool(peer))  # fmt: skip
        paper = "{:.2f} / {:.2f}".format(*PAPER[name]) if name in PAPER else "-"
        print(f"| {name} | {valid} | {valid_f1} | {accuracy} | {f1} | {paper} | {heads} | {n_arcs} | {seconds:.1f} s |")


if __name__ == "__main__":
    main()
