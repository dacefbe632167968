"""NCCL's topology search, reduced to servers whose GPUs and adapters are all alike.

NCCL looks for the number of channels and the rate of a channel that carry the most through NVLink, PCIe and the adapters,
trying the rates of a fixed grid from the highest down (first pass), then raising the rate between nodes or inside a node
where there is room (second pass). For a symmetric server each link's load per channel is known, so that the search becomes a
few divisions. Source: NCCL 2.30.7, src/graph/search.cc (`ncclTopoCompute`), src/init.cc (limits per algorithm).

Known differences: an asymmetric server (adapters on some PCIe switches only, several sockets without NVLink) is seen as
symmetric; a search that times out in NCCL may stop at a lower rate than here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from railwright.workload.nccl.environment import Environment
from railwright.workload.nccl.shape import JobShape

_SLACK = 1e-6


@dataclass(frozen=True)
class Graph:
    """What the search found for one algorithm: channels and GB/s per channel inside a node and between nodes.

    ``link`` is ``nvlink`` or ``pci``: what joins the GPUs of a node. No channels: the algorithm cannot run here.
    """

    channels: int
    intra_gbytes_s: float
    inter_gbytes_s: float
    link: str


def _times(available: float, each: float) -> int:
    return floor(available / each + _SLACK)


@dataclass(frozen=True)
class _Room:
    """What a node offers, GB/s per GPU and direction (``out``) and through its adapters.

    ``handed``: rings leave a node by the adapter by which they entered it, so that the last GPU hands its data over NVLink to
    the GPU of that adapter (NCCL_CROSS_NIC=0 where each GPU has an adapter of its own).
    """

    shape: JobShape
    out: float
    link: str
    handed: bool

    def net_channels(self, speed: float) -> int:
        """Channels of ``speed`` that adapters, and the PCIe links of the job's GPUs, can carry between nodes."""
        shape = self.shape
        if shape.nodes == 1:
            return shape.constants.channels["most"]
        return min(
            shape.nics_per_node * _times(shape.nic_counted, speed),
            shape.gpus_per_node * _times(shape.pcie_counted, speed),
        )

    def ring_channels(self, speed: float) -> int:
        gpus = self.shape.gpus_per_node
        if gpus == 1:
            return self.net_channels(speed)
        hops = gpus if self.shape.nodes == 1 or self.handed else gpus - 1
        if self.shape.nvswitch:
            inside = _times(self.out * gpus / hops, speed)
        else:
            inside = (gpus - 1) * _times(self.out / (gpus - 1), speed) * gpus // hops
        return min(inside, self.net_channels(speed))

    def tree_fits(self, channels: int, intra: float, inter: float) -> bool:
        gpus = self.shape.gpus_per_node
        share = (gpus - 1) / gpus
        return channels * intra * share <= self.out + _SLACK and channels <= self.net_channels(inter)

    def nvls_channels(self, speed: float, most: int) -> int:
        return min(_times(self.out, speed) - 1, self.net_channels(speed), most)


def _first_pass(
    speeds: Sequence[float],
    max_speed: float,
    total: float,
    channels: Callable[[float], int],
    least: int,
    most: int,
    *,
    prefer_channels: bool = False,
) -> tuple[int, float]:
    """Return (channels, speed): the grid is followed down to half the best speed, the largest product wins."""
    best = (0, 0.0)
    for index, speed in enumerate(speeds):
        last = index == len(speeds) - 1
        if (speed > max_speed + _SLACK or speed * least > total + _SLACK) and not last:
            continue
        count = min(channels(speed), most)
        better = count * speed > best[0] * best[1] + _SLACK
        if count >= least and (better or (prefer_channels and count > best[0])):
            best = (count, speed)
        if best[0] == most or best[0] * best[1] >= total - _SLACK:
            break
        if best[0] and not last and speeds[index + 1] / best[1] <= 0.49:
            break
    return best


