src += engine/exec/exec.c engine/exec/rank.c engine/exec/bind.c engine/exec/loop.c engine/exec/wait.c \
       engine/exec/version.c engine/exec/norm.c engine/exec/watchdog.c engine/exec/peers.c engine/exec/room.c \
       engine/exec/mirror.c engine/exec/ahead.c engine/exec/label.c engine/exec/warm.c engine/exec/joint.c engine/exec/streams.c \
       engine/exec/activity.c
