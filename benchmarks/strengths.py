"""The strength of the penalty: the default and `alpha="auto"`, compared with fixed strengths and CRFsuite.

    python benchmarks/strengths.py --data DIR
    python benchmarks/strengths.py --data DIR --sets chunking spanish --losses crf --seeds 3 --sentences 8000
    python benchmarks/strengths.py --data DIR --development

Chunking (CoNLL-2000), Spanish entities (CoNLL-2002), parts of speech and trees of three treebanks (UD), Spanish trees
(CoNLL-X) and letters (fold 0 of ten). A row has the score of the default, of `alpha="auto"` and of each fixed strength,
of which the best is named, and the CPU time of auto as a multiple of the default's. CRFsuite has the same features, and
its own defaults. Seeds are orders of the samples.

Five more sets, which run if --sets names them, have few features: parts of speech alone (chunking_tags), or the ends of
words (spanish_ends, speech_turkish_ends and so on).

With --development, the end of the training files takes the place of the test files. The constants of the default were
chosen there.
"""

import argparse
import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np
import results
from crf import sentences_of
from ocr import load_letters
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from stopping import describe

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conll, load_conllu
from sklearn_sparsemap.features import ArcVectorizer, TokenDictVectorizer, dependency_templates
from sklearn_sparsemap.metrics import span_f1_score
from sklearn_sparsemap.structures import DependencyTree

ROOT = Path(__file__).resolve().parents[1]
TREEBANKS = {"English": "en_ewt-r2.0", "Chinese": "zh_gsd-r1.4", "Turkish": "tr_imst-r2.0"}


def describe_word(sentence, i):
    """Return the features of a token for parts of speech: affixes, shape, and the words around it."""
    word = sentence[i]["word"]
    features = {"bias": 1.0, "digit": any(c.isdigit() for c in word), "title": word.istitle(), "hyphen": "-" in word}
    features |= {f"suffix{n}": word[-n:] for n in (1, 2, 3)} | {f"prefix{n}": word[:n] for n in (1, 2, 3)}
    for offset in range(-2, 3):
        is_inside = 0 <= i + offset < len(sentence)
        features[f"{offset}:word"] = sentence[i + offset]["word"].lower() if is_inside else "<>"
    return features


def describe_ends(sentence, i):
    """Return few features of a token: the ends of words, and the shape."""
    word, previous = sentence[i]["word"], sentence[i - 1]["word"][-1:] if i else "<>"
    return {"title": word.istitle(), "digit": word.isdigit(), "previous": previous} | {
        "suffix1": word[-1:], "suffix2": word[-2:], "prefix": word[:1]
    }  # fmt: skip


def describe_tags(sentence, i):
    """Return few features of a token: the parts of speech around it."""
    places = range(i - 2, i + 3)
    return {f"{j - i}:pos": sentence[j]["pos"] if 0 <= j < len(sentence) else "<>" for j in places}


def tag(parts, describe, score):
    vectorizer, (train, test) = TokenDictVectorizer(), parts
    rows = [[[describe(s, i) for i in range(len(s))] for s in sentences] for sentences, _ in parts]
    return "chain", vectorizer.fit_transform(rows[0]), train[1], vectorizer.transform(rows[1]), test[1], score


def accuracy(model, X, y):
    return 100 * model.score(X, y)


def span_f1(model, X, y):
    return 100 * span_f1_score(y, model.predict(X))


def cut(args, read, path, test_path):
    """Return the samples to train on, and those to test on: the end of the training file or a file of their own."""
    X, y = read(path)
    n = args.test
    if args.development:
        return (X[:-n][: args.sentences], y[:-n][: args.sentences]), (X[-n:], y[-n:])
    return (X[: args.sentences], y[: args.sentences]), tuple(part[:n] for part in read(test_path))


def chunking(args, describe=describe):
    folder = args.data / "conll2000"
    return tag(cut(args, load_conll, folder / "train.txt.gz", folder / "test.txt.gz"), describe, span_f1)


def spanish(args, describe=describe):
    folder = args.data / "conll2002"
    return tag(cut(args, load_conll, folder / "esp.train.gz", folder / "esp.testb.gz"), describe, span_f1)


def speech(language, args, describe=describe_word):
    def read(path):
        sentences, _ = load_conllu(path)
        return sentences, [[token["pos"] for token in sentence] for sentence in sentences]

    folder = args.data / "ud" / TREEBANKS[language]
    parts = cut(args, read, folder / "train.conllu.gz", folder / "test.conllu.gz")
    return tag(parts, describe, accuracy)


def trees(language, args):
    fine = {} if language == "Spanish" else {"fine_pos": "xpos"}
    folder = args.data / ("conllx_es" if language == "Spanish" else f"ud/{TREEBANKS[language]}")
    names = ("esp.train.gz", "esp.test.gz") if language == "Spanish" else ("train.conllu.gz", "test.conllu.gz")
    vectorizer, found = ArcVectorizer(dependency_templates(**fine), n_features=2**20), []
    for sentences, heads in cut(args, load_conllu, *(folder / name for name in names)):
        n = len(sentences) // args.fewer_trees
        found += [vectorizer.transform(sentences[:n]), heads[:n]]
    return DependencyTree(single_root=True), *found, accuracy


def letters(args):
    X, y, folds = load_letters(args.data / "ocr_letters" / "letters.npz")
    if args.development:
        X, y, n = X[folds == 0], y[folds == 0], 150
        return "chain", X[:-n], y[:-n], X[-n:], y[-n:], accuracy
    others = np.flatnonzero(folds != 0)[: args.test]
    return "chain", X[folds == 0], y[folds == 0], X[others], y[others], accuracy


