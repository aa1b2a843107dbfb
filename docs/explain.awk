# Makes docs/explain_pages.c: the rows of all tables named in docs/all_diags.def, each with the text of its page.
# Usage: awk -f docs/explain.awk -v root=SRCDIR   (writes to standard output; any POSIX awk)

function text_of(code,    path, line, out) {
    path = root "/docs/explain/PL" code ".md"
    out = ""
    while ((getline line < path) > 0) {
        gsub(/\\/, "\\\\", line)
        gsub(/"/, "\\\"", line)
        gsub(/\t/, "    ", line)
        gsub(/\?\?/, "?\\?", line)
        out = out "\n     \"" line "\\n\""
    }
    close(path)
    return out == "" ? " \"\"" : out
}

function read_table(path,    line, parts, fields) {
    while ((getline line < path) > 0)
        if (line ~ /^DIAG\(/) {
            sub(/^DIAG\(/, "", line)
            split(line, fields, /, */)
            ids[fields[1] + 0] = fields[2]
            severities[fields[1] + 0] = tolower(fields[3])
            codes[n++] = fields[1] + 0
        }
    close(path)
}

BEGIN {
    n = 0
    while ((getline line < (root "/docs/all_diags.def")) > 0)
        if (line ~ /^#include "/) {
            split(line, quoted, "\"")
            read_table(root "/" quoted[2])
        }
    for (i = 1; i < n; i++) # insertion sort: a few hundred rows, nearly sorted
        for (j = i; j > 0 && codes[j - 1] > codes[j]; j--) {
            t = codes[j]; codes[j] = codes[j - 1]; codes[j - 1] = t
        }
    print "/* Made by docs/explain.awk. */"
    print "#include \"docs/explain.h\"\n"
    print "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n"
    print "const struct pl_explain pl_explains[] = {"
    for (i = 0; i < n; i++)
        printf "    {%d, \"%s\", \"%s\",%s},\n", codes[i], ids[codes[i]], severities[codes[i]], text_of(codes[i])
    print "};\nconst size_t pl_n_explains = sizeof pl_explains / sizeof pl_explains[0];"
}
