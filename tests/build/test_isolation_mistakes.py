"""Mistakes of isolation and of the edge, seeded into clean configurations: each is found with its hop and line."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from railwright.build.partitions import DEFAULT_KEY, read_partitions
from railwright.build.render import render_plan
from railwright.catalog.load import load_catalog
from railwright.check.configs import check_configs
from railwright.cli.build import write_build
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.errors import InputError
from railwright.findings import Finding
from railwright.spec.cluster import ClusterSpec

Edit = Callable[[str], str]


def plan_of(apart_by: str, **backend: Any) -> Plan:
    """Two tenants with four servers each."""
    return design_plan(
        ClusterSpec.model_validate(
            {
                "name": "tenants",
                "cluster": {"servers": 8, "server": "dgx-h100"},
                "backend": backend,
                "tenants": [{"name": name, "servers": 4, "isolation": apart_by} for name in ("red", "blue")],
            }
        ),
        load_catalog(),
    )


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    """Tenants apart by VRF, by VLAN and by partition."""
    ethernet = {"topology": "rail-optimized", "tiers": 2, "switch": "sn5600", "counts": {"spines": 4}}
    return {
        "vrf": plan_of("vrf", **ethernet),
        "vlan": plan_of("vlan", **ethernet),
        "partition": plan_of("partition", transport="infiniband", switch="qm9700", isolation="partition"),
    }


@pytest.fixture(scope="module")
def clean(plans: dict[str, Plan], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Clean configurations: ``KIND-NOS``."""
    root = tmp_path_factory.mktemp("clean")
    for kind, nos, platform in (
        ("vrf", "sonic", None),
        ("vrf", "nvue", None),
        ("vrf", "frr", None),
        ("vrf", "eos", "7060x6-64pe"),
        ("vlan", "nvue", None),
        ("partition", "nvue", None),
    ):
        write_build(render_plan(plans[kind], (nos,), platform), root / f"{kind}-{nos}")
    return {path.name: path for path in root.iterdir()}


def swap(old: str, new: str, count: int = 1) -> Edit:
    """Replace text, which must be there."""

    def apply(text: str) -> str:
        assert re.search(old, text, re.MULTILINE), old
        return re.sub(old, new, text, count=count, flags=re.MULTILINE)

    return apply


@dataclass(frozen=True)
class Seed:
    """``file`` of the clean set; ``line`` is in the line that the finding must point at."""

    name: str
    clean: str
    file: str
    edit: Edit
    code: str
    line: str
    alone: bool = True


PARTITIONS = "opensm/backend/partitions.conf"
FIRST, OTHER = "0x02c9030000000001", r"(blue=0x8002.*: )"
SEEDS = [
    Seed(
        "tenant's port in another tenant's VRF (NVUE)",
        "vrf-nvue",
        "rail1-leaf1/startup.yaml",
        swap(r"(swp1s0:(?:\n +.*)*?\n +vrf: )red", r"\1blue"),
        "RW037",
        "ip:",
    ),
    Seed(
        "tenant's port in another tenant's VRF (SONiC)",
        "vrf-sonic",
        "rail1-leaf1/config_db.json",
        swap('"vrf_name": "Vrf-red"', '"vrf_name": "Vrf-blue"'),
        "RW037",
        '"vrf_name": "Vrf-blue"',
    ),
    Seed(
        "tenant's port in another tenant's VRF (EOS)",
        "vrf-eos",
        "rail1-leaf1/startup-config",
        swap("^   vrf red", "   vrf blue"),
        "RW037",
        "vrf blue",
    ),
    Seed(
        "tenant's VLAN on another tenant's port (NVUE)",
        "vlan-nvue",
        "rail1-leaf1/startup.yaml",
        swap("access: 101", "access: 102"),
        "RW037",
        "bridge:",
    ),
    Seed(
        "tenant's bond in another tenant's VLAN (NVUE)",
        "vrf-nvue",
        "frontend-leaf1/startup.yaml",
        swap("access: 201", "access: 202"),
        "RW037",
        "bridge:",
        alone=False,
    ),
    Seed(
        "gateway of a tenant in another VRF (NVUE)",
        "vrf-nvue",
        "frontend-leaf1/startup.yaml",
        swap(r"(vlan201:(?:\n +.*)*?\n +vrf: )red", r"\1blue"),
        "RW037",
        "vlan201",
        alone=False,
    ),
    Seed(
        "VRF leak (FRR)",
        "vrf-frr",
        "rail1-leaf1/frr.conf",
        swap(r"(router bgp \d+ vrf blue\n(?: .*\n)*?  redistribute connected\n)", r"\1  import vrf red\n"),
        "RW038",
        "import vrf red",
    ),
    Seed(
        "VRF leak (SONiC)",
        "vrf-sonic",
        "rail1-leaf1/frr.conf",
        swap(r"(router bgp \d+ vrf Vrf-blue\n(?: .*\n)*?  redistribute connected\n)", r"\1  import vrf Vrf-red\n"),
        "RW038",
        "import vrf Vrf-red",
    ),
    Seed(
        "VRF leak by a route target (EOS)",
        "vrf-eos",
        "rail1-leaf1/startup-config",
        swap(
            r"(vrf blue\n +rd .*\n +route-target import evpn .*\n)", r"\1      route-target import evpn 50003:50003\n"
        ),
        "RW038",
        "50003:50003",
    ),
    Seed(
        "VRF leak (NVUE)",
        "vrf-nvue",
        "rail1-leaf1/startup.yaml",
        swap(
            r"(\n    vrf:\n      blue:\n(?:.*\n)*?( +)ipv4-unicast:\n)",
            r"\1\2  route-import:\n\2    from-vrf:\n\2      list:\n\2        red: {}\n",
        ),
        "RW038",
        "list:",
    ),
    Seed(
        "border without a filter toward the provider (FRR)",
        "vrf-frr",
        "border1/frr.conf",
        swap(r"^  neighbor \S+ route-map OUTSIDE-.*\n", "", 0),
        "RW039",
        "neighbor",
    ),
    Seed(
        "border takes everything from the provider (SONiC)",
        "vrf-sonic",
        "border1/frr.conf",
        swap(r"(OUTSIDE-IN seq 10 permit 0.0.0.0/0)", r"\1 le 32"),
        "RW039",
        "OUTSIDE-IN seq 10 permit 0.0.0.0/0 le 32",
    ),
    Seed(
        "border would carry traffic between providers (NVUE)",
        "vrf-nvue",
        "border1/startup.yaml",
        swap(r"(OUTSIDE-OUT:\n(?:.*\n)*?)( +)'10.240.0.0/24': \{\}", r"\1\2'0.0.0.0/0':\n\2  max-prefix-len: 32"),
        "RW039",
        "OUTSIDE-OUT",
    ),
    Seed(
        "no limit of routes from the provider (EOS)",
        "vrf-eos",
        "border1/startup-config",
        swap(r"^ +neighbor ANY-OUTSIDE-10 maximum-routes 10\n", ""),
        "RW039",
        "bgp listen range",
    ),
    Seed(
        "service routes not tagged (FRR)",
        "vrf-frr",
        "border1/frr.conf",
        swap(r"^ set community .*\n", ""),
        "RW039",
        "BALANCER-IN",
        alone=False,
    ),
    Seed(
        "default partition open",
        "partition-nvue",
        PARTITIONS,
        swap("ALL=limited", "ALL=full"),
        "RW040",
        "Default=0x7fff",
    ),
    Seed(
        "port full member of two tenants' partitions",
        "partition-nvue",
        PARTITIONS,
        swap(OTHER, rf"\g<1>{FIRST}=full, "),
        "RW040",
        "blue=0x8002",
    ),
    Seed(
        "port missing in its tenant's partition",
        "partition-nvue",
        PARTITIONS,
        swap(rf"{FIRST}=full, ", ""),
        "RW040",
        "red=0x8001",
        alone=False,
    ),
    Seed(
        "hash instead of adaptive routing (NVUE)",
        "vrf-nvue",
        "spine1/startup.yaml",
        swap(r"^ +adaptive-routing:\n +enable: 'on'\n(?= +bgp:)", ""),
        "RW041",
        "forwarding:",
        alone=False,
    ),
]


