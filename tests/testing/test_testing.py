"""check_structure: it passes what is right, and catches what is not, with the right message."""

import doctest
import importlib
import inspect
import re
from functools import cache
from itertools import combinations, product
from pathlib import Path

import naive
import numpy as np
import pytest
from internals import Case, as_oracle, check_marginals, replace
from naive_hyperpath import bracketings, enumerate_derivations
from numba import objmode
from registry import best_segment, encode_segment

from sklearn_sparsemap import (
    StructuredSparseMAPClassifier,
    map_inference,
    marginal_inference,
    n_best,
    sparsemap,
    structures,
)
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import (
    CustomStructure,
    DependencyTree,
    HeadAutomaton,
    LinearChain,
    Matching,
    Ranking,
    Segmentation,
    SequenceBudget,
    Simplex,
    Subset,
)
from sklearn_sparsemap.testing import check_structure

GUIDE = Path(__file__).resolve().parents[2] / "doc" / "own_structure.rst"


def test_additional_scores_have_no_name_of_a_parameter():
    takers = [sparsemap, map_inference, marginal_inference, n_best, FenchelYoungLoss.loss_gradient]
    names = {name for taker in takers for name in inspect.signature(taker).parameters} - {"additional"}
    assert names >= {"structure", "k", "gold"}
    for name in names:
        with pytest.raises(ValueError, match="additional"):
            CustomStructure(lambda scores, additional: None, additional={name: 1})


def list_paths(shape):
    return list(product(range(shape[1]), repeat=shape[0]))


def list_trees(**options):
    return lambda shape: naive.enumerate_trees(np.zeros(shape), **options)[0]


def list_budgeted(budget, state=1, exactly=False):
    return lambda shape: naive.enumerate_budgeted(np.zeros(shape), budget, state, exactly)[0]


def list_subsets(**options):
    return lambda shape: naive.enumerate_subsets(np.zeros(shape), **options)[0]


def list_segmentations(max_length, parts):
    return lambda shape: naive.enumerate_segmentations(np.zeros(shape), max_length=max_length, parts=parts)[0]


def list_ways(path):
    return lambda shape: naive.enumerate_paths(np.zeros(shape), **path._params())[0]


# With parallel edges, and edges on no path.
WAYS = structures.Path([(3, 1), (3, 1), (1, 4), (3, 4), (0, 4), (1, 5)], 3, 4)
BRACKETS = structures.Hyperpath(*bracketings(3, labels=2)[:2])
RIGHT = [
    (Simplex(), lambda shape: range(shape[0])),
    (LinearChain(), list_paths),
    (DependencyTree(), list_trees()),
    (DependencyTree(projective=True), list_trees(projective=True)),
    (DependencyTree(single_root=True), list_trees(single_root=True)),
    (DependencyTree(projective=True, single_root=True), list_trees(projective=True, single_root=True)),
    (DependencyTree(n_labels=2), list_trees(n_labels=2)),
    (DependencyTree(projective=True, n_labels=2), list_trees(projective=True, n_labels=2)),
    (Matching(), lambda shape: naive.enumerate_matchings(np.zeros(shape))[0]),
    (Subset(), list_subsets()),
    (Subset(1, 2), list_subsets(min_size=1, max_size=2)),
    (Subset(0, 0), list_subsets(max_size=0)),
    (Ranking(), lambda shape: naive.enumerate_rankings(np.zeros(shape))[0]),
    (Ranking(2), lambda shape: naive.enumerate_rankings(np.zeros(shape), top_k=2)[0]),
    (SequenceBudget(2), list_budgeted(2)),
    (SequenceBudget(0, state=0), list_budgeted(0, state=0)),
    (SequenceBudget(0.5, exactly=True), list_budgeted(0.5, exactly=True)),
    (SequenceBudget(2, state=2, exactly=True), list_budgeted(2, 2, True)),
    (HeadAutomaton(), lambda shape: naive.enumerate_modifiers(np.zeros(shape))[0]),
    (HeadAutomaton(grandparents=True), None),
    (Segmentation(3), list_segmentations(3, "steps")),
    (Segmentation(2, "spans"), list_segmentations(2, "spans")),
    (structures.Path.grid(2, 3), list_ways(structures.Path.grid(2, 3))),
    (WAYS, list_ways(WAYS)),
    (BRACKETS, lambda shape: enumerate_derivations(np.zeros(shape), **BRACKETS._params())[0]),
]


