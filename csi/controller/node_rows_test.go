package controller_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
)

// These are the rows of the node service that the state decides: node and
// controller over one state, with a host that is played.

type nodePublishReq = csi.NodePublishVolumeRequest

// stagedVolume is a volume that is published and staged.
type stagedVolume struct {
	*env
	id, dir string
	context map[string]string
}

func newStagedVolume(t *testing.T, c *csi.VolumeCapability) *stagedVolume {
	t.Helper()
	w := newEnv(t, hostIn("n1", "z1"), hostIn("n2", "z2"))
	s := &stagedVolume{env: w, dir: t.TempDir()}
	s.id = w.create(t, "v", withCapabilities(c), accessibleFrom([]*csi.Topology{topologyTerm("topology.holdfast.storage/node", "n1")}, nil))
	s.context = w.publish(t, s.id, c)
	_, err := w.node.NodeStageVolume(t.Context(), stageRequest(s.id, s.dir, s.context, c))
	require.NoError(t, err)
	return s
}

func (s *stagedVolume) target(name string) string { return filepath.Join(s.dir, name) }

func (s *stagedVolume) publishTarget(t *testing.T, c *csi.VolumeCapability, target string, changes ...func(*nodePublishReq)) error {
	t.Helper()
	req := &nodePublishReq{
		VolumeId: s.id, StagingTargetPath: s.dir, TargetPath: s.target(target), PublishContext: s.context, VolumeCapability: c,
	}
	for _, change := range changes {
		change(req)
	}
	_, err := s.node.NodePublishVolume(t.Context(), req)
	return err
}

// CSI-NODE-NodePublishTable-01..24: SINGLE_NODE_MULTI_WRITER is advertised, so table 2
// is in force (rows 09..24, and 05..08 with the same words); the MULTI_NODE modes of rows
// 01..04 and 17..20 are served by no volume here and are refused before.
func TestNodePublishTable(t *testing.T) {
	readOnly := func(r *nodePublishReq) { r.Readonly = true }
	otherFlags := func(r *nodePublishReq) { r.VolumeCapability.GetMount().MountFlags = []string{"noatime"} }
	same := func(*nodePublishReq) {}
	for mode, second := range map[csi.VolumeCapability_AccessMode_Mode]codes.Code{
		writer:       codes.FailedPrecondition, // rows 05..08, 21..24
		reader:       codes.FailedPrecondition, // rows 05..08, 21..24
		singleWriter: codes.FailedPrecondition, // rows 09..12
		multiWriter:  codes.OK,                 // rows 13..16
	} {
		for name, tc := range map[string]struct {
			target string
			change func(*nodePublishReq)
			want   codes.Code
		}{
			"T1=T2, P1=P2":                    {"t1", same, codes.OK},
			"T1=T2, P1!=P2 by readonly":       {"t1", readOnly, codes.AlreadyExists},
			"T1=T2, P1!=P2 by mount flags":    {"t1", otherFlags, codes.AlreadyExists},
			"T1!=T2, P1=P2":                   {"t2", same, second},
			"T1!=T2, P1!=P2 by readonly":      {"t2", readOnly, second},
			"T1!=T2, P1!=P2 by mount flags":   {"t2", otherFlags, second},
			"T1=T2, other secrets (-16)":      {"t1", func(r *nodePublishReq) { r.Secrets = mapOf("a", "rotated") }, codes.OK},
			"T1=T2, a rotated token (-02)":    {"t1", func(r *nodePublishReq) { r.VolumeContext = mapOf("csi.storage.k8s.io/serviceAccount.tokens", "t") }, codes.OK},
			"T1=T2, block instead (-19)":      {"t1", func(r *nodePublishReq) { r.VolumeCapability = block(mode) }, codes.AlreadyExists},
			"T1!=T2, block instead (-17)":     {"t2", func(r *nodePublishReq) { r.VolumeCapability = block(mode) }, codes.FailedPrecondition},
			"T1!=T2, a mode of many (-20)":    {"t2", func(r *nodePublishReq) { r.VolumeCapability = mount(multiNodeMultiWriter, "") }, codes.FailedPrecondition},
			"T1!=T2, a filesystem it has not": {"t2", func(r *nodePublishReq) { r.VolumeCapability = mount(mode, "xfs") }, codes.FailedPrecondition},
		} {
			t.Run(mode.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newStagedVolume(t, mount(mode, ""))
				require.NoError(t, s.publishTarget(t, mount(mode, ""), "t1"))
				for range 2 {
					requireCode(t, tc.want, s.publishTarget(t, mount(mode, ""), tc.target, tc.change))
				}
				require.DirExists(t, s.target("t1"))
			})
		}
	}
}

