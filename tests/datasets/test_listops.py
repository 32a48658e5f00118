import numpy as np
import pytest
from naive_listops import naive_trees

from sklearn_sparsemap.datasets import load_listops, make_listops


def same_trees(X, heads, valencies):
    for tokens, own_heads, own_valencies in zip(X, heads, valencies, strict=True):
        expected_heads, expected_valencies = naive_trees(tokens)
        assert own_heads.dtype == own_valencies.dtype == np.int64
        assert own_heads.tolist() == expected_heads and own_valencies.tolist() == expected_valencies


def test_trees_are_the_brackets():
    X, heads, valencies = make_listops(300, min_length=6, max_length=60, random_state=0)
    assert len(X) == len({tuple(tokens) for tokens in X}) == 300
    lengths = [len(tokens) for tokens in X]
    assert min(lengths) >= 6 and max(lengths) <= 60 and max(lengths) > 40
    same_trees(X, heads, valencies)
    assert {int(v) for own in valencies for v in own} == {0, 2, 3, 4, 5}
    assert {token for tokens in X for token in tokens} == {*"0123456789]", "[MIN", "[MAX", "[MED", "[SM"}
    # Operators nest: the outermost one has others below it.
    assert max(max(own) for own in heads) > 10


def test_the_same_seed_draws_the_same():
    first, second, other = (make_listops(20, random_state=seed)[0] for seed in (3, np.random.RandomState(3), 4))
    assert first == second != other


def test_arguments_are_drawn_as_said():
    """A quarter of the arguments are operators, and any number of arguments is as likely as another."""
    # Short expressions repeat and are then left out, so what follows is a little more than a quarter.
    _, heads, valencies = make_listops(3000, max_length=5000, random_state=0)
    n_arguments = sum(int(own.sum()) for own in valencies)
    nested = np.concatenate([v[(v > 0) & (h > 0)] for v, h in zip(valencies, heads, strict=True)])
    assert len(nested) > 10_000
    assert abs(len(nested) / n_arguments - 0.25) < 0.02
    assert np.all(np.abs(np.bincount(nested, minlength=6)[2:] / len(nested) - 0.25) < 0.02)


def test_the_shortest():
    X, _, valencies = make_listops(300, max_length=4, random_state=0)
    assert {len(tokens) for tokens in X} == {4}
    assert {int(own[0]) for own in valencies} == {2}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_samples": 0}, "n_samples must be a positive int"),
        ({"n_samples": 2.5}, "n_samples must be a positive int"),
        ({"max_length": 3}, "the shortest expression has 4 tokens"),
        ({"min_length": 3}, "the shortest expression has 4 tokens"),
        ({"min_length": 9, "max_length": 8}, "min_length=9 and max_length=8"),
        ({"n_samples": 500, "max_length": 4}, r"no more than (3\d\d|400) different expressions of 4 to 4 tokens"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        make_listops(**{"random_state": 0} | parameters)


def test_files(tmp_path):
    X, heads, valencies = make_listops(30, random_state=1)
    path = tmp_path / "test.tsv"
    path.write_text("".join(f"{i % 10}\t( {' ( '.join(tokens)} ) )\n" for i, tokens in enumerate(X)) + "\n3\t7\n")
    loaded = load_listops(path)
    assert loaded[0] == [*X, ["7"]]
    same_trees(*loaded)
    for found, expected in zip(loaded[1][:-1], heads, strict=True):
        assert np.array_equal(found, expected)
    assert valencies[0].tolist() == loaded[2][0].tolist()


@pytest.mark.parametrize("bad", ["[MIN 2 7", "[MIN 2 ] 7 ]", "] 2", "2 7", "[AVG 2 7 ]", "[MIN 2 17 ]", ""])
def test_malformed_files(tmp_path, bad):
    path = tmp_path / "test.tsv"
    path.write_text(f"1\t[MAX 1 0 ]\n3\t{bad}\n")
    with pytest.raises(ValueError, match=r"test.tsv, line 2: '3.*' is not a value, a tab and an expression"):
        load_listops(path)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_empty_files(tmp_path, text):
    path = tmp_path / "test.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match="holds no expression"):
        load_listops(path)


def test_files_without_values(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("[MAX 1 0 ]\n")
    with pytest.raises(ValueError, match="line 1"):
        load_listops(path)
