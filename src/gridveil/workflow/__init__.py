"""What the command line and Python both call: from settings to a result that is recorded and
written.
"""
