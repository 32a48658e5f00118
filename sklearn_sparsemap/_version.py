"""The version of the package: the one place where it stands.

Used by `_core` and `_show_versions`.
"""

__version__ = "0.1.0"
