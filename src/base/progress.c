/* SPDX-License-Identifier: MIT */
#include "base/progress.h"

#include <stdio.h>
#include <time.h>

double vt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *vt_duration(double seconds, char *buf, size_t size) {
    if (seconds < 100)
        snprintf(buf, size, "%.0f s", seconds);
    else if (seconds < 6000)
        snprintf(buf, size, "%.0f min", seconds / 60);
    else
        snprintf(buf, size, "%.1f h", seconds / 3600);
    return buf;
}

void vt_progress_begin(vt_progress *p, const char *stage, size_t done, size_t total) {
    snprintf(p->stage, sizeof p->stage, "%s", stage);
    p->done = p->start = done, p->total = total;
    p->began = p->shown = vt_now(), p->left = 0;
}

/* Shows stage, counts, note, rate and, unless last, the time left: the run's (p->left) if known, else the stage's. */
static void show_progress(vt_progress *p, const char *note, bool last) {
    double seconds = vt_now() - p->began;
    double rate = seconds > 0 ? (double)(p->done - p->start) / seconds : 0;
    char text[200], left[40] = "", time[24];
    if (p->left > 0 && !last)
        snprintf(left, sizeof left, ", run %s left", vt_duration(p->left, time, sizeof time));
    else if (rate > 0 && !last)
        snprintf(left, sizeof left, ", %s left", vt_duration((double)(p->total - p->done) / rate, time, sizeof time));
    snprintf(text, sizeof text, "%-12s %zu of %zu%s%s, %.3g %s/s%s", p->stage, p->done, p->total, note ? ", " : "",
             note ? note : "", rate, p->unit ? p->unit : "images", left);
    p->show(p->ctx, text, p->live && !last);
}

void vt_progress_step(vt_progress *p, size_t done, const char *note) {
    p->done = done;
    double now = vt_now();
    if (!p->show || now - p->shown < (p->live ? 0.1 : 30)) return;
    p->shown = now;
    show_progress(p, note, false);
}

void vt_progress_end(vt_progress *p, const char *note) {
    if (p->show && (p->live || vt_now() - p->began >= 30)) show_progress(p, note, true);
}

vt_status vt_check_interrupt(const volatile sig_atomic_t *interrupt, const char *what, vt_err *e) {
    if (!interrupt || !*interrupt) return VT_OK;
    return vt_fail(e, VT_INTERRUPTED, "interrupted; %s keeps nothing half done", what);
}
