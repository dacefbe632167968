"""The constants of NCCL's and RCCL's cost models, read from ``data/nccl.yaml`` and ``data/rccl.yaml``.

The files say what each block means and where it comes from; this module only gives them types.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ruamel.yaml import YAML

PROTOCOLS = ("ll", "ll128", "simple")
ALGORITHMS = ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat")
ARCHITECTURES = ("volta", "ampere", "hopper", "blackwell", "cdna3", "cdna4")
AMD = ("cdna3", "cdna4")


@dataclass(frozen=True)
class Constants:
    """One library's constants: latencies in us, bandwidths in decimal GB/s; mappings by algorithm, architecture or CPU."""

    name: str
    version: str
    base_latency_us: Mapping[str, Sequence[float]]
    link_latency_us: Mapping[str, Mapping[str, Sequence[float]]]
    ll_max_by_gpu: Mapping[str, float]
    ll_max_by_cpu: Mapping[str, Sequence[float]]
    channel_max: Mapping[str, Mapping[str, Sequence[float]]]
    nvls_efficiency: Mapping[str, float]
    bandwidth_ratio: Mapping[str, Sequence[Sequence[float]]]
    tree_correction: Mapping[str, NDArray[np.float64]]
    ring_correction: Mapping[str, NDArray[np.float64]]
    net_overhead_us: Mapping[str, float]
    plateau: Mapping[str, float]
    speeds_intra: Mapping[str, Sequence[float]]
    speeds_inter: Mapping[str, Sequence[float]]
    nvlink: Mapping[str, Mapping[str, float]]
    pcie_gbytes_s: Mapping[int, float]
    pcie_generation: Mapping[str, int]
    channels: Mapping[str, int]
    threads: Mapping[str, Any]
    sources: Mapping[str, str]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The algorithms that this library knows, in its order."""
        return tuple(name for name in ALGORITHMS if name in self.base_latency_us)


@cache
def read_data(file: str) -> Mapping[str, Any]:
    """Return the mapping in ``data/file``, a YAML file of this package."""
    text = (files("railwright.workload.nccl") / "data" / file).read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = YAML(typ="safe", pure=True).load(text)
    return loaded


@cache
def constants_of(architecture: str) -> Constants:
    """Return NCCL's constants, or RCCL's for an AMD architecture."""
    data = dict(read_data("rccl.yaml" if architecture in AMD else "nccl.yaml"))
    speeds = data.pop("speeds")
    corrections: dict[str, Any] = {
        which: {key: np.asarray(factors, np.float64) for key, factors in data.pop(which, {}).items()}
        for which in ("tree_correction", "ring_correction")
    }
    absent: dict[str, Any] = {
        name: {}
        for name in ("ll_max_by_gpu", "ll_max_by_cpu", "channel_max", "nvls_efficiency", "bandwidth_ratio", "plateau")
        if name not in data
    }
    return Constants(speeds_intra=speeds["intra"], speeds_inter=speeds["inter"], **corrections, **data, **absent)
