"""Keys and signatures: who may sign, who is believed, and what a changed bit or a crash does."""

import base64
import copy
import getpass
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from cli_helpers import gridveil
from gridveil.foundation.errors import GridveilError, PrivateValueError
from gridveil.foundation.files import gridveil_home
from gridveil.publication.signing import (
    KeyInfo,
    Signer,
    SigningError,
    TrustedKeys,
    check_signature,
    is_encrypted,
    key_folder,
    keys_in,
    load_signer,
    new_key,
    private_file,
    revoke,
    rotate,
)
from gridveil.publication.signing.private import to_pem
from gridveil.publication.signing.public import PRIME, SMALL_ORDER_Y, keyring_of
from privacy_helpers import all_that_it_says

DATA = b"0" * 64 + b"  release.json\n"
ORDER = 2**252 + 27742317777372353535851937790883648493
PASSPHRASE = "Kron und Brücke"
OPENSSL = shutil.which("openssl")


def openssl_is_3():
    if not OPENSSL:
        return False
    name, version = subprocess.run(
        [OPENSSL, "version"], capture_output=True, text=True, check=True
    ).stdout.split()[:2]
    return name == "OpenSSL" and int(version.split(".")[0]) >= 3


needs_openssl = pytest.mark.skipif(
    not openssl_is_3(), reason="needs the openssl command, 3.0 or newer"
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GRIDVEIL_PASSPHRASE", raising=False)
    return tmp_path / "home"


@pytest.fixture
def folder(home):
    return home / "keys"


def signer_in(folder, passphrase=None) -> Signer:
    signer = load_signer(folder, passphrase)
    assert signer is not None
    return signer


def statuses(folder):
    return {key.id: key.status for key in keys_in(folder)}


def privates(folder):
    return sorted(path.name for path in folder.iterdir() if "signing" in path.name)


def flipped(data):
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# --- signatures -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signed():
    signer = Signer(Ed25519PrivateKey.generate())
    return signer.public_key, signer.sign(DATA)


def test_a_signature_verifies_under_its_key_and_no_other(signed):
    public, signature = signed
    assert len(signature) == 64
    assert check_signature(public, signature, DATA)
    assert not check_signature(Signer(Ed25519PrivateKey.generate()).public_key, signature, DATA)
    assert not check_signature(public, signature, DATA + b"\n")


def test_rfc_8032_gives_the_same_signature():
    """Test 2 of section 7.1."""
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    signer = Signer(Ed25519PrivateKey.from_private_bytes(seed))
    assert (
        signer.public_key.hex()
        == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    )
    assert signer.sign(b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )


def test_every_flipped_bit_of_a_signature_is_refused(signed):
    public, signature = signed
    changed = list(flipped(signature))
    assert len(changed) == 512
    assert not [other for other in changed if check_signature(public, other, DATA)]


def test_every_flipped_bit_of_the_key_or_of_the_data_is_refused(signed):
    public, signature = signed
    assert not [key for key in flipped(public) if check_signature(key, signature, DATA)]
    assert not [data for data in flipped(DATA) if check_signature(public, signature, data)]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: b"",
        lambda s: s[:-1],
        lambda s: s + b"\0",
        lambda s: s + s,
        lambda s: s.hex().encode(),
    ],
)
def test_a_signature_of_another_length_is_refused(signed, change):
    public, signature = signed
    assert not check_signature(public, change(signature), DATA)


@pytest.mark.parametrize("change", [lambda k: b"", lambda k: k[:-1], lambda k: k + b"\0"])
def test_a_key_of_another_length_is_refused(signed, change):
    public, signature = signed
    assert not check_signature(change(public), signature, DATA)


def test_a_second_signature_made_by_adding_the_group_order_is_refused(signed):
    public, signature = signed
    S = int.from_bytes(signature[32:], "little")
    multiples = [n for n in range(1, 17) if S + n * ORDER < 2**256]
    assert len(multiples) >= 14
    for n in multiples:
        assert not check_signature(
            public, signature[:32] + (S + n * ORDER).to_bytes(32, "little"), DATA
        )


