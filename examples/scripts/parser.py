"""
A parser from CoNLL-U to CoNLL-U
================================

Heads and relations are learned from a treebank, and written into other sentences, which keep their comments, ids and
multiword tokens. The path of the output may be given on the command line; otherwise it is parsed.conllu.
"""

import sys
from pathlib import Path

from sklearn_sparsemap import StructuredSparseMAPClassifier, structures
from sklearn_sparsemap.datasets import dump_conllu, load_conllu
from sklearn_sparsemap.features import ArcVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline

X, heads = load_conllu(Path(__file__).parent / "treebank.conllu", keep=True)
trees = [[(h, token["deprel"]) for h, token in zip(own.tolist(), x)] for own, x in zip(heads, X)]
tree = structures.DependencyTree(single_root=True, labels=sorted({relation for y in trees for _, relation in y}))
parser = make_structured_pipeline(ArcVectorizer(), StructuredSparseMAPClassifier(tree, "hinge")).fit(X[:40], trees[:40])
print(f"labelled attachment score {parser.score(X[40:], trees[40:]):.2f}")
path = Path(sys.argv[1] if len(sys.argv) > 1 else "parsed.conllu")
heads, relations = zip(*(y.T for y in parser.predict(X[40:])))
dump_conllu(X[40:], heads, relations, path)
print(path.read_text()[:200])
