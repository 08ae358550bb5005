package controller_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	addonsreplication "github.com/holdfast-storage/holdfast/addons/replication"
	addons "github.com/holdfast-storage/holdfast/addons/volumegroup"
	"github.com/holdfast-storage/holdfast/csi/controller"
	"github.com/holdfast-storage/holdfast/csi/group"
	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/csi/metadata"
	"github.com/holdfast-storage/holdfast/csi/node"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// env is a controller's and a node's socket over one cluster in memory.
type env struct {
	csi.ControllerClient
	csi.GroupControllerClient
	csi.SnapshotMetadataClient
	groups      volumegroup.ControllerClient
	roles       replication.ControllerClient
	node        csi.NodeClient
	cluster     *fakeCluster
	host        *fakeHost
	maps        *blockMaps
	controllers *grpc.ClientConn
	nodes       *grpc.ClientConn
}

// newEnv has one host, n1 in zone z1, unless others are given.
func newEnv(t testing.TB, hosts ...func(*fakeCluster) *fakeHost) *env {
	t.Helper()
	return newEnvOver(t, memoryTransport(t), memoryTransport(t), hosts...)
}

func newEnvOver(t testing.TB, controllers, nodes transport, hosts ...func(*fakeCluster) *fakeHost) *env {
	t.Helper()
	w := &env{cluster: newCluster(t), maps: &blockMaps{}}
	if len(hosts) == 0 {
		hosts = append(hosts, hostIn("n1", "z1"))
	}
	for _, newChannel := range hosts {
		h := newChannel(w.cluster).register(t)
		if w.host == nil {
			w.host = h
		}
	}
	service := controller.New(w.cluster).WithMaxGroupVolumes(maxGroupVolumes)
	controller.ShortenTimeouts(service, 20*time.Millisecond, 100*time.Millisecond)
	nodeService, err := node.New(w.host, node.Config{ID: w.host.id, Labels: labelsOf(w.host), MaxVolumes: w.host.max})
	require.NoError(t, err)

	serve(t, controllers, func(g *grpc.Server) {
		csi.RegisterControllerServer(g, service)
		csi.RegisterGroupControllerServer(g, group.New(w.cluster))
		csi.RegisterSnapshotMetadataServer(g, metadata.New(w.cluster, w.maps))
		replication.RegisterControllerServer(g, addonsreplication.New(w.cluster, w.cluster, addonsreplication.Options{NodeTimeout: 200 * time.Millisecond}))
		volumegroup.RegisterControllerServer(g, addons.New(w.cluster, addons.Options{MaxVolumes: maxGroupVolumes}))
	})
	serve(t, nodes, func(g *grpc.Server) { csi.RegisterNodeServer(g, nodeService) })
	w.controllers, w.nodes = dial(t, controllers), dial(t, nodes)
	w.GroupControllerClient, w.SnapshotMetadataClient = csi.NewGroupControllerClient(w.controllers), csi.NewSnapshotMetadataClient(w.controllers)
	w.roles = replication.NewControllerClient(w.controllers)
	w.groups = volumegroup.NewControllerClient(w.controllers)
	w.ControllerClient, w.node = csi.NewControllerClient(w.controllers), csi.NewNodeClient(w.nodes)
	return w
}

// hostIn makes a host in a zone.
func hostIn(id fsm.NodeID, zone string) func(*fakeCluster) *fakeHost {
	return func(c *fakeCluster) *fakeHost {
		return newHost(c, id, &fsmpb.Label{Key: fsm.ZoneKey, Value: zone})
	}
}

func labelsOf(h *fakeHost) (labels []fsm.Label) {
	for _, l := range h.labels {
		labels = append(labels, fsm.Label{Key: l.GetKey(), Value: l.GetValue()})
	}
	return labels
}

// transport is a listener and a way to it.
type transport struct {
	net.Listener
	dial   func(context.Context) (net.Conn, error)
	socket string // empty: it is in memory
}

// memoryTransport needs no kernel, so that a test may run under a clock of its own.
func memoryTransport(testing.TB) transport {
	l := bufconn.Listen(64 << 10)
	return transport{Listener: l, dial: l.DialContext}
}

