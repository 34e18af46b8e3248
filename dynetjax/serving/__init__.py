"""Trained programs as files that are served by JAX alone.

In comes a function that builds expressions from ids and numbers (`export`). It is built
for examples of each length (`probes`), and what the examples decide becomes arguments
of a JAX function (`programs`). Out goes a file of programs and parameters, with the one
module that is needed to serve it (`served`).
"""
