"""Trainers: rules that change parameters by their gradients."""
