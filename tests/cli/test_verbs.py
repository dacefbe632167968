"""The verbs as a user calls them: init, plan, extend, explain, doctor."""

import json
from pathlib import Path

import pytest

from railwright.cli.main import call

EXAMPLES = Path(__file__).parents[2] / "examples"


def json_of(capsys, *arguments: str) -> dict:
    assert call([*arguments, "--json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


def test_init_writes_a_spec_and_names_the_next_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(["init", "--gpus", "1,024", "--gpu", "b200", "--transport", "rocev2"]) == 0
    assert capsys.readouterr().out == "cluster.yaml written. Next: railwright run cluster.yaml -o out\n"
    assert "gpus: 1024" in Path("cluster.yaml").read_text()
    assert call(["init"]) == 2
    assert "gpus: 1024" in Path("cluster.yaml").read_text()
    assert json_of(capsys, "init", "--force") == {"path": "cluster.yaml"}
    assert "gpus: 128" in Path("cluster.yaml").read_text()


def test_init_with_an_unknown_gpu_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(["init", "--gpu", "b20", "-o", "new/cluster.yaml"]) == 2
    assert "did you mean 'b200'?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_init_refuses_a_topology_that_cannot_hold_the_size(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(["init", "--gpus", "100000", "--topology", "rail-only"]) == 2
    assert "error: backend.topology: rail-only without spines ends at" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gpus", ["8", "4104"])
@pytest.mark.parametrize("transport", ["rocev2", "infiniband"])
@pytest.mark.parametrize("gpu", ["a100", "b300", "gb200"])
def test_what_init_writes_plans_without_edits(gpus, transport, gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(["init", "--gpus", gpus, "--gpu", gpu, "--transport", transport]) == 0
    assert call(["plan", "cluster.yaml", "-q"]) == 0


def test_plan_of_128_gpus_has_8_leaves_and_no_spine(capsys, tmp_path):
    data = json_of(capsys, "plan", str(EXAMPLES / "rail-only-128.yaml"), "-o", str(tmp_path / "plan"))
    backend = data["networks"]["backend"]
    assert (backend["topology"], backend["switches"]["leaf"], backend["switches"]["spine"]) == ("rail-only", 8, 0)
    assert (backend["endpoints"], backend["links"], backend["oversubscription"]) == (128, 128, 1.0)
    assert data["totals"]["rack_count"] > 0
    assert data["elapsed_s"] > 0
    assert (tmp_path / "plan" / "plan.yaml").is_file()


def test_plan_prints_its_networks_and_with_v_its_reasons(capsys):
    assert call(["plan", str(EXAMPLES / "rail-only-128.yaml"), "-q"]) == 0
    out, err = capsys.readouterr()
    assert "8 leaf" in out
    assert err == ""
    assert call(["plan", str(EXAMPLES / "rail-only-128.yaml"), "-v"]) == 0
    assert "why" in capsys.readouterr().out


def test_plan_without_o_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(["plan", str(EXAMPLES / "rail-only-128.yaml")]) == 0
    assert list(tmp_path.iterdir()) == []


def test_plan_refuses_a_folder_of_others_before_it_designs(tmp_path, capsys):
    (tmp_path / "photo.jpg").write_text("x")
    assert call(["plan", str(EXAMPLES / "rail-only-128.yaml"), "-o", str(tmp_path)]) == 2
    assert "holds 'photo.jpg'" in capsys.readouterr().err


def test_the_seed_of_the_command_line_is_kept_in_the_plan(tmp_path, capsys):
    assert call(["plan", str(EXAMPLES / "rail-only-128.yaml"), "-o", str(tmp_path / "p"), "--seed", "7"]) == 0
    assert "seed: 7" in (tmp_path / "p" / "plan.yaml").read_text()


def test_errors_of_the_design_name_the_line_of_the_spec(tmp_path, capsys):
    spec = tmp_path / "cluster.yaml"
    spec.write_text(
        "name: big\ncluster: {gpus: 100000, server: dgx-h100}\nbackend:\n  topology: rail-only\n  switch: sn5400\n"
    )
    assert call(["plan", str(spec)]) == 2
    assert f"{spec}:4:" in capsys.readouterr().err


def test_check_of_the_128_gpu_example_finds_no_error(capsys):
    data = json_of(capsys, "check", str(EXAMPLES / "rail-only-128.yaml"))
    assert data["counts"]["error"] == 0
    assert set(data["findings"][0]) == {"code", "severity", "subject", "message", "fix", "source", "ignored"}


def test_check_of_an_oversubscribed_backend_exits_with_1_and_names_rule_and_fix(capsys):
    assert call(["check", str(EXAMPLES / "leaf-spine-64x400-oversubscribed.yaml")]) == 1
    out = capsys.readouterr().out
    assert "error RW101" in out
    assert "fix: " in out


def test_check_does_not_count_what_the_spec_waives(tmp_path, capsys):
    text = (EXAMPLES / "leaf-spine-64x400-oversubscribed.yaml").read_text()
    spec = tmp_path / "cluster.yaml"
    spec.write_text(text + "# railwright: ignore RW101 because jobs stay below one leaf\n")
    assert call(["check", str(spec), "-v"]) == 0
    assert "waived RW101" in (out := capsys.readouterr().out)
    assert "reason: jobs stay below one leaf" in out


def test_check_needs_something_to_check(capsys):
    assert call(["check"]) == 2
    assert "give a plan or a spec, or --configs" in capsys.readouterr().err


def test_built_configurations_agree_with_their_plan(tmp_path, capsys):
    spec = str(EXAMPLES / "rail-only-128.yaml")
    assert call(["build", spec, "-o", str(tmp_path / "configs"), "-q"]) == 0
    capsys.readouterr()
    assert json_of(capsys, "check", spec, "--configs", str(tmp_path / "configs"))["counts"]["error"] == 0


@pytest.mark.parametrize(
    ("what", "kind", "field"),
    [
        ("RW101", "rule", "why"),
        ("backend.topology", "key of the spec", "meaning"),
        ("backend", "key of the spec", "keys"),
        ("sites.racks.power", "key of the spec", "default"),
        ("sn5600", "switches of the catalog; with sources: railwright catalog show sn5600", "capacity_gbps"),
    ],
)
def test_explain_knows_rules_keys_and_entries(what, kind, field, capsys):
    data = json_of(capsys, "explain", what)
    assert (data["id"], data["kind"]) == (what, kind)
    assert data["fields"][field]
    assert call(["explain", what]) == 0
    assert what in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("server-0001", "device of the plan"),
        ("rail3-leaf1", "device of the plan"),
        ("port:3", "port of the plan"),
        ("link:4", "link of the plan"),
    ],
)
def test_explain_finds_the_parts_of_a_plan(what, kind, capsys):
    data = json_of(capsys, "explain", what, "--plan", str(EXAMPLES / "rail-only-128.yaml"))
    assert data["kind"] == kind
    assert data["fields"]["connects"]


def test_explain_tells_why_a_cable_is_what_it_is_by_its_id_and_by_its_name_in_the_papers(capsys):
    spec = str(EXAMPLES / "rail-only-128.yaml")
    by_id = json_of(capsys, "explain", "cable:2", "--plan", spec)
    in_papers = json_of(capsys, "explain", "C000002", "--plan", spec)
    assert by_id["fields"] == in_papers["fields"]
    assert in_papers["fields"]["cable_id"] == 2
    assert any(line.startswith("chosen: ") for line in in_papers["fields"]["why"])


def test_explain_of_something_unknown_offers_the_nearest(capsys):
    assert call(["explain", "backend.topologie"]) == 2
    assert "did you mean 'backend.topology'?" in capsys.readouterr().err


def test_doctor_says_what_is_there_and_how_to_get_the_rest(capsys):
    data = json_of(capsys, "doctor")
    items = {item["name"]: item for item in data["items"]}
    assert data["ready"]
    assert items["native engines"]["present"]
    assert all(item["present"] or "install" in item["install"] or "sudo" in item["install"] for item in data["items"])
    assert call(["doctor"]) == 0
    assert "ready" in capsys.readouterr().out


def test_doctor_exits_with_3_when_something_needed_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(
        "railwright.cli.doctor._PROBES", dict.fromkeys(("python", "module", "program", "root"), lambda _: (False, None))
    )
    assert call(["doctor"]) == 3
    assert "not ready: python, native engines missing" in capsys.readouterr().out


def test_busbw_of_nvl72_racks_leaves_out_the_gpus_that_do_not_fill_a_domain(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(["init", "--gpus", "576", "--gpu", "gb200", "--transport", "infiniband"]) == 0
    capsys.readouterr()
    data = json_of(capsys, "busbw", "cluster.yaml", "--collective", "all-reduce")
    assert {scope["name"]: scope["ranks"] for scope in data["scopes"]}["pod"] == 72
