// Package group serves csi.v1.GroupController on every controller: snapshots of several
// volumes, taken at one instant or not at all (S19). Like package controller it
// translates, proposes, waits and answers; fsm decides.
package group

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

const groupSnapshots = csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT

// Server serves csi.v1.GroupController.
type Server struct {
	csi.UnimplementedGroupControllerServer
	client   *cluster.Client
	disabled []csi.GroupControllerServiceCapability_RPC_Type
}

var _ csi.GroupControllerServer = (*Server)(nil)

// New serves the group controller over a cluster, without the capabilities that are
// disabled: their RPCs are UNIMPLEMENTED.
func New(c cluster.Cluster, disabled ...csi.GroupControllerServiceCapability_RPC_Type) *Server {
	return &Server{client: cluster.New(c), disabled: disabled}
}

// GroupControllerGetCapabilities is the same on every member and in every state.
func (s *Server) GroupControllerGetCapabilities(context.Context, *csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	resp := &csi.GroupControllerGetCapabilitiesResponse{}
	if s.checkEnabled() == nil {
		resp.Capabilities = append(resp.Capabilities, &csi.GroupControllerServiceCapability{
			Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{Type: groupSnapshots}},
		})
	}
	return resp, nil
}

// checkEnabled is UNIMPLEMENTED for a disabled capability.
func (s *Server) checkEnabled() error {
	if slices.Contains(s.disabled, groupSnapshots) {
		return rpcerr.From(fsm.Reject(fsm.Unsupported, "%s is turned off here", groupSnapshots))
	}
	return nil
}

// await waits for a group; see cluster.Client.Await.
func (s *Server) await(ctx context.Context, id fsm.GroupSnapshotID, what string, question cluster.Question) error {
	wake, stop := s.client.WatchGroup(id)
	defer stop()
	return s.client.Await(ctx, wake, what+" group snapshot "+string(id), question)
}

// groupProto is a group as CSI describes it: it is ready to use when all members are.
func groupProto(state *fsm.State, g *fsm.GroupSnapshot) *csi.VolumeGroupSnapshot {
	group := &csi.VolumeGroupSnapshot{GroupSnapshotId: string(g.ID), CreationTime: csiconv.Timestamp(g.TakenAt), ReadyToUse: true}
	for _, id := range g.Members {
		snap, ok := state.Snapshot(id)
		if !ok {
			group.ReadyToUse = false
			continue
		}
		member := csiconv.Snapshot(snap)
		group.Snapshots = append(group.Snapshots, member)
		group.ReadyToUse = group.ReadyToUse && member.GetReadyToUse()
	}
	return group
}

func snapshotIDs(given []string) []fsm.SnapshotID {
	ids := make([]fsm.SnapshotID, 0, len(given))
	for _, id := range given {
		ids = append(ids, fsm.SnapshotID(id))
	}
	return ids
}
