// wire.c - processes played by threads: queues of words and of values under one lock.
#include "support/wire.h"
#include "base/memory.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct offer {          // a value sent or asked for, until both are there
    struct offer *next, *older; // older: of all that were ever made
    int32_t from, to;
    int64_t tag;
    const void *data;
    void *into;
    size_t bytes;
    bool sends, done;
} offer;

typedef struct letter {
    struct letter *next;
    int32_t from;
    size_t bytes;
    char data[];
} letter;

struct test_net {
    pthread_mutex_t lock;
    offer *offers, *newest;
    letter *first[16], **last[16];
};

typedef struct end {
    test_net *net;
    int32_t process;
    letter *taken;
} end;

ppl_status test_net_ends[16];
static _Thread_local ppl_status own_status;
static _Thread_local const char *own_text;

// Matches an offer with the oldest of the other kind; else it stays in the list, behind the others.
static ppl_status offer_make(end *e, offer o, ppl_wire_request *out) {
    offer *mine = malloc(sizeof *mine);
    *mine = o;
    pthread_mutex_lock(&e->net->lock);
    mine->older = e->net->newest;
    e->net->newest = mine;
    offer **at = &e->net->offers;
    for (; *at; at = &(*at)->next) {
        offer *other = *at;
        if (other->sends == o.sends || other->from != o.from || other->to != o.to || other->tag != o.tag) continue;
        offer *send = o.sends ? mine : other, *receive = o.sends ? other : mine;
        assert(send->bytes <= receive->bytes);
        memcpy(receive->into, send->data, send->bytes);
        mine->done = other->done = true;
        *at = other->next;
        break;
    }
    if (!mine->done) *at = mine;
    pthread_mutex_unlock(&e->net->lock);
    *out = (ppl_wire_request){.word = (uint64_t)(uintptr_t)mine, .active = true};
    return PPL_OK;
}

static ppl_status wire_send(void *self, int32_t to, int64_t tag, const void *data, size_t bytes,
                            ppl_wire_request *out) {
    end *e = self;
    return offer_make(e, (offer){.from = e->process, .to = to, .tag = tag, .data = data, .bytes = bytes, .sends = true},
                      out);
}

static ppl_status wire_receive(void *self, int32_t from, int64_t tag, void *data, size_t bytes, ppl_wire_request *out) {
    end *e = self;
    return offer_make(e, (offer){.from = from, .to = e->process, .tag = tag, .into = data, .bytes = bytes}, out);
}

static ppl_status wire_test(void *self, ppl_wire_request *r) {
    end *e = self;
    offer *o = (offer *)(uintptr_t)r->word;
    pthread_mutex_lock(&e->net->lock);
    bool done = o->done;
    pthread_mutex_unlock(&e->net->lock);
    if (done) r->active = false;
    return PPL_OK;
}

static ppl_status wire_cancel(void *self, ppl_wire_request *r, bool *gone) {
    end *e = self;
    offer *o = (offer *)(uintptr_t)r->word;
    pthread_mutex_lock(&e->net->lock);
    *gone = false;
    for (offer **at = &e->net->offers; *at && !*gone; at = &(*at)->next) {
        if (*at != o) continue;
        *at = o->next;
        *gone = true;
        break;
    }
    pthread_mutex_unlock(&e->net->lock);
    r->active = false;
    return PPL_OK;
}

static ppl_status wire_post(void *self, int32_t to, const void *data, size_t bytes) {
    end *e = self;
    letter *l = malloc(sizeof *l + bytes);
    *l = (letter){.from = e->process, .bytes = bytes};
    memcpy(l->data, data, bytes);
    pthread_mutex_lock(&e->net->lock);
    *e->net->last[to] = l;
    e->net->last[to] = &l->next;
    pthread_mutex_unlock(&e->net->lock);
    return PPL_OK;
}

static ppl_status wire_take(void *self, int32_t *from, const void **data, size_t *bytes) {
    end *e = self;
    free(e->taken);
    pthread_mutex_lock(&e->net->lock);
    letter *l = e->taken = e->net->first[e->process];
    if (l && !(e->net->first[e->process] = l->next)) e->net->last[e->process] = &e->net->first[e->process];
    pthread_mutex_unlock(&e->net->lock);
    *from = l ? l->from : -1;
    *data = l ? l->data : NULL;
    *bytes = l ? l->bytes : 0;
    return PPL_OK;
}

static void wire_close(void *self, bool whole) {
    (void)whole;
    end *e = self;
    free(e->taken);
    free(e);
}

static const ppl_wire_ops ops = {
    .name = "threads",
    .most_bytes = INT32_MAX,
    .most_tag = 1 << 20,
    .send = wire_send,
    .receive = wire_receive,
    .test = wire_test,
    .cancel = wire_cancel,
    .post = wire_post,
    .take = wire_take,
    .close = wire_close,
};

typedef struct player {
    test_net *net;
    test_process main_of;
    void *self;
    int32_t process, processes;
    pthread_t thread;
} player;

static void *play(void *arg) {
    player *p = arg;
    end *e = calloc(1, sizeof *e);
    e->net = p->net;
    e->process = p->process;
    ppl_wire wire = {.ops = &ops, .self = e, .process = p->process, .processes = p->processes};
    ppl_world *w = NULL;
    own_status = PPL_OK;
    own_text = NULL;
    if (ppl_world_open(&wire, &w) == PPL_OK) {
        ppl_world_use(w);
        p->main_of(p->self, p->process);
    }
    test_net_ends[p->process] = ppl_world_close(w, own_status, own_text);
    ppl_world_use(NULL);
    return NULL;
}

void test_net_fail(ppl_status status, const char *text) {
    own_status = status;
    own_text = text;
}

void test_net_run(int32_t processes, test_process main_of, void *self) {
    test_net net = {.lock = PTHREAD_MUTEX_INITIALIZER};
    player players[16];
    for (int32_t p = 0; p < processes; p++) net.last[p] = &net.first[p];
    for (int32_t p = 0; p < processes; p++) {
        players[p] = (player){.net = &net, .main_of = main_of, .self = self, .process = p, .processes = processes};
        pthread_create(&players[p].thread, NULL, play, &players[p]);
    }
    for (int32_t p = 0; p < processes; p++) pthread_join(players[p].thread, NULL);
    for (int32_t p = 0; p < processes; p++)
        for (letter *l = net.first[p], *next; l; l = next) {
            next = l->next;
            free(l);
        }
    for (offer *o = net.newest, *next; o; o = next) { // here, as a run that failed asks after none of them
        next = o->older;
        free(o);
    }
    pthread_mutex_destroy(&net.lock);
}
