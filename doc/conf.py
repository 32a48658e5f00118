"""Sphinx configuration. ``python doc/build.py`` builds the site; `_site.py` has what needs more than a setting."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "plots"))  # modules that plots share
sys.path.insert(0, str(Path(__file__).parent))

import _site
from matplotlib.figure import Figure

from sklearn_sparsemap import __version__
from sklearn_sparsemap._core.doc_link import SITE

project = "sklearn-sparsemap"
author = "the sklearn_sparsemap developers"
copyright = f"{author}, BSD-3-Clause"
version = release = __version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
]
exclude_patterns = ["_build", "_templates", "auto_examples/**/*.ipynb", "sg_execution_times.rst"]
templates_path = ["_templates"]
html_static_path = ["_static", *_site.offline_mathjax()]
html_css_files = ["site.css"]
html_title = f"sklearn-sparsemap {release}"
html_search_scorer = str(Path(__file__).parent / "_scorer.js")
html_show_sourcelink = False
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "logo": {"text": "sklearn‑sparsemap"},  # the hyphen does not break
    "show_version_warning_banner": False,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher", "version.html", "navbar-icon-links"],
    "icon_links": [{"name": "GitHub", "url": _site.REPOSITORY, "icon": "fa-brands fa-github"}],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navigation_depth": 3,  # without the methods of estimators
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages at the top have no neighbours to list.
html_sidebars = {page: [] for page in _site.pages_at_the_top()}
# Other versions are asked for, as they need the network: python doc/build.py --versions
if os.environ.get("SPHINX_VERSIONS"):
    html_theme_options["switcher"] = {"json_url": f"{SITE}/versions.json", "version_match": release}
    html_theme_options["check_switcher"] = False
    html_theme_options["navbar_end"] = ["theme-switcher", "version-switcher", "navbar-icon-links"]
html_baseurl = f"{SITE}/"
if _site.offline_mathjax():
    mathjax_path = "tex-svg.js"

# Links to other projects' pages are asked for, as they need the network: python doc/build.py --intersphinx
intersphinx_mapping = {}
if os.environ.get("SPHINX_INTERSPHINX"):
    intersphinx_mapping = {
        "numpy": ("https://numpy.org/doc/stable/", None),
        "scipy": ("https://docs.scipy.org/doc/scipy/", None),
        "sklearn": ("https://scikit-learn.org/stable/", None),
    }

# Names in single backticks are links, if they are public; `_site.link_public_name` finds short ones.
default_role = "py:obj"
toc_object_entries_show_parents = "hide"
add_function_parentheses = False  # they would break lines of the narrow sidebars
autosummary_generate = True
# The address of the published site, for pages that name it.
rst_epilog = f".. _own address: {SITE}/"
# The cache does not hold functions of `_site`; included Markdown begins at its second level.
suppress_warnings = ["config.cache", "myst.header"]
autosummary_context = {
    "methods_of": _site.methods_of,
    "methods_apart": _site.methods_apart,
    "related_to": _site.related_to,
}
# The pages name layers, whose libraries are large.
autodoc_mock_imports = [name for name in ("torch", "jax") if find_spec(name) is None]
# The docstrings say what parameters are.
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    # Examples that need PyTorch are shown without their pictures where it is not installed.
    "filename_pattern": r"plot_" if find_spec("torch") else r"/(?!networks)[^/]*/plot_",
    "subsection_order": _site.SECTIONS,
    "within_subsection_order": "_site.example_order",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sklearn_sparsemap",),
    "inspect_global_variables": False,
    # Pictures for screens of high resolution, too; `build.py --pictures` takes these.
    "image_srcset": ["2x"],
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 1000,
    "write_computation_times": False,
}

# The notes are pages of Markdown; the benchmarks and the changes are included.
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_heading_anchors = 3
# Blocks of the tutorials that draw; their code is on the page.
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_rcparams = {"figure.facecolor": "white", "savefig.bbox": "tight"}
plot_apply_rcparams = True
# Code of the pages finds data from the root of the repository, as in README.
plot_working_directory = str(Path(__file__).parent.parent)


def setup(app):
    _site.warn_of_empty_axes(Figure)
    app.connect("builder-inited", _site.cut_thumbnails, priority=900)  # after the gallery
    app.connect("source-read", _site.fill_tables)
    app.connect("source-read", _site.show_thumbnail)
    app.connect("source-read", _site.lay_out)
    app.connect("missing-reference", _site.link_public_name)
    app.connect("doctree-resolved", _site.fit_phones)
    app.connect("doctree-resolved", _site.name_thumbnails)