@pytest.mark.parametrize("structure, structures", RIGHT, ids=[repr(structure) for structure, _ in RIGHT])
def test_structures_of_the_package_pass(structure, structures):
    # Each shape once: by what was seen, or by the list of all structures.
    shapes = structure.example_shapes()
    if structures is None or len(shapes) == 1:
        check_structure(structure, n_instances=2)
    else:
        check_structure(structure, shapes=shapes[1::2], n_instances=2)
    check_structure(structure, shapes=shapes[::2], structures=structures, n_instances=2, random_state=1)


def best_walk(scores):
    """Find the best way through a grid of 3 x 3 points, to the right and down; a score for each of the 12 edges."""
    to_right, down = scores[:6].reshape(3, 2), scores[6:].reshape(2, 3)
    best = {}
    for i, j in product(range(3), repeat=2):
        ways = [] if i or j else [(0.0, [])]
        if j:
            ways.append((best[i, j - 1][0] + to_right[i, j - 1], [*best[i, j - 1][1], 2 * i + j - 1]))
        if i:
            ways.append((best[i - 1, j][0] + down[i - 1, j], [*best[i - 1, j][1], 6 + 3 * (i - 1) + j]))
        best[i, j] = max(ways)
    return best[2, 2][1]


def test_custom_structures_pass():
    check_structure(CustomStructure(best_walk, n_parts=12))
    segments = CustomStructure(best_segment, additional={"lengths": (4,)}, encode=encode_segment)
    check_structure(segments, shapes=[(4,)])
    everything = [np.arange(i, j) for i in range(4) for j in range(i + 1, 5)]
    check_structure(segments, shapes=[(4,)], structures=everything)


def test_the_guide_is_right():
    # It has a compiled oracle, too.
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(GUIDE), module_relative=False, optionflags=flags)
    assert tried > 5
    assert failed == 0


# Faults: a chain whose oracles are Python functions, to be swapped.


@cache
def encoded_paths(*dims):
    return [LinearChain().encode(np.array(path), dims) for path in list_paths(dims[:2])]


def right_path(scores, additional, dims, work, slots, extra):
    """Try all paths, the last ones first."""
    best = -np.inf
    for parts, additional_parts in encoded_paths(*dims)[::-1]:
        total = scores[parts].sum() + additional[additional_parts].sum()
        if total > best:
            best = total
            slots[:], extra[:] = parts, additional_parts
    return best


def right_sum(scores, additional, dims, work):
    """Sum over all paths."""
    pairs = encoded_paths(*dims)
    totals = np.array([scores[parts].sum() + additional[extra].sum() for parts, extra in pairs])
    top = totals.max()
    if top == -np.inf:
        return top
    p = np.exp(totals - top)
    work[: len(scores) + len(additional)] = 0.0
    for weight, (parts, extra) in zip(p / p.sum(), pairs):
        work[parts] += weight
        np.add.at(work, len(scores) + extra, weight)
    return top + np.log(p.sum())


swapped = {"map": right_path, "sum": right_sum}


def _swapped_map(*args):
    return float(swapped["map"](*args))


def _swapped_sum(*args):
    return float(swapped["sum"](*args))


@as_oracle(calls_python=True)
def ask_map(scores, additional, dims, work, slots, additional_slots):
    with objmode(value="float64"):
        value = _swapped_map(scores, additional, dims, work, slots, additional_slots)
    return value


@as_oracle(calls_python=True)
def ask_sum(scores, additional, dims, work, slots, additional_slots):
    with objmode(value="float64"):
        value = _swapped_sum(scores, additional, dims, work)
    return value


class SlowChain(LinearChain):
    oracle = ask_map


class SlowSum(SlowChain):
    marginal_oracle = ask_sum

    def marginal_work(self, dims):
        n_steps, m, layout, has_start, has_end = dims
        return n_steps * m + m * m * (0, 1, n_steps - 1)[layout] + m * (has_start + has_end)


def name_of(value):
    return getattr(value, "__name__", "")


