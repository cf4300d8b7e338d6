/* SPDX-License-Identifier: MIT */
/* Memory that runs out, for one allocation at a time. This program's own malloc and its kin stand before the C
 * library's (and before a sanitizer's, which they then ask): so they see what the program asks for and what libraries
 * ask for in its name, jansson's values and libyaml's events and the C library's strdup and fopen alike, which the
 * linker's --wrap would not. A call is run once to list its sites, a site being a chain of return addresses; then
 * again for each of them, in a process of its own, with that allocation refused. */
#ifndef SCARCE_H
#define SCARCE_H

#include "t.h"

#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define SCARCE_REAL(name) __interceptor_##name
/* Leaks are counted here; the sanitizer would count the dynamic linker's, which it knows by the malloc they ask. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }
#else
#define SCARCE_REAL(name) __libc_##name
#endif
/* These run before a sanitizer is ready for what it watches. */
#define SCARCE_EARLY __attribute__((no_sanitize("address", "undefined")))
extern void *SCARCE_REAL(malloc)(size_t);
extern void *SCARCE_REAL(calloc)(size_t, size_t);
extern void *SCARCE_REAL(realloc)(void *, size_t);
extern void *SCARCE_REAL(memalign)(size_t, size_t);
extern void SCARCE_REAL(free)(void *);

enum { SCARCE_DEEP = 40, SCARCE_SITES = 6000, SCARCE_SLOTS = 1 << 16 };

typedef struct scarce_site {
    uint64_t chain;
    uint32_t first, last; /* the number of the allocation, from 1 */
    int depth;
    void *frames[SCARCE_DEEP];
} scarce_site;

/* What a process tells the one that started it. */
typedef struct scarce_told {
    uint32_t allocations, n, refused; /* refused: the number of the allocation that was; 0: none */
    uint32_t lost;
    struct scarce_site lost_at; /* one of them, where that is wanted */
    vt_status status;
    vt_err why;
    scarce_site sites[SCARCE_SITES];
} scarce_told;

/* Libraries that end the process where memory ends: their allocations are let through. oneDNN, with C++ below it,
 * throws where nobody catches; OpenBLAS asks again until it gets; OpenMP's runtime exits; the dynamic linker too. */
static const char *const scarce_spared[] = {"libdnnl",     "libopenblas", "libgomp",  "libstdc++",
                                            "libgfortran", "libOpenCL",   "ld-linux", "libgcc_s"};

static struct { uintptr_t from, to; } scarce_objects[64];
static int scarce_n_objects;

static struct {
    bool on, listing, tracing, inside; /* tracing: what is lost is told with its chain */
    uint32_t at, target;
    uint64_t chain; /* of the target */
    const void *base;
} scarce;
static struct {
    void *p;
    scarce_site *by;
} scarce_live[SCARCE_SLOTS]; /* where what is not freed yet was asked for */
static scarce_told *scarce_told_at;
static _Thread_local bool scarce_mine; /* only of the thread that runs the call */

static int scarce_object(struct dl_phdr_info *o, size_t size, void *ctx) {
    (void)size, (void)ctx;
    for (size_t i = 0; i < T_COUNT(scarce_spared); i++)
        for (int k = 0; strstr(o->dlpi_name, scarce_spared[i]) && k < o->dlpi_phnum; k++) {
            if (o->dlpi_phdr[k].p_type != PT_LOAD || scarce_n_objects == (int)T_COUNT(scarce_objects)) continue;
            scarce_objects[scarce_n_objects].from = o->dlpi_addr + o->dlpi_phdr[k].p_vaddr;
            scarce_objects[scarce_n_objects++].to = o->dlpi_addr + o->dlpi_phdr[k].p_vaddr + o->dlpi_phdr[k].p_memsz;
        }
    return 0;
}

SCARCE_EARLY static bool scarce_is_spared(void *const *frames, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < scarce_n_objects; k++)
            if ((uintptr_t)frames[i] >= scarce_objects[k].from && (uintptr_t)frames[i] < scarce_objects[k].to)
                return true;
    return false;
}

/* The chain of calls below the one that is tried; a loop that calls itself counts once. 0: spared. */
static uint64_t scarce_chain(const void *from, void **frames, int *depth) {
    void *all[SCARCE_DEEP + 4];
    int n = backtrace(all, SCARCE_DEEP + 4), kept = 0;
    uint64_t h = 14695981039346656037u;
    *depth = 0;
    if (scarce_is_spared(all, n)) return 0;
    int i = 0;
    while (i < n && all[i] != from) i++;
    for (; i < n && all[i] != scarce.base; i++) {
        if (kept && frames[kept - 1] == all[i]) continue;
        frames[kept++] = all[i];
        h = (h ^ (uintptr_t)all[i]) * 1099511628211u;
    }
    *depth = kept;
    return h ? h : 1;
}

