"""template_report: which kinds of templates a model has selected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..._core.template_grammar import read_places
from .pipeline import template_names_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TemplateRow:
    """One template of a `TemplateReport`.

    Attributes
    ----------
    name : str
    fields : tuple of str
        What it looks at, each field once, sorted; in templates of arcs with the side, as in ``"head.pos"``.
    order : int
        How many atoms it joins: 1 is a unigram, 2 a bigram.
    offsets : tuple of int
        At which tokens it looks, ascending.
    selected : bool
    n_weights : int
        Nonzero weights.
    norm : float
        Euclidean norm of its weights.
    """

    name: str
    fields: tuple
    order: int
    offsets: tuple
    selected: bool
    n_weights: int
    norm: float


@dataclass(frozen=True)
class KindRow:
    """The templates with the same fields and order.

    Attributes
    ----------
    fields : tuple of str
    order : int
    n_selected, n_templates : int
    n_weights : int
        Nonzero weights of all of them.
    norm : float
        Euclidean norm of all their weights.
    """

    fields: tuple
    order: int
    n_selected: int
    n_templates: int
    n_weights: int
    norm: float


@dataclass(frozen=True)
class TemplateReport:
    """What `template_report` returns; ``print`` shows it as tables.

    Attributes
    ----------
    templates : list of TemplateRow
        All templates, in their order.
    kinds : list of KindRow
        By fields and order.
    offsets : dict of int -> (int, int)
        For each offset how many selected templates look there, and how many templates do.

    Examples
    --------
    >>> from sklearn_sparsemap import GroupLassoPerceptron, template_report
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> from sklearn_sparsemap.pipeline import make_structured_pipeline
    >>> tagger = make_structured_pipeline(
    ...     TemplateVectorizer(["word[0]", "word[-1]"]),
    ...     GroupLassoPerceptron("chain", groups="templates", budget=1, shrink_every=1, random_state=0),
    ... )
    >>> report = template_report(tagger.fit([["a", "b"], ["b", "a"]], [["x", "y"], ["y", "x"]]))
    >>> len(report.templates), sorted(report.offsets)
    (2, [-1, 0])
    """

    templates: list = field(repr=False)

    @property
    def kinds(self) -> list[KindRow]:
        members = {}
        for row in self.templates:
            members.setdefault((row.fields, row.order), []).append(row)
        return [
            KindRow(
                *kind,
                sum(row.selected for row in rows),
                len(rows),
                sum(row.n_weights for row in rows),
                float(np.sqrt(sum(row.norm**2 for row in rows))),
            )
            for kind, rows in members.items()
        ]

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        selected, total = Counter(), Counter()
        for row in self.templates:
            total.update(row.offsets)
            if row.selected:
                selected.update(row.offsets)
        return {offset: (selected[offset], total[offset]) for offset in sorted(total)}

    def __str__(self):
        chosen = [row for row in self.templates if row.selected]
        n_weights = sum(row.n_weights for row in self.templates)
        kinds = [
            (" ".join(kind.fields), kind.order, f"{kind.n_selected} of {kind.n_templates}", *_numbers(kind))
            for kind in self.kinds
        ]
        offsets = [(f"{offset:+d}" if offset else "0", f"{k} of {n}") for offset, (k, n) in self.offsets.items()]
        rows = [(row.name, *_numbers(row)) for row in sorted(chosen, key=lambda row: -row.norm)]
        tables = [
            f"{len(chosen)} of {len(self.templates)} templates selected, {n_weights:,} nonzero weights",
            _table(("fields", "order", "selected", "weights", "norm"), kinds),
            _table(("offset", "selected"), offsets) if offsets else None,
            _table(("template", "weights", "norm"), rows) if rows else None,
        ]
        return "\n\n".join(table for table in tables if table is not None)


def template_report(estimator: Any, template_names: Sequence[Any] | None = None) -> TemplateReport:
    """Tell which kinds of templates a model has selected: by fields, by order and by offset.

    Parameters
    ----------
    estimator : fitted GroupLassoPerceptron, or Pipeline that ends with one
        Its groups are templates, as with ``groups="templates"`` or a `GroupOrder` of templates.
    template_names : sequence of str or Template, default=None
        In the order of their numbers, such as `TemplateVectorizer.template_names_`. None takes those of the
        vectorizer in the pipeline, or of the `GroupOrder`.

    Returns
    -------
    report : TemplateReport
        With `templates`, `kinds` and `offsets`; ``print(report)`` shows them.

    Raises
    ------
    ValueError
        If there are no names, fewer than groups, or one cannot be read.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_sparsemap import GroupLassoPerceptron, template_report
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> sentences = [["a", "b", "c"], ["c", "b", "a"], ["b", "b", "c"], ["c", "c", "a"]] * 5
    >>> labels = [[str(word == "b") for word in sentence] for sentence in sentences]
    >>> tagger = make_pipeline(
    ...     TemplateVectorizer(["word[-1]", "word[0]", "word[-1]|word[0]"]),
    ...     GroupLassoPerceptron("chain", groups="templates", budget=1, shrink_every=10, random_state=0),
    ... )
    >>> report = template_report(tagger.fit(sentences, labels))
    >>> [row.name for row in report.templates if row.selected]
    ['word[0]']
    >>> [(kind.fields, kind.order, kind.n_selected, kind.n_templates) for kind in report.kinds]
    [(('word',), 1, 1, 2), (('word',), 2, 0, 1)]
    >>> report.offsets
    {-1: (0, 2), 0: (1, 2)}
    """
    model = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not hasattr(type(model), "selected_groups_"):
        raise ValueError(f"estimator must be a GroupLassoPerceptron or end with one; got {type(model).__name__}")
    check_is_fitted(model)
    groups = model.groups_
    if groups.n_groups != groups.n_atoms:
        raise ValueError(f"{groups!r} are no templates, of which each feature has one; use groups='templates'")
    names = _check_names(template_names, estimator, groups)
    coef = model.coef_.tocoo()
    template = groups.atom_of[coef.col]
    is_nonzero = coef.data != 0
    n_weights = np.bincount(template[is_nonzero], minlength=len(names))
    norms = np.sqrt(np.bincount(template, coef.data**2, minlength=len(names)))
    selected = np.isin(np.arange(len(names)), model.selected_groups_)
    rows = []
    for k, name in enumerate(names):
        atoms = read_places(name)
        fields = tuple(sorted({text if side is None else f"{side}.{text}" for (side, _), text in atoms}))
        offsets = tuple(sorted({offset for (_, offset), _ in atoms if offset is not None}))
        rows.append(
            TemplateRow(name, fields, len(atoms), offsets, bool(selected[k]), int(n_weights[k]), float(norms[k]))
        )
    return TemplateReport(rows)


def _check_names(names, estimator, groups):
    if names is None and isinstance(estimator, Pipeline):
        names = template_names_of(estimator.steps)
    if names is None and not isinstance(groups.names, range):
        names = groups.names
    if names is None:
        raise ValueError("the templates have no names; pass template_names, such as vectorizer.template_names_")
    if isinstance(names, str):
        raise ValueError(f"template_names must be a list of templates; write [{names!r}]")
    names = list(map(str, names))
    # The last templates may have no columns.
    if len(names) < groups.n_groups:
        raise ValueError(f"template_names has {len(names)} entries for {groups.n_groups} groups; give one for each")
    return names


def _numbers(row):
    return f"{row.n_weights:,}", f"{row.norm:.3g}"


def _table(head, rows):
    """Write a table whose first column is flush left, the others flush right."""
    rows = [head, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[c]) for row in rows) for c in range(len(head))]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:]))]
        lines.append("  ".join(cells))
    return "\n".join(lines)