def check(structure, **options):
    check_structure(structure, **{"shapes": [(2, 2)], "n_instances": 2, **options})


def test_the_slow_chain_passes():
    check(SlowSum())
    check(SlowSum(), structures=list_paths)


def one_by_one(scores, additional, dims, work, slots, extra):
    n, m = dims[:2]
    path = scores.reshape(n, m).argmax(axis=1)
    slots[:], extra[:] = LinearChain().encode(path, dims)
    return scores[slots].sum() + additional[extra].sum()


def without_transitions(scores, additional, dims, work, slots, extra):
    right_path(scores, additional, dims, work, slots, extra)
    return scores[slots].sum()


def sorted_by_score(scores, additional, dims, work, slots, extra):
    value = right_path(scores, additional, dims, work, slots, extra)
    if value > -np.inf:
        slots[:] = slots[np.argsort(-scores[slots], kind="stable")]
    return value


def first_part_twice(scores, additional, dims, work, slots, extra):
    right_path(scores, additional, dims, work, slots, extra)
    slots[1] = slots[0]
    return scores[slots].sum() + additional[extra].sum()


coins = np.random.default_rng(0)


def at_random_if_tied(scores, additional, dims, work, slots, extra):
    return right_path(scores + 1e-12 * coins.normal(size=len(scores)), additional, dims, work, slots, extra)


def with_old_scores_left_in_work(scores, additional, dims, work, slots, extra):
    old = scores.copy() if not work.any() else work[: len(scores)].copy()
    work[: len(scores)] = scores
    value = right_path(old, additional, dims, work, slots, extra)
    return scores[slots].sum() + additional[extra].sum() if value > -np.inf else value


def with_low_scores_for_forbidden_parts(scores, additional, dims, work, slots, extra):
    return right_path(np.maximum(scores, -9.0), additional, dims, work, slots, extra)


def none_if_any_part_is_forbidden(scores, additional, dims, work, slots, extra):
    if np.isneginf(scores).any():
        return -np.inf
    return right_path(scores, additional, dims, work, slots, extra)


def never(scores, additional, dims, work, slots, extra):
    return -np.inf


def not_a_number(scores, additional, dims, work, slots, extra):
    right_path(scores, additional, dims, work, slots, extra)
    return np.nan


def centred_in_place(scores, additional, dims, work, slots, extra):
    value = right_path(scores, additional, dims, work, slots, extra)
    scores -= 1.0
    return value


def zeroed_additional(scores, additional, dims, work, slots, extra):
    value = right_path(scores, additional, dims, work, slots, extra)
    additional[:] = 0.0
    return value


def first_slot_only(scores, additional, dims, work, slots, extra):
    filled = slots.copy()
    right_path(scores, additional, dims, work, filled, extra)
    slots[0] = filled[0]
    return scores[slots[0]] + additional[extra].sum()


def one_based(scores, additional, dims, work, slots, extra):
    value = right_path(scores, additional, dims, work, slots, extra)
    slots += 1
    return value


def one_based_additional(scores, additional, dims, work, slots, extra):
    value = right_path(scores, additional, dims, work, slots, extra)
    extra += 1
    return value


def next_additional(scores, additional, dims, work, slots, extra):
    value = right_path(scores, additional, dims, work, slots, extra)
    extra[:] = (extra + 1) % max(1, len(additional))
    return value


def too_much_work(scores, additional, dims, work, slots, extra):
    whole = np.lib.stride_tricks.as_strided(work, (len(work) + 1,))
    whole[-1] = 0.0
    return right_path(scores, additional, dims, work, slots, extra)


def raising(scores, additional, dims, work, slots, extra):
    raise IndexError("no such state")


