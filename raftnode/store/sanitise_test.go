package store

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestS22_TheLogIsEmptiedOnlyWhenItDoesNotContinueTheSnapshot(t *testing.T) {
	for name, tc := range map[string]struct {
		first, last, term   uint64 // of the log
		snapIndex, snapTerm uint64
		wantFirst, wantLast uint64
		refusal             string
	}{
		"no snapshot keeps the log":                     {1, 20, 2, 0, 0, 1, 20, ""},
		"same term at the snapshot keeps it":            {1, 20, 2, 15, 2, 1, 20, ""},
		"the snapshot at the last entry keeps it":       {1, 20, 2, 20, 2, 1, 20, ""},
		"a log that begins behind the snapshot is kept": {16, 20, 2, 15, 2, 16, 20, ""},
		"another term at the snapshot empties it":       {1, 20, 2, 15, 3, 0, 0, ""},
		"a log that ends below the snapshot is emptied": {1, 20, 2, 21, 2, 0, 0, ""},
		"a log that ends far below it too":              {1, 20, 2, 500, 3, 0, 0, ""},
		"an empty log stays empty":                      {0, 0, 2, 15, 2, 0, 0, ""},
		"a log that begins after a hole is refused":     {17, 20, 2, 15, 2, 0, 0, "begins at entry 17"},
		"a log that begins late without one is refused": {2, 20, 2, 0, 0, 0, 0, "begins at entry 2"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind string) {
				s := open(t, fastDir(t), kind)
				require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 9))
				if tc.last > 0 {
					appendEntries(t, s, tc.first, tc.last, tc.term)
					require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 9))
				}
				if tc.snapIndex > 0 {
					snapshotAt(t, s, tc.snapIndex, tc.snapTerm)
				}
				if tc.refusal != "" {
					require.NoError(t, s.Close())
					requireRefused(t, s.dir.root, kind, tc.refusal)
					return
				}
				for range 2 {
					s = reopen(t, s, kind)
					requireEntries(t, s, tc.wantFirst, tc.wantLast)
				}
				next := max(tc.wantLast, tc.snapIndex) + 1
				require.NoError(t, s.Logs.StoreLog(entry(next, 9)), "and the log goes on")
				first := tc.wantFirst
				if first == 0 {
					first = next
				}
				requireEntries(t, reopen(t, s, kind), first, next)
			})
		})
	}
}

// damageFile flips one bit in the middle of a file.
func damageFile(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 0x10
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

func TestS135_ADamagedRaftSnapshotIsNeverOffered(t *testing.T) {
	for _, file := range []string{"state.bin", "meta.json", "seal"} {
		t.Run(file, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind string) {
				t.Run("an older one and the log take its place", func(t *testing.T) {
					s := open(t, fastDir(t), kind)
					appendEntries(t, s, 1, 30, 2)
					snapshotAt(t, s, 10, 2)
					id := snapshotAt(t, s, 20, 2)
					require.NoError(t, s.Logs.DeleteRange(1, 10))
					require.NoError(t, s.Close())
					damageFile(t, filepath.Join(s.dir.snapshotsPath(), id, file))
					for range 2 {
						s = reopen(t, s, kind)
						require.Equal(t, []uint64{10}, snapshotIndexes(t, s))
						requireEntries(t, s, 11, 30)
						require.DirExists(t, filepath.Join(s.dir.corruptPath(), id), "it is kept")
					}
				})
				t.Run("refused when the log begins behind the older one", func(t *testing.T) {
					s := open(t, fastDir(t), kind)
					appendEntries(t, s, 1, 30, 2)
					snapshotAt(t, s, 10, 2)
					id := snapshotAt(t, s, 20, 2)
					require.NoError(t, s.Logs.DeleteRange(1, 15))
					require.NoError(t, s.Close())
					damageFile(t, filepath.Join(s.dir.snapshotsPath(), id, file))
					requireRefused(t, s.dir.root, kind, id)
				})
				t.Run("refused when the log ends below it", func(t *testing.T) {
					s := open(t, fastDir(t), kind)
					appendEntries(t, s, 1, 15, 2)
					snapshotAt(t, s, 10, 2)
					id := snapshotAt(t, s, 20, 2)
					require.NoError(t, s.Close())
					damageFile(t, filepath.Join(s.dir.snapshotsPath(), id, file))
					requireRefused(t, s.dir.root, kind, id)
				})
				t.Run("refused when it is the only one and the log was compacted", func(t *testing.T) {
					s := open(t, fastDir(t), kind)
					appendEntries(t, s, 1, 30, 2)
					id := snapshotAt(t, s, 20, 2)
					require.NoError(t, s.Logs.DeleteRange(1, 15))
					require.NoError(t, s.Close())
					damageFile(t, filepath.Join(s.dir.snapshotsPath(), id, file))
					requireRefused(t, s.dir.root, kind, id)
				})
			})
		})
	}
}

