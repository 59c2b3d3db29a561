"""What every room stands on: errors, files, limits, progress, drawing.

It knows nothing of grids.
"""
