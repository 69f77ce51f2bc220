src += engine/plan/build.c engine/plan/ends.c engine/plan/flow.c engine/plan/tasks.c engine/plan/slots.c engine/plan/pace.c engine/plan/buffers.c \
       engine/plan/walk.c engine/plan/prove.c engine/plan/layout.c engine/plan/work.c \
       engine/plan/print.c engine/plan/write.c
