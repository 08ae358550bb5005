package conformance

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	res, err := k.ctl.CreateVolume(k.ctx, req)
	require.NoError(k.t, err)
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

// publication is ControllerPublishVolume of a volume on n1 for one writer.
func publication(id string) *csi.ControllerPublishVolumeRequest {
	return &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n1", VolumeCapability: mounted(writer, "ext4")}
}

func (k *kit) publish(req *csi.ControllerPublishVolumeRequest) error {
	_, err := k.ctl.ControllerPublishVolume(k.ctx, req)
	return err
}

// published publishes until the row is over.
func (k *kit) published(req *csi.ControllerPublishVolumeRequest) map[string]string {
	k.t.Helper()
	res, err := k.ctl.ControllerPublishVolume(k.ctx, req)
	require.NoError(k.t, err)
	k.after(func(ctx context.Context) error {
		_, err := k.ctl.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: req.GetVolumeId()})
		return err
	})
	return res.GetPublishContext()
}

func (k *kit) unpublish(id, node string) error {
	_, err := k.ctl.ControllerUnpublishVolume(k.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	return err
}

// usage is a volume published, staged and mounted on n1 in one mode until down or
// the end of the row.
type usage struct {
	k              *kit
	v              *csi.Volume
	as             *csi.VolumeCapability
	readOnly       bool
	context        map[string]string
	staging        string
	targets        []string
	isDown, staged bool
}

func (k *kit) inUse(v *csi.Volume, as *csi.VolumeCapability, readOnly bool) *usage {
	k.t.Helper()
	u := &usage{k: k, v: v, as: as, readOnly: readOnly, staging: k.w.Path("staging")}
	k.after(u.down)
	res, err := k.ctl.ControllerPublishVolume(k.ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: v.GetVolumeId(), NodeId: "n1", VolumeCapability: as, Readonly: readOnly})
	require.NoError(k.t, err)
	u.context = res.GetPublishContext()
	require.NoError(k.t, os.MkdirAll(u.staging, 0o750))
	_, err = k.w.Node(k.t).NodeStageVolume(k.ctx, &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(),
		PublishContext: u.context, StagingTargetPath: u.staging, VolumeCapability: as})
	require.NoError(k.t, err)
	u.staged = true
	require.NoError(k.t, u.bind())
	return u
}

// bind mounts at one more target.
func (u *usage) bind() error {
	target := u.k.w.Path("target")
	_, err := u.k.w.Node(u.k.t).NodePublishVolume(u.k.ctx, &csi.NodePublishVolumeRequest{VolumeId: u.v.GetVolumeId(), Readonly: u.readOnly,
		PublishContext: u.context, StagingTargetPath: u.staging, TargetPath: target, VolumeCapability: u.as})
	if err == nil {
		u.targets = append(u.targets, target)
	}
	return err
}

func (u *usage) file() string { return filepath.Join(u.targets[0], "row") }

// write writes one file and has the disk keep it.
func (u *usage) write(text string) error {
	f, err := os.OpenFile(u.file(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}

func (u *usage) read() string {
	u.k.t.Helper()
	text, err := os.ReadFile(u.file())
	require.NoError(u.k.t, err)
	return string(text)
}

// bytes is the size of the filesystem.
func (u *usage) bytes() int64 {
	u.k.t.Helper()
	var s syscall.Statfs_t
	require.NoError(u.k.t, syscall.Statfs(u.targets[0], &s))
	return int64(s.Blocks) * s.Bsize
}

// down ends it, backwards.
func (u *usage) down(ctx context.Context) error {
	if u.isDown {
		return nil
	}
	node, err := u.k.w.Cluster.Node("n1")
	if err != nil {
		return err
	}
	for _, target := range u.targets {
		if _, err := node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: u.v.GetVolumeId(), TargetPath: target}); err != nil {
			return err
		}
	}
	if u.staged {
		if _, err := node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: u.v.GetVolumeId(), StagingTargetPath: u.staging}); err != nil {
			return err
		}
	}
	_ = os.Remove(u.staging)
	ctl, err := u.k.w.Cluster.Controller("c1")
	if err == nil {
		_, err = ctl.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: u.v.GetVolumeId()})
	}
	u.isDown = err == nil
	return err
}

