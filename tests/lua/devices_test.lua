-- devices_test.lua - `ppl devices --links`: which edges are measured, what is warned of, wrong usage, and the command on the CPU.
local links = require 'ppl.cli.links'
local yaml = require 'ppl.yaml'

-- Rows of one pair: what the path is, and the bandwidth of each way in GB/s.
local function pair(path, ways)
    local rows = {}
    for way, bandwidth in pairs(ways) do
        rows[#rows + 1] = { gpu_from = 0, gpu_to = 1, path = path.path, nvlink = path.nvlink, peer = path.peer ~= false,
            same = path.same, promised = path.promised and path.promised * 1e9, way = way, bandwidth = bandwidth * 1e9 }
    end
    return rows
end

return function(T)
    T.case('links: a chain has an edge each way between neighbours', function()
        local list = links.chain(3, 7)
        local seen = {}
        for i, edge in ipairs(list) do seen[i] = ('%d>%d %d'):format(edge.from, edge.to, edge.bytes) end
        T.equal(seen, { '0>1 7', '1>0 7', '1>2 7', '2>1 7' })
    end)
    T.case('links: slow paths are warned of, sound ones are not', function()
        local nvlink = { path = 'NVLink x 18', nvlink = true, promised = 360 }
        local pcie = { path = 'PCIe switch', promised = 32 }
        for i, sound in ipairs { pair(nvlink, { NCCL = 300, ['a copy'] = 380 }), pair(pcie, { NCCL = 20, ['a copy'] = 25 }),
            pair({ path = 'not known' }, { NCCL = 9, ['a copy'] = 10 }), {},
            pair({ same = true, path = 'the same GPU' }, { ['an event'] = 0 }),
            pair(nvlink, { NCCL = 181 }) } do
            T.equal(links.warnings(sound), {}, 'sound ' .. i)
        end
        for words, rows in pairs {
            ['NVLink x 18 is made for 360.0 GB/s and gives 22.0 GB/s'] = pair(nvlink, { NCCL = 20, ['a copy'] = 22 }),
            ['PCIe switch is made for 32.0 GB/s and gives 6.0 GB/s'] = pair(pcie, { NCCL = 5, ['a copy'] = 6 }),
            ['each value goes through the host'] = pair({ path = 'PCIe, two CPUs', peer = false, promised = 32 }, { NCCL = 5 }),
            ['NCCL gives 20.0 GB/s where a copy gives 350.0 GB/s'] = pair(nvlink, { NCCL = 20, ['a copy'] = 350 }),
        } do
            local list = links.warnings(rows)
            T.equal(#list, 1, words)
            T.truthy(list[1]:find(words, 1, true) and list[1]:find('GPU 0 to GPU 1: ', 1, true) and list[1]:find('want ', 1, true), list[1])
        end
    end)
    T.case('links: the command on the CPU', function()
        local out, status = T.run 'devices --links --device cpu --ranks 3'
        T.equal(status, 0)
        T.truthy(out:find('3 ranks in a chain, device cpu', 1, true) and out:find('for ppl plan: --link latency=', 1, true), out)
        local script = T.temporary([[
            local ppl = require 'ppl'
            local cfg = ppl.config { stages = 3 }
            return ppl.trainer { model = ppl.nn.gpt { layers = 2, dim = 8, heads = 1, context = 4, tied = true },
                loss = ppl.nn.cross_entropy(), data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = 4 },
                pipeline = { stages = cfg.stages, microbatches = 2 }, batch = 4, dtype = 'f32' }]], '.lua')
        out, status = T.run('devices --links ' .. script .. ' --json')
        T.equal(status, 0)
        local told = yaml.value(yaml.parse('links', out))
        T.equal({ told.device, #told.links, #told.warnings, #told.errors }, { 'cpu', 6, 0, 0 }) -- the tied weights' edges too
        T.equal({ told.links[1].from, told.links[1].to, told.links[1].bytes }, { 0, 1, 2 * 4 * 8 * 4 })
        T.truthy(told.links[1].latency > 0 and told.links[1].bandwidth == nil)
        out, status = T.run('devices --links ' .. script .. ' --set stages=1')
        T.equal({ out, status }, { '', 1 })
    end)
    T.case('links: wrong usage', function()
        for command, words in pairs {
            ['--ranks 3'] = '--ranks: is for --links', ['--links --ranks 1'] = '--ranks: is 1, want a whole number of 2',
            ['--links --device tpu'] = '--device: is tpu, want cpu or cuda', ['--links --bytes x'] = '--bytes: is x, want a size',
            ['--links --bytes 0B'] = 'want a size', ['--links --seconds 0'] = '--seconds: is 0', ['--links x y'] = 'one argument too many',
            ['--links train.txt'] = 'is no script', ['--links train.lua --ranks 3'] = '--ranks: train.lua says it',
        } do
            local _, status, said = T.run('devices ' .. command)
            T.equal(status, 2, command)
            T.truthy(said:find(words, 1, true), command .. ': ' .. said)
        end
    end)
end