// unixTransport is as a container orchestrator has it.
func unixTransport(t testing.TB) transport {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf") // short: a socket's path is bounded
	require.NoError(t, err)
	socket := filepath.Join(dir, "csi.sock")
	l, err := server.Listen("unix://" + socket)
	require.NoError(t, err)
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir) // CSI-OPS-FS-02: nothing was left beside the socket
		require.NoError(t, err)
		require.Empty(t, entries)
		require.NoError(t, os.Remove(dir))
	})
	return transport{Listener: l, socket: socket, dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
}

// serve runs a CSI server until the test ends.
func serve(t testing.TB, transport transport, register func(*grpc.Server)) {
	t.Helper()
	g, err := server.New(server.Config{})
	require.NoError(t, err)
	ident, err := identity.New(identity.Config{Version: "v0", Ready: func() error { return nil }})
	require.NoError(t, err)
	csi.RegisterIdentityServer(g, ident)
	register(g)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, g, transport) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// dialInMemory serves and dials.
func dialInMemory(t testing.TB, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	transport := memoryTransport(t)
	serve(t, transport, register)
	return dial(t, transport)
}

// dial connects a client that holds every answer to the rules for all answers:
// CSI-GEN-Error-01..04, CSI-GEN-Size-05, -06.
func dial(t testing.TB, to transport) *grpc.ClientConn {
	t.Helper()
	checkAnswer := func(ctx context.Context, method string, req, resp any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := call(ctx, method, req, resp, cc, opts...)
		if err == nil {
			assert.NoError(t, server.CheckMessage(resp.(proto.Message)), method)
			return nil
		}
		assert.NoError(t, wellFormed(err), method)
		return err
	}
	conn, err := grpc.NewClient("passthrough:///csi", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), grpc.WithUnaryInterceptor(checkAnswer),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return to.dial(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// wellFormed is nil for an error as CSI wants it.
func wellFormed(err error) error {
	s, ok := status.FromError(err)
	switch {
	case !ok || s.Code() < codes.Canceled || s.Code() > codes.Unauthenticated:
		return fsm.Reject(fsm.Invalid, "no canonical code: %v", err)
	case s.Message() == "":
		return fsm.Reject(fsm.Invalid, "no message")
	case len(s.Details()) != 0:
		return fsm.Reject(fsm.Invalid, "details: %v", s.Details())
	}
	return nil
}

func mount(mode csi.VolumeCapability_AccessMode_Mode, fsType string, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: flags}},
	}
}

func block(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	}
}

const (
	writer                = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	reader                = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	singleWriter          = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	multiWriter           = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	multiNodeReader       = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	multiNodeSingleWriter = csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	multiNodeMultiWriter  = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
)

// createRequest is the plainest CreateVolume request; changes are applied to it.
func createRequest(name string, changes ...func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
	req := &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: gib},
		VolumeCapabilities: []*csi.VolumeCapability{mount(writer, "")},
	}
	for _, change := range changes {
		change(req)
	}
	return req
}

// create makes a volume and is its id.
func (w *env) create(t testing.TB, name string, changes ...func(*csi.CreateVolumeRequest)) string {
	t.Helper()
	resp, err := w.CreateVolume(t.Context(), createRequest(name, changes...))
	require.NoError(t, err)
	return resp.GetVolume().GetVolumeId()
}

func publishRequest(id, nodeID string, changes ...func(*csi.ControllerPublishVolumeRequest)) *csi.ControllerPublishVolumeRequest {
	req := &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: nodeID, VolumeCapability: mount(writer, "")}
	for _, change := range changes {
		change(req)
	}
	return req
}

// publish publishes to n1 and is the publish context.
func (w *env) publish(t testing.TB, id string, c *csi.VolumeCapability) map[string]string {
	t.Helper()
	resp, err := w.ControllerPublishVolume(t.Context(), publishRequest(id, "n1", func(r *csi.ControllerPublishVolumeRequest) { r.VolumeCapability = c }))
	require.NoError(t, err)
	return resp.GetPublishContext()
}

func (w *env) unpublish(t testing.TB, id, nodeID string) error {
	t.Helper()
	_, err := w.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: nodeID})
	return err
}

func (w *env) delete(t testing.TB, id string) error {
	t.Helper()
	_, err := w.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

func requireCode(t testing.TB, want codes.Code, err error) {
	t.Helper()
	require.Equal(t, want, status.Code(err), "%v", err)
}

const unknownID = "hf-00000000-0000-4000-8000-000000000000"
