"""`explain`: contributions to the difference of the scores of two structures."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from .._core.annotations import Any, Sequence
from .._core.html import as_html, short, table
from .._core.unwrap import single_sample, transformed_sample, unwrap_whole
from .._core.validation import check_positive
from ._tables import as_table, check_feature_names

_ENTRY = [("name", object), ("row", np.int64), ("label", object), ("contribution", np.float64), ("part_of", object)]
PREDICTED, RIVAL = "predicted", "rival"
# Maximum number of characters of a structure in a title. Of longer ones, only the differences are shown.
_TITLE = 60


class Explanation:
    """The difference of the scores of two structures, as a sum of contributions; see `explain`.

    A positive contribution speaks for the predicted structure, and a negative one for the rival. If a feature speaks
    against a part of the rival, such as a label that is not predicted, its contribution is positive.

    Attributes
    ----------
    predicted, rival : structures
        As `predict` returns them.
    score_difference : float
        Score of the first minus score of the second.
    quantity : str
        The quantity that is compared: ``"scores"``, or ``"log odds"`` of label sets.
    contributions : ndarray of shape (n_contributions,)
        These add up to `score_difference`.
    names : list of str
        The source of each contribution: the name of a feature, ``intercept``, an additional score such as
        ``transitions[N, V]``, or ``size`` (the amount that the objective of the loss subtracts from each part). For
        label sets also ``edge[jazz]`` (the edge to this label), ``network`` (the score of a label by hidden layers),
        ``rules`` (of a hierarchy), and ``calibration`` (the excess of large log odds, which grow slowly).
    rows : ndarray of shape (n_contributions,)
        The row of features, step or part; -1 for additional scores.
    labels : list
        The label of the weight; of factor graphs the variable, such as ``links[0, 1]``; of other structures whose
        scores have two axes the position in these, such as ``[0, 1]``; else None.
    parts_of : list of {"predicted", "rival"}
        The structure that has the part of each contribution. The other structure does not have it. If samples have a
        single label, the contribution of a feature to both labels is one entry, under the predicted label.
    without_rules : structure or None
        The structure that the same weights would predict if no rule held: for label sets and `constraints`, and for
        factor graphs whose factors are rules only; else None. If it breaks a rule, rules changed the prediction. A
        model that is trained without the rules may break them less often, because this one has learned nothing about
        what they forbid.
    broken_rules : list of str
        The rules that `without_rules` violates: names of factors, rules of label sets, or pairs of labels. "Sides" are
        the start and the end of a sequence.
    """

    def __init__(
        self, predicted, rival, score_difference, entries, parts_of=None, quantity="scores", without_rules=None,
        broken_rules=(),
    ):  # fmt: skip
        self.predicted, self.rival, self.score_difference = predicted, rival, score_difference
        self.quantity = quantity
        self.without_rules, self.broken_rules = without_rules, list(broken_rules)
        self.parts_of = [PREDICTED] * len(entries) if parts_of is None else list(parts_of)
        entries = np.array([(*entry, part_of) for entry, part_of in zip(entries, self.parts_of, strict=True)], _ENTRY)
        self.names = entries["name"].tolist()
        self.labels = entries["label"].tolist()
        self.rows, self.contributions = entries["row"], entries["contribution"]
        self._entries = entries

    @property
    def title(self) -> str:
        """The two structures in two lines, of long ones the parts in which they differ; and what rules changed."""
        texts = [_text_of(structure) for structure in (self.predicted, self.rival)]
        if max(map(len, texts)) > _TITLE or texts[0] == texts[1]:
            texts = [self._own_parts(side) for side in (PREDICTED, RIVAL)]
        lines = [f"predicted: {texts[0]}", f"compared with: {texts[1]}"]
        if self.broken_rules:
            free = _text_of(self.without_rules)
            lines.append(f"without rules: {free if len(free) <= _TITLE else free[: _TITLE - 1] + '…'}")
        return "\n".join(lines)

    def _own_parts(self, side):
        """Return as text the parts that only one of the structures has."""
        entries = [entry for entry in self._entries.tolist() if entry[4] == side]
        rows = {(row, label) for _, row, label, *_ in self._entries.tolist() if row >= 0}
        has_places = len({label for _, label in rows}) < len(rows)
        parts = {}
        for name, row, label, *_ in entries:
            where = f" at {row}" if has_places else ""
            if row >= 0:
                parts[f"part {row}" if label is None else f"{label}{where}"] = None
            elif not any(entry[1] >= 0 for entry in entries):
                parts[name if label is None else str(label)] = None
        text = ", ".join(parts)
        text = text if len(text) <= _TITLE else text[: _TITLE - 1] + "…"
        return f"{text}, where they differ" if parts else "without these"

    def table(self, n: int | None = None, *, output: str = "array") -> Any:
        """List the contributions, the largest in size first.

        Parameters
        ----------
        n : int, default=None
            Maximum number of contributions. By default, all.
        output : {"array", "pandas"}, default="array"

        Returns
        -------
        table : structured array, or DataFrame, with the columns name, row, label, contribution and part_of
        """
        if n is not None:
            check_positive("n", n, integer=True)
        order = np.argsort(-np.abs(self.contributions), kind="stable")[:n]
        return as_table(self._entries[order], output)

    def __repr__(self):
        return (
            f"Explanation({short(self.predicted)} over {short(self.rival)} by {self.score_difference:.4g}, "
            f"{len(self.contributions)} contributions)"
        )

    def _repr_html_(self):
        rows = [
            (name, "" if row < 0 else row, "" if label is None else label, f"{value:+.4g}", part_of)
            for name, row, label, value, part_of in self.table(20).tolist()
        ]
        rules = f" (which violates {', '.join(self.broken_rules)})" if self.broken_rules else ""
        title = self.title.replace("\n", "; ")
        heading = f"{title}{rules}. Difference of {self.quantity}: {self.score_difference:.4g}"
        columns = ("name", "row", "label", "contribution", "part of")
        return as_html(heading, table(columns, rows, len(self.contributions)))


def _text_of(structure):
    """Return a structure as text for a title: names, numbers, or the positions of the parts of a mask."""
    if isinstance(structure, dict):
        return "; ".join(f"{name}: {_text_of(own)}" for name, own in structure.items())
    array = np.asarray(structure)
    if array.dtype == bool:
        places = np.argwhere(array).tolist()
        chosen = [str(place[0] if len(place) == 1 else place) for place in places]
        return ", ".join(chosen) or "nothing"
    if array.ndim == 0:
        return str(structure)
    return ", ".join(map(str, array.tolist())) or "nothing"


def explain(model: Any, x: Any, *, against: Any = None, feature_names: Sequence[str] | None = None) -> Explanation:
    """Explain why a model predicts a structure and not the second best one.

    The score of a structure is a sum of contributions of features and additional scores. So is the difference of two
    scores, where only the parts in which the structures differ contribute.

    The score of a label set is the sum of the log odds of its labels, by `predict_proba` before rules are applied. With
    most decision rules `predict` may choose another set than the one with the highest score; the difference is then
    negative.

    Parameters
    ----------
    model : estimator
        A fitted `StructuredSparseMAPClassifier`, `GroupLassoPerceptron` or `MultilabelLPSparseMAP`; or a pipeline or a
        search around one, also scikit-learn's own.
    x : a sample
        A sample: an element of the list that ``predict`` takes; of a table also a single row, as a table or a Series;
        a text or a dict also in a list or Series.
    against : structure, default=None
        The structure to compare with, such as a set of names of labels. Default: the structure with the highest score
        among those that are not predicted.
    feature_names : sequence of str, default=None
        As in `feature_table`.

    Returns
    -------
    explanation : Explanation
        Its `contributions` add up to its `score_difference`.

    Raises
    ------
    ValueError
        If the model is not a linear structured one, `against` is not a structure of the sample, or there is only one.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> from sklearn_sparsemap.inspection import explain
    >>> from sklearn_sparsemap.pipeline import make_structured_pipeline
    >>> tagger = StructuredSparseMAPClassifier("chain", alpha=1e-4)
    >>> model = make_structured_pipeline(TemplateVectorizer(["word[0]"]), tagger)
    >>> model = model.fit([["the", "dog"], ["the", "cat"]], [["D", "N"], ["D", "N"]])
    >>> why = explain(model, ["the", "dog"])
    >>> why.predicted.tolist(), bool(abs(why.contributions.sum() - why.score_difference) < 1e-9)
    (['D', 'N'], True)
    >>> "word[0]=dog" in why.names
    True
    """
    # Figures import this room, and need no kernels.
    from ..estimators._face import face_of

    steps, last = unwrap_whole(model)
    face = face_of(last)
    if face is None:
        raise ValueError(
            "explain is for StructuredSparseMAPClassifier, GroupLassoPerceptron and MultilabelLPSparseMAP; got "
            f"{type(last).__name__}"
        )
    with nullcontext() if face.takes_rows else single_sample(model, x):
        X = transformed_sample(steps, last, x, face.takes_rows)
        names = check_feature_names(steps, last, feature_names, last.n_features_in_)
        found = face.explain(X, against, names)
    sides = None if found.sides is None else [PREDICTED if is_predicted else RIVAL for is_predicted in found.sides]
    return Explanation(
        found.predicted, found.rival, found.difference, found.terms, sides, found.quantity, found.without_rules,
        found.broken,
    )  # fmt: skip
