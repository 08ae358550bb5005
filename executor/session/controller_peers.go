package session

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// peerService answers other controllers, on the Raft listener.
type peerService struct {
	sessionpb.UnimplementedPeersServer
	server *Server
	now    func() time.Time
}

// RegisterPeers serves the controllers' queries about each other's sessions. The
// listener must be the one for controllers only; the role is checked again here.
func (s *Server) RegisterPeers(r grpc.ServiceRegistrar) {
	sessionpb.RegisterPeersServer(r, &peerService{server: s, now: time.Now})
}

// Facts lists the sessions at this member, with telemetry unless it is left out, and its clock (S25, S27).
func (p *peerService) Facts(ctx context.Context, req *sessionpb.FactsRequest) (*sessionpb.FactsResponse, error) {
	if err := onlyControllers(ctx); err != nil {
		return nil, err
	}
	sessions := p.server.sessionFacts()
	if req.GetSessionsOnly() {
		for _, s := range sessions {
			s.Telemetry = nil
		}
	}
	return &sessionpb.FactsResponse{Sessions: sessions, ClockUnixNano: p.now().UnixNano()}, nil
}

// Inventory queries a host whose session is at this member.
func (p *peerService) Inventory(req *sessionpb.InventoryRequest, stream grpc.ServerStreamingServer[sessionpb.InventoryResponse]) error {
	if err := onlyControllers(stream.Context()); err != nil {
		return err
	}
	ls := p.server.liveSession(fsm.NodeID(req.GetNodeId()))
	if ls == nil {
		return stream.Send(&sessionpb.InventoryResponse{})
	}
	found, err := ls.askInventory(stream.Context(), req)
	if err != nil {
		return err
	}
	if err := stream.Send(&sessionpb.InventoryResponse{Held: true, Encryption: found.encryption, Candidates: found.candidates}); err != nil {
		return err
	}
	for part := range slices.Chunk(found.items, maxPerMessage) {
		if err := stream.Send(&sessionpb.InventoryResponse{Held: true, Items: part}); err != nil {
			return err
		}
	}
	return nil
}

func onlyControllers(ctx context.Context) error {
	peer, err := pki.Peer(ctx)
	if err != nil {
		return err
	}
	if peer.Role != pki.Controller {
		return status.Errorf(codes.PermissionDenied, "this is between controllers, and %s is none", peer.Actor())
	}
	return nil
}
