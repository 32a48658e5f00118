"""Every structure, with random small instances: a structure listed here joins all tests that loop over them."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import naive
import numpy as np
import pytest
from naive_hyperpath import enumerate_derivations, random_derivable

from sklearn_sparsemap.structures import (
    Alignment,
    CustomStructure,
    DependencyTree,
    HeadAutomaton,
    Hyperpath,
    LinearChain,
    Matching,
    Path,
    Ranking,
    Segmentation,
    SequenceBudget,
    Simplex,
    Subset,
)


@dataclass
class Instance:
    structure: Any
    scores: np.ndarray
    additional: dict

    def enumerate(self):
        """Return (structures, unary indicators, total scores) of everything that can be predicted."""
        enumerate_all = {
            Simplex: naive.enumerate_simplex,
            LinearChain: naive.enumerate_chain,
            SequenceBudget: naive.enumerate_budgeted,
            DependencyTree: naive.enumerate_trees,
            Matching: naive.enumerate_matchings,
            Subset: naive.enumerate_subsets,
            Alignment: naive.enumerate_alignments,
            Ranking: naive.enumerate_rankings,
            Segmentation: naive.enumerate_segmentations,
            Path: naive.enumerate_paths,
            Hyperpath: enumerate_derivations,
            HeadAutomaton: naive.enumerate_modifiers,
            CustomStructure: naive.enumerate_segments,
        }
        told_by_scores = CustomStructure, HeadAutomaton
        options = {} if isinstance(self.structure, told_by_scores) else self.structure._params()
        return enumerate_all[type(self.structure)](self.scores, **self.additional, **options)

    def problem(self):
        """Return the arrays that oracles and solvers take: scores, additional scores, dims and sizes."""
        names = self.structure.additional_names
        given = {name: np.asarray(self.additional[name], float) for name in names if name in self.additional}
        dims, sizes = self.structure.layout(self.scores.shape, {name: array.shape for name, array in given.items()})
        arrays = [
            np.array(self.scores, float).ravel(),
            np.concatenate([np.zeros(0), *map(np.ravel, given.values())]),
            np.array(dims, np.int64),
            np.array(sizes, np.int64),
        ]
        for array in arrays:
            array.flags.writeable = False
        return tuple(arrays)

    def __repr__(self):
        return f"{self.structure!r} {self.scores.shape} with {sorted(self.additional)}"


def listed(structure):
    """Return a structure as the twins list it: with tuples in the place of arrays."""
    return tuple(map(listed, structure)) if np.ndim(structure) else structure


def draw(rng, shape, scale, ties):
    values = rng.normal(size=shape) * scale
    return np.round(values) if ties else values


def random_simplex(rng, scale=1.0, ties=False, forbid=False):
    scores = draw(rng, rng.integers(1, 9), scale, ties)
    if forbid and len(scores) > 1:
        scores[rng.integers(len(scores))] = -np.inf
    return Instance(Simplex(), scores, {})


def random_chain(rng, scale=1.0, ties=False, forbid=False, most_paths=700):
    while True:
        n, m = int(rng.integers(1, 8)), int(rng.integers(1, 6))
        if m**n <= most_paths:
            break
    additional = {}
    if rng.random() < 0.7:
        stationary = rng.random() < 0.5
        additional["transitions"] = draw(rng, (m, m) if stationary else (n - 1, m, m), scale, ties)
    for name in ("start", "end"):
        if rng.random() < 0.5:
            additional[name] = draw(rng, (m,), scale, ties)
    scores = draw(rng, (n, m), scale, ties)
    if forbid and m > 1:
        # State 0 stays allowed everywhere, so that a path is left.
        mask = rng.random((n, m)) < 0.3
        mask[:, 0] = False
        scores[mask] = -np.inf
        if "transitions" in additional:
            mask = rng.random(additional["transitions"].shape) < 0.2
            mask[..., 0, 0] = False
            additional["transitions"][mask] = -np.inf
    return Instance(LinearChain(), scores, additional)


def random_budget(rng, *, exactly=False, most_paths=300, forbid=False, **options):
    """Draw a chain with a budget that no path of scores of -inf may exceed; one path always keeps it."""
    while True:
        chain = random_chain(rng, most_paths=most_paths, forbid=forbid, **options)
        n, m = chain.scores.shape
        # A path through state 0 alone is allowed in chains with forbidden states, so that is not the counted one.
        state = int(rng.integers(1 if forbid and not exactly else 0, m)) if m > 1 else 0
        budget = int(rng.integers(0, n + 1 if exactly else n + 3))
        if rng.random() < 0.3:
            budget = float(rng.uniform(0.05, 0.95))
        structure = SequenceBudget(budget, state, exactly)
        found = Instance(structure, chain.scores, chain.additional)
        if (m > 1 or structure.budget_of(n) >= n) and found.enumerate()[2].max(initial=-np.inf) > -np.inf:
            return found


def random_exact_budget(rng, **options):
    return random_budget(rng, exactly=True, **options)


def random_tree(rng, scale=1.0, ties=False, forbid=False, **options):
    n_labels = options.get("n_labels")
    n = int(rng.integers(1, 4 if n_labels else 5))
    scores = draw(rng, (n + 1, n, n_labels) if n_labels else (n + 1, n), scale, ties)
    if forbid:
        # A chain from the root stays allowed.
        mask = rng.random(scores.shape) < 0.4
        mask[np.arange(n), np.arange(n)] = False
        scores[mask] = -np.inf
    return Instance(DependencyTree(**options), scores, {})


def random_projective_tree(rng, **options):
    return random_tree(rng, projective=True, **options)


def random_single_root_tree(rng, **options):
    return random_tree(rng, single_root=True, **options)


def random_projective_single_root_tree(rng, **options):
    return random_tree(rng, projective=True, single_root=True, **options)


def random_labelled_tree(rng, **options):
    return random_tree(rng, n_labels=2, **options)


def random_labelled_projective_tree(rng, **options):
    return random_tree(rng, projective=True, single_root=True, n_labels=2, **options)


def random_matching(rng, scale=1.0, ties=False, forbid=False):
    n, m = rng.integers(1, 5, size=2)
    scores = draw(rng, (n, m), scale, ties)
    if forbid:
        mask = rng.random((n, m)) < 0.4
        np.fill_diagonal(mask, False)
        scores[mask] = -np.inf
    return Instance(Matching(), scores, {})


def random_subset(rng, scale=1.0, ties=False, forbid=False):
    n = int(rng.integers(1, 8))
    min_size, max_size = sorted(int(k) for k in rng.integers(0, n + 1, size=2))
    scores = draw(rng, (n,), scale, ties)
    if forbid:
        scores[: n - min_size][rng.random(n - min_size) < 0.4] = -np.inf
    return Instance(Subset(min_size, max_size if rng.random() < 0.8 else None), scores, {})


def random_alignment(rng, scale=1.0, ties=False, forbid=False, kind="warping"):
    n, m = rng.integers(1, 5, size=2)
    scores, additional = draw(rng, (n, m), scale, ties), {}
    if kind != "warping" and rng.random() < 0.7:
        additional["gaps"] = draw(rng, (2,), scale, ties)
    if forbid:
        mask = rng.random((n, m)) < 0.3
        # A path along the first row and the last column is left.
        mask[0] = mask[:, -1] = False
        scores[mask] = -np.inf
    return Instance(Alignment(kind), scores, additional)


def random_global_alignment(rng, **options):
    return random_alignment(rng, kind="global", **options)


def random_local_alignment(rng, **options):
    return random_alignment(rng, kind="local", **options)


def random_ranking(rng, scale=1.0, ties=False, forbid=False, top_k=None):
    n = int(rng.integers(top_k or 1, 6))
    scores = draw(rng, (n,), scale, ties)
    if forbid:
        # As many are left as have points.
        n_forbidden = n - top_k if top_k else min(1, n - 1)
        scores[rng.choice(n, n_forbidden, replace=False)] = -np.inf
    return Instance(Ranking(top_k), scores, {})


def random_top_two(rng, **options):
    return random_ranking(rng, top_k=2, **options)


def random_segmentation(rng, scale=1.0, ties=False, forbid=False, parts="steps", open_ended=False):
    # Segmentations with as many spans each would be structures of one size to the twin.
    least = 2 if parts == "spans" else 1
    while True:
        n, m, longest = int(rng.integers(least, 7)), int(rng.integers(1, 4)), int(rng.integers(least, 5))
        # Spans of an open-ended duration may have any length.
        largest = n if open_ended else longest
        n_keys = len(naive.all_segmentations(n, largest, m, parts == "spans"))
        if 1 <= n_keys <= 300:
            break
    structure = Segmentation(longest, parts, open_ended=open_ended)
    scores = draw(rng, (n, m) if parts == "steps" else (n, longest, m), scale, ties)
    shapes = structure.additional_shapes(scores.shape)
    additional = {name: draw(rng, own[0], scale, ties) for name, own in shapes.items() if rng.random() < 0.6}
    if forbid:
        # One segmentation is left.
        kept = naive.all_segmentations(n, largest, m, parts == "spans")[rng.integers(n_keys)]
        forbidden = rng.random(scores.shape) < 0.3
        for i, j, label in kept:
            if parts == "steps":
                forbidden[i:j, label] = False
            else:
                forbidden[i, j - i - 1, label] = False
        scores[forbidden] = -np.inf
        if "durations" in additional and len(kept) == 1:
            additional["durations"][np.arange(longest) != min(n, longest) - 1, kept[0][2]] = -np.inf
    return Instance(structure, scores, additional)


def random_open_ended(rng, **options):
    return random_segmentation(rng, open_ended=True, **options)


def random_spans(rng, **options):
    return random_segmentation(rng, parts="spans", **options)


def random_edges(rng, n_nodes, n_edges):
    """Return edges of a graph without cycles, of nodes with arbitrary numbers, and a source and a target."""
    nodes = rng.permutation(20)[:n_nodes]
    ends = np.array([np.sort(rng.choice(n_nodes, 2, replace=False)) for _ in range(n_edges)], int)
    spine = np.sort(rng.choice(n_nodes, int(rng.integers(2, n_nodes + 1)), replace=False))
    ends = np.concatenate([ends.reshape(-1, 2), np.column_stack([spine[:-1], spine[1:]])])
    return nodes[rng.permutation(ends)], int(nodes[spine[0]]), int(nodes[spine[-1]])


def random_path(rng, scale=1.0, ties=False, forbid=False):
    structure = Path(*random_edges(rng, int(rng.integers(2, 7)), int(rng.integers(0, 9))))
    scores = draw(rng, (len(structure.edges),), scale, ties)
    if forbid:
        paths = naive.all_paths(structure.edges.tolist(), structure.source, structure.target)
        # One path is left.
        mask = rng.random(len(scores)) < 0.4
        mask[paths[rng.integers(len(paths))]] = False
        scores[mask] = -np.inf
    return Instance(structure, scores, {})


def random_hyperpath(rng, scale=1.0, ties=False, forbid=False):
    heads, tails, target, derivations = random_derivable(rng)
    scores = draw(rng, (len(heads),), scale, ties)
    if forbid:
        # One derivation is left.
        mask = rng.random(len(scores)) < 0.4
        mask[derivations[rng.integers(len(derivations))]] = False
        scores[mask] = -np.inf
    return Instance(Hyperpath(heads, tails, target), scores, {})


def random_modifiers(rng, scale=1.0, ties=False, forbid=False):
    n = int(rng.integers(1, 8))
    additional = {"siblings": draw(rng, (n + 1, n + 1), scale, ties)} if rng.random() < 0.8 else {}
    return _forbid_modifiers(rng, Instance(HeadAutomaton(), draw(rng, (n,), scale, ties), additional), forbid)


def random_grandparents(rng, scale=1.0, ties=False, forbid=False):
    n_candidates, n = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    additional = {"siblings": draw(rng, (n + 1, n + 1), scale, ties)} if rng.random() < 0.7 else {}
    additional["grandparents"] = draw(rng, (n_candidates, n), scale, ties)
    instance = Instance(HeadAutomaton(grandparents=True), draw(rng, (n_candidates + n,), scale, ties), additional)
    return _forbid_modifiers(rng, instance, forbid)


def _forbid_modifiers(rng, instance, forbid):
    """Forbid some parts, such that a structure is left."""
    if forbid:
        structures = instance.enumerate()[0]
        kept = np.array(structures[rng.integers(len(structures))])
        instance.scores[(rng.random(kept.shape) < 0.3) & ~kept] = -np.inf
        shapes = {name: values.shape for name, values in instance.additional.items()}
        _, own = instance.structure.encode(kept, instance.structure.dims(kept.shape, shapes))
        first = 0
        for values in instance.additional.values():
            forbidden = rng.random(values.size) < 0.3
            forbidden[own[(own >= first) & (own < first + values.size)] - first] = False
            values[forbidden.reshape(values.shape)] = -np.inf
            first += values.size
    return instance


def best_segment(scores, additional):
    """Return the best run of neighbouring parts, and the place of its length's score."""
    scores, additional, runs = scores.tolist(), additional.tolist(), []
    for i in range(len(scores)):
        for length, total in enumerate(accumulate(scores[i:]), 1):
            runs.append((total + additional[length - 1], i, i + length))
    value, i, j = max(runs)
    return None if value == -np.inf else (range(i, j), [j - i - 1])