def test_keys_of_small_order_under_which_anybody_can_sign_are_refused(tmp_path):
    """OpenSSL takes them: S = 0 and R = the identity is then a signature of one message in eight at
    least.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    taken = 0
    for y in SMALL_ORDER_Y:
        for sign in (0, 1):
            key = (y | sign << 255).to_bytes(32, "little")
            for n in range(64):
                signature = (1).to_bytes(32, "little") + bytes(32)
                assert not check_signature(key, signature, b"%d" % n)
                try:
                    Ed25519PublicKey.from_public_bytes(key).verify(signature, b"%d" % n)
                    taken += 1
                except Exception:
                    continue
            (tmp_path / "key.pem").write_bytes(KeyInfo(key, "active").to_pem())
            with pytest.raises(SigningError, match="not one Ed25519 public key"):
                TrustedKeys.read(tmp_path / "key.pem")
    assert taken > 0, "OpenSSL refuses them by now: our own check may go"


@pytest.mark.parametrize("y", [PRIME, PRIME + 1, PRIME + 18])
def test_keys_that_are_not_canonical_are_refused(y):
    for sign in (0, 1):
        key = (y | sign << 255).to_bytes(32, "little")
        assert not check_signature(key, (1).to_bytes(32, "little") + bytes(32), DATA)


# --- openssl alone --------------------------------------------------------------------------------


def openssl_verify(folder, **files):
    """The line of docs/keys.md."""
    for name, data in files.items():
        (folder / name.replace("_", ".")).write_bytes(data)
    line = (
        "openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in SHA256SUMS -sigfile "
        "SHA256SUMS.sig"
    )
    assert line in (Path(__file__).parents[2] / "docs" / "keys.md").read_text(encoding="utf-8")
    return subprocess.run(
        line.split(), cwd=folder, capture_output=True, text=True, check=False
    ).returncode


@needs_openssl
def test_openssl_alone_verifies_a_signature_and_refuses_a_changed_file(folder, tmp_path):
    new_key(folder)
    signature = signer_in(folder).sign(DATA)
    shutil.copy(folder / "public.pem", tmp_path)
    assert openssl_verify(tmp_path, SHA256SUMS=DATA, SHA256SUMS_sig=signature) == 0
    assert openssl_verify(tmp_path, SHA256SUMS=DATA[:-1] + b" ", SHA256SUMS_sig=signature) != 0
    assert openssl_verify(tmp_path, SHA256SUMS=DATA, SHA256SUMS_sig=signature[:-1] + b"\x77") != 0
    rotate(folder)
    shutil.copy(folder / "public.pem", tmp_path)
    assert openssl_verify(tmp_path, SHA256SUMS=DATA, SHA256SUMS_sig=signature) != 0


@needs_openssl
def test_a_keyring_entry_becomes_a_pem_by_a_fixed_prefix(folder, tmp_path):
    """As docs/keys.md tells recipients of bundles under a retired key."""
    new_key(folder)
    signature = signer_in(folder).sign(DATA)
    rotate(folder)
    entry = json.loads((folder / "keyring.json").read_text())["keys"][0]
    assert entry["status"] == "retired"
    pem = (
        f"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA{entry['public_key']}\n-----END PUBLIC "
        "KEY-----\n"
    )
    assert (
        openssl_verify(tmp_path, SHA256SUMS=DATA, SHA256SUMS_sig=signature, public_pem=pem.encode())
        == 0
    )


@needs_openssl
@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_openssl_opens_the_private_key(folder, tmp_path, passphrase):
    made = new_key(folder, passphrase)
    done = subprocess.run(
        [
            OPENSSL,
            "pkey",
            "-in",
            folder / private_file(made),
            "-pubout",
            "-passin",
            f"pass:{passphrase}",
        ],
        capture_output=True,
        check=True,
    )
    assert done.stdout == (folder / "public.pem").read_bytes()


@needs_openssl
def test_the_sealed_key_is_guarded_by_scrypt(folder):
    made = new_key(folder, PASSPHRASE)
    done = subprocess.run(
        [OPENSSL, "asn1parse", "-in", folder / private_file(made)], capture_output=True, check=True
    )
    for words in (
        b":PBES2",
        b":scrypt",
        b":aes-256-cbc",
        b"INTEGER           :4000",
        b"INTEGER           :08",
    ):
        assert words in done.stdout


# --- the folder -----------------------------------------------------------------------------------


def test_the_home_is_where_the_owner_says(monkeypatch, tmp_path):
    for name in ("GRIDVEIL_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert gridveil_home() == tmp_path / ".local" / "share" / "gridveil"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert gridveil_home() == tmp_path / "data" / "gridveil"
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "own"))
    assert gridveil_home() == tmp_path / "own"
    assert key_folder() == tmp_path / "own" / "keys"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_private_files_are_for_their_owner_alone(folder, umask):
    before = os.umask(umask)
    try:
        made = new_key(folder)
        made = rotate(folder, PASSPHRASE)
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert mode(folder / private_file(made)) == 0o600
    assert mode(folder / "public.pem") == mode(folder / "keyring.json") == 0o644
    assert sorted(path.name for path in folder.iterdir()) == [
        "keyring.json",
        "public.pem",
        private_file(made),
    ]


@pytest.mark.parametrize("bits", [0o040, 0o004, 0o020, 0o002, 0o010])
def test_a_private_key_open_to_others_is_refused_and_the_error_says_how_to_mend_it(folder, bits):
    path = folder / private_file(new_key(folder))
    path.chmod(0o600 | bits)
    with pytest.raises(SigningError, match=f"chmod 600 {path}"):
        load_signer(folder)
    path.chmod(0o600)
    assert signer_in(folder)


@pytest.mark.parametrize("bits", [0o050, 0o005, 0o020, 0o002])
def test_a_folder_open_to_others_is_refused(folder, bits):
    new_key(folder)
    folder.chmod(0o700 | bits)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for act in (load_signer, new_key, rotate, revoke, keys_in, is_encrypted):
        with pytest.raises(SigningError, match=f"chmod 700 {folder}"):
            act(folder)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_a_key_is_never_overwritten(folder):
    made = new_key(folder)
    with pytest.raises(SigningError, match="keys rotate"):
        new_key(folder)
    assert signer_in(folder).key_id == made.id


def test_without_a_key_there_is_no_signer_and_nothing_to_rotate_or_revoke(folder):
    assert load_signer(folder) is None
    assert keys_in(folder) == ()
    assert not is_encrypted(folder)
    for act in (rotate, revoke):
        with pytest.raises(SigningError, match="keys new"):
            act(folder)
    assert not folder.exists()


def test_a_private_key_without_its_keyring_is_left_alone(folder):
    made = new_key(folder)
    (folder / "keyring.json").unlink()
    for act in (load_signer, new_key, rotate, revoke):
        with pytest.raises(SigningError, match=r"Restore keyring\.json"):
            act(folder)
    assert privates(folder) == [private_file(made)]


def test_a_lost_private_key_is_an_error_and_can_be_rotated(folder):
    made = new_key(folder)
    (folder / private_file(made)).unlink()
    with pytest.raises(SigningError, match="Restore it from a backup"):
        load_signer(folder)
    again = rotate(folder)
    assert signer_in(folder).key_id == again.id
    assert statuses(folder) == {made.id: "retired", again.id: "active"}


def test_the_file_of_another_key_is_refused(folder):
    made = new_key(folder)
    (folder / private_file(made)).write_bytes(to_pem(Ed25519PrivateKey.generate(), None))
    with pytest.raises(SigningError, match=f"does not hold the key {made.id}"):
        load_signer(folder)
    (folder / private_file(made)).write_bytes(
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    )
    with pytest.raises(SigningError, match=f"does not hold the key {made.id}"):
        load_signer(folder)


# --- passphrase -----------------------------------------------------------------------------------


def test_a_passphrase_opens_the_key_and_no_other_does(folder):
    made = new_key(folder, PASSPHRASE)
    assert is_encrypted(folder)
    assert signer_in(folder, PASSPHRASE).key_id == made.id
    for wrong in (PASSPHRASE + " ", PASSPHRASE.lower(), "x" * 5000):
        with pytest.raises(SigningError, match="is wrong, or the file is damaged"):
            load_signer(folder, wrong)
    for missing in (None, ""):
        with pytest.raises(SigningError, match="Set GRIDVEIL_PASSPHRASE"):
            load_signer(folder, missing)


def test_a_passphrase_that_is_not_needed_is_ignored(folder):
    new_key(folder)
    assert not is_encrypted(folder)
    assert signer_in(folder, PASSPHRASE)


@pytest.mark.parametrize("passphrase", ["", "x" * 1024])
def test_a_passphrase_that_cannot_work_is_refused(folder, passphrase):
    with pytest.raises(SigningError, match="empty or too long"):
        new_key(folder, passphrase)
    assert keys_in(folder) == ()


# --- rotate and revoke ----------------------------------------------------------------------------


def test_a_rotated_key_is_retired_and_destroyed_and_the_new_one_signs(folder):
    old = new_key(folder)
    new = rotate(folder)
    assert old.id != new.id
    assert statuses(folder) == {old.id: "retired", new.id: "active"}
    assert privates(folder) == [private_file(new)]
    assert signer_in(folder).public_key == new.public_key
    assert (folder / "public.pem").read_bytes() == new.to_pem()
    trusted = TrustedKeys.read(folder / "keyring.json")
    assert [trusted.status(key.public_key) for key in (old, new)] == ["retired", "active"]


def test_a_revoked_key_is_destroyed_and_a_new_one_can_follow(folder):
    first = new_key(folder)
    assert revoke(folder) == KeyInfo(first.public_key, "revoked")
    assert load_signer(folder) is None
    assert [path.name for path in folder.iterdir()] == ["keyring.json"]
    with pytest.raises(SigningError, match="keys new"):
        rotate(folder)
    with pytest.raises(SigningError, match="keys new"):
        revoke(folder)
    second = new_key(folder)
    assert statuses(folder) == {first.id: "revoked", second.id: "active"}


def test_a_retired_key_can_be_revoked_by_its_id(folder):
    old = new_key(folder)
    new = rotate(folder)
    revoke(folder, old.id)
    assert statuses(folder) == {old.id: "revoked", new.id: "active"}
    assert signer_in(folder).key_id == new.id
    with pytest.raises(SigningError, match=f"{old.id} is revoked already"):
        revoke(folder, old.id)
    with pytest.raises(SigningError, match="0123456789abcdef is no key in"):
        revoke(folder, "0123456789abcdef")


# --- what a recipient trusts ----------------------------------------------------------------------

A, B, C = (Signer(Ed25519PrivateKey.generate()).public_key for _ in range(3))
RING = keyring_of((KeyInfo(A, "revoked"), KeyInfo(B, "retired"), KeyInfo(C, "active")))


def read(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    return TrustedKeys.read(tmp_path / "file")


def test_a_keyring_says_what_became_of_each_key(tmp_path):
    trusted = read(tmp_path, RING)
    assert [trusted.status(key) for key in (A, B, C)] == ["revoked", "retired", "active"]
    assert trusted.status(Signer(Ed25519PrivateKey.generate()).public_key) == "unknown"
    assert trusted.status(b"") == "unknown"


def test_a_public_key_alone_is_trusted_and_nothing_else(tmp_path):
    for pem in (
        KeyInfo(A, "active").to_pem(),
        KeyInfo(A, "active").to_pem().replace(b"\n", b"\r\n"),
    ):
        trusted = read(tmp_path, pem)
        assert [trusted.status(key) for key in (A, B)] == ["active", "unknown"]


def test_every_flipped_bit_of_a_keyring_is_refused(tmp_path):
    from gridveil.publication.signing.public import parse_keyring

    for data in flipped(RING):
        with pytest.raises(SigningError):
            parse_keyring(data, "keyring.json")
    with pytest.raises(SigningError, match="was changed, or is no keyring"):
        read(tmp_path, next(flipped(RING)))


def test_every_flipped_bit_of_a_public_key_file_is_refused_or_changes_nothing(tmp_path):
    """White space between the lines may change; a key may not become another one that is believed
    in its place.
    """
    pem = KeyInfo(A, "active").to_pem()
    lines = {at for at, byte in enumerate(pem) if byte == 0x0A}
    for number, data in enumerate(flipped(pem)):
        try:
            trusted = read(tmp_path, data)
        except SigningError:
            continue
        if trusted.status(A) == "active":
            assert number // 8 in lines
        else:  # another key, by one flipped bit of its base64: it trusts nobody's bundle
            assert trusted.status(A) == "unknown"
            assert len(trusted.keys) == 1


def entries(**changed):
    document = json.loads(RING)
    document["keys"][0] |= changed
    return document


def text(document):
    return (json.dumps(document, indent=2) + "\n").encode()


def not_canonical(key):
    """The same 32 bytes for a careless decoder: other unused bits in the last digit."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    good = base64.b64encode(key).decode()
    bad = good[:-2] + digits[digits.index(good[-2]) + 1] + "="
    assert base64.b64decode(bad) == key
    return bad


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"schema_version": 1, "keys": ' + b"9" * 5000 + b"}",
        RING[:-1],
        RING + b"\n",
        b"\xef\xbb\xbf" + RING,
        RING.decode().encode("utf-16"),
        RING.replace(b"\n", b"\r\n"),
        json.dumps(json.loads(RING)).encode(),
        RING.replace(b'"status": "revoked"', b'"status": "revoked",\n      "status": "active"'),
        RING.replace(b'"status": "revoked"', b'"status": "active",\n      "status": "revoked"'),
        text(json.loads(RING) | {"more": 1}),
        text(json.loads(RING) | {"schema_version": 0}),
        text(json.loads(RING) | {"schema_version": True}),
        text(json.loads(RING) | {"keys": {}}),
        text(entries(more=1)),
        text(entries(id="0123456789abcdef")),
        text(entries(id=KeyInfo(B, "active").id)),
        text(entries(status="trusted")),
        text(entries(status="active")),
        text(entries(status=["active"])),
        text(entries(public_key="!" * 44)),
        text(entries(public_key=7)),
        text(entries(public_key="Ω")),
        text(entries(public_key=not_canonical(A))),
        text(entries(public_key=base64.b64encode(A).decode() + "\n")),
        keyring_of((KeyInfo(A[:31], "active"),)),
        keyring_of((KeyInfo(A + b"\0", "active"),)),
        keyring_of((KeyInfo(bytes(32), "active"),)),
        keyring_of((KeyInfo(b"\xff" * 32, "active"),)),
        keyring_of((KeyInfo(A, "revoked"), KeyInfo(A, "active"))),
        keyring_of((KeyInfo(A, "active"), KeyInfo(B, "active"))),
    ],
)
def test_a_keyring_is_decoded_strictly(tmp_path, data):
    with pytest.raises(SigningError, match="was changed, or is no keyring"):
        read(tmp_path, data)


