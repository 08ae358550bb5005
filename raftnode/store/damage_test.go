package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// damageRounds is how many kinds of damage each file gets; more with HOLDFAST_DAMAGE.
func damageRounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("HOLDFAST_DAMAGE"))
	if err != nil {
		n = 12
	}
	if testing.Short() {
		n = 2
	}
	return n
}

// storeContent is all that Raft would read of a store.
type storeContent struct {
	Member, Cluster string
	Term, VoteTerm  uint64
	Cand            string
	Last            uint64
	Entries         map[uint64]string
	Snapshots       []string
}

func readContent(t *testing.T, s *Store) (v storeContent) {
	t.Helper()
	var err error
	v.Member, v.Cluster, v.Entries = s.MemberID, s.ClusterID(), map[uint64]string{}
	v.Term, err = s.Stable.GetUint64([]byte(keyTerm))
	require.NoError(t, err)
	v.VoteTerm, err = s.Stable.GetUint64([]byte(keyVoteTerm))
	require.NoError(t, err)
	cand, err := s.Stable.Get([]byte(keyVoteCand))
	require.NoError(t, err)
	v.Cand = string(cand)
	first, err := s.Logs.FirstIndex()
	require.NoError(t, err)
	v.Last, err = s.Logs.LastIndex()
	require.NoError(t, err)
	for i := first; i <= v.Last; i++ {
		var e raft.Log
		require.NoError(t, s.Logs.GetLog(i, &e))
		v.Entries[i] = fmt.Sprint(e.Index, e.Term, e.Type, string(e.Data), e.Extensions)
	}
	metas, err := s.Snapshots.List()
	require.NoError(t, err)
	for _, m := range metas {
		v.Snapshots = append(v.Snapshots, fmt.Sprint(m.Index, m.Term, m.Configuration, m.ConfigurationIndex, m.Size))
	}
	return v
}

// newFilledDir is a closed folder with everything in it: several segments, two
// snapshots, a compacted front, a vote.
func newFilledDir(t *testing.T, kind string) (dir string, want storeContent) {
	t.Helper()
	dir = fastDir(t)
	s := open(t, dir, kind)
	require.NoError(t, s.SetClusterID("cluster-1"))
	appendEntries(t, s, 1, 120, 2)
	require.NoError(t, s.Stable.SetUint64([]byte(keyVoteTerm), 3))
	require.NoError(t, s.Stable.Set([]byte(keyVoteCand), []byte("candidate")))
	snapshotAt(t, s, 60, 2)
	appendEntries(t, s, 121, 150, 3)
	snapshotAt(t, s, 130, 3)
	require.NoError(t, s.Logs.DeleteRange(1, 55))
	s = reopen(t, s, kind)
	want = readContent(t, s)
	require.NoError(t, s.Close())
	return dir, want
}

// requireEquivalent tells whether what was opened is what was stored: the same votes, the
// same end of the log and the same entries. Entries that were compacted may be
// back, and an older snapshot may stand in for a damaged one.
func requireEquivalent(t *testing.T, want, got storeContent) {
	t.Helper()
	for i, e := range want.Entries {
		if i > 60 {
			require.Equal(t, e, got.Entries[i])
		}
	}
	require.Len(t, got.Snapshots, 1)
	if got.Snapshots[0] != want.Snapshots[0] {
		require.Regexp(t, "^60 2 ", got.Snapshots[0])
	}
	got.Entries, got.Snapshots = want.Entries, want.Snapshots
	require.Equal(t, want, got)
}

// S22, S144: either the folder is refused, or nothing that Raft reads is different.
func TestS22_NoDamageGoesUnnoticed(t *testing.T) {
	for name, damage := range map[string]func(r *rand.Rand, data []byte) []byte{
		"a flipped bit": func(r *rand.Rand, data []byte) []byte {
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
			return data
		},
		"a sector of noise": func(r *rand.Rand, data []byte) []byte {
			at := r.IntN(len(data)) &^ 511
			for i := at; i < min(at+512, len(data)); i++ {
				data[i] = byte(r.Uint32())
			}
			return data
		},
		"a page of zeros": func(r *rand.Rand, data []byte) []byte {
			at := r.IntN(len(data)) &^ 4095
			clear(data[at:min(at+4096, len(data))])
			return data
		},
		"a cut": func(r *rand.Rand, data []byte) []byte { return data[:r.IntN(len(data))] },
	} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind string) {
				source, want := newFilledDir(t, kind)
				dir := fastDir(t)
				refusals, total := 0, 0
				for _, file := range files(t, source) {
					r := rand.New(rand.NewPCG(7, uint64(len(file))))
					for range damageRounds(t) {
						copyTree(t, source, dir)
						if !rewriteFile(t, filepath.Join(dir, file), func(data []byte) []byte { return damage(r, data) }) {
							continue
						}
						total++
						if refusedOrIntact(t, dir, kind, file, want) {
							refusals++
						}
					}
				}
				t.Logf("%d of %d were refused, the others harmless", refusals, total)
				require.Greater(t, refusals, total/10, "the damage reaches what is read")
			})
		})
	}
}

