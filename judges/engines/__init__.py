"""Engines that compute judges' scores, with one module for each kind of engine."""
