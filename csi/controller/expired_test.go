package controller_test

import (
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// expireCommands makes every command of the controllers late from here on: none is applied.
func (w *env) expireCommands() {
	w.cluster.update(func(c *fakeCluster) {
		c.index += 2 * fsm.DedupeWindow
		c.mutateCommand = func(cmd *fsmpb.Command) {
			cmd.RequestId, cmd.ProposedIndex = fmt.Appendf(nil, "late-%011d", c.index), 1
		}
	})
}

// S4: an expired command gets the answer that the same call gets in time.
func TestS4_AnExpiredCreateComparesReplicas(t *testing.T) {
	w := newReplicatedEnv(t)
	single, pair := w.create(t, "single"), w.create(t, "pair", withParameters("replicas", "2"))
	for _, expired := range []bool{false, true} {
		if expired {
			w.expireCommands()
		}
		require.Equal(t, single, w.create(t, "single"))
		require.Equal(t, pair, w.create(t, "pair", withParameters("replicas", "2")))
		for name, parameters := range map[string][]string{"single": {"replicas", "2"}, "pair": {"replicas", "2", "protocol", "A"}} {
			_, err := w.CreateVolume(t.Context(), createRequest(name, withParameters(parameters...)))
			requireCode(t, codes.AlreadyExists, err)
		}
		_, err := w.CreateVolume(t.Context(), createRequest("pair"))
		requireCode(t, codes.AlreadyExists, err)
	}
}

func TestS4_AnExpiredPublishComparesMountFlags(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	published := w.publish(t, id, mount(writer, "", "noatime"))
	for _, expired := range []bool{false, true} {
		if expired {
			w.expireCommands()
		}
		require.Equal(t, published, w.publish(t, id, mount(writer, "", "noatime")))
		requireCode(t, codes.AlreadyExists, w.publishTo(id, "n1"))
	}
}

// An epoch whose host is taking the volume down is nothing to stage under.
func TestS4_AnExpiredPublishOfWhatIsEndingIsAborted(t *testing.T) {
	w := newReplicatedEnv(t)
	id := w.create(t, "v", withParameters("replicas", "2"))
	staging := t.TempDir()
	_, err := w.node.NodeStageVolume(t.Context(), stageRequest(id, staging, w.publish(t, id, mount(writer, "")), mount(writer, "")))
	require.NoError(t, err)
	w.hostOf("n1").update(func(h *fakeHost) { h.idle, h.dropUnstageReport = true, true })
	require.Error(t, w.unpublish(t, id, "n1"))
	w.expireCommands()
	requireCode(t, codes.Aborted, w.publishTo(id, "n1"))
}

func TestS4_AnExpiredExpansionComparesTheLimit(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v", withCapacity(3*gib, 0))
	expand := func(required, limit int64) error {
		_, err := w.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
			VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}})
		return err
	}
	for _, expired := range []bool{false, true} {
		if expired {
			w.expireCommands()
		}
		requireCode(t, codes.OutOfRange, expand(gib, 2*gib))
		require.NoError(t, expand(gib, 3*gib))
	}
}

// S72: at feature level 1 a record of what failed keeps the name until the next call.
func TestS4_AnExpiredCreateAfterAFailureAtLevel1IsAborted(t *testing.T) {
	w := newEnv(t)
	w.cluster.hosts = nil
	w.cluster.bootstrap(t, fsm.Level1)
	w.host.register(t)
	id := w.create(t, "source")
	w.host.update(func(h *fakeHost) {
		h.failSnapshot = &fsmpb.StepFailed{Step: "snapshot", Error: "no space", Final: true}
	})
	_, err := w.CreateSnapshot(t.Context(), &snapshotReq{Name: "s", SourceVolumeId: id})
	require.Error(t, err)
	w.expireCommands()
	_, err = w.CreateSnapshot(t.Context(), &snapshotReq{Name: "s", SourceVolumeId: id})
	requireCode(t, codes.Aborted, err)
}
