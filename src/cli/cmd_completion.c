/* SPDX-License-Identifier: MIT */
/* vitrine completion: what a shell may offer behind `vitrine`, as a script of that shell. Everything that it names is
 * printed from the tables of commands and options and from the registries of plug-ins. */
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/words.h"
#include "core/text_stream.h"
#include "core/version.h"

static const vt_command help = {.name = "help", .summary = "what a command takes", .operands = "TOPIC"};

/* Command i, help behind the last; NULL: no more. */
static const vt_command *command_at(int i) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    return i < n ? all[i] : i == n ? &help : NULL;
}

/* ---- one value ---- */

typedef struct value {
    vt_words_kind kind;
    bool paths;
    char *words; /* NULL where it has none */
} value;

/* Of c's option a, or of its operands where a is NULL. */
static vt_status value_of(value *v, const vt_command *c, const vt_arg *a, vt_err *e) {
    vt_text_stream w;
    FILE *f = vt_text_stream_open(&w);
    if (f) v->kind = vt_words(f, a ? a->value : c->operands, &v->paths);
    v->words = vt_text_stream_close(&w);
    return v->words ? VT_OK : vt_fail(e, VT_E_MEMORY, "the words of an option: no memory to put its text together");
}

/* Between single quotes of the shell, whose own are written so that sh and zsh (outside) or fish (inside) take them. */
static void write_quoted(FILE *f, const char *text, const char *quote, const char *special) {
    fputc('\'', f);
    for (; *text; text++)
        if (*text == '\'')
            fputs(quote, f);
        else
            fprintf(f, "%s%c", strchr(special, *text) ? "\\" : "", *text);
    fputc('\'', f);
}

/* ---- bash ---- */

static const char *const kinds[] = {[VT_WORDS_NONE] = "none",
                                    [VT_WORDS_FILE] = "path",
                                    [VT_WORDS_FOLDER] = "folder",
                                    [VT_WORDS_ONE] = "one",
                                    [VT_WORDS_LIST] = "list"};

static vt_status bash_value(FILE *f, const vt_command *c, const vt_arg *a, vt_err *e) {
    value v = {0};
    VT_TRY(value_of(&v, c, a, e));
    if (a)
        fprintf(f, "        '%s %s%s') kind=%s", c->name, strlen(a->name) == 1 ? "-" : "--", a->name, kinds[v.kind]);
    else
        fprintf(f, "        %s) kind=%s", c->name, kinds[v.kind]);
    if (v.paths && v.kind >= VT_WORDS_ONE) fputs(" also=path", f);
    if (*v.words) fprintf(f, " words='%s'", v.words + 1);
    fputs(" ;;\n", f);
    free(v.words);
    return VT_OK;
}

static vt_status write_bash_script(FILE *f, vt_err *e) {
    fputs("_vitrine() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
          "    local kind='' words='' also='' before=''\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -gt 2 ]; then\n"
          "        # --name=value comes as three words\n"
          "        if [ \"$current\" = = ]; then current=''; elif [ \"$previous\" = = ]; then "
          "previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        kind=one words='",
          f);
    const vt_command *c;
    for (int i = 0; (c = command_at(i)); i++) fprintf(f, "%s ", c->name);
    fputs("--help --version'\n    else\n        case \"$command $previous\" in\n", f);
    for (int i = 0; (c = command_at(i)); i++)
        for (const vt_arg *a = c->args; a && a->name; a++)
            if (a->value) VT_TRY(bash_value(f, c, a, e));
    fputs("        esac\n    fi\n"
          "    if [ -z \"$kind\" ] && [[ $current == -* ]]; then\n        kind=one\n        case $command in\n",
          f);
    for (int i = 0; (c = command_at(i)); i++) {
        fprintf(f, "        %s) words='", c->name);
        for (const vt_arg *a = c->args; a && a->name; a++)
            fprintf(f, "%s%s ", strlen(a->name) == 1 ? "-" : "--", a->name);
        fputs(c == &help ? "--man' ;;\n" : "--help' ;;\n", f);
    }
    fputs("        esac\n    fi\n    if [ -z \"$kind\" ]; then\n        case $command in\n", f);
    for (int i = 0; (c = command_at(i)); i++) VT_TRY(bash_value(f, c, NULL, e));
    fputs("        esac\n    fi\n"
          "    case $kind in\n"
          "    one) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
          "    list)\n"
          "        before=${current%\"${current##*[+,]}\"}\n"
          "        mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$words\" -- \"${current##*[+,]}\") ;;\n"
          "    esac\n"
          "    if [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
          "    if [ \"$kind\" = path ] || [ \"$kind\" = folder ] || { [ -n \"$also\" ] && [ ${#COMPREPLY[@]} -eq 0 ]; "
          "}; "
          "then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        if [ \"$kind\" = folder ]; then mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
          "        else mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); fi\n"
          "    fi\n"
          "}\n"
          "complete -F _vitrine vitrine\n",
          f);
    return VT_OK;
}

