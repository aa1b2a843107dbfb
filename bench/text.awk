# A file as a C string: awk -v name=IDENTIFIER -f text.awk FILE
BEGIN {
    print "/* Made by bench/text.awk. */"
    printf "extern const char %s[];\nconst char %s[] =", name, name
}
{
    gsub(/\\/, "\\\\")
    gsub(/"/, "\\\"")
    printf "\n    \"%s\\n\"", $0
}
END { print ";" }
