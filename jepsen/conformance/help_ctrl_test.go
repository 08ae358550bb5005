package conformance

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

type (
	createRequest = csi.CreateVolumeRequest
	// change turns the request that all would accept into the one that a row is about.
	change = func(*createRequest)
)

// asked is a request for 16 MiB of ext4 on n1 under a fresh name, changed.
func (k *kit) asked(changes ...change) *createRequest {
	req := harness.Spec{Name: k.w.Name("vol"), Node: "n1"}.CreateRequest()
	for _, c := range changes {
		c(req)
	}
	return req
}

// made is the volume of a request; it is deleted with the row.
func (k *kit) made(changes ...change) *csi.Volume {
	k.t.Helper()
	return k.answered(k.asked(changes...))
}

// answered is what CreateVolume makes of a request; it is deleted with the row.
func (k *kit) answered(req *createRequest) *csi.Volume {
	k.t.Helper()
	v := k.again(req)
	k.dropVolume(v.GetVolumeId())
	return v
}

// again is CreateVolume of what is deleted already with the row.
func (k *kit) again(req *createRequest) *csi.Volume {
	k.t.Helper()
	var res *csi.CreateVolumeResponse
	k.done(func() (err error) {
		res, err = k.ctl.CreateVolume(k.ctx, req)
		return err
	})
	require.NotNil(k.t, res.GetVolume())
	require.NotEmpty(k.t, res.GetVolume().GetVolumeId())
	return res.GetVolume()
}

// rejects: CreateVolume of a request has this code, twice, and leaves nothing.
func (k *kit) rejects(want codes.Code, req *createRequest) {
	k.t.Helper()
	before, err := k.w.Cluster.AllImages()
	require.NoError(k.t, err)
	for range 2 {
		_, err := k.ctl.CreateVolume(k.ctx, proto.Clone(req).(*createRequest))
		refused(k.t, err, want)
	}
	after, err := k.w.Cluster.AllImages()
	require.NoError(k.t, err)
	require.Equal(k.t, before, after)
}

// createRejected makes a row of requests that are all answered with a code.
func createRejected(want codes.Code, changes ...change) rowTest {
	return with(func(k *kit) {
		for _, c := range changes {
			k.rejects(want, k.asked(c))
		}
		k.made() // and what is right is accepted
	})
}

// conflicts makes a row: where a volume is, the changed request of its name is ALREADY_EXISTS.
func conflicts(changes ...change) rowTest {
	return with(func(k *kit) {
		req := k.asked()
		v := k.answered(req)
		for _, c := range changes {
			other := proto.Clone(req).(*createRequest)
			c(other)
			k.rejects(codes.AlreadyExists, other)
		}
		requireSame(k, v, k.again(req))
	})
}

func named(name string) change { return func(r *createRequest) { r.Name = name } }

func sized(required, limit int64) change {
	return func(r *createRequest) {
		r.CapacityRange = &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}
	}
}

func capable(caps ...*csi.VolumeCapability) change {
	return func(r *createRequest) { r.VolumeCapabilities = caps }
}

func parameter(key, value string) change {
	return func(r *createRequest) { r.Parameters = map[string]string{key: value} }
}

// at is a topology requirement of terms by key and value.
func at(requisite, preferred []*csi.Topology) change {
	return func(r *createRequest) {
		r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: requisite, Preferred: preferred}
	}
}

func anywhere(r *createRequest) { r.AccessibilityRequirements = nil }

func places(nodes ...string) []*csi.Topology {
	var all []*csi.Topology
	for _, n := range nodes {
		all = append(all, segments(harness.TopologyKey, n))
	}
	return all
}

func segments(pairs ...string) *csi.Topology {
	t := &csi.Topology{Segments: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		t.Segments[pairs[i]] = pairs[i+1]
	}
	return t
}

func ofSnapshot(id string) change {
	return func(r *createRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
	}
}

func ofVolume(id string) change {
	return func(r *createRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
	}
}

