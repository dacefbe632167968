"""Rules on light: loss, power, bandwidth, overload and reach of every fibre channel."""

from collections.abc import Iterator

from railwright.check.channels import hits
from railwright.check.engine import Hit, rule
from railwright.design.plan import Plan


@rule("RW721")
def channel_loss(plan: Plan) -> Iterator[Hit]:
    """Channels that lose more than their interface allows."""
    yield from hits(plan, "RW721")


@rule("RW722")
def power_budget(plan: Plan) -> Iterator[Hit]:
    """Channels whose receiver gets less than it needs from the weakest transmitter."""
    yield from hits(plan, "RW722")


@rule("RW723")
def thin_margin(plan: Plan) -> Iterator[Hit]:
    """Channels that hold, but barely."""
    yield from hits(plan, "RW723")


@rule("RW724")
def multimode_bandwidth(plan: Plan) -> Iterator[Hit]:
    """Multimode channels longer than the bandwidth of the fibre allows."""
    yield from hits(plan, "RW724")


@rule("RW725")
def overload(plan: Plan) -> Iterator[Hit]:
    """Channels whose strongest transmitter may overload the receiver."""
    yield from hits(plan, "RW725")


@rule("RW726")
def reach(plan: Plan) -> Iterator[Hit]:
    """Cables longer than the part at either end, the cord or the plant reaches."""
    yield from hits(plan, "RW726")
