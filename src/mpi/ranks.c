/* SPDX-License-Identifier: MIT */
/* cli/ranks.h of the program that MPI=1 makes: a team of the processes that mpirun or srun has started, by MPI
 * (MPI 3.1: non-blocking collectives, one-sided operations). One mutex lets one thread at a time call MPI, so that
 * MPI_THREAD_SERIALIZED is enough. A rank that waits sleeps between two tests: on a machine whose processors are all
 * busy, a spinning rank would take the time of one that computes. */
#include "cli/ranks.h"

#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/files.h"

enum { CHUNK = 1 << 30 }; /* MPI counts in int */

typedef struct ctx {
    vt_team team;
    pthread_mutex_t lock;
    MPI_Win win;
    int64_t *numbers; /* of the window, on rank 0 */
    size_t room;      /* numbers that the window holds */
    pthread_t helper; /* rank 0: lets MPI serve the others while this process computes */
    atomic_bool stop;
    MPI_Request *requests;
    size_t n_requests;
} ctx;

#define LOCKED(c, call) (pthread_mutex_lock(&(c)->lock), (call), pthread_mutex_unlock(&(c)->lock))

static void pause_for(long us) { nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL); }

/* Waits until all requests are done: tests them every few microseconds at first, then twenty thousand times a second,
 * at last a thousand times. */
static void wait_for(ctx *c, MPI_Request *requests, int n) {
    for (long looks = 0;; looks++) {
        int done;
        LOCKED(c, MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE));
        if (done) return;
        if (looks > 200) pause_for(looks > 4000 ? 1000 : 50);
    }
}

/* Gathers `bytes` of each rank into all [ranks, bytes] (vt_team_ops.gather). */
static void gather_from_ranks(void *ctx_, const void *mine, size_t bytes, void *all) {
    ctx *c = ctx_;
    MPI_Request r;
    LOCKED(c, MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD, &r));
    wait_for(c, &r, 1);
}

/* Sends rank root's bytes to all, in pieces that fit an int. */
static void broadcast_bytes(void *ctx_, int root, void *data, size_t bytes) {
    ctx *c = ctx_;
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
        MPI_Request r;
        LOCKED(c, MPI_Ibcast((char *)data + at, (int)n, MPI_BYTE, root, MPI_COMM_WORLD, &r));
        wait_for(c, &r, 1);
    }
}

/* Returns the number of pieces of at most CHUNK bytes in n messages. */
static size_t count_pieces(const vt_message *m, size_t n) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) k += (m[i].bytes + CHUNK - 1) / CHUNK;
    return k;
}

/* Begins sending or receiving the pieces of every message, as requests from number `at` on; returns the number after
 * them. */
static size_t begin_messages(ctx *c, const vt_message *m, size_t n, bool out, size_t at) {
    for (size_t i = 0; i < n; i++)
        for (size_t from = 0; from < m[i].bytes; from += CHUNK) {
            int k = (int)(m[i].bytes - from < CHUNK ? m[i].bytes - from : CHUNK);
            char *data = (char *)m[i].data + from;
            if (out)
                MPI_Isend(data, k, MPI_BYTE, m[i].rank, 0, MPI_COMM_WORLD, &c->requests[at++]);
            else
                MPI_Irecv(data, k, MPI_BYTE, m[i].rank, 0, MPI_COMM_WORLD, &c->requests[at++]);
        }
    return at;
}

/* Sends and receives all messages at once. */
static void exchange_messages(void *ctx_, const vt_message *out, size_t n_out, const vt_message *in, size_t n_in) {
    ctx *c = ctx_;
    size_t n = count_pieces(out, n_out) + count_pieces(in, n_in);
    if (n > c->n_requests) {
        MPI_Request *more = realloc(c->requests, n * sizeof *more);
        if (!more) MPI_Abort(MPI_COMM_WORLD, 1); /* some bytes a message; the other ranks cannot be informed */
        c->requests = more, c->n_requests = n;
    }
    LOCKED(c, begin_messages(c, out, n_out, true, begin_messages(c, in, n_in, false, 0)));
    wait_for(c, c->requests, (int)n);
}

/* Waits until all ranks are here, while other threads compute. */
static void wait_at_barrier(ctx *c) {
    MPI_Request r;
    LOCKED(c, MPI_Ibarrier(MPI_COMM_WORLD, &r));
    wait_for(c, &r, 1);
}

