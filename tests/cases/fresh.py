"""Processes that have imported nothing of the package.

Importing Numba and scikit-learn takes longer than most tests that need such a process. So one process imports them, and
a fork of it runs each code.
"""

import json
import os
import subprocess
import sys

# seconds until a code is stopped
TIMEOUT = 600

FORKS = f"""
import json, os, signal, sys, tempfile, traceback
import sklearn.metrics, sklearn.model_selection, sklearn.pipeline
from numba import config, njit

njit(lambda x: x + 1)(1)
for line in sys.stdin:
    folder, code, arguments, environment = json.loads(line)
    files = [tempfile.TemporaryFile() for _ in range(2)]
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            signal.alarm({TIMEOUT})
            for number, file in enumerate(files, 1):
                os.dup2(file.fileno(), number)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            config.reload_config()
            sys.argv = ["-c", *arguments]
            exec(code, {{"__name__": "__main__"}})
            failed = 0
        except SystemExit as left:
            failed = left.code
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(failed or 0)
    _, status = os.waitpid(child, 0)
    written = []
    for file in files:
        file.seek(0)
        written.append(file.read().decode())
        file.close()
    print(json.dumps([os.waitstatus_to_exitcode(status), *written]), flush=True)
"""


class FreshPython:
    """Runs code in processes of its own."""

    def __init__(self):
        self._forks = None

    def __call__(self, code, *arguments, folder=None, environment=None):
        """Run code in a folder, by default the present one; return a `CompletedProcess`."""
        folder = os.getcwd() if folder is None else str(folder)
        environment = {**os.environ} if environment is None else environment
        command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
        if not hasattr(os, "fork"):
            return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        if self._forks is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            # In a folder from which the package cannot be imported.
            self._forks = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", FORKS], cwd=os.path.dirname(sys.executable), **pipes
            )
        print(json.dumps([folder, code, arguments, environment]), file=self._forks.stdin, flush=True)
        return subprocess.CompletedProcess(command, *json.loads(self._forks.stdout.readline()))

    def close(self):
        """End the process that is forked."""
        if self._forks is not None:
            self._forks.communicate()