def test_a_newer_keyring_asks_for_a_newer_gridveil(tmp_path):
    with pytest.raises(SigningError, match="Upgrade gridveil"):
        read(tmp_path, text(json.loads(RING) | {"schema_version": 2}))


def test_a_private_key_or_another_kind_of_key_is_not_taken_for_a_public_one(tmp_path):
    private = to_pem(Ed25519PrivateKey.generate(), None)
    with pytest.raises(SigningError, match="never a private key") as caught:
        read(tmp_path, private)
    assert private.splitlines()[1].decode() not in all_that_it_says(caught.value)
    two = KeyInfo(A, "active").to_pem() + KeyInfo(B, "active").to_pem()
    x25519 = KeyInfo(A, "active").to_pem().replace(b"K2Vw", b"K2Vu")
    for other in (two, x25519, b"-----BEGIN CERTIFICATE-----\n"):
        with pytest.raises(SigningError, match="not one Ed25519 public key"):
            read(tmp_path, other)
    with pytest.raises(SigningError, match="cannot be read"):
        TrustedKeys.read(tmp_path / "nowhere")


# --- crashes and crowds ---------------------------------------------------------------------------

CRASH = """
import os, sys
from pathlib import Path
from gridveil.publication.signing import new_key, revoke, rotate

steps, last = 0, int(sys.argv[3])

def dying(real):
    def call(*arguments, **options):
        global steps
        steps += 1
        if steps == last:
            os._exit(9)
        return real(*arguments, **options)
    return call

for name in ("fsync", "fchmod", "replace", "unlink"):
    setattr(os, name, dying(getattr(os, name)))
{"new": new_key, "rotate": rotate, "revoke": revoke}[sys.argv[1]](Path(sys.argv[2]))
print(steps)
"""


