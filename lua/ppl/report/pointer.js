// pointer.js - a timeline in the reader's hands: zoom by buttons, keys, Ctrl and wheel or two fingers, pan by dragging, a
// step chosen from the list. The task that is pointed at, tapped or reached by arrow keys is described.
(function(P) {
'use strict';
const HINT =
    'Point at, tap or arrow through tasks for details. Drag to pan; Ctrl and wheel, two fingers or + and \u2212 to zoom.';

class Pointer {
    constructor(host, timeline) {
        this.timeline = timeline;
        this.pending = false;
        this.zoom = d3.zoom()
                        .scaleExtent([ 1, 1e5 ])
                        // A wheel alone scrolls the page.
                        .filter(() => d3.event.type === 'wheel' ? d3.event.ctrlKey || d3.event.metaKey
                                                                : !d3.event.button && !d3.event.ctrlKey)
                        .on('zoom', () => this.moved(d3.event.transform));
        host.append(this.controls());
        this.svg = P.drawing(host, timeline.run.label, (root, width) => this.frame(root, width));
        const {lanes, run} = timeline;
        this.svg.attr('class', 'timeline')
            .attr('tabindex', 0)
            .attr('role', 'application')
            .attr('aria-roledescription', 'timeline')
            .attr(
                'aria-label',
                `Timeline of ${run.label}, ${
                    lanes.ranks
                        .length} ranks. Left and right: the task before and after; up and down: the rank; plus and minus: zoom; 0: fit.`);
        this.details = P.el('p.details', '@aria-live=polite', HINT);
        host.append(this.details);
        this.listen();
    }

    controls() {
        const {steps} = this.timeline.lanes;
        const button = (text, label, act) => {
            const b = P.el('button.button', text, '@type=button', '@aria-label=' + label, '@title=' + label);
            b.addEventListener('click', act);
            return b;
        };
        this.select = P.el('select', '@aria-label=Steps in view',
                           ...steps.map(s => P.el('option', 'step ' + s.step, '@value=' + s.step)),
                           P.el('option', `all ${steps.length} kept steps`, '@value=all'));
        this.select.value = String(this.timeline.newest.step);
        this.select.addEventListener('change', () => this.fit());
        return P.el('div.controls', P.tag(this.timeline.run), P.el('label', P.el('span', 'Show '), this.select),
                    P.el('div.end', button('\u2212', 'Zoom out', () => this.scaleBy(1 / 1.6)),
                         button('+', 'Zoom in', () => this.scaleBy(1.6)),
                         button('Fit', 'Fit the chosen steps', () => this.fit())));
    }

    frame(root, width) {
        const t = this.timeline;
        t.frame(root, width);
        this.svg = root;
        const box = [ [ t.left, 0 ], [ width, t.height ] ];
        this.zoom.extent(box).translateExtent(box);
        root.call(this.zoom).on('dblclick.zoom', null);
        this.fit();
    }

    fit() {
        const t = this.timeline, s = t.lanes.steps.find(step => String(step.step) === this.select.value);
        const [from, to] = s ? [ s.begin, Math.max(s.end, s.begin + t.span) ] : [ t.lanes.first, t.last ];
        const k = Math.max(1, (t.last - t.lanes.first) / (to - from));
        this.svg.call(this.zoom.transform, d3.zoomIdentity.scale(k).translate(t.left / k - t.whole(from), 0));
    }
    scaleBy(k) { this.svg.call(this.zoom.scaleBy, k); }

    // However many events come, one drawing a frame.
    moved(transform) {
        this.timeline.transform = transform;
        if (this.pending) return;
        this.pending = true;
        requestAnimationFrame(() => {
            this.pending = false;
            this.timeline.render();
        });
    }

    choose(task) {
        const t = this.timeline;
        if (task === t.chosen) return;
        t.chosen = task;
        const lines = task && P.describe(t.lanes, task);
        this.details.replaceChildren(
            ...(lines ? [ P.el('b', lines[0]), ' \u2014 ' + lines.slice(1).join(' \u00b7 ') ] : [ HINT ]));
        t.mark();
    }

    listen() {
        const t = this.timeline, under = () => t.at(d3.mouse(this.svg.node()));
        this.svg
            .on('pointermove.tip',
                () => {
                    const task = under();
                    this.choose(task);
                    if (task && d3.event.pointerType !== 'touch')
                        P.tip.show(P.describe(t.lanes, task), d3.event.clientX, d3.event.clientY);
                    else P.tip.hide();
                })
            .on('pointerdown.tip', () => this.choose(under()))
            .on('pointerleave.tip',
                () => {
                    P.tip.hide();
                    if (d3.event.pointerType === 'mouse') this.choose(null);
                })
            .on('keydown', () => {
                if (this.key(d3.event.key)) d3.event.preventDefault();
            });
    }

    // Whether the key meant something.
    key(key) {
        if (key === '+' || key === '=') this.scaleBy(1.6);
        else if (key === '-') this.scaleBy(1 / 1.6);
        else if (key === '0') this.fit();
        else if (key === 'Escape') this.choose(null);
        else if (/^Arrow/.test(key)) this.walk(key);
        else return false;
        return true;
    }

    // To the next task by an arrow key; the first one is that at the left of the view.
    walk(key) {
        const t = this.timeline, {ranks} = t.lanes, {chosen} = t, x = t.x();
        const near = (lane, time) => lane[Math.min(lane.length - 1, d3.bisector(task => task.end).right(lane, time))];
        let next;
        if (!chosen) next = near(ranks[0], x.domain()[0]);
        else if (key === 'ArrowRight') next = ranks[chosen.rank][chosen.at + 1];
        else if (key === 'ArrowLeft') next = ranks[chosen.rank][chosen.at - 1];
        else {
            const lane = ranks[chosen.rank + (key === 'ArrowDown' ? 1 : -1)];
            next = lane && near(lane, (chosen.begin + chosen.end) / 2);
        }
        if (!next) return;
        this.choose(next);
        if (x(next.end) > t.width || x(next.begin) < t.left)
            this.svg.call(this.zoom.translateTo, t.whole((next.begin + next.end) / 2), 0);
    }
}

P.pointer = (host, timeline) => new Pointer(host, timeline);
})(window.PPL);
