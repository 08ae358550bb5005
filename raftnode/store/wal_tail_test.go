package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"github.com/stretchr/testify/require"
)

// stopBeforeRotation is a closed folder as a stop between the index of a full segment and
// the new list of segments leaves it. It returns the full segment and its last index.
func stopBeforeRotation(t *testing.T) (s *Store, full string, last uint64) {
	t.Helper()
	s = open(t, fastDir(t), WAL)
	appendEntries(t, s, 1, 120, 2)
	require.NoError(t, s.Close())
	meta := &walMeta{dir: s.dir, member: s.MemberID}
	var state types.PersistentState
	require.Eventually(t, func() (ok bool) {
		var err error
		state, err = meta.Load("")
		return err == nil && len(state.Segments) > 2
	}, time.Minute, time.Millisecond)
	n := len(state.Segments) - 1
	require.NoError(t, os.Remove(filepath.Join(s.dir.walPath(), segment.FileName(state.Segments[n]))))
	state.Segments = state.Segments[:n]
	state.NextSegmentID--
	was := &state.Segments[n-1]
	last = was.MaxIndex
	was.SealTime, was.MaxIndex, was.IndexStart = time.Time{}, 0, 0
	require.NoError(t, meta.CommitState(state))
	require.NoError(t, os.WriteFile(s.dir.markPath(), encodeHighWaterMark(s.MemberID, last), 0o600))
	return s, filepath.Join(s.dir.walPath(), segment.FileName(*was)), last
}

func TestAnInterruptedSegmentRotationIsFinished(t *testing.T) {
	t.Run("the segment is full and the list does not say so", func(t *testing.T) {
		s, _, last := stopBeforeRotation(t)
		for range 2 {
			s = reopen(t, s, WAL)
			requireEntries(t, s, 1, last)
		}
		appendEntries(t, s, last+1, last+100, 2)
		requireEntries(t, reopen(t, s, WAL), 1, last+100)
	})
	t.Run("the index of the segment is torn", func(t *testing.T) {
		s, full, last := stopBeforeRotation(t)
		t1, err := readTail(full)
		require.NoError(t, err)
		require.NotZero(t, t1.index)
		require.NoError(t, os.WriteFile(s.dir.markPath(), encodeHighWaterMark(s.MemberID, last-5), 0o600), "the last batch was not acknowledged")
		rewriteFile(t, full, func(data []byte) []byte { data[t1.end-frameHeader-1] ^= 1; return data })
		s = reopen(t, s, WAL)
		got, err := s.Logs.LastIndex()
		require.NoError(t, err)
		require.Less(t, got, last)
		appendEntries(t, s, got+1, got+100, 2)
		requireEntries(t, reopen(t, s, WAL), 1, got+100)
	})
	t.Run("but nothing is touched when acknowledged entries are gone", func(t *testing.T) {
		s, full, _ := stopBeforeRotation(t)
		t1, err := readTail(full)
		require.NoError(t, err)
		rewriteFile(t, full, func(data []byte) []byte { data[t1.end-frameHeader-1] ^= 1; return data })
		before, err := os.ReadFile(full)
		require.NoError(t, err)
		requireRefused(t, s.dir.root, WAL, "were acknowledged")
		after, err := os.ReadFile(full)
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}