def crash(act, folder, step):
    done = subprocess.run(
        [sys.executable, "-c", CRASH, act, folder, str(step)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 9), done.stderr
    return done


@pytest.fixture
def points(tmp_path):
    """How many steps a rotation has at which it can die: those of a whole one."""
    new_key(tmp_path / "count")
    return int(crash("rotate", tmp_path / "count", 0).stdout)


def test_a_crash_at_any_step_of_a_rotation_leaves_a_key_that_signs(folder, points):
    new_key(folder)
    seen = set()
    assert points > 8
    for step in range(1, points + 1):
        old = signer_in(folder).key_id
        before = len(keys_in(folder))
        assert crash("rotate", folder, step).returncode == 9
        signer = signer_in(folder)
        trusted = TrustedKeys.read(folder / "keyring.json")
        assert trusted.status(signer.public_key) == "active"
        assert check_signature(signer.public_key, signer.sign(DATA), DATA)
        assert TrustedKeys.read(folder / "public.pem").status(signer.public_key) == "active"
        assert sorted(path.name for path in folder.iterdir()) == [
            "keyring.json",
            "public.pem",
            f"signing-{signer.key_id}.pem",
        ]
        assert (len(keys_in(folder)) == before) == (signer.key_id == old)
        seen.add(signer.key_id == old)
    assert seen == {True, False}


def test_a_crash_while_the_first_key_is_made_or_one_revoked_does_not_block_the_next(tmp_path):
    for step in range(1, 12):
        folder = tmp_path / f"new-{step}"
        crash("new", folder, step)
        if load_signer(folder) is None:
            new_key(folder)
        (key,) = keys_in(folder)
        crash("revoke", folder, step)
        if load_signer(folder) is not None:
            revoke(folder)
        assert statuses(folder) == {key.id: "revoked"}
        assert [path.name for path in folder.iterdir()] == ["keyring.json"]


def test_a_full_disk_leaves_the_old_key(folder, monkeypatch):
    old = new_key(folder)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for act in (rotate, revoke):
        with pytest.raises(SigningError, match="No space left on device"):
            act(folder)
    monkeypatch.undo()
    assert signer_in(folder).key_id == old.id
    assert privates(folder) == [private_file(old)]


def test_rotations_at_the_same_time_come_one_after_another(folder):
    new_key(folder)
    script = (
        "import sys; from pathlib import Path; from gridveil.publication.signing import "
        "rotate; rotate(Path(sys.argv[1]))"
    )
    crowd = [subprocess.Popen([sys.executable, "-c", script, folder]) for _ in range(4)]
    assert [process.wait() for process in crowd] == [0, 0, 0, 0]
    assert sorted(statuses(folder).values()) == ["active", *["retired"] * 4]
    assert signer_in(folder)
    assert len(privates(folder)) == 1


# --- nothing private leaves -----------------------------------------------------------------------


def test_a_signer_shows_its_id_alone(folder):
    made = new_key(folder)
    signer = signer_in(folder)
    assert repr(signer) == str(signer) == f"{signer}" == f"<Signer {made.id}>"
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivateValueError):
            act(signer)
    assert not hasattr(signer, "__dict__")


