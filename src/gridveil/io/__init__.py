"""Readers, one file a format; all end in a checked `SourceGrid`."""
