/* SPDX-License-Identifier: MIT */
#include "cli/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "core/files.h"
#include "core/text_stream.h"
#include "core/markup.h"

extern char **environ;

/* One size and one font for all; colours that the colour-blind can tell apart (Okabe and Ito 2008). */
static const char preamble[] = "set terminal svg size 900,600 fixed enhanced font 'Helvetica,Arial,sans-serif,13' "
                               "background '#ffffff' dashlength 1\n"
                               "set encoding utf8\n"
                               "set style line 1 lc rgb '#0072b2' lw 2 pt 7 ps 0.5\n"
                               "set style line 2 lc rgb '#d55e00' lw 2 pt 5 ps 0.5\n"
                               "set style line 3 lc rgb '#009e73' lw 2 pt 9 ps 0.6\n"
                               "set style line 4 lc rgb '#cc79a7' lw 2 pt 13 ps 0.6\n"
                               "set style line 5 lc rgb '#e69f00' lw 2 pt 11 ps 0.6\n"
                               "set style line 6 lc rgb '#56b4e9' lw 2 pt 6 ps 0.6\n"
                               "set style line 7 lc rgb '#000000' lw 2 pt 4 ps 0.6\n"
                               "set style line 8 lc rgb '#999999' lw 2 pt 8 ps 0.6\n"
                               "set style line 9 lc rgb '#dddddd' lw 1\n"
                               "set grid ls 9\n"
                               "set border lc rgb '#444444'\n";

/* gnuplot's full path in PATH, as execvp would find it. */
static bool find_gnuplot(char out[VT_PATH_MAX]) {
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/bin:/bin"; p; p = *p ? p + 1 : NULL) {
        size_t n = strcspn(p, ":");
        int len = snprintf(out, VT_PATH_MAX, "%.*s%sgnuplot", (int)n, p, n ? "/" : "");
        if (len < VT_PATH_MAX && access(out, X_OK) == 0) return true;
        p += n;
    }
    return false;
}

vt_status vt_plot_check(vt_err *e) {
    char path[VT_PATH_MAX];
    return find_gnuplot(path) ? VT_OK : vt_fail(e, VT_E_IO, "gnuplot is not installed (Debian: gnuplot-nox)");
}

bool vt_plot_available(void) { return vt_plot_check(NULL) == VT_OK; }

void vt_plot_quote(FILE *script, const char *text) {
    fputc('\'', script);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '\'')
            fputs("''", script);
        else
            fputc(*c < 32 || *c == 127 ? '?' : *c, script);
    fputc('\'', script);
}

static vt_status no_plot(const char *out, vt_err *e) {
    return vt_fail(e, VT_E_IO, "%s: gnuplot cannot be started: %s", out, strerror(errno));
}

