// main.js - the report from top to bottom. The other scripts have said how. `PPL.ready` tells tests that all is drawn.
(function(P) {
'use strict';
const main = document.getElementById('main');
// A part that a damaged file does not let draw says so, and leaves the others be.
for (const part of ['Overview', 'Curves', 'Timeline', 'Stages', 'Bubble', 'Memory', 'Settings']) {
    try {
        P['show' + part]();
    } catch (error) {
        P.empty(main.lastElementChild.tagName === 'SECTION' ? main.lastElementChild : main,
                `This part cannot be drawn: the run\u2019s files are not as ppl writes them (${error.message}).`);
        P.failed = (P.failed || []).concat(error.message);
    }
}
document.getElementById('main').append(P.el(
    'footer',
    'Written by ppl report. Times are wall-clock; a microbatch\u2019s are medians over the traced steps. Ranks, stages, microbatches and steps count from 0.'));
requestAnimationFrame(() => requestAnimationFrame(() => { P.ready = true; }));
})(window.PPL);
