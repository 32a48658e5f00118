"""load_multilabel_arff."""

import gzip
import io

import numpy as np
import pytest
from naive_datasets import naive_arff
from scipy import sparse

from sklearn_sparsemap.datasets import load_hierarchical_arff, load_multilabel_arff

HEADER = """% a comment
@RELATION 'some texts'

@attribute goal {0,1}
@attribute 'the vote' { 0, 1 }
@Attribute "it\\'s" Numeric
@attribute sport{0,1}
@data
"""
NAMES = ["goal", "the vote", "it's", "sport"]


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.arff", encoding="utf-8"):
        path = tmp_path / name
        data = text.encode(encoding)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


def test_comments(write):
    text = """%no relation% yet
@relation r % and 'why
@attribute a numeric % a comment, {0,1}
@attribute b REAL%another
@attribute 'c % d' {0, '1'} % "it's
@attribute "e%f" { '0', 1 }%'
@attribute g\u2028h\xa0i {0,1}
@data % not data
% nor this
1,?,0,1,1 % a row
2,'3',1,0,0%
"""
    X, Y, names, labels = load_multilabel_arff(write(text), 2, return_names=True)
    np.testing.assert_array_equal(X, [[1, np.nan, 0], [2, 3, 1]])
    assert Y.tolist() == [[1, 1], [0, 0]]
    assert names == ["a", "b", "c % d"] and labels == ["e%f", "g\u2028h\xa0i"]
    rows = "{0 1} % one\n{} %none\n%\n{1 1}% x\n"
    X, Y = load_multilabel_arff(write("@attribute a real % x\n@attribute b {0,1} % y\n@data\n" + rows), 1)
    assert X.toarray().tolist() == [[1], [0], [0]] and Y.tolist() == [[0], [0], [1]]
    with pytest.raises(ValueError, match="line 1: the attribute 'a' has no type"):
        load_multilabel_arff(write("@attribute a % numeric\n@data\n1\n"), 1)


def random_arff(rng, is_sparse, missing, n_rows=30, n_numeric=5, n_binary=6):
    """A file of numeric and binary attributes, the latter last, without quotes."""
    lines = ["@relation random"]
    lines += [f"@attribute n{i} {rng.choice(['real', 'numeric', 'integer'])}" for i in range(n_numeric)]
    lines += [f"@attribute b{i} {{0,1}}" for i in range(n_binary)]
    lines += ["", "% rows", "@data"]
    for _ in range(n_rows):
        numbers = [repr(x) for x in (rng.normal(size=n_numeric) * 10.0 ** rng.integers(-9, 9)).tolist()]
        if missing:
            numbers[rng.integers(n_numeric)] = "?"
        row = numbers + [str(b) for b in rng.integers(0, 2, n_binary)]
        if is_sparse:
            kept = rng.permutation(len(row))[: rng.integers(0, len(row) + 1)]
            row = "{" + ",".join(f"{j} {row[j]}" for j in kept.tolist()) + "}"
        else:
            row = ",".join(row)
        lines += [row, *["", "% between"][: rng.integers(0, 3)]]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("name", ["file.arff", "file.arff.gz"])
def test_as_the_twin(write, is_sparse, missing, name):
    for seed in range(5):
        text = random_arff(np.random.default_rng(seed), is_sparse, missing)
        X, Y, feature_names, label_names = load_multilabel_arff(write(text, name), 4, return_names=True)
        names, table = naive_arff(text)
        assert (feature_names, label_names) == (names[:-4], names[-4:])
        assert sparse.issparse(X) == is_sparse
        if is_sparse:
            assert X.format == "csr"
            assert X.has_canonical_format
            assert (X.data != 0).all()
            X = X.toarray()
        assert X.dtype == np.float64
        assert np.issubdtype(Y.dtype, np.integer)
        np.testing.assert_array_equal(X, table[:, :-4])
        np.testing.assert_array_equal(Y, table[:, -4:])


