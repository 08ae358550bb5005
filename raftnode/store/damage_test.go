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

// rounds is how many kinds of damage each file gets; more with HOLDFAST_DAMAGE.
func rounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("HOLDFAST_DAMAGE"))
	if err != nil {
		n = 12
	}
	if testing.Short() {
		n = 2
	}
	return n
}

// sound is all that Raft would read of a store.
type sound struct {
	Member, Cluster string
	Term, VoteTerm  uint64
	Cand            string
	Last            uint64
	Entries         map[uint64]string
	Snapshots       []string
}

func read(t *testing.T, s *Store) (v sound) {
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

// seasoned is a closed folder with everything in it: several segments, two
// snapshots, a compacted front, a vote.
func seasoned(t *testing.T, kind string) (dir string, want sound) {
	t.Helper()
	dir = fastDir(t)
	s := open(t, dir, kind)
	require.NoError(t, s.SetClusterID("cluster-1"))
	fill(t, s, 1, 120, 2)
	require.NoError(t, s.Stable.SetUint64([]byte(keyVoteTerm), 3))
	require.NoError(t, s.Stable.Set([]byte(keyVoteCand), []byte("candidate")))
	snapshotAt(t, s, 60, 2)
	fill(t, s, 121, 150, 3)
	snapshotAt(t, s, 130, 3)
	require.NoError(t, s.Logs.DeleteRange(1, 55))
	s = reopen(t, s, kind)
	want = read(t, s)
	require.NoError(t, s.Close())
	return dir, want
}

// agrees tells whether what was opened is what was stored: the same votes, the
// same end of the log and the same entries. Entries that were compacted may be
// back, and an older snapshot may stand in for a damaged one.
func agrees(t *testing.T, want, got sound) {
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
	for name, spoil := range map[string]func(r *rand.Rand, data []byte) []byte{
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
			eachKind(t, func(t *testing.T, kind string) {
				made, want := seasoned(t, kind)
				dir := fastDir(t)
				refusals, total := 0, 0
				for _, file := range files(t, made) {
					r := rand.New(rand.NewPCG(7, uint64(len(file))))
					for range rounds(t) {
						copyTree(t, made, dir)
						if !change(t, filepath.Join(dir, file), func(data []byte) []byte { return spoil(r, data) }) {
							continue
						}
						total++
						if refusedOrSound(t, dir, kind, file, want) {
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

func refusedOrSound(t *testing.T, dir, kind, file string, want sound) (refused bool) {
	t.Helper()
	s, err := Open(options(dir, kind))
	if err != nil {
		require.ErrorIs(t, err, ErrRefused, file)
		return true
	}
	agrees(t, want, read(t, s))
	require.NoError(t, s.Logs.StoreLog(entry(want.Last+1, 3)), "and it goes on")
	require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 4))
	require.NoError(t, s.Close())
	want.Term, want.Last = 4, want.Last+1
	s, err = Open(options(dir, kind))
	require.NoError(t, err, "what was accepted once is accepted again: %s", file)
	agrees(t, want, read(t, s))
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

// change rewrites a file and tells whether it is different now.
func change(t *testing.T, path string, spoil func([]byte) []byte) bool {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	spoiled := spoil(bytes.Clone(data))
	require.NoError(t, os.WriteFile(path, spoiled, 0o600))
	return !bytes.Equal(data, spoiled)
}

func TestS22_ALogThatLostItsEndIsRefused(t *testing.T) {
	t.Run("the last batch of the wal is torn after it was acknowledged", func(t *testing.T) {
		s := open(t, fastDir(t), WAL)
		fill(t, s, 1, 12, 2)
		require.NoError(t, s.Close())
		segments, err := filepath.Glob(filepath.Join(s.dir.wal(), "*.wal"))
		require.NoError(t, err)
		change(t, segments[len(segments)-1], func(data []byte) []byte {
			data[bytes.LastIndex(data, []byte("command 12"))] ^= 1
			return data
		})
		refused(t, string(s.dir), WAL, "ends at entry 9", "up to 12 were acknowledged")
	})
	t.Run("an older copy of the log comes back", func(t *testing.T) {
		eachKind(t, func(t *testing.T, kind string) {
			s := open(t, fastDir(t), kind)
			fill(t, s, 1, 12, 2)
			require.NoError(t, s.Close())
			old := fastDir(t)
			copyTree(t, string(s.dir), old)
			s = reopen(t, s, kind)
			fill(t, s, 13, 15, 2)
			require.NoError(t, s.Close())
			swap(t, old, old, string(s.dir), []string{"raft.db", "wal"})
			refused(t, string(s.dir), kind, "up to 15 were acknowledged")
		})
	})
	t.Run("but a batch that was never acknowledged may be torn", func(t *testing.T) {
		s := open(t, fastDir(t), WAL)
		fill(t, s, 1, 12, 2)
		require.NoError(t, s.Close())
		require.NoError(t, os.WriteFile(s.dir.mark(), encodeMark(s.MemberID, 9), 0o600))
		segments, err := filepath.Glob(filepath.Join(s.dir.wal(), "*.wal"))
		require.NoError(t, err)
		change(t, segments[len(segments)-1], func(data []byte) []byte {
			data[bytes.LastIndex(data, []byte("command 12"))] ^= 1
			return data
		})
		for range 2 {
			s = reopen(t, s, WAL)
			holds(t, s, 1, 9)
		}
		fill(t, s, 10, 12, 2)
		holds(t, reopen(t, s, WAL), 1, 12)
	})
}

func TestS22_TheTwoCopiesOfTheVoteAgree(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		set := func(term uint64) {
			require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), term))
			require.NoError(t, s.Close())
		}
		copies := map[uint64]string{}
		for _, term := range []uint64{1, 2, 3} {
			set(term)
			copies[term] = fastDir(t)
			copyTree(t, string(s.dir), copies[term])
			s = open(t, string(s.dir), kind)
		}
		require.NoError(t, s.Close())
		t.Run("a crash between the two is carried on", func(t *testing.T) {
			dir := fastDir(t)
			copyTree(t, copies[3], dir)
			swap(t, copies[2], copies[2], dir, []string{"raft.db"})
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
			swap(t, copies[1], copies[1], dir, []string{"raft.db"})
			refused(t, dir, kind, "disagree on CurrentTerm")
		})
		t.Run("an older file is refused", func(t *testing.T) {
			dir := fastDir(t)
			copyTree(t, copies[3], dir)
			swap(t, copies[2], copies[2], dir, []string{"vote.json"})
			refused(t, dir, kind, "disagree on CurrentTerm")
		})
	})
}
