"""How a switch shares traffic over equal paths: what each operating system makes of the plan's path mode, and what it cannot.

Modes are those of ``backend.load_balancing``. ``ecmp`` hashes addresses, ports and protocol; that spreads queue pairs too,
because a RoCEv2 sender takes another UDP source port for each. Sources:

- NVUE: *System Forwarding* and *Adaptive Routing* of the NVUE reference (docs.nvidia.com/networking-ethernet-software). Adaptive
  routing chooses a port for every packet; its hash has no field of the RDMA header, and flowlets cannot be asked for.
- SONiC: ``sonic-hash.yang`` (fields ``RDMA_BTH_DEST_QP``) and ``sonic-ars.yang`` of sonic-buildimage. The latter is of
  October 2025: older releases refuse the ``ARS_`` tables. Not tried on a switch.
- EOS: dynamic load balancing, ``ip hardware fib load-balance distribution dynamic``, as pyavd's schema has it (``ip_hardware``);
  it moves flowlets by the load of the ports. Its schema has no spraying per packet. The hash over addresses and ports is
  the default.
- FRR says nothing of it: on Linux the hash is a sysctl, on a switch the business of its own software.
"""

from collections.abc import Mapping

HASHED = ("ecmp", "ecmp-qp")
BY_LOAD = ("flowlet", "adaptive", "spray")
MODES = (*HASHED, *BY_LOAD)

_FLOWS = "Linux hashes each flow once"
_RENDERED: Mapping[str, Mapping[str, tuple[str | None, str]]] = {
    "sonic": {mode: (mode, "") for mode in ("ecmp", "ecmp-qp", "flowlet", "spray")} | {"adaptive": ("spray", "")},
    "nvue": {
        "ecmp": ("ecmp", ""),
        "ecmp-qp": ("ecmp", ""),
        "flowlet": ("ecmp", "NVUE cannot ask for flowlets: flows are hashed"),
        "adaptive": ("adaptive", ""),
        "spray": ("adaptive", ""),
    },
    "eos": {
        "ecmp": (None, ""),
        "ecmp-qp": (None, ""),
        "flowlet": ("flowlet", ""),
        "adaptive": ("flowlet", ""),
        "spray": ("flowlet", "pyavd's schema has no spraying per packet: flowlets are moved by load"),
    },
    "frr": {mode: (None, "" if mode in HASHED else _FLOWS) for mode in MODES},
}
"""Per operating system and mode: the mode that its configuration says (None: nothing), and what is missing of it."""


def rendered_mode(nos: str, mode: str | None) -> str | None:
    """Return what ``nos`` says for ``mode``: the nearest mode that it can express, None when it says nothing."""
    return None if mode is None else _RENDERED[nos][mode][0]


def shortfall(nos: str, mode: str | None) -> str:
    """Return what ``nos`` cannot do of ``mode``; empty when it does all of it."""
    return "" if mode is None else _RENDERED[nos][mode][1]
