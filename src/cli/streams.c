/* SPDX-License-Identifier: MIT */
#include "cli/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "cli/ranks.h"
#include "base/text.h"

enum { NARROW = 40, USUAL = 80, HANG_MOST = 32 };

typedef struct sink {
    int fd;
    bool tty;
    vt_text_at at;
    int width;     /* lines are broken at it; 0: not */
    int col, hang; /* where the line stands, where its continuation begins */
    int gap;       /* spaces that stand before the next word */
    char last;     /* the last character before them */
    bool command;  /* the line holds a command to be copied: where it is broken, a backslash says that it goes on */
    size_t n;
    char piece[4096];
} sink;

static sink out = {.fd = STDOUT_FILENO}, err = {.fd = STDERR_FILENO};
static int live; /* characters of the line of progress that stands on the terminal */

/* Writes n bytes, again after interrupts. Returns how many were written. */
static size_t write_all(int fd, const char *text, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t k = write(fd, text + done, n - done);
        if (k < 0 && errno != EINTR) break;
        if (k > 0) done += (size_t)k;
    }
    return done;
}

/* Writes out the buffered piece; false: not all of it. */
static bool flush_sink(sink *s) {
    bool whole = write_all(s->fd, s->piece, s->n) == s->n;
    s->n = 0;
    return whole;
}

/* ---- lines that end before the terminal's right edge ---- */

/* Appends bytes to the sink's buffer. */
static bool write_buffered(sink *s, const char *text, size_t n) {
    if (s->n + n > sizeof s->piece && !flush_sink(s)) return false;
    if (n > sizeof s->piece) return write_all(s->fd, text, n) == n;
    memcpy(s->piece + s->n, text, n);
    s->n += n;
    return true;
}

/* Appends n spaces and moves the column. */
static bool write_spaces(sink *s, int n) {
    bool good = true;
    for (int i = 0; i < n && good; i++) good = write_buffered(s, " ", 1);
    s->col += n;
    return good;
}

/* Ends the line. */
static bool write_newline(sink *s) {
    s->col = s->gap = 0, s->last = 0;
    return write_buffered(s, "\n", 1);
}

/* Returns the columns of n bytes of UTF-8: those bytes that begin a character. */
static int text_width(const char *text, size_t n) {
    int width = 0;
    for (size_t i = 0; i < n; i++) width += ((unsigned char)text[i] & 0xC0) != 0x80;
    return width;
}

/* Sets the column at which this line would continue: at its indent, or, as in a list of terms, after two spaces near
 * the left. */
static void set_hang(sink *s) {
    if (!s->col)
        s->hang = s->gap;
    else if (s->gap >= 2 && s->col + s->gap <= HANG_MOST)
        s->hang = s->col + s->gap;
    if (s->hang > s->width / 2) s->hang = s->width / 2;
}

/* Appends a word after the pending spaces, on a new line if it does not fit. */
static bool write_word(sink *s, const char *text, size_t n) {
    bool good = true;
    if (s->col + s->gap + text_width(text, n) > s->width - 2 * s->command && s->col > s->hang)
        good = (!s->command || write_buffered(s, " \\", 2)) && write_newline(s) && write_spaces(s, s->hang);
    else
        good = write_spaces(s, s->gap);
    s->gap = 0, s->last = text[n - 1];
    s->col += text_width(text, n);
    return good && write_buffered(s, text, n);
}

/* Appends a word; one that no line could hold is broken after its commas. */
static bool break_and_write_word(sink *s, const char *text, size_t n) {
    set_hang(s);
    bool whole = s->command || text_width(text, n) <= s->width - s->hang;
    for (size_t at = 0, k; at < n; at += k) {
        const char *comma = memchr(text + at, ',', n - at);
        k = whole || !comma ? n - at : (size_t)(comma - text) - at + 1;
        if (!write_word(s, text + at, k)) return false;
    }
    return true;
}

/* Does a command begin here: "vitrine eval ... --data ...", at the line's start or behind a colon or question mark, to
 * the line's end? */
static bool begins_command(const sink *s, const char *text, size_t n) {
    char line[2048];
    const char *end = memchr(text, '\n', n);
    snprintf(line, sizeof line, "%.*s",
             (int)(end               ? end - text
                   : n < sizeof line ? (long)n
                                     : (long)sizeof line - 1),
             text);
    return (!s->last || strchr(":?", s->last)) && !strncmp(line, "vitrine ", 8) && strstr(line, " --") &&
           !strstr(line, ", ") && !strchr(line, ';');
}