/* Sets n shared counters to 0; no rank adds between the two barriers. */
static bool reset_counters(void *ctx_, size_t n) {
    ctx *c = ctx_;
    wait_at_barrier(c);
    if (n > c->room) {
        MPI_Aint bytes = c->team.rank ? 0 : (MPI_Aint)(n * sizeof *c->numbers);
        pthread_mutex_lock(&c->lock);
        if (c->room) {
            MPI_Win_unlock_all(c->win);
            MPI_Win_free(&c->win);
        }
        MPI_Win_allocate(bytes, sizeof *c->numbers, MPI_INFO_NULL, MPI_COMM_WORLD, &c->numbers, &c->win);
        MPI_Win_lock_all(0, c->win);
        pthread_mutex_unlock(&c->lock);
        c->room = n;
    }
    if (!c->team.rank) {
        pthread_mutex_lock(&c->lock);
        memset(c->numbers, 0, n * sizeof *c->numbers);
        MPI_Win_sync(c->win);
        pthread_mutex_unlock(&c->lock);
    }
    wait_at_barrier(c);
    return true;
}

/* Adds to shared counter i; returns its value before. */
static int64_t fetch_and_add(void *ctx_, size_t i, int64_t by) {
    ctx *c = ctx_;
    int64_t before;
    pthread_mutex_lock(&c->lock);
    MPI_Fetch_and_op(&by, &before, MPI_INT64_T, 0, (MPI_Aint)i, MPI_SUM, c->win);
    MPI_Win_flush(0, c->win);
    pthread_mutex_unlock(&c->lock);
    return before;
}

/* Lets MPI make progress while this rank computes (a thread). */
static void *poll_mpi_progress(void *ctx_) {
    ctx *c = ctx_;
    while (!atomic_load(&c->stop)) {
        int any;
        LOCKED(c, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &any, MPI_STATUS_IGNORE));
        pause_for(500);
    }
    return NULL;
}

/* Open MPI, and what speaks PMIx or PMI (Slurm, MPICH). */
bool vt_ranks_launched(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return !getenv("VITRINE_ALONE");
    return false;
}

static const vt_team_ops ops = {gather_from_ranks, broadcast_bytes, exchange_messages, reset_counters, fetch_and_add};

/* Starts MPI; *out NULL: this is the only rank. The team lives as long as the process. */
static vt_status open_team(vt_team **out, vt_err *e) {
    static ctx c;
    int level;
    /* Open MPI prefers UCX for windows, and ends the job where UCX finds no network of its kind, as on plain TCP. What
     * it takes otherwise is fast enough for a counter. Other MPIs do not read this, and what the user has set stays. */
    setenv("OMPI_MCA_osc", "^ucx", 0);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    setenv("VITRINE_ALONE", "1", 1); /* what this process starts is not a rank */
    MPI_Comm_rank(MPI_COMM_WORLD, &c.team.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c.team.size);
    if (level < MPI_THREAD_SERIALIZED) return vt_fail(e, VT_E_USAGE, "this MPI was built without threads");
    if (c.team.size == 1) {
        MPI_Finalize();
        return VT_OK;
    }
    c.team.ops = &ops, c.team.ctx = &c;
    c.team.room = calloc((size_t)c.team.size, sizeof *c.team.room);
    pthread_mutex_init(&c.lock, NULL);
    if (!c.team.room || (!c.team.rank && pthread_create(&c.helper, NULL, poll_mpi_progress, &c)))
        MPI_Abort(MPI_COMM_WORLD, 1); /* no memory for a thread: nothing has begun */
    *out = &c.team;
    return VT_OK;
}

/* Sends stdout and stderr to /dev/null, if it opens: other ranks' failures reach the terminal through rank 0
 * (vt_team_agree). */
static void silence_output(void) {
    int nothing = open("/dev/null", O_WRONLY);
    fflush(NULL);
    if (nothing < 0) return;
    dup2(nothing, STDOUT_FILENO), dup2(nothing, STDERR_FILENO);
    close(nothing);
}

/* Fails for a rank that runs another build than rank 0 (vt_team_same). */
static vt_status fail_other_program(const void *unused, const char *first, const char *mine, vt_err *e) {
    (void)unused;
    return vt_fail(e, VT_E_USAGE, "runs another vitrine (SHA-256 %.12s...) than rank 0 (%.12s...)", mine, first);
}

/* Refuses ranks of another program than rank 0's: two builds need not agree to the last bit. */
vt_status vt_ranks_begin(vt_team **out, vt_err *e) {
    char mine[65];
    *out = NULL;
    if (vt_ranks_launched()) VT_TRY(open_team(out, e));
    if (!*out) return VT_OK;
    if ((*out)->rank) silence_output();
    VT_TRY(vt_team_agree(*out, vt_sha_file("/proc/self/exe", mine, e), e));
    return vt_team_same(*out, mine, fail_other_program, NULL, e);
}

void vt_ranks_end(vt_team *t) {
    if (!t) return;
    ctx *c = t->ctx;
    wait_at_barrier(c);
    if (!t->rank) {
        atomic_store(&c->stop, true);
        pthread_join(c->helper, NULL);
    }
    if (c->room) {
        MPI_Win_unlock_all(c->win);
        MPI_Win_free(&c->win);
    }
    free(c->requests), free(t->room);
    MPI_Finalize();
}
