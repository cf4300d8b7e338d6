/* SPDX-License-Identifier: MIT */
#include "cli/help.h"

#include <string.h>
#include "cli/streams.h"
#include "base/version.h"

static const char *const titles[VT_ABOUTS] = {"Run", "Model", "Data", "Threat", "Attack", "Output"};

/* What people use most comes first; commands without a place here are for developers. */
static const struct {
    const char *title, *names[16];
} sections[] = {
    {"Commands",
     {"eval", "curve", "compare", "show", "export", "verify", "selftest", "info", "doctor", "convert", "train", "merge",
      "new", "list"}},
    {"For papers", {"table", "analyze", "lab"}},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

/* Is the command listed in one of the sections? */
static bool has_place(const vt_command *c) {
    for (int s = 0; s < SECTIONS; s++)
        for (int i = 0; sections[s].names[i]; i++)
            if (!strcmp(sections[s].names[i], c->name)) return true;
    return false;
}

/* Prints one line of the list of commands: name and summary. */
static void print_command(FILE *f, const vt_command *c) { fprintf(f, "  %-11s %s\n", c->name, c->summary); }

void vt_help_all(FILE *f) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    vt_streams_wrap();
    fprintf(f, "vitrine %s: adversarial robustness of Vision Transformers\n\nUsage: vitrine COMMAND [OPTIONS]\n",
            VT_VERSION);
    for (int s = 0; s < SECTIONS; s++) {
        fprintf(f, "\n%s:\n", sections[s].title);
        for (int i = 0; sections[s].names[i]; i++) print_command(f, vt_command_find(sections[s].names[i]));
    }
    fputs("\nFor developers:\n", f);
    for (int i = 0; i < n; i++)
        if (!has_place(all[i])) print_command(f, all[i]);
    fputs("  help        this page; 'vitrine help COMMAND' for one command,\n"
          "              'vitrine help recipe' for the keys of a recipe\n\n"
          "Examples:\n"
          "  vitrine info weights/shapes10-vit\n"
          "  vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:50 \\\n    --eps 4/255 --attack "
          "pgd\n"
          "  vitrine list attacks\n\n"
          "eps and steps are in units of pixels in [0,1].\n"
          "Exit status 0 ok, 1 failed, 2 wrong usage.\n",
          f);
}

/* Prints the option with its value, then its help: on the same line if the first part is short. */
static void print_option(FILE *f, const vt_arg *a) {
    enum { LEFT = 26 };
    int n = fprintf(f, "  %s%s%s%s", strlen(a->name) == 1 ? "-" : "--", a->name, a->value ? " " : "",
                    a->value ? a->value : "");
    if (n > LEFT) n = fprintf(f, "\n") - 1;
    fprintf(f, "%*s%s\n", LEFT + 2 - n, "", a->help);
}

/* Prints the command's options, grouped by what they are about, run options last. */
static void print_options(FILE *f, const vt_command *c) {
    for (int i = 1; i <= VT_ABOUTS; i++) {
        bool begun = false;
        for (const vt_arg *a = c->args; a && a->name; a++) {
            if ((int)a->about != i % VT_ABOUTS) continue;
            if (!begun) fprintf(f, "\n%s:\n", titles[a->about]);
            print_option(f, a), begun = true;
        }
    }
}

/* Prints a command as lines that a shell runs as they stand, each of at most `most` characters before its backslash: a
 * long one continues after a backslash, before an option if one is near. */
static void print_example(FILE *f, const char *line, int most) {
    int left = most;
    for (const char *lead = "  "; (int)strlen(line) > left + 2; lead = "    ", left = most - 2) {
        int cut = 0, option = 0;
        for (int i = 1; i <= left; i++)
            if (line[i] == ' ') cut = i, option = line[i + 1] == '-' ? i : option;
        if (option) cut = option;
        if (!cut) break;
        fprintf(f, "%s%.*s \\\n", lead, cut, line);
        line += cut + 1;
    }
    fprintf(f, "%s%s\n", left < most ? "    " : "  ", line);
}

/* Follows the details of a command with `ranks`. */
static const char ranks[] = "Several processes can share the work, on one machine or many: mpirun -n N vitrine-mpi "
                            "with the same words (docs/cluster.md).";

void vt_help_command(FILE *f, const vt_command *c) {
    const int width = vt_streams_wrap();
    fprintf(f, "Usage: vitrine %s%s%s [OPTIONS]\n\n%s\n", c->name, c->operands ? " " : "",
            c->operands ? c->operands : "", c->summary);
    print_options(f, c);
    if (c->details) fprintf(f, "\n%s\n", c->details);
    if (c->ranks) fprintf(f, "\n%s\n", ranks);
    if (c->examples[0]) fputs("\nExamples:\n", f);
    for (int i = 0; c->examples[i]; i++) print_example(f, c->examples[i], width - 6);
}