func TestS135_ARaftSnapshotThatDoesNotDecodeIsDamaged(t *testing.T) {
	s := open(t, fastDir(t), WAL)
	appendEntries(t, s, 1, 30, 2)
	snapshotAt(t, s, 10, 2)
	id := snapshotAt(t, s, 20, 2)
	require.NoError(t, s.Close())
	o := options(s.dir.root, WAL)
	o.Verify = func(_ *raft.SnapshotMeta, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err == nil && string(data[:8]) == "state 20" {
			panic("what is this")
		}
		return err
	}
	s, err := Open(o)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	require.Equal(t, []uint64{10}, snapshotIndexes(t, s))
	require.DirExists(t, filepath.Join(s.dir.corruptPath(), id))
}

// S72: what a newer build wrote is not damaged: it is left where it is, though an older
// one and the log could take its place, and the remedy is the newer build.
func TestS72_ARaftSnapshotOfANewerBuildIsLeftAlone(t *testing.T) {
	s := open(t, fastDir(t), WAL)
	appendEntries(t, s, 1, 30, 2)
	snapshotAt(t, s, 10, 2)
	id := snapshotAt(t, s, 20, 2)
	require.NoError(t, s.Close())
	o := options(s.dir.root, WAL)
	o.Verify = func(meta *raft.SnapshotMeta, r io.Reader) error {
		if meta.Index == 20 {
			return fmt.Errorf("read the header: %w", ErrNewer)
		}
		return verifyText(meta, r)
	}
	for range 2 {
		_, err := Open(o)
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, "remedy: start the build that wrote it")
		require.DirExists(t, filepath.Join(s.dir.snapshotsPath(), id))
	}
	s = reopen(t, s, WAL) // as the newer build
	require.Equal(t, []uint64{20}, snapshotIndexes(t, s))
	require.NoError(t, s.Close())
}

func TestARaftSnapshotDamagedLaterIsNotOfferedAgain(t *testing.T) {
	s := open(t, fastDir(t), WAL)
	id := snapshotAt(t, s, 20, 2)
	require.Equal(t, []uint64{20}, snapshotIndexes(t, s))
	damageFile(t, filepath.Join(s.dir.snapshotsPath(), id, "state.bin"))
	_, _, err := s.Snapshots.Open(id)
	require.Error(t, err)
	require.Empty(t, snapshotIndexes(t, s))
	_, _, err = s.Snapshots.Open(id)
	require.ErrorContains(t, err, "not found whole")
}

func TestAnUnfinishedRaftSnapshotIsIgnored(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		appendEntries(t, s, 1, 30, 2)
		snapshotAt(t, s, 10, 2)
		id := snapshotAt(t, s, 40, 2) // the process dies before its seal is written
		require.NoError(t, s.Close())
		require.NoError(t, os.Remove(filepath.Join(s.dir.snapshotsPath(), id, checksumFile)))
		require.NoError(t, os.Mkdir(filepath.Join(s.dir.snapshotsPath(), "2-50-1.tmp"), 0o755))
		for range 2 {
			s = reopen(t, s, kind)
			require.Equal(t, []uint64{10}, snapshotIndexes(t, s))
			requireEntries(t, s, 1, 30)
			require.NoDirExists(t, filepath.Join(s.dir.snapshotsPath(), "2-50-1.tmp"))
		}
	})
}

func TestACancelledRaftSnapshotIsRemoved(t *testing.T) {
	s := open(t, fastDir(t), WAL)
	_, trans := raft.NewInmemTransport("here")
	sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, 5, 1, raft.Configuration{}, 1, trans)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, sink.Cancel())
		require.NoError(t, sink.Close())
		require.Empty(t, snapshotIndexes(t, s))
	}
}

// S135: two older Raft snapshots are there to fall back to.
func TestThreeRaftSnapshotsAreKept(t *testing.T) {
	s := open(t, fastDir(t), WAL)
	for i := uint64(10); i <= 60; i += 10 {
		snapshotAt(t, s, i, 2)
	}
	require.Equal(t, []uint64{60, 50, 40}, snapshotIndexes(t, s))
	require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 2))
	require.Equal(t, []uint64{60}, snapshotIndexes(t, reopen(t, s, WAL)), "only what was decoded is offered")
}
