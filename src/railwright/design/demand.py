"""From what a cluster has to serve to rates, boxes and links: closed forms, one per quantity, without any table.

Rates are Gb/s (1e9 bit/s) where they load a link and bytes/s where they load storage. ``headroom`` is planned capacity over
peak load. Every pool of boxes is sized N+1: what the load needs, and one to lose, never fewer than two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from railwright.spec.cluster import Demand, Site

REDUNDANT = 2
READ_PER_SERVER = 1.25e9
WRITE_PER_SERVER = 0.625e9
STORAGE_DEFAULT_SOURCE = (
    "40 GB/s read and 20 GB/s write per scalable unit of 32 systems: the middle class of the storage guideline in NVIDIA "
    "RA-11333, from memory, unverified"
)
SERVERS_PER_HEAD_SET = 1024
HEAD_SET = 4


def whole(amount: float) -> int:
    """Return ``amount`` rounded up, forgiving the last bits of a float."""
    return ceil(amount - 1e-9)


@dataclass(frozen=True)
class Entrance:
    """Peak load of one site's entrance, headroom included: Gb/s in each direction and requests per second."""

    inbound_gbps: float
    outbound_gbps: float
    requests_per_s: float

    @property
    def line_gbps(self) -> float:
        """What a full-duplex link must carry: the larger direction."""
        return max(self.inbound_gbps, self.outbound_gbps)

    @property
    def inspected_gbps(self) -> float:
        """What a box must look at that sees both directions."""
        return self.inbound_gbps + self.outbound_gbps


def entrance(demand: Demand, share: float = 1.0) -> Entrance:
    """Return the load of a site that takes ``share`` of the demand.

    In: (requests · request_bytes + ingest) · 8; out: requests · response_bytes · 8; both times headroom.
    """
    requests = (demand.requests or 0.0) * share
    ingest = (demand.ingest or 0.0) * share
    bits = 8e-9 * demand.headroom
    return Entrance(
        inbound_gbps=(requests * demand.request_bytes + ingest) * bits,
        outbound_gbps=requests * demand.response_bytes * bits,
        requests_per_s=requests * demand.headroom,
    )


def n_plus_one(load: float, capacity: float) -> int:
    """Return ceil(load / capacity) + 1, at least two."""
    return max(REDUNDANT, whole(load / capacity) + 1)


def redundant_links(load_gbps: float, link_gbps: float, ends: int) -> int:
    """Return the links, equal on each of ``ends`` boxes, that carry ``load_gbps`` when one of the boxes is lost."""
    others = max(1, ends - 1)
    per_box = max(1, whole(whole(load_gbps / link_gbps) / others))
    return per_box * ends


def site_shares(sites: Sequence[Site]) -> list[float]:
    """Return each site's part of the demand; sites without a share split what the others leave."""
    given = [site.share for site in sites]
    rest = 1.0 - sum(share for share in given if share is not None)
    open_sites = given.count(None)
    return [max(0.0, rest) / open_sites if share is None else share for share in given]


def planned_shares(shares: Sequence[float], *, anycast: bool) -> list[float]:
    """Return the part of the demand that each site is sized for.

    With anycast the others take over when a site is lost: share_i / (1 - share_j) for the worst lost site j, at most 1.
    """
    if not anycast or len(shares) < REDUNDANT:
        return list(shares)
    planned = []
    for index, share in enumerate(shares):
        lost = max(other for position, other in enumerate(shares) if position != index)
        planned.append(1.0 if lost >= 1.0 else min(1.0, share / (1.0 - lost)))
    return planned


def split_by_share(total: int, shares: Sequence[float]) -> list[int]:
    """Return whole parts of ``total`` in proportion to ``shares`` (largest remainders first)."""
    if not shares or sum(shares) <= 0:
        return [total, *[0] * (len(shares) - 1)] if shares else []
    exact = [total * share / sum(shares) for share in shares]
    parts = [int(part) for part in exact]
    by_remainder = sorted(range(len(shares)), key=lambda index: (parts[index] - exact[index], index))
    for index in by_remainder[: total - sum(parts)]:
        parts[index] += 1
    return parts


def head_nodes(servers: int) -> int:
    """Return the CPU nodes for control and logins at a site with ``servers`` GPU servers.

    Four per started 1,024 servers: the published 127-system H100 SuperPOD has four management servers; that one set is enough
    for 1,024 is an assumption of this program.
    """
    return HEAD_SET * -(-servers // SERVERS_PER_HEAD_SET)


@dataclass(frozen=True)
class StorageLoad:
    """What storage must give, in bytes/s, and which part of the demand asks for it."""

    read_bytes_s: float
    write_bytes_s: float
    read_why: str
    write_why: str

    def part(self, share: float) -> "StorageLoad":
        """Return the load of a site with ``share`` of the servers."""
        return replace(self, read_bytes_s=self.read_bytes_s * share, write_bytes_s=self.write_bytes_s * share)


def storage_load(demand: Demand, servers: int) -> StorageLoad:
    """Return the read and write rate that the demand needs.

    Read: the larger of ``dataset_read`` and ``restart_bytes / restart_load_time`` (``restart_bytes``: one checkpoint); write:
    ``checkpoint / checkpoint_time``. A part that nobody gave has the published guideline per server.
    """
    reads: list[tuple[float, str]] = []
    if demand.dataset_read is not None:
        reads.append((demand.dataset_read, "the dataset is read at this rate"))
    restart = demand.restart_bytes or demand.checkpoint
    if restart is not None and demand.restart_load_time:
        seconds = demand.restart_load_time / 1e6
        reads.append((restart / seconds, f"{restart / 1e12:g} TB load in {seconds:g} s after a failure"))
    if not reads:
        reads.append((servers * READ_PER_SERVER, f"no demand is given: {STORAGE_DEFAULT_SOURCE}"))
    read, read_why = max(reads)
    if demand.checkpoint is not None and demand.checkpoint_time:
        seconds = demand.checkpoint_time / 1e6
        write, write_why = demand.checkpoint / seconds, f"{demand.checkpoint / 1e12:g} TB are written in {seconds:g} s"
    else:
        write, write_why = servers * WRITE_PER_SERVER, f"no checkpoint is given: {STORAGE_DEFAULT_SOURCE}"
    return StorageLoad(read, write, read_why, write_why)


def appliances_needed(load: StorageLoad, read_bytes_s: float, write_bytes_s: float, wire_bytes_s: float) -> int:
    """Return the appliances: max over reading and writing of ceil(load / rate of one), and one to lose.

    An appliance is no faster than its links (``wire_bytes_s``).
    """
    need = max(
        load.read_bytes_s / min(read_bytes_s, wire_bytes_s), load.write_bytes_s / min(write_bytes_s, wire_bytes_s)
    )
    return max(REDUNDANT, whole(need) + 1)
