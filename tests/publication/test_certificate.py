"""The certificate says what was promised and charged; the signature says who stands for it."""

import json
import subprocess
from fractions import Fraction

import jsonschema
import pytest

from cli_helpers import gridveil, make_release
from gridveil import verify
from gridveil.foundation.archive import SIGNATURE, canonical_zip, checksums
from gridveil.foundation.errors import BundleError
from gridveil.privacy.epsilon import exact
from gridveil.privacy.guarantee import (
    GOVERNORS_NOT_PROTECTED,
    NETWORK_NOT_PROTECTED,
    OPERATING_POINT_NOT_PROTECTED,
    UNCONDITIONAL,
)
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger.chain import Head, head_is_genuine
from gridveil.publication.certificate import CertificateDocument
from gridveil.publication.signing import load_signer, new_key, revoke, rotate


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "keys"
    new_key(folder)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("owner"))


@pytest.fixture
def bundle(made, keys, tmp_path):
    made.save(tmp_path / "bundle", load_signer(keys))
    return tmp_path / "bundle"


def files_of(bundle):
    return {path.name: path.read_bytes() for path in bundle.iterdir()}


def rewrite(bundle, name, data):
    """Change a file and make the checksums fit, as a forger without the key would."""
    files = {**files_of(bundle), name: data}
    listed = {name: data for name, data in files.items() if name not in ("SHA256SUMS", SIGNATURE)}
    (bundle / name).write_bytes(data)
    (bundle / "SHA256SUMS").write_bytes(checksums(listed))


def test_the_certificate_states_promise_charge_and_conditions(bundle, made):
    certificate = json.loads((bundle / "certificate.json").read_text(encoding="utf-8"))
    jsonschema.validate(certificate, CertificateDocument.model_json_schema())
    assert (certificate["epsilon_asked"], certificate["adjacency"]) == ("1/2", "one-asset")
    assert Fraction(certificate["epsilon_charged"]) <= Fraction(1, 2)
    assert certificate["groups"]["m"]["scale"] == made.guarantee.groups["m"].scale
    assert certificate["claim"] == UNCONDITIONAL
    # loads withheld, no trajectory
    assert certificate["not_protected"] == [
        *NETWORK_NOT_PROTECTED,
        GOVERNORS_NOT_PROTECTED,
        OPERATING_POINT_NOT_PROTECTED,
    ]
    assert Fraction(certificate["lineage_spent"]) == Fraction(certificate["epsilon_charged"])
    assert certificate["lineage_budget"] == "1/2"
    assert certificate["software"]["opendp"] in certificate["mechanism"]
    words = (bundle / "certificate.txt").read_text(encoding="utf-8")
    for said in (
        UNCONDITIONAL,
        "α = 1 p.u. power / rad",
        "has no ε bound",
        "a factor of 1.65",
        certificate["ledger_head"]["mac"],
        *NETWORK_NOT_PROTECTED,
        GOVERNORS_NOT_PROTECTED,
    ):
        assert said in words


@pytest.mark.parametrize(
    ("epsilon", "factor"),
    [
        ("1/1000000000000", "1 + 1.01e-12"),
        ("1/1000", "1 + 0.00101"),
        ("1/200", "1.01"),
        ("709", "8.22e+307"),
        ("710", "10^309"),
        ("1000000", "10^434295"),
        ("1e11", "10^43429448191"),
    ],
)
def test_a_release_at_any_epsilon_has_its_certificate(tmp_path, epsilon, factor):
    made = make_release(tmp_path, epsilon=exact(epsilon))  # charged: from here on nothing may fail
    made.save(tmp_path / "bundle")
    words = (tmp_path / "bundle" / "certificate.txt").read_text(encoding="utf-8")
    assert f"between two neighbours change by a factor of {factor}.\n" in words
    verify(tmp_path / "bundle")


@pytest.mark.parametrize("name", ["epsilon_asked", "lineage_spent"])
def test_a_forged_certificate_with_a_number_of_any_size_is_refused(bundle, name):
    certificate = json.loads((bundle / "certificate.json").read_text(encoding="utf-8"))
    rewrite(bundle, "certificate.json", json.dumps(certificate | {name: "1" + "0" * 400}).encode())
    with pytest.raises(BundleError, match=r"certificate\.json"):
        verify(bundle)


def test_the_ledgers_head_in_the_certificate_is_genuine_and_finds_a_lost_tail(tmp_path):
    made = make_release(tmp_path)
    made.save(tmp_path / "bundle")
    certificate = json.loads((tmp_path / "bundle" / "certificate.json").read_text(encoding="utf-8"))
    head = Head(**certificate["ledger_head"])
    assert head_is_genuine(head)
    assert certificate["ledger_entry"] == made.receipt.entry
    assert Ledger(tmp_path / "ledger.sqlite").verify(head) == []
    done = gridveil(
        "ledger",
        "verify",
        "--ledger",
        tmp_path / "ledger.sqlite",
        "--head",
        tmp_path / "bundle" / "certificate.json",
    )
    assert done.code == 0


