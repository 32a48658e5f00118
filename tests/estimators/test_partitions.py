"""Data in partitions: files of them, readers in chunks, and fit_partitions."""

import os
import tracemalloc
import weakref
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.datasets import dump_conllu, load_conll, load_conllu, load_partition, save_partition


def chains(seed, n=25):
    """Chains of two labels by the sign of the first of four features."""
    rng = np.random.default_rng(seed)
    X = RaggedArray.from_list([rng.normal(size=(k, 4)) for k in rng.integers(1, 6, n)])
    return X, [np.where(x[:, 0] > 0, "b", "a").tolist() for x in X]


def sets(seed):
    X = np.random.default_rng(seed).normal(size=(40, 3))
    return X, (X > 0.2).astype(int)


CHAIN = StructuredSparseMAPClassifier("chain", alpha=1e-4, solver="adagrad", max_iter=3, tol=0.0, random_state=0)
GROUPS = GroupLassoPerceptron("chain", budget=1, shrink_every=30, max_iter=3, debias_max_iter=2, random_state=0)
SETS = MultilabelLPSparseMAP(max_iter=5, random_state=0)
pytestmark = pytest.mark.filterwarnings("ignore:.*still improving:sklearn.exceptions.ConvergenceWarning")


# -- Files -------------------------------------------------------------------------------------------------------------

SPARSE = sparse.random_array((6, 5), density=0.5, rng=np.random.default_rng(0), format="csr")
FILES = {
    "labels": (np.eye(3), ["a", "bc", "a"]),
    "numbers": (np.eye(3), np.array([0.5, 1.0, 2.0])),
    "a ragged array": (RaggedArray(SPARSE, [0, 2, 6], groups=[0, 0, 1, 1, 2]), [["a", "b"], ["b", "a", "a", "b"]]),
    "grids": (RaggedArray(SPARSE, [0, 6], shapes=[[2, 3]]), [np.array([1, 0])]),
    "arrays of different lengths": ([np.eye(2), np.ones((1, 2))], [np.array([1, 2]), np.array([3])]),
    "an indicator matrix": (SPARSE, sparse.csr_array(np.eye(6))),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_back_what_was_saved(tmp_path, name):
    X, y = FILES[name]
    save_partition(tmp_path / "0.npz", X, y)
    X_read, y_read = load_partition(tmp_path / "0.npz")
    if isinstance(X, list):
        X = RaggedArray.from_list(X)
    if isinstance(X, RaggedArray):
        np.testing.assert_array_equal(X_read.indptr, X.indptr)
        for of_rows in ("groups", "shapes"):
            np.testing.assert_array_equal(getattr(X_read, of_rows), getattr(X, of_rows))
        X, X_read = X.values, X_read.values
    assert type(X_read) is type(X) and X_read.dtype == X.dtype
    assert np.array_equal(X.toarray(), X_read.toarray()) if sparse.issparse(X) else np.array_equal(X, X_read)
    if sparse.issparse(y):
        np.testing.assert_array_equal(y_read.toarray(), y.toarray())
    else:
        assert [np.asarray(a).tolist() for a in y_read] == [np.asarray(a).tolist() for a in y]


def test_series_are_saved_and_objects_are_refused(tmp_path):
    pd = pytest.importorskip("pandas")
    path = tmp_path / "0.npz"
    samples = [np.eye(2), np.ones((1, 2))]
    save_partition(path, pd.Series(samples, index=[5, 6]), pd.Series([["a", "b"], ["a"]], index=[5, 6]))
    X, y = load_partition(path)
    assert X.indptr.tolist() == [0, 2, 3] and [own.tolist() for own in y] == [["a", "b"], ["a"]]
    for labels in (pd.Series(["a", "b"]), np.array(["a", "b"], object)):
        save_partition(path, np.eye(2), labels)
        assert load_partition(path)[1].tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="X holds objects, and files hold numbers only"):
        save_partition(path, pd.DataFrame({"a": ["x", 1]}), [0, 1])
    with pytest.raises(ValueError, match="X holds objects, and files hold numbers only"):
        save_partition(path, pd.DataFrame({"a": pd.array([1, 2], "Int64"), "b": ["u", "v"]}), [0, 1])
    with pytest.raises(ValueError, match="y is a table, and files hold no names of its columns"):
        save_partition(path, np.eye(2), pd.DataFrame({"jazz": [0, 1]}))
    assert load_partition(path)[1].tolist() == ["a", "b"]


