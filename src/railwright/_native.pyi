"""Types of the compiled engines (`native/`); shapes and meaning are documented in the Python faces under `simulate/`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def ecmp_hash(src: int, dst: int, entropy: int, seed: int) -> int: ...
def route_flows(
    node_kind: NDArray[np.uint8],
    link_src: NDArray[np.int32],
    link_dst: NDArray[np.int32],
    link_up: NDArray[np.uint8],
    node_up: NDArray[np.uint8],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    entropy: NDArray[np.uint32],
    mode: int,
    seed: int,
    scale_up: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]: ...

class PacketClass: ...
class PacketDcqcn: ...
class PacketHpcc: ...
class PacketDctcp: ...
class PacketCubic: ...
class PacketIbcc: ...
class PacketRun: ...

def simulate_packets(
    network: dict[str, NDArray[Any]],
    operations: dict[str, NDArray[Any]],
    changes: dict[str, NDArray[Any]],
    options: PacketRun,
) -> dict[str, Any]: ...
def flow_run(arrays: dict[str, NDArray[Any]], fold: bool, audit_every: int) -> dict[str, Any]: ...
def spray_paths(
    node_kind: NDArray[np.uint8],
    link_src: NDArray[np.int32],
    link_dst: NDArray[np.int32],
    link_up: NDArray[np.uint8],
    node_up: NDArray[np.uint8],
    weight: NDArray[np.float64],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    bundle: bool,
) -> dict[str, NDArray[Any]]: ...
def max_min_rates(
    capacity: NDArray[np.float64],
    path_offset: NDArray[np.int64],
    path_link: NDArray[np.int32],
    path_share: NDArray[np.float64],
    weight: NDArray[np.float64],
    cap: NDArray[np.float64],
    priority: NDArray[np.uint8],
) -> NDArray[np.float64]: ...
