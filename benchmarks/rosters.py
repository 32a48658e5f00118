"""Rosters: the schedule with the highest score under rules, compared with CP-SAT of OR-Tools at the same scores.

    pip install ortools
    python benchmarks/rosters.py [--seconds 10]

People, days and two shifts a day. One person a shift, one shift a day for each person, at most three shifts in a window
of five days, and no early shift after a late one; two late shifts in a row are preferred. Both solvers get the same
scores, in thousandths, because CP-SAT computes with integers, and the same limit of wall time. Ours takes one thread,
CP-SAT eight workers, because its strategies complement each other; with one it finds much less. A row has the
value of the schedule found, the bound on the value of the best one, and the seconds.
"""

import argparse
import warnings
from importlib.util import find_spec
from time import perf_counter

import numpy as np
import results

from sklearn_sparsemap import map_inference
from sklearn_sparsemap.factors import AtMost, Exactly, FactorGraph, Pair

SIZES = ((10, 14), (20, 28), (40, 28))  # people, days
UNIT = 1000  # of the integer scores
IN_A_ROW = 300  # score of two late shifts in a row


def rules_of(n_people, n_days):
    """Yield each rule as (variables, number, whether it is exact); variables are indices of person, day and shift."""
    at = np.arange(n_people * n_days * 2).reshape(n_people, n_days, 2)
    for day in range(n_days):
        for shift in range(2):
            yield at[:, day, shift], 1, True
    for person in range(n_people):
        for day in range(n_days):
            yield at[person, day], 1, False
        for first in range(n_days - 4):
            yield at[person, first : first + 5].ravel(), 3, False
        for day in range(n_days - 1):
            yield np.array([at[person, day, 1], at[person, day + 1, 0]]), 1, False


def rows_of(shape):
    """Return the variables of late shifts, and those of the late shifts a day later."""
    at = np.arange(np.prod(shape)).reshape(shape)
    return at[:, :-1, 1].ravel(), at[:, 1:, 1].ravel()


def by_us(scores, rules, seconds):
    """Return the value, the bound and the seconds of the search; the making of the graph is not counted."""
    graph = FactorGraph()
    works = graph.variables(scores.size, name="works")
    for indices, number, exact in rules:
        graph.add((Exactly if exact else AtMost)(works[indices], number))
    first, second = rows_of(scores.shape)
    graph.add(Pair(works[first], works[second], name="in a row", tied=True))
    began = perf_counter()
    preferred = {"in a row": float(IN_A_ROW)}
    found = map_inference(graph, scores.ravel().astype(float), additional=preferred, map_time_limit=seconds)
    return found.value / UNIT, found.bound / UNIT, perf_counter() - began


def by_cp_sat(scores, rules, seconds):
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    works = [model.new_bool_var("") for _ in range(scores.size)]
    for indices, number, exact in rules:
        total = sum(works[i] for i in indices)
        model.add(total == number if exact else total <= number)
    both = [model.new_bool_var("") for _ in rows_of(scores.shape)[0]]
    for own, first, second in zip(both, *rows_of(scores.shape)):
        model.add_implication(own, works[first])
        model.add_implication(own, works[second])
    model.maximize(sum(int(score) * x for score, x in zip(scores.ravel(), works)) + IN_A_ROW * sum(both))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 8
    began = perf_counter()
    solver.solve(model)
    return solver.objective_value / UNIT, solver.best_objective_bound / UNIT, perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of each solver")
    args = results.parse(parser)
    warnings.simplefilter("ignore")
    # Compiles the kernels, or loads them.
    by_us(np.ones((4, 5, 2), int), list(rules_of(4, 5)), args.seconds)
    is_there = find_spec("ortools") is not None
    print("" if is_there else "no OR-Tools: pip install ortools")
    print("| people, days | solver | value | bound | seconds |\n|---|---|---|---|---|")
    for n_people, n_days in SIZES:
        rng = np.random.default_rng(0)
        scores = rng.normal(size=(n_people, 1, 2)) + rng.normal(size=(n_people, n_days, 2))
        scores, rules = np.rint(UNIT * scores).astype(int), list(rules_of(n_people, n_days))
        found = {"ours": by_us(scores, rules, args.seconds)}
        if is_there:
            found["CP-SAT"] = by_cp_sat(scores, rules, args.seconds)
        name = f"{n_people} people, {n_days} days, at most {args.seconds:g} s"
        for solver, (value, bound, seconds) in found.items():
            print(f"| {n_people}, {n_days} | {solver} | {value:.3f} | {bound:.3f} | {seconds:.2f} |", flush=True)
        for place, (measure, unit) in enumerate((("value", "value"), ("bound", ""), ("time", "s"))):
            theirs = found["CP-SAT"][place] if is_there else None
            results.record("rosters", name, measure, found["ours"][place], unit, "CP-SAT" if is_there else "", theirs,
                           package="ortools")  # fmt: skip


if __name__ == "__main__":
    main()
