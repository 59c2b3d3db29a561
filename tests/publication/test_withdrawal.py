"""Notices of withdrawal: whose word counts, what it does, and what nobody can do with one."""

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bundle_helpers import seal
from cli_helpers import Done, gridveil, make_release
from gridveil import load, verify
from gridveil.foundation.errors import BundleError, GridveilError
from gridveil.publication.bundle import write
from gridveil.publication.signing import Signer, load_signer, new_key, revoke, rotate
from gridveil.publication.withdrawal import Notice, Withdrawn, notices_folder, parse_notice
from gridveil.workflow.withdraw import withdraw_bundle

REASON = "The base power was wrong: ε is right, the model is not"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A real release and its ledger. Bundles of it differ by the formats in them."""
    return make_release(tmp_path_factory.mktemp("owner"))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An owner's key, and a folder to publish in."""
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    new_key(tmp_path / "home" / "keys")
    return tmp_path


@pytest.fixture
def bundle(release, home):
    return published(release, home / "bundle")


@pytest.fixture
def second(release, home):
    return published(release, home / "second", "csv")


def published(release, path, *formats):
    write(replace(release, ledger=None), path, own_signer(), formats)
    return path


def own_signer():
    return load_signer(Path("home/keys"))


def other_signer():
    return Signer(Ed25519PrivateKey.generate())


def digest(bundle):
    return hashlib.sha256((bundle / "SHA256SUMS").read_bytes()).hexdigest()


def notice_of(bundle, signer=None, reason=REASON, superseded_by=None, date="2026-11-17"):
    signer = signer or own_signer()
    later = digest(superseded_by) if superseded_by else None
    return Notice(digest(bundle), date, reason, later, signer.public_key).signed(signer)


def put(notice, name="a.withdrawn.json", folder=Path()):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(notice.to_file())
    return folder / name


# --- what a notice does ---------------------------------------------------------------------------


def test_withdraw_writes_a_notice_that_verify_and_all_readers_honour(bundle, second):
    made = gridveil("withdraw", "bundle", "--reason", REASON, "--superseded-by", "second")
    assert (made.code, made.err) == (0, "")
    assert "gives no ε back" in made.out and "unpublished" in made.out
    assert parse_notice(Path("bundle.withdrawn.json").read_bytes()).genuine
    done = gridveil("verify", "bundle")
    assert (done.code, done.out) == (3, "")
    for said in ("WITHDRAWN", REASON, digest(second), "Its files are intact", "bundle.withdrawn"):
        assert said in done.err
    for words in (
        ("simulate", "bundle", "--event", "load:G1=0.1"),
        ("export", "bundle", "--to", "csv", "--out", "tables"),
    ):
        assert gridveil(*words).code == 3
    assert not Path("tables").exists()
    assert gridveil("verify", "second").code == 0
    with pytest.raises(Withdrawn, match=REASON[:20]) as caught:
        load("bundle")
    assert caught.value.instead == digest(second)
    assert load("bundle", even_withdrawn=True).model is not None


def test_json_has_the_facts_of_a_withdrawal(bundle, second):
    made = gridveil("withdraw", "bundle", "--reason", REASON, "--json")
    told = json.loads(made.out)
    assert (told["reason"], told["superseded_by"], told["same_key"]) == (REASON, None, True)
    assert (told["bundle"], told["notice"]) == (digest(bundle), "bundle.withdrawn.json")
    done = gridveil("verify", "bundle", "--json")
    found = json.loads(done.out)
    assert done.code == 3
    assert found["withdrawn"] == {
        "bundle": digest(bundle),
        "date": told["date"],
        "reason": REASON,
        "superseded_by": None,
        "instead": None,
        "signed_by": told["signed_by"],
        "notice": "bundle.withdrawn.json",
    }
    assert {"error", "outcome", "remedy"} < found.keys()
    put(notice_of(second, other_signer()), "b.withdrawn.json")
    (words,) = json.loads(gridveil("verify", "second", "--json").out)["ignored_notices"]
    assert "b.withdrawn.json is not honoured" in words


