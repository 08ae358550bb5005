package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/csi/mounthelper"
	"github.com/holdfast-storage/holdfast/fsm"
)

// apiControllers are the controllers as the mount helper needs them, over the operators' API.
type apiControllers struct {
	client             *admin.Client
	reason             string
	evenIfOrchestrated bool
	warnings           io.Writer
}

var _ mounthelper.Controllers = (*apiControllers)(nil)

// Find reads the volume, and refuses one that is not this host's to use.
func (a *apiControllers) Find(ctx context.Context, idOrName, node string) (*mounthelper.Volume, error) {
	resp, err := a.client.Volumes(ctx, &adminpb.VolumesRequest{Volume: idOrName})
	if err != nil {
		return nil, err
	}
	if len(resp.GetVolumes()) != 1 {
		return nil, status.Errorf(codes.NotFound, "no volume has this id or name")
	}
	v := resp.GetVolumes()[0]
	if v.GetMadeBy() == "" && !a.evenIfOrchestrated {
		return nil, status.Error(codes.FailedPrecondition, "no operator made it, so an orchestrator may use it: -o even-if-orchestrated mounts it all the same")
	}
	found := &mounthelper.Volume{ID: fsm.VolumeID(v.GetId()), Name: v.GetName(), Capability: capabilityOfView(v)}
	for _, p := range v.GetPublications() {
		if p.GetNode() != node {
			return nil, status.Errorf(codes.FailedPrecondition, "it is published to node %s", p.GetNode())
		}
		found.Published, found.ReadOnly, found.Orchestrated = true, p.GetReadOnly(), p.GetMadeBy() == ""
	}
	return found, nil
}

// capabilityOfView is how the volume was asked for.
func capabilityOfView(v *adminpb.Volume) *csi.VolumeCapability {
	mode := csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	if modes := v.GetAccessModes(); len(modes) > 0 {
		mode = csi.VolumeCapability_AccessMode_Mode(csi.VolumeCapability_AccessMode_Mode_value[strings.ToUpper(modes[0])])
	}
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
	if v.GetBlock() {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return c
	}
	c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: cmp.Or(v.GetFsType(), v.GetUsedAs())}}
	return c
}

// Publish gives the node the right to use it.
func (a *apiControllers) Publish(ctx context.Context, id fsm.VolumeID, node string, readOnly bool) (map[string]string, error) {
	resp, err := a.change(ctx, &adminpb.VolumeChangeRequest{Verb: "publish", Volume: string(id), Node: node, ReadOnly: readOnly, EvenIfOrchestrated: a.evenIfOrchestrated})
	published := map[string]string{}
	for _, pair := range resp.GetPublishContext() {
		published[pair.GetKey()] = pair.GetValue()
	}
	return published, err
}

// Unpublish ends it, unless an orchestrator made it: that it stays is a warning, since no other host can mount the volume
// before it ends. A volume that is gone is not published.
func (a *apiControllers) Unpublish(ctx context.Context, id fsm.VolumeID, node string) error {
	resp, err := a.change(ctx, &adminpb.VolumeChangeRequest{Verb: "unpublish", Volume: string(id), Node: node, EvenIfOrchestrated: true, OperatorsOnly: true})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if left := leftTo(node, resp.GetVolume()); err == nil && left != "" {
		fmt.Fprintln(a.warnings, left)
	}
	return err
}

// leftTo says that an orchestrator's publication to the node is left; empty: there is none.
func leftTo(node string, v *adminpb.Volume) string {
	if !slices.ContainsFunc(v.GetPublications(), func(p *adminpb.Publication) bool { return p.GetNode() == node && p.GetMadeBy() == "" }) {
		return ""
	}
	return fmt.Sprintf("volume %s stays published to node %s: an orchestrator published it, and ends it", listing.OneLine(v.GetName()), node)
}

// change makes the call. A step that is blocked is FAILED_PRECONDITION, one that waits ABORTED.
func (a *apiControllers) change(ctx context.Context, req *adminpb.VolumeChangeRequest) (resp *adminpb.VolumeChangeResponse, err error) {
	req.Reason = a.reason
	err = a.client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = api.ChangeVolume(ctx, req)
		return err
	})
	if err != nil || resp.GetDone() {
		return resp, err
	}
	code, step := codes.FailedPrecondition, resp.GetSteps()[0]
	if step.GetState() == "waiting" {
		code = codes.Aborted
	}
	return resp, status.Error(code, step.GetDetail())
}
