package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Mi is one mebibyte in bytes.
const Mi = 1 << 20

// Volume is a volume as a container orchestrator remembers it.
type Volume struct {
	Name    string
	ID      string
	Size    int64 // bytes
	FSType  string
	Block   bool
	Context map[string]string // volume_context
	Publish map[string]string // publish_context
	Node    string            // where it is published; empty when nowhere
	Staging string
	Target  string
}

// Spec says what volume to create.
type Spec struct {
	Name   string
	Size   int64  // bytes; 16 MiB when zero
	FSType string // ext4 when empty
	Block  bool
	// Topology pins the volume to a node when not empty.
	Node       string
	Parameters map[string]string
}

// CO calls CSI as a container orchestrator does: it repeats a call that was answered with ABORTED or
// UNAVAILABLE, or not in time, at the next controller, until it has an answer or Timeout is over.
type CO struct {
	Cluster *Cluster
	// Controllers are asked in turn; all of the cluster's when empty.
	Controllers    []string
	Timeout        time.Duration // for one call with its repetitions; Patience when zero
	CallTimeout    time.Duration // for one attempt; 15 s when zero
	nextController atomic.Uint64
	Retries        atomic.Uint64 // repetitions so far
}

// NewCO is a CO that asks all controllers in turn.
func (c *Cluster) NewCO() *CO { return &CO{Cluster: c} }

// Retriable reports whether a CO repeats a call that ended so.
func Retriable(err error) bool {
	return slices.Contains([]codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}, status.Code(err))
}

// repeat does a call until it has a definite answer.
func (co *CO) repeat(ctx context.Context, what string, call func(context.Context) error) error {
	limit, timeout := co.Timeout, co.CallTimeout
	if limit == 0 {
		limit = Patience
	}
	if timeout == 0 {
		timeout = 15 * time.Second
	}
	for end, pause := time.Now().Add(limit), 50*time.Millisecond; ; pause = min(2*pause, time.Second) {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		err := call(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if !Retriable(err) || ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, err)
		}
		co.Retries.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// conn is the connection to the next controller to ask.
func (co *CO) conn() (*grpc.ClientConn, error) {
	ids := co.Controllers
	if len(ids) == 0 {
		l, err := co.Cluster.Layout()
		if err != nil {
			return nil, err
		}
		ids = l.ControllerIDs()
	}
	return co.Cluster.conn(ids[co.nextController.Add(1)%uint64(len(ids))])
}

// At repeats a call at one controller after the other, of whichever service it serves.
func (co *CO) At(ctx context.Context, what string, call func(context.Context, grpc.ClientConnInterface) error) error {
	return co.repeat(ctx, what, func(ctx context.Context) error {
		conn, err := co.conn()
		if err != nil {
			return err
		}
		return call(ctx, conn)
	})
}

func (co *CO) atController(ctx context.Context, what string, call func(context.Context, csi.ControllerClient) error) error {
	return co.At(ctx, what, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return call(ctx, csi.NewControllerClient(conn))
	})
}

// atNode repeats a call at one node.
func (co *CO) atNode(ctx context.Context, what, node string, call func(context.Context, csi.NodeClient) error) error {
	client, err := co.Cluster.Node(node)
	if err != nil {
		return err
	}
	return co.repeat(ctx, what+" on "+node, func(ctx context.Context) error { return call(ctx, client) })
}

// Capability is the single-writer capability of a volume.
func (v *Volume) Capability() *csi.VolumeCapability { return capability(v.FSType, v.Block) }

func capability(fsType string, block bool) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	if block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}}
	}
	return c
}

// CreateRequest is the CreateVolume request of a spec.
func (s Spec) CreateRequest() *csi.CreateVolumeRequest {
	if s.Size == 0 {
		s.Size = 16 * Mi
	}
	if s.FSType == "" && !s.Block {
		s.FSType = "ext4"
	}
	req := &csi.CreateVolumeRequest{
		Name:               s.Name,
		CapacityRange:      &csi.CapacityRange{RequiredBytes: s.Size},
		VolumeCapabilities: []*csi.VolumeCapability{capability(s.FSType, s.Block)},
		Parameters:         s.Parameters,
	}
	if s.Node != "" {
		here := &csi.Topology{Segments: map[string]string{TopologyKey: s.Node}}
		req.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{here}, Preferred: []*csi.Topology{here}}
	}
	return req
}

// TopologyKey is the label of a node's own topology segment.
const TopologyKey = "topology.holdfast.storage/node"

// Create has a volume made.
func (co *CO) Create(ctx context.Context, spec Spec) (*Volume, error) {
	req := spec.CreateRequest()
	v := &Volume{Name: spec.Name, Block: spec.Block, FSType: req.VolumeCapabilities[0].GetMount().GetFsType()}
	err := co.atController(ctx, "create volume "+spec.Name, func(ctx context.Context, c csi.ControllerClient) error {
		res, err := c.CreateVolume(ctx, req)
		v.ID, v.Size, v.Context = res.GetVolume().GetVolumeId(), res.GetVolume().GetCapacityBytes(), res.GetVolume().GetVolumeContext()
		return err
	})
	return v, err
}

