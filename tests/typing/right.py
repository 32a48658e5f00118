"""A user's script. Type checkers find no error in it, and a test runs it."""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from sklearn_sparsemap import (
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    marginal_inference,
    n_best,
    sparsemap,
)
from sklearn_sparsemap.factors import AtMost, Budget, FactorGraph, Implies, Xor
from sklearn_sparsemap.features import DERIVED_FIELDS, TemplateVectorizer, ngrams, sentences_from_frame
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.metrics import span_f1_score
from sklearn_sparsemap.pipeline import StructuredPipeline, make_structured_pipeline
from sklearn_sparsemap.score_models import Network
from sklearn_sparsemap.structures import LinearChain, Simplex

X = [["ann", "sleeps"], ["bob", "met", "ann"]]
y = [["B-PER", "O"], ["B-PER", "O", "B-PER"]]

# A tagger
templates = TemplateVectorizer([*ngrams("word", (1, 2), 1), "shape[0]"])
TemplateVectorizer(["n[0]"], derived_fields={**DERIVED_FIELDS, "n": ("word", len)})
tagger = make_structured_pipeline(templates, StructuredSparseMAPClassifier("chain", constraints="bio")).fit(X, y)
first: list[str] = tagger.predict(X)[0].tolist()
for labels, probability in tagger.predict_structures(X)[0]:
    print(f"{probability:.2f}", *labels)
span = tagger.predict_spans(X)[0][0]
print(first, span.type, span.probability, span_f1_score(y, tagger.predict(X)))
copy = StructuredPipeline.from_arrays(tagger.to_arrays())
accuracy: float = copy.set_params(verbose=True).score(X, y)
names: list[str] = list(tagger.get_params())

# An estimator alone
model = StructuredSparseMAPClassifier("chain", loss="hinge", solver="mira", eta0=1, n_jobs=1)
model.fit([np.eye(2)], [["a", "b"]], sample_weight=[1.0]).set_params(alpha=1e-3)
model.transitions_ = np.eye(2)
n_iter: int = model.n_iter_
rows: RaggedArray = RaggedArray.from_list([np.eye(2)])
print(model.score(rows, [["a", "b"]]) + 1, model.classes_.tolist(), model.get_params()["alpha"])

# Label sets
rules = [Implies("jazz", "music"), AtMost(2)]
sets = MultilabelLPSparseMAP(constraints=rules, threshold="auto", score_model=Network((3,)))
texts = TfidfVectorizer().fit_transform(["late jazz", "tax law"])
print(sets.set_params(score_model="linear").fit(texts, [{"jazz", "music"}, {"law"}]).predict(texts).shape)

# Inference
result = sparsemap(LinearChain(), np.eye(2), transitions=np.eye(2))
print(result.vjp(np.eye(2))["scores"].round(2), result.weights.tolist(), result.gap < 1e-6)
path, value = map_inference(LinearChain(), np.eye(2))
states: list[int] = map_inference(LinearChain(), np.eye(2)).structure.tolist()
choice: int = map_inference(Simplex(), [1.0, 2.0]).structure
for one in sparsemap(LinearChain(), [np.eye(2), np.eye(3)]):
    print(one.marginals.shape, one.converged)
log_partition: float = marginal_inference(LinearChain(), np.eye(2)).log_partition
best: list[tuple[np.ndarray, float]] = n_best(LinearChain(), np.eye(2), 2, margin=0.5)
loss, gradient = FenchelYoungLoss(LinearChain(), "crf").loss_gradient(np.eye(2), [0, 1])
print(path.tolist(), round(value), states, choice, round(log_partition), len(best), round(loss), gradient["scores"])

# A factor graph
graph = FactorGraph()
u = graph.variables((2, 3), name="u")
graph.add(Xor(u[0]), ~u[0, 0] >> u[1, 0], *[Budget(row, 1) for row in u])
print(lp_sparsemap(graph, np.ones((2, 3))).marginals, map_inference(graph, np.ones((2, 3))).value)


def sentences_of(frame: object) -> list[list[str]]:
    """Return the words of each sentence of a data frame."""
    sentences, tags = sentences_from_frame(frame, label="tag")
    print(tags[0][0], len(sentences_from_frame(frame)[0]))
    return [[token["word"] for token in sentence] for sentence in sentences]
