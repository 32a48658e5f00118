"""Libraries of extras: one that is missing is told from one that is there and cannot be loaded."""

import sys

import pytest
from internals import import_extra


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "absent", None)
    with pytest.raises(ImportError, match=r"this plot needs absent, which is not installed.*\[plot\]"):
        import_extra("absent.parts", "plot", "this plot")


@pytest.mark.parametrize("line", ["raise ImportError('libcudart.so')", "import another_absent_library"])
def test_errors_of_a_library_that_is_installed_are_kept(line, tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"libcudart|another_absent_library") as caught:
        import_extra("broken_library", "plot", "this plot")
    assert "not installed" not in str(caught.value)