def forms(private):
    """Every form in which a private key could be written."""
    seed = private.private_bytes_raw()
    der = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return [
        seed,
        seed.hex().encode(),
        repr(seed).encode(),
        base64.b64encode(seed),
        base64.b64encode(der)[22:-2],
    ]


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_no_private_key_and_no_passphrase_is_printed_logged_or_published(
    folder, monkeypatch, caplog, passphrase
):
    caplog.set_level(0)
    if passphrase:
        monkeypatch.setenv("GRIDVEIL_PASSPHRASE", passphrase)
    secrets, said = [PASSPHRASE.encode(), b"another guess"], []

    def remember():
        path = folder / private_file(keys_in(folder)[-1])
        secrets.extend(
            forms(
                load_pem_private_key(path.read_bytes(), passphrase.encode() if passphrase else None)
            )
        )

    for command in (
        ["new"],
        ["new"],
        ["show"],
        ["rotate"],
        ["revoke", "0123456789abcdef"],
        ["show", "--json"],
    ):
        done = gridveil("keys", *command)
        said += [done.out, done.err]
        remember()
    assert any(
        form in (folder / private_file(keys_in(folder)[-1])).read_bytes() for form in secrets
    ) == (passphrase is None)
    said += [repr(signer_in(folder, passphrase)), repr(keys_in(folder))]
    (folder / private_file(keys_in(folder)[-1])).chmod(0o644)
    for act in (lambda: load_signer(folder, "another guess"), lambda: new_key(folder, PASSPHRASE)):
        with pytest.raises(GridveilError) as caught:
            act()
        said.append(all_that_it_says(caught.value))
    (folder / private_file(keys_in(folder)[-1])).chmod(0o600)
    if passphrase:
        with pytest.raises(GridveilError) as caught:
            load_signer(folder, "another guess")
        said.append(all_that_it_says(caught.value))
    said += [gridveil("keys", "revoke", "--yes", "--json").out, caplog.text]
    published = [(folder / "keyring.json").read_bytes()]
    for place in [*(part.encode() for part in said), *published]:
        assert not [secret for secret in secrets if secret in place]
    left = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert not [secret for secret in secrets if secret in left]


