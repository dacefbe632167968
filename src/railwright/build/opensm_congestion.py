"""Congestion control of the InfiniBand specification (FECN and BECN), as keys that the open-source OpenSM knows.

A variant, not part of ``opensm.conf``: OpenSM calls the feature experimental, NVIDIA's own build sets another scheme, and one
OpenSM sets the same values on all switches. The values are those of the first measurements on hardware (Gran et al., *First
Experiences with Congestion Control in InfiniBand Hardware*, IPDPS 2010), written from memory and not verified for rates
above 40 Gb/s: a start for a measurement, not a recommendation.
"""

from railwright.design.qos import QosContract

TABLE_ENTRIES = 128
"""Entries of the injection delay table; entry ``i`` delays by ``i`` packet times (shift 0, multiplier ``i``)."""
_SWITCH = {
    "cc_sw_cong_setting_control_map": "0x14",  # threshold and packet size valid (bit 2), marking rate valid (bit 4)
    "cc_sw_cong_setting_threshold": "0x0F",
    "cc_sw_cong_setting_packet_size": "8",
    "cc_sw_cong_setting_marking_rate": "0",
}
_LEVEL = {
    "cc_ca_cong_setting_ccti_timer": 150,
    "cc_ca_cong_setting_ccti_increase": 1,
    "cc_ca_cong_setting_trigger_threshold": 2,
    "cc_ca_cong_setting_ccti_min": 0,
}


def congestion(contract: QosContract) -> str:
    """Return the lines that switch congestion control on for every service level of ``contract``."""
    levels = sorted({c.priority for c in contract.classes})
    mask = sum(1 << level for level in levels)
    lines = [
        "# VARIANT: congestion control by the open-source OpenSM, which calls it experimental. Not verified on a fabric.",
        "# Replaces the line congestion_control of opensm.conf. cc_key stays 0 here: set your own on the subnet manager.",
        "congestion_control TRUE",
        *(f"{key} {value}" for key, value in _SWITCH.items()),
        "cc_ca_cong_setting_port_control 0x0001",
        f"cc_ca_cong_setting_control_map 0x{mask:04X}",
        *(f"{key} {level} {value}" for level in levels for key, value in _LEVEL.items()),
        f"cc_cct {','.join(f'0:{entry}' for entry in range(TABLE_ENTRIES))}",
    ]
    return "\n".join([*lines, ""])