@pytest.mark.parametrize("place", ["beside", "home", "file", "folder"])
def test_a_notice_is_found_where_recipients_put_it(bundle, home, place):
    folder = {"beside": home, "home": notices_folder()}.get(place, home / "elsewhere")
    path = put(notice_of(bundle), folder=folder)
    named = {"file": ["--notices", path], "folder": ["--notices", folder]}.get(place, [])
    assert gridveil("verify", bundle, *named).code == 3
    if named:
        assert gridveil("verify", bundle).code == 0
    shutil.copytree(bundle, home / "far" / "bundle")
    assert gridveil("verify", home / "far" / "bundle").code == (3 if place == "home" else 0)


def test_a_zip_is_withdrawn_as_its_folder_is(release, bundle, home):
    write(replace(release, ledger=None), home / "bundle.zip", own_signer())
    assert gridveil("withdraw", "bundle.zip", "--reason", REASON).code == 0
    assert Path("bundle.zip.withdrawn.json").exists()
    assert gridveil("verify", "bundle.zip").code == gridveil("verify", "bundle").code == 3


def test_a_withdrawal_gives_no_epsilon_back(release, bundle):
    book = release.ledger
    before = book.accounts(), book.entries(), book.head()
    assert gridveil("withdraw", bundle, "--reason", REASON).code == 0
    assert (book.accounts(), book.entries(), book.head()) == before
    assert all(account.spent > 0 for account in book.accounts().values())


def test_a_bundle_and_its_history_can_still_be_compared(bundle, second):
    put(notice_of(second))
    assert gridveil("verify", bundle, "--beside", second).code == 0


# --- whose word counts ----------------------------------------------------------------------------


def ignored(bundle, *options):
    done = gridveil("verify", bundle, *options)
    assert done.code == 0, done.err
    return "\n".join(line for line in done.out.splitlines() if line.startswith("Notice "))


def test_anothers_notice_is_named_and_not_honoured(bundle):
    stranger = other_signer()
    put(notice_of(bundle, stranger))
    assert f"is signed by key {stranger.key_id}, which did not sign the bundle" in ignored(bundle)
    assert load(bundle).model is not None


def test_a_forged_notice_is_named_and_not_honoured(bundle):
    stranger = other_signer()
    forged = replace(notice_of(bundle, stranger), public_key=own_signer().public_key)
    put(forged)
    assert "its signature is bad" in ignored(bundle)


def test_a_notice_cannot_be_turned_on_another_bundle(bundle, second):
    genuine = notice_of(bundle)
    put(genuine, "second.withdrawn.json")
    assert gridveil("verify", second).code == 0
    assert ignored(second) == ""
    assert "is about another bundle" in ignored(second, "--notices", "second.withdrawn.json")
    put(replace(genuine, bundle=digest(second)), "second.withdrawn.json")
    assert "its signature is bad" in ignored(second)


def test_a_changed_bit_is_never_believed(bundle, second):
    data = notice_of(bundle, superseded_by=second).to_file()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        with suppress(ValueError):
            assert not parse_notice(bytes(changed)).genuine, place


@pytest.mark.parametrize("keep", [0, 1, 100, -2, -1])
def test_a_truncated_notice_is_named_in_a_folder_and_refused_by_name(bundle, keep):
    path = put(notice_of(bundle))
    path.write_bytes(path.read_bytes()[:keep])
    assert "is not a notice as gridveil writes it: not honoured" in ignored(bundle)
    done = gridveil("verify", bundle, "--notices", path)
    assert (done.code, "Nothing was verified" in done.err) == (2, True)


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b"null",
        b"[" * 10_000,
        b"\xff\xfe",
        b'{"schema_version": 1e999}',
        b'{"kind": "gridveil withdrawal", "schema_version": 2}',
        b" " * 20_000,
    ],
)
def test_whatever_lies_there_is_named(bundle, text):
    Path("x.withdrawn.json").write_bytes(text)
    assert "x.withdrawn.json" in ignored(bundle)
    assert ("later version" in ignored(bundle)) == (b"withdrawal" in text)


