"""
Which columns matter, as groups with names
==========================================

Groups follow a `ColumnTransformer` within cross-validation: one for each of its transformers. The search chooses how
many to keep, and the model says which.
"""

from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
columns = ColumnTransformer([(k, StandardScaler(), make_column_selector(k)) for k in ("mean", "error", "worst")])
learner = GroupLassoPerceptron(groups="columns", shrink_every=100, random_state=0)
model = make_pipeline(columns.set_output(transform="pandas"), learner)
search = GridSearchCV(model, {"grouplassoperceptron__budget": [1, 2]}).fit(X, y)
print("selected", search.best_estimator_[-1].selected_group_names_, "by the accuracy", search.best_score_)
