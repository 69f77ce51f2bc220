// curves.js - loss and throughput over steps: a line a run, the value at the pointer, arrow keys for those without one.
(function(P) {
'use strict';
const MARGIN = {
    top : 12,
    right : 14,
    bottom : 34,
    left : 54
},
      HEIGHT = 250;     // pixels
const SMOOTH_FROM = 60; // points: fewer are drawn as they are

// Exponential mean with a span of a 40th of the points; nulls are passed over.
function smooth(values) {
    const keep = Math.exp(-40 / values.length);
    let mean = null;
    return values.map(v => v === null ? mean : (mean = mean === null ? v : keep * mean + (1 - keep) * v));
}

const known = values => values.filter(v => v !== null);

// series: { run, x, y, smooth, points: dots instead of a line }. format: of a value. zero: the axis begins at 0.
class Curve {
    constructor(host, {label, unit, series, format, zero}) {
        Object.assign(this, {unit, format, zero, at : null});
        this.series = series.filter(s => known(s.y).length);
        if (!this.series.length) return P.empty(host, 'No number was recorded.');
        this.longest = this.series.reduce((a, b) => a.x.length >= b.x.length ? a : b);
        P.drawing(host, label, (root, width) => this.draw(root, width))
            .attr('role', 'img')
            .attr('tabindex', 0)
            .attr('class', 'curve');
    }

    draw(root, width) {
        const steps = d3.extent(this.series.flatMap(s => d3.extent(s.x))),
              [ low, high ] = d3.extent(this.series.flatMap(s => known(s.y)));
        const x = d3.scaleLinear(steps[0] === steps[1] ? [ steps[0] - 1, steps[1] + 1 ] : steps,
                                 [ MARGIN.left, width - MARGIN.right ]);
        const y = d3.scaleLinear([ this.zero ? 0 : low, high === low ? high + 1 : high ], [
                        HEIGHT - MARGIN.bottom, MARGIN.top
                    ]).nice(5);
        Object.assign(this, {root, x});
        root.attr('height', HEIGHT);
        const ticks = x.ticks(Math.max(2, Math.min(8, width / 80))).filter(v => v % 1 === 0);
        P.axes(root, {
            x : d3.axisBottom(x).tickValues(ticks).tickFormat(P.fmt.count),
            y,
            format : P.fmt.figures,
            width,
            height : HEIGHT,
            margin : MARGIN
        });
        root.append('text')
            .attr('x', width - MARGIN.right)
            .attr('y', HEIGHT - 2)
            .attr('text-anchor', 'end')
            .text('step');
        for (const s of this.series) this.add(s, x, y);
        this.rule = root.append('line')
                        .attr('class', 'rule')
                        .attr('y1', MARGIN.top)
                        .attr('y2', HEIGHT - MARGIN.bottom)
                        .style('display', 'none');
        this.listen();
    }

    add(s, x, y) {
        const g = this.root.append('g').attr('class', 'run-' + s.run.key);
        const path = d3.line().defined(d => d !== null).x((d, i) => x(s.x[i])).y(d => y(d));
        const smoothed = s.smooth && s.y.length >= SMOOTH_FROM;
        if (!s.points) g.append('path').attr('class', 'line' + (smoothed ? ' raw' : '')).attr('d', path(s.y));
        if (smoothed) g.append('path').attr('class', 'line').attr('d', path(smooth(s.y)));
        if (!s.points && s.y.length > 1) return;
        g.selectAll('circle')
            .data(s.y.map((v, i) => [s.x[i], v]).filter(d => d[1] !== null))
            .join('circle')
            .attr('class', 'dot' + (s.points ? ' ring' : ''))
            .attr('r', 4)
            .attr('cx', d => x(d[0]))
            .attr('cy', d => y(d[1]));
    }

    // The rule and the tip at a point of the longest series; at the pointer, or at the top for keys.
    show(index, clientX, clientY) {
        const {longest, x, rule} = this;
        this.at = Math.max(0, Math.min(longest.x.length - 1, index));
        const step = longest.x[this.at], box = this.root.node().getBoundingClientRect();
        rule.style('display', null).attr('x1', x(step)).attr('x2', x(step));
        const lines = [ (longest.run.group > 1 ? 'steps from ' : 'step ') + P.fmt.count(step) ];
        for (const s of this.series) {
            const i = d3.bisectLeft(s.x, step);
            if (s.x[i] !== step || s.y[i] === null) continue;
            lines.push((P.compares ? s.run.key.toUpperCase() + ': ' : '') + (s.points ? 'held out ' : '') +
                       this.format(s.y[i]) + this.unit);
        }
        P.tip.show(lines, clientX === undefined ? box.left + x(step) : clientX,
                   clientY === undefined ? box.top + 30 : clientY);
    }
    hide() {
        this.at = null;
        this.rule.style('display', 'none');
        P.tip.hide();
    }

    // Index of the point nearest to a place of the drawing.
    nearest(px) {
        const {x} = this.longest, step = this.x.invert(px), i = d3.bisectLeft(x, step);
        return i > 0 && (i === x.length || step - x[i - 1] < x[i] - step) ? i - 1 : i;
    }

    listen() {
        const follow = () => this.show(this.nearest(d3.mouse(this.root.node())[0]), d3.event.clientX, d3.event.clientY);
        this.root.on('pointermove', follow)
            .on('pointerdown', follow)
            .on('pointerleave', () => this.hide())
            .on('blur', () => this.hide())
            .on('keydown', () => {
                const by =
                    {ArrowRight : 1, ArrowLeft : -1, PageDown : 10, PageUp : -10, Home : -1e9, End : 1e9}[d3.event.key];
                if (d3.event.key === 'Escape') this.hide();
                if (by === undefined) return;
                d3.event.preventDefault();
                this.show((this.at === null ? (by > 0 ? -1 : this.longest.x.length) : this.at) + by);
            });
    }
}

function lede(runs) {
    if (runs.every(run => run.steps < 2)) return 'One step was recorded: too few for a curve.';
    const groups = runs.filter(r => r.group > 1)
                       .map(r => `${P.compares ? r.key.toUpperCase() + ': each' : 'Each'} point is the mean of ${
                                r.group} steps of ${P.fmt.count(r.steps)}.`);
    return [ 'Loss and throughput over steps.', ...groups ].join(' ');
}

P.showCurves = function() {
    const {runs} = P, section = P.section('training', 'Training', lede(runs)), left = P.el('div'), right = P.el('div');
    section.append(P.el('div.pair', left, right));
    left.append(P.el('h3', runs.some(r => known(r.metrics.eval_loss).length) ? 'Loss (rings: held out)' : 'Loss'));
    const curves = (key, more) => runs.map(run => ({run, x : run.metrics.step, y : run.metrics[key], ...more}));
    new Curve(left, {
        label : 'Loss over steps',
        unit : '',
        format : P.fmt.loss,
        series : [...curves('loss', {smooth : true}), ...curves('eval_loss', {points : true}) ]
    });
    right.append(P.el('h3', 'Throughput, tokens/s'));
    new Curve(right, {
        label : 'Tokens per second over steps',
        unit : ' tokens/s',
        format : P.fmt.count,
        zero : true,
        series : curves('tokens_per_s', {smooth : true})
    });
    if (!P.compares) return;
    section.append(P.el('ul.legend', ...runs.map(run => P.el('li.run-' + run.key, P.tag(run),
                                                             run.label + (run.key === 'b' ? ' (dashed)' : '')))));
};
})(window.PPL);
