-- broken_test.lua - what people get wrong in schedules and CSV files, and the exact words with which each is refused: where
-- (file and line, schedule, rank, position, action), what is, what is wanted. The grid that follows them is schedule_test.lua's.
local schedules = require 'ppl.schedules'

local ALL = 'for mb = 0, s.microbatches - 1 do s.F(mb) end\nfor mb = 0, s.microbatches - 1 do s.B(mb) end'

-- { kind, what the rank function says from line 4 on, words, p (2), m (2), fields }; X.lua stands for the file.
local SCHEDULES = {
    { 'a backward missing', 'for mb = 0, 1 do s.F(mb) end\ns.B(0)',
        'X.lua:4: schedule broken: rank 0, position 1, 0F1: its backward 0B1 is missing, want it (or 0I1 and 0W1) behind' },
    { 'a forward missing', 's.F(0)\ns.B(0)\ns.B(1)',
        'X.lua:6: schedule broken: rank 0, position 2, 0B1: its forward 0F1 is missing' },
    { 'an input gradient missing', 's.F(0)\ns.F(1)\ns.I(0)\ns.W(0)\ns.W(1)',
        'X.lua:8: schedule broken: rank 0, position 4, 0W1: its input gradient 0I1 is missing' },
    { 'a weight gradient missing', 's.F(0)\ns.F(1)\ns.I(0)\ns.W(0)\ns.I(1)',
        'X.lua:8: schedule broken: rank 0, position 4, 0I1: 0W1 is missing, want it behind' },
    { 'no actions', 'if s.rank == 0 then return end\n' .. ALL,
        'X.lua:3: schedule broken: rank 0: has no actions, want those of its stages' },
    { 'a microbatch missing', 's.F(0)\ns.B(0)',
        'X.lua:3: schedule broken: rank 0: 0F1 is missing, want all of 0 to 1' },
    { 'a forward twice', 's.F(0)\ns.F(1)\ns.F(0)\ns.B(0)\ns.B(1)',
        'X.lua:6: schedule broken: rank 0, position 2, 0F0: stands twice, first at position 0, want it once' },
    { 'a backward twice', 's.F(0)\ns.F(1)\ns.B(0)\ns.B(0)\ns.B(1)',
        'X.lua:7: schedule broken: rank 0, position 3, 0B0: stands twice, first at position 2, want it once' },
    { 'a backward before its forward', 's.B(0)\ns.F(0)\ns.F(1)\ns.B(1)',
        'X.lua:4: schedule broken: rank 0, position 0, 0B0: stands before its forward 0F0 at position 1, want it behind' },
    { 'an input gradient before its forward', 's.I(0)\ns.F(0)\ns.W(0)\ns.F(1)\ns.B(1)',
        'X.lua:4: schedule broken: rank 0, position 0, 0I0: stands before its forward 0F0 at position 1, want it behind' },
    { 'a weight gradient before its input gradient', 's.F(0)\ns.F(1)\ns.W(0)\ns.I(0)\ns.B(1)',
        'X.lua:6: schedule broken: rank 0, position 2, 0W0: stands before its input gradient 0I0 at position 3, want it behind' },
    { 'weight gradients out of order', 's.F(0)\ns.F(1)\ns.I(0)\ns.I(1)\ns.W(1)\ns.W(0)',
        "X.lua:8: schedule broken: rank 0, position 4, 0W1: stands before 0W0 at position 5, want a stage's weight gradients " ..
        "in microbatch order" },
    { 'backwards out of order', 's.F(0)\ns.F(1)\ns.B(1)\ns.B(0)',
        "X.lua:6: schedule broken: rank 0, position 2, 0B1: stands before 0B0 at position 3, want a stage's weight gradients " ..
        "in microbatch order" },
    { 'a full backward and its halves', 's.F(0)\ns.F(1)\ns.I(0)\ns.B(0)\ns.W(0)\ns.B(1)',
        'X.lua:6: schedule broken: rank 0, position 2, 0I0: the full backward 0B0 stands at position 3, want either B or I and ' ..
        'W' },
    { 'ranks that wait in a circle', 'if s.rank == 0 then\ns.F(0) s.B(0)\ns.F(1) s.B(1)\nelse\ns.F(0) s.F(1)\ns.B(0) s.B(1)\nend',
        'X.lua:5: schedule broken: rank 0, position 1, 0B0: waits for 1B0 (rank 1, position 2), which stands behind 1F1 ' ..
        '(position 1), which waits for 0F1 (rank 0, position 2), which stands behind 0B0 (position 1): a circle of 2 ranks, ' ..
        'want an order in which one of them can go on' },
    { 'a stage before the one it reads on the same rank', 's.F(0, 1)\ns.F(0, 0)\ns.B(0, 1)\ns.B(0, 0)',
        'X.lua:4: schedule broken: rank 0, position 0, 1F0: stands before 0F0 at position 1, which makes what it reads, want ' ..
        'it behind', p = 1, m = 1, fields = 'chunks = 2,' },
    { 'more activations than promised', ALL,
        'X.lua:4: schedule broken: rank 0, position 1, 0F1: 2 live activations on the rank, want at most 1', fields = 'max_live = 1,' },
    { 'fewer microbatches than promised', ALL,
        'schedule broken (X.lua:3): 2 microbatches on 2 ranks, want 5 at least', fields = 'least_microbatches = 5,' },
    { 'an overlap of two forwards', 's.overlap(s.F(0), s.F(1))\ns.B(0)\ns.B(1)',
        'X.lua:4: schedule broken: rank 0, position 0, 0F0: overlaps with 0F1, want a forward and a backward side by side' },
    { 'an overlap of actions apart', 'local a = s.F(0)\ns.F(1)\ns.overlap(a, s.B(0))\ns.B(1)',
        'X.lua:6: schedule broken, rank 0, position 3: overlap joins actions 1 and 3, want the last two: s.overlap(s.F(5), ' ..
        's.B(1))' },
    { 'an overlap of one', 's.F(0)\ns.overlap(s.F(1))\ns.B(0)\ns.B(1)',
        'X.lua:5: schedule broken, rank 0, position 2: overlap joins actions 2 and nil, want the last two: s.overlap(s.F(5), ' ..
        's.B(1))' },
    { 'a microbatch that is not there', 's.F(0)\ns.F(2)',
        'X.lua:5: schedule broken, rank 0, position 1: F: the microbatch: is 2, want a whole number of 0 to 1' },
    { 'a negative microbatch', 's.F(-1)',
        'X.lua:4: schedule broken, rank 0, position 0: F: the microbatch: is -1, want a whole number of 0 to 1' },
    { 'a fraction as microbatch', 's.F(0)\ns.F(1.5)',
        'X.lua:5: schedule broken, rank 0, position 1: F: the microbatch: is 1.5, want a whole number of 0 to 1' },
    { '1e20 as microbatch', 's.F(1e20)',
        'X.lua:4: schedule broken, rank 0, position 0: F: the microbatch: is 1e+20, want a whole number of 0 to 1' },
    { 'NaN as microbatch', 's.F(0/0)',
        'X.lua:4: schedule broken, rank 0, position 0: F: the microbatch: is nan, want a whole number of 0 to 1' },
    { 'a text as microbatch', 's.F("0")',
        'X.lua:4: schedule broken, rank 0, position 0: F: the microbatch: is "0", want a whole number of 0 to 1' },
    { 'no microbatch', 's.F(0)\ns.B()',
        'X.lua:5: schedule broken, rank 0, position 1: B: the microbatch: is nil, want a whole number of 0 to 1' },
    { 'a chunk that is not there', 's.F(0)\ns.F(1, 1)',
        'X.lua:5: schedule broken, rank 0, position 1: F: the chunk: is 1, want 0' },
    { 'a fraction as chunk', 's.F(0, 0.5)',
        'X.lua:4: schedule broken, rank 0, position 0: F: the chunk: is 0.5, want 0' },
    { 'the stage of a chunk that is not there', 's.F(s.stage(3))',
        'X.lua:4: schedule broken, rank 0, position 0: s.stage: the chunk: is 3, want 0' },
    { 'a misspelt action', 's.F(0)\ns.f(0)',
        "X.lua:5: schedule broken, rank 0, position 1: there is no action 'f' (nearest: F), want F, B, I, W or overlap" },
    { 'an unknown action', 's.forward(0)',
        "X.lua:4: schedule broken, rank 0, position 0: there is no action 'forward', want F, B, I, W or overlap" },
    { 'a misspelt field of s', 'for mb = 0, s.microbatch - 1 do s.F(mb) end',
        "X.lua:4: schedule broken, rank 0, position 0: s has no 'microbatch' (nearest: microbatches), want one of ranks, rank, " ..
        "stages, chunks, microbatches, options, stage" },
    { 'an update', 's.F(0)\ns.U(0)',
        "X.lua:5: schedule broken, rank 0, position 1: there is no action 'U' (updates are the engine's), want F, B, I, W or " ..
        "overlap" },
    { 'a colon for a dot', 's:F(0)',
        'X.lua:4: schedule broken, rank 0, position 0: F: is called with a colon, want a dot: s.F(5)' },
    { 'recursion that acts', 'local function f(mb)\nreturn 1 + f(s.F(0) and 0 + mb)\nend\nf(0)',
        'X.lua:5: schedule broken, rank 0, position 80: has more than 80 actions and goes on, want the actions of 1 stage and ' ..
        '2 microbatches: does it end?' },
    { 'recursion', 'local function f(mb)\nreturn 1 + f(mb)\nend\ns.F(0)\nf(0)',
        'X.lua:5: schedule broken, rank 0, position 1: stack overflow, want functions that end' },
    { 'an error that is a table', 's.F(0)\nerror({})',
        'X.lua:5: schedule broken, rank 0, position 1: an error that is a table without words, want a text' },
    { 'an error with words', 's.F(0)\nerror("no idea")',
        'X.lua:5: schedule broken, rank 0, position 1: no idea' },
    { 'an error that is nil', 's.F(0)\nerror()',
        'X.lua:5: schedule broken, rank 0, position 1: an error that is nil, want a text' },
    { 'a fault of Lua', 's.F(0)\nlocal x = nil + 1',
        'X.lua:5: schedule broken, rank 0, position 1: attempt to perform arithmetic on a nil value' },
    { 'actions without end', 'while true do s.F(0) end',
        'X.lua:4: schedule broken, rank 0, position 80: has more than 80 actions and goes on, want the actions of 1 stage and ' ..
        '2 microbatches: does it end?' },
    { 'a loop without end', 's.F(0)\nwhile true do end',
        'X.lua:5: schedule broken, rank 0, position 1: is still running after all the instructions it may take, want a rank ' ..
        'function that ends' },
    { 'a placement that is a fraction', ALL,
        'schedule broken (X.lua:3): placement of stage 0: is 0.5, want a whole number of 0 to 1',
        fields = 'placement = function() return 0.5 end,' },
    { 'a placement on no rank', ALL,
        'schedule broken (X.lua:3): placement of stage 0: is 2, want a whole number of 0 to 1',
        fields = 'placement = function() return 2 end,' },
    { 'a rank without stages', ALL,
        'schedule broken (X.lua:3): placement gives rank 1 no stage, want one at least', fields = 'placement = function() return 0 end,' },
    { 'a placement that says nothing', ALL,
        'schedule broken (X.lua:3): placement of stage 0: is nil, want a whole number of 0 to 1',
        fields = 'placement = function() end,' },
    { 'max_live that is a fraction', ALL,
        'schedule broken (X.lua:3): max_live: is 1.5, want a whole number of 1 or more', fields = 'max_live = function() return 1.5 end,' },
    { 'max_live that is NaN', ALL,
        'schedule broken: max_live: is nan, want a whole number of 1 or more', fields = 'max_live = 0/0,' },
    { '1e20 chunks', ALL,
        'schedule broken: chunks: is 1e+20, want a whole number of 1 to 1024', fields = 'chunks = 1e20,' },
    { 'misspelt weights', ALL,
        'schedule broken: weights: is "stach" (nearest: stash), want one of 2bw, stash, sync', fields = "weights = 'stach'," },
}

