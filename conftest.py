"""Modules whose examples are left out: layers whose library is not installed, and the command that is no module."""

from importlib.util import find_spec

collect_ignore = ["sklearn_sparsemap/compile.py"]
collect_ignore_glob = [f"sklearn_sparsemap/{name}/*" for name in ("torch", "jax") if find_spec(name) is None]
