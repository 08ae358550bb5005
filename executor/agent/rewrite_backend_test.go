package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

const metadataBytes = 36 << 10

// downReplicator has the volume's resource in the kernel, or not.
type downReplicator struct {
	executor.Replicator
	inKernel bool
}

func (r *downReplicator) Observe(context.Context, fsm.VolumeID, uint32, string) (executor.ResourceStatus, error) {
	return executor.ResourceStatus{InKernel: r.inKernel}, nil
}

func (*downReplicator) BackingSize(size int64) int64 { return size + metadataBytes }

func (*downReplicator) BackingCapacity(backing int64) int64 { return max(0, backing-metadataBytes) }

// Each view of a pool reverts the whole image, and shrinks to what it has for a volume of that size
// without DRBD's metadata.
func TestViewsOfAPoolRevertAndShrinkItsImages(t *testing.T) {
	const size = 1 << 20
	for name, tc := range map[string]struct{ header, metadata int64 }{
		"plain":                    {},
		"encrypted":                {header: executor.LUKSHeaderBytes},
		"replicated":               {metadata: metadataBytes},
		"replicated and encrypted": {header: executor.LUKSHeaderBytes, metadata: metadataBytes},
	} {
		t.Run(name, func(t *testing.T) {
			pool, id, snapshot := backendtest.NewFakeBackend(), backendtest.NewID(), backendtest.NewSnapshotID()
			view, replicator := viewOf(t, pool, id, tc.header, tc.metadata > 0)
			all := size + tc.header + tc.metadata
			require.NoError(t, view.(executor.Backend).Create(t.Context(), id, size))
			pool.Write(id, all-4096, []byte("at the very end"))
			require.NoError(t, view.TakeSnapshot(t.Context(), id, snapshot, nil))
			want := pool.Content(id)
			pool.Write(id, 0, []byte("changed"))
			if replicator.inKernel = tc.metadata > 0; replicator.inKernel {
				require.Equal(t, fsm.InUse, rejectionOf(view.Revert(t.Context(), id, snapshot)))
				require.Equal(t, fsm.InUse, rejectionOf(view.Shrink(t.Context(), id, size)))
				replicator.inKernel = false
			}
			require.NoError(t, view.Revert(t.Context(), id, snapshot))
			require.Equal(t, want, pool.Content(id), "metadata and header included")
			for range 2 {
				require.NoError(t, view.Shrink(t.Context(), id, size))
				require.EqualValues(t, size+tc.header, pool.Content(id).Size)
			}
			require.Equal(t, fsm.Incompatible, rejectionOf(view.Shrink(t.Context(), id, 2*size)))
		})
	}
}

func viewOf(t *testing.T, pool *backendtest.FakeBackend, id fsm.VolumeID, header int64, replicated bool) (executor.SnapshotBackend, *downReplicator) {
	t.Helper()
	replicator := &downReplicator{}
	switch {
	case replicated:
		return &replicaBackend{Backend: pool, replicator: replicator, volume: id, header: header}, replicator
	case header == 0:
		return pool, replicator
	}
	view, err := newCryptBackend(pool)
	require.NoError(t, err)
	return view.(executor.SnapshotBackend), replicator
}

func rejectionOf(err error) fsm.Reason {
	var rejection *fsm.Rejection
	if errors.As(err, &rejection) {
		return rejection.Reason
	}
	return 0
}
