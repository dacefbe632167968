"""Rules on the frontend: no single failure may end a session's connectivity."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.check.views import examples, switch_capacity
from railwright.design.plan import Plan
from railwright.units import counted, format_ratio


def _by_site(plan: Plan, role: str) -> dict[str, int]:
    rows = (
        plan.devices.filter((pl.col("network") == "frontend") & (pl.col("role") == role))
        .group_by("site")
        .len()
        .sort("site")
    )
    return dict(rows.iter_rows())


def _frontend_sites(plan: Plan) -> list[str]:
    return (
        plan.devices.filter((pl.col("network") == "frontend") & (pl.col("role") == "leaf"))["site"]
        .unique()
        .sort()
        .to_list()
    )


@rule("RW201")
def single_homed_servers(plan: Plan) -> Iterator[Hit]:
    """Servers whose frontend links all end on one leaf."""
    hosts = plan.named_links().filter(
        (pl.col("network") == "frontend") & (pl.col("tier") == "host") & (pl.col("a_role") == "server")
    )
    single = (
        hosts.group_by("a_device")
        .agg(leaves=pl.col("b_device").n_unique())
        .filter(pl.col("leaves") < 2)
        .sort("a_device")
    )
    if len(single):
        yield Hit(
            "frontend servers",
            f"{counted(len(single), 'server hangs', 'servers hang')} on one leaf (attach: {plan.spec.frontend.attach}): "
            f"{examples(single['a_device'])}",
        )


@rule("RW202")
def single_spine(plan: Plan) -> Iterator[Hit]:
    """Two or more frontend leaves under one spine."""
    spines, leaves = _by_site(plan, "spine"), _by_site(plan, "leaf")
    for site, count in leaves.items():
        if count > 1 and spines.get(site, 0) == 1:
            yield Hit(f"frontend {site}", f"{count} leaves share one spine")


@rule("RW203")
def no_bfd(plan: Plan) -> Iterator[Hit]:
    """BFD switched off in a routed network."""
    if plan.spec.frontend.enabled and not plan.spec.frontend.bfd:
        yield Hit("frontend.bfd", "BFD is off in the frontend: a silent failure is noticed by BGP timers only")
    if plan.spec.backend.transport == "rocev2" and not plan.spec.backend.bfd:
        yield Hit("backend.bfd", "BFD is off in the backend: a silent failure is noticed by BGP timers only")


def _fewer_than_two(plan: Plan, role: str, what: str) -> Iterator[Hit]:
    counts = _by_site(plan, role)
    for site in _frontend_sites(plan):
        if counts.get(site, 0) < 2:
            yield Hit(f"frontend {site}", f"{counts.get(site, 0)} {what} at {site}")


@rule("RW204")
def single_firewall(plan: Plan) -> Iterator[Hit]:
    """Fewer than two firewalls at a site."""
    return _fewer_than_two(plan, "firewall", "firewall")


@rule("RW205")
def single_load_balancer(plan: Plan) -> Iterator[Hit]:
    """Fewer than two load balancers at a site."""
    return _fewer_than_two(plan, "load_balancer", "load balancer")


@rule("RW206")
def single_border(plan: Plan) -> Iterator[Hit]:
    """Fewer than two border leaves at a site."""
    return _fewer_than_two(plan, "border", "border leaf")


@rule("RW207")
def frontend_beyond_target(plan: Plan) -> Iterator[Hit]:
    """Frontend leaves oversubscribed beyond the spec's target."""
    target = plan.spec.frontend.oversubscription
    leaves = switch_capacity(plan, "frontend").filter((pl.col("role") == "leaf") & (pl.col("up_gbps") > 0))
    beyond = (
        leaves.with_columns(ratio=pl.col("down_gbps") / pl.col("up_gbps"))
        .filter(pl.col("ratio") > target * 1.001)
        .sort("ratio", "name", descending=[True, False])
    )
    if len(beyond):
        yield Hit(
            "frontend leaves",
            f"{counted(len(beyond), 'leaf exceeds', 'leaves exceed')} {format_ratio(target)}, the worst ({beyond['name'][0]}) "
            f"with {format_ratio(beyond['ratio'][0])}",
        )


@rule("RW208")
def single_external_link(plan: Plan) -> Iterator[Hit]:
    """Sites with fewer than two links to the outside."""
    externals = (
        plan.named_links()
        .filter(
            (pl.col("network") == "frontend") & ((pl.col("a_role") == "external") | (pl.col("b_role") == "external"))
        )
        .with_columns(border=pl.when(pl.col("b_role") == "external").then("a_device_id").otherwise("b_device_id"))
        .join(plan.devices.select("device_id", "site"), left_on="border", right_on="device_id")
        .group_by("site")
        .len()
    )
    counts = dict(externals.iter_rows())
    for site in _frontend_sites(plan):
        if counts.get(site, 0) < 2:
            yield Hit(f"frontend {site}", f"{counts.get(site, 0)} external link at {site}")
