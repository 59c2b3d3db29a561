"""Ed25519 keys and signatures: owners make, rotate and revoke keys; recipients check them.

The key folder holds `signing-<id>.pem` (private, 0600), `public.pem` and `keyring.json` (to
publish).

A change is one rename, that of `keyring.json`: before it the old key signs, after it the new one
does. Whatever a crash left half done around it is finished or undone by the next call.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gridveil.foundation.archive import check_outside_bundles
from gridveil.foundation.files import gridveil_home, replace_whole, sweep, sync_folder
from gridveil.foundation.limits import KEY_BYTES
from gridveil.foundation.reading import read_regular
from gridveil.publication.signing.private import Signer, from_pem, needs_passphrase, to_pem
from gridveil.publication.signing.public import (
    KEYRING,
    PUBLIC,
    KeyInfo,
    SigningError,
    Status,
    TrustedKeys,
    active_key,
    check_signature,
    keyring_of,
    parse_keyring,
)

__all__ = [
    "KEYRING",
    "PUBLIC",
    "KeyInfo",
    "Signer",
    "SigningError",
    "Status",
    "TrustedKeys",
    "active_key",
    "check_signature",
]

UNCHANGED, NOT_SIGNED = "No key was made or changed.", "Nothing was signed."
MAX_PASSPHRASE = 1023  # bytes; OpenSSL takes no more
PASSPHRASE = "GRIDVEIL_PASSPHRASE"  # noqa: S105 - the variable's name, not a passphrase


def key_folder() -> Path:
    """Name the owner's key folder."""
    return gridveil_home() / "keys"


def private_file(key: KeyInfo) -> str:
    """Name the file of a key's private half."""
    return f"signing-{key.id}.pem"


def new_key(folder: Path, passphrase: str | None = None) -> KeyInfo:
    """Make the first key, or one after a revocation. An active key is never overwritten."""
    check_outside_bundles(folder)
    with _locked(folder, create=True):
        keys = _own_keys(folder)
        if active := active_key(keys):
            raise SigningError(
                f"{folder} has a key already, {active.id}.",
                outcome=UNCHANGED,
                remedy="Replace it with gridveil keys rotate, or name another folder with "
                "GRIDVEIL_HOME.",
            )
        return _activate(folder, keys, passphrase)


def rotate(folder: Path, passphrase: str | None = None) -> KeyInfo:
    """Replace the active key: the old one retires, still verifies, and loses its private half."""
    with _locked(folder):
        keys = _own_keys(folder)
        if not active_key(keys):
            raise _no_key(folder)
        retired = tuple(
            replace(key, status="retired") if key.status == "active" else key for key in keys
        )
        return _activate(folder, retired, passphrase)


def revoke(folder: Path, key_id: str | None = None) -> KeyInfo:
    """Revoke a key, by default the active one: whatever it signed is refused, for good."""
    with _locked(folder):
        keys = _own_keys(folder)
        chosen = (
            next((key for key in keys if key.id == key_id), None) if key_id else active_key(keys)
        )
        if chosen is None and not key_id:
            raise _no_key(folder)
        if chosen is None or chosen.status == "revoked":
            raise SigningError(
                f"{key_id} is {'revoked already' if chosen else f'no key in {folder}'}.",
                outcome=UNCHANGED,
                remedy="List the keys with gridveil keys show.",
            )
        revoked = replace(chosen, status="revoked")
        _commit(folder, tuple(revoked if key is chosen else key for key in keys))
        return revoked


def keys_in(folder: Path) -> tuple[KeyInfo, ...]:
    """List an owner's keys, oldest first; none if there is no folder."""
    if not folder.exists():
        return ()
    with _locked(folder):
        return _own_keys(folder)


def is_encrypted(folder: Path) -> bool:
    """Tell whether the active key needs a passphrase."""
    active = active_key(keys_in(folder))
    return active is not None and needs_passphrase(_read_private(folder, active))


def load_signer(folder: Path, passphrase: str | None = None) -> Signer | None:
    """Open the active key; None if there is none."""
    active = active_key(keys_in(folder))
    if active is None:
        return None
    pem, place = _read_private(folder, active), folder / private_file(active)
    sealed = needs_passphrase(pem)
    if sealed and not passphrase:
        raise SigningError(
            f"{place} needs its passphrase.",
            outcome=NOT_SIGNED,
            remedy="Set GRIDVEIL_PASSPHRASE, or run at a terminal, which asks for it.",
        )
    signer = from_pem(pem, passphrase)
    if signer is None or signer.public_key != active.public_key:
        raise SigningError(
            f"The passphrase of {place} is wrong, or the file is damaged."
            if sealed and signer is None
            else f"{place} does not hold the key {active.id}.",
            outcome=NOT_SIGNED,
            remedy="Try again, or restore the file from a backup; a key that is lost is replaced "
            "by gridveil keys rotate.",
        )
    return signer


