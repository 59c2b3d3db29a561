"""Attacks on a release, with what an adversary is said to know. Never imports the vault.

network.py wins line weights back, topology.py the edge set; guess.py has the best guess of single
values; trajectory.py uses public records alone (from regression.py on), or beside a release. None
of them sees the truth: how near they come is for `gridveil.assurance.owner_report.assess` to say.
"""