@pytest.mark.parametrize(
    "rows",
    [
        "{0 1,3 1}\n{}\n{ 2  -1.5e1 }\n",
        "{3 1,0 1}\r\n{ }\r\n{2\t-15.,1 0}",
        "1,0,0,1\n\n0,0,0,0\n% rows\n0, 0, -15, 0\n",
        "'1',\"0\",0,1\n0,0,0,0\n0,0,-15,'0'\n",
    ],
)
def test_forms_of_files(write, rows):
    X, Y, feature_names, label_names = load_multilabel_arff(write(HEADER + rows), 1, return_names=True)
    assert feature_names + label_names == NAMES
    X = X.toarray() if rows[0] == "{" else X
    assert X.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, -15]]
    assert Y.tolist() == [[1], [0], [0]]


def test_labels_at_the_start(write):
    for rows in ("{0 1,2 5}\n{3 1}\n", "1,0,5,0\n0,0,0,1\n"):
        result = load_multilabel_arff(write(HEADER + rows), 2, label_position="start", return_names=True)
        X, Y, feature_names, label_names = result
        X = X.toarray() if rows[0] == "{" else X
        assert X.tolist() == [[5, 0], [0, 1]]
        assert Y.tolist() == [[1, 0], [0, 0]]
        assert (feature_names, label_names) == (NAMES[2:], NAMES[:2])


def test_encoding(write):
    path = write(HEADER.replace("goal", "año") + "1,0,0,1\n", encoding="latin-1")
    with pytest.raises(ValueError, match="is not text in utf-8"):
        load_multilabel_arff(path, 1)
    assert load_multilabel_arff(path, 1, encoding="latin-1", return_names=True)[2][0] == "año"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,0,0,1\n1,0,1\n", r"file.arff, line 10: the row has 3 values for 4 attributes; give one for each"),
        ("1,0,0,1\n\n1,0,x,1\n", r"line 11: the row has the value 'x', which is not a number; write a number or \?"),
        ("1,0,nan,1\n", "line 9: the row has the value 'nan'"),
        ("1,0,1_0,1\n", "line 9: the row has the value '1_0'"),
        ("1,0,inf,1\n", "line 9: the row has the value 'inf'"),
        ("1,2,0,1\n", r"line 9: the row has 2 for the attribute 'the vote', which declares \{0,1\}; correct"),
        ("{}\n{1 2}\n", r"line 10: the row has 2 for the attribute 'the vote', which declares \{0,1\}"),
        ("{}\n0,0,0,0\n", "line 10: the row is dense, but the rows before are sparse; write all rows in one way"),
        ("0,0,0,0\n{}\n", "line 10: the row is sparse, but the rows before are not"),
        ("{}\n{0 1\n", "line 10: the row has no '}' at its end"),
        ("{}\n{0 1,2}\n", r"line 10: the row has '2', which is not a pair; write \{index value,index value\}"),
        ("{0,1 5 1}\n", "line 9: the row has '0', which is not a pair"),
        ("{0 1,}\n", "line 9: the row has '', which is not a pair"),
        ("{0 1}\n{4 1}\n", "line 10: the row has the index 4 for 4 attributes; indices count attributes from 0"),
        ("{0 1}\n{-1 1}\n", "line 10: the row has the index -1"),
        ("{99999999999999999999 1}\n", "the row has the index 99999999999999999999"),
        ("{3 1}\n{2 1,3 1,2 7}\n", 'line 10: the row has two values for the attribute "it\'s"; keep one'),
        ("{2 x}\n", "line 9: the row has the value 'x', which is not a number"),
        ("", "file.arff has no rows after @data"),
        ("0,0,0,1,{x}\n", "line 9: the row has the weight 'x'; a weight is a number that is not negative"),
        ("{3 1}, {-1}\n", "line 9: the row has the weight '-1'"),
    ],
)
def test_wrong_rows(write, rows, message):
    with pytest.raises(ValueError, match=message):
        load_multilabel_arff(write(HEADER + rows), 1)


