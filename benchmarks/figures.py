"""Run the commands whose figures are in dashboard.md, on this machine, one after another: ``make figures``.

    python benchmarks/figures.py                     # those with records of older code, or of another machine
    python benchmarks/figures.py --minutes 40        # begin none that is expected to end later
    python benchmarks/figures.py --only crf.py       # these, even if their records are of the present code
    python benchmarks/figures.py --list              # only show the commands with seconds, and which ones are due
    python benchmarks/figures.py --release           # only check: fail if a record is older than the code

Records are written after each command, so an interrupted run goes on where it ended. All commands together take less
than two hours on two cores. Each keeps the rows that pages show, and no others. What takes longer, or needs a GPU or a
file that is not at hand, is in ``results/published`` and published.md, and is run by hand. Options that are not known
here are passed on, such as ``--data DIR``. Seconds of commands that were not yet run are estimates.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import measured_code
import results

FOLDER = results.ROOT / "benchmarks" / "results"


class Run(NamedTuple):
    """A command, a pattern of the rows that it keeps, and an estimate of its seconds.

    The pattern is searched in "task | data | measure | peer".
    """

    arguments: str
    rows: str
    seconds: int

    @property
    def script(self):
        return shlex.split(self.arguments)[0].removesuffix(".py")

    @property
    def command(self):
        return f"python benchmarks/{self.arguments}"

    @property
    def path(self):
        return FOLDER / f"{self.script}.json"

    def keeps(self, record):
        return bool(re.search(self.rows, " | ".join(results.identity(record))))


LABEL_SETS = "emotions generated-12 generated-30 generated-100 yeast tmc2007-500/300 tmc2007-500/1000 bibtex/300"
LABEL_SETS += " Enron_corr bibtex/1000"
# In the order of value: what the README quotes, what the guide quotes, comparisons with others, the rest.
PLAN = (
    Run("chunking.py --peers ap-10", r"^chunking \|.*(span F1|training) \| .*10 epochs", 150),
    Run(f"label_sets.py --rows 2000 --peers linear trees --sets {LABEL_SETS}",
        r"mean of 10.*(example F1|whole sets|mAP|log loss|CPU)", 400),
    Run("decisions.py --only path --seeds 3", r"path", 300),
    Run("token_dicts.py", r"features of a tutorial.*as in its tutorial", 250),
    Run("compile.py", r"first use \|", 60),
    Run("compile.py --alone", r"first use alone \|", 60),
    Run("crf.py --sentences 1000 --jobs 1", r"1,000 .*(span F1|CPU)", 60),
    Run("score_models.py --part one", r"", 300),
    Run("structures.py", r"time warping|isotonic", 120),
    Run("latency.py", r"", 60),
    Run("oracles.py --repeats 3 --sizes 40 100", r"", 40),
    Run("inference.py --repeats 3", r"C\+\+|entmax", 150),
    Run("factor_graphs.py --solvers auto --samples 20", r"C\+\+", 60),
    Run("devices.py --moreau --batches 64 1024 --threads 2", r"Moreau", 120),
    Run("hyperpaths.py --repeats 2", r"", 120),
    Run("layers.py --only simplex matching tree chain --no-loop --repeats 5",
        r"scale (1|0\.1),.*(PyTorch|entmax)", 150),
    Run("taggers.py", r"", 150),
    Run("rosters.py", r"", 60),
    Run('streams.py --models "flat sparsemap" "flat crf"', r"streams: flat \w+ \|.*ten batches after", 240),
    Run("recordings.py --only accuracy --seeds 1", r"accuracy.*seed 0|seed 0.*accuracy", 200),
    Run("group_lasso.py --fractions 0.5 0.1 --tols 1e-7 1e-9 1e-11", r"multinomial", 120),
    Run("group_lasso.py --flat", r"least squares", 30),
    Run("conformal.py --parts --samples 1000", r"level 0\.9 \|", 150),
    Run("label_sets.py --rows 2000 --peers boosting --sets emotions generated-12 generated-30 yeast",
        r"mean of 4.*(example F1|whole sets|mAP|log loss|CPU)", 150),
    Run("spans.py --only reliability", r"calibration", 120),
    Run("label_graphs.py --max-iter 40 --halves 4 --sets emotions yeast generated-12",
        r"(emotions|yeast|generated).*(L-BFGS, seen sets|SparseMAP, full) \|", 400),
    Run("neural_parsing.py --losses sparsemap crf biaffine --most 1000 --longest 30 --epochs 5", r"English", 200),
    Run("decisions.py --only knapsack --seeds 3", r"knapsack", 300),
    Run("scale.py --only mixing --serial 8 --rounds 8 --variants 4,1", r"mixing", 150),
    Run("group_recovery.py --samples 1000 --schedules auto --draws 6", r"1,000 samples.*schedule auto", 120),
    Run("hierarchies.py --sets Enron_corr ImCLEF07A --shares 0.1", r"(Enron|Im).*10 %.*F1", 200),
    Run("n_best.py --only acceptance peers", r"scipy|predict_n_best|(chain 40|budget 100).*k = 5 \| MAP", 60),
    Run("auto.py --only trained", r"recipes|recordings|assignments", 60),
    Run("label_growth.py --labels 100 1000 --peer", r"fit", 100),
    Run("ocr.py --losses sparsemap crf expected_cost", r"letter by letter|loss=", 240),
    Run("online.py --batch-sizes 4", r"CPU time of fit|span F1", 120),
    Run("stream.py --examples 1000000", r"\| 1,000,000", 60),
    Run("exactness.py --n 4000", r"", 200),
    Run("exactness_large.py --conic --problems 110", r"clarabel", 60),
    Run("paper_claims.py --only backward", r"backward passes", 60),
)  # fmt: skip


def own_records(run, records):
    """Return the records of a run, among those of its script."""
    return [record for record in records if run.keeps(record)]


def is_older(record, script):
    """Return whether the code that was measured is not the present one."""
    return record["code"] != measured_code.digest(script)


def is_due(run, records):
    """Return whether a command has no records, or one of other code, of other options or of another machine."""
    here, own = results.machine([]), own_records(run, records)
    return not own or any(
        record["command"] != run.command
        or is_older(record, run.script)
        or any(record["machine"].get(key) != value for key, value in here.items())
        for record in own
    )


def seconds_of(run, records):
    """Return the seconds that a command took, or the estimate."""
    return max((record["seconds"] or 0 for record in own_records(run, records)), default=0) or run.seconds


def keep(run, found, seconds):
    """Write the rows of a command to the file of its script, in place of older ones."""
    older = results.read(run.path) if run.path.exists() else []
    others = [record for record in older if not run.keeps(record)]
    new = [record | {"seconds": round(seconds)} for record in found if run.keeps(record)]
    results.write(run.path, others + new)
    return len(new)


def execute(run, passed_on):
    """Run a command; return a text that says why it failed, or an empty one."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.json"
        program, *arguments = shlex.split(run.arguments)
        script = str(results.ROOT / "benchmarks" / program)
        paths = [str(results.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        began = perf_counter()
        command = [sys.executable, script, *arguments, *passed_on, "--json", str(file)]
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
        seconds = perf_counter() - began
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return next(reversed(done.stderr.strip().splitlines()), f"exit status {done.returncode}")
        n_rows = keep(run, results.read(file) if file.exists() else [], seconds)
    print(f"{run.command}: {n_rows} rows, {seconds:.0f} s\n", flush=True)
    return "" if n_rows else "no rows; are all peers installed?"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--only", default="", metavar="TEXT", help="commands with this text in them")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--release", action="store_true")
    options, passed_on = parser.parse_known_args()
    records = {run.script: results.read(run.path) if run.path.exists() else [] for run in PLAN}
    if options.release:
        own = [(run, own_records(run, records[run.script])) for run in PLAN]
        older = [run.command for run, rows in own if not rows or any(is_older(row, run.script) for row in rows)]
        sys.exit("\n".join(["older than the code that they measure: run make figures", *older]) if older else 0)
    due = [run for run in PLAN if options.only in run.arguments]
    if not options.only:
        due = [run for run in due if is_due(run, records[run.script])]
    if options.list:
        for run in PLAN:
            print(f"{seconds_of(run, records[run.script]):6.0f} s {'due' if run in due else '   '} {run.command}")
        print(f"{sum(seconds_of(run, records[run.script]) for run in due):6.0f} s for those that are due")
        return
    began, failed, left = perf_counter(), {}, []
    for place, run in enumerate(due):
        minutes = (perf_counter() - began + seconds_of(run, records[run.script])) / 60
        if minutes > options.minutes:
            left.append(run.command)
            continue
        print(f"[{place + 1} of {len(due)}] {run.command}", flush=True)
        failed[run.command] = execute(run, passed_on)
    subprocess.run([sys.executable, str(results.ROOT / "benchmarks" / "dashboard.py")], check=True)
    for command in left:
        print(f"no time left: {command}")
    sys.exit("\n".join(f"{command}: {why}" for command, why in failed.items() if why) or 0)


if __name__ == "__main__":
    main()
