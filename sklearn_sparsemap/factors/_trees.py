"""sibling_tree: the factor graph of a dependency parser of second order."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

from .._core.annotations import Any
from ..structures import DependencyTree, HeadAutomaton
from ._graph import FactorGraph
from ._logic import StructureFactor

_MOST_GRAPHS = 64  # cached graphs, one for each length of sentences; more take more memory


def sibling_tree(arcs: Any, siblings: Any = None, *, tree: DependencyTree | None = None) -> FactorGraph:
    """Make the factor graph of a dependency tree with scores of consecutive siblings: a parser of second order.

    One factor is the tree over all arcs. The others are a `HeadAutomaton` over the modifiers of each head on each side
    [1]_. Pass this function as `structure` to `StructuredSparseMAPClassifier`, with samples ``(arcs, siblings)``. It
    learns weights of the features of both, by LP-SparseMAP [2]_ of the graph. Trees are given and predicted as with
    `DependencyTree`.

    Parameters
    ----------
    arcs : array or sparse matrix with (n + 1) * n rows, one for each arc of a sentence of n words
        As from `ArcVectorizer`. Only the number of rows is used.
    siblings : sparse matrix, default=None
        Features of the scores of siblings, as from `SiblingVectorizer`. By default, these scores have no features and
        are zero.
    tree : DependencyTree, default=None
        The structure of trees, without labels. Default: ``DependencyTree(single_root=True)``. For another one pass
        ``functools.partial(sibling_tree, tree=...)``.

    Returns
    -------
    graph : FactorGraph
        Its variables are named ``"tree"``, and the scores of siblings ``"siblings"``. Sentences of the same length
        have the same graph, with different features.

    Raises
    ------
    ValueError
        If the number of rows does not fit.

    References
    ----------
    .. [1] Martins, Almeida and Smith. Turning on the Turbo: Fast Third-Order Non-Projective Turbo Parsers. ACL 2013.
    .. [2] Niculae and Martins. LP-SparseMAP: Differentiable Relaxed Optimization for Sparse Structured Prediction. ICML
       2020.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.factors import sibling_tree
    >>> from sklearn_sparsemap.features import ArcVectorizer, SiblingVectorizer
    >>> words = [["dogs", "bark", "loudly"], ["cats", "sleep"]]
    >>> sentences = [[{"word": word, "pos": word[-1]} for word in sentence] for sentence in words]
    >>> heads = [[2, 0, 2], [2, 0]]
    >>> arcs = ArcVectorizer(n_features=2**12).transform(sentences)
    >>> siblings = SiblingVectorizer(n_features=2**12).transform(sentences)
    >>> X = list(zip(arcs, siblings))
    >>> model = StructuredSparseMAPClassifier(sibling_tree, max_iter=20).fit(X, heads)
    >>> [tree.tolist() for tree in model.predict(X)]
    [[2, 0, 2], [2, 0]]
    """
    n_rows = arcs.shape[0]
    n = (isqrt(4 * n_rows + 1) - 1) // 2
    if n < 1 or n * (n + 1) != n_rows:
        raise ValueError(f"arcs of a sentence of n words have (n + 1) * n rows, as from ArcVectorizer; got {n_rows}")
    graph = _graph_of_length(n, DependencyTree(single_root=True) if tree is None else tree)
    return graph if siblings is None else graph.with_features({"siblings": {"siblings": siblings}})


@lru_cache(_MOST_GRAPHS)
def _graph_of_length(n, tree):
    graph = FactorGraph()
    arcs = graph.structured(tree, (n + 1, n), name="tree")
    for head in range(n + 1):
        # Column m - 1 is word m. The nearest modifier comes first.
        for side in (arcs[head, : max(head - 1, 0)][::-1], arcs[head, head:]):
            if side.size:
                graph.add(StructureFactor(HeadAutomaton(), side, name="siblings"))
    return graph