def test_labels_are_no_other_numbers(write):
    with pytest.raises(ValueError, match='line 10: the row has 5 for the label "it\'s"; labels are 0 or 1'):
        load_multilabel_arff(write(HEADER + "{}\n{2 5}"), 2)


def test_what_sparse_rows_leave_out_is_zero(write):
    header = HEADER.replace("goal {0,1}", "goal {1,0}")
    assert load_multilabel_arff(write(header + "1,0,0,1\n"), 1)[0].tolist() == [[1, 0, 0]]
    with pytest.raises(ValueError, match=r"'goal' of sparse rows has 1 as its first value.* declare 0 first"):
        load_multilabel_arff(write(header + "{}\n"), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no line @data; is it a whole ARFF file"),
        ("@relation x\n@data\n1\n", "line 2: no @attribute before @data"),
        ("a,b\n1,2\n", "line 1: expected @relation, @attribute or @data, found 'a,b'"),
        ("@attribute a\n", "line 1: cannot read '@attribute a'; write @attribute name type"),
        ("\n@attribute a string\n", "line 2: the attribute 'a' has the type 'string'; only numeric, real"),
        ("@attribute a {red,green,red}\n", "line 1: the attribute 'a' has the value 'red' twice"),
        ("@attribute b real\n@attribute a {red,green}\n@data\n1,red\n", "the label 'a' has the values 'red,green'"),
        ("@attribute a {'x,y',z}\n@attribute b {0,1}\n@data\nx,1\n", "has 'x' for the attribute 'a', which declares"),
    ],
)
def test_wrong_headers(write, text, message):
    with pytest.raises(ValueError, match=message):
        load_multilabel_arff(write(text), 1)


@pytest.mark.parametrize(
    ("n_labels", "parameters", "message"),
    [
        (0, {}, "n_labels must be a positive int; got 0"),
        (1.0, {}, "n_labels must be a positive int; got 1.0"),
        (True, {}, "n_labels must be a positive int"),
        (4, {}, "has 4 attributes, which leaves no features with n_labels=4"),
        (1, {"label_position": "first"}, "label_position='first' is not one of"),
    ],
)
def test_wrong_parameters(write, n_labels, parameters, message):
    with pytest.raises(ValueError, match=message):
        load_multilabel_arff(write(HEADER + "1,0,0,1\n"), n_labels, **parameters)


def test_missing_file(tmp_path):
    with pytest.raises(OSError):
        load_multilabel_arff(tmp_path / "none.arff", 1)


FOUR = "@attribute a {0,1}\n@attribute b {0,1}\n@attribute c {0,1}\n@attribute d {0,1}\n@data\n1,0,0,1\n0,1,0,0\n"
TABLE = np.array([[1, 0, 0, 1], [0, 1, 0, 0]])


@pytest.mark.parametrize(
    ("relation", "labels"),
    [
        ("'web: -C 2'", [0, 1]),
        ('"web: -C 1 -split-percent 66"', [0]),
        ("web:-C -3", [1, 2, 3]),
        ("'web: -s 5 -C 3'", [0, 1, 2]),
        ("'web: -c2'", [0, 1]),
    ],
)
def test_meka_says_where_labels_are(write, relation, labels):
    path = write(f"@relation {relation}\n" + FOUR)
    others = [place for place in range(4) if place not in labels]
    names = ["abcd"[place] for place in labels]
    side = "start" if labels[0] == 0 else "end"
    ways = [{}, {"n_labels": len(labels)}, {"label_position": side}, {"label_names": names}]
    for given in [*ways, {"n_labels": len(labels), "label_position": side}]:
        X, Y, features, found = load_multilabel_arff(path, **given, return_names=True)
        assert found == names and features == ["abcd"[place] for place in others]
        assert Y.tolist() == TABLE[:, labels].tolist()
        assert X.tolist() == TABLE[:, others].tolist()
    # A number alone leaves the side to the header.
    message = r"Meka's header '-[Cc] ?-?\d' says that \d labels are at the .* contradicts n_labels=\d"
    with pytest.raises(ValueError, match=message):
        load_multilabel_arff(path, len(labels) % 3 + 1)