static void scarce_list(const void *from) {
    void *frames[SCARCE_DEEP + 4];
    int depth;
    uint64_t h = scarce_chain(from, frames, &depth);
    scarce_told *t = scarce_told_at;
    uint32_t i = 0;
    if (!h) return;
    while (i < t->n && t->sites[i].chain != h) i++;
    if (i == SCARCE_SITES) abort();
    if (i == t->n) {
        t->sites[t->n++] = (scarce_site){.chain = h, .first = scarce.at, .depth = depth};
        memcpy(t->sites[i].frames, frames, sizeof t->sites[i].frames);
    }
    t->sites[i].last = scarce.at;
}

#define SCARCE_HERE __builtin_return_address(0)

/* Counts one more allocation; true: it is refused. */
SCARCE_EARLY __attribute__((noinline)) static bool scarce_refuses(const void *from) {
    bool no = false;
    if (!scarce.on || !scarce_mine || scarce.inside || scarce_is_spared((void *const *)&from, 1)) return false;
    scarce.inside = true;
    scarce.at++;
    if (scarce.listing) scarce_list(from);
    if (scarce.target && scarce.at >= scarce.target && !scarce_told_at->refused) {
        void *frames[SCARCE_DEEP + 4];
        int depth;
        no = scarce_chain(from, frames, &depth) == scarce.chain; /* else it comes a little later than it did */
        if (no) scarce_told_at->refused = scarce.at;
    }
    scarce.inside = false;
    if (no) errno = ENOMEM;
    return no;
}