@pytest.mark.parametrize(
    "oracle, message",
    [
        (one_by_one, r"does not find the maximum: it returned \[[01], [01]\] with a score of .* scores .*\n.*greedy"),
        (without_transitions, r"returned the value .*, but the structure in its slots, .* scores .*\n.*over all slots"),
        (sorted_by_score, r"part \d in slot \d, but with other scores in slot \d .*\n.*each part a fixed slot"),
        (first_part_twice, r"part \d in slot 1, and in slot 0 "),
        (at_random_if_tied, r"not deterministic: asked twice, it returned .*\n.*break ties in a fixed way"),
        (with_old_scores_left_in_work, r"asked again after similar scores .*\n.*work from the last call may speed up"),
        (with_low_scores_for_forbidden_parts, r"part \d is forbidden.*\n.*-inf if none is left"),
        (none_if_any_part_is_forbidden, r"no structure is allowed .*, but \[.*\], which it returned for other scores"),
        (never, r"no structure is allowed, with any scores"),
        (not_a_number, r"the oracle's value is nan"),
        (centred_in_place, r"writes to its scores: \[.*\] became \["),
        (zeroed_additional, r"writes to its additional"),
        (first_slot_only, r"slots of which entry 1 is not written"),
        (one_based, r"slots \[.*4.*\], but parts go from 0 to 3|returned the value"),
        (one_based_additional, r"additional_slots \[.*\], but parts go from 0 to 7|scores"),
        (next_additional, r"returned the value .* additional parts \["),
        (too_much_work, r"outside of work, which has 4 entries by sizes"),
        (raising, r"the oracle raised IndexError: no such state"),
    ],
    ids=name_of,
)
def test_a_wrong_oracle_is_caught(monkeypatch, oracle, message):
    monkeypatch.setitem(swapped, "map", oracle)
    with pytest.raises(AssertionError, match=message) as caught:
        check(SlowChain())
    # The scores can be copied from the message.
    assert "\n  scores = [[" in str(caught.value)


def too_high(scores, additional, dims, work):
    return right_sum(scores, additional, dims, work) + 0.5


def too_low(scores, additional, dims, work):
    return right_sum(scores, additional, dims, work) - 0.5


def of_one_more_structure(scores, additional, dims, work):
    # Consistent in itself: a structure of two parts that no path has together.
    more = scores[0] + scores[1]
    value = right_sum(scores, additional, dims, work)
    total = np.logaddexp(value, more)
    if total > -np.inf:
        work[: len(scores) + len(additional)] *= np.exp(value - total) if value > -np.inf else 0.0
        work[:2] += np.exp(more - total)
    return total


def uniform_marginals(scores, additional, dims, work):
    value = right_sum(scores, additional, dims, work)
    work[: len(scores)] = 1.0 / dims[1]
    return value


def swapped_transitions(scores, additional, dims, work):
    value = right_sum(scores, additional, dims, work)
    if len(additional) > 1:
        work[len(scores) : len(scores) + 2] = work[len(scores) : len(scores) + 2][::-1].copy()
    return value


def blind_to_forbidden(scores, additional, dims, work):
    return right_sum(np.maximum(scores, -20.0), np.maximum(additional, -20.0), dims, work)


def unscaled(scores, additional, dims, work):
    value = right_sum(scores, additional, dims, work)
    totals = [scores[parts].sum() + additional[extra].sum() for parts, extra in encoded_paths(*dims)]
    with np.errstate(over="ignore"):
        return value if value == -np.inf else np.log(np.exp(totals).sum())


@pytest.mark.parametrize("structures", [None, list_paths], ids=["unknown", "listed"])
@pytest.mark.parametrize(
    "oracle, message",
    [
        (too_high, r"has the log-partition .*, but (all structures have|it is at most .* no other structure)"),
        (too_low, r"log-partition .*(but 4 are known|(structures have|seen alone have) )"),
        (of_one_more_structure, r"has the log-partition .*, but (all structures have|it is at most .* there are 5)"),
        (uniform_marginals, r"marginal oracle has 0.5 for part \d, but the (sum|derivative) .*is"),
        (swapped_transitions, r"for additional part [01], but the (sum|derivative)"),
        (blind_to_forbidden, r"has the log-partition .*, but all structures (have .*|are forbidden)"),
        (unscaled, r"asked twice, the marginal oracle returned inf"),
    ],
    ids=name_of,
)
def test_a_wrong_marginal_oracle_is_caught(monkeypatch, oracle, message, structures):
    monkeypatch.setitem(swapped, "sum", oracle)
    with pytest.raises(AssertionError, match=message):
        check(SlowSum(), structures=structures)


