// Package group serves csi.v1.GroupController on every controller: snapshots of
// several volumes, cut at one instant or not at all (S19). Like package controller
// it translates, proposes, waits and answers; the state decides.
package group

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/fsm"
)

const groupSnapshots = csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT

// Server serves csi.v1.GroupController.
type Server struct {
	csi.UnimplementedGroupControllerServer
	log *cluster.Client
	off []csi.GroupControllerServiceCapability_RPC_Type
}

var _ csi.GroupControllerServer = (*Server)(nil)

// New serves the group controller over a cluster, without the capabilities that are
// turned off: their RPCs are UNIMPLEMENTED.
func New(c cluster.Cluster, off ...csi.GroupControllerServiceCapability_RPC_Type) *Server {
	return &Server{log: cluster.New(c), off: off}
}

// GroupControllerGetCapabilities is the same on every member and in every state.
func (s *Server) GroupControllerGetCapabilities(context.Context, *csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	resp := &csi.GroupControllerGetCapabilitiesResponse{}
	if s.serves() == nil {
		resp.Capabilities = append(resp.Capabilities, &csi.GroupControllerServiceCapability{
			Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{Type: groupSnapshots}},
		})
	}
	return resp, nil
}

// serves is UNIMPLEMENTED for what is turned off.
func (s *Server) serves() error {
	if slices.Contains(s.off, groupSnapshots) {
		return rpcerr.From(fsm.Reject(fsm.Unsupported, "%s is turned off here", groupSnapshots))
	}
	return nil
}

// await waits for a group; see cluster.Client.Await.
func (s *Server) await(ctx context.Context, id fsm.GroupSnapshotID, what string, done func(*fsm.State) (bool, error)) error {
	wake, stop := s.log.WatchGroup(id)
	defer stop()
	return s.log.Await(ctx, wake, what+" group snapshot "+string(id), done)
}

// describe is a group as CSI describes it: it is ready to use when all members are.
func describe(state *fsm.State, g *fsm.GroupSnapshot) *csi.VolumeGroupSnapshot {
	told := &csi.VolumeGroupSnapshot{GroupSnapshotId: string(g.ID), CreationTime: server.Time(g.TakenAt), ReadyToUse: true}
	for _, id := range g.Members {
		n, ok := state.Snapshot(id)
		if !ok {
			told.ReadyToUse = false
			continue
		}
		member := server.Snapshot(n)
		told.Snapshots = append(told.Snapshots, member)
		told.ReadyToUse = told.ReadyToUse && member.GetReadyToUse()
	}
	return told
}

// checkMembers refuses a list of snapshots that is not the group's.
func checkMembers(g *fsm.GroupSnapshot, given []string) error {
	if len(given) == 0 {
		return fsm.Reject(fsm.Invalid, "snapshot_ids are required")
	}
	asked, own := slices.Sorted(slices.Values(given)), make([]string, 0, len(g.Members))
	for _, id := range g.Members {
		own = append(own, string(id))
	}
	slices.Sort(own)
	if !slices.Equal(asked, own) {
		return fsm.Reject(fsm.Invalid, "snapshot_ids are not the %d snapshots of group snapshot %s", len(own), g.ID)
	}
	return nil
}