// placeOf is the node where a volume is accessible; there is exactly one.
func (k *kit) placeOf(v *csi.Volume) string {
	k.t.Helper()
	require.Len(k.t, v.GetAccessibleTopology(), 1)
	node := v.GetAccessibleTopology()[0].GetSegments()[harness.TopologyKey]
	require.Contains(k.t, []string{"n1", "n2"}, node)
	return node
}

type mode = csi.VolumeCapability_AccessMode_Mode

const (
	writer       = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	reader       = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	manyReaders  = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	oneOfMany    = csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	manyWriters  = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	oneWorkload  = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	allWorkloads = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
)

func mounted(m mode, fsType string, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: flags}}}
}

func raw(m mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
}

// everyController calls each controller.
func (k *kit) everyController(call func(id string, c csi.ControllerClient)) {
	k.t.Helper()
	for _, id := range []string{"c1", "c2", "c3"} {
		c, err := k.w.Cluster.Controller(id)
		require.NoError(k.t, err)
		call(id, c)
	}
}

// alwaysServed makes a row of a capability that all have: every controller
// advertises it and serves the call, and no process starts without it.
func alwaysServed(of csi.ControllerServiceCapability_RPC_Type, call func(k *kit, c csi.ControllerClient) error) rowTest {
	return with(func(k *kit) {
		k.everyController(func(id string, c csi.ControllerClient) {
			require.True(k.t, controllerHas(of)(k, k.w.Conn(k.t, id)))
			require.NoError(k.t, call(k, c))
		})
		k.cannotBeOff(of.String())
	})
}

// cannotBeOff: a controller that should run without it does not start.
func (k *kit) cannotBeOff(name string) {
	k.t.Helper()
	res := k.w.Cluster.Run(k.ctx, "controller", "--disable-capability="+name, "--data-dir="+k.t.TempDir())
	require.Equal(k.t, 2, res.Code, res.Stderr)
	require.Contains(k.t, res.Stderr, name)
}

// switched makes a row of a capability that can be turned off, and its call.
func switched(of csi.ControllerServiceCapability_RPC_Type, call func(k *kit, c csi.ControllerClient) error) rowTest {
	return servedIff(controllerHas(of), func(k *kit, conn *grpc.ClientConn) error { return call(k, csi.NewControllerClient(conn)) })
}

func (k *kit) get(id string) *csi.ControllerGetVolumeResponse {
	k.t.Helper()
	var res *csi.ControllerGetVolumeResponse
	k.done(func() (err error) {
		res, err = k.ctl.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
		return err
	})
	return res
}

// listed is the entry of a volume in ListVolumes, nil when there is none.
func (k *kit) listed(id string) *csi.ListVolumesResponse_Entry {
	k.t.Helper()
	var res *csi.ListVolumesResponse
	k.done(func() (err error) {
		res, err = k.ctl.ListVolumes(k.ctx, &csi.ListVolumesRequest{})
		return err
	})
	for _, e := range res.GetEntries() {
		if e.GetVolume().GetVolumeId() == id {
			return e
		}
	}
	return nil
}

// lessVolume is a volume of the cluster with everything off; it is deleted with the row.
func (k *kit) lessVolume() string {
	k.t.Helper()
	c, err := k.w.Less(k.t).Controller("c1")
	require.NoError(k.t, err)
	res, err := c.CreateVolume(k.ctx, k.asked())
	require.NoError(k.t, err)
	id := res.GetVolume().GetVolumeId()
	k.after(func(ctx context.Context) error {
		_, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
		return err
	})
	return id
}

// lessPublished publishes there until the row is over.
func (k *kit) lessPublished(id string) {
	k.t.Helper()
	c, err := k.w.Less(k.t).Controller("c1")
	require.NoError(k.t, err)
	_, err = c.ControllerPublishVolume(k.ctx, publication(id))
	require.NoError(k.t, err)
	k.after(func(ctx context.Context) error {
		_, err := c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id})
		return err
	})
}

// longFlags are flags that are served, of 4 KiB together: as many as there may be.
func longFlags() []string {
	flags := []string{"relatime"}
	for size := len(flags[0]); size < 4096; size += len("noatime") {
		flags = append(flags, "noatime")
	}
	return flags
}
