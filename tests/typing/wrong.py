"""Lines with errors of users. Type checkers find one in each line after the first blank line, and in no other."""

import numpy as np
from right import graph, model, rows, sets, tagger, u

from sklearn_sparsemap import (
    MultilabelLPSparseMAP,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    marginal_inference,
    n_best,
    sparsemap,
)
from sklearn_sparsemap.factors import Budget
from sklearn_sparsemap.features import sentences_from_frame
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import LinearChain

# Each of the following lines is wrong.
StructuredSparseMAPClassifier("chian")
StructuredSparseMAPClassifier(loss="hing")
StructuredSparseMAPClassifier(n_jobs=2.5)
StructuredSparseMAPClassifier("chain", score_model="nets")
StructuredSparseMAPClassifier("chain", alfa=1.0)
MultilabelLPSparseMAP(decision="best")
Budget(u, 1.5)
tagger.predictt([["a"]])
tagger.predict_spans([["a"]], min_prob=0.5)
tagger.fit([["a"]], [["b"]]).predictt([["a"]])
tagger.named_stepss
model.predictt([np.eye(2)])
model.fit([np.eye(2)], [["a", "b"]], weights=[1.0])
model.fit([np.eye(2)], [["a", "b"]]).predictt
model.predict([np.eye(2)], time_limit=1.0)
model.predict([np.eye(2)]).tolst()
model.set_params(alpha=1e-3).predictt
model.get_params(depth=True)
model.score([], [], "x")[0]
model.n_iter_.append(1)
sets.predict_set(np.eye(2))
rows.indptrs
sparsemap(LinearChain, np.eye(2))
sparsemap(LinearChain(), np.eye(2), solver="fast")
sparsemap(LinearChain(), np.eye(2), max_iters=3)
sparsemap(LinearChain(), np.eye(2), tolerance="low")
sparsemap(LinearChain(), np.eye(2)).structure
sparsemap(LinearChain(), [np.eye(2)])[0].weight
map_inference(LinearChain(), np.eye(2)).structure.tolst()
map_inference(LinearChain(), [np.eye(2)])[0].structures
map_inference(graph, np.ones((2, 3))).structures
marginal_inference(LinearChain(), np.eye(2), njobs=2)
n_best(LinearChain(), np.eye(2), "2")
lp_sparsemap(graph, np.ones((2, 3)), solver="simplex")
lp_sparsemap(graph, np.ones((2, 3))).marginal
FenchelYoungLoss(LinearChain(), "crff")
FenchelYoungLoss(LinearChain(), "crf").loss_gradient(np.eye(2), [0, 1])[2]
sentences_from_frame({}, label="tag").append(1)
