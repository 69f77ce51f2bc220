// overview.js - the head of the report: what was run and its main figures, or two runs' side by side; at its foot the
// settings.
(function(P) {
'use strict';
const last = list => {
    for (let i = list.length - 1; i >= 0; i--)
        if (list[i] !== null) return list[i];
    return null;
};
const mean = list => d3.mean(list.filter(v => v !== null));
const memory = run =>
    run.summary ? d3.sum(run.summary.rank, r => d3.sum(Object.values(r.memory))) : last(run.metrics.peak_bytes);

// Figures that both kinds of head show: { name, value(run) -> number or null, format, note(run) }; better: 1 more, -1 less.
const FIGURES = [
    {
        name : 'Loss',
        better : -1,
        value : run => last(run.metrics.loss),
        format : P.fmt.loss,
        note : run => {
            const held = last(run.metrics.eval_loss), first = run.metrics.loss[0];
            return [ first !== null && `from ${P.fmt.loss(first)}`, held !== null && `held out ${P.fmt.loss(held)}` ]
                .filter(x => x)
                .join(', ');
        }
    },
    {
        name : 'Throughput',
        better : 1,
        value : run => run.summary ? run.summary.tokens_per_s : mean(run.metrics.tokens_per_s),
        format : v => P.fmt.count(v) + ' tokens/s',
        note : run => run.summary ? `over ${P.fmt.seconds(run.summary.seconds)}` : 'mean of the steps'
    },
    {
        name : 'Step',
        better : -1,
        value : run => run.summary ? run.summary.bubble.measured.iteration_ms : mean(run.metrics.step_ms),
        format : P.fmt.ms,
        note : run => run.summary ? 'mean of the newest' : 'mean of the steps'
    },
    {
        name : 'Bubble ratio',
        better : -1,
        value : run => run.summary ? run.summary.bubble.measured.bubble_ratio : mean(run.metrics.bubble),
        format : P.fmt.percent,
        note : run => run.summary && run.summary.bubble.theory
                          ? `in theory ${P.fmt.percent(run.summary.bubble.theory.bubble_ratio)}`
                          : 'measured'
    },
    {
        name : 'Slowest stage',
        better : -1,
        value : run => {
            const s = run.summary && P.slowest(run);
            return s ? s.f_ms + s.i_ms + s.w_ms : null;
        },
        format : P.fmt.ms,
        note : run => run.summary ? `stage ${P.slowest(run).stage}, a microbatch` : ''
    },
    {
        name : 'Memory',
        better : -1,
        value : memory,
        format : P.fmt.bytes,
        note : run => run.summary ? `of ${run.summary.ranks} rank${run.summary.ranks > 1 ? 's' : ''}` : ''
    },
];

// "3,601 tokens/s" as a number and a smaller unit.
function withUnit(text) {
    const [number, ...unit] = text.split(' ');
    return [ number, unit.length ? P.el('i', unit.join(' ')) : null ];
}

function words(run) {
    const s = run.summary, parts = [];
    if (s) {
        parts.push(`schedule ${s.schedule}`,
                   `${s.stages} stage${s.stages > 1 ? 's' : ''} on ${s.ranks} rank${s.ranks > 1 ? 's' : ''}`,
                   `${s.microbatches} microbatches of ${s.batch / s.microbatches} samples`, s.dtype,
                   `device ${s.device}, ${s.cores} core${s.cores > 1 ? 's' : ''}`);
    }
    parts.push(`${P.fmt.count(run.steps)} step${run.steps > 1 ? 's' : ''}` +
               (s && s.interrupted ? ' (interrupted)' : ''));
    return parts.join(' \u00b7 ');
}

function notices(run) {
    const list = [], say = text => P.compares ? `${run.label}: ${text}` : text[0].toUpperCase() + text.slice(1);
    if (!run.summary)
        list.push(say(
            'the run has not ended, or was ended from outside: it has no summary, so only what was recorded step by step is shown.'));
    if (run.cut) list.push(say('the last line of its metrics is half written and was left out.'));
    return list;
}

P.showOverview = function() {
    const main = document.getElementById('main'), head = P.el('div.title');
    main.append(head);
    head.append(P.el('h1', P.runs.map(run => run.label).join(' and ')));
    for (const run of P.runs) head.append(P.el('p.sub', P.tag(run), (P.compares ? run.label + ': ' : '') + words(run)));
    for (const text of P.runs.flatMap(notices)) head.append(P.el('p.notice', text));
    if (!P.compares) {
        const run = P.runs[0];
        main.append(P.el('dl.tiles', ...FIGURES.map(f => {
            const value = f.value(run);
            return P.el('div.tile', P.el('dt', f.name),
                        P.el('dd', ...withUnit(value === null || value === undefined ? '-' : f.format(value)),
                             P.el('small', value === null || value === undefined ? 'not recorded' : f.note(run))));
        })));
        return;
    }
    const section = P.section('overview', 'Side by side', null);
    section.append(P.table([ '', 'A', 'B', 'B against A' ], FIGURES.map(f => {
        const [a, b] = P.runs.map(f.value), known = v => v !== null && v !== undefined;
        const change = known(a) && known(b) && a !== 0 ? (b / a - 1) * 100 : null;
        const say = change === null ? '-'
                                    : (change >= 0 ? '+' : '\u2212') + Math.abs(change).toFixed(1) + ' %' +
                                          (Math.abs(change) < 0.05           ? ''
                                           : (change > 0) === (f.better > 0) ? ', better'
                                                                             : ', worse');
        return [ f.name, known(a) ? f.format(a) : '-', known(b) ? f.format(b) : '-', say ];
    })));
};

P.showSettings = function() {
    const section = P.section('settings', 'Configuration', null), runs = P.runs;
    if (runs.every(run => !run.config.length)) return P.empty(section, 'The run directory has no config.yaml.');
    section.append(P.el(
        'p.lede',
        'All values in force; config.yaml, given back with --config, repeats the run. Below in_force: what the trainer made of them.'));
    if (!P.compares) {
        const groups = new Map();
        for (const [key, value] of runs[0].config) {
            const [, group, rest] = /^(?:([^.]+)\.)?(.+)$/.exec(key);
            groups.set(group || '', [...(groups.get(group || '') || []), [ rest, value ] ]);
        }
        section.append(
            P.el('div.groups',
                 ...[...groups].map(([ group, rows ]) => P.el('div', P.el('h3', group || 'settings'),
                                                              P.table([ 'setting', 'value' ], rows, {text : true})))));
        return;
    }
    const maps = runs.map(run => new Map(run.config)),
          keys = [...new Set(runs.flatMap(run => run.config.map(c => c[0]))) ];
    const row = key => [key, ...maps.map(m => m.has(key) ? m.get(key) : '-')],
          differs = key => maps[0].get(key) !== maps[1].get(key);
    const different = keys.filter(differs), same = keys.filter(k => !differs(k));
    section.append(P.el('h3', different.length ? `${different.length} settings differ` : 'All settings are the same'));
    if (different.length)
        section.append(P.table([ 'setting', 'A', 'B' ], different.map(row), {text : true, mark : () => true}));
    section.append(P.fold(`The ${same.length} that are the same`,
                          P.table([ 'setting', 'A and B' ], same.map(k => [k, maps[0].get(k)]), {text : true})));
};
})(window.PPL);
