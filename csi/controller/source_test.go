package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
)

// shortDeadline is a context that ends after a while: time for an answer, and not for a wait. The
// clock must be the test's own (synctest), which stands still while anybody works.
func shortDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 700*time.Millisecond)
}

// withSource gives a volume a source and leaves its size to that.
func withSource(source *csi.VolumeContentSource) func(*createReq) {
	return func(r *createReq) { r.VolumeContentSource, r.CapacityRange = source, nil }
}

// volume is a volume as ControllerGetVolume tells it.
func (w *env) volume(t testing.TB, id string) *csi.Volume {
	t.Helper()
	resp, err := w.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
	require.NoError(t, err)
	return resp.GetVolume()
}

// CSI-CTRL-CreateVolume-12, -18, -22, -23, -25, -31, -37, -39, -43,
// CSI-CTRL-CreateSnapshot-19: volumes of snapshots and of volumes.
func TestCreateVolumeFromASource(t *testing.T) {
	w := newEnv(t)
	source := w.create(t, "source", withCapacity(2*gib, 0), withCapabilities(mount(writer, "xfs")))
	epoch := w.publish(t, source, mount(writer, ""))
	staged := t.TempDir()
	w.stage(t, source, staged, epoch)
	snapshot := w.createSnapshot(t, "s", source).GetSnapshotId()
	raw := w.create(t, "raw", withCapabilities(block(writer)))
	for name, tc := range map[string]struct {
		change func(*createReq)
		want   codes.Code
		size   int64
	}{
		"-22: of a snapshot":                        {withSource(fromSnapshot(snapshot)), codes.OK, 2 * gib},
		"-23: of a volume in use":                   {withSource(fromVolume(source)), codes.OK, 2 * gib},
		"-25: larger than its source":               {createChanges(withSource(fromSnapshot(snapshot)), withCapacity(3*gib, 0)), codes.OK, 3 * gib},
		"-12: within a limit":                       {createChanges(withSource(fromVolume(source)), withCapacity(0, 4*gib)), codes.OK, 2 * gib},
		"-39: smaller than the snapshot":            {createChanges(withSource(fromSnapshot(snapshot)), withCapacity(gib, 0)), codes.OutOfRange, 0},
		"CreateSnapshot-19: a limit below it":       {createChanges(withSource(fromSnapshot(snapshot)), withCapacity(0, gib)), codes.OutOfRange, 0},
		"-22: with the source's filesystem, said":   {createChanges(withSource(fromSnapshot(snapshot)), withParameters("fsType", "xfs")), codes.OK, 2 * gib},
		"-31: with another filesystem":              {createChanges(withSource(fromSnapshot(snapshot)), withCapabilities(mount(writer, "ext4"))), codes.InvalidArgument, 0},
		"-31: raw, where there is a filesystem":     {createChanges(withSource(fromVolume(source)), withCapabilities(block(writer))), codes.InvalidArgument, 0},
		"-23: raw of a raw one":                     {createChanges(withSource(fromVolume(raw)), withCapabilities(block(writer))), codes.OK, gib},
		"-38: where the source is not":              {createChanges(withSource(fromVolume(source)), accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/zone", "z9")}, nil)), codes.ResourceExhausted, 0},
		"-38: larger than the pool":                 {createChanges(withSource(fromVolume(source)), withCapacity(2000*gib, 0)), codes.ResourceExhausted, 0},
		"-22: of a snapshot, with limits on its IO": {createChanges(withSource(fromSnapshot(snapshot)), withMutable("iopsLimit", "5")), codes.OK, 2 * gib},
	} {
		t.Run(name, func(t *testing.T) {
			req := createRequest(name, withCapabilities(mount(writer, "")), tc.change)
			for range 2 {
				resp, err := w.CreateVolume(t.Context(), req)
				requireCode(t, tc.want, err)
				if tc.want != codes.OK {
					require.NotEmpty(t, err.Error(), "-43")
					continue
				}
				require.Equal(t, tc.size, resp.GetVolume().GetCapacityBytes())
				require.True(t, proto.Equal(req.GetVolumeContentSource(), resp.GetVolume().GetContentSource()))
				require.True(t, proto.Equal(resp.GetVolume(), w.volume(t, resp.GetVolume().GetVolumeId())))
			}
		})
	}
	made := func(change func(*createReq)) error {
		_, err := w.CreateVolume(t.Context(), createRequest("-22: of a snapshot", change))
		return err
	}
	requireCode(t, codes.AlreadyExists, made(withSource(fromVolume(source)))) // -37
	requireCode(t, codes.AlreadyExists, made(withCapacity(2*gib, 0)))         // -37: none versus some
}

// stage brings a volume up on the first host.
func (w *env) stage(t testing.TB, id, path string, epoch map[string]string) {
	t.Helper()
	_, err := w.node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: path, PublishContext: epoch, VolumeCapability: mount(writer, ""),
	})
	require.NoError(t, err)
}

