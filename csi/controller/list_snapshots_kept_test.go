package controller

import (
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// S49: the kept copy of an outdated replica is no snapshot that a caller requested.
func TestS49_KeptCopiesAreNotListed(t *testing.T) {
	created, kept := &fsm.Snapshot{ID: "hs-1"}, &fsm.Snapshot{ID: "hs-2", KeptCopy: &fsm.KeptCopy{Attachment: 1}}
	require.Equal(t, []*fsm.Snapshot{created}, slices.Collect(withoutKept(slices.Values([]*fsm.Snapshot{kept, created, kept}))))
	require.Empty(t, slices.Collect(filteredSnapshots(fsm.New(), &csi.ListSnapshotsRequest{}, "")))
}
