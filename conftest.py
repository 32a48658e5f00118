"""Which modules' examples are left out: those of layers whose library is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [f"sklearn_sparsemap/{name}/*" for name in ("torch", "jax") if find_spec(name) is None]
