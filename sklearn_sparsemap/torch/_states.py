"""What a forward pass found, for its backward pass: found again by the keys that go with the marginals.

Operators of PyTorch return tensors only, so solutions go beside them. Their keys are a tensor of which nothing matters
but where it lies: as long as its memory lives, no other tensor has its address, and when it is freed the solution is
forgotten. A copy of the keys (by a hook that moves saved tensors, say) is known to nobody; the solution is then found
once more.
"""

import weakref

import numpy as np
import torch

_states = {}


def remember(solved, n_samples):
    """Return keys, an int64 tensor of shape (n_samples,), by which `recall` finds a solution as long as they live."""
    if not n_samples:
        # Nothing to keep, and no address of its own.
        return torch.empty(0, dtype=torch.int64)
    # Memory of its own, even if there is only one sample.
    array = np.arange(n_samples)
    address = array.ctypes.data
    _states[address] = solved
    weakref.finalize(array, _states.pop, address, None).atexit = False
    return torch.from_numpy(array)


def recall(keys):
    """Return the solution that goes with all of these keys in their order, or None."""
    if keys.device.type != "cpu" or not keys.is_contiguous() or keys.storage_offset() != 0:
        return None
    solved = _states.get(keys.untyped_storage().data_ptr())
    return solved if solved is not None and keys.untyped_storage().nbytes() == 8 * keys.numel() else None