def found(findings: list[Finding], seed: Seed, folder: Path) -> bool:
    """Say whether a finding has the code, names the hop and points at the line."""
    device = seed.file.partition("/")[0]
    for finding in findings:
        match = re.search(r"\[([^\]]+?)(?::(\d+))?\]$", finding.message)
        if finding.code != seed.code or match is None or not match[1].startswith(device):
            continue
        on_hop = device == "opensm" or re.match(rf"hop (server-\d+|head\d+)( > \S+)* > {device}: ", finding.message)
        lines = (folder / match[1]).read_text().splitlines()
        if on_hop and seed.line in (lines[int(match[2]) - 1] if match[2] else ""):
            return True
    return False


def test_the_clean_sets_have_no_finding(plans: dict[str, Plan], clean: dict[str, Path]) -> None:
    for name, folder in clean.items():
        # FRR on a switch says nothing of the path mode, so nothing of it is compared.
        assert check_configs(folder, plans[name.partition("-")[0]]) == [], name
        assert check_configs(folder) == [], name


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_a_seeded_mistake_is_found_on_its_hop_and_line(
    plans: dict[str, Plan], clean: dict[str, Path], tmp_path: Path, seed: Seed
) -> None:
    folder = tmp_path / "configs"
    shutil.copytree(clean[seed.clean], folder)
    file = folder / seed.file
    file.write_text(seed.edit(file.read_text()))
    with_plan = check_configs(folder, plans[seed.clean.partition("-")[0]])
    assert found(with_plan, seed, folder), [(f.code, f.subject, f.message) for f in with_plan]
    if seed.alone:
        alone = check_configs(folder)
        assert found(alone, seed, folder), [(f.code, f.subject, f.message) for f in alone]


def test_the_server_of_a_foreign_member_is_named(
    plans: dict[str, Plan], clean: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "configs"
    shutil.copytree(clean["partition-nvue"], folder)
    file = folder / PARTITIONS
    file.write_text(re.sub(OTHER, rf"\g<1>{FIRST}=full, ", file.read_text()))
    subjects = {f.subject for f in check_configs(folder, plans["partition"]) if f.code == "RW040"}
    assert subjects == {f"server-0001 GUID {FIRST}"}


def test_partitions_are_read_as_opensm_documents_them() -> None:
    text = "# comment\nDefault=0x7fff,ipoib:ALL=limited,SELF=full;\nred=0x1,defmember=full:\n 0x10,\n 0x11=limited;\n"
    default, red = read_partitions("p", text)
    assert (default.key, [(m.who, m.membership) for m in default.members]) == (
        DEFAULT_KEY,
        [("ALL", "limited"), ("SELF", "full")],
    )
    assert [(m.who, m.membership, m.line) for m in red.members] == [(0x10, "full", 4), (0x11, "limited", 5)]
    with pytest.raises(InputError, match=r"p:1"):
        read_partitions("p", "= 0x7 : ALL;\n")