# --- the command line -----------------------------------------------------------------------------


def as_json(*arguments):
    done = gridveil("keys", *arguments, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_the_commands_from_new_to_revoke(folder):
    assert as_json("show") == {"active": None, "folder": str(folder), "files": {}, "keys": []}
    first = as_json("new")
    assert first["made"] == first["active"] == keys_in(folder)[0].id
    assert first["files"] == {
        "private_key": str(folder / f"signing-{first['made']}.pem"),
        "public_key": str(folder / "public.pem"),
        "keyring": str(folder / "keyring.json"),
    }
    assert all(Path(path).is_file() for path in first["files"].values())
    second = as_json("rotate")
    assert (second["retired"], second["active"]) == (first["made"], second["made"])
    assert second["keys"] == json.loads((folder / "keyring.json").read_text())["keys"]
    assert as_json("revoke", first["made"], "--yes")["active"] == second["made"]
    last = as_json("revoke", "--yes")
    assert (last["revoked"], last["active"]) == (second["made"], None)
    assert [key["status"] for key in last["keys"]] == ["revoked", "revoked"]
    assert as_json("show")["keys"] == last["keys"]


def test_the_commands_in_words(folder):
    assert "Next     gridveil keys new" in gridveil("keys", "show").out
    said = gridveil("keys", "new").out
    (key,) = keys_in(folder)
    for words in (
        f"Made the key {key.id}.",
        f"Publish  {folder / 'keyring.json'}",
        str(folder / private_file(key)),
    ):
        assert words in said
    said = gridveil("keys", "rotate").out
    assert f"{key.id} is retired" in said
    said = gridveil("keys", "revoke", key.id, "--yes").out
    assert f"Revoked the key {key.id}" in said
    said = gridveil("keys", "revoke", "--yes").out
    assert "Next     gridveil keys new" in said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["rotate"], "There is no active key"),
        (["revoke"], "There is no active key"),
        (["revoke", "0123456789abcdef"], "There is no active key"),
        (["new", "--passphrase"], "A passphrase is needed"),
    ],
)
def test_a_mistake_leaves_with_code_2_and_a_next_step(home, command, words):
    done = gridveil("keys", *command)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    told = gridveil("keys", *command, "--json")
    assert told.code == 2
    assert words in json.loads(told.out)["error"]
    assert json.loads(told.out)["remedy"]


