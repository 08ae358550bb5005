package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestTheLogAndTheVoteSurviveAClose(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		had, err := s.HasExistingState()
		require.NoError(t, err)
		require.False(t, had)
		appendEntries(t, s, 1, 100, 3)
		require.NoError(t, s.Stable.Set([]byte(keyVoteCand), []byte("someone")))
		for range 2 {
			member := s.MemberID
			s = reopen(t, s, kind)
			require.Equal(t, member, s.MemberID)
			requireEntries(t, s, 1, 100)
			cand, err := s.Stable.Get([]byte(keyVoteCand))
			require.NoError(t, err)
			require.Equal(t, "someone", string(cand))
			had, err := s.HasExistingState()
			require.NoError(t, err)
			require.True(t, had)
			term, index, err := position(s)
			require.NoError(t, err)
			require.Equal(t, [2]uint64{3, 100}, [2]uint64{term, index})
		}
	})
}

func TestDeletingFromEitherEndSurvivesAClose(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		appendEntries(t, s, 1, 100, 1)
		snapshotAt(t, s, 50, 1)
		require.NoError(t, s.Logs.DeleteRange(1, 40))
		require.NoError(t, s.Logs.DeleteRange(91, 100))
		require.NoError(t, s.Logs.DeleteRange(200, 300))
		requireEntries(t, s, 41, 90)
		appendEntries(t, s, 91, 95, 2)
		s = reopen(t, s, kind)
		requireEntries(t, s, 41, 95)
		require.NoError(t, s.Logs.DeleteRange(41, 95))
		s = reopen(t, s, kind)
		requireEntries(t, s, 0, 0)
		appendEntries(t, s, 51, 60, 3)
		s = reopen(t, s, kind)
		requireEntries(t, s, 51, 60)
	})
}

func TestS22_TheLogIsMonotonicAndMakesNoGap(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		mono, ok := s.Logs.(raft.MonotonicLogStore)
		require.True(t, ok, "Raft must see through the wrappers")
		require.True(t, mono.IsMonotonic())
		appendEntries(t, s, 1, 10, 1)
		require.ErrorContains(t, s.Logs.StoreLog(entry(12, 1)), "entry 12 does not follow entry 10")
	})
}

func TestExtensionsOfOthersAreKept(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 1))
		l := &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("d"), Extensions: []byte("mine")}
		require.NoError(t, s.Logs.StoreLog(l))
		require.Equal(t, "mine", string(l.Extensions), "the caller's entry stays as it is")
		s = reopen(t, s, kind)
		var got raft.Log
		require.NoError(t, s.Logs.GetLog(1, &got))
		require.Equal(t, "mine", string(got.Extensions))
		require.Equal(t, raft.LogConfiguration, got.Type)
	})
}

func TestS21_AFolderIsForOneProcess(t *testing.T) {
	dir := fastDir(t)
	s := open(t, dir, WAL)
	for range 2 {
		_, err := Open(options(dir, WAL))
		require.ErrorIs(t, err, ErrInUse)
		require.NotContains(t, err.Error(), "\n")
	}
	reopen(t, s, WAL)
}

func TestS21_TheLogStoreIsFixed(t *testing.T) {
	for _, pair := range [][2]string{{WAL, BoltDB}, {BoltDB, WAL}} {
		t.Run("made with "+pair[0], func(t *testing.T) {
			dir := fastDir(t)
			require.NoError(t, open(t, dir, pair[0]).Close())
			requireRefused(t, dir, pair[1], "changing the store is leaving and joining with a new id")
			open(t, dir, pair[0])
		})
	}
	_, err := Open(options(fastDir(t), "etcd"))
	require.ErrorContains(t, err, "unknown log store")
}

func TestS21_AMissingFileIsRefused(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		made := fastDir(t)
		s := open(t, made, kind)
		appendEntries(t, s, 1, 20, 1)
		require.NoError(t, s.Close())
		for _, file := range (dataDir{root: made}).requiredPaths(kind) {
			rel, err := filepath.Rel(made, file)
			require.NoError(t, err)
			t.Run(rel, func(t *testing.T) {
				dir := fastDir(t)
				copyTree(t, made, dir)
				require.NoError(t, os.RemoveAll(filepath.Join(dir, rel)))
				requireRefused(t, dir, kind, filepath.Base(rel))
			})
		}
	})
}

func TestS21_WhatOthersCanReadIsRefused(t *testing.T) {
	dir := fastDir(t)
	require.NoError(t, open(t, dir, WAL).Close())
	for _, file := range append((dataDir{root: dir}).requiredPaths(WAL), dir) {
		st, err := os.Stat(file)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(file, st.Mode().Perm()|0o044))
		requireRefused(t, dir, WAL, file, "chmod")
		require.NoError(t, os.Chmod(file, st.Mode().Perm()))
	}
	open(t, dir, WAL)
}

