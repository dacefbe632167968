"""Arista EOS: the running configuration, rendered by Arista's own pyavd from its structured model, and read back.

pyavd checks the model against its schema before it renders; it comes with the extra ``eos``. EOS sizes PFC headroom by
itself and has no cable length; an interface's breakout follows from its name and speed.
"""

from typing import Any

from railwright.build.contract import (
    EVERYTHING,
    GATEWAY_MAC,
    NOT_MAPPED,
    Bgp,
    DeviceView,
    Neighbor,
    Port,
    Qos,
)
from railwright.build.eos_reader import FILE, read
from railwright.build.path_modes import rendered_mode
from railwright.build.route_filters import filters_of, leak_name
from railwright.errors import InputError, MissingError

__all__ = ["FILE", "read", "render", "structured_config"]

BFD_MS = 100
ANY_AS = "ANY-AS"
_ACTIONS = {"drop": "drop", "alert": "notify-only", "forward": "notify-only"}
_FEC = {"rs": "reed_solomon", "fc": "fire_code"}
_WITH_LANES = {
    (400, 4),
    (400, 8),
    (800, 8),
    (200, 4),
    (200, 2),
    (100, 1),
    (100, 2),
    (100, 4),
    (800, 4),
    (400, 2),
    (200, 1),
}

Model = dict[str, Any]


def render(view: DeviceView) -> dict[str, str]:
    """Return ``startup-config``; raises MissingError without pyavd and InputError for what EOS's schema refuses."""
    try:
        from pyavd import get_device_config, validate_structured_config
    except ImportError:
        raise MissingError(
            "EOS configuration is rendered by pyavd, which is not installed: pip install 'railwright[eos]'"
        ) from None
    checked = validate_structured_config(structured_config(view))
    if checked.validated_data is None:
        raise InputError(f"{view.name}: EOS's schema refuses the configuration: {checked.validation_result}")
    return {FILE: get_device_config(checked.validated_data)}


def structured_config(view: DeviceView) -> Model:
    """Return the view in the structured model of pyavd's ``eos_cli_config_gen``."""
    profiles: dict[tuple[Any, ...], str] = {}
    for port in view.ports:
        profiles.setdefault(_profile_key(port), _profile_name(port))
    model: Model = {
        "hostname": view.name,
        "service_routing_protocols_model": "multi-agent",
        "ip_routing": True,
        "ipv6_unicast_routing": True,
        "ip_routing_ipv6_interfaces": True,
        "vrfs": [{"name": vrf, "ip_routing": True} for vrf in sorted(_vrf_names(view))],
        "ethernet_interfaces": [_interface(p, view, profiles[_profile_key(p)]) for p in view.ports],
    }
    if view.loopbacks:
        v4 = [a for a in view.loopbacks if ":" not in a]
        v6 = [a for a in view.loopbacks if ":" in a]
        loopback: Model = {"name": "Loopback0"}
        if v4:
            loopback |= {"ip_address": v4[0], "ip_address_secondaries": v4[1:]}
        if v6:
            loopback["ipv6_addresses"] = v6
        model["loopback_interfaces"] = [loopback]
    if view.qos is not None:
        model |= _qos(view.qos)
        model["qos_profiles"] = [
            _profile(name, port, view.qos) for name, port in {profiles[_profile_key(p)]: p for p in view.ports}.items()
        ]
    if view.bgp is not None:
        model["router_bgp"] = _bgp(view.bgp, view)
        model["peer_filters"] = [
            {"name": ANY_AS, "sequence_numbers": [{"sequence": 10, "match": "as-range 1-4294967295 result accept"}]}
        ]
        model["router_bfd"] = {"interval": BFD_MS, "min_rx": BFD_MS, "multiplier": 3}
        model |= _filters(view.bgp)
    model |= _layer2(view)
    if rendered_mode("eos", view.balancing) == "flowlet":
        model["ip_hardware"] = {"fib": {"load_balance_distribution": {"dynamic": {"enabled": True}}}}
    return model


def _vrf_names(view: DeviceView) -> set[str]:
    named = {p.vrf for p in view.ports} | {v.name for v in view.vrfs} | {v.vrf for v in view.vlans}
    return named - {"default"}


