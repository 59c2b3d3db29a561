"""Forge bundles and verify them, in a process of its own: `python hostile_bundles.py COUNT SEED`
prints what went wrong.

A forger changes one thing of a sound bundle and makes the rest fit as well as he can: checksums,
certificate.txt, README and card anew, and a signature by a key of his own. How it is known whether
a bundle that is accepted was accepted wrongly:

- a zip: its files must be the sound bundle's, byte by byte;
- a model, a reference, an export or a text: never, every change was made large enough to show;
- a document: only what none but the owner knows may differ (DECLARED), or a promise that plain
  arithmetic here finds kept.
"""

import copy
import io
import json
import math
import random
import re
import resource
import stat
import struct
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import conftest  # noqa: F401 - a home of its own, before gridveil is imported
from cli_helpers import make_release, write_grid
from gridveil.foundation.archive import SIGNATURE, SUMS, canonical_zip, checksums
from gridveil.foundation.errors import GridveilError
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, aggregates, topology
from gridveil.privacy.ledger import Ledger
from gridveil.publication import bundle_reading
from gridveil.publication.bundle import contents, verify, verify_files
from gridveil.publication.card import card_page
from gridveil.publication.certificate import CertificateDocument, in_plain_words
from gridveil.publication.document import from_document
from gridveil.publication.export import FORMATS
from gridveil.publication.matfile import HEADER
from gridveil.publication.readme import readme
from gridveil.publication.schema import ReleaseDocument
from gridveil.publication.signing import Signer
from gridveil.publication.signing.public import key_name
from gridveil.publication.unpack import check_sums
from gridveil.readers.cases import open_grid
from gridveil.workflow.demo import run_demo
from gridveil.workflow.publish import publish
from limited import own_peak

# processor time and memory a bundle, and how much of it a busy machine is given
LIMIT_S, LIMIT_MB, SLACK = (2.0, 500, 3)
RELEASE, CERTIFICATE = "release.json", "certificate.json"
WORDS = ("README.md", "certificate.txt", "card.html")  # recomputed from the documents
FORGER = Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
NOTHING_LEARNT = "Nothing at all can be learnt."

# What none but the owner knows, and no recipient can recompute: it has to follow its pattern, and
# is shown as declared.
DECLARED = re.compile(
    r"(release\.json\.(bounds\.|clipped\.|fit\.|exports\.\d+\.version|provenance\."
    r"|guarantee\.conditional_on|model\.(load_damping|base_mva|frequency_hz))"
    r"|certificate\.json\.(software\.|lineage_(spent|budget)|ledger_entry|ledger_nonce"
    r"|earlier_draws|draw_commitment|conditional_on|signed_by)"
    r"|\w+\.json\.public_inputs\.(bounds|allocation|rules for awkward data)).*"
)
# A weaker promise may be kept as well: `promise_holds` says.
PROMISE = re.compile(
    r"(release\.json\.guarantee\.(epsilon|adjacency|groups\..*|in_words)"
    r"|certificate\.json\.(epsilon_asked|adjacency|neighbours|groups\..*))"
)


class Base(NamedTuple):
    """A sound bundle to begin with."""

    name: str
    files: dict

    @property
    def signed(self):
        return SIGNATURE in self.files

    def document(self, name):
        return json.loads(self.files[name]) if name in self.files else None


def whole(name, data):
    """A document with all its fields: one that is left out has its default."""
    kind = ReleaseDocument if name == RELEASE else CertificateDocument
    return kind.model_validate_json(data).model_dump(mode="json")


def bases():
    """Sound bundles: demos and real ones, signed or not, with other tools' files, of every
    mechanism.
    """
    folder = Path(tempfile.mkdtemp(prefix="gridveil-hostile-"))
    grid, bounds = open_grid(str(write_grid(folder))), Bounds()
    owner = Signer(Ed25519PrivateKey.generate())

    def real(name, rule="one-asset", allocation=ITEMS, **options):
        ledger = Ledger(folder / f"{name}.sqlite")
        return publish(
            grid,
            epsilon=Fraction(1, 2),
            adjacency=Adjacency(rule),
            bounds=bounds,
            ledger=ledger,
            allocation=allocation,
            **options,
        )

    items = real("items")
    return [
        Base(
            "demo",
            contents(make_release(folder, demo=True, publish_loads=True), formats=["psse", "csv"]),
        ),
        Base("fitted demo", contents(run_demo("star5").release)),
        Base("real", contents(items)),
        Base("signed", contents(items, owner)),
        Base(
            "exports",
            contents(items, owner, formats=list(FORMATS)),
        ),
        Base("sums", contents(real("sums", allocation=aggregates(sharing="rating")), owner)),
        Base("topology", contents(real("topology", allocation=topology()))),
        Base("relative", contents(real("relative", "one-item-relative"))),
        Base(
            "per group",
            contents(real("per-group", "one-per-group", allocation=aggregates(lines=False)), owner),
        ),
    ]


