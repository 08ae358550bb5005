package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/node"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fakeHost remembers what it was asked for and answers with err.
type fakeHost struct {
	err     error
	stats   executor.VolumeStats
	stages  executor.StageRequest
	targets executor.PublishTargetRequest
	expands executor.ExpandRequest
	calls   []string
}

func (h *fakeHost) Stage(_ context.Context, req executor.StageRequest) error {
	h.stages, h.calls = req, append(h.calls, "stage")
	return h.err
}

func (h *fakeHost) Unstage(_ context.Context, id fsm.VolumeID, path string) error {
	h.calls = append(h.calls, "unstage "+string(id)+" "+path)
	return h.err
}

func (h *fakeHost) PublishTarget(_ context.Context, req executor.PublishTargetRequest) error {
	h.targets, h.calls = req, append(h.calls, "publish")
	return h.err
}

func (h *fakeHost) UnpublishTarget(_ context.Context, id fsm.VolumeID, target string) error {
	h.calls = append(h.calls, "unpublish "+string(id)+" "+target)
	return h.err
}

func (h *fakeHost) VolumeStats(context.Context, fsm.VolumeID, string) (executor.VolumeStats, error) {
	h.calls = append(h.calls, "stats")
	return h.stats, h.err
}

func (h *fakeHost) Expand(_ context.Context, req executor.ExpandRequest) (int64, error) {
	h.expands, h.calls = req, append(h.calls, "expand")
	return 4 << 30, h.err
}

const id = "hf-00000000-0000-4000-8000-000000000001"

func newServer(t *testing.T, h *fakeHost) *node.Server {
	t.Helper()
	s, err := node.New(h, node.Config{ID: "n1", MaxVolumes: 7, MountGroup: true, Labels: []fsm.Label{{Key: fsm.ZoneKey, Value: "z1"}}})
	require.NoError(t, err)
	return s
}

func requireCode(t *testing.T, want codes.Code, err error) {
	t.Helper()
	require.Equal(t, want, status.Code(err), "%v", err)
	if err != nil {
		require.NotEmpty(t, status.Convert(err).Message())
		require.Empty(t, status.Convert(err).Details())
	}
}

func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4", MountFlags: []string{"noatime"}}},
	}
}

func epochContext(epoch string) map[string]string { return map[string]string{csiconv.EpochKey: epoch} }

// CSI-NODE-NodeStageVolume-03..10, -12, -14, -17, CSI-CTRL-VolumeCapability-01..04, -06.
func TestNodeStageVolume(t *testing.T) {
	type req = csi.NodeStageVolumeRequest
	const invalid = codes.InvalidArgument
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, tc := range map[string]struct {
		change func(*req)
		want   codes.Code
	}{
		"well-formed":                                     {func(*req) {}, codes.OK},
		"-03: a volume is required":                       {func(r *req) { r.VolumeId = "" }, invalid},
		"-04: a path is required":                         {func(r *req) { r.StagingTargetPath = "" }, invalid},
		"-05: an absolute one":                            {func(r *req) { r.StagingTargetPath = "rel/path" }, invalid},
		"-06: not one of a file":                          {func(r *req) { r.StagingTargetPath = file }, invalid},
		"-07: a long one":                                 {func(r *req) { r.StagingTargetPath = "/" + strings.Repeat("p/", 2047) }, codes.OK},
		"-08: a capability is required":                   {func(r *req) { r.VolumeCapability = nil }, invalid},
		"VolumeCapability-01: with an access type":        {func(r *req) { r.VolumeCapability.AccessType = nil }, invalid},
		"VolumeCapability-02: with a mode":                {func(r *req) { r.VolumeCapability.AccessMode = nil }, invalid},
		"VolumeCapability-03: with a known one":           {func(r *req) { r.VolumeCapability.AccessMode.Mode = 99 }, invalid},
		"VolumeCapability-04: with a filesystem we serve": {func(r *req) { r.VolumeCapability.GetMount().FsType = "zzz" }, invalid},
		"VolumeCapability-06: a group is a number":        {func(r *req) { r.VolumeCapability.GetMount().VolumeMountGroup = "staff" }, invalid},
		"-09: without a publish context the host decides": {func(r *req) { r.PublishContext = nil }, codes.OK},
		"-09: a publish context of another driver":        {func(r *req) { r.PublishContext = map[string]string{"device": "/dev/mock"} }, codes.OK},
		"-09: a tampered epoch":                           {func(r *req) { r.PublishContext = epochContext("7.x") }, invalid},
		"-10: another volume's context":                   {func(r *req) { r.VolumeContext = map[string]string{"pool": "x"} }, invalid},
		"-10: the CO's own keys":                          {func(r *req) { r.VolumeContext = map[string]string{"csi.storage.k8s.io/pod.name": "p"} }, codes.OK},
		"-12: an id of another form is unknown":           {func(r *req) { r.VolumeId = "fake-vol-id" }, codes.NotFound},
		"-14: a mode that no volume has": {func(r *req) {
			r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		}, codes.FailedPrecondition},
		"-17: secrets":                         {func(r *req) { r.Secrets = map[string]string{"a": "b"} }, codes.OK},
		"GEN-Error-12: form before the volume": {func(r *req) { r.VolumeId, r.VolumeCapability = "fake", nil }, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{}
			r := &req{VolumeId: id, StagingTargetPath: "/no/such/path", VolumeCapability: capability(), PublishContext: epochContext("2.77")}
			tc.change(r)
			for range 2 {
				_, err := newServer(t, h).NodeStageVolume(t.Context(), r)
				requireCode(t, tc.want, err)
			}
			require.Len(t, h.calls, map[bool]int{true: 2}[tc.want == codes.OK])
		})
	}
}