@pytest.mark.parametrize(
    "relation", ["web", "'web: -C 3'", "'web: -C -3'", "'web: -C 3 -I 0-weka.filters.X.Remove-R1'"]
)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_places_that_the_user_gives_win_over_the_header(write, relation, number):
    path = write(f"@relation {relation}\n" + FOUR)
    xml = "".join(f'<label name="{name}"/>' for name in "abcd"[1 : 1 + number])
    for given, labels in (
        ({"n_labels": number, "label_position": "end"}, [0, 1, 2, 3][-number:]),
        ({"n_labels": number, "label_position": "start"}, [0, 1, 2, 3][:number]),
        ({"label_names": list("dbca"[:number])}, [3, 1, 2, 0][:number]),
        ({"label_names": write(f"<labels>{xml}</labels>", "labels.xml")}, [1, 2, 3][:number]),
    ):
        X, Y = load_multilabel_arff(path, **given)
        assert Y.tolist() == TABLE[:, labels].tolist()
        assert X.tolist() == np.delete(TABLE, labels, axis=1).tolist()
    if "-C" in relation and "filters" not in relation:
        # The number is that of the header.
        assert load_multilabel_arff(path, label_position="end")[1].tolist() == TABLE[:, 1:].tolist()


FILTERS = "weka.filters.{}supervised.{}.Name-R1-3"


@pytest.mark.parametrize("option", ["-C 3", "-C -3", "-c 3 -I 0"])
def test_filters_of_attributes_may_have_moved_labels(write, option):
    for name in (FILTERS.format("un", "attribute"), FILTERS.format("", "attribute"), "weka.filters.MultiFilter -F x"):
        path = write(f"@relation 'NAME: {option}-{name}_copy'\n" + FOUR)
        with pytest.warns(UserWarning, match="filters of attributes follow Meka's header '-[cC] -?3', .* is ignored"):
            assert load_multilabel_arff(path, 1)[1].tolist() == [[1], [0]]
        with pytest.warns(UserWarning, match="which may have moved the labels"):
            assert load_multilabel_arff(path, label_position="end")[1].tolist() == TABLE[:, 1:].tolist()
        with (
            pytest.warns(UserWarning, match="ignored. Give label_names"),
            pytest.raises(ValueError, match="does not say which attributes are labels"),
        ):
            load_multilabel_arff(path)
    # Filters of rows leave the attributes where they are; an option after filters is that of the result.
    for relation in (
        f"'NAME: {option}-{FILTERS.format('un', 'instance')}'",
        f"'NAME-{FILTERS.format('un', 'attribute')}: {option}'",
    ):
        labels = [1, 2, 3] if "-3" in option else [0, 1, 2]
        Y = load_multilabel_arff(write(f"@relation {relation}\n" + FOUR))[1]
        assert Y.tolist() == TABLE[:, labels].tolist()


@pytest.mark.parametrize("relation", ["web", "'iris-filter-C 2'", "'web: -C 0'", "'web: -C two'", "'a -Case 2'"])
def test_other_relations_say_nothing(write, relation):
    path = write(f"@relation {relation}\n" + FOUR)
    with pytest.raises(ValueError, match="does not say which attributes are labels; give n_labels, or label_names"):
        load_multilabel_arff(path)
    assert load_multilabel_arff(path, 1)[1].tolist() == [[1], [0]]


