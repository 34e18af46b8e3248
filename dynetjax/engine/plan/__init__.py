"""Which node runs when and where: from a graph's stored nodes to index buffers.

In comes a graph; out goes a `Layout`: a program (components at sizes), and the index
buffer that tells it which rows this graph has, and what they read. `flat` walks the
graph, `family` remembers what graphs of one kind have shown, `capacities` and `widths`
choose sizes, `wiring` makes the `code` that is compiled, `layout` puts these together.
"""
