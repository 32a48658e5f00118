"""When training ends: epochs, CPU seconds and held-out score by `tol`, of the default and of smaller values.

    python benchmarks/stopping.py --data DIR
    python benchmarks/stopping.py --data DIR --sets spanish ocr --losses crf --tols 1e-3 --solver lbfgs
    python benchmarks/stopping.py --data DIR --solver adagrad --losses sparsemap --tols --gaps 1e-3 0.03 0.1

Chunking (CoNLL-2000, scored on the end of the training file), Spanish entities (CoNLL-2002, on testa), letters (fold 0
of ten, the last quarter held out) and English trees (UD, on the development part). Test data are not used. --gaps tries
values of the gap at which the inference of AdaGrad ends, as fractions of the mean loss.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path
from time import process_time

import numpy as np
import results
from ocr import load_letters
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conll, load_conllu
from sklearn_sparsemap.estimators._learners import epochs
from sklearn_sparsemap.features import ArcVectorizer, TokenDictVectorizer, dependency_templates
from sklearn_sparsemap.metrics import flat_accuracy_score, span_f1_score, unlabeled_attachment_score
from sklearn_sparsemap.structures import DependencyTree

ROOT = Path(__file__).resolve().parents[1]


def describe(sentence, i):
    """Return the features of a token: its word, shape and part of speech, and those of its neighbours."""
    word = sentence[i]["word"]
    features = {"bias": 1.0, "suffix3": word[-3:], "suffix2": word[-2:], "prefix3": word[:3], "digit": word.isdigit()}
    for offset in (-1, 0, 1):
        if not 0 <= i + offset < len(sentence):
            features[f"{offset}:edge"] = True
            continue
        word, pos = (sentence[i + offset][field] for field in ("word", "pos"))
        features |= {f"{offset}:word": word.lower(), f"{offset}:title": word.istitle(), f"{offset}:pos": pos}
        features |= {f"{offset}:upper": word.isupper(), f"{offset}:pos2": pos[:2]}
    return features


def tag(train, dev):
    """Return the structure, features and labels of taggers' data, and their score."""
    vectorizer = TokenDictVectorizer()
    rows = [[[describe(s, i) for i in range(len(s))] for s in sentences] for sentences, _ in (train, dev)]
    return "chain", vectorizer.fit_transform(rows[0]), train[1], vectorizer.transform(rows[1]), dev[1], span_f1_score


def chunking(data, n):
    X, y = load_conll(data / "conll2000" / "train.txt.gz")
    return tag((X[:n], y[:n]), (X[-n // 3 :], y[-n // 3 :]))


def spanish(data, n):
    train, dev = (load_conll(data / "conll2002" / f"esp.{part}.gz") for part in ("train", "testa"))
    return tag([part[:n] for part in train], [part[: n // 3] for part in dev])


def ocr(data, n):
    X, y, folds = load_letters(data / "ocr_letters" / "letters.npz")
    X, y = X[folds == 0], y[folds == 0]
    cut = len(X) * 3 // 4
    return "chain", X[:cut], y[:cut], X[cut:], y[cut:], flat_accuracy_score


def english(data, n):
    vectorizer = ArcVectorizer(dependency_templates(fine_pos="xpos"), n_features=2**20)
    found = [DependencyTree(single_root=True)]
    for part, most in (("train", n // 2), ("dev", n // 6)):
        sentences, heads = load_conllu(data / "ud" / "en_ewt-r2.0" / f"{part}.conllu.gz")
        found += [vectorizer.transform(sentences[:most]), heads[:most]]
    return *found, unlabeled_attachment_score


SETS = {"chunking": chunking, "spanish": spanish, "ocr": ocr, "english": english}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--losses", nargs="+", default=["sparsemap", "margin_sparsemap", "crf"])
    parser.add_argument("--gaps", nargs="+", type=float, default=[epochs._ROUGH])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tols", nargs="*", type=float, default=[1e-3], help="values to try, after the default")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--sentences", type=int, default=3000, help="of training; trees: half of them")
    args = results.parse(parser)
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| set | loss | tol | gap | epochs or iterations | CPU s | held-out score |\n|---|---|---|---|---|---|---|")
    for name in args.sets:
        structure, X, y, X_dev, y_dev, score = SETS[name](args.data, args.sentences)
        for loss in args.losses:
            for tol, gap, seed in product((None, *args.tols), args.gaps, range(args.seeds)):
                epochs._ROUGH = gap
                model = StructuredSparseMAPClassifier(
                    structure, loss, alpha=1e-4, solver=args.solver, tol=tol, random_state=seed
                )
                # Compiles the kernels, or loads them.
                model.fit(X[:30], y[:30]).predict(X_dev[:5])
                start = process_time()
                model.fit(X, y)
                seconds = process_time() - start
                reached = 100 * np.mean(score(y_dev, model.predict(X_dev)))
                shown = "default" if tol is None else f"{tol:g}"
                own = f"{loss}, tol={shown}, gap {gap:g}, seed {seed}"
                results.record("when training ends", name, f"CPU time, {own}", seconds, "s")
                results.record("when training ends", name, f"held-out score, {own}", reached, "%")
                cells = name, loss, shown, f"{gap:g}", model.n_iter_, f"{seconds:.1f}", f"{reached:.2f}"
                print("|", *(f"{cell} |" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
