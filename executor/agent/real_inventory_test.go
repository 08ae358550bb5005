package agent_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestInventoryOfARealHost(t *testing.T) {
	h := newRealHost(t)
	e := h.start(nil)
	id := backendtest.NewID()
	h.create(id, mountCap)
	stage, publish := h.requests(id, h.publishVolume(id, mountCap), mountCap)
	h.mustStage(stage)
	require.NoError(t, e.PublishTarget(t.Context(), publish))
	found, err := e.Inventory(t.Context())
	require.NoError(t, err)
	kinds := map[string]int{}
	for _, item := range found.Items {
		require.Equal(t, id, item.Volume)
		kinds[item.Kind]++
	}
	require.Equal(t, map[string]int{executor.KindImage: 1, executor.KindDevice: 1, executor.KindMount: 2}, kinds)
}

// BenchmarkStage is NodeStageVolume of a new volume, mkfs and mount included, with a log that
// answers at once.
func BenchmarkStage(b *testing.B) {
	for _, capability := range []fsm.Capability{{Mode: writer, FSType: "ext4"}, {Mode: writer, FSType: "xfs"}, {Mode: writer, Block: true}} {
		b.Run(fmt.Sprintf("%s-block=%v", capability.FSType, capability.Block), func(b *testing.B) {
			h := newRealHost(b)
			e := h.start(nil)
			for b.Loop() {
				b.StopTimer()
				id := backendtest.NewID()
				h.create(id, capability)
				stage, _ := h.requests(id, h.publishVolume(id, capability), capability)
				b.StartTimer()
				require.NoError(b, e.Stage(b.Context(), stage))
				b.StopTimer()
				require.NoError(b, e.Unstage(b.Context(), id, stage.Path))
				b.StartTimer()
			}
		})
	}
}
