package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab/stamps"
)

func newRing(t *testing.T, blocks uint64) *ring {
	t.Helper()
	r, err := openRing(filepath.Join(t.TempDir(), "ring"), os.O_CREATE|os.O_RDWR, false, blocks)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.file.Close()) })
	return r
}

func TestWrittenRingIsComplete(t *testing.T) {
	for name, last := range map[string]uint64{"less than a turn": 5, "exactly one": 8, "several": 29} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, 8)
			for n := uint64(1); n <= last; n++ {
				stamp := "a"
				if n > last-2 {
					stamp = "b"
				}
				require.NoError(t, r.writeBlock(block{number: n, stamp: stamp}))
			}
			for range 2 {
				f, err := r.findMissing(last)
				require.NoError(t, err)
				require.Empty(t, f.Missing)
				require.Equal(t, last, f.Highest)
				require.Equal(t, []string{"a", "b"}, f.Stamps)
			}
		})
	}
}

// The last block was written and not acknowledged when the writer lost its power.
func TestBlockAfterLastAcknowledged(t *testing.T) {
	r := newRing(t, 8)
	for n := uint64(1); n <= 21; n++ {
		require.NoError(t, r.writeBlock(block{number: n, stamp: map[bool]string{true: "a", false: "b"}[n <= 16]}))
	}
	f, err := r.findMissing(19)
	require.NoError(t, err)
	require.Empty(t, f.Missing)
	require.Equal(t, uint64(21), f.Highest)
	require.Equal(t, []string{"a", "b"}, f.Stamps)
}

func TestLostTornAndOldBlocksAreMissing(t *testing.T) {
	for name, harm := range map[string]func(*ring) error{
		"lost": func(r *ring) error { _, err := r.file.WriteAt(make([]byte, blockSize), r.offset(10)); return err },
		"torn": func(r *ring) error { _, err := r.file.WriteAt(make([]byte, 512), r.offset(10)+2048); return err },
		"old":  func(r *ring) error { return r.writeBlock(block{number: 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, 8)
			for n := uint64(1); n <= 12; n++ {
				require.NoError(t, r.writeBlock(block{number: n}))
			}
			require.NoError(t, harm(r))
			f, err := r.findMissing(12)
			require.NoError(t, err)
			require.Equal(t, []uint64{10}, f.Missing)
		})
	}
}

func TestAcknowledgementsAreOneRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acks")
	a, err := openAcks(path)
	require.NoError(t, err)
	for n := uint64(1); n < 4; n++ {
		require.NoError(t, a.acknowledged(n))
	}
	require.NoError(t, a.failed(os.ErrClosed))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, text, recordBytes)
	require.Contains(t, string(text), `"number":3`)
	require.Contains(t, string(text), "file already closed")
}

// A scan finds each block at whatever sector it is, whole ones only, and equal content has equal checksums.
func TestScanFindsBlocksAnywhere(t *testing.T) {
	content := make([]byte, 2*scanBytes)
	for at, n := range map[int]uint64{4096: 1, 3 * 4096: 2, scanBytes - 1024: 511, scanBytes + 512*13: 600} {
		block{number: n, stamp: "a"}.marshal(content[at:][:blockSize])
	}
	copy(content[3*4096+2048:], "torn")
	var whole, half scanResult
	whole.add(0, content[:scanBytes+blockSize])
	whole.add(scanBytes, content[scanBytes:])
	half.add(0, content[:scanBytes])
	require.Equal(t, []stamps.Block{{At: 4096, Number: 1, Stamp: "a"}, {At: scanBytes - 1024, Number: 511, Stamp: "a"}, {At: scanBytes + 512*13, Number: 600, Stamp: "a"}}, whole.Blocks)
	require.Equal(t, whole.Blocks[:1], half.Blocks)
	require.Len(t, whole.Sums, 2)
	require.Equal(t, whole.Sums[:1], half.Sums)
	require.NotEqual(t, whole.Sums[0], whole.Sums[1])
}

func TestScanReadsUpToItsEnd(t *testing.T) {
	o := options{bytes: scanBytes + 4096}
	require.EqualValues(t, scanBytes+4096, o.length(0))
	require.EqualValues(t, 4096, o.length(scanBytes))
}