SETS = {"chunking": chunking, "spanish": spanish, "letters": letters}
FEW_COLUMNS = {
    "chunking_tags": lambda args: chunking(args, describe_tags),
    "spanish_ends": lambda args: spanish(args, describe_ends),
}
for _language in TREEBANKS:
    SETS[f"speech_{_language.lower()}"] = lambda args, own=_language: speech(own, args)
    FEW_COLUMNS[f"speech_{_language.lower()}_ends"] = lambda args, own=_language: speech(own, args, describe_ends)
for _language in (*TREEBANKS, "Spanish"):
    SETS[f"trees_{_language.lower()}"] = lambda args, own=_language: trees(own, args)


def fit(structure, loss, alpha, seed, X, y):
    """Return a fitted model, and its CPU seconds."""
    model = StructuredSparseMAPClassifier(structure, loss, alpha=alpha, random_state=seed)
    began = process_time()
    model.fit(X, y)
    return model, process_time() - began


def compare(name, loss, data, args):
    """Print the row of a set and a loss."""
    structure, X, y, X_test, y_test, score = data
    figures = {alpha: [] for alpha in (None, "auto", *args.alphas)}
    seconds, chosen = {None: 0.0, "auto": 0.0}, {None: [], "auto": []}
    for alpha, found in figures.items():
        for seed in range(args.seeds if alpha in seconds else args.fixed_seeds):
            model, time = fit(structure, loss, alpha, seed, X, y)
            found.append(score(model, X_test, y_test))
            if alpha in seconds:
                seconds[alpha] += time
                chosen[alpha].append(model.alpha_)
    means = {alpha: np.mean(found) for alpha, found in figures.items()}
    best = max(args.alphas, key=means.get, default=None)
    ratio = seconds["auto"] / seconds[None]
    for alpha, measure in ((None, "default"), ("auto", "auto"), (best, "best fixed strength"))[: 2 + bool(args.alphas)]:
        results.record("strength of the penalty", name, f"score, {loss}, {measure}", means[alpha], "%",
                       seeds=len(figures[alpha]))  # fmt: skip
    results.record("strength of the penalty", name, f"CPU time of auto, {loss}", ratio, "times the default's",
                   seeds=args.seeds)  # fmt: skip
    fixed = " ".join(f"{means[alpha]:.2f}" for alpha in args.alphas)
    shown = [f"{means[alpha]:.2f} ({np.mean(chosen[alpha]):.1e})" for alpha in (None, "auto")]
    cells = name, loss, *shown, f"{means[best]:.2f} ({best:g})" if args.alphas else "-", fixed
    cells += f"{seconds[None] / args.seeds:.1f}", f"{ratio:.2f}"
    print("|", *(f"{cell} |" for cell in cells), flush=True)


class OfCRFsuite:
    """A model of CRFsuite with the scores of ours."""

    def __init__(self, model):
        self.model = model

    def predict(self, X):
        return self.model.predict(list(sentences_of(X)))

    def score(self, X, y):
        return np.mean([a == b for s, t in zip(y, self.predict(X), strict=True) for a, b in zip(s, t, strict=True)])


def compare_peer(name, data, args):
    """Print the rows of CRFsuite, which has taggers only."""
    from sklearn_crfsuite import CRF

    _, X, y, X_test, y_test, score = data
    # CRFsuite takes names: of the pixels of a letter that are black, and of labels.
    X, X_test = (RaggedArray(csr_array(own.values), own.indptr) for own in (X, X_test))
    y, y_test = ([list(map(str, labels)) for labels in own] for own in (y, y_test))
    for algorithm in ("lbfgs", "ap"):
        model = CRF(algorithm=algorithm, all_possible_transitions=True)
        began = process_time()
        model.fit(list(sentences_of(X)), y)
        seconds, reached = process_time() - began, score(OfCRFsuite(model), X_test, y_test)
        results.record("strength of the penalty", name, f"score, CRFsuite, {algorithm}", reached, "%")
        print(f"| {name} | CRFsuite, {algorithm} | {reached:.2f} | - | - | - | {seconds:.1f} | - |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *FEW_COLUMNS], default=list(SETS))
    parser.add_argument("--losses", nargs="+", default=["sparsemap", "margin_sparsemap", "crf", "hinge"])
    parser.add_argument("--alphas", type=float, nargs="*", default=[1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fixed-seeds", type=int, default=1, help="seeds of the fixed strengths")
    parser.add_argument("--sentences", type=int, default=2000, help="of training")
    parser.add_argument("--test", type=int, default=1000, help="sentences of the test part")
    parser.add_argument("--fewer-trees", type=int, default=3, help="divides the numbers of sentences of trees")
    parser.add_argument("--development", action="store_true", help="test on the end of the training files")
    parser.add_argument("--skip-peer", action="store_true", help="run our models only")
    args = results.parse(parser)
    if not args.data.exists():
        sys.exit(f"no {args.data}; name the folder of the data with --data")
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| set | loss | default (alpha) | auto (alpha) | best fixed | all fixed | CPU s of the default | of auto |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.sets:
        data = (SETS | FEW_COLUMNS)[name](args)
        structure, X, y, *_ = data
        for loss in args.losses:
            # Compiles the kernels, or loads them.
            fit(structure, loss, 1e-2, 0, X[:30], y[:30])
            compare(name, loss, data, args)
        if structure == "chain" and not args.skip_peer:
            compare_peer(name, data, args)


if __name__ == "__main__":
    main()
