"""From a grid to its motion: models, reduction to the machines, events, simulation, figures of a
trajectory.
"""
