"""Files of word vectors: what they hold, and which are refused."""

import gzip
import io
import tracemalloc

import numpy as np
import pytest

from sklearn_sparsemap.datasets import load_word_vectors
from sklearn_sparsemap.features import WordVectors

WORDS = ["the", "Paris", "naïve", "日本", "a\u00a0b", ". . .", "at x@y.z", "😀", "1990", "</s>", "nan", "#", "a|b"]


def naive_load(text, has_header, max_words=None):
    """Read plain lines of words and numbers, one after the other."""
    found = {}
    for line in text.split("\n")[has_header:]:
        if line.strip():
            pieces = line.replace("\t", " ").split()
            numbers = []
            while len(numbers) < 3:
                numbers.insert(0, float(pieces.pop()))
            # A word with a no-break space is one word.
            word = line.replace("\t", " ").strip(" ").rsplit(" ", 3)[0]
            if word not in found and (max_words is None or len(found) < max_words):
                found[word] = numbers
    return list(found), np.array(list(found.values()), np.float32)


def text_of(words=WORDS, n_columns=3, header=False, separator=" ", seed=0):
    rng = np.random.default_rng(seed)
    lines = [f"{len(words)} {n_columns}"] * header
    lines += [separator.join([word, *map(repr, rng.normal(size=n_columns).tolist())]) for word in words]
    return "\n".join(lines) + "\n"


def binary_of(words, matrix, newline=b""):
    rows = [word.encode() + b" " + row.astype("<f4").tobytes() + newline for word, row in zip(words, matrix)]
    return f"{len(words)} {matrix.shape[1]}\n".encode() + b"".join(rows)


def assert_loaded(found, wanted):
    assert found[0].tolist() == wanted[0] and found[1].dtype == np.float32
    np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("separator", [" ", "\t"])
@pytest.mark.parametrize("max_words", [None, 1, 5, 13, 99])
def test_text_files(tmp_path, header, separator, max_words):
    text = text_of(header=header, separator=separator)
    wanted = naive_load(text, header, max_words)
    assert len(wanted[0]) == min(13, max_words or 13) and wanted[0][:5] == WORDS[: min(5, max_words or 5)]
    path = tmp_path / "vectors.txt"
    # fastText ends each line with a space; some files have a mark, no last line feed, or line feeds of Windows.
    for written in (
        text,
        text.replace("\n", " \n"),
        "\ufeff" + text,
        text[:-1],
        text.replace("\n", "\r\n"),
        text + "\n",
    ):
        path.write_bytes(written.encode())
        assert_loaded(load_word_vectors(path, max_words=max_words), wanted)
        assert_loaded(load_word_vectors(io.StringIO(written.removeprefix("\ufeff")), max_words=max_words), wanted)
    (tmp_path / "vectors.gz").write_bytes(gzip.compress(text.encode()))
    assert_loaded(load_word_vectors(tmp_path / "vectors.gz", max_words=max_words), wanted)
    with open(tmp_path / "vectors.gz", "rb") as file:
        assert_loaded(load_word_vectors(file, max_words=max_words), wanted)
        assert not file.closed
    if max_words is None:
        rows = WordVectors(path, normalize=False).fit_transform([wanted[0]])
        np.testing.assert_array_equal(rows[0][:, :-1], wanted[1])


@pytest.mark.parametrize("max_words", [None, 2])
def test_of_a_word_given_twice_the_first_vector_counts(max_words):
    text = text_of(["a", "b", "a", "c", "b"], header=True)
    assert_loaded(load_word_vectors(io.StringIO(text), max_words=max_words), naive_load(text, True, max_words))