def encode_segment(parts):
    return parts, [len(parts) - 1]


def random_segment(rng, scale=1.0, ties=False, forbid=False):
    n = int(rng.integers(1, 8))
    scores, lengths = draw(rng, (n,), scale, ties), draw(rng, (n,), scale, ties)
    if forbid and n > 1:
        scores[rng.integers(n)] = -np.inf
    structure = CustomStructure(best_segment, additional={"lengths": (n,)}, encode=encode_segment)
    return Instance(structure, scores, {"lengths": lengths})


RANDOM = {
    "simplex": random_simplex,
    "chain": random_chain,
    "budget": random_budget,
    "exact budget": random_exact_budget,
    "tree": random_tree,
    "projective tree": random_projective_tree,
    "single-root tree": random_single_root_tree,
    "projective single-root tree": random_projective_single_root_tree,
    "labelled tree": random_labelled_tree,
    "labelled projective tree": random_labelled_projective_tree,
    "matching": random_matching,
    "subset": random_subset,
    "warping": random_alignment,
    "global alignment": random_global_alignment,
    "local alignment": random_local_alignment,
    "ranking": random_ranking,
    "top two": random_top_two,
    "segmentation": random_segmentation,
    "spans": random_spans,
    "open_ended": random_open_ended,
    "path": random_path,
    "hyperpath": random_hyperpath,
    "modifiers": random_modifiers,
    "grandparents": random_grandparents,
    "custom": random_segment,
}


def check_solution(instance, result, atol=1e-8):
    """Compare a result with the enumerated QP, and recompute its certificate."""
    structures, M, theta = instance.enumerate()
    u, _ = naive.solve_qp(M, theta)
    np.testing.assert_allclose(result.marginals.ravel(), u, atol=atol, err_msg=repr(instance))
    assert result.converged
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-10)
    assert (result.weights > 0).all()
    assert (np.diff(result.weights) <= 0).all()
    places = [structures.index(listed(s)) for s in result.structures]
    np.testing.assert_allclose(M[:, places] @ result.weights, result.marginals.ravel(), atol=1e-10)
    linear = theta[places] @ result.weights
    norm = result.marginals.ravel() @ result.marginals.ravel()
    size = max(1.0, abs(linear))
    assert result.objective == pytest.approx(linear - 0.5 * norm, abs=1e-10 * size)
    allowed = theta > -np.inf
    gap = (theta - M.T @ result.marginals.ravel())[allowed].max() - (linear - norm)
    assert gap <= 1e-9 * size
    assert result.gap == pytest.approx(max(gap, 0.0), abs=1e-11 * size)
