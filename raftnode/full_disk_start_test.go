package raftnode

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// S28: a member whose files must be copied at its start takes the room for it from the disk reserve.
func TestS28_AStartOnAFullDiskTakesTheReserve(t *testing.T) {
	t.Parallel()
	starts, reserve := 0, ""
	c := newTestCluster(t, func(cfg *Config) {
		cfg.openStorage = func(o store.Options) (*storage, error) {
			starts++
			if _, err := os.Stat(reserve); err == nil {
				return nil, &os.PathError{Op: "fallocate", Path: o.Dir, Err: syscall.ENOSPC}
			}
			return openStorage(o)
		}
	})
	n := c.prepare("c1", nil)
	require.NoError(t, c.start(n))
	reserve = filepath.Join(n.cfg.Dir, reserveName)
	c.waitReady(1)
	require.FileExists(t, reserve)
	require.NoError(t, n.stop())
	starts = 0
	require.NoError(t, c.start(n))
	require.Equal(t, 2, starts)
	c.waitReady(1)
	require.NoError(t, n.stop())
	reserve = n.cfg.Dir // nothing to delete helps
	require.ErrorIs(t, c.start(n), syscall.ENOSPC)
	n.Member = nil
}
