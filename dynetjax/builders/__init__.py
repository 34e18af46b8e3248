"""Builders: networks over sequences, made of parameters of their own."""
