import gzip
import io
import re
import tempfile
import tracemalloc
from functools import partial

import numpy as np
import pytest
from internals import datasets_lines as _lines
from samples import TREE

from sklearn_sparsemap.datasets import (
    dump_conllu,
    load_conll,
    load_conllu,
    load_hierarchical_arff,
    load_listops,
    load_multilabel_arff,
)

TEXT = "Ann NNP B-NP\nsees VBZ B-VP\n\n\n# SYM O\n! . O\n"
X = [
    [{"word": "Ann", "pos": "NNP"}, {"word": "sees", "pos": "VBZ"}],
    [{"word": "#", "pos": "SYM"}, {"word": "!", "pos": "."}],
]
Y = [["B-NP", "B-VP"], ["O", "O"]]


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.txt", encoding="utf-8"):
        path = tmp_path / name
        data = text.encode(encoding)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.mark.parametrize("name", ["file.txt", "file.txt.gz"])
def test_sentences_and_labels(write, name):
    path = write(TEXT, name)
    assert load_conll(path) == (X, Y)
    assert load_conll(str(path)) == (X, Y)


def test_compression_is_seen_in_the_content(write):
    write(TEXT, "a.gz").rename(write(TEXT).with_name("b.txt"))
    assert load_conll(write("", "a").with_name("b.txt")) == (X, Y)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.rstrip("\n"),
        "\n \n" + TEXT + "\n\n",
        TEXT.replace("\n", "\r\n"),
        TEXT.replace(" ", "\t"),
        TEXT.replace(" ", "  ").replace("\n", " \n"),
        "\ufeff" + TEXT,
        "-DOCSTART- -X- O\n\n" + TEXT,
        "-DOCSTART-\n" + TEXT,
        TEXT.replace("\n\n\n", "\n-DOCSTART- -X- O O\n"),
    ],
)
def test_forms_of_files(write, text):
    assert load_conll(write(text)) == (X, Y)


def test_names_of_columns(write):
    path = write(TEXT)
    tokens, labels = load_conll(path, columns=("form", None, "chunk"), label="chunk")
    assert tokens[0] == [{"form": "Ann"}, {"form": "sees"}]
    assert labels == Y
    tokens, labels = load_conll(path, columns=("label", "pos", None))
    assert tokens[0] == [{"pos": "NNP"}, {"pos": "VBZ"}]
    assert labels[0] == ["Ann", "sees"]


@pytest.mark.parametrize(
    "parameters",
    [{"columns": ("word", "pos", "chunk")}, {"columns": ("word", "pos", "chunk"), "label": None}],
)
def test_without_labels(write, parameters):
    tokens, labels = load_conll(write(TEXT), **parameters)
    assert labels is None
    assert tokens[1][1] == {"word": "!", "pos": ".", "chunk": "O"}


def test_label_none_keeps_the_column(write):
    tokens, labels = load_conll(write(TEXT), label=None)
    assert labels is None
    assert tokens[0][0]["label"] == "B-NP"


def test_separator_and_comment(write):
    path = write("# a comment\nNew York\tNNP\tB-NP\n#\tSYM\tO\n\nx\t\tO\n")
    tokens, labels = load_conll(path, separator="\t", comment="# ")
    assert tokens == [
        [{"word": "New York", "pos": "NNP"}, {"word": "#", "pos": "SYM"}],
        [{"word": "x", "pos": ""}],
    ]
    assert labels == [["B-NP", "O"], ["O"]]


ODD_WORDS = ["a\u2028b", "c\x85d", "e\u2029f", "\u3000", "g\xa0h", "i\x85"]


