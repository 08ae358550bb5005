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
	// change turns the default request, which is accepted, into the one that a row is about.
	change = func(*createRequest)
)

// newCreateRequest is a request for 16 MiB of ext4 on n1 under a fresh name, changed.
func (k *fixture) newCreateRequest(changes ...change) *createRequest {
	req := harness.Spec{Name: k.env.Name("vol"), Node: "n1"}.CreateRequest()
	for _, c := range changes {
		c(req)
	}
	return req
}

// createVolume is the volume of a request; it is deleted with the row.
func (k *fixture) createVolume(changes ...change) *csi.Volume {
	k.t.Helper()
	return k.createVolumeFrom(k.newCreateRequest(changes...))
}

// createVolumeFrom is what CreateVolume makes of a request; it is deleted with the row.
func (k *fixture) createVolumeFrom(req *createRequest) *csi.Volume {
	k.t.Helper()
	v := k.createAgain(req)
	k.deleteVolumeLater(v.GetVolumeId())
	return v
}

// createAgain repeats CreateVolume for a volume that the row deletes already.
func (k *fixture) createAgain(req *createRequest) *csi.Volume {
	k.t.Helper()
	var res *csi.CreateVolumeResponse
	k.untilOK(func() (err error) {
		res, err = k.controller.CreateVolume(k.ctx, req)
		return err
	})
	require.NotNil(k.t, res.GetVolume())
	require.NotEmpty(k.t, res.GetVolume().GetVolumeId())
	return res.GetVolume()
}

// requireCreateRejected requires that CreateVolume of a request has this code, twice, and creates nothing.
func (k *fixture) requireCreateRejected(want codes.Code, req *createRequest) {
	k.t.Helper()
	before, err := k.env.Cluster.AllImages()
	require.NoError(k.t, err)
	for range 2 {
		_, err := k.controller.CreateVolume(k.ctx, proto.Clone(req).(*createRequest))
		requireRefused(k.t, err, want)
	}
	after, err := k.env.Cluster.AllImages()
	require.NoError(k.t, err)
	require.Equal(k.t, before, after)
}

// rowCreateRejected makes a row of requests that are all answered with a code.
func rowCreateRejected(want codes.Code, changes ...change) rowTest {
	return rowOf(func(k *fixture) {
		for _, c := range changes {
			k.requireCreateRejected(want, k.newCreateRequest(c))
		}
		k.createVolume() // and what is right is accepted
	})
}

// rowCreateConflicts makes a row: for an existing volume's name the changed request is ALREADY_EXISTS.
func rowCreateConflicts(changes ...change) rowTest {
	return rowOf(func(k *fixture) {
		req := k.newCreateRequest()
		v := k.createVolumeFrom(req)
		for _, c := range changes {
			other := proto.Clone(req).(*createRequest)
			c(other)
			k.requireCreateRejected(codes.AlreadyExists, other)
		}
		requireSame(k, v, k.createAgain(req))
	})
}

func withName(name string) change { return func(r *createRequest) { r.Name = name } }

func withSize(required, limit int64) change {
	return func(r *createRequest) {
		r.CapacityRange = &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}
	}
}

func withVolumeCapabilities(caps ...*csi.VolumeCapability) change {
	return func(r *createRequest) { r.VolumeCapabilities = caps }
}

func withParameter(key, value string) change {
	return func(r *createRequest) { r.Parameters = map[string]string{key: value} }
}

// at is a topology requirement of terms by key and value.
func withTopology(requisite, preferred []*csi.Topology) change {
	return func(r *createRequest) {
		r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: requisite, Preferred: preferred}
	}
}

func withoutTopology(r *createRequest) { r.AccessibilityRequirements = nil }

func nodeTerms(nodes ...string) []*csi.Topology {
	var all []*csi.Topology
	for _, n := range nodes {
		all = append(all, topologyTerm(harness.TopologyKey, n))
	}
	return all
}

func topologyTerm(pairs ...string) *csi.Topology {
	t := &csi.Topology{Segments: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		t.Segments[pairs[i]] = pairs[i+1]
	}
	return t
}

func fromSnapshot(id string) change {
	return func(r *createRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
	}
}

func fromVolume(id string) change {
	return func(r *createRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
	}
}

