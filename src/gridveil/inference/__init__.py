"""What can be learnt from public data: posterior of a draw, fit to records, the records
themselves.
"""