SCARCE_EARLY static size_t scarce_slot(const void *p) {
    return (size_t)(((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15u >> 48);
}

SCARCE_EARLY static void *scarce_note(const void *from, void *p) {
    if (!p || !scarce.on || !scarce_mine || scarce.inside || scarce_is_spared((void *const *)&from, 1)) return p;
    size_t i = scarce_slot(p);
    for (size_t k = 0; scarce_live[i].p && k < SCARCE_SLOTS; k++) i = (i + 1) % SCARCE_SLOTS;
    scarce_live[i].p = p, scarce_live[i].by = NULL;
    if (scarce.tracing && (scarce_live[i].by = SCARCE_REAL(malloc)(sizeof(scarce_site)))) {
        scarce.inside = true;
        scarce_chain(from, scarce_live[i].by->frames, &scarce_live[i].by->depth);
        scarce.inside = false;
    }
    return p;
}

/* Slots behind it move up, so that every search ends at the first empty one. */
SCARCE_EARLY static void scarce_forget(const void *p) {
    if (!p || !scarce.on || !scarce_mine) return;
    size_t i = scarce_slot(p), hole;
    while (scarce_live[i].p && scarce_live[i].p != p) i = (i + 1) % SCARCE_SLOTS;
    if (!scarce_live[i].p) return;
    for (hole = i; scarce_live[i = (i + 1) % SCARCE_SLOTS].p;) {
        size_t home = scarce_slot(scarce_live[i].p);
        if ((i - home) % SCARCE_SLOTS >= (i - hole) % SCARCE_SLOTS) scarce_live[hole] = scarce_live[i], hole = i;
    }
    scarce_live[hole].p = NULL;
}

SCARCE_EARLY __attribute__((noinline)) void *malloc(size_t n) {
    return scarce_refuses(SCARCE_HERE) ? NULL : scarce_note(SCARCE_HERE, SCARCE_REAL(malloc)(n));
}
SCARCE_EARLY __attribute__((noinline)) void *calloc(size_t n, size_t size) {
    return scarce_refuses(SCARCE_HERE) ? NULL : scarce_note(SCARCE_HERE, SCARCE_REAL(calloc)(n, size));
}
SCARCE_EARLY __attribute__((noinline)) void *realloc(void *p, size_t n) {
    if (scarce_refuses(SCARCE_HERE)) return NULL;
    scarce_forget(p);
    return scarce_note(SCARCE_HERE, SCARCE_REAL(realloc)(p, n));
}
SCARCE_EARLY __attribute__((noinline)) void *memalign(size_t align, size_t n) {
    return scarce_refuses(SCARCE_HERE) ? NULL : scarce_note(SCARCE_HERE, SCARCE_REAL(memalign)(align, n));
}
SCARCE_EARLY __attribute__((noinline)) void *aligned_alloc(size_t align, size_t n) {
    return scarce_refuses(SCARCE_HERE) ? NULL : scarce_note(SCARCE_HERE, SCARCE_REAL(memalign)(align, n));
}
SCARCE_EARLY __attribute__((noinline)) int posix_memalign(void **out, size_t align, size_t n) {
    if (scarce_refuses(SCARCE_HERE)) return ENOMEM;
    *out = scarce_note(SCARCE_HERE, SCARCE_REAL(memalign)(align, n));
    return *out ? 0 : ENOMEM;
}
SCARCE_EARLY void free(void *p) {
    scarce_forget(p);
    SCARCE_REAL(free)(p);
}
#ifndef __SANITIZE_ADDRESS__
__attribute__((noinline)) void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    if (scarce_refuses(SCARCE_HERE)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
#endif

typedef vt_status (*scarce_call)(const void *ctx, vt_err *e);

/* Its frame is the lowest of every chain. */
__attribute__((noinline)) static vt_status scarce_run(scarce_call call, const void *ctx, vt_err *e) {
    scarce.base = __builtin_return_address(0);
    scarce.on = scarce_mine = true;
    vt_status s = call(ctx, e);
    scarce.on = false;
    return s;
}

static void scarce_tell(vt_status s, const vt_err *e) {
    scarce_told *t = scarce_told_at;
    t->status = s, t->why = *e, t->allocations = scarce.at;
    for (size_t i = 0; i < SCARCE_SLOTS; i++)
        if (scarce_live[i].p && !(scarce_live[i].by && !scarce_live[i].by->depth) && ++t->lost && scarce_live[i].by)
            t->lost_at = *scarce_live[i].by;
}

/* Runs the call in a process of its own, its allocation number `target` (of this chain) refused; 0: none, and where
 * `listing` all sites are listed. `again`: the call is made once more behind it, with all the memory, and must do. The
 * process's end, as waitpid has it. */
static int scarce_try(scarce_call call, const void *ctx, bool listing, const scarce_site *site, uint32_t target,
                      bool again, bool tracing) {
    scarce_told_at->refused = scarce_told_at->lost = 0;
    if (listing) scarce_told_at->n = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) return -1;
    if (pid == 0) {
        vt_err e = {0}, more = {0};
        for (int i = 1; i < 32; i++) signal(i, SIG_DFL); /* cmocka would go on with its next test here */
        alarm(60);                                       /* seconds of a call that hangs */
        scarce.listing = listing, scarce.tracing = tracing, scarce.target = target,
        scarce.chain = site ? site->chain : 0;
        scarce_tell(scarce_run(call, ctx, &e), &e);
        fflush(NULL);
        if (again && call(ctx, &more) != VT_OK) _exit(3);
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static void scarce_begin(void) {
    void *frame[2];
    scarce_told_at = mmap(NULL, sizeof *scarce_told_at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scarce_told_at != MAP_FAILED);
    backtrace(frame, 2); /* its first call loads a library */
    dl_iterate_phdr(scarce_object, NULL);
}

enum { SCARCE_INNER = 8, SCARCE_KNOWN = 1 << 15 };

/* Has an allocation been refused before whose innermost calls are the same? Then this one is passed over, so that what
 * many paths share is tried once. */
static bool scarce_known(const scarce_site *s) {
    static uint64_t all[SCARCE_KNOWN];
    uint64_t h = 14695981039346656037u;
    for (int i = 0; i < s->depth && i < SCARCE_INNER; i++) h = (h ^ (uintptr_t)s->frames[i]) * 1099511628211u;
    size_t i = h % SCARCE_KNOWN;
    while (all[i] && all[i] != h) i = (i + 1) % SCARCE_KNOWN;
    if (all[i]) return true;
    all[i] = h;
    return false;
}

/* Functions, files and lines of a chain, for a person. */
static void scarce_show(const scarce_site *s) {
    char command[200 + SCARCE_DEEP * 20];
    setenv("PATH", "/usr/bin:/bin", 1);
    int n = snprintf(command, sizeof command, "addr2line -fpsie /proc/%d/exe", getpid());
    extern const char __executable_start;
    for (int i = 0; i < s->depth && i < 12; i++)
        n += snprintf(command + n, sizeof command - (size_t)n, " %#lx",
                      (unsigned long)((uintptr_t)s->frames[i] - (uintptr_t)&__executable_start - 1));
    snprintf(command + n, sizeof command - (size_t)n, " | grep -v '^[?]' >&2");
    if (system(command) != 0) print_error("(no addr2line: %s)\n", command);
}

#endif
