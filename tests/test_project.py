"""The files around the code are valid: issue forms, citation, how to report, formats' versions."""

import re
from pathlib import Path

import pytest
import yaml

from gridveil import __version__
from gridveil.privacy.ledger import store
from gridveil.publication import withdrawal
from gridveil.publication.card import CARD_VERSION
from gridveil.publication.certificate import CERTIFICATE_VERSION
from gridveil.publication.schema import SCHEMA_VERSION
from gridveil.publication.signing.public import KEYRING_VERSION

ROOT = Path(__file__).parent.parent
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "form", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.stem
)
def test_an_issue_form_follows_githubs_rules(form):
    """Keys and kinds of the forms: GitHub's "Syntax for issue forms"."""
    document = yaml.safe_load(form.read_text(encoding="utf-8"))
    required = {"name", "description", "body"}
    assert required <= document.keys() <= required | {"labels", "title"}
    names = [part["id"] for part in document["body"] if part["type"] != "markdown"]
    assert len(names) == len(set(names)) >= 3
    for part in document["body"]:
        assert part.keys() <= {"type", "id", "attributes", "validations"}
        assert part["type"] in {"markdown", "textarea", "input", "dropdown", "checkboxes"}
        attributes = part["attributes"]
        assert attributes["value" if part["type"] == "markdown" else "label"].strip()
        assert all(option["label"] for option in attributes.get("options", ()))
    assert any(part.get("validations", {}).get("required") for part in document["body"])


def test_there_is_a_form_for_bugs_features_and_questions_of_privacy():
    assert [path.stem for path in FORMS] == ["bug", "config", "feature", "privacy"]
    for name in ("bug", "privacy"):
        assert "comes from a grid, ledger or key that is not public" in read(
            ".github", "ISSUE_TEMPLATE", f"{name}.yml"
        )


def test_a_citation_has_what_the_format_requires():
    """Required keys of the Citation File Format 1.2.0."""
    document = yaml.safe_load(read("CITATION.cff"))
    assert document["cff-version"] == "1.2.0"
    assert document["title"]
    assert document["message"]
    assert document["version"] == __version__
    assert all(author.keys() & {"name", "family-names"} for author in document["authors"])
    for reference in document["references"]:
        assert {"type", "title", "authors"} <= reference.keys()


def test_how_to_report_names_no_address_that_nobody_reads():
    text = read("SECURITY.md")
    assert "private vulnerability reporting" in text
    assert "@" not in text


def test_the_page_on_versions_has_the_numbers_in_use():
    rows = re.findall(r"^\| (.+?) \| (\d+) \|", read("docs", "versions.md"), re.MULTILINE)
    stated = {re.sub(r" \(.*|[`]", "", name): int(number) for name, number in rows}
    assert stated == {
        "release.json": SCHEMA_VERSION,
        "certificate.json": CERTIFICATE_VERSION,
        "keyring.json": KEYRING_VERSION,
        "card.html": CARD_VERSION,
        "a notice of withdrawal": withdrawal.VERSION,
        "a ledger": store.SCHEMA_VERSION,
    }
