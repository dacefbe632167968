"""Rules on parts that have to work together: cages, lanes, interfaces, protocols, coding, fibre and link settings."""

from collections.abc import Iterator

import polars as pl

from railwright.check.channels import hits
from railwright.check.engine import Hit, rule
from railwright.design.plan import Plan
from railwright.design.sockets import find_sockets
from railwright.units import counted

TWIN_LENGTHS_DIFFER = 0.2
"""Share by which the two fibres of a twin-port module may differ (NVIDIA: about the same length; the figure is ours)."""


@rule("RW731")
def module_does_not_fit(plan: Plan) -> Iterator[Hit]:
    """Modules and plugs that do not fit their cage."""
    yield from hits(plan, "RW731")


@rule("RW732")
def electrical_lanes(plan: Plan) -> Iterator[Hit]:
    """Lanes that the cage does not run, or copper between different lane rates."""
    yield from hits(plan, "RW732")


@rule("RW733")
def optical_interfaces(plan: Plan) -> Iterator[Hit]:
    """Modules that do not light up against each other."""
    yield from hits(plan, "RW733")


@rule("RW734")
def no_downshift(plan: Plan) -> Iterator[Hit]:
    """Modules of 200G lanes against slower ones."""
    yield from hits(plan, "RW734")


@rule("RW735")
def link_layer(plan: Plan) -> Iterator[Hit]:
    """Parts that do not run the link layer of their network."""
    yield from hits(plan, "RW735")


@rule("RW736")
def error_correction_differs(plan: Plan) -> Iterator[Hit]:
    """Ends with different error correction."""
    yield from hits(plan, "RW736")


@rule("RW737")
def application(plan: Plan) -> Iterator[Hit]:
    """Breakout modes that the part does not advertise."""
    yield from hits(plan, "RW737")


@rule("RW738")
def linear_modules(plan: Plan) -> Iterator[Hit]:
    """Linear modules on ports that are not qualified."""
    yield from hits(plan, "RW738")


@rule("RW739")
def coding(plan: Plan) -> Iterator[Hit]:
    """Parts coded for another maker's hosts."""
    yield from hits(plan, "RW739")


@rule("RW741")
def polarity(plan: Plan) -> Iterator[Hit]:
    """Parallel channels whose transmitters face transmitters."""
    yield from hits(plan, "RW741")


@rule("RW742")
def end_faces(plan: Plan) -> Iterator[Hit]:
    """Angled end faces against flat ones."""
    yield from hits(plan, "RW742")


@rule("RW743")
def connectors(plan: Plan) -> Iterator[Hit]:
    """Connectors that do not mate."""
    yield from hits(plan, "RW743")


@rule("RW744")
def gender(plan: Plan) -> Iterator[Hit]:
    """Pins against pins, or holes against holes."""
    yield from hits(plan, "RW744")


@rule("RW745")
def fibre_kind(plan: Plan) -> Iterator[Hit]:
    """Multimode modules on single-mode fibre and the reverse."""
    yield from hits(plan, "RW745")


@rule("RW747")
def mixed_legs(plan: Plan) -> Iterator[Hit]:
    """Modules with straight and splitter cords at once, and splitters with a wrong number of ends."""
    yield from hits(plan, "RW747")
    tails = {key: cord.tails for key, cord in plan.catalog.fibre_cables.items()}
    cords = plan.table("cables").select("cable_id", tails=pl.col("part").replace_strict(tails, default=None))
    ends = plan.table("cable_ends").filter(pl.col("module_id").is_not_null()).join(cords, on="cable_id")
    mixed = (
        ends.sort("port_id")
        .group_by("module_id", maintain_order=True)
        .agg(pl.col("tails").n_unique(), pl.col("port_id").first())
        .filter(pl.col("tails") > 1)
    )
    if len(mixed):
        yield Hit(
            _port(plan, mixed["port_id"][0]),
            f"{counted(len(mixed), 'module has', 'modules have')} a straight cord in one connector and a splitter in the other",
        )


@rule("RW748")
def long_splitter(plan: Plan) -> Iterator[Hit]:
    """Splitter cords beyond what the plant allows."""
    yield from hits(plan, "RW748")


@rule("RW749")
def split_wavelengths(plan: Plan) -> Iterator[Hit]:
    """Wavelengths that a fibre splitter would have to part."""
    yield from hits(plan, "RW749")


@rule("RW751")
def error_correction_setting(plan: Plan) -> Iterator[Hit]:
    """Error correction that is not what the link needs."""
    yield from hits(plan, "RW751")


@rule("RW752")
def autoneg_setting(plan: Plan) -> Iterator[Hit]:
    """Auto-negotiation on optics, or off on copper that has to train."""
    yield from hits(plan, "RW752")


@rule("RW753")
def link_training(plan: Plan) -> Iterator[Hit]:
    """Passive copper that needs link training."""
    yield from hits(plan, "RW753")


@rule("RW746")
def twin_lengths(plan: Plan) -> Iterator[Hit]:
    """Twin-port modules whose two fibres differ in length."""
    fibres = (
        plan.table("cables").filter(pl.col("medium").is_in(["mmf", "smf"])).select("cable_id", "length_m", "label_b")
    )
    ends = plan.table("cable_ends").filter(pl.col("module_id").is_not_null()).join(fibres, on="cable_id")
    spread = (
        ends.group_by("module_id")
        .agg(
            least=pl.col("length_m").min(),
            most=pl.col("length_m").max(),
            port=pl.col("port_id").sort_by("length_m").last(),
        )
        .filter(pl.col("least") < pl.col("most") * (1 - TWIN_LENGTHS_DIFFER))
        .sort("most", "module_id", descending=[True, False])
    )
    if len(spread):
        worst = spread.row(0, named=True)
        yield Hit(
            _port(plan, worst["port"]),
            f"{counted(len(spread), 'module has', 'modules have')} fibres of different lengths, the worst {worst['least']:g} m "
            f"and {worst['most']:g} m",
        )


@rule("RW754")
def shared_cages(plan: Plan) -> Iterator[Hit]:
    """Servers several of whose rails go through one module."""
    backend = plan.ports.with_columns(cage_id=pl.Series(find_sockets(plan).cage_id)).filter(
        (pl.col("network") == "backend") & (pl.col("direction") == "host") & (pl.col("cage") > 0)
    )
    shared = backend.group_by("cage_id").agg(ports=pl.len(), first=pl.col("port_id").min()).filter(pl.col("ports") > 1)
    if len(shared):
        yield Hit(
            _port(plan, int(shared["first"].to_numpy().min())),
            f"{counted(len(shared), 'cage carries', 'cages carry')} {shared['ports'].to_numpy().max()} backend ports each, which "
            "fail together",
        )


def _port(plan: Plan, port_id: int) -> str:
    port = plan.ports.filter(pl.col("port_id") == port_id).row(0, named=True)
    device = plan.devices.filter(pl.col("device_id") == port["device_id"])["name"].item()
    return f"{device}:{port['name']}"
