"""The long description: README.md with absolute addresses in place of relative ones, for indexes of packages."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
RAW = REPOSITORY.replace("github.com", "raw.githubusercontent.com") + "/main/"
text = (ROOT / "README.md").read_text(encoding="utf-8")
text = re.sub(r"(!\[[^]]+\]\()(?!https:)", rf"\g<1>{RAW}", text)
text = re.sub(r"^(\[\w+\]: )(?!https:)", rf"\g<1>{REPOSITORY}/blob/main/", text, flags=re.MULTILINE)
setup(long_description=text, long_description_content_type="text/markdown")
