// timeline.js - the newest steps of a run, a row a rank: what is in view, drawn anew whenever that changes. Before:
// lanes.js. After: pointer.js, which lets it be zoomed, panned and asked.
(function(P) {
'use strict';
const TOP = 6, AXIS = 26; // pixels
const LEAST = 0.7;        // pixels: what is narrower and crowded is left out until zoomed in
let made = 0;

// The tasks of a lane that are visible between two times and not lost in a crowd. scale: pixels a millisecond.
function visible(lane, from, to, scale) {
    const result = [];
    let drawn = -Infinity;
    for (let i = Math.max(0, d3.bisector(t => t.begin).left(lane, from) - 1); i < lane.length && lane[i].begin <= to;
         i++) {
        const t = lane[i];
        if (t.end < from || t.end === t.begin) continue;
        if ((t.end - t.begin) * scale < LEAST && (t.begin - drawn) * scale < LEAST) continue;
        result.push(t);
        drawn = t.begin;
    }
    return result;
}

// span: milliseconds that the view of a step shows at least, so that two runs are seen at one scale. onView(from, to): the
// times in view.
P.Timeline = class {
    constructor(run, {span, onView}) {
        Object.assign(this, {
            run,
            span : span || 0,
            onView,
            lanes : P.lanes(run),
            chosen : null,
            transform : d3.zoomIdentity,
            id : 'idle-' + made++
        });
        const n = this.lanes.ranks.length;
        this.high = n <= 8 ? 30 : n <= 16 ? 24 : n <= 40 ? 16 : 10; // of a row
        this.bar = Math.max(6, this.high - 4);
        this.height = TOP + n * this.high + AXIS;
        this.newest = this.lanes.steps[this.lanes.steps.length - 1];
        this.last = Math.max(this.lanes.last, this.newest.begin + this.span);
        this.withStage = run.summary.stages > run.summary.ranks;
    }

    // Top of a task's bar, and its middle.
    top(task) { return TOP + task.rank * this.high; }
    middle(task) { return this.top(task) + this.bar / 2; }
    x() { return this.transform.rescaleX(this.whole); }

    // Called with an empty svg whenever the width changes.
    frame(root, width) {
        const {high, bar, height, lanes, id} = this, left = width < 500 ? 50 : 62;
        Object.assign(this, {width, left, whole : d3.scaleLinear([ lanes.first, this.last ], [ left, width ])});
        root.attr('height', height);
        const defs = root.append('defs');
        defs.append('pattern')
            .attr('id', id)
            .attr('width', 7)
            .attr('height', 7)
            .attr('patternUnits', 'userSpaceOnUse')
            .attr('patternTransform', 'rotate(45)')
            .append('line')
            .attr('class', 'hatch')
            .attr('x1', 1)
            .attr('x2', 1)
            .attr('y2', 7);
        defs.append('clipPath')
            .attr('id', id + '-clip')
            .append('rect')
            .attr('x', left)
            .attr('width', width - left)
            .attr('height', height);
        lanes.ranks.forEach((_, rank) => {
            root.append('rect')
                .attr('class', 'lane')
                .attr('x', left)
                .attr('y', this.top({rank}))
                .attr('width', width - left)
                .attr('height', bar);
            if (high < 16 && rank % 4) return;
            root.append('text')
                .attr('x', left - 8)
                .attr('y', this.middle({rank}) + 4)
                .attr('text-anchor', 'end')
                .text((width < 500 ? 'r ' : 'rank ') + rank);
        });
        this.axis = root.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - AXIS + 2})`);
        const content = root.append('g').attr('clip-path', `url(#${id}-clip)`);
        for (const name of ['tasks', 'labels', 'marks']) this[name] = content.append('g');
    }

    // Draws what is in view.
    render() {
        const x = this.x(), [ from, to ] = x.domain(), {left, width, lanes, id} = this,
              scale = (width - left) / (to - from);
        const shown = lanes.ranks.flatMap(lane => visible(lane, from, to, scale));
        const begin = t => Math.max(x(t.begin), left - 3),
              wide = t => Math.max(0.8, Math.min(x(t.end), width + 3) - begin(t));
        this.tasks.selectAll('rect')
            .data(shown, t => t.id)
            .join('rect')
            .attr('class', t => t.kind ? 'task ' + t.kind : 'wait')
            .attr('fill', t => t.kind ? null : `url(#${id})`)
            .attr('x', begin)
            .attr('width', wide)
            .attr('y', t => this.top(t))
            .attr('height', this.bar)
            .attr('rx', t => t.kind && wide(t) > 6 ? 2 : 0);
        this.label(shown, x);
        this.scale(from, to);
        this.marks.selectAll('line')
            .data(lanes.steps.slice(1), s => s.step)
            .join('line')
            .attr('class', 'boundary')
            .attr('x1', s => x(s.begin))
            .attr('x2', s => x(s.begin))
            .attr('y1', 0)
            .attr('y2', this.height - AXIS);
        this.mark();
        if (this.onView) this.onView(Math.max(from, lanes.first), Math.min(to, lanes.last));
    }

    // The axis counts from the begin of the step at the left of the view.
    scale(from, to) {
        const {steps} = this.lanes,
              zero = (steps.filter(s => s.begin <= from + (to - from) * 0.02).pop() || steps[0]).begin;
        const x = d3.scaleLinear([ from - zero, to - zero ], [ this.left, this.width ]);
        this.axis.call(d3.axisBottom(x)
                           .ticks(Math.max(2, (this.width - this.left) / 110))
                           .tickSize(4)
                           .tickFormat((v, i) => P.fmt.figures(+v.toPrecision(6)) + (i === 0 ? ' ms' : '')));
    }

    // What may stand on a task, the longest first.
    words(t) {
        if (t.kind === 'N' || t.kind === 'S') return [ P.letter(t.kind) ];
        if (t.kind) return [ this.withStage ? t.text : t.kind + (t.microbatch === null ? '' : t.microbatch), t.kind ];
        if (t.wait === 'join') return [ 'norm' ];
        if (t.wait === 'buffer') return [ `buffer, rank ${t.peer}` ];
        const source = P.causeOf(this.lanes, t), cause = source ? source.text : t.value;
        return [ `waits for ${cause}, rank ${t.peer}`, `for ${cause}`, cause ];
    }

    label(shown, x) {
        const texts = [];
        for (const t of this.high < 16 ? [] : shown) {
            const a = Math.max(x(t.begin), this.left), b = Math.min(x(t.end), this.width);
            if (b - a < 10) continue;
            const text = this.words(t).find(words => words.length * 6.4 <= b - a - 4);
            if (text) texts.push({t, text, at : (a + b) / 2});
        }
        this.labels.selectAll('text')
            .data(texts, d => d.t.id)
            .join('text')
            .attr('class', d => 'label ' + (d.t.kind || 'wait'))
            .attr('x', d => d.at)
            .attr('y', d => this.middle(d.t) + 4)
            .text(d => d.text);
    }

    // The chosen task's outline, and for a wait a line from the end of what it waited for.
    mark() {
        const x = this.x(), {chosen} = this, source = chosen && P.causeOf(this.lanes, chosen);
        this.marks.selectAll('rect')
            .data([ chosen, source ].filter(t => t))
            .join('rect')
            .attr('class', 'chosen')
            .attr('rx', 2)
            .attr('x', t => x(t.begin))
            .attr('width', t => Math.max(2, x(t.end) - x(t.begin)))
            .attr('y', t => this.top(t))
            .attr('height', this.bar);
        this.marks.selectAll('path')
            .data(source ? [ source ] : [])
            .join('path')
            .attr('class', 'cause')
            .attr('d', s => `M${x(s.end)},${this.middle(s)}L${x(chosen.end)},${this.middle(chosen)}`);
        this.marks.selectAll('circle')
            .data(source ? [ chosen ] : [])
            .join('circle')
            .attr('class', 'cause-end')
            .attr('r', 3.5)
            .attr('cx', t => x(t.end))
            .attr('cy', t => this.middle(t));
    }

    // The task at a point of the drawing; one that is two pixels away will do. null: none.
    at([ px, py ]) {
        const lane = this.lanes.ranks[Math.floor((py - TOP) / this.high)];
        if (!lane || px < this.left) return null;
        const x = this.x(), time = x.invert(px), near = x.invert(2) - x.invert(0);
        for (let i = d3.bisector(t => t.begin).right(lane, time + near) - 1; i >= 0 && lane[i].end >= time - near;
             i--) {
            if (lane[i].begin <= time) return lane[i];
        }
        return null;
    }
};

P.showTimeline = function() {
    const section = P.section('timeline', 'Timeline',
                              'A row a rank, time from left to right. Hatched is idle, with what it waits for.');
    const traced = P.runs.filter(run => !P.lanes(run).why), kinds = new Set();
    const span = P.compares ? d3.max(traced, run => {
        const s = P.lanes(run).steps.slice(-1)[0];
        return s.end - s.begin;
    }) : 0;
    for (const run of P.runs) {
        const host = P.el('div.run-' + run.key, '@style=margin-bottom:14px'), lanes = P.lanes(run);
        section.append(host);
        if (lanes.why) {
            P.empty(host, (P.compares ? run.label + ': ' : '') + lanes.why);
            continue;
        }
        lanes.ranks.forEach(lane => lane.forEach(t => t.kind && kinds.add(t.kind)));
        const shares = P.shares(run);
        P.pointer(host, new P.Timeline(run, {span, onView : shares.update}));
        host.append(shares.element);
    }
    if (!traced.length) return;
    section.append(P.el('ul.legend',
                        ...Object.keys(P.KINDS)
                            .filter(k => kinds.has(k))
                            .map(k => P.el('li', P.el('span.key.' + k, P.letter(k)), P.KINDS[k])),
                        P.el('li', P.el('span.key.idle', '\u00a0'), 'idle: waits'),
                        P.el('li', P.el('span.key.rest', '\u00a0'), 'neither: short sends, starting tasks')));
};
})(window.PPL);
