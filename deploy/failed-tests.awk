# Prints what each failed test of a log of "go test" said, with or without -v: its messages with the lines that
# belong to them, and panics, data races and timeouts with what follows. Messages of the lab's own file testing.go,
# which are the logs of guests, are left out. A line is cut after 600 characters, a test after 60 lines. With -v brief=1
# it prints of each test only what was wrong, in 12 lines: where a page is cut, these lines fit on its end.
function name_of(line) { sub(/^ *(=== (RUN|CONT|NAME|PAUSE)|--- (FAIL|PASS|SKIP):) +/, "", line); sub(/ \([0-9.]+s\)$/, "", line); return line }
/^ *--- FAIL: / { current = name_of($0); if (!(current in failed)) { failed[current] = $0; order[++count] = current } said = 0; next }
/^ *(=== (RUN|CONT|NAME|PAUSE)|--- (PASS|SKIP):) / { current = name_of($0); said = 0; next }
/^ *[A-Za-z0-9_]+\.go:[0-9]+: / { said = $1 !~ /^testing\.go:/ }
/^panic: |DATA RACE|test timed out|^fatal error: / { rest = 40 }
rest > 0 { rest--; if (!brief) print substr($0, 1, 600); next }
brief && /^ *[A-Za-z0-9_]+\.go:[0-9]+: / { wrong = /^ *(evidence_test|testing)\.go:/ ? 0 : 1 }
brief && /^[ \t]+Error( Trace)?: / { wrong = 3 }
brief { if (wrong > 0 && lines[current] < 12) { wrong--; lines[current]++; text[current] = text[current] substr($0, 1, 300) "\n" } next }
/^FAIL\t.*\[|^# |: cannot |^[^ ]+\.go:[0-9]+:[0-9]+: / { print substr($0, 1, 600) }
said && lines[current] < 60 { lines[current]++; text[current] = text[current] substr($0, 1, 600) "\n" }
END { for (i = 1; i <= count; i++) printf "%s\n%s", failed[order[i]], text[order[i]] }
