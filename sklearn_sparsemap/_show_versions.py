"""What a bug report needs: the versions of Python, of this package and of the libraries that it uses."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from ._version import __version__

REQUIRED = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "joblib")
OPTIONAL = ("matplotlib", "networkx", "pandas", "torch", "jax", "dask", "distributed")


def show_versions() -> None:
    """Print the versions that a bug report needs.

    They are those of Python, of this package, of the libraries that it requires, and of those that its extras install
    (None if one is not installed).

    See Also
    --------
    sklearn.show_versions : Also prints the libraries for threads.

    Examples
    --------
    >>> import sklearn_sparsemap
    >>> sklearn_sparsemap.show_versions()  # doctest: +ELLIPSIS
    System:
    ...
    """
    system = {
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "machine": platform.platform(),
        "processor": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
    }
    sections = {
        "System": system,
        "sklearn_sparsemap and required libraries": {
            "sklearn_sparsemap": __version__,
            **{name: _version_of(name) for name in REQUIRED},
        },
        "Libraries of extras": {name: _version_of(name) for name in OPTIONAL},
    }
    for title, entries in sections.items():
        sys.stdout.write(f"{title}:\n")
        for name, value in entries.items():
            sys.stdout.write(f"{name:>17}: {value}\n")
        sys.stdout.write("\n")


def _version_of(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None
