"""The flat arrays of a graph, written factor by factor.

Used by `_layout.py`.
"""

from collections import defaultdict
from math import prod

import numpy as np

from .._core.indices import are_indices
from .._core.jit import readonly
from .._graphs.arrays import PAIR, STRUCTURE, TABLE, GraphArrays


def graph_arrays(graph, factors, n_variables, scores, number_of):
    """Return the `GraphArrays` of factors, whose additional scores are added to `scores`.

    Parameters
    ----------
    graph : FactorGraph
    factors : list of Factor
    n_variables : int
    scores : AdditionalScores
    number_of : callable
        Returns the number of a structure's oracle.

    Raises
    ------
    ValueError
        If a factor was edited, or has a variable that the graph does not have.
    """
    columns = defaultdict(list)
    number = 0
    first_link = 0
    for factor in factors:
        # These properties are computed at each use.
        literals = factor.literals
        signs = factor.signs
        _check_lengths(factor, graph, literals, signs)
        _add_factor(columns, factor, literals, signs, scores.add(factor), number_of)
        _add_rows(columns, factor, literals, signs, number, first_link)
        number, first_link = number + factor.count, first_link + literals.size
    kinds = join(columns["factor_types"])
    links = join(columns["links"])
    link_ptr = _ptr(join(columns["lengths"]))
    if not are_indices(links, n_variables):
        raise ValueError("a factor has a variable that the graph does not have; take those of graph.variables")
    signs = join(columns["signs"], float)
    structures = np.flatnonzero(kinds == STRUCTURE)
    pairs = kinds == PAIR
    ends = link_ptr[:-1][pairs][:, None] + [0, 1]
    return GraphArrays(
        factor_types=readonly(kinds, np.int64),
        link_ptr=readonly(link_ptr, np.int64),
        links=readonly(links, np.int64),
        signs=readonly(signs),
        costs=readonly(join(columns["costs"], float)),
        low=readonly(join(columns["low"], float)),
        high=readonly(join(columns["high"], float)),
        additional_ptr=readonly(_ptr(join(columns["n_additional"])), np.int64),
        oracles=readonly(join(columns["oracles"]), np.int64),
        dims_ptr=readonly(_ptr(join(columns["n_dims"])), np.int64),
        dims=readonly(join(columns["dims"]), np.int64),
        sizes=readonly(np.concatenate(columns["sizes"] or [np.zeros((0, 4))]), np.int64),
        row_ptr=readonly(_ptr(columns["row_lengths"]), np.int64),
        row_vars=readonly(join(columns["row_vars"]), np.int64),
        row_coefs=readonly(join(columns["row_coefs"], float)),
        row_links=readonly(join(columns["row_links"]), np.int64),
        row_bounds=readonly(np.array(columns["row_bounds"], float)),
        row_low=readonly(np.array(columns["row_low"], float)),
        row_high=readonly(np.array(columns["row_high"], float)),
        row_factors=readonly(columns["row_factors"], np.int64),
        pairs=readonly(np.flatnonzero(pairs), np.int64),
        pair_ends=readonly(links[ends], np.int64),
        pair_signs=readonly(signs[ends]),
        slot_ptr=readonly(_ptr(np.bincount(links[ends].ravel(), minlength=n_variables)), np.int64),
        slots=readonly(np.argsort(links[ends], axis=None, kind="stable"), np.int64),
        structures=readonly(structures, np.int64),
        degrees=readonly(np.bincount(links, minlength=n_variables), np.int64),
        owners=readonly(_owners(structures, links, link_ptr, n_variables), np.int64),
    )


def _add_factor(columns, factor, literals, signs, shapes, number_of):
    """Add the entries of a factor, which stands for `count` pairs, structures or rules, all of one size."""
    n = factor.count
    low, high = factor.bounds()
    dims, sizes, oracle = (), (0, 0, 0, 0), -1
    if factor.type in (STRUCTURE, TABLE):
        dims, sizes = factor.structure.layout(factor.kernel_shape, shapes)
        oracle = number_of(factor.structure)
    columns["links"].append(literals.indices)
    columns["signs"].append(signs)
    columns["costs"].append(factor.coefficients)
    # Arrays of one entry cost more than lists, and graphs can have a hundred thousand factors.
    columns["dims"].append(dims if n == 1 else np.tile(np.array(dims, np.int64), n))
    columns["sizes"].append([sizes] if n == 1 else np.tile(sizes, (n, 1)))
    of_each = {
        "factor_types": STRUCTURE if factor.type == TABLE else factor.type,
        "lengths": literals.size // n if n else 0,
        "low": low,
        "high": high,
        "n_additional": sum(map(prod, shapes.values())),
        "n_dims": len(dims),
        "oracles": oracle,
    }
    for name, value in of_each.items():
        columns[name].append([value] if n == 1 else np.full(n, value))


def _add_rows(columns, factor, literals, signs, number, first_link):
    """Add the inequalities of a factor whose number and first link are given, in terms of the variables."""
    indices = literals.indices
    for positions, coefs, bound, low, high in factor.rows():
        row_signs = signs[positions]
        columns["row_lengths"].append(len(positions))
        columns["row_factors"].append(number + positions[0] * factor.count // len(indices))
        columns["row_vars"].append(indices[positions])
        columns["row_coefs"].append(coefs * row_signs)
        columns["row_links"].append(first_link + positions)
        # A negated literal is 1 - u.
        columns["row_bounds"].append(bound - coefs[row_signs < 0].sum())
        columns["row_low"].append(low)
        columns["row_high"].append(high)


def _owners(structures, links, link_ptr, n_variables):
    """Return the structure that holds each variable; -1 if none does, -2 if several do."""
    owners = np.full(n_variables, -1)
    for f in structures:
        held = links[link_ptr[f] : link_ptr[f + 1]]
        owners[held] = np.where(owners[held] == -1, f, -2)
    return owners


def _check_lengths(factor, graph, literals, signs):
    """Raise ValueError unless the arrays of a factor have the lengths that kernels assume; users may edit them."""
    n, size = factor.count, literals.size
    lengths = {"signs": np.size(signs), "coefficients": np.size(factor.coefficients)}
    if factor.type == STRUCTURE:
        lengths["shape"] = n * prod(factor.shape)
    wrong = [f"{length} by its {name}" for name, length in lengths.items() if length != size]
    if literals._graph is not graph:
        wrong.append("of another graph")
    if wrong or (n and size % n):
        what = wrong[0] if wrong else f"{n} factors, which do not divide this number"
        raise ValueError(
            f"{type(factor).__name__} (name={factor.name!r}) was edited: it has {size} variables, but {what}; make a "
            "new factor, and add it to a new graph"
        )


def join(parts, dtype=np.int64):
    """Return arrays one after another, in a dtype."""
    return np.concatenate([np.asarray(part, dtype=dtype) for part in parts]) if parts else np.zeros(0, dtype)


def _ptr(lengths):
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])
