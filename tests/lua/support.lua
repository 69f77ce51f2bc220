-- support.lua - the harness of the Lua tests: cases, checks and golden files. Before: run.lua. After: each *_test.lua.
local support = { passed = 0, failed = 0, skipped = 0 }

local folder = debug.getinfo(1, 'S').source:match('^@(.*)/[^/]*$') or '.'

-- Runs one case and prints its line.
function support.case(name, body)
    local skip
    local ok, words = xpcall(body, function(err)
        if type(err) == 'table' and err.skip then
            skip = err.skip
            return err
        end
        return debug.traceback(tostring(err), 2)
    end)
    if ok then
        support.passed = support.passed + 1
        print('ok      ' .. name)
    elseif skip then
        support.skipped = support.skipped + 1
        print(('skipped: %s: %s'):format(name, skip))
    else
        support.failed = support.failed + 1
        print(('FAILED  %s: %s'):format(name, words))
    end
end

-- Ends the case as skipped.
function support.skip(why) error({ skip = why }, 0) end

local function show(value)
    if type(value) == 'string' then return ('%q'):format(value) end
    if type(value) ~= 'table' or getmetatable(value) and getmetatable(value).__tostring then return tostring(value) end
    local parts = {}
    for key, item in pairs(value) do parts[#parts + 1] = ('%s = %s'):format(tostring(key), show(item)) end
    table.sort(parts)
    return '{' .. table.concat(parts, ', ') .. '}'
end

local function same(a, b)
    if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
    for key, value in pairs(a) do
        if not same(value, b[key]) then return false end
    end
    for key in pairs(b) do
        if a[key] == nil then return false end
    end
    return true
end

-- Deep equality of plain values.
function support.equal(got, want, what)
    if not same(got, want) then error(('%sgot %s, want %s'):format(what and what .. ': ' or '', show(got), show(want)), 2) end
end

function support.truthy(value, what) if not value then error((what or 'value') .. ' is false', 2) end end

-- A whole file, as bytes.
function support.write(path, text)
    local file = assert(io.open(path, 'wb'))
    file:write(text)
    file:close()
end

function support.read(path)
    local file = assert(io.open(path, 'rb'))
    local text = file:read '*a'
    file:close()
    return text
end

-- Lists of numbers within a tolerance.
function support.near(got, want, tolerance)
    if type(got) == 'number' then got, want = { got }, { want } end
    if #got ~= #want then error(('got %d numbers, want %d'):format(#got, #want), 2) end
    for i = 1, #got do
        local apart = math.abs(got[i] - want[i])
        if apart ~= apart or apart > (tolerance or 1e-6) then
            error(('number %d: got %.9g, want %.9g'):format(i, got[i], want[i]), 2)
        end
    end
end

-- f fails with words that hold every text given; gives them.
function support.fails(f, ...)
    local ok, words = pcall(f)
    if ok then error('did not fail, want: ' .. table.concat({ ... }, ' | '), 2) end
    words = tostring(words)
    for _, text in ipairs { ... } do
        if not words:find(text, 1, true) then error(('failed with %q, want it to hold %q'):format(words, text), 2) end
    end
    return words
end

-- Compares a text with golden/NAME.txt; PPL_BLESS=1 writes it anew.
function support.golden(name, text)
    local path = ('%s/golden/%s.txt'):format(folder, name)
    if os.getenv 'PPL_BLESS' then
        local file = assert(io.open(path, 'wb'))
        file:write(text, '\n')
        file:close()
        return
    end
    local file = io.open(path, 'rb')
    if not file then error(path .. ': is missing, want `make bless` and a look at it', 2) end
    local want = file:read('*a')
    file:close()
    if want ~= text .. '\n' then error(('%s differs:\n%s\nwant\n%s'):format(path, text, want), 2) end
end

-- The program that runs these tests.
local function program()
    local pipe = io.popen 'readlink -f /proc/$PPID/exe'
    local path = pipe:read '*l'
    pipe:close()
    return path
end

-- Runs the program with such a command line: its stdout, its exit status and its stderr.
function support.run(arguments)
    support.path = support.path or program()
    local said = support.temporary ''
    local pipe = io.popen(('%s %s 2>%s; echo "status $?"'):format(support.path, arguments, said))
    local text = pipe:read '*a'
    pipe:close()
    local out, status = text:match('^(.*)status (%d+)\n$')
    local file = assert(io.open(said, 'rb'))
    local words = file:read '*a'
    file:close()
    return out, tonumber(status), words
end

-- A path for a file of this test run; removed by support.clean.
local made = {}
function support.temporary(text, extension)
    local path = os.tmpname()
    made[#made + 1] = path
    if extension then
        path = path .. extension
        made[#made + 1] = path
    end
    local file = assert(io.open(path, 'wb'))
    file:write(text)
    file:close()
    return path
end

function support.clean()
    for _, path in ipairs(made) do os.remove(path) end
    made = {}
end

return support
