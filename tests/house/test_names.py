"""The public names are those of the list, and each module is listed or internal."""

import importlib
import pkgutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from public_names import NAMES

from sklearn_sparsemap import __path__ as package


@pytest.mark.parametrize("module", NAMES)
def test_public_names(module):
    if module in ("torch", "jax") and find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    found = importlib.import_module(f"sklearn_sparsemap{module and '.'}{module}")
    assert sorted(found.__all__) == NAMES[module].split()
    assert all(hasattr(found, name) for name in found.__all__)


def test_each_module_is_listed_or_internal():
    modules = {module.name for module in pkgutil.iter_modules(package)}
    # `compile` is the command ``python -m sklearn_sparsemap.compile``.
    public = {name for name in modules if not name.startswith("_")} - {"compile"}
    assert public == NAMES.keys() - {""}


def test_rooms_are_attributes_of_the_package():
    """Without an import of their own, except the layers, which need other libraries."""
    code = "import sklearn_sparsemap as package, sys; [getattr(package, name) for name in sys.argv[1:]]"
    rooms = sorted(NAMES.keys() - {"", "torch", "jax"})
    subprocess.run([sys.executable, "-c", code, *rooms], check=True, cwd=Path(package[0]).parent)
