# The main loop of a kernel in what nvdisasm -c prints: the smallest loop around each instruction that matches `what`, and of these
# the one with the most of them. Prints: instructions in it, those that match, the others for each that matches, barriers among
# threads (BAR, and waits for a warpgroup's products), memory fences, questions and arrivals at transaction barriers, and loads and
# stores of shared memory by threads.
# Usage: awk -v what=REGEX -f sass_loop.awk LISTING
#
# A loop is a jump backwards and what lies between. A jump from code behind the kernel's end back into it (where a wait that failed is
# asked again) makes a larger loop than the one it returns to, so the smallest is the right one.
{
    line = $0
    gsub(/\/\*[0-9a-f]+\*\//, "", line)
    if (match(line, /^\.L_x_[0-9]+:/))
        label[substr(line, 1, RLENGTH - 1)] = n
    else if (line ~ /^ .*;/) {
        sub(/^ +/, "", line)
        if (match(line, /\.L_x_[0-9]+/) && line ~ /BRA/)
            target[n] = substr(line, RSTART, RLENGTH)
        sub(/^@!?U?P[0-9T]+ +/, "", line)
        text[n++] = line
    }
}
function smallest(at,    i, first, best) {
    best = -1
    for (i = at; i < n; i++)
        if (i in target && (target[i] in label)) {
            first = label[target[i]]
            if (first <= at && (best < 0 || i - first < last[best] - best)) {
                best = first
                last[best] = i
            }
        }
    return best
}
END {
    for (i = 0; i < n; i++)
        if (text[i] ~ what && (first = smallest(i)) >= 0) {
            loop[first] = last[first]
            if (++count[first] > count[top] + 0)
                top = first
        }
    if (top == "") {
        print "- - - - - - -"
        exit
    }
    for (i = top; i <= loop[top]; i++) {
        n_all++
        matching += text[i] ~ what
        barriers += text[i] ~ /^(BAR|WARPGROUP\.DEPBAR|UCGABAR)/
        fences += text[i] ~ /^(MEMBAR|ERRBAR|CGAERRBAR|FENCE|CCTL)/
        phases += text[i] ~ /^(SYNCS|UTC.*BAR)/
        shared += text[i] ~ /^(LDS|STS|LDSM|STSM|ATOMS)/
    }
    printf "%d %d %.1f %d %d %d %d\n", n_all, matching, (n_all - matching) / matching, barriers, fences, phases, shared
}
