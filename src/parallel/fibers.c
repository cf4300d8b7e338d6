/* SPDX-License-Identifier: MIT */
#include "parallel/fibers.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#elif defined __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

typedef enum state { EMPTY, READY, ASLEEP } state;

typedef struct slot {
    ucontext_t context;
    char *stack; /* VT_FIBER_STACK, above the page that cannot be touched */
    state state;
    size_t item;
    vt_status status;
    vt_err why;
    void *fiber; /* the sanitizer's handle of it */
} slot;

struct vt_fiber_pool {
    int slots, now; /* now: the fiber that runs */
    const vt_fiber_job *job;
    ucontext_t home;
    void *home_fiber;
    const void *home_stack;
    size_t home_size;
    bool inline_; /* one fiber: its item runs on the caller's stack */
    slot slot[];
};

/* ---- switching, of which sanitizers have to know ---- */

/* Runs fiber k until it sleeps or its item ends. */
static void switch_to_slot(vt_fiber_pool *l, int k) {
    slot *s = &l->slot[k];
    l->now = k;
#if defined __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&l->home_fiber, s->stack, VT_FIBER_STACK);
#elif defined __SANITIZE_THREAD__
    __tsan_switch_to_fiber(s->fiber, 0);
#endif
    swapcontext(&l->home, &s->context);
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(l->home_fiber, NULL, NULL);
#endif
}

/* Goes back to the thread's own stack; ends: this fiber's item has ended. */
static void switch_to_home(vt_fiber_pool *l, bool ends) {
    slot *s = &l->slot[l->now];
    (void)ends;
#if defined __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(ends ? NULL : &s->fiber, l->home_stack, l->home_size);
#elif defined __SANITIZE_THREAD__
    __tsan_switch_to_fiber(l->home_fiber, 0);
#endif
    swapcontext(&s->context, &l->home);
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(s->fiber, &l->home_stack, &l->home_size);
#endif
}

/* Runs the current fiber's item, and sets its status, why and state (EMPTY). makecontext passes ints: a pointer is two
 * of them. */
static void run_item(unsigned high, unsigned low) {
    vt_fiber_pool *l = (vt_fiber_pool *)(uintptr_t)((uint64_t)high << 32 | low); /* NOLINT */
    slot *s = &l->slot[l->now];
#if defined __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, &l->home_stack, &l->home_size);
#endif
    s->status = l->job->run(l->job->ctx, l->now, s->item, &s->why);
    s->state = EMPTY;
    switch_to_home(l, true);
}

/* Makes fiber k begin at run_item, on its own stack, when it is switched to. */
static void prepare_context(vt_fiber_pool *l, int k) {
    slot *s = &l->slot[k];
    uint64_t at = (uint64_t)(uintptr_t)l;
    getcontext(&s->context);
    s->context.uc_stack.ss_sp = s->stack, s->context.uc_stack.ss_size = VT_FIBER_STACK;
    s->context.uc_link = NULL;
    makecontext(&s->context, (void (*)(void))run_item, 2, (unsigned)(at >> 32), (unsigned)at);
}

/* ---- opening ---- */

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

size_t vt_fiber_bytes(int slots) {
    return sizeof(vt_fiber_pool) + (size_t)slots * (sizeof(slot) + (slots > 1 ? VT_FIBER_STACK + page_size() : 0));
}

/* Sets s->stack to a mapped stack with a page below it that cannot be touched. */
static vt_status map_stack(slot *s, vt_err *e) {
    size_t bytes = VT_FIBER_STACK + page_size();
    char *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return vt_fail(e, VT_E_MEMORY, "no memory for the stack of one more image (%zu KB)", bytes >> 10);
    s->stack = at + page_size();
    if (mprotect(at, page_size(), PROT_NONE) == 0) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory to guard the stack of one more image");
}