def test_new_refuses_a_second_key_with_code_2(home, folder):
    assert gridveil("keys", "new").code == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = gridveil("keys", "new")
    assert (done.code, done.out) == (2, "")
    assert "gridveil keys rotate" in done.err
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


class Terminal:
    """A terminal at which these answers are given."""

    def __init__(self, monkeypatch, *answers):
        self.prompts = []
        waiting = list(answers)
        monkeypatch.setattr("sys.stdin", type("Tty", (), {"isatty": lambda self: True})())
        monkeypatch.setattr(
            getpass, "getpass", lambda prompt: self.prompts.append(prompt) or waiting.pop(0)
        )


def test_a_passphrase_is_asked_for_twice_at_a_terminal(folder, monkeypatch):
    terminal = Terminal(monkeypatch, PASSPHRASE, PASSPHRASE)
    assert gridveil("keys", "new", "--passphrase").code == 0
    assert len(terminal.prompts) == 2
    assert signer_in(folder, PASSPHRASE)


@pytest.mark.parametrize(("answers", "words"), [(("a", "b"), "differ"), (("",), "none was given")])
def test_a_passphrase_typed_wrong_makes_no_key(folder, monkeypatch, answers, words):
    Terminal(monkeypatch, *answers)
    done = gridveil("keys", "new", "--passphrase")
    assert done.code == 2
    assert words in done.err
    assert keys_in(folder) == ()


