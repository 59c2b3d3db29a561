"""What a device does, told by its model's name: PSS/E's, which ANDES uses too."""

from __future__ import annotations

import re

LIMITER, CONVERTER_CONTROL = "limiter", "control of a converter"
# The first that matches counts: ST2CUT is a stabiliser, ST1A an exciter.
ROLES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern))
    for role, pattern in (
        ("machine", r"GEN(CLS|RO|SA|TP|TR|DC|QEC)|PLBVF"),
        ("inverter", r"REG(C|F)|PVD1|ESD1|EV[12]$|DERA|PVGU|WT[1-4]G|GEWTG"),
        (
            CONVERTER_CONTROL,
            r"REEC|REPC|PLL|WT(D|AR|PT|TQ)|WT[1-4][EPTA]|PVEU|PANEL|IRRAD|DGPRCT|PLNTB",
        ),
        (
            "governor",
            r"HYGOV|TGOV|TG2$|PIDGOV|GAST|GGOV|WSHY|WPIDHY|WEHGOV|WESGOV|IEEEG|IEESGO|WSIEG|TURCZT"
            r"|DEGOV|BBGOV|IVOGO|H6E|HYG3|CRCMGV|UR[GC]S",
        ),
        ("stabiliser", r"IEEEST|IEE2ST|ST2CUT|STAB|PSS|PTIST|IVOST|OSTB|STBSVC"),
        # They act where a voltage or a current leaves its band, or move where it is measured.
        (LIMITER, r"COMP|CCOMP|REMCMP|IEEEVC|UEL|OEL|MAXEX|MNLEX"),
        (
            "exciter",
            r"ES[ACDSU]|EX|IEEE[TX]|IEET|SEXS|SCRX|REXS|BBSEX|CELIN|EMAC|IVOEX|OEX|UR[SH][TI]"
            r"|[AD]C\d|ST\d",
        ),
    )
)


def role_of(model: str) -> str | None:
    """What a model does: machine, inverter, exciter, governor, stabiliser, LIMITER or
    CONVERTER_CONTROL; None if its name does not tell.

    >>> role_of("ESST3A"), role_of("ST2CUT"), role_of("GGOV1"), role_of("VTGTPAT")
    ('exciter', 'stabiliser', 'governor', None)
    """
    return next((role for role, pattern in ROLES if pattern.match(model)), None)
