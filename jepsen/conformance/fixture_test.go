package conformance

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// fixture is what a row works with: clients of c1, and objects that are cleaned up with the row.
type fixture struct {
	t            *testing.T
	env          *Env
	ctx          context.Context
	controller   csi.ControllerClient
	groups       csi.GroupControllerClient
	maps         csi.SnapshotMetadataClient
	volumeGroups volumegroup.ControllerClient
}

func newFixture(t *testing.T, w *Env) *fixture {
	t.Helper()
	conn := w.Conn(t, "c1")
	return &fixture{t: t, env: w, ctx: w.Context(t), controller: w.Controller(t),
		groups: csi.NewGroupControllerClient(conn), maps: csi.NewSnapshotMetadataClient(conn),
		volumeGroups: volumegroup.NewControllerClient(conn)}
}

// rowOf makes a row of a function of a fixture.
func rowOf(row func(k *fixture)) rowTest {
	return func(t *testing.T, w *Env) { row(newFixture(t, w)) }
}

// rowRefused makes a row of a call that is answered with a code, twice.
func rowRefused(want codes.Code, call func(k *fixture) error) rowTest {
	return rowOf(func(k *fixture) {
		requireRefused(k.t, call(k), want)
		requireRefused(k.t, call(k), want)
	})
}

// cleanUpWith runs a function when the row is over, with a context of its own, and again while its
// error is one that a CO retries.
func (k *fixture) cleanUpWith(what func(ctx context.Context) error) {
	k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), rowTime)
		defer cancel()
		if err := retried(ctx, what); err != nil {
			k.t.Errorf("clean up: %v", err)
		}
	})
}

// volume makes a volume of 16 MiB on n1 that is deleted with the row.
func (k *fixture) volume() *harness.Volume { return k.create(harness.Spec{Node: "n1"}) }

// create makes a volume that is deleted with the row.
func (k *fixture) create(spec harness.Spec) *harness.Volume {
	k.t.Helper()
	if spec.Name == "" {
		spec.Name = k.env.Name("vol")
	}
	v, err := k.env.CO.Create(k.ctx, spec)
	require.NoError(k.t, err)
	k.deleteVolumeLater(v.ID)
	return v
}

func (k *fixture) deleteVolumeLater(id string) {
	k.cleanUpWith(func(ctx context.Context) error { return k.env.CO.Delete(ctx, &harness.Volume{ID: id}) })
}

// volumes are the ids of so many volumes on n1.
func (k *fixture) volumes(n int) []string {
	var ids []string
	for range n {
		ids = append(ids, k.volume().ID)
	}
	return ids
}

// mountUntilEnd publishes, stages and binds a volume on n1 until the row is over.
func (k *fixture) mountUntilEnd(v *harness.Volume) {
	k.t.Helper()
	require.NoError(k.t, k.env.CO.PublishStageBind(k.ctx, v, "n1"))
	k.cleanUpWith(func(ctx context.Context) error { return k.env.CO.UnbindUnstageUnpublish(ctx, v) })
}

// snapshot takes a snapshot of a volume; it is deleted with the row.
func (k *fixture) snapshot(volume string) *csi.Snapshot {
	k.t.Helper()
	req := &csi.CreateSnapshotRequest{Name: k.env.Name("snap"), SourceVolumeId: volume}
	var res *csi.CreateSnapshotResponse
	k.untilOK(func() (err error) {
		res, err = k.controller.CreateSnapshot(k.ctx, req)
		return err
	})
	k.deleteSnapshotLater(res.GetSnapshot().GetSnapshotId())
	return res.GetSnapshot()
}

func (k *fixture) deleteSnapshotLater(id string) {
	k.cleanUpWith(func(ctx context.Context) error {
		_, err := k.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
		return err
	})
}

// restore makes a volume of a snapshot; it is deleted with the row.
func (k *fixture) restore(snapshot string) *harness.Volume {
	k.t.Helper()
	req := harness.Spec{Name: k.env.Name("restored"), Node: "n1"}.CreateRequest()
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot}}}
	v := k.createVolumeFrom(req)
	return &harness.Volume{Name: req.Name, ID: v.GetVolumeId(), FSType: "ext4", Size: v.GetCapacityBytes(), Context: v.GetVolumeContext()}
}

// snapshotGroup takes a snapshot of volumes together; the group is deleted with the row.
func (k *fixture) snapshotGroup(name string, volumes []string) *csi.VolumeGroupSnapshot {
	k.t.Helper()
	var res *csi.CreateVolumeGroupSnapshotResponse
	k.untilOK(func() (err error) {
		res, err = k.groups.CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: name, SourceVolumeIds: volumes})
		return err
	})
	k.deleteGroupLater(res.GetGroupSnapshot())
	return res.GetGroupSnapshot()
}

func (k *fixture) deleteGroupLater(g *csi.VolumeGroupSnapshot) {
	k.cleanUpWith(func(ctx context.Context) error {
		_, err := k.groups.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{
			GroupSnapshotId: g.GetGroupSnapshotId(), SnapshotIds: memberIDs(g)})
		return err
	})
}

// group is a group of so many members.
func (k *fixture) group(n int) *csi.VolumeGroupSnapshot {
	k.t.Helper()
	return k.snapshotGroup(k.env.Name("group"), k.volumes(n))
}

func memberIDs(g *csi.VolumeGroupSnapshot) []string {
	var ids []string
	for _, s := range g.GetSnapshots() {
		ids = append(ids, s.GetSnapshotId())
	}
	return ids
}

// snapshotsOf are the snapshots that are listed of volumes.
func (k *fixture) snapshotsOf(volumes []string) []string {
	k.t.Helper()
	res, err := k.controller.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{})
	require.NoError(k.t, err)
	var ids []string
	for _, e := range res.GetEntries() {
		if slices.Contains(volumes, e.GetSnapshot().GetSourceVolumeId()) {
			ids = append(ids, e.GetSnapshot().GetSnapshotId())
		}
	}
	return ids
}

// inParallel calls so many times in parallel.
func inParallel(n int, call func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { call(i) })
	}
	all.Wait()
}

const unknownVolumeID = "hf-00000000-0000-4000-8000-000000000000"
const unknownSnapshotID = "hs-00000000-0000-4000-8000-000000000000"
const unknownGroupID = "hgs-00000000-0000-4000-8000-000000000000"

// ignoreCode is the error, unless it has this code.
func ignoreCode(err error, fine codes.Code) error {
	if status.Code(err) == fine {
		return nil
	}
	return err
}

// orUnimplemented is the error, unless the call is not served.
func orUnimplemented(err error) error { return ignoreCode(err, codes.Unimplemented) }

// requireSame compares two messages.
func requireSame(k *fixture, want, got proto.Message) {
	k.t.Helper()
	require.True(k.t, proto.Equal(want, got), "%v\nis not\n%v", got, want)
}
