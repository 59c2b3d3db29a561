"""Attacks on a release, with what an adversary is said to know. Never imports the vault.

star.py and network.py win line weights back, topology.py the edge set; averaging.py uses several
releases, all_but_one.py all parameters but one asset's, trajectory.py public records alone (from
regression.py on), likely_network.py records, a release or both. None of them sees the truth: how
near they come is for `gridveil.assurance.owner_report.assess` to say.
"""