/* A nameless file in memory: the script for gnuplot to read, what it draws, what it complains of. */
static int memory_file(const char *text) {
    int fd = memfd_create("vitrine-plot", MFD_CLOEXEC);
    size_t n = strlen(text), done = 0;
    while (fd >= 0 && done < n) {
        ssize_t k = write(fd, text + done, n - done);
        if (k > 0) done += (size_t)k;
        if (k < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
    }
    if (fd >= 0) lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Its exit status (-1: it could not be started or died of a signal, see errno); --default-settings: nobody's gnuplotrc.
 */
static int run_gnuplot(const char *program, int in, int out, int err) {
    char *argv[] = {"gnuplot", "--default-settings", NULL};
    posix_spawn_file_actions_t fds;
    pid_t pid;
    int why = posix_spawn_file_actions_init(&fds), status = 0;
    if (why == 0) {
        posix_spawn_file_actions_adddup2(&fds, in, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&fds, out, STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&fds, err, STDERR_FILENO);
        why = posix_spawn(&pid, program, &fds, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&fds);
    }
    errno = why;
    if (why != 0) return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The last line with a word in it. */
static void last_line(int fd, char *out, size_t size) {
    char text[4096];
    off_t end = lseek(fd, 0, SEEK_END), from = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    ssize_t n = pread(fd, text, sizeof text - 1, from);
    text[n > 0 ? n : 0] = 0;
    *out = 0;
    for (char *at, *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
        line += strspn(line, " \t^");
        if (*line) snprintf(out, size, "%s", line);
    }
}

/* All of a memory file, NULL without memory: to be freed. */
static char *read_memory_file(int fd) {
    off_t end = lseek(fd, 0, SEEK_END);
    char *text = end >= 0 ? malloc((size_t)end + 1) : NULL;
    ssize_t n = text ? pread(fd, text, (size_t)end, 0) : 0;
    if (text) text[n > 0 ? n : 0] = 0;
    return text;
}

static bool is_complete_svg(const char *svg) {
    const char *end = svg + strlen(svg);
    while (end > svg && (end[-1] == '\n' || end[-1] == '\r')) end--;
    return end - svg > 6 && !strncmp(end - 6, "</svg>", 6);
}

/* gnuplot calls every picture "Gnuplot": a reader who hears it should hear what it shows. */
static void put_svg(FILE *f, const char *svg, const char *title) {
    static const char theirs[] = "<title>Gnuplot</title>";
    const char *at = strstr(svg, theirs);
    if (!at) {
        fputs(svg, f);
        return;
    }
    fwrite(svg, 1, (size_t)(at - svg), f);
    fputs("<title>", f), vt_html(f, title), fputs("</title>", f);
    fputs(at + sizeof theirs - 1, f);
}

static vt_status draw_svg(const vt_file *svg, const char *title, const char *program, const int fd[3], vt_err *e) {
    int status = run_gnuplot(program, fd[0], fd[1], fd[2]);
    if (status < 0) return no_plot(svg->path, e);
    char said[300];
    last_line(fd[2], said, sizeof said);
    if (status != 0)
        return vt_fail(e, VT_E_IO, "%s: gnuplot failed with status %d: %s", svg->path, status,
                       *said ? said : "(it said nothing)");
    char *text = read_memory_file(fd[1]);
    if (!text) return vt_fail(e, VT_E_MEMORY, "%s: no memory for what gnuplot drew", svg->path);
    vt_status s = VT_OK;
    if (is_complete_svg(text))
        put_svg(svg->stream, text, title);
    else
        s = vt_fail(e, VT_E_IO, "%s: gnuplot wrote no complete SVG%s%s", svg->path, *said ? ": " : "", said);
    free(text);
    return s;
}

/* Preamble, title, body: to be freed. */
static char *whole_script(const char *title, const char *body) {
    vt_text_stream w;
    FILE *f = vt_text_stream_open(&w);
    if (!f) return vt_text_stream_close(&w);
    fputs(preamble, f);
    fputs("picture = ", f), vt_plot_quote(f, title);
    fprintf(f, "\nset title picture noenhanced\n%s\n", body);
    return vt_text_stream_close(&w);
}

vt_status vt_plot_svg(const char *out_svg, const char *title, const char *script_body, vt_err *e) {
    char program[VT_PATH_MAX];
    vt_file f;
    VT_TRY(vt_plot_check(e));
    find_gnuplot(program);
    VT_TRY(vt_file_begin_path(&f, out_svg, e));
    char *script = whole_script(title, script_body);
    const int fd[3] = {script ? memory_file(script) : -1, memory_file(""), memory_file("")};
    bool open = fd[0] >= 0 && fd[1] >= 0 && fd[2] >= 0;
    vt_status s = open ? draw_svg(&f, title, program, fd, e) : no_plot(out_svg, e);
    for (int i = 0; i < 3; i++)
        if (fd[i] >= 0) close(fd[i]);
    free(script);
    if (s == VT_OK) return vt_file_commit(&f, e);
    vt_file_abandon(&f);
    return s;
}

vt_status vt_plot_written(const char *out_svg, const char *title, void (*write)(FILE *script, const void *data),
                          const void *data, vt_err *e) {
    char *script;
    VT_TRY(vt_text_of(&script, write, data, out_svg, e));
    vt_status s = vt_plot_svg(out_svg, title, script, e);
    free(script);
    return s;
}
