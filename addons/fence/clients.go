package fence

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	spec "github.com/csi-addons/spec/lib/go/fence"

	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// expectHosts is the parameter that names the only hosts that a fence may bind, by their ids as
// GetFenceClients has them, separated by commas (S60).
const expectHosts = "expectHosts"

// clusterID is a parameter that the published csi-addons tool sends with each fence: there it is required. It says
// nothing here, where the socket is the cluster's.
const clusterID = "clusterID"

func expectedHosts(parameters map[string]string) ([]*fsmpb.FencedHost, error) {
	text, given := parameters[expectHosts]
	if !given {
		return nil, nil
	}
	var all []*fsmpb.FencedHost
	for id := range strings.SplitSeq(text, ",") {
		node, host, ok := strings.Cut(strings.TrimSpace(id), "/")
		if !ok || node == "" || host == "" {
			return nil, fsm.Reject(fsm.Invalid, "the parameter %s has %q, which is no NODE/HOST-ID", expectHosts, csiconv.Message(id))
		}
		all = append(all, &fsmpb.FencedHost{NodeId: node, HostId: host})
	}
	return all, nil
}

// GetFenceClients are the hosts of this controller's site, by the addresses that a fence finds them by.
func (s *Server) GetFenceClients(ctx context.Context, req *spec.GetFenceClientsRequest) (*spec.GetFenceClientsResponse, error) {
	resp := &spec.GetFenceClientsResponse{}
	err := s.checkCall(GetClients, req.GetParameters())
	if err == nil {
		err = s.client.ReadState(ctx, func(state *fsm.State) error {
			for n := range state.Nodes() {
				if n.State != fsm.NodeLost && n.IsAt(s.client.Site()) {
					resp.Clients = appendClient(resp.Clients, n.ID, n.Host, n.HostAddresses())
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

// appendClient adds a host, unless it has no address: no fence would find it.
func appendClient(all []*spec.ClientDetails, node fsm.NodeID, host fsm.HostID, addresses []netip.Addr) []*spec.ClientDetails {
	if len(addresses) == 0 {
		return all
	}
	client := &spec.ClientDetails{Id: string(node) + "/" + string(host)}
	for _, a := range addresses {
		client.Addresses = append(client.Addresses, &spec.CIDR{Cidr: netip.PrefixFrom(a, a.BitLen()).String()})
	}
	return append(all, client)
}

// Host is what a node says of itself.
type Host struct {
	Node      fsm.NodeID
	Host      fsm.HostID
	Site      string
	Addresses func() []netip.Addr
}

// NodeServer serves fence.FenceController on a node: who it is, and nothing else.
type NodeServer struct {
	spec.UnimplementedFenceControllerServer
	host     Host
	disabled []string
}

var _ spec.FenceControllerServer = (*NodeServer)(nil)

// NewNode serves a node, without the capabilities that are disabled.
func NewNode(host Host, disabled ...string) *NodeServer {
	return &NodeServer{host: host, disabled: disabled}
}

// GetFenceClients is the host itself.
func (s *NodeServer) GetFenceClients(_ context.Context, req *spec.GetFenceClientsRequest) (*spec.GetFenceClientsResponse, error) {
	if slices.Contains(s.disabled, GetClients) {
		return nil, rpcerr.From(fsm.Reject(fsm.Unsupported, "%s is turned off here", GetClients))
	}
	if err := params.Check(s.host.Site, req.GetParameters(), expectHosts, clusterID); err != nil {
		return nil, rpcerr.From(err)
	}
	addresses := slices.Clone(s.host.Addresses())
	slices.SortFunc(addresses, netip.Addr.Compare)
	return &spec.GetFenceClientsResponse{Clients: appendClient(nil, s.host.Node, s.host.Host, slices.Compact(addresses))}, nil
}
