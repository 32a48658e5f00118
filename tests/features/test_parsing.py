"""Parsers from CoNLL-U to CoNLL-U: names of relations, and files that keep what was in them."""

import gzip
import pickle
import re

import numpy as np
import pytest
from samples import TREE

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference, n_best, sparsemap
from sklearn_sparsemap.datasets import dump_conllu, load_conllu
from sklearn_sparsemap.features import ArcVectorizer
from sklearn_sparsemap.metrics import labeled_attachment_score
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.structures import DependencyTree

NAMES = ("root", "nsubj", "obj")


def make_trees(n_samples=12, seed=0):
    """Draw features of arcs, and trees with labels as numbers."""
    rng, X, y = np.random.default_rng(seed), [], []
    for n in rng.integers(1, 5, size=n_samples):
        X.append(rng.normal(size=(n + 1, n, 4)))
        tree, _ = map_inference(DependencyTree(n_labels=3), rng.normal(size=(n + 1, n, 3)))
        y.append(tree)
    return X, y


def named(tree):
    return [(int(head), NAMES[label]) for head, label in tree]


@pytest.mark.parametrize("options", [{}, {"projective": True, "single_root": True}])
def test_names_of_labels_change_nothing_else(options):
    numbers, names = DependencyTree(n_labels=3, **options), DependencyTree(labels=NAMES, **options)
    scores = [np.random.default_rng(i).normal(size=(n + 1, n, 3)) for i, n in enumerate([1, 3, 3, 2, 4])]
    for batch in (scores, scores[1:3]):
        found = zip(map_inference(numbers, batch), map_inference(names, batch), strict=True)
        for (tree, value), (other, other_value) in found:
            assert named(tree) == list(map(tuple, other.tolist())) and value == other_value
            assert other.dtype == object and other.shape == tree.shape
    for own, other in zip(sparsemap(numbers, scores), sparsemap(names, scores), strict=True):
        np.testing.assert_array_equal(own.marginals, other.marginals)
        pairs = zip(own.structures, other.structures, strict=True)
        assert all(named(tree) == list(map(tuple, named_tree.tolist())) for tree, named_tree in pairs)
    best = zip(n_best(numbers, scores[1], 4), n_best(names, scores[1], 4), strict=True)
    assert all(named(tree) == list(map(tuple, other.tolist())) for (tree, _), (other, _) in best)
    assert pickle.loads(pickle.dumps(names)) == names != numbers and hash(names) != hash(numbers)
    assert DependencyTree() == DependencyTree(labels=None) and "labels=None" not in repr(DependencyTree(n_labels=2))


def test_training_with_names_is_that_with_numbers():
    X, y = make_trees()
    for solver, loss in (("lbfgs", "sparsemap"), ("mira", "hinge")):
        options = {"loss": loss, "solver": solver, "random_state": 0, "alpha": 0.1}
        numbers = StructuredSparseMAPClassifier(DependencyTree(n_labels=3), **options).fit(X, y)
        names = StructuredSparseMAPClassifier(DependencyTree(labels=NAMES), **options)
        for gold in ([named(tree) for tree in y], [np.array(named(tree), object) for tree in y]):
            names.fit(X, gold)
            np.testing.assert_array_equal(names.coef_, numbers.coef_)
            assert names.score(X, gold) == numbers.score(X, y)
            predicted = names.predict(X)
            assert [named(tree) for tree in numbers.predict(X)] == [list(map(tuple, p.tolist())) for p in predicted]
            assert labeled_attachment_score(gold, predicted) == pytest.approx(names.score(X, gold))


def test_relations_unseen_in_training():
    X, y = make_trees()
    gold = [named(tree) for tree in y]
    model = StructuredSparseMAPClassifier(DependencyTree(labels=NAMES)).fit(X, gold)
    before = model.score(X, gold)
    unseen = [[(head, "vocative"), *rest] for (head, _), *rest in gold]
    expected = labeled_attachment_score(unseen, model.predict(X))
    assert model.score(X, unseen) == pytest.approx(expected) and expected < before
    with pytest.raises(ValueError, match=r"y\[0\]: word 1 has the label 'vocative', which is not in labels"):
        model.fit(X, unseen)
    # Numbers of an encoder that has met another label since.
    numbers = StructuredSparseMAPClassifier(DependencyTree(n_labels=3)).fit(X, y)
    more = [np.column_stack([tree[:, 0], np.full(len(tree), 3)]) for tree in y]
    assert numbers.score(X, more) == 0.0
    with pytest.raises(ValueError, match=r"y\[0\]: labels of arcs are ints from 0 to 2; got"):
        numbers.fit(X, more)


def test_trees_with_names_are_checked():
    X, y = make_trees(3)
    model = StructuredSparseMAPClassifier(DependencyTree(labels=NAMES))
    gold = [named(tree) for tree in y]
    for wrong in ([], [(0, "root", 1)] * len(gold[0]), [0] * len(gold[0])):
        with pytest.raises(ValueError, match=r"y\[0\]: a tree with names of labels has \d pairs \(head, name\)"):
            model.fit(X, [wrong, *gold[1:]])
    with pytest.raises(ValueError, match=r"y\[0\]: a tree is \d ints from 0"):
        model.fit(X, [[("0", label) for _, label in gold[0]], *gold[1:]])
    for options in ({"labels": []}, {"labels": ["a", "a"]}, {"labels": ["a"], "n_labels": 2}):
        with pytest.raises(ValueError, match="labels must be different names, and are given instead of n_labels"):
            DependencyTree(**options)
    with pytest.raises(ValueError, match="for a number of labels pass n_labels; got 3"):
        DependencyTree(labels=3)
    tree = DependencyTree(single_root=True, labels=NAMES)
    assert tree.repair([(0, "root"), (0, "obj"), (2, "obj")]).tolist() == [[0, "root"], [1, "obj"], [2, "obj"]]
    assert tree.misfits([(0, "root"), (0, "obj")]) and not tree.misfits([(0, "root"), (1, "obj")])


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "file.conllu"
        path.write_bytes(text.encode())
        return path

    return write


