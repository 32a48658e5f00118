"""The tests can be collected, and the others run, if the library of an extra is not installed."""

import re
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

COLLECT = """
import sys

class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *arguments):
        return None if name.partition(".")[0] in sys.argv[1:] else self.finder.find_spec(name, *arguments)

    def __getattr__(self, name):
        return getattr(self.finder, name)

for name in [name for name in sys.modules if name.partition(".")[0] in sys.argv[1:]]:
    del sys.modules[name]
sys.meta_path[:] = map(Hiding, sys.meta_path)
import pytest

# Hypothesis reads all sources once they are collected.
leave_out = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
sys.exit(pytest.main(["--collect-only", "-q", "--assert=plain", "--no-header", *leave_out]))
"""


LIBRARIES = ["torch", "jax", "dask", "pandas", "matplotlib", "networkx"]


def pytest_generate_tests(metafunc):
    """Hide each library alone where all are installed, as in the step `extras`, or with --thorough; else all at once.

    The collection of the run itself tests those that are not installed.
    """
    if "hidden" in metafunc.fixturenames:
        installed = [name for name in LIBRARIES if find_spec(name) is not None]
        is_thorough = installed == LIBRARIES or metafunc.config.getoption("thorough")
        metafunc.parametrize("hidden", [[name] for name in installed] if is_thorough else [installed], ids="-".join)


def test_without_a_library_all_other_tests_are_collected(fresh_python, hidden):
    done = fresh_python(COLLECT, *hidden, folder=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(re.search(r"(\d+) tests collected", done.stdout)[1]) > 3000
