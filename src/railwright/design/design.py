"""The design, step by step: servers, backend, frontend, storage, racks, management, addresses."""

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from railwright.catalog.load import Catalog
from railwright.design.addressing import assign_addresses
from railwright.design.backend import design_backend
from railwright.design.context import NETWORKS, Context, start_context
from railwright.design.converged import leave_room
from railwright.design.frontend import design_frontend
from railwright.design.management import design_management
from railwright.design.placement import Layout, place, stand_in_racks
from railwright.design.plan import Plan
from railwright.design.storage import design_storage
from railwright.spec.cluster import ClusterSpec

Progress = Callable[[str], None]


def design_plan(spec: ClusterSpec, catalog: Catalog, progress: Progress | None = None) -> Plan:
    """Return the plan of ``spec``; ``progress`` is called with the name of each step as it starts.

    Raises InputError when the spec asks for what cannot be built.
    """
    say = progress or _silent
    context = leave_room(start_context(spec, catalog))
    layout = build_networks(context, say)
    built = context.wiring.finish()
    built["devices"] = stand_in_racks(context, layout, built["devices"])
    return finish_plan(context, layout, built, say)


def build_networks(context: Context, say: Progress, standing: Callable[[Context], Layout] | None = None) -> Layout:
    """Wire all networks of ``context`` and return where the boxes stand (management boxes come with their rack).

    ``standing`` returns the racks and boxes that stand already.
    """
    say("backend")
    design_backend(context)
    say("frontend")
    frontend = design_frontend(context)
    say("storage")
    design_storage(context)
    say("placement")
    layout = place(context, context.wiring.finish(), standing(context) if standing else None)
    say("management")
    design_management(context, layout, frontend)
    return layout


def finish_plan(context: Context, layout: Layout, built: Mapping[str, pl.DataFrame], say: Progress) -> Plan:
    """Return the plan of the tables ``built``, with racks and addresses."""
    facts: dict[str, dict[str, Any]] = {name: dict(context.decisions[name].facts) for name in NETWORKS}
    facts["placement"] = dict(layout.decisions.facts)
    chosen = [*((name, context.decisions[name]) for name in NETWORKS), ("placement", layout.decisions)]
    reasons = tuple({"network": name, **reason} for name, decisions in chosen for reason in decisions.reasons)
    say("addresses")
    devices, addresses = assign_addresses(context.spec, context.catalog, built)
    return Plan(
        spec=context.spec,
        catalog=context.catalog,
        tables={**built, "devices": devices, "racks": layout.racks, "addresses": addresses},
        facts={name: found for name, found in facts.items() if found},
        reasons=reasons,
    )


def _silent(_step: str) -> None:
    pass
