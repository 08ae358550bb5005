// Package fence serves FenceController of CSI-Addons: whole on controllers, and for the question who a
// host is on nodes. It translates, proposes, waits and answers; fsm decides (S57 to S60).
package fence

import (
	"context"
	"slices"
	"time"

	spec "github.com/csi-addons/spec/lib/go/fence"

	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The capabilities, by their names.
const (
	NetworkFence = "NETWORK_FENCE"
	GetClients   = "GET_CLIENTS_TO_FENCE"
)

// pollInterval is how often a waiting call reads the state: a fence is about many volumes, whose changes
// nobody announces to it.
const pollInterval = 100 * time.Millisecond

// Server serves fence.FenceController on controllers.
type Server struct {
	spec.UnimplementedFenceControllerServer
	client   *cluster.Client
	disabled []string
}

var _ spec.FenceControllerServer = (*Server)(nil)

// New serves over a cluster, without the capabilities that are disabled.
func New(c cluster.Cluster, disabled ...string) *Server {
	client := cluster.New(c)
	client.PollInterval = pollInterval
	return &Server{client: client, disabled: disabled}
}

// FenceClusterNetwork returns once nothing that the fenced hosts held can be written by them beside
// somebody else (S57). Until then it is ABORTED near the deadline; the fence stands, and the retry joins.
func (s *Server) FenceClusterNetwork(ctx context.Context, req *spec.FenceClusterNetworkRequest) (*spec.FenceClusterNetworkResponse, error) {
	cmd, err := s.fenceCommand(req)
	if err == nil {
		_, err = s.client.ProposeCommand(ctx, &fsmpb.Command{Body: &fsmpb.Command_FenceNetwork{FenceNetwork: cmd}})
	}
	if err == nil {
		err = s.awaitFence(ctx, cmd.GetCidrs())
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &spec.FenceClusterNetworkResponse{}, nil
}

func (s *Server) fenceCommand(req *spec.FenceClusterNetworkRequest) (*fsmpb.FenceNetwork, error) {
	cidrs, err := s.check(NetworkFence, req.GetParameters(), req.GetCidrs())
	if err != nil {
		return nil, err
	}
	expected, err := expectedHosts(req.GetParameters())
	return &fsmpb.FenceNetwork{Cidrs: cidrs, ExpectHosts: expected}, err
}

func (s *Server) awaitFence(ctx context.Context, cidrs []string) error {
	owner, waitsFor := fsm.FenceOwnerOf("", s.client.Site()), ""
	err := s.client.Await(ctx, nil, "fence", func(state *fsm.State) (done bool, rej *fsm.Rejection) {
		done, waitsFor, rej = state.FenceHolds(cidrs, owner)
		return done, rej
	})
	if err != nil && waitsFor != "" {
		return fsm.Reject(fsm.Busy, "the fence stands, and is not in force everywhere yet: %s; the retry joins", waitsFor)
	}
	return err
}

// UnfenceClusterNetwork ends what this site fenced, by exactly the same CIDRs (S59).
func (s *Server) UnfenceClusterNetwork(ctx context.Context, req *spec.UnfenceClusterNetworkRequest) (*spec.UnfenceClusterNetworkResponse, error) {
	cidrs, err := s.check(NetworkFence, req.GetParameters(), req.GetCidrs())
	if err == nil { // fsm refuses to end a fence that this member does not know of yet
		err = s.client.ReadState(ctx, func(*fsm.State) error { return nil })
	}
	if err == nil {
		_, err = s.client.ProposeCommand(ctx, &fsmpb.Command{Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: cidrs}}})
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &spec.UnfenceClusterNetworkResponse{}, nil
}

// ListClusterFence lists the fences of every owner, each CIDR once.
func (s *Server) ListClusterFence(ctx context.Context, req *spec.ListClusterFenceRequest) (*spec.ListClusterFenceResponse, error) {
	resp := &spec.ListClusterFenceResponse{}
	err := s.checkCall(NetworkFence, req.GetParameters())
	if err == nil {
		err = s.client.ReadState(ctx, func(state *fsm.State) error {
			for f := range state.Fences() {
				if n := len(resp.Cidrs); n == 0 || resp.Cidrs[n-1].GetCidr() != f.CIDR {
					resp.Cidrs = append(resp.Cidrs, &spec.CIDR{Cidr: f.CIDR})
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return resp, nil
}

// checkCall checks what all calls have in common.
func (s *Server) checkCall(capability string, parameters map[string]string) error {
	if slices.Contains(s.disabled, capability) {
		return fsm.Reject(fsm.Unsupported, "%s is turned off here", capability)
	}
	return params.Check(s.client.Site(), parameters, expectHosts, clusterID)
}

// check checks a call about CIDRs, and returns these as a fence has them.
func (s *Server) check(capability string, parameters map[string]string, given []*spec.CIDR) ([]string, error) {
	if err := s.checkCall(capability, parameters); err != nil {
		return nil, err
	}
	texts := make([]string, 0, len(given))
	for _, c := range given {
		texts = append(texts, c.GetCidr())
	}
	cidrs, rej := fsm.NormalizeCIDRs(texts)
	if rej != nil {
		return nil, rej
	}
	return cidrs, nil
}