/* ---- zsh ---- */

/* Behind "message:", what _arguments does. */
static vt_status zsh_value(FILE *f, const vt_command *c, const vt_arg *a, vt_err *e) {
    value v = {0};
    VT_TRY(value_of(&v, c, a, e));
    const char *text = *v.words ? v.words + 1 : "";
    if (v.kind == VT_WORDS_FILE)
        fputs("_files", f);
    else if (v.kind == VT_WORDS_FOLDER)
        fputs("_files -/", f);
    else if (v.kind == VT_WORDS_LIST)
        fprintf(f, " _vitrine_list %s", text);
    else if (v.kind == VT_WORDS_ONE)
        fprintf(f, "%s %s", v.paths ? " _vitrine_or_files" : " _vitrine_one", text);
    else
        fputc(' ', f);
    free(v.words);
    return VT_OK;
}

static vt_status write_zsh_script(FILE *f, vt_err *e) {
    const vt_command *c;
    fputs("_vitrine_one() {\n"
          "    local -a keys=(${(M)@:#*=}) plain=(${@:#*=})\n"
          "    (( $#keys )) && compadd -S '' -- $keys\n"
          "    (( $#plain )) && compadd -- $plain\n"
          "}\n"
          "_vitrine_or_files() { _vitrine_one $@; _files }\n"
          "_vitrine_list() { compset -P '*[+,]'; compadd -- $@ }\n"
          "_vitrine() {\n"
          "    local -a commands=(\n",
          f);
    for (int i = 0; (c = command_at(i)); i++) {
        char line[400];
        snprintf(line, sizeof line, "%s:%s", c->name, c->summary);
        fputs("        ", f), write_quoted(f, line, "'\\''", ""), fputc('\n', f);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        if [[ $PREFIX == -* ]]; then compadd -- --help --version; else _describe command commands; fi\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          f);
    for (int i = 0; (c = command_at(i)); i++) {
        fprintf(f, "    (%s) _arguments \\\n", c->name);
        for (const vt_arg *a = c->args; a && a->name; a++) {
            bool one = strlen(a->name) == 1;
            fprintf(f, "        '*%s%s%s['", one ? "-" : "--", a->name, a->value && !one ? "=" : "");
            write_quoted(f, a->help, "'\\''", "[]:\\"), fputs("']", f);
            if (a->value) {
                fputs(":'", f), write_quoted(f, a->value, "'\\''", ":\\"), fputs("':", f);
                VT_TRY(zsh_value(f, c, a, e));
            }
            fputs("' \\\n", f);
        }
        fprintf(f, "        '%s' \\\n        '*:", c == &help ? "--man[as a manual page]" : "--help[what it takes]");
        fputs(c->operands ? "operand" : "none", f), fputc(':', f);
        VT_TRY(zsh_value(f, c, NULL, e));
        fputs("' ;;\n", f);
    }
    fputs("    esac\n}\n"
          "if [[ ${funcstack[1]-} == _vitrine ]]; then _vitrine \"$@\"; else compdef _vitrine vitrine; fi\n",
          f);
    return VT_OK;
}