def test_a_marginal_oracle_that_needs_more_work_is_caught(monkeypatch):
    class Narrow(SlowSum):
        def marginal_work(self, dims):
            return super().marginal_work(dims) - 1

    with pytest.raises(AssertionError, match=r"marginal_work returned 11.*\n.*at least 12"):
        check(Narrow())

    def wide(scores, additional, dims, work):
        np.lib.stride_tricks.as_strided(work, (len(work) + 1,))[-1] = 0.0
        return right_sum(scores, additional, dims, work)

    monkeypatch.setitem(swapped, "sum", wide)
    with pytest.raises(AssertionError, match="outside of work, which has 12 entries by marginal_work"):
        check(SlowSum())


def test_marginals_without_a_list_are_checked_by_differences(monkeypatch):
    def tilted(scores, additional, dims, work):
        value = right_sum(scores, additional, dims, work)
        work[0] += 0.01
        return value

    def one_path_seen():
        # One of four.
        case = Case(SlowSum(), (2, 2), {}, np.random.RandomState(0))
        case.call_oracle(np.zeros(4))
        return case

    monkeypatch.setattr(Case, "draw", lambda self, k=0: np.full(self.n, 0.25))
    check_marginals(one_path_seen(), 1)
    monkeypatch.setitem(swapped, "sum", tilted)
    case = one_path_seen()
    with pytest.raises(AssertionError, match="for part 0, but the derivative of the log-partition is"):
        check_marginals(case, 1)


class Broken(LinearChain):
    """A chain with one method replaced."""

    def __init__(self, name, replacement):
        vars(self)[name] = replacement

    def __repr__(self):
        return "Broken()"


class Opaque:
    def __init__(self, path):
        self.path = path


def other_slots(path, dims):
    slots, extra = LinearChain().encode(path, dims)
    return slots[::-1].copy(), extra


def other_additional_slots(path, dims):
    slots, extra = LinearChain().encode(path, dims)
    return slots, np.maximum(extra - 1, 0)


def in_floats(path, dims):
    slots, extra = LinearChain().encode(path, dims)
    return slots.astype(float), extra


def refusing_zeros(path, dims):
    if not np.any(path):
        raise ValueError("all zeros")
    return LinearChain().encode(path, dims)


def floats(shape, given):
    return (1.0 * shape[0], *LinearChain().dims(shape, given)[1:])


@pytest.mark.parametrize(
    "name, replacement, message",
    [
        ("encode", other_slots, r"returned the slots \[.*\] .*; decode makes array\(.*, and encode \[.*\n.*same parts"),
        ("encode", other_additional_slots, r"additional slots \[.*\n.*same parts as the oracle"),
        ("encode", in_floats, r"encode returned .*\n.*int32 arrays of lengths 2 and"),
        ("encode", lambda path, dims: LinearChain().encode(path, dims)[0], r"encode returned .*\n.*two int32"),
        ("encode", refusing_zeros, r"encode refuses array\(\[0, 0\]\), which decode returned: ValueError: all zeros"),
        ("decode", lambda slots, dims: Opaque(slots), r"not equal.*\n.*__eq__"),
        ("decode", lambda slots, dims: slots[5], r"decode raised IndexError"),
        ("agreement", lambda a, b, dims: [1, 1], r"agreement of array\(.*\) with itself"),
        ("strict_encode", 1, r"strict_encode is 1; it is True or False"),
        ("polytope_solver", Simplex.polytope_solver, r"sparsemap\(solver='active_set'\) has the marginals|raised"),
        ("polytope_solver", "nearest", "polytope_solver is 'nearest'; it is that of a structure with"),
        ("oracle", right_path, r"oracle is <function.*cannot call; make it with .*as_oracle"),
        ("marginal_oracle", right_sum, r"marginal_oracle is <function"),
        ("score_ndim", 2.0, r"score_ndim is 2.0"),
        ("additional_names", "transitions", r"additional_names is 'transitions'; make it a tuple"),
        ("additional_names", ("transitions", "start", "tol"), r"\['tol'\]; names must differ, and not be a keyword"),
        ("additional_names", ("transitions", "start", "start"), r"\['start'"),
        ("additional_names", ("transitions",), r"additional_shapes\(\(2, 2\)\) is \{.*one entry for each"),
        (
            "additional_shapes",
            lambda shape: {"transitions": (2, 2), "start": ((2,),), "end": ((2,),)},
            r"additional_shapes\(.*a tuple of the accepted shapes",
        ),
        ("dims", floats, r"dims returned \(2.0,"),
        ("sizes", lambda dims: (2, 3), r"sizes returned \(2, 3\)"),
        ("sizes", lambda dims: (2, 9, 4), r"additional_slots of which entry \d is not written"),
        ("sizes", lambda dims: (*LinearChain().sizes(dims)[:2], 1), r"outside of work, which has 1 entries by sizes"),
        ("scores_shape", lambda rows, n_outputs: rows, r"scores_shape\(\(2,\), 2\) is \(2,\), not \(2, 2\)"),
        ("learned_shapes", lambda n_outputs: {"start": (1,)}, r"learned_shapes\(2\) has 'start' of shape \(1,\)"),
        ("example_shapes", lambda: (), None),
        ("exclusive_parts", lambda dims: [[0, 1], [2, 3]], r"exclusive_parts returned \[\[.*\n.*int array of shape"),
        ("exclusive_parts", lambda dims: np.array([[0, 1], [2, 4]]), r"has the parts .*, but parts go from 0 to 3"),
        ("exclusive_parts", lambda dims: np.array([[0, 2], [1, 3]]), r"one part of each row of \[\[0, 2\], .* but \["),
        ("exclusive_parts", lambda dims: np.array([[0, 1]]), r"and no other parts, but \[.*\n.*return None"),
        ("draw", lambda sample, n, rng: [np.array([0, 1])] * n, r"10 samples are 10 structures, .* nearly all of"),
        ("draw", lambda sample, n, rng: [np.array([0, 2])] * n, r"encode refuses array\(\[0, 2\]\), which was drawn"),
        ("draw", lambda sample, n, rng: [1 / 0], r"drawing samples raised ZeroDivisionError"),
    ],
)
def test_a_wrong_method_is_caught(name, replacement, message):
    broken = Broken(name, replacement)
    if message is None:
        with pytest.raises(AssertionError, match="no shapes to try"):
            check_structure(broken)
        return
    with pytest.raises(AssertionError, match=message):
        check(broken)


