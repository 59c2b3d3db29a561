"""The guarantee: epsilon, adjacency, what is drawn and with how much noise, and the ledger that
counts it.
"""
