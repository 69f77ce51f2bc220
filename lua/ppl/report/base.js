// base.js - what all charts of the report share: the data, numbers with units, elements, the tip, the theme, and a drawing
// that follows its container's width. Before: page.html. After: the other scripts, main.js last.
(function(P) {
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
P.runs = data.runs;
P.runs.forEach((run, i) => {
    run.key = 'ab'[i];
    run.label = data.names.every(n => n === data.names[0]) && P.runs.length > 1 ? run.directory : run.name;
});
P.compares = P.runs.length > 1;

// ---- numbers

const figures = x => {
    const size = Math.abs(x);
    return x === 0         ? '0'
           : size >= 1000  ? Math.round(x).toLocaleString('en-US')
           : size >= 0.001 ? String(+x.toPrecision(3))
                           : x.toExponential(1);
};
P.fmt = {
    figures,
    count : x => Math.round(x).toLocaleString('en-US'),
    ms : x => x >= 1e4           ? figures(x / 1000) + ' s'
              : x < 0.1 && x > 0 ? figures(x * 1000) + ' µs'
                                 : figures(x) + ' ms',
    percent : x => (x * 100).toFixed(1) + ' %',
    loss : x => x.toFixed(4),
    bytes : x => {
        const units = [ 'B', 'KiB', 'MiB', 'GiB', 'TiB' ];
        let i = 0;
        while (x >= 1024 && i < 4) {
            x /= 1024;
            i++;
        }
        return (i === 0 ? x : x.toFixed(1)) + ' ' + units[i];
    },
    seconds : s => s < 60 ? figures(s) + ' s' : Math.floor(s / 60) + ' min ' + Math.round(s % 60) + ' s',
};

// ---- elements: P.el('p.sub', 'text', child, ...); '@name=value' sets an attribute

P.el = function(what, ...children) {
    const [name, ...classes] = what.split('.');
    const e = document.createElement(name || 'div');
    if (classes.length) e.className = classes.join(' ');
    for (const child of children) {
        if (child === null || child === undefined) continue;
        const attribute = typeof child === 'string' && /^@([\w-]+)=([^]*)$/.exec(child);
        if (attribute) e.setAttribute(attribute[1], attribute[2]);
        else e.append(child);
    }
    return e;
};
P.empty = (host, words) => host.append(P.el('p.empty', words));
P.tag = run => P.compares ? P.el('span.tag.run-' + run.key, run.key.toUpperCase(), '@title=' + run.label) : null;

P.section = function(id, title, lede) {
    const section =
        P.el('section', '@id=' + id, '@aria-labelledby=' + id + '-title', P.el('h2', title, '@id=' + id + '-title'));
    if (lede) section.append(P.el('p.lede', lede));
    document.getElementById('main').append(section);
    document.getElementById('nav').append(P.el('a', title, '@href=#' + id));
    return section;
};

// head: texts; rows: lists of texts; options: { text: a table of words, mark: row -> differs }
P.table = function(head, rows, options = {}) {
    const side =
        head.map((_, c) => options.text || rows.some(row => !/^([-+\u2212]?\d|-$)/.test(row[c])) ? '.left' : '');
    const body = P.el('tbody', ...rows.map(row => P.el('tr' + (options.mark && options.mark(row) ? '.differs' : ''),
                                                       ...row.map((cell, c) => P.el('td' + side[c], String(cell))))));
    const table = P.el('table' + (options.text ? '.text' : ''),
                       P.el('thead', P.el('tr', ...head.map((h, c) => P.el('th' + side[c], h, '@scope=col')))), body);
    return P.el('div.scroll', table);
};
P.fold = (words, ...inside) => P.el('details', P.el('summary', words), ...inside);

// ---- the tip: lines of text, the first bold

const tip = document.getElementById('tip');
P.tip = {
    show(lines, x, y) {
        tip.replaceChildren(...lines.filter(l => l).map((l, i) => P.el('div', i ? l : P.el('b', l))));
        tip.hidden = false;
        const box = tip.getBoundingClientRect();
        tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - box.width - 6)) + 'px';
        tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(6, y - box.height - 12) : y + 18) + 'px';
    },
    hide() { tip.hidden = true; },
};
addEventListener('scroll', P.tip.hide, {passive : true});

// Bars' words that have no room are hidden, whatever the width.
P.fitWords = function(bars) {
    const fit = () => {
        for (const seg of bars.querySelectorAll('.seg'))
            seg.firstChild.style.visibility = seg.firstChild.offsetWidth + 4 > seg.clientWidth ? 'hidden' : '';
    };
    new ResizeObserver(fit).observe(bars);
    return fit;
};

// ---- drawings

// draw(svg, width): called at once and whenever the width changes, with an emptied svg.
P.drawing = function(host, label, draw) {
    const box = P.el('div');
    host.append(box);
    const svg = d3.select(box).append('svg').attr('aria-label', label);
    let width = 0;
    const redraw = () => {
        const now = Math.floor(box.clientWidth);
        if (now === width || now === 0) return;
        width = now;
        svg.attr('width', width).selectAll('*').remove();
        draw(svg, width);
    };
    new ResizeObserver(redraw).observe(box);
    redraw();
    return svg;
};

// A grid and two axes. x: an axis; y: a scale; format: of the values of y.
P.axes = function(root, {x, y, format, width, height, margin}) {
    const across = d3.axisLeft(y).ticks(5).tickSize(margin.left + margin.right - width).tickFormat('');
    root.append('g').attr('class', 'grid').attr('transform', `translate(${margin.left},0)`).call(across);
    const up = d3.axisLeft(y).ticks(5).tickSize(0).tickPadding(8).tickFormat(format);
    root.append('g').attr('class', 'axis').attr('transform', `translate(${margin.left},0)`).call(up);
    root.append('g')
        .attr('class', 'axis')
        .attr('transform', `translate(0,${height - margin.bottom})`)
        .call(x.tickSize(4));
};

// ---- light and dark: as the system has it, or as the button says; kept where the browser lets a file keep things

const MODES = [ 'auto', 'light', 'dark' ];
const dark = matchMedia('(prefers-color-scheme: dark)');
const button = document.getElementById('theme');
let mode = 'auto';
try {
    mode = MODES.includes(localStorage.getItem('ppl-theme')) ? localStorage.getItem('ppl-theme') : mode;
} catch (e) { /* nothing is kept */
}
function apply() {
    document.documentElement.dataset.theme = mode === 'auto' ? (dark.matches ? 'dark' : 'light') : mode;
    button.textContent = {auto : 'Auto', light : 'Light', dark : 'Dark'}[mode];
    button.setAttribute('aria-label',
                        'Colours: ' + {auto : 'as the system has them', light : 'light', dark : 'dark'}[mode] +
                            '; press to change');
}
button.addEventListener('click', () => {
    mode = MODES[(MODES.indexOf(mode) + 1) % MODES.length];
    try {
        localStorage.setItem('ppl-theme', mode);
    } catch (e) { /* nothing is kept */
    }
    apply();
});
dark.addEventListener('change', apply);
apply();
})(window.PPL = window.PPL || {});
