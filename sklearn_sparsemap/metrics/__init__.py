"""Metrics of structured predictions that scikit-learn lacks, and their scorers.

Conventions
-----------
`y_true` and `y_pred` are sequences with one sequence of labels for each sample, such as a sentence: lists, arrays, 1-D
object arrays of these, or `RaggedArray`. Both must have the same samples of the same lengths. A true label of None is
unknown, and its step is left out. -100, PyTorch's mark of steps to ignore, is refused. For `example_f1_score`
and `hierarchical_f1_score` they are indicator matrices, for `parts_f1_score` sequences of structures. `precision_at_k`
and `propensity_scored_precision_at_k` take scores of labels instead of predictions. Metrics are fractions in [0, 1],
and higher is better, except `normalized_regret` of decisions, which is 0 for optimal decisions. To make a scorer of a
metric with further arguments, use ``sklearn.metrics.make_scorer(hierarchical_f1_score, hierarchy=hierarchy)``.
"""

from sklearn.metrics import make_scorer

from ._multilabel import example_f1_score, hierarchical_f1_score
from ._parts import parts_f1_score
from ._rankings import precision_at_k, propensity_scored_precision_at_k
from ._regret import normalized_regret
from ._sequences import (
    flat_accuracy_score,
    flat_classification_report,
    flat_f1_score,
    labeled_attachment_score,
    sequence_accuracy_score,
    unlabeled_attachment_score,
)
from ._spans import convert_spans, span_f1_score, span_precision_recall_f1, span_report

__all__ = [
    "convert_spans",
    "example_f1_score",
    "example_f1_scorer",
    "flat_accuracy_score",
    "flat_accuracy_scorer",
    "flat_classification_report",
    "flat_f1_score",
    "flat_f1_scorer",
    "hierarchical_f1_score",
    "labeled_attachment_score",
    "labeled_attachment_scorer",
    "normalized_regret",
    "parts_f1_score",
    "parts_f1_scorer",
    "precision_at_1_scorer",
    "precision_at_3_scorer",
    "precision_at_5_scorer",
    "precision_at_k",
    "propensity_scored_precision_at_k",
    "sequence_accuracy_score",
    "sequence_accuracy_scorer",
    "span_f1_score",
    "span_f1_scorer",
    "span_precision_recall_f1",
    "span_report",
    "unlabeled_attachment_score",
    "unlabeled_attachment_scorer",
]

#: `example_f1_score` for the parameter ``scoring`` of scikit-learn's model selection.
example_f1_scorer = make_scorer(example_f1_score)
#: `flat_accuracy_score` for the parameter ``scoring`` of scikit-learn's model selection.
flat_accuracy_scorer = make_scorer(flat_accuracy_score)
#: `flat_f1_score` for the parameter ``scoring`` of scikit-learn's model selection.
flat_f1_scorer = make_scorer(flat_f1_score)
#: `labeled_attachment_score` for the parameter ``scoring`` of scikit-learn's model selection.
labeled_attachment_scorer = make_scorer(labeled_attachment_score)
#: `parts_f1_score` for the parameter ``scoring`` of scikit-learn's model selection.
parts_f1_scorer = make_scorer(parts_f1_score)
#: `precision_at_k` of `predict_proba` with k=1, for the parameter ``scoring`` of scikit-learn's model selection.
precision_at_1_scorer = make_scorer(precision_at_k, k=1, response_method="predict_proba")
#: `precision_at_k` of `predict_proba` with k=3, for the parameter ``scoring`` of scikit-learn's model selection.
precision_at_3_scorer = make_scorer(precision_at_k, k=3, response_method="predict_proba")
#: `precision_at_k` of `predict_proba` with k=5, for the parameter ``scoring`` of scikit-learn's model selection.
precision_at_5_scorer = make_scorer(precision_at_k, k=5, response_method="predict_proba")
#: `sequence_accuracy_score` for the parameter ``scoring`` of scikit-learn's model selection.
sequence_accuracy_scorer = make_scorer(sequence_accuracy_score)
#: `span_f1_score` for the parameter ``scoring`` of scikit-learn's model selection.
span_f1_scorer = make_scorer(span_f1_score)
#: `unlabeled_attachment_score` for the parameter ``scoring`` of scikit-learn's model selection.
unlabeled_attachment_scorer = make_scorer(unlabeled_attachment_score)