@pytest.mark.parametrize("chunk_size", [None, 1])
def test_what_is_kept_is_written_byte_for_byte(write, tmp_path, chunk_size):
    text = "\n" + TREE.replace("# a comment alone\n", "# a comment alone\n \n# global.columns = ID\n")
    path, out = write(text), tmp_path / "out.conllu"
    found = load_conllu(path, keep=True, chunk_size=chunk_size)
    chunks = [found] if chunk_size is None else list(found)
    X, heads = [x for own, _ in chunks for x in own], [h for _, own in chunks for h in own]
    plain, plain_heads = load_conllu(path)
    assert plain == X and all(map(np.array_equal, heads, plain_heads))
    expected = text.replace("\n \n", "\n\n") + "\n"
    relations = [[token["deprel"] for token in x] for x in X]
    for arguments in ((heads, relations), (None, None), (heads, None), ([h.tolist() for h in heads], relations)):
        dump_conllu(X, *arguments, out)
        assert out.read_text() == expected
    copied = pickle.loads(pickle.dumps(X))
    dump_conllu(copied, [[3, 3, 0, 1], [0]], [["a", "b", "c", "d"], ["e"]], out)
    changed = out.read_text().split("\n")
    differ = [(a.split("\t"), b.split("\t")) for a, b in zip(expected.split("\n"), changed, strict=True) if a != b]
    assert [b[6:8] for _, b in differ] == [["3", "a"], ["3", "b"], ["0", "c"], ["1", "d"], ["0", "e"]]
    assert all(a[:6] == b[:6] and a[8:] == b[8:] for a, b in differ)
    assert copied[0].lines == X[0].lines != []


def test_sentences_that_were_not_read_from_a_file(tmp_path):
    path = tmp_path / "out.conllu.gz"
    tokens = [{"word": "Time", "pos": "NOUN"}, {"word": "flies", "deprel": "root"}]
    dump_conllu([["a", "b"], tokens], [[2, 0], np.array([2, 0])], None, path)
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    first = path.read_bytes()
    dump_conllu([["a", "b"], tokens], [[2, 0], np.array([2, 0])], None, path)
    assert path.read_bytes() == first
    lines = gzip.decompress(first).decode().split("\n")
    assert lines[0] == "1\ta\t_\t_\t_\t_\t2\t_\t_\t_" and lines[3] == "1\tTime\t_\tNOUN\t_\t_\t2\t_\t_\t_"
    X, heads = load_conllu(path, fields=["word", "deprel"])
    assert X[1][1] == {"word": "flies", "deprel": "root"} and heads[0].tolist() == [2, 0]


def test_wrong_targets_are_named_and_nothing_is_written(write, tmp_path):
    X, heads = load_conllu(write(TREE), keep=True)
    out = tmp_path / "out.conllu"
    relations = [["a"] * 4, ["b"]]
    for arguments, message in [
        ((X, heads[:1], relations), "heads has 1 entries for 2 sentences; give one for each"),
        ((X, heads, relations[:1]), "relations has 1 entries for 2 sentences"),
        ((X, [heads[0], [0, 1]], relations), "heads[1] must hold 1 ints from 0 to 1, one for each word; got [0, 1]"),
        ((X, [heads[0], [2]], relations), "heads[1] must hold 1 ints from 0 to 1"),
        ((X, [heads[0], ["0"]], relations), "heads[1] must hold 1 ints"),
        ((X, heads, [["a"] * 3, ["b"]]), "relations[0] has 3 entries for 4 words; give one for each"),
        ((X, heads, [["a"] * 4, ["b\t"]]), "relations[1] has 'b\\t'; the format needs text, without tabs and line"),
        ((X, heads, [["a"] * 4, [3]]), "relations[1] has 3; the format needs text"),
        (([["a", ""]], [[0, 1]], None), "sentences[0] has ''; the format needs text"),
        (([["a", "b"]], None, None), "sentences[0] was not read by load_conllu with keep=True; give heads"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            dump_conllu(*arguments, out)
    X[0].pop()
    with pytest.raises(ValueError, match=r"sentences\[0\] has 3 words, but it was read with 4"):
        dump_conllu(X, None, None, out)
    with pytest.raises(TypeError, match="path must be a str or path-like"):
        dump_conllu(X[1:], None, None, 3)
    assert not out.exists()


def test_gold_arcs_of_trees_with_names():
    X, heads = [["a", "b", "c"], ["b", "c"]], [[2, 0, 2], [0, 1]]
    trees = [[(head, "x" if head else "root") for head in own] for own in heads]
    vectorizer = ArcVectorizer(["head.word[0]|mod.word[0]"], arcs="gold")
    names = vectorizer.fit(X, trees).get_feature_names_out().tolist()
    assert names == vectorizer.fit(X, heads).get_feature_names_out().tolist()
    learner = StructuredSparseMAPClassifier(DependencyTree(labels=["root", "x"]), "hinge", solver="mira")
    parser = make_structured_pipeline(vectorizer, learner).fit(X, trees)
    assert [list(map(tuple, tree.tolist())) for tree in parser.predict(X)] == trees
