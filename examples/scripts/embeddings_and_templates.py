"""
Embeddings beside templates
===========================

Words as vectors (here of their letters; look yours up in the same place), side by side with templates. Any transformer
of scikit-learn can make the vectors: it sees all words as one list.
"""

from pathlib import Path

import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.features import OnRows, RowUnion, TemplateVectorizer, sentences_from_frame
from sklearn_sparsemap.metrics import span_f1_score
from sklearn_sparsemap.pipeline import make_structured_pipeline

frame = pd.read_csv(Path(__file__).parent / "tokens.csv")
tokens, y = sentences_from_frame(frame, label="chunk", fields=["word"])
words = [[token["word"] for token in sentence] for sentence in tokens]
letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3))
vectors = OnRows(make_pipeline(letters, TruncatedSVD(16, random_state=0)))
features = RowUnion([("templates", TemplateVectorizer(["word[-1]", "word[1]", "case[0]"])), ("vectors", vectors)])
model = make_structured_pipeline(features, StructuredSparseMAPClassifier("chain", "crf", alpha=1e-3))
model.fit(words[:60], y[:60])
print(f"{len(features.fit(words[:60]).get_feature_names_out())} features in the groups {features.template_names_}")
print("span F1", span_f1_score(y[60:], model.predict(words[60:])))
