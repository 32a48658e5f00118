"""second_order_tree: the factor graph of a dependency parser of second order."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

import numpy as np

from .._core.annotations import Any
from ..structures import DependencyTree, HeadAutomaton
from ._graph import FactorGraph
from ._logic import StructureFactor

# Number of lengths of sentences whose graphs are kept.
_MAX_GRAPHS = 64


def second_order_tree(
    arcs: Any, siblings: Any = None, grandparents: Any = None, *, tree: DependencyTree | None = None
) -> FactorGraph:
    """Make the factor graph of a dependency tree with scores of pairs of arcs: a parser of second order.

    A tree holds all arcs, and a `HeadAutomaton` the modifiers of each head on each side [1]_. It scores consecutive
    modifiers and, if `grandparents` is given, each modifier together with the head of its head [2]_. Pass this function
    as `structure` to `StructuredSparseMAPClassifier`, with samples ``(arcs, siblings)`` or ``(arcs, siblings,
    grandparents)``. It learns weights of all features by LP-SparseMAP [3]_ of the graph. Trees are given and predicted
    as with `DependencyTree`.

    Parameters
    ----------
    arcs : array or sparse matrix with (n + 1) * n rows, one for each arc of a sentence of n words
        As from `ArcVectorizer`. Only the number of rows is used.
    siblings : sparse matrix, default=None
        Features of the scores of siblings, as from `SiblingVectorizer`. By default, these scores are zero.
    grandparents : sparse matrix with n * n * (n - 1) rows, default=None
        Features of the scores of grandparents, as from `GrandparentVectorizer`. By default, there are no such scores.
        With them, inference takes about n times as long.
    tree : DependencyTree, default=None
        The structure of trees, without labels. Default: ``DependencyTree(single_root=True)``. For another one pass
        ``functools.partial(second_order_tree, tree=...)``.

    Returns
    -------
    graph : FactorGraph
        Its variables are named ``"tree"``, and the automata ``"heads"``, with the scores ``"siblings"`` and
        ``"grandparents"``. Sentences of the same length share a graph, except for the features.

    Raises
    ------
    ValueError
        If the number of rows does not fit.

    References
    ----------
    .. [1] Martins, Almeida and Smith. Turning on the Turbo: Fast Third-Order Non-Projective Turbo Parsers. ACL 2013.
    .. [2] Koo, Rush, Collins, Jaakkola and Sontag. Dual Decomposition for Parsing with Non-Projective Head Automata.
       EMNLP 2010.
    .. [3] Niculae and Martins. LP-SparseMAP: Differentiable Relaxed Optimization for Sparse Structured Prediction. ICML
       2020.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.factors import second_order_tree
    >>> from sklearn_sparsemap.features import ArcVectorizer, GrandparentVectorizer, SiblingVectorizer
    >>> words = [["dogs", "bark", "loudly"], ["cats", "sleep"]]
    >>> sentences = [[{"word": word, "pos": word[-1]} for word in sentence] for sentence in words]
    >>> heads = [[2, 0, 2], [2, 0]]
    >>> kinds = ArcVectorizer, SiblingVectorizer, GrandparentVectorizer
    >>> X = list(zip(*[kind(n_features=2**12).transform(sentences) for kind in kinds]))
    >>> model = StructuredSparseMAPClassifier(second_order_tree).fit(X, heads)
    >>> [tree.tolist() for tree in model.predict(X)]
    [[2, 0, 2], [2, 0]]
    """
    n_rows = arcs.shape[0]
    n = (isqrt(4 * n_rows + 1) - 1) // 2
    if n < 1 or n * (n + 1) != n_rows:
        raise ValueError(f"arcs of a sentence of n words have (n + 1) * n rows, as from ArcVectorizer; got {n_rows}")
    graph = _graph_of_length(n, DependencyTree(single_root=True) if tree is None else tree, grandparents is not None)
    features = {"siblings": siblings, "grandparents": grandparents}
    given = {name: rows for name, rows in features.items() if rows is not None}
    # A view, because users cannot add to it: later sentences of this length have the same graph.
    return graph.with_features({"heads": given} if given else {})


@lru_cache(_MAX_GRAPHS)
def _graph_of_length(n, tree, grandparents):
    graph = FactorGraph()
    arcs = graph.structured(tree, (n + 1, n), name="tree")
    structure = HeadAutomaton(grandparents)
    for head in range(n + 1):
        # Column m - 1 is word m. The root has no head.
        candidates = arcs[np.arange(n + 1) != head, head - 1] if grandparents and head else arcs[:0].ravel()
        # The nearest modifier comes first.
        for side in (arcs[head, : max(head - 1, 0)][::-1], arcs[head, head:]):
            shapes = {"siblings": (side.size + 1, side.size + 1), "grandparents": (candidates.size, side.size)}
            if side.size:
                used = {name: shapes[name] for name in structure.additional_names}
                graph.add(StructureFactor(structure, [candidates, side], name="heads", shapes=used))
    return graph
