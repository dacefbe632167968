"""Which adapter is nearest to which GPU, read from ``nvidia-smi topo -m``.

The matrix has a column per GPU and per adapter; adapters are called ``NIC0`` with their RDMA device in the "NIC Legend" below,
or, before driver 510, by their RDMA device. Distances, as the tool's own legend orders them: PIX (one PCIe bridge), PXB
(several), PHB (the host bridge), NODE (several host bridges of a NUMA node), SYS (between NUMA nodes).
"""

import re
from dataclasses import dataclass

from railwright.errors import InputError

DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""From near to far."""
DIRECT = ("PIX", "PXB")
"""Distances that stay below the host bridge, which is as far as NCCL uses GPUDirect RDMA by default (NCCL_NET_GDR_LEVEL)."""

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_LEGEND = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The adapters at the least distance from a GPU, in the tool's order; ``distance`` is one of ``DISTANCES``."""

    distance: str
    devices: tuple[str, ...]


def nearest_adapters(text: str) -> dict[int, Nearest]:
    """Return GPU → its nearest adapters; GPUs without one (a machine without adapters) are not in it.

    Raises InputError when ``text`` has no matrix.
    """
    plain = _ESCAPE.sub("", text)
    rows = [line.split() for line in plain.splitlines() if line.strip()]
    header = next((row for row in rows if row[0] == "GPU0" and "X" not in row), None)
    if header is None:
        raise InputError("not the output of 'nvidia-smi topo -m': it has no header line that begins with GPU0")
    legend = dict(_LEGEND.findall(plain))
    end = header.index("CPU") if "CPU" in header else len(header)
    adapters = [(index, name) for index, name in enumerate(header[:end], start=1) if not name.startswith("GPU")]
    found = {}
    for row in rows:
        if row is header or not re.fullmatch(r"GPU\d+", row[0]) or "X" not in row:
            continue
        at = {name: row[index] for index, name in adapters if index < len(row) and row[index] in DISTANCES}
        if at:
            least = min(at.values(), key=DISTANCES.index)
            found[int(row[0][3:])] = Nearest(least, tuple(legend.get(n, n) for n, d in at.items() if d == least))
    return found