// TestStageRequest: what the host is told.
func TestStageRequest(t *testing.T) {
	h := &fakeHost{}
	_, err := newServer(t, h).NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: "/s", VolumeCapability: capability(), PublishContext: epochContext("2.77"),
	})
	require.NoError(t, err)
	require.Equal(t, fsm.Epoch{Incarnation: 2, Index: 77}, h.stages.Epoch)
	require.Equal(t, "/s", h.stages.Path)
	require.Equal(t, []string{"noatime"}, h.stages.Flags)
	require.Equal(t, "ext4", h.stages.Capability.FSType)
	require.NotContains(t, h.stages.Capability.Flags, "noatime", "CSI-GEN-Secrets-07: only a fingerprint may be stored")
	require.Len(t, h.stages.Capability.Flags, 32)
}

// CSI-NODE-NodePublishVolume-03..09, -14..16, -18, -20, -23..25.
func TestNodePublishVolume(t *testing.T) {
	type req = csi.NodePublishVolumeRequest
	const invalid = codes.InvalidArgument
	for name, tc := range map[string]struct {
		change func(*req)
		want   codes.Code
	}{
		"-21: well-formed":                      {func(*req) {}, codes.OK},
		"-03: a volume is required":             {func(r *req) { r.VolumeId = "" }, invalid},
		"-04: a target is required":             {func(r *req) { r.TargetPath = "" }, invalid},
		"-05: an absolute one":                  {func(r *req) { r.TargetPath = "rel" }, invalid},
		"-06: a long one":                       {func(r *req) { r.TargetPath = "/" + strings.Repeat("p", 4000) }, codes.OK},
		"-07: a capability, before the staging": {func(r *req) { r.VolumeCapability, r.StagingTargetPath = nil, "" }, invalid},
		"-08, -24: a staging path is required":  {func(r *req) { r.StagingTargetPath = "" }, codes.FailedPrecondition},
		"-09: an absolute one too":              {func(r *req) { r.StagingTargetPath = "rel" }, invalid},
		"-15: another volume's context":         {func(r *req) { r.VolumeContext = map[string]string{"pool": "x"} }, invalid},
		"-18: an id of another form is unknown": {func(r *req) { r.VolumeId = "fake-vol-id" }, codes.NotFound},
		"-20: a mode that no volume has": {func(r *req) {
			r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
		}, codes.FailedPrecondition},
		"-23: secrets":                           {func(r *req) { r.Secrets = map[string]string{"a": "b"} }, codes.OK},
		"-25: without a context the host judges": {func(r *req) { r.PublishContext = nil }, codes.OK},
		"-25: a tampered one":                    {func(r *req) { r.PublishContext = epochContext("") }, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{}
			r := &req{VolumeId: id, TargetPath: "/t", StagingTargetPath: "/s", VolumeCapability: capability(), PublishContext: epochContext("2.77")}
			tc.change(r)
			for range 2 {
				_, err := newServer(t, h).NodePublishVolume(t.Context(), r)
				requireCode(t, tc.want, err)
			}
			require.Len(t, h.calls, map[bool]int{true: 2}[tc.want == codes.OK])
		})
	}
}

