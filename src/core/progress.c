#include "core/progress.h"

#include <stdio.h>
#include <time.h>

double vt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void vt_progress_begin(vt_progress *p, const char *stage, size_t done, size_t total) {
    snprintf(p->stage, sizeof p->stage, "%s", stage);
    p->done = p->start = done, p->total = total;
    p->began = p->shown = vt_now();
}

static void show(vt_progress *p, const char *note, bool last) {
    double seconds = vt_now() - p->began;
    double rate = seconds > 0 ? (double)(p->done - p->start) / seconds : 0;
    char text[200], left[32] = "";
    if (rate > 0 && !last) {
        double s = (double)(p->total - p->done) / rate;
        if (s < 100)
            snprintf(left, sizeof left, ", %.0f s left", s);
        else if (s < 6000)
            snprintf(left, sizeof left, ", %.0f min left", s / 60);
        else
            snprintf(left, sizeof left, ", %.1f h left", s / 3600);
    }
    const char *unit = p->unit ? p->unit : "images";
    snprintf(text, sizeof text, "%-12s %zu of %zu %s%s%s, %.3g %s/s%s", p->stage, p->done, p->total, unit,
             note ? ", " : "", note ? note : "", rate, unit, left);
    p->show(p->ctx, text, p->live && !last);
}

void vt_progress_step(vt_progress *p, size_t done, const char *note) {
    p->done = done;
    double now = vt_now();
    if (!p->show || now - p->shown < (p->live ? 0.1 : 30)) return;
    p->shown = now;
    show(p, note, false);
}

void vt_progress_end(vt_progress *p, const char *note) {
    if (p->show && (p->live || vt_now() - p->began >= 30)) show(p, note, true);
}

vt_status vt_alive(const volatile sig_atomic_t *interrupt, const char *what, vt_err *e) {
    if (!interrupt || !*interrupt) return VT_OK;
    return vt_fail(e, VT_INTERRUPTED, "interrupted; %s keeps nothing half done", what);
}