// Delete has a volume deleted.
func (co *CO) Delete(ctx context.Context, v *Volume) error {
	return co.atController(ctx, "delete volume "+v.ID, func(ctx context.Context, c csi.ControllerClient) error {
		_, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.ID})
		return err
	})
}

// Publish has a volume published to a node.
func (co *CO) Publish(ctx context.Context, v *Volume, node string) error {
	return co.atController(ctx, "publish volume "+v.ID, func(ctx context.Context, c csi.ControllerClient) error {
		res, err := c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: v.ID, NodeId: node, VolumeCapability: v.Capability(), VolumeContext: v.Context})
		if err == nil {
			v.Node, v.Publish = node, res.GetPublishContext()
		}
		return err
	})
}

// Unpublish ends the publication of a volume to its node.
func (co *CO) Unpublish(ctx context.Context, v *Volume) error {
	return co.atController(ctx, "unpublish volume "+v.ID, func(ctx context.Context, c csi.ControllerClient) error {
		_, err := c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v.ID, NodeId: v.Node})
		if err == nil {
			v.Node, v.Publish = "", nil
		}
		return err
	})
}

// StageRequest is the NodeStageVolume request of a published volume.
func (co *CO) StageRequest(v *Volume) *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{VolumeId: v.ID, PublishContext: v.Publish, VolumeContext: v.Context,
		StagingTargetPath: co.stagingPath(v), VolumeCapability: v.Capability()}
}

// Stage stages a published volume on its node. The staging directory is made first, as a CO must.
func (co *CO) Stage(ctx context.Context, v *Volume) error {
	if err := os.MkdirAll(co.stagingPath(v), 0o750); err != nil {
		return err
	}
	return co.atNode(ctx, "stage volume "+v.ID, v.Node, func(ctx context.Context, n csi.NodeClient) error {
		_, err := n.NodeStageVolume(ctx, co.StageRequest(v))
		if err == nil {
			v.Staging = co.stagingPath(v)
		}
		return err
	})
}

// Unstage unstages a volume and removes the staging directory.
func (co *CO) Unstage(ctx context.Context, v *Volume) error {
	path := co.stagingPath(v)
	err := co.atNode(ctx, "unstage volume "+v.ID, v.Node, func(ctx context.Context, n csi.NodeClient) error {
		_, err := n.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.ID, StagingTargetPath: path})
		return err
	})
	if err != nil {
		return err
	}
	v.Staging = ""
	return removeEmpty(path)
}

// TargetRequest is the NodePublishVolume request of a staged volume.
func (co *CO) TargetRequest(v *Volume) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{VolumeId: v.ID, PublishContext: v.Publish, VolumeContext: v.Context,
		StagingTargetPath: co.stagingPath(v), TargetPath: co.targetPath(v), VolumeCapability: v.Capability()}
}

// PublishTarget publishes a staged volume at its target (NodePublishVolume).
func (co *CO) PublishTarget(ctx context.Context, v *Volume) error {
	if err := os.MkdirAll(filepath.Dir(co.targetPath(v)), 0o750); err != nil {
		return err
	}
	return co.atNode(ctx, "bind volume "+v.ID, v.Node, func(ctx context.Context, n csi.NodeClient) error {
		_, err := n.NodePublishVolume(ctx, co.TargetRequest(v))
		if err == nil {
			v.Target = co.targetPath(v)
		}
		return err
	})
}

// UnpublishTarget ends NodePublishVolume.
func (co *CO) UnpublishTarget(ctx context.Context, v *Volume) error {
	err := co.atNode(ctx, "unbind volume "+v.ID, v.Node, func(ctx context.Context, n csi.NodeClient) error {
		_, err := n.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.ID, TargetPath: co.targetPath(v)})
		return err
	})
	if err == nil {
		v.Target = ""
	}
	return err
}

// PublishStageBind publishes, stages and binds a volume on a node.
func (co *CO) PublishStageBind(ctx context.Context, v *Volume, node string) error {
	if err := co.Publish(ctx, v, node); err != nil {
		return err
	}
	if err := co.Stage(ctx, v); err != nil {
		return err
	}
	return co.PublishTarget(ctx, v)
}

// UnbindUnstageUnpublish undoes PublishStageBind.
func (co *CO) UnbindUnstageUnpublish(ctx context.Context, v *Volume) error {
	if err := co.UnpublishTarget(ctx, v); err != nil {
		return err
	}
	if err := co.Unstage(ctx, v); err != nil {
		return err
	}
	return co.Unpublish(ctx, v)
}

func (co *CO) stagingPath(v *Volume) string {
	return filepath.Join(co.Cluster.Mounts(), "staging", v.ID)
}

func (co *CO) targetPath(v *Volume) string {
	return filepath.Join(co.Cluster.Mounts(), "targets", v.ID, "mount")
}

// removeEmpty removes a directory that must be empty and not a mount; a missing one is no error.
func removeEmpty(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