func TestFilesArePrivateWhateverTheUmask(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		dir := filepath.Join(fastDir(t), "made", "here")
		s := open(t, dir, kind)
		appendEntries(t, s, 1, 200, 1)
		snapshotAt(t, s, 100, 1)
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			require.NoError(t, err)
			st, err := d.Info()
			require.NoError(t, err)
			require.Zero(t, st.Mode().Perm()&0o077, "%s can be read by others", path)
			return nil
		}))
	})
}

func TestS21_AnInterruptedFirstStartIsRepeated(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		dir := fastDir(t)
		s := open(t, dir, kind)
		id := s.id
		require.NoError(t, s.Close())
		id.Initialised = false
		require.NoError(t, (dataDir{root: dir}).writeChecksummed((dataDir{root: dir}).identityPath(), "", id))
		require.NoError(t, os.Remove((dataDir{root: dir}).votePath()))
		s = open(t, dir, kind)
		require.Equal(t, id.Member, s.MemberID)
		appendEntries(t, s, 1, 3, 1)
		requireEntries(t, reopen(t, s, kind), 1, 3)
	})
}

func TestS23_AQuarantinedMemberDoesNotStart(t *testing.T) {
	dir := fastDir(t)
	s := open(t, dir, WAL)
	appendEntries(t, s, 1, 5, 1)
	require.NoError(t, s.Quarantine("hash at 5 differs"))
	require.NoError(t, s.Close())
	for range 2 {
		_, err := Open(options(dir, WAL))
		require.ErrorIs(t, err, ErrQuarantined)
		require.ErrorContains(t, err, "hash at 5 differs")
	}
	require.FileExists(t, (dataDir{root: dir}).boltPath(), "its files are kept")
}

func TestTheClusterIsRecordedOnce(t *testing.T) {
	s := open(t, fastDir(t), WAL)
	require.Empty(t, s.ClusterID())
	for range 2 {
		require.NoError(t, s.SetClusterID("c1"))
		s = reopen(t, s, WAL)
		require.Equal(t, "c1", s.ClusterID())
	}
	require.ErrorIs(t, s.SetClusterID("c2"), ErrRefused)
	require.Equal(t, "c1", s.ClusterID())
}

func TestS21_ATermBelowTheLogOrTheSnapshotIsRefused(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		t.Run("below the last entry", func(t *testing.T) {
			s := open(t, fastDir(t), kind)
			appendEntries(t, s, 1, 5, 3)
			require.NoError(t, s.Logs.StoreLog(entry(6, 4)))
			require.NoError(t, s.Close())
			requireRefused(t, s.dir.root, kind, "its term is 3, below term 4")
		})
		t.Run("below the snapshot", func(t *testing.T) {
			s := open(t, fastDir(t), kind)
			appendEntries(t, s, 1, 5, 3)
			snapshotAt(t, s, 9, 7)
			require.NoError(t, s.Close())
			requireRefused(t, s.dir.root, kind, "its term is 3, below term 7")
		})
	})
}

func TestS21_FilesOfAnotherMemberAreRefused(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		mine, theirs := fastDir(t), fastDir(t)
		for _, dir := range []string{mine, theirs} {
			s := open(t, dir, kind)
			appendEntries(t, s, 1, 60, 2)
			snapshotAt(t, s, 30, 2)
			require.NoError(t, s.Close())
		}
		swaps := map[string][]string{
			"identity":                    {"identity.json"},
			"stable store":                {"raft.db"},
			"vote":                        {"vote.json"},
			"stable store, vote":          {"raft.db", "vote.json"},
			"snapshots":                   {"snapshots"},
			"log":                         {"wal"},
			"log but its member":          {"wal", "-wal/member"},
			"segments":                    {"segments"},
			"everything but the identity": {"raft.db", "vote.json", "log.mark", "wal", "snapshots"},
		}
		for name, files := range swaps {
			if kind == BoltDB && (files[0] == "wal" || files[0] == "segments") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				dir := fastDir(t)
				copyTree(t, mine, dir)
				replaceFiles(t, mine, theirs, dir, files)
				requireRefused(t, dir, kind)
			})
		}
	})
}

// replaceFiles puts their files into dir; one with a minus comes from mine again.
func replaceFiles(t *testing.T, ours, theirs, dir string, files []string) {
	t.Helper()
	for _, file := range files {
		from, rel := theirs, file
		if file[0] == '-' {
			from, rel = ours, file[1:]
		}
		if file == "segments" {
			segments, err := filepath.Glob(filepath.Join(theirs, "wal", "*.wal"))
			require.NoError(t, err)
			for _, path := range segments {
				copyFile(t, path, filepath.Join(dir, "wal", filepath.Base(path)))
			}
			continue
		}
		st, err := os.Stat(filepath.Join(from, rel))
		if os.IsNotExist(err) {
			continue // no wal in a folder of the other kind
		}
		require.NoError(t, err)
		if st.IsDir() {
			copyTree(t, filepath.Join(from, rel), filepath.Join(dir, rel))
			continue
		}
		copyFile(t, filepath.Join(from, rel), filepath.Join(dir, rel))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}
