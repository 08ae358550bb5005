// Package node serves csi.v1.Node on a storage host. A handler checks the request and
// passes it to the host, which records its intent in the log before it stages or
// publishes anything, and tears down without a round trip to the quorum.
package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Host is what a host does for the service. Its errors are a *fsm.Rejection when the
// request is refused (NotFound: the volume is unknown, or nothing of it is at the path;
// StaleEpoch: the epoch is not the publication's, also when it is zero; Incompatible,
// Precondition, Busy as in the state), have a method Unavailable() bool when the quorum
// is needed and not available (S28), and are ctx's when the time ran out. All methods may
// be repeated.
type Host interface {
	// Stage stages a volume at a path.
	Stage(ctx context.Context, req executor.StageRequest) error
	// Unstage unstages it. It works without the quorum (S28).
	Unstage(ctx context.Context, volume fsm.VolumeID, path string) error
	// PublishTarget binds a staged volume to a target path.
	PublishTarget(ctx context.Context, req executor.PublishTargetRequest) error
	// UnpublishTarget removes the target path. It works without the quorum (S28).
	UnpublishTarget(ctx context.Context, volume fsm.VolumeID, target string) error
	// VolumeStats measures a volume at a path where it is staged or published.
	VolumeStats(ctx context.Context, volume fsm.VolumeID, path string) (executor.VolumeStats, error)
	// Expand makes the filesystem on a staged volume as large as its device, and is
	// the device's size in bytes. NotFound: the volume is not at the path; OutOfRange:
	// the device's size is not in the range; Invalid: the volume is not staged for the
	// capability; Precondition: the filesystem cannot grow while it is in use.
	Expand(ctx context.Context, req executor.ExpandRequest) (int64, error)
}

// Config says who the host is.
type Config struct {
	// ID is the node id, and the value of its topology key.
	ID fsm.NodeID
	// Labels are further segments of its topology, such as the zone, equal to those
	// that the host registers with. Keys are lower-case and begin with the prefix of
	// fsm.TopologyKey.
	Labels []fsm.Label
	// MaxVolumes is how many publications the host takes; 0: no limit.
	MaxVolumes uint32
	// MountGroup serves VOLUME_MOUNT_GROUP: container orchestrators (COs) then leave it
	// to the host to give volumes to the group that their workloads run as.
	MountGroup bool
	// Disabled are the capabilities that are disabled by configuration: GET_VOLUME_STATS,
	// VOLUME_CONDITION, EXPAND_VOLUME or VOLUME_MOUNT_GROUP. RPCs that have no enabled
	// capability left are UNIMPLEMENTED.
	Disabled []csi.NodeServiceCapability_RPC_Type
}

// Server serves csi.v1.Node.
type Server struct {
	csi.UnimplementedNodeServer
	host     Host
	disabled []csi.NodeServiceCapability_RPC_Type
	info     *csi.NodeGetInfoResponse
}

var _ csi.NodeServer = (*Server)(nil)

// New checks the configuration: CSI has rules for a host's id and topology.
func New(host Host, cfg Config) (*Server, error) {
	segments := fsm.Topology{{Key: fsm.TopologyKey, Value: string(cfg.ID)}}
	for _, label := range cfg.Labels {
		if label.Key != fsm.TopologyKey {
			segments = append(segments, label)
		}
	}
	if err := checkTopology(segments); err != nil {
		return nil, fmt.Errorf("topology of node %q: %w", cfg.ID, err)
	}
	for _, capability := range cfg.Disabled {
		if !slices.Contains(optionalCapabilities, capability) {
			return nil, fmt.Errorf("%s cannot be turned off: volumes could not be used without", capability)
		}
	}
	disabled := slices.Clone(cfg.Disabled)
	if !cfg.MountGroup {
		disabled = append(disabled, csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	}
	return &Server{host: host, disabled: disabled, info: &csi.NodeGetInfoResponse{
		NodeId: string(cfg.ID), MaxVolumesPerNode: int64(cfg.MaxVolumes), AccessibleTopology: csiconv.Topology(segments),
	}}, nil
}

// checkTopology: all keys that a driver returns have one prefix, and case must not
// tell them apart.
func checkTopology(segments fsm.Topology) error {
	prefix, _, _ := strings.Cut(fsm.TopologyKey, "/")
	seen := map[string]bool{}
	for _, label := range segments {
		if err := csiconv.CheckSegment(label.Key, label.Value); err != nil {
			return err
		}
		switch {
		case !strings.HasPrefix(label.Key, prefix+"/"):
			return fmt.Errorf("label %q must have the prefix %s/", label.Key, prefix)
		case label.Key != strings.ToLower(label.Key):
			return fmt.Errorf("label %q must be lower-case", label.Key)
		case seen[label.Key]:
			return fmt.Errorf("label %q is given twice", label.Key)
		}
		seen[label.Key] = true
	}
	return nil
}

// supportedCapabilities is what this build serves, and all that it advertises.
var supportedCapabilities = []csi.NodeServiceCapability_RPC_Type{
	csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
	csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	csi.NodeServiceCapability_RPC_VOLUME_CONDITION,
	csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
}

// optionalCapabilities are those that can be disabled: volumes can be used without them.
var optionalCapabilities = []csi.NodeServiceCapability_RPC_Type{
	csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	csi.NodeServiceCapability_RPC_VOLUME_CONDITION,
	csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
	csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
}

// checkMountGroup refuses a volume_mount_group where it is not served: if it were
// accepted and ignored, it would look as if it were in force.
func (s *Server) checkMountGroup(c *csi.VolumeCapability) error {
	if c.GetMount().GetVolumeMountGroup() != "" && s.checkEnabled(csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP) != nil {
		return fsm.Reject(fsm.Invalid, "volume_mount_group is not served here: leave it to the CO, or start the node with --volume-mount-group")
	}
	return nil
}

// checkEnabled is UNIMPLEMENTED for a disabled capability.
func (s *Server) checkEnabled(capability csi.NodeServiceCapability_RPC_Type) error {
	if slices.Contains(s.disabled, capability) {
		return rpcerr.From(fsm.Reject(fsm.Unsupported, "%s is turned off here", capability))
	}
	return nil
}

// NodeGetCapabilities is the same on every host and in every state.
func (s *Server) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	resp := &csi.NodeGetCapabilitiesResponse{}
	for _, rpc := range supportedCapabilities {
		if s.checkEnabled(rpc) != nil {
			continue
		}
		resp.Capabilities = append(resp.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: rpc}},
		})
	}
	return resp, nil
}

// NodeGetInfo is who the host is; it needs no controller.
func (s *Server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return s.info, nil
}
