package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/fsm"
)

// The changes of a volume.
const (
	verbCreate    = "create"
	verbDelete    = "delete"
	verbPublish   = "publish"
	verbUnpublish = "unpublish"
	verbExpand    = "expand"
)

// volumeVerbs make the call of each verb on a volume that is there. They set the step's state where no call is needed.
var volumeVerbs = map[string]func(*volumeChange, *fsm.Volume) error{
	verbDelete: (*volumeChange).delete, verbPublish: (*volumeChange).publish, verbUnpublish: (*volumeChange).unpublish, verbExpand: (*volumeChange).expand,
}

// VolumeVerbs lists the changes of a volume.
func VolumeVerbs() []string { return append(slices.Sorted(maps.Keys(volumeVerbs)), verbCreate) }

// prepare makes the call. The error is of a request that no state makes right, or of an unknown volume.
func (x *volumeChange) prepare() error {
	verb, v := x.req.GetVerb(), x.volume
	of, known := volumeVerbs[verb]
	switch {
	case verb != verbCreate && !known:
		return fsm.Reject(fsm.Invalid, "there is no change %q of a volume", verb)
	case x.req.GetVolume() == "":
		return fsm.Reject(fsm.Invalid, "name the volume")
	case (verb == verbPublish || verb == verbUnpublish) && x.req.GetNode() == "":
		return fsm.Reject(fsm.Invalid, "name the node")
	case x.state.Cluster().FeatureLevel < fsm.Level3:
		return fsm.Reject(fsm.Precondition, "it needs feature level %d, the cluster runs at %d: `holdfast upgrade finish` raises it", fsm.Level3, x.state.Cluster().FeatureLevel)
	case verb == verbCreate:
		return x.create()
	case v == nil && verb == verbDelete && fsm.VolumeID(x.req.GetVolume()).Valid():
		x.site, x.step.detail = cmp.Or(x.req.GetSite(), fsm.DefaultSite), "there is no such volume"
		x.deleteOf(fsm.VolumeID(x.req.GetVolume()))
		return nil
	case v == nil:
		return fsm.Reject(fsm.NotFound, "no volume has this id or name")
	case v.MadeBy == "" && !x.req.GetEvenIfOrchestrated():
		x.step.state, x.step.detail = stepBlocked, orchestrated(v)+": an orchestrator may rely on it; --even-if-orchestrated changes it all the same"
		return nil
	}
	x.site = cmp.Or(x.req.GetSite(), v.Home.String())
	return of(x, v)
}

// orchestrated says that no operator made a volume.
func orchestrated(v *fsm.Volume) string {
	if v.Claim == nil {
		return "no operator made it"
	}
	return "it is claimed as " + claimCell(claimView(v.Claim))
}

func (x *volumeChange) delete(v *fsm.Volume) error {
	x.step.detail = fmt.Sprintf("%s, made by %s: WHAT IS IN IT IS LOST", formatSize(v.Size), cmp.Or(v.MadeBy, "an orchestrator"))
	x.deleteOf(v.ID)
	return nil
}

func (x *volumeChange) deleteOf(id fsm.VolumeID) {
	req := &csi.DeleteVolumeRequest{VolumeId: string(id)}
	x.request, x.call = req, func(ctx context.Context, c csi.ControllerServer) error {
		_, err := c.DeleteVolume(ctx, req)
		return err
	}
}

func (x *volumeChange) publish(v *fsm.Volume) error {
	n, ok := x.state.Node(fsm.NodeID(x.req.GetNode()))
	if !ok {
		return fsm.Reject(fsm.NotFound, "no node is registered as %q", x.req.GetNode())
	}
	x.site = cmp.Or(x.req.GetSite(), fsm.Site(n.Site).String())
	req := &csi.ControllerPublishVolumeRequest{VolumeId: string(v.ID), NodeId: string(n.ID), Readonly: x.req.GetReadOnly(), VolumeCapability: capabilityOf(v)}
	x.step.detail = "it alone may use the volume"
	x.request, x.call = req, func(ctx context.Context, c csi.ControllerServer) error {
		resp, err := c.ControllerPublishVolume(ctx, req)
		x.context = resp.GetPublishContext()
		return err
	}
	return nil
}

