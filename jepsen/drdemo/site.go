package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// site is one site's orchestrator: it has one controller, and one node in the same machine.
type site struct {
	name, node  string
	guest       *lab.Guest
	controller  csi.ControllerClient
	agent       csi.NodeClient
	replication replication.ControllerClient
	published   map[string]string // the context of the publication there
}

func (d *demo) newSite(name string, guest int) error {
	controller, err := d.cluster.ControllerCSI(guest)
	if err != nil {
		return err
	}
	node, err := d.cluster.NodeCSI(guest)
	if err != nil {
		return err
	}
	g := d.lab.Guest(guest)
	d.sites[name] = &site{name: name, node: g.Name(), guest: g, controller: csi.NewControllerClient(controller), agent: csi.NewNodeClient(node),
		replication: replication.NewControllerClient(controller)}
	return nil
}

// patience is for a call with its repetitions, attemptTimeout for one of them.
const (
	patience       = 3 * time.Minute
	attemptTimeout = 10 * time.Second
)

// retry repeats a call as an orchestrator does: what answers ABORTED, UNAVAILABLE or nothing in time.
func retry(ctx context.Context, what string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		attempt, end := context.WithTimeout(ctx, attemptTimeout)
		err := call(attempt)
		end()
		if err == nil {
			return nil
		}
		if again := []codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}; !slices.Contains(again, status.Code(err)) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

var capability = &csi.VolumeCapability{
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
}

// Where a site mounts the volume.
const (
	staging = "/var/lib/kubelet/staging"
	target  = "/var/lib/kubelet/pod"
)

// mount publishes the volume to the site's node, stages it and binds it.
func (d *demo) mount(ctx context.Context, s *site) error {
	if err := run(ctx, s.guest, "mkdir -p "+staging); err != nil {
		return err
	}
	err := retry(ctx, "publish", func(ctx context.Context) error {
		resp, err := s.controller.ControllerPublishVolume(ctx, d.publishRequest(s))
		s.published = resp.GetPublishContext()
		return err
	})
	if err != nil {
		return err
	}
	err = retry(ctx, "stage", func(ctx context.Context) error {
		_, err := s.agent.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: d.id, PublishContext: s.published, StagingTargetPath: staging,
			VolumeCapability: capability, VolumeContext: d.context})
		return err
	})
	if err != nil {
		return err
	}
	return retry(ctx, "bind", func(ctx context.Context) error {
		_, err := s.agent.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: d.id, PublishContext: s.published, StagingTargetPath: staging,
			TargetPath: target, VolumeCapability: capability, VolumeContext: d.context})
		return err
	})
}

func (d *demo) publishRequest(s *site) *csi.ControllerPublishVolumeRequest {
	return &csi.ControllerPublishVolumeRequest{VolumeId: d.id, NodeId: s.node, VolumeCapability: capability, VolumeContext: d.context}
}

// unmount ends all of that.
func (d *demo) unmount(ctx context.Context, s *site) error {
	err := retry(ctx, "unbind", func(ctx context.Context) error {
		_, err := s.agent.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: d.id, TargetPath: target})
		return err
	})
	if err != nil {
		return err
	}
	err = retry(ctx, "unstage", func(ctx context.Context) error {
		_, err := s.agent.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: d.id, StagingTargetPath: staging})
		return err
	})
	if err != nil {
		return err
	}
	return retry(ctx, "unpublish", func(ctx context.Context) error {
		_, err := s.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: d.id, NodeId: s.node})
		return err
	})
}

// run runs a script in a guest, which must succeed.
func run(ctx context.Context, g *lab.Guest, script string) error {
	_, err := output(ctx, g, script)
	return err
}

func output(ctx context.Context, g *lab.Guest, script string) (string, error) {
	out, code, err := g.Exec(ctx, script)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, out)
	}
	if err != nil {
		return "", fmt.Errorf("in %s: %w", g.Name(), err)
	}
	return out, nil
}
