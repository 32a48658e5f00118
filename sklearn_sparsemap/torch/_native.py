"""Structures that PyTorch's operations solve, for tensors that stay on their device."""

import torch

from .._layers.operators import register
from .._layers.padding import check_lengths
from .._layers.samples import naming, nonempty, place_of
from .._layers.structures import structure_operator


def is_native(structure):
    """Tell whether a structure can be solved by operations of PyTorch."""
    return structure.tensor_solver is not None


def native_operator(structure, *, tol, max_iter, n_jobs):
    """Return the operator of a structure whose solutions are tensors; see `NativeOperator`."""
    compiled = structure_operator(structure, (), tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    return register(("native", compiled.handle), lambda: NativeOperator(compiled))


class NativeOperator:
    """Like an `Operator`, but for tensors on any device.

    Parameters
    ----------
    compiled : StructureOperator
        Solves samples at which Newton's method fails. These are mostly infeasible, which it reports.
    """

    n_additional = 0

    def __init__(self, compiled):
        self.compiled, self.structure, self.handle = compiled, compiled.structure, -1

    def solve_tensors(self, scores, rows, lead):
        """Solve a batch of float64 scores; return a `NativeSolution`. See `solve_samples`."""
        shape = scores.shape[1:]
        # Empty samples are solved as if nothing of them were padding or forbidden, and then set to zero.
        present = nonempty(rows).to(scores.device)
        lengths = torch.tensor([list(shape)], device=scores.device).expand(len(scores), -1)
        if rows.shape[1] > 1:
            what, accepted = self.structure.counted_lengths()
            samples = nonempty(rows).nonzero().squeeze(1).tolist()
            with naming(samples, lead):
                check_lengths(rows[samples, 1:].cpu().numpy(), shape, accepted, what)
            lengths = torch.where(present.unsqueeze(1), rows[:, 1:].to(scores.device), lengths)
        scores = torch.where(present.reshape(-1, *[1] * len(shape)), scores, 0.0)
        places = [torch.arange(n, device=scores.device) < lengths[:, a, None] for a, n in enumerate(shape)]
        inside = places[0] if len(shape) == 1 else places[0].unsqueeze(2) & places[1].unsqueeze(1)
        wrong = (inside & ~(scores < torch.inf)).flatten(1).any(1)
        if wrong.any():
            place = place_of(int(wrong.nonzero()[0]), lead)
            raise ValueError(f"scores{place} contains NaN or inf; scores must be finite, or -inf to forbid a part")
        own = torch.where(inside, scores, -torch.inf)
        u, project, solved = self.structure.tensor_solver()(own, lengths)
        found = NativeSolution(u, project, present)
        if not solved.all():
            found.mend(self.compiled, scores, lengths, (~solved).nonzero().squeeze(1), lead)
        found.set_values(own)
        return found


class NativeSolution:
    """Solutions of a batch as tensors.

    Attributes
    ----------
    marginals, values : Tensor
        As in `SolvedStructures`.
    """

    def __init__(self, marginals, project, present):
        self._present = present.reshape(-1, *[1] * (marginals.dim() - 1))
        self.marginals, self._project, self._mended = torch.where(self._present, marginals, 0.0), project, None

    def mend(self, compiled, scores, lengths, rows, lead):
        """Replace the solutions of some samples by those of the compiled method."""
        array = scores[rows].cpu().numpy()
        with naming(rows.tolist(), lead):
            solved = compiled.solve(array, array[:, :0].reshape(len(array), -1)[:, :0], lengths[rows].cpu().numpy())
        self._mended = solved, rows
        self.marginals = self.marginals.index_copy(0, rows, torch.from_numpy(solved.marginals).to(scores))

    def set_values(self, scores):
        """Compute the objectives."""
        u = self.marginals
        linear = torch.where(u > 0.0, scores, 0.0) * u
        self.values = (linear - 0.5 * u * u).flatten(1).sum(1)

    def multiply(self, directions):
        """Multiply directions, shape (n_directions, *shape of marginals), with the Jacobian."""
        out = torch.where(self._present, self._project(directions), 0.0)
        if self._mended is not None:
            solved, rows = self._mended
            for k in range(len(directions)):
                own = directions[k, rows].cpu().numpy()
                product, _ = solved.products(own, own.reshape(len(own), -1)[:, :0])
                out[k, rows] = torch.from_numpy(product).to(out)
        return out