vt_status vt_fiber_open(vt_fiber_pool **out, int slots, vt_err *e) {
    *out = NULL;
    if (slots < 1 || slots > VT_FIBER_MOST)
        return vt_fail(e, VT_E_RANGE, "a pool of %d fibers; there may be 1 to %d", slots, VT_FIBER_MOST);
    vt_fiber_pool *l = calloc(1, sizeof *l + (size_t)slots * sizeof l->slot[0]);
    if (!l) return vt_fail(e, VT_E_MEMORY, "no memory for a pool of %d fibers", slots);
    l->slots = slots, l->inline_ = slots == 1;
    vt_status s = VT_OK;
    for (int i = 0; s == VT_OK && !l->inline_ && i < slots; i++) s = map_stack(&l->slot[i], e);
#if defined __SANITIZE_THREAD__
    for (int i = 0; s == VT_OK && !l->inline_ && i < slots; i++) l->slot[i].fiber = __tsan_create_fiber(0);
#endif
    if (s == VT_OK)
        *out = l;
    else
        vt_fiber_close(l);
    return s;
}

void vt_fiber_close(vt_fiber_pool *l) {
    if (!l) return;
    for (int i = 0; i < l->slots; i++) {
#if defined __SANITIZE_THREAD__
        if (l->slot[i].fiber) __tsan_destroy_fiber(l->slot[i].fiber);
#endif
        if (l->slot[i].stack) munmap(l->slot[i].stack - page_size(), VT_FIBER_STACK + page_size());
    }
    free(l);
}

/* ---- running ---- */

/* Runs all items of a pool of one fiber on the caller's stack. */
static vt_status run_inline(vt_fiber_pool *l, vt_err *e) {
    const vt_fiber_job *j = l->job;
    vt_status s = VT_OK;
    for (size_t item; s == VT_OK && j->next(j->ctx, 0, &item);) s = j->run(j->ctx, 0, item, e);
    return s;
}

/* Takes fiber k's next item, if there is one and s, the pool's status, is VT_OK: then it is READY to begin. */
static void load_next_item(vt_fiber_pool *l, int k, vt_status s) {
    slot *at = &l->slot[k];
    if (s != VT_OK || !l->job->next(l->job->ctx, k, &at->item)) return;
    at->state = READY, at->status = VT_OK, at->why = (vt_err){0};
    prepare_context(l, k);
}

/* Runs every fiber until it sleeps or no item is left for it; returns how many sleep. *s, VT_OK: set to the first
 * failure, with its sentence in *e. */
static int run_ready_slots(vt_fiber_pool *l, vt_status *s, vt_err *e) {
    int asleep = 0;
    for (int k = 0; k < l->slots; k++) {
        slot *at = &l->slot[k];
        if (at->state == EMPTY) load_next_item(l, k, *s);
        while (at->state == READY) {
            switch_to_slot(l, k);
            if (at->state != EMPTY) continue;
            if (at->status != VT_OK && *s == VT_OK) *s = vt_fail(e, at->status, "%s", at->why.text);
            load_next_item(l, k, *s);
        }
        asleep += at->state == ASLEEP;
    }
    return asleep;
}

vt_status vt_fiber_run(vt_fiber_pool *l, const vt_fiber_job *j, vt_err *e) {
    vt_status s = VT_OK;
    l->job = j;
    if (l->inline_) return run_inline(l, e);
#if defined __SANITIZE_THREAD__
    l->home_fiber = __tsan_get_current_fiber();
#endif
    while (run_ready_slots(l, &s, e)) j->serve(j->ctx);
    return s;
}

void vt_fiber_sleep(vt_fiber_pool *l) {
    if (l->inline_) {
        l->job->serve(l->job->ctx);
        return;
    }
    l->slot[l->now].state = ASLEEP;
    switch_to_home(l, false);
}

void vt_fiber_wake(vt_fiber_pool *l, int k) {
    if (!l->inline_) l->slot[k].state = READY;
}
