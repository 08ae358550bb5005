package controller

import (
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// callEachService calls each service of the socket for an object that does not exist.
func (b *testController) callEachService() map[string]error {
	conn, err := grpc.NewClient(b.opts.CSIEndpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, conn.Close()) }()
	ctx, all := b.t.Context(), map[string]error{}
	_, all["snapshot"] = csispec.NewControllerClient(conn).CreateSnapshot(ctx, &csispec.CreateSnapshotRequest{Name: "s", SourceVolumeId: "none"})
	_, all["expand"] = csispec.NewControllerClient(conn).ControllerExpandVolume(ctx, &csispec.ControllerExpandVolumeRequest{
		VolumeId: "none", CapacityRange: &csispec.CapacityRange{RequiredBytes: 1 << 30}})
	_, all["group"] = csispec.NewGroupControllerClient(conn).CreateVolumeGroupSnapshot(ctx, &csispec.CreateVolumeGroupSnapshotRequest{
		Name: "g", SourceVolumeIds: []string{"none"}})
	stream, err := csispec.NewSnapshotMetadataClient(conn).GetMetadataAllocated(ctx, &csispec.GetMetadataAllocatedRequest{SnapshotId: "none"})
	require.NoError(b.t, err)
	_, all["metadata"] = stream.Recv()
	return all
}

func TestEveryServiceOfTheControllersIsServedUnlessItIsTurnedOff(t *testing.T) {
	for name, off := range map[string][]string{
		"":         nil,
		"snapshot": {"CREATE_DELETE_SNAPSHOT"},
		"expand":   {"EXPAND_VOLUME"},
		"group":    {"CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"},
		"metadata": {"SNAPSHOT_METADATA_SERVICE"},
	} {
		t.Run("without "+strings.Join(off, " "), func(t *testing.T) {
			b := newTestController(t)
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			b.opts.disabled.Add(flags)
			for _, capability := range off {
				require.NoError(t, flags.Set("disable-capability", capability))
			}
			b.start()
			defer b.stopAndWait()
			for range 2 {
				for call, err := range b.callEachService() {
					want := codes.NotFound
					if call == name {
						want = codes.Unimplemented
					}
					require.Equal(t, want, status.Code(err), "%s: %v", call, err)
				}
			}
		})
	}
}

func TestSnapshotsAreMeasured(t *testing.T) {
	b := newTestController(t)
	c := b.start()
	defer b.stopAndWait()
	says := func(actor string, cmd *fsmpb.Command) {
		t.Helper()
		cmd.Actor, cmd.SchemaVersion = actor, fsm.LeastLevel(cmd)
		_, err := c.cluster.Propose(t.Context(), cmd)
		require.NoError(t, err)
	}
	const volume, snapshot = "hf-00000000-0000-4000-8000-000000000001", "hs-00000000-0000-4000-8000-000000000001"
	report := func(o *fsmpb.Observation) *fsmpb.Command {
		return &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "h", BootId: "b", Observations: []*fsmpb.Observation{o}}}}
	}
	says("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
		NodeId: "n1", HostId: "h", BootId: "b", FeatureLevel: fsm.MaxFeatureLevel, Pools: []*fsmpb.Pool{{PoolId: "p", Backend: "loopfile", CapacityBytes: 1 << 40}}}}})
	says("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: volume, Name: "v", Fingerprint: []byte("f"), Capabilities: []*fsmpb.Capability{{Mode: 1, FsType: "ext4"}}}}})
	says("node/n1", report(&fsmpb.Observation{VolumeId: volume, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}}))
	says("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{
		SnapshotId: snapshot, Name: "s", SourceVolumeId: volume, Fingerprint: []byte("f")}}})
	has := func(lines ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			text := b.get(c, "/metrics")
			for _, line := range lines {
				if !strings.Contains(text, line) {
					return false
				}
			}
			return true
		}, time.Minute, 10*time.Millisecond, lines)
	}
	has(`holdfast_operations{kind="snapshot",state="running"} 1`, "holdfast_cluster_snapshots 1", "holdfast_cluster_group_snapshots 0")
	says("node/n1", report(&fsmpb.Observation{VolumeId: volume, SnapshotId: snapshot, Sequence: 1, Fact: &fsmpb.Observation_SnapshotCut{
		SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: 1 << 30, CutUnixNano: 1}}}))
	has(`holdfast_operations_ended_total{kind="snapshot",outcome="done"} 1`, `holdfast_operations{kind="snapshot",state="running"} 0`)
}
