"""Runs each example of the README in a process of its own, checks its output, and says what its first use takes.

    python .ci/readme.py README.md

Imports come before, and do not count. It is for wheels with compiled code, so it fails if an example compiles anything.
"""

import doctest
import os
import re
import sys
import time
from pathlib import Path


def examples(path):
    """Return the blocks of Python, by the last heading before them."""
    page = Path(path).read_text(encoding="utf-8")
    found = re.findall(r"^#+ ([^\n]*)$|```python\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    heading, blocks = "", []
    for title, block in found:
        heading = title or heading
        if block:
            blocks.append((heading, block))
    return blocks


def run(heading, block):
    """Run a block; return whether its output is right."""
    test = doctest.DocTestParser().get_doctest(block, {}, heading, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    return runner.run(test).failed == 0


def _measure(heading, block):
    """Run a block; print what it takes, and return whether it is right and compiles nothing."""
    from sklearn_sparsemap._core.jit import compile_statistics

    began = time.process_time()
    is_right = run(heading, block)
    seconds, statistics = time.process_time() - began, compile_statistics()
    print(f"{seconds:5.2f} s  {statistics}  {heading}", flush=True)
    return is_right and statistics["compiled"] == 0


def main(path):
    """Run all blocks, each in a fork of a process that has imported what they need; return whether all succeed."""
    import sklearn.datasets  # noqa: F401

    import sklearn_sparsemap

    for name in dir(sklearn_sparsemap):
        getattr(sklearn_sparsemap, name)
    failed = []
    for heading, block in examples(path):
        child = os.fork()
        if child == 0:
            # Without the cleanup of the parent.
            os._exit(not _measure(heading, block))
        if os.waitpid(child, 0)[1]:
            failed.append(heading)
    assert not failed, f"failed: {failed}"


if __name__ == "__main__":
    main(sys.argv[1])
