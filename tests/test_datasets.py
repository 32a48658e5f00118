import gzip

import pytest

from sklearn_sparsemap.datasets import load_conll

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


def test_unusual_line_ends_within_words(write):
    tokens, _ = load_conll(write("a\u2028b\tN\tO\n", encoding="utf-8"), separator="\t")
    assert tokens == [[{"word": "a\u2028b", "pos": "N"}]]


def test_encoding(write):
    path = write("año N O\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"is not text in utf-8 .* encoding, for example 'latin-1'"):
        load_conll(path)
    assert load_conll(path, encoding="latin-1")[0] == [[{"word": "año", "pos": "N"}]]


@pytest.mark.parametrize(
    ("line", "found"), [("b N", "2 columns"), ("b", "1 column"), ("b N O x", "4 columns")]
)
def test_wrong_number_of_columns(write, line, found):
    path = write(f"a N O\n\nc N O\n{line}\n")
    with pytest.raises(
        ValueError, match=rf"file.txt, line 4: expected 3, found {found} in '{line}'; name every"
    ):
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
