package reclaimspace_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	spec "github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/addons/reclaimspace"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fakeHost answers with what it has, and remembers what it was asked.
type fakeHost struct {
	asked executor.ReclaimRequest
	usage executor.SpaceUsage
	err   error
}

func (h *fakeHost) ReclaimSpace(_ context.Context, req executor.ReclaimRequest) (executor.SpaceUsage, error) {
	h.asked = req
	return h.usage, h.err
}

func mountCapability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
	}
}

// ADD-RS-NodeReclaimSpace-05 to -10, -12, -14, -15: the request. The client of Kubernetes sends no volume_path.
func TestNodeReclaimSpaceChecksTheRequest(t *testing.T) {
	type req = spec.NodeReclaimSpaceRequest
	id := string(fsm.VolumeIDFrom(uuid.New()))
	long := "/" + strings.Repeat("p", 4000)
	for name, tc := range map[string]struct {
		change func(*req)
		want   codes.Code
		path   string
	}{
		"well-formed":                        {func(*req) {}, codes.OK, "/v"},
		"-05: a volume is required":          {func(r *req) { r.VolumeId = "" }, codes.InvalidArgument, ""},
		"-06: a path is required":            {func(r *req) { r.VolumePath = "" }, codes.InvalidArgument, ""},
		"-06: the staging path is enough":    {func(r *req) { r.VolumePath, r.StagingTargetPath = "", "/s" }, codes.OK, "/s"},
		"-07: a long volume path":            {func(r *req) { r.VolumePath = long }, codes.OK, long},
		"-08: the staging path is absolute":  {func(r *req) { r.StagingTargetPath = "rel" }, codes.InvalidArgument, ""},
		"-09: a long staging path":           {func(r *req) { r.VolumePath, r.StagingTargetPath = "", long }, codes.OK, long},
		"-10: with a capability":             {func(r *req) { r.VolumeCapability = mountCapability() }, codes.OK, "/v"},
		"-10: a malformed capability":        {func(r *req) { r.VolumeCapability = &csi.VolumeCapability{} }, codes.InvalidArgument, ""},
		"-12: secrets are not needed":        {func(r *req) { r.Secrets = map[string]string{"a": "b"} }, codes.OK, "/v"},
		"-15: an id of another form":         {func(r *req) { r.VolumeId = "fake-vol-id" }, codes.NotFound, ""},
		"-15: at a relative path is nothing": {func(r *req) { r.VolumePath = "rel" }, codes.NotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, host := &req{VolumeId: id, VolumePath: "/v"}, &fakeHost{}
			tc.change(r)
			for range 2 {
				_, err := reclaimspace.NewNode(host).NodeReclaimSpace(t.Context(), r)
				require.Equal(t, tc.want, status.Code(err), err)
				require.Equal(t, tc.path, host.asked.Path)
			}
		})
	}
}

// ADD-RS-NodeReclaimSpace-13, -15, -16, -18: the answer. A pool that cannot tell leaves the usage out.
func TestNodeReclaimSpaceAnswers(t *testing.T) {
	req := &spec.NodeReclaimSpaceRequest{VolumeId: string(fsm.VolumeIDFrom(uuid.New())), VolumePath: "/v"}
	resp, err := reclaimspace.NewNode(&fakeHost{usage: executor.SpaceUsage{Known: true, Before: 9, After: 0}}).NodeReclaimSpace(t.Context(), req)
	require.NoError(t, err)
	require.EqualValues(t, 9, resp.GetPreUsage().GetUsageBytes())
	require.NotNil(t, resp.GetPostUsage())
	resp, err = reclaimspace.NewNode(&fakeHost{}).NodeReclaimSpace(t.Context(), req)
	require.NoError(t, err)
	require.Nil(t, resp.GetPreUsage())
	require.Nil(t, resp.GetPostUsage())
	for reason, want := range map[fsm.Reason]codes.Code{fsm.NotFound: codes.NotFound, fsm.Busy: codes.Aborted, fsm.Unsupported: codes.Unimplemented} {
		_, err := reclaimspace.NewNode(&fakeHost{err: fsm.Reject(reason, "it is so")}).NodeReclaimSpace(t.Context(), req)
		require.Equal(t, want, status.Code(err))
	}
	_, err = reclaimspace.NewNode(&fakeHost{err: errors.New("an I/O error")}).NodeReclaimSpace(t.Context(), req)
	require.Equal(t, codes.Unknown, status.Code(err))
	require.Equal(t, "an I/O error", status.Convert(err).Message())
}