def test_the_variable_seals_a_new_key_unless_told_otherwise(folder, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_PASSPHRASE", PASSPHRASE)
    assert gridveil("keys", "new").code == 0
    assert is_encrypted(folder)
    assert gridveil("keys", "rotate", "--no-passphrase").code == 0
    assert not is_encrypted(folder)
    assert gridveil("keys", "rotate").code == 0
    assert not is_encrypted(folder)
    assert gridveil("keys", "rotate", "--passphrase").code == 0
    assert is_encrypted(folder)


def test_a_sealed_key_is_not_rotated_into_an_open_one_by_silence(folder):
    made = new_key(folder, PASSPHRASE)
    done = gridveil("keys", "rotate")
    assert done.code == 2
    assert "A passphrase is needed" in done.err
    assert signer_in(folder, PASSPHRASE).key_id == made.id


def test_release_opens_the_signer_with_the_variable_or_at_the_terminal(folder, monkeypatch):
    from gridveil.cli.keys import ask_passphrase
    from gridveil.publication.signing import open_signer as opened

    def open_signer():
        return opened(lambda: ask_passphrase("Passphrase of the signing key: "))

    assert open_signer() is None
    new_key(folder, PASSPHRASE)
    with pytest.raises(SigningError, match="Work at a terminal"):
        open_signer()
    Terminal(monkeypatch, PASSPHRASE, "wrong")
    assert repr(open_signer()).startswith("<Signer")
    with pytest.raises(SigningError, match="is wrong"):
        open_signer()
    monkeypatch.setenv("GRIDVEIL_PASSPHRASE", PASSPHRASE)
    assert repr(open_signer()).startswith("<Signer")
    rotate(folder)
    assert repr(open_signer()).startswith("<Signer")


def test_the_commands_load_no_cryptography_before_they_need_it():
    script = (
        "import sys, gridveil.cli.keys, gridveil.publication.signing; print('cryptography' in "
        "sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
