"""
Select sensors in a stream
==========================

A plant has 400 stations with 8 sensors each, which report events. Its state (idle, running or jammed) depends on four
of the stations; the others report noise. The events arrive in mini-batches and are not stored. `partial_fit` learns
from them, and every 250 samples shrinks the weights of each station until six stations are left.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from sklearn_sparsemap import GroupLassoPerceptron
from sklearn_sparsemap.plotting import MemoryCurveDisplay

# %%
# A stream of events
# ------------------
# A sensor reports in one moment of fifty. At the stations that matter each sensor reports in one moment of three while
# the plant is in one of its states. The fourth of these stations is weak: only two of its sensors do so.

N_STATIONS, N_SENSORS, BATCH, N_BATCHES, BUDGET = 400, 8, 50, 400, 6
STATES = np.array(["idle", "jammed", "running"])
RELEVANT = {31: 8, 144: 8, 262: 8, 349: 2}
rng = np.random.default_rng(0)
rates = np.full((len(STATES), N_STATIONS, N_SENSORS), 0.02)
for station, n_sensors in RELEVANT.items():
    rates[np.arange(n_sensors) % len(STATES), station, np.arange(n_sensors)] = 0.33
rates = rates.reshape(len(STATES), -1)


def read_batch(n):
    """Draw the events of n moments (1 where a sensor reports), and the states."""
    states = rng.integers(len(STATES), size=n)
    return sparse.csr_array(
        (rng.random((n, rates.shape[1])) < rates[states]).astype(float)
    ), STATES[states]


# %%
# Learn from mini-batches
# -----------------------
# A model of all groups sees the same stream, for comparison.

station_of = np.repeat(np.arange(N_STATIONS), N_SENSORS)
models = {
    "six groups": GroupLassoPerceptron(
        groups=station_of, budget=BUDGET, shrink_every=250
    ),
    "all groups": GroupLassoPerceptron(groups=station_of, shrink_every=250),
}
X_test, y_test = read_batch(3000)
strongest = np.zeros((N_BATCHES, N_STATIONS), dtype=bool)
seconds = dict.fromkeys(models, 0.0)
for model in models.values():
    # Numba compiles here, or loads what it has compiled before.
    GroupLassoPerceptron(**model.get_params()).partial_fit(
        *read_batch(10), classes=STATES
    )
for batch in range(N_BATCHES):
    X, y = read_batch(BATCH)
    for name, model in models.items():
        start = perf_counter()
        model.partial_fit(X, y, classes=STATES)
        seconds[name] += perf_counter() - start
    # Between two shrinkages others come up; the strongest are what a shrinkage
    # would leave.
    norms = models["six groups"].group_norms_
    best = np.argsort(-norms, kind="stable")[:BUDGET]
    strongest[batch, best[norms[best] > 0]] = True

for name, model in models.items():
    print(
        f"{name}: test accuracy {model.score(X_test, y_test):.3f}, "
        f"{model.n_nonzero_coefs_:5,} weights at the end, "
        f"{BATCH * N_BATCHES / seconds[name]:,.0f} samples a second"
    )
peak = models["six groups"].memory_curve_.max()
print(
    f"At most {peak:,} weights are held for six groups: "
    f"{peak / models['all groups'].n_nonzero_coefs_:.0%} of all."
)
late = strongest[N_BATCHES // 2 :].mean(axis=0)
print(
    "\nShare of the second half of the stream in which a station is among the "
    f"strongest {BUDGET}:"
)
for station in np.argsort(-late, kind="stable")[:7]:
    note = {8: "matters", 2: "matters a little"}.get(RELEVANT.get(station), "")
    print(f"  station {station:3}: {late[station]:4.0%}  {note}")

# %%
# The picture
# -----------
# Above, the weights that are held: between two shrinkages each mistake adds some, of whatever stations have just
# reported; a shrinkage gives all but those of six groups back. Below, the strongest six stations after each mini-batch.
# The three that matter are found at once and stay. The weak one is there most of the time. The places that are left
# have to go to somebody: to whom changes all the time.

figure, (top, below) = plt.subplots(
    2,
    1,
    figsize=(8, 7),
    height_ratios=(1, 1.4),
    sharex=True,
    layout="constrained",
    facecolor="white",
)
MemoryCurveDisplay.from_estimator(
    models["six groups"], full=models["all groups"], ax=top
)
top.set(xlabel="", title="Six groups of 400, chosen in a stream")
moments, stations = np.nonzero(strongest)
matters = np.isin(stations, list(RELEVANT))
for chosen, color, label in (
    (~matters, "#a9a9a9", "reports at random"),
    (matters, "#00594c", "matters"),
):
    below.scatter(
        (moments[chosen] + 1) * BATCH,
        stations[chosen],
        s=7,
        marker="s",
        c=color,
        lw=0,
        label=label,
    )
below.set(
    xlabel="samples visited",
    ylabel="station",
    ylim=(-5, N_STATIONS + 5),
    xlim=(0, BATCH * N_BATCHES),
)
below.spines[["top", "right"]].set_visible(False)
below.legend(
    loc="lower left",
    bbox_to_anchor=(0, 0.98),
    ncols=2,
    frameon=False,
    markerscale=2.5,
    fontsize=9,
)

plt.show()
