"""Ed25519 keys and signatures: an owner makes, rotates and revokes keys; a recipient checks who signed."""

from gridveil.signing.folder import is_encrypted, key_folder, keys_in, load_signer, new_key, private_file, revoke, rotate
from gridveil.signing.private import Signer
from gridveil.signing.public import KEYRING, PUBLIC, KeyInfo, SigningError, Status, TrustedKeys, active_key, check_signature

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
    "is_encrypted",
    "key_folder",
    "keys_in",
    "load_signer",
    "new_key",
    "private_file",
    "revoke",
    "rotate",
]