def open_signer(ask: Callable[[], str | None]) -> Signer | None:
    """Open the owner's active key; None if there is no key.

    ask : gives its passphrase, where it has one and $GRIDVEIL_PASSPHRASE does not tell.
    """
    folder = key_folder()
    passphrase = (os.environ.get(PASSPHRASE) or ask()) if is_encrypted(folder) else None
    return load_signer(folder, passphrase)


def _activate(folder: Path, others: tuple[KeyInfo, ...], passphrase: str | None) -> KeyInfo:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if (
        passphrase is not None
        and not 0 < len(passphrase.encode("utf-8", "surrogateescape")) <= MAX_PASSPHRASE
    ):
        raise SigningError(
            "The passphrase is empty or too long.",
            outcome=UNCHANGED,
            remedy=f"Choose one of 1 to {MAX_PASSPHRASE} bytes.",
        )
    private = Ed25519PrivateKey.generate()
    key = KeyInfo(private.public_key().public_bytes_raw(), "active")
    staged = folder / f".{private_file(key)}"
    replace_whole(staged, to_pem(private, passphrase), 0o600)
    _commit(folder, (*others, key))
    return key


def _commit(folder: Path, keys: tuple[KeyInfo, ...]) -> None:
    replace_whole(folder / KEYRING, keyring_of(keys), 0o644)
    _settle(folder, keys)


def _settle(folder: Path, keys: tuple[KeyInfo, ...]) -> None:
    """Make files agree with the keyring; destroy only keys that it gave up or never took."""
    active = active_key(keys)
    sweep(folder)
    for path in folder.glob(".signing-*.pem"):
        if active and path.name == f".{private_file(active)}":
            path.replace(folder / private_file(active))
        else:
            path.unlink()
    for key in keys:
        if key is not active:
            (folder / private_file(key)).unlink(missing_ok=True)
    public = folder / PUBLIC
    if active is None:
        public.unlink(missing_ok=True)
    elif not public.exists() or read_regular(public, most=KEY_BYTES) != active.to_pem():
        replace_whole(public, active.to_pem(), 0o644)
    sync_folder(folder)


def _own_keys(folder: Path) -> tuple[KeyInfo, ...]:
    path, keys = folder / KEYRING, ()
    if path.exists():
        keys = parse_keyring(read_regular(path, most=KEY_BYTES), str(path))
    elif lost := sorted(folder.glob("signing-*.pem")):
        raise SigningError(
            f"{folder} holds {lost[0].name} but no {KEYRING}.",
            outcome=UNCHANGED,
            remedy=f"Restore {KEYRING} from a backup or from where you published it, or move the "
            "private key away.",
        )
    _settle(folder, keys)
    return keys


def _read_private(folder: Path, key: KeyInfo) -> bytes:
    path = folder / private_file(key)
    try:
        _check_mode(path, path.stat().st_mode, "600")
        return read_regular(path, most=KEY_BYTES)
    except OSError as error:
        raise SigningError(
            f"{path}, the active private key, cannot be read ({error.strerror}).",
            outcome=NOT_SIGNED,
            remedy="Restore it from a backup. If it is lost, gridveil keys rotate; if it was "
            "stolen, gridveil keys revoke.",
        ) from None


def _check_mode(path: Path, mode: int, wanted: str) -> None:
    if stat.S_IMODE(mode) & 0o077:
        raise SigningError(
            f"{path} is open to other users (mode {stat.S_IMODE(mode):o}).",
            outcome="No key was read, made or changed.",
            remedy=f"Close it: chmod {wanted} {path}. If others may have read a private key, "
            "gridveil keys revoke.",
        )


@contextmanager
def _locked(folder: Path, *, create: bool = False) -> Iterator[None]:
    """Hold the folder against other gridveil processes, once its permissions are safe."""
    try:
        import fcntl
    except ImportError:
        raise SigningError(
            "Key files are kept safe by POSIX permissions, which this system does not have.",
            outcome=UNCHANGED,
            remedy="Sign on Linux, macOS or WSL. Verifying works everywhere.",
        ) from None

    if not create and not folder.exists():
        raise _no_key(folder)
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _check_mode(folder, os.fstat(handle).st_mode, "700")
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
    except OSError as error:
        raise SigningError(
            f"The key folder {folder} cannot be used ({error.strerror}).",
            outcome=f"The keys are as its {KEYRING} says.",
            remedy="Make room, or make the folder writable; gridveil keys show lists the keys.",
        ) from None


def _no_key(folder: Path) -> SigningError:
    return SigningError(
        f"There is no active key in {folder}.",
        outcome=UNCHANGED,
        remedy="Make one: gridveil keys new.",
    )