// capabilityOf is how a volume was asked for first.
func capabilityOf(v *fsm.Volume) *csi.VolumeCapability {
	if len(v.Capabilities) == 0 {
		return nil
	}
	first := v.Capabilities[0]
	mode := csi.VolumeCapability_AccessMode_Mode_value[strings.ToUpper(modeView(first.Mode))]
	return capabilityFor(v.FSType(), first.Block, csi.VolumeCapability_AccessMode_Mode(mode))
}

func capabilityFor(fsType string, block bool, mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
	if block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return c
	}
	c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}}
	return c
}

func (x *volumeChange) unpublish(v *fsm.Volume) error {
	if n, ok := x.state.Node(fsm.NodeID(x.req.GetNode())); ok {
		x.site = cmp.Or(x.req.GetSite(), fsm.Site(n.Site).String())
	}
	if x.leavesPublication() {
		return nil
	}
	req := &csi.ControllerUnpublishVolumeRequest{VolumeId: string(v.ID), NodeId: x.req.GetNode()}
	if p := x.publication(); p != nil && p.Staging != nil {
		places := append([]string{p.Staging.Path}, mapSlice(p.Targets, func(t fsm.Target) string { return t.Path })...)
		x.step.detail = "its host takes it down at " + strings.Join(places, " and ") + ", unless something uses it"
	}
	x.request, x.call = req, func(ctx context.Context, c csi.ControllerServer) error {
		_, err := c.ControllerUnpublishVolume(ctx, req)
		return err
	}
	return nil
}

// leavesPublication tells whether the publication is an orchestrator's that the request does not end, and sets the step's
// state then. The log decides the same for an operator's certificate, but only that the publication stays.
func (x *volumeChange) leavesPublication() bool {
	p := x.publication()
	switch {
	case p == nil || p.MadeBy != "":
		return false
	case x.req.GetOperatorsOnly():
		x.step.state, x.step.detail = stepDone, "no operator published it to this node: its publication is left"
	case x.byOperator:
		x.step.state, x.step.detail = stepBlocked, "an orchestrator published it to this node: an admin may end that, the role operator may not"
	case !x.req.GetEvenIfOrchestrated():
		x.step.state, x.step.detail = stepBlocked, "an orchestrator published it to this node and may rely on it: --even-if-orchestrated ends it all the same"
	default:
		return false
	}
	return true
}

// publication is the one to the node that the request names; nil: there is none.
func (x *volumeChange) publication() *fsm.Publication {
	all := publications(x.volume)
	if i := slices.IndexFunc(all, func(p fsm.Publication) bool { return string(p.Node) == x.req.GetNode() }); i >= 0 {
		return &all[i]
	}
	return nil
}

func (x *volumeChange) expand(v *fsm.Volume) error {
	if x.req.GetSizeBytes() <= 0 {
		return fsm.Reject(fsm.Invalid, "name its new size")
	}
	req := &csi.ControllerExpandVolumeRequest{VolumeId: string(v.ID), CapacityRange: &csi.CapacityRange{RequiredBytes: x.req.GetSizeBytes()}}
	x.step.detail = fmt.Sprintf("from %s to %s; a filesystem grows when it is mounted next, or by `holdfast mounts grow`", formatSize(v.Size), formatSize(x.req.GetSizeBytes()))
	if v.Size >= x.req.GetSizeBytes() {
		x.step.detail = fmt.Sprintf("it has %s; volumes never shrink", formatSize(v.Size))
	}
	x.request, x.call = req, func(ctx context.Context, c csi.ControllerServer) error {
		_, err := c.ControllerExpandVolume(ctx, req)
		return err
	}
	return nil
}

// isDone tells whether the state is already as the change leaves it.
func (x *volumeChange) isDone() bool {
	v := x.volume
	if v == nil {
		return x.req.GetVerb() == verbDelete
	}
	_, ready := v.Phase.(fsm.Ready)
	switch x.req.GetVerb() {
	case verbCreate:
		return ready
	case verbPublish:
		return x.publication() != nil
	case verbUnpublish:
		return x.publication() == nil
	case verbExpand:
		return ready && v.Operation == nil && v.Size >= x.req.GetSizeBytes()
	}
	return false
}