def test_dims_of_many_lengths_are_caught():
    class Growing(Simplex):
        def dims(self, shape, given):
            return (*shape, *range(shape[0]))

    with pytest.raises(AssertionError, match=r"dims has \[2, 3\] entries"):
        check_structure(Growing(), shapes=[(1,), (2,)], n_instances=2)


def test_what_is_no_structure_or_shape_is_caught():
    with pytest.raises(AssertionError, match=r"LinearChain is a class; pass an instance"):
        check_structure(LinearChain)
    with pytest.raises(AssertionError, match=r"it is not a Structure"):
        check_structure(best_walk)
    with pytest.raises(AssertionError, match=r"the shape \(3,\) is not a shape of its scores; .* 2 positive ints"):
        check_structure(LinearChain(), shapes=[(3,)])
    with pytest.raises(AssertionError, match=r"dims refuses scores of shape \(2, 2\) \(scores of a tree"):
        check_structure(DependencyTree(), shapes=[(2, 2)])


def test_the_list_of_structures_is_compared():
    with pytest.raises(AssertionError, match=r"not among the structures given"):
        check(LinearChain(), structures=[(0, 0), (0, 1), (1, 0)])
    with pytest.raises(AssertionError, match=r"\(0, 1\) has the same parts as \[0, 1\], which comes before it"):
        check(LinearChain(), structures=[(0, 0), (0, 1), (1, 0), (1, 1), (0, 1)])
    with pytest.raises(AssertionError, match=r"encode refuses \(0, 7\), one of the structures given"):
        check(LinearChain(), structures=[(0, 7)])
    with pytest.raises(AssertionError, match=r"structures is one list for 5 shapes"):
        check_structure(LinearChain(), structures=[(0, 0)])
    lossy = Broken("decode", lambda slots, dims: np.zeros(2, int))
    with pytest.raises(AssertionError, match=r"decode\(encode\(\(0, 1\)\)\) is array\(\[0, 0\]\)"):
        check(lossy, structures=list_paths)


