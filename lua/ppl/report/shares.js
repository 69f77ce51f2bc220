// shares.js - where the time in view went: a bar a rank, of work by kind, waits by cause, and what is neither. Before:
// lanes.js. After: timeline.js shows it below each timeline and calls update as the view changes.
(function(P) {
'use strict';
const SHORT = {
    activation : 'activation',
    gradient : 'gradient',
    buffer : 'buffer',
    join : 'norms'
};

// Milliseconds of a lane between two times, by kind of work and cause of waiting; `rest`: neither.
P.sharesOf = function(lane, from, to) {
    const sums = {rest : to - from};
    const add = (key, begin, end) => {
        const time = Math.min(end, to) - Math.max(begin, from);
        if (time <= 0) return;
        sums[key] = (sums[key] || 0) + time;
        sums.rest -= time;
    };
    for (const t of lane) {
        if (t.end > from && t.begin < to) add(t.kind || t.wait, t.begin, t.end);
    }
    sums.rest = Math.max(0, sums.rest);
    return sums;
};

const ORDER = [ 'F', 'B', 'I', 'W', 'U', 'N', 'S', 'activation', 'gradient', 'buffer', 'join', 'rest' ];
const nameOf = key => P.KINDS[key] || P.CAUSES[key] || 'neither work nor waiting';

// { element, update(from, to) }
P.shares = function(run) {
    const lanes = P.lanes(run), ranks = lanes.ranks.length, bars = P.el('div.bars'), body = P.el('div');
    const title = P.el('h3', 'Where the time in view went');
    const table = P.fold('As a table');
    const element = P.el('div.shares', title, bars, table);
    const fit = P.fitWords(bars);
    let drawn = '';
    function update(from, to) {
        const key = from.toFixed(4) + ' ' + to.toFixed(4);
        if (key === drawn) return;
        drawn = key;
        const all = lanes.ranks.map(lane => P.sharesOf(lane, from, to)), total = to - from;
        title.textContent = `Where the ${P.fmt.ms(total)} in view went`;
        const shown = ranks <= 64 ? all.map((s, r) => [s, r]) : all.map((s, r) => [s, r]).slice(0, 64);
        bars.replaceChildren(...shown.flatMap(([ sums, r ]) => {
            const busy = [ 'F', 'B', 'I', 'W', 'U' ].reduce((n, k) => n + (sums[k] || 0), 0);
            return [
                P.el('span.who', 'rank ' + r), bar(sums, total),
                P.el('span.much', P.fmt.percent(busy / total) + ' busy')
            ];
        }));
        fit();
        if (ranks > 64) bars.append(P.el('span.who', `and ${ranks - 64} more`));
        const keys = ORDER.filter(k => all.some(s => s[k]));
        body.replaceChildren(P.table([ 'rank', ...keys.map(nameOf) ],
                                     all.map((s, r) => [r, ...keys.map(k => s[k] ? P.fmt.ms(s[k]) : '-')])));
        if (!body.isConnected) table.append(body);
    }
    return {element, update};
};

function bar(sums, total) {
    return P.el('div.bar', '@role=img',
                '@aria-label=' +
                    ORDER.filter(k => sums[k]).map(k => `${nameOf(k)} ${P.fmt.percent(sums[k] / total)}`).join(', '),
                ...ORDER.filter(k => sums[k] / total > 0.0005).map(k => {
                    const share = sums[k] / total, letter = P.KINDS[k] ? P.letter(k) : SHORT[k] || '';
                    return P.el('span.seg.' + (P.KINDS[k] ? k
                                               : SHORT[k] ? 'idle'
                                                          : 'rest'),
                                `@style=flex:0 0 ${share * 100}%`,
                                `@title=${nameOf(k)}: ${P.fmt.ms(sums[k])}, ${P.fmt.percent(share)}`,
                                P.el('span', letter));
                }));
}
})(window.PPL);
