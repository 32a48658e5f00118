"""What pyproject.toml cannot say: the readme of a release, whose pictures must be found from outside the repository."""

import re
from pathlib import Path

from setuptools import setup

PICTURES = "https://raw.githubusercontent.com/sklearn-sparsemap/sklearn-sparsemap/main/"

readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
setup(
    long_description=re.sub(r"(!\[[^]]*\]\()(?=doc/)", rf"\g<1>{PICTURES}", readme),
    long_description_content_type="text/markdown",
)
