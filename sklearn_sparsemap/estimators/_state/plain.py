"""Plain forms: what `to_arrays` writes for structures, rules, groups and parts of fitted models.

The first argument of `add_form` stands in files, so never change one. A new structure, rule or class that a fitted
estimator holds needs an entry here; imported for that effect alone.

Used by `export.py`.
"""

from inspect import signature

import numpy as np

from ... import factors, penalties, structures
from ..._core.plain import Form, add_form, by_constructor
from ..._training._curve import BoundedCurve, mean_of
from ..._training._network import NetworkModel
from ..._training._trees import TreesModel
from ..._training.score_models import LinearModel
from ...factors._hierarchy import parents_of
from ...inference._labels import LabelGraph, OneLabel
from ...score_models import Network, Trees
from .._multilabel.calibration import Calibration, SoftmaxCalibration
from .._multilabel.decisions import GRID, OLD_RULES, ObservedLabelSets, Tuning
from .._structured.graph_builder import FixedGraph, GraphBuilder
from .state import TrainingState


def _arguments_of_program(program):
    given = {name: getattr(program, name) for name in signature(structures.LinearProgram).parameters}
    # The constructor stores omitted rows as empty arrays.
    for rows in ("A", "b"), ("A_eq", "b_eq"):
        if not len(given[rows[1]]):
            given.update(dict.fromkeys(rows))
    return given


def _arguments_of_hierarchy(hierarchy):
    return {"parents": parents_of(hierarchy)}


def _arguments_of_order(order):
    pairs = [(order.names[coarse], order.names[fine]) for coarse, fine in order.covers.tolist()]
    return {"pairs": pairs, "names": order.names, "columns": order.columns}


def _arguments_of_tree(tree):
    parents = [None if parent < 0 else tree.names[parent] for parent in tree.parents.tolist()]
    columns = None if tree.columns is None else dict(zip(tree.names, tree.columns, strict=True))
    return {"parents": dict(zip(tree.names, parents, strict=True)), "columns": columns}


def _make_calibration(slopes, offsets, single=False):
    return SoftmaxCalibration(slopes, offsets) if single else Calibration(slopes, offsets)


def _arguments_of_calibration(calibration):
    return {name: getattr(calibration, name) for name in ("slopes", "offsets", "single")}


def _make_tuning(thresholds=None, decay=1.0, totals=None, weight=0.0, _plain=None, _weight=0.0):
    """Make a comparison of thresholds. Early files have sums of two scores, for the rule "threshold"."""
    if _plain is not None:
        thresholds = {"threshold": GRID}
        totals = {"threshold": np.concatenate([_plain, 0.0 * _plain])}
        weight = _weight
    tuning = Tuning(thresholds, decay=decay)
    tuning.thresholds, tuning.totals = (
        {OLD_RULES.get(rule, rule): array for rule, array in arrays.items()} for arrays in (thresholds, totals)
    )
    tuning.weight = weight
    return tuning


def _arguments_of_tuning(tuning):
    return {name: getattr(tuning, name) for name in ("thresholds", "decay", "totals", "weight")}


_COUNTED = {"variables": "labels", "k": "k", "name": "name"}
_STRUCTURES = (
    "DependencyTree", "HeadAutomaton", "Hyperpath", "LinearChain", "Matching", "Path", "Ranking",
    "Segmentation", "SequenceBudget", "Simplex", "Subset",
)  # fmt: skip
for _name in _STRUCTURES:
    add_form(f"structures.{_name}", getattr(structures, _name))
add_form("structures.RowChoice", type(structures.Simplex.in_estimators.of_rows))
add_form("structures.Alignment", structures.Alignment, by_constructor(structures.Alignment, mode="kind"))
add_form("structures.LinearProgram", structures.LinearProgram, Form(structures.LinearProgram, _arguments_of_program))
for _cls in (factors.AtLeast, factors.AtMost, factors.Exactly):
    add_form(f"factors.{_cls.__name__}", _cls, by_constructor(_cls, _COUNTED))
for _cls in (factors.Exclusive, factors.Implies, factors.Label):
    add_form(f"factors.{_cls.__name__}", _cls)
add_form("factors.Hierarchy", factors.Hierarchy, Form(factors.Hierarchy, _arguments_of_hierarchy, ("labels",)))
add_form("penalties.Groups", penalties.Groups)
add_form("penalties.GroupOrder", penalties.GroupOrder, Form(penalties.GroupOrder, _arguments_of_order))
add_form("penalties.GroupTree", penalties.GroupTree, Form(penalties.GroupTree, _arguments_of_tree))
for _cls in (LinearModel, LabelGraph, OneLabel):
    add_form(_cls.__name__, _cls)
add_form("Network", NetworkModel)
add_form("Trees", TreesModel)
for _cls in (Network, Trees):
    add_form(f"score_models.{_cls.__name__}", _cls)
# In files one name stands for both classes.
for _cls in (Calibration, SoftmaxCalibration):
    add_form("Calibration", _cls, Form(_make_calibration, _arguments_of_calibration))
add_form("TrainingState", TrainingState, by_constructor(TrainingState, optimizer="kind", indices="places"))
# The name of this class in files of version 0.1.0.
add_form("GraphsOf", GraphBuilder)
add_form("FixedGraph", FixedGraph)
add_form("SeenSets", ObservedLabelSets)
_OF_LOSSES = ("entries", "last", "_per_entry", "_in_last")
add_form("Losses", BoundedCurve, Form(lambda: BoundedCurve(mean_of), lambda curve: {}, _OF_LOSSES))
add_form("Tuning", Tuning, Form(_make_tuning, _arguments_of_tuning))
