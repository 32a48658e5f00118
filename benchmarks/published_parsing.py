"""The parser of the SparseMAP paper with its published network and settings (Niculae et al. 2018, section 5.1: table 1,
figures 3 and 4).

    python benchmarks/published_parsing.py --treebanks English                  # a GPU is used if there is one
    python benchmarks/published_parsing.py --epochs 1 --most 100 --rates 1e-3   # a trial

Words (in lower case, numbers as one token) have embeddings of 100, universal tags of 25. One BiLSTM of 125 units in
each direction reads a sentence from its begin to its end token. An arc's score is v' tanh(H h + M m + b), of 100 units;
the root has a vector of its own. A word that occurs n times is replaced by the unknown word with probability
0.25 / (n + 0.25). Losses are summed over batches of 16 sentences, which follow one another in the file. Adam, whose
gradients are clipped to a norm of 5, moves only the embeddings of words in the batch. The rate and the epoch are chosen
by UAS on the development part. A sentence may have several roots; SparseMAP calls its oracle at most 100 times.

All losses, rates and seeds are trained at the same time: their networks have the same form, so that one batched
product serves all of them, and each batch is read once. The gradient of each loss is the regularised prediction minus
the gold tree (proposition 2), so that no loss is computed. Networks run on a device, inference on the CPU.

Each epoch prints, and adds to ``--log FILE`` as a line of JSON: UAS by loss, rate and seed; and for the first seed of
SparseMAP losses the distribution of the number of selected trees and of the mean number of heads of a word, on
``--described`` training and development sentences (figure 4; with a margin, of the scores plus the cost, as in
training). At the end ``--show N`` prints N sentences of the development part whose gold tree is selected, but is not
the first one (figure 3).
"""

import argparse
import json
import re
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
import results
import torch
from batches import in_order

from sklearn_sparsemap import marginal_inference, sparsemap
from sklearn_sparsemap.datasets import load_conllu
from sklearn_sparsemap.structures import DependencyTree
from sklearn_sparsemap.torch import map_inference
from sklearn_sparsemap.torch import sparsemap as sparsemap_layer

ROOT = Path(__file__).resolve().parents[1]
TREEBANKS = {"English": "en_ewt-r2.0", "Chinese": "zh_gsd-r1.4", "Turkish": "tr_imst-r2.0"}
PAPER = {
    "English": {"hinge": 87.02, "crf": 86.74, "sparsemap": 86.90, "margin_sparsemap": 87.34},
    "Chinese": {"hinge": 81.94, "crf": 83.18, "sparsemap": 84.03, "margin_sparsemap": 82.63},
}
LOSSES = ("hinge", "crf", "sparsemap", "margin_sparsemap")
MARGIN = ("hinge", "margin_sparsemap")
SPARSE = ("sparsemap", "margin_sparsemap")
TREE = DependencyTree()
UNKNOWN, BEGIN, END = 0, 1, 2
WORD, TAG, UNITS, ARC = 100, 25, 125, 100  # widths of embeddings, of the LSTM in one direction, and of the scorer
FORGET = 0.25
BATCH = 16
MAX_CALLS = 100  # of the oracle
CLIP = 5.0
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def normal_form(word):
    return "NUM" if re.match("[0-9]", word) else word.lower()


