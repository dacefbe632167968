"""How much of a link's rate is left for payload: bytes of headers and gaps per packet, by transport.

Line rates (400G, NDR) are net of line coding and FEC, so only packet overhead counts. Sources: IEEE 802.3 (preamble 8, minimum
gap 12, MAC header 14, FCS 4), RFC 791 (20), RFC 768 (8), InfiniBand architecture specification volume 1, chapters 7 and 9 (LRH 8,
BTH 12, ICRC 4, VCRC 2) and annex A17 (RoCEv2). Known error: RETH (16 bytes once per message) and acknowledgements, below 0.5 %
together, are left out.
"""

from typing import Literal

MTU_BYTES = 4096
"""The largest InfiniBand path MTU, and the one that RoCE NICs use under a 9000-byte Ethernet MTU."""

OVERHEAD_BYTES = {
    "rocev2": 8 + 12 + 14 + 20 + 8 + 12 + 4 + 4,
    "infiniband": 8 + 12 + 4 + 2,
}
"""Bytes on the wire per packet beside its payload."""


def goodput_share(transport: Literal["rocev2", "infiniband"], mtu_bytes: int = MTU_BYTES) -> float:
    """Return payload over wire bytes of full packets: 0.980 for RoCEv2, 0.994 for InfiniBand at 4096 bytes."""
    return mtu_bytes / (mtu_bytes + OVERHEAD_BYTES[transport])
