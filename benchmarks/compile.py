"""Cold start: CPU seconds that each first use takes to compile, in one process, and the size of the cache.

    python benchmarks/compile.py
    python benchmarks/compile.py --alone
    python benchmarks/compile.py --calls
    python benchmarks/compile.py --entries

The uses follow each other, so each compiles only the kernels that those before it did not. A second process measures
loading. With --alone instead: each snippet of the README, and each of some uses, in a process of its own with an empty
cache. With --calls instead: CPU time of calls so small that nearly all of it is spent outside the solvers. With
--entries instead: functions, lines of LLVM's intermediate code and CPU time of each entry that these uses compile.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import results

SETUP = """
import json, time
import numpy as np
from sklearn_sparsemap import (
    GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier, lp_sparsemap, sparsemap
)
from sklearn_sparsemap._core.jit import compile_statistics
from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph, Imply, StructureFactor, Xor
from sklearn_sparsemap.structures import DependencyTree, LinearChain
rng = np.random.default_rng(0)
found = {}
def timed(name, use):
    began = time.process_time()
    result = use()
    found[name] = time.process_time() - began
    return result
"""
# Counts what each entry compiles. `REPORT` follows the last use.
COUNT = """
from numba.core.codegen import CPUCodeLibrary
from sklearn_sparsemap._core import jit
counts, add, compile_entry = [0, 0], CPUCodeLibrary.add_ir_module, jit._backend.compile_entry
def counted(library, module):
    counts[0], counts[1] = counts[0] + 1, counts[1] + str(module).count("\\n")
    return add(library, module)
def measured(function, *args):
    before, began = counts[:], time.process_time()
    result = compile_entry(function, *args)
    name = function.__module__.partition(".")[2] + "." + function.__name__
    entries.append((name, counts[0] - before[0], counts[1] - before[1], time.process_time() - began))
    return result
entries, CPUCodeLibrary.add_ir_module, jit._backend.compile_entry = [], counted, measured
"""
REPORT = """
print(json.dumps(entries))
"""
USES = """
scores = rng.normal(size=(6, 3))
chain = timed("chain", lambda: sparsemap(LinearChain(), scores, transitions=np.eye(3)))
timed("its vjp", lambda: chain.vjp(scores))
X, y = [np.eye(3)[[0, 1, 2, 0]]] * 4, [[0, 1, 2, 0]] * 4
timed("chain fit", lambda: StructuredSparseMAPClassifier("chain", solver="adagrad", tol=1.0).fit(X, y).predict(X))
timed("tree", lambda: sparsemap(DependencyTree(), rng.normal(size=(6, 5))))
graph = FactorGraph()
u = graph.variables((3, 3))
graph.add(Xor(u[0]), AtMostOne(u[1]), Imply([u[0, 0], u[2, 1]]), Budget(u[2], 2))
logic = timed("logic graph", lambda: lp_sparsemap(graph, scores[:3]))
timed("its vjp ", lambda: logic.vjp(scores[:3]))
rows = rng.normal(size=(60, 4))
labels = (rows[:, :3] > 0).astype(int)
model = MultilabelLPSparseMAP("full", max_iter=2, tol=1.0, random_state=0)
timed("multilabel", lambda: model.fit(rows, labels).predict(rows))
lasso = GroupLassoPerceptron(groups=[0, 0, 1, 1], budget=1, shrink_every=20, max_iter=2, debias_max_iter=1)
timed("group lasso", lambda: lasso.fit(rows, labels[:, 0]).predict(rows))
print(json.dumps({"seconds": found, **compile_statistics()}))
"""
# Uses that are measured alone, by name: code before the use, and the use.
ALONE = {
    "chain": ("", "sparsemap(LinearChain(), rng.normal(size=(6, 3)), transitions=np.eye(3))"),
    "chain fit, after chain": (
        "sparsemap(LinearChain(), rng.normal(size=(6, 3)), transitions=np.eye(3))",
        "StructuredSparseMAPClassifier('chain').fit([np.eye(3)[[0, 1, 2, 0]]] * 4, [[0, 1, 2, 0]] * 4)",
    ),
    "logic graph": (
        "graph = FactorGraph(); u = graph.variables((2, 2)); graph.add(Xor(u[0]), Imply([u[0, 0], u[1, 1]]))",
        "lp_sparsemap(graph, np.eye(2))",
    ),
    "tree in a graph": (
        "graph = FactorGraph(); arcs = graph.variables((4, 3)); "
        "graph.add(StructureFactor(DependencyTree(), arcs), *[Budget(row, 1) for row in arcs])",
        "lp_sparsemap(graph, np.eye(4, 3))",
    ),
    "group lasso": (
        "X = rng.normal(size=(60, 4))",
        "GroupLassoPerceptron(groups=[0, 0, 1, 1], budget=1, random_state=0).fit(X, X[:, 0] > 0)",
    ),
}
CALLS = """
def timed(name, use, n=200):
    use()
    for _ in range(15):
        began = time.thread_time()
        for _ in range(n):
            use()
        found[name] = min(found.get(name, np.inf), (time.thread_time() - began) / n)
