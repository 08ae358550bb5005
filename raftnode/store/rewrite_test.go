package store

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/store/storetest"
)

// openOn opens the folder on a simulated disk.
func openOn(dir, kind string, d *storetest.Disk) (*Store, error) {
	o := options(dir, kind)
	o.Disk, o.SegmentSize = d, 64<<10
	return Open(o)
}

func mustOpenOn(t testing.TB, dir, kind string, d *storetest.Disk) *Store {
	t.Helper()
	s, err := openOn(dir, kind, d)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newDisk(t testing.TB) (string, *storetest.Disk) {
	t.Helper()
	dir := fastDir(t)
	d, err := storetest.New(dir, 1)
	require.NoError(t, err)
	return dir, d
}

// largeEntry takes more than one page of the disk, so that none of its neighbours carries all of it there.
func largeEntry(index, term uint64) *raft.Log {
	return &raft.Log{Index: index, Term: term, Data: fmt.Appendf(nil, "command %d %s", index, strings.Repeat("x", 9000))}
}

// failSync makes the syncs fail of what has this name; an empty name is the data folder's.
func failSync(d *storetest.Disk, matches func(path string) bool) {
	d.Fault = func(op storetest.Operation) (f storetest.Fault) {
		if op.Kind == storetest.Sync && matches(op.Path) {
			f.Err = storetest.EIO
		}
		return f
	}
}

func isLogFile(path string) bool { return strings.HasSuffix(path, ".wal") || path == "raft.db" }
func isDataDir(path string) bool { return path == "." }

// losePower opens what a power failure leaves.
func losePower(t testing.TB, d *storetest.Disk, kind string) *Store {
	t.Helper()
	dir := fastDir(t)
	left, err := d.LosePower(dir, 0)
	require.NoError(t, err)
	return mustOpenOn(t, dir, kind, left)
}

func TestS133_AnEntryOfAFailedSyncThatARestartReadsSurvivesAPowerFailure(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		dir, d := newDisk(t)
		s := mustOpenOn(t, dir, kind, d)
		require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 2))
		require.NoError(t, s.Logs.StoreLog(largeEntry(1, 2)))
		failSync(d, isLogFile)
		require.ErrorContains(t, s.Logs.StoreLog(largeEntry(2, 2)), storetest.EIO.Error())
		require.NoError(t, s.Close())
		d.Fault = nil
		s = mustOpenOn(t, dir, kind, d)
		read, err := s.Logs.LastIndex() // Raft counts on what it reads here
		require.NoError(t, err)
		require.NoError(t, s.Logs.StoreLog(largeEntry(read+1, 2)))
		s = losePower(t, d, kind)
		last, err := s.Logs.LastIndex()
		require.NoError(t, err)
		require.Equal(t, read+1, last)
		for i := uint64(1); i <= last; i++ {
			var e raft.Log
			require.NoError(t, s.Logs.GetLog(i, &e))
			require.Equal(t, largeEntry(i, 2).Data, e.Data)
		}
	})
}

func TestS21_ATermThatARestartReadsSurvivesAPowerFailure(t *testing.T) {
	for name, matches := range map[string]func(string) bool{"the folder's sync fails": isDataDir, "raft.db's sync fails": isLogFile} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind string) {
				dir, d := newDisk(t)
				s := mustOpenOn(t, dir, kind, d)
				require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 4))
				failSync(d, matches)
				require.ErrorIs(t, s.Stable.SetUint64([]byte(keyTerm), 5), storetest.EIO)
				require.NoError(t, s.Close())
				d.Fault = nil
				s = mustOpenOn(t, dir, kind, d)
				read, err := s.Stable.GetUint64([]byte(keyTerm))
				require.NoError(t, err)
				require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), read), "Raft writes the term that it read")
				got, err := losePower(t, d, kind).Stable.GetUint64([]byte(keyTerm))
				require.NoError(t, err)
				require.Equal(t, read, got)
			})
		})
	}
}

func TestS21_AMemberWhoseFirstStartFailedAtTheDiskKeepsItsTerm(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		dir, d := newDisk(t)
		failSync(d, func(path string) bool { return isDataDir(path) && initialised(dir) })
		_, err := openOn(dir, kind, d)
		require.ErrorIs(t, err, storetest.EIO)
		d.Fault = nil
		s := mustOpenOn(t, dir, kind, d)
		require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 7))
		after := losePower(t, d, kind)
		require.Equal(t, s.MemberID, after.MemberID)
		got, err := after.Stable.GetUint64([]byte(keyTerm))
		require.NoError(t, err)
		require.EqualValues(t, 7, got)
	})
}

// initialised tells whether the page cache has a member whose files are all made.
func initialised(dir string) bool {
	var id identity
	err := readChecksummed(dataDir{root: dir}.identityPath(), "", &id)
	return err == nil && id.Initialised
}

