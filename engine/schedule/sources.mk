src += engine/schedule/schedule.c engine/schedule/print.c engine/schedule/parse.c engine/schedule/check.c \
       engine/schedule/csv.c engine/schedule/csv_messages.c engine/schedule/csv_write.c
