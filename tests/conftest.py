"""Shared set-up. Runs before anything imports NumPy or Numba."""

import importlib
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Beside the sources, not among them.
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache"))
# The tests multiply small matrices only: more threads of BLAS or PyTorch just wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell's background jobs ignore Ctrl-C, and so would the tests of it, for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples that Hypothesis draws: few and always the same ones by default, more with --hypothesis-profile=many.
with suppress(ImportError):
    from hypothesis import settings

    settings.register_profile("few", max_examples=15, derandomize=True, deadline=None, database=None)
    settings.register_profile("many", max_examples=1000, deadline=None, print_blob=True)
    settings.load_profile("few")


def pytest_sessionstart(session):
    """Compile all kernels before several processes run all tests: each of them would compile what it needs."""
    config = session.config
    processes = getattr(config.option, "numprocesses", None)
    is_compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
    if processes and is_compiled and config.args_source is config.ArgsSource.TESTPATHS:
        command = [sys.executable, "-m", "sklearn_sparsemap.compile", "--n-jobs", str(processes)]
        subprocess.run(command, check=True, cwd=ROOT, stderr=subprocess.DEVNULL)


def pytest_collection_finish():
    """Refuse kernels that are used where a module of tests is imported: each worker would compile them."""
    if "numba" in sys.modules:
        from internals import jit

        used = jit.compile_statistics()
        assert not any(used.values()), f"importing the tests compiled or loaded kernels: {used}"


@pytest.fixture(scope="module")
def site():
    """Return the module of the documentation's tables and order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "doc"))
        yield importlib.import_module("_site")
        del sys.modules["_site"]


@pytest.fixture(scope="session")
def fresh_python():
    """Return a function that runs code in a process that has imported nothing of the package; see `fresh`."""
    from fresh import FreshPython

    run = FreshPython()
    yield run
    run.close()


@pytest.fixture
def draws(request):
    """Return a function from the number of draws of a random sweep by default to that of this run."""
    return lambda few: 10 * few if request.config.getoption("thorough") else few


@pytest.fixture
def mended(monkeypatch):
    """The samples that operations of PyTorch leave to the compiled solver."""
    from internals import native as _native

    found, mend = [], _native.NativeSolution.replace_failed

    def record(solution, compiled, batch, rows, samples, lead):
        found.extend(samples.tolist())
        return mend(solution, compiled, batch, rows, samples, lead)

    monkeypatch.setattr(_native.NativeSolution, "replace_failed", record)
    return found
