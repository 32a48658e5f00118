"""How signals reach kernels: a watching thread stops short calls, and other calls run in a thread of their own."""

import threading
import time

import numpy as np
import pytest
from internals import ends_at, jit, over_ranges, with_modules

LONG = with_modules("""
import _thread, os, signal, socket, sys, threading, time
import numpy as np
from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import CustomStructure, LinearChain
rng = np.random.default_rng(0)
scores, transitions = 1e-3 * rng.normal(size=(100, 30)), 1e-5 * rng.normal(size=(30, 30))
small = np.eye(3)


def work(**parameters):
    return sparsemap(LinearChain(), scores, transitions=transitions, solver="active_set", **parameters)


def n_workers():
    return sum(thread.name == "sklearn_sparsemap" for thread in threading.enumerate())


def press(delay):
    threading.Timer(delay, _thread.interrupt_main).start()


def interrupted(function):
    began = time.perf_counter()
    try:
        function()
    except KeyboardInterrupt:
        return "interrupted" if time.perf_counter() - began < 20 else "late"
    return "finished"


def long():
    work(max_iter=10**9)


work(max_iter=2)
expected = sparsemap(LinearChain(), small).marginals
""")

# In this order. Only the last two need a thread that runs kernels.
WAYS = {
    "the watching thread, again and again": """
for _ in range(3):
    press(0.1)
    print(interrupted(long))
    # A signal that was handled has no effect on the next call.
    print((sparsemap(LinearChain(), small).marginals == expected).all(), signal.set_wakeup_fd(-1) == -1)
print("workers", n_workers())
""",
    "a call within a call": """
seen = []


def oracle(values):
    if len(seen) == 3:
        seen.append(0)
        press(0.1)
        long()
    seen.append(sparsemap(LinearChain(), small).n_iter)
    return [int(np.argmax(values))]


print(interrupted(lambda: sparsemap(CustomStructure(oracle), np.zeros(50), max_iter=10**6)), len(seen))
print((sparsemap(LinearChain(), small).marginals == expected).all(), signal.set_wakeup_fd(-1) == -1)
""",
    "in another thread": """
found = []
thread = threading.Thread(target=lambda: found.append(work(max_iter=1000).n_iter))
press(0.02)
try:
    thread.start()
    thread.join()
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
thread.join()
print(found[0] == work(max_iter=1000).n_iter)
""",
    "a forked process": """
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        press(0.1)
        os._exit(0 if interrupted(long) == "interrupted" else 1)
    # The signals of a child are not those of its parent.
    result = work(max_iter=1000)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), result.n_iter == work(max_iter=1000).n_iter)
    press(0.1)
    print(interrupted(long))
else:
    print("0 True interrupted")
""",
    "another one waits for signals": """
inbox, outbox = socket.socketpair()
outbox.setblocking(False)
signal.set_wakeup_fd(outbox.fileno())
press(0.1)
print(interrupted(long))
print(signal.set_wakeup_fd(-1) == outbox.fileno(), inbox.recv(1) == bytes([signal.SIGINT]))
print("workers", n_workers())
""",
    "a handler of one's own": """
def handler(*arguments):
    raise KeyboardInterrupt


signal.signal(signal.SIGINT, handler)
press(0.1)
print(interrupted(long))
signal.signal(signal.SIGINT, lambda *arguments: None)
press(0.05)
result = work(max_iter=1000)
time.sleep(0.1)
# This one ends nothing.
print(result.n_iter == work(max_iter=1000).n_iter)
print("workers", n_workers())
""",
}
EXPECTED = {
    "the watching thread, again and again": ["interrupted", "True", "True"] * 3 + ["workers", "0"],
    "a call within a call": ["interrupted", "4", "True", "True"],
    "in another thread": ["interrupted", "True"],
    "a forked process": ["0", "True", "interrupted"],
    "another one waits for signals": ["interrupted", "True", "True", "workers", "1"],
    "a handler of one's own": ["interrupted", "True", "workers", "1"],
}


@pytest.fixture(scope="module")
def process(fresh_python):
    """One process in which all ways are tried; return the words that each writes, and the errors of all."""
    code = LONG + "for way in sys.argv[1:]:\n    exec(way, dict(globals()))\n    print('--', flush=True)\n"
    done = fresh_python(code, *WAYS.values())
    return dict(zip(WAYS, map(str.split, done.stdout.split("--")))), done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_reaches_kernels(way, process):
    out, error = process
    assert out.get(way) == EXPECTED[way], error


def test_time_limits_stand_still_while_kernels_are_compiled(monkeypatch):
    def slowly(*args, **kwargs):
        time.sleep(0.5)
        return "compiled"

    monkeypatch.setattr(jit._backend, "compile_entry", slowly)
    limit, began = np.array([7]), jit.working_time()
    with ends_at(began + 0.2, limit):
        assert jit.Entry(slowly, None).dispatcher == "compiled"
        assert limit[0] == 7 and jit.working_time() - began < 0.2
        time.sleep(0.5)
        assert limit[0] == 0
    jit._entries.pop()


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_ranges_cover_all_problems_in_order(n_threads, elsewhere):
    def solve(start, stop):
        time.sleep(0.001)
        used.add(threading.get_ident())
        return start, stop

    def call():
        found.append(over_ranges(solve, np.full(40, cost), n_threads))

    for cost, n_most in ((1, n_threads), (1500, 8 * n_threads)):
        used, found = set(), []
        if elsewhere:
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        else:
            call()
        cuts = [start for start, _ in found[0]] + [found[0][-1][1]]
        assert [stop for _, stop in found[0]] == cuts[1:]
        assert cuts[0] == 0 and cuts[-1] == 40 and np.all(np.diff(cuts) > 0)
        # Small problems are not cut into more pieces than there are threads.
        assert len(found[0]) == (n_most if n_threads > 1 else 1 + 40 * cost // 50_000)
        assert len(used) <= n_threads


@pytest.mark.parametrize("where", ["here", "beside"])
def test_a_range_that_fails_ends_the_others(where):
    def solve(start, stop):
        is_here = threading.current_thread() is threading.main_thread()
        begun.append(start)
        both.wait()
        if is_here == (where == "here"):
            raise RuntimeError(f"range {start}")
        time.sleep(0.1)

    both, begun = threading.Barrier(2, timeout=10), []
    with pytest.raises(RuntimeError, match="range"):
        over_ranges(solve, np.full(16, 1500), 2)
    assert sorted(begun) == [0, 1]
