"""What an ``frr.conf`` gets wrong by itself: sessions that come up and carry no route. No plan is needed.

With ``no bgp default ipv4-unicast`` FRR exchanges nothing in a family where the session is not activated, and a router that
redistributes nothing and names no network announces nothing of its own. Source: FRR's user guide, chapter BGP.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from railwright.build.contract import Place

_ORIGINATES = ("redistribute", "network", "aggregate-address", "import")


@dataclass
class _Router:
    """One ``router bgp`` block: lines of its sessions, families in which each is active, what it announces of its own."""

    line: int
    automatic: bool = True
    sessions: dict[str, int] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    group_of: dict[str, str] = field(default_factory=dict)
    active: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    originates: bool = False
    serves: bool = False


def session_problems(path: str, text: str) -> Iterator[tuple[str, str, str, Place]]:
    """Yield ``(rule code, session, message, place)``. Sessions that carry EVPN only, and route servers, are left alone."""
    for router in _routers(text):
        families = {peer: _families(router, peer) for peer in router.sessions}
        usual = any("ipv4 unicast" in held for held in families.values())
        for peer, held in families.items():
            if usual and "ipv4 unicast" not in held and held != {"l2vpn evpn"}:
                message = "its session is not activated for IPv4 routes, those beside it are"
                yield "RW025", peer, message, Place(path, router.sessions[peer])
        if router.sessions and usual and not router.originates and not router.serves:
            yield "RW025", "bgp", "announces nothing of its own, not even its loopback", Place(path, router.line)


def _families(router: _Router, peer: str) -> set[str]:
    held = router.active[peer] | router.active[router.group_of.get(peer, "")]
    return held | ({"ipv4 unicast"} if router.automatic else set())


def _routers(text: str) -> list[_Router]:
    found: list[_Router] = []
    inside, family = False, ""
    for number, raw in enumerate(text.splitlines(), start=1):
        words = raw.split()
        if not words or words[0].startswith(("!", "#")):
            continue
        if not raw.startswith(" "):
            inside, family = words[:2] == ["router", "bgp"], ""
            if inside:
                found.append(_Router(number))
        elif inside:
            family = _family(words, family)
            _statement(found[-1], words, number, family)
    return found


def _family(words: list[str], family: str) -> str:
    if words[0] == "address-family":
        return " ".join([*words[1:], *(["unicast"] if len(words) == 2 else [])])
    return "" if words[0] == "exit-address-family" else family


def _statement(router: _Router, words: list[str], number: int, family: str) -> None:
    match words:
        case ["no", "bgp", "default", "ipv4-unicast"]:
            router.automatic = False
        case ["neighbor", peer, "activate"]:
            router.active[peer].add(family)
        case ["no", "neighbor", peer, "activate"]:
            router.active[peer].discard(family)
        case ["neighbor", name, "peer-group"]:
            router.groups.add(name)
        case ["neighbor", peer, *rest]:
            if "peer-group" in rest:
                router.group_of[peer] = rest[rest.index("peer-group") + 1]
            if rest[0] in ("interface", "remote-as", "peer-group") and peer not in router.groups:
                router.sessions.setdefault(peer, number)
            router.serves = router.serves or rest[0] in ("route-server-client", "route-reflector-client")
        case [word, *_]:
            router.originates = router.originates or word in _ORIGINATES
