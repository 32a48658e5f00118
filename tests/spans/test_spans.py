"""Spans of texts: tokens, labels and back, and files of annotation tools."""

import gzip
import json
from io import BytesIO, StringIO
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from naive_spans import spans_in

from sklearn_sparsemap.metrics import convert_spans
from sklearn_sparsemap.spans import (
    Span,
    Token,
    dump_jsonl,
    labels_from_spans,
    labels_from_tags,
    load_jsonl,
    spans_from_labels,
    tokenize,
)

SCHEMES = ("bio", "bioes", "bilou", "iob1", "iob2", "ioe1", "ioe2")
# Letters of several scripts, digits, marks, emoji with joiners and skin tones, lone surrogates, directional marks,
# blanks.
PIECES = [
    *"abZß0 9.,'-_/:\t\n", "é", "e\u0301", "ą", "\u0928\u093f", "한", "漢", "\u05e9\u05b8", "\u0645\u064e",
    "\u200f", "\u202e",
    "\u00a0", "\u3000", "\u200b", "\u00ad", "😀", "👩\u200d👩\u200d👧", "👍🏽", "🇫🇷", "\ud800", "\udfff", "\ufeff",
    "\u2019", "ﬁ", "İ",
    "\U0001d49c", "1,000", "10:30", "don't", "  ",
]  # fmt: skip


def random_texts(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield "".join(PIECES[k] for k in rng.integers(len(PIECES), size=rng.integers(0, 16))), rng


def random_spans(n_tokens, rng):
    """Return disjoint spans of tokens."""
    cuts = np.unique(rng.integers(0, n_tokens + 1, rng.integers(2, 7)))
    pairs = [pair for pair in zip(cuts[:-1].tolist(), cuts[1:].tolist()) if rng.random() < 0.7]
    return [(start, stop, str(rng.choice(["PER", "LOC", "a-b", ""]))) for start, stop in pairs]


def test_offsets_survive_labels_and_files_for_random_texts():
    texts = []
    found = []
    n_spans = 0
    for k, (text, rng) in enumerate(random_texts(10_000)):
        tokens = tokenize(text)
        assert all(text[token.start : token.stop] == token.text for token in tokens)
        covered = "".join(text[token.start : token.stop] for token in tokens)
        assert covered == "".join(c for c in text if not c.isspace())
        assert all(a.stop <= b.start for a, b in pairwise(tokens))
        spans = [(start, stop, kind or "X") for start, stop, kind in random_spans(len(tokens), rng)]
        scheme = SCHEMES[k % len(SCHEMES)]
        labels = labels_from_spans(tokens, [Span(*span) for span in spans], scheme)
        back = spans_from_labels(labels, scheme, tokens)
        assert [span[:3] for span in back] == spans
        assert all(text[span.start_char : span.stop_char] == span.text for span in back)
        # Again by the offsets alone, in any order, as tools write them.
        by_chars = [(span.start_char, span.stop_char, span.type) for span in back][::-1]
        assert labels_from_spans(tokens, by_chars, scheme) == labels
        n_spans += len(back)
        # JSON reads a pair of surrogates as one character.
        if "\ud800\udfff" not in text:
            texts.append(text)
            found.append(back)
    assert n_spans > 5_000 and len(texts) > 9_000
    file = StringIO()
    dump_jsonl(file, texts, found)
    again, loaded = load_jsonl(StringIO(file.getvalue()))
    assert again == texts
    assert [[s[2:] for s in own] for own in loaded] == [[s[2:] for s in own] for own in found]


def test_tokens_of_words_numbers_and_marks():
    texts = [
        token.text for token in tokenize("Don’t pay 1,000.50€ (10:30) for a_b—e\u0301te\u0301 👍🏽👩\u200d👧 नमस्ते!")
    ]
    expected = "Don’t pay 1,000.50 € ( 10:30 ) for a_b — e\u0301te\u0301 👍🏽 👩\u200d👧 नमस्ते !"
    assert texts == expected.split()
    assert tokenize("  \n") == []
    with pytest.raises(ValueError, match="text must be a str"):
        tokenize(b"abc")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_labels_agree_with_metrics_and_with_the_rules(scheme):
    rng = np.random.default_rng(3)
    other = "iob2" if scheme == "bio" else scheme
    for _ in range(200):
        n = int(rng.integers(1, 9))
        spans = [span for span in random_spans(n, rng) if span[2] != ""]
        labels = labels_from_spans(["x"] * n, [Span(*span) for span in spans], scheme)
        assert spans_in(labels, other) == set(spans)
        (iob2,) = convert_spans([labels], other, "iob2")
        assert iob2 == labels_from_spans(["x"] * n, [Span(*span) for span in spans])


def test_any_labels_are_read_as_metrics_read_them():
    rng = np.random.default_rng(4)
    labels = ["O", "B-X", "I-X", "I-Y", "E-X", "S-Y"]
    for _ in range(300):
        own = [labels[k] for k in rng.integers(len(labels), size=rng.integers(0, 8))]
        assert {span[:3] for span in spans_from_labels(own)} == spans_in(own, None)


TEXT = "Ada Lovelace lived in London."


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 9, "PER")], r"spans\[0\], from character 0 to 9, is not aligned.*0 to 12: 'Ada Lovelace'"),
        ([(0, 13, "PER")], "is not aligned"),
        (
            [(0, 3, "PER"), (0, 12, "PER")],
            r"spans\[0\] \(PER\) and spans\[1\] \(PER\) overlap: both have token 0, 'Ada'",
        ),
        ([(3, 4, "PER")], "has no token"),
        ([(0, 40, "PER")], "no part of the text of 29 characters"),
        ([(5, 5, "PER")], "no part of the text"),
        ([(-3, 3, "PER")], "no part of the text"),
        ([(0, 3, None)], "must have a start and a stop"),
        ([(0.0, 3, "PER")], "must have a start and a stop"),
        ([(True, 3, "PER")], "must have a start and a stop"),
        (["PER"], "must have a start and a stop"),
        ([Span(0, 7, "PER")], "from token 0 to token 7, but there are 6 tokens"),
        ([Span(None, None, "PER")], "must have a start and a stop"),
    ],
)
def test_wrong_spans_are_named(spans, message):
    with pytest.raises(ValueError, match=message):
        labels_from_spans(tokenize(TEXT), spans)


