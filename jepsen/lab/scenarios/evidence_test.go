package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// evidenceTimeout is for all evidence of one kind: what does not answer must not hide what the rest says.
const evidenceTimeout = 2 * time.Minute

// Of long texts the ends are shown.
const (
	historyLines = 60
	logLines     = 60
)

// showEvidence prints what a reader of a failure wants to know: what the log has, with how it came to that, what
// the kernels have, and what the processes said.
func (w *env) showEvidence(t *testing.T) {
	for _, show := range []func(context.Context, *testing.T){w.showLogState, w.blameClocks, w.showKernels} {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), evidenceTimeout)
		show(ctx, t)
		cancel()
	}
	t.Log(w.logs(logLines))
	if w.openErr != "" {
		t.Log("it failed: " + w.openErr)
	}
	if dir := os.Getenv(lab.LogsVariable); dir != "" {
		for _, g := range w.lab.Guests() {
			name := strings.ReplaceAll(t.Name(), "/", "-") + "-" + g.Name()
			_ = exec.Command("cp", "-r", filepath.Join(g.Shared(), "log"), filepath.Join(dir, name)).Run()
		}
	}
}

// showLogState prints the log's state, and of each volume all of it, and its last commands.
func (w *env) showLogState(ctx context.Context, t *testing.T) {
	for _, args := range [][]string{{"status"}, {"nodes"}, {"volumes"}, {"volumes", "replicas"}, {"operations"}} {
		w.showAdmin(ctx, t, args...)
	}
	var all struct {
		Volumes []struct {
			ID string `json:"id"`
		} `json:"volumes"`
	}
	if err := w.cluster.Ask(ctx, &all, "volumes"); err != nil {
		t.Log(err)
	}
	for _, v := range all.Volumes {
		w.showAdmin(ctx, t, "volumes", v.ID, "-o", "yaml")
		w.showAdmin(ctx, t, "history", v.ID)
	}
}

func (w *env) showAdmin(ctx context.Context, t *testing.T, args ...string) {
	out, _, err := w.cluster.Admin(ctx, args...)
	if err != nil {
		out += err.Error()
	}
	if args[0] == "history" {
		out = lastLines(out, historyLines)
	}
	t.Logf("holdfast %s:\n%s", strings.Join(args, " "), out)
}

// kernelState prints what replication and the kernel say, and the threads that wait for a device: a program's
// first thread is seldom the one.
const kernelState = `cat /proc/drbd; dmesg | tail -120
ps -eL -o pid,lwp,stat,wchan:24,args | awk '$3 ~ /^D/'
for t in /proc/[0-9]*/task/*; do
	grep -q '^State:.D' $t/status 2>/dev/null && { echo "$t:"; cat $t/stack; }
done 2>/dev/null`

func (w *env) showKernels(ctx context.Context, t *testing.T) {
	for _, g := range w.lab.Guests() {
		within, cancel := context.WithTimeout(ctx, evidenceTimeout/time.Duration(len(w.lab.Guests())))
		out, _, err := g.Exec(within, kernelState)
		cancel()
		t.Logf("%s, and whether it answered in time: %t\n%s", g.Name(), err == nil, out)
	}
}

// blameClocks names the guests whose clocks stand still: what failed there failed by the lab.
func (w *env) blameClocks(ctx context.Context, t *testing.T) {
	for _, g := range w.lab.Guests() {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := g.CheckClock(within); errors.Is(err, lab.ErrClockStands) {
			t.Log(err)
			w.openErr += "; " + err.Error()
		}
		cancel()
	}
}

// logs are the last lines of each process's own log.
func (w *env) logs(lines int) string {
	var all strings.Builder
	for _, g := range w.lab.Guests() {
		for _, what := range []string{"controller", "node"} {
			fmt.Fprintf(&all, "--- %s of %s\n%s\n", what, g.Name(), lastLines(g.Log(what), lines))
		}
	}
	return all.String()
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
