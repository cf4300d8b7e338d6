#include "core/threads.h"

#include <omp.h>
#include <stdatomic.h>

int vt_cpu_count(void) { return omp_get_num_procs(); }

vt_status vt_for_each(size_t n, int threads, vt_item_fn fn, void *ctx, vt_err *e) {
    atomic_size_t next = 0;
    atomic_int first = VT_OK;
    if ((size_t)threads > n) threads = n ? (int)n : 1;
#pragma omp parallel num_threads(threads)
    {
        size_t i;
        while (atomic_load(&first) == VT_OK && (i = atomic_fetch_add(&next, 1)) < n) {
            vt_err mine = {0};
            vt_status s = fn(ctx, omp_get_thread_num(), i, &mine);
            int none = VT_OK;
            if (s != VT_OK && atomic_compare_exchange_strong(&first, &none, (int)s) && e) *e = mine;
        }
    }
    return (vt_status)atomic_load(&first);
}
