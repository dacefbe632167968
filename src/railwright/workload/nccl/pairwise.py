"""All-to-all and send/recv: grouped point-to-point calls, for which NCCL has no cost model; here the injection bound.

Time = start + the larger of what the adapters and what NVLink must carry. With ``n`` ranks, ``g`` per node, size ``S`` (the whole
buffer of a rank), each GPU puts ``S (n - g) / n`` on the network through its share of the adapters, and moves over NVLink
``S (g - 1) / n`` for its neighbours plus, with PXN, ``(g - 1) / g`` of its network bytes to the adapter on the destination's
rail. No fabric delivers more than this bound; a fabric with oversubscription or ECMP collisions delivers less, which the
engines of `simulate` compute.
"""

import numpy as np
from numpy.typing import NDArray

from railwright.workload.nccl.shape import JobShape


def _rates(shape: JobShape) -> tuple[float, float]:
    """Return GB/s per GPU and direction: between GPUs of a node, and through the GPU's share of the adapters."""
    inside = shape.nvlink_counted if shape.nvlink_gbytes_s else shape.pcie_counted
    return inside, shape.nic_counted * shape.nics_per_node / shape.gpus_per_node


def pairwise_loads_us(
    collective: str, sizes: NDArray[np.float64], shape: JobShape
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return (start, time of NVLink, time of the adapters) in us for an even ``all-to-all`` or ``send-recv`` to the next rank."""
    constants = shape.constants
    ranks, per_node = shape.ranks, shape.gpus_per_node
    inside_rate, nic_rate = _rates(shape)
    link = "nvlink" if shape.nvlink_gbytes_s else "pci"
    start = constants.base_latency_us["ring"][2] + constants.link_latency_us[link]["ring"][2]
    many = shape.nodes > 1
    if many:
        start += constants.link_latency_us["net"]["tree"][2]
    nothing = np.zeros(sizes.size)
    if collective == "send-recv":
        one_link = inside_rate if shape.nvswitch or per_node == 1 else inside_rate / (per_node - 1)
        inside = sizes / (1000 * one_link) if per_node > 1 else nothing
        return start, inside, sizes / (1000 * shape.nic_counted) if many else nothing
    outside = sizes * (ranks - per_node) / ranks
    handed = outside * (per_node - 1) / per_node if shape.nics_per_node >= per_node else 0.0
    local = sizes * (per_node - 1) / ranks + handed
    start += (ranks - per_node) * constants.net_overhead_us[shape.cpu]
    return start, local / (1000 * inside_rate), outside / (1000 * nic_rate) if many else nothing


def pairwise_times_us(collective: str, sizes: NDArray[np.float64], shape: JobShape) -> NDArray[np.float64]:
    """Return the time of an even ``all-to-all`` or of ``send-recv`` (each rank to the next) for each of ``sizes`` in bytes."""
    start, inside, outside = pairwise_loads_us(collective, sizes, shape)
    return start + np.maximum(inside, outside)
