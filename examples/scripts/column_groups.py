"""
Which columns matter, as groups with names
==========================================

Groups come from a `ColumnTransformer`: one for each of its transformers. The model keeps one of them, and says which.
"""

from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron
from sklearn_sparsemap.penalties import groups_from

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
kinds = {"mean": "^mean", "error": "error$", "worst": "^worst"}
columns = ColumnTransformer([(name, StandardScaler(), make_column_selector(kind)) for name, kind in kinds.items()])
Z_train = columns.set_output(transform="pandas").fit_transform(X_train)
model = GroupLassoPerceptron(groups=groups_from(columns), budget=1, shrink_every=100, random_state=0)
print("selected", model.fit(Z_train, y_train).selected_group_names_, "of", list(model.groups_.names))
print("features", model.feature_names_in_[model.get_support()].tolist())
print("accuracy", model.score(columns.transform(X_test), y_test))
