"""Layers of JAX on several devices: within `shard_map`, and on arrays outside of programs."""

import subprocess
import sys

import pytest

jax = pytest.importorskip("jax")

# The number of devices is set before JAX starts.
PROGRAM = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from sklearn_sparsemap.jax import map_inference, sparsemap
from sklearn_sparsemap.structures import LinearChain, Simplex

mesh, rng = Mesh(np.array(jax.devices()), ("d",)), np.random.default_rng(0)
draw = lambda *shape: jnp.array(rng.normal(size=shape).astype(np.float32))
x, t, w, lengths = draw(4, 3, 2), draw(2, 2), draw(4, 3, 2), jnp.array([3, 2, 1, 3])
layer = lambda x, t: sparsemap(LinearChain(), x, lengths, transitions=t)

def value(x, t, w, lengths=lengths):
    return (sparsemap(LinearChain(), x, lengths, transitions=t) * w).sum()

def best(x, w):
    return (map_inference(Simplex(), x.reshape(len(x), 6)) * w.reshape(len(w), 6)).sum()

def shard(function, *specs, out=P("d")):
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out)

d, none = P("d"), P()
by_x, by_t = jax.grad(value), jax.grad(value, 1)
spread = [jax.device_put(own, NamedSharding(mesh, d)) for own in (x, w, lengths)]
own = draw(4, 1, 2, 2)
spread_own = jax.device_put(own, NamedSharding(mesh, d))
cases = {
    "grad": (shard(by_x, d, none, d, d), (x, t, w, lengths), by_x(x, t, w)),
    "jit of grad": (jax.jit(shard(by_x, d, none, d, d)), (x, t, w, lengths), by_x(x, t, w)),
    "grad of shared scores": (shard(by_t, d, none, d, d, out=none), (x, t, w, lengths), by_t(x, t, w)),
    "map_inference": (shard(jax.grad(best), d, d), (x, w), jax.grad(best)(x, w)),
    "eager": (lambda x, t: sparsemap(LinearChain(), x, transitions=t), (spread[0], t),
              sparsemap(LinearChain(), x, transitions=t)),
    "eager grad": (jax.grad(value, (0, 1)), (spread[0], t, spread[1], spread[2]), jax.grad(value, (0, 1))(x, t, w)),
    "eager, own scores": (jax.grad(value, (0, 1)), (spread[0], spread_own, spread[1], spread[2]),
                          jax.grad(value, (0, 1))(x, own, w)),
}
for name, (function, arguments, expected) in cases.items():
    found = function(*arguments)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, err_msg=name)
        # Results can be used together with arrays on all devices.
        one + 1.0
    print(name)
"""


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="this JAX has no jax.shard_map")
def test_derivatives_on_several_devices():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert len(run.stdout.splitlines()) == 7
