"""Grid files of all formats, read into one record and made into a source grid."""