// nodeOf is the node where a volume is accessible; there is exactly one.
func (k *fixture) nodeOf(v *csi.Volume) string {
	k.t.Helper()
	require.Len(k.t, v.GetAccessibleTopology(), 1)
	node := v.GetAccessibleTopology()[0].GetSegments()[harness.TopologyKey]
	require.Contains(k.t, []string{"n1", "n2"}, node)
	return node
}

type mode = csi.VolumeCapability_AccessMode_Mode

const (
	writer                = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	reader                = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	multiNodeReader       = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	multiNodeSingleWriter = csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	multiNodeMultiWriter  = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	oneWorkload           = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	allWorkloads          = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
)

func mountCapability(m mode, fsType string, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: flags}}}
}

func blockCapability(m mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
}

// everyController calls each controller.
func (k *fixture) everyController(call func(id string, c csi.ControllerClient)) {
	k.t.Helper()
	for _, id := range []string{"c1", "c2", "c3"} {
		c, err := k.env.Cluster.Controller(id)
		require.NoError(k.t, err)
		call(id, c)
	}
}

// rowAlwaysServed makes a row of a capability that is always there: every controller advertises it and serves the
// call, and no process starts with it disabled.
func rowAlwaysServed(of csi.ControllerServiceCapability_RPC_Type, call func(k *fixture, c csi.ControllerClient) error) rowTest {
	return rowOf(func(k *fixture) {
		k.everyController(func(id string, c csi.ControllerClient) {
			require.True(k.t, controllerHas(of)(k, k.env.Conn(k.t, id)))
			require.NoError(k.t, call(k, c))
		})
		k.requireCannotDisable(of.String())
	})
}

// requireCannotDisable requires that a controller with the capability disabled does not start.
func (k *fixture) requireCannotDisable(name string) {
	k.t.Helper()
	res := k.env.Cluster.Run(k.ctx, "controller", "--disable-capability="+name, "--data-dir="+k.t.TempDir())
	require.Equal(k.t, 2, res.Code, res.Stderr)
	require.Contains(k.t, res.Stderr, name)
}

// rowSwitchable makes a row of a capability that can be disabled, and its call.
func rowSwitchable(of csi.ControllerServiceCapability_RPC_Type, call func(k *fixture, c csi.ControllerClient) error) rowTest {
	return rowServedIff(controllerHas(of), func(k *fixture, conn *grpc.ClientConn) error { return call(k, csi.NewControllerClient(conn)) })
}

func (k *fixture) get(id string) *csi.ControllerGetVolumeResponse {
	k.t.Helper()
	var res *csi.ControllerGetVolumeResponse
	k.untilOK(func() (err error) {
		res, err = k.controller.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
		return err
	})
	return res
}

// listEntry is the entry of a volume in ListVolumes, nil when there is none.
func (k *fixture) listEntry(id string) *csi.ListVolumesResponse_Entry {
	k.t.Helper()
	var res *csi.ListVolumesResponse
	k.untilOK(func() (err error) {
		res, err = k.controller.ListVolumes(k.ctx, &csi.ListVolumesRequest{})
		return err
	})
	for _, e := range res.GetEntries() {
		if e.GetVolume().GetVolumeId() == id {
			return e
		}
	}
	return nil
}

// disabledVolume returns a volume of the cluster with every optional capability disabled; it is deleted with the row.
func (k *fixture) disabledVolume() string {
	k.t.Helper()
	c, err := k.env.DisabledCluster(k.t).Controller("c1")
	require.NoError(k.t, err)
	res, err := c.CreateVolume(k.ctx, k.newCreateRequest())
	require.NoError(k.t, err)
	id := res.GetVolume().GetVolumeId()
	k.cleanUpWith(func(ctx context.Context) error {
		_, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
		return err
	})
	return id
}

// disabledPublished publishes in that cluster until the row is over.
func (k *fixture) disabledPublished(id string) {
	k.t.Helper()
	c, err := k.env.DisabledCluster(k.t).Controller("c1")
	require.NoError(k.t, err)
	_, err = c.ControllerPublishVolume(k.ctx, publication(id))
	require.NoError(k.t, err)
	k.cleanUpWith(func(ctx context.Context) error {
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
