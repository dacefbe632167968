"""Where the ranks of a job sit: one array per fact, indexed by rank.

A *domain* is the set of GPUs that NVLink, NVSwitch or xGMI joins: a server, or a rack of trays for an NVL72. It is what NCCL
calls a node. ``rail`` counts from 1 as in the plan; ``local`` is the index of the GPU inside its server and counts from 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railwright.errors import InputError


@dataclass(frozen=True)
class Placement:
    """Arrays of ``n`` ranks, all uint32: ``gpu`` (global GPU id), ``server``, ``local``, ``rail``, ``domain``."""

    gpu: NDArray[np.uint32]
    server: NDArray[np.uint32]
    local: NDArray[np.uint32]
    rail: NDArray[np.uint32]
    domain: NDArray[np.uint32]

    @classmethod
    def of(
        cls,
        gpus: int | Sequence[int] | NDArray[np.integer],
        *,
        gpus_per_server: int,
        rails: int | None = None,
        domain_gpus: int | None = None,
    ) -> "Placement":
        """Return the placement of ranks on ``gpus`` (a count from GPU 0, or global GPU ids in rank order).

        ``rails`` is the number of backend NIC positions of a server (default: one per GPU; fewer means that neighbouring GPUs
        share one), ``domain_gpus`` the size of the scale-up domain (default: the server). Raises InputError.
        """
        rails = gpus_per_server if rails is None else rails
        domain_gpus = gpus_per_server if domain_gpus is None else domain_gpus
        for name, value in (("gpus_per_server", gpus_per_server), ("rails", rails), ("domain_gpus", domain_gpus)):
            if value < 1:
                raise InputError(f"{value} is not a count; at least 1 is needed", key=name)
        ids = np.arange(gpus) if isinstance(gpus, int) else np.asarray(gpus, np.int64)
        if ids.size == 0:
            raise InputError("no rank is placed; at least one GPU is needed", key="gpus")
        if ids.min() < 0:
            raise InputError(f"{ids.min()} is not a GPU id; ids count from 0", key="gpus")
        values, counts = np.unique(ids, return_counts=True)
        if values.size < ids.size:
            raise InputError(f"GPU {values[counts > 1][0]} has two ranks; one rank per GPU is needed", key="gpus")
        local = ids % gpus_per_server
        return cls(
            gpu=ids.astype(np.uint32),
            server=(ids // gpus_per_server).astype(np.uint32),
            local=local.astype(np.uint32),
            rail=(local * rails // gpus_per_server + 1).astype(np.uint32),
            domain=(ids // domain_gpus).astype(np.uint32),
        )

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return int(self.gpu.size)

    @property
    def domains(self) -> int:
        """How many scale-up domains hold at least one rank."""
        return int(np.unique(self.domain).size)

    @property
    def balanced(self) -> bool:
        """Whether every domain in use holds the same number of ranks, on the same rails in the same order."""
        _, counts = np.unique(self.domain, return_counts=True)
        if not bool(np.all(counts == counts[0])):
            return False
        rails = self.rail[self._sorted()].reshape(counts.size, -1)
        return bool(np.all(rails == rails[0]))

    def _sorted(self) -> NDArray[np.intp]:
        return np.lexsort((self.gpu, self.domain))

    def grid(self) -> NDArray[np.int64]:
        """Return ranks as a matrix (domains, ranks per domain); a column has one rail. Raises InputError if not balanced."""
        if not self.balanced:
            raise InputError(
                "the domains hold different numbers of ranks or different rails, so that no hierarchical algorithm fits; "
                "place the same GPUs of every server or choose algorithm 'ring-flat'",
                key="ranks",
            )
        return self._sorted().astype(np.int64).reshape(self.domains, -1)

    def relay(self, src: NDArray[np.integer], dst: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return for each pair of ranks the rank that puts the data on the network when NVLink may be used first.

        That is the rank of ``src``'s domain on the rail of ``dst`` (PXN), or ``src`` itself when it is on that rail already,
        when both are in one domain, or when the domain has no rank on that rail.
        """
        order = np.lexsort((self.gpu, self.rail, self.domain))
        width = int(self.rail.max()) + 1
        keys = (self.domain.astype(np.int64) * width + self.rail)[order]
        wanted = self.domain[src].astype(np.int64) * width + self.rail[dst]
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        stays = (self.domain[src] == self.domain[dst]) | (self.rail[src] == self.rail[dst]) | (keys[place] != wanted)
        return np.where(stays, src, order[place]).astype(np.int64)
