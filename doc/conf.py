"""Sphinx configuration. Build with ``sphinx-build doc doc/_build``."""

from importlib.util import find_spec

from sklearn_sparsemap import __version__

project = "sklearn_sparsemap"
author = "the sklearn_sparsemap developers"
release = __version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/*.ipynb"]
html_theme = "alabaster"
autosummary_generate = True
# The pages name layers, whose libraries are large.
autodoc_mock_imports = [name for name in ("torch", "jax") if find_spec(name) is None]
# The docstrings say what parameters are.
autodoc_typehints = "none"
numpydoc_show_class_members = False
# Examples that need PyTorch are shown without their pictures where it is not installed.
_run = "/plot_" if find_spec("torch") else "/plot_(?!listops|lstm_tagger|alignment_layer)"
sphinx_gallery_conf = {"examples_dirs": "../examples", "gallery_dirs": "auto_examples", "filename_pattern": _run}