def _layer2(view: DeviceView) -> Model:
    """Return bonds as Ethernet segments, VLANs with anycast gateways, and the VXLAN interface."""
    if not view.vlans and not view.vrfs and not any(p.bond for p in view.ports):
        return {}
    bonds = {p.bond: p for p in view.ports if p.bond is not None}
    found: Model = {
        "vlans": [{"id": v.vid} for v in view.vlans],
        "port_channel_interfaces": [
            {
                "name": f"Port-Channel{number}",
                "mtu": port.mtu or None,
                "switchport": {"enabled": True, "mode": "access"} | ({"access_vlan": port.vlan} if port.vlan else {}),
                "evpn_ethernet_segment": {
                    "identifier": f"0000:{number // 65536:04x}:{number % 65536:04x}:0000:0001",
                    "route_target": f"00:00:00:{number // 65536 % 256:02x}:{number // 256 % 256:02x}:{number % 256:02x}",
                },
                "lacp_id": f"0000.{number // 65536:04x}.{number % 65536:04x}",
            }
            for number, port in sorted(bonds.items())
        ],
        "vlan_interfaces": [
            {"name": f"Vlan{v.vid}"}
            | ({"vrf": v.vrf} if v.vrf != "default" else {})
            | (
                {"ip_address_virtual": v.gateways[0], "ip_address_virtual_secondaries": list(v.gateways[1:])}
                if v.gateways
                else {}
            )
            for v in view.vlans
            if v.gateways or v.vrf != "default"
        ],
        "ip_virtual_router_mac_address": GATEWAY_MAC,
    }
    vxlan: Model = {
        "source_interface": "Loopback0",
        "udp_port": 4789,
        "vlans": [{"id": v.vid, "vni": v.vni} for v in view.vlans if v.vni is not None],
        "vrfs": [{"name": v.name, "vni": v.vni} for v in view.vrfs],
    }
    if vxlan["vlans"] or vxlan["vrfs"]:
        found["vxlan_interface"] = {"vxlan1": {"vxlan": vxlan}}
    found["port_channel_interfaces"] = [
        {k: v for k, v in p.items() if v is not None} for p in found["port_channel_interfaces"]
    ]
    return found


def _profile_key(port: Port) -> tuple[Any, ...]:
    return port.trust_dscp, port.pfc, port.watchdog, port.marking


def _profile_name(port: Port) -> str:
    parts = [
        "QOS",
        f"{port.speed_gbps:g}G" if port.marking else "",
        "PFC" + "".join(map(str, port.pfc)) if port.pfc else "",
    ]
    parts += [f"Q{m.queue}-{m.kmin_bytes}-{m.kmax_bytes}-{m.probability_percent}" for m in port.marking]
    parts += ["" if port.trust_dscp else "UNTRUSTED", "WD" if port.watchdog else ""]
    return "-".join(part for part in parts if part)


def _interface(port: Port, view: DeviceView, profile: str) -> Model:
    found: Model = {"name": port.name, "switchport": {"enabled": port.vlan is not None or port.bond is not None}}
    if port.bond is not None:
        found["channel_group"] = {"id": port.bond, "mode": "active"}
    elif port.vlan is not None:
        found["switchport"] |= {"mode": "access", "access_vlan": port.vlan}
    if port.mtu:
        found["mtu"] = port.mtu
    if port.peer:
        found["description"] = port.peer
    if port.speed_gbps:
        exact = (int(port.speed_gbps), len(port.lanes)) in _WITH_LANES
        found["speed"] = f"{port.speed_gbps:g}g" + (f"-{len(port.lanes)}" if exact else "")
    if port.fec in _FEC:
        found["error_correction_encoding"] = {"enabled": True, _FEC[port.fec]: True}
    if view.qos is not None:
        found["service_profile"] = profile
    if port.vrf != "default":
        found["vrf"] = port.vrf
    v4 = [a for a in port.addresses if ":" not in a]
    v6 = [a for a in port.addresses if ":" in a]
    if v4:
        found |= {"ip_address": v4[0], "ip_address_secondaries": v4[1:]}
    if v6:
        found["ipv6_addresses"] = v6
    if view.bgp is not None and any(n.unnumbered and n.peer == port.name for n in view.bgp.neighbors):
        found["ipv6_enable"] = True
    return found


