"""Malformed matrices, files, models and arguments: a ValueError, never a crash, never silence."""

from pathlib import Path

import numpy as np
import pytest
from malformed import COMPRESSED, COORDINATES, FEW, WIDE, matrix, of_formats
from scipy import sparse

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier

SCRIPT = Path(__file__).parents[1] / "cases" / "malformed.py"
# Fewest cases by group.
N_CASES = {"flat": 360, "structured": 700, "targets": 60, "files": 200, "weights": 10, "models": 600, "arguments": 116}


def check(matrix):
    """Pass a sparse matrix to the constructor that all samples in one matrix pass."""
    RaggedArray(matrix, [0, matrix.shape[0]])


@pytest.fixture(scope="module")
def process(fresh_python):
    """A process in which all cases run; return by group the lines that it wrote, and how it ended."""
    paths = [str(SCRIPT.parent), str(SCRIPT.parent.parent)]
    code = f"import sys; sys.path[:0] = {paths!r}; sys.argv = {[SCRIPT.name, *N_CASES]!r}; " + (
        f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    )
    done = fresh_python(code)
    lines, group = {name: [] for name in N_CASES}, None
    for line in done.stdout.splitlines():
        if line.startswith("group "):
            group = line.removeprefix("group ")
        else:
            lines[group].append(line)
    return lines, f"{done.returncode}\n{done.stderr[-2000:]}" if done.returncode else None


@pytest.mark.parametrize("group", N_CASES)
def test_each_case_is_refused(group, process):
    """The last one that began is the one that ended the process."""
    lines, fault = process
    begun = [line.removeprefix("begin ") for line in lines[group] if line.startswith("begin ")]
    ended = [line.removeprefix("end ") for line in lines[group] if line.startswith("end ")]
    assert len(begun) == len(ended) >= N_CASES[group], f"ended by {begun[-1:]}: {fault}"
    wrong = [f"{name}: {end}" for name, end in zip(begun, ended) if end not in ("ValueError", "legal")]
    assert not wrong, "\n".join(wrong[:20])
    assert fault is None or group != [name for name in N_CASES if lines[name]][-1], fault


def test_the_check_finds_every_fault_in_every_format():
    faults = of_formats()
    assert len(faults) >= 4 * len(COMPRESSED) + 2 * len(WIDE) + len(COORDINATES) and set(FEW) <= set(faults)
    for name, make in faults.items():
        with pytest.raises(ValueError, match="the sparse matrix is malformed"):
            check(make())
            pytest.fail(name)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_whole_matrices_pass(kind):
    rng = np.random.default_rng(0)
    for shape in ((6, 4), (1, 1), (0, 3), (3, 0), (0, 0)):
        for density in (0.0, 0.5, 1.0):
            for container in (sparse.csr_array, sparse.csr_matrix):
                made = container(rng.random(shape) * (rng.random(shape) < density)).asformat(kind)
                for name in ("indices", "indptr"):
                    if hasattr(made, name):
                        setattr(made, name, getattr(made, name).astype(np.int64))
                check(made)
    # Room after the last entry is legal.
    spare = matrix()
    spare.indices, spare.data = np.append(spare.indices, [10**8]), np.append(spare.data, [1.0])
    check(spare)


def test_messages_name_the_sample_and_the_column():
    whole = matrix()
    parts = [whole[:20], whole[20:50], whole[50:]]
    model = StructuredSparseMAPClassifier("chain")
    broken = parts[1].copy()
    broken.indices[broken.indptr[3]] = 77
    y = [["a", "b"] * 10, ["a", "b"] * 15, ["a", "b"] * 5]
    far = parts[1].tocoo(copy=True)
    far.coords[1][far.coords[0] == 3] = 77
    for X in ([parts[0], broken, parts[2]], [parts[0], far, parts[2]]):
        with pytest.raises(ValueError, match=r"^X\[1\] \(row 3\): .* column 77, but there are 5 columns"):
            model.fit(X, y)
    ragged = RaggedArray.from_list(parts)
    ragged.values.indices[ragged.values.indptr[23]] = 77
    with pytest.raises(ValueError, match=r"^X\[1\] \(row 3\): .* column 77, but there are 5 columns"):
        model.fit(ragged, y)
    broken = whole.copy()
    broken.indptr[8] = -3
    with pytest.raises(ValueError, match=r"^X\[7\]: .* by `indptr` a row runs from \d+ to -3"):
        StructuredSparseMAPClassifier().fit(broken, np.arange(60) % 2)
    with pytest.raises(ValueError, match=r"^sample 1 \(row 3\): .* column 77, but there are 5 columns"):
        RaggedArray.from_list([parts[0], ragged[1], parts[2]])


def test_kernels_number_columns_in_32_bits():
    wide = sparse.csr_array(([1.0], ([0], [2**31])), shape=(2, 2**31 + 1))
    with pytest.raises(ValueError, match="has 2147483649 columns; at most 2147483647 are possible"):
        check(wide)
