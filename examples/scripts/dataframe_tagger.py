"""
A tagger from a data frame
==========================

One row a token, a column that tells the sentences apart, and from there: constraints on the labels, grid search, span
F1 of each type, what was learned, a model on disk, and why it decides as it does. The path of the model may be given on
the command line; otherwise it is saved beside this script.
"""

import sys
from pathlib import Path

import joblib
import pandas as pd
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import StructuredSparseMAPClassifier, inspection, metrics
from sklearn_sparsemap.features import TemplateVectorizer, sentences_from_frame
from sklearn_sparsemap.pipeline import make_structured_pipeline

X, y = sentences_from_frame(pd.read_csv(Path(__file__).parent / "tokens.csv"), label="chunk")
templates = TemplateVectorizer(["word[0]", "word[-1]", "pos[0]", "pos[-1]|pos[0]"])
model = make_structured_pipeline(templates, StructuredSparseMAPClassifier("chain", "crf", constraints="bio"))
alphas = {"structuredsparsemapclassifier__alpha": [1e-3, 1e-1]}
search = GridSearchCV(model, alphas, scoring=metrics.span_f1_scorer, cv=3).fit(X[30:], y[30:])
predicted = search.predict(X[:30])
print("span F1 of", search.best_params_, metrics.span_f1_score(y[:30], predicted))
print(pd.DataFrame(metrics.span_precision_recall_f1(y[:30], predicted)).T)
print(inspection.feature_table(search, n=3, output="pandas"))
path = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".joblib")
joblib.dump(search.best_estimator_, path)
print(inspection.explain(joblib.load(path), X[0]).table(5, output="pandas"))