// interrupted is a folder whose process ended after a failed sync, and its disk.
func interrupted(t testing.TB, kind string) (string, *storetest.Disk) {
	t.Helper()
	dir, d := newDisk(t)
	s := mustOpenOn(t, dir, kind, d)
	require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 2))
	for i := uint64(1); i <= 12; i++ {
		require.NoError(t, s.Logs.StoreLog(largeEntry(i, 2)))
	}
	snapshotAt(t, s, 3, 2)
	failSync(d, isLogFile)
	require.Error(t, s.Logs.StoreLog(largeEntry(13, 2)))
	require.NoError(t, s.Close())
	d.Fault = nil
	return dir, d
}

// TestS133_ARewriteMayEndAnywhere ends a start at each of its operations on the disk, by the end of the
// process and by a power failure.
func TestS133_ARewriteMayEndAnywhere(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 5
	}
	forEachKind(t, func(t *testing.T, kind string) {
		for step, more := 0, true; more; step += stride {
			for _, power := range []bool{false, true} {
				dir, d := interrupted(t, kind)
				left, leftDisk, done := "", (*storetest.Disk)(nil), 0
				d.Fault = func(storetest.Operation) (f storetest.Fault) {
					if done++; done == step+1 {
						left = fastDir(t)
						leftDisk = endOf(t, d, left, power)
					}
					return f
				}
				mustOpenOn(t, dir, kind, d)
				if more = left != ""; more {
					s := mustOpenOn(t, left, kind, leftDisk)
					requireWhole(t, s, 12)
					requireWhole(t, losePower(t, leftDisk, kind), 12)
					require.NoFileExists(t, s.dir.votePath()+rewriteSuffix)
				}
			}
		}
	})
}

// endOf is what the end of a process, or of its machine's power, leaves.
func endOf(t testing.TB, d *storetest.Disk, to string, power bool) *storetest.Disk {
	t.Helper()
	end := d.Kill
	if power {
		end = func(to string) (*storetest.Disk, error) { return d.LosePower(to, 0.5) }
	}
	left, err := end(to)
	require.NoError(t, err)
	return left
}

// requireWhole expects the entries that were acknowledged, and the term.
func requireWhole(t testing.TB, s *Store, acknowledged uint64) {
	t.Helper()
	term, err := s.Stable.GetUint64([]byte(keyTerm))
	require.NoError(t, err)
	require.EqualValues(t, 2, term)
	last, err := s.Logs.LastIndex()
	require.NoError(t, err)
	require.GreaterOrEqual(t, last, acknowledged)
	for i := uint64(1); i <= last; i++ {
		var e raft.Log
		require.NoError(t, s.Logs.GetLog(i, &e))
		require.Equal(t, largeEntry(i, 2).Data, e.Data)
	}
}

func TestS133_AStartWhoseRewriteFailsServesNothing(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		_, d := interrupted(t, kind)
		for step, more := 0, true; more; step++ {
			dir := fastDir(t)
			again := endOf(t, d, dir, false)
			failed, done := "", 0
			again.Fault = func(op storetest.Operation) (f storetest.Fault) {
				if !strings.Contains(op.Path, rewriteSuffix) && op.Kind != storetest.Rename {
					return f
				}
				if done++; done == step+1 {
					failed, f.Err = op.Path, storetest.EIO
				}
				return f
			}
			s, err := openOn(dir, kind, again)
			again.Fault = nil
			if more = failed != ""; more {
				require.ErrorIs(t, err, storetest.EIO, failed)
			} else {
				require.NoError(t, err)
				require.NoError(t, s.Close())
			}
			requireWhole(t, mustOpenOn(t, dir, kind, again), 12)
			requireWhole(t, losePower(t, again, kind), 12)
		}
	})
}

func TestOnlyAStopInOrderSparesTheRewrite(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		appendEntries(t, s, 1, 9, 1)
		before := inodeOf(t, s.dir.votePath())
		s = reopen(t, s, kind)
		require.Equal(t, before, inodeOf(t, s.dir.votePath()), "the stop was in order")
		require.NoFileExists(t, s.dir.stoppedPath(), "a process runs")
		require.NoError(t, s.Close())
		copied := fastDir(t)
		copyTree(t, s.dir.root, copied)
		require.NoError(t, os.Remove(s.dir.stoppedPath()))
		s = open(t, s.dir.root, kind)
		require.NotEqual(t, before, inodeOf(t, s.dir.votePath()), "nothing said so")
		requireEntries(t, s, 1, 9)
		before = inodeOf(t, dataDir{root: copied}.votePath())
		requireEntries(t, open(t, copied, kind), 1, 9)
		require.NotEqual(t, before, inodeOf(t, dataDir{root: copied}.votePath()), "it was said of another folder")
	})
}

func inodeOf(t testing.TB, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Ino
}