class Corpus:
    """One part of a treebank in padded batches on a device."""

    def __init__(self, path, most, device, vocabularies=None):
        sentences, heads = load_conllu(path, fields=("word", "pos"))
        self.sentences, self.heads = sentences[:most], heads[:most]
        self.lengths, self.device = np.array([len(own) for own in self.heads]), device
        columns = [[[of(token) for token in sentence] for sentence in self.sentences]
                   for of in (lambda t: normal_form(t["word"]), lambda t: t["pos"])]  # fmt: skip
        if vocabularies is None:
            counts = [Counter(value for row in column for value in row) for column in columns]
            vocabularies = [{value: i for i, value in enumerate(sorted(own), 3)} for own in counts]
            # The begin and the end of a sentence are never replaced.
            self.counts = torch.tensor([1.0, np.inf, np.inf, *(counts[0][word] for word in vocabularies[0])])
        self.vocabularies = vocabularies
        self.rows = [[[BEGIN, *(known.get(value, UNKNOWN) for value in row), END] for row in column]
                     for known, column in zip(vocabularies, columns, strict=True)]  # fmt: skip

    def __len__(self):
        return len(self.heads)

    def batch(self, places):
        """Return words, tags, lengths and gold arcs of some sentences; all but lengths are on the device."""
        n = self.lengths[places].max()
        words, tags = (
            torch.tensor([rows[i] + [END] * (n + 2 - len(rows[i])) for i in places], device=self.device)
            for rows in self.rows
        )
        gold = torch.zeros(len(places), n + 1, n)
        for own, i in zip(gold, places):
            own[torch.as_tensor(np.asarray(self.heads[i])), torch.arange(self.lengths[i])] = 1.0
        return words, tags, torch.from_numpy(self.lengths[places]), gold

    def in_file_order(self):
        """Return all batches of sentences that follow one another."""
        return [self.batch(np.arange(i, min(i + BATCH, len(self)))) for i in range(0, len(self), BATCH)]


def uniform(generator, *shape, width=None):
    """Return a tensor with the initial values of DyNet, those of Glorot; `width` is given for vectors."""
    bound = (3.0 / width if width else 6.0 / sum(shape[-2:])) ** 0.5
    return (2.0 * torch.rand(shape, generator=generator) - 1.0) * bound


def new_weights(n_words, n_tags, seed):
    """Return the initial weights of one network."""
    made = torch.Generator().manual_seed(seed)
    n_in = WORD + TAG
    bias = torch.zeros(2, 4 * UNITS)
    bias[:, UNITS : 2 * UNITS] = 1.0  # of the forget gate
    return {
        "words": uniform(made, n_words, WORD, width=WORD),
        "tags": uniform(made, n_tags, TAG, width=TAG),
        "read": torch.stack([uniform(made, 4 * UNITS, n_in).T for _ in range(2)]),
        "recur": torch.stack([uniform(made, 4 * UNITS, UNITS).T for _ in range(2)]),
        "bias": bias,
        "head": uniform(made, 2 * UNITS, ARC),
        "modifier": uniform(made, 2 * UNITS, ARC),
        "shift": uniform(made, ARC, width=ARC),
        "root": uniform(made, ARC, width=ARC),
        "out": uniform(made, 1, ARC)[0],
    }


def cell(read, recurrent, state):
    """Return the output and the state of an LSTM cell, from its gates (batch, 4 units)."""
    if read.is_cuda:
        return torch.ops.aten._thnn_fused_lstm_cell(read, recurrent, state)[:2]
    kept, forgotten, new, shown = (read + recurrent).chunk(4, 1)
    state = torch.sigmoid(forgotten) * state + torch.sigmoid(kept) * torch.tanh(new)
    return torch.sigmoid(shown) * torch.tanh(state), state


def bilstm(weights, x, lengths):
    """Return the states (models, batch, words, 2 units) of sentences x (models, batch, words, inputs)."""
    m, b, t, _ = x.shape
    # From right to left each sentence begins at its own end.
    steps = torch.arange(t)
    back = (lengths[:, None] - 1 - steps).where(steps < lengths[:, None], steps).to(x.device)[None, :, :, None]
    both = torch.stack([x, x.gather(2, back.expand(m, -1, -1, x.shape[3]))], 1).reshape(2 * m, b * t, -1)
    read = torch.baddbmm(weights["bias"].reshape(2 * m, 1, -1), both, weights["read"].flatten(0, 1))
    read = read.reshape(2 * m, b, t, -1).permute(2, 0, 1, 3).reshape(t, 2 * m * b, -1)
    recur = weights["recur"].flatten(0, 1)
    output = state = x.new_zeros(2 * m * b, UNITS)
    outputs = []
    for gates in read.unbind(0):
        recurrent = torch.bmm(output.reshape(2 * m, b, UNITS), recur).reshape(2 * m * b, -1)
        output, state = cell(gates, recurrent, state)
        outputs.append(output)
    forward, backward = torch.stack(outputs).reshape(t, m, 2, b, UNITS).permute(2, 1, 3, 0, 4)
    return torch.cat([forward, backward.gather(2, back.expand(m, -1, -1, UNITS))], 3)


