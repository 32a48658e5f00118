"""
A tagger from a data frame
==========================

One row a token, a column that tells the sentences apart, and from there: grid search, span F1, what was learned, and a
model on disk. The path of the model may be given on the command line; otherwise it is saved beside this script.
"""

import sys
from pathlib import Path

import joblib
import pandas as pd
from sklearn.model_selection import GridSearchCV, train_test_split

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.features import TemplateVectorizer, sentences_from_frame
from sklearn_sparsemap.inspection import feature_table, transition_table
from sklearn_sparsemap.metrics import span_f1_score, span_f1_scorer
from sklearn_sparsemap.pipeline import make_structured_pipeline

frame = pd.read_csv(Path(__file__).parent / "tokens.csv")
X, y = sentences_from_frame(frame, sentence="sentence", label="chunk")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=30, random_state=0)
templates = TemplateVectorizer(["word[0]", "word[-1]", "pos[0]", "pos[-1]|pos[0]"])
model = make_structured_pipeline(templates, StructuredSparseMAPClassifier("chain", "crf"))
alphas = {"structuredsparsemapclassifier__alpha": [1e-3, 1e-1]}
search = GridSearchCV(model, alphas, scoring=span_f1_scorer, cv=3).fit(X_train, y_train)
print("span F1 of", search.best_params_, span_f1_score(y_test, search.predict(X_test)))
print(feature_table(search, n=3, output="pandas"))
print(transition_table(search, n=5, output="pandas"))
path = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".joblib")
joblib.dump(search.best_estimator_, path)
print(joblib.load(path).predict_structures(X_test[:1]))