def _qos(qos: Qos) -> Model:
    found: Model = {
        "qos": {
            "map": {
                "dscp": [f"{d} to traffic-class {p}" for d, p in enumerate(qos.dscp_to_priority) if p != NOT_MAPPED],
                "traffic_class": [
                    f"{p} to uc-tx-queue {q}" for p, q in enumerate(qos.priority_to_queue) if q != NOT_MAPPED
                ],
            }
        }
    }
    if qos.watchdog is not None:
        found["priority_flow_control"] = {
            "watchdog": {
                "action": _ACTIONS[qos.watchdog.action or "drop"],
                "timeout": f"{qos.watchdog.detection_ms / 1000:g}",
                "recovery_time": f"{(qos.watchdog.restoration_ms or 0) / 1000:g}",
            }
        }
    return found


def _profile(name: str, port: Port, qos: Qos) -> Model:
    markings = {m.queue: m for m in port.marking if m.enabled}
    queues = []
    for queue in qos.queues:
        entry: Model = {"id": queue.queue, "priority": "priority strict" if queue.weight is None else "no priority"}
        if queue.weight is not None:
            entry["bandwidth_percent"] = queue.weight
        marking = markings.get(queue.queue)
        if marking is not None:
            threshold = {"units": "bytes", "min": marking.kmin_bytes, "max": marking.kmax_bytes, "weight": 0}
            threshold["max_probability"] = marking.probability_percent
            entry["random_detect"] = {"ecn": {"count": True, "threshold": threshold}}
        queues.append(entry)
    found: Model = {"name": name, "trust": "dscp" if port.trust_dscp else "disabled", "uc_tx_queues": queues}
    if port.pfc:
        found["priority_flow_control"] = {
            "enabled": True,
            "priorities": [{"priority": p, "no_drop": True} for p in port.pfc],
        } | ({"watchdog": {"enabled": True}} if port.watchdog else {})
    return found


def _group(neighbor: Neighbor) -> str:
    return "FABRIC" if neighbor.bfd else "FABRIC-NO-BFD"


def _filters(bgp: Bgp) -> Model:
    """Return prefix lists, route maps and leaks between VRFs."""
    lists, maps = [], []
    open_leaks = [(leak_name(leak), (EVERYTHING,), "") for leak in bgp.leaks if not leak.accept]
    for name, prefixes, community in (*filters_of(bgp), *open_leaks):
        entries = [{"sequence": n * 10, "action": f"permit {p}"} for n, p in enumerate(prefixes, start=1)]
        nothing = [{"sequence": 10, "action": "deny 0.0.0.0/0 le 32"}]
        lists.append({"name": name, "sequence_numbers": entries or nothing})
        clause: Model = {"sequence": 10, "type": "permit", "match": [f"ip address prefix-list {name}"]}
        if community:
            clause["set"] = [f"community {community} additive"]
        maps.append({"name": name, "sequence_numbers": [clause]})
    found: Model = {"prefix_lists": lists, "route_maps": maps} if maps else {}
    if bgp.leaks:
        leaks = [
            {
                "name": leak.vrf,
                "leak_routes": [{"source_vrf": source, "subscribe_policy": leak_name(leak)} for source in leak.sources],
            }
            for leak in bgp.leaks
        ]
        found["router_general"] = {"vrfs": leaks}
    return found


def _policed(neighbor: Neighbor) -> Model:
    found: Model = {}
    if neighbor.policy:
        found = {"route_map_in": f"{neighbor.policy}-IN", "route_map_out": f"{neighbor.policy}-OUT"}
        found["send_community"] = "all"
    if neighbor.maximum_prefixes is not None:
        found["maximum_routes"] = neighbor.maximum_prefixes
    return found


def _listens(neighbor: Neighbor) -> bool:
    """Say whether a numbered session is taken from any AS: EOS can only listen for those."""
    return not neighbor.unnumbered and neighbor.remote_as is None


