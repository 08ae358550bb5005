package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fastDir is a folder in memory when the machine has one: these tests sync a lot.
func fastDir(t testing.TB) string {
	t.Helper()
	base := "/dev/shm"
	if st, err := os.Stat(base); err != nil || !st.IsDir() {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "holdfast-journal-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func open(t testing.TB, dir string, segmentBytes, retain int64) *Journal {
	t.Helper()
	j, err := Open(Options{Dir: dir, SegmentBytes: segmentBytes, RetainBytes: retain})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func entry(i uint64) Entry {
	return Entry{Index: i, Term: i/100 + 1, Command: fmt.Appendf(nil, "command %d %s", i, bytes.Repeat([]byte{byte(i)}, int(i%70))), Outcome: fmt.Appendf(nil, "outcome %d", i)}
}

// appendEvenEntries appends every second index, as if Raft's own entries were between.
func appendEvenEntries(t testing.TB, j *Journal, from, to uint64) {
	t.Helper()
	for i := from; i <= to; i++ {
		if i%2 == 0 {
			require.NoError(t, j.Append(entry(i)))
		}
	}
}

// readRange reads a range and checks what it yields; gaps come back as "from-to".
func readRange(t testing.TB, j *Journal, from, to uint64) (indexes []uint64, gaps []string) {
	t.Helper()
	var last uint64
	require.NoError(t, j.Range(from, to, func(e Entry) bool {
		if e.Index <= last {
			t.Fatalf("%d after %d", e.Index, last)
		}
		last = max(e.Index, e.GapTo)
		if e.Gap {
			require.NotEmpty(t, e.Reason)
			gaps = append(gaps, fmt.Sprintf("%d-%d", e.Index, e.GapTo))
			return true
		}
		requireSame(t, e)
		indexes = append(indexes, e.Index)
		return true
	}))
	return indexes, gaps
}

// requireSame expects an entry to be as it was appended.
func requireSame(t testing.TB, e Entry) {
	t.Helper()
	want := entry(e.Index)
	if e.Term != want.Term || !bytes.Equal(e.Command, want.Command) || !bytes.Equal(e.Outcome, want.Outcome) {
		require.Equal(t, want, e)
	}
}

func evenIndexes(from, to uint64) (indexes []uint64) {
	for i := from; i <= to; i++ {
		if i%2 == 0 {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// requireRange expects every even index of the range, and these gaps.
func requireRange(t testing.TB, j *Journal, from, to uint64, gaps ...string) {
	t.Helper()
	for range 2 {
		got, gotGaps := readRange(t, j, from, to)
		require.True(t, slices.Equal(evenIndexes(from, to), got), "told of %d to %d: %d indexes", from, to, len(got))
		require.Equal(t, gaps, gotGaps)
	}
}

func TestAppendedEntriesAreReadBack(t *testing.T) {
	dir := filepath.Join(fastDir(t), "journal")
	j := open(t, dir, 4<<10, 1<<30)
	require.Zero(t, j.First())
	require.Zero(t, j.Last())
	requireRange(t, j, 1, 1)
	for i := uint64(1); i <= 2000; i += 100 {
		appendEvenEntries(t, j, i, i+99)
		require.NoError(t, j.Sync(i+99))
	}
	for round := range 3 {
		requireRange(t, j, 1, 2000)
		requireRange(t, j, 501, 600)
		requireRange(t, j, 1999, 1999)
		got, gaps := readRange(t, j, 1990, 0)
		require.Equal(t, evenIndexes(1990, 2000), got)
		require.Empty(t, gaps)
		got, gaps = readRange(t, j, 3000, 4000)
		require.Empty(t, got)
		require.Empty(t, gaps)
		require.Equal(t, uint64(1), j.First())
		require.Equal(t, uint64(2000), j.Last())
		if round == 1 {
			require.NoError(t, j.Close())
			requireRange(t, j, 1, 2000)
			j = open(t, dir, 4<<10, 1<<30)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.hfj"))
	require.NoError(t, err)
	require.Greater(t, len(names), 3)
	for _, name := range append(names, dir) {
		st, err := os.Stat(name)
		require.NoError(t, err)
		require.Zero(t, st.Mode().Perm()&0o077)
	}
}

func TestRangeStopsWhenTheCallbackReturnsFalse(t *testing.T) {
	j := open(t, fastDir(t), 4<<10, 1<<30)
	appendEvenEntries(t, j, 1, 1000)
	n := 0
	require.NoError(t, j.Range(1, 0, func(Entry) bool { n++; return n < 5 }))
	require.Equal(t, 5, n)
}

func TestS26_EntriesAreIdentifiedByIndex(t *testing.T) {
	for name, tc := range map[string]struct {
		again Entry
		err   error
	}{
		"the same entry is skipped":            {again: entry(40)},
		"another outcome is the same entry":    {again: Entry{Index: 40, Term: entry(40).Term, Command: entry(40).Command}},
		"another command is a conflict":        {again: Entry{Index: 40, Term: entry(40).Term, Command: []byte("other")}, err: ErrConflict},
		"another term is a conflict":           {again: Entry{Index: 40, Term: 9, Command: entry(40).Command}, err: ErrConflict},
		"a command where none was is one too":  {again: entry(41), err: ErrConflict},
		"the last entry is compared":           {again: Entry{Index: 100, Command: []byte("other")}, err: ErrConflict},
		"what the snapshot skipped cannot be":  {again: entry(110)},
		"the one after the snapshot is stored": {again: entry(122)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fastDir(t)
			j := open(t, dir, 1<<10, 1<<30)
			appendEvenEntries(t, j, 1, 100)
			require.NoError(t, j.Restored(120))
			for range 2 {
				require.ErrorIs(t, j.Append(tc.again), tc.err)
				require.NoError(t, j.Close())
				j = open(t, dir, 1<<10, 1<<30)
				require.NoError(t, j.Restored(30), "an older snapshot says nothing new")
			}
			require.ErrorIs(t, j.Append(tc.again), tc.err)
			got, gaps := readRange(t, j, 1, 120)
			require.Equal(t, evenIndexes(1, 100), got)
			require.Equal(t, []string{"101-120"}, gaps)
		})
	}
}

func TestS26_ReplayedEntriesAreStoredOnce(t *testing.T) {
	dir := fastDir(t)
	j := open(t, dir, 2<<10, 1<<30)
	appendEvenEntries(t, j, 1, 1000)
	for round := range uint64(3) {
		require.NoError(t, j.Close())
		j = open(t, dir, 2<<10, 1<<30)
		require.NoError(t, j.Restored(700))
		appendEvenEntries(t, j, 701, 1000+round*10) // the log behind the snapshot
		requireRange(t, j, 1, 1000+round*10)
	}
}

func TestARestoredDumpLeavesAGap(t *testing.T) {
	t.Run("history of a new member begins at the snapshot", func(t *testing.T) {
		dir := fastDir(t)
		for range 2 {
			j := open(t, dir, 1<<10, 1<<30)
			require.NoError(t, j.Restored(500))
			require.Zero(t, j.First())
			require.NoError(t, j.Close())
		}
		j := open(t, dir, 1<<10, 1<<30)
		require.NoError(t, j.Restored(500))
		appendEvenEntries(t, j, 501, 600)
		requireRange(t, j, 501, 600)
		require.Equal(t, uint64(501), j.First())
		got, gaps := readRange(t, j, 1, 600)
		require.Equal(t, evenIndexes(501, 600), got)
		require.Empty(t, gaps, "before the beginning nothing is missing, it was never known")
	})
	t.Run("an installed snapshot is a gap", func(t *testing.T) {
		dir := fastDir(t)
		j := open(t, dir, 1<<10, 1<<30)
		appendEvenEntries(t, j, 1, 100)
		require.NoError(t, j.Restored(200))
		appendEvenEntries(t, j, 201, 300)
		for range 2 {
			got, gaps := readRange(t, j, 1, 300)
			require.Equal(t, append(evenIndexes(1, 100), evenIndexes(201, 300)...), got)
			require.Equal(t, []string{"101-200"}, gaps)
			_, gaps = readRange(t, j, 150, 160)
			require.Equal(t, []string{"150-160"}, gaps)
			require.NoError(t, j.Close())
			j = open(t, dir, 1<<10, 1<<30)
		}
	})
	t.Run("Raft's own entries before a snapshot are no gap", func(t *testing.T) {
		dir := fastDir(t)
		j := open(t, dir, 1<<10, 1<<30)
		appendEvenEntries(t, j, 1, 100)
		require.NoError(t, j.Sync(105))
		require.NoError(t, j.Close())
		j = open(t, dir, 1<<10, 1<<30)
		require.NoError(t, j.Restored(105))
		appendEvenEntries(t, j, 106, 110)
		got, gaps := readRange(t, j, 1, 110)
		require.Equal(t, append(evenIndexes(1, 100), evenIndexes(106, 110)...), got)
		require.Empty(t, gaps)
	})
}

func TestS26_WhatWasSyncedSurvivesAKill(t *testing.T) {
	dir, after := fastDir(t), fastDir(t)
	j := open(t, dir, 8<<10, 1<<30)
	appendEvenEntries(t, j, 1, 500)
	require.NoError(t, j.Sync(500))
	appendEvenEntries(t, j, 501, 520) // in memory only
	copyDir(t, dir, after)
	j = open(t, after, 8<<10, 1<<30)
	require.NoError(t, j.Restored(500))
	requireRange(t, j, 1, 500)
	appendEvenEntries(t, j, 501, 520) // applied again
	requireRange(t, j, 1, 520)
}

func TestRetentionDeletesWholeOldSegments(t *testing.T) {
	dir := fastDir(t)
	j := open(t, dir, 2<<10, 10<<10)
	for i := uint64(1); i <= 20000; i += 200 {
		appendEvenEntries(t, j, i, i+199)
		require.NoError(t, j.Sync(i+199))
	}
	var bytes int64
	names, err := filepath.Glob(filepath.Join(dir, "*.hfj"))
	require.NoError(t, err)
	for _, name := range names {
		st, err := os.Stat(name)
		require.NoError(t, err)
		bytes += st.Size()
	}
	require.LessOrEqual(t, bytes, int64(10<<10)+8<<10)
	first := j.First()
	require.Greater(t, first, uint64(1000))
	requireRange(t, j, first, 20000)
	got, gaps := readRange(t, j, 1, 20000)
	require.Equal(t, evenIndexes(first, 20000), got)
	require.Empty(t, gaps)
	require.NoError(t, j.Append(entry(10)), "too old to compare")
	require.NoError(t, j.Close())
	require.Equal(t, first, open(t, dir, 2<<10, 10<<10).First())
}

func TestRangeWorksWhileEntriesAreAppended(t *testing.T) {
	j := open(t, fastDir(t), 4<<10, 64<<10)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(1); i <= 20000; i++ {
			if i%2 == 0 && j.Append(entry(i)) != nil {
				return
			}
		}
	})
	for range 20 {
		var last uint64
		require.NoError(t, j.Range(0, 0, func(e Entry) bool {
			switch {
			case e.Gap && e.Reason == expiredReason && e.Index == last+1:
				last = e.GapTo &^ 1 // indexes of entries are even
				return true
			case e.Gap || last != 0 && e.Index != last+2:
				t.Errorf("%d-%d %s after %d", e.Index, e.GapTo, e.Reason, last)
			}
			last = e.Index
			return true
		}))
	}
	wg.Wait()
	require.NoError(t, j.Sync(0)) // old segments go now, not between First and Range
	first := j.First()
	requireRange(t, j, first, 20000)
}

// What retention deletes between two entries that are read is a gap, as the reader would take the
// history for whole.
func TestWhatExpiresWhileItIsReadIsAGap(t *testing.T) {
	j := open(t, fastDir(t), 4<<10, 64<<10)
	appendEvenEntries(t, j, 1, 2000)
	var indexes []uint64
	var gaps []Entry
	require.NoError(t, j.Range(0, 0, func(e Entry) bool {
		if len(indexes) == 0 {
			appendEvenEntries(t, j, 2001, 20000)
			require.NoError(t, j.Sync(0))
			require.Greater(t, j.First(), uint64(2000))
		}
		if e.Gap {
			gaps = append(gaps, e)
		} else {
			indexes = append(indexes, e.Index)
		}
		return true
	}))
	last := indexes[len(indexes)-1]
	require.Equal(t, evenIndexes(2, last), indexes)
	require.Equal(t, []Entry{{Index: last + 1, Gap: true, GapTo: 2000, Reason: expiredReason}}, gaps)
}

func TestNothingIsAcceptedAfterClose(t *testing.T) {
	j := open(t, fastDir(t), 0, 0)
	appendEvenEntries(t, j, 1, 10)
	for range 2 {
		require.NoError(t, j.Close())
		require.ErrorIs(t, j.Append(entry(12)), ErrClosed)
		require.ErrorIs(t, j.Sync(12), ErrClosed)
		require.ErrorIs(t, j.Restored(12), ErrClosed)
		requireRange(t, j, 1, 10)
	}
}

func copyDir(t testing.TB, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, e.Name()), data, 0o600))
	}
}