/* ---- fish ---- */

static vt_status fish_value(FILE *f, const vt_command *c, const vt_arg *a, vt_err *e) {
    value v = {0};
    VT_TRY(value_of(&v, c, a, e));
    const char *text = *v.words ? v.words + 1 : "";
    const char *files = v.kind == VT_WORDS_FILE || (v.paths && v.kind == VT_WORDS_ONE) ? "-F" : "-f";
    fprintf(f, " %s%s", a ? "-r " : "", files);
    if (v.kind == VT_WORDS_FOLDER) fputs(" -a '(__fish_complete_directories)'", f);
    if (v.kind == VT_WORDS_LIST) fprintf(f, " -a '(__vitrine_list %s)'", text);
    if (v.kind == VT_WORDS_ONE) fprintf(f, " -a '%s'", text);
    free(v.words);
    return VT_OK;
}

static vt_status write_fish_script(FILE *f, vt_err *e) {
    const vt_command *c;
    fputs("function __vitrine_in\n"
          "    set -l words (commandline -opc)\n"
          "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
          "end\n"
          "function __vitrine_list\n"
          "    set -l word (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))\n"
          "    set -l before (string replace -r '[^+,]*$' '' -- $word)\n"
          "    for word in $argv\n"
          "        echo $before$word\n"
          "    end\n"
          "end\n"
          "complete -c vitrine -f\n"
          "complete -c vitrine -n 'test (count (commandline -opc)) -eq 1' -l version -d 'the version'\n"
          "complete -c vitrine -l help -d 'what it takes'\n",
          f);
    for (int i = 0; (c = command_at(i)); i++) {
        fprintf(f, "complete -c vitrine -n 'test (count (commandline -opc)) -eq 1' -a %s -d ", c->name);
        write_quoted(f, c->summary, "\\'", "\\"), fputc('\n', f);
        for (const vt_arg *a = c->args; a && a->name; a++) {
            fprintf(f, "complete -c vitrine -n '__vitrine_in %s' -%s %s", c->name, strlen(a->name) == 1 ? "s" : "l",
                    a->name);
            if (a->value) VT_TRY(fish_value(f, c, a, e));
            fputs(" -d ", f), write_quoted(f, a->help, "\\'", "\\"), fputc('\n', f);
        }
        fprintf(f, "complete -c vitrine -n '__vitrine_in %s'", c->name);
        VT_TRY(fish_value(f, c, NULL, e));
        fputc('\n', f);
    }
    return VT_OK;
}

/* ---- the command ---- */

static const struct {
    const char *name;
    vt_status (*write)(FILE *f, vt_err *e);
    const char *first;
} shells[] = {{"bash", write_bash_script, "#"},
              {"zsh", write_zsh_script, "#compdef vitrine\n#"},
              {"fish", write_fish_script, "#"}};

static vt_status run(const vt_cli *c, vt_err *e) {
    const char *name = c->positional[0];
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(name, shells[i].name)) {
            printf("%s completion of vitrine " VT_VERSION " for %s, written by `vitrine completion %s`\n",
                   shells[i].first, name, name);
            return shells[i].write(stdout, e);
        }
    return vt_fail(e, VT_E_USAGE, "vitrine completion: '%s' is not one of bash, zsh, fish", name);
}

const vt_command vt_command_completion = {
    .name = "completion",
    .summary = "a script by which a shell completes commands, options, attacks, presets",
    .operands = "bash|zsh|fish",
    .min_operands = 1,
    .max_operands = 1,
    .details =
        "bash: source <(vitrine completion bash), or the output as a file in\n"
        "/usr/share/bash-completion/completions. zsh: the output as the file _vitrine in a folder of fpath. fish:\n"
        "the output as ~/.config/fish/completions/vitrine.fish. `make install` puts all three where they belong.",
    .examples = {"vitrine completion bash >vitrine.bash", "vitrine completion fish >vitrine.fish"},
    .run = run,
};