def test_label_sequences_of_any_type_name_the_labels_of_a_stream():
    pd = pytest.importorskip("pandas")
    X = [np.eye(2), np.ones((1, 2))] * 5
    model = StructuredSparseMAPClassifier("chain", max_iter=2, tol=10.0)
    for kind in (pd.Series, tuple, np.array):
        y = [kind(["b", "a"]), kind(["c"])] * 5
        assert clone(model).fit_partitions([(X, y)]).classes_.tolist() == ["a", "b", "c"]
        assert clone(model).partial_fit(X, y, on_new_labels="add").classes_.tolist() == ["a", "b", "c"]


def test_samples_and_targets_go_together(tmp_path):
    for X, y in ((np.eye(3), ["a", "b"]), ([np.eye(2)] * 2, [["a", "b"]])):
        with pytest.raises(ValueError, match=r"X has \d samples, but y has \d"):
            save_partition(tmp_path / "0.npz", X, y)
    assert not list(tmp_path.iterdir())


def test_a_lack_of_memory_is_not_called_damage(tmp_path, monkeypatch):
    def load(*args, **options):
        raise MemoryError("unable to allocate")

    save_partition(tmp_path / "whole.npz", np.eye(2), ["a", "b"])
    monkeypatch.setattr(np, "load", load)
    with pytest.raises(MemoryError, match="unable to allocate"):
        load_partition(tmp_path / "whole.npz")


def test_what_is_no_such_file(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.eye(2))
    (tmp_path / "text.npz").write_text("text")
    save_partition(tmp_path / "cut.npz", np.eye(3), ["a", "b", "a"])
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    # Places in the table of contents are then negative.
    (tmp_path / "moved.npz").write_bytes(whole[:4] + whole[104:])
    for name in ("other", "text", "cut", "moved"):
        with pytest.raises(ValueError, match=f"{name}.npz is not a complete file of save_partition"):
            load_partition(tmp_path / f"{name}.npz")
    with pytest.raises(FileNotFoundError):
        load_partition(tmp_path / "none.npz")
    for y in ([("a", 1), ("b", 2)], [None, None], ["a", 1]):
        with pytest.raises(ValueError, match="must be str or numbers, all of one kind"):
            save_partition(tmp_path / "0.npz", np.eye(2), y)


def test_files_that_are_larger_once_read_are_refused(tmp_path):
    path = tmp_path / "0.npz"
    arrays = {"format": np.array("sklearn_sparsemap partition 1"), "X": np.zeros((1000, 1000)), "y": np.zeros(1000)}
    np.savez_compressed(path, **arrays)
    assert path.stat().st_size < 10_000
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"its array .* is compressed, as save_partition never does; write it again"):
        load_partition(path)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    # One array alone is compressed, or two entries of the table of contents share their bytes.
    save_partition(path, np.zeros((1000, 100)), np.zeros(1000))
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(tmp_path / "one.npz", "w") as one:
        for name in whole.namelist():
            kind = zipfile.ZIP_DEFLATED if name == "X.npy" else zipfile.ZIP_STORED
            one.writestr(name, whole.read(name), compress_type=kind)
    with zipfile.ZipFile(path, "a") as whole:
        info = whole.getinfo("X.npy")
        for k in range(50):
            copy = zipfile.ZipInfo(f"X{k}.npy")
            for name in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(copy, name, getattr(info, name))
            whole.filelist.append(copy)
        whole._didModify = True
    for name, message in (("one", "array X.npy is compressed"), ("0", r"arrays have \d+ bytes, but the file has \d+")):
        with pytest.raises(ValueError, match=message):
            load_partition(tmp_path / f"{name}.npz")


def test_one_long_label_takes_the_memory_of_one(tmp_path):
    path, arrays = tmp_path / "0.npz", {"format": np.array("sklearn_sparsemap partition 1"), "X": np.zeros((5000, 1))}
    np.savez(path, **arrays, **{"y.labels": np.array(["x" * 5000, "y"]), "y": np.zeros(5000, np.int32)})
    tracemalloc.start()
    _, y = load_partition(path)
    assert tracemalloc.get_traced_memory()[1] < 10 * path.stat().st_size
    tracemalloc.stop()
    assert y.tolist() == ["x" * 5000] * 5000


def write_partition(path, n):
    save_partition(path, np.full((n, 10), float(n)), np.zeros(n, int))


def write_treebank(path, n):
    dump_conllu([["a"]] * n, [[0]] * n, [["root"]] * n, path)


