// mpi.c - the wire of MPI: the only file that knows it. Before: world.c, under whose lock every call comes. After: OpenMPI.
//
// MPI_THREAD_SERIALIZED: any thread may call, one at a time, which the world's lock sees to. MULTIPLE would lock each call
// once more inside of MPI and let no two of them overlap for longer than they take (0.2 to 2 microseconds).
// Values are sent synchronously (MPI_Issend): a send is done when its receive has been matched, never because MPI had room
// for it, so that credits bound what lies underway whatever the eager limit is.
#include "base/memory.h"
#include "world/wire.h"
#include <mpi.h>
#include <stdio.h>
#include <string.h>

typedef struct slot { // words on their way
    MPI_Request request;
    char *data;
    size_t room;
    bool busy;
} slot;

typedef struct mpi_wire {
    MPI_Comm values, words;
    slot *slots;
    size_t n_slots, next;
    char *in;
    size_t in_room;
} mpi_wire;

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits its place");

static ppl_status mpi_fail(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "an unknown error";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return ppl_fail(PPL_ERR_DEVICE, "mpi: %s: %s", call, text);
}

#define TRY_MPI(call, name)                                                                                            \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != MPI_SUCCESS) return mpi_fail(code_, name);                                                        \
    } while (0)

static void request_keep(ppl_wire_request *out, MPI_Request r) {
    *out = (ppl_wire_request){.active = true};
    memcpy(&out->word, &r, sizeof r);
}

static MPI_Request request_of(const ppl_wire_request *request) {
    MPI_Request r;
    memcpy(&r, &request->word, sizeof r);
    return r;
}

static ppl_status mpi_send(void *self, int32_t to, int64_t tag, const void *data, size_t bytes, ppl_wire_request *out) {
    MPI_Request r;
    TRY_MPI(MPI_Issend(data, (int)bytes, MPI_BYTE, to, (int)tag, ((mpi_wire *)self)->values, &r), "MPI_Issend");
    request_keep(out, r);
    return PPL_OK;
}

static ppl_status mpi_receive(void *self, int32_t from, int64_t tag, void *data, size_t bytes, ppl_wire_request *out) {
    MPI_Request r;
    TRY_MPI(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, (int)tag, ((mpi_wire *)self)->values, &r), "MPI_Irecv");
    request_keep(out, r);
    return PPL_OK;
}