# --- what a forger does ---------------------------------------------------------------------------


def as_json(document):
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "surrogatepass"
    )


def sealed(base, files):
    """Make checksums fit; where the bundle was signed, sign it with the forger's own key, and name
    that one.
    """
    files = {name: data for name, data in files.items() if name not in (SUMS, SIGNATURE)}
    if base.signed:
        owner, forger = (
            base.document(CERTIFICATE)["signed_by"].encode(),
            FORGER.public_key.hex().encode(),
        )
        names = [key_name(bytes.fromhex(key.decode())).encode() for key in (owner, forger)]
        for name, (old, new) in ((CERTIFICATE, (owner, forger)), ("certificate.txt", names)):
            if name in files:
                files[name] = files[name].replace(old, new)
    files[SUMS] = checksums(files)
    return files | ({SIGNATURE: FORGER.sign(files[SUMS])} if base.signed else {})


def reworded(files):
    """Write certificate.txt, README and card anew from what the documents say now, where they say
    anything that can be written.
    """
    files = dict(files)
    try:
        if CERTIFICATE in files:
            files["certificate.txt"] = in_plain_words(
                CertificateDocument.model_validate_json(files[CERTIFICATE])
            ).encode()
        document = ReleaseDocument.model_validate_json(files[RELEASE])
        g, b = len(document.model.machines), len(document.model.loaded_buses)
        shapes = {"k_r": (g * (g - 1) // 2,), "K_ac": (g, b), "loads": (g + b,)}
        arrays = {
            name: np.ones(shapes.get(name, (g,)))
            for name in ("k_r", "m", "d", "governor_rate", "droop_gain", "K_ac", "loads")
        }
        files["README.md"] = readme(from_document(document, arrays), document).encode()
        card_anew(files)
    except (GridveilError, ValueError, TypeError, KeyError, ArithmeticError):
        pass
    return files


def card_anew(files):
    """Write the card anew from what the other files hold now."""
    document, release = bundle_reading.read_release(Path("forged"), files)
    release, _ = bundle_reading.read_records(Path("forged"), files, release)
    release = bundle_reading.with_ensemble(Path("forged"), files, release, document)
    certificate = (
        CertificateDocument.model_validate_json(files[CERTIFICATE])
        if CERTIFICATE in files
        else None
    )
    files["card.html"] = card_page(release, document, certificate).encode()


def leaves(document, path=()):
    """Every place in a document, containers included."""
    yield path
    items = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in items:
        yield from leaves(value, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def strange(rng, old):
    """Another value in the place of one; numbers move by far more than a rounding."""
    if isinstance(old, bool):
        return rng.choice([not old, not old, 0, "no", None])
    if isinstance(old, str):
        return rng.choice(
            [
                NOTHING_LEARNT,
                old + " ",
                old.upper() + ".",
                "",
                "x" * 20_000,
                "\x1b[2J",
                f"{old}\nSigned by key 0.",
                "1/1000000",
                "1/3",
                "2/4",
                "0",
                "1/0",
                "9" * 5000,
                "-1/2",
                "0" + old,
                old[:-1],
                old + "0",
                "zz",
                old[::-1],
                "G0",
                "G7",
                "one-item",
                "one-per-group",
                "=HYPERLINK(1)",
                "../x",
                "\u202e" + old,
                "\ud800",
                1,
                None,
                [old],
                {"a": old},
            ]
        )
    if isinstance(old, float):
        return rng.choice(
            [
                old * 1e-9,
                old / 2,
                old * 1.5,
                old * 1e9,
                -old - 1,
                5e-324,
                1e308,
                0.0,
                math.nan,
                math.inf,
                int(old) + 1,
                "1",
                None,
            ]
        )
    if isinstance(old, int):
        return rng.choice([-1, 0, old + 1, old + 7, 2**63, 10**30, True, old + 0.5, str(old), None])
    if isinstance(old, list):
        return rng.choice(
            [
                [],
                old[:-1],
                [*old[::-1], 0],
                old + old,
                old * 3000,
                [old],
                {},
                None,
                [*old, NOTHING_LEARNT],
            ]
        )
    if isinstance(old, dict):
        return rng.choice(
            [
                {},
                None,
                [],
                old | {"surprise": 1},
                old | {NOTHING_LEARNT: NOTHING_LEARNT},
                dict(list(old.items())[:-1]),
            ]
        )
    return rng.choice([0, "", {}, [], False, NOTHING_LEARNT])


SAME = {("guarantee", "epsilon"): ("epsilon_asked",), ("guarantee", "spent"): ("epsilon_charged",)}


def change_field(rng, base):
    """Change one place of a document, and the same place of the other one half of the time."""
    names = [name for name in (RELEASE, CERTIFICATE) if name in base.files]
    documents = {name: base.document(name) for name in names}
    name = rng.choice(names)
    path = rng.choice([path for path in leaves(documents[name]) if path])
    new = strange(rng, at(documents[name], path))
    places = [(name, path)]
    if name == RELEASE and CERTIFICATE in documents and rng.random() < 0.7:
        places.append(
            (CERTIFICATE, SAME.get(path[:2]) or (path[1:] if path[0] == "guarantee" else path))
        )
    for where, place in places:
        try:
            parent = at(documents[where], place[:-1])
            if rng.random() < 0.05 and isinstance(parent, dict):
                del parent[place[-1]]
            elif isinstance(parent, list) or place[-1] in parent:
                parent[place[-1]] = copy.deepcopy(new)
        except (KeyError, IndexError, TypeError):
            pass
    files = base.files | {where: as_json(document) for where, document in documents.items()}
    return reworded(files) if rng.random() < 0.8 else files


def change_promise(rng, base):
    """Promise more than the noise keeps, or draw less noise, in every document alike."""
    documents = {name: base.document(name) for name in (RELEASE, CERTIFICATE) if name in base.files}
    what, factor = (
        rng.choice(["scale", "scale", "epsilon", "alpha", "spent", "claim", "rule"]),
        rng.choice([1e-9, 0.1, 0.85, 0.999, 1.001, 1.5, 100]),
    )
    group = rng.choice(["k", "m", "d"])
    for document in documents.values():
        part = document.get("guarantee", document)
        own = part["groups"][group]
        if what == "claim":
            part["claim"] = NOTHING_LEARNT
        elif what == "rule":
            part["adjacency"] = "one-item" if part["adjacency"] != "one-item" else "one-per-group"
        elif own is None:
            part["groups"][group] = part["groups"]["m"]
        elif what in ("scale", "spent"):
            for one in part["groups"].values():
                if one and (factor == 1e-9 or one is own):
                    one[what] *= factor
        else:
            own[what] = str(Fraction(own[what]) * Fraction(factor))
    return reworded(base.files | {name: as_json(document) for name, document in documents.items()})


def change_json_text(rng, base):
    """The same document or another one, in bytes that gridveil does not write."""
    name = rng.choice([name for name in (RELEASE, CERTIFICATE) if name in base.files])
    text, number = base.files[name].decode(), rng.randrange(9)
    changed = [
        lambda: json.dumps(json.loads(text)),
        lambda: text.replace(
            "{", '{"demo": true, ' if name == RELEASE else '{"claim": "none", ', 1
        ),
        lambda: text.replace("{", '{"x": ' + "[" * 100_000 + "]" * 100_000 + ", ", 1),
        lambda: "[" * rng.choice([10, 200, 5000, 200_000]),
        lambda: text[: rng.randrange(len(text))],
        lambda: text + " ",
        lambda: "\ufeff" + text,
        lambda: text.replace("\n", "\r\n"),
        lambda: (
            re.sub(r"\d", lambda found: str(rng.randrange(10)), text, count=rng.choice([1, 5]))
            + "\n"
        ),
    ][number]()
    return base.files | {name: changed.encode()}


def change_number(rng, base):
    """Another number in the model, large enough to show."""
    data, strange_numbers = (
        bytearray(base.files["model.mat"]),
        [5e-324, 1e308, -1.0, math.nan, math.inf, 1e16],
    )
    g = len(base.document(RELEASE)["model"]["machines"])
    place = rng.choice(["k_r", "m", "d", "governor_rate", "droop_gain", "K_ac"])
    start = _numbers_at(data, place)
    start += 8 * rng.randrange(
        g
        if place in ("m", "d", "governor_rate", "droop_gain")
        else max(1, g * (g - 1) // 2 if place == "k_r" else g)
    )
    (old,) = struct.unpack_from("<d", data, start)
    struct.pack_into(
        "<d", data, start, rng.choice([*strange_numbers, old * 1.5 + 0.01, -old - 0.1])
    )
    return base.files | {"model.mat": bytes(data)}


def _numbers_at(data, name):
    text = name.encode()
    label = (
        struct.pack("<HH", 1, len(text)) + text.ljust(4, b"\0")
        if len(text) <= 4
        else struct.pack("<2I", 1, len(text)) + text
    )
    return (
        data.index(label, len(HEADER)) + (8 if len(text) <= 4 else 8 + -(-len(text) // 8) * 8) + 8
    )


def change_bytes(rng, base):
    """Other bytes in a file that is recomputed: a text, a reference, an export, a header."""
    name = rng.choice(
        [name for name in base.files if name not in (SUMS, SIGNATURE, RELEASE, CERTIFICATE)]
    )
    data = base.files[name]
    if name in ("model.mat", "ensemble.mat"):  # of its numbers, the last digits show nowhere
        place = rng.randrange(len(HEADER) + 40)
        return base.files | {
            name: data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        }
    if name == "reference.csv":
        lines = data.decode().split("\n")
        row = rng.randrange(2, len(lines) - 1)
        cells = lines[row].split(",")
        column = rng.randrange(len(cells))
        cells[column] = rng.choice(
            [
                repr(float(cells[column]) * 1.01 + 1e-3),
                cells[column] + "0",
                "nan",
                "1_0",
                "",
                "1e999",
                " " + cells[column],
            ]
        )
        lines[row] = ",".join(cells)
        changed = [
            "\n".join(lines),
            "\n".join(lines[:-2]) + "\n",
            data.decode() + "\n",
            data.decode().replace("time_s", "time_h"),
            "\n" * 10_000,
        ]
        return base.files | {name: rng.choice(changed).encode()}
    cut = rng.randrange(len(data))
    return base.files | {
        name: rng.choice(
            [
                data[:cut],
                data + b" ",
                data[:cut] + b"\x1b[2J" + data[cut:],
                b"",
                data.replace(b" not ", b" ")[:-1],
            ]
        )
    }


def change_files(rng, base):
    """Files that are missing, are not announced, or stand under another's name."""
    files = dict(base.files)
    kind, name = rng.randrange(4), rng.choice([name for name in base.files if name != SUMS])
    if kind == 0:
        del files[name]
    elif kind == 1:
        files[rng.choice(["extra.txt", "model.mat.bak", "release.json~", "a" * 60, "LICENSE"])] = (
            b"hello"
        )
    elif kind == 2:
        other = rng.choice([other for other in base.files if base.files[other] != base.files[name]])
        files[name] = files[other]
    else:
        files[rng.choice(["SHA256SUMS.asc", "CON", "-rf", ".hidden", "_x"])] = files.pop(name)
    return files


def change_signature(rng, base):
    """A signature that is another's, damaged, or stands for nothing; given whole, so that nobody
    signs it again.
    """
    files, forged = dict(base.files), rng.randrange(4)
    if forged == 0 or SIGNATURE not in files:
        files[SIGNATURE] = FORGER.sign(files[SUMS])
    elif forged == 1:
        files[SIGNATURE] = (
            bytes(
                byte ^ (1 << rng.randrange(8)) if rng.random() < 0.1 else byte
                for byte in files[SIGNATURE]
            )
            + b"x"
        )
    elif forged == 2:
        del files[SIGNATURE]
    else:
        files[SIGNATURE] = bytes(rng.choice([0, 63, 64, 65]))
    return files


CHANGES = (
    change_field,
    change_field,
    change_field,
    change_promise,
    change_json_text,
    change_number,
    change_bytes,
    change_files,
)


# --- zips -----------------------------------------------------------------------------------------


def zip_of(rng, files):
    """A zip as another program may make it, or a forger."""
    items, buffer = list(files.items()), io.BytesIO()
    rng.shuffle(items)
    folder = rng.choice(["", "", "bundle/", "a b/", "x/y/", "../", "/", "./", "C:\\"])
    method = rng.choice(
        [
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
            zipfile.ZIP_DEFLATED,
            zipfile.ZIP_BZIP2,
            zipfile.ZIP_LZMA,
        ]
    )
    with zipfile.ZipFile(buffer, "w") as archive:
        if folder and rng.random() < 0.5:
            archive.writestr(zipfile.ZipInfo(folder), b"")
        for name, data in items:
            entry = zipfile.ZipInfo(folder + name, (rng.randrange(1980, 2100), 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = method, 0o644 << 16
            if rng.random() < 0.01:
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            entry.comment, entry.extra = rng.choice(
                [(b"", b""), (b"hello", struct.pack("<HH4x", 0x7777, 4))]
            )
            archive.writestr(entry, data)
        extra = rng.choice(
            [None] * 6
            + [
                "__MACOSX/._x",
                folder + ".DS_Store",
                "other/x",
                folder + "extra",
                items[0][0],
                folder + items[0][0].upper(),
            ]
        )
        if extra:
            archive.writestr(extra, rng.choice([b"hello", items[0][1]]))
        archive.comment = rng.choice([b"", b"", b"made by a mailer"])
    data = buffer.getvalue()
    if rng.random() < 0.2:
        data = data.replace(
            b"README.md", rng.choice([b"README\0md", b"readme.md", b"../../x.x", b"README/md"])
        )
    if rng.random() < 0.2:
        data = rng.choice(
            [
                b"#!" + data,
                data + b"\0",
                data + data,
                data[: rng.randrange(len(data))],
                data[:-22] + bytes(22),
            ]
        )
    return data


def flipped_zip(rng, files):
    """A canonical zip with bytes changed in its headers."""
    data = bytearray(canonical_zip(files))
    marks = [found.start() for found in re.finditer(rb"PK(\x03\x04|\x01\x02|\x05\x06)", data)]
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.choice(marks) + rng.randrange(46)
        if place < len(data):
            data[place] = rng.choice([0, 255, data[place] ^ 1 << rng.randrange(8)])
    return bytes(data)


def overlapping_zip(files, *, copies, size):
    """Entries that all share one run of deflated zeros: a small file that unpacks to many times
    `size` bytes.
    """
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflate.compress(bytes(size)) + deflate.flush()
    names = [*files, *(f"x{number}" for number in range(copies - len(files)))]
    name = names[0].encode()
    local = (
        struct.pack(
            "<4s5H3I2H",
            b"PK\x03\x04",
            20,
            0,
            8,
            0,
            33,
            zlib.crc32(bytes(size)),
            len(packed),
            size,
            len(name),
            0,
        )
        + name
        + packed
    )
    directory = b"".join(
        struct.pack(
            "<4s6H3I5H2I",
            b"PK\x01\x02",
            20,
            20,
            0,
            8,
            0,
            33,
            zlib.crc32(bytes(size)),
            len(packed),
            size,
            len(one),
            0,
            0,
            0,
            0,
            0,
            0,
        )
        + one.encode()
        for one in names
    )
    end = struct.pack(
        "<4s4H2IH", b"PK\x05\x06", 0, 0, len(names), len(names), len(directory), len(local), 0
    )
    return local + directory + end


# --- whether it was accepted wrongly --------------------------------------------------------------


def changed_places(old, new, path):
    """Places in which two documents differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            place
            for key in {**old, **new}
            for place in changed_places(old.get(key), new.get(key), f"{path}.{key}")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            place
            for number, pair in enumerate(zip(old, new, strict=True))
            for place in changed_places(*pair, f"{path}.{number}")
        ]
    return [] if old == new and type(old) is type(new) else [path]


def promise_holds(document):
    """Work a promise out anew, in plain arithmetic: α / scale at most ε, group by group, and by the
    rule.
    """
    g = document["guarantee"]
    losses = {}
    for name, group in g["groups"].items():
        if group is not None:
            distance = (
                math.log1p(float(Fraction(group["alpha"])))
                if group["relative"]
                else Fraction(group["alpha"])
            )
            losses[name] = Fraction(distance) / Fraction(group["scale"])
            if losses[name] > Fraction(group["epsilon"]):
                return False
    k, m, d = (losses.get(name, Fraction(0)) for name in "kmd")
    rules = {"one-asset": max(k, m + d), "one-item": max(k, m, d), "one-per-group": k + m + d}
    return rules[g["adjacency"].removesuffix("-relative")] <= Fraction(g["epsilon"])


def wrong_with(base, files, report):
    """Say why a bundle that was accepted should not have been; None if it rightly was."""
    if base.signed and report.signed_by != FORGER.public_key.hex() and files != base.files:
        return "it passes for the owner's"
    # recomputed from the documents, or them
    texts = {SUMS, SIGNATURE, *WORDS, RELEASE, CERTIFICATE}
    if {name: files[name] for name in files if name not in texts} != {
        name: base.files[name] for name in base.files if name not in texts
    }:
        return "a file differs"
    for name in (RELEASE, CERTIFICATE):
        if name in files:
            for place in changed_places(
                whole(name, base.files[name]), whole(name, files[name]), name
            ):
                kept = PROMISE.fullmatch(place) and promise_holds(whole(RELEASE, files[RELEASE]))
                if not DECLARED.fullmatch(place) and not kept:
                    return f"{place} differs"
    for text in WORDS:
        if text in files and files[text] != reworded(files)[text]:
            return f"{text} says something else"
    return None


def forged(rng, all_bases):
    """A sound bundle and what became of it: (base, kind, files or None, zip or None)."""
    base = rng.choice(all_bases)
    chance = rng.random()
    if chance < 0.2:
        data = flipped_zip(rng, base.files) if rng.random() < 0.4 else zip_of(rng, base.files)
        return base, "zip", None, data
    if chance < 0.25:
        return base, "change_signature", change_signature(rng, base), None
    change = rng.choice(CHANGES)
    files = sealed(base, change(rng, base))
    return base, change.__name__, files, None


def attempt(base, files, data, place):
    """Verify a forged bundle: (outcome, what is wrong with that or None)."""
    try:
        if data is not None:
            place.write_bytes(data)
            report = verify(place)
            return "accepted", None if report.digest == verify_files(
                place, base.files
            ).digest else "another bundle's contents"
        check_sums(place, files)
        report = verify_files(place, files)
        return ("accepted" if files == base.files else "declared"), wrong_with(base, files, report)
    except GridveilError as error:
        one_line = "\n" not in str(error) and len(str(error)) < 2000
        return (
            "refused",
            None
            if error.exit_code == 1 and one_line
            else f"not one line of exit code 1: {str(error)[:300]}",
        )
    except BaseException as error:
        return "crashed", f"{type(error).__name__}: {error}"[:300]


def run(count, seed):
    """Try a number of forged bundles."""
    warnings.simplefilter("ignore")  # of zipfile, about two entries of one name
    made = bases()
    outcomes, failures, slowest, kinds = {}, [], 0.0, {}
    resource.setrlimit(resource.RLIMIT_AS, (SLACK * LIMIT_MB * 2**20,) * 2)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "forged.zip"
        for base in made:
            # so that what is refused below is refused for its change
            verify_files(place, sealed(base, base.files))
        for number in range(count):
            base, kind, files, data = forged(random.Random(f"{seed} {number}"), made)
            start = time.process_time()
            outcome, wrong = attempt(base, files, data, place)
            slowest = max(slowest, time.process_time() - start)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            kinds[kind] = kinds.get(kind, 0) + 1
            if wrong:
                failures.append(f"{number} ({base.name}, {kind}): {outcome}, {wrong}")
    peak_mb = own_peak() / 1e6
    return {
        "outcomes": outcomes,
        "kinds": kinds,
        "failures": failures,
        "slowest_s": slowest,
        "peak_mb": peak_mb,
    }


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2])), indent=1))
