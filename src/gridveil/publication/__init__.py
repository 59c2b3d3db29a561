"""A release, and the bundle that carries it: documents, certificate, checks, signatures,
exports.
"""
