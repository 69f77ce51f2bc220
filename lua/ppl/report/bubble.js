// bubble.js - the share of a step that ranks idle: in theory over the number of microbatches, a curve for each number of
// ranks, and what was simulated with the measured costs and measured, as points.
(function(P) {
'use strict';
const MARGIN = {
    top : 14,
    right : 56,
    bottom : 38,
    left : 50
};
const WORDS = {
    theory : 'in theory, equal stages',
    simulated : 'simulated, measured costs',
    measured : 'measured'
};
const kindsOf = run => Object.keys(WORDS).filter(kind => run.summary.bubble[kind]);

// Labels at the right end of the curves, pushed apart where these meet. own(ranks): whether a run has so many.
function labels(root, curves, y, at, own) {
    let free = Infinity;
    const ends = curves.p.map(c => ({ranks : c.ranks, ratio : c.bubble_ratio[c.bubble_ratio.length - 1]}))
                     .filter(c => c.ratio !== null);
    for (const c of ends.sort((a, b) => a.ratio - b.ratio)) {
        free = Math.min(y(c.ratio), free - 13);
        root.append('text')
            .attr('x', at)
            .attr('y', free + 4)
            .attr('class', own(c.ranks) ? 'own-text' : null)
            .text('p = ' + c.ranks);
    }
}

const SHAPES = {
    theory : d3.symbolSquare,
    simulated : d3.symbolDiamond,
    measured : d3.symbolCircle
};

function points(root, list, x, y) {
    root.selectAll('path.dot')
        .data(list)
        .join('path')
        .attr('class', p => `dot run-${p.run.key}` + (p.kind === 'measured' ? '' : ' ring'))
        .attr('d', p => d3.symbol().type(SHAPES[p.kind]).size(p.kind === 'measured' ? 110 : 80)())
        .attr('transform', p => `translate(${x(p.m)},${y(p.ratio)})`)
        .on('pointerenter', p => P.tip.show(
                                [
                                    `${P.fmt.percent(p.ratio)} ${WORDS[p.kind]}`,
                                    `${p.run.summary.schedule}, ${p.run.summary.ranks} ranks, ${p.m} microbatches`
                                ],
                                d3.event.clientX, d3.event.clientY))
        .on('pointerleave', P.tip.hide);
}

function draw(root, width, runs) {
    const height = 300, {curves} = runs[0].summary, own = ranks => runs.some(run => run.summary.ranks === ranks);
    const list = runs.flatMap(
        run => kindsOf(run).map(
            kind => ({run, kind, m : run.summary.microbatches, ratio : run.summary.bubble[kind].bubble_ratio})));
    const ms = [...curves.m, ...list.map(p => p.m) ],
          x = d3.scaleLog(d3.extent(ms), [ MARGIN.left, width - MARGIN.right ]).base(2);
    const top = d3.max([...curves.p.flatMap(p => p.bubble_ratio), ...list.map(p => p.ratio) ].filter(v => v !== null));
    const y = d3.scaleLinear([ 0, Math.min(1, Math.max(0.1, top * 1.05)) ], [ height - MARGIN.bottom, MARGIN.top ]);
    root.attr('height', height);
    const axis = d3.axisBottom(x).tickValues(curves.m.filter(m => Math.log2(m) % 1 === 0)).tickFormat(String);
    P.axes(root, {x : axis, y, format : v => Math.round(v * 100) + ' %', width, height, margin : MARGIN});
    root.append('text')
        .attr('x', (MARGIN.left + width - MARGIN.right) / 2)
        .attr('y', height - 3)
        .attr('text-anchor', 'middle')
        .text('microbatches a step, m');
    const line = d3.line().defined(v => v !== null).x((v, i) => x(curves.m[i])).y(v => y(v));
    for (const c of curves.p)
        root.append('path').attr('class', 'theory' + (own(c.ranks) ? ' own' : '')).attr('d', line(c.bubble_ratio));
    labels(root, curves, y, width - MARGIN.right + 6, own);
    points(root, list, x, y);
}

// How far the measured bubble is from theory, and why it may be.
function verdict(run) {
    const {measured, simulated, theory} = run.summary.bubble,
                                of = `bubble ratio of ${P.fmt.percent(measured.bubble_ratio)}`;
    if (run.summary.ranks === 1) return `One rank: it idles for no other. Measured: a ${of}.`;
    const words = [ `Measured: a ${of}` ];
    if (theory) words.push(`in theory ${P.fmt.percent(theory.bubble_ratio)} with equal stages`);
    words.push(`simulated with the measured costs ${P.fmt.percent(simulated.bubble_ratio)}.`);
    let text = words.join(', ');
    if (theory && simulated.bubble_ratio - theory.bubble_ratio > 0.03)
        text += ' What theory and simulation differ by is due to unequal stages.';
    if (measured.bubble_ratio - simulated.bubble_ratio > 0.03) {
        const s = run.summary, want = s.ranks * s.threads;
        text +=
            ' What is measured above that goes to links, starting tasks, steps of unequal length and whatever else the machine did' +
            (want > s.cores ? `; ${want} threads share ${s.cores} cores here.` : '.');
    }
    return text;
}

P.showBubble = function() {
    const section = P.section('bubble', 'Bubble', null),
          runs = P.runs.filter(run => run.summary && run.summary.bubble.measured);
    if (!runs.length)
        return P.empty(section, 'No bubble was measured: the run has not ended, or was ended from outside.');
    const curves = runs[0].summary.curves;
    section.append(P.el(
        'p.lede',
        'The bubble ratio is the share of a step in which ranks idle, idle / iteration time; the bubble overhead is idle / ideal time. ' +
            `Curves: ${curves.of} in theory, p ranks${curves.of === '1f1b' ? ', (p - 1) / (m + p - 1)' : ''}.`));
    for (const run of runs) section.append(P.el('p.sub', P.tag(run), verdict(run)));
    P.drawing(
         section,
         'Bubble ratio over microbatches in theory for several numbers of ranks, with the measured and simulated values of the run',
         (root, width) => draw(root, width, runs))
        .attr('role', 'img')
        .attr('class', 'bubble');
    section.append(P.el('ul.legend', P.el('li', '\u25cf measured'),
                        P.el('li', '\u25c7 simulated with the measured costs'), P.el('li', '\u25a1 in theory'),
                        P.el('li', 'bold: the run\u2019s number of ranks')));
    const rows = runs.flatMap(run => kindsOf(run).map(k => {
        const b = run.summary.bubble[k];
        return [
            ...(P.compares ? [ run.key.toUpperCase() ] : []), WORDS[k], P.fmt.percent(b.bubble_ratio),
            b.bubble_overhead === undefined || b.bubble_overhead === null ? '-' : P.fmt.percent(b.bubble_overhead),
            P.fmt.ms(b.iteration_ms)
        ];
    }));
    section.append(
        P.table([...(P.compares ? [ 'run' ] : []), '', 'bubble ratio', 'bubble overhead', 'iteration' ], rows));
    const perRank = runs.flatMap(
        run => run.summary.rank.map(
            r => [...(P.compares ? [ run.key.toUpperCase() ] : []), r.rank, P.fmt.ms(r.busy_ms), P.fmt.ms(r.wait_ms),
                  r.waits_for >= 0 ? 'rank ' + r.waits_for : '-', P.fmt.ms(r.span_idle_ms), P.fmt.ms(r.iteration_ms)]));
    section.append(P.fold('By rank', P.table(
                                         [
                                             ...(P.compares ? [ 'run' ] : []), 'rank', 'busy a step', 'waits',
                                             'most for', 'idle in its span', 'iteration'
                                         ],
                                         perRank)));
};
})(window.PPL);