@pytest.mark.parametrize("newline", [b"", b"\n"])
@pytest.mark.parametrize("n", [13, 3000])
def test_binary_files(tmp_path, n, newline):
    words = [*WORDS, *(f"w{i}" for i in range(n))][:n]
    words = [word.replace(" ", "_") for word in words]
    matrix = np.random.default_rng(0).normal(size=(n, 200)).astype(np.float32)
    data = binary_of(words, matrix, newline)
    for name, content in (("v.bin", data), ("v.bin.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
        assert_loaded(load_word_vectors(tmp_path / name), (words, matrix))
        assert_loaded(load_word_vectors(tmp_path / name, max_words=7), (words[:7], matrix[:7]))
    assert_loaded(load_word_vectors(io.BytesIO(data), binary=True), (words, matrix))
    for cut in (len(data) - 3, len(data) - 900, 8):
        with pytest.raises(ValueError, match=r"ends within (word \d+|the first line); fetch the whole file"):
            load_word_vectors(io.BytesIO(data[:cut]), binary=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no word"),
        ("\n \n", "no word"),
        ("5 3\n", "ends after 0 words, and its first line promises 5"),
        ("a\n", "line 1: expected a word and its numbers"),
        ("a b\n", "line 1: expected a word and its numbers"),
        ("a 0.1 0.2\nb 0.1\n", "line 2: expected a word and 2 numbers, found 'b 0.1'$"),
        ("a 0.1 0.2\n\nb 0.1 0.2 0.3\n", "line 3: expected a word and 2 numbers, found 'b 0.1 0.2 0.3'"),
        ("a 0.1 0.2\nb 0.1 x\n", "line 2: expected a word and 2 numbers, found 'b 0.1 x'"),
        ("a 0.1 0.2\nb c d e\n", "line 2: expected a word and 2 numbers, found 'b c d e'"),
        ("2 2\na 0.1 0.2\nb 0.1\n", "line 3: expected a word and 2 numbers"),
        ("3 2\na 0.1 0.2\nb 0.1 0.2\n", "ends after 2 words, and its first line promises 3; fetch"),
        ("1 2\na 0.1 0.2\nb 0.1 0.2\n", "line 3: the first line promises 1 words"),
        ("a 0.1 0.2\nb nan 0.2\n", "line 2: the vector of 'b' has NaN"),
        ("a 0.1 0.2\nb 1e60 0.2\n", "line 2: the vector of 'b' has NaN or infinity"),
        ("2 999999999999999999999999\na 0.1\nb 0.1\n", "line 2: expected a word and"),
        ("a 0.1\n".encode("utf-16"), "utf-16"),
        ("naïve 0.1\n".encode("latin-1"), "not text in utf-8.*pass its encoding"),
        (gzip.compress(text_of().encode())[:-20], "gzip stream has no end"),
    ],
    ids=str,
)
def test_files_that_are_refused(tmp_path, content, message):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as error:
        load_word_vectors(path)
    assert str(path) in str(error.value)
    with pytest.raises(ValueError, match=message):
        WordVectors(str(path)).fit()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends within the first line"),
        (b"the 0.1\n", "does not begin with the number of words"),
        (b"1 0\n", "does not begin with the number of words"),
        (b"1 2\n" + b"x" * 30_000, "word 1: this is not word2vec's binary format"),
        (b"1 99999999999999999999\na " + b"x" * 30_000, "ends within word 1"),
        (b"2 1\na \0\0\0\0\xff \0\0\0\0", "word 2 is not text in utf-8"),
        (b"1 1\na \0\0\xc0\x7f", "word 1: the vector of 'a' has NaN"),
    ],
    ids=str,
)
def test_binary_files_that_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        load_word_vectors(io.BytesIO(content), binary=True)


def test_wrong_arguments(tmp_path):
    for max_words in (0, -1, 1.5, True, "3"):
        with pytest.raises(ValueError, match="max_words must be a positive int"):
            load_word_vectors(io.StringIO("a 1\n"), max_words=max_words)
    for path in (3, None, ["a"]):
        with pytest.raises(TypeError, match="path must be"):
            load_word_vectors(path)
    with pytest.raises(FileNotFoundError):
        load_word_vectors(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="more than max_bytes=10"):
        load_word_vectors(io.StringIO(text_of()), max_bytes=10)
    with pytest.raises(ValueError, match="opened as text; open it in binary mode"):
        load_word_vectors(io.StringIO("1 1\n"), binary=True)
    words, _ = load_word_vectors(io.BytesIO("naïve 0.1\n".encode("latin-1")), encoding="latin-1")
    assert words.tolist() == ["naïve"]


def test_memory_is_that_of_the_result(tmp_path):
    path = tmp_path / "vectors.txt"
    n, n_columns = 12_000, 50
    lines = [" ".join(map(repr, row)) for row in np.random.default_rng(0).normal(size=(100, n_columns)).tolist()]
    path.write_text("".join(f"w{i} {lines[i % 100]}\n" for i in range(n)))
    assert path.stat().st_size > 10e6
    peaks = {}
    for max_words in (100, 2000, None):
        tracemalloc.start()
        try:
            words, vectors = load_word_vectors(path, max_words=max_words)
            peaks[max_words] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert len(words) == len(vectors) == (max_words or n)
    # A block of the file is in memory as bytes, as text and as lines.
    assert peaks[100] < 6e6 and peaks[2000] < 7e6
    # 60 bytes a word, and the entry of a dict.
    assert peaks[None] < 6e6 + 1.6 * 4 * n * n_columns + 250 * n