@pytest.mark.parametrize("separator", [None, "\t"])
def test_unusual_line_ends_and_spaces_within_words(write, separator):
    text = "".join(f"{word}\tN\tO\n" for word in ODD_WORDS)
    tokens, labels = load_conll(write(text), separator=separator)
    assert tokens == [[{"word": word, "pos": "N"} for word in ODD_WORDS]] and labels == [["O"] * len(ODD_WORDS)]
    # Also where a cut would give the right number of columns.
    with pytest.raises(ValueError, match="expected 2, found 1 column"):
        load_conll(write("a\u2028b\n"), ("word", "label"), separator=separator)
    rows = "".join(f"{i}\t{word}\t_\tN\t_\t_\t0\t_\t_\t_\n" for i, word in enumerate(ODD_WORDS, 1))
    assert [token["word"] for token in load_conllu(write(rows))[0][0]] == ODD_WORDS


def arff(path, **options):
    return load_multilabel_arff(path, 1, **options)


@pytest.mark.parametrize("loader, line", [(load_conll, "{} b c"), (load_conllu, "# {}"), (arff, "% {}")])
def test_gzip_streams(tmp_path, loader, line):
    path = tmp_path / "file.gz"
    lines = [line.format(i) for i in np.random.default_rng(0).integers(10**9, size=20_000)]
    data = gzip.compress("\n".join(lines).encode())
    for cut in (2, 5, 15, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(ValueError, match=r"file.gz is cut off: its gzip stream has no end"):
            loader(path)
    for place in (3, 40, len(data) - 6):
        damaged = bytearray(data)
        damaged[place : place + 4] = b"\xff\xfe\xfd\xfc"
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"file.gz"):
            loader(path)
    # A small file that would fill the memory is left in time.
    path.write_bytes(gzip.compress(bytes(2**26), 9))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"holds more than max_bytes=10000000 of text once decompressed; raise max_b"):
        loader(path, max_bytes=10**7)
    assert tracemalloc.get_traced_memory()[1] < 6 * 10**7
    tracemalloc.stop()
    path.write_bytes(b"a b c\n" * 10)
    with pytest.raises(ValueError, match="holds more than max_bytes=59 of text; raise"):
        loader(path, max_bytes=59)
    with pytest.raises(ValueError, match="max_bytes must be a positive int"):
        loader(path, max_bytes=0)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "gbk"])