def test_an_oracle_that_misses_some_structures_is_caught_by_the_list():
    # No answer betrays it, because it never returns what it misses.
    never_three = CustomStructure(lambda scores: [int(np.argmax(scores[:3]))], n_parts=4)
    check_structure(never_three)
    everything = [[0], [1], [2], [3]]
    with pytest.raises(AssertionError, match=r"does not find .* \[3\], one of the structures given, scores"):
        check_structure(never_three, structures=everything)


def ignores_forbidden(scores):
    return best_walk(np.nan_to_num(scores, neginf=-1.0))


def writes(scores):
    scores[0] = 0.0
    return best_walk(scores)


def best_corner(scores):
    """Go along the better border, and through the middle only where the first edge is very good."""
    ways = [[0, 1, 8, 11], [6, 9, 4, 5]]
    return [0, 7, 3, 11] if scores[0] > 5.0 else max(ways, key=lambda way: scores[way].sum())


def one_edge_twice(scores):
    way = best_walk(scores)
    return [*way, way[0]]


@pytest.mark.parametrize(
    "oracle, message",
    [
        (ignores_forbidden, r"no structure is allowed \(its value is -inf, or it chose a forbidden part\), but \["),
        (writes, r"writes to its scores: it raised ValueError: assignment destination is read-only"),
        (best_corner, r"does not find the maximum: .* which it returned for other scores, scores"),
        (one_edge_twice, r"raised ValueError: map_oracle returned a part more than once"),
        (lambda scores: [12], r"they must lie between 0 and 11"),
    ],
    ids=name_of,
)
def test_a_wrong_custom_oracle_is_caught(oracle, message):
    with pytest.raises(AssertionError, match=message):
        check_structure(CustomStructure(oracle, n_parts=12), n_instances=2)


def two_apart(scores):
    """Find the best two parts that are not neighbours; if all of them score -inf, an empty list."""
    best, choice = -np.inf, []
    for i, j in combinations(range(len(scores)), 2):
        if j - i > 1 and scores[i] + scores[j] > best:
            best, choice = scores[i] + scores[j], [i, j]
    return choice


def two_apart_or_one(scores):
    """Leave out forbidden parts of the best two, and so return one part, or none."""
    return [i for i in two_apart(np.maximum(scores, -1e9)) if scores[i] > -np.inf]


def two_apart_or_none(scores):
    return two_apart(scores) or None


def two_apart_or_forbidden(scores):
    return two_apart(scores) or [0, 2]


@pytest.mark.parametrize("oracle", [two_apart, two_apart_or_one], ids=name_of)
@pytest.mark.parametrize("n_instances", [1, 6])
def test_an_incomplete_structure_for_forbidden_parts_is_blamed(oracle, n_instances):
    with pytest.raises(AssertionError) as raised:
        check_structure(CustomStructure(oracle, n_parts=5), n_instances=n_instances)
    message = str(raised.value)
    found = re.search(r"the oracle returned (\[\d?\]) for scores of which some are -inf, but never for", message)[1]
    assert f"So {found} is no complete structure" in message
    assert "Remedy: scores may be -inf: return a complete structure even then" in message
    # The scores are those for which the oracle returned it.
    scores = np.array(eval(message.rpartition("scores = ")[2], {"inf": np.inf}))
    assert str(oracle(scores)) == found


@pytest.mark.parametrize("oracle", [two_apart_or_none, two_apart_or_forbidden], ids=name_of)
def test_oracles_without_a_structure_may_say_so(oracle):
    check_structure(CustomStructure(oracle, n_parts=5, fixed_size=True), n_instances=2)
    # Structures of any size: an empty one is complete.
    check_structure(CustomStructure(lambda scores: np.flatnonzero(scores > 0), n_parts=5), n_instances=2)


def test_messages_about_forbidden_parts_say_that_a_structure_must_be_complete():
    everything = [[0, 2], [0, 3], [0, 4], [1, 3], [1, 4], [2, 4]]
    remedy = r"; scores may be -inf: return a complete structure even then"
    with pytest.raises(AssertionError, match=rf"(?s)\[\] .*is not among the structures given.*{remedy}"):
        check_structure(CustomStructure(two_apart, n_parts=5), structures=everything)
    with pytest.raises(AssertionError, match=rf"(?s)with 0 unary parts.*although fixed_size is True.*{remedy}"):
        check_structure(CustomStructure(two_apart, n_parts=5, fixed_size=True))


