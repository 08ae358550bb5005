package sim

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	reclaim "github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
)

// controllerCall is a call that any controller serves.
func (c *claim) controllerCall(name string, do func(ctx context.Context, m *member) error, done func(error)) *csiCall {
	return &csiCall{name: name + " " + c.name, claim: c, site: c.site, volume: c.id, do: func(ctx context.Context, m *member, _ *process) error { return do(ctx, m) }, done: done}
}

// nodeCall is a call that a host serves.
func (u *use) nodeCall(name string, do func(ctx context.Context, p *process) error, done func(error)) *csiCall {
	boot := u.host.world.BootID()
	return &csiCall{name: name + " " + u.claim.name + " on " + u.host.name, claim: u.claim, host: u.host, site: u.host.site(),
		do: func(ctx context.Context, _ *member, p *process) error { return do(ctx, p) },
		done: func(err error) {
			if u.host.world.BootID() == boot && done != nil {
				done(err)
			}
		}}
}

func (c *claim) create() *csiCall {
	req := &csi.CreateVolumeRequest{
		Name: c.name, CapacityRange: &csi.CapacityRange{RequiredBytes: c.size}, VolumeCapabilities: []*csi.VolumeCapability{c.capability()},
		Parameters: map[string]string{"replicas": c.replicas}, VolumeContentSource: c.contentSource(),
	}
	if c.protocol != "" {
		req.Parameters["protocol"] = c.protocol
	}
	if c.metro {
		req.Parameters["sites"] = "A,B"
	}
	if c.keys != nil {
		req.Parameters["encrypted"] = "true"
		c.s.counts["encrypted"]++
	}
	if req.VolumeContentSource != nil {
		c.s.counts["clone"]++
	}
	if c.replicas != "1" {
		c.s.counts["replicated"]++
	}
	var answer *csi.CreateVolumeResponse
	return c.controllerCall("create", func(ctx context.Context, m *member) (err error) {
		answer, err = m.controller.CreateVolume(ctx, req)
		return err
	}, func(err error) {
		if err == nil {
			c.id = answer.GetVolume().GetVolumeId()
			c.s.checks.sites.made(c)
		}
	})
}

// contentSource is what the claim is made from, nil for an empty one.
func (c *claim) contentSource() *csi.VolumeContentSource {
	switch {
	case c.source == nil:
		return nil
	case c.fromSnap && c.source.snapshot != "":
		return csiconv.ContentSource(fsm.Source{Snapshot: fsm.SnapshotID(c.source.snapshot)})
	case !c.fromSnap && c.source.id != "":
		return csiconv.ContentSource(fsm.Source{Volume: fsm.VolumeID(c.source.id)})
	}
	return nil
}

func (c *claim) delete() *csiCall {
	id := c.id
	return c.controllerCall("delete", func(ctx context.Context, m *member) error {
		_, err := m.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
		return err
	}, func(err error) {
		if v, ok := c.s.log.state.Volume(fsm.VolumeID(id)); err == nil && ok && c.roles != nil && isReady(v) {
			c.s.counts["ended claims"]++
			return // of one site: the other one has it still (S37)
		}
		if err == nil {
			c.s.checks.sites.deleted(c, id)
		}
		if err == nil && c.id == id {
			c.endWriters()
			c.id, c.uses = "", nil
			c.roles.forget()
			if c.keys != nil {
				c.keys.next = ""
			}
		}
	})
}

func (u *use) publish() *csiCall {
	id := u.claim.id
	var answer *csi.ControllerPublishVolumeResponse
	return u.claim.controllerCall("publish", func(ctx context.Context, m *member) (err error) {
		answer, err = m.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: u.host.name, VolumeCapability: u.claim.capability()})
		return err
	}, func(err error) {
		if err == nil && u.claim.id == id {
			u.context, u.closing = answer.GetPublishContext(), false
			u.epoch, _ = fsm.ParseEpoch(u.context[csiconv.EpochKey])
		}
	}).on(u.host)
}