def test_lines_are_those_of_the_whole_text(tmp_path, monkeypatch, encoding, end):
    rng = np.random.default_rng(0)
    path = tmp_path / "file"
    letters = list("ab \t") if encoding == "gbk" else list("ab \t\xe9\x85\xa0")
    n_blocks = 0
    for block in (1, 2, 3, 7, 64):
        monkeypatch.setattr(_lines, "_BLOCK", block)
        for n_lines in (0, 1, 2, 9):
            lines = ["".join(rng.choice(letters, size=rng.integers(6))) for _ in range(n_lines)] + [""]
            data = end.join(lines).encode(encoding)
            for stored in (data, gzip.compress(data)):
                path.write_bytes(stored)
                assert list(_lines.read_lines(path, encoding, 10**6)) == lines
                n_blocks += -(-len(data) // block)
    assert n_blocks > 100
    path.write_bytes(b"abcdef\xff")
    with pytest.raises(ValueError, match=r"is not text in utf-8 \(.*, byte 6\)"):
        list(_lines.read_lines(path, "utf-8", 100))


def test_messages_quote_little(write):
    long = "x" * 10_000
    wrong = [
        (load_conll, "a b c d " + long),
        (load_conll, "\xe9 " * 10_000),
        (load_conllu, long),
        (load_conllu, f"{long}\ta\t_\tN\t_\t_\t0\t_\t_\t_\n"),
        (load_conllu, f"1\ta\t_\tN\t_\t_\t{long}\t_\t_\t_\n"),
        (load_conllu, f"1\ta\t_\tN\t_\t_\t{'7' * 10_000}\t_\t_\t_\n"),
    ]
    heads = ["@attribute a " + long, f"@attribute {long} string", f"@attribute a {{{long}}}", "@attribute " + long]
    wrong += [(arff, head) for head in [long, *heads]]
    rows = [f"{long},0", f"{{0 {long}}}", f"{{{long}}}", f"{{{'7' * 10_000} 1}}"]
    wrong += [(arff, f"@attribute a real\n@attribute {long} {{0,1}}\n@data\n{row}") for row in [*rows, "1,2", "{1 2}"]]
    for loader, text in wrong:
        path = write(text)
        with pytest.raises(ValueError) as raised:
            loader(path)
        message = str(raised.value).replace(str(path), "")
        assert len(message) < 300 and not re.search(r"x{81}|7{81}", message), message


def test_encoding(write):
    path = write("año N O\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"is not text in utf-8 .* encoding, for example 'latin-1'"):
        load_conll(path)
    assert load_conll(path, encoding="latin-1")[0] == [[{"word": "año", "pos": "N"}]]


@pytest.mark.parametrize(("line", "found"), [("b N", "2 columns"), ("b", "1 column"), ("b N O x", "4 columns")])
def test_wrong_number_of_columns(write, line, found):
    path = write(f"a N O\n\nc N O\n{line}\n")
    with pytest.raises(ValueError, match=rf"file.txt, line 4: expected 3, found {found} in '{line}'; name every"):
        load_conll(path)


@pytest.mark.parametrize("text", ["", "\n\n", "-DOCSTART- -X- O\n"])
def test_empty_file(write, text):
    with pytest.raises(ValueError, match=r"file.txt holds no token"):
        load_conll(write(text))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"columns": "word"}, "sequence of names"),
        ({"columns": ("word", 3, "label")}, "names or None; got 3"),
        ({"columns": ("word", "word", "label")}, "'word' twice"),
        ({"columns": (None, None, "label")}, "no field for X"),
        ({"columns": ()}, "no field for X"),
        ({"label": "chunk"}, "label='chunk' is not among"),
        ({"separator": ""}, "must not be empty"),
        ({"comment": ""}, "must not be empty"),
    ],
)
def test_wrong_parameters(write, parameters, message):
    with pytest.raises(ValueError, match=message):
        load_conll(write(TEXT), **parameters)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_conll(tmp_path / "none.txt")


# CoNLL-U

WORDS = [["Do", "n't", "see", "Ann"], ["#"]]
HEADS = [[3, 3, 0, 3], [0]]


def words_and_heads(path):
    sentences, heads = load_conllu(path, fields=("word",))
    assert all(h.dtype == np.int64 for h in heads)
    return [[token["word"] for token in sentence] for sentence in sentences], [h.tolist() for h in heads]


@pytest.mark.parametrize("name", ["file.conllu", "file.conllu.gz"])
def test_trees(write, name):
    path = write(TREE, name)
    sentences, heads = load_conllu(path)
    assert words_and_heads(str(path)) == (WORDS, HEADS)
    assert sentences[0][0] == {
        "word": "Do",
        "lemma": "do",
        "pos": "AUX",
        "xpos": "VBP",
        "feats": "Mood=Imp",
        "deprel": "aux",
    }
    assert [h.base for h in heads] == [None, None]


@pytest.mark.parametrize(
    "text",
    [
        TREE.rstrip("\n"),
        "\n\n" + TREE + "\n \n\n",
        TREE.replace("\n", "\r\n"),
        "\ufeff" + TREE,
        TREE.replace("1-2\t", "1-3\t").replace("2.1\t", "0.1\t"),
    ],
)
def test_forms_of_treebanks(write, text):
    assert words_and_heads(write(text)) == (WORDS, HEADS)


def test_conllx(write):
    # Columns 9 and 10 are projective heads there, and words may hold spaces.
    text = "1\tNew York\t_\tn\tnp\t_\t2\tSUJ\t2\tSUJ\n2\tcalls\tcall\tv\tvm\tnum=s\t0\tROOT\t0\tROOT\n"
    sentences, heads = load_conllu(write(text), ["xpos", "word"])
    assert sentences == [[{"xpos": "np", "word": "New York"}, {"xpos": "vm", "word": "calls"}]]
    assert list(sentences[0][0]) == ["xpos", "word"]
    assert heads[0].tolist() == [2, 0]


