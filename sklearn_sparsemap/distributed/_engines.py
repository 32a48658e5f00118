"""Execution of the tasks of a training: on threads of this process, or on the workers of dask.distributed.

Both engines accept results of earlier tasks as arguments, and perform the same additions in the same order, so results
are equal.

Used by `_mixing.py` and `_sources.py`.
"""

import sys
import warnings
from concurrent import futures

from .._core.extras import import_extra
from .._core.threads import count_threads


class ThreadEngine:
    """Runs tasks on threads of this process.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads, as in joblib.
    """

    client = None

    def __init__(self, n_jobs):
        self._pool = futures.ThreadPoolExecutor(count_threads(n_jobs), thread_name_prefix="sklearn_sparsemap")

    def submit(self, function, *args):
        """Return the future of a call. A task may wait for its arguments, which have begun, so there is no deadlock."""
        return self._pool.submit(_call, function, args)

    def hold(self, parts):
        """Return parts of data as arguments of `submit`. Lazy parts of dask are computed first."""
        if not any(map(is_lazy, parts)):
            return parts
        import dask

        return list(dask.compute(*parts))

    def close(self):
        """Wait for running tasks, and cancel the others."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _call(function, args):
    return function(*(arg.result() if isinstance(arg, futures.Future) else arg for arg in args))


class DaskEngine:
    """Runs tasks on the workers of a client. If a worker dies, its tasks and their inputs are computed again.

    Parameters
    ----------
    client : distributed.Client
    closes : bool, default=False
        Whether to close the client at the end.
    """

    def __init__(self, client, closes=False):
        self.client, self._closes = client, closes

    def submit(self, function, *args):
        """Return the future of a call. The scheduler stores arguments that are not futures, to repeat lost tasks."""
        with warnings.catch_warnings():
            # Data of this process are sent on purpose, so Dask's warning about their size is not useful.
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            return self.client.submit(function, *args, pure=False)

    def hold(self, parts):
        """Return parts of data; lazy parts become futures on the workers."""
        return [self.client.compute(part) if hasattr(part, "__dask_graph__") else part for part in parts]

    def close(self):
        """Close the client if no one else does. The scheduler drops futures that are no longer referenced."""
        if self._closes:
            self.client.close()


def engine_for(client, n_jobs, parts):
    """Return the engine for a client (or the address of a scheduler, or None) and for parts of data."""
    if isinstance(client, str):
        # Without a client, training is on threads.
        distributed = import_extra("distributed", "dask", f"client={client!r}")
        return DaskEngine(distributed.Client(client, set_as_default=False), closes=True)
    if client is None:
        client = next((part.client for part in parts if is_future(part)), None) or current_client()
    if client is None:
        return ThreadEngine(n_jobs)
    if not hasattr(client, "submit") or getattr(client, "asynchronous", False):
        raise ValueError(f"client={client!r} must be a synchronous distributed.Client, or the address of a scheduler")
    return DaskEngine(client)


def current_client():
    """Return the current client, or None. Within a task it is None, because the worker would wait for itself."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        distributed.get_worker()
        return None
    except ValueError:
        pass
    try:
        return distributed.default_client()
    except ValueError:
        return None


def is_future(thing):
    """Tell whether an object is a future of dask."""
    return type(thing).__module__.split(".")[0] == "distributed" and hasattr(thing, "key")


def is_lazy(thing):
    """Tell whether an object is a future, or a lazy object of dask."""
    return is_future(thing) or hasattr(thing, "__dask_graph__")
