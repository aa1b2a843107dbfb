# Instructions executed in libplaunch itself, from a callgrind output file: the self cost of its functions. A line after `calls=` holds
# what the callee cost, and is the callee's. Source: Callgrind Format Specification, "Extended Example".
/^ob=/ {
    if (match($0, /\([0-9]+\)/)) {
        id = substr($0, RSTART, RLENGTH)
        if (length($0) > RSTART + RLENGTH)
            name[id] = substr($0, RSTART + RLENGTH + 1)
        is_ours = name[id] ~ /libplaunch\.so/
    }
}
/^c?ob=/ && /\([0-9]+\) / { match($0, /\([0-9]+\)/); name[substr($0, RSTART, RLENGTH)] = substr($0, RSTART + RLENGTH + 1) }
/^calls=/ { getline; next }
/^[0-9+*-]/ { if (is_ours) sum += $2 }
END { print sum + 0 }
