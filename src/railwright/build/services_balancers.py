"""Load balancers: HAProxy before the service nodes, and keepalived that takes the virtual address away from a sick one.

HTTPS is passed through unless a certificate is put where ``haproxy.cfg`` says. HAProxy answers ``/alive`` on the loopback only
while it has a healthy service node; keepalived asks it every second and holds the virtual address on ``lo``, from where FRR
announces it.
"""

from collections.abc import Iterable, Sequence

from railwright.build import names

HTTP, HTTPS, HEALTH = 80, 443, "/healthz"
ALIVE = ("127.0.0.1:8404", "/alive")
VRRP_ID = 51
_FIRST_PRIORITY, _PRIORITY_STEP = 200, 10


def haproxy(nodes: Iterable[tuple[str, str, bool]], vips: Sequence[str]) -> str:
    """Return ``haproxy.cfg``; ``nodes`` are name, address and whether the node stands at the balancer's own site.

    Nodes of other sites are used when no node of the own one is healthy.
    """
    servers = [
        (names.checked(device, names.DEVICE, "a server's name"), address.partition("/")[0], "" if near else " backup")
        for device, address, near in nodes
    ]
    binds = [address.partition("/")[0] for address in vips] or ["*"]
    lines = [
        "global",
        "    log /dev/log local0",
        "    maxconn 200000",
        "",
        "defaults",
        "    log global",
        "    timeout connect 2s",
        "    timeout client 60s",
        "    timeout server 60s",
        "    option redispatch",
        "    option allbackups",
        "",
        "# keepalived asks here whether this balancer may hold the virtual address.",
        "frontend alive",
        "    mode http",
        f"    bind {ALIVE[0]}",
        f"    monitor-uri {ALIVE[1]}",
        "    monitor fail if { nbsrv(services_http) lt 1 }",
        "",
        "frontend http",
        "    mode http",
        *(f"    bind {bind}:{HTTP} transparent" if bind != "*" else f"    bind *:{HTTP}" for bind in binds),
        "    default_backend services_http",
        "",
        "# HTTPS is passed through. To end TLS here, put certificates into /etc/haproxy/certs and make this",
        f"# 'bind …:{HTTPS} ssl crt /etc/haproxy/certs/' in mode http.",
        "frontend https",
        "    mode tcp",
        *(f"    bind {bind}:{HTTPS} transparent" if bind != "*" else f"    bind *:{HTTPS}" for bind in binds),
        "    default_backend services_https",
        "",
        "backend services_http",
        "    mode http",
        "    balance leastconn",
        f"    option httpchk GET {HEALTH}",
        "    default-server check inter 1s fall 3 rise 2",
        *(f"    server {device} {address}:{HTTP}{far}" for device, address, far in servers),
        "",
        "backend services_https",
        "    mode tcp",
        "    balance source",
        "    hash-type consistent",
        "    default-server check inter 1s fall 3 rise 2",
        *(f"    server {device} {address}:{HTTPS}{far}" for device, address, far in servers),
        "",
    ]
    return "\n".join(lines)


def keepalived(number: int, port: str, vips: Sequence[str], own: str, peers: Sequence[str]) -> str:
    """Return ``keepalived.conf`` of balancer ``number`` of its group.

    With ``peers`` (their loopbacks; ``own`` is ours) one of the group holds the addresses; without, each holds them while it is
    healthy, and its advertisements on ``port`` reach nobody. Unicast is not bound to ``port``: it takes any uplink.
    """
    election = [f"    unicast_src_ip {own}", "    unicast_peer {", *(f"        {peer}" for peer in peers), "    }"]
    lines = [
        "global_defs {",
        "    enable_script_security",
        "    script_user nobody",
        "}",
        "vrrp_script alive {",
        f'    script "/usr/bin/curl -fs -m 1 -o /dev/null http://{ALIVE[0]}{ALIVE[1]}"',
        "    interval 1",
        "    fall 2",
        "    rise 2",
        "}",
        "vrrp_instance services {",
        "    state BACKUP",
        "    nopreempt",
        f"    interface {port}",
        "    dont_track_primary",
        *(election if peers else []),
        f"    virtual_router_id {VRRP_ID}",
        f"    priority {max(_FIRST_PRIORITY - _PRIORITY_STEP * number, 1)}",
        "    advert_int 1",
        "    virtual_ipaddress {",
        *(f"        {vip} dev lo" for vip in vips),
        "    }",
        "    track_script {",
        "        alive",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)
