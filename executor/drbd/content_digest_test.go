package drbd

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A write to a device beside DRBD is seen at both ends of the content and at places between, and one behind the content,
// where the metadata are, is not.
func TestTheDigestIsOfTheContentAlone(t *testing.T) {
	const size, content = 64 << 20, 62<<20 + 512
	for at, seen := range map[int64]bool{
		0: true, 1080: true, 1<<20 - 1: true, content - 1: true, content - 1<<20: true, (content - 1<<20) / 7 * 3: true, (content-1<<20)/7*6 + 1<<20 - 1: true,
		content: false, size - 1: false, 1 << 20: false, 20 << 20: false,
	} {
		file := sparseFile(t, size)
		r := New(Config{})
		before, err := r.ContentDigest(t.Context(), file, content)
		require.NoError(t, err)
		require.Len(t, before, 32)
		writeAt(t, file, at, "x")
		for range 2 {
			after, err := r.ContentDigest(t.Context(), file, content)
			require.NoError(t, err)
			require.Equal(t, seen, string(before) != string(after), "a byte at %d", at)
		}
	}
}

func TestTheDigestOfASmallContentIsOfAllOfIt(t *testing.T) {
	for _, content := range []int64{512, 1 << 20, 5<<20 + 512} {
		for _, at := range []int64{0, content / 3, content / 2, content - 1} {
			file := sparseFile(t, 8<<20)
			before, err := New(Config{}).ContentDigest(t.Context(), file, content)
			require.NoError(t, err)
			writeAt(t, file, at, "x")
			after, err := New(Config{}).ContentDigest(t.Context(), file, content)
			require.NoError(t, err)
			require.NotEqual(t, before, after, "a byte at %d of %d", at, content)
		}
	}
}

func TestAContentThatCannotBeReadHasNoDigest(t *testing.T) {
	file := sparseFile(t, 8<<20)
	_, err := New(Config{}).ContentDigest(t.Context(), file, 8<<20+512)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = New(Config{}).ContentDigest(t.Context(), file+"-none", 1<<20)
	require.ErrorIs(t, err, os.ErrNotExist)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = New(Config{}).ContentDigest(ended, file, 1<<20)
	require.ErrorIs(t, err, context.Canceled)
}

func sparseFile(t *testing.T, size int64) string {
	file := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, size))
	return file
}
