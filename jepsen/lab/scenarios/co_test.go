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
	patience    = 3 * time.Minute
)

// co calls CSI as a container orchestrator does: it repeats what answered ABORTED,
// UNAVAILABLE or nothing in time, at the next controller.
type co struct {
	// folder makes the folder that a kubelet makes before it asks to stage.
	folder      func(ctx context.Context, node, path string) error
	controllers []csi.ControllerClient
	nodes       []csi.NodeClient // of guest i at i-1
	turn        atomic.Uint64
	silent      []atomic.Int64 // when a controller gave no answer last, in ns
}

// silence is for how long a controller that gave no answer is left out.
const silence = 20 * time.Second

// volume is a volume as an orchestrator remembers it.
type volume struct {
	name, id       string
	size           int64
	block          bool
	context, grant map[string]string
	hosts          []string // in its accessible topology
}

func retriable(err error) bool {
	return slices.Contains([]codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}, status.Code(err))
}

// until repeats a call until it has a definite answer or ctx ends.
func until(ctx context.Context, what string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// ask calls a controller until one answers: all in turn, but those that gave no answer
// a moment ago.
func (c *co) ask(ctx context.Context, what string, call func(context.Context, csi.ControllerClient) error) error {
	return until(ctx, what, func(ctx context.Context) error {
		i := c.next()
		err := call(ctx, c.controllers[i])
		if slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded}, status.Code(err)) {
			c.silent[i].Store(time.Now().UnixNano())
		}
		return err
	})
}

func (c *co) next() uint64 {
	n := uint64(len(c.controllers))
	for range n {
		if i := c.turn.Add(1) % n; time.Since(time.Unix(0, c.silent[i].Load())) > silence {
			return i
		}
	}
	return c.turn.Add(1) % n
}

func (v *volume) capability() *csi.VolumeCapability {
	mode := &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}
	if v.block {
		return &csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
	}
	return &csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}}}
}

// replicated asks for two replicas; more are further parameters.
func (c *co) create(ctx context.Context, v *volume, nodes []string, parameters map[string]string) error {
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
	return c.ask(ctx, "create "+v.name, func(ctx context.Context, controller csi.ControllerClient) error {
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

func (c *co) delete(ctx context.Context, v *volume) error {
	return c.ask(ctx, "delete "+v.name, func(ctx context.Context, controller csi.ControllerClient) error {
		_, err := controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.id})
		return err
	})
}

func (c *co) publish(ctx context.Context, v *volume, node string) error {
	return c.ask(ctx, "publish "+v.name+" to "+node, func(ctx context.Context, controller csi.ControllerClient) error {
		resp, err := controller.ControllerPublishVolume(ctx, c.publishRequest(v, node))
		if err == nil {
			v.grant = resp.GetPublishContext()
		}
		return err
	})
}

func (c *co) publishRequest(v *volume, node string) *csi.ControllerPublishVolumeRequest {
	return &csi.ControllerPublishVolumeRequest{VolumeId: v.id, NodeId: node, VolumeCapability: v.capability(), VolumeContext: v.context}
}

func (c *co) unpublish(ctx context.Context, v *volume, node string) error {
	return c.ask(ctx, "unpublish "+v.name+" from "+node, func(ctx context.Context, controller csi.ControllerClient) error {
		_, err := controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v.id, NodeId: node})
		return err
	})
}

// guestOf is the guest's place of a node "n<i>".
func (c *co) at(node string) csi.NodeClient { return c.nodes[node[len(node)-1]-'1'] }

func (v *volume) staging() string { return "/var/lib/kubelet/staging/" + v.name }
func (v *volume) target() string  { return "/var/lib/kubelet/pods/" + v.name }

// stage stages it and binds it to its target.
func (c *co) stage(ctx context.Context, v *volume, node string) error {
	if err := c.folder(ctx, node, v.staging()); err != nil {
		return err
	}
	err := until(ctx, "stage "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := c.at(node).NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
			VolumeId: v.id, PublishContext: v.grant, StagingTargetPath: v.staging(), VolumeCapability: v.capability(), VolumeContext: v.context,
		})
		return err
	})
	if err != nil {
		return err
	}
	return until(ctx, "bind "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := c.at(node).NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId: v.id, PublishContext: v.grant, StagingTargetPath: v.staging(), TargetPath: v.target(),
			VolumeCapability: v.capability(), VolumeContext: v.context,
		})
		return err
	})
}

// unstage ends both.
func (c *co) unstage(ctx context.Context, v *volume, node string) error {
	err := until(ctx, "unbind "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := c.at(node).NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.id, TargetPath: v.target()})
		return err
	})
	if err != nil {
		return err
	}
	return until(ctx, "unstage "+v.name+" on "+node, func(ctx context.Context) error {
		_, err := c.at(node).NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staging()})
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