// on names the node that a controller's call is about, whose site's orchestrator makes it.
func (call *csiCall) on(h *host) *csiCall {
	call.name += " to " + h.name
	return call.through(h.site())
}

func (u *use) unpublish() *csiCall {
	id := u.claim.id
	return u.claim.controllerCall("unpublish", func(ctx context.Context, m *member) error {
		_, err := m.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: u.host.name})
		return err
	}, func(err error) {
		if err == nil {
			u.context, u.closing = nil, false
		}
	}).on(u.host)
}

func (u *use) stage() *csiCall {
	req := &csi.NodeStageVolumeRequest{VolumeId: u.claim.id, StagingTargetPath: u.stagingPath(), VolumeCapability: u.claim.capability(), PublishContext: u.context, Secrets: u.claim.secrets()}
	return u.nodeCall("stage", func(ctx context.Context, p *process) error {
		_, err := p.node.NodeStageVolume(ctx, req)
		return err
	}, func(err error) { u.staged = u.staged || err == nil })
}

func (u *use) unstage() *csiCall {
	req := &csi.NodeUnstageVolumeRequest{VolumeId: u.claim.id, StagingTargetPath: u.stagingPath()}
	return u.nodeCall("unstage", func(ctx context.Context, p *process) error {
		_, err := p.node.NodeUnstageVolume(ctx, req)
		return err
	}, func(err error) { u.staged = u.staged && err != nil })
}

func (u *use) bind() *csiCall {
	req := &csi.NodePublishVolumeRequest{
		VolumeId: u.claim.id, StagingTargetPath: u.stagingPath(), TargetPath: u.targetPath(), VolumeCapability: u.claim.capability(), PublishContext: u.context,
	}
	return u.nodeCall("target", func(ctx context.Context, p *process) error {
		_, err := p.node.NodePublishVolume(ctx, req)
		return err
	}, func(err error) {
		if err == nil {
			u.bound = true
			u.openWriter()
		}
	})
}

func (u *use) unbind() *csiCall {
	if u.writer != nil {
		u.writer.Close() // the orchestrator ends the pod first
		u.writer = nil
	}
	req := &csi.NodeUnpublishVolumeRequest{VolumeId: u.claim.id, TargetPath: u.targetPath()}
	return u.nodeCall("untarget", func(ctx context.Context, p *process) error {
		_, err := p.node.NodeUnpublishVolume(ctx, req)
		return err
	}, func(err error) { u.bound = u.bound && err != nil })
}

func (c *claim) expand() *csiCall { return c.expandTo(c.size + 32<<20) }

func (c *claim) expandTo(size int64) *csiCall {
	id := c.id
	return c.controllerCall("expand", func(ctx context.Context, m *member) error {
		_, err := m.controller.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: size}, VolumeCapability: c.capability(),
		})
		return err
	}, func(err error) {
		if err == nil && c.id == id {
			c.size = max(c.size, size)
		}
	})
}

func (u *use) expandNode() *csiCall {
	req := &csi.NodeExpandVolumeRequest{VolumeId: u.claim.id, VolumePath: u.targetPath(), StagingTargetPath: u.stagingPath(), VolumeCapability: u.claim.capability(), Secrets: u.claim.secrets()}
	return u.nodeCall("expand-node", func(ctx context.Context, p *process) error {
		_, err := p.node.NodeExpandVolume(ctx, req)
		return err
	}, nil)
}

func (u *use) reclaimSpace() *csiCall {
	req := &reclaim.NodeReclaimSpaceRequest{VolumeId: u.claim.id, StagingTargetPath: u.stagingPath(), VolumeCapability: u.claim.capability()}
	return u.nodeCall("reclaim-space", func(ctx context.Context, p *process) error {
		_, err := p.space.NodeReclaimSpace(ctx, req)
		return err
	}, nil)
}

