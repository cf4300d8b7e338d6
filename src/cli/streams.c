#include "cli/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "core/text.h"

typedef struct sink {
    int fd;
    vt_text_at at;
} sink;

static size_t write_all(int fd, const char *text, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t k = write(fd, text + done, n - done);
        if (k < 0 && errno != EINTR) break;
        if (k > 0) done += (size_t)k;
    }
    return done;
}

static ssize_t put(void *cookie, const char *text, size_t n) {
    sink *s = cookie;
    char piece[4096];
    for (size_t done = 0, k; done < n; done += k) {
        k = n - done < sizeof piece ? n - done : sizeof piece;
        memcpy(piece, text + done, k);
        vt_text_plain(piece, k, "\n\t", &s->at);
        if (write_all(s->fd, piece, k) < k) return 0;
    }
    return (ssize_t)n;
}

/* In place of `before`, which has printed nothing yet. */
static FILE *plain(sink *s, FILE *before, int buffering) {
    FILE *f = fopencookie(s, "w", (cookie_io_functions_t){.write = put});
    if (!f) return before;
    setvbuf(f, NULL, buffering, BUFSIZ);
    return f;
}

void vt_streams_open(void) {
    static sink out = {.fd = STDOUT_FILENO}, err = {.fd = STDERR_FILENO};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd ? O_RDONLY : O_WRONLY); /* the lowest that is free */
    stdout = plain(&out, stdout, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    stderr = plain(&err, stderr, _IONBF);
}
