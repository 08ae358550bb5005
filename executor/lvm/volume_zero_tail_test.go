package lvm

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
)

func TestARangeIsZeroedAndNothingElse(t *testing.T) {
	const size = 300<<10 + 512
	full := bytes.Repeat([]byte{7}, size)
	for _, from := range []int64{0, 512, 4096, zeroBlock - 512, zeroBlock, 2*zeroBlock + 4096, size - 512} {
		for _, to := range []int64{from + 512, size} {
			path := filepath.Join(t.TempDir(), "device")
			require.NoError(t, os.WriteFile(path, full, 0o600))
			require.NoError(t, zeroRange(t.Context(), path, executor.Extent{Offset: from, Length: to - from}, zeroBlock))
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			want := bytes.Clone(full)
			clear(want[from:to])
			require.True(t, bytes.Equal(want, got), "from %d to %d", from, to)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(path, full, 0o600))
	require.ErrorIs(t, zeroRange(ctx, path, executor.Extent{Length: size}, zeroBlock), context.Canceled)
	require.Error(t, zeroRange(t.Context(), path, executor.Extent{Length: size + 1}, zeroBlock), "the device is shorter than the range")
}
