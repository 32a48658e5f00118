"""Damaged files and malformed arrays, drawn at random for some seconds: `python tests/cases/fuzz.py 30 [SEED]`.

Each round either works or raises a ValueError. Any other exception is a fault, and so is a crash. The number in
its message repeats it: `python tests/cases/fuzz.py 1 NUMBER`.
"""

import faulthandler
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from sklearn_sparsemap import MultilabelLPSparseMAP, StructuredSparseMAPClassifier, sparsemap
from sklearn_sparsemap.datasets import (
    load_conll,
    load_conllu,
    load_hierarchical_arff,
    load_listops,
    load_multilabel_arff,
    load_partition,
    save_partition,
)
from sklearn_sparsemap.structures import LinearChain, Matching, Simplex

CONLL = b"dog NN B-NP\nbarks VB O\n\ncat NN B-NP\n"
CONLLU = b"# text = a dog\n1\ta\ta\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
ARFF = b"@relation r\n@attribute x numeric\n@attribute a {0,1}\n@attribute b {0,1}\n@data\n1.5,0,1\n2,1,1\n{0 3,2 1}\n"
HIERARCHICAL = b"@relation r\n@attribute x numeric\n@attribute class hierarchical a,a/b,c\n@data\n1,a/b@c\n2,c\n"
LISTOPS = b"3\t( [MAX 1 ( 2 3 ) ] )\n"
PIECES = [b"\0", b"\xff", b"\n", b"\t", b"99999999999", b"-1", b"nan", b"{", b","]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e-12]


def partition():
    """Return the bytes of a partition."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.npz"
        save_partition(path, [np.eye(3), np.ones((2, 3))], [[0, 1, 0], [1, 1]])
        return path.read_bytes()


def damaged(data, rng):
    """Return bytes with some changed, removed, doubled or moved."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        if not data:
            break
        first, last = sorted(rng.integers(0, len(data) + 1, 2))
        kind = rng.integers(5)
        if kind == 0:
            data[min(first, len(data) - 1)] = rng.integers(256)
        elif kind == 1:
            del data[first : min(last, first + 8)]
        elif kind == 2:
            data[first:first] = data[first:last]
        elif kind == 3:
            del data[last:]
        else:
            data[first:first] = PIECES[rng.integers(len(PIECES))]
    return bytes(data)


def load(rng, path, files):
    """Read a damaged file."""
    loader, data = files[rng.integers(len(files))]
    path.write_bytes(damaged(data, rng))
    loader(path)


def odd_array(rng, shape):
    """Return an array with special values, and now and then another shape or type."""
    values = rng.normal(size=shape)
    for _ in range(rng.integers(3)):
        values.flat[rng.integers(values.size)] = rng.choice(SPECIAL)
    kind = rng.integers(8)
    if kind == 0:
        return values[..., : rng.integers(shape[-1] + 1)]
    if kind == 1:
        return values.astype(rng.choice(["float32", "int8", "complex64", "U3", "bool"]))
    if kind == 2:
        return values.T[::-1]
    return values


def infer(rng, path, files):
    """Infer from odd scores."""
    structure, shape = [(Simplex(), (4,)), (LinearChain(), (3, 2)), (Matching(), (3, 3))][rng.integers(3)]
    additional = {"transitions": odd_array(rng, (2, 2))} if isinstance(structure, LinearChain) else {}
    sparsemap(structure, odd_array(rng, shape), **additional)


def odd_sparse(rng):
    """Return a sparse matrix, an index array of which may be damaged."""
    matrix = sparse.random_array((6, 3), density=0.5, format="csr", rng=rng)
    for name in ("indptr", "indices"):
        array = getattr(matrix, name)
        if len(array) and rng.integers(2):
            array[rng.integers(len(array))] = rng.choice([-1, 0, 2, 5, 2**31 - 1, -(2**31)])
    return matrix


def predict(rng, path, files):
    """Predict from odd features."""
    model = MODELS[rng.integers(len(MODELS))]
    model.predict(odd_sparse(rng) if rng.integers(2) else odd_array(rng, (6, 3)))


MODELS = []


def main(seconds, seed):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    X = np.random.default_rng(0).normal(size=(12, 3))
    MODELS.append(StructuredSparseMAPClassifier(max_iter=3).fit(X, X[:, 0] > 0))
    MODELS.append(MultilabelLPSparseMAP(max_iter=2, random_state=0).fit(X, (X > 0).astype(int)))
    files = [
        (load_conll, CONLL), (load_conllu, CONLLU), (lambda path: load_multilabel_arff(path, 2), ARFF),
        (load_hierarchical_arff, HIERARCHICAL), (load_listops, LISTOPS), (load_partition, partition()),
    ]  # fmt: skip
    n_refused, number, end = 0, seed, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            rng = np.random.default_rng(number)
            try:
                (load, infer, predict)[rng.integers(3)](rng, Path(folder) / "file.npz", files)
            except ValueError:
                n_refused += 1
            except BaseException:
                sys.stderr.write(f"fault in round {number}\n")
                raise
            number += 1
    n_rounds = number - seed
    assert 0 < n_refused < n_rounds, (n_refused, n_rounds)
    sys.stdout.write(f"{n_rounds} rounds, {n_refused} of them refused\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
