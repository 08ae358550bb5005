package scenarios

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	mi = int64(1) << 20
	// callTimeout is for one attempt, patience for a call with its repetitions, and for all
	// else that takes seconds where nobody else uses the machine.
	callTimeout = 10 * time.Second
	timeout     = 3 * time.Minute
)

// co calls CSI as a container orchestrator does: it repeats what answered ABORTED,
// UNAVAILABLE or nothing in time, at the next controller.
type orchestrator struct {
	// folder makes the folder that a kubelet makes before it asks to stage.
	folder      func(ctx context.Context, node, path string) error
	controllers []csi.ControllerClient
	nodes       []csi.NodeClient // of guest i at i-1
	nextIndex   atomic.Uint64
	lastSilence []atomic.Int64 // when a controller gave no answer last, in ns
}

// silence is for how long a controller that gave no answer is left out.
const silence = 20 * time.Second

// volume is a volume as an orchestrator remembers it.
type volume struct {
	name, id                string
	size                    int64
	block                   bool
	context, publishContext map[string]string
	secrets                 map[string]string // of an encrypted one
	hosts                   []string          // in its accessible topology
	durable                 string            // what makes its writers' blocks durable; empty: a sync
}

func retriable(err error) bool {
	return slices.Contains([]codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}, status.Code(err))
}

// retryUntil repeats a call until it has a definite answer or ctx ends.
func retryUntil(ctx context.Context, what string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		attempt, end := context.WithTimeout(ctx, callTimeout)
		err := call(attempt)
		end()
		if err == nil {
			return nil
		}
		if !retriable(err) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(pause):
		}
	}
}

// callAnyController calls a controller until one answers: all in turn, but those that gave no answer
// a moment ago.
func (c *orchestrator) callAnyController(ctx context.Context, what string, call func(context.Context, csi.ControllerClient) error) error {
	return retryUntil(ctx, what, func(ctx context.Context) error {
		i := c.takeTurn()
		err := call(ctx, c.controllers[i])
		if slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded}, status.Code(err)) {
			c.lastSilence[i].Store(time.Now().UnixNano())
		}
		return err
	})
}

func (c *orchestrator) takeTurn() uint64 {
	n := uint64(len(c.controllers))
	for range n {
		if i := c.nextIndex.Add(1) % n; time.Since(time.Unix(0, c.lastSilence[i].Load())) > silence {
			return i
		}
	}
	return c.nextIndex.Add(1) % n
}

func (v *volume) capability() *csi.VolumeCapability {
	mode := &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}
	if v.block {
		return &csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
	}
	return &csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}}}
}

// replicated asks for two replicas; more are further parameters.
func (c *orchestrator) create(ctx context.Context, v *volume, nodes []string, parameters map[string]string) error {
	req := &csi.CreateVolumeRequest{
		Name: v.name, CapacityRange: &csi.CapacityRange{RequiredBytes: v.size},
		VolumeCapabilities: []*csi.VolumeCapability{v.capability()}, Parameters: parameters,
	}
	if len(nodes) > 0 {
		req.AccessibilityRequirements = &csi.TopologyRequirement{}
		for _, n := range nodes {
			req.AccessibilityRequirements.Requisite = append(req.AccessibilityRequirements.Requisite, &csi.Topology{Segments: map[string]string{topologyKey: n}})
		}
	}
	return c.callAnyController(ctx, "create "+v.name, func(ctx context.Context, controller csi.ControllerClient) error {
		resp, err := controller.CreateVolume(ctx, req)
		if err != nil {
			return err
		}
		v.id, v.context, v.hosts = resp.GetVolume().GetVolumeId(), resp.GetVolume().GetVolumeContext(), nil
		for _, t := range resp.GetVolume().GetAccessibleTopology() {
			v.hosts = append(v.hosts, t.GetSegments()[topologyKey])
		}
		slices.Sort(v.hosts)
		return nil
	})
}

const topologyKey = "topology.holdfast.storage/node"

func (c *orchestrator) delete(ctx context.Context, v *volume) error {
	return c.callAnyController(ctx, "delete "+v.name, func(ctx context.Context, controller csi.ControllerClient) error {
		_, err := controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.id})
		return err
	})
}

func (c *orchestrator) publish(ctx context.Context, v *volume, node string) error {
	return c.callAnyController(ctx, "publish "+v.name+" to "+node, func(ctx context.Context, controller csi.ControllerClient) error {
		resp, err := controller.ControllerPublishVolume(ctx, c.publishRequest(v, node))
		if err == nil {
			v.publishContext = resp.GetPublishContext()
		}
		return err
	})
}

func (c *orchestrator) publishRequest(v *volume, node string) *csi.ControllerPublishVolumeRequest {
	return &csi.ControllerPublishVolumeRequest{VolumeId: v.id, NodeId: node, VolumeCapability: v.capability(), VolumeContext: v.context}
}

func (c *orchestrator) unpublish(ctx context.Context, v *volume, node string) error {
	return c.callAnyController(ctx, "unpublish "+v.name+" from "+node, func(ctx context.Context, controller csi.ControllerClient) error {
		_, err := controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v.id, NodeId: node})
		return err
	})
}

// guestOf is the guest's place of a node "n<i>".
func (c *orchestrator) nodeClient(node string) csi.NodeClient { return c.nodes[node[len(node)-1]-'1'] }

func (v *volume) staging() string { return "/var/lib/kubelet/staging/" + v.name }
func (v *volume) target() string  { return "/var/lib/kubelet/pods/" + v.name }

// stage stages it and binds it to its target.
func (c *orchestrator) stage(ctx context.Context, v *volume, node string) error {
	if err := c.folder(ctx, node, v.staging()); err != nil {
		return err
	}
	err := retryUntil(ctx, "stage "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := c.nodeClient(node).NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
			VolumeId: v.id, PublishContext: v.publishContext, StagingTargetPath: v.staging(), VolumeCapability: v.capability(), VolumeContext: v.context,
			Secrets: v.secrets,
		})
		return err
	})
	if err != nil {
		return err
	}
	return retryUntil(ctx, "bind "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := c.nodeClient(node).NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId: v.id, PublishContext: v.publishContext, StagingTargetPath: v.staging(), TargetPath: v.target(),
			VolumeCapability: v.capability(), VolumeContext: v.context,
		})
		return err
	})
}

// unstage ends both.
func (c *orchestrator) unstage(ctx context.Context, v *volume, node string) error {
	err := retryUntil(ctx, "unbind "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := c.nodeClient(node).NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.id, TargetPath: v.target()})
		return err
	})
	if err != nil {
		return err
	}
	return retryUntil(ctx, "unstage "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := c.nodeClient(node).NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staging()})
		return err
	})
}

// path is where a workload finds the volume: a file of its filesystem, or its device.
func (v *volume) path() string {
	if v.block {
		return v.target()
	}
	return v.target() + "/ring"
}