// S19, CSI-GRP-DeleteVolumeGroupSnapshot-07: what is just copied from stays.
// CSI-CTRL-CreateVolume-38, CSI-CTRL-Topology-10: what the provisioner asks for under late binding, with strict topology
// and without: never a volume outside of what is requisite, and then a code at which
// the scheduler chooses again.
func TestCloneIsPlacedWithItsSource(t *testing.T) {
	w := newEnv(t, hostIn("n1", "z1"), hostIn("n2", "z2"))
	host := func(id string) *csi.Topology { return topologyTerm(fsm.TopologyKey, id) }
	source := w.create(t, "source", accessibleFrom([]*csi.Topology{host("n2")}, nil))
	for name, tc := range map[string]struct {
		requisite, preferred []*csi.Topology
		want                 codes.Code
	}{
		"strict, another host":              {[]*csi.Topology{host("n1")}, []*csi.Topology{host("n1")}, codes.ResourceExhausted},
		"strict, the source's host":         {[]*csi.Topology{host("n2")}, []*csi.Topology{host("n2")}, codes.OK},
		"not strict, another is preferred":  {[]*csi.Topology{host("n1"), host("n2")}, []*csi.Topology{host("n1"), host("n2")}, codes.OK},
		"immediate, no host was chosen yet": {[]*csi.Topology{host("n1"), host("n2")}, nil, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				resp, err := w.CreateVolume(t.Context(), createRequest(name, withSource(fromVolume(source)), accessibleFrom(tc.requisite, tc.preferred)))
				requireCode(t, tc.want, err)
				if tc.want != codes.OK {
					require.Contains(t, err.Error(), "n2")
					require.Contains(t, err.Error(), "Immediate")
					continue
				}
				require.Equal(t, "n2", resp.GetVolume().GetAccessibleTopology()[0].GetSegments()[fsm.TopologyKey])
			}
		})
	}
}

func TestSourceInUseIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		source := w.create(t, "source")
		snapshot := w.createSnapshot(t, "s", source).GetSnapshotId()
		w.host.update(func(h *fakeHost) { h.idle = true })
		ctx, cancel := shortDeadline(t)
		defer cancel()
		_, err := w.CreateVolume(ctx, createRequest("v", withSource(fromSnapshot(snapshot))))
		requireCode(t, codes.Aborted, err)
		for range 2 {
			_, err = w.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snapshot})
			requireCode(t, codes.FailedPrecondition, err)
		}
		w.host.update(func(h *fakeHost) { h.idle = false })
		w.create(t, "v", withSource(fromSnapshot(snapshot)))
		_, err = w.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snapshot})
		require.NoError(t, err)
	})
}

