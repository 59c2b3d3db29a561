"""The private key: it signs, and lies in a PKCS 8 file that openssl reads too."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any, NoReturn

from gridveil.foundation.errors import PrivateValueError
from gridveil.publication.signing.public import KeyInfo

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# scrypt's cost (RFC 7914): about 0.2 s a guess, in the 32 MiB that openssl allows.
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**14, 8, 5
# Object identifiers as DER: PBES2, scrypt, AES-256-CBC.
PBES2, SCRYPT, AES_256_CBC = (
    bytes.fromhex(oid)
    for oid in ("06092a864886f70d01050d", "06092b06010401da47040b", "060960864801650304012a")
)
SEQUENCE, OCTETS, INTEGER = 0x30, 0x04, 0x02


class Signer:
    """A private key that only signs: its repr is its id; it is neither copied nor pickled."""

    __slots__ = ("__info", "__private")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.__private = private
        self.__info = KeyInfo(private.public_key().public_bytes_raw(), "active")

    @property
    def public_key(self) -> bytes:
        """Give the public half: 32 raw bytes."""
        return self.__info.public_key

    @property
    def key_id(self) -> str:
        """Give the key's name."""
        return self.__info.id

    def sign(self, data: bytes) -> bytes:
        """Sign with Ed25519 (RFC 8032): 64 bytes, always the same ones for the same data."""
        return self.__private.sign(data)

    def __repr__(self) -> str:
        return f"<Signer {self.key_id}>"

    def _refuse(self, *_: Any) -> NoReturn:
        raise PrivateValueError("A signing key is private: it is neither copied nor pickled.")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse


def to_pem(private: Ed25519PrivateKey, passphrase: str | None) -> bytes:
    """Write a private key as PKCS 8, sealed if there is a passphrase."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    der = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    kind, der = (
        ("ENCRYPTED PRIVATE KEY", _sealed(der, passphrase)) if passphrase else ("PRIVATE KEY", der)
    )
    text = base64.b64encode(der).decode()
    lines = [text[i : i + 64] for i in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""]).encode()


def needs_passphrase(pem: bytes) -> bool:
    """Tell whether a private key is sealed."""
    return b"ENCRYPTED" in pem


def from_pem(pem: bytes, passphrase: str | None) -> Signer | None:
    """Open a private key; None if the passphrase is wrong or the file damaged.

    One that is not needed is ignored.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(
            pem, _bytes(passphrase or "") if needs_passphrase(pem) else None
        )
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return None
    return Signer(private) if isinstance(private, Ed25519PrivateKey) else None


def _sealed(der: bytes, passphrase: str) -> bytes:
    """Encrypt a PKCS 8 key with scrypt and AES-256-CBC (PBES2, RFC 8018).

    `cryptography` reads this but writes only PBKDF2 with 2048 rounds, some 300 times cheaper to
    guess.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    salt, iv = os.urandom(16), os.urandom(16)
    key = Scrypt(salt, 32, SCRYPT_N, SCRYPT_R, SCRYPT_P).derive(_bytes(passphrase))
    aes = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    padding = 16 - len(der) % 16
    sealed = aes.update(der + bytes([padding]) * padding) + aes.finalize()
    cost = (
        _der(INTEGER, n.to_bytes(n.bit_length() // 8 + 1, "big"))
        for n in (SCRYPT_N, SCRYPT_R, SCRYPT_P)
    )
    derivation = _der(SEQUENCE, SCRYPT, _der(SEQUENCE, _der(OCTETS, salt), *cost))
    encryption = _der(SEQUENCE, AES_256_CBC, _der(OCTETS, iv))
    return _der(
        SEQUENCE,
        _der(SEQUENCE, PBES2, _der(SEQUENCE, derivation, encryption)),
        _der(OCTETS, sealed),
    )


def _der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes([tag, len(body)] if len(body) < 128 else [tag, 0x81, len(body)]) + body


def _bytes(passphrase: str) -> bytes:
    return passphrase.encode("utf-8", "surrogateescape")
