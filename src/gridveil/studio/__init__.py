"""The studio: `gridveil studio`, a page on this machine that leads an owner to a release, and a
recipient through a bundle. Everything it does is a call of `workflow` or `publication`.
"""