// CSI-NODE-NodeStageVolume-02, -09, -12..14, S3: what a second or a wrong staging gets.
func TestNodeStageVolumeAgainstTheState(t *testing.T) {
	type stageReq = csi.NodeStageVolumeRequest
	for name, tc := range map[string]struct {
		change func(*stageReq)
		want   codes.Code
	}{
		"-02: the same again":                   {func(*stageReq) {}, codes.OK},
		"-17: other secrets":                    {func(r *stageReq) { r.Secrets = mapOf("a", "b") }, codes.OK},
		"-09: without the publish context":      {func(r *stageReq) { r.PublishContext = nil }, codes.FailedPrecondition},
		"-09, S3: another epoch":                {func(r *stageReq) { r.PublishContext = mapOf(csiconv.EpochKey, "1.1") }, codes.FailedPrecondition},
		"-12: an unknown volume":                {func(r *stageReq) { r.VolumeId = unknownID }, codes.NotFound},
		"-12: an unknown one without a context": {func(r *stageReq) { r.VolumeId, r.PublishContext = unknownID, nil }, codes.NotFound},
		"-13: block instead of mount":           {func(r *stageReq) { r.VolumeCapability = block(writer) }, codes.AlreadyExists},
		"-13: another filesystem":               {func(r *stageReq) { r.VolumeCapability = mount(writer, "xfs") }, codes.AlreadyExists},
		"-14: a mode of many nodes":             {func(r *stageReq) { r.VolumeCapability = mount(multiNodeMultiWriter, "") }, codes.FailedPrecondition},
		"staged at another path":                {func(r *stageReq) { r.StagingTargetPath += "/other" }, codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStagedVolume(t, mount(writer, ""))
			req := stageRequest(s.id, s.dir, s.context, mount(writer, ""))
			tc.change(req)
			for range 2 {
				_, err := s.node.NodeStageVolume(t.Context(), req)
				requireCode(t, tc.want, err)
			}
		})
	}
}

// CSI-NODE-NodePublishVolume-10: what is not staged is not bound.
func TestNodePublishVolumeBeforeStaging(t *testing.T) {
	w := newEnv(t)
	id := w.create(t, "v")
	s := &stagedVolume{env: w, id: id, dir: t.TempDir(), context: w.publish(t, id, mount(writer, ""))}
	requireCode(t, codes.FailedPrecondition, s.publishTarget(t, mount(writer, ""), "t1"))
	requireCode(t, codes.NotFound, s.publishTarget(t, mount(writer, ""), "t1", func(r *nodePublishReq) { r.VolumeId = unknownID })) // -18
	entries, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Empty(t, entries, "-11: nothing is left over")
}

// TestNodeVolumeLifecycle walks one volume through all calls, each twice, and without the
// quorum where that must work (S28, CSI-NODE-NodeUnpublishVolume-12, -NodeUnstageVolume-11).
func TestNodeVolumeLifecycle(t *testing.T) {
	s := newStagedVolume(t, mount(multiWriter, "xfs"))
	for _, target := range []string{"t1", "t2", "t1", "t2"} {
		require.NoError(t, s.publishTarget(t, mount(multiWriter, "xfs"), target))
	}
	for _, path := range []string{s.dir, s.target("t1")} { // CSI-NODE-NodeGetVolumeStats-04
		_, err := s.node.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: s.id, VolumePath: path})
		require.NoError(t, err)
	}
	requireCode(t, codes.FailedPrecondition, s.unstage(t)) // CSI-NODE-NodeUnstageVolume-09

	s.cluster.update(func(c *fakeCluster) { c.noQuorum = true })
	require.NoError(t, s.unpublishTarget(t, "t1"))
	require.NoError(t, s.unpublishTarget(t, "t1"))
	require.DirExists(t, s.target("t2")) // CSI-NODE-NodeUnpublishVolume-09
	require.NoError(t, s.unpublishTarget(t, "t2"))
	require.NoError(t, s.unstage(t))
	require.NoError(t, s.unstage(t))
	s.cluster.update(func(c *fakeCluster) { c.noQuorum = false })

	require.NoError(t, s.unpublish(t, s.id, "n1"))
	require.NoError(t, s.delete(t, s.id))
	require.Empty(t, s.cluster.volumes())
}

func (s *stagedVolume) unpublishTarget(t *testing.T, target string) error {
	t.Helper()
	_, err := s.node.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: s.id, TargetPath: s.target(target)})
	return err
}

func (s *stagedVolume) unstage(t *testing.T) error {
	t.Helper()
	_, err := s.node.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: s.id, StagingTargetPath: s.dir})
	return err
}
