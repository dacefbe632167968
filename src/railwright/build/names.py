"""Names that may stand in a configuration file, a file path or a shell script: nothing that any of them could read as syntax.

A plan can be edited by hand and a view can come from elsewhere, so renderers check names instead of escaping them.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_interface

import polars as pl

from railwright.design.plan import Plan
from railwright.errors import InputError

DEVICE = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?){0,5}"
)
PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,47}")
TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,62}")
VRF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
ADDRESS = re.compile(r"[0-9A-Fa-f.:]{2,45}/[0-9]{1,3}")


def checked(name: str, kind: re.Pattern[str], what: str) -> str:
    """Return ``name`` when ``kind`` matches all of it; raises InputError that shows the name and says what is allowed."""
    if not kind.fullmatch(name) or ".." in name:
        shown = name if len(name) <= 60 else f"{name[:57]}..."
        raise InputError(f"{shown!r} cannot be {what}: use letters, digits and '-' (ports also '/', ':', '.', '_')")
    return name


def check_all(names: Iterable[str], kind: re.Pattern[str], what: str) -> None:
    """Check every name once; raises InputError for the first bad one."""
    for name in dict.fromkeys(names):
        checked(name, kind, what)


def check_plan(plan: Plan) -> None:
    """Check everything of a plan that renderers write as it stands: names of devices, ports and VRFs, and addresses.

    Raises InputError for the first that could be read as something else.
    """
    for table, column, kind, what in (
        ("devices", "name", DEVICE, "the name of a device"),
        ("ports", "name", PORT, "the name of a port"),
        ("addresses", "vrf", VRF, "the name of a VRF"),
        ("addresses", "address", ADDRESS, "an address with its prefix length"),
    ):
        held = plan.tables[table][column].drop_nulls()
        if len(held):
            check_all(held.unique(maintain_order=True), kind, what)
    for address in plan.addresses.select(pl.col("address").unique(maintain_order=True)).to_series():
        try:
            ip_interface(address)
        except ValueError:
            raise InputError(f"{address!r} is not an address with its prefix length", key="addresses") from None
