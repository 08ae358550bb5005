package reclaimspace_test

import (
	"context"
	"errors"
	"testing"
	"time"

	spec "github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/addons/reclaimspace"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ADD-RS-ControllerReclaimSpace-02, -08: what is not trimmed is measured by its host's pool, before and after alike.
func TestControllerReclaimSpaceMeasuresWhatIsNotTrimmed(t *testing.T) {
	c := newTestCluster(t)
	c.publish()
	const allocated = 7 << 20
	c.facts = func(ctx context.Context, node fsm.NodeID, id fsm.VolumeID) (executor.VolumeFacts, error) {
		require.Equal(t, fsm.NodeID("n1"), node)
		require.Equal(t, c.id, id)
		_, has := ctx.Deadline()
		require.True(t, has, "a host that does not answer holds no caller up")
		return executor.VolumeFacts{AllocatedKnown: true, Allocated: allocated}, nil
	}
	for range 2 {
		resp, err := reclaimspace.NewController(c, c).ControllerReclaimSpace(t.Context(), &spec.ControllerReclaimSpaceRequest{VolumeId: string(c.id)})
		require.NoError(t, err)
		require.EqualValues(t, allocated, resp.GetPreUsage().GetUsageBytes())
		require.EqualValues(t, allocated, resp.GetPostUsage().GetUsageBytes())
	}
}

// A host that cannot be asked, whose pool cannot tell, or that is too slow: OK without numbers, in the caller's time.
func TestControllerReclaimSpaceWithoutAnAnswerHasNoNumbers(t *testing.T) {
	for name, facts := range map[string]func(context.Context, fsm.NodeID, fsm.VolumeID) (executor.VolumeFacts, error){
		"no session": nil,
		"refused": func(context.Context, fsm.NodeID, fsm.VolumeID) (executor.VolumeFacts, error) {
			return executor.VolumeFacts{Allocated: 5, AllocatedKnown: true}, errors.New("no")
		},
		"a pool that cannot tell": func(context.Context, fsm.NodeID, fsm.VolumeID) (executor.VolumeFacts, error) {
			return executor.VolumeFacts{}, nil
		},
		"slow": func(ctx context.Context, _ fsm.NodeID, _ fsm.VolumeID) (executor.VolumeFacts, error) {
			<-ctx.Done()
			return executor.VolumeFacts{}, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestCluster(t)
			c.publish()
			c.facts = facts
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			resp, err := reclaimspace.NewController(c, c).ControllerReclaimSpace(ctx, &spec.ControllerReclaimSpaceRequest{VolumeId: string(c.id)})
			require.NoError(t, err)
			require.Nil(t, resp.GetPreUsage())
			require.Nil(t, resp.GetPostUsage())
		})
	}
}
