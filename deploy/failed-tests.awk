# Prints what each failed test of a log of "go test" said, with or without -v: its messages with the lines that
# belong to them, and panics, data races and timeouts with what follows. Messages of the lab's own file testing.go,
# which are the logs of guests, are left out. A line is cut after 600 characters, and of a test the last 60 lines are
# shown, since what made it fail is what it said last. With -v brief=1 it prints of each test only what was wrong, in 12
# lines: where a page is cut, these lines fit on its end.
function keep(line, most) { if (++lines[current] > most) sub(/^[^\n]*\n/, "", text[current]); text[current] = text[current] line "\n" }
function name_of(line) { sub(/^ *(=== (RUN|CONT|NAME|PAUSE)|--- (FAIL|PASS|SKIP):) +/, "", line); sub(/ \([0-9.]+s\)$/, "", line); return line }
/^ *--- FAIL: / { current = name_of($0); if (!(current in failed)) { failed[current] = $0; order[++count] = current } said = 0; next }
/^ *(=== (RUN|CONT|NAME|PAUSE)|--- (PASS|SKIP):) / { current = name_of($0); said = 0; next }
/^ *[A-Za-z0-9_]+\.go:[0-9]+: / { said = $1 !~ /^testing\.go:/ }
/^panic: |DATA RACE|test timed out|^fatal error: / { rest = 40 }
rest > 0 { rest--; if (!brief) print substr($0, 1, 600); next }
brief && /^# |^[^ ]+\.go:[0-9]+:[0-9]+: / { print substr($0, 1, 600); next }
brief && /^ *[A-Za-z0-9_]+\.go:[0-9]+: / { wrong = /^ *(evidence_test|testing)\.go:/ ? 0 : 1 }
brief && /^[ \t]+Error( Trace)?: / { wrong = 3 }
brief { if (wrong > 0) { wrong--; keep(substr($0, 1, 300), 12) } next }
/^FAIL\t.*\[|^# |: cannot |^[^ ]+\.go:[0-9]+:[0-9]+: / { print substr($0, 1, 600) }
said { keep(substr($0, 1, 600), 60) }
END { for (i = 1; i <= count; i++) printf "%s\n%s", failed[order[i]], text[order[i]] }