static ppl_status mpi_test(void *self, ppl_wire_request *request) {
    (void)self;
    MPI_Request r = request_of(request);
    int done = 0;
    TRY_MPI(MPI_Test(&r, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) request->active = false;
    return PPL_OK;
}

static ppl_status mpi_cancel(void *self, ppl_wire_request *request, bool *gone) {
    (void)self;
    MPI_Request r = request_of(request);
    MPI_Status status;
    int cancelled = 0;
    TRY_MPI(MPI_Cancel(&r), "MPI_Cancel");
    TRY_MPI(MPI_Wait(&r, &status), "MPI_Wait"); // a cancelled receive is done at once, a matched one soon
    TRY_MPI(MPI_Test_cancelled(&status, &cancelled), "MPI_Test_cancelled");
    request->active = false;
    *gone = cancelled != 0;
    return PPL_OK;
}

// A slot that is free; all are looked at once before there is one more.
static ppl_status slot_find(mpi_wire *w, slot **out) {
    for (size_t i = 0; i < w->n_slots; i++) {
        slot *s = &w->slots[w->next++ % w->n_slots];
        int done = 1;
        if (s->busy) TRY_MPI(MPI_Test(&s->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        s->busy = !done;
        if (!done) continue;
        *out = s;
        return PPL_OK;
    }
    size_t more = w->n_slots ? 2 * w->n_slots : 64;
    slot *slots = ppl_alloc(more * sizeof *slots);
    if (!slots) return PPL_ERR_MEMORY;
    if (w->slots) memcpy(slots, w->slots, w->n_slots * sizeof *slots);
    ppl_free(w->slots);
    w->slots = slots;
    w->next = w->n_slots;
    w->n_slots = more;
    *out = &slots[w->next++];
    return PPL_OK;
}

static ppl_status room_make(char **data, size_t *room, size_t bytes) {
    if (*room >= bytes) return PPL_OK;
    char *more = ppl_alloc(2 * bytes);
    if (!more) return PPL_ERR_MEMORY;
    ppl_free(*data);
    *data = more;
    *room = 2 * bytes;
    return PPL_OK;
}

static ppl_status mpi_post(void *self, int32_t to, const void *data, size_t bytes) {
    mpi_wire *w = self;
    slot *s = NULL;
    PPL_TRY(slot_find(w, &s));
    PPL_TRY(room_make(&s->data, &s->room, bytes));
    memcpy(s->data, data, bytes);
    TRY_MPI(MPI_Isend(s->data, (int)bytes, MPI_BYTE, to, 0, w->words, &s->request), "MPI_Isend");
    s->busy = true;
    return PPL_OK;
}

static ppl_status mpi_take(void *self, int32_t *from, const void **data, size_t *bytes) {
    mpi_wire *w = self;
    MPI_Message message;
    MPI_Status status;
    int there = 0, count = 0;
    *from = -1;
    TRY_MPI(MPI_Improbe(MPI_ANY_SOURCE, 0, w->words, &there, &message, &status), "MPI_Improbe");
    if (!there) return PPL_OK;
    TRY_MPI(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    PPL_TRY(room_make(&w->in, &w->in_room, (size_t)count));
    TRY_MPI(MPI_Mrecv(w->in, count, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    *from = status.MPI_SOURCE;
    *data = w->in;
    *bytes = (size_t)count;
    return PPL_OK;
}

// After MPI_Abort nothing returns: the launcher ends every process.
static void mpi_close(void *self, bool whole) {
    mpi_wire *w = self;
    if (!whole) {
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (size_t i = 0; i < w->n_slots; i++) {
        if (w->slots[i].busy) MPI_Wait(&w->slots[i].request, MPI_STATUS_IGNORE);
        ppl_free(w->slots[i].data);
    }
    MPI_Finalize();
    ppl_free(w->slots);
    ppl_free(w->in);
    ppl_free(w);
}

static ppl_wire_ops mpi_ops = {
    .name = "mpi",
    .most_bytes = INT32_MAX,
    .send = mpi_send,
    .receive = mpi_receive,
    .test = mpi_test,
    .cancel = mpi_cancel,
    .post = mpi_post,
    .take = mpi_take,
    .close = mpi_close,
};

static ppl_status mpi_join(mpi_wire *w, ppl_wire *out) {
    int provided = 0, flag = 0, process = 0, processes = 1, *most_tag = NULL;
    ppl_launch launch = ppl_launched();
    TRY_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED)
        return ppl_fail(PPL_ERR_DEVICE, "mpi: it serves threads at level %d, want MPI_THREAD_SERIALIZED", provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &process), "MPI_Comm_rank");
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &processes), "MPI_Comm_size");
    if (processes != launch.processes)
        return ppl_fail(PPL_ERR_ARG,
                        "mpi: %s has started %d processes, but OpenMPI knows %d: want the launcher of OpenMPI",
                        launch.launcher, launch.processes, processes);
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &w->values), "MPI_Comm_dup"); // they inherit the error handler
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &w->words), "MPI_Comm_dup");
    TRY_MPI(MPI_Comm_get_attr(w->values, MPI_TAG_UB, &most_tag, &flag), "MPI_Comm_get_attr");
    mpi_ops.most_tag = flag ? *most_tag : 32767; // what the standard promises
    *out = (ppl_wire){.ops = &mpi_ops, .self = w, .process = process, .processes = processes};
    return PPL_OK;
}

ppl_status ppl_wire_mpi(ppl_wire *out) {
    mpi_wire *w = ppl_alloc(sizeof *w);
    if (!w) return PPL_ERR_MEMORY;
    ppl_status st = mpi_join(w, out);
    if (st != PPL_OK) ppl_free(w);
    return st;
}