func (c *claim) reclaimSpace() *csiCall {
	id := c.id
	return c.controllerCall("reclaim-unused", func(ctx context.Context, m *member) error {
		_, err := m.space.ControllerReclaimSpace(ctx, &reclaim.ControllerReclaimSpaceRequest{VolumeId: id})
		return err
	}, nil)
}

func (u *use) stats() *csiCall {
	req := &csi.NodeGetVolumeStatsRequest{VolumeId: u.claim.id, VolumePath: u.targetPath(), StagingTargetPath: u.stagingPath()}
	return u.nodeCall("stats", func(ctx context.Context, p *process) error {
		_, err := p.node.NodeGetVolumeStats(ctx, req)
		return err
	}, nil)
}

func (c *claim) modify(limit int) *csiCall {
	req := &csi.ControllerModifyVolumeRequest{VolumeId: c.id, MutableParameters: map[string]string{"iopsLimit": fmt.Sprintf("%d/%d", limit, limit)}}
	return c.controllerCall("modify", func(ctx context.Context, m *member) error {
		_, err := m.controller.ControllerModifyVolume(ctx, req)
		return err
	}, nil)
}

func (c *claim) takeSnapshot() *csiCall {
	req := &csi.CreateSnapshotRequest{Name: "snap-" + c.name, SourceVolumeId: c.id}
	var answer *csi.CreateSnapshotResponse
	return c.controllerCall("snapshot", func(ctx context.Context, m *member) (err error) {
		answer, err = m.controller.CreateSnapshot(ctx, req)
		return err
	}, func(err error) {
		if err == nil {
			c.snapshot = answer.GetSnapshot().GetSnapshotId()
		}
	})
}

func (c *claim) deleteSnapshot() *csiCall {
	id := c.snapshot
	return c.controllerCall("delete-snapshot", func(ctx context.Context, m *member) error {
		_, err := m.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
		return err
	}, func(err error) {
		if err == nil && c.snapshot == id {
			c.snapshot = ""
		}
	})
}

// takeGroup takes a group snapshot of the claim and another.
func (c *claim) takeGroup(other *claim) *csiCall {
	req := &csi.CreateVolumeGroupSnapshotRequest{Name: "group-" + c.name, SourceVolumeIds: []string{c.id, other.id}}
	var answer *csi.CreateVolumeGroupSnapshotResponse
	return c.controllerCall("group", func(ctx context.Context, m *member) (err error) {
		answer, err = m.groups.CreateVolumeGroupSnapshot(ctx, req)
		return err
	}, func(err error) {
		if err != nil {
			return
		}
		c.groupID, c.members = answer.GetGroupSnapshot().GetGroupSnapshotId(), nil
		for _, member := range answer.GetGroupSnapshot().GetSnapshots() {
			c.members = append(c.members, member.GetSnapshotId())
		}
	})
}

func (c *claim) deleteGroup() *csiCall {
	id := c.groupID
	req := &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: c.members}
	return c.controllerCall("delete-group", func(ctx context.Context, m *member) error {
		_, err := m.groups.DeleteVolumeGroupSnapshot(ctx, req)
		return err
	}, func(err error) {
		if err == nil && c.groupID == id {
			c.groupID, c.members = "", nil
		}
	})
}

func (c *claim) list() *csiCall {
	return c.controllerCall("list", func(ctx context.Context, m *member) error {
		answer, err := m.controller.ListVolumes(ctx, &csi.ListVolumesRequest{})
		for _, entry := range answer.GetEntries() {
			c.s.checks.sites.listed(m, entry.GetStatus().GetPublishedNodeIds())
		}
		return err
	}, nil)
}

func (c *claim) get() *csiCall {
	id := c.id
	return c.controllerCall("get", func(ctx context.Context, m *member) error {
		_, err := m.controller.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
		return err
	}, nil)
}

// isNotFound tells whether what a call was about is gone.
func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }
