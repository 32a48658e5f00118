"""SpansDisplay: a text with its spans, as a picture and as HTML."""

import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("matplotlib")
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from pictures import assert_nothing_overlaps, texts_of

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.plotting import SpansDisplay
from sklearn_sparsemap.spans import Span, Token, tokenize


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


SPANS = [
    Span(0, 2, "PER", 0.83, predicted=True),
    Span(1, 2, "LOC", 0.12, predicted=False),
    Span(1, 2, "ORG", 0.03, predicted=False),
    Span(3, 5, "LOC", 0.6, predicted=True),
    Span(3, 4, "ORG", 0.3, predicted=False),
]
WORDS = ["Ada", "Lovelace", "saw", "New", "York", "."]


class Reader(HTMLParser):
    """Collects the tags, the attributes and the text of HTML, and checks that tags are closed."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(html):
    reader = Reader()
    reader.feed(html)
    assert not reader.open
    return reader


def luminance(color):
    """Return the relative luminance of a colour, by the guidelines for web content."""
    channels = np.array(color) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def test_a_picture_has_all_words_and_labels_apart():
    display = SpansDisplay(SPANS, WORDS).plot()
    texts = [text.get_text() for text in display.ax_.texts]
    assert [text for text in texts if text in WORDS] == WORDS
    assert {"PER 0.83", "LOC 0.60", "LOC 0.12", "ORG 0.03", "ORG 0.30"} <= set(texts)
    assert texts_of(display.legend_) == ["LOC", "ORG", "PER"]
    assert_nothing_overlaps(display.figure_)


def test_long_texts_are_wrapped_and_fit_given_axes():
    words = WORDS * 12
    spans = [span._replace(start=span.start + 6 * k, stop=span.stop + 6 * k) for k in range(12) for span in SPANS]
    display = SpansDisplay(spans, words).plot(max_alternatives=1)
    assert display.figure_.get_size_inches()[0] < 10
    assert_nothing_overlaps(display.figure_)
    figure, ax = plt.subplots(figsize=(5, 3))
    assert SpansDisplay(spans, words).plot(ax).figure_ is figure
    assert len({text.get_fontsize() for text in ax.texts}) == 2


def test_probable_spans_have_stronger_colours():
    display = SpansDisplay([Span(0, 1, "X", 0.9), Span(1, 2, "X", 0.2)], ["a", "b"]).plot()
    first, second = (patch.get_facecolor()[:3] for patch in display.ax_.patches)
    assert sum(first) < sum(second)


def test_words_are_no_formulas():
    assert SpansDisplay([Span(0, 1, "$x", 0.5)], ["$a$", "_"]).plot().ax_.texts[0].get_text() in ("$a$", "$x 0.50")


@pytest.mark.parametrize("text", ["Ada <script>alert(1)</script> & \"saw\" 'New' York", "שלום Ada"])
def test_html_is_escaped_and_has_no_script(text):
    tokens = tokenize(text)
    spans = [Span(0, 2, "<b>", 0.5, predicted=True), Span(1, 2, '"><script>', 0.4, predicted=False)]
    html = SpansDisplay(spans, tokens).to_html()
    found = read(html)
    assert not {"script", "b>"} & set(found.tags) and set(found.tags) <= {
        "div", "p", "mark", "small", "b", "span", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    assert {name for name, _ in found.attributes} <= {"style", "title", "dir", "colspan"}
    for token in tokens:
        assert token.text in found.text
    titles = [value for name, value in found.attributes if name == "title"]
    assert '"><script> 0.40' in titles[0]


def test_tokens_without_their_text_keep_their_gaps():
    tokens = [Token("Ada", 0, 3), Token("saw", 6, 9), Token("York", 9, 13)]
    assert read(SpansDisplay([Span(2, 3, "LOC")], tokens).to_html()).text.startswith("Ada   sawYork LOC")


def test_html_has_alternatives_on_hover_and_in_a_table():
    found = read(SpansDisplay(SPANS, WORDS).to_html())
    titles = [value for name, value in found.attributes if name == "title"]
    assert titles == ["PER 0.83\nLOC 0.12: Lovelace\nORG 0.03: Lovelace", "LOC 0.60\nORG 0.30: New"]
    assert found.tags.count("tr") == 6
    outside = [Span(2, 3, "X", 0.2, predicted=False)]
    assert ("title", "not predicted:\nX 0.20: saw") in read(SpansDisplay(outside, WORDS).to_html()).attributes


def test_texts_of_html_have_contrast():
    rng = np.random.default_rng(0)
    n_pairs = 0
    for chance in [0.0, 1.0, *rng.random(20)]:
        spans = [Span(k, k + 1, f"type {k}", float(chance)) for k in range(12)]
        html = SpansDisplay(spans, list("abcdefghijkl")).to_html()
        for red, green, blue, ink in re.findall(r"background:rgb\((\d+),(\d+),(\d+)\);color:(#\w{6})", html):
            background = luminance([int(red), int(green), int(blue)])
            text = luminance([int(ink[k : k + 2], 16) for k in (1, 3, 5)])
            assert (background + 0.05) / (text + 0.05) > 4.5
            n_pairs += 1
    # The other texts have the colours of the page.
    assert n_pairs == 22 * 12 and "color" not in html.replace("color:#222222", "")


def test_from_estimator_takes_samples_words_and_texts():
    X = [["Ada", "saw", "London"], ["London", "calls"]] * 4
    y = [["B-PER", "O", "B-LOC"], ["B-LOC", "O"]] * 4
    model = StructuredSparseMAPClassifier("chain", loss="crf", constraints="bio")
    tagger = make_structured_pipeline(TemplateVectorizer(["word[0]"]), model).fit(X, y)
    displays = [
        SpansDisplay.from_estimator(tagger, X[0]),
        SpansDisplay.from_estimator(tagger, "Ada  saw London"),
        SpansDisplay.from_estimator(tagger, [{"word": word} for word in X[0]]),
        SpansDisplay.from_estimator(tagger[-1], tagger[0].transform(X[:1])[0], tokens=X[0]),
    ]
    for display in displays:
        assert display.words == X[0]
        assert {span[:3] for span in display.spans if span.predicted} == {(0, 1, "PER"), (2, 3, "LOC")}
    assert "Ada" in displays[1].to_html() and "</mark>  saw" in displays[1].to_html()
    assert SpansDisplay.from_estimator(tagger[-1], tagger[0].transform(X[:1])[0]).words == ["1", "2", "3"]


def test_wrong_spans_are_named():
    with pytest.raises(ValueError, match=r"spans\[0\] is from token 0 to token 3, but there are 2 tokens"):
        SpansDisplay([Span(0, 3, "X")], ["a", "b"])
    with pytest.raises(ValueError, match=r"spans\[0\] is from token None"):
        SpansDisplay([Span(None, None, "X")], ["a", "b"])


def test_a_text_without_spans_is_drawn():
    display = SpansDisplay([], WORDS).plot()
    assert display.legend_ is None and len(display.ax_.texts) == 6
    assert SpansDisplay([], []).plot().to_html()
