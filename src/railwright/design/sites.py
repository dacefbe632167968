"""Which servers stand at which site, and what the names of its boxes start with."""

import numpy as np
from numpy.typing import NDArray

from railwright.design.context import Context

Index = NDArray[np.int64]


def site_prefix(context: Context, site: int) -> str:
    """Return what the names of boxes at a site start with: nothing when there is only one site."""
    return f"{context.spec.sites[site].name}-" if len(context.spec.sites) > 1 else ""


def site_servers(context: Context, site: int) -> tuple[Index, int]:
    """Return the ordinals of the servers at a site and how many it is to have when the cluster has grown.

    Servers stand in equal blocks of the reserved size at the sites that carry the backend (see ``start_context``).
    """
    here = np.flatnonzero(context.server_site == site)
    carrying = [number for number, entry in enumerate(context.spec.sites) if entry.backend]
    if site not in carrying:
        return here, 0
    grown = np.arange(context.reserved_servers) * len(carrying) // context.reserved_servers
    return here, int(np.count_nonzero(grown == carrying.index(site)))


def most_servers(context: Context) -> int:
    """Return the servers of the largest site when the cluster has grown."""
    return max(
        max(len(here), grown) for here, grown in (site_servers(context, n) for n in range(len(context.spec.sites)))
    )
