"""The spec loader: every mistake at once and at its place, waivers, references, and YAML that loads back equal."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.catalog.load import load_catalog
from railwright.errors import InputError
from railwright.spec.cluster import (
    Backend,
    Cluster,
    ClusterSpec,
    Counts,
    Demand,
    Frontend,
    Growth,
    Ignore,
    Management,
    Marking,
    Oversubscription,
    RackPlan,
    Site,
    Storage,
    Tenant,
    Workload,
)
from railwright.spec.economics import Economics, Price
from railwright.spec.load import dump_spec, load_spec, parse_spec

HEAD = "name: test\ncluster: {gpus: 1024, server: dgx-h100}\n"


def errors_of(text: str) -> list[InputError]:
    with pytest.raises(InputError) as caught:
        file = parse_spec(text, "cluster.yaml")
        file.checked(file.catalog())
    return caught.value.flat()


def test_all_mistakes_of_a_file_are_reported_at_once_in_its_order():
    text = (
        "nme: test\n"
        "cluster:\n  gpus: many\n  server: dgx-h100\n"
        "backend:\n  topology: torus\n  tiers: 4\n"
        "# railwright: ignore RW101\n"
        "frontend:\n  oversubscription: 3 to 1\n"
    )
    assert [(error.line, error.key) for error in errors_of(text)] == [
        (1, "name"),
        (1, "nme"),
        (3, "cluster.gpus"),
        (6, "backend.topology"),
        (7, "backend.tiers"),
        (8, "ignore"),
        (10, "frontend.oversubscription"),
    ]


def test_contradictions_and_references_are_reported_together():
    text = HEAD + "backend:\n  transport: infiniband\n  congestion: pfc-only\n  switch: sn5600\ngrowth: {gpus: 100}\n"
    assert [error.key for error in errors_of(text)] == [
        "backend.congestion",
        "backend.switch",
        "growth.gpus",
        "growth.gpus",
    ]


def test_a_mistake_without_a_line_of_its_own_is_at_its_section():
    (error,) = errors_of("name: test\ncluster:\n  gpus: 8\n")
    assert (error.line, error.key) == (2, "cluster.server")


def test_counts_that_break_a_design_rule_are_no_mistake():
    text = HEAD + "backend:\n  counts: {spines: 3, leaves: 7, leaf_up_ports: 1}\nfrontend:\n  firewalls: 1\n"
    spec = parse_spec(text).checked(load_catalog())
    assert spec.backend.counts.spines == 3


def test_a_comment_waives_rules_with_a_reason():
    text = (
        HEAD
        + "backend:\n  oversubscription: {leaf: 2:1}  # railwright: ignore RW101, RW112 because jobs stay below one leaf\n"
    )
    assert parse_spec(text).spec.ignore == (
        Ignore(code="RW101", reason="jobs stay below one leaf"),
        Ignore(code="RW112", reason="jobs stay below one leaf"),
    )


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("# railwright: ignore RW101", "waived without a reason"),
        ("# railwright: ignore RW101 because", "is not understood"),
        ("# railwright: ignore RW101 because x", "too short"),
        ("# railwright: ignore", "is not understood; write: # railwright: ignore RW101 because"),
        ("# railwright: ignor RW101 because of reasons", "is not understood"),
        ("# railwright: ignore rw101 because of reasons", "is not understood"),
    ],
)
def test_a_comment_that_looks_like_a_waiver_and_is_none_is_a_mistake(comment, says):
    (error,) = errors_of(HEAD + f"{comment}\n")
    assert error.line == 3
    assert says in error.message


def test_other_comments_are_left_alone():
    assert parse_spec(HEAD + "# railwright: 1\n# railwright rocks\nseed: 1 # ignore RW101\n").spec.ignore == ()


def test_text_that_looks_like_a_waiver_is_no_comment():
    text = HEAD + "economics:\n  prices:\n    sn5600: {usd: 1, date: 2024, source: 'x # railwright: ignore RW101'}\n"
    assert parse_spec(text).spec.ignore == ()


def test_a_users_catalog_is_found_beside_the_spec(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("switches:\n  sn5600:\n    latency_ns: 700\n")
    (tmp_path / "cluster.yaml").write_text(HEAD + "catalog: ./mine.yaml\nbackend: {switch: sn5600}\n")
    assert load_spec(tmp_path / "cluster.yaml").catalog == "./mine.yaml"


@pytest.mark.parametrize(("name", "says"), [(".", "is a directory"), ("no.yaml", "does not exist")])
def test_a_catalog_that_is_no_file_is_a_mistake_at_its_line(tmp_path: Path, name, says):
    (tmp_path / "cluster.yaml").write_text(HEAD + f"catalog: {name}\n")
    with pytest.raises(InputError) as caught:
        load_spec(tmp_path / "cluster.yaml")
    assert (caught.value.line, caught.value.key) == (3, "catalog")
    assert says in caught.value.message


def test_mistakes_in_the_users_catalog_name_that_file(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("switches:\n  sn5600:\n    latency: 700\n")
    (tmp_path / "cluster.yaml").write_text(HEAD + "catalog: mine.yaml\n")
    with pytest.raises(InputError, match=r"mine\.yaml:3:5"):
        load_spec(tmp_path / "cluster.yaml")


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("backend: {transport: infiniband, subnet_managers: 0}", "backend.subnet_managers", "at least 1"),
        ("backend: {subnet_managers: 2}", "backend.subnet_managers", "belong to InfiniBand"),
        ("backend: {congestion: credits}", "backend.congestion", "RoCEv2 has dcqcn+pfc"),
        ("backend: {transport: infiniband, load_balancing: flowlet}", "backend.load_balancing", "adaptive"),
        (
            "backend: {transport: infiniband, ecn: {kmin: 1 MB, kmax: 2 MB, pmax: 5%}}",
            "backend.ecn",
            "InfiniBand marks no packets",
        ),
        (
            "backend: {congestion: pfc-only, ecn: {kmin: 1 MB, kmax: 2 MB, pmax: 5%}}",
            "backend.ecn",
            "'pfc-only' marks no packets",
        ),
        ("backend: {ecn: {kmin: 2 MB, kmax: 1 MB, pmax: 5%}}", "backend.ecn.kmax", "is below kmin"),
        ("backend: {ecn: {kmin: 1 MB, kmax: 2 MB, pmax: 0}}", "backend.ecn.pmax", "marks nothing"),
        ("backend: {isolation: partition}", "backend.isolation", "vrf, vlan or physical"),
        ("backend: {transport: infiniband, isolation: vrf}", "backend.isolation", "partition or physical"),
        ("backend: {topology: multi-plane, planes: 1}", "backend.planes", "at least 2 planes"),
        (
            "backend: {tiers: 1, counts: {spines: 4}}",
            "backend.counts.spines",
            "one tier has no spines, 4 are asked for",
        ),
        ("backend: {tiers: 2, counts: {cores: 4}}", "backend.counts.cores", "cores need 3 tiers"),
        ("storage: {enabled: false}\nconverge: [frontend, storage]", "converge[1]", "is not planned"),
        ("sites: [{name: a, distance: 2 km}]", "sites[0].distance", "where distances start"),
        ("sites: [{name: a, backend: false}]", "sites", "no site has GPU servers"),
        ("sites: [{name: a, share: 30%}, {name: b, share: 30%}]", "sites", "add up to 0.6"),
        ("sites: [{name: a}, {name: a}]", "sites[1].name", "two sites have the same name"),
        ("cabling: {parts: [{network: backend, cable: mfp7e10}]}", "cabling.parts[0].cable", "is a fibre cord"),
        ("frontend: {enabled: false}\ndemand: {requests: 5/s}", "demand.requests", "needs the frontend network"),
        ("workload: {name: x, tensor_parallel: 3}", "workload", "= 3, which does not divide the 1024 GPUs"),
        ("workload: {name: x, expert_parallel: 3}", "workload.expert_parallel", "3 does not divide the 1024 GPUs"),
        ("sites: [{name: a, racks: {height_ru: 6}}]", "sites[0].racks.height_ru", "is 8 RU high"),
        ("management: {oob_switch: sn5400}", "management.oob_switch", "no port for BMCs and PDUs (1G)"),
        (
            "frontend: {leaf_switch: qm9700}",
            "frontend.leaf_switch",
            "is an InfiniBand switch and the frontend network is Ethernet",
        ),
    ],
)
def test_what_no_cluster_can_be_is_a_mistake(text, key, says):
    found = errors_of(HEAD + text + "\n")
    assert [error.key for error in found][:1] == [key]
    assert says in found[0].message


def examples() -> list[Path]:
    return sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.stem)
def test_examples_load_and_write_back(path: Path):
    spec = load_spec(path)
    assert parse_spec(dump_spec(spec)).spec == spec


def test_the_dump_is_text_for_people():
    text = dump_spec(parse_spec(HEAD + "demand: {checkpoint: 1 TB}\n").spec)
    for line in (
        "  checkpoint_interval: 30 min",
        "  checkpoint: 1 TB",
        '  oversubscription: "3:1"',
        "  firewall_gbps: 400G",
    ):
        assert line in text.splitlines()


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
KEYS = st.from_regex(r"[a-z0-9][a-z0-9.+-]{0,20}", fullmatch=True)
COUNTS = st.integers(1, 10**6)
AMOUNTS = st.floats(1e-3, 1e15, allow_subnormal=False)
SHARES = st.floats(0, 1, allow_subnormal=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=3, max_size=20).filter(
    lambda text: len(text.strip()) >= 3
)


def some(model, **fields):
    return st.builds(
        model,
        **{name: value if name in REQUIRED.get(model, ()) else st.none() | value for name, value in fields.items()},
    )


REQUIRED = {Workload: ("name",), Cluster: ("gpus", "server"), Tenant: ("name", "servers"), Site: ("name", "distance")}
SPECS = st.builds(
    ClusterSpec,
    name=NAMES,
    seed=st.integers(0, 2**31 - 1),
    catalog=st.none() | TEXTS,
    cluster=some(Cluster, gpus=COUNTS, server=KEYS, gpus_per_server=COUNTS, nic_gbps=AMOUNTS),
    backend=st.builds(
        Backend,
        switch=st.none() | KEYS,
        uplink_gbps=st.none() | AMOUNTS,
        oversubscription=st.builds(Oversubscription, leaf=AMOUNTS, spine=AMOUNTS),
        counts=some(Counts, leaves=COUNTS, spines=COUNTS),
        bfd=st.booleans(),
        ecn=st.none() | st.builds(Marking, kmin=AMOUNTS, kmax=AMOUNTS, pmax=SHARES),
    ),
    frontend=st.builds(Frontend, oversubscription=AMOUNTS, firewall_gbps=AMOUNTS),
    storage=st.builds(Storage, appliance_read=AMOUNTS),
    management=st.builds(Management, telemetry_interval=AMOUNTS, telemetry_bytes_per_port=AMOUNTS),
    converge=st.lists(st.sampled_from(["frontend", "storage", "management"]), min_size=2, unique=True) | st.just(()),
    sites=st.lists(
        st.builds(
            Site,
            name=NAMES,
            distance=AMOUNTS,
            share=st.none() | SHARES,
            racks=st.builds(RackPlan, power=AMOUNTS, weight=AMOUNTS, slack=SHARES, pitch=AMOUNTS),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda site: site.name,
    ),
    tenants=st.lists(st.builds(Tenant, name=NAMES, servers=COUNTS), max_size=2, unique_by=lambda tenant: tenant.name),
    demand=st.builds(Demand, requests=st.none() | AMOUNTS, checkpoint=st.none() | AMOUNTS, checkpoint_time=AMOUNTS),
    workload=st.none() | some(Workload, name=TEXTS, tensor_parallel=COUNTS),
    economics=st.builds(
        Economics,
        prices=st.dictionaries(
            TEXTS.filter(lambda key: key != "<<"),
            st.builds(Price, usd=AMOUNTS, date=st.sampled_from(["2024", "2024-05", "2024-05-06"]), source=TEXTS),
            max_size=2,
        ),
        energy=AMOUNTS,
    ),
    growth=st.none() | st.builds(Growth, gpus=COUNTS),
    ignore=st.lists(st.builds(Ignore, code=st.just("RW101"), reason=TEXTS), max_size=2),
)


@settings(deadline=None, max_examples=150)
@given(spec=SPECS)
def test_every_spec_loads_back_equal_from_what_it_is_written_as(spec):
    text = dump_spec(spec)
    assert parse_spec(text).spec == spec
    assert dump_spec(parse_spec(text).spec) == text


@settings(deadline=None)
@given(data=st.text(max_size=300))
def test_any_text_behind_a_good_start_is_a_spec_or_an_input_error(data):
    try:
        assert parse_spec(HEAD + data).spec.name
    except InputError as error:
        assert all(single.line for single in error.flat())
