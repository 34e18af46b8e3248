"""From a JAX function to byte code: jaxprs, primitive by primitive.

In come the jaxprs of a fused op and of its pull-back; out go instructions, constants
and sizes. Values are views of buffers (`views`), so that slices and transposes cost
nothing; `lower` goes through a jaxpr, and the other files have families of primitives.
"""
