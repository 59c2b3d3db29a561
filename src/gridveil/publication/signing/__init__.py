"""Ed25519 keys and signatures: owners make, rotate and revoke keys; recipients check them."""

from gridveil.publication.signing.folder import (
    PASSPHRASE,
    is_encrypted,
    key_folder,
    keys_in,
    load_signer,
    new_key,
    open_signer,
    private_file,
    revoke,
    rotate,
)
from gridveil.publication.signing.private import Signer
from gridveil.publication.signing.public import (
    KEYRING,
    PUBLIC,
    KeyInfo,
    SigningError,
    Status,
    TrustedKeys,
    active_key,
    check_signature,
)

__all__ = [
    "KEYRING",
    "PASSPHRASE",
    "PUBLIC",
    "KeyInfo",
    "Signer",
    "SigningError",
    "Status",
    "TrustedKeys",
    "active_key",
    "check_signature",
    "is_encrypted",
    "key_folder",
    "keys_in",
    "load_signer",
    "new_key",
    "open_signer",
    "private_file",
    "revoke",
    "rotate",
]
