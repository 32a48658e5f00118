"""Checks of pictures: their texts, and that nothing is on top of another."""

from itertools import combinations

import matplotlib


def texts_of(artist):
    return [text.get_text() for text in artist.get_texts()]


def visible_texts(figure):
    """Return the texts of a figure that can be seen, with their boxes in pixels."""
    figure.canvas.draw()
    hidden = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            # An axis makes labels for ticks beyond its limits, which are not drawn.
            low, high = sorted(axis.get_view_interval())
            for which in ("major", "minor"):
                labels = axis.get_ticklabels(which=which)
                outside = [not low <= place <= high for place in axis.get_ticklocs(minor=which == "minor")]
                hidden.update(text for text, out in zip(labels, outside) if out or not ax.axison)
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text().strip() and text.get_visible()]
    return [(text.get_text(), text.get_window_extent()) for text in texts if text not in hidden]


def assert_nothing_overlaps(figure):
    boxes = visible_texts(figure)
    assert len(boxes) > 3
    for (first, a), (second, b) in combinations(boxes, 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{first!r} and {second!r} overlap"
    width, height = figure.canvas.get_width_height()
    for text, box in boxes:
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, f"{text!r} is cut off"