def test_a_trusted_key_verifies_folder_and_zip(bundle, made, keys):
    assert verify(bundle, keys / "public.pem").trusted
    made.save(bundle.with_suffix(".zip"), load_signer(keys))
    assert verify(bundle.with_suffix(".zip"), keys / "keyring.json").trusted
    done = gridveil("verify", bundle, "--key", keys / "public.pem")
    assert done.code == 0
    assert "which you trust" in done.out


def test_openssl_alone_verifies_it(bundle, keys):
    line = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", keys / "public.pem", "-rawin"]
    line += ["-in", bundle / "SHA256SUMS", "-sigfile", bundle / SIGNATURE]
    assert subprocess.run(line, capture_output=True, check=False).returncode == 0
    (bundle / "SHA256SUMS").write_bytes((bundle / "SHA256SUMS").read_bytes() + b"\n")
    assert subprocess.run(line, capture_output=True, check=False).returncode != 0


def test_another_key_a_revoked_key_and_no_key_are_refused(bundle, made, keys, tmp_path):
    other = tmp_path / "other"
    new_key(other)
    with pytest.raises(BundleError, match="is not in"):
        verify(bundle, other / "public.pem")
    made.save(tmp_path / "theirs", load_signer(other))
    revoke(other)
    with pytest.raises(BundleError, match="was revoked"):
        verify(tmp_path / "theirs", other / "keyring.json")
    made.save(tmp_path / "unsigned")
    assert verify(tmp_path / "unsigned").signed_by is None
    with pytest.raises(BundleError, match="not signed"):
        verify(tmp_path / "unsigned", keys / "public.pem")


def test_a_rotated_key_still_verifies_what_it_signed(made, tmp_path):
    new_key(tmp_path / "keys")
    made.save(tmp_path / "bundle", load_signer(tmp_path / "keys"))
    rotate(tmp_path / "keys")
    assert verify(tmp_path / "bundle", tmp_path / "keys" / "keyring.json").trusted


@pytest.mark.parametrize("name", [SIGNATURE, "certificate.json", "certificate.txt"])
def test_every_flipped_bit_in_signature_and_certificate_is_found(bundle, name):
    data = (bundle / name).read_bytes()
    step = max(1, len(data) // 200)
    for position in range(0, len(data), step):
        for bit in range(8) if name == SIGNATURE else (position % 8,):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            (bundle / name).write_bytes(changed)
            with pytest.raises(BundleError):
                verify(bundle)
    (bundle / name).write_bytes(data)
    verify(bundle)


def test_a_forger_without_the_key_cannot_mend_the_signature(bundle, keys):
    certificate = json.loads((bundle / "certificate.json").read_text(encoding="utf-8"))
    rewrite(bundle, "README.md", b"another text\n")
    with pytest.raises(BundleError, match="is not the signature of the key"):
        verify(bundle)
    unsigned = json.dumps(certificate | {"signed_by": None}, indent=2, ensure_ascii=False) + "\n"
    rewrite(bundle, "certificate.json", unsigned.encode())
    with pytest.raises(
        BundleError, match=r"certificate\.txt does not say what certificate\.json does"
    ):
        verify(bundle)


def test_a_stripped_signature_is_missed(bundle):
    (bundle / SIGNATURE).unlink()
    with pytest.raises(BundleError, match=r"SHA256SUMS\.sig is missing"):
        verify(bundle)


def test_a_stripped_certificate_is_missed(bundle):
    files = {
        name: data
        for name, data in files_of(bundle).items()
        if not name.startswith(("certificate", "SHA256"))
    }
    path = bundle.with_name("stripped.zip")
    path.write_bytes(canonical_zip({**files, "SHA256SUMS": checksums(files)}))
    with pytest.raises(BundleError, match=r"certificate\.json is missing"):
        verify(path)


def test_a_promise_that_differs_from_the_certificate_is_found(bundle):
    document = json.loads((bundle / "release.json").read_text(encoding="utf-8"))
    document["guarantee"]["epsilon"] = "1/100"
    (bundle / SIGNATURE).unlink()
    rewrite(
        bundle, "release.json", (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    )
    with pytest.raises(BundleError, match="does not make up its own, by the rule of one-asset"):
        verify(bundle)


def test_nobody_certifies_or_signs_a_demo(keys, tmp_path):
    demo = make_release(tmp_path, demo=True)
    demo.save(tmp_path / "bundle", load_signer(keys))
    assert not {"certificate.json", SIGNATURE} & {
        path.name for path in (tmp_path / "bundle").iterdir()
    }
    with pytest.raises(BundleError, match="nobody signs a demo"):
        verify(tmp_path / "bundle", keys / "public.pem")


def test_a_bundle_names_no_host_user_path_or_time(bundle, tmp_path):
    import getpass
    import re

    for name, data in files_of(bundle).items():
        for told in (str(tmp_path), getpass.getuser() + "@", "/home", "/root", "private.m"):
            assert told.encode() not in data, (name, told)
        assert not re.search(rb"\d\d:\d\d:\d\d", data), name
