"""A user's own catalog file: what it may add and change, and how its mistakes are told."""

from pathlib import Path

import pytest

from railwright.catalog.load import load_catalog
from railwright.catalog.validate import catalog_findings
from railwright.errors import InputError, InputErrors

SWITCH = """
switches:
  mine:
    name: Mine
    vendor: Me
    asic: Tomahawk 5
    protocol: ethernet
    capacity_gbps: 51200
    cages:
      - {count: 64, form_factor: osfp-ihs, lanes: 8, lane_gbps: 100, breakouts: [1x800, 2x400]}
    ru: 2
    nos: [sonic]
    port_name: {sonic: "Ethernet{lane}"}
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return file


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_catalog(write(tmp_path, text))
    error = caught.value
    errors = error.errors if isinstance(error, InputErrors) else [error]
    return [str(problem).removeprefix(f"{tmp_path}/") for problem in errors]


def test_a_new_entry_is_sourced_to_the_file(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, SWITCH))
    assert catalog.switch("mine").ports_at(400) == 128
    assert catalog.switch("mine").source_of("ru") == "user file mine.yaml"
    assert catalog.user_keys == (("switches", "mine"),)
    assert catalog_findings(catalog, only_user=True) == []


def test_a_known_key_keeps_what_the_file_does_not_say(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, "switches:\n  sn5600:\n    power_max_w: 2000\n"))
    switch, packaged = catalog.switch("sn5600"), load_catalog().switch("sn5600")
    assert (switch.power_max_w, switch.source_of("power_max_w")) == (2000, "user file mine.yaml")
    assert "power_max_w" in packaged.unverified
    assert "power_max_w" not in switch.unverified
    assert switch.buffer_bytes == packaged.buffer_bytes
    assert switch.source_of("buffer_bytes") == packaged.source_of("buffer_bytes")


def test_the_packaged_catalog_does_not_change_with_a_user_file(tmp_path: Path) -> None:
    load_catalog(write(tmp_path, SWITCH))
    assert "mine" not in load_catalog().switches


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("switches:", "switch:", "mine.yaml:2:1: switch: no such kind of entry (did you mean 'switches'?)"),
        ("    asic:", "    asik:", "mine.yaml:6:5: switches.mine.asik: unknown key 'asik' (did you mean 'asic'?)"),
        ("ethernet", "ethernot", "mine.yaml:7:15: switches.mine.protocol: 'ethernot' is not allowed"),
        ("51200", "-1", "mine.yaml:8:20: switches.mine.capacity_gbps: -1 is out of range"),
        ("2x400]", "2by400]", "'2by400' is not a breakout mode; write COUNTxGBPS, for example 2x400"),
        (
            "lanes: 8",
            "lane: 8",
            "mine.yaml:10:44: switches.mine.cages[0].lane: unknown key 'lane' (did you mean 'lanes'?)",
        ),
        ("  mine:", "  Mine:", "switches.Mine: a key has lower-case letters"),
        ("    ru: 2", "    ru: 2\n    ru: 3", "this key is already given in line 11"),
        ("    ru: 2\n", "", "mine.yaml:3:3: switches.mine.ru: this key is needed"),
        ("    ru: 2", "    ru: 2\n    sources: {rux: me}", "'rux' in sources or unverified is not a field"),
        ("    ru: 2", "    ru: 2\n    key: other", "switches.mine.key: is the name above"),
    ],
)
def test_a_mistake_names_its_line_its_key_and_what_would_be_right(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SWITCH
    assert any(message in problem for problem in problems(tmp_path, SWITCH.replace(old, new)))


def test_all_mistakes_of_a_file_are_told_at_once_in_its_order(tmp_path: Path) -> None:
    found = problems(
        tmp_path, SWITCH.replace("ru: 2", "ru: no").replace("51200", "none") + "gpus:\n  h100:\n    hbm_gb: 0\n"
    )
    assert [problem.split(": ")[1] for problem in found] == [
        "switches.mine.capacity_gbps",
        "switches.mine.ru",
        "gpus.h100.hbm_gb",
    ]


def test_an_unknown_key_names_the_nearest_spelling() -> None:
    with pytest.raises(InputError, match=r"backend\.leaf_switch: .*'sn560'.*did you mean 'sn56") as caught:
        load_catalog().switch("sn560", where="backend.leaf_switch")
    assert caught.value.exit_code == 2


def test_a_list_of_62_of_64_ports_is_reported(tmp_path: Path) -> None:
    text = SWITCH.replace("count: 64", "count: 31").replace("[1x800, 2x400]", "[2x400]").replace("51200", "25600")
    (finding,) = catalog_findings(load_catalog(write(tmp_path, text)), only_user=True)
    assert finding.code == "RW911"
    assert finding.subject == "switches.mine"
    assert "31 cages of 800G where 32 would fill it" in finding.message


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (SWITCH.replace("2x400]", "16x50]"), "RW912", "breakout 16x50 of cages[0] does not fit 8 lanes"),
        (SWITCH.replace("{lane}", "{cage}").replace("1x800", "4x200"), "RW916", "two ports get the same name"),
        (SWITCH.replace("{lane}", "{lan}"), "RW916", "unknown field 'lan' (did you mean 'lane'?)"),
        (SWITCH.replace("nos: [sonic]", "nos: [sonic, eos]"), "RW916", "port_name of eos: is missing"),
        ("servers:\n  dgx-h100:\n    gpu: h1000\n", "RW913", "'h1000' is not in the catalog (did you mean 'h100'?)"),
        ("servers:\n  gb200-nvl72:\n    scale_up_gpus: 71\n", "RW915", "71 GPUs is not whole servers of 4"),
        ("nics:\n  connectx-7-osfp:\n    pcie_generation: 4\n", "RW914", "252 Gb/s, less than one port of 400G"),
        (
            "optics:\n  mma4z00-ns:\n    pmd: 400g-sr5\n",
            "RW913",
            "'400g-sr5' is not in the catalog (did you mean '400g-sr",
        ),
        ("optics:\n  mma4z00-ns:\n    legs: 1\n", "RW912", "1 legs of 400g-sr4 are 400G, not 800G"),
        ("optics:\n  mma4z00-ns:\n    reach_m: {om4: 150}\n", "RW915", "reaches 150 m on om4, 400g-sr4 100 m"),
        ("optics:\n  mma4z00-ns:\n    connector: lc-duplex\n", "RW915", "lc-duplex/apc is not a connector of 400g-sr4"),
        ("optics:\n  mma4z00-ns:\n    form_factor: qsfp112\n", "RW912", "8 lanes of 100G do not fit qsfp112"),
        ("pmds:\n  400g-dr4:\n    lanes: 8\n", "RW912", "8 lanes of 100G are 800G, not 400G"),
        ("interop:\n  sr4+vr4:\n    pmds: [400g-sr4, 400g-dr4]\n", "RW915", "cannot work"),
        ("cables:\n  mcp4y10:\n    lengths_m: [3, 2]\n", "RW915", "does not rise"),
        ("cables:\n  mcp4y10:\n    lengths_m: [1, 5]\n", "RW915", "5 m is longer than its reach of 2 m"),
        ("cables:\n  mcp4y10:\n    tail_lane_gbps: 50\n", "RW912", "without a gearbox"),
        (
            "cables:\n  mcp4y10:\n    tails: {form_factors: [qsfp112], lanes: 8}\n",
            "RW912",
            "8 lanes do not fit a qsfp112 plug",
        ),
        (
            "breakouts:\n  twin-400:\n    legs: [{host_lanes: 3, media_lanes: 3}, {host_lanes: 6, media_lanes: 4}]\n",
            "RW912",
            "two legs",
        ),
        ("breakouts:\n  twin-400:\n    host_lanes: 4\n", "RW912", "beyond the 4 of the cage"),
        ("fibre_cables:\n  mfp7e10:\n    fibre: om6\n", "RW913", "'om6' is not in the catalog"),
        ("fibre_cables:\n  mfp7e10:\n    connector: mpo-13\n", "RW913", "no connector of family 'mpo-13'"),
        ("cage_compatibility:\n  sn5600-cages:\n    module_limit_w: 30\n", "RW915", "30 W, the switch sn5600 says"),
        ("cage_compatibility:\n  sn5600-cages:\n    cage: qsfp-dd\n", "RW915", "sn5600 has no qsfp-dd cages"),
        ("form_factors:\n  qsfp56:\n    accepts: [qsfp29]\n", "RW913", "'qsfp29' is not in the catalog"),
        ("prices:\n  hgx-h100-node:\n    usd: 1\n", "RW915", "outside its range"),
        ("prices:\n  hgx-h100-node:\n    items: [servers.hgx-h101]\n", "RW913", "'hgx-h101' is not in the catalog"),
        (
            "servers:\n  hgx-h100:\n    backend: {nic: connectx-7-osfp, count: 8, gbps: 400, form_factor: qsfp112}\n",
            "RW915",
            "cages are qsfp112, those of connectx-7-osfp are osfp-rhs-single",
        ),
        ("nics:\n  connectx-7-osfp:\n    lanes_per_port: 2\n", "RW912", "does not fit 2 lanes of 100G"),
        (
            "servers:\n  mine:\n    name: M\n    vendor: M\n    gpus: 8\n    gpu: h100\n    scale_up_gpus: 8\n    ru: 8\n"
            "    power_max_w: 1\n    backend: {nic: connectx-7-osfp, count: 8, ports: 2, gbps: 800, form_factor: osfp-rhs}\n"
            "    frontend: {nic: nothing, count: 1, gbps: 100, form_factor: qsfp28}\n",
            "RW915",
            "faster than those of connectx-7-osfp (400G)",
        ),
    ],
)
def test_an_entry_that_cannot_be_true_is_a_warning(tmp_path: Path, text: str, code: str, words: str) -> None:
    findings = catalog_findings(load_catalog(write(tmp_path, text)), only_user=True)
    assert [finding for finding in findings if finding.code == code and words in finding.message]
    assert {finding.severity.value for finding in findings} == {"warning"}