def test_a_folder_or_a_link_to_nowhere_of_that_name_is_named(bundle):
    Path("x.withdrawn.json").mkdir()
    Path("y.withdrawn.json").symlink_to("nowhere")
    assert len(ignored(bundle).splitlines()) == 2


@pytest.mark.parametrize("name", ["nowhere", "x" * 300, "bundle/README.md"])
def test_a_notice_that_was_named_and_cannot_be_read_is_an_error(bundle, name):
    done = gridveil("verify", bundle, "--notices", name)
    assert (done.code, "Nothing was verified" in done.err) == (2, True)


def test_a_user_without_a_home_reads_bundles(bundle, monkeypatch):
    monkeypatch.delenv("GRIDVEIL_HOME")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("~nobody-at-all").expanduser())
    with pytest.raises(RuntimeError):
        notices_folder()
    assert load(bundle).model is not None


def test_no_notice_makes_a_bad_bundle_good_or_hides_that_it_is_bad(bundle):
    put(notice_of(bundle))
    (bundle / "README.md").write_bytes(b"other words")
    done = gridveil("verify", bundle)
    assert (done.code, "README.md was changed" in done.err) == (1, True)
    with pytest.raises(BundleError, match=r"README\.md") as caught:
        load(bundle, even_withdrawn=True)
    assert not isinstance(caught.value, Withdrawn)


def test_after_a_rotation_the_keyring_vouches_for_the_new_keys_notice(bundle, home):
    keys = home / "home" / "keys"
    rotate(keys)
    done = gridveil("withdraw", bundle, "--reason", REASON)
    assert (done.code, "have your keyring" in done.out) == (0, True)
    assert "give the keyring with --key" in ignored(bundle)
    assert gridveil("verify", bundle, "--key", keys / "keyring.json").code == 3
    revoke(keys)  # whoever stole it cannot withdraw others' bundles
    assert "its owner revoked" in ignored(bundle, "--key", keys / "keyring.json")


# --- what superseded it ---------------------------------------------------------------------------


def test_a_chain_leads_to_the_bundle_that_stands(release, bundle, second, home):
    third = published(release, home / "third", "mat")
    put(notice_of(bundle, superseded_by=second), "1.withdrawn.json")
    put(notice_of(second, superseded_by=third), "2.withdrawn.json")
    with pytest.raises(Withdrawn) as caught:
        verify(bundle)
    assert caught.value.instead == digest(third)
    assert caught.value.notice.superseded_by == digest(second)
    put(notice_of(third, other_signer()), "3.withdrawn.json")  # nobody's word
    with pytest.raises(Withdrawn) as caught:
        verify(bundle)
    assert caught.value.instead == digest(third)
    for later in (None, bundle, second, third):  # nothing, or a circle
        put(notice_of(third, superseded_by=later), "3.withdrawn.json")
        with pytest.raises(Withdrawn, match="What superseded it was withdrawn too") as caught:
            verify(bundle)
        assert caught.value.instead is None


def test_the_latest_notice_speaks(bundle, second):
    put(notice_of(bundle, reason="first", date="2026-01-01"), "z.withdrawn.json")
    put(notice_of(bundle, reason="then", date="2026-02-01", superseded_by=second))
    with pytest.raises(Withdrawn, match="then") as caught:
        verify(bundle)
    assert caught.value.instead == digest(second)


