package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestOnlyAnAbnormalConditionIsShown(t *testing.T) {
	for message, abnormal := range map[string]bool{"mounted": false, "I/O errors": true} {
		w := newEnv(t, "n1")
		id := w.create(1, true)
		w.observe(&fsmpb.Observation{VolumeId: string(id), Fact: &fsmpb.Observation_Condition{
			Condition: &fsmpb.Condition{Abnormal: abnormal, Message: message}}})
		for range 2 {
			resp, err := w.server.Volumes(ctx, &adminpb.VolumesRequest{})
			require.NoError(t, err)
			v := resp.GetVolumes()[0]
			require.Equal(t, abnormal, v.GetAbnormal())
			require.Equal(t, abnormal, v.GetCondition() == message)
			require.Equal(t, abnormal, v.GetCondition() != "")
		}
	}
}