func refusedOrIntact(t *testing.T, dir, kind, file string, want storeContent) (refused bool) {
	t.Helper()
	s, err := Open(options(dir, kind))
	if err != nil {
		require.ErrorIs(t, err, ErrRefused, file)
		return true
	}
	requireEquivalent(t, want, readContent(t, s))
	require.NoError(t, s.Logs.StoreLog(entry(want.Last+1, 3)), "and it goes on")
	require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 4))
	require.NoError(t, s.Close())
	want.Term, want.Last = 4, want.Last+1
	s, err = Open(options(dir, kind))
	require.NoError(t, err, "what was accepted once is accepted again: %s", file)
	requireEquivalent(t, want, readContent(t, s))
	require.NoError(t, s.Close())
	return false
}

// files lists the files of a folder that are not empty.
func files(t *testing.T, dir string) (rel []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			rel = append(rel, name)
		}
		return err
	}))
	return rel
}

// rewriteFile rewrites a file and tells whether it is different now.
func rewriteFile(t *testing.T, path string, damage func([]byte) []byte) bool {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	damaged := damage(bytes.Clone(data))
	require.NoError(t, os.WriteFile(path, damaged, 0o600))
	return !bytes.Equal(data, damaged)
}

func TestS22_ALogThatLostItsEndIsRefused(t *testing.T) {
	t.Run("the last batch of the wal is torn after it was acknowledged", func(t *testing.T) {
		s := open(t, fastDir(t), WAL)
		appendEntries(t, s, 1, 12, 2)
		require.NoError(t, s.Close())
		segments, err := filepath.Glob(filepath.Join(s.dir.walPath(), "*.wal"))
		require.NoError(t, err)
		rewriteFile(t, segments[len(segments)-1], func(data []byte) []byte {
			data[bytes.LastIndex(data, []byte("command 12"))] ^= 1
			return data
		})
		requireRefused(t, s.dir.root, WAL, "ends at entry 9", "up to 12 were acknowledged")
	})
	t.Run("an older copy of the log comes back", func(t *testing.T) {
		forEachKind(t, func(t *testing.T, kind string) {
			s := open(t, fastDir(t), kind)
			appendEntries(t, s, 1, 12, 2)
			require.NoError(t, s.Close())
			old := fastDir(t)
			copyTree(t, s.dir.root, old)
			s = reopen(t, s, kind)
			appendEntries(t, s, 13, 15, 2)
			require.NoError(t, s.Close())
			replaceFiles(t, old, old, s.dir.root, []string{"raft.db", "wal"})
			requireRefused(t, s.dir.root, kind, "up to 15 were acknowledged")
		})
	})
	t.Run("but a batch that was never acknowledged may be torn", func(t *testing.T) {
		s := open(t, fastDir(t), WAL)
		appendEntries(t, s, 1, 12, 2)
		require.NoError(t, s.Close())
		require.NoError(t, os.WriteFile(s.dir.markPath(), encodeHighWaterMark(s.MemberID, 9), 0o600))
		segments, err := filepath.Glob(filepath.Join(s.dir.walPath(), "*.wal"))
		require.NoError(t, err)
		rewriteFile(t, segments[len(segments)-1], func(data []byte) []byte {
			data[bytes.LastIndex(data, []byte("command 12"))] ^= 1
			return data
		})
		for range 2 {
			s = reopen(t, s, WAL)
			requireEntries(t, s, 1, 9)
		}
		appendEntries(t, s, 10, 12, 2)
		requireEntries(t, reopen(t, s, WAL), 1, 12)
	})
}

func TestS22_TheTwoCopiesOfTheVoteAgree(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		set := func(term uint64) {
			require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), term))
			require.NoError(t, s.Close())
		}
		copies := map[uint64]string{}
		for _, term := range []uint64{1, 2, 3} {
			set(term)
			copies[term] = fastDir(t)
			copyTree(t, s.dir.root, copies[term])
			s = open(t, s.dir.root, kind)
		}
		require.NoError(t, s.Close())
		t.Run("a crash between the two is carried on", func(t *testing.T) {
			dir := fastDir(t)
			copyTree(t, copies[3], dir)
			replaceFiles(t, copies[2], copies[2], dir, []string{"raft.db"})
			for range 2 {
				s := open(t, dir, kind)
				term, err := s.Stable.GetUint64([]byte(keyTerm))
				require.NoError(t, err)
				require.Equal(t, uint64(3), term)
				require.NoError(t, s.Close())
			}
		})
		t.Run("an older stable store is refused", func(t *testing.T) {
			dir := fastDir(t)
			copyTree(t, copies[3], dir)
			replaceFiles(t, copies[1], copies[1], dir, []string{"raft.db"})
			requireRefused(t, dir, kind, "disagree on CurrentTerm")
		})
		t.Run("an older file is refused", func(t *testing.T) {
			dir := fastDir(t)
			copyTree(t, copies[3], dir)
			replaceFiles(t, copies[2], copies[2], dir, []string{"vote.json"})
			requireRefused(t, dir, kind, "disagree on CurrentTerm")
		})
	})
}