def test_a_mask_in_place_of_indices_is_named():
    structure = CustomStructure(two_apart, n_parts=5)
    with pytest.raises(ValueError, match=r"y\[0\]: a structure has a mask; .* give np.flatnonzero\(mask\)"):
        StructuredSparseMAPClassifier(structure).fit(np.zeros((1, 5, 1)), [[True, False, True, False, False]])
    with pytest.raises(ValueError, match=r"map_oracle returned a mask; .* give np.flatnonzero\(mask\)"):
        sparsemap(CustomStructure(lambda scores: scores > 0), [1.0, -1.0])


def test_structures_that_are_not_of_one_size_are_caught():
    any_of_them = CustomStructure(lambda scores: np.flatnonzero(scores > 0), fixed_size=True)
    with pytest.raises(AssertionError, match=r"with \d unary parts, but .* has \d, although fixed_size is True"):
        check_structure(any_of_them, n_instances=2)
    check_structure(CustomStructure(best_walk, n_parts=12, fixed_size=True), n_instances=2)

    class Odd(LinearChain):
        fixed_size = False

    with pytest.raises(AssertionError, match="it is labelled, but not of fixed_size"):
        check_structure(Odd())


def test_an_oracle_for_one_number_of_parts_asks_for_it():
    with pytest.raises(AssertionError, match=r"shape \(2,\):\n.*raised .*\n.*pass shapes"):
        check_structure(CustomStructure(best_walk))


class Forgetful(Subset):
    """It does not take its bounds along when copied."""

    def __init__(self, max_size=None):
        super().__init__(max_size=max_size)

    def __getstate__(self):
        return {"min_size": 0, "max_size": None}


def test_a_copy_that_differs_is_caught():
    with pytest.raises(AssertionError, match="a deep copy found"):
        check_structure(Forgetful(1), shapes=[(3,)], n_instances=2)


class Tampered:
    """A result with something changed."""

    def __init__(self, result, changed):
        self._result, self._changed = result, changed

    def __getattr__(self, name):
        right = getattr(self._result, name)
        return self._changed[name](right) if name in self._changed else right


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"marginals": lambda u: u + 1e-3}, r"has the marginals .* but over all structures seen the gap is"),
        ({"converged": lambda _: False}, r"has the marginals .* with a gap of"),
        ({"weights": lambda w: w[::-1]}, r"but its structures, with their weights, \["),
        (
            {"additional_marginals": lambda a: {name: -v for name, v in a.items()}},
            r"but over all structures seen the gap is",
        ),
        ({"gap": lambda gap: gap - 1e-3}, r"has the marginals .*, but over all structures seen the gap is"),
        ({"jvp": lambda jvp: lambda **d: -jvp(**d)}, r"jvp in the direction .*\n.*exact for ties"),
        ({"vjp": lambda vjp: lambda v: {k: -g for k, g in vjp(v).items()}}, r"vjp of \[\[.*by differences"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_solution_is_caught(monkeypatch, changed, message):
    def tampered(*args, **options):
        result = sparsemap(*args, **options)
        return Tampered(result, changed) if options.get("solver", "active_set") == "active_set" else result

    tampered.__name__ = "sparsemap"
    replace(monkeypatch, "testing", "sparsemap", tampered)
    with pytest.raises(AssertionError, match=message), np.errstate(invalid="ignore"):
        check_structure(LinearChain(), shapes=[(3, 2)])


def test_the_structure_of_the_contributors_guide_is_right(tmp_path, monkeypatch):
    guide = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text()
    package = sparsemap.__module__.partition(".")[0]
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "class Run(" in block)
    code = code.replace("from ..._core", f"from {package}._core").replace(
        "from .._base", f"from {package}.structures._base"
    )
    (tmp_path / "run_structure.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    run = importlib.import_module("run_structure").Run(2)

    def all_runs(shape):
        n = shape[0]
        return [(np.arange(n) >= a) & (np.arange(n) < b) for a in range(n) for b in range(a + 1, min(a + 2, n) + 1)]

    check_structure(run, structures=all_runs)
    assert sparsemap(run, [0.0, 2.0, 1.9, -1.0]).marginals.tolist() == [0.0, 1.0, 1.0, 0.0]
