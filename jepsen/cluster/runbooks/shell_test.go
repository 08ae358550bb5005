package runbooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// shell is an operator at work: it runs the blocks of one runbook, one after the other.
type shell struct {
	*harness.Cluster
	t     *testing.T
	book  Runbook
	ran   map[int]bool // blocks, by their place
	next  int
	env   map[string]string
	tools string // folder with holdfast and systemctl
}

// newShell is an operator of the cluster with the certificate that `--dir` uses.
func newShell(t *testing.T, c *harness.Cluster, binary string, book Runbook) *shell {
	t.Helper()
	s := &shell{Cluster: c, t: t, book: book, ran: map[int]bool{}, tools: t.TempDir()}
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(binary, filepath.Join(s.tools, "holdfast")))
	require.NoError(t, os.Symlink(self, filepath.Join(s.tools, "systemctl")))
	l, err := c.Layout()
	require.NoError(t, err)
	var endpoints []string
	for _, ctl := range l.Controllers {
		endpoints = append(endpoints, ctl.API)
	}
	pki := filepath.Join(c.Dir, "pki", "admin-dev")
	s.env = map[string]string{
		clusterVariable: c.Dir, binaryVariable: binary, "CA": filepath.Join(c.Dir, "ca"), "FOLDERS": filepath.Join(c.Dir, "pki"),
		"HOLDFAST_ENDPOINTS": strings.Join(endpoints, ","), "HOLDFAST_CERT": filepath.Join(pki, "admin-dev.crt"),
		"HOLDFAST_KEY": filepath.Join(pki, "admin-dev.key"), "HOLDFAST_CA": filepath.Join(pki, "ca.crt"),
		"REASON": "a drill",
	}
	return s
}

// set gives what the page leaves to the operator.
func (s *shell) set(name, value string) { s.env[name] = value }

// on goes to a host.
func (s *shell) on(host string) {
	l, err := s.Layout()
	require.NoError(s.t, err)
	s.set(hostVariable, host)
	s.set("DATA", l.DataDir(host))
}

// try runs the block at a place of the runbook.
func (s *shell) try(place int) (out string, err error) {
	s.t.Helper()
	require.Less(s.t, place, len(s.book.Blocks), "the runbook has no more commands")
	ctx, cancel := context.WithTimeout(s.t.Context(), harness.Patience)
	defer cancel()
	block := s.book.Blocks[place]
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", block.Text)
	cmd.Dir, cmd.Env = s.tools, []string{"PATH=" + s.tools + ":" + os.Getenv("PATH"), "HOME=" + s.tools, "LC_ALL=C"}
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		cmd.Env = append(cmd.Env, name+"="+s.env[name])
	}
	var stdout, both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &both
	err = cmd.Run()
	s.ran[place] = true
	if err != nil {
		err = fmt.Errorf("line %d of the page: %w\n%s\n%s%s", block.Line, err, block.Text, stdout.String(), both.String())
	}
	return stdout.String() + both.String(), err
}

// run runs the next block, which must exit with 0, and returns what it printed.
func (s *shell) run() string {
	s.t.Helper()
	out, err := s.try(s.next)
	require.NoError(s.t, err)
	s.next++
	return out
}

const patience = harness.Patience

// retry runs the next block until it exits with 0, and what it printed is as wanted: as its reader would, who waits for it.
func (s *shell) retry(wanted func(out string) bool) (out string) {
	s.t.Helper()
	require.NoError(s.t, harness.Poll(s.t.Context(), patience, "line "+fmt.Sprint(s.book.Blocks[s.next].Line)+" to say what is wanted", func() (bool, error) {
		var err error
		if out, err = s.try(s.next); err != nil {
			return false, err
		}
		return wanted(out), errors.New(out)
	}))
	s.next++
	return out
}

// again has a block be run once more, on another host.
func (s *shell) again() string {
	s.t.Helper()
	s.next--
	return s.run()
}

// find returns what a pattern's group matches of what a command printed.
func (s *shell) find(out, pattern string) string {
	s.t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(out)
	require.NotNil(s.t, found, "no %s in:\n%s", pattern, out)
	return found[1]
}

// done asserts that the whole runbook was followed.
func (s *shell) done() {
	s.t.Helper()
	for place, block := range s.book.Blocks {
		require.True(s.t, s.ran[place], "no test runs line %d of the page:\n%s", block.Line, block.Text)
	}
}
