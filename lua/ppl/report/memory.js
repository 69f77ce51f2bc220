// memory.js - what each rank holds: activations over the step as they come and go, and all memory by what it is for.
(function(P) {
'use strict';
const GROUPS = [
    [ 'm1', 'weights', [ 'parameters', 'packed' ] ], [ 'm2', 'optimizer', [ 'optimizer' ] ],
    [ 'm3', 'activations', [ 'activations', 'pending' ] ], [ 'm4', 'gradients', [ 'gradients' ] ],
    [ 'm5', 'edges, workspace, other', [ 'edges', 'links', 'workspace', 'other' ] ]
];
const MOST = 16; // ranks with a picture of their own
const total = r => d3.sum(Object.values(r.memory));

// Bytes of live activations of a lane while a step runs: [time from the step's begin, bytes], a step function. An activation
// lives from the begin of F to the end of W or B.
P.activationsOf = function(run, lanes, rank, step) {
    const bytes = new Map(run.summary.stage.map(s => [s.stage, s.activation_bytes])), changes = [],
          length = step.end - step.begin;
    for (const t of lanes.ranks[rank]) {
        if (t.kind === 'F') changes.push([ t.begin - step.begin, bytes.get(t.stage) ]);
        if (t.kind === 'B' || t.kind === 'W') changes.push([ t.end - step.begin, -bytes.get(t.stage) ]);
    }
    changes.sort((a, b) => a[0] - b[0]);
    let now = 0, before = 0;
    const points = [];
    for (const [at, by] of changes) {
        now += by;
        if (at < 0) before = now; // steps may flow into each other: the step before is still there
        else if (at <= length) points.push([ at, now ]);
    }
    const last = points.length ? points[points.length - 1][1] : before;
    return [ [ 0, before ], ...points, [ length, last ] ];
};

function picture(host, run, lanes, rank, step, most) {
    const points = P.activationsOf(run, lanes, rank, step), peak = d3.max(points, p => p[1]),
          stats = run.summary.rank[rank];
    const figure = P.el('div', P.el('h3', P.tag(run), `rank ${rank}: ${P.fmt.bytes(peak)} at most`));
    host.append(figure);
    P.drawing(
         figure,
         `Activations of rank ${rank} over step ${step.step}: ${P.fmt.bytes(peak)} at most, ${
             stats.peak_activations} at once, ${P.fmt.bytes(stats.memory.activations)} reserved`,
         (root, width) => {
             const height = 104, left = 64, bottom = 22;
             root.attr('height', height);
             const x = d3.scaleLinear([ 0, step.end - step.begin ], [ left, width - 8 ]),
                   y = d3.scaleLinear([ 0, most ], [ height - bottom, 8 ]);
             root.append('g')
                 .attr('class', 'axis')
                 .attr('transform', `translate(${left},0)`)
                 .call(d3.axisLeft(y)
                           .tickValues([ 0, most ])
                           .tickSize(0)
                           .tickPadding(6)
                           .tickFormat(v => v ? P.fmt.bytes(v) : '0'));
             root.append('g')
                 .attr('class', 'axis')
                 .attr('transform', `translate(0,${height - bottom})`)
                 .call(d3.axisBottom(x).ticks(4).tickSize(3).tickFormat((v, i) => P.fmt.figures(v) + (i ? '' : ' ms')));
             root.append('path')
                 .attr('class', 'area')
                 .attr('d', d3.area().curve(d3.curveStepAfter).x(p => x(p[0])).y0(y(0)).y1(p => y(p[1]))(points));
             root.append('line')
                 .attr('class', 'reserved')
                 .attr('x1', left)
                 .attr('x2', width - 8)
                 .attr('y1', y(stats.memory.activations))
                 .attr('y2', y(stats.memory.activations));
         })
        .attr('role', 'img')
        .attr('class', 'memory');
}

function pictures(section, runs) {
    const shown = runs.flatMap(run => {
        const lanes = P.lanes(run);
        if (lanes.why) return [];
        const order = d3.range(lanes.ranks.length)
                          .sort((a, b) => run.summary.rank[b].peak_activations - run.summary.rank[a].peak_activations);
        return order.slice(0, P.compares ? MOST / 2 : MOST)
            .sort((a, b) => a - b)
            .map(rank => ({run, lanes, rank, step : lanes.steps[lanes.steps.length - 1]}));
    });
    if (!shown.length) return P.empty(section, 'No step was traced: activations over a step are not known.');
    const all = d3.sum(runs, run => run.summary.ranks),
          most = d3.max(shown, s => s.run.summary.rank[s.rank].memory.activations) || 1;
    section.append(
        P.el('p.sub', `Activations in use over the last step. Dashed: what is reserved for them.` +
                          (shown.length < all ? ` The ${shown.length} ranks with the most of ${all}.` : '')));
    const grid = P.el('div.small');
    section.append(grid);
    for (const s of shown) picture(grid, s.run, s.lanes, s.rank, s.step, most);
}

P.showMemory = function() {
    const section = P.section('memory', 'Memory', null),
          runs = P.runs.filter(run => run.summary && run.summary.rank.length);
    if (!runs.length)
        return P.empty(section, 'No memory was recorded: the run has not ended, or was ended from outside.');
    for (const run of runs) {
        const largest = run.summary.rank.reduce((a, b) => total(b) > total(a) ? b : a);
        section.append(P.el('p.sub', P.tag(run),
                            `${P.fmt.bytes(d3.sum(run.summary.rank, total))} in all; rank ${
                                largest.rank} holds the most, ${P.fmt.bytes(total(largest))}.`));
    }
    pictures(section, runs);
    const most = d3.max(runs, run => d3.max(run.summary.rank, total)), bars = P.el('div.bars.totals');
    section.append(P.el('h3', 'All memory of a rank'), bars);
    P.fitWords(bars);
    for (let i = 0; i < d3.max(runs, run => run.summary.rank.length); i++) {
        for (const run of runs) {
            const r = run.summary.rank[i];
            if (!r) continue;
            const parts = GROUPS.map(([ key, name, kinds ]) => [key, name, d3.sum(kinds, k => r.memory[k] || 0)]);
            bars.append(P.el('span.who', P.tag(run), `rank ${r.rank}`),
                        P.el('div.bar', '@role=img',
                             '@aria-label=' + parts.map(([, name, n ]) => `${name} ${P.fmt.bytes(n)}`).join(', '),
                             ...parts.filter(p => p[2] > 0)
                                 .map(([ key, name, n ]) =>
                                          P.el('span.seg.' + key, `@style=flex:0 0 ${n / most * 100}%`,
                                               `@title=${name}: ${P.fmt.bytes(n)}`, P.el('span', name.split(',')[0])))),
                        P.el('span.much', P.fmt.bytes(total(r))));
        }
    }
    section.append(
        P.el('ul.legend', ...GROUPS.map(([ key, name ]) => P.el('li', P.el('span.key.' + key, '\u00a0'), name))));
    const kinds = Object.keys(runs[0].summary.rank[0].memory);
    const order = GROUPS.flatMap(g => g[2]).filter(k => kinds.includes(k));
    section.append(
        P.fold('As a table',
               P.table([...(P.compares ? [ 'run' ] : []), 'rank', ...order, 'total', 'activations at once', 'planned' ],
                       runs.flatMap(run => run.summary.rank.map(
                                        r => [...(P.compares ? [ run.key.toUpperCase() ] : []), r.rank,
                                              ...order.map(k => P.fmt.bytes(r.memory[k])), P.fmt.bytes(total(r)),
                                              r.peak_activations, r.planned_activations])))));
};
})(window.PPL);
