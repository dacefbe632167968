"""Why a cable is what it is: what it joins, the reason for its part, and what was not taken and why."""

import numpy as np
import polars as pl

from railwright.design.cabling import join_components
from railwright.design.media import Chooser
from railwright.design.plan import Plan
from railwright.errors import InputError


def explain_cable(plan: Plan, cable_id: int) -> list[str]:
    """Return what there is to say of a cable, a sentence per line; raises InputError when the plan has no such cable.

    The choice is worked out again from the plan's tables, as they were cabled.
    """
    found = plan.table("cables").filter(pl.col("cable_id") == cable_id)
    if found.is_empty():
        raise InputError(
            f"the plan has {len(plan.table('cables'))} cables and none with the number {cable_id}", key="ID"
        )
    cable = found.row(0, named=True)
    links = np.flatnonzero((plan.links["cable_id"] == cable_id).fill_null(value=False).to_numpy())
    joined = join_components(plan)
    component = joined.components[int(joined.kind[links[0]])]
    chooser = Chooser(plan.catalog, plan.spec, joined.sockets.kinds)
    choice = chooser.choose(component)
    ends = [joined.sockets.kinds[joined.sockets.socket[rows[links[0]]]] for rows in (joined.a_row, joined.b_row)]
    lines = [
        f"{cable['label_a']} to {cable['label_b']}" + (f" and {len(links) - 1} more ports" if len(links) > 1 else ""),
        f"{cable['part'] or 'no part'} ({cable['medium'] or 'no medium'}), {cable['length_m']:g} m, {cable['route']}; "
        f"the way with slack is {joined.routes.length_m[links].max():.2f} m",
        f"between {ends[0]} and {ends[1]}",
        *(
            [f"loss {cable['loss_db']:.3f} dB, margin {cable['margin_db']:.3f} dB"]
            if cable["loss_db"] is not None
            else []
        ),
        *(f"module in {joined.sockets.kinds[socket]}: {key}" for socket, key in sorted(choice.modules.items())),
        f"chosen: {cable['reason']}" if cable["medium"] else str(cable["reason"]),
    ]
    return lines + [
        f"not taken: {item.why}" if item.name in item.why else f"not taken: {item.name}: {item.why}"
        for item in choice.rejected
    ]
