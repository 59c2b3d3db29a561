"""Bundles, altered as whoever forges one would."""

import hashlib
import json


def seal(bundle):
    """Write the checksums anew, as whoever alters a bundle would."""
    names = sorted(path.name for path in bundle.iterdir() if path.name != "SHA256SUMS")
    digests = {name: hashlib.sha256((bundle / name).read_bytes()).hexdigest() for name in names}
    (bundle / "SHA256SUMS").write_text(
        "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    )


def edit_document(bundle, *keys, value):
    """Set one entry of release.json, and the checksums after it."""
    document = json.loads((bundle / "release.json").read_text())
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    (bundle / "release.json").write_text(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    seal(bundle)


def altered(name, old, new):
    """A forgery: other words in a file of a bundle."""

    def change(bundle):
        path = bundle / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change
