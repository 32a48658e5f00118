"""Taggers of English web text from a thousand sentences: universal tags, from words alone.

    pip install ".[bench]" spacy
    python benchmarks/taggers.py [--sentences 1000]

UD EWT, gold tokens. Ours: a chain over templates of words, crf and sparsemap, at the defaults. CRFsuite gets the same
templates as features (L-BFGS, c2=1e-2). spaCy: a blank English pipeline with its tagger, whose network of hashed words,
prefixes, suffixes and shapes has no vectors, for 15 epochs, with its defaults otherwise. CPU time is that of training.
"""

import argparse
import os
import warnings
from importlib.util import find_spec
from pathlib import Path

# One thread for every model: set before the libraries are loaded.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from time import process_time

import numpy as np
import results
from word_vectors import ROOT, TEMPLATES, read

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.metrics import flat_accuracy_score
from sklearn_sparsemap.pipeline import make_structured_pipeline

N_EPOCHS = 15  # of spaCy


def by_us(loss):
    def train(words, tags):
        model = StructuredSparseMAPClassifier("chain", loss, random_state=0, n_jobs=1)
        return make_structured_pipeline(TemplateVectorizer(TEMPLATES), model).fit(words, tags).predict

    return train


def by_crfsuite(words, tags):
    from sklearn_crfsuite import CRF

    vectorizer = TemplateVectorizer(TEMPLATES).fit(words)

    def names_of(sentences):
        return [[[str(j) for j in row.indices] for row in own] for own in vectorizer.transform(sentences)]

    model = CRF(algorithm="lbfgs", c1=0.0, c2=1e-2, max_iterations=100).fit(names_of(words), tags)
    return lambda sentences: model.predict(names_of(sentences))


def by_spacy(words, tags):
    import spacy
    from spacy.tokens import Doc
    from spacy.training import Example

    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    tagger = nlp.add_pipe("tagger")
    for tag in sorted({tag for own in tags for tag in own}):
        tagger.add_label(tag)
    examples = [
        Example.from_dict(Doc(nlp.vocab, words=own), {"tags": gold}) for own, gold in zip(words, tags, strict=True)
    ]
    optimizer = nlp.initialize(lambda: examples)
    rng = np.random.default_rng(0)
    for _ in range(N_EPOCHS):
        for chosen in np.array_split(rng.permutation(len(examples)), max(len(examples) // 32, 1)):
            nlp.update([examples[i] for i in chosen], sgd=optimizer)
    return lambda sentences: [[t.tag_ for t in nlp(Doc(nlp.vocab, words=own))] for own in sentences]


PEERS = {"CRFsuite": ("sklearn_crfsuite", "sklearn-crfsuite", by_crfsuite), "spaCy": ("spacy", "spacy", by_spacy)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with ud/")
    parser.add_argument("--sentences", type=int, default=1000)
    args = results.parse(parser)
    warnings.simplefilter("ignore")
    folder = args.data / "ud" / "en_ewt-r2.0"
    (words, targets), (test_words, test_targets) = (read(folder / f"{part}.conllu.gz") for part in ("train", "test"))
    chosen = np.random.default_rng(0).permutation(len(words))[: args.sentences]
    words, tags = ([own[i] for i in chosen] for own in (words, targets["tags"]))
    ways = {"sparsemap": by_us("sparsemap"), "crf": by_us("crf")}
    for name, (module, _, way) in PEERS.items():
        if find_spec(module):
            ways[name] = way
        else:
            print(f"no {name}: pip install {module}")
    # Compiles the kernels, or loads them.
    for name in ("sparsemap", "crf"):
        ways[name](words[:50], tags[:50])
    found = {}
    print("| model | accuracy | CPU time of training |\n|---|---|---|")
    for name, train in ways.items():
        began = process_time()
        predict = train(words, tags)
        seconds = process_time() - began
        found[name] = 100.0 * flat_accuracy_score(test_targets["tags"], predict(test_words)), seconds
        print(f"| {name} | {found[name][0]:.2f} | {seconds:.1f} s |", flush=True)
    for name, (_, package, _) in PEERS.items():
        for k, (measure, unit) in enumerate((("accuracy", "%"), ("CPU time of training", "s"))):
            if name in found:
                results.record("taggers", f"UD English EWT, {args.sentences:,} sentences", f"{measure}, crf",
                               found["crf"][k], unit, name, found[name][k], package=package)  # fmt: skip


if __name__ == "__main__":
    main()
