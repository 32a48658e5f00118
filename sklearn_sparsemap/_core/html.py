"""HTML for notebooks: a heading, and tables that show their first rows.

Used by `estimators`, `factors`, `inference`, `inspection`, `plotting` and `ragged.py`.
"""

from html import escape

import numpy as np

N_ROWS = 10  # rows of a table; chosen so that a result fits one screen
N_CHARACTERS = 60  # largest number of characters of a structure in a cell or a message; more make tables wider


def as_html(heading, *tables):
    """Return a heading and the HTML of tables as one block of HTML."""
    return f"<div><b>{escape(heading)}</b>{''.join(tables)}</div>"


def table(columns, rows, n=None):
    """Return an HTML table.

    Parameters
    ----------
    columns : sequence of str
    rows : list of sequences
        The rows to show. Cells are escaped, and floats have four digits.
    n : int, default=None
        Number of all rows, if `rows` are only the first ones. The last row then shows the number of omitted rows.
    """
    shown = "".join(_row("td", row) for row in rows)
    n_hidden = 0 if n is None else n - len(rows)
    if n_hidden:
        shown += f'<tr><td colspan="{len(columns)}">{n_hidden} more</td></tr>'
    # Pages without a style of their own set cells next to each other.
    space = "border-spacing:0.6em 0.1em;text-align:left"
    return f'<table style="{space}"><thead>{_row("th", columns)}</thead><tbody>{shown}</tbody></table>'


def attributes(owner, *names):
    """Return an HTML table of attributes of an object: their names as the columns, and one row of values."""
    return table(names, [[getattr(owner, name) for name in names]])


def short(structure):
    """Return a structure as text of at most `N_CHARACTERS` characters."""
    text = str(structure.tolist() if hasattr(structure, "tolist") else structure)
    return text if len(text) <= N_CHARACTERS else text[: N_CHARACTERS - 3] + "..."


def _row(tag, cells):
    texts = (f"{cell:.4g}" if isinstance(cell, float | np.floating) else str(cell) for cell in cells)
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"