def treebank(heads, first="1 x _ _ _ _ 0 _ _ _\n\n"):
    rows = [f"{i} x _ _ _ _ {head} _ _ _" for i, head in enumerate(heads, 1)]
    return (first + "\n".join(rows)).replace(" ", "\t")


@pytest.mark.parametrize("heads", [[0, 0, 0], [2, 3, 4, 5, 0], [0, 1, 2, 3, 4, 5, 6], [3, 0, 2, 3]])
def test_any_tree_is_read(write, heads):
    assert load_conllu(write(treebank(heads)))[1][1].tolist() == heads


@pytest.mark.parametrize(
    ("heads", "line", "circle"),
    [
        ([1], 3, "1 -> 1"),
        ([0, 2], 4, "2 -> 2"),
        ([2, 1, 0], 3, "(1 -> 2 -> 1|2 -> 1 -> 2)"),
        ([0, 1, 4, 5, 3, 3], None, "(3 -> 4 -> 5 -> 3|4 -> 5 -> 3 -> 4|5 -> 3 -> 4 -> 5)"),
        ([0, 3, 4, 5, 6, 7, 2], None, r"\d( -> \d){6}"),
    ],
)
def test_circles(write, heads, line, circle):
    where = r"\d+" if line is None else line
    with pytest.raises(ValueError, match=rf"file.txt, line {where}: heads\[1\] has a cycle, {circle}; every"):
        load_conllu(write(treebank(heads)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tx\t_", "line 1: expected 10 columns separated by tabs, found 3 columns"),
        ("word", "line 1: expected 10 columns separated by tabs, found 1 column in"),
        (treebank([0], first="\n") + "\n3 x _ _ _ _ 0 _ _ _".replace(" ", "\t"), "line 3: expected word number 2"),
        (treebank([0]) + "\n" + treebank([0], first=""), "line 4: expected word number 2, found '1'"),
        (treebank([0]).replace("1", "one", 1), "line 1: expected word number 1, found 'one'"),
        (treebank([0]).replace("1", "1-", 1), "line 1: expected word number 1, found '1-'"),
        (treebank([0, "\u0661"]), r"line 4: the head \(column 7\) is '\u0661', not a number"),
        ("2-1\tx" + "\t_" * 8 + "\n" + treebank([0]), "line 1: expected word number 1, found '2-1'"),
        (treebank([0, "-1"]), r"line 4: the head \(column 7\) is '-1', not a number"),
        (treebank([0, 3]), "line 4: the head is 3, but the sentence has 2 words"),
        (treebank([0, 10**30]), f"line 4: the head is {10**30}, but the sentence has 2 words"),
        ("", "holds no token"),
        ("# only\n\n", "holds no token"),
    ],
)
def test_malformed_treebanks(write, text, message):
    with pytest.raises(ValueError, match=rf"file.txt,? {message}"):
        load_conllu(write(text))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("word", r"write \('word',\)"),
        ((), "fields is empty"),
        (("word", "head"), "fields has 'head', which no column holds"),
        (([],), r"fields has \[\]"),
    ],
)
def test_wrong_fields(write, fields, message):
    with pytest.raises(ValueError, match=message):
        load_conllu(write(TREE), fields)


def test_encoding_of_treebanks(write):
    path = write(TREE.replace("Ann", "Añn"), encoding="latin-1")
    with pytest.raises(ValueError, match="is not text in utf-8"):
        load_conllu(path)
    assert load_conllu(path, encoding="latin-1")[0][0][3]["word"] == "Añn"


