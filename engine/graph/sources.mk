src += engine/graph/graph.c engine/graph/names.c engine/graph/layers.c engine/graph/print.c engine/graph/differentiate.c
