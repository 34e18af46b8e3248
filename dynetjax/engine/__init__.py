"""From a graph to XLA: tiling, components, schedule, tape, programs."""
