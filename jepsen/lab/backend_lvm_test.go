package lab_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestLVM runs the LVM backend's own tests, which need thin pools, in guests: the suite
// of all backends with its snapshots in one, all else in another. It is not parallel to
// other tests: its guests alone keep two processors busy for minutes. The comparison of
// files of metadata runs on the machine itself: a guest's files have no direct I/O.
func TestLVM(t *testing.T) {
	lab.RequireLab(t)
	program := filepath.Join(t.TempDir(), "lvm.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, "github.com/holdfast-storage/holdfast/executor/lvm")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	l := lab.New(t, lab.Config{Guests: 2, NoHoldfast: true, Disks: []int64{1200 << 20}})
	l.MustBoot(t)
	var group errgroup.Group
	for i, tests := range []string{"-test.run '^TestSnapshots$'", "-test.skip '^(TestSnapshots|TestDeltaMissesNoChangedBlock)$'"} {
		g := l.Guest(i + 1)
		group.Go(func() error { return runInGuest(t, g, program, "HOLDFAST_LVM_TEST_DISK=/dev/ubdc", tests) })
	}
	require.NoError(t, group.Wait())
}

// runInGuest runs a test program of this module's in a guest, under a variable that its
// tests ask for. It fails when one of its tests fails or is skipped.
func runInGuest(t *testing.T, g *lab.Guest, program, variable, args string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	name := filepath.Base(program)
	if err := os.WriteFile(filepath.Join(g.Shared(), name), binary, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	// A guest has 256 MiB for its kernel, its files and the test.
	out, code, err := g.Exec(ctx, "cd /tmp && GOMEMLIMIT=80MiB GOGC=25 "+variable+" /lab/"+name+" -test.v -test.timeout 20m "+args+" 2>&1")
	if err != nil || code != 0 {
		t.Errorf("%s: %s ended with code %d: %v\n%s", g.Name(), name, code, err, out)
		return err
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "--- ") || strings.Contains(line, "_test.go:") {
			t.Logf("%s: %s", g.Name(), strings.TrimSpace(line))
		}
		if strings.Contains(line, "--- SKIP") {
			t.Errorf("%s: a test of %s was skipped: %s", g.Name(), name, line)
		}
	}
	return nil
}
