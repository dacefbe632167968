"""How much of a link's rate is left for payload: headers, acknowledgements, and what congestion control leaves unused.

Line rates (400G, NDR) are net of line coding and FEC, so only packet overhead counts. Headers and acknowledgements are closed
forms. Sources: IEEE 802.3 (preamble 8, minimum gap 12, MAC header 14, FCS 4), RFC 791 (20), RFC 768 (8), RFC 9293 and RFC 7323
(TCP 20 and timestamps 12), InfiniBand architecture specification volume 1, chapters 7 and 9 (LRH 8, BTH 12, ICRC 4, VCRC 2,
AETH 4) and annex A17 (RoCEv2). RETH (16 bytes once per message) is left out: below 0.01 % of a message of 256 KiB.

What congestion control leaves is measured: ``data/goodput.json`` holds it with the packet-engine runs that made it, written by
``railwright doctor --calibration`` (see `calibration`).
"""

from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from railwright.errors import InputError, nearest

Carrier = Literal["rocev2", "infiniband", "tcp"]

MTU_BYTES = 4096
"""The largest InfiniBand path MTU, and the one that RoCE NICs use under a 9000-byte Ethernet MTU."""

_ETHERNET = 8 + 12 + 14 + 4
OVERHEAD_BYTES = {
    "rocev2": _ETHERNET + 20 + 8 + 12 + 4,
    "infiniband": 8 + 12 + 4 + 2,
    "tcp": _ETHERNET + 20 + 20 + 12,
}
"""Bytes on the wire per packet beside its payload."""

ACK_BYTES = {"rocev2": OVERHEAD_BYTES["rocev2"] + 4, "infiniband": OVERHEAD_BYTES["infiniband"] + 4, "tcp": 90}
"""Bytes on the wire per acknowledgement: headers and AETH; TCP's has no payload."""

PACKETS_PER_ACK = {"rocev2": 1, "infiniband": 1, "tcp": 2}
"""The packet engine's setting for RDMA; RFC 5681 asks for one at least every second full segment."""

FILE = "data/goodput.json"
Share = Annotated[float, Field(gt=0, le=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Measured(_Model):
    """One run of the packet engine: ``senders`` (to one receiver, or each to another host) as long as they can.

    ``utilisation``: share of the receivers' line rate between ``from_us`` and ``to_us``. ``idle_us``: how long the receivers'
    links stood idle before that, while the senders looked for their rate. ``gave_up``: senders that sent nothing any more
    (retries used up). ``digest`` names the run's result.
    """

    pattern: Literal["incast", "permutation"]
    senders: Annotated[int, Field(ge=2)]
    from_us: float
    to_us: float
    gave_up: Annotated[int, Field(ge=0)]
    utilisation: Annotated[float, Field(ge=0, le=1)]
    idle_us: Annotated[float, Field(ge=0)]
    ecn_marks: int
    drops: int
    paused_us: float
    digest: str


class Goodput(_Model):
    """What is left for payload with one transport, way of meeting congestion, path mode and MTU.

    ``header_share``: payload over wire bytes of full packets. ``ack_share``: wire bytes of acknowledgements that come back per
    wire byte of data. ``incast_share`` and ``spread_share``: what congestion control leaves of a link into an endpoint, or
    between switches, that several senders fill; the means of ``runs`` in which nobody
    gave up (hashed paths: both that of the incasts).
    """

    congestion: str
    transport: Carrier
    paths: str
    mtu_bytes: int
    header_share: Share
    ack_share: Annotated[float, Field(ge=0, lt=1)]
    incast_share: Share
    spread_share: Share
    runs: tuple[Measured, ...]

    def sentence(self, made_by: str, *, acknowledged: bool) -> str:
        """Return what a result says of these constants."""
        acks = f"acknowledgements {self.ack_share:.1%} the other way" if acknowledged else "acknowledgements left out"
        return (
            f"goodput of {self.transport}, {self.congestion}, {self.paths}, MTU {self.mtu_bytes}: payload "
            f"{self.header_share:.1%} of the wire, {acks}; what several senders fill is used to {self.incast_share:.1%} into "
            f"an endpoint, {self.spread_share:.1%} between switches ({made_by})"
        )


class GoodputFile(_Model):
    """``data/goodput.json``: who made it, on which network, and the rows."""

    made_by: str
    engine_version: str
    seed: int
    network: str
    rows: tuple[Goodput, ...]


def goodput_share(transport: Carrier, mtu_bytes: int = MTU_BYTES) -> float:
    """Return payload over wire bytes of full packets: 0.980 for RoCEv2, 0.994 for InfiniBand at 4096 bytes."""
    return mtu_bytes / (mtu_bytes + OVERHEAD_BYTES[transport])


def ack_share(transport: Carrier, mtu_bytes: int = MTU_BYTES) -> float:
    """Return wire bytes of acknowledgements per wire byte of data: 2.1 % for RoCEv2, 0.7 % for InfiniBand at 4096 bytes."""
    return ACK_BYTES[transport] / PACKETS_PER_ACK[transport] / (mtu_bytes + OVERHEAD_BYTES[transport])


@cache
def goodput_file() -> GoodputFile:
    """Return the constants that come with the package."""
    text = files("railwright.simulate").joinpath(FILE).read_text(encoding="utf-8")
    return GoodputFile.model_validate_json(text)


def calibrated(congestion: str, paths: str, mtu_bytes: int = MTU_BYTES) -> Goodput:
    """Return the measured constants of a way of meeting congestion (a QoS profile, ``credits`` or ``tcp``) and a path mode.

    Path modes that were not run count as the alike one: ``rail`` and ``flowlet`` as ``ecmp``. Where a congestion profile was
    run with hashed or with spread paths only, those it was run with stand in. Raises InputError for what is unknown.
    """
    rows = [row for row in goodput_file().rows if row.mtu_bytes == mtu_bytes]
    known = {row.congestion for row in rows}
    if congestion not in known:
        raise InputError(
            f"there are no goodput constants of {congestion!r} at MTU {mtu_bytes}{nearest(congestion, known)}; there are "
            f"those of {', '.join(sorted(known))}",
            key="congestion",
        )
    of_it = {row.paths: row for row in rows if row.congestion == congestion}
    way = paths if paths in of_it else {"spray": "adaptive", "adaptive": "spray"}.get(paths, "ecmp")
    return of_it[way] if way in of_it else next(iter(of_it.values()))
