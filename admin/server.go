package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Cluster is what the API asks of the Raft member that it runs beside.
type Cluster interface {
	// Propose has a command applied; a rejection is an error of type *fsm.Rejection.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// Read is linearizable and answers the index it was read at.
	Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error)
	// View reads this member's own state, which may lag.
	View(fn func(*fsm.State) error) error
	// Fork copies this member's own state.
	Fork() *fsm.State
	// Members asks every member of the configuration, this one too, for its status
	// with the state's hash at an index. Those that do not answer are in it, with Err.
	Members(ctx context.Context, hashAt uint64) []Member
	// History yields journalled commands with an index in [from, to] (0: no bound).
	// first is the lowest index that this member knows.
	History(from, to uint64, fn func(Entry) bool) (first uint64, err error)
}

// Membership changes the configuration of the Raft members.
type Membership interface {
	// StatusAt asks whoever listens at an address who it is.
	StatusAt(ctx context.Context, addr string) (PeerStatus, error)
	// Add takes in the member that waits at an address, under this id.
	Add(ctx context.Context, memberID, addr string) error
	// Remove takes a member out. What could do harm is a *fsm.Rejection.
	Remove(ctx context.Context, memberID string) error
}

// PeerStatus is who listens at an address.
type PeerStatus struct {
	Name, MemberID, ClusterID string
	FeatureLevel              uint32
	Detail                    string // why it is not ready
}

// Hosts asks hosts, whichever member has their session.
type Hosts interface {
	// Inventory is what a host found below its pools and in its kernel. The error
	// says why the host could not be asked.
	Inventory(ctx context.Context, node fsm.NodeID) ([]Item, error)
}

// Member is what one member says of itself, or why it did not (Err).
type Member struct {
	Name, MemberID, Role string
	Address              string // of its Raft listener
	Voter                bool
	Term, Applied        uint64
	Commit               uint64
	Hash                 []byte
	HashIndex            uint64
	Version, LogStore    string
	Level                uint32 // the highest feature level that it understands
	Err                  error
}

// Entry is one applied command. One without a command marks a gap.
type Entry struct {
	Index, Term uint64
	Command     *fsmpb.Command
	Outcome     *fsmpb.Outcome
	// GapTo ends a gap that begins at Index, and Why says how it came about.
	GapTo     uint64
	GapReason string
}

// Item is one thing found on a host; kinds are "image", "unfinished", "loop",
// "mount", "snapshot" and "resource".
type Item struct {
	Kind     string
	ID       fsm.VolumeID
	Snapshot fsm.SnapshotID // instead of ID for a snapshot, finished or not
	Path     string
}

// PoolState is what a host measured of one of its pools.
type PoolState struct {
	Free, Capacity int64 // bytes
	Absent         bool  // not mounted, or without its id (S12)
	Copies         bool  // a snapshot or a clone is a whole copy
	Detail         string
}

// Options is what a server is made of.
type Options struct {
	Cluster    Cluster
	Membership Membership
	Hosts      Hosts
	// Pools is what was measured of each pool, as far as hosts can be asked; nil: nothing.
	Pools func(context.Context) map[fsm.PoolID]PoolState
	// AttachFacts gives a command what was measured of pools, as the leader does when it is
	// proposed. Another member has measured nothing, and its plans go by the state alone, as
	// with nil: the leader may then refuse a step of theirs.
	AttachFacts func(*fsmpb.Command)
	// Name is this controller's.
	Name string
	// Actor is the verified identity of a call's peer, as commands carry it.
	Actor func(context.Context) (string, error)
	// Error turns an error of the cluster into a gRPC status error.
	Error func(error) error
	// AuditPause is how long an audit waits before it looks again; 0 means 250 ms.
	AuditPause time.Duration
	// Logger gets what operators should hear of; nil means nobody does.
	Logger *slog.Logger
}

// Server serves the operators' API.
type Server struct {
	adminpb.UnimplementedAdminServer
	Options
	plans, adminPlans chan struct{} // one is in it for each plan that is being made
}

// NewServer makes a server.
func NewServer(o Options) *Server {
	if o.AuditPause == 0 {
		o.AuditPause = 250 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{Options: o, plans: make(chan struct{}, maxPlans), adminPlans: make(chan struct{}, maxPlans)}
}

// Service is the prefix of the full names of the API's methods.
const Service = "/" + "holdfast.admin.v1.Admin" + "/"

// ReadMethods are the full names of the methods that change nothing.
func ReadMethods() []string {
	return []string{
		adminpb.Admin_Status_FullMethodName, adminpb.Admin_Volumes_FullMethodName,
		adminpb.Admin_Nodes_FullMethodName, adminpb.Admin_Operations_FullMethodName,
		adminpb.Admin_History_FullMethodName, adminpb.Admin_Audit_FullMethodName,
		adminpb.Admin_State_FullMethodName,
		adminpb.Admin_Snapshots_FullMethodName, adminpb.Admin_GroupSnapshots_FullMethodName,
		adminpb.Admin_Plan_FullMethodName, adminpb.Admin_UpgradeStatus_FullMethodName,
		adminpb.Admin_Members_FullMethodName, adminpb.Admin_PlanMember_FullMethodName,
	}
}

// read is a linearizable read.
func (s *Server) read(ctx context.Context, fn func(*fsm.State) error) error {
	_, err := s.Cluster.Read(ctx, fn)
	return s.Error(err)
}

// fork is a copy that holds all that was acknowledged before the call, unless stale
// is accepted: then it is this member's own, and needs no quorum. What is made of
// it takes as long as it takes: no lock is held.
func (s *Server) fork(ctx context.Context, stale bool) (*fsm.State, error) {
	if !stale {
		if err := s.read(ctx, func(*fsm.State) error { return nil }); err != nil {
			return nil, err
		}
	}
	return s.Cluster.Fork(), nil
}
