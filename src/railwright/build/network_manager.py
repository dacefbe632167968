"""NetworkManager keyfiles of a server, one per interface: the same interfaces as netplan's, written and read back.

They belong into ``/etc/NetworkManager/system-connections`` with mode 0600. Names of keys: nm-settings-keyfile(5).
"""

from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import replace

from railwright.build.contract import Place
from railwright.build.host_model import HostPort, HostView
from railwright.build.interfaces import Interface, interfaces
from railwright.errors import InputError

SUFFIX = ".nmconnection"
_RULE_PRIORITY = 100


def keyfiles(view: HostView) -> dict[str, str]:
    """Return file name → keyfile of every interface."""
    return {f"{i.name}{SUFFIX}": _keyfile(i) for i in interfaces(view.ports)}


def _keyfile(interface: Interface) -> str:
    lines = ["[connection]", f"id={interface.name}", f"type={'bond' if interface.members else 'ethernet'}"]
    lines.append(f"interface-name={interface.name}")
    if interface.bond:
        lines += [f"master={interface.bond}", "slave-type=bond"]
    if interface.mtu:
        lines += ["", "[ethernet]", f"mtu={interface.mtu}"]
    if interface.members:
        lines += ["", "[bond]", "mode=802.3ad", "lacp_rate=fast", "miimon=100", "xmit_hash_policy=layer3+4"]
    if interface.bond:
        return "\n".join([*lines, ""])
    four, six = (tuple(a for a in interface.addresses if (":" in a) is wanted) for wanted in (False, True))
    lines += ["", "[ipv4]", f"method={'manual' if four else 'disabled'}", *_family(interface, four, six=False)]
    lines += ["", "[ipv6]", f"method={'manual' if six else 'link-local'}", *_family(interface, six, six=True)]
    return "\n".join([*lines, ""])


def _family(interface: Interface, addresses: tuple[str, ...], six: bool) -> list[str]:
    lines = [f"address{number}={address}" for number, address in enumerate(addresses, start=1)]
    if not addresses or not interface.gateway or (":" in interface.gateway) is not six:
        return lines
    if interface.table is None:
        return [*lines, f"gateway={interface.gateway}", f"route-metric={interface.metric}"]
    source = addresses[0].partition("/")[0]
    return [
        *lines,
        f"route1={interface.everywhere},{interface.gateway}",
        f"route1_options=table={interface.table}",
        f"routing-rule1=priority {_RULE_PRIORITY} from {source} table {interface.table}",
    ]


def read_keyfile(path: str, text: str, ports: dict[str, HostPort], lines: dict[str, Place]) -> None:
    """Take MTU and addresses of a port from its keyfile, which wins over ``host.conf``: it is what the host runs.

    A bond's addresses go to its first port. Raises InputError for what is no keyfile.
    """
    parser = ConfigParser(interpolation=None, delimiters=("=",))
    try:
        parser.read_string(text)
        name = parser["connection"]["interface-name"]
    except (ConfigError, KeyError) as error:
        raise InputError(f"not a NetworkManager keyfile: {error}", file=path) from None
    addresses = tuple(
        value
        for family in ("ipv4", "ipv6")
        if parser.has_section(family)
        for key, value in parser.items(family)
        if key.startswith("address")
    )
    places = {line.partition("=")[0]: Place(path, number) for number, line in enumerate(text.splitlines(), 1)}
    owner = name
    if parser["connection"].get("type") == "bond":
        owner = next((port.name for port in ports.values() if port.bond == name), name)
    port = ports.get(owner, HostPort(name=owner))
    if addresses:
        port = replace(port, addresses=tuple(sorted(addresses)))
        lines[f"nic/{owner}/addresses"] = places["address1"]
    if parser.has_option("ethernet", "mtu"):
        port = replace(port, mtu=parser.getint("ethernet", "mtu"))
        lines[f"nic/{owner}/mtu"] = places["mtu"]
    ports[owner] = port
