"""The only room that sees private values.

Exits: `perturb` for the public; `truth` for demos on public cases.
"""
