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

// unrotated is a closed folder as a stop between the index of a full segment and
// the new list of segments leaves it. It returns the full segment and its last index.
func unrotated(t *testing.T) (s *Store, full string, last uint64) {
	t.Helper()
	s = open(t, fastDir(t), WAL)
	fill(t, s, 1, 120, 2)
	require.NoError(t, s.Close())
	meta := &walMeta{path: s.dir.walMeta(), member: s.MemberID}
	var state types.PersistentState
	require.Eventually(t, func() (ok bool) {
		var err error
		state, err = meta.Load("")
		return err == nil && len(state.Segments) > 2
	}, time.Minute, time.Millisecond)
	n := len(state.Segments) - 1
	require.NoError(t, os.Remove(filepath.Join(s.dir.wal(), segment.FileName(state.Segments[n]))))
	state.Segments = state.Segments[:n]
	state.NextSegmentID--
	was := &state.Segments[n-1]
	last = was.MaxIndex
	was.SealTime, was.MaxIndex, was.IndexStart = time.Time{}, 0, 0
	require.NoError(t, meta.CommitState(state))
	require.NoError(t, os.WriteFile(s.dir.mark(), encodeMark(s.MemberID, last), 0o600))
	return s, filepath.Join(s.dir.wal(), segment.FileName(*was)), last
}

func TestAStopInTheMiddleOfAChangeOfSegmentsIsFinished(t *testing.T) {
	t.Run("the segment is full and the list does not say so", func(t *testing.T) {
		s, _, last := unrotated(t)
		for range 2 {
			s = reopen(t, s, WAL)
			holds(t, s, 1, last)
		}
		fill(t, s, last+1, last+100, 2)
		holds(t, reopen(t, s, WAL), 1, last+100)
	})
	t.Run("the index of the segment is torn", func(t *testing.T) {
		s, full, last := unrotated(t)
		t1, err := readTail(full)
		require.NoError(t, err)
		require.NotZero(t, t1.index)
		require.NoError(t, os.WriteFile(s.dir.mark(), encodeMark(s.MemberID, last-5), 0o600), "the last batch was not acknowledged")
		change(t, full, func(data []byte) []byte { data[t1.end-frameHeader-1] ^= 1; return data })
		s = reopen(t, s, WAL)
		got, err := s.Logs.LastIndex()
		require.NoError(t, err)
		require.Less(t, got, last)
		fill(t, s, got+1, got+100, 2)
		holds(t, reopen(t, s, WAL), 1, got+100)
	})
	t.Run("but nothing is touched when acknowledged entries are gone", func(t *testing.T) {
		s, full, _ := unrotated(t)
		t1, err := readTail(full)
		require.NoError(t, err)
		change(t, full, func(data []byte) []byte { data[t1.end-frameHeader-1] ^= 1; return data })
		before, err := os.ReadFile(full)
		require.NoError(t, err)
		refused(t, string(s.dir), WAL, "were acknowledged")
		after, err := os.ReadFile(full)
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}
