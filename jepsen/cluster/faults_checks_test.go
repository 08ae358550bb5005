package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/check"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/replay"
	"github.com/holdfast-storage/holdfast/jepsen/model"
	"github.com/holdfast-storage/holdfast/jepsen/traffic"
)

// awaitAnswers waits until the healed cluster answers: reads and a change at every member.
func (r *faultsRun) awaitAnswers() {
	co := r.cluster.View().NewCO()
	for _, m := range r.cluster.Controllers() {
		co.Controllers, co.Timeout = []string{m.ID}, harness.Patience
		v, err := co.Create(r.t.Context(), harness.Spec{Name: "healed-" + m.ID, Size: hotSize, Block: true, Node: "n2"})
		require.NoError(r.t, err)
		require.NoError(r.t, co.Delete(r.t.Context(), v))
	}
	r.report.Check(catalog.ServesAgain, len(r.cluster.Controllers()), nil)
}

// verify does all the checks; each is in the report with how many things it looked at.
func (r *faultsRun) verify() {
	t, view := r.t, r.cluster.View()
	r.verifyHistory()
	held, twice := view.AllImages() // a volume on two hosts is an error
	removeWork(t, r.cluster, r.seed, r.work)
	left, err := view.AllImages()
	require.Empty(t, left)
	r.report.Check(catalog.NoDuplicate, len(held), errors.Join(twice, err))
	r.report.Check(catalog.Audit, len(r.cluster.Nodes()), errors.Join(view.AwaitCleanAudit(t.Context()), view.AwaitNoLeftovers(t.Context())))
	looked, err := r.leaks()
	r.report.Check(catalog.NoLeak, looked, err)
	require.NoError(t, view.AwaitAgreement(t.Context()))
	status, err := view.Status(t.Context())
	require.NoError(t, err)
	r.samples = append(r.samples, sampleOf(status))
	looked, err = check.HashesEqual(r.samples)
	r.report.Check(catalog.HashesEqual, looked, err)
	r.verifyLog(status)
	looked, err = findSecret(view.Base, faultsCanary(r.seed))
	r.report.Check(catalog.NoSecret, looked, err)
}

// verifyHistory judges what clients were told by itself.
func (r *faultsRun) verifyHistory() {
	folder := r.t.TempDir()
	if kept := os.Getenv("HOLDFAST_ARTIFACTS"); kept != "" {
		folder = kept
	}
	err := check.Linearizable(r.calls, harness.Patience, folder)
	var undecided error
	if errors.Is(err, check.ErrUndecided) {
		undecided = err
	}
	r.report.Check(catalog.Linearizable, len(r.calls), err)
	r.report.Check(catalog.CheckerEnded, len(r.calls), undecided)
	if picture, readErr := os.ReadFile(filepath.Join(folder, "history.html")); err != nil && readErr == nil {
		r.report.AttachPage("history", string(picture))
	}
	looked, err := check.NoStaleRead(r.calls)
	r.report.Check(catalog.NoStaleRead, looked, err)
}

// verifyLog stops the controllers and holds the answers and the hashes against what they kept of the log.
func (r *faultsRun) verifyLog(status harness.Status) {
	for _, m := range r.cluster.Controllers() {
		require.NoError(r.t, m.Stop(r.t.Context()))
	}
	require.NoError(r.t, r.logs.keep(r.cluster.Controllers()))
	log := replay.NewLog()
	var err error
	for _, dir := range r.logs.dirs {
		err = errors.Join(err, log.Add(dir))
	}
	r.report.Check(catalog.LogsEqual, log.Compared(), err)
	if err != nil {
		return
	}
	looked, err := log.Acknowledged(answeredToClients(r.calls))
	r.report.Check(catalog.Acknowledged, looked, err)
	looked, err = log.Check(hashesOf(r.t, status)...)
	r.report.Check(catalog.ReplayEqual, looked, err)
}

// answeredToClients are the calls but those that stand for what was there before: they have no index.
func answeredToClients(calls []check.Call) []check.Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c check.Call) bool {
		return c.Input.Kind == model.Create && c.Input.Name == traffic.SourceName(c.Output.ID)
	})
}