def hostile_files():
    """Yield loaders, files whose results would grow by the square of the file, and numbers of bytes to allow.

    Each file has 20,000 to 80,000 bytes, and is a valid one.
    """
    head = "@relation r\n@attribute f numeric\n@attribute class hierarchical "
    yield load_hierarchical_arff, head + "/".join("a" * 10_000) + "\n@data\n1,a\n", "10000 levels, .* list edges"
    yield load_hierarchical_arff, head + ",".join(map(str, range(4000))) + "\n@data\n" + "1,5\n" * 5000, "of classes, "
    nominal = "@relation r\n@attribute f {%s}\n@attribute class hierarchical a\n@data\n"
    values = ",".join(map(str, range(4000)))
    yield load_hierarchical_arff, nominal % values + "5,a\n" * 5000, "4000 columns of features, which take 160000000 b"
    yield load_hierarchical_arff, nominal % ("x" * 20_000 + ",b") + "b,a\n" * 5000, None
    labels = "".join(f"@attribute {i} {{0,1}}\n" for i in range(2000))
    yield partial(load_multilabel_arff, n_labels=1999), labels + "@data\n" + "{}\n" * 9000, "1999 columns of labels, "


@pytest.mark.parametrize("i", range(5))
def test_memory_is_that_of_the_file(write, i):
    load, text, message = list(hostile_files())[i]
    path = write(text)
    tracemalloc.start()
    if message is None:
        load(path, max_bytes=10**6)
    else:
        with pytest.raises(ValueError, match=message):
            load(path, max_bytes=10**6)
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()


def test_deep_hierarchies_are_read_as_edges(write):
    n = 20_000
    edges = ",".join(["root/c0", *(f"c{i}/c{i + 1}" for i in range(n - 1)), "c0/c1"])
    text = f"@relation r\n@attribute f numeric\n@attribute class hierarchical {edges}\n@data\n1,c{n - 1}\n"
    tracemalloc.start()
    _, Y, names, parents = load_hierarchical_arff(write(text))
    assert tracemalloc.get_traced_memory()[1] < 200 * len(text)
    tracemalloc.stop()
    assert names == [f"c{i}" for i in range(n)] and parents == [[], *([i] for i in range(n - 1))] and Y.all()
    # Paths of as many levels as are read.
    text = f"@relation r\n@attribute f numeric\n@attribute class hierarchical {'/'.join('a' * 100)}\n@data\n1,a\n"
    assert len(load_hierarchical_arff(write(text))[2]) == 100


def test_long_digits_are_read_in_linear_time(write):
    # The time of the pattern alone was quadratic: minutes.
    text = "@attribute a real\n@attribute b {0,1}\n@data\n" + "1" * 10**6 + "x,0\n"
    with pytest.raises(ValueError, match=r"line 4: the row has the value '1+\.\.\., which is not a number"):
        arff(write(text))
    # Python refuses to convert so many digits, in words that name no line.
    with pytest.raises(ValueError, match=r"line 4: the row has the index 7{80} for 2 attributes"):
        arff(write(f"@attribute a real\n@attribute b {{0,1}}\n@data\n{{{'7' * 10_000} 1}}\n"))
    with pytest.raises(ValueError, match=r"line 1: the head is 7{80}, but the sentence has 1 words"):
        load_conllu(write(f"1\ta\t_\tN\t_\t_\t{'7' * 10_000}\t_\t_\t_\n"))


def test_messages_show_the_beginning_of_a_long_circle(write):
    heads = [*range(2, 5001), 1]
    with pytest.raises(ValueError, match=r"has a cycle, \d+( -> \d+){11} -> \.\.\.; every") as raised:
        load_conllu(write(treebank(heads)))
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("value", ["1e999", "-1e400", "'1e999'"])
def test_numbers_that_overflow(write, value):
    head = "@attribute a real\n@attribute b {0,1}\n@data\n0,0\n"
    message = "line {}: the row has the value .*1e.*, which is too large for a number of 64 bits; correct it, or"
    with pytest.raises(ValueError, match=message.format(5)):
        arff(write(f"{head}{value},0\n"))
    with pytest.raises(ValueError, match=message.format(4)):
        arff(write(f"@attribute a real\n@attribute b {{0,1}}\n@data\n{{0 {value}}}\n"))
    hierarchical = "@relation r\n@attribute a real\n@attribute class hierarchical c\n@data\n"
    with pytest.raises(ValueError, match=message.format(5)):
        load_hierarchical_arff(write(f"{hierarchical}{value},c\n"))
    with pytest.raises(ValueError, match="line 1: the attribute 'a' has the value '1e999', which is too large"):
        arff(write("@attribute a {0,1e999}\n@attribute b {0,1}\n@data\n0,0\n"))