-- { kind, the file, words }; X.csv stands for its path.
local FILES = {
    { 'junk behind an action', '0F0junk,0B0',
        'X.csv:1: cell 0, rank 0, "0F0junk": "junk" follows the action, want nothing behind it' },
    { 'a lower-case kind', '0f0,0B0',
        'X.csv:1: cell 0, rank 0, "0f0": unknown kind "f", want F, B, I or W' },
    { 'an unknown kind', '0F0,0X0,0B0',
        'X.csv:1: cell 1, rank 0, "0X0": unknown kind "X", want F, B, I or W' },
    { 'no stage', 'F0,0B0',
        'X.csv:1: cell 0, rank 0, "F0": no stage in front, want an action such as 2F5' },
    { 'no microbatch', '0F,0B0',
        'X.csv:1: cell 0, rank 0, "0F": F without a microbatch, want an action such as 2F5' },
    { 'a negative stage', '0F0,-1B0',
        'X.csv:1: cell 1, rank 0, "-1B0": no stage in front, want an action such as 2F5' },
    { 'a microbatch beyond 32 bits', '0F99999999999,0B0',
        'X.csv:1: cell 0, rank 0, "0F99999999999": the microbatch is too large, want at most 2147483647' },
    { 'a fraction as microbatch', '0F1.5,0B0',
        'X.csv:1: cell 0, rank 0, "0F1.5": ".5" follows the action, want nothing behind it' },
    { '1e20 as microbatch', '0F1e20,0B0',
        'X.csv:1: cell 0, rank 0, "0F1e20": "e20" follows the action, want nothing behind it' },
    { 'microbatches from 1', '0F1,0B1,0F2,0B2',
        'X.csv:1: cell 0, rank 0, 0F1: microbatches are numbered from 1 to 2, want them from 0' },
    { 'an update', '0F0,0B0,0U0',
        'X.csv:1: cell 2, rank 0, 0U0: the CSV form has no updates, want F, I, B and W' },
    { 'B and W without I', '0F0,0B0,0W0',
        'X.csv:1: cell 2, rank 0, 0W0: B and W without I is ambiguous: in old files B is the input gradient, in new ones the ' ..
        'full backward; want I and W, or B alone' },
    { 'old and new words', '0F0,0BW0,0F1,0I1,0W1',
        'X.csv:1: cell 3, rank 0, 0I1: an I in a file whose BW (line 1, cell 1) marks it as an old one, where the input ' ..
        'gradient is B, want no I' },
    { 'an empty file', '',
        'X.csv: no actions, want one row a rank' },
    { 'an empty row', '0F0,0B0\n\n',
        'X.csv:2: rank 1: owns none of 1 stages, want at least one a rank' },
    { 'a stage missing', '0F0,0B0,2F0,2B0',
        'X.csv: stage 1 stands in no row, want each of 0 to 2 in one' },
    { 'a stage in two rows', '0F0,0B0\n0F1,0B1',
        "X.csv:2: cell 0, rank 1, 0F1: stage 0 stands in row 0 already, want a stage's actions in one row" },
    { 'a forward twice', '0F0,0F0,0B0',
        'X.csv:1: cell 1, rank 0, position 1, 0F0: stands twice, first at position 0, want it once' },
    { 'a backward twice that hides a missing one', '0F0,0F1,,0B0,0B0',
        'X.csv:1: cell 4, rank 0, position 3, 0B0: stands twice, first at position 2, want it once' },
    { 'a backward missing', '0F0,0F1,0B0',
        'X.csv:1: cell 1, rank 0, position 1, 0F1: its backward 0B1 is missing, want it (or 0I1 and 0W1) behind' },
    { 'a backward before its forward', '0B0,0F0',
        'X.csv:1: cell 0, rank 0, position 0, 0B0: stands before its forward 0F0 at position 1, want it behind' },
    { 'weight gradients out of order', '0F0,0F1,0I0,0I1,0W1,0W0',
        "X.csv:1: cell 4, rank 0, position 4, 0W1: stands before 0W0 at position 5, want a stage's weight gradients in " ..
        "microbatch order" },
    { 'junk behind an overlap', '(0F0;0B0)OVERLAP',
        'X.csv:1: cell 0, rank 0, "(0F0;0B0)OVERLAP": want (2F5;3B1)OVERLAP_F_B' },
    { 'an overlap of two forwards', '(0F0;0F1)OVERLAP_F_B,0B0,0B1',
        'X.csv:1: cell 0, rank 0, position 0, 0F0: overlaps with 0F1, want a forward and a backward side by side' },
    { 'an overlap of one', '0F0,(0B0)OVERLAP_F_B',
        'X.csv:1: cell 1, rank 0, position 1, 0B0: overlaps with 0 others, want a forward and a backward side by side' },
    { 'ranks that wait in a circle', '0F0,0B0,0F1,0B1\n1F0,1F1,,1B0,1B1',
        'X.csv:1: rank 0, position 1, 0B0: waits for 1B0 (rank 1, position 2), which stands behind 1F1 (position 1), which ' ..
        'waits for 0F1 (rank 0, position 2), which stands behind 0B0 (position 1): a circle of 2 ranks, want an order in which ' ..
        'one of them can go on' },
    { 'a stage before the one it reads on the same rank', '1F0,0F0,1B0,0B0',
        'X.csv:1: rank 0, position 0, 1F0: stands before 0F0 at position 1, which makes what it reads, want it behind' },
    { 'a send to no stage', '0F0,0B0,0SEND_F0',
        'X.csv:1: cell 2, rank 0, 0SEND_F0: there is no stage 1 to send to' },
    { 'a send to the same rank', '0F0,0SEND_F0,1F0,1B0,0B0',
        'X.csv:1: cell 1, rank 0, 0SEND_F0: stages 0 and 1 are both on rank 0, want no messages between them' },
    { 'a send before its action', '0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0',
        'X.csv:1: cell 0, rank 0, 0SEND_F0: stands before the action that makes what it sends, want it behind' },
    { 'a send missing', '0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0',
        'X.csv:1: rank 0: 0SEND_F0 is missing, want what the next rank reads sent' },
    { 'a receive missing', '0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0',
        'X.csv:2: cell 0, rank 1, 1F0: 1RECV_F0 does not stand before it, want what it needs received' },
    { 'crossed messages', '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1',
        'X.csv:2: cell 0, rank 1, 1RECV_F1: rank 0 sends 0SEND_F0 in its place (cell 1 there): crossed, want one order on both ' ..
        'sides' },
    { 'a send of another rank', '0F0,1SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0',
        'X.csv:1: cell 1, rank 0, 1SEND_F0: stage 1 is not on rank 0, want messages of its own stages' },
    { 'an action while sharded', '0UNSHARD,0F0,0RESHARD,0B0',
        'X.csv:1: cell 3, rank 0, 0B0: stage 0 is sharded here, want an UNSHARD before' },
    { 'a reduction before the last gradient', '0F0,0F1,0B0,0REDUCE_GRAD,0B1',
        'X.csv:1: cell 3, rank 0, 0REDUCE_GRAD: 1 weight gradient of the stage comes behind it, want none' },
}

-- Compiles a file that must be refused; gives the first line of the words, the path as `name`.
local function refusal(T, text, extension, name, options)
    local path = T.temporary(text, extension)
    local ok, words = pcall(schedules.compile, path, options)
    if ok then error('was not refused', 0) end
    words = tostring(words):gsub(path:gsub('%p', '%%%0'), name):match('^[^\n]*')
    return (words:gsub('^[^ ]*broken_test.lua:%d+: ', '')) -- where the file was asked for
end

return function(T)
    for _, case in ipairs(SCHEDULES) do
        T.case('broken: a schedule with ' .. case[1], function()
            local text = ("local ppl = require 'ppl'\nreturn ppl.schedule { name = 'broken', %s\nrank = function(s)\n%s\nend }\n"):format(
                case.fields or '', case[2])
            T.equal(refusal(T, text, '.lua', 'X.lua', { ranks = case.p or 2, microbatches = case.m or 2 }), case[3])
        end)
    end
    for _, case in ipairs(FILES) do
        T.case('broken: a CSV file with ' .. case[1], function()
            T.equal(refusal(T, case[2] .. '\n', '.csv', 'X.csv', {}), case[3])
        end)
    end
end