def test_misaligned_spans_are_expanded_on_demand():
    tokens = tokenize(TEXT)
    expected = ["B-PER", "I-PER", "O", "O", "O", "O"]
    for start, stop in ((0, 9), (1, 5), (2, 13), (0, 12)):
        assert labels_from_spans(tokens, [(start, stop, "PER")], alignment="expand") == expected
    with pytest.raises(ValueError, match="overlap"):
        labels_from_spans(tokens, [(0, 5, "PER"), (6, 12, "LOC")], alignment="expand")


def test_forms_of_tokens_and_spans():
    labels = ["B-PER", "O", "B-LOC"]
    words = ["Ada", "saw", "London"]
    plain = [Token("Ada", 0, 3), Token("saw", 4, 7), Token("London", 8, 14)]
    # As spaCy has them.
    doc = [SimpleNamespace(text=text, idx=start) for text, start, _ in plain]
    ends = [
        SimpleNamespace(start_char=0, end_char=3, label_="PER"),
        SimpleNamespace(start_char=8, end_char=14, label_="LOC"),
    ]
    dicts = [{"text": text, "start": start, "end": stop} for text, start, stop in plain]
    spans = [(0, 3, "PER"), {"start": 8, "end": 14, "label": "LOC"}]
    for tokens in (plain, doc, dicts, [tuple(token) for token in plain]):
        assert labels_from_spans(tokens, spans) == labels_from_spans(tokens, ends) == labels
        assert [span.text for span in spans_from_labels(labels, tokens=tokens)] == ["Ada", "London"]
    assert labels_from_spans(words, [Span(0, 1, "PER"), Span(2, 3, "LOC")]) == labels
    assert spans_from_labels(["B-X", "I-X"], tokens=words[:2])[0].text == "Ada saw"
    with pytest.raises(ValueError, match="tokens have no offsets"):
        labels_from_spans(words, spans)
    for wrong in ([1, 2], "abc", [("a", 0, 1), "b"], [("a", 0, 1), ("b", 0, 1)], [("a", 3, 1)]):
        with pytest.raises(ValueError, match="token"):
            spans_from_labels(["O", "O"], tokens=wrong)
    with pytest.raises(ValueError, match="2 labels and 3 tokens"):
        spans_from_labels(["O", "O"], tokens=words)


def test_tags_have_the_names_of_data_sets():
    names = ["O", "B-X", "I-X"]
    for own in (names, SimpleNamespace(names=names), SimpleNamespace(feature=SimpleNamespace(names=names))):
        assert labels_from_tags(np.array([1, 2, 0, -100]), own) == ["B-X", "I-X", "O", None]
    for tag in (3, -1, "B-X", 1.0, True):
        with pytest.raises(ValueError, match=r"tags\[1\]"):
            labels_from_tags([0, tag], names)
    with pytest.raises(ValueError, match="names must be"):
        labels_from_tags([0], "OBI")


RECORDS = {
    "doccano": {"id": 1, "text": "Ada saw London", "label": [[0, 3, "PER"], [8, 14, "LOC"]]},
    "doccano, relations": {
        "text": "Ada saw London",
        "entities": [
            {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 3},
            {"id": 2, "label": "LOC", "start_offset": 8, "end_offset": 14},
        ],
        "relations": [],
    },
    "prodigy": {
        "text": "Ada saw London",
        "answer": "accept",
        "spans": [
            {"start": 0, "end": 3, "label": "PER", "token_start": 0, "token_end": 0},
            {"start": 8, "end": 14, "label": "LOC"},
        ],
    },
    "label studio": {
        "data": {"text": "Ada saw London"},
        "annotations": [
            {"was_cancelled": True, "result": []},
            {
                "result": [
                    {"type": "labels", "value": {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}},
                    {"type": "choices", "value": {"choices": ["good"]}},
                    {"type": "labels", "value": {"start": 8, "end": 14, "text": "London", "labels": ["LOC"]}},
                ]
            },
        ],
    },
    "label studio, short": {
        "text": "Ada saw London",
        "label": [
            {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]},
            {"start": 8, "end": 14, "text": "London", "labels": ["LOC"]},
        ],
    },
}
EXPECTED = [("PER", None, 0, 3, "Ada"), ("LOC", None, 8, 14, "London")]


@pytest.mark.parametrize("form", RECORDS)
def test_files_of_tools_are_read(form, tmp_path):
    record = RECORDS[form]
    lines = "\n".join([json.dumps(record), "", json.dumps(record)])
    array = json.dumps([record, record], indent=2)
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    for source in (StringIO(lines), StringIO(array), BytesIO(b"\xef\xbb\xbf" + lines.encode()), path):
        texts, spans = load_jsonl(source)
        assert texts == ["Ada saw London"] * 2
        assert [span[2:7] for span in spans[1]] == EXPECTED


def test_rejected_texts_are_left_out_and_unlabelled_ones_kept():
    lines = [
        {"text": "a", "answer": "reject"},
        {"text": "b", "answer": "ignore"},
        {"text": "c"},
        {"text": "d", "label": None},
    ]
    assert load_jsonl(StringIO("\n".join(map(json.dumps, lines)))) == (["c", "d"], [[], []])


def test_offsets_in_utf16_are_converted_if_the_text_of_the_span_says_so():
    text = "😀 Ada"
    record = {"text": text, "label": [{"start": 3, "end": 6, "text": "Ada", "labels": ["PER"]}]}
    assert load_jsonl(StringIO(json.dumps(record)))[1][0][0][4:7] == (2, 5, "Ada")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no JSON"),
        ("3", "line 2 is no JSON object"),
        ("[" * 100_000, "line 2 is no JSON"),
        ('{"data": 3}', "line 2 has no text"),
        ('{"text": "a", "label": 3}', "the spans of a text are a list"),
        ('{"text": "a", "label": [[0, 1]]}', "line 2, span 0 has no start, no end or no label"),
        ('{"text": "a", "label": [["0", 1, "X"]]}', "no start"),
        ('{"text": "a", "label": [[0, 1, 2]]}', "no label"),
        ('{"text": "a", "label": [[0, 2, "X"]]}', "from 0 to 2, which is no part of a text of 1 characters"),
        ('{"text": "a", "label": [[-1, 1, "X"]]}', "no part"),
        ('{"text": "a", "label": [[' + "9" * 5_000 + ', 1, "X"]]}', "line 2"),
        ('{"text": "ab", "label": [{"start": 0, "end": 1, "text": "b", "label": "X"}]}', "which is not at its offsets"),
    ],
)
def test_damaged_lines_are_named(line, message):
    with pytest.raises(ValueError, match=message):
        load_jsonl(StringIO('{"text": "first"}\n' + line))


def test_files_are_bounded():
    packed = gzip.compress(b'{"text": "' + b"a" * 2_000_000 + b'"}')
    assert len(packed) < 10_000
    with pytest.raises(ValueError, match="max_bytes=1000000"):
        load_jsonl(BytesIO(packed), max_bytes=1_000_000)
    with pytest.raises(TypeError, match="path must be"):
        load_jsonl(3)


def test_spans_without_offsets_are_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"spans\[0\]\[0\] has no offsets"):
        dump_jsonl(tmp_path / "x.jsonl", ["a"], [[Span(0, 1, "X")]])
    with pytest.raises(ValueError, match="no part of a text"):
        dump_jsonl(tmp_path / "x.jsonl", ["a"], [[Span(0, 1, "X", None, 0, 2)]])
    with pytest.raises(ValueError, match="pair of surrogates"):
        dump_jsonl(tmp_path / "x.jsonl", ["\ud83d\ude00"], [[]])
    dump_jsonl(tmp_path / "x.jsonl", ["é a"], [[Span(1, 2, "X", 0.5, 2, 3)]])
    spans = load_jsonl(tmp_path / "x.jsonl")[1]
    assert spans == [[Span(None, None, "X", 0.5, 2, 3, "a")]]


def test_dicts_of_spans_are_json():
    other = Span(0, 1, "LOC", 0.1, predicted=False)
    span = Span(0, 2, "PER", 0.9, 0, 8, "Ada saw", True, (other,))
    fields = json.loads(json.dumps(span.to_dict()))
    assert fields["alternatives"] == [other.to_dict()] and fields["predicted"] is True
    assert other.to_dict() == {"start": 0, "stop": 1, "type": "LOC", "probability": 0.1, "predicted": False}