LOADERS = [load_conll, load_conllu, load_listops, arff, load_hierarchical_arff]


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("path", [5, 0, None, 1.5, True])
def test_what_is_no_path(load, path):
    # An int would be the number of an open file: 0 is the standard input.
    with pytest.raises(TypeError, match="path must be a str or path-like, the name of a file; got "):
        load(path)


@pytest.mark.parametrize("load", [load_conll, load_conllu])
def test_what_is_no_list_of_paths(load):
    for chunk_size in (None, 1):
        with pytest.raises(TypeError, match="path must be a str or path-like, the name of a file; got int"):
            load(["a.txt", 5], chunk_size=chunk_size)


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("encoding", ["utf-9", 5, None])
def test_unknown_encodings(write, load, encoding):
    with pytest.raises(ValueError, match=r"encoding=.* is unknown; pass the name of one, for example 'utf-8'"):
        load(write("a b c\n"), encoding=encoding)


# One file for each reader, with a letter that is not ASCII.
FILES = [
    (load_conll, "\u00e4nn NNP B-NP\n\n! . O\n"),
    (load_conllu, "# \u00e4\n1\tx" + "\t_" * 4 + "\t0" + "\t_" * 3 + "\n"),
    (load_listops, "2\t( ( ( [MIN 2 ) 7 ) ] )\n\u2003\n"),
    (arff, "@relation \u00e4\n@attribute a real\n@attribute b {0,1}\n@data\n1,0\n2,1\n"),
    (
        load_hierarchical_arff,
        "@relation \u00e4\n@attribute a real\n@attribute c hierarchical x,x/y\n@data\n1,x/y\n2,x\n",
    ),
]


def assert_equal(first, second):
    assert repr(first) == repr(second)


@pytest.mark.parametrize(("load", "text"), FILES)
def test_open_files_and_several_files(write, load, text):
    path = write(text)
    once, twice = load(path), load([path, path])
    packed = gzip.compress(text.encode())
    with (
        open(path, encoding="utf-8") as as_text,
        open(path, "rb") as as_bytes,
        open(path, "rb", buffering=0) as raw,
        gzip.open(write(text, "a.gz"), "rt", encoding="utf-8") as unpacked,
    ):
        files = [as_text, as_bytes, raw, unpacked, io.StringIO(text), io.BytesIO(text.encode()), io.BytesIO(packed)]
        for file in files:
            assert_equal(load(file), once)
            assert not file.closed
    assert_equal(load([io.StringIO(text), path]), twice)
    assert_equal(load(iter([path, io.BytesIO(packed)])), twice)
    with pytest.raises(ValueError, match="empty list"):
        load([])


def test_open_files_are_read_from_their_position(write):
    file = io.StringIO("a header\n" + TEXT)
    assert file.readline()
    assert load_conll(file) == (X, Y)
    chunks = load_conll(io.BytesIO(TEXT.encode()), chunk_size=1)
    assert [labels for _, labels in chunks] == [[Y[0]], [Y[1]]]


class Pipe:
    """A file that is not seekable and returns a few bytes at a time."""

    def __init__(self, data):
        self._file = io.BytesIO(data)

    def read(self, size):
        return self._file.read(min(size, 7))


def test_pipes_are_read():
    for data in (TEXT.encode(), gzip.compress(TEXT.encode())):
        assert load_conll(Pipe(data)) == (X, Y)


def test_files_opened_as_another_text(write):
    message = r"a.gz was opened as text in utf-8, which it is not .* in binary mode"
    with open(write(TEXT, "a.gz"), encoding="utf-8") as file, pytest.raises(ValueError, match=message):
        load_conll(file)