def _duplicated(shape: JobShape, channels: int, speed: float, most: int) -> tuple[int, float]:
    """Return twice the channels at half the speed where NCCL does so, to use more of the GPU per channel's bandwidth."""
    modern = shape.architecture not in ("volta", "ampere")
    if channels == 0 or speed < 25 or (modern and speed < 50 and channels > 4):
        return channels, speed
    doubled = min(2 * channels, most)
    return doubled, speed / -(-doubled // channels)


def _raised(speeds: Sequence[float], start: float, fits: Callable[[float], bool], limit: float) -> float:
    """Return the rate after NCCL's second pass: step by step up the grid from ``start`` while it fits and is below ``limit``."""
    speed = start
    for candidate in sorted(value for value in speeds if value > start + _SLACK):
        if speed >= limit - _SLACK or not fits(candidate):
            break
        speed = candidate
    return speed


def graphs_of(shape: JobShape, environment: Environment) -> Mapping[str, Graph]:
    """Return the graph of each algorithm for ``shape`` under the user's NCCL variables."""
    constants = shape.constants
    linked = shape.nvlink_gbytes_s > 0 and environment.nvlink
    room = _Room(
        shape=shape,
        out=shape.nvlink_counted if linked else shape.pcie_counted,
        link="nvlink" if linked or shape.gpus_per_node == 1 else "pci",
        handed=environment.cross_nic == 0 and shape.nodes > 1 and linked and shape.nics_per_node >= shape.gpus_per_node,
    )
    grid = constants.speeds_intra if shape.nodes == 1 else constants.speeds_inter
    speeds = grid[shape.architecture]
    max_speed = room.out if shape.nodes == 1 else min(shape.nic_counted, shape.pcie_counted)
    most = constants.channels["most"] // 2
    gpus = shape.gpus_per_node
    count, speed = _first_pass(speeds, max_speed, room.out, room.ring_channels, 1, most)
    if count == 0:
        count, speed = 1, speeds[-1]
    count, speed = _duplicated(shape, count, speed, most)
    if count <= most:
        speed = _raised(speeds, speed, lambda value: room.ring_channels(value) >= count, speeds[0])
    found = {"ring": Graph(count, speed, speed, room.link)}
    found["tree"] = found["collnet-chain"] = _tree(room, speeds, count, speed)
    found["pat"] = found["tree"]
    if not constants.nvls_efficiency:
        return found
    direct = min(constants.channels["direct_arity"] + 1, gpus)
    count, speed = _first_pass(
        speeds,
        max_speed,
        room.out,
        lambda value: min(_times(room.out, 2 * value) * direct, room.net_channels(value)),
        1,
        direct,
    )
    inner = _raised(speeds, speed, lambda value: 2 * value <= room.out + _SLACK, 2 * speed)
    found["collnet-direct"] = Graph(count, inner, speed, room.link)
    found["nvls"] = found["nvls-tree"] = _nvls(room, speeds, max_speed)
    return found


def _tree(room: _Room, speeds: Sequence[float], channels: int, ring_speed: float) -> Graph:
    """Return the graph of trees with as many channels as the ring; the rate inside a node may be up to twice that between."""
    if room.shape.gpus_per_node == 1:
        return Graph(channels, ring_speed, ring_speed, room.link)
    fitting = [speed for speed in speeds if room.tree_fits(channels, speed, speed)]
    inter = fitting[0] if fitting else ring_speed
    intra = _raised(speeds, inter, lambda value: room.tree_fits(channels, value, inter), 2 * inter)
    return Graph(channels, intra, inter, room.link)


def _nvls(room: _Room, speeds: Sequence[float], max_speed: float) -> Graph:
    """Return the NVLS graph: one channel per GPU that pulls from the switch; each port carries all of them plus its own again."""
    shape = room.shape
    none = Graph(0, 0.0, 0.0, room.link)
    efficient = shape.constants.nvls_efficiency.get(shape.architecture, 0.0) > 0
    if not (efficient and shape.nvswitch and room.link == "nvlink" and shape.gpus_per_node > 1):
        return none
    gpus = shape.gpus_per_node
    most = min(shape.constants.channels["nvls_arity"], gpus)
    least = most if shape.nodes == 1 else 1
    count, intra = _first_pass(
        speeds,
        max_speed,
        room.out * gpus / (gpus - 1),
        lambda value: room.nvls_channels(value, most),
        least,
        most,
        prefer_channels=True,
    )
    if count == 0:
        return none
    inter = _raised(speeds, intra, lambda value: count <= room.net_channels(value), 2 * intra)
    return Graph(count, intra, inter, room.link)
