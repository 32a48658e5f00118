"""Structures and graphs that PyTorch's operations solve, for tensors that stay on their device.

Used by `_calls.py` and `_ops.py`.
"""

import numpy as np
import torch

from .._core.errors import SampleError
from .._layers.entry import Registered
from .._layers.padding import distinct_rows
from .._layers.register import maker, operator_of, register
from .._layers.samples import naming, nonempty, position
from ..structures._base import TensorBatch


def native_operator(what, extra, **options):
    """Return the operator of a structure or a graph whose solutions are tensors; see `operator_of`."""
    names = "argmax", "tol", "max_iter", "n_jobs"
    return register("native", what, extra, *(options[name] for name in names))


@maker("native")
def _make_native(what, extra, argmax, tol, max_iter, n_jobs):
    compiled = operator_of(what, extra, argmax=argmax, tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    return (NativeGraphs if compiled.of_factors else NativeOperator)(compiled)


class NativeOperator(Registered):
    """Like an `Operator`, but for tensors on any device.

    Parameters
    ----------
    compiled : StructureOperator
        Solves the samples that the operations of PyTorch leave to it. Most of these are infeasible, which it reports.
    """

    def __init__(self, compiled):
        self.compiled, self.n_additional = compiled, compiled.n_additional

    def solve_tensors(self, scores, additional, rows, lead):
        """Solve a batch of float64 scores; return a `NativeSolution`. See `solve_samples`."""
        batch, present, (*found, solved) = self._solve(scores, additional, rows, lead)
        solution = NativeSolution(*found, present)
        left = present & ~solved
        if left.any():
            solution.replace_failed(self.compiled, batch, rows, left.nonzero().squeeze(1), lead)
        solution.set_values(batch)
        return solution

    def _solve(self, scores, additional, rows, lead):
        """Return a `TensorBatch`, a mask of the samples that are not empty, and the result of a tensor solver.

        Empty samples are solved as if all their scores were zero and nothing were padding, and then set to zero.
        """
        compiled = self.compiled
        padded = tuple(scores.shape[1:])
        device = scores.device
        present = nonempty(rows)
        samples = range(len(rows))
        lengths = np.zeros((len(rows), 0), np.int64)
        if rows.shape[1] > 1:
            samples = present.nonzero().squeeze(1).tolist()
            lengths = rows[samples, 1:].cpu().numpy()
        present = present.to(device)
        with naming(samples, lead):
            kinds, kind, shapes = compiled.sample_layouts(padded, lengths)
        places = torch.tensor(samples, dtype=torch.int64, device=device)
        full = torch.tensor([padded], device=device).expand(len(scores), -1)
        own = np.array(shapes, np.int64).reshape(-1, len(padded))[kind]
        lengths = full.index_copy(0, places, torch.from_numpy(own).to(device))
        values = []
        for part, masks, label in (
            (scores, [k.entries for k in kinds], "scores"),
            (additional, [k.extra_entries for k in kinds], "additional"),
        ):
            flat = torch.where(present.unsqueeze(1), part.flatten(1), 0.0)
            if all(mask.all() for mask in masks):
                _refuse(flat, lead, label)
            else:
                inside = torch.from_numpy(np.array(masks)[kind]).to(device)
                inside = torch.ones_like(flat, dtype=torch.bool).index_copy(0, places, inside)
                _refuse(torch.where(inside, flat, 0.0), lead, label)
                flat = torch.where(inside, flat, -torch.inf)
            values.append(flat.reshape(part.shape))
        batch = TensorBatch(values[0], lengths, values[1], dict(compiled.extra), compiled.max_iter, compiled.tol)
        return batch, present, compiled.structure.tensor_solver()(batch)


class NativeGraphs(NativeOperator):
    """The same for factor graphs; those with structures or tables as factors are left to the compiled operator."""

    def _solve(self, scores, additional, rows, lead):
        compiled = self.compiled
        padded = tuple(scores.shape[1:])
        device = scores.device
        present = nonempty(rows)
        samples = present.nonzero().squeeze(1)
        with naming(samples.tolist(), lead):
            shapes, kinds = distinct_rows(compiled.shapes_of(padded, rows[samples, 1:].cpu().numpy()))
            kinds = [(compiled.sample_layout(padded, shape), samples[kinds == k]) for k, shape in enumerate(shapes)]
        flat = scores.flatten(1)
        parts = []
        u = torch.zeros_like(flat)
        v = torch.zeros_like(additional)
        solved = torch.zeros(len(scores), dtype=torch.bool, device=device)
        for kind, own in kinds:
            solver = compiled.tensor_solver(kind.layout, device)
            if solver is None:
                continue
            solve, most = solver
            columns, extra_columns = (torch.from_numpy(c).to(device) for c in (kind.entries, kind.extra_entries))
            for some in own.to(device).split(most):
                places = (some.unsqueeze(1), columns), (some.unsqueeze(1), extra_columns)
                u[places[0]], v[places[1]], own_multiply, solved[some] = solve(flat[places[0]], additional[places[1]])
                parts.append((places, own_multiply))

        def multiply(directions, extra):
            out = torch.zeros_like(directions.flatten(2))
            out_extra = torch.zeros_like(extra)
            for (place, extra_place), own_multiply in parts:
                found = own_multiply(directions.flatten(2)[:, *place], extra[:, *extra_place])
                out[:, *place], out_extra[:, *extra_place] = found
            return out.reshape(directions.shape), out_extra

        batch = TensorBatch(scores, rows[:, 1:].to(device), additional, {}, None, compiled.tol)
        return batch, present.to(device), (u.reshape(scores.shape), v, multiply, solved)


def _refuse(values, lead, what):
    """Raise ValueError if scores contain NaN or inf."""
    wrong = ~(values < torch.inf).flatten(1).all(1)
    if wrong.any():
        place = position(int(wrong.nonzero()[0]), lead)
        raise SampleError(what, place, " contains NaN or inf; scores must be finite, or -inf to forbid a part")


class NativeSolution:
    """Solutions of a batch as tensors.

    Attributes
    ----------
    marginals, additional, values : Tensor
        As in `SolvedStructures`.
    """

    def __init__(self, marginals, additional, multiply, present):
        self._present = present.reshape(-1, *[1] * (marginals.dim() - 1))
        self._multiply = multiply
        self._replaced = None
        self.marginals, self.additional = self._without_empty(marginals, additional)

    def _without_empty(self, unary, extra):
        """Return tensors like marginals and additional marginals, with zeros for empty samples."""
        return torch.where(self._present, unary, 0.0), torch.where(self._present.flatten(1), extra, 0.0)

    def replace_failed(self, compiled, batch, rows, samples, lead):
        """Replace the solutions of some samples by those of the compiled method."""
        own = batch.take(samples)
        lengths = rows.cpu()[samples.cpu(), 1:]
        with naming(samples.tolist(), lead):
            solved = compiled.solve(*(part.cpu().numpy() for part in (own.scores, own.additional, lengths)))
        self._replaced = solved, samples
        self.marginals = self.marginals.index_copy(0, samples, torch.from_numpy(solved.marginals).to(own.scores))
        self.additional = self.additional.index_copy(0, samples, torch.from_numpy(solved.additional).to(own.scores))

    def set_values(self, batch):
        """Compute the objectives."""
        u, v = self.marginals, self.additional
        unary = torch.where(u > 0.0, batch.scores, 0.0) * u - 0.5 * u * u
        self.values = unary.flatten(1).sum(1) + (torch.where(v > 0.0, batch.additional, 0.0) * v).sum(1)

    def multiply(self, unary, extra):
        """Multiply directions (n_directions, n_samples, ...) of all scores with the Jacobian."""
        out, out_extra = self._without_empty(*self._multiply(unary, extra))
        if self._replaced is not None:
            solved, rows = self._replaced
            for k in range(len(unary)):
                products = solved.products(unary[k, rows].cpu().numpy(), extra[k, rows].cpu().numpy())
                for found, product in zip((out, out_extra), products):
                    found[k, rows] = torch.from_numpy(product).to(found)
        return out, out_extra