@pytest.mark.parametrize(("load", "text"), FILES)
def test_other_unicode_encodings_are_named(tmp_path, load, text):
    path, packed = tmp_path / "file.txt", tmp_path / "file.gz"
    for encoding, named in (
        ("utf-16", "utf-16"),
        ("utf-32", "utf-32"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-8-sig", "utf-8"),
    ):
        # Four characters of ASCII are the beginning of most files.
        data = ("\n" * 4 * ("16-" in encoding) + text).encode(encoding)
        path.write_bytes(data)
        packed.write_bytes(gzip.compress(data))
        for given in {"utf-8", "latin-1", "cp1252", "utf-16", "utf-32"} - {named, named[:6]} - {"utf-8"} | {"latin-1"}:
            with pytest.raises(ValueError, match=f"is text in {named}, not in {given}; pass encoding='{named}'"):
                load(path, encoding=given)
        if named != "utf-8":
            with pytest.raises(ValueError, match=f"is text in {named}, not in utf-8; pass encoding='{named}'"):
                load(packed)
        assert_equal(load(path, encoding=named), load(packed, encoding=named))
        assert_equal(load(path, encoding=named), load(io.StringIO(text)))
    path.write_bytes(text.encode())
    with pytest.raises(ValueError, match="is not text in utf-16"):
        load(path, encoding="utf-16")


@pytest.mark.parametrize(
    ("line", "separator"),
    [("-DOCSTART- -X- O", "\t"), ("-DOCSTART-\tO", " "), ("-DOCSTART-(12)\tO\tO", None), ("-DOCSTART-", " ")],
)
def test_lines_that_begin_a_document(write, line, separator):
    text = TEXT.replace(" ", separator or " ")
    assert load_conll(write(f"{line}\n\n{text}{line}\n"), separator=separator) == (X, Y)
    assert load_conll(write(text.replace("\n\n\n", f"\n{line}\n")), separator=separator) == (X, Y)


@pytest.mark.parametrize("space", ["\x0b", "\x0c", "\x1c", "\x1f"])
def test_words_with_other_white_space(write, space):
    text = f"a{space}b NN O\n{space} NN O\n\u00e4{space}b NN O\n"
    words = [token["word"] for token in load_conll(write(text))[0][0]]
    assert words == [f"a{space}b", space, f"\u00e4{space}b"]


def test_treebanks_without_heads(write):
    text = "# one\n1-2\tab" + "\t_" * 8 + "\n" + treebank(["_", "_"], first="")
    text += "\n\n# two\n" + treebank([2, 0], first="") + "\n"
    sentences, heads = load_conllu(write(text), keep=True)
    assert [own.tolist() for own in heads] == [[-1, -1], [2, 0]]
    assert [own.tolist() for own in load_conllu(write(treebank([2, 0, "_"])))[1]] == [[0], [2, 0, -1]]
    with pytest.raises(ValueError, match="cycle, 1 -> 2 -> 1"):
        load_conllu(write(treebank([2, 1, "_"])))
    file = io.StringIO()
    dump_conllu(sentences, None, None, file)
    assert file.getvalue().rstrip("\n") == text.rstrip("\n")
    file = io.BytesIO()
    dump_conllu(sentences, heads, None, file)
    assert file.getvalue().decode().rstrip("\n") == text.rstrip("\n")
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as file:
        dump_conllu(sentences, heads, None, file)
        file.seek(0)
        assert file.read().rstrip("\n") == text.rstrip("\n")
    with pytest.raises(ValueError, match=r"sentences\[1\] has no words"):
        dump_conllu([["a"], []], [[0], []], None, io.StringIO())
    file = io.StringIO()
    dump_conllu(sentences, [[0, 1], [2, 0]], None, file)
    assert [own.tolist() for own in load_conllu(io.StringIO(file.getvalue()))[1]] == [[0, 1], [2, 0]]
    assert file.getvalue().startswith("# one\n1-2\tab\t")