def arc_scores(weights, words, tags, lengths):
    """Return the scores (models, batch, words + 1, words) of arcs.

    `weights` are those of all models, `words` and `tags` embeddings (models, batch, words + 2, width).
    """
    states = bilstm(weights, torch.cat([words, tags], 3), lengths + 2)[:, :, 1:-1]
    m, b, n, _ = states.shape
    heads, modifiers = ((states.reshape(m, b * n, -1) @ weights[name]).reshape(m, b, n, -1)
                        for name in ("head", "modifier"))  # fmt: skip
    heads = torch.cat([weights["root"][:, None, None].expand(m, b, 1, ARC), heads], 2)
    heads = heads + weights["shift"][:, None, None]
    arcs = torch.tanh(heads[:, :, :, None] + modifiers[:, :, None])
    return (arcs.reshape(m, -1, ARC) @ weights["out"][:, :, None]).reshape(m, b, n + 1, n)


class Adam:
    """Adam with a rate for each model; of embeddings only rows that are used move, as in DyNet."""

    def __init__(self, weights, rates):
        self.weights, self.rates, self.n_steps = weights, rates, 0
        self.first, self.second = ({name: torch.zeros_like(own) for name, own in weights.items()} for _ in range(2))

    def step(self, used, rows):
        """Move weights by the gradients of `used`: weights by name, or the rows of them that `rows` names."""
        self.n_steps += 1
        squares = sum(own.grad.flatten(1).square().sum(1) for own in used.values())
        clip = (CLIP / squares.sqrt().clamp(min=1e-30)).clamp(max=1.0)
        correction = (1.0 - 0.999**self.n_steps) ** 0.5 / (1.0 - 0.9**self.n_steps)
        for name, own in used.items():
            along = (-1,) + (1,) * (own.dim() - 1)
            gradient = own.grad * clip.reshape(along)
            if name in rows:
                first, second = (table[name][:, rows[name]] for table in (self.first, self.second))
            else:
                first, second = self.first[name], self.second[name]
            first = first.mul_(0.9).add_(gradient, alpha=0.1)
            second = second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            change = (self.rates * correction).reshape(along) * first / (second.sqrt() + 1e-8)
            if name in rows:
                for table, new in ((self.first, first), (self.second, second), (self.weights, own.detach() - change)):
                    table[name][:, rows[name]] = new
            else:
                self.weights[name] -= change