def test_labels_by_name(write):
    path, dense = write(FOUR), load_multilabel_arff(write(FOUR), 1)[0]
    sparse_path = write(FOUR.replace("1,0,0,1", "{0 1,3 1}").replace("0,1,0,0", "{1 1}"), "sparse.arff")
    xml = '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n{}</labels>\n'
    flat = write(xml.format('<label name="d"></label><label name="b"/>'), "flat.xml")
    nested = write(xml.format('<label name="d"><label name="b"></label></label>'), "nested.xml", encoding="utf-8-sig")
    assert dense.shape == (2, 3)
    for own in (path, sparse_path):
        for label_names in (
            ["d", "b"],
            ("d", "b"),
            np.array(["d", "b"]),
            flat,
            str(nested),
            io.BytesIO(flat.read_bytes()),
        ):
            X, Y, features, names = load_multilabel_arff(own, label_names=label_names, return_names=True)
            assert (features, names) == (["a", "c"], ["d", "b"])
            assert Y.tolist() == [[1, 0], [0, 1]]
            assert (X.toarray() if sparse.issparse(X) else X).tolist() == [[1, 0], [0, 0]]
    for label_names, message in (
        (["d", "e"], "the label 'e' is the name of 0 attributes"),
        (["d", "d"], "the label 'd' is twice in label_names"),
        ([], "label_names must be str"),
        ([1], "label_names must be str"),
        (path, "file.arff is not XML .* or a list of names"),
        (write("<labels/>", "no.xml"), "no.xml has no elements <label"),
        (["a", "b", "c", "d"], "leaves no features"),
    ):
        with pytest.raises(ValueError, match=message):
            load_multilabel_arff(path, label_names=label_names)
    with pytest.raises(ValueError, match="n_labels=1, but label_names has 2 names"):
        load_multilabel_arff(path, 1, ["a", "b"])
    with pytest.raises(ValueError, match="leave out one of them"):
        load_multilabel_arff(path, label_names=["a", "b"], label_position="end")


@pytest.mark.parametrize(
    "words",
    [("no", "yes"), ("FALSE", "TRUE"), ("f", "t"), ("'No'", '"Yes"'), ("absent", "present"), ("off", "on")],
)
def test_labels_by_words(write, words):
    zero, one = words
    for order in ((zero, one), (one, zero)):
        head = f"@attribute x real\n@attribute a {{{','.join(order)}}}\n@attribute b {{0,1}}\n@data\n"
        dense = f"1,{one},0\n2,{zero},1\n3, {one} ,1\n4,?,?\n"
        X, Y = load_multilabel_arff(write(head + dense), 2)
        np.testing.assert_array_equal(Y, [[1, 0], [0, 1], [1, 1], [np.nan, np.nan]])
        assert X.tolist() == [[1], [2], [3], [4]]
        # Rows leave out the first value that is declared.
        rows = f"{{0 1,1 {one}}}\n{{0 2,1 {zero},2 1}}\n{{}}\n"
        X, Y = load_multilabel_arff(write(head + rows), 2)
        assert Y.tolist() == [[1, 0], [0, 1], [int(order[0] == one), 0]] and Y.dtype == np.int64
    head = f"@attribute x real\n@attribute a {{{zero}}}\n@data\n"
    assert load_multilabel_arff(write(head + f"1,{zero}\n"), 1)[1].tolist() == [[0]]


def test_nominal_features(write):
    head = "@attribute n real\n@attribute c {red,'dark, blue',\"it's\",'a\\'b'}\n"
    head += "@attribute m {0,1}\n@attribute y {0,1}\n@data\n"
    names = ["n", "c=red", "c=dark, blue", "c=it's", "c=a'b", "m"]
    wanted = [[1, 1, 0, 0, 0, 1], [2, 0, 1, 0, 0, 0], [3, 0, 0, 1, 0, 0], [4, 0, 0, 0, 1, 0], [5, *[np.nan] * 4, 1]]
    dense = "1,red,1,0\n2,'dark, blue',0,1\n3, \"it's\" ,0,0\n4,'a\\'b',0,0\n5,?,1,1\n"
    rows = "{0 1,2 1}\n{0 2,1 'dark, blue',3 1}\n{1  \"it's\", 0 3}\n{0 4,1 'a\\'b'}\n{0 5,1 ?,2 1,3 1}\n"
    for text in (dense, rows):
        X, Y, features, _ = load_multilabel_arff(write(head + text), 1, return_names=True)
        assert features == names and Y.tolist() == [[0], [1], [0], [0], [1]]
        if text == rows:
            assert X.format == "csr" and X.has_sorted_indices
            X = X.toarray()
        np.testing.assert_array_equal(X, wanted)
    header = "@attribute c {" + ",".join(f"v{i}" for i in range(100)) + "}\n@attribute y {0,1}\n@data\n"
    with pytest.raises(ValueError, match="20 rows and 100 columns of features, which take 16000 bytes"):
        load_multilabel_arff(write(header + "v7,1\n" * 20), 1, max_bytes=10_000)