// hashesOf are the hashes that the members answered at last.
func hashesOf(t *testing.T, s harness.Status) (hashes []replay.At) {
	t.Helper()
	for _, m := range s.Members {
		raw, err := hex.DecodeString(m.StateHash)
		if err != nil {
			raw, err = base64.StdEncoding.DecodeString(m.StateHash)
		}
		require.NoError(t, err)
		hashes = append(hashes, replay.At{Index: m.HashIndex, Hash: hex.EncodeToString(raw)})
	}
	return hashes
}

// keptLogs are copies of members' journals.
type keptLogs struct {
	base string
	dirs []string
}

func newKeptLogs(t *testing.T) *keptLogs { return &keptLogs{base: t.TempDir()} }

// keep copies the journals as they are on the disks now. One that is being written may have a torn end. One of a member
// that is just being made has none.
func (k *keptLogs) keep(members []*isolated.Member) error {
	for _, m := range members {
		dir := filepath.Join(m.DataDir(), "journal")
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			continue
		}
		to := filepath.Join(k.base, strconv.Itoa(len(k.dirs)))
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("keep the journal of %s: %w", m.ID, err)
		}
		k.dirs = append(k.dirs, to)
	}
	return nil
}

// resources are what a process holds.
type resources struct{ goroutines, descriptors int }

var resourceMetrics = regexp.MustCompile(`(?m)^(go_goroutines|process_open_fds) (\S+)$`)

func resourcesOf(t *testing.T, c *isolated.Cluster) map[string]resources {
	t.Helper()
	all := map[string]resources{}
	for _, m := range c.Members() {
		require.NoError(t, harness.Poll(t.Context(), harness.Patience, "what "+m.ID+" holds", func() (bool, error) {
			held, err := resourcesOfMember(t.Context(), m)
			all[m.ID] = held
			return err == nil, err
		}))
	}
	return all
}

func resourcesOfMember(ctx context.Context, m *isolated.Member) (held resources, err error) {
	text, err := m.Metrics(ctx)
	for _, line := range resourceMetrics.FindAllStringSubmatch(text, -1) {
		value, parseErr := strconv.ParseFloat(line[2], 64)
		err = errors.Join(err, parseErr)
		if line[1] == "go_goroutines" {
			held.goroutines = int(value)
		} else {
			held.descriptors = int(value)
		}
	}
	return held, err
}

// slack is what a process may hold at rest beyond what a new one of its kind does: connections, pollers, caches.
const slack = 60

// leaks waits until every process holds about what a new one did: what a call leaks each time is hundreds after a run.
func (r *faultsRun) leaks() (looked int, err error) {
	for _, m := range r.cluster.Members() {
		first := r.before[m.ID]
		if first == (resources{}) {
			first = r.before["c1"] // it was added
		}
		err = errors.Join(err, harness.Poll(r.t.Context(), harness.Patience, m.ID+" to hold what it held", func() (bool, error) {
			now, err := resourcesOfMember(r.t.Context(), m)
			return err == nil && now.goroutines <= 2*first.goroutines+slack && now.descriptors <= 2*first.descriptors+slack,
				errors.Join(err, fmt.Errorf("it held %+v at first, now %+v", first, now))
		}))
		looked++
	}
	return looked, err
}

// findSecret reads every file below a directory for a text, the disks' images too.
func findSecret(dir, secret string) (looked int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		looked++
		found, err := contains(path, []byte(secret))
		if found {
			return fmt.Errorf("%s contains the secret %s", path, secret)
		}
		return err
	})
	return looked, err
}

// contains reads a file in pieces that overlap, its holes not at all.
func contains(path string, text []byte) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it is only read
	piece := make([]byte, 1<<20)
	for at := int64(0); ; {
		if at, err = f.Seek(at, 3); err != nil { // SEEK_DATA: an error is the end
			return false, nil //nolint:nilerr // there is no more data
		}
		n, err := f.ReadAt(piece, at)
		if bytes.Contains(piece[:n], text) {
			return true, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if n < len(piece) {
			return false, nil
		}
		at += int64(n - len(text) + 1)
	}
}

func TestFindSecretFinds(t *testing.T) {
	dir := t.TempDir()
	content := append(make([]byte, 1<<20-5), []byte("the secret")...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "harmless"), make([]byte, 3<<20), 0o600))
	looked, err := findSecret(dir, "the secret")
	require.NoError(t, err)
	require.Equal(t, 1, looked)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "image"), content, 0o600))
	_, err = findSecret(dir, "the secret")
	require.ErrorContains(t, err, "image contains the secret")
}
