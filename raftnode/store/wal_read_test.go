package store

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"
	"github.com/stretchr/testify/require"
)

// TestEntriesOfEverySizeAreReadBack stores entries around every size at which reading
// changes its way, and reads them back from open and from full segments.
func TestEntriesOfEverySizeAreReadBack(t *testing.T) {
	dir := fastDir(t)
	o := options(dir, WAL)
	o.SegmentSize = 1 << 20
	s, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 2))
	var want [][]byte
	for _, around := range []int{0, entryReadSize, readAheadSize / 2, walReadSize, readAheadSize} {
		for size := max(around-64, 0); size < around+64; size++ {
			want = append(want, bytes.Repeat([]byte{byte(size)}, size))
		}
	}
	for i, data := range want {
		require.NoError(t, s.Logs.StoreLog(&raft.Log{Index: uint64(i) + 1, Term: 2, Data: data}))
	}
	for range 2 {
		for i, data := range want {
			var got raft.Log
			require.NoError(t, s.Logs.GetLog(uint64(i)+1, &got))
			require.True(t, bytes.Equal(data, got.Data), "an entry of %d bytes", len(data))
		}
		require.NoError(t, s.Close())
		s, err = Open(o)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
}

// countingFile counts the bytes that were read from a file.
type countingFile struct {
	io.ReaderAt
	bytes, calls int
}

func (c *countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.bytes, c.calls = c.bytes+n, c.calls+1
	return n, err
}

func (c *countingFile) WriteAt([]byte, int64) (int, error) { return 0, io.ErrShortWrite }
func (c *countingFile) Sync() error                        { return nil }
func (c *countingFile) Close() error                       { return nil }

// frame is an entry as raft-wal writes it.
func frame(kind byte, length int) []byte {
	head := []byte{kind, 0, 0, 0, byte(length), byte(length >> 8), byte(length >> 16), 0}
	return append(head, bytes.Repeat([]byte{7}, (length+7)&^7)...)
}

func TestReadingOneEntryReadsLittleMore(t *testing.T) {
	for name, tc := range map[string]struct {
		file  []byte
		ask   int
		bytes int
		err   error
	}{
		"a short entry":                   {file: frame(1, 300), ask: walReadSize, bytes: entryReadSize, err: io.EOF},
		"the longest that fits":           {file: frame(1, entryReadSize-frameHeader), ask: walReadSize, bytes: entryReadSize, err: io.EOF},
		"one that does not fit":           {file: frame(1, entryReadSize-frameHeader+1), ask: walReadSize, bytes: walReadSize},
		"a frame that is no entry":        {file: frame(2, 300), ask: walReadSize, bytes: walReadSize},
		"content that begins like a kind": {file: append([]byte{1, 2, 0, 0}, frame(0, 300)...), ask: walReadSize, bytes: walReadSize},
		"a read of another size":          {file: frame(1, 300), ask: walReadSize - 1, bytes: walReadSize - 1},
		"a header":                        {file: frame(1, 300), ask: frameHeader, bytes: frameHeader},
	} {
		t.Run(name, func(t *testing.T) {
			file := append(tc.file, make([]byte, 2*walReadSize)...)
			walked := new(atomic.Bool)
			walked.Store(true)
			for _, f := range []types.ReadableFile{
				sealedSegment{&countingFile{ReaderAt: bytes.NewReader(file)}},
				&activeSegment{WritableFile: &countingFile{ReaderAt: bytes.NewReader(file)}, logOpen: walked, readAhead: &readAhead{}},
			} {
				p := make([]byte, tc.ask)
				n, err := f.ReadAt(p, 0)
				require.Equal(t, tc.err, err)
				require.Equal(t, tc.bytes, n)
				require.Equal(t, file[:n], p[:n])
			}
		})
	}
}

func TestReadAheadReturnsWhatTheFileHolds(t *testing.T) {
	file := make([]byte, 3*readAheadSize+5)
	for i := range file {
		file[i] = byte(i * 7 >> 3)
	}
	c := &countingFile{ReaderAt: bytes.NewReader(file)}
	f := &activeSegment{WritableFile: c, logOpen: new(atomic.Bool), readAhead: &readAhead{r: c}}
	for at := int64(0); at < int64(len(file)); at += 8 {
		requireSameRead(t, file, f, 8, at)
	}
	require.LessOrEqual(t, c.calls, len(file)/readAheadSize+2)
	for _, at := range []int64{0, 5, readAheadSize - 4, readAheadSize + 1, 3 * readAheadSize, int64(len(file)) - 3, int64(len(file)), int64(len(file)) + 10, 2} {
		for _, ask := range []int{1, 8, 4096, walReadSize, readAheadSize, 2 * readAheadSize} {
			requireSameRead(t, file, f, ask, at)
		}
	}
}

// requireSameRead expects a read to give what reading the bytes themselves gives.
func requireSameRead(t *testing.T, file []byte, f io.ReaderAt, ask int, at int64) {
	t.Helper()
	got, want := make([]byte, ask), make([]byte, ask)
	n, err := f.ReadAt(got, at)
	m, wantErr := bytes.NewReader(file).ReadAt(want, at)
	if n != m || !errors.Is(err, wantErr) || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes at %d: %d, %v instead of %d, %v", ask, at, n, err, m, wantErr)
	}
}
