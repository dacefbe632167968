"""The plan for other tools: NetBox's own import rules, the tools of ibutils, containerlab's rules, the DOT language."""

import csv
import json
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest
from ruamel.yaml import YAML

from railwright.build import netbox_loader
from railwright.build.cable_schedule import cable_schedule
from railwright.build.containerlab import containerlab, fabric_links
from railwright.build.exports import EXPORTS, write_export
from railwright.build.graphviz import dot
from railwright.build.netbox_types import slug
from railwright.cli.main import call
from railwright.design.plan import Plan
from railwright.errors import InputError

FACTS = Path(__file__).parent / "facts"
Row = dict[str, str]


def facts(name: str) -> list[Row]:
    with (FACTS / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


CHOICES: dict[str, set[str]] = {}
for _row in facts("netbox_choices.csv"):
    CHOICES.setdefault(_row["choice"], set()).add(_row["value"])
FORMS: dict[str, dict[str, bool]] = {}
for _row in facts("netbox_forms.csv"):
    FORMS.setdefault(_row["file"], {})[_row["field"]] = _row["required"] == "yes"

CHOICE_FIELDS = {
    ("02-sites.csv", "status"): "site status",
    ("04-racks.csv", "status"): "rack status",
    ("04-racks.csv", "form_factor"): "rack form factor",
    ("04-racks.csv", "width"): "rack width",
    ("07-devices.csv", "status"): "device status",
    ("07-devices.csv", "face"): "device face",
    ("08-interfaces.csv", "type"): "interface type",
    ("10-power-feeds.csv", "status"): "feed status",
    ("10-power-feeds.csv", "type"): "feed type",
    ("10-power-feeds.csv", "supply"): "feed supply",
    ("10-power-feeds.csv", "phase"): "feed phase",
    ("12-cables.csv", "type"): "cable type",
    ("12-cables.csv", "status"): "cable status",
    ("12-cables.csv", "profile"): "cable profile",
    ("12-cables.csv", "length_unit"): "length unit",
    ("13-power-cables.csv", "type"): "cable type",
    ("13-power-cables.csv", "status"): "cable status",
}


class Export:
    """The files of one export, read as NetBox reads them."""

    def __init__(self, folder: Path) -> None:
        self.csv = {file.name: list(self._rows(file)) for file in sorted(folder.glob("*.csv"))}
        self.types = list(YAML(typ="safe", pure=True).load_all((folder / "06-device-types.yaml").read_text()))
        self.breakouts: list[dict[str, Any]] = json.loads((folder / "14-breakout-cables.json").read_text())

    @staticmethod
    def _rows(file: Path) -> Iterator[Row]:
        with file.open(newline="", encoding="utf-8") as stream:
            yield from csv.DictReader(stream, strict=True)

    def names(self, file: str, *fields: str) -> list[tuple[str, ...]]:
        return [tuple(row[field] for field in fields) for row in self.csv[file]]


@pytest.fixture(scope="module", params=["rocev2", "infiniband"])
def export(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Export]:
    plan = request.getfixturevalue("papers_plan" if request.param == "rocev2" else "infiniband_plan")
    folder = tmp_path_factory.mktemp(request.param)
    write_export(plan, "netbox", folder)
    return plan, Export(folder)


def test_columns_are_fields_of_netboxs_forms_and_required_ones_are_filled(export: tuple[Plan, Export]) -> None:
    _, files = export
    assert set(files.csv) | {"06-device-types.yaml"} == set(FORMS)
    for name, rows in files.csv.items():
        for row in rows:
            assert set(row) <= set(FORMS[name]), name
            assert not [f for f, required in FORMS[name].items() if required and not row.get(f)], (name, row)
    for entry in files.types:
        assert set(entry) <= set(FORMS["06-device-types.yaml"])
        assert not [f for f, needed in FORMS["06-device-types.yaml"].items() if needed and f not in entry]


def test_words_are_netboxs_choices(export: tuple[Plan, Export]) -> None:
    _, files = export
    for (name, field), choice in CHOICE_FIELDS.items():
        used = {row[field] for row in files.csv[name] if row[field]}
        assert used <= CHOICES[choice], (name, field)
    for cable in files.breakouts:
        assert cable["type"] in CHOICES["cable type"]
        assert cable["profile"] in CHOICES["cable profile"]
    assert {entry.get("airflow", "passive") for entry in files.types} <= CHOICES["airflow"]


def test_every_object_named_is_in_an_earlier_file(export: tuple[Plan, Export]) -> None:
    _, files = export
    types = {(entry["manufacturer"], entry["model"]): entry for entry in files.types}
    sites, racks = set(files.names("02-sites.csv", "name")), set(files.names("04-racks.csv", "site", "name"))
    assert {(entry["manufacturer"],) for entry in files.types} <= set(files.names("01-manufacturers.csv", "name"))
    assert set(files.names("04-racks.csv", "role")) <= set(files.names("03-rack-roles.csv", "name"))
    devices = {row["name"]: row for row in files.csv["07-devices.csv"]}
    for row in devices.values():
        assert (row["manufacturer"], row["device_type"]) in types
        assert (row["role"],) in files.names("05-device-roles.csv", "name")
        assert (row["site"],) in sites
        assert not row["rack"] or (row["site"], row["rack"]) in racks
    seen: set[tuple[str, str]] = set()
    for row in files.csv["08-interfaces.csv"]:
        assert row["device"] in devices
        assert not row["parent"] or (row["device"], row["parent"]) in seen
        assert (row["type"] == "virtual") == bool(row["parent"])
        seen.add((row["device"], row["name"]))
    panels = set(files.names("09-power-panels.csv", "site", "name"))
    assert set(files.names("10-power-feeds.csv", "site", "power_panel")) <= panels
    assert set(files.names("10-power-feeds.csv", "site", "rack")) <= racks


def test_names_are_unique_where_netbox_wants_it(export: tuple[Plan, Export]) -> None:
    _, files = export
    keys = {
        "01-manufacturers.csv": ("slug",),
        "02-sites.csv": ("slug",),
        "04-racks.csv": ("site", "name"),
        "05-device-roles.csv": ("slug",),
        "07-devices.csv": ("name",),
        "08-interfaces.csv": ("device", "name"),
        "09-power-panels.csv": ("site", "name"),
        "10-power-feeds.csv": ("power_panel", "name"),
        "11-power-outlets.csv": ("device", "name"),
    }
    for name, fields in keys.items():
        found = files.names(name, *fields)
        assert len(set(found)) == len(found), name
    assert len({(entry["manufacturer"], entry["model"]) for entry in files.types}) == len(files.types)
    assert len({entry["slug"] for entry in files.types}) == len(files.types)


def test_boxes_stand_in_free_units_of_their_rack(export: tuple[Plan, Export]) -> None:
    _, files = export
    height = {(entry["manufacturer"], entry["model"]): entry["u_height"] for entry in files.types}
    room = {row["name"]: int(row["u_height"]) for row in files.csv["04-racks.csv"]}
    taken: set[tuple[str, int]] = set()
    for row in files.csv["07-devices.csv"]:
        assert bool(row["position"]) == bool(row["face"])
        if row["position"]:
            units = range(int(row["position"]), int(row["position"]) + height[row["manufacturer"], row["device_type"]])
            assert len(units) > 0
            assert 1 <= units[0] <= units[-1] <= room[row["rack"]]
            assert not taken & {(row["rack"], unit) for unit in units}, row
            taken |= {(row["rack"], unit) for unit in units}


def _terminations(files: Export) -> list[tuple[str, str, str]]:
    """Every end of every cable: kind of object, device (or panel), name."""
    found = []
    for name in ("12-cables.csv", "13-power-cables.csv"):
        for row in files.csv[name]:
            for side in ("a", "b"):
                holder = row[f"side_{side}_device"] or row[f"side_{side}_power_panel"]
                found.append((row[f"side_{side}_type"], holder, row[f"side_{side}_name"]))
    for cable in files.breakouts:
        ends = [*cable["a_terminations"], *cable["b_terminations"]]
        found += [(end["object_type"], end["device"], end["name"]) for end in ends]
    return found


def test_cables_end_on_things_that_exist_and_on_each_only_once(export: tuple[Plan, Export]) -> None:
    _, files = export
    ports = {
        (entry["manufacturer"], entry["model"]): [p["name"] for p in entry.get("power-ports", [])]
        for entry in files.types
    }
    exists = {
        ("dcim.interface", row["device"], row["name"])
        for row in files.csv["08-interfaces.csv"]
        if row["type"] != "virtual"
    }
    for row in files.csv["07-devices.csv"]:
        names = ports[row["manufacturer"], row["device_type"]]
        exists |= {("dcim.powerport", row["name"], port) for port in names}
    exists |= {
        ("dcim.poweroutlet", device, name) for device, name in files.names("11-power-outlets.csv", "device", "name")
    }
    exists |= {("dcim.powerfeed", p, name) for p, name in files.names("10-power-feeds.csv", "power_panel", "name")}
    ends = _terminations(files)
    assert set(ends) <= exists
    assert max(Counter(ends).values()) == 1
    # Nothing is left without its cable: every physical interface, outlet, feed and supply in a rack with PDUs.
    assert {end for end in exists if end[0] != "dcim.powerport"} <= set(ends)


def test_profiles_hold_as_many_ends_as_the_cable_has(export: tuple[Plan, Export]) -> None:
    plan, files = export
    shapes = dict(cable_schedule(plan).group_by("cable").agg(pl.col("shape").first()).iter_rows())
    for row in files.csv["12-cables.csv"]:
        assert (row["profile"], shapes[row["label"]]) == ("single-1c1p", "straight")
    assert files.breakouts
    for cable in files.breakouts:
        connectors = re.fullmatch(r"breakout-1c(\d)p-(\d)c1p", cable["profile"])
        assert connectors
        assert connectors[1] == connectors[2]
        tails = len(cable["b_terminations"])
        assert len(cable["a_terminations"]) == 1
        # Of the splitter's tails some may hang loose, never a whole smaller splitter's worth.
        assert int(connectors[2]) / 2 < tails <= int(connectors[2])
        assert shapes[cable["label"]] == f"1:{tails}"
    assert len(files.breakouts) + len(files.csv["12-cables.csv"]) == len(plan.table("cables"))


def test_media_have_netboxs_names(export: tuple[Plan, Export]) -> None:
    plan, files = export
    types = {row["label"]: row["type"] for row in files.csv["12-cables.csv"]}
    types |= {cable["label"]: cable["type"] for cable in files.breakouts}
    expected = {
        "dac": {"dac-passive"},
        "acc": {"dac-active"},
        "aec": {"dac-active"},
        "aoc": {"aoc"},
        "mmf": {"mmf-om4"},
        "smf": {"smf-os2"},
        "cat6": {"cat6"},
    }
    for medium, cables in cable_schedule(plan).group_by(pl.col("medium").cast(pl.String)):
        assert {types[label] for label in cables["cable"]} == expected[str(medium[0])]


def test_interfaces_are_called_after_their_cage_and_rate(
    papers_plan: Plan, infiniband_plan: Plan, tmp_path: Path
) -> None:
    for plan, where in ((papers_plan, "e"), (infiniband_plan, "i")):
        write_export(plan, "netbox", tmp_path / where)
    ethernet = {(r["device"], r["name"]): r for r in Export(tmp_path / "e").csv["08-interfaces.csv"]}
    infiniband = {(r["device"], r["name"]): r for r in Export(tmp_path / "i").csv["08-interfaces.csv"]}
    assert ethernet["server-0001", "bmc0"]["type"] == "1000base-t"
    assert ethernet["server-0001", "bmc0"]["mgmt_only"] == "true"
    assert infiniband["server-0001", "mlx5_0"]["type"] == "infiniband-ndr"
    assert infiniband["server-0001", "mlx5_0"]["speed"] == "400000000"
    leaf = {
        r["type"] for (device, name), r in infiniband.items() if device == "rail1-leaf1" and name.startswith("IB1/")
    }
    assert leaf <= {"infiniband-ndr", "virtual"}


def test_power_supplies_are_spread_over_the_pdus_and_the_pdus_over_the_feeds(export: tuple[Plan, Export]) -> None:
    _, files = export
    cords = [row for row in files.csv["13-power-cables.csv"] if row["side_b_type"] == "dcim.poweroutlet"]
    of_server = Counter(row["side_b_device"] for row in cords if row["side_a_device"] == "server-0001")
    # Six supplies (DGX H100) on three PDUs.
    assert sorted(of_server.values()) == [2, 2, 2]
    panels = {row["name"]: row["power_panel"] for row in files.csv["10-power-feeds.csv"]}
    assert [panels[f"row1-rack1-pdu{n}"] for n in (1, 2, 3)] == ["site1 feed A", "site1 feed B", "site1 feed A"]
    (server,) = [entry for entry in files.types if entry["model"] == "DGX H100"]
    draws = {(port["maximum_draw"], port["allocated_draw"]) for port in server["power-ports"]}
    # 10.2 kW: four of the six supplies carry it all.
    assert draws == {(2550, 1700)}
    feed = files.csv["10-power-feeds.csv"][0]
    carried = int(feed["voltage"]) * int(feed["amperage"]) * 1.732 * int(feed["max_utilization"]) / 100
    assert 22_000 <= carried < 22_000 + 415 * 1.732


def test_slugs_have_lower_case_letters_digits_and_hyphens_only() -> None:
    assert [slug(text) for text in ("NVIDIA", "A/B  c!", "")] == ["nvidia", "a-b-c", "x"]


@contextmanager
def fake_netbox(interfaces: dict[str, list[str]]) -> Iterator[tuple[str, list[Any], list[str]]]:
    """A server that pages interfaces by twos and keeps the cables and tokens that it gets."""
    posted: list[Any] = []
    tokens: list[str] = []
    numbers = {(d, n): i for i, (d, n) in enumerate(((d, n) for d, own in interfaces.items() for n in own), start=100)}

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, data: object) -> None:
            tokens.append(self.headers["Authorization"])
            body = json.dumps(data).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            device, first = query["device"][0], int(query["offset"][0])
            own = [{"id": numbers[device, n], "name": n} for n in interfaces.get(device, [])]
            page = own[first : first + 2]
            self._answer({"next": "more" if first + 2 < len(own) else None, "results": page})

        def do_POST(self) -> None:
            posted.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer({})

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", posted, tokens
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_loader_sends_breakouts_with_the_numbers_of_interfaces(
    export: tuple[Plan, Export], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, files = export
    interfaces: dict[str, list[str]] = {}
    for row in files.csv["08-interfaces.csv"]:
        interfaces.setdefault(row["device"], []).append(row["name"])
    file = tmp_path / "cables.json"
    file.write_text(json.dumps(files.breakouts))
    monkeypatch.setenv("NETBOX_TOKEN", "nbt_key.secret")
    with fake_netbox(interfaces) as (url, posted, tokens):
        netbox_loader.main([url, str(file)])
    assert set(tokens) == {"Bearer nbt_key.secret"}
    assert [cable["label"] for cable in posted] == [cable["label"] for cable in files.breakouts]
    ends = [end for cable in posted for end in (*cable["a_terminations"], *cable["b_terminations"])]
    assert all(set(end) == {"object_type", "object_id"} for end in ends)
    assert len({end["object_id"] for end in ends}) == len(ends)


def test_loader_names_the_interface_that_netbox_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    end = {"object_type": "dcim.interface", "device": "leaf", "name": "cage7"}
    with fake_netbox({"leaf": ["swp1"]}) as (url, posted, _), pytest.raises(SystemExit, match="cage7"):
        netbox_loader.load(netbox_loader.Api(url, "x"), [{"a_terminations": [end], "b_terminations": []}])
    assert posted == []
    with pytest.raises(SystemExit, match="http"):
        netbox_loader.Api("file:///etc/passwd", "x")
    monkeypatch.delenv("NETBOX_TOKEN", raising=False)
    with pytest.raises(SystemExit, match="NETBOX_TOKEN"):
        netbox_loader.main(["http://x", "y"])


def test_ibdmchk_takes_the_topology_file_and_finds_every_path(
    tool: Callable[[str], str], infiniband_plan: Plan, tmp_path: Path
) -> None:
    files = write_export(infiniband_plan, "topo", tmp_path)
    assert {file.suffix for file in files} == {".topo", ".ibnl"}
    run = subprocess.run(
        [tool("ibdmchk"), "-t", tmp_path / "backend.topo", "-n", "server-0001:mlx5_0/U1", "-p", "1"],
        env={"IBDM_IBNL_PATH": str(tmp_path / "ibnl"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    links = infiniband_plan.links.filter(pl.col("network") == "backend")
    ends = infiniband_plan.ports.join(infiniband_plan.devices, on="device_id").filter(
        pl.col("port_id").is_in(pl.concat([links["a_port"], links["b_port"]]).implode())
    )
    switches = ends.filter(pl.col("role").is_in(["leaf", "spine"]))["device_id"].n_unique()
    adapters = ends.filter(~pl.col("role").is_in(["leaf", "spine"])).height
    assert f"-I- Defined {switches + adapters}/{switches + adapters} systems/nodes" in run.stdout
    assert "-E-" not in run.stdout


def test_topology_files_of_an_ethernet_plan_are_refused(papers_plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="InfiniBand"):
        write_export(papers_plan, "topo", tmp_path)


def lab(plan: Plan, most: int = 48) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(containerlab(plan, most_nodes=most))
    return found


@pytest.mark.parametrize("most", [6, 20, 48])
def test_a_lab_has_no_more_containers_than_asked_for_and_all_are_connected(papers_plan: Plan, most: int) -> None:
    topology = lab(papers_plan, most)["topology"]
    assert 2 < len(topology["nodes"]) <= most
    ends = [end.split(":") for link in topology["links"] for end in link["endpoints"]]
    assert {node for node, _ in ends} == set(topology["nodes"])
    assert max(Counter(map(tuple, ends)).values()) == 1
    for node, interface in ends:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,14}", interface)
        assert interface != "eth0", node


def test_a_lab_that_holds_everything_has_every_link_of_the_ethernet_fabrics(papers_plan: Plan) -> None:
    assert len(lab(papers_plan, 10_000)["topology"]["links"]) == fabric_links(papers_plan).height


def test_sonic_switches_are_sonic_containers_with_their_interfaces(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan("z9864f")
    topology = lab(plan)["topology"]
    assert topology["nodes"]["spine1"] == {"kind": "sonic-vs", "image": "docker-sonic-vs:latest"}
    spine = [end for link in topology["links"] for end in link["endpoints"] if end.startswith("spine1:")]
    assert sorted(spine) == [f"spine1:eth{n}" for n in (1, 2, 3, 4)]


def test_a_lab_mounts_the_configurations_that_are_there(papers_plan: Plan, tmp_path: Path) -> None:
    leaf = papers_plan.devices.filter((pl.col("role") == "leaf") & (pl.col("network") == "backend"))["name"][0]
    (tmp_path / leaf).mkdir()
    (tmp_path / leaf / "frr.conf").write_text("!")
    (file,) = write_export(papers_plan, "containerlab", tmp_path / "exports" / "containerlab")
    nodes = YAML(typ="safe", pure=True).load(file.read_text())["topology"]["nodes"]
    assert nodes[leaf]["binds"] == [f"../../{leaf}/frr.conf:/etc/frr/frr.conf"]
    assert sum("binds" in node for node in nodes.values()) == 1


def test_dot_has_every_link_once_and_quotes_any_name(papers_plan: Plan) -> None:
    evil = 'a"; drop\\'
    hostile = papers_plan.with_tables(
        devices=papers_plan.devices.with_columns(
            name=pl.when(pl.col("device_id") == 0).then(pl.lit(evil)).otherwise("name")
        )
    )
    for network in ("backend", "frontend", "storage", "management"):
        text = dot(hostile, network)
        labels = re.findall(r'^  ".*" -- ".*" \[label="(?:(\d+) x )?[\d.]+G"\];$', text, re.MULTILINE)
        assert sum(int(count or 1) for count in labels) == papers_plan.links.filter(pl.col("network") == network).height
        assert '"a\\"; drop\\\\"' in text
        # Outside of quoted strings braces balance and no quote is left.
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
        assert '"' not in bare
        assert bare.count("{") == bare.count("}")


def test_an_unknown_tool_is_named_with_the_nearest_one(papers_plan: Plan, tmp_path: Path) -> None:
    assert set(EXPORTS) == {"netbox", "containerlab", "topo", "dot"}
    with pytest.raises(InputError, match="did you mean 'netbox'"):
        write_export(papers_plan, "netbx", tmp_path)


@pytest.mark.parametrize("kind", ["netbox", "topo"])
def test_hostile_names_are_refused_in_exports(infiniband_plan: Plan, tmp_path: Path, kind: str) -> None:
    first = pl.int_range(pl.len()) == 0
    devices = infiniband_plan.devices.with_columns(name=pl.when(first).then(pl.lit("=cmd()")).otherwise("name"))
    with pytest.raises(InputError, match="name of a device"):
        write_export(infiniband_plan.with_tables(devices=devices), kind, tmp_path / "out")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_build_puts_papers_and_exports_beside_the_configurations(
    papers_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    papers_plan.save(tmp_path / "plan")
    out = tmp_path / "out"
    asked = [
        "build",
        str(tmp_path / "plan"),
        "-o",
        str(out),
        "--nos",
        "frr",
        "--documents",
        "--export",
        "netbox",
        "--json",
    ]
    assert call(asked) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert {"documents/cable-schedule.csv", "documents/install/index.html", "exports/netbox/12-cables.csv"} <= set(
        files
    )
    assert {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} == {*files, "build.json"}
    assert call([*asked[:4], "--export", "netbux"]) == 2
    assert "did you mean 'netbox'?" in capsys.readouterr().err