@pytest.mark.parametrize(
    "write, name", [(write_partition, "0.npz"), (write_treebank, "a.conllu"), (write_treebank, "a.gz")]
)
def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch, write, name):
    path = tmp_path / name
    write(path, 3)
    os.chmod(path, 0o640)
    old = path.read_bytes()
    (tmp_path / "link").symlink_to(path)

    class Interrupted(BaseException):
        pass

    for error in (OSError("No space left on device"), KeyboardInterrupt(), Interrupted()):
        with monkeypatch.context() as patched:
            # The last step, at which a process may be killed as well.
            patched.setattr(os, "replace", lambda *names, error=error: (_ for _ in ()).throw(error))
            with pytest.raises(type(error)):
                write(path, 5)
        assert path.read_bytes() == old and sorted(os.listdir(tmp_path)) == sorted([name, "link"])
    write(tmp_path / "link", 5)
    assert (tmp_path / "link").is_symlink() and path.read_bytes() != old
    assert path.stat().st_mode & 0o777 == 0o640
    # Devices and pipes are not replaced.
    write_treebank(os.devnull, 3)
    assert not os.path.isfile(os.devnull)


def test_a_full_disk_leaves_the_old_file(fresh_python, tmp_path):
    # The limit on the size of files fails like a full disk, at a write in the middle.
    code = f"""
import os, resource, signal
import numpy as np
from sklearn_sparsemap.datasets import load_partition, save_partition
path = {str(tmp_path / "0.npz")!r}
save_partition(path, np.eye(2), [0, 1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save_partition(path, np.zeros((1000, 100)), np.zeros(1000, int))
except OSError:
    print(load_partition(path)[0].tolist(), os.listdir(os.path.dirname(path)))
"""
    out = fresh_python(code)
    assert out.stdout.strip() == "[[1.0, 0.0], [0.0, 1.0]] ['0.npz']", out.stderr


CONLL = "a N x\nb V y\n\nc N x\n\n\nd V z\n"
CONLLU = "".join(f"{k}\tw{k}\t_\tN\t_\t_\t{k - 1}\t_\t_\t_\n" + "\n" * (k == 2) for k in (1, 2, 1))


