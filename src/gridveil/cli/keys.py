"""Commands that keep the owner's signing keys: keys new, rotate, revoke, show."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.output import confirm, print_command, print_json, print_table, print_text
from gridveil.foundation.errors import OptionError

PASSPHRASE = "GRIDVEIL_PASSPHRASE"  # noqa: S105 - the variable's name, not a passphrase

app = typer.Typer(
    help="Make, rotate and revoke the key that signs bundles.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Passphrase = Annotated[
    bool | None,
    options.option(
        f"seal the private key: ask for a passphrase, or take it from ${PASSPHRASE}",
        "--passphrase/--no-passphrase",
    ),
]


@app.command("new")
def new(passphrase: Passphrase = None, json: options.Json = False) -> None:
    """Make a signing key. By default it is sealed if GRIDVEIL_PASSPHRASE is set."""
    from gridveil.publication.signing import active_key, key_folder, keys_in, new_key

    folder = key_folder()
    if active_key(keys_in(folder)) is None:  # else new_key refuses, and there is nothing to ask
        made = new_key(
            folder, _new_passphrase(passphrase, otherwise=bool(os.environ.get(PASSPHRASE)))
        )
    else:
        made = new_key(folder)
    _show(folder, json, f"Made the key {made.id}.", {"made": made.id})


@app.command("rotate")
def rotate(passphrase: Passphrase = None, json: options.Json = False) -> None:
    """Replace the key.

    What the old one signed still verifies; its private half is destroyed. Sealed as the old one
    was.
    """
    from gridveil.publication.signing import (
        active_key,
        is_encrypted,
        key_folder,
        keys_in,
        private_file,
        rotate,
    )

    folder = key_folder()
    old = active_key(keys_in(folder))
    if old is None:
        rotate(folder)  # which says that there is none
        return
    lost = not (folder / private_file(old)).exists()
    sealed = bool(os.environ.get(PASSPHRASE)) if lost else is_encrypted(folder)
    made = rotate(folder, _new_passphrase(passphrase, otherwise=sealed))
    _show(
        folder,
        json,
        f"Made the key {made.id}; {old.id} is retired.",
        {"made": made.id, "retired": old.id},
    )


@app.command("revoke")
def revoke(
    key_id: Annotated[str | None, options.argument("which key; default: the active one")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before going on")] = False,
    json: options.Json = False,
) -> None:
    """Revoke a key that others may have: every bundle it ever signed is refused from then on.

    It cannot be undone.
    """
    from gridveil.publication.signing import active_key, key_folder, keys_in, revoke

    folder = key_folder()
    keys = keys_in(folder)
    active = active_key(keys)
    which = key_id or (active.id if active else None)
    if which in [key.id for key in keys]:  # else revoke says that there is none
        confirm(
            f"Every bundle that the key {which} ever signed will be refused. It cannot be undone.",
            yes=yes,
            outcome="No key was revoked.",
        )
    done = revoke(folder, key_id)
    _show(folder, json, f"Revoked the key {done.id}.", {"revoked": done.id})


@app.command("show")
def show(json: options.Json = False) -> None:
    """List the keys and where they lie. Prints no private key."""
    from gridveil.publication.signing import key_folder

    _show(key_folder(), json, "", {})


def _new_passphrase(wanted: bool | None, *, otherwise: bool) -> str | None:
    if not (otherwise if wanted is None else wanted):
        return None
    if given := os.environ.get(PASSPHRASE):
        return given
    first = ask_passphrase("Passphrase for the new key: ")
    if first != ask_passphrase("The same again: "):
        raise OptionError(
            "The two passphrases differ.",
            outcome="No key was made or changed.",
            remedy="Try again.",
        )
    return first


def ask_passphrase(prompt: str) -> str:
    """Ask at the terminal, without echo. Never from an option: `ps` would show it."""
    import getpass
    import warnings

    from gridveil.publication.signing import SigningError

    try:
        if sys.stdin.isatty():
            with warnings.catch_warnings():
                warnings.simplefilter("error", getpass.GetPassWarning)
                if answer := getpass.getpass(prompt):
                    return answer
    except (EOFError, getpass.GetPassWarning):
        pass
    raise SigningError(
        "A passphrase is needed, and none was given.",
        outcome="Nothing was signed; no key was made or changed.",
        remedy=f"Work at a terminal, or set {PASSPHRASE}.",
    )


def _show(folder: Path, json: bool, done: str, more: dict[str, Any]) -> None:
    from gridveil.publication.signing import KEYRING, PUBLIC, active_key, keys_in, private_file

    keys = keys_in(folder)
    active = active_key(keys)
    files = (
        {"private_key": folder / private_file(active), "public_key": folder / PUBLIC}
        if active
        else {}
    )
    if keys:
        files["keyring"] = folder / KEYRING
    if json:
        print_json(
            {
                **more,
                "active": active.id if active else None,
                "folder": str(folder),
                "files": {name: str(path) for name, path in files.items()},
                "keys": [
                    {"id": key.id, "public_key": key.text, "status": key.status} for key in keys
                ],
            }
        )
        return
    if done:
        print_text(done)
    if not keys:
        print_text(f"No key in {folder}.")
        print_command("Next", "gridveil", "keys", "new")
        return
    print_table(
        f"keys in {folder}",
        ("key", "status"),
        [(key.id, key.status) for key in keys],
        texts=2,
    )
    if active:
        print_text(
            f"Publish  {files['keyring']}   (again after every change)",
            f"         {files['public_key']}   (for openssl alone)",
            f"Back up  {files['private_key']}   (never publish it)",
            f"         {files['keyring']}",
            "Recipients check a bundle with the keyring that you published:",
        )
        print_command("", "gridveil", "verify", "BUNDLE", "--key", "keyring.json")
    else:
        print_text(
            f"Publish  {files['keyring']}   (recipients learn of the revocation from it)",
        )
        print_command("Next", "gridveil", "keys", "new")