class Parsers:
    """The networks of all losses, rates and seeds, in this order, with their weights stacked."""

    def __init__(self, train, args):
        self.models = list(product(args.losses, args.rates, args.seeds))
        self.losses, self.n_jobs, self.device = args.losses, args.jobs, args.device
        sizes = [len(known) + 3 for known in train.vocabularies]
        made = {seed: new_weights(*sizes, seed) for seed in args.seeds}
        names = made[args.seeds[0]]
        self.weights = {name: torch.stack([made[seed][name] for *_, seed in self.models]).to(args.device)
                        for name in names}  # fmt: skip
        rates = torch.tensor([rate for _, rate, _ in self.models], device=args.device)
        self.optimizer = Adam(self.weights, rates)
        self.n_seeds = len(args.seeds)
        self.kept = (train.counts / (train.counts + FORGET)).nan_to_num(1.0).to(args.device)

    def step(self, words, tags, lengths, gold):
        """Learn from a batch."""
        used = {name: own.detach().requires_grad_() for name, own in self.weights.items()
                if name not in ("words", "tags")}  # fmt: skip
        dropped = torch.rand(self.n_seeds, *words.shape, device=words.device) > self.kept[words]
        seen = words.masked_fill(dropped, UNKNOWN)
        seen = seen.repeat(len(self.models) // self.n_seeds, 1, 1)
        rows, embedded = {}, []
        for name, numbers in (("words", seen), ("tags", tags.expand_as(seen))):
            rows[name], places = numbers.unique(return_inverse=True)
            used[name] = self.weights[name][:, rows[name]].requires_grad_()
            embedded.append(look_up(used[name], places))
        scores = arc_scores(used, *embedded, lengths)
        slope = self.predict(scores.detach().cpu(), lengths, gold) - gold
        scores.backward(slope.to(scores.device))
        with torch.no_grad():
            self.optimizer.step(used, rows)

    def predict(self, scores, lengths, gold):
        """Return the regularised prediction of each model, (models, batch, words + 1, words)."""
        parts = []
        for loss, own in zip(self.losses, scores.chunk(len(self.losses))):
            shape, many = own.shape, lengths.repeat(len(own))
            own = (own + (1.0 - gold) if loss in MARGIN else own).flatten(0, 1)
            if loss == "hinge":
                found = map_inference(TREE, own, many, n_jobs=self.n_jobs)
            elif loss == "crf":
                found = torch.zeros_like(own)
                solved = marginal_inference(TREE, tables_of(own, many), n_jobs=self.n_jobs)
                for table, result in zip(found, solved):
                    marginals = torch.from_numpy(np.asarray(result.marginals))
                    table[: marginals.shape[0], : marginals.shape[1]] = marginals
            else:
                found = sparsemap_layer(TREE, own, many, max_iter=MAX_CALLS, n_jobs=self.n_jobs)
            parts.append(found.reshape(shape))
        return torch.cat(parts)

    @torch.no_grad()
    def scores(self, words, tags, lengths, models=slice(None)):
        """Return the scores of some models without dropped words."""
        weights = {name: own[models] for name, own in self.weights.items()}
        places = [numbers.expand(len(weights["words"]), *numbers.shape) for numbers in (words, tags)]
        embedded = [look_up(weights[name], own) for name, own in zip(("words", "tags"), places)]
        return arc_scores(weights, *embedded, lengths).cpu()

    def evaluate(self, batches):
        """Return UAS of each model in percent."""
        right, n_words = torch.zeros(len(self.models)), 0
        for words, tags, lengths, gold in batches:
            scores = self.scores(words, tags, lengths)
            many = lengths.repeat(len(scores))
            found = map_inference(TREE, scores.flatten(0, 1), many, n_jobs=self.n_jobs).reshape(scores.shape)
            right += (found * gold).flatten(1).sum(1)
            n_words += int(lengths.sum())
        return (100.0 * right / n_words).tolist()

    def supports(self, batches, model, with_cost=True):
        """Return the solutions of SparseMAP by one model for all sentences of some batches."""
        cost, solved = with_cost and self.models[model][0] in MARGIN, []
        for words, tags, lengths, gold in batches:
            scores = self.scores(words, tags, lengths, slice(model, model + 1))[0]
            tables = tables_of(scores + (1.0 - gold) if cost else scores, lengths)
            solved += sparsemap(TREE, tables, max_iter=MAX_CALLS, n_jobs=self.n_jobs)
        return solved


def look_up(tables, places):
    """Return the rows of a table for each model: (models, batch, words, width)."""
    m, width = len(tables), tables.shape[2]
    return tables.gather(1, places.reshape(m, -1, 1).expand(-1, -1, width)).reshape(*places.shape, width)


def tables_of(scores, lengths):
    """Return the scores of each sentence without padding, as arrays."""
    return [own[: n + 1, :n] for own, n in zip(scores.double().numpy(), lengths.tolist())]


def describe(solved, gold):
    """Return quantiles and means of the numbers of trees and of heads, and how often gold is selected, and first."""
    n_trees = [len(result.weights) for result in solved]
    n_heads = [np.count_nonzero(result.marginals) / result.marginals.shape[1] for result in solved]
    is_gold = [np.array([np.array_equal(tree, heads) for tree in result.structures])
               for result, heads in zip(solved, gold)]  # fmt: skip
    is_first = [own[np.argmax(result.weights)] for own, result in zip(is_gold, solved)]
    return {
        "trees": [*np.quantile(n_trees, QUANTILES).tolist(), float(np.mean(n_trees))],
        "heads": [*np.quantile(n_heads, QUANTILES).tolist(), float(np.mean(n_heads))],
        "selected": 100 * float(np.mean([own.any() for own in is_gold])),
        "first": 100 * float(np.mean(is_first)),
    }


def show(corpus, order, solved, n):
    """Print the shortest sentences with two to four selected trees of which gold is one, but not the first."""
    found = []
    for place, result in zip(order, solved):
        gold = np.asarray(corpus.heads[place])
        is_gold = [np.array_equal(tree, gold) for tree in result.structures]
        if 2 <= len(is_gold) <= 4 and any(is_gold) and not is_gold[int(np.argmax(result.weights))]:
            found.append((len(gold), place, result, gold))
    print(f"\n{len(found)} of {len(solved)} development sentences have two to four trees, with gold, but not first")
    for _, place, result, gold in sorted(found, key=lambda own: own[0])[:n]:
        words = ["ROOT", *(token["word"] for token in corpus.sentences[place])]
        print("\n" + " ".join(words[1:]))
        for weight, tree in sorted(zip(result.weights, result.structures), key=lambda own: -own[0]):
            tree = np.asarray(tree)
            differs = np.flatnonzero(np.ptp([np.asarray(own) for own in result.structures], axis=0))
            arcs = ", ".join(f"{words[tree[i]]} -> {words[i + 1]}" for i in differs)
            print(f"  {weight:.2f}{' gold' if np.array_equal(tree, gold) else '     '}  {arcs}")


def draw(corpus, n, rng):
    """Return the places of `n` random sentences in batches from short to long."""
    drawn = np.sort(rng.permutation(len(corpus))[:n])
    return [drawn[own] for own in in_order(corpus.lengths[drawn], 32)] if n else []


def train(name, args):
    """Train all parsers on a treebank; return the figures of all epochs: list of dicts."""
    folder = args.data / "ud" / TREEBANKS[name]
    if not folder.exists():
        sys.exit(f"no {folder}; name the folder that has ud/ with --data")
    parts = {"train": Corpus(folder / "train.conllu.gz", args.most, args.device)}
    for part in ("dev", "test"):
        known = parts["train"].vocabularies
        parts[part] = Corpus(folder / f"{part}.conllu.gz", args.most, args.device, known)
    parsers = Parsers(parts["train"], args)
    print(f"{name}: {', '.join(f'{part} {len(own)}' for part, own in parts.items())}; {len(parsers.models)} models on "
          f"{args.device}", flush=True)  # fmt: skip
    batches = parts["train"].in_file_order()
    orders = {part: in_order(parts[part].lengths, 32) for part in ("dev", "test")}
    held = {part: [parts[part].batch(places) for places in order] for part, order in orders.items()}
    rng, started, rows = np.random.default_rng(args.seeds[0]), perf_counter(), []
    torch.manual_seed(args.seeds[0])
    # Sentences of all lengths whose solutions are described.
    drawn = {part: draw(parts[part], args.described, rng) for part in ("train", "dev")}
    samples = {part: [parts[part].batch(places) for places in own] for part, own in drawn.items()}
    gold = {part: [parts[part].heads[i] for places in own for i in places] for part, own in drawn.items()}
    for epoch in range(1, args.epochs + 1):
        begun = perf_counter()
        for i in rng.permutation(len(batches)):
            parsers.step(*batches[i])
        seconds = perf_counter() - begun
        scores = {part: parsers.evaluate(own) for part, own in held.items()}
        for m, (loss, rate, seed) in enumerate(parsers.models):
            row = {"treebank": name, "loss": loss, "rate": rate, "seed": seed, "epoch": epoch,
                   "dev": scores["dev"][m], "test": scores["test"][m], "seconds": seconds}  # fmt: skip
            if loss in SPARSE and seed == args.seeds[0] and args.described:
                for part, own in samples.items():
                    row[f"{part} supports"] = describe(parsers.supports(own, m), gold[part])
                plain = parsers.supports(samples["dev"], m, with_cost=False)
                row["dev predictions"] = describe(plain, gold["dev"])
            rows.append(row)
            if args.log:
                with open(args.log, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        best = {loss: max(row["dev"] for row in rows if row["loss"] == loss and row["epoch"] == epoch)
                for loss in args.losses}  # fmt: skip
        print(f"{name}, epoch {epoch}: {seconds:.1f} s, {perf_counter() - begun:.1f} s with scores; best dev UAS "
              + ", ".join(f"{loss} {score:.2f}" for loss, score in best.items()), flush=True)  # fmt: skip
        # The next epoch must not end after the limit.
        if perf_counter() - started + 1.1 * (perf_counter() - begun) > args.seconds:
            break
    if args.show:
        for loss in set(args.losses) & set(SPARSE):
            model = max((m for m, own in enumerate(parsers.models) if own[0] == loss),
                        key=lambda m: scores["dev"][m])  # fmt: skip
            print(f"\n{parsers.models[model]}, after epoch {epoch}")
            solved = parsers.supports(held["dev"], model, with_cost=False)
            show(parts["dev"], np.concatenate(orders["dev"]), solved, args.show)
    return rows


def print_table(name, rows, args):
    """Print and record UAS of each loss, at the rate and the epoch that are best on the development part."""
    n_epochs = max(row["epoch"] for row in rows)
    print(f"\n{name}, {n_epochs} epochs")
    print("| loss | UAS dev | UAS test | published | rates chosen | epochs chosen | an epoch of all |")
    print("|---|---|---|---|---|---|---|")
    for loss in args.losses:
        chosen = [max((row for row in rows if (row["loss"], row["seed"]) == (loss, seed)), key=lambda row: row["dev"])
                  for seed in args.seeds]  # fmt: skip
        dev, test = (np.array([row[part] for row in chosen]) for part in ("dev", "test"))
        spread = f" ± {test.std(ddof=1):.2f}" if len(test) > 1 else ""
        paper = PAPER.get(name, {}).get(loss)
        peer, theirs = ("Niculae et al. 2018, BiLSTM", paper) if paper else ("", None)
        data = f"UD {name}, {n_epochs} epochs"
        results.record("parsing with the published BiLSTM", data, f"UAS, {loss}", test.mean(), "%", peer, theirs,
                       len(args.seeds), elsewhere=bool(peer))  # fmt: skip
        rates, epochs = (", ".join(f"{row[key]:g}" for row in chosen) for key in ("rate", "epoch"))
        print(f"| {loss} | {dev.mean():.2f} | {test.mean():.2f}{spread} | {paper or '-'} | {rates} | {epochs} | "
              f"{np.median([row['seconds'] for row in rows]):.1f} s |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with ud/")
    parser.add_argument("--treebanks", nargs="+", default=["English", "Chinese"], choices=TREEBANKS)
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=LOSSES)
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-4, 1e-3, 2e-3, 4e-3, 8e-3], help="of Adam")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=np.inf, help="for each treebank: no epoch ends later")
    parser.add_argument("--most", type=int, default=None, help="use so many sentences of each part only")
    parser.add_argument("--described", type=int, default=500, help="sentences of each part for figure 4; 0: none")
    parser.add_argument("--show", type=int, default=0, help="print so many ambiguous sentences")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--jobs", type=int, default=1, help="threads of inference")
    parser.add_argument("--log", type=Path, help="add the figures of each epoch to this file")
    args = results.parse(parser)
    torch.set_num_threads(1)
    for name in args.treebanks:
        print_table(name, train(name, args), args)


if __name__ == "__main__":
    main()
