"""The names that an operating system gives to the ports of a switch, from the catalog's templates, whole arrays at once.

A template is text with the fields

- ``{cage}`` the cage, from 1 over the whole switch; ``{cage0}`` the same from 0
- ``{lane}`` the first lane of the port, from 0, counted over all cages before it (SONiC numbers ports so)
- ``{cage_lane}`` the first lane of the port inside its cage, from 1 (EOS numbers ports so)
- ``{sub}`` the port inside its cage, from 0; ``{sub1}`` the same from 1
- ``{twin}`` the port inside a cage of two, from 1, and where both are split, port and part: ``1/1`` to ``2/2`` (MLNX-OS on
  Quantum-2 numbers ASIC, cage and port, and splitting adds the part: *InfiniBand Interface* of its user manual)

and a part in square brackets, which is written only when the cage carries more than one port: ``swp{cage}[s{sub}]``.
"""

import re

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.catalog.model import Switch
from railwright.errors import InputError, nearest

FIELDS = ("cage", "cage0", "lane", "cage_lane", "sub", "sub1", "twin")
_TWINS = 2

_FIELD = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[([^\]]*)\]")


def port_names(
    switch: Switch,
    cage: NDArray[np.int64],
    lane_first: NDArray[np.int64],
    lanes: int,
    per_cage: int,
    nos: str | None = None,
) -> pl.Series:
    """Return the names of ports (String, one per element of ``cage``).

    ``cage`` counts from 1 over all cages of ``switch``, ``lane_first`` from 0 inside the cage; every port has ``lanes`` lanes
    and shares its cage with ``per_cage - 1`` others. ``nos`` defaults to the platform's first. Raises InputError when the
    catalog has no template for it.
    """
    sub = lane_first // lanes
    values = {
        "cage": cage,
        "cage0": cage - 1,
        "lane": lanes_before(switch, cage) + lane_first,
        "cage_lane": lane_first + 1,
        "sub": sub,
        "sub1": sub + 1,
        "twin": _twin(sub, per_cage),
    }
    template = _OPTIONAL.sub(r"\1" if per_cage > 1 else "", port_template(switch, nos))
    used = _FIELD.findall(template)
    parts = [pl.Series(name, values[name]) for name in used]
    if not parts:
        return pl.Series("name", [template] * len(cage), dtype=pl.String)
    return pl.select(pl.format(_FIELD.sub("{}", template), *parts)).to_series().alias("name")


def _twin(sub: NDArray[np.int64], per_cage: int) -> NDArray[np.str_]:
    port, part = np.divmod(sub, max(per_cage // _TWINS, 1))
    name = (port + 1).astype(str)
    return np.char.add(np.char.add(name, "/"), (part + 1).astype(str)) if per_cage > _TWINS else name


def lanes_before(switch: Switch, cage: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each cage (from 1) how many lanes the cages before it have."""
    lanes = np.repeat([group.lanes for group in switch.cages], [group.count for group in switch.cages])
    return np.concatenate(([0], np.cumsum(lanes, dtype=np.int64)))[cage - 1]


def port_template(switch: Switch, nos: str | None = None) -> str:
    """Return the template of ``nos`` (default: the platform's first); raises InputError when there is none."""
    chosen = nos or next(iter(switch.nos), None)
    if chosen is None or chosen not in switch.port_name:
        known = ", ".join(switch.port_name) or "none"
        raise InputError(
            f"{switch.key} has no port names for {chosen!r}{nearest(chosen or '', switch.port_name)}; it has: {known}",
            key=f"switches.{switch.key}.port_name",
        )
    return switch.port_name[chosen]
