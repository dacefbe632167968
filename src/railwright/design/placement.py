"""Where every box stands: racks in rows, filled in the order of the network so that groups stay near their leaves.

Servers fill compute racks in order; as many fit as height, power and weight allow. Every other box is drawn to the mean place
of its neighbours (leaves to their servers, spines to their leaves …) and boxes are packed into network and service racks in
that order; each row gets an equal share of these racks. A rack that stands keeps its place and its boxes when the cluster
grows: new boxes get new racks in new rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import tables
from railwright.catalog.boxes import Box
from railwright.catalog.load import Catalog
from railwright.catalog.model import Server, Switch
from railwright.design.context import Context
from railwright.design.sizing import ceil_div
from railwright.design.wiring import Decisions
from railwright.errors import InputError
from railwright.spec.cluster import RackPlan

Index = NDArray[np.int64]
_Packed = tuple[Index, Index, int]
"""Rack ordinal and lowest rack unit of each box, and the number of racks."""

TOP_RU = 2
"""Rack units kept free at the top of every rack for out-of-band switch and patch panel."""
NETWORK_ROLES = ("leaf", "spine", "core", "border", "tor", "oob")
RACKLESS_ROLES = ("external", "pdu")


@dataclass(frozen=True)
class Layout:
    """The racks (table ``racks``) and ``devices``: one row per device with ``device_id, rack, ru`` (null: stands in no rack).

    ``rack`` is ``racks.rack_id``; ``ru`` the lowest rack unit, from 1.
    """

    racks: pl.DataFrame
    devices: pl.DataFrame
    decisions: Decisions = field(default_factory=Decisions)


def place(context: Context, built: Mapping[str, pl.DataFrame], standing: Layout | None = None) -> Layout:
    """Return a place for every device of ``built`` (tables ``devices, ports, links``).

    ``standing`` has the racks that exist and, in ``devices``, the boxes of this design that stand in them already.
    """
    devices = built["devices"]
    decisions = Decisions()
    pull = _pull(context, devices, built["ports"], built["links"])
    heights = box_heights(context.catalog, devices)
    placed = np.zeros(len(devices), dtype=bool)
    racks = [] if standing is None else [standing.racks]
    places = [tables.empty("devices").select("device_id", "rack", "ru") if standing is None else standing.devices]
    if standing is not None:
        placed[standing.devices["device_id"].to_numpy()] = True
    free = ~placed & ~devices["role"].is_in(RACKLESS_ROLES).to_numpy() & devices["rack"].is_null().to_numpy()
    for site in context.spec.sites:
        chosen = free & (devices["site"] == site.name).to_numpy()
        if not chosen.any():
            continue
        hall = _Hall(context, site.name, site.racks, devices, heights, pull, decisions)
        here = pl.concat(racks) if racks else tables.empty("racks")
        new_racks, new_places = hall.fill(np.flatnonzero(chosen), here)
        racks.append(new_racks)
        places.append(new_places)
    everyone = devices.select("device_id").join(pl.concat(places), on="device_id", how="left", maintain_order="left")
    return Layout(pl.concat(racks) if racks else tables.empty("racks"), everyone, decisions)


def stand_in_racks(context: Context, layout: Layout, devices: pl.DataFrame) -> pl.DataFrame:
    """Return ``devices`` with ``rack`` and ``ru``: those of the layout, and given racks (filled from the top) for the others."""
    heights = pl.Series("height", box_heights(context.catalog, devices))
    known = devices.with_columns(heights).join(
        layout.devices.rename({"rack": "known_rack", "ru": "known_ru"}),
        on="device_id",
        how="left",
        maintain_order="left",
    )
    racks = layout.racks.select("rack_id", "height_ru")
    mounted = pl.col("known_rack").is_null() & pl.col("rack").is_not_null() & ~pl.col("role").is_in(RACKLESS_ROLES)
    below_top = pl.when(mounted).then("height").otherwise(0).cum_sum().over("rack")
    placed = (
        known.join(racks, left_on="rack", right_on="rack_id", how="left", maintain_order="left")
        .with_columns(
            ru=pl.when(mounted).then(pl.col("height_ru").cast(pl.Int64) - below_top + 1).otherwise("known_ru"),
            rack=pl.coalesce("known_rack", "rack"),
        )
        .select(devices.columns)
    )
    return tables.conform("devices", placed)


def servers_per_rack(rack: RackPlan, server: Server, switch_ru: int = 0, switch_w: float = 0.0) -> tuple[int, str]:
    """Return how many servers share a rack with switches of ``switch_ru`` rack units and ``switch_w``, and what limits them."""
    if rack.servers_per_rack is not None:
        return rack.servers_per_rack, "asked for"
    if server.rack is not None:
        return server.rack.servers, f"{server.name} comes in factory-built racks"
    limits = {
        "height": (rack.height_ru - TOP_RU - switch_ru) // server.ru,
        "power": int((rack.power - switch_w) // server.power_max_w),
    }
    if server.weight_kg is not None:
        limits["weight"] = int(rack.weight // server.weight_kg)
    limiting = min(limits, key=lambda limit: limits[limit])
    return max(1, limits[limiting]), f"limited by {limiting} of the rack"


@dataclass(frozen=True)
class _Hall:
    """One site under construction. ``pull`` (float64) and ``heights`` (int64) have one element per device."""

    context: Context
    name: str
    plan: RackPlan
    devices: pl.DataFrame
    heights: Index
    pull: NDArray[np.float64]
    decisions: Decisions

    def fill(self, chosen: Index, standing: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the racks and places for the devices ``chosen`` (indices into the table), beside the racks that stand."""
        role = self.devices["role"].cast(pl.String).to_numpy()[chosen]
        servers = chosen[role == "server"]
        leaves = chosen[role == "leaf"] if self.plan.switches == "top-of-rack" else chosen[:0]
        per_rack, compute, in_top = self._compute_racks(servers, leaves)
        network = np.setdiff1d(chosen[np.isin(role, NETWORK_ROLES)], in_top)
        service = chosen[~np.isin(role, (*NETWORK_ROLES, "server"))]
        (network_rack, network_ru, network_racks), (service_rack, service_ru, service_racks) = self._pack_kinds(
            network, service, standing
        )
        kind = np.repeat(["network", "service"], [network_racks, service_racks])
        first_row = int(standing.filter(pl.col("site") == self.name)["row"].to_numpy().max(initial=0))
        row, position, order = self._rows(compute, kind, first_row)
        first_id = len(standing)
        rack_id = np.empty(compute + len(kind), dtype=np.int64)
        rack_id[order] = first_id + np.arange(len(order))
        server_place = np.arange(len(servers))
        top_of, top_ru = self._tops(in_top, compute)
        places = _places(
            np.concatenate([servers, in_top, network, service]),
            rack_id[
                np.concatenate(
                    [server_place // per_rack, top_of, compute + network_rack, compute + network_racks + service_rack]
                )
            ],
            np.concatenate([server_place % per_rack * self.context.server.ru + 1, top_ru, network_ru, service_ru]),
        )
        return self._rack_rows(np.concatenate([np.repeat(["compute"], compute), kind]), rack_id, row, position), places

    def _compute_racks(self, servers: Index, leaves: Index) -> tuple[int, int, Index]:
        """Return servers per rack, compute racks and the leaves that stand on top of these."""
        server = self.context.server
        per_rack, why = servers_per_rack(self.plan, server)
        racks = ceil_div(len(servers), per_rack)
        if racks and len(leaves):
            height, power = int(self.heights[leaves].max()), float(self._power(leaves).max())
            for _ in range(3):
                on_one = ceil_div(len(leaves), racks)
                per_rack, why = servers_per_rack(self.plan, server, on_one * height, on_one * power)
                racks = ceil_div(len(servers), per_rack)
            on_one = ceil_div(len(leaves), racks)
            too_high = on_one * height + per_rack * server.ru > self.plan.height_ru - TOP_RU
            if too_high or on_one * power + per_rack * server.power_max_w > self.plan.power:
                leaves = leaves[:0]
                per_rack, why = servers_per_rack(self.plan, server)
                racks = ceil_div(len(servers), per_rack)
        if racks:
            self.decisions.choose(f"servers_per_rack.{self.name}", per_rack, why)
        return per_rack, racks, leaves if racks else leaves[:0]

    def _tops(self, leaves: Index, racks: int) -> tuple[Index, Index]:
        """Return compute rack and rack unit of leaves on top of racks, in the order of their servers."""
        by_pull = np.argsort(np.argsort(self.pull[leaves], kind="stable"), kind="stable")
        rack = by_pull * racks // max(1, len(leaves))
        nth = by_pull - np.ceil(rack * len(leaves) / max(1, racks)).astype(np.int64)
        height = int(self.heights[leaves].max(initial=1))
        return rack, self.plan.height_ru - TOP_RU - (nth + 1) * height + 1

    def _pack_kinds(self, network: Index, service: Index, standing: pl.DataFrame) -> tuple[_Packed, _Packed]:
        """Pack network and service boxes; racks that the user asks for beyond the fewest go to the network, evenly filled.

        Raises InputError when the boxes need more racks than asked for.
        """
        fewest, others = self._pack(network), self._pack(service)
        if self.plan.network_racks is None:
            return fewest, others
        there = len(standing.filter((pl.col("site") == self.name) & (pl.col("kind") != "compute")))
        needed = there + fewest[2] + others[2]
        if self.plan.network_racks < needed and not there:
            raise InputError(
                f"{self.plan.network_racks} is too few for the boxes of {self.name} beside its GPU servers: {needed} are "
                f"needed by height ({self.plan.height_ru} RU) and power; write {needed} or leave the key out",
                key="sites.racks.network_racks",
            )
        self.decisions.choose(f"network_racks.{self.name}", max(self.plan.network_racks, needed), "asked for")
        spare = max(0, self.plan.network_racks - needed)
        if spare and not len(network):
            return fewest, self._spread(service, others[2] + spare)
        return self._spread(network, fewest[2] + spare), others

    def _spread(self, boxes: Index, racks: int) -> _Packed:
        """Deal boxes in the order of their pull over ``racks`` racks by equal parts of their height.

        Where a part would be too high or draw too much, racks are packed as full as they may and the last stay empty.
        """
        order = np.argsort(self.pull[boxes], kind="stable")
        height, power = self.heights[boxes][order], self._power(boxes)[order]
        top = np.cumsum(height)
        nth = ((2 * top - height) * racks) // (2 * max(1, int(height.sum())))
        starts = np.searchsorted(nth, np.arange(racks))
        below = np.concatenate([[0], top])[starts]
        in_rack = np.bincount(nth, weights=height, minlength=racks)
        drawn = np.bincount(nth, weights=power, minlength=racks)
        if in_rack.max(initial=0) > self.plan.height_ru - TOP_RU or drawn.max(initial=0) > self.plan.power:
            rack, unit, _ = self._pack(boxes)
            return rack, unit, racks
        rack, unit = np.empty_like(boxes), np.empty_like(boxes)
        rack[order] = nth
        unit[order] = top - height - below[nth] + 1
        return rack, unit, racks

    def _pack(self, boxes: Index) -> _Packed:
        """Pack boxes in the order of their pull, as many in a rack as height and power allow."""
        if not len(boxes):
            return boxes, boxes, 0
        order = np.argsort(self.pull[boxes], kind="stable")
        height = self.heights[boxes][order]
        power = self._power(boxes)[order]
        top = np.cumsum(height)
        drawn = np.cumsum(power)
        rack, unit = np.empty_like(boxes), np.empty_like(boxes)
        start, racks = 0, 0
        while start < len(boxes):
            before_ru, before_w = top[start] - height[start], drawn[start] - power[start]
            end = min(
                np.searchsorted(top, before_ru + self.plan.height_ru - TOP_RU, side="right"),
                np.searchsorted(drawn, before_w + self.plan.power * (1 + 1e-9), side="right"),
            )
            end = max(int(end), start + 1)
            rack[order[start:end]] = racks
            unit[order[start:end]] = top[start:end] - height[start:end] - before_ru + 1
            start, racks = end, racks + 1
        return rack, unit, racks

    def _power(self, boxes: Index) -> NDArray[np.float64]:
        """Return the draw of ``boxes``; 0 where it is unknown."""
        return self.devices["power_w"].fill_null(0.0).to_numpy()[boxes]

    def _rows(self, compute: int, kind: NDArray[np.str_], first_row: int) -> tuple[Index, Index, Index]:
        """Return row and position of every rack (compute racks first, then the others), and the racks in order of place."""
        others = len(kind)
        rows = max(1, ceil_div(compute + others, self.plan.racks_per_row))
        in_rows = np.diff(np.arange(rows + 1) * others // rows)
        room = np.cumsum(self.plan.racks_per_row - in_rows)
        compute_row = np.searchsorted(room, np.arange(compute), side="right")
        others_row = np.repeat(np.arange(rows), in_rows)
        computes = np.bincount(compute_row, minlength=rows)
        nth_compute = np.arange(compute) - (np.cumsum(computes) - computes)[compute_row]
        nth_other = np.arange(others) - (np.cumsum(in_rows) - in_rows)[others_row]
        left = computes if self.plan.switches == "end-of-row" else (computes + 1) // 2
        after = nth_compute >= left[compute_row]
        row = np.concatenate([compute_row, others_row])
        position = np.concatenate(
            [nth_compute + np.where(after, in_rows[compute_row], 0), left[others_row] + nth_other]
        )
        return row + first_row + 1, position + 1, np.lexsort((position, row))

    def _rack_rows(self, kind: NDArray[np.str_], rack_id: Index, row: Index, position: Index) -> pl.DataFrame:
        prefix = f"{self.name}-" if len(self.context.spec.sites) > 1 else ""
        frame = pl.DataFrame({"rack_id": rack_id, "row": row, "position": position, "kind": kind}).with_columns(
            pl.format(prefix + "row{}-rack{}", "row", "position").alias("name"),
            pl.lit(self.name).alias("site"),
            ((pl.col("position") - 1) * self.plan.pitch).alias("x_m"),
            ((pl.col("row") - 1) * self.plan.row_pitch).alias("y_m"),
            pl.lit(self.plan.height_ru).alias("height_ru"),
            pl.lit(self.plan.power).alias("power_limit_w"),
        )
        return tables.conform("racks", frame).sort("rack_id")


def _places(device: Index, rack: Index, ru: Index) -> pl.DataFrame:
    return tables.conform("devices", pl.DataFrame({"device_id": device, "rack": rack, "ru": ru})).select(
        "device_id", "rack", "ru"
    )


def box_heights(catalog: Catalog, devices: pl.DataFrame) -> Index:
    """Return the rack units of every device; 1 where the catalog has no height (what stands in no rack unit)."""
    kinds: tuple[Mapping[str, Server | Switch | Box], ...] = (catalog.servers, catalog.switches, catalog.boxes)
    heights = {
        model: next((kind[model].ru for kind in kinds if model in kind), None) or 1
        for model in devices["model"].unique(maintain_order=True)
    }
    return devices["model"].replace_strict(heights, return_dtype=pl.Int64).to_numpy()


def _pull(context: Context, devices: pl.DataFrame, ports: pl.DataFrame, links: pl.DataFrame) -> NDArray[np.float64]:
    """Return for every device the mean ordinal of the servers below it; unconnected ones are drawn to the middle."""
    of_port = np.empty(len(ports), dtype=np.int64)
    of_port[ports["port_id"].to_numpy()] = ports["device_id"].to_numpy()
    lower, upper = of_port[links["a_port"].to_numpy()], of_port[links["b_port"].to_numpy()]
    pull = np.full(len(devices), np.nan)
    pull[context.server_ids] = np.arange(context.servers)
    for near, far in ((lower, upper), (lower, upper), (lower, upper), (upper, lower), (lower, upper)):
        known = ~np.isnan(pull[near]) & np.isnan(pull[far])
        weight = np.bincount(far[known], minlength=len(devices))
        total = np.bincount(far[known], weights=pull[near[known]], minlength=len(devices))
        reached = weight > 0
        pull[reached] = total[reached] / weight[reached]
    return np.where(np.isnan(pull), context.servers / 2, pull)