def _any_group(neighbor: Neighbor) -> str:
    parts = ["ANY", neighbor.policy, "BFD" if neighbor.bfd else "", f"{neighbor.maximum_prefixes or ''}"]
    return "-".join(part for part in parts if part)


def _bgp(bgp: Bgp, view: DeviceView) -> Model:
    groups = {_group(n): n.bfd for n in bgp.neighbors if n.unnumbered}
    heard = list({_any_group(n): n for n in bgp.neighbors if _listens(n)}.values())
    family = {"redistribute": {"connected": {"enabled": True}}}
    model: Model = {
        "as": str(bgp.asn),
        "router_id": bgp.router_id,
        "maximum_paths": {"paths": bgp.maximum_paths, "ecmp": bgp.maximum_paths},
        "bgp_defaults": ["no bgp default ipv4-unicast"],
        "peer_groups": [
            {"name": name, "send_community": "all"} | ({"bfd": True} if bfd else {})
            for name, bfd in sorted(groups.items())
        ]
        + [{"name": _any_group(n)} | _policed(n) | ({"bfd": True} if n.bfd else {}) for n in heard],
        "aggregate_addresses": [{"prefix": aggregate} for aggregate in bgp.aggregates],
        "redistribute": {"connected": {"enabled": True}},
        "vrfs": [
            {"name": vrf, "router_id": bgp.router_id} | family | _sessions(bgp, vrf) | _evpn_vrf(bgp, view, vrf)
            for vrf in sorted(
                ({n.vrf for n in bgp.neighbors} | {v.name for v in view.vrfs} | {leak.vrf for leak in bgp.leaks})
                - {"default"}
            )
        ],
    } | _sessions(bgp, "default")
    ends = [n for n in bgp.neighbors if not n.unnumbered and n.vrf == "default" and not _listens(n)]
    fabric = [{"name": name, "activate": True} for name in sorted(groups)]
    open_ends = [{"ip_address": n.peer, "activate": True} for n in ends if not n.policy]
    over_v6 = {"next_hop": {"address_family_ipv6": {"enabled": True, "originate": True}}}
    model["address_family_ipv4"] = {
        "peer_groups": [g | over_v6 for g in fabric] + [{"name": _any_group(n), "activate": True} for n in heard],
        "neighbors": [{"ip_address": n.peer, "activate": True} for n in ends],
    }
    model["address_family_ipv6"] = {"peer_groups": fabric, "neighbors": open_ends}
    if bgp.evpn:
        transit = {"next_hop_unchanged": True} if view.role in ("spine", "core") else {}
        model["address_family_evpn"] = {"peer_groups": fabric, "neighbors": open_ends} | transit
        model["vlans"] = [
            {
                "id": v.vid,
                "rd": f"{bgp.router_id}:{v.vid}",
                "route_targets": {"both": [f"{v.vni}:{v.vni}"]},
                "redistribute_routes": ["learned"],
            }
            for v in view.vlans
            if v.vni is not None
        ]
    return model


def _evpn_vrf(bgp: Bgp, view: DeviceView, name: str) -> Model:
    vni = next((v.vni for v in view.vrfs if v.name == name), None)
    if vni is None or not bgp.evpn:
        return {}
    target = [{"address_family": "evpn", "route_targets": [f"{vni}:{vni}"]}]
    return {"rd": f"{bgp.router_id}:{vni}", "route_targets": {"import": target, "export": target}}


def _sessions(bgp: Bgp, vrf: str) -> Model:
    own = [n for n in bgp.neighbors if n.vrf == vrf]
    remote = {n: {"remote_as": str(n.remote_as)} if n.remote_as else {"peer_filter": ANY_AS} for n in own}
    return {
        "neighbor_interfaces": [{"name": n.peer, "peer_group": _group(n)} | remote[n] for n in own if n.unnumbered],
        "neighbors": [
            {"ip_address": n.peer, "remote_as": str(n.remote_as)} | ({"bfd": True} if n.bfd else {}) | _policed(n)
            for n in own
            if not n.unnumbered and not _listens(n)
        ],
        "listen_ranges": [
            {"prefix": f"{n.peer}/32", "peer_group": _any_group(n), "peer_filter": ANY_AS} for n in own if _listens(n)
        ],
    }
