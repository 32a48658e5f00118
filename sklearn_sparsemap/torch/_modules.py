"""Layers as modules."""

from __future__ import annotations

from torch import Tensor, nn

from .._core.annotations import Any, Callable
from .._layers.forms import check_options
from ..factors import FactorGraph
from ..structures import Structure
from ._public import lp_sparsemap, sparsemap


class SparseMAP(nn.Module):
    """SparseMAP as a layer without learnable weights; see `sparsemap`.

    Parameters
    ----------
    structure : Structure
    temperature : float, or Tensor with one number, default=1.0
        Factor of the regulariser: the larger, the more structures are selected. A `torch.nn.Parameter` is learned.
    max_iter : int, default=None
        Maximum number of calls of the MAP oracle; None is exact.
    n_jobs : int, default=None
        Number of threads over the samples.
    tol : float, default=1e-9
        Duality gap.
    backend : {"auto", "compiled", "native"}, default="auto"
        Where to compute; see `sparsemap`.

    Raises
    ------
    ValueError
        If an option is out of range; calls raise it as `sparsemap` does.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.structures import Matching
    >>> from sklearn_sparsemap.torch import SparseMAP
    >>> layer = SparseMAP(Matching())
    >>> layer(torch.tensor([[[1.0, 0.5], [0.5, 1.0]]])).tolist()
    [[[0.75, 0.25], [0.25, 0.75]]]
    """

    def __init__(
        self,
        structure: Structure,
        temperature: float | Tensor = 1.0,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        tol: float = 1e-9,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_options(temperature, tol, max_iter, n_jobs)
        self.structure, self.temperature, self.max_iter = structure, temperature, max_iter
        self.n_jobs, self.tol, self.backend = n_jobs, tol, backend

    def forward(
        self,
        scores: Tensor,
        lengths: Any = None,
        *,
        mask: Any = None,
        return_additional: bool = False,
        return_structures: bool = False,
        **additional: Any,
    ) -> Any:
        """Return the marginals; see `sparsemap`."""
        return sparsemap(
            self.structure,
            scores,
            lengths,
            self.temperature,
            self.max_iter,
            self.n_jobs,
            mask=mask,
            tol=self.tol,
            backend=self.backend,
            return_additional=return_additional,
            return_structures=return_structures,
            additional=additional,
        )

    def extra_repr(self) -> str:
        """Return the options in the module's repr."""
        return f"{self.structure!r}, temperature={self.temperature}, max_iter={self.max_iter}"


class LPSparseMAP(nn.Module):
    """LP-SparseMAP as a layer without learnable weights; see `lp_sparsemap`.

    Parameters
    ----------
    graph : FactorGraph, or callable
        A function makes a graph from the shape of a sample; its graphs are kept by shape.
    temperature : float, or Tensor with one number, default=1.0
    max_iter : int, default=None
    n_jobs : int, default=None
    tol : float, default=1e-10
    backend : {"auto", "compiled", "native"}, default="auto"

    Raises
    ------
    ValueError
        If an option is out of range; calls raise it as `lp_sparsemap` does.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.factors import Budget, FactorGraph
    >>> from sklearn_sparsemap.torch import LPSparseMAP
    >>> graph = FactorGraph()
    >>> graph.add(Budget(graph.variables(3), 1))
    >>> LPSparseMAP(graph)(torch.tensor([[0.75, 0.25, 0.5]])).tolist()
    [[0.5833..., 0.0833..., 0.3333...]]
    """

    def __init__(
        self,
        graph: FactorGraph | Callable[[tuple[int, ...]], FactorGraph],
        temperature: float | Tensor = 1.0,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        tol: float = 1e-10,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_options(temperature, tol, max_iter, n_jobs)
        self.graph, self.temperature, self.max_iter, self.n_jobs, self.tol = graph, temperature, max_iter, n_jobs, tol
        self.backend = backend

    def forward(
        self,
        scores: Any,
        additional: Any = None,
        lengths: Any = None,
        *,
        mask: Any = None,
        return_additional: bool = False,
    ) -> Any:
        """Return the marginals; see `lp_sparsemap`."""
        return lp_sparsemap(
            self.graph,
            scores,
            additional,
            lengths,
            self.temperature,
            self.max_iter,
            self.n_jobs,
            mask=mask,
            tol=self.tol,
            return_additional=return_additional,
            backend=self.backend,
        )

    def extra_repr(self) -> str:
        """Return the options in the module's repr."""
        return f"{self.graph!r}, temperature={self.temperature}, max_iter={self.max_iter}"
