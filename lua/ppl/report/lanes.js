// lanes.js - a run's timeline as lists of tasks, a lane a rank: what each is, and what a wait waits for. Times are
// milliseconds from the first. Before: summary.json. After: timeline.js, shares.js, memory.js.
(function(P) {
'use strict';
P.KINDS = {
    F : 'forward',
    B : 'backward',
    I : 'input gradient',
    W : 'weight gradient',
    U : 'update',
    N : 'gradient norm',
    S : 'sending'
};
P.letter = kind => ({N : 'norm', S : 'send'})[kind] || kind; // on tasks and bars
const VALUE = {
    F : 'activation',
    B : 'gradient',
    U : 'tied gradient'
};
// What a wait is for, by its class; the order in which bars show them.
P.CAUSES = {
    activation : 'waits for an activation',
    gradient : 'waits for a gradient',
    buffer : 'waits for a free buffer',
    join : 'waits for the gradient norms'
};

// One task: { id, rank, step, text, kind or null, wait: class or null, stage, microbatch, begin, end, peer }.
function parse(text) {
    let m = /^(\d+)([FBIWU])(\d*)$/.exec(text);
    if (m) return {kind : m[2], stage : +m[1], microbatch : m[3] === '' ? null : +m[3], wait : null};
    m = /^(receive|credit) ((\d+)([FBU])(\d*))$/.exec(text);
    if (m)
        return {
            kind : null,
            stage : +m[3],
            microbatch : m[5] === '' ? null : +m[5],
            letter : m[4],
            value : m[2],
            wait : m[1] === 'credit' ? 'buffer'
                   : m[4] === 'F'    ? 'activation'
                                     : 'gradient'
        };
    m = /^(send|release) (\d+[FBU]\d*)$/.exec(text);
    if (m) return {kind : 'S', stage : null, microbatch : null, wait : null, value : m[2], back : m[1] === 'release'};
    if (text === 'validate') return {kind : null, wait : 'join', stage : null, microbatch : null};
    if (text === 'norm') return {kind : 'N', wait : null, stage : null, microbatch : null};
    return null;
}

// { ranks: [[task]], steps: [{ step, begin, end }], first, last, find(step, text) }, or { why } in words.
P.lanes = function(run) {
    if (run.lanes) return run.lanes;
    const timeline = run.summary && run.summary.timeline;
    if (!timeline)
        return run.lanes = {
            why : 'No timeline: the run has not ended, or was ended from outside, so its trace was not written.'
        };
    if (timeline.left_out) return run.lanes = {why : 'No timeline: ' + timeline.left_out + '.'};
    const ranks = [], steps = [], byName = new Map();
    for (const s of timeline.steps) {
        let begin = Infinity, end = -Infinity;
        s.rank.forEach((row, rank) => {
            const lane = ranks[rank] = ranks[rank] || [];
            (row ? row.split(';') : []).forEach(item => {
                const words = item.split(' '), [ begin_us, duration_us, peer ] = words.splice(-3).map(Number),
                      text = words.join(' ');
                const task = parse(text);
                if (!task) return;
                Object.assign(
                    task,
                    {text, rank, step : s.step, begin : begin_us / 1000, end : (begin_us + duration_us) / 1000, peer});
                lane.push(task);
                if (task.stage !== null && task.kind) byName.set(s.step + ' ' + text, task);
                if (task.kind && task.kind !== 'S') {
                    begin = Math.min(begin, task.begin);
                    end = Math.max(end, task.end);
                }
            });
        });
        if (end > begin) steps.push({step : s.step, begin, end});
    }
    // Steps may flow into each other: a rank's tasks of two steps alternate.
    ranks.forEach((lane, rank) => {
        lane.sort((a, b) => a.begin - b.begin);
        lane.forEach((task, at) => Object.assign(task, {at, id : rank + ':' + at}));
    });
    if (!steps.length) return run.lanes = {why : 'No timeline: no step was traced.'};
    // A rank may wait for its first task long before a step begins: the picture begins with the first work.
    const first = d3.min(steps, s => s.begin), last = d3.max(steps, s => s.end);
    return run.lanes = {ranks, steps, first, last, find : (step, text) => byName.get(step + ' ' + text)};
};

// The task whose end a wait waited for, or undefined.
P.causeOf = function(lanes, task) {
    if (task.wait !== 'activation' && task.wait !== 'gradient') return undefined;
    return lanes.find(task.step, task.value) || lanes.find(task.step, task.value.replace('B', 'I')) ||
           (task.letter === 'U' ? undefined : lanes.find(task.step, task.value.replace(/[BI]/, 'W')));
};

// What a task is, in lines of text, the first its name.
P.describe = function(lanes, task) {
    const time = P.fmt.ms(task.end - task.begin), where = `rank ${task.rank}, step ${task.step}`;
    if (task.kind === 'N')
        return [ `gradient norm: ${time}`, 'own square sums, then waiting for those of the other ranks', where ];
    if (task.kind === 'S')
        return [
            `sending: ${time}`,
            task.back ? `tells rank ${task.peer} that the buffer of ${task.value} is free`
                      : `hands ${task.value} to rank ${task.peer}, which may have to be woken`,
            where
        ];
    if (task.kind) {
        const what = `${P.KINDS[task.kind]} of stage ${task.stage}` +
                     (task.microbatch === null ? '' : `, microbatch ${task.microbatch}`);
        return [
            `${task.text}: ${time}`, what, where,
            `from ${P.fmt.ms(task.begin - stepBegin(lanes, task.step))} to ${
                P.fmt.ms(task.end - stepBegin(lanes, task.step))} of the step`
        ];
    }
    if (task.wait === 'join') return [ `idle ${time}`, 'waits for the gradient norm of the step before', where ];
    if (task.wait === 'buffer')
        return [
            `idle ${time}`, `waits for rank ${task.peer} to have read the buffer that ${task.value} will fill`, where
        ];
    const source = P.causeOf(lanes, task);
    return [
        `idle ${time}`,
        `waits for the ${VALUE[task.letter]} of ${source ? source.text : task.value} from rank ${task.peer}`, where
    ];
};
function stepBegin(lanes, step) { return lanes.steps.find(s => s.step === step).begin; }
})(window.PPL);
