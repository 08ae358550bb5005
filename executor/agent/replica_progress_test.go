package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S56: how much a resynchronisation copies is told from its begin to its end, the same all the time.
func TestS56_AResynchronisationSaysHowMuchItCopies(t *testing.T) {
	var r replicaState
	for _, seen := range []struct {
		connection fsmpb.ConnectionState
		percent    int
		outOfSync  int64
		wants      int64
	}{
		{fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, -1, 0, 0},
		{fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET, -1, 8 << 20, 8 << 20},
		{fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET, 40, 5 << 20, 8 << 20},
		{fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, -1, 0, 0},
		{fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE, 3, 1 << 20, 1 << 20},
		{fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, -1, 4096, 4096}, // found by a verification
		{fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, 10, 4096, 0},    // it goes on
	} {
		_, got := r.syncProgress(&plan.ObservedReplica{ResourceStatus: executor.ResourceStatus{Connection: seen.connection, SyncPercent: seen.percent, OutOfSync: seen.outOfSync}})
		require.Equal(t, seen.wants, got, "%+v", seen)
	}
}