# --- hostile words --------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["\x1b[2J\x1b]0;owned\x07", "fine\nbundle: intact.", "a\u202eb"])
def test_words_of_a_notice_never_reach_a_terminal_raw(bundle, reason):
    put(notice_of(bundle, reason=reason))
    done = gridveil("verify", bundle)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert done.err[:-1].isprintable()
    done = gridveil("verify", bundle, "--json")
    assert all(line.isprintable() for line in done.out.splitlines())
    assert json.loads(done.out)["withdrawn"]["reason"] == reason
    assert gridveil("withdraw", bundle, "--reason", reason).code == 2


# --- what withdraw refuses ------------------------------------------------------------------------


def refused(*words) -> Done:
    done = gridveil("withdraw", *words)
    assert done.code in (1, 2), done.out
    assert not Path("bundle.withdrawn.json").exists()
    return done


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "two\nlines"])
def test_a_reason_is_one_plain_line(bundle, reason):
    assert "No notice was written" in refused(bundle, "--reason", reason).err


def test_who_did_not_sign_cannot_withdraw(release, bundle, home):
    shutil.rmtree(home / "home")
    assert "is signed by none of the keys" in refused(bundle, "--reason", REASON).err
    new_key(home / "home" / "keys")
    assert "is signed by none of the keys" in refused(bundle, "--reason", REASON).err
    write(replace(release, ledger=None), home / "unsigned")
    assert "nobody can show the right" in refused("unsigned", "--reason", REASON).err
    put(notice_of(home / "unsigned"))
    assert "nobody signed the bundle" in ignored(home / "unsigned")


def test_a_demo_cannot_be_withdrawn(home):
    make_release(home / "grid", demo=True).save(home / "demo")
    assert "say why there" in refused("demo", "--reason", REASON).err


def test_a_successor_is_another_good_bundle_of_the_owner(release, bundle, second, home):
    same = refused(bundle, "--reason", REASON, "--superseded-by", bundle)
    assert "is the bundle that is withdrawn" in same.err
    write(replace(release, ledger=None), home / "strange", other_signer())
    strange = refused(bundle, "--reason", REASON, "--superseded-by", home / "strange")
    assert "none of your keys" in strange.err
    put(notice_of(second))
    gone = gridveil("withdraw", bundle, "--reason", REASON, "--superseded-by", second)
    assert (gone.code, Path("bundle.withdrawn.json").exists()) == (3, False)
    (second / "README.md").write_bytes(b"other words")
    assert refused(bundle, "--reason", REASON, "--superseded-by", second).code == 1


def test_a_notice_goes_to_a_free_place_under_a_name_that_is_found(bundle):
    assert ".withdrawn.json" in refused(bundle, "--reason", REASON, "--out", "notice.json").err
    inside = refused(bundle, "--reason", REASON, "--out", bundle / "x.withdrawn.json")
    assert "lies inside a bundle" in inside.err
    Path("taken.withdrawn.json").write_bytes(b"")
    taken = refused(bundle, "--reason", REASON, "--out", "taken.withdrawn.json")
    assert "exists already" in taken.err


def test_a_bundle_that_no_longer_verifies_can_be_withdrawn(bundle):
    """As one that a mended gridveil refuses: its owner sealed and signed it all the same."""
    document = bundle / "release.json"
    document.write_bytes(document.read_bytes().replace(b'"demo": false', b'"demo":  false'))
    (bundle / "SHA256SUMS.sig").unlink()
    seal(bundle)
    sums = (bundle / "SHA256SUMS").read_bytes()
    (bundle / "SHA256SUMS.sig").write_bytes(own_signer().sign(sums))
    assert gridveil("verify", bundle).code == 1
    assert gridveil("withdraw", bundle, "--reason", REASON).code == 0
    assert gridveil("verify", bundle).code == 1


def test_python_withdraws_with_a_sealed_key(bundle, home):
    rotate(home / "home" / "keys", passphrase="a long one")
    with pytest.raises(GridveilError, match="needs its passphrase"):
        withdraw_bundle(bundle, REASON)
    done = withdraw_bundle(bundle, REASON, ask=lambda: "a long one")
    assert done.notice.genuine and not done.same_key