@pytest.mark.parametrize("load, text", [(load_conll, CONLL), (load_conllu, CONLLU)])
@pytest.mark.parametrize("chunk_size", [1, 2, 50])
def test_chunks_are_the_whole(tmp_path, load, text, chunk_size):
    paths = [tmp_path / "0.txt", tmp_path / "1.txt"]
    for path in paths:
        path.write_text(text)
    X, y = load(paths)
    one, _ = load(paths[0])
    assert len(X) == 2 * len(one) and X[: len(one)] == X[len(one) :] == one
    chunks = list(load(paths, chunk_size=chunk_size))
    assert len(chunks) == 2 * -(-len(one) // chunk_size)
    assert [sentence for sentences, _ in chunks for sentence in sentences] == X
    found = [np.asarray(target).tolist() for _, targets in chunks for target in targets]
    assert found == [np.asarray(target).tolist() for target in y]
    if load is load_conll:
        assert load(paths, label=None)[1] is None
        assert all(targets is None for _, targets in load(paths, label=None, chunk_size=2))


def test_chunks_read_no_further_than_they_must(tmp_path):
    path = tmp_path / "0.txt"
    path.write_text("a N x\n\n" * 20_000 + "broken\n")
    chunks = load_conll(path, chunk_size=10)
    assert len(next(chunks)[0]) == 10
    with pytest.raises(ValueError, match="line 40001: expected 3, found 1 column"):
        list(load_conll(path, chunk_size=10_000))
    tree = tmp_path / "tree.txt"
    tree.write_text(CONLLU + "\n1\tw\t_\tN\t_\t_\t1\t_\t_\t_\n")
    with pytest.raises(ValueError, match=r"heads\[2\] has a cycle"):
        list(load_conllu(tree, chunk_size=1))
    for chunk_size in (0, 1.5, True):
        with pytest.raises(ValueError, match="chunk_size must be a positive int"):
            load_conll(path, chunk_size=chunk_size)
    with pytest.raises(ValueError, match="path is an empty list"):
        load_conll([])
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(ValueError, match="holds no token"):
        list(load_conll([tmp_path / "empty.txt"], chunk_size=1))


# -- fit_partitions ----------------------------------------------------------------------------------------------------


def by_hand(estimator, partitions, classes):
    """The twin: partial_fit on the shuffled samples of shuffled partitions."""
    rng, model = np.random.RandomState(0), clone(estimator)
    for _ in range(estimator.max_iter):
        for p in rng.permutation(len(partitions)):
            X, y = partitions[p]
            order = rng.permutation(len(X))
            model.partial_fit(X[order], [y[i] for i in order], classes=classes)
    return model


def test_epochs_are_those_by_hand():
    partitions = [chains(seed) for seed in range(4)]
    model = clone(CHAIN).fit_partitions(partitions)
    twin = by_hand(CHAIN, partitions, ["a", "b"])
    for name in ("coef_", "intercept_", "transitions_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(twin, name))
    losses = np.reshape(twin.loss_curve_, (3, 4))
    assert model.n_iter_ == 3 and len(model.loss_curve_) == 3
    # That of fit has the penalty, too.
    np.testing.assert_allclose(model.loss_curve_, losses.mean(axis=1), atol=2e-3)
    assert model.score(*chains(9)) > 0.9


@pytest.mark.parametrize("estimator, draw", [(CHAIN, chains), (GROUPS, chains), (SETS, sets)])
def test_where_partitions_come_from_changes_nothing(tmp_path, estimator, draw):
    partitions = [draw(seed) for seed in range(3)]
    for number, partition in enumerate(partitions):
        save_partition(tmp_path / f"{number}.npz", *partition)
    sources = [
        partitions,
        [lambda p=p: p for p in partitions],
        [str(tmp_path / f"{number}.npz") for number in range(3)],
        [partitions[0], lambda: partitions[1], tmp_path / "2.npz"],
    ]
    X, _ = draw(7)
    scores = [clone(estimator).fit_partitions(source).decision_function(X) for source in sources]
    scores = [s if s.dtype != object else np.concatenate(s) for s in scores]
    for other in scores[1:]:
        np.testing.assert_array_equal(other, scores[0])
    again = clone(estimator).fit_partitions(lambda: iter(partitions))
    assert again.n_iter_ == estimator.max_iter


def test_groups_are_selected_and_learned_anew():
    partitions = [chains(seed, 60) for seed in range(3)]
    model = clone(GROUPS).fit_partitions(partitions)
    assert model.selected_groups_.tolist() == [0]
    assert np.flatnonzero(model.coef_.toarray().any(axis=0)).tolist() == [0]
    assert len(model.loss_curve_) == 5 and model.n_iter_ == 3
    assert model.score(*chains(9)) > 0.95
    with pytest.raises(ValueError, match="fixed number of epochs"):
        clone(GROUPS).fit_partitions(partitions, validation=chains(5))


def test_sets_of_labels():
    partitions = [sets(seed) for seed in range(4)]
    model = clone(SETS).set_params(max_iter=30, threshold="auto", early_stopping=True).fit_partitions(partitions)
    assert model.score(*sets(9)) > 0.6 and 0 < model.threshold_ < 1
    assert len(model.validation_scores_) == len(model.loss_curve_)
    single = clone(SETS).fit_partitions([(X, (X[:, 0] > 0).astype(int)) for X, _ in partitions])
    assert single.classes_.tolist() == [0, 1]


def test_one_partition_at_a_time():
    alive, most = weakref.WeakSet(), []

    class Held(RaggedArray):
        pass

    def partition(seed):
        most.append(len(alive))
        X, y = chains(seed)
        X = Held(X.values, X.indptr)
        alive.add(X)
        return X, y

    for estimator in (CHAIN, GROUPS):
        clone(estimator).fit_partitions([lambda seed=seed: partition(seed) for seed in range(5)])
    assert len(most) > 40 and max(most) == 0


def test_early_stopping_keeps_the_best():
    partitions = [chains(seed) for seed in range(4)]
    model = clone(CHAIN).set_params(max_iter=40, n_iter_no_change=2).fit_partitions(partitions, validation=chains(9))
    scores = model.validation_scores_
    assert len(scores) < 40 and model.score(*chains(9)) == max(scores)
    held = clone(model).set_params(early_stopping=True, validation_fraction=0.3).fit_partitions(partitions)
    assert len(held.validation_scores_) == held.n_iter_
    with pytest.raises(ValueError, match="holds out partitions"):
        clone(held).fit_partitions(partitions[:1])
    with pytest.raises(ValueError, match="holds out partitions"):
        clone(held).fit_partitions(lambda: iter(partitions))


def test_it_starts_anew_unless_it_is_to_go_on():
    partitions = [chains(seed) for seed in range(2)]
    model = clone(CHAIN).fit_partitions(partitions)
    first = model.coef_.copy()
    assert np.array_equal(model.fit_partitions(partitions).coef_, first)
    model.set_params(warm_start=True).fit_partitions(partitions)
    assert not np.array_equal(model.coef_, first)
    # A call that fails leaves the model as it was.
    model.set_params(warm_start=False)
    with pytest.raises(ValueError, match="not in classes"):
        model.fit_partitions(partitions, classes=["a", "c"])
    assert model.classes_.tolist() == ["a", "b"]


def test_what_are_no_partitions():
    for partitions, message in [
        (iter([chains(0)]), "an iterator, which can be used only once"),
        ([], "partitions is empty"),
        (lambda: iter([]), "yields none"),
        ("train.txt", "must be a list of them"),
        (3, "must be a list of them"),
        ([chains(0), 3], r"partitions\[1\] is 3; it must be a pair"),
        ([lambda: 5], r"partitions\[0\]\(\) is 5"),
    ]:
        with pytest.raises(ValueError, match=message):
            clone(CHAIN).fit_partitions(partitions)
