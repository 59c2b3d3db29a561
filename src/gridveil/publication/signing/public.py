"""Public keys, the keyring that an owner publishes, and the check of a signature."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gridveil.foundation.errors import GridveilError
from gridveil.foundation.limits import KEY_BYTES
from gridveil.foundation.reading import read_regular
from gridveil.foundation.shown import json_file

Status = Literal["active", "retired", "revoked"]
KEYRING, PUBLIC = "keyring.json", "public.pem"
KEYRING_VERSION = 1
NOT_TRUSTED = "Nothing was verified."
# SubjectPublicKeyInfo of Ed25519 (RFC 8410) is this prefix and the key: 12 bytes, so that base64
# needs no padding between.
SPKI = "MCowBQYDK2VwAyEA"
PUBLIC_PEM = re.compile(
    rb"-----BEGIN PUBLIC KEY-----\s+" + SPKI.encode() + rb"(\S{44})\s+-----END PUBLIC KEY-----\s*"
)

PRIME = 2**255 - 19
# y of the eight points whose order divides 8. Under such a "public key" anybody can sign, and
# OpenSSL takes it.
SMALL_ORDER_Y = {0, 1, PRIME - 1} | {
    int.from_bytes(bytes.fromhex(y), "little")
    for y in (
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    )
}


class SigningError(GridveilError):
    """A key, or a file that holds one, that cannot be used.

    Nothing was signed with it or trusted because of it.
    """


def key_name(public_key: bytes) -> str:
    """Name a key wherever people read of it: 16 hex digits of the SHA-256 of its public half.

    A label; trust compares whole keys.
    """
    return hashlib.sha256(public_key).hexdigest()[:16]


@dataclass(frozen=True)
class KeyInfo:
    """A public key (32 raw bytes) and what its owner says of it."""

    public_key: bytes
    status: Status

    @property
    def id(self) -> str:
        """Its name: see `key_name`."""
        return key_name(self.public_key)

    @property
    def text(self) -> str:
        """Write the public key in base64."""
        return base64.b64encode(self.public_key).decode()

    def to_pem(self) -> bytes:
        """Write the public key as openssl reads it."""
        return f"-----BEGIN PUBLIC KEY-----\n{SPKI}{self.text}\n-----END PUBLIC KEY-----\n".encode()


@dataclass(frozen=True)
class TrustedKeys:
    """The keys that a recipient trusts, from the owner's keyring or one public key."""

    keys: tuple[KeyInfo, ...]

    @classmethod
    def read(cls, path: str | Path) -> TrustedKeys:
        """Read a keyring or a PEM public key, strictly: one with any other byte is an error."""
        try:
            data = read_regular(Path(path), most=KEY_BYTES)
        except OSError as error:
            raise SigningError(
                f"{path} cannot be read ({error.strerror}).",
                outcome=NOT_TRUSTED,
                remedy="Check the path.",
            ) from None
        if not data.lstrip().startswith(b"-----BEGIN"):
            return cls(parse_keyring(data, str(path)))
        match = PUBLIC_PEM.fullmatch(data)
        key = decode_key(match[1].decode("latin-1")) if match else None
        if key is None:
            raise SigningError(
                f"{path} is not one Ed25519 public key.",
                outcome=NOT_TRUSTED,
                remedy=f"Give the owner's {PUBLIC} or {KEYRING}"
                + (", never a private key." if b"PRIVATE" in data else "."),
            )
        return cls((KeyInfo(key, "active"),))

    def status(self, public_key: bytes) -> Status | Literal["unknown"]:
        """Say what the owner says of a key."""
        for key in self.keys:
            if key.public_key == public_key:
                return key.status
        return "unknown"


def check_signature(public_key: bytes, signature: bytes, data: bytes) -> bool:
    """Check an Ed25519 signature (RFC 8032) strictly: a key and a message have one signature.

    OpenSSL refuses S ≥ L and every R but the canonical one; public keys that are not canonical, or
    of small order, it takes, and they are refused here.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if len(signature) != 64 or not _sound(public_key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def keyring_of(keys: tuple[KeyInfo, ...]) -> bytes:
    """Write a keyring, oldest key first."""
    entries = [{"id": key.id, "public_key": key.text, "status": key.status} for key in keys]
    return json_file({"schema_version": KEYRING_VERSION, "keys": entries})


def parse_keyring(data: bytes, name: str) -> tuple[KeyInfo, ...]:
    """Read a keyring that is, byte for byte, what `keyring_of` writes for its keys."""
    problem, remedy = (
        "was changed, or is no keyring",
        "Get it again from its owner; an owner restores it from a backup.",
    )
    try:
        document = json.loads(data)
        version = document["schema_version"]
        if isinstance(version, int) and version > KEYRING_VERSION:
            problem = f"is of version {version}, and this gridveil knows up to {KEYRING_VERSION}"
            remedy = "Upgrade gridveil: pip install --upgrade gridveil."
        keys = tuple(
            KeyInfo(decode_key(entry["public_key"]) or b"", entry["status"])
            for entry in document["keys"]
        )
        strict = (
            all(key.public_key and key.status in get_args(Status) for key in keys)
            and len({key.id for key in keys}) == len(keys)
            and sum(key.status == "active" for key in keys) <= 1
            and keyring_of(keys) == data
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        keys, strict = (), False
    if not strict:
        raise SigningError(f"{name} {problem}.", outcome=NOT_TRUSTED, remedy=remedy)
    return keys


def active_key(keys: tuple[KeyInfo, ...]) -> KeyInfo | None:
    """Find the key that signs now."""
    return next((key for key in keys if key.status == "active"), None)


def _sound(public_key: bytes) -> bool:
    """Tell whether these are 32 bytes with a canonical y, and not a point of small order."""
    y = int.from_bytes(public_key, "little") & (2**255 - 1)
    return len(public_key) == 32 and y < PRIME and y not in SMALL_ORDER_Y


def decode_key(text: str) -> bytes | None:
    """Read the canonical base64 of a sound public key; None if it is anything else."""
    try:
        key = base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        return None
    return key if _sound(key) and base64.b64encode(key).decode() == text else None
