"""Detailed dynamics: machines with controls, inverters and loads on a network with voltages."""