/* Appends text broken between words at the sink's width, and flushes it. */
static bool write_wrapped(sink *s, const char *text, size_t n) {
    bool good = true;
    for (size_t i = 0, k; i < n && good; i += k) {
        k = 1;
        if (text[i] == '\n') {
            good = write_newline(s);
            s->command = false;
        } else if (text[i] == ' ') {
            s->gap++;
        } else {
            while (i + k < n && text[i + k] != ' ' && text[i + k] != '\n') k++;
            s->command = s->command || begins_command(s, text + i, n - i);
            good = break_and_write_word(s, text + i, k);
        }
    }
    return good && flush_sink(s);
}

/* ---- the two streams ---- */

/* Ends a standing line of progress before anything else is printed on its terminal. */
static void end_live(const sink *s) {
    if (live && s->tty) write_all(STDERR_FILENO, "\n", 1), live = 0;
}

/* Writes text to a stream's sink, without control characters (fopencookie's write). */
static ssize_t write_to_sink(void *cookie, const char *text, size_t n) {
    sink *s = cookie;
    char piece[4096];
    if (n) end_live(s);
    for (size_t done = 0, k; done < n; done += k) {
        k = n - done < sizeof piece ? n - done : sizeof piece;
        memcpy(piece, text + done, k);
        vt_text_plain(piece, k, "\n\t", &s->at);
        if (!(s->width ? write_wrapped(s, piece, k) : write_all(s->fd, piece, k) == k)) return 0;
    }
    return (ssize_t)n;
}

/* Returns a stream that writes through the sink, in place of `before`, which has printed nothing yet; without memory,
 * `before`. */
static FILE *open_sink_stream(sink *s, FILE *before) {
    FILE *f = fopencookie(s, "w", (cookie_io_functions_t){.write = write_to_sink});
    s->tty = isatty(s->fd) && !vt_ranks_launched(); /* mpirun's own is between, which passes everything on */
    if (!f) return before;
    setvbuf(f, NULL, s == &err ? _IONBF : s->tty ? _IOLBF : _IOFBF, BUFSIZ);
    return f;
}

void vt_streams_open(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd ? O_RDONLY : O_WRONLY); /* the lowest that is free */
    stdout = open_sink_stream(&out, stdout);
    stderr = open_sink_stream(&err, stderr);
    if (out.tty) out.width = vt_streams_width();
}

int vt_streams_width(void) {
    struct winsize w;
    if (ioctl(out.tty ? STDOUT_FILENO : STDERR_FILENO, TIOCGWINSZ, &w) != 0 || !w.ws_col) return USUAL;
    return w.ws_col < NARROW ? NARROW : w.ws_col;
}

int vt_streams_wrap(void) {
    int width = out.tty ? vt_streams_width() : USUAL;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* so that no word is cut by a full buffer */
    return out.width = width < USUAL ? width : USUAL;
}

/* ---- what a terminal shall obey ---- */

void vt_streams_style(FILE *f, vt_style style) {
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[32m", "\033[31m"};
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    if (f != stdout || !out.tty || (none && *none) || !term || !*term || !strcmp(term, "dumb")) return;
    fflush(f);
    if (out.gap) write_spaces(&out, out.gap), out.gap = 0, flush_sink(&out); /* those before it */
    write_all(out.fd, codes[style], strlen(codes[style]));
}

void vt_streams_live(const char *text, bool last) {
    char line[512];
    int width = vt_streams_width() - 1; /* a full line would put the cursor into the next one */
    if (!err.tty) {
        fprintf(stderr, "%s\n", text);
        return;
    }
    vt_text_line(line, sizeof line, text);
    int n = (int)strlen(line) < width || last ? (int)strlen(line) : width;
    dprintf(STDERR_FILENO, "\r%.*s%*s%s", n, line, live > n ? live - n : 0, "", last ? "\n" : "");
    live = last ? 0 : n;
}

FILE *vt_streams_mute(void) {
    FILE *before = stdout, *nowhere = fopen("/dev/null", "w");
    if (!nowhere) return NULL;
    stdout = nowhere;
    return before;
}
