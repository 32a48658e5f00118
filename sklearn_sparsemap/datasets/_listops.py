"""ListOps: nested operations on digits, with their trees and valencies."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from .._core.annotations import Any, NDArray, Sequence
from .._core.validation import check_positive, quoted
from ._lines import MAX_BYTES, Source, name_of, read_lines, sources_of

_OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
_END = "]"
_MAX_DEPTH = 20
_MAX_ARGUMENTS = 5
_SHORTEST = 4
_MAX_FAILURES = 20_000  # draws in a row without a new expression, after which all expressions count as found


def make_listops(
    n_samples: int = 100, *, min_length: int = _SHORTEST, max_length: int = 40, random_state: Any = None
) -> tuple[list[list[str]], list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Draw ListOps expressions: nested operations on digits, such as ``[MAX 2 9 [MIN 4 7 ] ]``.

    The expressions are those of [1]_. Each argument is an operator with probability 1/4, else a digit. An operator has
    2 to 5 arguments. This number, its valency, depends on the tree alone; the experiments on latent trees in [2]_
    predict it.

    Parameters
    ----------
    n_samples : int, default=100
        Number of expressions, which are all different.
    min_length : int, default=4
        Minimum number of tokens of an expression, at least 4; closing brackets count.
    max_length : int, default=40
        Maximum number of tokens.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : list of lists of str
        The tokens of each expression.
    heads : list of int64 arrays of shape (n_tokens,)
        The head of each token: the operator of the brackets around it, numbered from 1, as in `load_conllu`. The head
        of the outermost operator is 0; the head of a closing bracket is its own operator.
    valencies : list of int64 arrays of shape (n_tokens,)
        The number of arguments of each operator; 0 for digits and closing brackets.

    Raises
    ------
    ValueError
        If there are fewer than `n_samples` different expressions of these lengths.

    References
    ----------
    .. [1] Nangia, N. and Bowman, S. R. (2018). ListOps: a diagnostic dataset for latent tree learning. NAACL Student
       Research Workshop.
    .. [2] Niculae, V. and Martins, A. F. T. (2020). LP-SparseMAP: differentiable relaxed optimization for sparse
       structured prediction. ICML, section 5.1.

    Examples
    --------
    >>> from sklearn_sparsemap.datasets import make_listops
    >>> X, heads, valencies = make_listops(2, max_length=10, random_state=4)
    >>> print(*X[1])
    [SM 9 [MED 0 4 ] ]
    >>> heads[1]
    array([0, 1, 1, 3, 3, 3, 1])
    >>> valencies[1]
    array([2, 0, 2, 0, 0, 0, 0])
    """
    check_positive("n_samples", n_samples, integer=True)
    check_positive("max_length", max_length, integer=True)
    check_positive("min_length", min_length, integer=True)
    if not _SHORTEST <= min_length <= max_length:
        raise ValueError(
            f"min_length={min_length} and max_length={max_length}: the shortest expression has {_SHORTEST} tokens, and "
            "max_length must not be below min_length"
        )
    rng = check_random_state(random_state)
    # Keys of a dict keep their order.
    found = {}
    n_failures = 0
    while len(found) < n_samples:
        tokens = _draw(rng, max_length)
        n_before = len(found)
        if tokens is not None and len(tokens) >= min_length:
            found[tuple(tokens)] = None
        n_failures = 0 if len(found) > n_before else n_failures + 1
        if n_failures == _MAX_FAILURES:
            raise ValueError(
                f"no more than {len(found)} different expressions of {min_length} to {max_length} tokens were found; "
                "raise max_length, or lower n_samples"
            )
    heads, valencies = map(list, zip(*map(_tree_of, found)))
    return [list(tokens) for tokens in found], heads, valencies


def load_listops(
    path: Source | Sequence[Source], *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES
) -> tuple[list[list[str]], list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Load a file of the ListOps data set: on each line a value, a tab, and an expression.

    Parameters
    ----------
    path : str, path-like or open file, or sequence of these
        The file, or the files, plain or compressed by gzip. An open file is read from its position on, and not closed.
        The round brackets of binary trees are skipped, as is the value.
    encoding : str, default="utf-8"
        The encoding of the text. A file that was opened in text mode has its own.
    max_bytes : int, default=2**32
        Maximum size in bytes of the text after decompression.

    Returns
    -------
    X : list of lists of str
        The tokens of each expression.
    heads : list of int64 arrays of shape (n_tokens,)
        As from `make_listops`.
    valencies : list of int64 arrays of shape (n_tokens,)
        As from `make_listops`.

    Raises
    ------
    ValueError
        If a line is not a value and an expression (the message has its number), or the file has no lines.
    TypeError
        If `path` is neither a path nor an open file.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsemap.datasets import load_listops
    >>> path = Path(tempfile.mkdtemp(), "test.tsv")
    >>> _ = path.write_text("2\\t( ( ( [MIN 2 ) 7 ) ] )\\n")
    >>> load_listops(path)
    ([['[MIN', '2', '7', ']']], [array([0, 1, 1, 1])], [array([2, 0, 0, 0])])
    """
    found = [pair for own in sources_of(path) for pair in _expressions(own, encoding, max_bytes)]
    X, trees = map(list, zip(*found))
    heads, valencies = map(list, zip(*trees))
    return X, heads, valencies


def _expressions(path, encoding, max_bytes):
    """Return tokens and tree of each expression of a file."""
    found = []
    name = name_of(path)
    for number, line in enumerate(read_lines(path, encoding, max_bytes), 1):
        if not line.strip():
            continue
        value, tab, expression = line.partition("\t")
        tokens = [token for token in expression.split() if token not in "()"]
        tree = _tree_of(tokens)
        if not tab or not value.strip().isdigit() or tree is None:
            raise ValueError(
                f"{name}, line {number}: {quoted(line)} is not a value, a tab and an expression of ListOps"
            )
        found.append((tokens, tree))
    if not found:
        raise ValueError(f"{name} holds no expression; is it the right file?")
    return found


def _draw(rng, max_length):
    """Draw an expression that begins with an operator, or None if it gets longer than `max_length`."""
    tokens = []
    # Number of arguments that each open bracket still needs.
    missing = []
    while missing or not tokens:
        if missing and missing[-1] == 0:
            missing.pop()
            tokens.append(_END)
            continue
        if missing:
            missing[-1] -= 1
        if not tokens or (len(missing) < _MAX_DEPTH and rng.random_sample() < 0.25):
            tokens.append(_OPERATORS[int(len(_OPERATORS) * rng.random_sample())])
            missing.append(2 + int((_MAX_ARGUMENTS - 1) * rng.random_sample()))
        else:
            tokens.append(str(int(10 * rng.random_sample())))
        # The length if all open brackets get one token for each argument.
        if len(tokens) + sum(missing) + len(missing) > max_length:
            return None
    return tokens


def _tree_of(tokens):
    """Return the heads and the valencies of an expression, or None if the tokens are not an expression."""
    heads, open_brackets = [], [0]
    for i, token in enumerate(tokens):
        is_after_the_end = i > 0 and len(open_brackets) == 1
        heads.append(open_brackets[-1])
        if token in _OPERATORS:
            open_brackets.append(i + 1)
        elif token == _END and i > 0:
            open_brackets.pop()
        elif len(token) != 1 or not token.isdecimal():
            return None
        if is_after_the_end:
            return None
    if not tokens or len(open_brackets) > 1:
        return None
    arguments = [head for head, token in zip(heads, tokens) if token != _END]
    return np.array(heads, dtype=np.int64), np.bincount(arguments, minlength=len(tokens) + 1)[1:]
