"""What vectors of words, clusters of them, and character n-grams add to the templates of a tagger.

    python benchmarks/word_vectors.py --data DIR --vectors PATH

    python benchmarks/word_vectors.py --data DIR --vectors PATH --development

measures on the development part, on which the settings were chosen.

Taggers learn the universal tags of English web text, and its names, which are runs of proper nouns, from a few hundred
or thousand sentences. DIR holds ud/en_ewt-r2.0/{train,dev,test}.conllu.gz. PATH is a file of `load_word_vectors`, or
the folder of a vocabulary of spaCy's (``vocab`` within a pipeline).
"""

import argparse
import time
from copy import copy
from pathlib import Path

import numpy as np
import results
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conllu, load_word_vectors
from sklearn_sparsemap.features import OnRows, RowUnion, TemplateVectorizer, WordClusters, WordVectors, ngrams
from sklearn_sparsemap.metrics import flat_accuracy_score, span_f1_score
from sklearn_sparsemap.pipeline import make_structured_pipeline

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = [
    *ngrams("lower", (1, 2), 1), *ngrams("shape", (1, 2), 1), "lower[-2]", "lower[2]", "word[0]", "prefix2[0]",
    "prefix3[0]", "suffix1[0]", "suffix2[0]", "suffix3[0]", "suffix4[0]",
]  # fmt: skip
ALONE = "templates"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with ud/")
    parser.add_argument("--vectors", type=Path, required=True, help="file of word vectors, or folder of a vocabulary")
    parser.add_argument("--sizes", nargs="+", type=int, default=[500, 2000], help="numbers of sentences")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="draws of the sentences")
    parser.add_argument("--windows", nargs="+", type=int, default=[0, 2], help="windows of clusters")
    parser.add_argument("--loss", default="sparsemap")
    parser.add_argument("--development", action="store_true", help="measure on the development part")
    return results.parse(parser)


def read_vectors(path):
    if path.is_dir():
        from spacy.vocab import Vocab

        return Vocab().from_disk(path)
    return load_word_vectors(path)


def as_names(tags):
    """Return the spans of proper nouns as labels of the scheme BIO."""
    pairs = zip([None, *tags], tags)
    return ["O" if tag != "PROPN" else "I-name" if before == "PROPN" else "B-name" for before, tag in pairs]


def read(path):
    """Return the words of sentences, their tags and their names."""
    sentences, _ = load_conllu(path, fields=("word", "pos"))
    tags = [[token["pos"] for token in sentence] for sentence in sentences]
    words = [[token["word"] for token in sentence] for sentence in sentences]
    return words, {"tags": tags, "names": list(map(as_names, tags))}


def unions(vectors, windows):
    """Return the parts of features by their names; clusters and vectors are made once."""
    begin = time.process_time()
    made = WordClusters(vectors, random_state=0).fit()
    print(f"clusters: {time.process_time() - begin:.1f} CPU s for 200 and 1,000", flush=True)
    # The window is read when sentences are transformed.
    clusters = {window: FrozenEstimator(copy(made).set_params(window=window)) for window in windows}
    dense = FrozenEstimator(WordVectors(vectors).fit())
    characters = OnRows(CountVectorizer(analyzer="char_wb", ngram_range=(2, 5), binary=True, lowercase=False))
    found = {ALONE: [], "character n-grams": [("characters", characters)]}
    found |= {f"clusters, window {window}": [("clusters", own)] for window, own in clusters.items()}
    return {**found, "vectors": [("vectors", dense)]}


def main():
    args = parse_arguments()
    folder = args.data / "ud" / "en_ewt-r2.0"
    words, targets = read(folder / "train.conllu.gz")
    test_words, test_targets = read(folder / ("dev.conllu.gz" if args.development else "test.conllu.gz"))
    parts = unions(read_vectors(args.vectors), args.windows)
    kinds = {"tags": ("accuracy", flat_accuracy_score), "names": ("span F1", span_f1_score)}
    model = StructuredSparseMAPClassifier("chain", loss=args.loss, random_state=0)
    for size in args.sizes:
        for kind, (measure, score) in kinds.items():
            scores, seconds = {}, {}
            # All sentences are one draw.
            for seed in args.seeds if size < len(words) else args.seeds[:1]:
                chosen = np.random.default_rng(seed).permutation(len(words))[:size]
                X, y = ([own[i] for i in chosen] for own in (words, targets[kind]))
                for name, own in parts.items():
                    features = RowUnion([("templates", TemplateVectorizer(TEMPLATES)), *own])
                    pipeline = make_structured_pipeline(features, model)
                    begin = time.process_time()
                    pipeline.fit(X, y)
                    seconds.setdefault(name, []).append(time.process_time() - begin)
                    predicted = pipeline.predict(test_words)
                    scores.setdefault(name, []).append(100.0 * score(test_targets[kind], predicted))
            data = f"UD English EWT, {kind}, {size:,} sentences"
            print(f"\n{data}: {measure}, gain, CPU time of the fit / that of templates")
            for name, own in scores.items():
                gains = np.subtract(own, scores[ALONE])
                ratio = np.sum(seconds[name]) / np.sum(seconds[ALONE])
                print(f"{name:24} {np.mean(own):6.2f} {gains.mean():+6.2f} {ratio:6.2f}", flush=True)
                if name != ALONE and not args.development:
                    half = results.half_width(gains) if len(own) > 1 else None
                    pair = {"peer": ALONE, "theirs": np.mean(scores[ALONE]), "seeds": len(own), "interval": half}
                    results.record("word vectors", data, f"{measure}, {name}", np.mean(own), "%", **pair)
                    pair = {"peer": ALONE, "theirs": np.sum(seconds[ALONE]), "seeds": len(own)}
                    results.record("word vectors", data, f"CPU time of fit, {name}", np.sum(seconds[name]), "s", **pair)


if __name__ == "__main__":
    main()
