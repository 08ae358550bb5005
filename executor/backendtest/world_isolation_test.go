package backendtest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
)

// S45: a primary that suspend-io froze writes nothing until its I/O is resumed, and is asked about at both boundaries.
func TestS45_TheWorldFreezesAPrimary(t *testing.T) {
	gate := &answers{}
	d := newDRBDPair(t, gate)
	drbd := d.drbd(0)
	require.NoError(t, drbd.SetPrimary(t.Context(), d.id, false))
	for range 2 {
		require.NoError(t, drbd.SuspendIO(t.Context(), d.id))
		suspended, err := drbd.ListSuspended(t.Context())
		require.NoError(t, err)
		require.Len(t, suspended, 1)
	}
	require.NoError(t, drbd.ResumeIO(t.Context(), d.id))
	for _, name := range backendtest.IsolationBoundaries() {
		require.Contains(t, slices.Collect(maps.Keys(gate.names)), name)
		require.True(t, strings.HasPrefix(name, "drbd.suspend-io."))
	}
}
