std = 'luajit'
max_line_length = 140
