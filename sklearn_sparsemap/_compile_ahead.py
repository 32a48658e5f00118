"""Compilation ahead of time, for container images, continuous integration, wheels and demonstrations.

Used by `compile`.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterable
from itertools import chain
from time import perf_counter

from joblib import Parallel, delayed, effective_n_jobs

from ._core.jit import all_entries, compiling_is_expected, expected_seconds
from ._core.validation import check_n_jobs

logger = logging.getLogger("sklearn_sparsemap")

_PACKAGE = __package__
# The folders and modules whose entries a task uses. Structures differ in their own folders only.
_STRUCTURES = {
    "alignments": ("_alignment", "_hyperpath", "_path"),
    "chains": ("_chain", "_segmentation", "_sequence_budget"),
    "choices": ("_custom", "_pool", "_simplex", "_subset"),
    "matchings": ("_matching", "_ranking"),
    "trees": ("_head_automaton", "_tree"),
}
_TASKS = {
    **{task: ("_numerics", *(f"structures.{name}" for name in names)) for task, names in _STRUCTURES.items()},
    "classifiers": ("losses", "_training", "estimators._structured"),
    "features": ("features",),
    "graphs": ("_graphs", "_numerics"),
    "groups": ("losses", "_numerics", "penalties", "structures._simplex", "_training"),
    "labels": ("_graphs", "losses", "_numerics", "structures._simplex", "_training"),
}
_PIECES = 3  # pieces of work for each process: with more, processes end together, but more kernels are compiled twice


def compile(what: str | Iterable[str] | None = None, n_jobs: int | None = None) -> None:
    """Compile ahead of time, so that first uses are fast.

    Compiled code is stored in the package, or in ``NUMBA_CACHE_DIR``, and later processes load it in a fraction of a
    second. This is useful before tests, or while a container image is built. Code that came with the package is not
    compiled again. Progress is logged by the logger ``"sklearn_sparsemap"`` at level INFO: the number of functions,
    about how many seconds of CPU time they take on this machine, and a line for each. The command
    ``python -m sklearn_sparsemap.compile`` does the same, and shows the progress.

    Parameters
    ----------
    what : str or list of str, default=None
        The tasks to compile for. By default, everything. Inference, with derivatives:

        - ``"alignments"``: `Alignment`, `Path` and `Hyperpath`,
        - ``"chains"``: `LinearChain`, `SequenceBudget` and `Segmentation`,
        - ``"choices"``: `Simplex`, `Subset` and `CustomStructure`,
        - ``"matchings"``: `Matching` and `Ranking`,
        - ``"trees"``: `DependencyTree` and `HeadAutomaton`,
        - ``"graphs"``: factor graphs; their structures are tasks of their own.

        Learning:

        - ``"classifiers"``: training of `StructuredSparseMAPClassifier`, for example ``["chains", "classifiers"]``,
        - ``"labels"``: `MultilabelLPSparseMAP`,
        - ``"groups"``: `GroupLassoPerceptron` and `StructuredGroupLasso`,
        - ``"features"``: the vectorizers of `sklearn_sparsemap.features`.
    n_jobs : int, default=None
        Number of processes. Default: one for each core.

    Raises
    ------
    ValueError
        If a value is not in this list.

    Examples
    --------
    >>> import sklearn_sparsemap
    >>> sklearn_sparsemap.compile("features", n_jobs=1)
    """
    tasks = list(_TASKS) if what is None else [what] if isinstance(what, str) else list(what)
    unknown = [task for task in tasks if task not in _TASKS]
    if unknown or not tasks:
        raise ValueError(f"what={(unknown or tasks)!r} cannot be compiled; choose among {', '.join(sorted(_TASKS))}")
    check_n_jobs(n_jobs)
    seconds = {}
    for entry in _entries():
        if what is None or any(f"{entry.__module__}.".startswith(f"{_PACKAGE}.{r}.") for t in tasks for r in _TASKS[t]):
            name = entry.__module__, entry.__name__
            seconds[name] = seconds.get(name, 0.0) + expected_seconds(entry)
    n_processes = min(len(seconds), effective_n_jobs(os.cpu_count() if n_jobs is None else n_jobs))
    logger.info("%d functions, about %.0f s of CPU time if none is compiled", len(seconds), sum(seconds.values()))
    began = perf_counter()
    pieces = _pieces(seconds, n_processes)
    done = Parallel(n_processes, return_as="generator_unordered")(delayed(_compile)(piece) for piece in pieces)
    for count, (name, taken) in enumerate(chain.from_iterable(done), 1):
        logger.info("%d/%d: %s in %.1f s", count, len(seconds), name, taken)
    logger.info("all in %.1f s", perf_counter() - began)


def _pieces(seconds, n_processes):
    """Divide entries among processes; return lists of names, the slowest first.

    Entries of one module, and of one folder, use the same kernels, which a process compiles once: the second entry of a
    solver takes a quarter to a half of the time of the first one. So neighbours stay together.

    Parameters
    ----------
    seconds : dict of (module, name) -> float
        The expected time of each entry.
    n_processes : int
    """
    most = sum(seconds.values()) / (_PIECES * n_processes)
    pieces, lengths = [[]], [0.0]
    for name in sorted(seconds):
        if pieces[-1] and lengths[-1] + seconds[name] / 2 > most:
            pieces.append([])
            lengths.append(0.0)
        pieces[-1].append(name)
        lengths[-1] += seconds[name]
    return [piece for _, piece in sorted(zip(lengths, pieces, strict=True), reverse=True)]


def _entries():
    """Import all parts of the package that need no extra, and return their entries."""
    import sklearn_sparsemap

    for name in dir(sklearn_sparsemap):
        getattr(sklearn_sparsemap, name)
    return [entry for entry in all_entries() if entry.__module__.startswith(f"{_PACKAGE}.")]


def _compile(names):
    """Compile the entries of some names; return the name for users, and the time in seconds, of each."""
    found = []
    for module, name in names:
        began = perf_counter()
        with compiling_is_expected():
            for entry in _entries():
                if (entry.__module__, entry.__name__) == (module, name):
                    entry.dispatcher  # noqa: B018
        found.append((f"{module.removeprefix(_PACKAGE + '.')}.{name}", perf_counter() - began))
    return found


def main(arguments=None):
    """Parse the command line, compile, and show progress on standard error."""
    about = compile.__doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m sklearn_sparsemap.compile", description=about)
    parser.add_argument("what", nargs="*", help=f"some of {', '.join(sorted(_TASKS))}; all if nothing is given")
    parser.add_argument("--n-jobs", type=int, help="number of processes; one for each core if not given")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    logger.setLevel(logging.INFO)
    try:
        compile(options.what or None, options.n_jobs)
    except ValueError as error:
        parser.error(str(error))
