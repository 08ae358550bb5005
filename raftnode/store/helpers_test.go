package store

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

var kinds = []string{WAL, BoltDB}

// fastDir is a folder in memory when the machine has one: these tests sync a lot.
func fastDir(t testing.TB) string {
	t.Helper()
	base := "/dev/shm"
	if st, err := os.Stat(base); err != nil || !st.IsDir() {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "holdfast-store-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o700))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func options(dir, kind string) Options {
	return Options{Dir: dir, Kind: kind, SegmentSize: 4 << 10, CacheEntries: 4, Hang: time.Minute, Verify: verifyText}
}

// verifyText accepts what snapshotAt writes.
func verifyText(_ *raft.SnapshotMeta, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err == nil && !strings.HasPrefix(string(data), "state ") {
		err = fmt.Errorf("no state in the snapshot")
	}
	return err
}

func open(t testing.TB, dir, kind string) *Store {
	t.Helper()
	s, err := Open(options(dir, kind))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reopen closes and opens again.
func reopen(t testing.TB, s *Store, kind string) *Store {
	t.Helper()
	require.NoError(t, s.Close())
	return open(t, s.dir.root, kind)
}

// refused opens and expects a refusal that names what.
func requireRefused(t testing.TB, dir, kind string, names ...string) {
	t.Helper()
	for range 2 { // a refusal changes nothing, so the next start is refused too
		s, err := Open(options(dir, kind))
		if err == nil {
			_ = s.Close()
		}
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, "remedy: ")
		for _, name := range names {
			require.ErrorContains(t, err, name)
		}
	}
}

func entry(index, term uint64) *raft.Log {
	return &raft.Log{Index: index, Term: term, Data: fmt.Appendf(nil, "command %d of term %d %s", index, term, strings.Repeat("x", int(index%50)))}
}

// fill appends the entries first to last in one term, as Raft does: term first.
func appendEntries(t testing.TB, s *Store, first, last, term uint64) {
	t.Helper()
	require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), term))
	for i := first; i <= last; i += 3 {
		var batch []*raft.Log
		for j := i; j <= min(i+2, last); j++ {
			batch = append(batch, entry(j, term))
		}
		require.NoError(t, s.Logs.StoreLogs(batch))
	}
}

// requireEntries expects the log to hold exactly the entries first to last.
func requireEntries(t testing.TB, s *Store, first, last uint64) {
	t.Helper()
	gotFirst, err := s.Logs.FirstIndex()
	require.NoError(t, err)
	gotLast, err := s.Logs.LastIndex()
	require.NoError(t, err)
	require.Equal(t, [2]uint64{first, last}, [2]uint64{gotFirst, gotLast}, "bounds of the log")
	for i := first; i <= last && last > 0; i++ {
		var e raft.Log
		if err := s.Logs.GetLog(i, &e); err != nil || e.Index != i || e.Extensions != nil || !bytes.Equal(e.Data, entry(i, e.Term).Data) {
			t.Fatalf("entry %d is %v, %v", i, e, err)
		}
	}
}

var raftConfiguration = raft.Configuration{Servers: []raft.Server{{ID: "m", Address: "here"}}}

// snapshotAt makes a Raft snapshot and returns its id.
func snapshotAt(t testing.TB, s *Store, index, term uint64) string {
	t.Helper()
	_, trans := raft.NewInmemTransport("here")
	sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, index, term, raftConfiguration, 1, trans)
	require.NoError(t, err)
	_, err = fmt.Fprintf(sink, "state %d %s", index, strings.Repeat("s", 500))
	require.NoError(t, err)
	require.NoError(t, sink.Close())
	return sink.ID()
}

func snapshotIndexes(t testing.TB, s *Store) (indexes []uint64) {
	t.Helper()
	metas, err := s.Snapshots.List()
	require.NoError(t, err)
	for _, m := range metas {
		_, r, err := s.Snapshots.Open(m.ID)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		indexes = append(indexes, m.Index)
	}
	return indexes
}

// copyTree copies a closed data folder.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	}))
}

func forEachKind(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// position is the term and index of the last entry, or of the snapshot when it is newer.
func position(s *Store) (term, index uint64, err error) {
	snaps, err := s.Snapshots.List()
	if err != nil {
		return 0, 0, err
	}
	if len(snaps) > 0 {
		term, index = snaps[0].Term, snaps[0].Index
	}
	last, err := s.Logs.LastIndex()
	if err != nil || last <= index {
		return term, index, err
	}
	var e raft.Log
	if err := s.Logs.GetLog(last, &e); err != nil {
		return 0, 0, err
	}
	return e.Term, last, nil
}