// written is a volume on n1 that holds a text, in use by nobody.
func (k *kit) written(text string, changes ...change) *csi.Volume {
	k.t.Helper()
	v := k.made(changes...)
	u := k.inUse(v, mounted(writer, ""), false)
	require.NoError(k.t, u.write(text))
	require.NoError(k.t, u.down(k.ctx))
	return v
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

// stopped runs something while a process gets no time of the processors.
func (k *kit) stopped(ids []string, during func()) {
	k.t.Helper()
	go_ := func() {
		for _, id := range ids {
			_, _ = k.w.Cluster.Signal(id, syscall.SIGCONT)
		}
	}
	defer go_()
	for _, id := range ids {
		_, err := k.w.Cluster.Signal(id, syscall.SIGSTOP)
		require.NoError(k.t, err)
	}
	during()
}

// soon bounds one call that is not expected to be carried out.
func (k *kit) soon(call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(k.ctx, 1500*time.Millisecond)
	defer cancel()
	return call(ctx)
}

// settled waits until all controllers answer again.
func (k *kit) settled() {
	k.t.Helper()
	err := harness.Poll(k.ctx, 25*time.Second, "all controllers to serve", func() (bool, error) {
		for _, id := range []string{"c1", "c2", "c3"} {
			c, err := k.w.Cluster.Controller(id)
			if err == nil {
				_, err = c.ListVolumes(k.ctx, &csi.ListVolumesRequest{MaxEntries: 1})
			}
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})
	require.NoError(k.t, err)
}

// withoutQuorum makes a row of a call that fails, and has no OK, while no majority
// can be asked; afterwards it is carried out.
func withoutQuorum(prepare func(k *kit) func(ctx context.Context) error) rowTest {
	return with(func(k *kit) {
		call := prepare(k)
		k.stopped([]string{"c2", "c3"}, func() {
			k.leaderless()
			err := k.soon(call)
			require.Error(k.t, err)
			require.Contains(k.t, []codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}, status.Code(err))
		})
		k.settled()
		require.NoError(k.t, retried(k.ctx, call))
	})
}

// leaderless waits until c1 knows that it has no majority: a leader may answer
// until its lease ends.
func (k *kit) leaderless() {
	k.t.Helper()
	err := harness.Poll(k.ctx, 10*time.Second, "c1 to answer no more", func() (bool, error) {
		return k.soon(func(ctx context.Context) error {
			_, err := k.ctl.ListVolumes(ctx, &csi.ListVolumesRequest{MaxEntries: 1})
			return err
		}) != nil, nil
	})
	require.NoError(k.t, err)
}

// retried repeats as a CO does.
func retried(ctx context.Context, call func(ctx context.Context) error) error {
	for {
		err := call(ctx)
		if err == nil || !harness.Retriable(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// failover kills the leader and waits until all serve again.
func (k *kit) failover() {
	k.t.Helper()
	leader, err := k.w.Cluster.Leader(k.ctx)
	require.NoError(k.t, err)
	pid, err := k.w.Cluster.Signal(leader, syscall.SIGKILL)
	require.NoError(k.t, err)
	require.NoError(k.t, k.w.Cluster.AwaitOther(k.ctx, leader, pid))
	k.settled()
}

// imageOf is the file that keeps a volume on n1.
func (k *kit) imageOf(id string) string {
	k.t.Helper()
	l, err := k.w.Cluster.Layout()
	require.NoError(k.t, err)
	path := filepath.Join(l.Nodes[0].PoolDir, "volumes", id+".img")
	require.FileExists(k.t, path)
	return path
}

// hidden runs something while the file that keeps a volume is elsewhere.
func (k *kit) hidden(id string, during func()) {
	k.t.Helper()
	path := k.imageOf(id)
	elsewhere := filepath.Join(filepath.Dir(filepath.Dir(path)), "hidden-by-row")
	require.NoError(k.t, os.Rename(path, elsewhere))
	defer func() { require.NoError(k.t, os.Rename(elsewhere, path)) }()
	during()
}

// full reserves all that is left of n2, and gives it back with the row.
func (k *kit) full() {
	k.t.Helper()
	for range 16 {
		c, err := k.ctl.GetCapacity(k.ctx, &csi.GetCapacityRequest{AccessibleTopology: places("n2")[0]})
		require.NoError(k.t, err)
		most := c.GetMaximumVolumeSize().GetValue()
		if most < 64*harness.Mi {
			return
		}
		res, err := k.ctl.CreateVolume(k.ctx, k.asked(sized(most, 0), capable(raw(writer)), at(places("n2"), nil)))
		if status.Code(err) == codes.ResourceExhausted {
			return
		}
		require.NoError(k.t, err)
		k.dropVolume(res.GetVolume().GetVolumeId())
	}
	require.Fail(k.t, "n2 is never full")
}

func (k *kit) get(id string) *csi.ControllerGetVolumeResponse {
	k.t.Helper()
	res, err := k.ctl.ControllerGetVolume(k.ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
	require.NoError(k.t, err)
	return res
}

// listed is the entry of a volume in ListVolumes, nil when there is none.
func (k *kit) listed(id string) *csi.ListVolumesResponse_Entry {
	k.t.Helper()
	res, err := k.ctl.ListVolumes(k.ctx, &csi.ListVolumesRequest{})
	require.NoError(k.t, err)
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