graph = FactorGraph()
u = graph.variables((3, 3))
graph.add(Xor(u[0]), AtMostOne(u[1]), Imply([u[0, 0], u[2, 1]]), Budget(u[2], 2))
scores, chain = rng.normal(size=(3, 3)), rng.normal(size=(6, 3))
timed("lp_sparsemap, 9 variables, 4 factors", lambda: lp_sparsemap(graph, scores))
timed("sparsemap, chain 6 x 3", lambda: sparsemap(LinearChain(), chain))
rows = rng.normal(size=(400, 20))
labels = (rows @ rng.normal(size=(20, 6)) + rng.normal(size=(400, 6)) > 0).astype(int)
model = MultilabelLPSparseMAP(
    "full", max_iter=20, alpha=1e-4, eta0=0.1, decision="threshold", random_state=0
).fit(rows, labels)
timed("MultilabelLPSparseMAP.predict, 400 rows, 6 labels", lambda: model.predict(rows), 20)
print(json.dumps({"seconds": found}))
"""


def run(cache, uses=USES):
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SETUP + uses], env=environment, capture_output=True, text=True
    )
    if out.returncode:
        raise SystemExit(out.stderr)
    return json.loads(out.stdout.splitlines()[-1])


def snippets():
    """Return the code of each snippet of the README, by its first new name."""
    text = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = ([line[4:] for line in block.splitlines() if line.startswith((">>> ", "... "))] for block in blocks)
    return {f"README, snippet {number}": "\n".join(each) for number, each in enumerate(lines, start=1)}


def measure_alone():
    """Print the CPU seconds of each snippet and use alone."""
    uses = {name: ("", f"exec({code!r}, {{}})") for name, code in snippets().items()} | ALONE
    for name, (before, use) in uses.items():
        code = f"import contextlib, io\n{before}\nwith contextlib.redirect_stdout(io.StringIO()):\n"
        code += f"    timed({name!r}, lambda: {use})\nprint(json.dumps({{'seconds': found}}))"
        with tempfile.TemporaryDirectory() as cache:
            seconds = run(cache, code)["seconds"][name]
        results.record("first use alone", name, "CPU time with an empty cache", seconds, "s")
        print(f"{name:24} {seconds:6.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", action="store_true", help="time of small calls instead")
    parser.add_argument("--alone", action="store_true", help="each snippet of the README and each use alone")
    parser.add_argument("--entries", action="store_true", help="size and CPU time of each entry instead")
    options = results.parse(parser)
    if options.alone:
        measure_alone()
        return
    with tempfile.TemporaryDirectory() as cache:
        if options.entries:
            print(f"{'entry':70} {'functions':>9} {'lines':>8} {'CPU s':>6}")
            for name, n_functions, n_lines, seconds in run(cache, COUNT + USES + REPORT):
                print(f"{name:70} {n_functions:9} {n_lines:8} {seconds:6.2f}")
            return
        if options.calls:
            for name, seconds in run(cache, CALLS)["seconds"].items():
                results.record("small calls", name, "CPU time of a call", 1e3 * seconds, "ms")
                print(f"{name:50} {1e3 * seconds:6.3f} ms")
            return
        cold, warm = run(cache), run(cache)
        size = sum(path.stat().st_size for path in Path(cache).rglob("*") if path.is_file())
        n_files = sum(path.suffix == ".nbc" for path in Path(cache).rglob("*"))
    print(f"{'first use':12} {'empty cache':>12} {'second process':>15}")
    for name, seconds in cold["seconds"].items():
        results.record("first use", name, "CPU time with an empty cache", seconds, "s")
        print(f"{name:12} {seconds:10.1f} s {warm['seconds'][name]:13.2f} s")
    results.record("first use", "all", "CPU time with an empty cache", sum(cold["seconds"].values()), "s")
    print(f"{'all':12} {sum(cold['seconds'].values()):10.1f} s {sum(warm['seconds'].values()):13.2f} s")
    print(f"cache {size / 2**20:.1f} MiB in {n_files} files; the second process compiled {warm['compiled']} entries")


if __name__ == "__main__":
    main()
