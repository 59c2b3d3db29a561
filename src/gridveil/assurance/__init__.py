"""Whether it holds: the audit of the mechanism, and the report to the owner of what attacks
find.
"""
