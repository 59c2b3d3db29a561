"""gridveil ledger register | budget | show | verify | export: what they print, with which exit
code, and what they hide.
"""

import json
import shutil
from pathlib import Path

import pytest

from cli_helpers import gridveil
from gridveil.privacy.ledger import Ledger
from ledger_helpers import PASSWORD, TENTH, a_charge, backup, sql


@pytest.fixture
def run(location):
    """Run a command on the ledger; --json gives its document.

    Whatever it prints holds no password.
    """

    def run(command, *arguments, code=0):
        done = gridveil(*command.split(), *arguments, "--ledger", location)
        assert done.code == code, done.err
        assert PASSWORD not in done.out + done.err
        return json.loads(done.out) if "--json" in arguments else done.out + done.err

    return run


def test_an_account_is_registered_given_a_budget_and_shown(run, folder):
    assert run("ledger register mine star5", "--json") == {"registered": "mine"}
    budget = run("ledger budget mine --epsilon 3/10 --adjacency one-item --alpha k=2", "--json")
    assert (budget["epsilon"], budget["adjacency"], budget["alpha"]) == (
        "3/10",
        "one-item",
        {"k": "2", "m": "1", "d": "1"},
    )
    assert (budget["spent"], budget["left"], budget["draws"]) == (0, 0.3, [])
    run("release star5 --epsilon 1/10 --lineage mine", "--out", folder / "bundle")
    shown = run("ledger show", "--json")
    (account,) = shown["accounts"]
    (draw,) = account.pop("draws")
    assert (draw["state"], draw["epsilon"], len(draw["digest"])) == ("published", "1/10", 64)
    assert (account["lineage"], account["versions"], account["epsilon"]) == ("mine", 1, "3/10")
    assert (account["spent"], account["left"]) == (pytest.approx(0.1), pytest.approx(0.2))
    text = run("ledger show")
    for word in ("mine", "one-item", "3/10", "published", draw["digest"][:16]):
        assert word in text


def test_a_grid_with_awkward_data_is_registered_as_it_is_released(run):
    case300 = "ledger register mine matpower:case300 --inertia 8 --damping 2"
    assert "--negative-x abs" in run(case300, code=2)
    run(f"{case300} --negative-x abs")
    (account,) = run("ledger show", "--json")["accounts"]
    assert (account["lineage"], account["versions"]) == ("mine", 1)


def test_a_budget_is_raised_without_naming_its_adjacency_again(run):
    run("ledger register mine")
    run("ledger budget mine --epsilon 1 --adjacency one-item --alpha k=2")
    raised = run("ledger budget mine --epsilon 2", "--json")
    assert (raised["epsilon"], raised["adjacency"], raised["alpha"]["k"]) == ("2", "one-item", "2")
    assert "cannot shrink" in run("ledger budget mine --epsilon 1", code=2)
    assert "for ever" in run("ledger budget mine --epsilon 2 --alpha k=1", code=2)


def test_a_refused_release_says_what_is_left_and_how_to_go_on(run, folder):
    run("release star5 --epsilon 1/10", "--out", folder / "first")
    refused = run("release star5 --epsilon 1/10", "--json", "--out", folder / "second", code=2)
    assert "does not cover ε = 1/10" in refused["error"]
    assert refused["outcome"] == "Nothing was drawn and nothing was spent."
    assert refused["remedy"].endswith("gridveil ledger budget star5 --epsilon EPSILON")
    assert not (folder / "second").exists()
    run("ledger budget star5 --epsilon 1/5")
    run("release star5 --epsilon 1/10", "--out", folder / "second")


def test_several_draws_cost_as_many_times_epsilon(run, folder):
    run("release star5 --epsilon 1/10 --count 3", "--out", folder / "bundle")
    (account,) = run("ledger show", "--json")["accounts"]
    assert (account["epsilon"], [draw["state"] for draw in account["draws"]]) == (
        "3/10",
        ["published"] * 3,
    )


def test_a_whole_ledger_verifies(run, location):
    Ledger(location).charge(a_charge())
    assert run("ledger verify", "--json") | {"ledger": ""} == {
        "ok": True,
        "ledger": "",
        "rows": 4,
        "problems": [],
        "missing": [],
    }
    assert "4 rows, all as they were written" in run("ledger verify")


def test_a_changed_row_is_named_with_exit_code_1(run, location):
    Ledger(location).charge(a_charge())
    sql(
        location,
        "UPDATE gridveil_entry SET body = replace(body, '1/10', '1/99') WHERE kind = 'reserved'",
    )
    assert "row 4 was changed" in run("ledger verify", code=1)
    found = run("ledger verify", "--json", code=1)
    assert (found["ok"], len(found["problems"])) == (False, 1)


def test_a_certificate_shows_that_a_whole_machine_was_set_back(run, location, folder, home):
    run("ledger register star5 star5")
    run("ledger budget star5 --epsilon 1")
    shutil.copytree(home, folder / "backup")
    restore = backup(location)
    run("release star5 --epsilon 1/10", "--out", folder / "bundle")
    certificate = folder / "bundle" / "certificate.json"
    run("ledger verify", "--head", certificate)
    restore()
    assert "are missing at the end" in run("ledger verify", code=1)
    shutil.rmtree(home)
    shutil.move(folder / "backup", home)
    assert "(by the witness)" in run("ledger verify", code=1)
    shutil.rmtree(folder / "witness")
    assert "No witness knows this ledger" in run("ledger verify")
    assert "are missing at the end" in run("ledger verify", "--head", certificate, code=1)


def test_a_head_that_is_none_is_refused_with_exit_code_2(run, location, folder):
    Ledger(location)
    (folder / "head.json").write_text("{}")
    for place in (folder / "head.json", folder / "missing.json"):
        assert "is no ledger head" in run("ledger verify", "--head", place, code=2)


def test_an_export_holds_every_row_and_a_head_that_fits(run, location, folder):
    Ledger(location).charge(a_charge())
    printed = run("ledger export", "--json")
    assert run("ledger export", "--out", folder / "ledger.json", "--json") == {
        "written": str(folder / "ledger.json"),
        "rows": 4,
    }
    assert json.loads((folder / "ledger.json").read_text()) == printed
    assert [row["number"] for row in printed["rows"]] == [1, 2, 3, 4]
    assert (printed["rows"][-1]["kind"], printed["rows"][-1]["body"]["epsilon"]) == (
        "reserved",
        str(TENTH),
    )
    (folder / "head.json").write_text(json.dumps(printed["head"]))
    run("ledger verify", "--head", folder / "head.json")


@pytest.mark.parametrize("command", ["show", "verify", "export"])
def test_looking_makes_no_ledger(run, location, home, command):
    """A mistyped place would otherwise be found to be in perfect order."""
    assert "Nothing" in run(f"ledger {command}", code=2)
    assert not list(home.rglob("*.key"))
    assert "://" in location or not Path(location).exists()


@pytest.mark.parametrize(
    "command", ["show", "verify", "export", "register a", "budget a --epsilon 1"]
)
def test_a_server_that_is_away_is_a_clear_error_without_its_password(command, home):
    place = f"postgresql://me:{PASSWORD}@127.0.0.1:1/ledger"
    done = gridveil("ledger", *command.split(), "--ledger", place)
    assert (done.code, PASSWORD in done.out + done.err) == (2, False)
    assert "Connection refused" in done.err
