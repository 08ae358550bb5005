package lab

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testProgramTimeout is how long the tests of one call of RunTests may take. On a quiet machine the longest take five minutes.
const testProgramTimeout = 50 * time.Minute

// TestProgram is the tests of one package of this module, compiled, for guests to run as root of a
// kernel of their own: what this machine's root may not do, or its kernel cannot.
type TestProgram struct {
	// Path is the program's in every guest.
	Path string
}

// InstallTests compiles the tests of a package, such as "executor/lvm", and gives them to all guests.
func (l *Lab) InstallTests(tb testing.TB, pkg string) TestProgram {
	tb.Helper()
	name := path.Base(pkg) + ".test"
	program := filepath.Join(l.bin(), name)
	if err := runGo(tb.Context(), program, pkg, "test", "-c"); err != nil {
		tb.Fatalf("%v", err)
	}
	for _, g := range l.guests {
		if err := copyFile(program, filepath.Join(g.Shared(), name)); err != nil {
			tb.Fatalf("install %s in %s: %v", name, g.Name(), err)
		}
	}
	return TestProgram{Path: "/lab/" + name}
}

// RunTests runs the tests that choose picks (-test.run, -test.skip) with further variables, NAME=value,
// and answers what they printed. It marks tb as failed when a test fails or is skipped; it may be
// called from several goroutines.
func (g *Guest) RunTests(tb testing.TB, p TestProgram, variables, choose string) (string, error) {
	ctx, cancel := context.WithTimeout(tb.Context(), testProgramTimeout)
	defer cancel()
	// Most guests have 256 MiB for their kernel, their files and the test. Below the limit the collector
	// keeps its usual pace: what it touches costs a guest much.
	out, code, err := g.Exec(ctx, fmt.Sprintf("cd /tmp && GOMEMLIMIT=80MiB %s %s -test.v -test.timeout %s %s 2>&1",
		variables, p.Path, testProgramTimeout, choose))
	if err != nil || code != 0 {
		tb.Errorf("%s: %s ended with code %d: %v\n%s", g.Name(), p.Path, code, err, out)
		return out, err
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "--- ") || strings.Contains(line, "_test.go:") {
			tb.Logf("%s: %s", g.Name(), strings.TrimSpace(line))
		}
		if strings.Contains(line, "--- SKIP") {
			tb.Errorf("%s: a test of %s was skipped: %s", g.Name(), p.Path, line)
		}
	}
	return out, nil
}