// CSI-NODE-NodePublishVolume-14, -16, CSI-NODE-NodePublishTable-02, CSI-GEN-Secrets-07:
// the fingerprint tells other arguments apart, and only those.
func TestPublishFingerprint(t *testing.T) {
	type req = csi.NodePublishVolumeRequest
	print := func(change func(*req)) executor.PublishTargetRequest {
		h := &fakeHost{}
		r := &req{VolumeId: id, TargetPath: "/t", StagingTargetPath: "/s", VolumeCapability: capability(), PublishContext: epochContext("2.77")}
		change(r)
		_, err := newServer(t, h).NodePublishVolume(t.Context(), r)
		require.NoError(t, err)
		return h.targets
	}
	base := print(func(*req) {})
	require.False(t, base.ReadOnly)
	for name, tc := range map[string]struct {
		change func(*req)
		same   bool
	}{
		"secrets do not count":          {func(r *req) { r.Secrets = map[string]string{"a": "b"} }, true},
		"tokens in the context neither": {func(r *req) { r.VolumeContext = map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": "t"} }, true},
		"readonly does":                 {func(r *req) { r.Readonly = true }, false},
		"mount flags do":                {func(r *req) { r.VolumeCapability.GetMount().MountFlags = []string{"relatime"} }, false},
		"their borders do":              {func(r *req) { r.VolumeCapability.GetMount().MountFlags = []string{"noa", "time"} }, false},
		"the filesystem does":           {func(r *req) { r.VolumeCapability.GetMount().FsType = "xfs" }, false},
		"the access type does":          {func(r *req) { r.VolumeCapability.AccessType = &csi.VolumeCapability_Block{} }, false},
		"the staging path does":         {func(r *req) { r.StagingTargetPath = "/other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.same, base.Fingerprint == print(tc.change).Fingerprint)
		})
	}
	require.True(t, print(func(r *req) { r.Readonly = true }).ReadOnly)
	reader := print(func(r *req) {
		r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	})
	require.True(t, reader.ReadOnly, "CSI-CTRL-VolumeCapability-09")
}

// CSI-NODE-NodeUnstageVolume-03..08, CSI-NODE-NodeUnpublishVolume-04..08, -10.
func TestUnstageAndUnpublishTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		id, path string
		want     codes.Code
		asked    bool
	}{
		"a volume at a path":                     {id, "/p", codes.OK, true},
		"-04, -05: a volume is required":         {"", "/p", codes.InvalidArgument, false},
		"-05, -06: a path is required":           {id, "", codes.InvalidArgument, false},
		"-06, -07: an absolute one":              {id, "rel", codes.InvalidArgument, false},
		"-07, -08: a long one":                   {id, "/" + strings.Repeat("p", 4000), codes.OK, true},
		"-08, -10: an id of another form":        {"fake-vol-id", "/p", codes.OK, false},
		"-08, -10: an id that looks like a path": {"../../etc", "/p", codes.OK, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{}
			s := newServer(t, h)
			for range 2 {
				_, err := s.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: tc.id, StagingTargetPath: tc.path})
				requireCode(t, tc.want, err)
				_, err = s.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: tc.id, TargetPath: tc.path})
				requireCode(t, tc.want, err)
			}
			require.Len(t, h.calls, map[bool]int{true: 4}[tc.asked])
		})
	}
}

type noQuorum struct{ error }

func (noQuorum) Unavailable() bool { return true }

// The host's errors keep their meaning: rows -09, -12..16, -22 of stage and publish,
// -10 and -13 of their reverses, CSI-GEN-Error-08; S28 without a quorum.
func TestErrorsOfTheHost(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want codes.Code
	}{
		"unknown volume":                      {fsm.Reject(fsm.NotFound, "volume"), codes.NotFound},
		"S3: another epoch":                   {fsm.Reject(fsm.StaleEpoch, "volume"), codes.FailedPrecondition},
		"other arguments at the same path":    {fsm.Reject(fsm.Incompatible, "volume"), codes.AlreadyExists},
		"exceeds what it can do":              {fsm.Reject(fsm.Precondition, "volume"), codes.FailedPrecondition},
		"another call is under way":           {fsm.Reject(fsm.Busy, "volume"), codes.Aborted},
		"S28: no quorum":                      {noQuorum{errors.New("no session")}, codes.Unavailable},
		"S28: no quorum until the deadline":   {noQuorum{context.DeadlineExceeded}, codes.Unavailable},
		"the work goes on after the deadline": {fmt.Errorf("mkfs: %w", context.DeadlineExceeded), codes.Aborted},
		"a mount that fails":                  {errors.New("mount: exit 32"), codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, &fakeHost{err: tc.err})
			_, err := s.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: "/s", VolumeCapability: capability()})
			requireCode(t, tc.want, err)
			_, err = s.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: "/s", TargetPath: "/t", VolumeCapability: capability()})
			requireCode(t, tc.want, err)
			_, err = s.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: "/t"})
			requireCode(t, tc.want, err)
			_, err = s.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: "/s"})
			requireCode(t, tc.want, err)
			_, err = s.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: "/s"})
			requireCode(t, tc.want, err)
		})
	}
}

// FuzzNode: no request panics in a handler that is called without the interceptors.
func FuzzNode(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, raw []byte, which uint8) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := newServer(t, &fakeHost{})
		var err error
		switch which % 3 {
		case 0:
			r := &csi.NodeStageVolumeRequest{}
			if proto.Unmarshal(raw, r) == nil {
				_, err = s.NodeStageVolume(ctx, r)
			}
		case 1:
			r := &csi.NodePublishVolumeRequest{}
			if proto.Unmarshal(raw, r) == nil {
				_, err = s.NodePublishVolume(ctx, r)
			}
		case 2:
			r := &csi.NodeGetVolumeStatsRequest{}
			if proto.Unmarshal(raw, r) == nil {
				_, err = s.NodeGetVolumeStats(ctx, r)
			}
		}
		require.NotEqual(t, codes.Unknown, status.Code(err))
	})
}