// CSI-CTRL-ControllerExpandVolume-.
func TestExpandArguments(t *testing.T) {
	type req = csi.ControllerExpandVolumeRequest
	size := func(required, limit int64) func(*req) {
		return func(r *req) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit} }
	}
	use := func(c *csi.VolumeCapability) func(*req) { return func(r *req) { r.VolumeCapability = c } }
	const invalid = codes.InvalidArgument
	for name, tc := range map[string]struct {
		change func(*req)
		want   codes.Code
		size   int64
		node   bool
	}{
		"-06, -07: larger":                    {func(*req) {}, codes.OK, 2 * gib, true},
		"-03: a volume is required":           {func(r *req) { r.VolumeId = "" }, invalid, 0, false},
		"-04: a range is required":            {func(r *req) { r.CapacityRange = nil }, invalid, 0, false},
		"-04: that is not empty":              {size(0, 0), invalid, 0, false},
		"-04: nor upside down":                {size(3*gib, 2*gib), invalid, 0, false},
		"-05: with the filesystem":            {use(mount(writer, "")), codes.OK, 2 * gib, true},
		"-09: raw, where it is not":           {use(block(writer)), invalid, 0, false},
		"-09: a mode of many nodes":           {use(mount(multiNodeMultiWriter, "")), invalid, 0, false},
		"-02: it never shrinks":               {size(1<<20, 0), codes.OK, gib, true},
		"-02: a limit alone":                  {size(0, 3*gib), codes.OK, gib, true},
		"-12: a limit below what it has":      {size(0, 1<<20), codes.OutOfRange, 0, false},
		"-12: above the largest":              {size(1<<62, 0), codes.OutOfRange, 0, false},
		"-12: nothing of ours in the range":   {size(gib+1, gib+2), codes.OutOfRange, 0, false},
		"-10: an unknown volume":              {func(r *req) { r.VolumeId = unknownID }, codes.NotFound, 0, false},
		"-10: an id of another form":          {func(r *req) { r.VolumeId = "fake" }, codes.NotFound, 0, false},
		"-17: secrets are optional":           {func(r *req) { r.Secrets = mapOf("a", "b") }, codes.OK, 2 * gib, true},
		"no room in the pool":                 {size(2000*gib, 0), codes.ResourceExhausted, 0, false},
		"-06: exactly what is required":       {size(gib+5<<20, gib+5<<20), codes.OK, gib + 5<<20, true},
		"GEN-Size-04: no negative bound":      {size(-1, 0), invalid, 0, false},
		"-09: a capability that is malformed": {use(&csi.VolumeCapability{}), invalid, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			id := w.create(t, "v")
			r := &req{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}}
			tc.change(r)
			for range 2 {
				resp, err := w.ControllerExpandVolume(t.Context(), r)
				requireCode(t, tc.want, err)
				require.Equal(t, tc.size, resp.GetCapacityBytes())
				require.Equal(t, tc.node, resp.GetNodeExpansionRequired())
				require.Equal(t, max(tc.size, gib), w.volume(t, id).GetCapacityBytes())
			}
		})
	}
}

// CSI-CTRL-ControllerExpandVolume-05, -08, -13, CSI-NODE-NodeExpandVolume-02, -04,
// -08, -16: at any time, to the end or not at all.
func TestExpandLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		grow := func(id string, size int64) (*csi.ControllerExpandVolumeResponse, error) {
			ctx, cancel := shortDeadline(t)
			defer cancel()
			return w.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
		}
		raw, err := grow(w.create(t, "raw", withCapabilities(block(writer))), 2*gib)
		require.NoError(t, err)
		require.False(t, raw.GetNodeExpansionRequired(), "-05")

		id, path := w.create(t, "v"), t.TempDir()
		_, err = grow(id, 2*gib)
		require.NoError(t, err, "-08: created")
		epoch := w.publish(t, id, mount(writer, ""))
		_, err = grow(id, 3*gib)
		require.NoError(t, err, "-08: published")
		node := func(size int64) (*csi.NodeExpandVolumeResponse, error) {
			req := &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: path}
			if size != 0 {
				req.CapacityRange = &csi.CapacityRange{RequiredBytes: size}
			}
			return w.node.NodeExpandVolume(t.Context(), req)
		}
		_, err = node(3 * gib)
		requireCode(t, codes.NotFound, err) // NodeExpandVolume-17: not before it is staged
		w.stage(t, id, path, epoch)
		_, err = grow(id, 4*gib)
		require.NoError(t, err, "-08: staged")
		for range 2 {
			resp, err := node(0)
			require.NoError(t, err)
			require.Equal(t, 4*gib, resp.GetCapacityBytes())
		}
		_, err = node(5 * gib)
		requireCode(t, codes.OutOfRange, err)

		w.host.update(func(h *fakeHost) { h.delayed = true })
		_, err = grow(id, 5*gib)
		requireCode(t, codes.Aborted, err)
		w.host.update(func(h *fakeHost) { h.delayed = false })
		w.host.reconcile()
		resp, err := grow(id, 5*gib)
		require.NoError(t, err, "the retry joins")
		require.Equal(t, 5*gib, resp.GetCapacityBytes())

		w.host.update(func(h *fakeHost) { h.fail = stepFailure("the pool is full", fsm.NoCapacity) })
		for range 2 {
			_, err = grow(id, 6*gib)
			requireCode(t, codes.ResourceExhausted, err)
			require.Equal(t, 5*gib, w.volume(t, id).GetCapacityBytes(), "-13")
		}
		w.host.update(func(h *fakeHost) { h.fail = nil })
		_, err = grow(id, 6*gib)
		require.NoError(t, err)
	})
}
