package journal

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// An entry without a link has the form that builds before the links read, one with a link another; both come back.
func TestEntriesWithAndWithoutALinkComeBack(t *testing.T) {
	dir := fastDir(t)
	j := open(t, dir, 4<<10, 1<<30)
	link := func(i uint64) []byte { return bytes.Repeat([]byte{byte(i)}, linkBytes) }
	var want []Entry
	for i := uint64(1); i <= 200; i++ {
		e := entry(i)
		if i > 100 {
			e.Chain = link(i)
		}
		want = append(want, e)
		require.NoError(t, j.Append(e))
		require.NoError(t, j.Append(e), "the same again")
	}
	require.NoError(t, j.Close())
	for range 2 {
		read, err := OpenToRead(dir)
		require.NoError(t, err)
		require.ErrorIs(t, read.Append(entry(201)), ErrClosed)
		require.EqualValues(t, 200, read.Last())
		var got []Entry
		require.NoError(t, read.Range(0, 0, func(e Entry) bool { got = append(got, e); return true }))
		require.Len(t, got, len(want))
		for i, e := range got {
			require.Equal(t, want[i].Command, e.Command)
			require.Equal(t, want[i].Outcome, e.Outcome)
			require.Equal(t, want[i].Chain, e.Chain)
			require.Equal(t, want[i].Term, e.Term)
		}
	}
	var b block
	b.addRecord(entry(1))
	require.EqualValues(t, recordEntry, b.raw[recordHeaderSize])
	e := entry(2)
	e.Chain = link(2)
	b = block{}
	b.addRecord(e)
	require.EqualValues(t, recordLinked, b.raw[recordHeaderSize])
	_, err := parseRecord(b.raw[recordHeaderSize : recordHeaderSize+recordMinBody])
	require.ErrorIs(t, err, errChecksum)
}