@pytest.mark.parametrize(
    ("declared", "columns"),
    [
        ("{0,1}", [[1], [0], [1]]),
        ("{5, 2}", None),
        ("{1}", None),
        ("{0,0.0,1}", [[1], [0], [1]]),
        ("{2,10,1,7}", [[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]]),
        ("{'2', 10 ,1.0}", [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        ("{2,2.0,10,1}", [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        ("{1,2,10,x}", [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]),
    ],
)
def test_nominal_codes_have_a_column_for_each_value_from_three_on(write, declared, columns):
    values = {"{0,1}": "101", "{0,0.0,1}": "101", "{5, 2}": "525", "{1}": "111"}.get(declared, ["1", "2", "10"])
    head = f"@attribute n real\n@attribute c {declared}\n@attribute y {{0,1}}\n@data\n"
    words = [value.strip("' ") for value in declared[1:-1].split(",")]
    for row in ("{0},{1},0\n", "{{0 {0},1 {1}}}\n"):
        rows = "".join(row.format(k + 1, value) for k, value in enumerate(values))
        if row.startswith("{{") and columns is None:
            with pytest.raises(ValueError, match="declare 0 first, or make it numeric"):
                load_multilabel_arff(write(head + rows), 1)
            continue
        X, _, features, _ = load_multilabel_arff(write(head + rows), 1, return_names=True)
        X = X.toarray() if sparse.issparse(X) else X
        wanted = [[float(value)] for value in values] if columns is None else columns
        assert X[:, 1:].tolist() == wanted and X[:, 0].tolist() == [1, 2, 3]
        distinct = [word for k, word in enumerate(words) if word != "2.0" and word not in words[:k]]
        assert features == (["n", "c"] if len(wanted[0]) == 1 else ["n", *(f"c={word}" for word in distinct)])
    # Another spelling of a number is the same value, unless words are declared, too.
    if len(words) > 2 and "x" not in words:
        X = load_multilabel_arff(write(head + "1,1.00,0\n2,?,1\n"), 1)[0]
        np.testing.assert_array_equal(X[:, 1:], [wanted[0], np.full(len(wanted[0]), np.nan)])
    with pytest.raises(ValueError, match=r"has '?3'? for the attribute 'c', which declares"):
        load_multilabel_arff(write(head + "1,3,0\n"), 1)


def test_labels_may_declare_further_numbers(write):
    head = "@attribute n real\n@attribute y {2,0,1}\n@data\n"
    assert load_multilabel_arff(write(head + "1,0\n2,1\n3,1.0\n"), 1)[1].tolist() == [[0], [1], [1]]
    with pytest.raises(ValueError, match="has 2 for the label 'y'; labels are 0 or 1"):
        load_multilabel_arff(write(head + "1,2\n"), 1)


def test_nominal_values_of_sparse_rows_take_memory(write):
    # Each row has an entry for each nominal attribute, although it omits the first value.
    head = "".join(f"@attribute c{k} {{x,y,z}}\n" for k in range(200)) + "@attribute y {0,1}\n@data\n"
    assert load_multilabel_arff(write(head + "{}\n" * 20), 1)[0].nnz == 4000
    with pytest.raises(ValueError, match="20 rows and 200 columns of features, which take 32000 bytes"):
        load_multilabel_arff(write(head + "{}\n" * 20), 1, max_bytes=20_000)


def test_weights(write):
    for rows in ("1,0,0,1, {5}\n0,0,0,1\n0,0,1,0,{0.5}% a comment\n", "{0 1,3 1}, {5}\n{3 1}\n{2 1} ,{ 0.5 }\n"):
        X, Y, weights = load_multilabel_arff(write(HEADER + rows), 1, return_weights=True)
        assert weights.tolist() == [5, 1, 0.5]
        assert (X.toarray() if sparse.issparse(X) else X).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
        assert Y.tolist() == [[1], [1], [0]]
        assert len(load_multilabel_arff(write(HEADER + rows), 1)) == 2
    # A brace within quotes is no weight.
    head = "@attribute c {x,'y, {5}'}\n@attribute z {'a, {1}',b}\n@attribute y {0,1}\n@data\n"
    X, _, weights = load_multilabel_arff(write(head + "'y, {5}','a, {1}',1\n"), 1, return_weights=True)
    assert X.tolist() == [[0, 1, 1, 0]] and weights.tolist() == [1]


def test_several_files_have_the_same_attributes(write):
    first, second = write(FOUR), write(FOUR.replace("1,0,0,1", "1,1,1,?"), "b.arff")
    X, Y = load_multilabel_arff([first, second], 1)
    np.testing.assert_array_equal(Y, [[1], [0], [np.nan], [0]])
    assert X.tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 1, 0]]
    with pytest.raises(ValueError, match=r"c.arff has other attributes than .*file.arff; load them one by one"):
        load_multilabel_arff([first, write(FOUR.replace("attribute b", "attribute x"), "c.arff")], 1)


HIERARCHY = "@attribute n real\n@attribute c {a,'b,c'}\n@attribute class hierarchical {}\n@data\n"


@pytest.mark.parametrize("classes", ["1,1/2,3", "'1,1/2,3'", '"1,1/2,3"', "'1','1/2', 3"])
@pytest.mark.parametrize(
    "rows", ["0.5,'b,c',1/2@3\n?,a,'3',{2}\n0,a,1\n", "{0 0.5,1 'b,c',2 1/2@3}\n{0 ?,2 '3'}, {2}\n{2 1}\n"]
)
def test_forms_of_hierarchies(write, classes, rows):
    path = write(HIERARCHY.replace("{}", classes) + rows)
    X, Y, names, parents, weights = load_hierarchical_arff(path, return_weights=True)
    assert (names, parents) == (["1", "3", "1/2"], [[], [], [0]])
    assert Y.tolist() == [[1, 1, 1], [0, 1, 0], [1, 0, 0]]
    assert weights.tolist() == [1, 2, 1]
    assert sparse.issparse(X) == rows.startswith("{")
    X = X.toarray() if sparse.issparse(X) else X
    np.testing.assert_array_equal(X, [[0.5, 0, 1], [np.nan, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("classes", "rows", "message"),
    [
        ("/1,2", "1,a,2\n", "the class '/1' has an empty level; write levels as a/b"),
        ("1/,2", "1,a,2\n", "the class '1/' has an empty level"),
        ("1//2", "1,a,1\n", "the class '1//2' has an empty level"),
        ("1,2", "1,b,c,2\n", "line 5: the row has 3 values for 2 features; give one for each, and"),
        ("1,2", "{0 1}\n", "line 5: the row has no value of 'class'; give its classes"),
        ("1,2", "1,'b','2'\n", "line 5: the row has 'b' for the attribute 'c', which declares {a,b,c}; correct one"),
    ],
)
def test_wrong_hierarchies(write, classes, rows, message):
    with pytest.raises(ValueError, match=message):
        load_hierarchical_arff(write(HIERARCHY.replace("{}", classes) + rows))
