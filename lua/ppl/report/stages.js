// stages.js - the stages side by side: what a microbatch costs on each, the slowest named, since it bounds the step.
(function(P) {
'use strict';
const PHASES = [ [ 'f_ms', 'F' ], [ 'i_ms', 'I' ], [ 'w_ms', 'W' ] ];
const cost = s => s.f_ms + s.i_ms + s.w_ms;
const layersOf = s =>
    s.layers.length > 2 ? `${s.layers[0]} \u2026 ${s.layers[s.layers.length - 1]}` : s.layers.join(', ');

P.slowest = run => run.summary.stage.reduce((a, b) => cost(b) > cost(a) ? b : a);

// The rank whose stages take longest together: what bounds a step where ranks have several stages.
function verdict(run) {
    const {summary} = run, stages = summary.stage, slowest = P.slowest(run), mean = d3.mean(stages, cost);
    if (stages.length === 1) return `One stage: ${P.fmt.ms(cost(slowest))} a microbatch.`;
    if (!mean) return 'No stage took any time.';
    const ranks = d3.range(summary.ranks).map(r => d3.sum(stages.filter(s => s.rank === r), cost));
    const busiest = d3.scan(ranks, (a, b) => b - a), least = ranks[busiest] * summary.microbatches;
    const ratio = cost(slowest) / mean;
    return `Stage ${slowest.stage} (${layersOf(slowest)}) is the slowest: ${P.fmt.ms(cost(slowest))} a microbatch, ` +
           (ratio < 1.05 ? 'though all are within 5 % of the mean.' : `${ratio.toFixed(2)} times the mean.`) +
           ` Rank ${busiest} alone needs ${P.fmt.ms(least)} for ${
               summary.microbatches} microbatches: no schedule makes a step shorter with this cut.`;
}

P.showStages = function() {
    const section = P.section(
        'stages', 'Stages',
        'What a microbatch costs on each stage, medians over the traced steps; a backward counts as its two parts, I and W.');
    const runs = P.runs.filter(run => run.summary && run.summary.stage.length);
    if (!runs.length)
        return P.empty(section, 'No stage was measured: the run has not ended, or was ended from outside.');
    const longest = d3.max(runs, run => d3.max(run.summary.stage, cost)) || 1;
    for (const run of runs) section.append(P.el('p.sub', P.tag(run), verdict(run)));
    const bars = P.el('div.bars.stages'), most = d3.max(runs, run => run.summary.stage.length);
    section.append(bars);
    P.fitWords(bars);
    for (let i = 0; i < most; i++) {
        for (const run of runs) {
            const s = run.summary.stage[i];
            if (!s) continue;
            const slow = s === P.slowest(run) && run.summary.stage.length > 1;
            bars.append(
                P.el('span.who', P.tag(run), `stage ${s.stage}`, P.el('small', `rank ${s.rank} \u00b7 ${layersOf(s)}`)),
                P.el('div.bar', '@role=img',
                     '@aria-label=' + PHASES.map(([ k, letter ]) => `${P.KINDS[letter]} ${P.fmt.ms(s[k])}`).join(', '),
                     ...PHASES.filter(([ k ]) => s[k] > 0).map(([ k, letter ]) => {
                         const share = s[k] / longest;
                         return P.el('span.seg.' + letter, `@style=flex:0 0 ${share * 100}%`,
                                     `@title=${P.KINDS[letter]}: ${P.fmt.ms(s[k])}, 95th percentile ${
                                         P.fmt.ms(s[k.replace('_ms', '_p95_ms')])}`,
                                     P.el('span', share > 0.12 ? `${letter} ${P.fmt.ms(s[k])}` : letter));
                     })),
                P.el('span.much', P.fmt.ms(cost(s)), slow ? P.el('span.badge', 'slowest') : ''));
        }
    }
    section.append(P.el('ul.legend', ...['F', 'I', 'W'].map(k => P.el('li', P.el('span.key.' + k, k), P.KINDS[k]))));
    const head = [
        ...(P.compares ? [ 'run' ] : []), 'stage', 'rank', 'layers', 'parameters', 'F', 'F p95', 'I', 'I p95', 'W',
        'W p95', 'update', 'activation'
    ];
    section.append(P.fold(
        'As a table',
        P.table(head,
                runs.flatMap(
                    run => run.summary.stage.map(
                        s => [...(P.compares ? [ run.key.toUpperCase() ] : []), s.stage, s.rank, layersOf(s),
                              P.fmt.count(s.parameters),
                              ...PHASES.flatMap(([ k ]) => [P.fmt.ms(s[k]), P.fmt.ms(s[k.replace('_ms', '_p95_ms')])]),
                              P.fmt.ms(s.u_ms), P.fmt.bytes(s.activation_bytes)])))));
    const links = runs.flatMap(
        run => run.summary.link.map(l => [...(P.compares ? [ run.key.toUpperCase() ] : []), l.kind,
                                          `stage ${l.from}, rank ${l.from_rank}`, `stage ${l.to}, rank ${l.to_rank}`,
                                          P.fmt.bytes(l.bytes), l.median_us ? P.fmt.ms(l.median_us / 1000) : '-']));
    if (links.length)
        section.append(P.fold(
            'What crosses from rank to rank',
            P.table([...(P.compares ? [ 'run' ] : []), 'what', 'from', 'to', 'bytes a microbatch', 'sent to seen' ],
                    links)));
};
})(window.PPL);
