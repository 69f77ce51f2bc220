src += engine/graph/recompute.c engine/graph/graph.c engine/graph/names.c engine/graph/layers.c engine/graph/print.c engine/graph/differentiate.c
src += engine/graph/stages.c engine/graph/edges.c
