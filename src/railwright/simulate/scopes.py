"""Parts of a cluster that a test is run on: all of it, a pod, a scalable unit, one rail, or a pair of servers.

A *domain* is what NCCL calls a node: a server, or a whole NVL72 rack. GPUs that do not fill a domain are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.errors import InputError, nearest
from railwright.simulate.groups import server_groups
from railwright.simulate.plan_network import placement_of
from railwright.units import counted, parse_count
from railwright.workload.nccl.shape import JobShape, shape_of_server
from railwright.workload.placement import Placement

KINDS = ("cluster", "pod", "unit", "rail", "pair")
STANDARD = ("cluster", "pod", "rail", "pair", "pair:far")


@dataclass(frozen=True)
class Scope:
    """Ranks of a test: ``name`` as asked for, ``subject`` in words, where they sit, and their shape as NCCL sees it."""

    name: str
    subject: str
    placement: Placement
    shape: JobShape


def scope_of(plan: Plan, text: str) -> Scope:
    """Return the part of ``plan`` that ``text`` names.

    ``cluster``, ``pod``, ``unit`` (the first one) or ``pod:2``, ``unit:3``, ``rail:5`` (one GPU per domain), ``pair`` (the first
    two domains, on the same leaves), ``pair:far`` (the first and the last) or ``pair:NAME,NAME``. Where a cluster has no pods,
    a pod is a scalable unit. Raises InputError with what there is.
    """
    kind, _, which = text.partition(":")
    if kind not in KINDS:
        raise InputError(f"{text!r} is unknown{nearest(kind, KINDS)}; choose one of {', '.join(KINDS)}", key="scope")
    groups = _whole_domains(plan, server_groups(plan))
    if kind == "cluster":
        return _of_servers(plan, text, "all servers", groups)
    if kind in ("pod", "unit"):
        column = "pod" if kind == "pod" and groups["pod"].n_unique() > 1 else "unit"
        number = _number(text, which or "1", int(np.max(groups[column].to_numpy())), column)
        members = _whole_domains(plan, groups.filter(pl.col(column) == number))
        return _of_servers(plan, text, f"{column} {number} of {groups[column].n_unique()}", members)
    if kind == "rail":
        return _rail(plan, text, which or "1", groups)
    return _pair(plan, text, which, groups)


def standard_scopes(plan: Plan) -> list[Scope]:
    """Return the `STANDARD` scopes that have ranks of their own: no pod where there is one only, no pair of one server."""
    groups = _whole_domains(plan, server_groups(plan))
    wanted = list(STANDARD)
    if groups["unit"].n_unique() == 1:
        wanted = [name for name in wanted if name not in ("pod", "pair:far")]
    if groups["domain"].n_unique() < 3:
        wanted = [name for name in wanted if not name.startswith("pair")]
    if groups["domain"].n_unique() < 2:
        wanted = ["cluster"]
    return [scope_of(plan, name) for name in wanted]


def scope_of_servers(plan: Plan, servers: Sequence[int], name: str) -> Scope | None:
    """Return the scope of all GPUs of ``servers`` (indices); None when the NVLink domains hold unlike numbers of them."""
    server = resolve_server(plan.spec, plan.catalog)
    gpus = (np.sort(np.asarray(servers, np.int64))[:, None] * server.gpus + np.arange(server.gpus)).ravel()
    placement = placement_of(plan, gpus.tolist())
    width = gpus.size // placement.domains
    if gpus.size < 2 or not placement.balanced:
        return None
    whole = _shape(plan, min(server.scale_up_gpus, width) if placement.domains == 1 else server.scale_up_gpus)
    nics = max(1, whole.nics_per_node * width // whole.gpus_per_node)
    shape = replace(whole, nodes=placement.domains, gpus_per_node=width, nics_per_node=nics)
    return Scope(name, counted(len(servers), "server", "servers"), placement, shape)


def _whole_domains(plan: Plan, groups: pl.DataFrame) -> pl.DataFrame:
    """Return the servers whose domain is complete, or all when none is."""
    server = resolve_server(plan.spec, plan.catalog)
    needed = -(-server.scale_up_gpus // server.gpus)
    whole = groups.filter(pl.len().over("domain") == needed)
    return groups if whole.is_empty() else whole


def _of_servers(plan: Plan, name: str, subject: str, members: pl.DataFrame) -> Scope:
    server = resolve_server(plan.spec, plan.catalog)
    first = members["server"].to_numpy().astype(np.int64) * server.gpus
    gpus = (first[:, None] + np.arange(server.gpus)).ravel()
    return Scope(name, subject, placement_of(plan, gpus.tolist()), _shape(plan, gpus.size))


def _shape(plan: Plan, gpus: int) -> JobShape:
    server = resolve_server(plan.spec, plan.catalog)
    return shape_of_server(
        server,
        plan.catalog.gpu(server.gpu),
        gpus=gpus,
        transport=plan.spec.backend.transport,
        sharp=plan.spec.backend.in_network_reduction,
    )


def _rail(plan: Plan, text: str, which: str, groups: pl.DataFrame) -> Scope:
    everyone = _of_servers(plan, text, "", groups)
    rails = int(everyone.placement.rail.max())
    number = _number(text, which, rails, "rail")
    placement = everyone.placement
    on_rail = np.flatnonzero(placement.rail == number)
    _, first = np.unique(placement.domain[on_rail], return_index=True)
    gpus: NDArray[np.uint32] = placement.gpu[on_rail[first]]
    if gpus.size < 2:
        raise InputError(f"{text!r}: one {_node(everyone.shape)} has nobody to talk to on a rail", key="scope")
    shape = everyone.shape
    alone = replace(
        shape, nodes=gpus.size, gpus_per_node=1, nics_per_node=max(1, shape.nics_per_node // shape.gpus_per_node)
    )
    subject = f"rail {number} of {rails}, one GPU of each {_node(shape)}"
    return Scope(text, subject, placement_of(plan, gpus.tolist()), alone)


def _pair(plan: Plan, text: str, which: str, groups: pl.DataFrame) -> Scope:
    domains = groups["domain"].unique().sort()
    if len(domains) < 2:
        raise InputError(f"{text!r}: the cluster has one NVLink domain only", key="scope")
    if which in ("", "near"):
        chosen = domains.head(2).to_list()
    elif which == "far":
        chosen = [domains[0], domains[-1]]
    else:
        chosen = [_domain_named(name.strip(), text, groups) for name in which.split(",")]
        if len(set(chosen)) != 2:
            raise InputError(f"{text!r}: name two servers of different NVLink domains", key="scope")
    members = groups.filter(pl.col("domain").is_in(chosen))
    names = members.group_by("domain", maintain_order=True).first()["name"].to_list()
    units = members["unit"].n_unique()
    where = "on the same leaves" if units == 1 else "on different leaves"
    return _of_servers(plan, text, f"{names[0]} and {names[1]}, {where}", members)


def _domain_named(name: str, text: str, groups: pl.DataFrame) -> int:
    found = groups.filter(pl.col("name") == name)
    if found.is_empty():
        raise InputError(f"{text!r}: there is no server {name!r}{nearest(name, groups['name'])}", key="scope")
    return int(found["domain"][0])


def _number(text: str, which: str, most: int, what: str) -> int:
    try:
        number = parse_count(which)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}", key="scope") from None
    if not 1 <= number <= most:
        raise InputError(f"{text!r}: there is no {what} {number}; there are 1 to {most}", key="scope")
    return number


def _node(shape: JobShape) -> str:
    return "server" if shape.gpus_per_node <= 16 else "NVLink domain"
