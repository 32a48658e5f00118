"""
From sklearn-crfsuite, by two lines
===================================

A script as in the tutorial of sklearn-crfsuite. The features are the same dicts. Two lines differ for training and
prediction, and three for the reports; what they were is written above each.
"""

from pathlib import Path

import pandas as pd

# Instead of `import sklearn_crfsuite`
from sklearn_sparsemap import StructuredSparseMAPClassifier, features, inspection, metrics, pipeline


def word2features(sentence, i):
    word, postag = sentence[i]["word"], sentence[i]["pos"]
    found = {"bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:], "word.istitle()": word.istitle(),
             "postag": postag}  # fmt: skip
    if i > 0:
        found.update({"-1:word.lower()": sentence[i - 1]["word"].lower(), "-1:postag": sentence[i - 1]["pos"]})
    else:
        found["BOS"] = True
    if i < len(sentence) - 1:
        found.update({"+1:word.lower()": sentence[i + 1]["word"].lower(), "+1:postag": sentence[i + 1]["pos"]})
    else:
        found["EOS"] = True
    return found


tokens = pd.read_csv(Path(__file__).parent / "tokens.csv")
sentences = [group.to_dict("records") for _, group in tokens.groupby("sentence")]
X = [[word2features(s, i) for i in range(len(s))] for s in sentences]
y = [[token["chunk"] for token in s] for s in sentences]
X_train, y_train, X_test, y_test = X[:60], y[:60], X[60:], y[60:]

# Instead of `crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, all_possible_transitions=True)`
crf = pipeline.make_structured_pipeline(features.TokenDictVectorizer(), StructuredSparseMAPClassifier("chain", "crf"))
crf.fit(X_train, y_train)
y_pred = crf.predict(X_test)

# Instead of `print(sklearn_crfsuite.metrics.flat_f1_score(y_test, y_pred, average="weighted"))`
print(metrics.span_f1_score(y_test, y_pred))
# Instead of `print(Counter(crf.transition_features_).most_common(5))`
print(inspection.transition_table(crf, n=5))
# Instead of `print(Counter(crf.state_features_).most_common(5))`
print(inspection.feature_table(crf, n=5))
