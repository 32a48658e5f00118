"""The process in which HiGHS searches; `highs.py` starts it as a script.

It reads requests from its standard input, and writes results to its standard output. HiGHS itself writes to the null
device. The process ends after an idle time, or when its standard input ends: when the process that started it has died.
"""

import os
import pickle
import queue
import signal
import sys
import threading

_IDLE = 5.0  # seconds without a request after which the process ends


def main():
    """Answer requests until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), 1)
    sys.path[:] = pickle.load(requests)
    from scipy import optimize

    waiting = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, waiting), daemon=True).start()
    while True:
        try:
            arguments, options = waiting.get(timeout=_IDLE)
        except queue.Empty:
            os._exit(0)
        try:
            answer = optimize.milp(*arguments, **options)
        except Exception as error:
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


def _read(requests, waiting):
    """Pass requests on; end the process, even during a search, when there can be no more."""
    try:
        while True:
            waiting.put(pickle.load(requests))
    except EOFError:
        os._exit(0)


if __name__ == "__main__":
    main()
