"""Values and gradients of graphs: laid out by `plan`, computed by `native` or `xla`."""
