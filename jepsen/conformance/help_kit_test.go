package conformance

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// kit is what a row works with: clients of c1 and things that go away with the row.
type kit struct {
	t      *testing.T
	w      *World
	ctx    context.Context
	ctl    csi.ControllerClient
	groups csi.GroupControllerClient
	maps   csi.SnapshotMetadataClient
}

func newKit(t *testing.T, w *World) *kit {
	t.Helper()
	conn := w.Conn(t, "c1")
	return &kit{t: t, w: w, ctx: w.Context(t), ctl: w.Controller(t),
		groups: csi.NewGroupControllerClient(conn), maps: csi.NewSnapshotMetadataClient(conn)}
}

// with makes a row of a function of a kit.
func with(row func(k *kit)) rowTest {
	return func(t *testing.T, w *World) { row(newKit(t, w)) }
}

// refuses makes a row of a call that is answered with a code, twice.
func refuses(want codes.Code, call func(k *kit) error) rowTest {
	return with(func(k *kit) {
		refused(k.t, call(k), want)
		refused(k.t, call(k), want)
	})
}

// after runs something when the row is over, with a context of its own, and again when
// that is what its answer asks for.
func (k *kit) after(what func(ctx context.Context) error) {
	k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), rowTime)
		defer cancel()
		if err := retried(ctx, what); err != nil {
			k.t.Errorf("clean up: %v", err)
		}
	})
}

// volume makes a volume of 16 MiB on n1 that is deleted with the row.
func (k *kit) volume() *harness.Volume { return k.create(harness.Spec{Node: "n1"}) }

// create makes a volume that is deleted with the row.
func (k *kit) create(spec harness.Spec) *harness.Volume {
	k.t.Helper()
	if spec.Name == "" {
		spec.Name = k.w.Name("vol")
	}
	v, err := k.w.CO.Create(k.ctx, spec)
	require.NoError(k.t, err)
	k.dropVolume(v.ID)
	return v
}

func (k *kit) dropVolume(id string) {
	k.after(func(ctx context.Context) error { return k.w.CO.Delete(ctx, &harness.Volume{ID: id}) })
}

// volumes are the ids of so many volumes on n1.
func (k *kit) volumes(n int) []string {
	var ids []string
	for range n {
		ids = append(ids, k.volume().ID)
	}
	return ids
}

// up publishes, stages and binds a volume on n1 until the row is over.
func (k *kit) up(v *harness.Volume) {
	k.t.Helper()
	require.NoError(k.t, k.w.CO.Up(k.ctx, v, "n1"))
	k.after(func(ctx context.Context) error { return k.w.CO.Down(ctx, v) })
}

// snapshot cuts a volume; the snapshot is deleted with the row.
func (k *kit) snapshot(volume string) *csi.Snapshot {
	k.t.Helper()
	req := &csi.CreateSnapshotRequest{Name: k.w.Name("snap"), SourceVolumeId: volume}
	var res *csi.CreateSnapshotResponse
	k.done(func() (err error) {
		res, err = k.ctl.CreateSnapshot(k.ctx, req)
		return err
	})
	k.dropSnapshot(res.GetSnapshot().GetSnapshotId())
	return res.GetSnapshot()
}

func (k *kit) dropSnapshot(id string) {
	k.after(func(ctx context.Context) error {
		_, err := k.ctl.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
		return err
	})
}

// restore makes a volume of a snapshot; it is deleted with the row.
func (k *kit) restore(snapshot string) *harness.Volume {
	k.t.Helper()
	req := harness.Spec{Name: k.w.Name("restored"), Node: "n1"}.CreateRequest()
	req.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot}}}
	v := k.answered(req)
	return &harness.Volume{Name: req.Name, ID: v.GetVolumeId(), FSType: "ext4", Size: v.GetCapacityBytes(), Context: v.GetVolumeContext()}
}

// cutGroup cuts volumes together; the group is deleted with the row.
func (k *kit) cutGroup(name string, volumes []string) *csi.VolumeGroupSnapshot {
	k.t.Helper()
	var res *csi.CreateVolumeGroupSnapshotResponse
	k.done(func() (err error) {
		res, err = k.groups.CreateVolumeGroupSnapshot(k.ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: name, SourceVolumeIds: volumes})
		return err
	})
	k.dropGroup(res.GetGroupSnapshot())
	return res.GetGroupSnapshot()
}

func (k *kit) dropGroup(g *csi.VolumeGroupSnapshot) {
	k.after(func(ctx context.Context) error {
		_, err := k.groups.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{
			GroupSnapshotId: g.GetGroupSnapshotId(), SnapshotIds: memberIDs(g)})
		return err
	})
}

// group is a group of so many members.
func (k *kit) group(n int) *csi.VolumeGroupSnapshot {
	k.t.Helper()
	return k.cutGroup(k.w.Name("group"), k.volumes(n))
}

func memberIDs(g *csi.VolumeGroupSnapshot) []string {
	var ids []string
	for _, s := range g.GetSnapshots() {
		ids = append(ids, s.GetSnapshotId())
	}
	return ids
}

// cutsOf are the snapshots that are listed of volumes.
func (k *kit) cutsOf(volumes []string) []string {
	k.t.Helper()
	res, err := k.ctl.ListSnapshots(k.ctx, &csi.ListSnapshotsRequest{})
	require.NoError(k.t, err)
	var ids []string
	for _, e := range res.GetEntries() {
		if slices.Contains(volumes, e.GetSnapshot().GetSourceVolumeId()) {
			ids = append(ids, e.GetSnapshot().GetSnapshotId())
		}
	}
	return ids
}

// atOnce calls so many times in parallel.
func atOnce(n int, call func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { call(i) })
	}
	all.Wait()
}

const unknownVolumeID = "hf-00000000-0000-4000-8000-000000000000"
const unknownSnapshotID = "hs-00000000-0000-4000-8000-000000000000"
const unknownGroupID = "hgs-00000000-0000-4000-8000-000000000000"

// but is the error, unless it has this code.
func but(err error, fine codes.Code) error {
	if status.Code(err) == fine {
		return nil
	}
	return err
}

// orUnimplemented is the error, unless the call is not served.
func orUnimplemented(err error) error { return but(err, codes.Unimplemented) }

// requireSame compares two messages.
func requireSame(k *kit, want, got proto.Message) {
	k.t.Helper()
	require.True(k.t, proto.Equal(want, got), "%v\nis not\n%v", got, want)
}
